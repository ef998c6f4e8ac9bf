//! Upstreams: the cost of a call to an MCP server and back, and the effect of one hostile source on the others.

mod cost;
mod pipes;

use std::time::Duration;

use super::Orders;
use super::report::{Bound, Report};
use crate::upstreams::hostile;

/// Runs of each hostile behavior. The median counts, because machines have better and worse seconds.
const LOOKS: usize = 5;
/// The median of a few runs is sometimes 10 % off. If it exceeds the limit, this many runs decide.
const LOOKS_IN_DOUBT: usize = 15;
/// Calls of the other nine sources may take longer by this factor.
const MOST: f64 = 1.1;

pub(super) async fn run(report: &mut Report, orders: &Orders) -> anyhow::Result<()> {
    let wanted = |name| orders.part.as_deref().is_none_or(|part| part == name);
    if wanted("cost") {
        cost::run(report, orders.quick).await?;
    }
    if wanted("hostile") {
        harm(report, orders.quick).await?;
    }
    Ok(())
}

async fn harm(report: &mut Report, is_quick: bool) -> anyhow::Result<()> {
    let time = Duration::from_millis(if is_quick { 500 } else { 8_000 });
    for (over, manner) in hostile::all().filter(|(_, manner)| manner.is_measured()) {
        let name = hostile::name(over, manner);
        let mut seen = Seen::default();
        let counts = if is_quick { [1, 1] } else { [LOOKS, LOOKS_IN_DOUBT] };
        for count in counts {
            while seen.looks.len() < count {
                seen.add(hostile::look(over, manner, time).await?);
            }
            let (p99, before) = seen.in_the_middle();
            if p99 <= MOST * before {
                break;
            }
        }
        let (looks, (p99, before)) = (seen.looks.len(), seen.in_the_middle());
        let Seen { calls, errors, memory, .. } = seen;
        eprintln!("  {name}: {errors} errors in {calls} calls of the nine");
        let what = format!("{name}: p99 of the other nine, in the middle of {looks} looks");
        report.add(what, p99, before, "µs", Bound::AtMost(MOST));
        let what = format!("{name}: more memory, against 64 MiB");
        report.add(what, memory, 64.0, "MiB", Bound::AtMost(1.0));
        anyhow::ensure!(errors == 0, "{name}: the other nine had errors");
    }
    Ok(())
}

/// Measurements of one hostile behavior.
#[derive(Default)]
struct Seen {
    /// The p99 during and before the attack, smallest ratio first.
    looks: Vec<(f64, f64)>,
    calls: usize,
    errors: usize,
    /// The maximum of all runs, in MiB.
    memory: f64,
}

impl Seen {
    fn add(&mut self, look: hostile::Look) {
        self.calls += look.noticed.len();
        self.errors += look.errors;
        self.memory = self.memory.max(look.memory);
        self.looks.push((hostile::p99(look.noticed), hostile::p99(look.calm)));
        let ratio = |(p99, before): &(f64, f64)| p99 / before;
        self.looks.sort_by(|one, other| f64::total_cmp(&ratio(one), &ratio(other)));
    }

    fn in_the_middle(&self) -> (f64, f64) {
        self.looks.get(self.looks.len() / 2).copied().unwrap_or_default()
    }
}
