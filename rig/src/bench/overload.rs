//! Overload: three times the maximum load of a server. Measures its goodput, how soon rejected callers get their
//! answer, and how soon the server recovers.
//!
//! The server has one core to itself, so that the callers take no CPU time from it.

mod paced_load;

use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use self::paced_load::{CallSample, LoadOutcome, OverloadRound};
use super::BenchArgs;
use super::endpoints::server_process::ServerProcess;
use super::endpoints::wire;
use super::report::{BenchReport, RatioBound};

/// Response of the upstream.
const ORDER_RESPONSE: &str = r#"{"id":4711,"state":"accepted"}"#;
/// Offered load, as a multiple of the maximum.
const OVERLOAD_FACTOR: f64 = 3.0;
/// Moderate load before and after the overload, as a share of the maximum.
const MODERATE_LOAD: f64 = 0.5;
/// Maximum time until a rejected caller gets its answer.
const MAX_REJECTION_TIME: Duration = Duration::from_millis(50);
/// Length of the windows in which recovery is checked.
const WINDOW: Duration = Duration::from_millis(500);
/// Number of agents, each with its own key.
pub(super) const AGENTS: usize = 8;

/// The resource that the load exhausts.
struct OverloadCase {
    /// Name for `--part`.
    part: &'static str,
    what: &'static str,
    tool: &'static str,
    arguments: Value,
    upstream_takes: Duration,
}

fn cases() -> [OverloadCase; 3] {
    let order = || json!({"shop": "north", "item": "A-1047", "count": 3});
    [
        OverloadCase {
            part: "processor",
            what: "as much as the processor can do",
            tool: "create_order",
            arguments: order(),
            upstream_takes: Duration::ZERO,
        },
        OverloadCase {
            part: "costly",
            what: "as many calls of 1 ms as the processor can do",
            tool: "echo",
            arguments: json!({"text": "a", "busy": 1_000}),
            upstream_takes: Duration::ZERO,
        },
        OverloadCase {
            part: "source",
            what: "as much as the source may be asked",
            tool: "create_order",
            arguments: order(),
            upstream_takes: Duration::from_millis(50),
        },
    ]
}

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let time = Duration::from_secs(if orders.quick { 1 } else { 10 });
    for case in cases() {
        if orders.part.as_deref().is_none_or(|part| part == case.part) {
            report_rounds(report, case.what, &run_case(&case, time)?, time);
        }
    }
    Ok(())
}

fn run_case(case: &OverloadCase, time: Duration) -> anyhow::Result<Vec<OverloadRound>> {
    let folder = tempfile::tempdir()?;
    let order = folder.path().join("order");
    std::fs::write(&order, ORDER_RESPONSE)?;
    let (all, first, others) = split_cores()?;
    sched_setaffinity(None, &others)?;
    let (order, takes) = (order.display().to_string(), case.upstream_takes.as_millis().to_string());
    let upstream = ServerProcess::start(&["bare", &order, "--takes", &takes])?;
    sched_setaffinity(None, &first)?;
    let ours = ServerProcess::start(&["toolcrib", "--upstream", &upstream.address.to_string()])?;
    sched_setaffinity(None, &others)?;
    let request = |number| {
        let key = ours.key(&format!("forwarded-{number}"));
        wire::call_request(key, case.tool, case.arguments.clone())
    };
    let requests = (0..AGENTS).map(request).collect();
    let rounds = paced_load::PacedLoad { address: ours.address, requests }.run(time);
    sched_setaffinity(None, &all)?;
    rounds
}

/// The worst of all rounds counts. For the maximum throughput the median counts, because it varies.
fn report_rounds(report: &mut BenchReport, what: &str, rounds: &[OverloadRound], time: Duration) {
    for round in rounds {
        eprintln!("  {what}: {:.0} calls/s; {}", round.max_throughput, summary_of(&round.overload));
    }
    let sorted = |figure: &dyn Fn(&OverloadRound) -> f64| -> Vec<f64> {
        let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
        figures.sort_unstable_by(f64::total_cmp);
        figures
    };
    let middle = |figure: &dyn Fn(&OverloadRound) -> f64| sorted(figure)[rounds.len() / 2];
    let most = |figure: &dyn Fn(&OverloadRound) -> f64| sorted(figure)[rounds.len() - 1];

    let most_done = middle(&|round| round.max_throughput);
    let asked =
        middle(&|round| round.overload.len() as f64 / time.as_secs_f64() / round.max_throughput);
    let name = format!("{what}: asked for, against three times as much");
    report.add(name, asked * most_done, most_done * OVERLOAD_FACTOR, "calls/s", RatioBound::None);
    let done = middle(&|round| {
        paced_load::completed_per_second(&round.overload, time) / round.max_throughput
    });
    let name = format!("{what}: done of three times as much");
    report.add(name, done * most_done, most_done, "calls/s", RatioBound::AtLeast(0.9));
    let refused = rounds
        .iter()
        .map(|round| count_outcome(&round.overload, LoadOutcome::Refused))
        .sum::<usize>();
    let name = format!("{what}: 99 of 100 that are refused ({refused}) know it, against 50 ms");
    // Without a rejection there is nothing to check.
    let must = if refused == 0 { RatioBound::None } else { RatioBound::AtMost(1.0) };
    let knows = most(&|round| percentile_ms(&round.overload, LoadOutcome::Refused, 0.99));
    report.add(name, knows, MAX_REJECTION_TIME.as_secs_f64() * 1e3, "ms", must);
    let name = format!("{what}: as before again, against 5 s");
    let again = most(&|round| recovery_time(&round.before, &round.after).as_secs_f64());
    report.add(name, again, 5.0, "s", RatioBound::AtMost(1.0));
}

/// All cores that this process may use, the first one, and the others.
fn split_cores() -> anyhow::Result<(CpuSet, CpuSet, CpuSet)> {
    let all = sched_getaffinity(None)?;
    let mut numbers = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
    let first = numbers.next().unwrap_or_default();
    let (mut one, mut others) = (CpuSet::new(), all);
    one.set(first);
    others.unset(first);
    anyhow::ensure!(others.count() != 0, "this takes two cores: one is the server's own");
    Ok((all, one, others))
}

/// A percentile of the response times with this outcome, in ms.
fn percentile_ms(answered: &[CallSample], came: LoadOutcome, share: f64) -> f64 {
    let of_it = answered.iter().filter(|answered| answered.outcome == came);
    let mut took: Vec<Duration> = of_it.map(|answered| answered.took).collect();
    took.sort_unstable();
    let place = (took.len().saturating_sub(1) as f64 * share) as usize;
    took.get(place).map_or(0.0, |took| took.as_secs_f64() * 1e3)
}

fn count_outcome(answered: &[CallSample], came: LoadOutcome) -> usize {
    answered.iter().filter(|answered| answered.outcome == came).count()
}

fn summary_of(answered: &[CallSample]) -> String {
    let [done, refused, failed] = [LoadOutcome::Done, LoadOutcome::Refused, LoadOutcome::Failed]
        .map(|came| count_outcome(answered, came));
    let took = |came| {
        format!(
            "p99 {:.1} ms, at most {:.1} ms",
            percentile_ms(answered, came, 0.99),
            percentile_ms(answered, came, 1.0)
        )
    };
    format!(
        "of three times as many {done} done ({}), {refused} refused ({}{}), {failed} failed",
        took(LoadOutcome::Done),
        took(LoadOutcome::Refused),
        late_rejections(answered)
    )
}

/// The number of late rejections, and when they occurred.
fn late_rejections(answered: &[CallSample]) -> String {
    let is_late =
        |of: &&CallSample| of.outcome == LoadOutcome::Refused && MAX_REJECTION_TIME < of.took;
    let late: Vec<&CallSample> = answered.iter().filter(is_late).collect();
    match (late.first(), late.last()) {
        (Some(first), Some(last)) => {
            let (first, last) = (first.due.as_secs_f64(), last.due.as_secs_f64());
            format!(", {} late ones from {first:.2} s to {last:.2} s", late.len())
        }
        _ => String::new(),
    }
}

/// Start of the first of two windows without rejections in which answers were about as fast as before.
fn recovery_time(before: &[CallSample], after: &[CallSample]) -> Duration {
    let usual = percentile_ms(before, LoadOutcome::Done, 0.99);
    let is_good = |number: u32| {
        let (start, end) = (WINDOW * number, WINDOW * (number + 1));
        let within = |answered: &&CallSample| (start..end).contains(&answered.due);
        let seen: Vec<CallSample> = after.iter().filter(within).copied().collect();
        !seen.is_empty()
            && seen.iter().all(|answered| answered.outcome == LoadOutcome::Done)
            && percentile_ms(&seen, LoadOutcome::Done, 0.99) <= 2.0 * usual + 1.0
    };
    let windows = after.last().map_or(0, |last| last.due.as_millis() / WINDOW.as_millis());
    let again = (0..windows as u32).find(|number| is_good(*number) && is_good(number + 1));
    again.map_or(Duration::MAX, |number| WINDOW * number)
}
