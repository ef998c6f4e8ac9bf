//! Stores long results for a while, so that the caller can read the rest of a truncated answer.
//!
//! They are in memory on the node that made the call, for ten minutes, and within limits: the oldest are evicted first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use model::ToolId;

/// How long a result is stored.
const RESULT_TTL: Duration = Duration::from_secs(10 * 60);
/// Maximum number of results: of one caller, and of all.
const MAX_RESULTS_PER_CALLER: usize = 20;
const MAX_STORED_RESULTS: usize = 1_000;
/// Maximum size of all results: of one caller, and of all, in bytes.
const MAX_BYTES_PER_CALLER: usize = 8 << 20;
const MAX_STORED_BYTES: usize = 64 << 20;

/// Prefix of the MCP resource URIs of stored results.
const RESULT_URI_PREFIX: &str = "toolcrib://results/";

/// The MCP resource URI of a stored result from a byte offset on.
pub(crate) fn result_uri(id: &str, offset: usize) -> String {
    format!("{RESULT_URI_PREFIX}{id}?offset={offset}")
}

/// Parses the URI of a stored result into its id and offset; `None` for other URIs.
pub(crate) fn parse_result_uri(uri: &str) -> Option<(&str, usize)> {
    let rest = uri.strip_prefix(RESULT_URI_PREFIX)?;
    match rest.split_once("?offset=") {
        None => Some((rest, 0)),
        Some((id, offset)) => Some((id, offset.parse().unwrap_or(usize::MAX))),
    }
}

/// A part of a long result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    /// The text of this part.
    pub text: String,
    /// Byte offset of this part.
    pub offset: usize,
    /// Byte offset of the next part; `None` for the last part.
    pub next_offset: Option<usize>,
    /// Size of the full result, in bytes.
    pub total_bytes: usize,
}

impl ResultPart {
    /// The part from a byte offset on, of at most this many bytes; it never splits a character.
    pub(crate) fn slice(whole: &str, offset: usize, bytes: usize) -> Self {
        let offset = whole.floor_char_boundary(offset);
        // At least one character, so that a reader always makes progress.
        let end = whole.floor_char_boundary(offset.saturating_add(bytes.max(4)));
        let text = whole.get(offset..end).unwrap_or_default().to_owned();
        let next_offset = Some(end).filter(|end| *end < whole.len());
        Self { text, offset, next_offset, total_bytes: whole.len() }
    }
}

struct StoredResult {
    id: String,
    owner: Box<str>,
    tool: ToolId,
    at: Timestamp,
    text: String,
    /// Maximum size of one part.
    part_bytes: usize,
}

#[derive(Default)]
pub(crate) struct StoredResults(Mutex<VecDeque<StoredResult>>);

impl StoredResults {
    fn lock_results(&self) -> MutexGuard<'_, VecDeque<StoredResult>> {
        self.0.lock().expect("no one panics while holding the results")
    }

    /// Stores a result and returns its id; `None` if it exceeds the limit per caller.
    pub(crate) fn store_result(
        &self,
        owner: Box<str>,
        tool: ToolId,
        mut text: String,
        bytes: usize,
        now: Timestamp,
    ) -> Option<String> {
        if MAX_BYTES_PER_CALLER < text.len() {
            return None;
        }
        // The buffer may have been allocated for much more.
        text.shrink_to_fit();
        let id = crate::random_id();
        let mut all = self.lock_results();
        all.push_front(StoredResult {
            id: id.clone(),
            owner,
            tool,
            at: now,
            text,
            part_bytes: bytes,
        });
        evict_results(&mut all, now);
        Some(id)
    }

    /// A part of a result that is stored for this caller, and the tool that gave it.
    pub(crate) fn read_part(
        &self,
        owner: &str,
        id: &str,
        offset: usize,
        now: Timestamp,
    ) -> Option<(ToolId, ResultPart)> {
        let all = self.lock_results();
        let is_it = |kept: &&StoredResult| {
            *kept.id == *id && *kept.owner == *owner && !is_expired(kept, now)
        };
        let kept = all.iter().find(is_it)?;
        let is_in = offset < kept.text.len();
        is_in.then(|| (kept.tool.clone(), ResultPart::slice(&kept.text, offset, kept.part_bytes)))
    }
}

fn is_expired(kept: &StoredResult, now: Timestamp) -> bool {
    kept.at + RESULT_TTL < now
}

/// Evicts expired results and the oldest ones beyond the limits. The newest result is first and always fits; only the
/// share of its owner has grown.
fn evict_results(all: &mut VecDeque<StoredResult>, now: Timestamp) {
    let Some(owner) = all.front().map(|kept| kept.owner.clone()) else { return };
    let (mut count, mut bytes, mut own, mut own_bytes) = (0, 0, 0, 0);
    all.retain(|kept| {
        let (size, is_own) = (kept.text.len(), kept.owner == owner);
        let fits = !is_expired(kept, now)
            && count < MAX_STORED_RESULTS
            && bytes + size <= MAX_STORED_BYTES
            && (!is_own
                || own < MAX_RESULTS_PER_CALLER && own_bytes + size <= MAX_BYTES_PER_CALLER);
        if fits {
            (count, bytes) = (count + 1, bytes + size);
            if is_own {
                (own, own_bytes) = (own + 1, own_bytes + size);
            }
        }
        fits
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn keep(kept: &StoredResults, owner: &str, text: &str, second: i64) -> String {
        let tool = "s:a".parse().unwrap();
        kept.store_result(owner.into(), tool, text.to_owned(), 4, at(second)).unwrap()
    }

    fn has(kept: &StoredResults, owner: &str, id: &str, second: i64) -> bool {
        kept.read_part(owner, id, 0, at(second)).is_some()
    }

    #[test]
    fn the_parts_of_a_text_are_the_text_and_no_character_is_split() {
        let whole = "añb€c😀d".repeat(5);
        for bytes in 1..9 {
            let (mut read, mut offset) = (String::new(), Some(0));
            while let Some(from) = offset {
                let part = ResultPart::slice(&whole, from, bytes);
                assert_eq!((part.offset, part.total_bytes), (from, whole.len()));
                read += &part.text;
                offset = part.next_offset;
            }
            assert_eq!(read, whole, "{bytes}");
        }
    }

    #[test]
    fn only_its_owner_reads_a_result_and_only_for_ten_minutes() {
        let kept = StoredResults::default();
        let id = keep(&kept, "ada", "a long text", 0);
        assert!(has(&kept, "ada", &id, 600));
        assert!(!has(&kept, "ada", &id, 601));
        assert!(!has(&kept, "bob", &id, 0));
        assert!(!has(&kept, "ada", "other", 0));
        assert_eq!(kept.read_part("ada", &id, 11, at(0)), None, "there is nothing after the end");
        let (_, part) = kept.read_part("ada", &id, 8, at(0)).unwrap();
        assert_eq!((part.text.as_str(), part.next_offset), ("ext", None));
    }

    #[test]
    fn the_oldest_results_of_a_caller_are_evicted_and_no_others() {
        let kept = StoredResults::default();
        let of_bob = keep(&kept, "bob", "text", 0);
        let first = keep(&kept, "ada", "text", 1);
        let all: Vec<String> = (0..20).map(|at| keep(&kept, "ada", "text", 2 + at)).collect();
        assert!(!has(&kept, "ada", &first, 30));
        assert!(all.iter().all(|id| has(&kept, "ada", id, 30)));
        assert!(has(&kept, "bob", &of_bob, 30));
        let large = "a".repeat(5 << 20);
        let one = keep(&kept, "cem", &large, 40);
        let two = keep(&kept, "cem", &large, 41);
        assert!(!has(&kept, "cem", &one, 42) && has(&kept, "cem", &two, 42));
        let too_large = "a".repeat(MAX_BYTES_PER_CALLER + 1);
        let tool = "s:a".parse().unwrap();
        assert_eq!(kept.store_result("cem".into(), tool, too_large, 4, at(43)), None);
        for number in 0..20 {
            keep(&kept, &number.to_string(), &large, 50 + number);
        }
        let bytes: usize = kept.lock_results().iter().map(|kept| kept.text.len()).sum();
        assert!(bytes <= MAX_STORED_BYTES, "{bytes}");
        // Storing a result evicts expired ones.
        keep(&kept, "ada", "text", 10_000);
        assert_eq!(kept.lock_results().len(), 1);
    }

    #[test]
    fn a_result_uri_has_an_id_and_an_offset() {
        assert_eq!(parse_result_uri(&result_uri("a1", 7)), Some(("a1", 7)));
        assert_eq!(parse_result_uri("toolcrib://results/a1"), Some(("a1", 0)));
        assert_eq!(parse_result_uri("toolcrib://results/a1?offset=-1"), Some(("a1", usize::MAX)));
        assert_eq!(parse_result_uri("file:///a1"), None);
    }
}
