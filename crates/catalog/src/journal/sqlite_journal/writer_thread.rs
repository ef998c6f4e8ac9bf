//! The writer thread: takes all queued requests, stores them in one transaction, and answers after the commit.
//!
//! Callers that arrive during a commit share the next one, so durability costs one flush for all of them. After a
//! failed flush the writer stops permanently, because the kernel forgets which pages failed and no later write could be
//! trusted. A full disk only fails the current requests.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::thread::JoinHandle;

use model::{Digest, SchemaDocument};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::{mpsc, oneshot, watch};

use super::{JournalError, is_shm_growth, map_sqlite_error, sqlite_queries};
use crate::clock::Clock;
use crate::journal::store_common::check_next_event;
use crate::journal::{
    AppendOutcome, AppendRequest, IdempotentAnswer, Position, RecordedEvent, StreamAppend,
    StreamVersion,
};

/// Requests in the queue before further callers have to wait for a slot.
const QUEUE_LIMIT: usize = 1024;
/// Upper bound for events in one group commit, so that the first caller does not wait too long.
const GROUP_EVENT_LIMIT: usize = 8192;

/// The handle of the writer thread; dropping it ends the thread.
pub(super) struct SqliteWriter {
    path: PathBuf,
    /// `None` only while the writer is being dropped.
    requests: Option<mpsc::Sender<WriterRequest>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for SqliteWriter {
    /// Waits for the thread, so that the file is unlocked once the journal is closed.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

enum WriterRequest {
    Append(AppendRequest, oneshot::Sender<Result<AppendOutcome, JournalError>>),
    Change(Box<dyn FnOnce(&mut SqliteWriterState) + Send>),
}

/// Why a change failed: by a rule of the journal, or in the database.
pub(super) enum WriteError {
    Rule(JournalError),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl SqliteWriter {
    pub(super) fn spawn_thread(
        path: PathBuf,
        connection: Connection,
        lock: File,
        clock: Arc<dyn Clock>,
        head: watch::Sender<Position>,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE_LIMIT);
        let bench = SqliteWriterState {
            path: path.clone(),
            connection,
            _lock: lock,
            clock,
            head,
            stopped: None,
        };
        let thread = thread::Builder::new().name("journal writer".to_owned());
        let thread =
            thread.spawn(move || bench.run_loop(queue)).expect("a process can start a thread");
        Self { path, requests: Some(jobs), thread: Some(thread) }
    }

    pub(super) async fn append(
        &self,
        append: AppendRequest,
    ) -> Result<AppendOutcome, JournalError> {
        let (sender, answer) = oneshot::channel();
        self.send_request(WriterRequest::Append(append, sender)).await?;
        answer.await.map_err(|_| self.stopped_error())?
    }

    pub(super) async fn run_change<T, F>(&self, change: F) -> Result<T, JournalError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, WriteError> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        // A caller that went away no longer needs the result.
        let job = WriterRequest::Change(Box::new(move |bench| {
            drop(sender.send(bench.run_in_transaction(change)))
        }));
        self.send_request(job).await?;
        answer.await.map_err(|_| self.stopped_error())?
    }

    async fn send_request(&self, job: WriterRequest) -> Result<(), JournalError> {
        let jobs = self.requests.as_ref().ok_or_else(|| self.stopped_error())?;
        jobs.send(job).await.map_err(|_| self.stopped_error())
    }

    fn stopped_error(&self) -> JournalError {
        JournalError::Stopped {
            place: self.path.display().to_string(),
            cause: "its writer is gone".to_owned(),
        }
    }
}

/// The state of the writer thread.
struct SqliteWriterState {
    path: PathBuf,
    connection: Connection,
    _lock: File,
    clock: Arc<dyn Clock>,
    head: watch::Sender<Position>,
    stopped: Option<String>,
}

impl SqliteWriterState {
    fn run_loop(mut self, mut queue: mpsc::Receiver<WriterRequest>) {
        let mut next = queue.blocking_recv();
        while let Some(job) = next.take() {
            match job {
                WriterRequest::Change(change) => change(&mut self),
                WriterRequest::Append(append, sender) => {
                    let mut size = append.len();
                    let mut group = vec![(append, sender)];
                    while size < GROUP_EVENT_LIMIT
                        && let Ok(job) = queue.try_recv()
                    {
                        match job {
                            WriterRequest::Append(append, sender) => {
                                size += append.len();
                                group.push((append, sender));
                            }
                            WriterRequest::Change(_) => {
                                next = Some(job);
                                break;
                            }
                        }
                    }
                    self.commit_group(group);
                }
            }
            if next.is_none() {
                next = queue.blocking_recv();
            }
        }
    }

    /// Commits all appends in one transaction; each answer is sent after the flush.
    fn commit_group(
        &mut self,
        group: Vec<(AppendRequest, oneshot::Sender<Result<AppendOutcome, JournalError>>)>,
    ) {
        let now = self.clock.now().as_microsecond();
        let alone = group.len() == 1;
        let outcome = self.run_in_transaction(|connection| {
            let mut head = sqlite_queries::read_head(connection)?;
            let mut stored = Vec::with_capacity(group.len());
            for (append, _) in &group {
                let result = check_append(connection, append, alone)?;
                let result = match result {
                    AppendVerdict::Store => {
                        Ok(AppendOutcome::Stored(store_append(connection, append, &mut head, now)?))
                    }
                    AppendVerdict::AlreadyStored(answer) => {
                        Ok(AppendOutcome::AlreadyStored(answer))
                    }
                    AppendVerdict::Refuse(error) => Err(error),
                };
                stored.push(result);
            }
            Ok((stored, head))
        });
        match outcome {
            Ok((stored, head)) => {
                self.head.send_replace(head);
                for ((_, sender), result) in group.into_iter().zip(stored) {
                    drop(sender.send(result));
                }
            }
            Err(error) => {
                for (append, sender) in group {
                    let conflict = if alone { self.find_conflict(&append) } else { None };
                    drop(sender.send(Err(conflict.unwrap_or_else(|| error.clone()))));
                }
            }
        }
    }

    /// The first version conflict of an append, if there is one.
    fn find_conflict(&self, append: &AppendRequest) -> Option<JournalError> {
        append
            .streams
            .iter()
            .find_map(|stream| stream_conflict(&self.connection, stream).ok().flatten())
    }

    /// Runs a change in its own transaction.
    fn run_in_transaction<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> Result<T, WriteError>,
    ) -> Result<T, JournalError> {
        let place = || self.path.display().to_string();
        if let Some(cause) = &self.stopped {
            return Err(JournalError::Stopped { place: place(), cause: cause.clone() });
        }
        let outcome = (|| {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = change(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })();
        match outcome {
            Ok(result) => Ok(result),
            Err(WriteError::Rule(error)) => Err(error),
            Err(WriteError::Sql(error)) => {
                let io = error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
                    && !is_shm_growth(&error);
                if io {
                    self.stopped = Some(error.to_string());
                    return Err(JournalError::Stopped { place: place(), cause: error.to_string() });
                }
                Err(map_sqlite_error(&self.path, &error))
            }
        }
    }
}

const INSERT_EVENT: &str = "INSERT INTO events (position, stream, version, type, time, actor, correlation_id, causation_id, data)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// The result of checking an append.
enum AppendVerdict {
    Store,
    AlreadyStored(IdempotentAnswer),
    Refuse(JournalError),
}

/// Checks everything before anything is stored, so that a rejected append leaves nothing in the group's transaction.
/// If an append is alone in its transaction, new streams need no check: the table's unique constraint rejects a
/// conflict, and the rollback affects no other append.
fn check_append(
    connection: &Connection,
    append: &AppendRequest,
    alone: bool,
) -> rusqlite::Result<AppendVerdict> {
    if let Some(once) = &append.idempotency
        && let Some(answer) = sqlite_queries::find_answer(connection, &once.key)?
    {
        return Ok(match answer.request == once.request {
            true => AppendVerdict::AlreadyStored(answer),
            false => AppendVerdict::Refuse(JournalError::KeyReused { key: once.key.to_string() }),
        });
    }
    for stream in
        append.streams.iter().filter(|stream| !alone || stream.expected != StreamVersion::NONE)
    {
        if let Some(error) = stream_conflict(connection, stream)? {
            return Ok(AppendVerdict::Refuse(error));
        }
    }
    Ok(AppendVerdict::Store)
}

fn stream_conflict(
    connection: &Connection,
    append: &StreamAppend,
) -> rusqlite::Result<Option<JournalError>> {
    let actual = sqlite_queries::read_version(connection, &append.stream)?;
    if actual == append.expected {
        return Ok(None);
    }
    let (stream, expected) = (append.stream.clone(), append.expected);
    Ok(Some(JournalError::Conflict { stream, expected, actual }))
}

fn store_append(
    connection: &Connection,
    append: &AppendRequest,
    head: &mut Position,
    now: i64,
) -> rusqlite::Result<Position> {
    store_documents(connection, &append.documents)?;
    let mut insert = connection.prepare_cached(INSERT_EVENT)?;
    let context = &append.context;
    for stream in &append.streams {
        let mut version = stream.expected;
        for event in &stream.events {
            version = version.next();
            head.0 += 1;
            insert.execute((
                head.0,
                stream.stream.as_str(),
                version.0,
                &*event.kind,
                now,
                context.actor.as_str(),
                context.correlation_id.as_deref(),
                context.causation_id.as_deref(),
                &*event.data,
            ))?;
        }
    }
    if let Some(once) = &append.idempotency {
        let (key, request, answer) = (once.key.clone(), once.request, once.answer.clone());
        store_answer(connection, &IdempotentAnswer { key, request, answer, position: *head })?;
    }
    Ok(*head)
}

fn store_documents(connection: &Connection, documents: &[SchemaDocument]) -> rusqlite::Result<()> {
    let mut insert = connection
        .prepare_cached("INSERT OR IGNORE INTO documents (digest, body) VALUES (?1, ?2)")?;
    for document in documents {
        insert.execute((&document.digest.as_bytes()[..], document.text.as_str()))?;
    }
    Ok(())
}

fn store_answer(connection: &Connection, answer: &IdempotentAnswer) -> rusqlite::Result<()> {
    let sql =
        "INSERT OR IGNORE INTO answers (key, request, answer, position) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    insert
        .execute((&*answer.key, &answer.request.as_bytes()[..], &*answer.answer, answer.position.0))
        .map(drop)
}

pub(super) fn restore_events(
    connection: &Connection,
    events: &[RecordedEvent],
    documents: &[SchemaDocument],
    answers: &[IdempotentAnswer],
) -> Result<Position, WriteError> {
    store_documents(connection, documents)?;
    let mut head = sqlite_queries::read_head(connection)?;
    let mut insert = connection.prepare_cached(INSERT_EVENT)?;
    for event in events {
        head.0 += 1;
        let version = sqlite_queries::read_version(connection, &event.stream)?.next();
        check_next_event(event, head, version).map_err(WriteError::Rule)?;
        insert.execute((
            head.0,
            event.stream.as_str(),
            version.0,
            &*event.kind,
            event.time.as_microsecond(),
            &*event.actor,
            event.correlation_id.as_deref(),
            event.causation_id.as_deref(),
            &*event.data,
        ))?;
    }
    for answer in answers {
        store_answer(connection, answer)?;
    }
    Ok(head)
}

pub(super) fn remove_documents(
    connection: &Connection,
    digests: &[Digest],
    seen: Position,
) -> rusqlite::Result<Option<usize>> {
    if sqlite_queries::read_head(connection)? != seen {
        return Ok(None);
    }
    let mut delete = connection.prepare_cached("DELETE FROM documents WHERE digest = ?1")?;
    let mut removed = 0;
    for digest in digests {
        removed += delete.execute([&digest.as_bytes()[..]])?;
    }
    Ok(Some(removed))
}

pub(super) fn write_checkpoint(
    connection: &Connection,
    at: Position,
    piece: u32,
    body: &[u8],
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO checkpoints (at, piece, body) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute((at.0, piece, body)).map(drop)
}

pub(super) fn remove_checkpoints_before(
    connection: &Connection,
    at: Position,
) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM checkpoints WHERE at < ?1", [at.0]).map(drop)
}

pub(super) fn store_encrypted_secret(
    connection: &Connection,
    name: &str,
    bytes: Option<&[u8]>,
) -> rusqlite::Result<()> {
    // A removed secret must not remain in free pages, even encrypted.
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.execute("DELETE FROM sealed WHERE name = ?1", [name])?;
    if let Some(bytes) = bytes {
        connection.execute("INSERT INTO sealed (name, body) VALUES (?1, ?2)", (name, bytes))?;
    }
    connection.pragma_update(None, "secure_delete", "OFF")
}
