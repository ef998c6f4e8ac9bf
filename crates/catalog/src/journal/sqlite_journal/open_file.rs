//! Opening the database file: its lock, settings and tables, and the errors if this fails.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::{JournalError, map_sqlite_error};

/// `crib`: identifies our database files.
const APPLICATION_ID: i64 = 0x6372_6962;

/// Schema migrations, one per format. A released migration never changes; a new one is added instead.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE events (
        position INTEGER PRIMARY KEY,
        stream TEXT NOT NULL,
        version INTEGER NOT NULL,
        type TEXT NOT NULL,
        time INTEGER NOT NULL, -- microseconds since 1970
        actor TEXT NOT NULL,
        correlation_id TEXT,
        causation_id TEXT,
        data TEXT NOT NULL,
        UNIQUE (stream, version)
    ) STRICT;
    CREATE TABLE documents (digest BLOB NOT NULL UNIQUE, body TEXT NOT NULL) STRICT;
    CREATE TABLE answers (
        key TEXT PRIMARY KEY, request BLOB NOT NULL, answer TEXT NOT NULL, position INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE checkpoints (
        at INTEGER NOT NULL, piece INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (at, piece)
    ) STRICT;
    CREATE TABLE sealed (name TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT, WITHOUT ROWID;
"];

/// How readers open the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReaderAccess {
    /// Concurrently with a writer.
    Shared,
    /// The folder is read-only, so no process can be writing: neither lock nor shared memory is needed.
    Immutable,
}

impl ReaderAccess {
    pub(super) fn open_reader(self, path: &Path) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = match self {
            Self::Shared => Connection::open_with_flags(path, flags & !OpenFlags::SQLITE_OPEN_URI)?,
            Self::Immutable => Connection::open_with_flags(
                format!("file:{}?immutable=1", escape_uri_path(path)),
                flags,
            )?,
        };
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(connection)
    }
}

/// How long to wait for another program that has locked the file, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

fn escape_uri_path(path: &Path) -> String {
    path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// Opens for writing; the lock is held as long as the returned file is open.
pub(super) fn open_for_writing(path: &Path) -> Result<(Connection, File), JournalError> {
    let lock = acquire_file_lock(path)?;
    create_private_file(path)?;
    reject_hard_link(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened =
        Connection::open_with_flags(path, flags).map_err(|error| map_sqlite_error(path, &error))?;
    let connection = prepare_connection(opened, path)?;
    Ok((connection, lock))
}

/// The canonical path of a file, regardless of links: the name of the lock file depends on it.
pub(super) fn canonical_path(path: &Path) -> Result<PathBuf, JournalError> {
    let cannot = |cause: &str| JournalError::CannotOpen {
        place: path.display().to_string(),
        cause: cause.to_owned(),
    };
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            return Err(cannot("it is a folder: give a file in it"));
        }
        Ok(metadata) if !metadata.is_file() => return Err(cannot("it is not a file")),
        Ok(_) => return path.canonicalize().map_err(|error| cannot(&error.to_string())),
        Err(_) => {}
    }
    let name = path.file_name().ok_or_else(|| cannot("it has no name"))?;
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder =
        folder.canonicalize().map_err(|_| cannot("its folder is not there: make it first"))?;
    Ok(folder.join(name))
}

fn prepare_connection(mut connection: Connection, path: &Path) -> Result<Connection, JournalError> {
    let sql = |error: rusqlite::Error| map_sqlite_error(path, &error);
    let cannot = |cause: &str| JournalError::CannotOpen {
        place: path.display().to_string(),
        cause: cause.to_owned(),
    };
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sql)?;
    check_format(&connection, path)?;
    // SQLite returns the resulting mode and reports no error if it could not switch.
    let mode = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0))
        .map_err(sql)?;
    if mode != "wal" {
        return Err(cannot(
            "it cannot be switched to write-ahead logging: check the disk and start again",
        ));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(sql)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20).map_err(sql)?;
    connection.set_prepared_statement_cache_capacity(64);
    run_migrations(&mut connection).map_err(sql)?;
    // Move everything visible into the database file and flush it there. Frames of the write-ahead log whose flush
    // failed before a restart would otherwise remain, unflushed, before later ones.
    let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
    let held_back: i64 = connection.query_row(truncate, [], |row| row.get(0)).map_err(sql)?;
    if held_back != 0 {
        return Err(cannot(
            "somebody reads it for long, perhaps a backup: start again when that is done",
        ));
    }
    Ok(connection)
}

/// Opens for reading, even on a read-only file system.
pub(super) fn open_for_reading(path: &Path) -> Result<(Connection, ReaderAccess), JournalError> {
    let place = || path.display().to_string();
    match path.metadata() {
        Err(_) => {
            let cause = "there is no such file: `toolcrib serve` makes one, `toolcrib journal import` one from an export".to_owned();
            return Err(JournalError::CannotOpen { place: place(), cause });
        }
        Ok(metadata) if metadata.len() == 0 => {
            return Err(JournalError::NotAJournal {
                place: place(),
                cause: "it is empty".to_owned(),
            });
        }
        Ok(_) => {}
    }
    let wal = PathBuf::from(format!("{}-wal", path.display()));
    let no_wal = !wal.metadata().is_ok_and(|metadata| 0 < metadata.len());
    let attempt = |access: ReaderAccess| {
        let connection =
            access.open_reader(path).map_err(|error| map_sqlite_error(path, &error))?;
        if !check_format(&connection, path)? {
            let cause = "it holds nothing yet".to_owned();
            return Err(JournalError::NotAJournal { place: place(), cause });
        }
        Ok((connection, access))
    };
    match attempt(ReaderAccess::Shared) {
        Err(JournalError::ReadOnly { .. } | JournalError::CannotOpen { .. }) if no_wal => {
            attempt(ReaderAccess::Immutable)
        }
        other => other,
    }
}

/// Rejects hard links: SQLite would keep two logs for one file and corrupt it.
fn reject_hard_link(path: &Path) -> Result<(), JournalError> {
    #[cfg(unix)]
    if path.metadata().is_ok_and(|metadata| 1 < std::os::unix::fs::MetadataExt::nlink(&metadata)) {
        let cause = "it has a second name, a hard link: remove one of them".to_owned();
        return Err(JournalError::CannotOpen { place: path.display().to_string(), cause });
    }
    Ok(())
}

/// Locks a separate file: closing a second handle of the database file would release SQLite's own locks on it.
fn acquire_file_lock(path: &Path) -> Result<File, JournalError> {
    let place = || path.display().to_string();
    let lock_path = format!("{}.lock", path.display());
    let opened = private_file_options().open(lock_path);
    let file = opened.map_err(|error| cannot_write(path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(JournalError::InUse { place: place() }),
        Err(TryLockError::Error(error)) => Err(JournalError::CannotOpen {
            place: place(),
            cause: format!("its lock file: {error}"),
        }),
    }
}

/// The file contains access rights and encrypted secrets, so only its owner may read it.
fn create_private_file(path: &Path) -> Result<(), JournalError> {
    if path.exists() {
        return Ok(());
    }
    private_file_options().open(path).map(drop).map_err(|error| cannot_write(path, &error))
}

fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn cannot_write(path: &Path, error: &std::io::Error) -> JournalError {
    let (place, cause) = (path.display().to_string(), error.to_string());
    match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            JournalError::ReadOnly { place, cause }
        }
        std::io::ErrorKind::StorageFull => JournalError::Full { place },
        std::io::ErrorKind::NotFound => JournalError::CannotOpen {
            place,
            cause: "its folder is not there: make it first".to_owned(),
        },
        _ => JournalError::CannotOpen { place, cause },
    }
}

/// Checks that the file is ours; returns true if it already contains a journal.
fn check_format(connection: &Connection, path: &Path) -> Result<bool, JournalError> {
    let sql = |error: rusqlite::Error| map_sqlite_error(path, &error);
    let number = |pragma: &str| {
        connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0))
    };
    let (application, found) =
        (number("application_id").map_err(sql)?, number("user_version").map_err(sql)?);
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(sql)?;
    let place = path.display().to_string();
    // A truncated last page: SQLite would read the missing bytes as zeros.
    let page = u64::try_from(number("page_size").map_err(sql)?).unwrap_or(1).max(1);
    if path.metadata().is_ok_and(|file| !file.len().is_multiple_of(page)) {
        let cause = "it is cut off in the middle of a page".to_owned();
        return Err(JournalError::Damaged { place, cause });
    }
    let empty = application == 0 && tables == 0;
    if application != APPLICATION_ID && !empty {
        let cause = "it is a database of another program".to_owned();
        return Err(JournalError::NotAJournal { place, cause });
    }
    let known = MIGRATIONS.len() as i64;
    if known < found {
        return Err(JournalError::Newer { place, found, known });
    }
    Ok(!empty)
}

fn run_migrations(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let format: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let done = usize::try_from(format).unwrap_or(0);
    if MIGRATIONS.len() == done {
        return Ok(());
    }
    for migration in &MIGRATIONS[done..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()
}
