//! Writing the call log: a bounded queue, and one task that stores its rows, many rows with one commit.
//!
//! A call only puts a row into the queue. In strict mode the answer waits until the row is on disk, and calls are
//! rejected while rows cannot be stored.

mod recording;
mod redact;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use catalog::clock::Clock;
use catalog::journal::JournalError;
use catalog::record::{CallRecord, Records};
use jiff::SignedDuration;
use model::Agent;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::seal::random;
use crate::upstreams::parking::Parking;
use crate::upstreams::whose;

pub use recording::Via;
pub(crate) use recording::{Fate, Recording, Subject};

/// The most rows that wait to be stored.
const QUEUE: usize = 64 << 10;
/// How long to collect rows before they are stored.
const COLLECTED: Duration = Duration::from_millis(100);
/// The most rows in one commit.
const GROUP: usize = 4_096;
/// How long a call waits for space in the queue before its row is dropped.
const ROOM: Duration = Duration::from_secs(1);
/// How long an answer waits for its row in strict mode.
const STORED: Duration = Duration::from_secs(10);
/// The delay before rows are stored again after a failure.
const AGAIN: Duration = Duration::from_millis(500);
/// How long shutdown waits for the rows in the queue.
const LAST: Duration = Duration::from_secs(10);
/// The most calls of one caller that wait for its answer to a question.
const ASKING: usize = 64;
/// The interval at which old rows are removed.
const TIDY: Duration = Duration::from_secs(60 * 60);

/// How calls are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordOptions {
    /// Strict mode: an answer waits until its call is on disk.
    pub strict: bool,
    /// Whether arguments are recorded too, with likely secrets redacted.
    pub arguments: bool,
    /// How long rows are kept; without a limit if not set.
    pub keep: Option<SignedDuration>,
}

/// Records calls in the call log. Rows are stored until the last handle is dropped.
pub struct Recorder {
    records: Arc<dyn Records>,
    options: RecordOptions,
    /// Identifies this process in the log; different after each start.
    node: Arc<str>,
    queue: mpsc::Sender<Job>,
    state: Arc<State>,
    /// Calls that have asked their callers a question. A recording that is dropped there counts as cancelled.
    asking: Parking<Recording>,
}

/// State shared by both ends of the queue.
#[derive(Default)]
struct State {
    /// Whether the last attempt to store rows failed.
    failing: AtomicBool,
    /// How many rows were dropped, and how many stored.
    lost: AtomicU64,
    stored: AtomicU64,
    /// Whether the recorder is closing: rows are stored at once, and failures are not retried.
    closing: AtomicBool,
    hurry: Notify,
}

enum Job {
    Row(Box<CallRecord>, Option<oneshot::Sender<()>>),
    Flush(oneshot::Sender<()>),
}

/// The row could not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotRecorded;

impl Recorder {
    /// Starts the writer task. Requires a tokio runtime.
    pub fn start(records: Arc<dyn Records>, options: RecordOptions) -> Arc<Self> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let state = Arc::new(State::default());
        let writer = Writer {
            records: Arc::clone(&records),
            collected: if options.strict { Duration::ZERO } else { COLLECTED },
            state: Arc::clone(&state),
        };
        tokio::spawn(writer.work(jobs));
        let node = random().chars().take(12).collect::<String>().into();
        let asking = Parking::new(ASKING);
        Arc::new(Self { records, options, node, queue, state, asking })
    }

    /// The store of the call log.
    pub fn records(&self) -> &Arc<dyn Records> {
        &self.records
    }

    /// How many rows were dropped because the queue was full or the store rejected them.
    pub fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn stored(&self) -> u64 {
        self.state.stored.load(Ordering::Relaxed)
    }

    /// How many rows wait in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.state.failing.load(Ordering::Relaxed)
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.options.strict
    }

    /// Whether every call must be rejected now.
    pub(crate) fn refuses(&self) -> bool {
        self.options.strict && self.state.failing.load(Ordering::Relaxed)
    }

    /// Queues a row; waits for the disk in strict mode, and for space in the queue if it is full.
    async fn take(&self, row: Box<CallRecord>) -> Result<(), NotRecorded> {
        let (stored, done) = match self.options.strict {
            true => {
                let (stored, done) = oneshot::channel();
                (Some(stored), Some(done))
            }
            false => (None, None),
        };
        if let Err(mpsc::error::TrySendError::Full(job)) =
            self.queue.try_send(Job::Row(row, stored))
        {
            // While nothing can be stored, no space will become free.
            let is_hopeless = self.state.failing.load(Ordering::Relaxed);
            if is_hopeless || tokio::time::timeout(ROOM, self.queue.send(job)).await.is_err() {
                self.state.give_up(1, "the queue is full");
                return Err(NotRecorded);
            }
        }
        match done {
            None => Ok(()),
            Some(done) => match tokio::time::timeout(STORED, done).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(NotRecorded),
            },
        }
    }

    /// Queues a row without waiting.
    fn take_now(&self, row: Box<CallRecord>) {
        if self.queue.try_send(Job::Row(row, None)).is_err() {
            self.state.give_up(1, "the queue is full");
        }
    }

    /// Parks the recording of a call that has asked its caller a question, until the caller may return. Returns its id.
    pub(crate) fn asked(&self, agent: &Agent, recording: Recording) -> Box<str> {
        let id: Box<str> = random().into();
        for crowded_out in self.asking.put(id.clone(), whose(agent), recording.asking()) {
            crowded_out.crowd_out();
        }
        id
    }

    /// Discards the parked recording of a caller that has returned: its next call is recorded instead.
    pub(crate) fn answered(&self, agent: &Agent, id: &str) {
        if let Some(recording) = self.asking.take(id, &whose(agent), |_| true) {
            recording.forget();
        }
    }

    /// Waits until every row that was queued so far is stored or dropped.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.queue.send(Job::Flush(done)).await.is_ok() {
            self.state.hurry.notify_one();
            flushed.await.ok();
        }
    }

    /// Stores the rows in the queue, within seconds. Later rows are stored too, as far as time allows.
    pub async fn close(&self) {
        self.asking.clear();
        self.state.closing.store(true, Ordering::Release);
        self.state.hurry.notify_one();
        if tokio::time::timeout(LAST, self.flush()).await.is_err() {
            tracing::error!("calls could not be recorded in time: some rows are lost");
        }
    }

    /// Removes rows that are too old, for as long as it is polled.
    pub async fn keep_tidy(&self, clock: &dyn Clock) {
        let Some(keep) = self.options.keep else { return };
        loop {
            if let Ok(before) = clock.now().checked_sub(keep) {
                self.forget_before(before).await;
            }
            tokio::time::sleep(TIDY).await;
        }
    }

    async fn forget_before(&self, time: jiff::Timestamp) {
        loop {
            match self.records.forget_before(time).await {
                Ok(0) => return,
                Ok(removed) => tracing::debug!(removed, "old calls were removed from the record"),
                Err(error) => {
                    return tracing::warn!(%error, "old calls stay in the record: {error}");
                }
            }
        }
    }
}

impl State {
    /// Counts lost rows and logs the loss.
    fn give_up(&self, rows: usize, why: &str) {
        let before = self.lost.fetch_add(rows as u64, Ordering::Relaxed);
        // One log line per thousand lost rows is enough.
        if before == 0 || before / 1_000 != (before + rows as u64) / 1_000 {
            let lost = before + rows as u64;
            tracing::error!(lost, "calls are not recorded ({why}): {lost} so far");
        }
    }
}

/// The task that stores rows.
struct Writer {
    records: Arc<dyn Records>,
    collected: Duration,
    state: Arc<State>,
}

impl Writer {
    async fn work(self, mut jobs: mpsc::Receiver<Job>) {
        let mut taken = Vec::new();
        while 0 < jobs.recv_many(&mut taken, GROUP).await {
            // Rows that are queued during this delay do not wake the task.
            if !self.collected.is_zero() && !self.state.closing.load(Ordering::Acquire) {
                tokio::select! {
                    () = tokio::time::sleep(self.collected) => {}
                    () = self.state.hurry.notified() => {}
                }
            }
            while taken.len() < GROUP
                && let Ok(job) = jobs.try_recv()
            {
                taken.push(job);
            }
            let (mut rows, mut stored, mut flushed) = (Vec::new(), Vec::new(), Vec::new());
            for job in taken.drain(..) {
                match job {
                    Job::Row(row, waits) => {
                        rows.push(*row);
                        stored.extend(waits);
                    }
                    Job::Flush(waits) => flushed.push(waits),
                }
            }
            if rows.is_empty() || self.store(rows.into()).await {
                tell(stored);
            }
            tell(flushed);
        }
    }

    /// Stores rows, with retries; returns whether all of them are stored.
    async fn store(&self, rows: Arc<[CallRecord]>) -> bool {
        loop {
            let error = match self.records.store(Arc::clone(&rows)).await {
                Ok(()) => {
                    self.state.failing.store(false, Ordering::Relaxed);
                    self.state.stored.fetch_add(rows.len() as u64, Ordering::Relaxed);
                    return true;
                }
                Err(error) => error,
            };
            // The store rejected one of the rows for good: store each on its own.
            if let JournalError::Refused { .. } = error {
                if let [_] = &*rows {
                    self.state.give_up(1, &error.to_string());
                    return false;
                }
                let mut all = true;
                for row in &*rows {
                    all &= Box::pin(self.store(Arc::new([row.clone()]))).await;
                }
                return all;
            }
            if !self.state.failing.swap(true, Ordering::Relaxed) {
                tracing::error!(%error, "calls cannot be recorded: {error}");
            }
            if self.state.closing.load(Ordering::Acquire) {
                self.state.give_up(rows.len(), "the server stops");
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = self.state.hurry.notified() => {}
            }
        }
    }
}

/// Notifies waiting calls; a caller that went away is ignored.
fn tell(waiting: Vec<oneshot::Sender<()>>) {
    for waits in waiting {
        waits.send(()).ok();
    }
}

#[cfg(test)]
mod tests;
