//! The cost of a call to a running stdio source, one call at a time: over bare pipes, through a view in this process,
//! and through `/mcp` of a crib in another process. They take turns; the median of all rounds counts.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, json};
use toolcrib::{CallContext, Called, Toolcrib};

use super::pipes::Pipes;
use crate::bench::doors::process::{Server, cpu_time_of};
use crate::bench::doors::wire::{self, Connection};
use crate::bench::report::{Bound, Report};
use crate::upstreams::crib::{self, AGENTS};

const ROUNDS: usize = 9;
const WARM_UP: usize = 50;
const TEXT: &str = "Is anybody there?";
/// Maximum latency added to bare pipes, in µs.
const ADDED: f64 = 150.0;

/// The clients of all call paths.
struct Ways {
    pipes: Pipes,
    crib: Toolcrib,
    key: String,
    server: Server,
    connection: Connection,
    request: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Way {
    Pipes,
    View,
    Http,
}

const WAYS: [(Way, &str); 3] =
    [(Way::Pipes, "bare pipes"), (Way::View, "a view in process"), (Way::Http, "`/mcp`")];

/// Results of one round, in µs per call. CPU time is that of the process between the caller and the called program.
#[derive(Clone, Copy)]
struct Round {
    p50: f64,
    p99: f64,
    cpu: f64,
}

pub(super) async fn run(report: &mut Report, is_quick: bool) -> anyhow::Result<()> {
    let time = Duration::from_millis(if is_quick { 100 } else { 1_000 });
    // On a thread of the runtime, where the tasks of a server run.
    let [bare, view, http] = tokio::spawn(measure(time)).await??;
    for ((_, name), Round { p50, p99, cpu }) in WAYS.iter().zip([bare, view, http]) {
        eprintln!("  {name}: p50 {p50:.0} µs, p99 {p99:.0} µs, {cpu:.0} µs of CPU");
    }
    for ((_, name), ours) in WAYS.iter().skip(1).zip([view, http]) {
        let what = |what: &str| format!("a call of a program through {name}: {what}");
        let added =
            format!("added to the median over bare pipes ({:.0} µs), against 150 µs", bare.p50);
        report.add(what(&added), ours.p50 - bare.p50, ADDED, "µs", Bound::AtMost(1.0));
        report.add(what("p50, against bare pipes"), ours.p50, bare.p50, "µs", Bound::None);
        report.add(what("p99, against bare pipes"), ours.p99, bare.p99, "µs", Bound::None);
        report.add(what("CPU time, against bare pipes"), ours.cpu, bare.cpu, "µs", Bound::None);
    }
    Ok(())
}

async fn measure(time: Duration) -> anyhow::Result<[Round; 3]> {
    let mut ways = Ways::open().await?;
    let mut rounds = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for ((way, _), rounds) in WAYS.iter().zip(&mut rounds) {
            rounds.push(ways.round(*way, time).await?);
        }
    }
    Ok(rounds.map(|rounds| Round {
        p50: median(&rounds, |round| round.p50),
        p99: median(&rounds, |round| round.p99),
        cpu: median(&rounds, |round| round.cpu),
    }))
}

fn median(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    let mut all: Vec<f64> = rounds.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

impl Ways {
    async fn open() -> anyhow::Result<Self> {
        let sources = [crib::stdio_source("kept", &[])?];
        let (crib, mut keys) = crib::make(&sources).await?;
        let key = keys.remove(AGENTS[0]).context("no key")?;
        let server = crib::start(&sources)?;
        let connection = Connection::open(server.address).await?;
        let request = wire::call(server.key(AGENTS[0]), "kept_echo", json!({"text": TEXT}));
        Ok(Self { pipes: Pipes::open()?, crib, key, server, connection, request })
    }

    async fn round(&mut self, way: Way, time: Duration) -> anyhow::Result<Round> {
        for _ in 0..WARM_UP {
            self.call(way).await?;
        }
        let (before, mut times) = (self.cpu_time(way)?, Vec::new());
        let end = Instant::now() + time;
        while times.last().is_none_or(|(_, now)| *now < end) {
            let start = Instant::now();
            self.call(way).await?;
            let now = Instant::now();
            times.push((now - start, now));
        }
        let cpu = self.cpu_time(way)?.saturating_sub(before).as_secs_f64() * 1e6;
        let count = times.len();
        let mut times: Vec<Duration> = times.into_iter().map(|(time, _)| time).collect();
        times.sort_unstable();
        let at = |percent: usize| times[(count - 1) * percent / 100].as_secs_f64() * 1e6;
        Ok(Round { p50: at(50), p99: at(99), cpu: cpu / count as f64 })
    }

    async fn call(&mut self, way: Way) -> anyhow::Result<()> {
        match way {
            // Blocking the thread takes less time than handing its tasks to another one.
            Way::Pipes => self.pipes.call(TEXT),
            Way::View => self.view().await,
            Way::Http => {
                let answer = wire::json_of(self.connection.ask(&self.request).await?)?;
                ensure!(answer["result"]["content"][0]["text"] == TEXT, "{answer}");
                Ok(())
            }
        }
    }

    /// Everything that an endpoint does for a call, except its protocol.
    async fn view(&self) -> anyhow::Result<()> {
        let identity = self.crib.identify(Some(&self.key)).await?;
        let view = self.crib.view(&identity.agent);
        let tool = view.find("kept_echo")?;
        let arguments = Map::from_iter([("text".to_owned(), json!(TEXT))]);
        let called = view.call_with(&tool, arguments, &CallContext::silent()).await;
        let Called::Done(done) = called else { bail!("{called:?}") };
        let answer = done.into_answer().into_map();
        ensure!(answer["content"][0]["text"] == TEXT, "{answer:?}");
        Ok(())
    }

    fn cpu_time(&self, way: Way) -> anyhow::Result<Duration> {
        match way {
            Way::Pipes | Way::View => cpu_time_of(std::process::id()),
            Way::Http => self.server.cpu_time(),
        }
    }
}
