//! The writer thread: takes all queued requests, stores them in one transaction, and answers after the commit.
//!
//! Callers that arrive during a commit share the next one, so durability costs one flush for all of them. After a
//! failed flush the writer stops permanently, because the kernel forgets which pages failed and no later write could be
//! trusted. A full disk only fails the current requests.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use model::{Digest, Document};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::{mpsc, oneshot, watch};

use super::{JournalError, failure, is_shm_growth, read};
use crate::clock::Clock;
use crate::journal::shared::follows;
use crate::journal::{Answer, Append, Appended, Position, Recorded, StreamAppend, Version};

/// Requests in the queue before further callers have to wait for a slot.
const QUEUE: usize = 1024;
/// Upper bound for events in one group commit, so that the first caller does not wait too long.
const GROUP: usize = 8192;

/// The handle of the writer thread; dropping it ends the thread.
pub(super) struct Writer {
    path: PathBuf,
    /// `None` only while the writer is being dropped.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Writer {
    /// Waits for the thread, so that the file is unlocked once the journal is closed.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

enum Job {
    Append(Append, oneshot::Sender<Result<Appended, JournalError>>),
    Change(Box<dyn FnOnce(&mut Bench) + Send>),
}

/// Why a change failed: by a rule of the journal, or in the database.
pub(super) enum Refused {
    Rule(JournalError),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Writer {
    pub(super) fn start(
        path: PathBuf,
        connection: Connection,
        lock: File,
        clock: Arc<dyn Clock>,
        head: watch::Sender<Position>,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let bench =
            Bench { path: path.clone(), connection, _lock: lock, clock, head, stopped: None };
        let thread = thread::Builder::new().name("journal writer".to_owned());
        let thread = thread.spawn(move || bench.work(queue)).expect("a process can start a thread");
        Self { path, jobs: Some(jobs), thread: Some(thread) }
    }

    pub(super) async fn append(&self, append: Append) -> Result<Appended, JournalError> {
        let (sender, answer) = oneshot::channel();
        self.send(Job::Append(append, sender)).await?;
        answer.await.map_err(|_| self.gone())?
    }

    pub(super) async fn change<T, F>(&self, change: F) -> Result<T, JournalError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Refused> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        // A caller that went away no longer needs the result.
        let job = Job::Change(Box::new(move |bench| drop(sender.send(bench.change(change)))));
        self.send(job).await?;
        answer.await.map_err(|_| self.gone())?
    }

    async fn send(&self, job: Job) -> Result<(), JournalError> {
        let jobs = self.jobs.as_ref().ok_or_else(|| self.gone())?;
        jobs.send(job).await.map_err(|_| self.gone())
    }

    fn gone(&self) -> JournalError {
        JournalError::Stopped {
            place: self.path.display().to_string(),
            cause: "its writer is gone".to_owned(),
        }
    }
}

/// The state of the writer thread.
struct Bench {
    path: PathBuf,
    connection: Connection,
    _lock: File,
    clock: Arc<dyn Clock>,
    head: watch::Sender<Position>,
    stopped: Option<String>,
}

impl Bench {
    fn work(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut next = queue.blocking_recv();
        while let Some(job) = next.take() {
            match job {
                Job::Change(change) => change(&mut self),
                Job::Append(append, sender) => {
                    let mut size = append.len();
                    let mut group = vec![(append, sender)];
                    while size < GROUP
                        && let Ok(job) = queue.try_recv()
                    {
                        match job {
                            Job::Append(append, sender) => {
                                size += append.len();
                                group.push((append, sender));
                            }
                            Job::Change(_) => {
                                next = Some(job);
                                break;
                            }
                        }
                    }
                    self.commit(group);
                }
            }
            if next.is_none() {
                next = queue.blocking_recv();
            }
        }
    }

    /// Commits all appends in one transaction; each answer is sent after the flush.
    fn commit(&mut self, group: Vec<(Append, oneshot::Sender<Result<Appended, JournalError>>)>) {
        let now = self.clock.now().as_microsecond();
        let alone = group.len() == 1;
        let outcome = self.change(|connection| {
            let mut head = read::head(connection)?;
            let mut stored = Vec::with_capacity(group.len());
            for (append, _) in &group {
                let result = check(connection, append, alone)?;
                let result = match result {
                    Verdict::Store => {
                        Ok(Appended::Stored(store(connection, append, &mut head, now)?))
                    }
                    Verdict::Before(answer) => Ok(Appended::Before(answer)),
                    Verdict::Refuse(error) => Err(error),
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
                    let conflict = if alone { self.conflict(&append) } else { None };
                    drop(sender.send(Err(conflict.unwrap_or_else(|| error.clone()))));
                }
            }
        }
    }

    /// The first version conflict of an append, if there is one.
    fn conflict(&self, append: &Append) -> Option<JournalError> {
        append.streams.iter().find_map(|stream| conflict(&self.connection, stream).ok().flatten())
    }

    /// Runs a change in its own transaction.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> Result<T, Refused>,
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
            Err(Refused::Rule(error)) => Err(error),
            Err(Refused::Sql(error)) => {
                let io = error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
                    && !is_shm_growth(&error);
                if io {
                    self.stopped = Some(error.to_string());
                    return Err(JournalError::Stopped { place: place(), cause: error.to_string() });
                }
                Err(failure(&self.path, &error))
            }
        }
    }
}

const INSERT: &str = "INSERT INTO events (position, stream, version, type, time, actor, correlation_id, causation_id, data)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// The result of checking an append.
enum Verdict {
    Store,
    Before(Answer),
    Refuse(JournalError),
}

/// Checks everything before anything is stored, so that a rejected append leaves nothing in the group's transaction.
/// If an append is alone in its transaction, new streams need no check: the table's unique constraint rejects a
/// conflict, and the rollback affects no other append.
fn check(connection: &Connection, append: &Append, alone: bool) -> rusqlite::Result<Verdict> {
    if let Some(once) = &append.once
        && let Some(answer) = read::answer(connection, &once.key)?
    {
        return Ok(match answer.request == once.request {
            true => Verdict::Before(answer),
            false => Verdict::Refuse(JournalError::KeyReused { key: once.key.to_string() }),
        });
    }
    for stream in append.streams.iter().filter(|stream| !alone || stream.expected != Version::NONE)
    {
        if let Some(error) = conflict(connection, stream)? {
            return Ok(Verdict::Refuse(error));
        }
    }
    Ok(Verdict::Store)
}

fn conflict(
    connection: &Connection,
    append: &StreamAppend,
) -> rusqlite::Result<Option<JournalError>> {
    let actual = read::version(connection, &append.stream)?;
    if actual == append.expected {
        return Ok(None);
    }
    let (stream, expected) = (append.stream.clone(), append.expected);
    Ok(Some(JournalError::Conflict { stream, expected, actual }))
}

fn store(
    connection: &Connection,
    append: &Append,
    head: &mut Position,
    now: i64,
) -> rusqlite::Result<Position> {
    store_documents(connection, &append.documents)?;
    let mut insert = connection.prepare_cached(INSERT)?;
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
    if let Some(once) = &append.once {
        let (key, request, answer) = (once.key.clone(), once.request, once.answer.clone());
        store_answer(connection, &Answer { key, request, answer, position: *head })?;
    }
    Ok(*head)
}

fn store_documents(connection: &Connection, documents: &[Document]) -> rusqlite::Result<()> {
    let mut insert = connection
        .prepare_cached("INSERT OR IGNORE INTO documents (digest, body) VALUES (?1, ?2)")?;
    for document in documents {
        insert.execute((&document.digest.as_bytes()[..], document.text.as_str()))?;
    }
    Ok(())
}

fn store_answer(connection: &Connection, answer: &Answer) -> rusqlite::Result<()> {
    let sql =
        "INSERT OR IGNORE INTO answers (key, request, answer, position) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    insert
        .execute((&*answer.key, &answer.request.as_bytes()[..], &*answer.answer, answer.position.0))
        .map(drop)
}

pub(super) fn restore(
    connection: &Connection,
    events: &[Recorded],
    documents: &[Document],
    answers: &[Answer],
) -> Result<Position, Refused> {
    store_documents(connection, documents)?;
    let mut head = read::head(connection)?;
    let mut insert = connection.prepare_cached(INSERT)?;
    for event in events {
        head.0 += 1;
        let version = read::version(connection, &event.stream)?.next();
        follows(event, head, version).map_err(Refused::Rule)?;
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
    if read::head(connection)? != seen {
        return Ok(None);
    }
    let mut delete = connection.prepare_cached("DELETE FROM documents WHERE digest = ?1")?;
    let mut removed = 0;
    for digest in digests {
        removed += delete.execute([&digest.as_bytes()[..]])?;
    }
    Ok(Some(removed))
}

pub(super) fn checkpoint(
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

pub(super) fn seal(
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
