//! Whether the record is whole: every row is the one that was stored, and none is missing.
//!
//! Whoever can write the whole database can also make up another chain. Keep the head that is reported here somewhere
//! else, and hold the next one against it: the row of that id must still have that hash.

use model::Digest;
use serde::Serialize;

use super::{CallFilter, Chain, Link, Records, Row};
use crate::journal::JournalError;

/// How many rows are read at once.
const PAGE: usize = 1_000;
/// More problems than this are not told one by one.
const TOLD: usize = 100;

/// What a look at the whole record found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordVerification {
    /// How many rows were looked at.
    pub rows: u64,
    /// How many were removed for their age before.
    pub removed: u64,
    /// The last row.
    pub head: Link,
    /// One sentence for each thing that is wrong.
    pub problems: Vec<String>,
}

/// Looks at every row. Calls may be recorded meanwhile, and old rows may go.
pub async fn verify_records(
    records: &dyn Records,
    mut tell: impl FnMut(u64),
) -> Result<RecordVerification, JournalError> {
    let Chain { anchor, head, counted } = records.chain().await?;
    let (mut last, mut rows, mut problems) = (anchor, 0, Vec::new());
    if counted != head.id {
        problems.push(format!(
            "{counted} calls were counted, and the last row is {}: rows at the end were removed",
            head.id
        ));
    }
    while last.id < head.id {
        let (after, limit) = (Some(last.id), PAGE);
        let filter = CallFilter { after, limit, oldest_first: true, ..CallFilter::default() };
        let page = records.read(filter).await?;
        if page.is_empty() {
            problems.push(format!("rows {} to {} are missing", last.id + 1, head.id));
            break;
        }
        for row in page.iter().take_while(|row| row.id <= head.id) {
            // Some may have grown too old while we were reading.
            if row.id != last.id + 1 {
                let anchor = records.chain().await?.anchor;
                last = if last.id < anchor.id { anchor } else { last };
            }
            if last.id < row.id {
                problems.extend(problem(last, row));
                last = row.link();
                rows += 1;
            }
        }
        if page.last().is_some_and(|row| head.id < row.id) && last.id < head.id {
            problems.push(format!("rows {} to {} are missing", last.id + 1, head.id));
            break;
        }
        tell(rows);
    }
    if TOLD < problems.len() {
        let more = problems.len() - TOLD;
        problems.truncate(TOLD);
        problems.push(format!("and {more} more problems"));
    }
    Ok(RecordVerification { rows, removed: anchor.id, head, problems })
}

/// What is wrong with a row that follows another.
fn problem(last: Link, row: &Row) -> Option<String> {
    let id = row.id;
    if Digest::of(&*row.text) != row.hash {
        return Some(format!("row {id} was changed: its hash is that of another text"));
    }
    let Some(call) = row.call().filter(|call| call.id == id) else {
        return Some(format!("row {id} was replaced: its text is not that of row {id}"));
    };
    match last.id + 1 {
        next if next == id && call.previous == last.hash => None,
        next if next == id => Some(format!("row {id} does not follow row {}", last.id)),
        next if next + 1 == id => Some(format!("row {next} is missing")),
        next => Some(format!("rows {next} to {} are missing", id - 1)),
    }
}
