//! `hostile`: ten sources in one crib, one of them hostile. Measures the effect on the other nine, and the memory.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::caller::{Caller, Came};
use super::crib::{self, AGENTS};
use super::server::Manner;
use crate::bench::doors::process::Server;
use crate::bench::doors::wire::{self, Connection};
use crate::random::Random;

/// Number of well-behaved sources. The first ones are child processes, or APIs if the tenth is one; the others speak
/// MCP over HTTP.
const GOOD: usize = 9;
const GOOD_FIRST: usize = 5;
/// Concurrent callers of the tenth source.
const CALLERS: usize = 4;
/// Mean interval between the calls of a caller, however long a call takes.
const PACE: Duration = Duration::from_millis(10);
/// More than the deadline of a refresh, which is one minute.
const LONGEST: Duration = Duration::from_secs(90);
/// Maximum additional memory, in MiB.
const MEMORY: f64 = 64.0;

#[derive(clap::Args)]
pub(crate) struct Orders {
    /// How the tenth is spoken to; all, one after the other, unless given.
    #[arg(long)]
    over: Option<Over>,
    /// Only this harm.
    #[arg(long)]
    manner: Option<Manner>,
    /// For how long, without harm and with it.
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
}

/// How a source is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Over {
    Stdio,
    Http,
    /// No MCP at all.
    Api,
}

/// Measurements of one run with a hostile behavior.
pub(crate) struct Look {
    pub(crate) errors: usize,
    /// Call times of the nine benign sources: before and during the attack.
    pub(crate) calm: Vec<Duration>,
    pub(crate) noticed: Vec<Duration>,
    /// Additional memory, in MiB.
    pub(crate) memory: f64,
    /// Calls and refreshes of the tenth source that failed or had a wrong result.
    harmed: usize,
}

pub(crate) async fn run(orders: &Orders) -> anyhow::Result<()> {
    let time = Duration::from_millis(orders.milliseconds);
    let mut is_good = true;
    for (over, manner) in all() {
        let is_wanted = orders.over.is_none_or(|wanted| wanted == over)
            && orders.manner.is_none_or(|wanted| wanted == manner);
        if !is_wanted {
            continue;
        }
        let name = name(over, manner);
        let look = look(over, manner, time).await.with_context(|| name.clone())?;
        let Look { errors, calm, noticed, memory, harmed } = look;
        let calls = noticed.len();
        println!("{name}: calls {calls} errors {errors} memory +{memory:.1} MiB");
        let (p99, before) = (p99(noticed), p99(calm));
        eprintln!("  p99 {p99:.0} µs, before {before:.0} µs; {harmed} of the tenth failed");
        ensure!(0 < calls, "nothing was called, so nothing was shown");
        is_good &= errors == 0 && memory <= MEMORY;
    }
    if !is_good {
        std::process::exit(1);
    }
    Ok(())
}

/// Every combination of transport and behavior.
pub(crate) fn all() -> impl Iterator<Item = (Over, Manner)> {
    let over = |over: &Over| {
        let over = *over;
        let known = Manner::value_variants().iter().filter(move |it| it.is_known_to(over));
        known.map(move |manner| (over, *manner))
    };
    Over::value_variants().iter().flat_map(over)
}

pub(crate) fn name(over: Over, manner: Manner) -> String {
    let over = match over {
        Over::Stdio => "stdio",
        Over::Http => "http",
        Over::Api => "api",
    };
    format!("{over} {}", manner.word())
}

/// Runs one case. Each run has its own processes, so that no run affects the next.
pub(crate) async fn look(over: Over, manner: Manner, time: Duration) -> anyhow::Result<Look> {
    let folder = tempfile::tempdir()?;
    let from = folder.path().join("from-now-on");
    let mut sources = Vec::new();
    let mut servers = Vec::new();
    for number in 0..GOOD {
        let good = match over {
            _ if GOOD_FIRST <= number => Over::Http,
            Over::Api => Over::Api,
            Over::Stdio | Over::Http => Over::Stdio,
        };
        sources.push(source(&format!("good{number}"), good, &[], &mut servers)?);
    }
    let word = manner.word();
    let from_text = from.to_str().context("the folder has a name that is no text")?;
    let harm = ["--manner", &word, "--from", from_text];
    sources.push(source("tenth", over, &harm, &mut servers)?);
    let crib = crib::start(&sources)?;
    let (calm, before_harm) = load(&crib, time, true).await?;
    let before = crib.resident_bytes()?;
    reset_peak(&crib)?;
    std::fs::write(&from, "")?;
    let is_refreshed = over == Over::Api || manner.lets_refreshes_end();
    let (noticed, tenth) = load(&crib, time, is_refreshed).await?;
    let harmed = tenth.failed.load(Ordering::Relaxed);
    let answered = |tenth: &Tenth| tenth.answered.load(Ordering::Relaxed);
    let is_slower = answered(&tenth) * 2 < answered(&before_harm);
    ensure!(0 < harmed || is_slower, "the tenth did no harm, so nothing was shown");
    let memory = (peak(&crib)? - before) / 1024.0 / 1024.0;
    Ok(Look {
        errors: calm.errors + noticed.errors,
        calm: calm.times,
        noticed: noticed.times,
        memory,
        harmed,
    })
}

/// The 99th percentile, in µs.
pub(crate) fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let at = times.len().saturating_sub(1) * 99 / 100;
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

fn source(
    id: &str,
    over: Over,
    arguments: &[&str],
    servers: &mut Vec<Server>,
) -> anyhow::Result<String> {
    let (order, first) = match over {
        Over::Stdio => return crib::stdio_source(id, arguments),
        Over::Http => ("mcp", &["--name", id, "--http"][..]),
        Over::Api => ("api", &["--name", id][..]),
    };
    let all: Vec<&str> = first.iter().chain(arguments).copied().collect();
    let server = Server::start_as(order, &all)?;
    let source = match over {
        Over::Api => crib::api_source(id, server.address),
        _ => crib::http_source(id, server.address),
    };
    servers.push(server);
    Ok(source)
}

/// Call times and errors of the nine benign sources.
#[derive(Default)]
struct Noticed {
    times: Vec<Duration>,
    errors: usize,
}

/// Counts of the tenth source. Its callers run until they are aborted.
#[derive(Default)]
struct Tenth {
    answered: AtomicUsize,
    failed: AtomicUsize,
    refreshed: AtomicUsize,
}

/// Calls all ten sources. An admin refreshes the tenth one once, and waits for the end if the behavior lets it end.
/// After that, the tenth source triggers refreshes itself: every answer reports that its tools have changed. Also
/// returns the counts of the tenth source.
async fn load(
    crib: &Server,
    time: Duration,
    is_refreshed: bool,
) -> anyhow::Result<(Noticed, Arc<Tenth>)> {
    let seen = Arc::new(Tenth::default());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tenth = JoinSet::new();
    for number in 0..CALLERS {
        let agent = AGENTS[number % AGENTS.len()];
        let caller = caller(crib, agent, "tenth", number);
        tenth.spawn(call_until_dropped(caller, Arc::clone(&seen)));
    }
    let refresh = wire::admin(crib.key("admin"), "/api/sources/tenth/refresh");
    tenth.spawn(refresh_once(crib.address, refresh, Arc::clone(&seen)));
    let mut good = JoinSet::new();
    for number in 0..GOOD {
        let agent = AGENTS[number % AGENTS.len()];
        let caller = caller(crib, agent, &format!("good{number}"), number);
        good.spawn(call_until(caller, Random::new(number as u64), Arc::clone(&is_over)));
    }
    let start = Instant::now();
    sleep(time).await;
    while is_refreshed && seen.refreshed.load(Ordering::Relaxed) == 0 {
        ensure!(start.elapsed() < LONGEST, "the tenth was not refreshed within {LONGEST:?}");
        sleep(PACE).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut noticed = Noticed::default();
    while let Some(done) = good.join_next().await {
        let done = done?;
        noticed.times.extend(done.times);
        noticed.errors += done.errors;
    }
    tenth.shutdown().await;
    Ok((noticed, seen))
}

fn caller(crib: &Server, agent: &str, source: &str, number: usize) -> Caller {
    let (tool, name) = (format!("{source}_echo"), format!("{agent} {source} {number}"));
    Caller::new(crib.address, crib.key(agent), &tool, &name)
}

async fn call_until(mut caller: Caller, mut random: Random, is_over: Arc<AtomicBool>) -> Noticed {
    let mut noticed = Noticed::default();
    while !is_over.load(Ordering::Relaxed) {
        // Random delays: callers in lockstep would mostly wait for each other.
        let wait = PACE / 2 + Duration::from_micros(random.below(PACE.as_micros() as u64));
        sleep(wait).await;
        let start = Instant::now();
        let came = caller.call().await;
        noticed.times.push(start.elapsed());
        noticed.errors += usize::from(came != Came::Own);
    }
    noticed
}

async fn call_until_dropped(mut caller: Caller, seen: Arc<Tenth>) {
    loop {
        let counted = match caller.call().await {
            Came::Own => &seen.answered,
            _ => &seen.failed,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        sleep(PACE).await;
    }
}

async fn refresh_once(address: SocketAddr, refresh: Vec<u8>, seen: Arc<Tenth>) {
    // A failed refresh counts as refreshed too. Oddities of a list are only reported as warnings.
    let failed = match Connection::open(address).await {
        Ok(mut connection) => {
            let answer = connection.ask(&refresh).await;
            answer.map_or(true, |answer| contains(answer, b"\"code\""))
        }
        Err(_) => true,
    };
    seen.failed.fetch_add(usize::from(failed), Ordering::Relaxed);
    seen.refreshed.fetch_add(1, Ordering::Relaxed);
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|some| some == wanted)
}

/// Restarts the peak memory measurement of a process.
fn reset_peak(server: &Server) -> anyhow::Result<()> {
    Ok(std::fs::write(Path::new("/proc").join(server.id().to_string()).join("clear_refs"), "5")?)
}

/// Peak resident memory of a process, in bytes.
fn peak(server: &Server) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}
