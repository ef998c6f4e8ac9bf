//! The location of the journal: a file, a PostgreSQL database, or memory.

use std::fmt;
#[cfg(feature = "sqlite")]
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use catalog::clock::Clock;
#[cfg(feature = "sqlite")]
use catalog::journal::SqliteJournal;
use catalog::journal::{Journal, JournalError, MemoryJournal};
#[cfg(feature = "postgres")]
use catalog::journal::{PostgresJournal, PostgresUrl};
#[cfg(feature = "postgres")]
use catalog::record::PostgresRecords;
#[cfg(feature = "sqlite")]
use catalog::record::SqliteRecords;
use catalog::record::{MemoryRecords, Records};

/// The location of the journal.
#[derive(Clone, Debug)]
pub enum JournalPlace {
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
pub enum InvalidPlace {
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
    LeftOut {
        /// The name of the feature.
        feature: &'static str,
    },
    /// The URL cannot be parsed.
    #[error(transparent)]
    Url(#[from] JournalError),
}

impl FromStr for JournalPlace {
    type Err = InvalidPlace;

    fn from_str(text: &str) -> Result<Self, InvalidPlace> {
        match text.split_once("://") {
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(text.parse()?)),
            #[cfg(not(feature = "postgres"))]
            Some(("postgres" | "postgresql", _)) => {
                Err(InvalidPlace::LeftOut { feature: "postgres" })
            }
            Some((scheme, _)) => Err(InvalidPlace::Scheme { scheme: scheme.to_owned() }),
            None if text.is_empty() => Err(InvalidPlace::Empty),
            // Not a path, and not repeated in the error: it may contain a password.
            None if text.starts_with("postgres:")
                || text.starts_with("postgresql:")
                || text.starts_with("postgres//") =>
            {
                Err(InvalidPlace::Slashes)
            }
            None if text == "memory:" => Ok(Self::Memory),
            #[cfg(feature = "sqlite")]
            None => Ok(Self::File(text.into())),
            #[cfg(not(feature = "sqlite"))]
            None => Err(InvalidPlace::LeftOut { feature: "sqlite" }),
        }
    }
}

impl fmt::Display for JournalPlace {
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

impl JournalPlace {
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
    pub async fn open_record(&self) -> Result<Arc<dyn Records>, JournalError> {
        Ok(match self {
            Self::Memory => Arc::new(MemoryRecords::default()),
            #[cfg(feature = "sqlite")]
            Self::File(path) => Arc::new(SqliteRecords::open(&SqliteRecords::beside(path))?),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Arc::new(PostgresRecords::connect(url.clone()).await?),
        })
    }

    /// Opens the call log for reading.
    pub async fn open_record_to_read(&self) -> Result<Arc<dyn Records>, JournalError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::File(path) => {
                Ok(Arc::new(SqliteRecords::open_read_only(&SqliteRecords::beside(path))?))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Ok(Arc::new(PostgresRecords::connect_to_read(url.clone())?)),
            Self::Memory => self.open_record().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_parsed_from_text_and_shown_without_the_password() {
        let show =
            |text: &str| text.parse::<JournalPlace>().map(|place| format!("{place} {place:?}"));
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
            let error = text.parse::<JournalPlace>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}");
        }
    }
}
