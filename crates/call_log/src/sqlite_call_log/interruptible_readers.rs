//! Reading the call log: every query has its own connection, so that it never blocks writers. A query is interrupted
//! when its caller goes away.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::journal::{JournalError, JournalFuture, map_sqlite_error, run_blocking};
use rusqlite::{Connection, InterruptHandle, OpenFlags};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::BUSY_TIMEOUT;

/// Upper bound for idle connections; others are closed.
const IDLE_LIMIT: usize = 4;

/// A pool of read-only connections.
pub(super) struct SqliteReaders {
    path: Arc<Path>,
    idle: Mutex<Vec<Connection>>,
}

/// A query on the blocking pool; dropping this interrupts it.
struct InterruptibleQuery<T> {
    task: JoinHandle<T>,
    interrupt: InterruptHandle,
}

impl<T> Drop for InterruptibleQuery<T> {
    fn drop(&mut self) {
        // `abort` stops a query that has not begun. Neither call affects a finished query.
        self.task.abort();
        self.interrupt.interrupt();
    }
}

impl SqliteReaders {
    pub(super) fn new(path: Arc<Path>) -> Self {
        Self { path, idle: Mutex::default() }
    }

    /// Opens a read-only connection.
    pub(super) fn open_connection(path: &Path) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(connection)
    }

    /// Runs a query, with a time limit if one is given.
    pub(super) fn run_query<T, F>(&self, within: Option<Duration>, query: F) -> JournalFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        Box::pin(async move {
            let mut connection = self.take_connection().await?;
            let interrupt = connection.get_interrupt_handle();
            let task = tokio::task::spawn_blocking(move || {
                let found = query(&mut connection);
                (connection, found)
            });
            let mut running = InterruptibleQuery { task, interrupt };
            let done = match within {
                Some(limit) => timeout(limit, &mut running.task).await.map_err(|_| {
                    let place = self.path.display().to_string();
                    JournalError::TookTooLong { place, limit }
                })?,
                None => (&mut running.task).await,
            };
            let (connection, found) = done.map_err(|error| self.task_failure(&error))?;
            // Drop before the connection returns to the pool: the interrupt must not hit the query of another caller.
            drop(running);
            self.return_connection(connection);
            found.map_err(|error| map_sqlite_error(&self.path, &error))
        })
    }

    async fn take_connection(&self) -> Result<Connection, JournalError> {
        let kept = self.idle.lock().expect("no one panics while holding the readers").pop();
        if let Some(connection) = kept {
            return Ok(connection);
        }
        let path = Arc::clone(&self.path);
        let open =
            move || Self::open_connection(&path).map_err(|error| map_sqlite_error(&path, &error));
        run_blocking(&self.path, open).await
    }

    fn return_connection(&self, connection: Connection) {
        let mut idle = self.idle.lock().expect("no one panics while holding the readers");
        if idle.len() < IDLE_LIMIT {
            idle.push(connection);
        }
    }

    /// The query has panicked, or the whole program is ending.
    fn task_failure(&self, error: &tokio::task::JoinError) -> JournalError {
        let (place, cause) = (self.path.display().to_string(), error.to_string());
        JournalError::Unavailable { place, cause, maybe_stored: false }
    }
}
