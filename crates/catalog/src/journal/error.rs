//! What can go wrong with a journal, by what the reader can do about it.

use super::{StreamName, Version};

/// Why a journal did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// Somebody else changed the stream first. Look again and decide again.
    #[error("stream `{stream}` is at version {actual}, not {expected}")]
    Conflict {
        /// Which stream.
        stream: StreamName,
        /// What the caller had seen.
        expected: Version,
        /// What is there.
        actual: Version,
    },
    /// One key for two different requests.
    #[error("the idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// More than any store keeps.
    #[error("{what} of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// Text that not every store keeps.
    #[error("{what} holds a NUL character: leave it out")]
    NotText {
        /// Where it stands.
        what: &'static str,
    },
    /// No space left. Reading goes on; writing goes on by itself when there is space again.
    #[error(
        "no space is left for the journal `{place}`: free some space; writing then goes on by itself"
    )]
    Full {
        /// Which journal.
        place: String,
    },
    /// The store cannot be reached. Reading from memory goes on; the journal reconnects by itself.
    #[error(
        "the journal `{place}` cannot be reached ({cause}); it reconnects by itself{}",
        if *maybe_stored { ". The change may be stored: repeat it with the same idempotency key" } else { "" }
    )]
    Unavailable {
        /// Which journal.
        place: String,
        /// What the driver said.
        cause: String,
        /// Whether the change may be stored all the same: repeat it with the same idempotency key to find out.
        maybe_stored: bool,
    },
    /// Reading goes on for too long.
    #[error("reading `{place}` took longer than {limit:?} and was given up: ask for less")]
    TookTooLong {
        /// Which database.
        place: String,
        /// How long it may take.
        limit: std::time::Duration,
    },
    /// The database said no, and would say it again.
    #[error("the database of the journal `{place}` refuses this ({cause}): nothing was stored")]
    Refused {
        /// Which journal.
        place: String,
        /// What it said.
        cause: String,
    },
    /// A write or flush failed in a way after which nothing later could be trusted.
    #[error(
        "the journal `{place}` refuses to write after a failed write ({cause}): check the disk, then restart"
    )]
    Stopped {
        /// Which journal.
        place: String,
        /// What failed first.
        cause: String,
    },
    /// Another process has it.
    #[error(
        "the journal `{place}` is in use by another process: stop it first, or use PostgreSQL for several nodes"
    )]
    InUse {
        /// Which journal.
        place: String,
    },
    /// No right to write here.
    #[error(
        "the journal `{place}` cannot be written ({cause}): make the folder and the file writable for this user"
    )]
    ReadOnly {
        /// Which journal.
        place: String,
        /// What the system said.
        cause: String,
    },
    /// Nothing there, or not to be opened.
    #[error("the journal `{place}` cannot be opened ({cause})")]
    CannotOpen {
        /// Which journal.
        place: String,
        /// What the system said.
        cause: String,
    },
    /// Another kind of file or database.
    #[error("`{place}` is not a toolcrib journal ({cause}): give another path or URL")]
    NotAJournal {
        /// Which file or database.
        place: String,
        /// Why it is none.
        cause: String,
    },
    /// Written by a newer program.
    #[error(
        "the journal `{place}` has format {found} and this toolcrib knows up to {known}: \
         use the toolcrib that wrote it, or a newer one"
    )]
    Newer {
        /// Which journal.
        place: String,
        /// Its format.
        found: i64,
        /// The newest format this program knows.
        known: i64,
    },
    /// The storage does not hold together.
    #[error(
        "the journal `{place}` is damaged ({cause}): keep a copy of it, then restore a backup \
         or save what can be read with `toolcrib journal export`"
    )]
    Damaged {
        /// Which journal.
        place: String,
        /// What was seen.
        cause: String,
    },
    /// Events that do not follow on.
    #[error("{cause}; nothing was stored")]
    DoesNotFollow {
        /// What does not fit.
        cause: String,
    },
}

impl JournalError {
    /// Whether the same request may succeed later without anybody changing it.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Unavailable { .. } | Self::Conflict { .. })
    }
}
