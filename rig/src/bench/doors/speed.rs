//! The cost of a request for the server: lists and calls, compared with handlers that only answer or forward.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use super::crib::SIZES;
use super::load::{self, Round};
use super::process::Server;
use super::wire::{self, Connection};
use crate::bench::Orders;
use crate::bench::report::{Bound, Report};

/// Alternating rounds of each server.
const ROUNDS: usize = 9;
/// Connections: enough to keep a server busy, and to make its batches alike from round to round.
const MANY: usize = 16;

/// Response of the upstream.
const ORDER: &str = r#"{"id":4711,"state":"accepted","shop":"north","item":"A-1047","count":3,"created_at":"2026-07-28T12:00:00Z"}"#;

/// The report, the time of a round, and the folder for the answers of the bare server.
struct Bench<'a> {
    report: &'a mut Report,
    time: Duration,
    folder: tempfile::TempDir,
}

/// The rounds of one server.
#[derive(Default)]
struct Rounds(Vec<Round>);

pub(super) async fn run(report: &mut Report, orders: &Orders) -> anyhow::Result<()> {
    let time = Duration::from_millis(if orders.quick { 100 } else { 1_000 });
    let mut bench = Bench { report, time, folder: tempfile::tempdir()? };
    let order = bench.file("order", ORDER.as_bytes())?;
    let upstream = Server::start(&["bare", &order])?;
    let address = upstream.address.to_string();
    let ours = Server::start(&["toolcrib", "--upstream", &address])?;
    for size in SIZES {
        bench.list(&ours, size).await?;
    }
    bench.connections(&ours).await?;
    bench.call(&ours).await?;
    let forwarder = Server::start(&["forwarder", &address])?;
    bench.forwarded(&ours, &forwarder).await
}

impl Bench<'_> {
    fn file(&self, name: &str, content: &[u8]) -> anyhow::Result<String> {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, content)?;
        Ok(path.display().to_string())
    }

    /// Saves our answer to a file, so that a bare server can send the same bytes.
    async fn kept(&self, ours: &Server, request: &[u8]) -> anyhow::Result<String> {
        self.file("answer", Connection::open(ours.address).await?.ask(request).await?)
    }

    /// The cost of our connection handling, which the bare servers share.
    async fn connections(&mut self, ours: &Server) -> anyhow::Result<()> {
        let request = wire::list(ours.key(&SIZES[0].to_string()));
        let answer = self.kept(ours, &request).await?;
        let with_limits = Server::start(&["bare", &answer])?;
        let of_axum = Server::start(&["bare", "--of-axum", &answer])?;
        let what = "the bare handler behind our connections, against those of axum";
        self.cpu(what, [&with_limits, &of_axum], &request, Bound::None)
    }

    async fn list(&mut self, ours: &Server, size: usize) -> anyhow::Result<()> {
        let request = wire::list(ours.key(&size.to_string()));
        let answer = answer(ours, &request).await?;
        let tools = answer["result"]["tools"].as_array().map(Vec::len);
        ensure!(tools == Some(size), "there are {tools:?} tools");
        let bare = Server::start(&["bare", &self.kept(ours, &request).await?])?;
        let bytes = answer.to_string().len();
        let what = format!("`tools/list` of {size} tools, {} kB", bytes / 1000);
        self.cpu(&what, [ours, &bare], &request, Bound::AtMost(1.3))
    }

    async fn call(&mut self, ours: &Server) -> anyhow::Result<()> {
        let key = ours.key(&SIZES[0].to_string());
        let request = wire::call(key, "echo", json!({"text": "Is anybody there?"}));
        let answer = answer(ours, &request).await?;
        ensure!(answer["result"]["content"][0]["text"] == "Is anybody there?", "{answer}");
        let bare = Server::start(&["bare", &self.kept(ours, &request).await?])?;
        self.cpu("a call of a trivial tool", [ours, &bare], &request, Bound::AtMost(2.5))
    }

    async fn forwarded(&mut self, ours: &Server, forwarder: &Server) -> anyhow::Result<()> {
        let arguments =
            json!({"shop": "north", "item": "A-1047", "count": 3, "note": "at the back door"});
        let request = wire::call(ours.key("forwarded"), "create_order", arguments);
        let answer = answer(ours, &request).await?;
        ensure!(answer["result"]["structuredContent"]["id"] == 4711, "{answer}");
        let servers = [ours, forwarder];
        self.cpu("a call forwarded to an HTTP upstream", servers, &request, Bound::AtMost(1.5))?;
        let [ours, forwarder] = self.rounds("the same, one connection", servers, &request, 1)?;
        let (ours, bare) = (ours.median(|round| round.p50), forwarder.median(|round| round.p50));
        let what = format!(
            "added to the median of a forwarded call ({bare:.0} µs) with one connection, against 100 µs"
        );
        self.report.add(what, ours - bare, 100.0, "µs", Bound::AtMost(1.0));
        Ok(())
    }

    fn cpu(
        &mut self,
        what: &str,
        servers: [&Server; 2],
        request: &[u8],
        must: Bound,
    ) -> anyhow::Result<()> {
        let [ours, bare] = self.rounds(what, servers, request, MANY)?;
        let (ours, bare) = (ours.median(|round| round.cpu), bare.median(|round| round.cpu));
        self.report.add(format!("{what}: CPU time"), ours, bare, "µs", must);
        Ok(())
    }

    fn rounds(
        &self,
        what: &str,
        servers: [&Server; 2],
        request: &[u8],
        connections: usize,
    ) -> anyhow::Result<[Rounds; 2]> {
        let mut all = [Rounds::default(), Rounds::default()];
        for _ in 0..ROUNDS {
            for (server, rounds) in servers.into_iter().zip(&mut all) {
                rounds.0.push(load::round(server, request, connections, self.time)?);
            }
        }
        for (name, rounds) in ["ours", "bare"].into_iter().zip(&all) {
            rounds.say(&format!("{what}, {name}"));
        }
        Ok(all)
    }
}

impl Rounds {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut all: Vec<f64> = self.0.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }

    fn say(&self, what: &str) {
        let least = self.0.iter().map(|round| round.cpu).fold(f64::INFINITY, f64::min);
        let [cpu, p50, p99, rate] = [
            self.median(|round| round.cpu),
            self.median(|round| round.p50),
            self.median(|round| round.p99),
            self.median(|round| round.rate),
        ];
        eprintln!(
            "  {what}: {cpu:.1} µs of CPU (least {least:.1}), p50 {p50:.0} µs, p99 {p99:.0} µs, {rate:.0} requests/s"
        );
    }
}

async fn answer(server: &Server, request: &[u8]) -> anyhow::Result<Value> {
    wire::json_of(Connection::open(server.address).await?.ask(request).await?)
}
