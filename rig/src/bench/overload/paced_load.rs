//! Calls at a fixed rate, independent of the speed of the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{MODERATE_LOAD, OVERLOAD_FACTOR};
use crate::bench::endpoints::wire::BenchConnection;

/// Enough for all calls in flight at three times the maximum load.
const CONNECTIONS: usize = 2048;
/// Enough to keep a server and a source busy, but not more than may wait for admission.
const BUSY_CONNECTIONS: usize = 96;
/// Shares of the throughput with few connections; one of them is close to the maximum with many connections.
const LOAD_STEPS: [f64; 6] = [0.8, 0.88, 0.96, 1.04, 1.12, 1.2];
/// Niceness of the load thread, so that the servers go first.
const NICE: i32 = 10;
/// Number of overload rounds, because one result may be luck.
const ROUNDS: usize = 5;

pub(super) struct PacedLoad {
    pub(super) address: SocketAddr,
    pub(super) requests: Vec<Vec<u8>>,
}

/// Results at the maximum load, at half of it, at three times as much, and at half again.
pub(super) struct OverloadRound {
    /// Highest throughput at any offered load, in calls per second.
    pub(super) max_throughput: f64,
    pub(super) before: Vec<CallSample>,
    pub(super) overload: Vec<CallSample>,
    pub(super) after: Vec<CallSample>,
}

/// The result of one call.
#[derive(Clone, Copy)]
pub(super) struct CallSample {
    /// Scheduled start, since the start of the run.
    pub(super) due: Duration,
    /// Time of the answer, since the start of the run.
    pub(super) answered_at: Duration,
    pub(super) took: Duration,
    pub(super) outcome: LoadOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadOutcome {
    Done,
    /// The server advised to retry later.
    Refused,
    Failed,
}

impl PacedLoad {
    /// Runs on its own thread with a low priority: the upstream shares the cores with the callers, and they must not
    /// slow it down.
    pub(super) fn run(self, time: Duration) -> anyhow::Result<Vec<OverloadRound>> {
        let asks = move || {
            rustix::process::setpriority_process(None, NICE)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(Arc::new(self).measure_rounds(time))
        };
        let asks = std::thread::spawn(asks);
        tokio::task::block_in_place(|| asks.join().expect("what asks does not panic"))
    }

    async fn measure_rounds(self: Arc<Self>, time: Duration) -> anyhow::Result<Vec<OverloadRound>> {
        let few = self.open_connections(BUSY_CONNECTIONS).await?;
        let (few, _) = self.run_calls(few, None, time / 4).await?;
        let (few, busy) = self.run_calls(few, None, time).await?;
        drop(few);
        let about = completed_per_second(&busy, time);
        // Many callers cost more than a few busy ones. So measure the maximum with the connections that are used
        // afterwards, and in every round, because the speed of the machine varies.
        let (mut many, mut rounds) = (self.open_connections(CONNECTIONS).await?, Vec::new());
        for _ in 0..ROUNDS {
            let mut most = 0.0_f64;
            for share in LOAD_STEPS {
                let (again, asked) = self.run_calls(many, Some(about * share), time / 4).await?;
                (many, most) = (again, most.max(completed_per_second(&asked, time / 4)));
            }
            let (again, before) =
                self.run_calls(many, Some(most * MODERATE_LOAD), time / 2).await?;
            let (again, overload) =
                self.run_calls(again, Some(most * OVERLOAD_FACTOR), time).await?;
            let (again, after) = self.run_calls(again, Some(most * MODERATE_LOAD), time).await?;
            many = again;
            rounds.push(OverloadRound { max_throughput: most, before, overload, after });
        }
        Ok(rounds)
    }

    async fn open_connections(&self, number: usize) -> anyhow::Result<Vec<BenchConnection>> {
        let mut open = Vec::new();
        for _ in 0..number {
            open.push(BenchConnection::open(self.address).await?);
        }
        Ok(open)
    }

    /// Sends `rate` calls per second, or as many as possible.
    async fn run_calls(
        self: &Arc<Self>,
        open: Vec<BenchConnection>,
        rate: Option<f64>,
        time: Duration,
    ) -> anyhow::Result<(Vec<BenchConnection>, Vec<CallSample>)> {
        let (start, next) = (Instant::now(), Arc::new(AtomicU32::new(0)));
        let apart = rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
        let mut asking = JoinSet::new();
        for mut connection in open {
            let (load, next) = (Arc::clone(self), Arc::clone(&next));
            asking.spawn(async move {
                let mut all = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let due = apart.map_or_else(|| start.elapsed(), |apart| apart * number);
                    if time <= due || time <= start.elapsed() {
                        return anyhow::Ok((connection, all));
                    }
                    tokio::time::sleep_until((start + due).into()).await;
                    let request = &load.requests[number as usize % load.requests.len()];
                    let sent = Instant::now();
                    let (status, body) = connection.send_for_any_status(request).await?;
                    let came = classify_response(status, body);
                    let (at, took) = (start.elapsed(), sent.elapsed());
                    all.push(CallSample { due, answered_at: at, took, outcome: came });
                }
            });
        }
        let (mut open, mut all) = (Vec::new(), Vec::new());
        while let Some(asked) = asking.join_next().await {
            let (connection, answered) = asked??;
            open.push(connection);
            all.extend(answered);
        }
        all.sort_unstable_by_key(|answered| answered.due);
        Ok((open, all))
    }
}

/// The rate of calls that completed within the time.
pub(super) fn completed_per_second(answered: &[CallSample], time: Duration) -> f64 {
    let is_done = |answered: &&CallSample| {
        answered.outcome == LoadOutcome::Done && answered.answered_at <= time
    };
    answered.iter().filter(is_done).count() as f64 / time.as_secs_f64()
}

fn classify_response(status: u16, body: &[u8]) -> LoadOutcome {
    let says = |wanted: &[u8]| body.windows(wanted.len()).any(|some| some == wanted);
    match status {
        200 if !says(br#""isError":true"#) => LoadOutcome::Done,
        429 | 503 => LoadOutcome::Refused,
        200 if says(b"try again in") => LoadOutcome::Refused,
        _ => LoadOutcome::Failed,
    }
}
