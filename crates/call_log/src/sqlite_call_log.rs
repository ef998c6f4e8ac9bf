//! A call log in a SQLite file of its own, next to that of the journal.
//!
//! The file of the journal has one permanent writer. This file has several: a server and the programs that call tools
//! at the same time. So each transaction reads the head of the chain before it appends. Readers never block writers.

mod interruptible_readers;
#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use catalog::journal::{
    JournalError, JournalFuture, is_shm_growth, map_sqlite_error, run_blocking,
};
use jiff::Timestamp;
use model::Digest;
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, TransactionBehavior};

use self::interruptible_readers::SqliteReaders;
use super::call_filter::{SqlDialect, SqlParameter};
use super::usage_totals::totals_of_calls;
use super::{
    CallFilter, CallLog, CallLogRow, CallRecord, ChainBounds, ChainLink, REMOVAL_BATCH, UsageKind,
    UsagePage, UsageTotals, chain_rows, format_time,
};

/// `crec`: identifies database files of our call log.
const APPLICATION_ID: i64 = 0x6372_6563;
/// How long to wait for another writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of a search, as on PostgreSQL. Reading everything in order may take longer.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Schema migrations, one per format. A released migration never changes; a new one is added instead.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE calls (
        id INTEGER PRIMARY KEY,
        text TEXT NOT NULL,
        hash BLOB NOT NULL,
        time TEXT AS (text ->> 'time'),
        tool TEXT AS (text ->> 'tool_id'),
        source TEXT AS (text ->> 'source_id'),
        subject TEXT AS (text ->> 'subject'),
        status TEXT AS (text ->> 'status'),
        code TEXT AS (text ->> 'code')
    ) STRICT;
    CREATE INDEX calls_of_tool ON calls (tool, id);
    CREATE INDEX calls_of_subject ON calls (subject, id);
    CREATE INDEX failed_calls ON calls (code, id) WHERE code IS NOT NULL;
    CREATE TABLE usage (
        of TEXT NOT NULL, name TEXT NOT NULL, executions INTEGER NOT NULL, last_at TEXT,
        errors INTEGER NOT NULL, last_error TEXT, PRIMARY KEY (of, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE anchor (one INTEGER PRIMARY KEY CHECK (one = 1), id INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;
", "
    CREATE INDEX calls_of_source ON calls (source, id);
    CREATE INDEX calls_by_time ON calls (time);
    CREATE INDEX calls_of_request ON calls (text ->> 'correlation_id', id)
        WHERE text ->> 'correlation_id' IS NOT NULL;
    CREATE INDEX calls_not_completed ON calls (status, id) WHERE status <> 'completed';
"];

const SQLITE_DIALECT: SqlDialect = SqlDialect { table: "calls", placeholder: '?', json: "text" };

/// A call log in a SQLite file.
pub struct SqliteCallLog {
    path: Arc<Path>,
    /// Why writing has stopped: after a failed flush, a later one could only seem to succeed.
    stopped: Arc<OnceLock<String>>,
    readers: SqliteReaders,
    /// `None` if the file was opened read-only. Last field, so that it is dropped last: SQLite then merges the
    /// write-ahead log into the file.
    writer: Option<Arc<Mutex<Connection>>>,
}

impl SqliteCallLog {
    /// The path of the call log that belongs to a journal.
    pub fn path_beside(journal: &Path) -> PathBuf {
        let mut name = journal.as_os_str().to_owned();
        name.push(".record");
        name.into()
    }

    /// Opens a call log for reading and writing, and creates it if it does not exist.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        create_private_file(path)?;
        let sql = |error: rusqlite::Error| map_sqlite_error(path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(sql)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(sql)?;
        check_format(&connection, path)?;
        connection
            .query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0))
            .map_err(sql)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(sql)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20).map_err(sql)?;
        run_migrations(&mut connection).map_err(sql)?;
        Ok(Self::assemble(path, Some(connection)))
    }

    /// Opens a call log read-only.
    pub fn open_read_only(path: &Path) -> Result<Self, JournalError> {
        if !path.is_file() {
            let cause = "there is no such file: no call was recorded yet".to_owned();
            return Err(JournalError::CannotOpen { place: path.display().to_string(), cause });
        }
        let sql = |error: rusqlite::Error| map_sqlite_error(path, &error);
        let connection = SqliteReaders::open_connection(path).map_err(sql)?;
        check_format(&connection, path)?;
        Ok(Self::assemble(path, None))
    }

    fn assemble(path: &Path, writer: Option<Connection>) -> Self {
        let path: Arc<Path> = path.into();
        let (readers, writer) = (SqliteReaders::new(Arc::clone(&path)), writer.map(Mutex::new));
        Self { path, stopped: Arc::default(), readers, writer: writer.map(Arc::new) }
    }

    /// Runs a change on the blocking pool.
    fn run_change<T, F>(&self, work: F) -> JournalFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let path = Arc::clone(&self.path);
        let Some(writer) = self.writer.clone() else {
            let (place, cause) = (path.display().to_string(), "it was opened for reading".into());
            return Box::pin(std::future::ready(Err(JournalError::ReadOnly { place, cause })));
        };
        let work = move || {
            let mut connection = writer.lock().expect("no one panics while holding it");
            work(&mut connection).map_err(|error| map_sqlite_error(&path, &error))
        };
        run_blocking(&self.path, work)
    }
}

impl CallLog for SqliteCallLog {
    fn store_calls(&self, calls: Arc<[CallRecord]>) -> JournalFuture<'_, ()> {
        if let Some(cause) = self.stopped.get() {
            let (place, cause) = (self.path.display().to_string(), cause.clone());
            return Box::pin(std::future::ready(Err(JournalError::Stopped { place, cause })));
        }
        let stopped = Arc::clone(&self.stopped);
        self.run_change(move |connection| {
            store_calls(connection, &calls).inspect_err(|error| {
                if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
                    && !is_shm_growth(error)
                {
                    stopped.get_or_init(|| error.to_string());
                }
            })
        })
    }

    fn read_rows(&self, filter: CallFilter) -> JournalFuture<'_, Vec<CallLogRow>> {
        let within = (!filter.oldest_first).then_some(SEARCH_TIMEOUT);
        self.readers.run_query(within, move |connection| read_rows(connection, filter))
    }

    fn usage_totals(
        &self,
        of: UsageKind,
        names: Vec<String>,
    ) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        self.readers.run_query(Some(SEARCH_TIMEOUT), move |connection| {
            let sql = "SELECT name, executions, last_at, errors, last_error FROM usage
                WHERE of = ?1 AND name = ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let mut found = Vec::new();
            for name in names {
                let usage = statement.query_row((of.as_str(), &name), usage_from_row);
                found.extend(usage.optional()?.map(|usage| (name, usage)));
            }
            Ok(found)
        })
    }

    fn most_used(&self, page: UsagePage) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        self.readers.run_query(Some(SEARCH_TIMEOUT), move |connection| {
            let sql = "SELECT name, executions, last_at, errors, last_error FROM usage
                WHERE of = ?1 AND name <> '' AND (executions < ?2 OR (executions = ?2 AND name > ?3))
                ORDER BY executions DESC, name LIMIT ?4";
            let mut statement = connection.prepare_cached(sql)?;
            let (used, name, limit) = page.sql_parameters();
            let found = statement.query_map((page.of.as_str(), used, name, limit), |row| {
                Ok((row.get(0)?, usage_from_row(row)?))
            })?;
            found.collect()
        })
    }

    fn chain_bounds(&self) -> JournalFuture<'_, ChainBounds> {
        self.readers.run_query(Some(SEARCH_TIMEOUT), |connection| {
            let step = connection.transaction()?;
            let sql = "SELECT coalesce(sum(executions), 0) FROM usage WHERE of = 'tool'";
            let counted = step.query_row(sql, [], |row| row.get(0))?;
            Ok(ChainBounds { anchor: read_anchor(&step)?, head: read_head(&step)?, counted })
        })
    }

    fn remove_before(&self, time: Timestamp) -> JournalFuture<'_, u64> {
        self.run_change(move |connection| {
            let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let (sql, before) =
                ("SELECT id, time, hash FROM calls ORDER BY id LIMIT ?1", format_time(time));
            let mut statement = step.prepare_cached(sql)?;
            let mut rows = statement.query([REMOVAL_BATCH])?;
            let (mut stays, mut last, mut removed) = (None, None, 0);
            while let Some(row) = rows.next()?
                && row.get::<_, Option<String>>(1)?.is_none_or(|time| time < before)
            {
                last = stays.replace(ChainLink { id: row.get(0)?, hash: hash_from_row(row, 2)? });
                removed += u64::from(last.is_some());
            }
            drop(rows);
            drop(statement);
            if let Some(last) = last {
                let sql = "INSERT OR REPLACE INTO anchor (one, id, hash) VALUES (1, ?1, ?2)";
                step.execute(sql, (last.id, &last.hash.as_bytes()[..]))?;
                step.execute("DELETE FROM calls WHERE id <= ?1", [last.id])?;
            }
            step.commit()?;
            Ok(removed)
        })
    }
}

fn read_rows(connection: &Connection, filter: CallFilter) -> rusqlite::Result<Vec<CallLogRow>> {
    let filter = narrow_by_time(connection, filter)?;
    let (wanted, values) = filter.to_sql(SQLITE_DIALECT);
    let sql = format!("SELECT id, text, hash FROM calls {wanted}");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(rusqlite::params_from_iter(values), |row| {
        Ok(CallLogRow { id: row.get(0)?, text: row.get(1)?, hash: hash_from_row(row, 2)? })
    })?;
    rows.collect()
}

/// Limits the filter to the ids of its time window if there are few of them.
fn narrow_by_time(connection: &Connection, filter: CallFilter) -> rusqlite::Result<CallFilter> {
    let Some((sql, values)) = filter.time_window_sql(SQLITE_DIALECT) else { return Ok(filter) };
    let mut few = connection.prepare_cached(&sql)?;
    let ids = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    Ok(filter.limit_to_ids(few.query_row(rusqlite::params_from_iter(values), ids)?))
}

fn store_calls(connection: &mut Connection, calls: &[CallRecord]) -> rusqlite::Result<()> {
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let rows = chain_rows(read_head(&step)?, calls);
    let mut insert =
        step.prepare_cached("INSERT INTO calls (id, text, hash) VALUES (?1, ?2, ?3)")?;
    for row in &rows {
        insert.execute((row.id, &*row.text, &row.hash.as_bytes()[..]))?;
    }
    drop(insert);
    add_usage(&step, calls)?;
    step.commit()
}

fn add_usage(connection: &Connection, calls: &[CallRecord]) -> rusqlite::Result<()> {
    let sql = "INSERT INTO usage (of, name, executions, last_at, errors, last_error)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (of, name) DO UPDATE SET
            executions = executions + excluded.executions,
            last_at = max(coalesce(last_at, ''), excluded.last_at),
            errors = errors + excluded.errors,
            last_error = coalesce(excluded.last_error, last_error)";
    let mut statement = connection.prepare_cached(sql)?;
    for ((of, name), usage) in totals_of_calls(calls) {
        let last_at = usage.last_executed_at.map(format_time);
        let (calls, errors) = (usage.execution_count, usage.error_count);
        statement.execute((of.as_str(), name, calls, last_at, errors, usage.last_error))?;
    }
    Ok(())
}

/// Reads usage totals from a row whose first column is the name.
fn usage_from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<UsageTotals> {
    let last_at: Option<String> = row.get(2)?;
    Ok(UsageTotals {
        execution_count: row.get(1)?,
        last_executed_at: last_at.and_then(|time| time.parse().ok()),
        error_count: row.get(3)?,
        last_error: row.get(4)?,
    })
}

fn read_head(connection: &Connection) -> rusqlite::Result<ChainLink> {
    let sql = "SELECT id, hash FROM calls ORDER BY id DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    match statement
        .query_row([], |row| Ok(ChainLink { id: row.get(0)?, hash: hash_from_row(row, 1)? }))
    {
        Err(rusqlite::Error::QueryReturnedNoRows) => read_anchor(connection),
        other => other,
    }
}

fn read_anchor(connection: &Connection) -> rusqlite::Result<ChainLink> {
    let mut statement = connection.prepare_cached("SELECT id, hash FROM anchor")?;
    let found = statement
        .query_row([], |row| Ok(ChainLink { id: row.get(0)?, hash: hash_from_row(row, 1)? }));
    Ok(found.optional()?.unwrap_or_else(ChainLink::start))
}

impl rusqlite::ToSql for SqlParameter {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => text.to_sql(),
            Self::Number(number) => number.to_sql(),
        }
    }
}

/// An invalid hash is replaced by one that no row text has, so that verification reports it.
fn hash_from_row(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    let bytes: Vec<u8> = row.get(column)?;
    Ok(Digest::from_bytes(&bytes).unwrap_or_else(|_| Digest::of_bytes("no hash")))
}

/// The file records who called which tool, so only its owner may read it.
fn create_private_file(path: &Path) -> Result<(), JournalError> {
    if path.exists() {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(|error| {
        let (place, cause) = (path.display().to_string(), error.to_string());
        match error.kind() {
            std::io::ErrorKind::StorageFull => JournalError::Full { place },
            _ => JournalError::ReadOnly { place, cause },
        }
    })
}

/// Rejects files of other programs and newer formats.
fn check_format(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    let sql = |error: rusqlite::Error| map_sqlite_error(path, &error);
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id").map_err(sql)?;
    let found = number("PRAGMA user_version").map_err(sql)?;
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(sql)?;
    let (place, known) = (path.display().to_string(), MIGRATIONS.len() as i64);
    if application != APPLICATION_ID && (application != 0 || tables != 0) {
        let cause = "it is a database of another program".to_owned();
        return Err(JournalError::NotAJournal { place, cause });
    }
    if known < found {
        return Err(JournalError::Newer { place, found, known });
    }
    Ok(())
}

fn run_migrations(connection: &mut Connection) -> rusqlite::Result<()> {
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let format: i64 = step.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let done = usize::try_from(format).unwrap_or(0);
    if done == MIGRATIONS.len() {
        return Ok(());
    }
    for migration in MIGRATIONS.iter().skip(done) {
        step.execute_batch(migration)?;
    }
    step.pragma_update(None, "application_id", APPLICATION_ID)?;
    step.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    step.commit()
}
