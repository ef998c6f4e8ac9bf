//! Startup and size: the time from the start of `toolcrib serve --demo` to the first answer of a tool, the memory of an
//! idle server, and the size of the program.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::process::Command;
use upstream::egress::EgressPolicy;
use upstream::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use upstream::http::{ExchangeLimits, HttpClient, Method, UpstreamRequest};

use super::BenchArgs;
use super::report::{BenchReport, RatioBound};
use crate::child_program::ChildProgram;

const ROUNDS: usize = 5;
/// Limits: seconds, and megabytes of 1,000,000 bytes.
const MAX_START_SECONDS: f64 = 1.0;
const MAX_IDLE_MB: f64 = 30.0;
const MAX_PROGRAM_MB: f64 = 40.0;
/// Time until the server has released the memory that it needed for its start.
const SETTLE_TIME: Duration = Duration::from_secs(15);

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    // Cargo builds both programs into the same folder.
    let program = std::env::current_exe()?.with_file_name("toolcrib");
    let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
    let rounds = if orders.quick { 3 } else { ROUNDS };
    let (mut times, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begin = Instant::now();
        let mut demo = Command::new(&program);
        demo.args(["serve", "--demo", "--listen", "127.0.0.1:0"]);
        let (server, (url, key)) = ChildProgram::start(&demo, parse_startup_message).await?;
        call_menu_tool(&client, &url, &key).await?;
        times.push(begin.elapsed().as_secs_f64());
        tokio::time::sleep(SETTLE_TIME).await;
        idle.push(resident_megabytes(server.id().context("it runs")?)?);
    }
    let seconds = median_of(times);
    report.add(
        "`serve --demo`: from the start to the first answer of a tool, against 1 s",
        seconds,
        MAX_START_SECONDS,
        "s",
        RatioBound::AtMost(1.0),
    );
    report.add(
        "`serve --demo`: memory when nobody asks (resident), against 30 MB",
        median_of(idle),
        MAX_IDLE_MB,
        "MB",
        RatioBound::AtMost(1.0),
    );
    let size = std::fs::metadata(&program)?.len() as f64 / 1e6;
    report.add("the program, against 40 MB", size, MAX_PROGRAM_MB, "MB", RatioBound::AtMost(1.0));
    Ok(())
}

fn median_of(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The URL of the server and the key of the cook, from the startup message.
fn parse_startup_message(said: &str) -> Option<(String, String)> {
    let url = said.lines().find_map(|line| line.strip_prefix("toolcrib serves on "))?;
    let keys = said.lines().find_map(|line| line.trim().strip_prefix("export COOK="))?;
    let (key, _) = keys.split_once(' ')?;
    said.ends_with('\n').then(|| (url.to_owned(), key.to_owned()))
}

/// Calls the tool that lists the menu.
async fn call_menu_tool(client: &HttpClient, url: &str, key: &str) -> anyhow::Result<()> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer {key}").parse()?);
    headers.insert(CONTENT_TYPE, "application/json".parse()?);
    headers.insert(ACCEPT, "application/json".parse()?);
    let body = json!({"name": "list_pizzas", "arguments": {}}).to_string().into_bytes();
    let url = format!("{url}/api/agents/tools/call").parse()?;
    let request = UpstreamRequest { method: Method::POST, url, headers, body: Some(body) };
    let answer = client.send(request, ExchangeLimits::default()).await?;
    let outcome: Value = serde_json::from_slice(&answer.body)?;
    ensure!(outcome["status"] == "completed", "the tool was not called: {outcome}");
    Ok(())
}

/// Resident memory of a process, in MB.
fn resident_megabytes(id: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let line = line.context("the system does not say what the process takes")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1.024 / 1_000.0)
}
