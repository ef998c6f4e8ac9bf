//! Errors of a journal, by the action that the reader can take.

use super::{StreamName, StreamVersion};

/// Why a journal operation failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// Another writer changed the stream first. Read it again and decide again.
    #[error("stream `{stream}` is at version {actual}, not {expected}")]
    Conflict {
        stream: StreamName,
        /// Version that the caller had seen.
        expected: StreamVersion,
        actual: StreamVersion,
    },
    /// One idempotency key was used for two different requests.
    #[error("the idempotency key `{key}` was used for another request; use a new key")]
    KeyReused { key: String },
    /// The value is larger than any store accepts.
    #[error("{what} of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Kind of the value.
        what: &'static str,
        bytes: usize,
        limit: usize,
    },
    /// The text contains a character that not every store accepts.
    #[error("{what} holds a NUL character: leave it out")]
    NotText {
        /// Location of the character.
        what: &'static str,
    },
    /// The disk is full. Reading continues; writing continues without a restart once there is space again.
    #[error(
        "no space is left for the journal `{place}`: free some space; writing then goes on by itself"
    )]
    Full {
        /// Path or URL of the journal.
        place: String,
    },
    /// The store cannot be reached. Reading from memory continues; the journal reconnects without a restart.
    #[error(
        "the journal `{place}` cannot be reached ({cause}); it reconnects by itself{}",
        if *maybe_stored { ". The change may be stored: repeat it with the same idempotency key" } else { "" }
    )]
    Unavailable {
        /// Path or URL of the journal.
        place: String,
        /// Error of the driver.
        cause: String,
        /// True if the change may be stored nevertheless: repeat it with the same idempotency key to find out.
        maybe_stored: bool,
    },
    /// The query exceeded its time limit.
    #[error("reading `{place}` took longer than {limit:?} and was given up: ask for less")]
    TookTooLong {
        /// Path or URL of the database.
        place: String,
        limit: std::time::Duration,
    },
    /// The database rejected the statement; a repetition would fail again.
    #[error("the database of the journal `{place}` refuses this ({cause}): nothing was stored")]
    Refused {
        /// Path or URL of the journal.
        place: String,
        /// Error of the database.
        cause: String,
    },
    /// A write or flush failed in a way after which no later write could be trusted.
    #[error(
        "the journal `{place}` refuses to write after a failed write ({cause}): check the disk, then restart"
    )]
    Stopped {
        /// Path or URL of the journal.
        place: String,
        cause: String,
    },
    /// Another process has locked the journal.
    #[error(
        "the journal `{place}` is in use by another process: stop it first, or use PostgreSQL for several nodes"
    )]
    InUse {
        /// Path or URL of the journal.
        place: String,
    },
    /// The process may not write to the journal.
    #[error(
        "the journal `{place}` cannot be written ({cause}): make the folder and the file writable for this user"
    )]
    ReadOnly {
        /// Path or URL of the journal.
        place: String,
        /// Error of the operating system.
        cause: String,
    },
    /// The journal does not exist or cannot be opened.
    #[error("the journal `{place}` cannot be opened ({cause})")]
    CannotOpen {
        /// Path or URL of the journal.
        place: String,
        /// Error of the operating system.
        cause: String,
    },
    /// The file or database belongs to something else.
    #[error("`{place}` is not a toolcrib journal ({cause}): give another path or URL")]
    NotAJournal {
        /// Path or URL of the file or database.
        place: String,
        /// Evidence that it is no journal.
        cause: String,
    },
    /// A newer version of the program wrote the journal.
    #[error(
        "the journal `{place}` has format {found} and this toolcrib knows up to {known}: \
         use the toolcrib that wrote it, or a newer one"
    )]
    Newer {
        /// Path or URL of the journal.
        place: String,
        /// Format of the journal.
        found: i64,
        /// Newest format that this program knows.
        known: i64,
    },
    /// The storage is inconsistent.
    #[error(
        "the journal `{place}` is damaged ({cause}): keep a copy of it, then restore a backup \
         or save what can be read with `toolcrib journal export`"
    )]
    Damaged {
        /// Path or URL of the journal.
        place: String,
        cause: String,
    },
    /// The events do not continue the journal.
    #[error("{cause}; nothing was stored")]
    DoesNotFollow { cause: String },
}

impl JournalError {
    /// True if the same request may succeed later without being changed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Unavailable { .. } | Self::Conflict { .. })
    }
}
