//! The record: every call of a tool, one row each, chained by hashes so that a removed or changed row shows.
//!
//! It is not the journal: calls change nothing, there are far more of them, and old ones go. A row is a text of JSON that
//! holds its number and the hash of the row before it; its own hash is the SHA-256 of that text. Everything that is
//! looked for is worked out from the text by the database, so nothing can be changed beside it.

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

/// The most rows that are removed in one step.
const STEP: usize = 10_000;

/// Every call of a tool. Three implementations: memory, SQLite, PostgreSQL.
pub trait Records: Send + Sync {
    /// Stores calls in one atomic step, in their order, and counts them.
    fn store(&self, calls: Arc<[CallRecord]>) -> Answering<'_, ()>;

    /// The rows that are wanted.
    fn read(&self, filter: CallFilter) -> Answering<'_, Vec<Row>>;

    /// How often each of these was used; those that never were are left out.
    fn usage(&self, of: UsageOf, names: Vec<String>) -> Answering<'_, Vec<(String, Usage)>>;

    /// What was used most, the most used first; of what was used as often, the lower name first. Calls of what nobody has are
    /// left out.
    fn most_used(&self, page: UsagePage) -> Answering<'_, Vec<(String, Usage)>>;

    /// Where the chain begins and ends.
    fn chain(&self) -> Answering<'_, Chain>;

    /// Removes the oldest rows, at most ten thousand: those before the first one that is not older, but for the last of them,
    /// which shows how old the others were. The hash before it stays. Says how many went.
    fn forget_before(&self, time: Timestamp) -> Answering<'_, u64>;
}

/// A row as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Counts from one, without gaps.
    pub id: u64,
    /// JSON that holds the id, the hash of the row before, and the call.
    pub text: Box<str>,
    /// Of the text.
    pub hash: Digest,
}

/// A place in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Of the row; zero before the first.
    pub id: u64,
    /// Of the row.
    pub hash: Digest,
}

/// Where the chain begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The last row that was removed for its age.
    pub anchor: Link,
    /// The last row there is.
    pub head: Link,
    /// How many calls were ever counted.
    pub counted: u64,
}

impl Link {
    /// Before the first row.
    fn start() -> Self {
        Self { id: 0, hash: Digest::of("toolcrib record") }
    }
}

/// A link that cannot be read.
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

    /// The text with the hash as its last member: one line of an export.
    pub fn to_line(&self) -> String {
        let open = self.text.strip_suffix('}').unwrap_or(&self.text);
        format!("{open},\"hash\":\"{}\"}}", self.hash)
    }

    /// The row of a line of an export; none if it is no such line.
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

    /// What it says; none if it is no row of ours.
    pub fn call(&self) -> Option<RecordedCall> {
        serde_json::from_str(&self.to_line()).ok()
    }
}

/// The rows of these calls, each chained to the one before.
fn chained(mut last: Link, calls: &[CallRecord]) -> Vec<Row> {
    let next = |call| {
        let row = Row::after(last, call);
        last = row.link();
        row
    };
    calls.iter().map(next).collect()
}

/// As times are written in rows: texts that sort as the times do.
fn written(time: Timestamp) -> String {
    format!("{time:.6}")
}
