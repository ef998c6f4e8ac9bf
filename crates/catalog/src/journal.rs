//! The journal: all events in order, and the only state that nodes share.
//!
//! An append is one atomic step over any number of streams: if one expected version does not match, nothing is stored.
//! Acknowledged events are on disk. Positions and versions count from one without gaps.

mod envelope;
mod journal_error;
mod lease;
mod memory_journal;
#[cfg(feature = "postgres")]
mod postgres_journal;
#[cfg(feature = "sqlite")]
mod sqlite_journal;
mod store_common;

use std::collections::HashSet;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use model::{Digest, SchemaDocument};

pub use envelope::{
    ChangeContext, IdempotencyEntry, IdempotentAnswer, NewEvent, Position, RecordedEvent,
    StreamName, StreamVersion,
};
pub use journal_error::JournalError;
pub use lease::JournalLease;
pub use memory_journal::MemoryJournal;
#[cfg(feature = "postgres")]
pub use postgres_journal::{PostgresConnection, SERVER_TIMEOUT};
#[cfg(feature = "postgres")]
pub use postgres_journal::{PostgresJournal, PostgresUrl};
#[cfg(feature = "sqlite")]
pub use sqlite_journal::SqliteJournal;
#[cfg(feature = "sqlite")]
pub use sqlite_journal::{is_shm_growth, map_sqlite_error, run_blocking};

/// The return type of every method of a [`Journal`].
pub type JournalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, JournalError>> + Send + 'a>>;

/// The longest time a reader sleeps before it checks the journal, in case a signal was lost.
pub const WAKE_UP_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// The largest `data` of one event, in bytes.
pub const EVENT_LIMIT: usize = 8 << 20;
/// Upper bound for the events and documents of one append, in bytes.
pub const APPEND_LIMIT: usize = 512 << 20;

/// Events for one or several streams, to be stored in one atomic step.
#[derive(Clone, Debug, Default)]
pub struct AppendRequest {
    /// Each stream occurs at most once.
    pub streams: Vec<StreamAppend>,
    /// Documents that the events refer to; known ones are not stored again.
    pub documents: Vec<SchemaDocument>,
    /// The actor and the request behind the events.
    pub context: ChangeContext,
    /// Makes the step idempotent.
    pub idempotency: Option<IdempotencyEntry>,
}

/// Events for one stream.
#[derive(Clone, Debug)]
pub struct StreamAppend {
    pub stream: StreamName,
    /// Expected version of the stream; zero if it has no events.
    pub expected: StreamVersion,
    /// New events in order.
    pub events: Vec<NewEvent>,
}

/// The outcome of a successful append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// The events are stored; the last one has this position.
    Stored(Position),
    /// The step was already stored under the same idempotency key; nothing was added.
    AlreadyStored(IdempotentAnswer),
}

/// The result of a storage check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageReport {
    /// One sentence for each problem.
    pub problems: Vec<String>,
}

/// All events in order. Three implementations: memory, SQLite, PostgreSQL.
pub trait Journal: Send + Sync {
    /// Stores events in one atomic step.
    fn append(&self, append: AppendRequest) -> JournalFuture<'_, AppendOutcome>;

    /// Events of one stream after a version, at most `limit`.
    fn read_stream(
        &self,
        stream: StreamName,
        after: StreamVersion,
        limit: usize,
    ) -> JournalFuture<'_, Vec<RecordedEvent>>;

    /// Events of all streams after a position, at most `limit`.
    fn read_after(&self, after: Position, limit: usize) -> JournalFuture<'_, Vec<RecordedEvent>>;

    /// The position of the last event.
    fn head_position(&self) -> JournalFuture<'_, Position>;

    /// The position of the last event recorded at or before a time.
    fn position_at(&self, time: Timestamp) -> JournalFuture<'_, Position>;

    /// Waits for events after the position. It returns on a signal or after a timeout, so there may be none.
    fn wait_after(&self, after: Position) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// The stored documents among these digests, in any order.
    fn read_documents(&self, digests: Vec<Digest>) -> JournalFuture<'_, Vec<SchemaDocument>>;

    /// Digests of stored documents greater than `after`, in order, at most `limit`.
    fn document_digests(
        &self,
        after: Option<Digest>,
        limit: usize,
    ) -> JournalFuture<'_, Vec<Digest>>;

    /// Removes documents. If an event was appended after `seen`, nothing is removed and the result is `None`.
    fn remove_documents(
        &self,
        digests: Vec<Digest>,
        seen: Position,
    ) -> JournalFuture<'_, Option<usize>>;

    /// The answer that was stored under an idempotency key.
    fn find_answer(&self, key: String) -> JournalFuture<'_, Option<IdempotentAnswer>>;

    /// Answers with keys greater than `after`, in order, at most `limit`.
    fn list_answers(&self, after: String, limit: usize)
    -> JournalFuture<'_, Vec<IdempotentAnswer>>;

    /// Stores events exactly as another journal recorded them; the first must follow the last one of this journal.
    fn restore_events(
        &self,
        events: Vec<RecordedEvent>,
        documents: Vec<SchemaDocument>,
        answers: Vec<IdempotentAnswer>,
    ) -> JournalFuture<'_, Position>;

    /// Positions of complete checkpoints, newest first.
    fn checkpoint_positions(&self) -> JournalFuture<'_, Vec<Position>>;

    /// One piece of a checkpoint. Piece zero contains the number of pieces and is written last.
    fn read_checkpoint(&self, at: Position, piece: u32) -> JournalFuture<'_, Option<Vec<u8>>>;

    /// Stores one piece of a checkpoint.
    fn write_checkpoint(&self, at: Position, piece: u32, body: Vec<u8>) -> JournalFuture<'_, ()>;

    /// Removes checkpoints at earlier positions. Another node may currently write a later one.
    fn remove_checkpoints_before(&self, at: Position) -> JournalFuture<'_, ()>;

    /// The encrypted secret with this name.
    fn encrypted_secret(&self, name: String) -> JournalFuture<'_, Option<Vec<u8>>>;

    /// Names of all encrypted secrets, in order.
    fn encrypted_secret_names(&self) -> JournalFuture<'_, Vec<String>>;

    /// Stores an encrypted secret, or removes it. This is not an event, so secrets leave no history.
    fn store_encrypted_secret(&self, name: String, bytes: Option<Vec<u8>>)
    -> JournalFuture<'_, ()>;

    /// Acquires the lease with this name: until it is dropped, no other caller on any node gets it. `None` if it is
    /// taken. The lease ends with the process or the database connection at the latest.
    fn acquire_lease(&self, name: String) -> JournalFuture<'_, Option<JournalLease>>;

    /// Checks the storage itself for damage.
    fn check_storage(&self) -> JournalFuture<'_, StorageReport>;
}

impl AppendRequest {
    /// Rejects an append that some store could not hold.
    pub(crate) fn validate(&self) -> Result<(), JournalError> {
        let mut streams = HashSet::with_capacity(self.streams.len());
        if let Some(twice) = self.streams.iter().find(|append| !streams.insert(&append.stream)) {
            let cause = format!("stream `{}` stands twice in one step", twice.stream);
            return Err(JournalError::DoesNotFollow { cause });
        }
        if let Some(idle) = self.streams.iter().find(|append| append.events.is_empty()) {
            let cause = format!("stream `{}` has no event in this step", idle.stream);
            return Err(JournalError::DoesNotFollow { cause });
        }
        self.reject_nul()?;
        let mut total = 0;
        for event in self.streams.iter().flat_map(|stream| &stream.events) {
            if EVENT_LIMIT < event.data.len() {
                return Err(JournalError::TooLarge {
                    what: "an event",
                    bytes: event.data.len(),
                    limit: EVENT_LIMIT,
                });
            }
            total += event.data.len();
        }
        total += self.documents.iter().map(|document| document.text.as_str().len()).sum::<usize>();
        if APPEND_LIMIT < total {
            return Err(JournalError::TooLarge {
                what: "one step",
                bytes: total,
                limit: APPEND_LIMIT,
            });
        }
        Ok(())
    }

    /// Rejects NUL characters, which PostgreSQL cannot store in text. Data and documents are JSON, which contains none.
    fn reject_nul(&self) -> Result<(), JournalError> {
        let context = &self.context;
        let ids = [&context.correlation_id, &context.causation_id];
        let mut texts = vec![("an actor", context.actor.as_str())];
        texts.extend(ids.into_iter().flatten().map(|id| ("a correlation or causation id", &**id)));
        texts.extend(self.idempotency.iter().map(|once| ("an idempotency key", &*once.key)));
        for stream in &self.streams {
            texts.push(("a stream's name", stream.stream.as_str()));
            texts.extend(stream.events.iter().map(|event| ("an event's type", &*event.kind)));
        }
        match texts.iter().find(|(_, text)| text.contains('\0')) {
            Some((what, _)) => Err(JournalError::NotText { what }),
            None => Ok(()),
        }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.streams.iter().map(|stream| stream.events.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.streams.iter().all(|stream| stream.events.is_empty())
    }
}
