//! The cost of a call to a running stdio source, one call at a time: over bare pipes, through a view in this process,
//! and through `/mcp` of a crib in another process. They take turns; the median of all rounds counts.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, json};
use toolcrib::{CallContext, CallResult, Toolcrib};

use super::pipes::PipeClient;
use crate::bench::endpoints::server_process::{ServerProcess, cpu_time_of};
use crate::bench::endpoints::wire;
use crate::bench::endpoints::wire::BenchConnection;
use crate::bench::report::{BenchReport, RatioBound};
use crate::upstreams::crib_process;
use crate::upstreams::crib_process::AGENTS;

const ROUNDS: usize = 9;
const WARM_UP: usize = 50;
const TEXT: &str = "Is anybody there?";
/// Maximum latency added to bare pipes, in µs.
const MAX_ADDED_US: f64 = 150.0;

/// The clients of all call paths.
struct CallPaths {
    pipes: PipeClient,
    crib: Toolcrib,
    key: String,
    server: ServerProcess,
    connection: BenchConnection,
    request: Vec<u8>,
}

#[derive(Clone, Copy)]
enum CallPath {
    Pipes,
    View,
    Http,
}

const CALL_PATHS: [(CallPath, &str); 3] = [
    (CallPath::Pipes, "bare pipes"),
    (CallPath::View, "a view in process"),
    (CallPath::Http, "`/mcp`"),
];

/// Results of one round, in µs per call. CPU time is that of the process between the caller and the called program.
#[derive(Clone, Copy)]
struct CostRound {
    p50: f64,
    p99: f64,
    cpu: f64,
}

pub(super) async fn run(report: &mut BenchReport, is_quick: bool) -> anyhow::Result<()> {
    let time = Duration::from_millis(if is_quick { 100 } else { 1_000 });
    // On a thread of the runtime, where the tasks of a server run.
    let [bare, view, http] = tokio::spawn(measure_paths(time)).await??;
    for ((_, name), CostRound { p50, p99, cpu }) in CALL_PATHS.iter().zip([bare, view, http]) {
        eprintln!("  {name}: p50 {p50:.0} µs, p99 {p99:.0} µs, {cpu:.0} µs of CPU");
    }
    for ((_, name), ours) in CALL_PATHS.iter().skip(1).zip([view, http]) {
        let what = |what: &str| format!("a call of a program through {name}: {what}");
        let added =
            format!("added to the median over bare pipes ({:.0} µs), against 150 µs", bare.p50);
        report.add(what(&added), ours.p50 - bare.p50, MAX_ADDED_US, "µs", RatioBound::AtMost(1.0));
        report.add(what("p50, against bare pipes"), ours.p50, bare.p50, "µs", RatioBound::None);
        report.add(what("p99, against bare pipes"), ours.p99, bare.p99, "µs", RatioBound::None);
        report.add(
            what("CPU time, against bare pipes"),
            ours.cpu,
            bare.cpu,
            "µs",
            RatioBound::None,
        );
    }
    Ok(())
}

async fn measure_paths(time: Duration) -> anyhow::Result<[CostRound; 3]> {
    let mut ways = CallPaths::open().await?;
    let mut rounds = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for ((way, _), rounds) in CALL_PATHS.iter().zip(&mut rounds) {
            rounds.push(ways.run_round(*way, time).await?);
        }
    }
    Ok(rounds.map(|rounds| CostRound {
        p50: median_of(&rounds, |round| round.p50),
        p99: median_of(&rounds, |round| round.p99),
        cpu: median_of(&rounds, |round| round.cpu),
    }))
}

fn median_of(rounds: &[CostRound], of: impl Fn(&CostRound) -> f64) -> f64 {
    let mut all: Vec<f64> = rounds.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

impl CallPaths {
    async fn open() -> anyhow::Result<Self> {
        let sources = [crib_process::stdio_source("kept", &[])?];
        let (crib, mut keys) = crib_process::build_source_crib(&sources).await?;
        let key = keys.remove(AGENTS[0]).context("no key")?;
        let server = crib_process::start_process(&sources)?;
        let connection = BenchConnection::open(server.address).await?;
        let request = wire::call_request(server.key(AGENTS[0]), "kept_echo", json!({"text": TEXT}));
        Ok(Self { pipes: PipeClient::open()?, crib, key, server, connection, request })
    }

    async fn run_round(&mut self, way: CallPath, time: Duration) -> anyhow::Result<CostRound> {
        for _ in 0..WARM_UP {
            self.call_over(way).await?;
        }
        let (before, mut times) = (self.cpu_time(way)?, Vec::new());
        let end = Instant::now() + time;
        while times.last().is_none_or(|(_, now)| *now < end) {
            let start = Instant::now();
            self.call_over(way).await?;
            let now = Instant::now();
            times.push((now - start, now));
        }
        let cpu = self.cpu_time(way)?.saturating_sub(before).as_secs_f64() * 1e6;
        let count = times.len();
        let mut times: Vec<Duration> = times.into_iter().map(|(time, _)| time).collect();
        times.sort_unstable();
        let at = |percent: usize| times[(count - 1) * percent / 100].as_secs_f64() * 1e6;
        Ok(CostRound { p50: at(50), p99: at(99), cpu: cpu / count as f64 })
    }

    async fn call_over(&mut self, way: CallPath) -> anyhow::Result<()> {
        match way {
            // Blocking the thread takes less time than handing its tasks to another one.
            CallPath::Pipes => self.pipes.call_echo(TEXT),
            CallPath::View => self.call_through_view().await,
            CallPath::Http => {
                let answer =
                    wire::parse_json_body(self.connection.send_request(&self.request).await?)?;
                ensure!(answer["result"]["content"][0]["text"] == TEXT, "{answer}");
                Ok(())
            }
        }
    }

    /// Everything that an endpoint does for a call, except its protocol.
    async fn call_through_view(&self) -> anyhow::Result<()> {
        let identity = self.crib.identify(Some(&self.key)).await?;
        let view = self.crib.view(&identity.agent);
        let tool = view.find("kept_echo")?;
        let arguments = Map::from_iter([("text".to_owned(), json!(TEXT))]);
        let called = view.call_found_tool(&tool, arguments, &CallContext::silent()).await;
        let CallResult::Completed(done) = called else { bail!("{called:?}") };
        let answer = done.into_tool_answer().into_map();
        ensure!(answer["content"][0]["text"] == TEXT, "{answer:?}");
        Ok(())
    }

    fn cpu_time(&self, way: CallPath) -> anyhow::Result<Duration> {
        match way {
            CallPath::Pipes | CallPath::View => cpu_time_of(std::process::id()),
            CallPath::Http => self.server.cpu_time(),
        }
    }
}
