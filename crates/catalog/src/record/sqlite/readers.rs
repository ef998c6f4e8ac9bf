//! Reading the call log: every query has its own connection, so that it never blocks writers. A query is interrupted
//! when its caller goes away.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle, OpenFlags};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::BUSY;
use crate::journal::{Answering, JournalError, off_the_async_threads, sqlite_failure};

/// Upper bound for idle connections; others are closed.
const IDLE: usize = 4;

/// A pool of read-only connections.
pub(super) struct Readers {
    path: Arc<Path>,
    idle: Mutex<Vec<Connection>>,
}

/// A query on the blocking pool; dropping this interrupts it.
struct Running<T> {
    task: JoinHandle<T>,
    interrupt: InterruptHandle,
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        // `abort` stops a query that has not begun. Neither call affects a finished query.
        self.task.abort();
        self.interrupt.interrupt();
    }
}

impl Readers {
    pub(super) fn of(path: Arc<Path>) -> Self {
        Self { path, idle: Mutex::default() }
    }

    /// Opens a read-only connection.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        Ok(connection)
    }

    /// Runs a query, with a time limit if one is given.
    pub(super) fn read<T, F>(&self, within: Option<Duration>, query: F) -> Answering<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        Box::pin(async move {
            let mut connection = self.take().await?;
            let interrupt = connection.get_interrupt_handle();
            let task = tokio::task::spawn_blocking(move || {
                let found = query(&mut connection);
                (connection, found)
            });
            let mut running = Running { task, interrupt };
            let done = match within {
                Some(limit) => timeout(limit, &mut running.task).await.map_err(|_| {
                    let place = self.path.display().to_string();
                    JournalError::TookTooLong { place, limit }
                })?,
                None => (&mut running.task).await,
            };
            let (connection, found) = done.map_err(|error| self.gone(&error))?;
            // Drop before the connection returns to the pool: the interrupt must not hit the query of another caller.
            drop(running);
            self.give_back(connection);
            found.map_err(|error| sqlite_failure(&self.path, &error))
        })
    }

    async fn take(&self) -> Result<Connection, JournalError> {
        let kept = self.idle.lock().expect("no one panics while holding the readers").pop();
        if let Some(connection) = kept {
            return Ok(connection);
        }
        let path = Arc::clone(&self.path);
        let open = move || Self::open(&path).map_err(|error| sqlite_failure(&path, &error));
        off_the_async_threads(&self.path, open).await
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().expect("no one panics while holding the readers");
        if idle.len() < IDLE {
            idle.push(connection);
        }
    }

    /// The query has panicked, or the whole program is ending.
    fn gone(&self, error: &tokio::task::JoinError) -> JournalError {
        let (place, cause) = (self.path.display().to_string(), error.to_string());
        JournalError::Unavailable { place, cause, maybe_stored: false }
    }
}
