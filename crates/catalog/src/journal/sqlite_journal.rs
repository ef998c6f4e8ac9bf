//! A journal in one SQLite file: WAL, `synchronous=FULL`, one writer with group commit, any number of readers.

mod open_file;
mod sqlite_queries;
mod writer_thread;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use model::{Digest, SchemaDocument};
use open_file::ReaderAccess;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::watch;
use writer_thread::SqliteWriter;

use super::lease::{JournalLease, LocalLeases};
use super::store_common::wait_for_head;
use super::{
    AppendOutcome, AppendRequest, IdempotentAnswer, Journal, JournalError, JournalFuture, Position,
    RecordedEvent, StorageReport, StreamName, StreamVersion,
};
use crate::clock::Clock;

/// A journal in one SQLite file.
pub struct SqliteJournal {
    path: PathBuf,
    access: ReaderAccess,
    head: watch::Receiver<Position>,
    idle_readers: Arc<Mutex<Vec<Connection>>>,
    leases: LocalLeases,
    /// `None` if the file was opened read-only. Last field, so that it is dropped last: SQLite then merges the
    /// write-ahead log into the file, and one file contains everything.
    writer: Option<SqliteWriter>,
}

/// Upper bound for idle read connections; others are closed.
const IDLE_READERS: usize = 4;

impl SqliteJournal {
    /// Opens a journal for reading and writing, and creates it if it does not exist. Only one process may do so at a
    /// time.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, JournalError> {
        let path = &*open_file::canonical_path(path)?;
        let (connection, lock) = open_file::open_for_writing(path)?;
        let head = sqlite_queries::read_head(&connection)
            .map_err(|error| map_sqlite_error(path, &error))?;
        let (sender, receiver) = watch::channel(head);
        let writer = SqliteWriter::spawn_thread(path.to_owned(), connection, lock, clock, sender);
        Ok(Self::assemble(path, ReaderAccess::Shared, Some(writer), receiver))
    }

    /// Opens a journal read-only, concurrently with the process that writes it, if any.
    pub fn open_read_only(path: &Path) -> Result<Self, JournalError> {
        let path = &*open_file::canonical_path(path)?;
        let (connection, access) = open_file::open_for_reading(path)?;
        let head = sqlite_queries::read_head(&connection)
            .map_err(|error| map_sqlite_error(path, &error))?;
        let (_, receiver) = watch::channel(head);
        Ok(Self::assemble(path, access, None, receiver))
    }

    fn assemble(
        path: &Path,
        access: ReaderAccess,
        writer: Option<SqliteWriter>,
        head: watch::Receiver<Position>,
    ) -> Self {
        let (path, leases) = (path.to_owned(), LocalLeases::default());
        Self { path, access, writer, head, idle_readers: Arc::default(), leases }
    }

    /// Runs a query on a connection of its own, on the blocking pool.
    fn run_query<T, F>(&self, query: F) -> JournalFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (idle, path, access) = (Arc::clone(&self.idle_readers), self.path.clone(), self.access);
        let work = move || {
            let kept = idle.lock().expect("no one panics while holding the readers").pop();
            let connection = match kept {
                Some(connection) => connection,
                None => {
                    access.open_reader(&path).map_err(|error| map_sqlite_error(&path, &error))?
                }
            };
            let result = query(&connection).map_err(|error| map_sqlite_error(&path, &error));
            let mut idle = idle.lock().expect("no one panics while holding the readers");
            if idle.len() < IDLE_READERS {
                idle.push(connection);
            }
            result
        };
        run_blocking(&self.path, work)
    }

    /// Runs a change on the writer's connection, between two group commits.
    fn run_change<T, F>(&self, change: F) -> JournalFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, writer_thread::WriteError> + Send + 'static,
    {
        Box::pin(async move { self.require_writer()?.run_change(change).await })
    }

    fn require_writer(&self) -> Result<&SqliteWriter, JournalError> {
        let refusal = || JournalError::ReadOnly {
            place: self.path.display().to_string(),
            cause: "it was opened for reading".to_owned(),
        };
        self.writer.as_ref().ok_or_else(refusal)
    }
}

impl Journal for SqliteJournal {
    fn append(&self, append: AppendRequest) -> JournalFuture<'_, AppendOutcome> {
        Box::pin(async move {
            append.validate()?;
            self.require_writer()?.append(append).await
        })
    }

    fn read_stream(
        &self,
        stream: StreamName,
        after: StreamVersion,
        limit: usize,
    ) -> JournalFuture<'_, Vec<RecordedEvent>> {
        self.run_query(move |connection| {
            sqlite_queries::read_stream(connection, &stream, after, limit)
        })
    }

    fn read_after(&self, after: Position, limit: usize) -> JournalFuture<'_, Vec<RecordedEvent>> {
        self.run_query(move |connection| sqlite_queries::read_after(connection, after, limit))
    }

    fn head_position(&self) -> JournalFuture<'_, Position> {
        self.run_query(sqlite_queries::read_head)
    }

    fn position_at(&self, time: Timestamp) -> JournalFuture<'_, Position> {
        self.run_query(move |connection| sqlite_queries::position_at(connection, time))
    }

    fn wait_after(&self, after: Position) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(wait_for_head(self.head.clone(), after))
    }

    fn read_documents(&self, digests: Vec<Digest>) -> JournalFuture<'_, Vec<SchemaDocument>> {
        self.run_query(move |connection| sqlite_queries::read_documents(connection, &digests))
    }

    fn document_digests(
        &self,
        after: Option<Digest>,
        limit: usize,
    ) -> JournalFuture<'_, Vec<Digest>> {
        self.run_query(move |connection| sqlite_queries::document_digests(connection, after, limit))
    }

    fn remove_documents(
        &self,
        digests: Vec<Digest>,
        seen: Position,
    ) -> JournalFuture<'_, Option<usize>> {
        self.run_change(move |connection| {
            Ok(writer_thread::remove_documents(connection, &digests, seen)?)
        })
    }

    fn find_answer(&self, key: String) -> JournalFuture<'_, Option<IdempotentAnswer>> {
        self.run_query(move |connection| sqlite_queries::find_answer(connection, &key))
    }

    fn list_answers(
        &self,
        after: String,
        limit: usize,
    ) -> JournalFuture<'_, Vec<IdempotentAnswer>> {
        self.run_query(move |connection| sqlite_queries::list_answers(connection, &after, limit))
    }

    fn restore_events(
        &self,
        events: Vec<RecordedEvent>,
        documents: Vec<SchemaDocument>,
        answers: Vec<IdempotentAnswer>,
    ) -> JournalFuture<'_, Position> {
        self.run_change(move |connection| {
            writer_thread::restore_events(connection, &events, &documents, &answers)
        })
    }

    fn checkpoint_positions(&self) -> JournalFuture<'_, Vec<Position>> {
        self.run_query(sqlite_queries::checkpoint_positions)
    }

    fn read_checkpoint(&self, at: Position, piece: u32) -> JournalFuture<'_, Option<Vec<u8>>> {
        self.run_query(move |connection| sqlite_queries::read_checkpoint(connection, at, piece))
    }

    fn write_checkpoint(&self, at: Position, piece: u32, body: Vec<u8>) -> JournalFuture<'_, ()> {
        self.run_change(move |connection| {
            Ok(writer_thread::write_checkpoint(connection, at, piece, &body)?)
        })
    }

    fn remove_checkpoints_before(&self, at: Position) -> JournalFuture<'_, ()> {
        self.run_change(move |connection| {
            Ok(writer_thread::remove_checkpoints_before(connection, at)?)
        })
    }

    fn encrypted_secret(&self, name: String) -> JournalFuture<'_, Option<Vec<u8>>> {
        self.run_query(move |connection| sqlite_queries::encrypted_secret(connection, &name))
    }

    fn encrypted_secret_names(&self) -> JournalFuture<'_, Vec<String>> {
        self.run_query(sqlite_queries::encrypted_secret_names)
    }

    fn store_encrypted_secret(
        &self,
        name: String,
        bytes: Option<Vec<u8>>,
    ) -> JournalFuture<'_, ()> {
        self.run_change(move |connection| {
            Ok(writer_thread::store_encrypted_secret(connection, &name, bytes.as_deref())?)
        })
    }

    fn acquire_lease(&self, name: String) -> JournalFuture<'_, Option<JournalLease>> {
        Box::pin(std::future::ready(Ok(self.leases.acquire_lease(name))))
    }

    fn check_storage(&self) -> JournalFuture<'_, StorageReport> {
        self.run_query(|connection| {
            Ok(StorageReport { problems: sqlite_queries::check_storage(connection)? })
        })
    }
}

/// Maps a failed SQLite call to the error that tells the reader how to react.
pub fn map_sqlite_error(path: &Path, error: &rusqlite::Error) -> JournalError {
    let place = path.display().to_string();
    let cause = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => JournalError::Full { place },
        // The shared-memory file beside the database could not grow: SQLite reports the full disk differently.
        Some(ErrorCode::SystemIoFailure) if is_shm_growth(error) => JournalError::Full { place },
        Some(ErrorCode::NotADatabase) => JournalError::NotAJournal { place, cause },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::SystemIoFailure) => {
            JournalError::Damaged { place, cause }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            JournalError::ReadOnly { place, cause }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            JournalError::Unavailable { place, cause, maybe_stored: false }
        }
        Some(ErrorCode::CannotOpen) => JournalError::CannotOpen { place, cause },
        _ => JournalError::Damaged { place, cause },
    }
}

pub fn is_shm_growth(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// Runs blocking file work on the blocking pool.
pub fn run_blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> JournalFuture<'_, T> {
    Box::pin(async move {
        // The task is cancelled only when the whole program ends.
        let gone = |error: tokio::task::JoinError| JournalError::Unavailable {
            place: path.display().to_string(),
            cause: error.to_string(),
            maybe_stored: false,
        };
        tokio::task::spawn_blocking(work).await.map_err(gone)?
    })
}
