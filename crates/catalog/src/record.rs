//! The call log: one row per call of a tool, chained by hashes so that a removed or changed row is detectable.
//!
//! It is not part of the journal: calls change nothing, they are far more numerous than events, and old ones are
//! removed. A row is a JSON text that contains its id and the hash of the previous row; its own hash is the SHA-256 of
//! that text. The database derives all searchable columns from the text, so they cannot be tampered with separately.

mod call;
mod filter;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(test)]
mod samples;
#[cfg(feature = "sqlite")]
mod sqlite;
mod usage;
mod verify;

use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use model::Digest;
use serde::Serialize;

use crate::journal::Answering;

pub use call::{CallDoor, CallEnd, CallRecord, RecordedCall, ShownBy};
pub use filter::CallFilter;
pub use memory::MemoryRecords;
#[cfg(feature = "postgres")]
pub use postgres::PostgresRecords;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteRecords;
pub use usage::{Usage, UsageOf, UsagePage};
pub use verify::{Expected, ExportVerifier, KeptHead, RecordVerification, verify_records};

/// Upper bound for rows removed in one step.
const STEP: usize = 10_000;

/// The log of all calls of tools. Three implementations: memory, SQLite, PostgreSQL.
pub trait Records: Send + Sync {
    /// Stores calls in one atomic step, in their order, and adds them to the usage totals.
    fn store(&self, calls: Arc<[CallRecord]>) -> Answering<'_, ()>;

    /// The rows that match a filter.
    fn read(&self, filter: CallFilter) -> Answering<'_, Vec<Row>>;

    /// Usage totals of these names, without the unused ones.
    fn usage(&self, of: UsageOf, names: Vec<String>) -> Answering<'_, Vec<(String, Usage)>>;

    /// Names by usage, the most used first and equally used ones in ascending order. Calls of unknown tools are
    /// omitted.
    fn most_used(&self, page: UsagePage) -> Answering<'_, Vec<(String, Usage)>>;

    /// The bounds of the chain.
    fn chain(&self) -> Answering<'_, Chain>;

    /// Removes the oldest rows that are older than `time`, at most ten thousand, and returns their number. It stops at
    /// the first row that is not older, and keeps the row before it as evidence of the age of the removed rows. The
    /// hash of the last removed row is kept.
    fn forget_before(&self, time: Timestamp) -> Answering<'_, u64>;
}

/// A row of the call log as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Counts from one, without gaps.
    pub id: u64,
    /// JSON with the id, the hash of the previous row, and the call.
    pub text: Box<str>,
    /// Hash of the text.
    pub hash: Digest,
}

/// A row in the chain, identified by its id and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Id of the row; zero before the first row.
    pub id: u64,
    /// Hash of the row.
    pub hash: Digest,
}

/// The first and the last link of the stored chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The last row that retention removed.
    pub anchor: Link,
    /// The last row of the log.
    pub head: Link,
    /// Number of calls ever counted.
    pub counted: u64,
}

impl Link {
    /// The link before the first row.
    fn start() -> Self {
        Self { id: 0, hash: Digest::of("toolcrib record") }
    }
}

/// The text is not a valid chain link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a head is the id of a row and its hash, as in `12:5f1d…`")]
pub struct InvalidLink;

impl FromStr for Link {
    type Err = InvalidLink;

    /// Reads `ID:HASH`.
    fn from_str(text: &str) -> Result<Self, InvalidLink> {
        let (id, hash) = text.split_once(':').ok_or(InvalidLink)?;
        let id = id.parse().map_err(|_| InvalidLink)?;
        Ok(Self { id, hash: hash.parse().map_err(|_| InvalidLink)? })
    }
}

impl Row {
    /// The next row of a chain.
    fn after(last: Link, call: &CallRecord) -> Self {
        let id = last.id + 1;
        let row = call::Linked { id, previous: last.hash, call };
        let text = serde_json::to_string(&row).expect("a call is JSON");
        Self { id, hash: Digest::of(&text), text: text.into() }
    }

    fn link(&self) -> Link {
        Link { id: self.id, hash: self.hash }
    }

    /// One line of an export: the text with the hash as its last field.
    pub fn to_line(&self) -> String {
        let open = self.text.strip_suffix('}').unwrap_or(&self.text);
        format!("{open},\"hash\":\"{}\"}}", self.hash)
    }

    /// Parses a line of an export; `None` if it is not one.
    fn of_line(line: &str) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Numbered {
            id: u64,
        }
        let (open, hash) = line.strip_suffix("\"}")?.rsplit_once(",\"hash\":\"")?;
        let (text, hash) = (format!("{open}}}"), hash.parse().ok()?);
        let Numbered { id } = serde_json::from_str(&text).ok()?;
        Some(Self { id, text: text.into(), hash })
    }

    /// The call in this row; `None` if the row was not written by this program.
    pub fn call(&self) -> Option<RecordedCall> {
        serde_json::from_str(&self.to_line()).ok()
    }
}

/// The rows of these calls, each chained to the previous one.
fn chained(mut last: Link, calls: &[CallRecord]) -> Vec<Row> {
    let next = |call| {
        let row = Row::after(last, call);
        last = row.link();
        row
    };
    calls.iter().map(next).collect()
}

/// Times as rows contain them: strings that sort in the order of the times.
fn written(time: Timestamp) -> String {
    format!("{time:.6}")
}
