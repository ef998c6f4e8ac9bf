//! Answers that were too long to be handed out at once, kept a while for whoever called.
//!
//! On the node that made the call, in memory: for ten minutes, and only so many of them, the oldest of which make room.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use model::ToolId;

/// How long one is kept.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);
/// How many there are: of one caller, and of all.
const OF_ONE: usize = 20;
const OF_ALL: usize = 1_000;
/// How many bytes they have: those of one caller, and all.
const BYTES_OF_ONE: usize = 8 << 20;
const BYTES_OF_ALL: usize = 64 << 20;

/// What all addresses of kept results begin with, as resources of MCP.
const ADDRESS: &str = "toolcrib://results/";

/// Where to go on reading, as a resource of MCP.
pub(crate) fn address(id: &str, offset: usize) -> String {
    format!("{ADDRESS}{id}?offset={offset}")
}

/// Which result an address means, and from where; none if it is no such address.
pub(crate) fn addressed(uri: &str) -> Option<(&str, usize)> {
    let rest = uri.strip_prefix(ADDRESS)?;
    match rest.split_once("?offset=") {
        None => Some((rest, 0)),
        Some((id, offset)) => Some((id, offset.parse().unwrap_or(usize::MAX))),
    }
}

/// A part of an answer that was too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    /// What stands there.
    pub text: String,
    /// At which byte it begins.
    pub offset: usize,
    /// Where to go on; none if this is the end.
    pub next_offset: Option<usize>,
    /// How many bytes there are in all.
    pub total_bytes: usize,
}

impl ResultPart {
    /// From a byte on, at most so many; no character is cut in two.
    pub(crate) fn of(whole: &str, offset: usize, bytes: usize) -> Self {
        let offset = whole.floor_char_boundary(offset);
        // At least one character, or nobody would ever come to the end.
        let end = whole.floor_char_boundary(offset.saturating_add(bytes.max(4)));
        let text = whole.get(offset..end).unwrap_or_default().to_owned();
        let next_offset = Some(end).filter(|end| *end < whole.len());
        Self { text, offset, next_offset, total_bytes: whole.len() }
    }
}

struct Kept {
    id: String,
    owner: Box<str>,
    tool: ToolId,
    at: Timestamp,
    text: String,
    /// How much of it is handed out at once.
    bytes: usize,
}

#[derive(Default)]
pub(crate) struct KeptResults(Mutex<VecDeque<Kept>>);

impl KeptResults {
    fn all(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.0.lock().expect("no one panics while holding the results")
    }

    /// Keeps an answer and says under which id; none if it is too long even for that.
    pub(crate) fn keep(
        &self,
        owner: Box<str>,
        tool: ToolId,
        mut text: String,
        bytes: usize,
        now: Timestamp,
    ) -> Option<String> {
        if BYTES_OF_ONE < text.len() {
            return None;
        }
        // It may have been read into room for much more.
        text.shrink_to_fit();
        let id = crate::random();
        let mut all = self.all();
        all.push_front(Kept { id: id.clone(), owner, tool, at: now, text, bytes });
        make_room(&mut all, now);
        Some(id)
    }

    /// A part of an answer that was kept for this caller, and the tool it is of.
    pub(crate) fn part(
        &self,
        owner: &str,
        id: &str,
        offset: usize,
        now: Timestamp,
    ) -> Option<(ToolId, ResultPart)> {
        let all = self.all();
        let is_it = |kept: &&Kept| *kept.id == *id && *kept.owner == *owner && !is_over(kept, now);
        let kept = all.iter().find(is_it)?;
        let is_in = offset < kept.text.len();
        is_in.then(|| (kept.tool.clone(), ResultPart::of(&kept.text, offset, kept.bytes)))
    }
}

fn is_over(kept: &Kept, now: Timestamp) -> bool {
    kept.at + KEPT_FOR < now
}

/// The newest stand first: what is within all bounds stays. The newest itself always is, and only its owner's has grown.
fn make_room(all: &mut VecDeque<Kept>, now: Timestamp) {
    let Some(owner) = all.front().map(|kept| kept.owner.clone()) else { return };
    let (mut count, mut bytes, mut own, mut own_bytes) = (0, 0, 0, 0);
    all.retain(|kept| {
        let (size, is_own) = (kept.text.len(), kept.owner == owner);
        let fits = !is_over(kept, now)
            && count < OF_ALL
            && bytes + size <= BYTES_OF_ALL
            && (!is_own || own < OF_ONE && own_bytes + size <= BYTES_OF_ONE);
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

    fn keep(kept: &KeptResults, owner: &str, text: &str, second: i64) -> String {
        let tool = "s:a".parse().unwrap();
        kept.keep(owner.into(), tool, text.to_owned(), 4, at(second)).unwrap()
    }

    fn has(kept: &KeptResults, owner: &str, id: &str, second: i64) -> bool {
        kept.part(owner, id, 0, at(second)).is_some()
    }

    #[test]
    fn the_parts_of_a_text_are_the_text_and_no_character_is_cut() {
        let whole = "añb€c😀d".repeat(5);
        for bytes in 1..9 {
            let (mut read, mut offset) = (String::new(), Some(0));
            while let Some(from) = offset {
                let part = ResultPart::of(&whole, from, bytes);
                assert_eq!((part.offset, part.total_bytes), (from, whole.len()));
                read += &part.text;
                offset = part.next_offset;
            }
            assert_eq!(read, whole, "{bytes}");
        }
    }

    #[test]
    fn only_its_owner_reads_a_result_and_only_for_ten_minutes() {
        let kept = KeptResults::default();
        let id = keep(&kept, "ada", "a long text", 0);
        assert!(has(&kept, "ada", &id, 600));
        assert!(!has(&kept, "ada", &id, 601));
        assert!(!has(&kept, "bob", &id, 0));
        assert!(!has(&kept, "ada", "other", 0));
        assert_eq!(kept.part("ada", &id, 11, at(0)), None, "there is nothing after the end");
        let (_, part) = kept.part("ada", &id, 8, at(0)).unwrap();
        assert_eq!((part.text.as_str(), part.next_offset), ("ext", None));
    }

    #[test]
    fn the_oldest_of_a_caller_make_room_and_nobody_elses() {
        let kept = KeptResults::default();
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
        let too_large = "a".repeat(BYTES_OF_ONE + 1);
        let tool = "s:a".parse().unwrap();
        assert_eq!(kept.keep("cem".into(), tool, too_large, 4, at(43)), None);
        for number in 0..20 {
            keep(&kept, &number.to_string(), &large, 50 + number);
        }
        let bytes: usize = kept.all().iter().map(|kept| kept.text.len()).sum();
        assert!(bytes <= BYTES_OF_ALL, "{bytes}");
        // What is over goes when something comes.
        keep(&kept, "ada", "text", 10_000);
        assert_eq!(kept.all().len(), 1);
    }

    #[test]
    fn an_address_says_what_and_from_where() {
        assert_eq!(addressed(&address("a1", 7)), Some(("a1", 7)));
        assert_eq!(addressed("toolcrib://results/a1"), Some(("a1", 0)));
        assert_eq!(addressed("toolcrib://results/a1?offset=-1"), Some(("a1", usize::MAX)));
        assert_eq!(addressed("file:///a1"), None);
    }
}
