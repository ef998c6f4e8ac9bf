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

use crate::bench::endpoints::server_process::ServerProcess;
use crate::seeded_random::SeededRandom;
use crate::upstreams::crib_process;
use crate::upstreams::crib_process::AGENTS;
use crate::upstreams::echo_caller::{EchoCaller, EchoOutcome};
use crate::upstreams::processes::{count_zombies, find_marked, remaining_after, send_sigkill};

/// Concurrent callers of each agent.
const CALLERS_PER_AGENT: usize = 8;
/// Delay before a caller retries after an error.
const RETRY_DELAY: Duration = Duration::from_millis(20);
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// Deadline for the tools to work again after a kill.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(10);
/// Deadline for all processes to end after the last kill.
const CLEANUP_DEADLINE: Duration = Duration::from_secs(5);
/// Number of child processes of the toolcrib that is killed itself.
const CHILD_PROCESSES: usize = 50;

/// Counts of what the callers observed.
#[derive(Default)]
struct CallerCounts {
    calls: AtomicU64,
    failed: AtomicU64,
    slow: AtomicU64,
    foreign_answers: AtomicU64,
    own_answers: AtomicU64,
    kills: Mutex<Vec<Instant>>,
    is_over: AtomicBool,
}

pub(super) async fn run(kills: u32, mut random: SeededRandom) -> anyhow::Result<()> {
    let mark = format!("rig-{}-killed", std::process::id());
    let source = crib_process::stdio_source("echo", &["--mark", &mark, "--delay", "20"])?;
    let server = crib_process::start_process(&[source])?;
    let seen = Arc::new(CallerCounts::default());
    let callers = start_callers(&server, &seen);
    let mut outages = Vec::new();
    for number in 1..=kills {
        outages.push(seen.measure_outage(&server, &mark, &mut random).await?);
        if number.is_multiple_of(20) {
            eprintln!("kills {number} {}", seen.summary_line());
        }
    }
    seen.wait_for_recovery().await?;
    seen.is_over.store(true, Ordering::Relaxed);
    callers.join_all().await;
    // The program that runs now, and its child, are no orphans.
    let orphans =
        remaining_after(CLEANUP_DEADLINE, || find_marked(&mark, None).len().saturating_sub(2))
            .await;
    let zombies = remaining_after(CLEANUP_DEADLINE, || count_zombies(server.id())).await;
    drop(server);
    let orphans =
        orphans + remaining_after(CLEANUP_DEADLINE, || find_marked(&mark, None).len()).await;
    outages.sort_unstable();
    let (median, longest) = (outages.get(outages.len() / 2), outages.last());
    eprintln!("without tools after a kill: {median:?} at the median, {longest:?} at most");
    let left = kill_with_many_children(&mark.replace("killed", "many")).await?;
    println!("kills {kills} {} orphans {orphans} zombies {zombies}", seen.summary_line());
    println!("toolcrib killed with {CHILD_PROCESSES} children: left {left}");
    ensure!(0 < seen.failed.load(Ordering::Relaxed), "no call was hit, so nothing was shown");
    if 0 < seen.violation_count() + (orphans + zombies + left) as u64 {
        std::process::exit(1);
    }
    Ok(())
}

fn start_callers(server: &ServerProcess, seen: &Arc<CallerCounts>) -> JoinSet<()> {
    let mut callers = JoinSet::new();
    for (number, agent) in AGENTS.iter().cycle().take(CALLERS_PER_AGENT * AGENTS.len()).enumerate()
    {
        let name = format!("{agent} {number}");
        let mut caller = EchoCaller::new(server.address, server.key(agent), "echo_echo", &name);
        let seen = Arc::clone(seen);
        callers.spawn(async move {
            while !seen.is_over.load(Ordering::Relaxed) {
                let start = Instant::now();
                let came = caller.call().await;
                seen.count_call(start, came);
                if came == EchoOutcome::Error {
                    sleep(RETRY_DELAY).await;
                }
            }
        });
    }
    callers
}

impl CallerCounts {
    fn count_call(&self, start: Instant, came: EchoOutcome) {
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
            EchoOutcome::OwnText => count(&self.own_answers),
            EchoOutcome::Error => count(&self.failed),
            EchoOutcome::ForeignText => count(&self.foreign_answers),
        }
        if SLOW_AFTER < since.elapsed() {
            count(&self.slow);
        }
    }

    /// Kills the program and measures how long no caller got an answer.
    async fn measure_outage(
        &self,
        server: &ServerProcess,
        mark: &str,
        random: &mut SeededRandom,
    ) -> anyhow::Result<Duration> {
        self.wait_for_recovery().await?;
        sleep(Duration::from_millis(random.below(300))).await;
        let program = find_marked(mark, Some(server.id())).pop().context("no program runs")?;
        let kill_time = Instant::now();
        ensure!(send_sigkill(program.id), "the program ended by itself");
        self.kills.lock().unwrap_or_else(PoisonError::into_inner).push(kill_time);
        self.wait_for_recovery().await?;
        Ok(kill_time.elapsed())
    }

    /// Waits for a new answer. One that was already on its way may still arrive; the next comes from the new program.
    async fn wait_for_recovery(&self) -> anyhow::Result<()> {
        sleep(RETRY_DELAY).await;
        let (before, start) = (self.own_answers.load(Ordering::Relaxed), Instant::now());
        while self.own_answers.load(Ordering::Relaxed) == before {
            ensure!(
                start.elapsed() < RECOVERY_DEADLINE,
                "the tools did not come back within {RECOVERY_DEADLINE:?}"
            );
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    fn violation_count(&self) -> u64 {
        self.slow.load(Ordering::Relaxed) + self.foreign_answers.load(Ordering::Relaxed)
    }

    fn summary_line(&self) -> String {
        let [calls, failed, slow, mixed] =
            [&self.calls, &self.failed, &self.slow, &self.foreign_answers]
                .map(|number| number.load(Ordering::Relaxed));
        format!("calls {calls} failed {failed} slow {slow} mixed {mixed}")
    }
}

/// Kills a toolcrib with many child processes. Returns how many of them and of their own children survive.
async fn kill_with_many_children(mark: &str) -> anyhow::Result<usize> {
    let of = |number| crib_process::stdio_source(&format!("s{number}"), &["--mark", mark]);
    let sources = (0..CHILD_PROCESSES).map(of).collect::<anyhow::Result<Vec<_>>>()?;
    let server = crib_process::start_process(&sources)?;
    let programs = find_marked(mark, Some(server.id())).len();
    ensure!(programs == CHILD_PROCESSES, "{programs} programs run");
    let all = find_marked(mark, None).len();
    ensure!(all == 2 * CHILD_PROCESSES, "{all} processes run");
    let start = Instant::now();
    ensure!(send_sigkill(server.id()), "toolcrib ended by itself");
    let left = remaining_after(CLEANUP_DEADLINE, || find_marked(mark, None).len()).await;
    eprintln!("{all} processes were gone after {:?}", start.elapsed());
    Ok(left)
}
