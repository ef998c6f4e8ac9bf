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

use super::crib_process;
use super::crib_process::AGENTS;
use super::echo_caller::{EchoCaller, EchoOutcome};
use super::echo_server::HostileBehavior;
use crate::bench::endpoints::server_process::ServerProcess;
use crate::bench::endpoints::wire;
use crate::bench::endpoints::wire::BenchConnection;
use crate::seeded_random::SeededRandom;

/// Number of well-behaved sources. The first ones are child processes, or APIs if the tenth is one; the others speak
/// MCP over HTTP.
const BENIGN_SOURCES: usize = 9;
const FIRST_KIND_SOURCES: usize = 5;
/// Concurrent callers of the tenth source.
const HOSTILE_SOURCE_CALLERS: usize = 4;
/// Mean interval between the calls of a caller, however long a call takes.
const CALL_INTERVAL: Duration = Duration::from_millis(10);
/// More than the deadline of a refresh, which is one minute.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum additional memory, in MiB.
const MAX_ADDED_MIB: f64 = 64.0;

#[derive(clap::Args)]
pub(crate) struct HostileArgs {
    /// How the tenth is spoken to; all, one after the other, unless given.
    #[arg(long)]
    over: Option<SourceTransport>,
    /// Only this harm.
    #[arg(long)]
    manner: Option<HostileBehavior>,
    /// For how long, without harm and with it.
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
}

/// How a source is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SourceTransport {
    Stdio,
    Http,
    /// No MCP at all.
    Api,
}

/// Measurements of one run with a hostile behavior.
pub(crate) struct HostileRun {
    pub(crate) errors: usize,
    /// Call times of the nine benign sources: before and during the attack.
    pub(crate) times_before: Vec<Duration>,
    pub(crate) times_during: Vec<Duration>,
    /// Additional memory, in MiB.
    pub(crate) memory: f64,
    /// Calls and refreshes of the tenth source that failed or had a wrong result.
    hostile_failures: usize,
}

pub(crate) async fn run(orders: &HostileArgs) -> anyhow::Result<()> {
    let time = Duration::from_millis(orders.milliseconds);
    let mut is_good = true;
    for (over, manner) in all_cases() {
        let is_wanted = orders.over.is_none_or(|wanted| wanted == over)
            && orders.manner.is_none_or(|wanted| wanted == manner);
        if !is_wanted {
            continue;
        }
        let name = case_name(over, manner);
        let look = run_case(over, manner, time).await.with_context(|| name.clone())?;
        let HostileRun {
            errors,
            times_before: calm,
            times_during: noticed,
            memory,
            hostile_failures: harmed,
        } = look;
        let calls = noticed.len();
        println!("{name}: calls {calls} errors {errors} memory +{memory:.1} MiB");
        let (p99, before) = (p99(noticed), p99(calm));
        eprintln!("  p99 {p99:.0} µs, before {before:.0} µs; {harmed} of the tenth failed");
        ensure!(0 < calls, "nothing was called, so nothing was shown");
        is_good &= errors == 0 && memory <= MAX_ADDED_MIB;
    }
    if !is_good {
        std::process::exit(1);
    }
    Ok(())
}

/// Every combination of transport and behavior.
pub(crate) fn all_cases() -> impl Iterator<Item = (SourceTransport, HostileBehavior)> {
    let over = |over: &SourceTransport| {
        let over = *over;
        let known = HostileBehavior::value_variants().iter().filter(move |it| it.applies_to(over));
        known.map(move |manner| (over, *manner))
    };
    SourceTransport::value_variants().iter().flat_map(over)
}

pub(crate) fn case_name(over: SourceTransport, manner: HostileBehavior) -> String {
    let over = match over {
        SourceTransport::Stdio => "stdio",
        SourceTransport::Http => "http",
        SourceTransport::Api => "api",
    };
    format!("{over} {}", manner.cli_value())
}

/// Runs one case. Each run has its own processes, so that no run affects the next.
pub(crate) async fn run_case(
    over: SourceTransport,
    manner: HostileBehavior,
    time: Duration,
) -> anyhow::Result<HostileRun> {
    let folder = tempfile::tempdir()?;
    let from = folder.path().join("from-now-on");
    let mut sources = Vec::new();
    let mut servers = Vec::new();
    for number in 0..BENIGN_SOURCES {
        let good = match over {
            _ if FIRST_KIND_SOURCES <= number => SourceTransport::Http,
            SourceTransport::Api => SourceTransport::Api,
            SourceTransport::Stdio | SourceTransport::Http => SourceTransport::Stdio,
        };
        sources.push(start_source(&format!("good{number}"), good, &[], &mut servers)?);
    }
    let word = manner.cli_value();
    let from_text = from.to_str().context("the folder has a name that is no text")?;
    let harm = ["--manner", &word, "--from", from_text];
    sources.push(start_source("tenth", over, &harm, &mut servers)?);
    let crib = crib_process::start_process(&sources)?;
    let (calm, before_harm) = run_load(&crib, time, true).await?;
    let before = crib.resident_bytes()?;
    reset_peak(&crib)?;
    std::fs::write(&from, "")?;
    let is_refreshed = over == SourceTransport::Api || manner.lets_refreshes_end();
    let (noticed, tenth) = run_load(&crib, time, is_refreshed).await?;
    let harmed = tenth.failed.load(Ordering::Relaxed);
    let answered = |tenth: &HostileSourceCounts| tenth.answered.load(Ordering::Relaxed);
    let is_slower = answered(&tenth) * 2 < answered(&before_harm);
    ensure!(0 < harmed || is_slower, "the tenth did no harm, so nothing was shown");
    let memory = (peak_bytes(&crib)? - before) / 1024.0 / 1024.0;
    Ok(HostileRun {
        errors: calm.errors + noticed.errors,
        times_before: calm.times,
        times_during: noticed.times,
        memory,
        hostile_failures: harmed,
    })
}

/// The 99th percentile, in µs.
pub(crate) fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let at = times.len().saturating_sub(1) * 99 / 100;
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

fn start_source(
    id: &str,
    over: SourceTransport,
    arguments: &[&str],
    servers: &mut Vec<ServerProcess>,
) -> anyhow::Result<String> {
    let (order, first) = match over {
        SourceTransport::Stdio => return crib_process::stdio_source(id, arguments),
        SourceTransport::Http => ("mcp", &["--name", id, "--http"][..]),
        SourceTransport::Api => ("api", &["--name", id][..]),
    };
    let all: Vec<&str> = first.iter().chain(arguments).copied().collect();
    let server = ServerProcess::start_command(order, &all)?;
    let source = match over {
        SourceTransport::Api => crib_process::api_source(id, server.address),
        _ => crib_process::http_source(id, server.address),
    };
    servers.push(server);
    Ok(source)
}

/// Call times and errors of the nine benign sources.
#[derive(Default)]
struct BenignCalls {
    times: Vec<Duration>,
    errors: usize,
}

/// Counts of the tenth source. Its callers run until they are aborted.
#[derive(Default)]
struct HostileSourceCounts {
    answered: AtomicUsize,
    failed: AtomicUsize,
    refreshed: AtomicUsize,
}

/// Calls all ten sources. An admin refreshes the tenth one once, and waits for the end if the behavior lets it end.
/// After that, the tenth source triggers refreshes itself: every answer reports that its tools have changed. Also
/// returns the counts of the tenth source.
async fn run_load(
    crib: &ServerProcess,
    time: Duration,
    is_refreshed: bool,
) -> anyhow::Result<(BenignCalls, Arc<HostileSourceCounts>)> {
    let seen = Arc::new(HostileSourceCounts::default());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tenth = JoinSet::new();
    for number in 0..HOSTILE_SOURCE_CALLERS {
        let agent = AGENTS[number % AGENTS.len()];
        let caller = new_caller(crib, agent, "tenth", number);
        tenth.spawn(call_until_dropped(caller, Arc::clone(&seen)));
    }
    let refresh = wire::admin_request(crib.key("admin"), "/api/sources/tenth/refresh");
    tenth.spawn(refresh_once(crib.address, refresh, Arc::clone(&seen)));
    let mut good = JoinSet::new();
    for number in 0..BENIGN_SOURCES {
        let agent = AGENTS[number % AGENTS.len()];
        let caller = new_caller(crib, agent, &format!("good{number}"), number);
        good.spawn(call_until(caller, SeededRandom::new(number as u64), Arc::clone(&is_over)));
    }
    let start = Instant::now();
    sleep(time).await;
    while is_refreshed && seen.refreshed.load(Ordering::Relaxed) == 0 {
        ensure!(
            start.elapsed() < REFRESH_TIMEOUT,
            "the tenth was not refreshed within {REFRESH_TIMEOUT:?}"
        );
        sleep(CALL_INTERVAL).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut noticed = BenignCalls::default();
    while let Some(done) = good.join_next().await {
        let done = done?;
        noticed.times.extend(done.times);
        noticed.errors += done.errors;
    }
    tenth.shutdown().await;
    Ok((noticed, seen))
}

fn new_caller(crib: &ServerProcess, agent: &str, source: &str, number: usize) -> EchoCaller {
    let (tool, name) = (format!("{source}_echo"), format!("{agent} {source} {number}"));
    EchoCaller::new(crib.address, crib.key(agent), &tool, &name)
}

async fn call_until(
    mut caller: EchoCaller,
    mut random: SeededRandom,
    is_over: Arc<AtomicBool>,
) -> BenignCalls {
    let mut noticed = BenignCalls::default();
    while !is_over.load(Ordering::Relaxed) {
        // Random delays: callers in lockstep would mostly wait for each other.
        let wait = CALL_INTERVAL / 2
            + Duration::from_micros(random.below(CALL_INTERVAL.as_micros() as u64));
        sleep(wait).await;
        let start = Instant::now();
        let came = caller.call().await;
        noticed.times.push(start.elapsed());
        noticed.errors += usize::from(came != EchoOutcome::OwnText);
    }
    noticed
}

async fn call_until_dropped(mut caller: EchoCaller, seen: Arc<HostileSourceCounts>) {
    loop {
        let counted = match caller.call().await {
            EchoOutcome::OwnText => &seen.answered,
            _ => &seen.failed,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        sleep(CALL_INTERVAL).await;
    }
}

async fn refresh_once(address: SocketAddr, refresh: Vec<u8>, seen: Arc<HostileSourceCounts>) {
    // A failed refresh counts as refreshed too. Oddities of a list are only reported as warnings.
    let failed = match BenchConnection::open(address).await {
        Ok(mut connection) => {
            let answer = connection.send_request(&refresh).await;
            answer.map_or(true, |answer| contains_bytes(answer, b"\"code\""))
        }
        Err(_) => true,
    };
    seen.failed.fetch_add(usize::from(failed), Ordering::Relaxed);
    seen.refreshed.fetch_add(1, Ordering::Relaxed);
}

fn contains_bytes(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|some| some == wanted)
}

/// Restarts the peak memory measurement of a process.
fn reset_peak(server: &ServerProcess) -> anyhow::Result<()> {
    Ok(std::fs::write(Path::new("/proc").join(server.id().to_string()).join("clear_refs"), "5")?)
}

/// Peak resident memory of a process, in bytes.
fn peak_bytes(server: &ServerProcess) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}
