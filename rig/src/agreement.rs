//! `agreement`: builds random worlds and checks that the product and an independent oracle give agents the same answers
//! (AUZ-02).
//!
//! A list of changes builds a world. The oracle applies them to plain data and computes every answer slowly; the
//! product receives them as commands. Then both get the same questions, and again after each of a few further changes.

mod compare_answers;
mod generate;
mod oracle;
mod product_answers;
mod product_driver;
mod shrink;
mod tally;
mod world;
mod world_changes;
mod world_random;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use clap::Args;

use self::compare_answers::AnswerMismatch;
use self::tally::AgreementTally;
use self::world::AgreementCase;

/// Maximum number of failures printed.
const MAX_PRINTED_FAILURES: usize = 5;

/// How much to look at.
#[derive(Args)]
pub(crate) struct AgreementArgs {
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
struct DisagreeingWorld {
    seed: Option<u64>,
    mismatch: AnswerMismatch,
    smallest: AgreementCase,
}

pub(crate) async fn run(orders: &AgreementArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let (tally, failures) = match &orders.case {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("{} cannot be read", file.display()))?;
            let case = serde_json::from_str(&text)?;
            let mut tally = AgreementTally::default();
            let mismatch = compare_answers::check_case(&case, &mut tally).await?;
            let failure = |mismatch| DisagreeingWorld { seed: None, mismatch, smallest: case };
            (tally, mismatch.map(failure).into_iter().collect())
        }
        None => {
            let threads =
                orders.threads.map_or_else(std::thread::available_parallelism, |threads| {
                    threads.try_into().map_err(std::io::Error::other)
                })?;
            check_worlds(orders.seed, orders.worlds, threads.get())?
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    for failure in &failures {
        failure.print();
    }
    if orders.json {
        println!("{}", tally.to_json(seconds));
    } else {
        println!("{}", tally.summary_line(seconds));
    }
    ensure!(failures.is_empty(), "the product and the oracle do not agree");
    Ok(())
}

/// Checks `worlds` worlds on several threads, each with its own runtime.
fn check_worlds(
    first: u64,
    worlds: u64,
    threads: usize,
) -> anyhow::Result<(AgreementTally, Vec<DisagreeingWorld>)> {
    let next = AtomicU64::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || -> anyhow::Result<AgreementTally> {
        let runtime = build_runtime()?;
        let mut tally = AgreementTally::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if worlds <= number {
                return Ok(tally);
            }
            let seed = first.wrapping_add(number);
            let case = generate::generate_case(seed);
            let check = AssertUnwindSafe(|| {
                runtime.block_on(compare_answers::check_case(&case, &mut tally))
            });
            let checked = catch_unwind(check).unwrap_or_else(|_| bail!("there was a panic"));
            let Some(mismatch) = checked.with_context(|| format!("with --seed {seed}"))? else {
                continue;
            };
            let mut failures = failures.lock().expect("no one panics while holding the failures");
            if failures.len() < MAX_PRINTED_FAILURES {
                let (smallest, mismatch) = runtime.block_on(shrink::shrink_case(case, mismatch));
                failures.push(DisagreeingWorld { seed: Some(seed), mismatch, smallest });
            }
        }
    };
    let tallies: Vec<anyhow::Result<AgreementTally>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker returns")).collect()
    });
    let mut total = AgreementTally::default();
    for tally in tallies {
        total.add(&tally?);
    }
    Ok((total, failures.into_inner().expect("no one panics while holding the failures")))
}

fn build_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_time().build()?)
}

impl DisagreeingWorld {
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
        let (tally, failures) = check_worlds(1, 2_000, 2).unwrap();
        failures.iter().for_each(DisagreeingWorld::print);
        assert!(failures.is_empty());
        assert!(tally.covers_every_outcome(), "{}", tally.summary_line(1.0));
    }
}
