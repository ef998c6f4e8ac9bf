//! The running catalog of a node: executes commands, folds the journal and hands out snapshots.
//!
//! The projector is a reconciler: a signal or a timer wakes it, and it reads and folds all events after its position.
//! The signal carries no data, so start, second node and lost signals share one code path. A command returns when the
//! snapshot shows its events.

mod together;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use model::meter::{Counter, Histogram, TIMES};
use model::{Digest, Document, RawJson};
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::checkpoint;
use crate::command::Command;
use crate::fold::Fold;
use crate::journal::{
    Append, Appended, Context, Journal, JournalError, Once, Position, WAKE_UP_AT_LEAST_EVERY,
};
use crate::refusal::Refusal;
use crate::snapshot::Snapshot;

pub use self::together::{RefusedAt, Supposed};

/// Attempts to decide a command when other writers keep changing its stream.
const ATTEMPTS: usize = 10;
/// Upper bound for commands on different streams that run concurrently.
const LANES: usize = 256;
/// Events between two checkpoints.
const CHECKPOINT_EVERY: u64 = 10_000;
/// Events since the last checkpoint that justify another one when the catalog is closed.
const CHECKPOINT_AT_CLOSE: u64 = 500;
/// Events read from the journal in one call.
const BATCH: usize = 2_000;
/// How long a command waits for the snapshot to reach a stored position.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// The catalog of one node.
pub struct Catalog {
    shared: Arc<Shared>,
    lanes: Vec<Mutex<()>>,
    hasher: RandomState,
    projector: JoinHandle<()>,
    appends: Appends,
}

struct Shared {
    journal: Arc<dyn Journal>,
    snapshot: ArcSwap<Snapshot>,
    shown: watch::Sender<Position>,
    /// Position of the last checkpoint; locked while one is being stored.
    saved: Mutex<Position>,
    recent: Recent,
    /// When the snapshot last reached the head of the journal.
    current_at: std::sync::Mutex<Instant>,
}

/// Documents that this node is storing right now: the fold need not read them back from the journal.
#[derive(Default)]
pub(crate) struct Recent(std::sync::Mutex<HashMap<Digest, RawJson>>);

impl Recent {
    fn documents(&self) -> MutexGuard<'_, HashMap<Digest, RawJson>> {
        self.0.lock().expect("no one panics while holding the documents")
    }

    /// Keeps the documents available until the returned guard is dropped.
    fn keep(&self, documents: &[Document]) -> Kept<'_> {
        let entry = |document: &Document| (document.digest, document.text.clone());
        self.documents().extend(documents.iter().map(entry));
        Kept { recent: self, digests: documents.iter().map(|document| document.digest).collect() }
    }

    pub(crate) fn find(&self, digest: &Digest) -> Option<RawJson> {
        self.documents().get(digest).cloned()
    }
}

struct Kept<'a> {
    recent: &'a Recent,
    digests: Vec<Digest>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let mut documents = self.recent.documents();
        self.digests.iter().for_each(|digest| drop(documents.remove(digest)));
    }
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
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
    Refused(#[from] Refusal),
    /// Other writers changed the stream at every attempt.
    #[error("`{stream}` is being changed by others: try again")]
    Busy { stream: String },
    /// The command is stored, but this node's snapshot has not reached it in time.
    #[error("the change is stored at position {position}, but this node does not show it yet")]
    NotShown {
        /// Position of the last event of the command.
        position: Position,
    },
    /// The journal could not store the command.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Counts and durations of the appends of this node.
#[derive(Debug)]
pub struct Appends {
    /// Stored, now or earlier under the same idempotency key.
    pub stored: Counter,
    /// Another writer changed the stream first; the command is decided again.
    pub conflicts: Counter,
    /// Failed; some of them may be stored nevertheless.
    pub failed: Counter,
    /// Duration of each append, whatever its outcome.
    pub times: Histogram,
}

impl Appends {
    fn none() -> Self {
        let [stored, conflicts, failed] = Default::default();
        Self { stored, conflicts, failed, times: Histogram::new(&TIMES) }
    }
}

/// An idempotency key, qualified by the actor, and the digest of its request.
struct Asked {
    key: Box<str>,
    request: Digest,
}

/// A point in the history of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the event at this position.
    Position(Position),
    /// After the last event recorded at or before this time.
    Time(Timestamp),
}

impl Catalog {
    /// Folds the journal and keeps the snapshot up to date in the background.
    pub async fn open(journal: Arc<dyn Journal>) -> Result<Self, JournalError> {
        let mut fold = checkpoint::load(&*journal).await?;
        let from_checkpoint = fold.position();
        let head = journal.head().await?;
        catch_up(&*journal, &mut fold, head).await?;
        let snapshot = Arc::new(fold.snapshot().clone());
        let shown = watch::Sender::new(snapshot.position());
        let (snapshot, saved) = (ArcSwap::new(snapshot), Mutex::new(from_checkpoint));
        let recent = Recent::default();
        let current_at = std::sync::Mutex::new(Instant::now());
        let shared = Arc::new(Shared { journal, snapshot, shown, saved, recent, current_at });
        let projector = tokio::spawn(project(Arc::clone(&shared), fold));
        let lanes = (0..LANES).map(|_| Mutex::new(())).collect();
        let (hasher, appends) = (RandomState::new(), Appends::none());
        Ok(Self { shared, lanes, hasher, projector, appends })
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot.load_full()
    }

    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.shared.journal
    }

    /// Notifies about each new position of the snapshot.
    pub fn changes(&self) -> watch::Receiver<Position> {
        self.shared.shown.subscribe()
    }

    /// Counts and durations of the appends of this node since the catalog was opened.
    pub fn appends(&self) -> &Appends {
        &self.appends
    }

    /// Appends to the journal and measures it.
    async fn append(&self, append: Append) -> Result<Appended, JournalError> {
        let start = Instant::now();
        let appended = self.shared.journal.append(append).await;
        let Appends { stored, conflicts, failed, times } = &self.appends;
        times.took(start.elapsed());
        match &appended {
            Ok(_) => stored.one(),
            Err(JournalError::Conflict { .. }) => conflicts.one(),
            Err(_) => failed.one(),
        }
        appended
    }

    /// Time since the snapshot last reached the head of the journal. The projector checks every second, so several
    /// seconds mean that the journal cannot be read or that this node cannot keep up.
    pub fn behind_for(&self) -> Duration {
        self.shared.current_at().elapsed()
    }

    /// Checks that the journal accepts appends, by appending nothing.
    pub async fn check_writing(&self) -> Result<(), JournalError> {
        self.shared.journal.append(Append::default()).await.map(drop)
    }

    /// Waits until the snapshot has reached a position. Fails after 10 s.
    pub async fn shown(&self, position: Position) -> Result<(), CommandError> {
        let mut shown = self.shared.shown.subscribe();
        let reached = shown.wait_for(|shown| position <= *shown);
        match tokio::time::timeout(SHOWN_WITHIN, reached).await {
            Ok(_) => Ok(()),
            Err(_) => Err(CommandError::NotShown { position }),
        }
    }

    /// Executes a command. With an idempotency key, the same command is executed at most once.
    pub async fn execute(
        &self,
        command: Command,
        context: Context,
        key: Option<&str>,
    ) -> Result<Executed, CommandError> {
        self.execute_if(command, |_| Ok(()), context, key).await
    }

    /// Executes a command if a condition on its main aggregate still holds when it is stored.
    pub async fn execute_if(
        &self,
        command: Command,
        condition: impl Fn(&Snapshot) -> Result<(), Refusal> + Send,
        context: Context,
        key: Option<&str>,
    ) -> Result<Executed, CommandError> {
        // An actor contains no line break, so two actors cannot share a key.
        let asked = key.map(|key| Asked {
            key: format!("{}\n{key}", context.actor).into(),
            request: command.digest(),
        });
        let stream = command.stream();
        // Commands on one stream run one after the other on this node, which makes conflicts rare.
        let lane = (self.hasher.hash_one(&stream) % LANES as u64) as usize;
        let _turn = self.lanes[lane].lock().await;
        let mut is_sure = false;
        for _ in 0..ATTEMPTS {
            if let Some(asked) = &asked
                && let Some(before) = self.answered(asked).await?
            {
                return Ok(before);
            }
            let snapshot = self.snapshot();
            let decision = condition(&snapshot).and_then(|()| command.decide(&snapshot));
            // The snapshot may be stale: before the command is rejected or skipped, catch up with the journal once.
            if !is_sure && decision.as_ref().map_or(true, |decision| decision.streams.is_empty()) {
                is_sure = true;
                let head = self.shared.journal.head().await?;
                if snapshot.position() < head {
                    self.shown(head).await?;
                    continue;
                }
            }
            let decision = decision?;
            if decision.streams.is_empty() && asked.is_none() {
                let (position, answer) = (snapshot.position(), decision.answer);
                return Ok(Executed { position, answer, repeated: false });
            }
            let once = asked.as_ref().map(|asked| Once {
                key: asked.key.clone(),
                request: asked.request,
                answer: decision.answer.to_string().into(),
            });
            let (streams, documents) = (decision.streams, decision.documents);
            let append = Append { streams, documents, context: context.clone(), once };
            let _kept = self.shared.recent.keep(&append.documents);
            match self.append(append).await {
                Ok(Appended::Stored(position)) => {
                    self.shown(position).await?;
                    let answer = decision.answer;
                    return Ok(Executed { position, answer, repeated: false });
                }
                Ok(Appended::Before(answer)) => {
                    return self.repeated(&answer.answer, answer.position).await;
                }
                Err(JournalError::Conflict { .. }) => {
                    self.shown(self.shared.journal.head().await?).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommandError::Busy { stream: stream.to_string() })
    }

    /// The result of the same command if it was executed before.
    async fn answered(&self, asked: &Asked) -> Result<Option<Executed>, CommandError> {
        let Some(answer) = self.shared.journal.answer(asked.key.to_string()).await? else {
            return Ok(None);
        };
        if answer.request != asked.request {
            return Err(JournalError::KeyReused { key: asked.key.to_string() }.into());
        }
        self.repeated(&answer.answer, answer.position).await.map(Some)
    }

    async fn repeated(&self, answer: &str, position: Position) -> Result<Executed, CommandError> {
        self.shown(position).await?;
        let answer = serde_json::from_str(answer).unwrap_or_default();
        Ok(Executed { position, answer, repeated: true })
    }

    /// Stores a checkpoint of the current snapshot.
    pub async fn checkpoint(&self) -> Result<(), JournalError> {
        self.shared.save(0).await
    }

    /// Stops folding, stores a checkpoint if enough events have passed, and releases the journal.
    pub async fn close(mut self) {
        self.projector.abort();
        // The task stops at its next await point; its result does not matter.
        (&mut self.projector).await.ok();
        if let Err(error) = self.shared.save(CHECKPOINT_AT_CLOSE).await {
            tracing::warn!(%error, "no checkpoint could be stored");
        }
    }

    /// The snapshot that these commands, one after the other, would lead to. Nothing is stored.
    pub async fn what_if(
        &self,
        snapshot: &Snapshot,
        commands: &[Command],
    ) -> Result<Snapshot, CommandError> {
        match self.suppose(snapshot, commands).await {
            Ok(supposed) => Ok(supposed.snapshot),
            Err(refused) => Err(refused.error),
        }
    }

    /// The snapshot at an earlier moment.
    pub async fn snapshot_at(&self, moment: Moment) -> Result<Snapshot, JournalError> {
        snapshot_at(&*self.shared.journal, moment).await
    }
}

impl Drop for Catalog {
    fn drop(&mut self) {
        self.projector.abort();
    }
}

/// The snapshot at a moment, folded from the start of the journal.
pub async fn snapshot_at(journal: &dyn Journal, moment: Moment) -> Result<Snapshot, JournalError> {
    let position = match moment {
        Moment::Position(position) => position.min(journal.head().await?),
        Moment::Time(time) => journal.position_at(time).await?,
    };
    let mut fold = Fold::default();
    catch_up(journal, &mut fold, position).await?;
    Ok(fold.snapshot().clone())
}

/// Reads and folds all events up to a position.
async fn catch_up(
    journal: &dyn Journal,
    fold: &mut Fold,
    head: Position,
) -> Result<(), JournalError> {
    read_up_to(journal, fold, head).await?;
    fold.settle(journal, &Recent::default()).await
}

async fn read_up_to(
    journal: &dyn Journal,
    fold: &mut Fold,
    head: Position,
) -> Result<(), JournalError> {
    while fold.position() < head {
        let wanted = usize::try_from(head.0 - fold.position().0).unwrap_or(BATCH).min(BATCH);
        let events = journal.read_after(fold.position(), wanted).await?;
        if events.is_empty() {
            break;
        }
        events.iter().for_each(|event| fold.apply(event));
        tokio::task::yield_now().await;
    }
    Ok(())
}

impl Shared {
    fn current_at(&self) -> MutexGuard<'_, Instant> {
        self.current_at.lock().expect("no one panics while holding a moment")
    }

    /// Stores a checkpoint if at least `from` events have passed since the last one.
    async fn save(&self, from: u64) -> Result<(), JournalError> {
        let mut saved = self.saved.lock().await;
        let snapshot = self.snapshot.load_full();
        if snapshot.position() == *saved || snapshot.position().0 < saved.0 + from {
            return Ok(());
        }
        checkpoint::save(&*self.journal, &snapshot).await?;
        *saved = snapshot.position();
        Ok(())
    }
}

/// The projector task: folds new events until it is aborted.
async fn project(shared: Arc<Shared>, mut fold: Fold) {
    let mut checkpoints = JoinSet::new();
    loop {
        shared.journal.wait_after(fold.position()).await;
        if let Err(error) = step(&shared, &mut fold).await {
            tracing::warn!(%error, "the journal cannot be read; the last snapshot stays in service");
            tokio::time::sleep(WAKE_UP_AT_LEAST_EVERY / 4).await;
        }
        let due = shared
            .saved
            .try_lock()
            .is_ok_and(|saved| saved.0 + CHECKPOINT_EVERY <= fold.position().0);
        if due {
            let shared = Arc::clone(&shared);
            checkpoints.spawn(async move {
                if let Err(error) = shared.save(CHECKPOINT_EVERY).await {
                    tracing::warn!(%error, "no checkpoint could be stored");
                }
            });
        }
        while checkpoints.try_join_next().is_some() {}
    }
}

/// Folds up to the current head of the journal and publishes the snapshot. An append becomes visible as a whole.
async fn step(shared: &Shared, fold: &mut Fold) -> Result<(), JournalError> {
    let looked_at = Instant::now();
    let head = shared.journal.head().await?;
    if *shared.shown.borrow() < head {
        read_up_to(&*shared.journal, fold, head).await?;
        fold.settle(&*shared.journal, &shared.recent).await?;
        shared.snapshot.store(Arc::new(fold.snapshot().clone()));
        shared.shown.send_replace(fold.position());
    }
    *shared.current_at() = looked_at;
    Ok(())
}
