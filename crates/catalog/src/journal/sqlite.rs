//! A journal in one SQLite file: WAL, `synchronous=FULL`, one writer with group commit, any number of readers.

mod open;
mod read;
mod write;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use model::{Digest, Document};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::watch;

use super::lease::{Lease, Leases};
use super::shared::wait_for;
use super::{
    Answer, Answering, Append, Appended, Journal, JournalError, Position, Recorded, StorageReport,
    StreamName, Version,
};
use crate::clock::Clock;
use open::Access;
use write::Writer;

/// A journal in one SQLite file.
pub struct SqliteJournal {
    path: PathBuf,
    access: Access,
    head: watch::Receiver<Position>,
    idle_readers: Arc<Mutex<Vec<Connection>>>,
    leases: Leases,
    /// `None` if the file was opened read-only. Last field, so that it is dropped last: SQLite then merges the
    /// write-ahead log into the file, and one file contains everything.
    writer: Option<Writer>,
}

/// Upper bound for idle read connections; others are closed.
const IDLE_READERS: usize = 4;

impl SqliteJournal {
    /// Opens a journal for reading and writing, and creates it if it does not exist. Only one process may do so at a
    /// time.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, JournalError> {
        let path = &*open::real(path)?;
        let (connection, lock) = open::for_writing(path)?;
        let head = read::head(&connection).map_err(|error| failure(path, &error))?;
        let (sender, receiver) = watch::channel(head);
        let writer = Writer::start(path.to_owned(), connection, lock, clock, sender);
        Ok(Self::over(path, Access::Shared, Some(writer), receiver))
    }

    /// Opens a journal read-only, concurrently with the process that writes it, if any.
    pub fn open_read_only(path: &Path) -> Result<Self, JournalError> {
        let path = &*open::real(path)?;
        let (connection, access) = open::for_reading(path)?;
        let head = read::head(&connection).map_err(|error| failure(path, &error))?;
        let (_, receiver) = watch::channel(head);
        Ok(Self::over(path, access, None, receiver))
    }

    fn over(
        path: &Path,
        access: Access,
        writer: Option<Writer>,
        head: watch::Receiver<Position>,
    ) -> Self {
        let (path, leases) = (path.to_owned(), Leases::default());
        Self { path, access, writer, head, idle_readers: Arc::default(), leases }
    }

    /// Runs a query on a connection of its own, on the blocking pool.
    fn read<T, F>(&self, query: F) -> Answering<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (idle, path, access) = (Arc::clone(&self.idle_readers), self.path.clone(), self.access);
        let work = move || {
            let kept = idle.lock().expect("no one panics while holding the readers").pop();
            let connection = match kept {
                Some(connection) => connection,
                None => access.reader(&path).map_err(|error| failure(&path, &error))?,
            };
            let result = query(&connection).map_err(|error| failure(&path, &error));
            let mut idle = idle.lock().expect("no one panics while holding the readers");
            if idle.len() < IDLE_READERS {
                idle.push(connection);
            }
            result
        };
        off_the_async_threads(&self.path, work)
    }

    /// Runs a change on the writer's connection, between two group commits.
    fn change<T, F>(&self, change: F) -> Answering<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, write::Refused> + Send + 'static,
    {
        Box::pin(async move { self.writer()?.change(change).await })
    }

    fn writer(&self) -> Result<&Writer, JournalError> {
        let refusal = || JournalError::ReadOnly {
            place: self.path.display().to_string(),
            cause: "it was opened for reading".to_owned(),
        };
        self.writer.as_ref().ok_or_else(refusal)
    }
}

impl Journal for SqliteJournal {
    fn append(&self, append: Append) -> Answering<'_, Appended> {
        Box::pin(async move {
            append.check()?;
            self.writer()?.append(append).await
        })
    }

    fn read_stream(
        &self,
        stream: StreamName,
        after: Version,
        limit: usize,
    ) -> Answering<'_, Vec<Recorded>> {
        self.read(move |connection| read::stream(connection, &stream, after, limit))
    }

    fn read_after(&self, after: Position, limit: usize) -> Answering<'_, Vec<Recorded>> {
        self.read(move |connection| read::after(connection, after, limit))
    }

    fn head(&self) -> Answering<'_, Position> {
        self.read(read::head)
    }

    fn position_at(&self, time: Timestamp) -> Answering<'_, Position> {
        self.read(move |connection| read::position_at(connection, time))
    }

    fn wait_after(&self, after: Position) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(wait_for(self.head.clone(), after))
    }

    fn documents(&self, digests: Vec<Digest>) -> Answering<'_, Vec<Document>> {
        self.read(move |connection| read::documents(connection, &digests))
    }

    fn document_digests(&self, after: Option<Digest>, limit: usize) -> Answering<'_, Vec<Digest>> {
        self.read(move |connection| read::document_digests(connection, after, limit))
    }

    fn remove_documents(
        &self,
        digests: Vec<Digest>,
        seen: Position,
    ) -> Answering<'_, Option<usize>> {
        self.change(move |connection| Ok(write::remove_documents(connection, &digests, seen)?))
    }

    fn answer(&self, key: String) -> Answering<'_, Option<Answer>> {
        self.read(move |connection| read::answer(connection, &key))
    }

    fn answers(&self, after: String, limit: usize) -> Answering<'_, Vec<Answer>> {
        self.read(move |connection| read::answers(connection, &after, limit))
    }

    fn restore(
        &self,
        events: Vec<Recorded>,
        documents: Vec<Document>,
        answers: Vec<Answer>,
    ) -> Answering<'_, Position> {
        self.change(move |connection| write::restore(connection, &events, &documents, &answers))
    }

    fn checkpoints(&self) -> Answering<'_, Vec<Position>> {
        self.read(read::checkpoints)
    }

    fn read_checkpoint(&self, at: Position, piece: u32) -> Answering<'_, Option<Vec<u8>>> {
        self.read(move |connection| read::checkpoint(connection, at, piece))
    }

    fn write_checkpoint(&self, at: Position, piece: u32, body: Vec<u8>) -> Answering<'_, ()> {
        self.change(move |connection| Ok(write::checkpoint(connection, at, piece, &body)?))
    }

    fn remove_checkpoints_before(&self, at: Position) -> Answering<'_, ()> {
        self.change(move |connection| Ok(write::remove_checkpoints_before(connection, at)?))
    }

    fn sealed(&self, name: String) -> Answering<'_, Option<Vec<u8>>> {
        self.read(move |connection| read::sealed(connection, &name))
    }

    fn sealed_names(&self) -> Answering<'_, Vec<String>> {
        self.read(read::sealed_names)
    }

    fn seal(&self, name: String, bytes: Option<Vec<u8>>) -> Answering<'_, ()> {
        self.change(move |connection| Ok(write::seal(connection, &name, bytes.as_deref())?))
    }

    fn lease(&self, name: String) -> Answering<'_, Option<Lease>> {
        Box::pin(std::future::ready(Ok(self.leases.take(name))))
    }

    fn check_storage(&self) -> Answering<'_, StorageReport> {
        self.read(|connection| Ok(StorageReport { problems: read::check_storage(connection)? }))
    }
}

/// Maps a failed SQLite call to the error that tells the reader how to react.
pub(crate) fn failure(path: &Path, error: &rusqlite::Error) -> JournalError {
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

pub(crate) fn is_shm_growth(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// Runs blocking file work on the blocking pool.
pub(crate) fn off_the_async_threads<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> Answering<'_, T> {
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
