//! Calls at a fixed rate, independent of the speed of the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{TIMES, USUAL};
use crate::bench::doors::wire::Connection;

/// Enough for all calls in flight at three times the maximum load.
const CONNECTIONS: usize = 2048;
/// Enough to keep a server and a source busy, but not more than may wait for admission.
const BUSY: usize = 96;
/// Shares of the throughput with few connections; one of them is close to the maximum with many connections.
const STEPS: [f64; 6] = [0.8, 0.88, 0.96, 1.04, 1.12, 1.2];
/// Niceness of the load thread, so that the servers go first.
const NICE: i32 = 10;
/// Number of overload rounds, because one result may be luck.
const ROUNDS: usize = 5;

pub(super) struct Load {
    pub(super) address: SocketAddr,
    pub(super) requests: Vec<Vec<u8>>,
}

/// Results at the maximum load, at half of it, at three times as much, and at half again.
pub(super) struct Round {
    /// Highest throughput at any offered load, in calls per second.
    pub(super) most: f64,
    pub(super) before: Vec<Answered>,
    pub(super) overload: Vec<Answered>,
    pub(super) after: Vec<Answered>,
}

/// The result of one call.
#[derive(Clone, Copy)]
pub(super) struct Answered {
    /// Scheduled start, since the start of the run.
    pub(super) due: Duration,
    /// Time of the answer, since the start of the run.
    pub(super) at: Duration,
    pub(super) took: Duration,
    pub(super) came: Came,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    Done,
    /// The server advised to retry later.
    Refused,
    Failed,
}

impl Load {
    /// Runs on its own thread with a low priority: the upstream shares the cores with the callers, and they must not
    /// slow it down.
    pub(super) fn run(self, time: Duration) -> anyhow::Result<Vec<Round>> {
        let asks = move || {
            rustix::process::setpriority_process(None, NICE)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(Arc::new(self).look(time))
        };
        let asks = std::thread::spawn(asks);
        tokio::task::block_in_place(|| asks.join().expect("what asks does not panic"))
    }

    async fn look(self: Arc<Self>, time: Duration) -> anyhow::Result<Vec<Round>> {
        let few = self.connect(BUSY).await?;
        let (few, _) = self.ask(few, None, time / 4).await?;
        let (few, busy) = self.ask(few, None, time).await?;
        drop(few);
        let about = done_in_a_second(&busy, time);
        // Many callers cost more than a few busy ones. So measure the maximum with the connections that are used
        // afterwards, and in every round, because the speed of the machine varies.
        let (mut many, mut rounds) = (self.connect(CONNECTIONS).await?, Vec::new());
        for _ in 0..ROUNDS {
            let mut most = 0.0_f64;
            for share in STEPS {
                let (again, asked) = self.ask(many, Some(about * share), time / 4).await?;
                (many, most) = (again, most.max(done_in_a_second(&asked, time / 4)));
            }
            let (again, before) = self.ask(many, Some(most * USUAL), time / 2).await?;
            let (again, overload) = self.ask(again, Some(most * TIMES), time).await?;
            let (again, after) = self.ask(again, Some(most * USUAL), time).await?;
            many = again;
            rounds.push(Round { most, before, overload, after });
        }
        Ok(rounds)
    }

    async fn connect(&self, number: usize) -> anyhow::Result<Vec<Connection>> {
        let mut open = Vec::new();
        for _ in 0..number {
            open.push(Connection::open(self.address).await?);
        }
        Ok(open)
    }

    /// Sends `rate` calls per second, or as many as possible.
    async fn ask(
        self: &Arc<Self>,
        open: Vec<Connection>,
        rate: Option<f64>,
        time: Duration,
    ) -> anyhow::Result<(Vec<Connection>, Vec<Answered>)> {
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
                    let (status, body) = connection.ask_anything(request).await?;
                    let came = came(status, body);
                    let (at, took) = (start.elapsed(), sent.elapsed());
                    all.push(Answered { due, at, took, came });
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
pub(super) fn done_in_a_second(answered: &[Answered], time: Duration) -> f64 {
    let is_done = |answered: &&Answered| answered.came == Came::Done && answered.at <= time;
    answered.iter().filter(is_done).count() as f64 / time.as_secs_f64()
}

fn came(status: u16, body: &[u8]) -> Came {
    let says = |wanted: &[u8]| body.windows(wanted.len()).any(|some| some == wanted);
    match status {
        200 if !says(br#""isError":true"#) => Came::Done,
        429 | 503 => Came::Refused,
        200 if says(b"try again in") => Came::Refused,
        _ => Came::Failed,
    }
}
