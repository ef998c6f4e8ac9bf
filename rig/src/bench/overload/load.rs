//! Calls that are due at a rate of their own, however the server is doing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{TIMES, USUAL};
use crate::bench::doors::wire::Connection;

/// Enough for whatever is on its way at once, three times too much of it.
const CONNECTIONS: usize = 2048;
/// Enough to keep a server and a source busy, and no more than are let wait.
const BUSY: usize = 96;
/// Shares of what it can do for a few, one of which is about the most it can do for many.
const STEPS: [f64; 6] = [0.8, 0.88, 0.96, 1.04, 1.12, 1.2];
/// How much others go first.
const NICE: i32 = 10;
/// How often it is overloaded, since once may be luck.
const ROUNDS: usize = 5;

pub(super) struct Load {
    pub(super) address: SocketAddr,
    pub(super) requests: Vec<Vec<u8>>,
}

/// The most it can do, half of it, three times as much, and half of it again.
pub(super) struct Round {
    /// The most calls it did in a second, whatever it was asked.
    pub(super) most: f64,
    pub(super) before: Vec<Answered>,
    pub(super) overload: Vec<Answered>,
    pub(super) after: Vec<Answered>,
}

/// A call that was answered.
#[derive(Clone, Copy)]
pub(super) struct Answered {
    /// When it was to be asked, since the start.
    pub(super) due: Duration,
    /// When it was answered, since the start.
    pub(super) at: Duration,
    pub(super) took: Duration,
    pub(super) came: Came,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    Done,
    /// It was told to come again.
    Refused,
    Failed,
}

impl Load {
    /// On a thread of its own, before which others go: the upstream is on the same cores, and is not to be slow because of those
    /// who ask.
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
        // Callers who are many cost more than a few who are always busy: what it can do is seen with those who will come,
        // and in every round, as machines are not always as fast.
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

    /// So many in a second, or as many as there can be.
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

/// What was done within the time, not after it.
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
