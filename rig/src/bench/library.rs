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

use super::BenchArgs;
use super::report::{BenchReport, RatioBound};

const ROUNDS: usize = 41;
const CALLS: usize = 2_000;
/// Maximum time added to a handler, in µs.
const MAX_ADDED_US: f64 = 2.0;
const THREADS: usize = 64;
/// Number of tools that each thread registers; every further registration must be refused.
const TOOLS_PER_THREAD: usize = 2;
const CALLS_PER_SEARCH: usize = 8;
/// Number of measurements on one core and on two.
const SCALING_ROUNDS: usize = 5;
/// Minimum throughput of two cores, relative to one.
const MIN_SCALING: f64 = 1.5;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    one: i64,
    two: i64,
}

async fn add_numbers(sum: Sum) -> String {
    (sum.one + sum.two).to_string()
}

fn sum_arguments() -> Map<String, Value> {
    Map::from_iter([("one".to_owned(), json!(2)), ("two".to_owned(), json!(3))])
}

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let rounds = if orders.quick { 5 } else { ROUNDS };
    let (handler, registry, view) = tokio::spawn(measure_overhead(rounds)).await??;
    let what =
        |by: &str| format!("a call {by}: added to the handler ({handler:.2} µs), against 2 µs");
    report.add(
        what("of a registry"),
        registry - handler,
        MAX_ADDED_US,
        "µs",
        RatioBound::AtMost(1.0),
    );
    report.add(
        what("through a new view"),
        view - handler,
        MAX_ADDED_US,
        "µs",
        RatioBound::AtMost(1.0),
    );
    let (rounds, time) = if orders.quick { (1, 300) } else { (SCALING_ROUNDS, 1_000) };
    measure_scaling(report, rounds, Duration::from_millis(time)).await
}

/// The gain of a second core if all threads share a crib, and if each has its own. Separate cribs share nothing, so
/// their gain is what the machine can give.
async fn measure_scaling(
    report: &mut BenchReport,
    rounds: usize,
    time: Duration,
) -> anyhow::Result<()> {
    let cores = allowed_cores()?;
    let what = "64 threads register, search and call in one crib: gain by a second core";
    let (Some(one), Some(two)) = (cores.get(..1), cores.get(..2)) else {
        report.add(format!("{what}; there is only one"), 1.0, 1.0, "times", RatioBound::None);
        return Ok(());
    };
    let (mut shared, mut apart) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (gains, cribs) in [(&mut shared, 1), (&mut apart, THREADS)] {
            let on_one = measure_throughput(one, cribs, time).await?;
            gains.push(measure_throughput(two, cribs, time).await? / on_one);
        }
    }
    let (shared, apart) = (median_of(shared), median_of(apart));
    report.add(what, shared, 1.0, "times", RatioBound::AtLeast(MIN_SCALING));
    let what = "the same, against 64 threads with a crib each";
    report.add(what, shared, apart, "times", RatioBound::None);
    Ok(())
}

/// Time of a call in µs: of the handler, of the registry, and through a view. They take turns.
async fn measure_overhead(rounds: usize) -> anyhow::Result<(f64, f64, f64)> {
    let registry = Registry::new();
    registry.register_tool(ProvidedTool::new("add", "Adds two numbers"), add_numbers, &["math"])?;
    let crib = Toolcrib::from_registry(registry.clone()).await?;
    ensure!(crib.anonymous_view().call("add", sum_arguments()).await?.error.is_none());
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let [handler, of_registry, through_view] = &mut all;
        let given: Vec<Sum> = (0..CALLS).map(|_| Sum { one: 2, two: 3 }).collect();
        let start = Instant::now();
        for sum in given {
            black_box(add_numbers(sum).await);
        }
        handler.push(mean_microseconds(start));
        // The caller creates the arguments: this is not part of the measurement.
        let given: Vec<_> = (0..CALLS).map(|_| sum_arguments()).collect();
        let start = Instant::now();
        for arguments in given {
            black_box(registry.call("add", arguments).await);
        }
        of_registry.push(mean_microseconds(start));
        let given: Vec<_> = (0..CALLS).map(|_| sum_arguments()).collect();
        let start = Instant::now();
        for arguments in given {
            black_box(crib.anonymous_view().call("add", arguments).await?);
        }
        through_view.push(mean_microseconds(start));
    }
    let [handler, registry, view] = all.map(median_of);
    Ok((handler, registry, view))
}

fn mean_microseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6 / CALLS as f64
}

fn median_of(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// The numbers of the cores that this process may use.
fn allowed_cores() -> anyhow::Result<Vec<usize>> {
    let all = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect())
}

/// Steps per second of all threads on these cores, spread over this number of cribs. A step registers a tool or is
/// refused, searches, and makes several calls.
async fn measure_throughput(cores: &[usize], cribs: usize, time: Duration) -> anyhow::Result<f64> {
    let mut all = Vec::with_capacity(cribs);
    for _ in 0..cribs {
        all.push(Toolcrib::from_registry(Registry::new()).await?);
    }
    let mut allowed = CpuSet::new();
    cores.iter().for_each(|core| allowed.set(*core));
    let is_over = AtomicBool::new(false);
    let (all, allowed, is_over) = (&all, &allowed, &is_over);
    // The threads are not tasks, and this task has nothing else to do: it may block.
    let (start, steps) = std::thread::scope(|scope| {
        let begin =
            |number| scope.spawn(move || run_steps(&all[number % cribs], number, allowed, is_over));
        let threads: Vec<_> = (0..THREADS).map(begin).collect();
        let start = Instant::now();
        std::thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        let done = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        (start, done.sum::<anyhow::Result<usize>>())
    });
    Ok(steps? as f64 / start.elapsed().as_secs_f64())
}

fn run_steps(
    crib: &Toolcrib,
    number: usize,
    cores: &CpuSet,
    is_over: &AtomicBool,
) -> anyhow::Result<usize> {
    sched_setaffinity(None, cores)?;
    let runtime = runtime::Builder::new_current_thread().build()?;
    let mut steps = 0;
    while !is_over.load(Ordering::Relaxed) {
        let name = format!("add_{number}_{}", steps % TOOLS_PER_THREAD);
        let tool = ProvidedTool::new(name.as_str(), "Adds two numbers");
        let registered = crib.registry().register_tool(tool, add_numbers, &["math"]);
        ensure!(registered.is_ok() == (steps < TOOLS_PER_THREAD), "{registered:?}");
        let found = runtime.block_on(crib.anonymous_view().search("math", 10));
        ensure!(!found.is_empty(), "nothing was found");
        for _ in 0..CALLS_PER_SEARCH {
            let outcome = runtime.block_on(crib.anonymous_view().call(&name, sum_arguments()))?;
            ensure!(outcome.error.is_none(), "{outcome:?}");
        }
        steps += 1;
    }
    Ok(steps)
}
