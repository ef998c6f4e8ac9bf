//! `agreement`: builds random worlds and checks that the product and an independent oracle give agents the same answers
//! (AUZ-02).
//!
//! A list of changes builds a world. The oracle applies them to plain data and computes every answer slowly; the
//! product receives them as commands. Then both get the same questions, and again after each of a few further changes.

mod ask;
mod build;
mod compare;
mod generate;
mod oracle;
mod random;
mod shrink;
mod tally;
mod wishes;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use clap::Args;

use self::compare::Mismatch;
use self::tally::Tally;
use self::world::Case;

/// Maximum number of failures printed.
const FAILURES_SHOWN: usize = 5;

/// How much to look at.
#[derive(Args)]
pub(crate) struct Orders {
    /// How many worlds
    #[arg(long, default_value_t = 20_000)]
    worlds: u64,
    /// Of the first world; each next one has the next number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many at once; one for each processor unless given
    #[arg(long)]
    threads: Option<usize>,
    /// Only the world in this file: the JSON that a failure printed
    #[arg(long)]
    case: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A world in which the product and the oracle disagree.
struct Failure {
    seed: Option<u64>,
    mismatch: Mismatch,
    smallest: Case,
}

pub(crate) async fn run(orders: &Orders) -> anyhow::Result<()> {
    let started = Instant::now();
    let (tally, failures) = match &orders.case {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("{} cannot be read", file.display()))?;
            let case = serde_json::from_str(&text)?;
            let mut tally = Tally::default();
            let mismatch = compare::check(&case, &mut tally).await?;
            let failure = |mismatch| Failure { seed: None, mismatch, smallest: case };
            (tally, mismatch.map(failure).into_iter().collect())
        }
        None => {
            let threads =
                orders.threads.map_or_else(std::thread::available_parallelism, |threads| {
                    threads.try_into().map_err(std::io::Error::other)
                })?;
            many(orders.seed, orders.worlds, threads.get())?
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    for failure in &failures {
        failure.print();
    }
    if orders.json {
        println!("{}", tally.json(seconds));
    } else {
        println!("{}", tally.line(seconds));
    }
    ensure!(failures.is_empty(), "the product and the oracle do not agree");
    Ok(())
}

/// Checks `worlds` worlds on several threads, each with its own runtime.
fn many(first: u64, worlds: u64, threads: usize) -> anyhow::Result<(Tally, Vec<Failure>)> {
    let next = AtomicU64::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || -> anyhow::Result<Tally> {
        let runtime = runtime()?;
        let mut tally = Tally::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if worlds <= number {
                return Ok(tally);
            }
            let seed = first.wrapping_add(number);
            let case = generate::case(seed);
            let check = AssertUnwindSafe(|| runtime.block_on(compare::check(&case, &mut tally)));
            let checked = catch_unwind(check).unwrap_or_else(|_| bail!("there was a panic"));
            let Some(mismatch) = checked.with_context(|| format!("with --seed {seed}"))? else {
                continue;
            };
            let mut failures = failures.lock().expect("no one panics while holding the failures");
            if failures.len() < FAILURES_SHOWN {
                let (smallest, mismatch) = runtime.block_on(shrink::shrink(case, mismatch));
                failures.push(Failure { seed: Some(seed), mismatch, smallest });
            }
        }
    };
    let tallies: Vec<anyhow::Result<Tally>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker returns")).collect()
    });
    let mut total = Tally::default();
    for tally in tallies {
        total.add(&tally?);
    }
    Ok((total, failures.into_inner().expect("no one panics while holding the failures")))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_time().build()?)
}

impl Failure {
    fn print(&self) {
        match self.seed {
            Some(seed) => eprintln!("with --seed {seed} --worlds 1: {}", self.mismatch),
            None => eprintln!("{}", self.mismatch),
        }
        let smallest = serde_json::to_string(&self.smallest).expect("a case is JSON");
        eprintln!("the smallest world with it: {smallest}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_and_the_oracle_agree() {
        let (tally, failures) = many(1, 2_000, 2).unwrap();
        failures.iter().for_each(Failure::print);
        assert!(failures.is_empty());
        assert!(tally.says_something(), "{}", tally.line(1.0));
    }
}
