//! Writing the call log: a bounded queue, and one task that stores its rows, many rows with one commit.
//!
//! A call only puts a row into the queue. In strict mode the answer waits until the row is on disk, and calls are
//! rejected while rows cannot be stored.

mod redacted_arguments;
mod running_recording;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use call_log::{CallLog, CallRecord};
use catalog::clock::Clock;
use catalog::journal::JournalError;
use jiff::SignedDuration;
use model::Agent;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::parking_lot::ParkingLot;
use crate::principal::principal_key;
use crate::state_cipher::random_id;

pub use running_recording::CallOrigin;
pub use running_recording::{CallRecording, CallSubject, RecordedOutcome};

/// The most rows that wait to be stored.
const QUEUE_LENGTH: usize = 64 << 10;
/// How long to collect rows before they are stored.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// The most rows in one commit.
const BATCH_ROWS: usize = 4_096;
/// How long a call waits for space in the queue before its row is dropped.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an answer waits for its row in strict mode.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay before rows are stored again after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// How long shutdown waits for the rows in the queue.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most calls of one caller that wait for its answer to a question.
const MAX_PARKED_CALLS: usize = 64;
/// The interval at which old rows are removed.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How calls are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLogOptions {
    /// Strict mode: an answer waits until its call is on disk.
    pub strict: bool,
    /// Whether arguments are recorded too, with likely secrets redacted.
    pub arguments: bool,
    /// How long rows are kept; without a limit if not set.
    pub keep: Option<SignedDuration>,
}

/// Records calls in the call log. Rows are stored until the last handle is dropped.
pub struct CallRecorder {
    records: Arc<dyn CallLog>,
    options: CallLogOptions,
    /// Identifies this process in the log; different after each start.
    node: Arc<str>,
    queue: mpsc::Sender<RecorderJob>,
    state: Arc<RecorderState>,
    /// Calls that have asked their callers a question. A recording that is dropped there counts as cancelled.
    parked: ParkingLot<CallRecording>,
}

/// State shared by both ends of the queue.
#[derive(Default)]
struct RecorderState {
    /// Whether the last attempt to store rows failed.
    is_failing: AtomicBool,
    /// How many rows were dropped, and how many stored.
    lost: AtomicU64,
    stored: AtomicU64,
    /// Whether the recorder is closing: rows are stored at once, and failures are not retried.
    is_closing: AtomicBool,
    flush_now: Notify,
}

enum RecorderJob {
    Row(Box<CallRecord>, Option<oneshot::Sender<()>>),
    Flush(oneshot::Sender<()>),
}

/// The row could not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingFailed;

impl CallRecorder {
    /// Starts the writer task. Requires a tokio runtime.
    pub fn start(records: Arc<dyn CallLog>, options: CallLogOptions) -> Arc<Self> {
        let (queue, jobs) = mpsc::channel(QUEUE_LENGTH);
        let state = Arc::new(RecorderState::default());
        let writer = CallLogWriter {
            records: Arc::clone(&records),
            batch_delay: if options.strict { Duration::ZERO } else { BATCH_DELAY },
            state: Arc::clone(&state),
        };
        tokio::spawn(writer.run(jobs));
        let node = random_id().chars().take(12).collect::<String>().into();
        let asking = ParkingLot::new(MAX_PARKED_CALLS);
        Arc::new(Self { records, options, node, queue, state, parked: asking })
    }

    /// The store of the call log.
    pub fn records(&self) -> &Arc<dyn CallLog> {
        &self.records
    }

    /// How many rows were dropped because the queue was full or the store rejected them.
    pub fn lost_rows(&self) -> u64 {
        self.state.lost.load(Ordering::Relaxed)
    }

    pub fn stored_rows(&self) -> u64 {
        self.state.stored.load(Ordering::Relaxed)
    }

    /// How many rows wait in the queue.
    pub fn queued_rows(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    pub fn is_failing(&self) -> bool {
        self.state.is_failing.load(Ordering::Relaxed)
    }

    pub fn is_strict(&self) -> bool {
        self.options.strict
    }

    /// Whether every call must be rejected now.
    pub fn refuses_calls(&self) -> bool {
        self.options.strict && self.state.is_failing.load(Ordering::Relaxed)
    }

    /// Queues a row; waits for the disk in strict mode, and for space in the queue if it is full.
    async fn record_row(&self, row: Box<CallRecord>) -> Result<(), RecordingFailed> {
        let (stored, done) = match self.options.strict {
            true => {
                let (stored, done) = oneshot::channel();
                (Some(stored), Some(done))
            }
            false => (None, None),
        };
        if let Err(mpsc::error::TrySendError::Full(job)) =
            self.queue.try_send(RecorderJob::Row(row, stored))
        {
            // While nothing can be stored, no space will become free.
            let is_hopeless = self.state.is_failing.load(Ordering::Relaxed);
            if is_hopeless
                || tokio::time::timeout(QUEUE_TIMEOUT, self.queue.send(job)).await.is_err()
            {
                self.state.count_lost(1, "the queue is full");
                return Err(RecordingFailed);
            }
        }
        match done {
            None => Ok(()),
            Some(done) => match tokio::time::timeout(STORE_TIMEOUT, done).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(RecordingFailed),
            },
        }
    }

    /// Queues a row without waiting.
    fn record_row_now(&self, row: Box<CallRecord>) {
        if self.queue.try_send(RecorderJob::Row(row, None)).is_err() {
            self.state.count_lost(1, "the queue is full");
        }
    }

    /// Parks the recording of a call that has asked its caller a question, until the caller may return. Returns its id.
    pub fn park_recording(&self, agent: &Agent, recording: CallRecording) -> Box<str> {
        let id: Box<str> = random_id().into();
        for crowded_out in
            self.parked.park(id.clone(), principal_key(agent), recording.awaiting_caller())
        {
            crowded_out.finish_evicted();
        }
        id
    }

    /// Discards the parked recording of a caller that has returned: its next call is recorded instead.
    pub fn discard_parked(&self, agent: &Agent, id: &str) {
        if let Some(recording) = self.parked.take_parked(id, &principal_key(agent), |_| true) {
            recording.discard();
        }
    }

    /// Waits until every row that was queued so far is stored or dropped.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.queue.send(RecorderJob::Flush(done)).await.is_ok() {
            self.state.flush_now.notify_one();
            flushed.await.ok();
        }
    }

    /// Stores the rows in the queue, within seconds. Later rows are stored too, as far as time allows.
    pub async fn close(&self) {
        self.parked.clear();
        self.state.is_closing.store(true, Ordering::Release);
        self.state.flush_now.notify_one();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.flush()).await.is_err() {
            tracing::error!("calls could not be recorded in time: some rows are lost");
        }
    }

    /// Removes rows that are too old, for as long as it is polled.
    pub async fn keep_pruned(&self, clock: &dyn Clock) {
        let Some(keep) = self.options.keep else { return };
        loop {
            if let Ok(before) = clock.now().checked_sub(keep) {
                self.prune_before(before).await;
            }
            tokio::time::sleep(PRUNE_INTERVAL).await;
        }
    }

    async fn prune_before(&self, time: jiff::Timestamp) {
        loop {
            match self.records.remove_before(time).await {
                Ok(0) => return,
                Ok(removed) => tracing::debug!(removed, "old calls were removed from the record"),
                Err(error) => {
                    return tracing::warn!(%error, "old calls stay in the record: {error}");
                }
            }
        }
    }
}

impl RecorderState {
    /// Counts lost rows and logs the loss.
    fn count_lost(&self, rows: usize, why: &str) {
        let before = self.lost.fetch_add(rows as u64, Ordering::Relaxed);
        // One log line per thousand lost rows is enough.
        if before == 0 || before / 1_000 != (before + rows as u64) / 1_000 {
            let lost = before + rows as u64;
            tracing::error!(lost, "calls are not recorded ({why}): {lost} so far");
        }
    }
}

/// The task that stores rows.
struct CallLogWriter {
    records: Arc<dyn CallLog>,
    batch_delay: Duration,
    state: Arc<RecorderState>,
}

impl CallLogWriter {
    async fn run(self, mut jobs: mpsc::Receiver<RecorderJob>) {
        let mut taken = Vec::new();
        while 0 < jobs.recv_many(&mut taken, BATCH_ROWS).await {
            // Rows that are queued during this delay do not wake the task.
            if !self.batch_delay.is_zero() && !self.state.is_closing.load(Ordering::Acquire) {
                tokio::select! {
                    () = tokio::time::sleep(self.batch_delay) => {}
                    () = self.state.flush_now.notified() => {}
                }
            }
            while taken.len() < BATCH_ROWS
                && let Ok(job) = jobs.try_recv()
            {
                taken.push(job);
            }
            let (mut rows, mut stored, mut flushed) = (Vec::new(), Vec::new(), Vec::new());
            for job in taken.drain(..) {
                match job {
                    RecorderJob::Row(row, waits) => {
                        rows.push(*row);
                        stored.extend(waits);
                    }
                    RecorderJob::Flush(waits) => flushed.push(waits),
                }
            }
            if rows.is_empty() || self.store_rows(rows.into()).await {
                notify_waiters(stored);
            }
            notify_waiters(flushed);
        }
    }

    /// Stores rows, with retries; returns whether all of them are stored.
    async fn store_rows(&self, rows: Arc<[CallRecord]>) -> bool {
        loop {
            let error = match self.records.store_calls(Arc::clone(&rows)).await {
                Ok(()) => {
                    self.state.is_failing.store(false, Ordering::Relaxed);
                    self.state.stored.fetch_add(rows.len() as u64, Ordering::Relaxed);
                    return true;
                }
                Err(error) => error,
            };
            // The store rejected one of the rows for good: store each on its own.
            if let JournalError::Refused { .. } = error {
                if let [_] = &*rows {
                    self.state.count_lost(1, &error.to_string());
                    return false;
                }
                let mut all = true;
                for row in &*rows {
                    all &= Box::pin(self.store_rows(Arc::new([row.clone()]))).await;
                }
                return all;
            }
            if !self.state.is_failing.swap(true, Ordering::Relaxed) {
                tracing::error!(%error, "calls cannot be recorded: {error}");
            }
            if self.state.is_closing.load(Ordering::Acquire) {
                self.state.count_lost(rows.len(), "the server stops");
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_DELAY) => {}
                () = self.state.flush_now.notified() => {}
            }
        }
    }
}

/// Notifies waiting calls; a caller that went away is ignored.
fn notify_waiters(waiting: Vec<oneshot::Sender<()>>) {
    for waits in waiting {
        waits.send(()).ok();
    }
}

#[cfg(test)]
mod tests;
