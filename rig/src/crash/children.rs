//! Kills the child process of a source repeatedly while two agents call its tools, and counts the effects on the
//! callers.
//!
//! Within a second of the kill, each caller gets an error or its own answer, never the answer of another caller. The
//! child processes that the killed programs had started do not survive, and no zombie process remains.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bench::doors::process::Server;
use crate::random::Random;
use crate::upstreams::caller::{Caller, Came};
use crate::upstreams::crib::{self, AGENTS};
use crate::upstreams::processes::{kill, left_after, marked, zombies_of};

/// Concurrent callers of each agent.
const CALLERS: usize = 8;
/// Delay before a caller retries after an error.
const AGAIN: Duration = Duration::from_millis(20);
const SLOW: Duration = Duration::from_secs(1);
/// Deadline for the tools to work again after a kill.
const BACK: Duration = Duration::from_secs(10);
/// Deadline for all processes to end after the last kill.
const GONE: Duration = Duration::from_secs(5);
/// Number of child processes of the toolcrib that is killed itself.
const PROGRAMS: usize = 50;

/// Counts of what the callers observed.
#[derive(Default)]
struct Seen {
    calls: AtomicU64,
    failed: AtomicU64,
    slow: AtomicU64,
    mixed: AtomicU64,
    own: AtomicU64,
    kills: Mutex<Vec<Instant>>,
    is_over: AtomicBool,
}

pub(super) async fn run(kills: u32, mut random: Random) -> anyhow::Result<()> {
    let mark = format!("rig-{}-killed", std::process::id());
    let source = crib::stdio_source("echo", &["--mark", &mark, "--delay", "20"])?;
    let server = crib::start(&[source])?;
    let seen = Arc::new(Seen::default());
    let callers = start_callers(&server, &seen);
    let mut outages = Vec::new();
    for number in 1..=kills {
        outages.push(seen.outage(&server, &mark, &mut random).await?);
        if number.is_multiple_of(20) {
            eprintln!("kills {number} {}", seen.line());
        }
    }
    seen.is_back().await?;
    seen.is_over.store(true, Ordering::Relaxed);
    callers.join_all().await;
    // The program that runs now, and its child, are no orphans.
    let orphans = left_after(GONE, || marked(&mark, None).len().saturating_sub(2)).await;
    let zombies = left_after(GONE, || zombies_of(server.id())).await;
    drop(server);
    let orphans = orphans + left_after(GONE, || marked(&mark, None).len()).await;
    outages.sort_unstable();
    let (median, longest) = (outages.get(outages.len() / 2), outages.last());
    eprintln!("without tools after a kill: {median:?} at the median, {longest:?} at most");
    let left = with_many(&mark.replace("killed", "many")).await?;
    println!("kills {kills} {} orphans {orphans} zombies {zombies}", seen.line());
    println!("toolcrib killed with {PROGRAMS} children: left {left}");
    ensure!(0 < seen.failed.load(Ordering::Relaxed), "no call was hit, so nothing was shown");
    if 0 < seen.bad() + (orphans + zombies + left) as u64 {
        std::process::exit(1);
    }
    Ok(())
}

fn start_callers(server: &Server, seen: &Arc<Seen>) -> JoinSet<()> {
    let mut callers = JoinSet::new();
    for (number, agent) in AGENTS.iter().cycle().take(CALLERS * AGENTS.len()).enumerate() {
        let name = format!("{agent} {number}");
        let mut caller = Caller::new(server.address, server.key(agent), "echo_echo", &name);
        let seen = Arc::clone(seen);
        callers.spawn(async move {
            while !seen.is_over.load(Ordering::Relaxed) {
                let start = Instant::now();
                let came = caller.call().await;
                seen.note(start, came);
                if came == Came::Error {
                    sleep(AGAIN).await;
                }
            }
        });
    }
    callers
}

impl Seen {
    fn note(&self, start: Instant, came: Came) {
        let kills = self.kills.lock().unwrap_or_else(PoisonError::into_inner);
        // Measure from the first kill during the call: a call that survives several kills was not answered after the
        // first.
        let since = kills.iter().copied().find(|kill| start <= *kill).unwrap_or(start);
        drop(kills);
        let count = |number: &AtomicU64| {
            number.fetch_add(1, Ordering::Relaxed);
        };
        count(&self.calls);
        match came {
            Came::Own => count(&self.own),
            Came::Error => count(&self.failed),
            Came::Mixed => count(&self.mixed),
        }
        if SLOW < since.elapsed() {
            count(&self.slow);
        }
    }

    /// Kills the program and measures how long no caller got an answer.
    async fn outage(
        &self,
        server: &Server,
        mark: &str,
        random: &mut Random,
    ) -> anyhow::Result<Duration> {
        self.is_back().await?;
        sleep(Duration::from_millis(random.below(300))).await;
        let program = marked(mark, Some(server.id())).pop().context("no program runs")?;
        let kill_time = Instant::now();
        ensure!(kill(program.id), "the program ended by itself");
        self.kills.lock().unwrap_or_else(PoisonError::into_inner).push(kill_time);
        self.is_back().await?;
        Ok(kill_time.elapsed())
    }

    /// Waits for a new answer. One that was already on its way may still arrive; the next comes from the new program.
    async fn is_back(&self) -> anyhow::Result<()> {
        sleep(AGAIN).await;
        let (before, start) = (self.own.load(Ordering::Relaxed), Instant::now());
        while self.own.load(Ordering::Relaxed) == before {
            ensure!(start.elapsed() < BACK, "the tools did not come back within {BACK:?}");
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    fn bad(&self) -> u64 {
        self.slow.load(Ordering::Relaxed) + self.mixed.load(Ordering::Relaxed)
    }

    fn line(&self) -> String {
        let [calls, failed, slow, mixed] = [&self.calls, &self.failed, &self.slow, &self.mixed]
            .map(|number| number.load(Ordering::Relaxed));
        format!("calls {calls} failed {failed} slow {slow} mixed {mixed}")
    }
}

/// Kills a toolcrib with many child processes. Returns how many of them and of their own children survive.
async fn with_many(mark: &str) -> anyhow::Result<usize> {
    let of = |number| crib::stdio_source(&format!("s{number}"), &["--mark", mark]);
    let sources = (0..PROGRAMS).map(of).collect::<anyhow::Result<Vec<_>>>()?;
    let server = crib::start(&sources)?;
    let programs = marked(mark, Some(server.id())).len();
    ensure!(programs == PROGRAMS, "{programs} programs run");
    let all = marked(mark, None).len();
    ensure!(all == 2 * PROGRAMS, "{all} processes run");
    let start = Instant::now();
    ensure!(kill(server.id()), "toolcrib ended by itself");
    let left = left_after(GONE, || marked(mark, None).len()).await;
    eprintln!("{all} processes were gone after {:?}", start.elapsed());
    Ok(left)
}
