//! Load: sends one request repeatedly, over several connections, for some time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::server_process::ServerProcess;
use super::wire::BenchConnection;

/// Requests on every connection before the measurement.
const WARM_UP: usize = 20;

/// The results of one round.
pub(super) struct LoadRound {
    /// CPU time of the server per request, in µs.
    pub(super) cpu: f64,
    /// Requests per second.
    pub(super) rate: f64,
    /// Median and 99th percentile of the response times, in µs.
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// Sends requests for this time. One thread is enough, and leaves the rest of the machine to the server.
pub(super) fn run_round(
    server: &ServerProcess,
    request: &[u8],
    connections: usize,
    time: Duration,
) -> anyhow::Result<LoadRound> {
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let open = open_warm_connections(server.address, request, connections).await?;
            let (before, start) = (server.cpu_time()?, Instant::now());
            let mut times = send_requests_for(open, request, time).await?;
            let (cpu, took) = (server.cpu_time()?.saturating_sub(before), start.elapsed());
            times.sort_unstable();
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            let count = times.len() as f64;
            Ok(LoadRound {
                cpu: cpu.as_secs_f64() * 1e6 / count,
                rate: count / took.as_secs_f64(),
                p50: at(0.5).as_secs_f64() * 1e6,
                p99: at(0.99).as_secs_f64() * 1e6,
            })
        })
    })
}

async fn open_warm_connections(
    address: SocketAddr,
    request: &[u8],
    connections: usize,
) -> anyhow::Result<Vec<BenchConnection>> {
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut connection = BenchConnection::open(address).await?;
        for _ in 0..WARM_UP {
            connection.send_request(request).await?;
        }
        open.push(connection);
    }
    Ok(open)
}

/// Returns the response time of each request.
async fn send_requests_for(
    open: Vec<BenchConnection>,
    request: &[u8],
    time: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let request = Arc::<[u8]>::from(request);
    let end = Instant::now() + time;
    let mut asking = JoinSet::new();
    for mut connection in open {
        let request = Arc::clone(&request);
        asking.spawn(async move {
            let mut times = Vec::new();
            let mut start = Instant::now();
            while start < end {
                connection.send_request(&request).await?;
                let now = Instant::now();
                times.push(now - start);
                start = now;
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(asked) = asking.join_next().await {
        times.extend(asked??);
    }
    Ok(times)
}
