//! Ten sources in one crib, of which one does harm: what the other nine notice, and what that takes of memory.

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

/// Those that are good; the first ones are programs, or APIs if the tenth is one. The others speak MCP over HTTP.
const GOOD: usize = 9;
const GOOD_FIRST: usize = 5;
/// Of the tenth source, all at once.
const CALLERS: usize = 4;
/// A good one is called so often on average, whatever it does.
const PACE: Duration = Duration::from_millis(10);
/// A refresh has a deadline of a minute.
const LONGEST: Duration = Duration::from_secs(90);
/// How much more memory may be taken.
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

/// What was seen of one way to do harm.
pub(crate) struct Look {
    pub(crate) errors: usize,
    /// What calls of the nine took: while the tenth was good, and while it was not.
    pub(crate) calm: Vec<Duration>,
    pub(crate) noticed: Vec<Duration>,
    /// What more it took, in MiB.
    pub(crate) memory: f64,
    /// What was asked of the tenth and failed, or was not as it should be.
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

/// Every way to do harm.
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

/// Nothing is taken over from one look to the next: each has processes of its own.
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

/// In µs.
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

/// What the callers of the nine noticed.
#[derive(Default)]
struct Noticed {
    times: Vec<Duration>,
    errors: usize,
}

/// What is known of the tenth, whose callers never end by themselves.
#[derive(Default)]
struct Tenth {
    answered: AtomicUsize,
    failed: AtomicUsize,
    refreshed: AtomicUsize,
}

/// Calls all ten. An admin has the tenth refreshed once, which is waited for if it lets us; after that it is asked as often
/// as it can have itself asked, by saying at every turn that its tools have changed. Says what came of the tenth, too.
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
        // If all came at the same moment, again and again, they would mostly wait for one another.
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
    // One that failed was refreshed too. What is odd about a list is told as a warning.
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

/// From now on.
fn reset_peak(server: &Server) -> anyhow::Result<()> {
    Ok(std::fs::write(Path::new("/proc").join(server.id().to_string()).join("clear_refs"), "5")?)
}

/// The most of its memory that was in the machine's, in bytes.
fn peak(server: &Server) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}
