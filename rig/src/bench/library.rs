//! The overhead of the library over a handler in this process, and the throughput of many threads.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::runtime;
use toolcrib::{ProvidedTool, Registry, Toolcrib};

use super::Orders;
use super::report::{Bound, Report};

const ROUNDS: usize = 41;
const CALLS: usize = 2_000;
/// Maximum time added to a handler, in µs.
const ADDED: f64 = 2.0;
const THREADS: usize = 64;
/// Number of tools that each thread registers; every further registration must be refused.
const TOOLS: usize = 2;
const CALLS_PER_SEARCH: usize = 8;
/// Number of measurements on one core and on two.
const RACES: usize = 5;
/// Minimum throughput of two cores, relative to one.
const SCALES: f64 = 1.5;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    one: i64,
    two: i64,
}

async fn add(sum: Sum) -> String {
    (sum.one + sum.two).to_string()
}

fn arguments() -> Map<String, Value> {
    Map::from_iter([("one".to_owned(), json!(2)), ("two".to_owned(), json!(3))])
}

pub(super) async fn run(report: &mut Report, orders: &Orders) -> anyhow::Result<()> {
    let rounds = if orders.quick { 5 } else { ROUNDS };
    let (handler, registry, view) = tokio::spawn(overhead(rounds)).await??;
    let what =
        |by: &str| format!("a call {by}: added to the handler ({handler:.2} µs), against 2 µs");
    report.add(what("of a registry"), registry - handler, ADDED, "µs", Bound::AtMost(1.0));
    report.add(what("through a new view"), view - handler, ADDED, "µs", Bound::AtMost(1.0));
    let (rounds, time) = if orders.quick { (1, 300) } else { (RACES, 1_000) };
    scaling(report, rounds, Duration::from_millis(time)).await
}

/// The gain of a second core if all threads share a crib, and if each has its own. Separate cribs share nothing, so
/// their gain is what the machine can give.
async fn scaling(report: &mut Report, rounds: usize, time: Duration) -> anyhow::Result<()> {
    let cores = cores()?;
    let what = "64 threads register, search and call in one crib: gain by a second core";
    let (Some(one), Some(two)) = (cores.get(..1), cores.get(..2)) else {
        report.add(format!("{what}; there is only one"), 1.0, 1.0, "times", Bound::None);
        return Ok(());
    };
    let (mut shared, mut apart) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (gains, cribs) in [(&mut shared, 1), (&mut apart, THREADS)] {
            let on_one = throughput(one, cribs, time).await?;
            gains.push(throughput(two, cribs, time).await? / on_one);
        }
    }
    let (shared, apart) = (median(shared), median(apart));
    report.add(what, shared, 1.0, "times", Bound::AtLeast(SCALES));
    let what = "the same, against 64 threads with a crib each";
    report.add(what, shared, apart, "times", Bound::None);
    Ok(())
}

/// Time of a call in µs: of the handler, of the registry, and through a view. They take turns.
async fn overhead(rounds: usize) -> anyhow::Result<(f64, f64, f64)> {
    let registry = Registry::new();
    registry.register_tool(ProvidedTool::new("add", "Adds two numbers"), add, &["math"])?;
    let crib = Toolcrib::of(registry.clone()).await?;
    ensure!(crib.anyone().call("add", arguments()).await?.error.is_none());
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let [handler, of_registry, through_view] = &mut all;
        let given: Vec<Sum> = (0..CALLS).map(|_| Sum { one: 2, two: 3 }).collect();
        let start = Instant::now();
        for sum in given {
            black_box(add(sum).await);
        }
        handler.push(each(start));
        // The caller creates the arguments: this is not part of the measurement.
        let given: Vec<_> = (0..CALLS).map(|_| arguments()).collect();
        let start = Instant::now();
        for arguments in given {
            black_box(registry.call("add", arguments).await);
        }
        of_registry.push(each(start));
        let given: Vec<_> = (0..CALLS).map(|_| arguments()).collect();
        let start = Instant::now();
        for arguments in given {
            black_box(crib.anyone().call("add", arguments).await?);
        }
        through_view.push(each(start));
    }
    let [handler, registry, view] = all.map(median);
    Ok((handler, registry, view))
}

fn each(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6 / CALLS as f64
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// The numbers of the cores that this process may use.
fn cores() -> anyhow::Result<Vec<usize>> {
    let all = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect())
}

/// Steps per second of all threads on these cores, spread over this number of cribs. A step registers a tool or is
/// refused, searches, and makes several calls.
async fn throughput(cores: &[usize], cribs: usize, time: Duration) -> anyhow::Result<f64> {
    let mut all = Vec::with_capacity(cribs);
    for _ in 0..cribs {
        all.push(Toolcrib::of(Registry::new()).await?);
    }
    let mut allowed = CpuSet::new();
    cores.iter().for_each(|core| allowed.set(*core));
    let is_over = AtomicBool::new(false);
    let (all, allowed, is_over) = (&all, &allowed, &is_over);
    // The threads are not tasks, and this task has nothing else to do: it may block.
    let (start, steps) = std::thread::scope(|scope| {
        let begin =
            |number| scope.spawn(move || works(&all[number % cribs], number, allowed, is_over));
        let threads: Vec<_> = (0..THREADS).map(begin).collect();
        let start = Instant::now();
        std::thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        let done = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        (start, done.sum::<anyhow::Result<usize>>())
    });
    Ok(steps? as f64 / start.elapsed().as_secs_f64())
}

fn works(
    crib: &Toolcrib,
    number: usize,
    cores: &CpuSet,
    is_over: &AtomicBool,
) -> anyhow::Result<usize> {
    sched_setaffinity(None, cores)?;
    let runtime = runtime::Builder::new_current_thread().build()?;
    let mut steps = 0;
    while !is_over.load(Ordering::Relaxed) {
        let name = format!("add_{number}_{}", steps % TOOLS);
        let tool = ProvidedTool::new(name.as_str(), "Adds two numbers");
        let registered = crib.registry().register_tool(tool, add, &["math"]);
        ensure!(registered.is_ok() == (steps < TOOLS), "{registered:?}");
        let found = runtime.block_on(crib.anyone().search("math", 10));
        ensure!(!found.is_empty(), "nothing was found");
        for _ in 0..CALLS_PER_SEARCH {
            let outcome = runtime.block_on(crib.anyone().call(&name, arguments()))?;
            ensure!(outcome.error.is_none(), "{outcome:?}");
        }
        steps += 1;
    }
    Ok(steps)
}
