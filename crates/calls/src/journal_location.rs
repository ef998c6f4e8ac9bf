//! The location of the journal: a file, a PostgreSQL database, or memory.

use std::fmt;
#[cfg(feature = "sqlite")]
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

#[cfg(feature = "postgres")]
use call_log::PostgresCallLog;
#[cfg(feature = "sqlite")]
use call_log::SqliteCallLog;
use call_log::{CallLog, MemoryCallLog};
use catalog::clock::Clock;
#[cfg(feature = "sqlite")]
use catalog::journal::SqliteJournal;
use catalog::journal::{Journal, JournalError, MemoryJournal};
#[cfg(feature = "postgres")]
use catalog::journal::{PostgresJournal, PostgresUrl};

/// The location of the journal.
#[derive(Clone, Debug)]
pub enum JournalLocation {
    /// `memory:`, lost when the process ends.
    Memory,
    #[cfg(feature = "sqlite")]
    /// A path: one SQLite file for one process.
    File(PathBuf),
    #[cfg(feature = "postgres")]
    /// `postgres://…`: a database for any number of nodes.
    Postgres(PostgresUrl),
}

/// Why a text is not a journal location.
#[derive(Debug, thiserror::Error)]
pub enum InvalidJournalLocation {
    /// The text is empty.
    #[error("a journal is a path, `postgres://…` or `memory:`")]
    Empty,
    /// A PostgreSQL URL without `://`.
    #[error("a PostgreSQL journal is written `postgres://user@host/database`")]
    Slashes,
    /// A URL with an unsupported scheme.
    #[error("a journal is a path, `postgres://…` or `memory:`; `{scheme}://` is none of them")]
    Scheme {
        /// The scheme of the URL.
        scheme: String,
    },
    /// The program was built without the feature that this location needs.
    #[error("this program was built without the feature `{feature}` of toolcrib")]
    MissingFeature {
        /// The name of the feature.
        feature: &'static str,
    },
    /// The URL cannot be parsed.
    #[error(transparent)]
    Url(#[from] JournalError),
}

impl FromStr for JournalLocation {
    type Err = InvalidJournalLocation;

    fn from_str(text: &str) -> Result<Self, InvalidJournalLocation> {
        match text.split_once("://") {
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(text.parse()?)),
            #[cfg(not(feature = "postgres"))]
            Some(("postgres" | "postgresql", _)) => {
                Err(InvalidJournalLocation::MissingFeature { feature: "postgres" })
            }
            Some((scheme, _)) => Err(InvalidJournalLocation::Scheme { scheme: scheme.to_owned() }),
            None if text.is_empty() => Err(InvalidJournalLocation::Empty),
            // Not a path, and not repeated in the error: it may contain a password.
            None if text.starts_with("postgres:")
                || text.starts_with("postgresql:")
                || text.starts_with("postgres//") =>
            {
                Err(InvalidJournalLocation::Slashes)
            }
            None if text == "memory:" => Ok(Self::Memory),
            #[cfg(feature = "sqlite")]
            None => Ok(Self::File(text.into())),
            #[cfg(not(feature = "sqlite"))]
            None => Err(InvalidJournalLocation::MissingFeature { feature: "sqlite" }),
        }
    }
}

impl fmt::Display for JournalLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            #[cfg(feature = "sqlite")]
            Self::File(path) => path.display().fmt(f),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

impl JournalLocation {
    /// Opens the journal for reading and writing; creates it if it does not exist.
    pub async fn open(
        &self,
        clock: impl Clock + 'static,
    ) -> Result<Arc<dyn Journal>, JournalError> {
        Ok(match self {
            Self::Memory => Arc::new(MemoryJournal::new(Arc::new(clock))),
            #[cfg(feature = "sqlite")]
            Self::File(path) => Arc::new(SqliteJournal::open(path, Arc::new(clock))?),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Arc::new(PostgresJournal::connect(url.clone()).await?),
        })
    }

    /// Opens the journal for reading, while another process may write to it.
    pub async fn open_read_only(
        &self,
        clock: impl Clock + 'static,
    ) -> Result<Arc<dyn Journal>, JournalError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::File(path) => Ok(Arc::new(SqliteJournal::open_read_only(path)?)),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => {
                Ok(Arc::new(PostgresJournal::connect_to_read(url.clone()).await?))
            }
            Self::Memory => self.open(clock).await,
        }
    }

    /// Opens the call log that belongs to the journal; creates it if it does not exist.
    pub async fn open_call_log(&self) -> Result<Arc<dyn CallLog>, JournalError> {
        Ok(match self {
            Self::Memory => Arc::new(MemoryCallLog::default()),
            #[cfg(feature = "sqlite")]
            Self::File(path) => Arc::new(SqliteCallLog::open(&SqliteCallLog::path_beside(path))?),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Arc::new(PostgresCallLog::connect(url.clone()).await?),
        })
    }

    /// Opens the call log for reading.
    pub async fn open_call_log_read_only(&self) -> Result<Arc<dyn CallLog>, JournalError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::File(path) => {
                Ok(Arc::new(SqliteCallLog::open_read_only(&SqliteCallLog::path_beside(path))?))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Ok(Arc::new(PostgresCallLog::connect_to_read(url.clone())?)),
            Self::Memory => self.open_call_log().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_parsed_from_text_and_shown_without_the_password() {
        let show =
            |text: &str| text.parse::<JournalLocation>().map(|place| format!("{place} {place:?}"));
        assert!(show("toolcrib.db").unwrap().starts_with("toolcrib.db"));
        let shown = show("postgres://me:hunter2@db.example:6543/crib").unwrap();
        assert!(shown.starts_with("postgres://db.example:6543/crib"), "{shown}");
        assert!(!shown.contains("hunter2"));
    }

    #[test]
    fn an_invalid_location_is_rejected_without_repeating_its_password() {
        for text in [
            "",
            "mysql://db",
            "postgres://host:notaport/x",
            "postgres:/me:hunter2@db",
            "postgres//me:hunter2@db/x",
        ] {
            let error = text.parse::<JournalLocation>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}");
        }
    }
}
