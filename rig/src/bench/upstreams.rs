//! Upstreams: the cost of a call to an MCP server and back, and the effect of one hostile source on the others.

mod cost;
mod pipes;

use std::time::Duration;

use super::BenchArgs;
use super::report::{BenchReport, RatioBound};
use crate::upstreams::hostile;

/// Runs of each hostile behavior. The median counts, because machines have better and worse seconds.
const RUNS: usize = 5;
/// The median of a few runs is sometimes 10 % off. If it exceeds the limit, this many runs decide.
const RUNS_IN_DOUBT: usize = 15;
/// Calls of the other nine sources may take longer by this factor.
const MAX_SLOWDOWN: f64 = 1.1;

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let wanted = |name| orders.part.as_deref().is_none_or(|part| part == name);
    if wanted("cost") {
        cost::run(report, orders.quick).await?;
    }
    if wanted("hostile") {
        measure_hostile(report, orders.quick).await?;
    }
    Ok(())
}

async fn measure_hostile(report: &mut BenchReport, is_quick: bool) -> anyhow::Result<()> {
    let time = Duration::from_millis(if is_quick { 500 } else { 8_000 });
    for (over, manner) in hostile::all_cases().filter(|(_, manner)| manner.is_measured()) {
        let name = hostile::case_name(over, manner);
        let mut seen = HostileMeasurements::default();
        let counts = if is_quick { [1, 1] } else { [RUNS, RUNS_IN_DOUBT] };
        for count in counts {
            while seen.p99_pairs.len() < count {
                seen.add_run(hostile::run_case(over, manner, time).await?);
            }
            let (p99, before) = seen.median_run();
            if p99 <= MAX_SLOWDOWN * before {
                break;
            }
        }
        let (looks, (p99, before)) = (seen.p99_pairs.len(), seen.median_run());
        let HostileMeasurements { calls, errors, memory, .. } = seen;
        eprintln!("  {name}: {errors} errors in {calls} calls of the nine");
        let what = format!("{name}: p99 of the other nine, in the middle of {looks} looks");
        report.add(what, p99, before, "µs", RatioBound::AtMost(MAX_SLOWDOWN));
        let what = format!("{name}: more memory, against 64 MiB");
        report.add(what, memory, 64.0, "MiB", RatioBound::AtMost(1.0));
        anyhow::ensure!(errors == 0, "{name}: the other nine had errors");
    }
    Ok(())
}

/// Measurements of one hostile behavior.
#[derive(Default)]
struct HostileMeasurements {
    /// The p99 during and before the attack, smallest ratio first.
    p99_pairs: Vec<(f64, f64)>,
    calls: usize,
    errors: usize,
    /// The maximum of all runs, in MiB.
    memory: f64,
}

impl HostileMeasurements {
    fn add_run(&mut self, look: hostile::HostileRun) {
        self.calls += look.times_during.len();
        self.errors += look.errors;
        self.memory = self.memory.max(look.memory);
        self.p99_pairs.push((hostile::p99(look.times_during), hostile::p99(look.times_before)));
        let ratio = |(p99, before): &(f64, f64)| p99 / before;
        self.p99_pairs.sort_by(|one, other| f64::total_cmp(&ratio(one), &ratio(other)));
    }

    fn median_run(&self) -> (f64, f64) {
        self.p99_pairs.get(self.p99_pairs.len() / 2).copied().unwrap_or_default()
    }
}
