//! The call log: one row per call of a tool, chained by hashes so that a removed or changed row is detectable.
//!
//! It is not part of the journal: calls change nothing, they are far more numerous than events, and old ones are
//! removed. A row is a JSON text that contains its id and the hash of the previous row; its own hash is the SHA-256 of
//! that text. The database derives all searchable columns from the text, so they cannot be tampered with separately.
#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(dead_code, reason = "only stores that speak SQL need all of it")
)]

mod call_filter;
mod call_record;
mod chain_verification;
mod memory_call_log;
#[cfg(feature = "postgres")]
mod postgres_call_log;
#[cfg(test)]
mod sample_calls;
#[cfg(feature = "sqlite")]
mod sqlite_call_log;
mod usage_totals;

use std::str::FromStr;
use std::sync::Arc;

use catalog::journal::JournalFuture;
use jiff::Timestamp;
use model::Digest;
use serde::Serialize;

pub use call_filter::CallFilter;
pub use call_record::{
    CallEndpoint, CallRecord, CallerCredentialKind, FinalCallStatus, RecordedCall,
};
pub use chain_verification::{
    AuditExpectations, CallLogVerification, ExportVerifier, SavedHead, verify_call_log,
};
pub use memory_call_log::MemoryCallLog;
#[cfg(feature = "postgres")]
pub use postgres_call_log::PostgresCallLog;
#[cfg(feature = "sqlite")]
pub use sqlite_call_log::SqliteCallLog;
pub use usage_totals::{UsageKind, UsagePage, UsageTotals};

/// Upper bound for rows removed in one step.
const REMOVAL_BATCH: usize = 10_000;

/// The log of all calls of tools. Three implementations: memory, SQLite, PostgreSQL.
pub trait CallLog: Send + Sync {
    /// Stores calls in one atomic step, in their order, and adds them to the usage totals.
    fn store_calls(&self, calls: Arc<[CallRecord]>) -> JournalFuture<'_, ()>;

    /// The rows that match a filter.
    fn read_rows(&self, filter: CallFilter) -> JournalFuture<'_, Vec<CallLogRow>>;

    /// Usage totals of these names, without the unused ones.
    fn usage_totals(
        &self,
        of: UsageKind,
        names: Vec<String>,
    ) -> JournalFuture<'_, Vec<(String, UsageTotals)>>;

    /// Names by usage, the most used first and equally used ones in ascending order. Calls of unknown tools are
    /// omitted.
    fn most_used(&self, page: UsagePage) -> JournalFuture<'_, Vec<(String, UsageTotals)>>;

    /// The bounds of the chain.
    fn chain_bounds(&self) -> JournalFuture<'_, ChainBounds>;

    /// Removes the oldest rows that are older than `time`, at most ten thousand, and returns their number. It stops at
    /// the first row that is not older, and keeps the row before it as evidence of the age of the removed rows. The
    /// hash of the last removed row is kept.
    fn remove_before(&self, time: Timestamp) -> JournalFuture<'_, u64>;
}

/// A row of the call log as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLogRow {
    /// Counts from one, without gaps.
    pub id: u64,
    /// JSON with the id, the hash of the previous row, and the call.
    pub text: Box<str>,
    /// Hash of the text.
    pub hash: Digest,
}

/// A row in the chain, identified by its id and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChainLink {
    /// Id of the row; zero before the first row.
    pub id: u64,
    /// Hash of the row.
    pub hash: Digest,
}

/// The first and the last link of the stored chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainBounds {
    /// The last row that retention removed.
    pub anchor: ChainLink,
    /// The last row of the log.
    pub head: ChainLink,
    /// Number of calls ever counted.
    pub counted: u64,
}

impl ChainLink {
    /// The link before the first row.
    fn start() -> Self {
        Self { id: 0, hash: Digest::of_bytes("toolcrib record") }
    }
}

/// The text is not a valid chain link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a head is the id of a row and its hash, as in `12:5f1d…`")]
pub struct InvalidChainLink;

impl FromStr for ChainLink {
    type Err = InvalidChainLink;

    /// Reads `ID:HASH`.
    fn from_str(text: &str) -> Result<Self, InvalidChainLink> {
        let (id, hash) = text.split_once(':').ok_or(InvalidChainLink)?;
        let id = id.parse().map_err(|_| InvalidChainLink)?;
        Ok(Self { id, hash: hash.parse().map_err(|_| InvalidChainLink)? })
    }
}

impl CallLogRow {
    /// The next row of a chain.
    fn following(last: ChainLink, call: &CallRecord) -> Self {
        let id = last.id + 1;
        let row = call_record::ChainedCall { id, previous: last.hash, call };
        let text = serde_json::to_string(&row).expect("a call is JSON");
        Self { id, hash: Digest::of_bytes(&text), text: text.into() }
    }

    fn chain_link(&self) -> ChainLink {
        ChainLink { id: self.id, hash: self.hash }
    }

    /// One line of an export: the text with the hash as its last field.
    pub fn to_line(&self) -> String {
        let open = self.text.strip_suffix('}').unwrap_or(&self.text);
        format!("{open},\"hash\":\"{}\"}}", self.hash)
    }

    /// Parses a line of an export; `None` if it is not one.
    fn from_line(line: &str) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct RowNumber {
            id: u64,
        }
        let (open, hash) = line.strip_suffix("\"}")?.rsplit_once(",\"hash\":\"")?;
        let (text, hash) = (format!("{open}}}"), hash.parse().ok()?);
        let RowNumber { id } = serde_json::from_str(&text).ok()?;
        Some(Self { id, text: text.into(), hash })
    }

    /// The call in this row; `None` if the row was not written by this program.
    pub fn parse_call(&self) -> Option<RecordedCall> {
        serde_json::from_str(&self.to_line()).ok()
    }
}

/// The rows of these calls, each chained to the previous one.
fn chain_rows(mut last: ChainLink, calls: &[CallRecord]) -> Vec<CallLogRow> {
    let next = |call| {
        let row = CallLogRow::following(last, call);
        last = row.chain_link();
        row
    };
    calls.iter().map(next).collect()
}

/// Times as rows contain them: strings that sort in the order of the times.
fn format_time(time: Timestamp) -> String {
    format!("{time:.6}")
}
