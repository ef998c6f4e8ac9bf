//! The running catalog of a node: executes commands, folds the journal and hands out snapshots.
//!
//! The projector is a reconciler: a signal or a timer wakes it, and it reads and folds all events after its position.
//! The signal carries no data, so start, second node and lost signals share one code path. A command returns when the
//! snapshot shows its events.

mod command_batch;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use limits::instruments::{Counter, DURATION_BOUNDS, Histogram};
use model::{Digest, RawJson, SchemaDocument};
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::checkpoint;
use crate::command::Command;
use crate::command_refusal::CommandRefusal;
use crate::journal::{
    AppendOutcome, AppendRequest, ChangeContext, IdempotencyEntry, Journal, JournalError, Position,
    WAKE_UP_AT_LEAST_EVERY,
};
use crate::snapshot::Snapshot;
use crate::snapshot_fold::SnapshotFold;

pub use self::command_batch::{CommandPlan, RefusedCommand};

/// Attempts to decide a command when other writers keep changing its stream.
const CONFLICT_ATTEMPTS: usize = 10;
/// Upper bound for commands on different streams that run concurrently.
const COMMAND_LOCKS: usize = 256;
/// Events between two checkpoints.
const CHECKPOINT_EVERY: u64 = 10_000;
/// Events since the last checkpoint that justify another one when the catalog is closed.
const CHECKPOINT_AT_CLOSE: u64 = 500;
/// Events read from the journal in one call.
const READ_BATCH: usize = 2_000;
/// How long a command waits for the snapshot to reach a stored position.
const VISIBLE_WITHIN: Duration = Duration::from_secs(10);

/// The catalog of one node.
pub struct Catalog {
    shared: Arc<CatalogState>,
    command_locks: Vec<Mutex<()>>,
    hasher: RandomState,
    projector: JoinHandle<()>,
    append_metrics: AppendMetrics,
}

struct CatalogState {
    journal: Arc<dyn Journal>,
    snapshot: ArcSwap<Snapshot>,
    visible_position: watch::Sender<Position>,
    /// Position of the last checkpoint; locked while one is being stored.
    checkpoint_position: Mutex<Position>,
    recent_documents: RecentDocuments,
    /// When the snapshot last reached the head of the journal.
    current_at: std::sync::Mutex<Instant>,
}

/// Documents that this node is storing right now: the fold need not read them back from the journal.
#[derive(Default)]
pub(crate) struct RecentDocuments(std::sync::Mutex<HashMap<Digest, RawJson>>);

impl RecentDocuments {
    fn lock_documents(&self) -> MutexGuard<'_, HashMap<Digest, RawJson>> {
        self.0.lock().expect("no one panics while holding the documents")
    }

    /// Keeps the documents available until the returned guard is dropped.
    fn hold_documents(&self, documents: &[SchemaDocument]) -> RecentDocumentsGuard<'_> {
        let entry = |document: &SchemaDocument| (document.digest, document.text.clone());
        self.lock_documents().extend(documents.iter().map(entry));
        RecentDocumentsGuard {
            recent: self,
            digests: documents.iter().map(|document| document.digest).collect(),
        }
    }

    pub(crate) fn find(&self, digest: &Digest) -> Option<RawJson> {
        self.lock_documents().get(digest).cloned()
    }
}

struct RecentDocumentsGuard<'a> {
    recent: &'a RecentDocuments,
    digests: Vec<Digest>,
}

impl Drop for RecentDocumentsGuard<'_> {
    fn drop(&mut self) {
        let mut documents = self.recent.lock_documents();
        self.digests.iter().for_each(|digest| drop(documents.remove(digest)));
    }
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutedCommand {
    /// Position of the last event of the command, or of the snapshot if the command changed nothing.
    pub position: Position,
    /// The result for the caller.
    pub answer: Value,
    /// True if the same command was executed before under the same idempotency key.
    pub repeated: bool,
}

/// Why a command was not executed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A rule forbids the command.
    #[error(transparent)]
    Refused(#[from] CommandRefusal),
    /// Other writers changed the stream at every attempt.
    #[error("`{stream}` is being changed by others: try again")]
    Busy { stream: String },
    /// The command is stored, but this node's snapshot has not reached it in time.
    #[error("the change is stored at position {position}, but this node does not show it yet")]
    SnapshotBehind {
        /// Position of the last event of the command.
        position: Position,
    },
    /// The journal could not store the command.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Counts and durations of the appends of this node.
#[derive(Debug)]
pub struct AppendMetrics {
    /// Stored, now or earlier under the same idempotency key.
    pub stored: Counter,
    /// Another writer changed the stream first; the command is decided again.
    pub conflicts: Counter,
    /// Failed; some of them may be stored nevertheless.
    pub failed: Counter,
    /// Duration of each append, whatever its outcome.
    pub times: Histogram,
}

impl AppendMetrics {
    fn new() -> Self {
        let [stored, conflicts, failed] = Default::default();
        Self { stored, conflicts, failed, times: Histogram::new(&DURATION_BOUNDS) }
    }
}

/// An idempotency key, qualified by the actor, and the digest of its request.
struct IdempotentRequest {
    key: Box<str>,
    request: Digest,
}

/// A point in the history of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMoment {
    /// After the event at this position.
    Position(Position),
    /// After the last event recorded at or before this time.
    Time(Timestamp),
}

impl Catalog {
    /// Folds the journal and keeps the snapshot up to date in the background.
    pub async fn open(journal: Arc<dyn Journal>) -> Result<Self, JournalError> {
        let mut fold = checkpoint::load_checkpoint(&*journal).await?;
        let from_checkpoint = fold.position();
        let head = journal.head_position().await?;
        catch_up(&*journal, &mut fold, head).await?;
        let snapshot = Arc::new(fold.snapshot().clone());
        let shown = watch::Sender::new(snapshot.position());
        let (snapshot, saved) = (ArcSwap::new(snapshot), Mutex::new(from_checkpoint));
        let recent = RecentDocuments::default();
        let current_at = std::sync::Mutex::new(Instant::now());
        let shared = Arc::new(CatalogState {
            journal,
            snapshot,
            visible_position: shown,
            checkpoint_position: saved,
            recent_documents: recent,
            current_at,
        });
        let projector = tokio::spawn(run_projector(Arc::clone(&shared), fold));
        let lanes = (0..COMMAND_LOCKS).map(|_| Mutex::new(())).collect();
        let (hasher, appends) = (RandomState::new(), AppendMetrics::new());
        Ok(Self { shared, command_locks: lanes, hasher, projector, append_metrics: appends })
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot.load_full()
    }

    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.shared.journal
    }

    /// Notifies about each new position of the snapshot.
    pub fn subscribe(&self) -> watch::Receiver<Position> {
        self.shared.visible_position.subscribe()
    }

    /// Counts and durations of the appends of this node since the catalog was opened.
    pub fn append_metrics(&self) -> &AppendMetrics {
        &self.append_metrics
    }

    /// Appends to the journal and measures it.
    async fn append_measured(&self, append: AppendRequest) -> Result<AppendOutcome, JournalError> {
        let start = Instant::now();
        let appended = self.shared.journal.append(append).await;
        let AppendMetrics { stored, conflicts, failed, times } = &self.append_metrics;
        times.record_duration(start.elapsed());
        match &appended {
            Ok(_) => stored.increment(),
            Err(JournalError::Conflict { .. }) => conflicts.increment(),
            Err(_) => failed.increment(),
        }
        appended
    }

    /// Time since the snapshot last reached the head of the journal. The projector checks every second, so several
    /// seconds mean that the journal cannot be read or that this node cannot keep up.
    pub fn time_behind(&self) -> Duration {
        self.shared.current_at().elapsed()
    }

    /// Checks that the journal accepts appends, by appending nothing.
    pub async fn check_writable(&self) -> Result<(), JournalError> {
        self.shared.journal.append(AppendRequest::default()).await.map(drop)
    }

    /// Waits until the snapshot has reached a position. Fails after 10 s.
    pub async fn wait_until_visible(&self, position: Position) -> Result<(), CommandError> {
        let mut shown = self.shared.visible_position.subscribe();
        let reached = shown.wait_for(|shown| position <= *shown);
        match tokio::time::timeout(VISIBLE_WITHIN, reached).await {
            Ok(_) => Ok(()),
            Err(_) => Err(CommandError::SnapshotBehind { position }),
        }
    }

    /// Executes a command. With an idempotency key, the same command is executed at most once.
    pub async fn execute(
        &self,
        command: Command,
        context: ChangeContext,
        key: Option<&str>,
    ) -> Result<ExecutedCommand, CommandError> {
        self.execute_if(command, |_| Ok(()), context, key).await
    }

    /// Executes a command if a condition on its main aggregate still holds when it is stored.
    pub async fn execute_if(
        &self,
        command: Command,
        condition: impl Fn(&Snapshot) -> Result<(), CommandRefusal> + Send,
        context: ChangeContext,
        key: Option<&str>,
    ) -> Result<ExecutedCommand, CommandError> {
        // An actor contains no line break, so two actors cannot share a key.
        let asked = key.map(|key| IdempotentRequest {
            key: format!("{}\n{key}", context.actor).into(),
            request: command.request_digest(),
        });
        let stream = command.main_stream();
        // Commands on one stream run one after the other on this node, which makes conflicts rare.
        let lane = (self.hasher.hash_one(&stream) % COMMAND_LOCKS as u64) as usize;
        let _turn = self.command_locks[lane].lock().await;
        let mut is_sure = false;
        for _ in 0..CONFLICT_ATTEMPTS {
            if let Some(asked) = &asked
                && let Some(before) = self.find_previous_result(asked).await?
            {
                return Ok(before);
            }
            let snapshot = self.snapshot();
            let decision = condition(&snapshot).and_then(|()| command.decide(&snapshot));
            // The snapshot may be stale: before the command is rejected or skipped, catch up with the journal once.
            if !is_sure && decision.as_ref().map_or(true, |decision| decision.streams.is_empty()) {
                is_sure = true;
                let head = self.shared.journal.head_position().await?;
                if snapshot.position() < head {
                    self.wait_until_visible(head).await?;
                    continue;
                }
            }
            let decision = decision?;
            if decision.streams.is_empty() && asked.is_none() {
                let (position, answer) = (snapshot.position(), decision.answer);
                return Ok(ExecutedCommand { position, answer, repeated: false });
            }
            let once = asked.as_ref().map(|asked| IdempotencyEntry {
                key: asked.key.clone(),
                request: asked.request,
                answer: decision.answer.to_string().into(),
            });
            let (streams, documents) = (decision.streams, decision.documents);
            let append =
                AppendRequest { streams, documents, context: context.clone(), idempotency: once };
            let _kept = self.shared.recent_documents.hold_documents(&append.documents);
            match self.append_measured(append).await {
                Ok(AppendOutcome::Stored(position)) => {
                    self.wait_until_visible(position).await?;
                    let answer = decision.answer;
                    return Ok(ExecutedCommand { position, answer, repeated: false });
                }
                Ok(AppendOutcome::AlreadyStored(answer)) => {
                    return self.repeat_result(&answer.answer, answer.position).await;
                }
                Err(JournalError::Conflict { .. }) => {
                    self.wait_until_visible(self.shared.journal.head_position().await?).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommandError::Busy { stream: stream.to_string() })
    }

    /// The result of the same command if it was executed before.
    async fn find_previous_result(
        &self,
        asked: &IdempotentRequest,
    ) -> Result<Option<ExecutedCommand>, CommandError> {
        let Some(answer) = self.shared.journal.find_answer(asked.key.to_string()).await? else {
            return Ok(None);
        };
        if answer.request != asked.request {
            return Err(JournalError::KeyReused { key: asked.key.to_string() }.into());
        }
        self.repeat_result(&answer.answer, answer.position).await.map(Some)
    }

    async fn repeat_result(
        &self,
        answer: &str,
        position: Position,
    ) -> Result<ExecutedCommand, CommandError> {
        self.wait_until_visible(position).await?;
        let answer = serde_json::from_str(answer).unwrap_or_default();
        Ok(ExecutedCommand { position, answer, repeated: true })
    }

    /// Stores a checkpoint of the current snapshot.
    pub async fn checkpoint_now(&self) -> Result<(), JournalError> {
        self.shared.store_checkpoint_if_due(0).await
    }

    /// Stops folding, stores a checkpoint if enough events have passed, and releases the journal.
    pub async fn close(mut self) {
        self.projector.abort();
        // The task stops at its next await point; its result does not matter.
        (&mut self.projector).await.ok();
        if let Err(error) = self.shared.store_checkpoint_if_due(CHECKPOINT_AT_CLOSE).await {
            tracing::warn!(%error, "no checkpoint could be stored");
        }
    }

    /// The snapshot that these commands, one after the other, would lead to. Nothing is stored.
    pub async fn what_if(
        &self,
        snapshot: &Snapshot,
        commands: &[Command],
    ) -> Result<Snapshot, CommandError> {
        match self.plan_commands(snapshot, commands).await {
            Ok(supposed) => Ok(supposed.snapshot),
            Err(refused) => Err(refused.error),
        }
    }

    /// The snapshot at an earlier moment.
    pub async fn snapshot_at(&self, moment: JournalMoment) -> Result<Snapshot, JournalError> {
        snapshot_at(&*self.shared.journal, moment).await
    }
}

impl Drop for Catalog {
    fn drop(&mut self) {
        self.projector.abort();
    }
}

/// The snapshot at a moment, folded from the start of the journal.
pub async fn snapshot_at(
    journal: &dyn Journal,
    moment: JournalMoment,
) -> Result<Snapshot, JournalError> {
    let position = match moment {
        JournalMoment::Position(position) => position.min(journal.head_position().await?),
        JournalMoment::Time(time) => journal.position_at(time).await?,
    };
    let mut fold = SnapshotFold::default();
    catch_up(journal, &mut fold, position).await?;
    Ok(fold.snapshot().clone())
}

/// Reads and folds all events up to a position.
async fn catch_up(
    journal: &dyn Journal,
    fold: &mut SnapshotFold,
    head: Position,
) -> Result<(), JournalError> {
    read_up_to(journal, fold, head).await?;
    fold.derive_state(journal, &RecentDocuments::default()).await
}

async fn read_up_to(
    journal: &dyn Journal,
    fold: &mut SnapshotFold,
    head: Position,
) -> Result<(), JournalError> {
    while fold.position() < head {
        let wanted =
            usize::try_from(head.0 - fold.position().0).unwrap_or(READ_BATCH).min(READ_BATCH);
        let events = journal.read_after(fold.position(), wanted).await?;
        if events.is_empty() {
            break;
        }
        events.iter().for_each(|event| fold.apply_event(event));
        tokio::task::yield_now().await;
    }
    Ok(())
}

impl CatalogState {
    fn current_at(&self) -> MutexGuard<'_, Instant> {
        self.current_at.lock().expect("no one panics while holding a moment")
    }

    /// Stores a checkpoint if at least `from` events have passed since the last one.
    async fn store_checkpoint_if_due(&self, from: u64) -> Result<(), JournalError> {
        let mut saved = self.checkpoint_position.lock().await;
        let snapshot = self.snapshot.load_full();
        if snapshot.position() == *saved || snapshot.position().0 < saved.0 + from {
            return Ok(());
        }
        checkpoint::save_checkpoint(&*self.journal, &snapshot).await?;
        *saved = snapshot.position();
        Ok(())
    }
}

/// The projector task: folds new events until it is aborted.
async fn run_projector(shared: Arc<CatalogState>, mut fold: SnapshotFold) {
    let mut checkpoints = JoinSet::new();
    loop {
        shared.journal.wait_after(fold.position()).await;
        if let Err(error) = fold_to_head(&shared, &mut fold).await {
            tracing::warn!(%error, "the journal cannot be read; the last snapshot stays in service");
            tokio::time::sleep(WAKE_UP_AT_LEAST_EVERY / 4).await;
        }
        let due = shared
            .checkpoint_position
            .try_lock()
            .is_ok_and(|saved| saved.0 + CHECKPOINT_EVERY <= fold.position().0);
        if due {
            let shared = Arc::clone(&shared);
            checkpoints.spawn(async move {
                if let Err(error) = shared.store_checkpoint_if_due(CHECKPOINT_EVERY).await {
                    tracing::warn!(%error, "no checkpoint could be stored");
                }
            });
        }
        while checkpoints.try_join_next().is_some() {}
    }
}

/// Folds up to the current head of the journal and publishes the snapshot. An append becomes visible as a whole.
async fn fold_to_head(shared: &CatalogState, fold: &mut SnapshotFold) -> Result<(), JournalError> {
    let looked_at = Instant::now();
    let head = shared.journal.head_position().await?;
    if *shared.visible_position.borrow() < head {
        read_up_to(&*shared.journal, fold, head).await?;
        fold.derive_state(&*shared.journal, &shared.recent_documents).await?;
        shared.snapshot.store(Arc::new(fold.snapshot().clone()));
        shared.visible_position.send_replace(fold.position());
    }
    *shared.current_at() = looked_at;
    Ok(())
}
