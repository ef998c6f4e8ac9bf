//! The cost of a request for the server: lists and calls, compared with handlers that only answer or forward.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use super::load::LoadRound;
use super::measured_crib::SIZES;
use super::server_process::ServerProcess;
use super::wire::BenchConnection;
use super::{load, wire};
use crate::bench::BenchArgs;
use crate::bench::report::{BenchReport, RatioBound};

/// Alternating rounds of each server.
const ROUNDS: usize = 9;
/// Connections: enough to keep a server busy, and to make its batches alike from round to round.
const CONNECTIONS: usize = 16;

/// Response of the upstream.
const ORDER_RESPONSE: &str = r#"{"id":4711,"state":"accepted","shop":"north","item":"A-1047","count":3,"created_at":"2026-07-28T12:00:00Z"}"#;

/// The report, the time of a round, and the folder for the answers of the bare server.
struct SpeedBench<'a> {
    report: &'a mut BenchReport,
    time: Duration,
    folder: tempfile::TempDir,
}

/// The rounds of one server.
#[derive(Default)]
struct ServerRounds(Vec<LoadRound>);

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let time = Duration::from_millis(if orders.quick { 100 } else { 1_000 });
    let mut bench = SpeedBench { report, time, folder: tempfile::tempdir()? };
    let order = bench.write_file("order", ORDER_RESPONSE.as_bytes())?;
    let upstream = ServerProcess::start(&["bare", &order])?;
    let address = upstream.address.to_string();
    let ours = ServerProcess::start(&["toolcrib", "--upstream", &address])?;
    for size in SIZES {
        bench.measure_list(&ours, size).await?;
    }
    bench.measure_connections(&ours).await?;
    bench.measure_call(&ours).await?;
    let forwarder = ServerProcess::start(&["forwarder", &address])?;
    bench.measure_forwarded_call(&ours, &forwarder).await
}

impl SpeedBench<'_> {
    fn write_file(&self, name: &str, content: &[u8]) -> anyhow::Result<String> {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, content)?;
        Ok(path.display().to_string())
    }

    /// Saves our answer to a file, so that a bare server can send the same bytes.
    async fn save_answer(&self, ours: &ServerProcess, request: &[u8]) -> anyhow::Result<String> {
        self.write_file(
            "answer",
            BenchConnection::open(ours.address).await?.send_request(request).await?,
        )
    }

    /// The cost of our connection handling, which the bare servers share.
    async fn measure_connections(&mut self, ours: &ServerProcess) -> anyhow::Result<()> {
        let request = wire::list_request(ours.key(&SIZES[0].to_string()));
        let answer = self.save_answer(ours, &request).await?;
        let with_limits = ServerProcess::start(&["bare", &answer])?;
        let of_axum = ServerProcess::start(&["bare", "--of-axum", &answer])?;
        let what = "the bare handler behind our connections, against those of axum";
        self.compare_cpu_time(what, [&with_limits, &of_axum], &request, RatioBound::None)
    }

    async fn measure_list(&mut self, ours: &ServerProcess, size: usize) -> anyhow::Result<()> {
        let request = wire::list_request(ours.key(&size.to_string()));
        let answer = request_json(ours, &request).await?;
        let tools = answer["result"]["tools"].as_array().map(Vec::len);
        ensure!(tools == Some(size), "there are {tools:?} tools");
        let bare = ServerProcess::start(&["bare", &self.save_answer(ours, &request).await?])?;
        let bytes = answer.to_string().len();
        let what = format!("`tools/list` of {size} tools, {} kB", bytes / 1000);
        self.compare_cpu_time(&what, [ours, &bare], &request, RatioBound::AtMost(1.3))
    }

    async fn measure_call(&mut self, ours: &ServerProcess) -> anyhow::Result<()> {
        let key = ours.key(&SIZES[0].to_string());
        let request = wire::call_request(key, "echo", json!({"text": "Is anybody there?"}));
        let answer = request_json(ours, &request).await?;
        ensure!(answer["result"]["content"][0]["text"] == "Is anybody there?", "{answer}");
        let bare = ServerProcess::start(&["bare", &self.save_answer(ours, &request).await?])?;
        self.compare_cpu_time(
            "a call of a trivial tool",
            [ours, &bare],
            &request,
            RatioBound::AtMost(2.5),
        )
    }

    async fn measure_forwarded_call(
        &mut self,
        ours: &ServerProcess,
        forwarder: &ServerProcess,
    ) -> anyhow::Result<()> {
        let arguments =
            json!({"shop": "north", "item": "A-1047", "count": 3, "note": "at the back door"});
        let request = wire::call_request(ours.key("forwarded"), "create_order", arguments);
        let answer = request_json(ours, &request).await?;
        ensure!(answer["result"]["structuredContent"]["id"] == 4711, "{answer}");
        let servers = [ours, forwarder];
        self.compare_cpu_time(
            "a call forwarded to an HTTP upstream",
            servers,
            &request,
            RatioBound::AtMost(1.5),
        )?;
        let [ours, forwarder] =
            self.run_rounds("the same, one connection", servers, &request, 1)?;
        let (ours, bare) =
            (ours.median_of(|round| round.p50), forwarder.median_of(|round| round.p50));
        let what = format!(
            "added to the median of a forwarded call ({bare:.0} µs) with one connection, against 100 µs"
        );
        self.report.add(what, ours - bare, 100.0, "µs", RatioBound::AtMost(1.0));
        Ok(())
    }

    fn compare_cpu_time(
        &mut self,
        what: &str,
        servers: [&ServerProcess; 2],
        request: &[u8],
        must: RatioBound,
    ) -> anyhow::Result<()> {
        let [ours, bare] = self.run_rounds(what, servers, request, CONNECTIONS)?;
        let (ours, bare) = (ours.median_of(|round| round.cpu), bare.median_of(|round| round.cpu));
        self.report.add(format!("{what}: CPU time"), ours, bare, "µs", must);
        Ok(())
    }

    fn run_rounds(
        &self,
        what: &str,
        servers: [&ServerProcess; 2],
        request: &[u8],
        connections: usize,
    ) -> anyhow::Result<[ServerRounds; 2]> {
        let mut all = [ServerRounds::default(), ServerRounds::default()];
        for _ in 0..ROUNDS {
            for (server, rounds) in servers.into_iter().zip(&mut all) {
                rounds.0.push(load::run_round(server, request, connections, self.time)?);
            }
        }
        for (name, rounds) in ["ours", "bare"].into_iter().zip(&all) {
            rounds.print_summary(&format!("{what}, {name}"));
        }
        Ok(all)
    }
}

impl ServerRounds {
    fn median_of(&self, of: impl Fn(&LoadRound) -> f64) -> f64 {
        let mut all: Vec<f64> = self.0.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }

    fn print_summary(&self, what: &str) {
        let least = self.0.iter().map(|round| round.cpu).fold(f64::INFINITY, f64::min);
        let [cpu, p50, p99, rate] = [
            self.median_of(|round| round.cpu),
            self.median_of(|round| round.p50),
            self.median_of(|round| round.p99),
            self.median_of(|round| round.rate),
        ];
        eprintln!(
            "  {what}: {cpu:.1} µs of CPU (least {least:.1}), p50 {p50:.0} µs, p99 {p99:.0} µs, {rate:.0} requests/s"
        );
    }
}

async fn request_json(server: &ServerProcess, request: &[u8]) -> anyhow::Result<Value> {
    wire::parse_json_body(BenchConnection::open(server.address).await?.send_request(request).await?)
}
