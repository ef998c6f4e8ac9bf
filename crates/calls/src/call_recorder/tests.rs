//! The queue and its task: which calls wait, which rows are dropped, and that every loss is logged.

use std::sync::Mutex;

use call_log::{
    CallFilter, CallLogRow, ChainBounds, FinalCallStatus, MemoryCallLog, UsageKind, UsagePage,
    UsageTotals,
};
use catalog::journal::JournalFuture;
use jiff::Timestamp;
use model::{Agent, Claims, McpPrimitive};
use serde_json::Map;

use super::*;

/// A store that can be made to fail, and counts its commits.
#[derive(Default)]
struct Moody {
    inner: MemoryCallLog,
    fails: AtomicBool,
    steps: AtomicU64,
    held: tokio::sync::Mutex<()>,
}

impl CallLog for Moody {
    fn store_calls(&self, calls: Arc<[CallRecord]>) -> JournalFuture<'_, ()> {
        Box::pin(async move {
            let _turn = self.held.lock().await;
            self.steps.fetch_add(1, Ordering::Relaxed);
            if self.fails.load(Ordering::Relaxed) {
                return Err(JournalError::Full { place: "here".to_owned() });
            }
            self.inner.store_calls(calls).await
        })
    }

    fn read_rows(&self, filter: CallFilter) -> JournalFuture<'_, Vec<CallLogRow>> {
        self.inner.read_rows(filter)
    }

    fn usage_totals(
        &self,
        of: UsageKind,
        names: Vec<String>,
    ) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        self.inner.usage_totals(of, names)
    }

    fn most_used(&self, page: UsagePage) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        self.inner.most_used(page)
    }

    fn chain_bounds(&self) -> JournalFuture<'_, ChainBounds> {
        self.inner.chain_bounds()
    }

    fn remove_before(&self, time: Timestamp) -> JournalFuture<'_, u64> {
        self.inner.remove_before(time)
    }
}

fn started(strict: bool) -> (Arc<Moody>, Arc<CallRecorder>) {
    let records = Arc::new(Moody::default());
    let options = CallLogOptions { strict, ..CallLogOptions::default() };
    (Arc::clone(&records), CallRecorder::start(records, options))
}

fn begun(recorder: &Arc<CallRecorder>) -> CallRecording {
    let claims = Arc::new(Claims::from(Map::new()));
    let agent = Agent::new("ada", claims);
    let what = CallSubject { kind: McpPrimitive::Tool, tool_id: Some("a:x"), source_id: Some("a") };
    let time = "2026-05-01T09:00:00Z".parse().unwrap();
    CallRecording::begin(recorder, time, &agent, &CallOrigin::default(), &what, None)
}

async fn rows(records: &Moody) -> Vec<CallRecord> {
    let filter = CallFilter { limit: 100_000, oldest_first: true, ..CallFilter::default() };
    let rows = records.read_rows(filter).await.unwrap();
    rows.iter().map(|row| row.parse_call().unwrap().call).collect()
}

#[tokio::test(start_paused = true)]
async fn many_calls_share_a_commit_and_none_waits_for_it() {
    let (records, recorder) = started(false);
    let held = records.held.lock().await;
    for _ in 0..1_000 {
        begun(&recorder).finish(RecordedOutcome::completed(1), None).await.unwrap();
    }
    drop(held);
    recorder.flush().await;
    assert_eq!(rows(&records).await.len(), 1_000);
    assert!(records.steps.load(Ordering::Relaxed) <= 2);
}

#[tokio::test(start_paused = true)]
async fn in_strict_mode_an_answer_waits_for_the_disk() {
    let (records, recorder) = started(true);
    let held = records.held.lock().await;
    let ending = begun(&recorder).finish(RecordedOutcome::completed(1), None);
    let mut ending = std::pin::pin!(ending);
    let soon = Duration::from_secs(1);
    assert!(tokio::time::timeout(soon, ending.as_mut()).await.is_err());
    drop(held);
    ending.await.unwrap();
    assert_eq!(rows(&records).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_strict_recorder_refuses_calls_while_it_cannot_store_and_recovers_by_itself() {
    let (records, recorder) = started(true);
    records.fails.store(true, Ordering::Relaxed);
    assert!(!recorder.refuses_calls());
    assert_eq!(
        begun(&recorder).finish(RecordedOutcome::completed(1), None).await,
        Err(RecordingFailed)
    );
    assert!(recorder.refuses_calls());
    records.fails.store(false, Ordering::Relaxed);
    recorder.flush().await;
    assert!(!recorder.refuses_calls());
    assert_eq!((rows(&records).await.len(), recorder.lost_rows()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_recording_is_cancelled_and_a_discarded_one_is_not_recorded() {
    let (records, recorder) = started(false);
    drop(begun(&recorder));
    begun(&recorder).discard();
    recorder.flush().await;
    let rows = rows(&records).await;
    assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), [FinalCallStatus::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn rows_without_space_are_counted_and_calls_do_not_wait_indefinitely() {
    let (records, recorder) = started(false);
    records.fails.store(true, Ordering::Relaxed);
    let mut given_up = 0;
    for _ in 0..QUEUE_LENGTH + BATCH_ROWS + 3 {
        given_up +=
            u64::from(begun(&recorder).finish(RecordedOutcome::completed(1), None).await.is_err());
        if given_up == 2 {
            break;
        }
    }
    assert_eq!((given_up, recorder.lost_rows()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn closing_stores_the_remaining_rows_and_does_not_wait_for_a_broken_disk() {
    let (records, recorder) = started(false);
    begun(&recorder).finish(RecordedOutcome::completed(1), None).await.unwrap();
    recorder.close().await;
    assert_eq!(rows(&records).await.len(), 1);
    records.fails.store(true, Ordering::Relaxed);
    begun(&recorder).finish(RecordedOutcome::completed(1), None).await.unwrap();
    recorder.close().await;
    assert_eq!(recorder.lost_rows(), 1);
}

#[tokio::test(start_paused = true)]
async fn old_rows_are_removed_automatically() {
    let records = Arc::new(Moody::default());
    let keep = Some(SignedDuration::from_hours(24));
    let options = CallLogOptions { keep, ..CallLogOptions::default() };
    let recorder = CallRecorder::start(records.clone(), options);
    for _ in 0..3 {
        begun(&recorder).finish(RecordedOutcome::completed(1), None).await.unwrap();
    }
    recorder.flush().await;
    let now = Mutex::new("2026-05-02T08:59:00Z".parse::<Timestamp>().unwrap());
    let clock = At(&now);
    let tidy = recorder.keep_pruned(&clock);
    let mut tidy = std::pin::pin!(tidy);
    let soon = Duration::from_secs(60);
    assert!(tokio::time::timeout(soon, tidy.as_mut()).await.is_err());
    assert_eq!(rows(&records).await.len(), 3);
    *now.lock().unwrap() = "2026-05-02T09:00:01Z".parse().unwrap();
    assert!(tokio::time::timeout(PRUNE_INTERVAL, tidy.as_mut()).await.is_err());
    // The newest row remains: it shows how old the others were.
    assert_eq!(rows(&records).await.len(), 1);
}

struct At<'a>(&'a Mutex<Timestamp>);

impl Clock for At<'_> {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn long_subjects_stay_different_and_messages_are_short() {
    let (records, recorder) = started(false);
    let what = CallSubject { kind: McpPrimitive::Tool, tool_id: None, source_id: None };
    for end in ["a", "b"] {
        let claims = Arc::new(Claims::from(Map::new()));
        let agent = Agent::new(format!("{}{end}", "x".repeat(9_000)), claims);
        let time = "2026-05-01T09:00:00Z".parse().unwrap();
        let begun =
            CallRecording::begin(&recorder, time, &agent, &CallOrigin::default(), &what, None);
        let fate = RecordedOutcome::failed(model::ErrorCode::UpstreamError, &"no\0\n".repeat(500));
        begun.finish(fate, None).await.unwrap();
    }
    recorder.flush().await;
    let rows = rows(&records).await;
    assert_ne!(rows[0].subject, rows[1].subject);
    assert!(rows[0].subject.len() <= 200);
    assert_eq!(rows[0].error.as_deref(), Some("no"));
}
