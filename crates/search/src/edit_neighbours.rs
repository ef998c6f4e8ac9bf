//! Finds texts at an edit distance of one: a letter omitted, inserted, replaced or swapped with its neighbour.
//!
//! Two texts one edit apart become equal if at most one letter is deleted from each at the right position. So each word
//! is stored under all these deletions, and a lookup costs one probe for each letter of the word.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use super::lexicon::TextId;

const BUCKETS: usize = 4096;
/// Indexed lengths: shorter texts are similar to too many others; longer ones are found by their parts.
const INDEXED_LENGTHS: std::ops::RangeInclusive<usize> = 4..=24;

/// Finds candidates for similar texts; cheap to clone. It stores only hashes: the caller compares the texts.
#[derive(Clone)]
pub(super) struct EditNeighbours {
    /// Each bucket contains pairs of a hash and a text id, in ascending order.
    buckets: Vec<Arc<Vec<(u32, TextId)>>>,
    hasher: RandomState,
}

impl Default for EditNeighbours {
    fn default() -> Self {
        Self { buckets: vec![Arc::default(); BUCKETS], hasher: RandomState::new() }
    }
}

impl EditNeighbours {
    /// Adds new texts.
    pub(super) fn add_texts(&mut self, texts: &[(Arc<str>, TextId)]) {
        let mut places: Vec<(usize, u32, TextId)> = Vec::new();
        for (text, id) in texts {
            places.extend(
                self.bucket_hashes(text).into_iter().map(|(drawer, hash)| (drawer, hash, *id)),
            );
        }
        places.sort_unstable();
        // Deleting either of two equal adjacent letters gives the same text.
        places.dedup();
        for run in places.chunk_by(|one, two| one.0 == two.0) {
            let Some((drawer, ..)) = run.first() else { continue };
            let drawer = Arc::make_mut(&mut self.buckets[*drawer]);
            drawer.extend(run.iter().map(|(_, hash, id)| (*hash, *id)));
            // Both halves are already sorted, so the stable sort only merges them.
            drawer.sort();
        }
    }

    pub(super) fn remove_text(&mut self, text: &str, id: TextId) {
        for (drawer, hash) in self.bucket_hashes(text) {
            let drawer = Arc::make_mut(&mut self.buckets[drawer]);
            if let Ok(place) = drawer.binary_search(&(hash, id)) {
                drawer.remove(place);
            }
        }
    }

    /// The texts that may be one edit away, each once.
    pub(super) fn find_candidates(&self, text: &str) -> Vec<TextId> {
        let mut found = Vec::new();
        for (drawer, hash) in self.bucket_hashes(text) {
            let drawer = &self.buckets[drawer];
            let first = drawer.partition_point(|(other, _)| *other < hash);
            let same = drawer.iter().skip(first).take_while(|(other, _)| *other == hash);
            found.extend(same.map(|(_, id)| *id));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The buckets and hashes of a text: its own, and those without each of its letters.
    fn bucket_hashes(&self, text: &str) -> Vec<(usize, u32)> {
        let length = text.chars().count();
        if !INDEXED_LENGTHS.contains(&length) || !has_one_alphabet(text) {
            return Vec::new();
        }
        let (mut without, mut places) = (String::new(), Vec::with_capacity(length + 1));
        let letters = text.char_indices().map(|(start, letter)| (start, start + letter.len_utf8()));
        for (start, end) in letters.chain([(text.len(), text.len())]) {
            let (Some(before), Some(after)) = (text.get(..start), text.get(end..)) else {
                continue;
            };
            without.clear();
            without.push_str(before);
            without.push_str(after);
            let hash = self.hasher.hash_one(without.as_str());
            // The remainder is below BUCKETS, and half of the remaining bits suffice to distinguish texts.
            places.push(((hash % BUCKETS as u64) as usize, (hash >> 32) as u32));
        }
        places
    }
}

/// True if all letters, except digits, belong to one alphabet. If alphabets mix, or if an alphabet has thousands of
/// letters, the edit-distance neighbourhood of a word is so large that indexing it would slow down every lookup.
fn has_one_alphabet(text: &str) -> bool {
    let alphabet = |letter: char| match u32::from(letter) {
        ..0x250 => (!letter.is_ascii_digit()).then_some(0),
        number => Some(number / 0x100),
    };
    let mut alphabets = text.chars().filter_map(alphabet);
    let Some(first) = alphabets.next() else { return true };
    first < 0x2e && alphabets.all(|other| other == first)
}

/// The edit distance of two texts if it is at most `most`. A swap of neighbouring letters counts as one edit.
pub(super) fn distance_within(one: &str, two: &str, most: usize) -> Option<usize> {
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    if most < one.len().abs_diff(two.len()) {
        return None;
    }
    // Rows of the usual table: the one before last, the last one, and the current one.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = Vec::with_capacity(two.len() + 1);
        row.push(i + 1);
        for (j, b) in two.iter().enumerate() {
            let mut least = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if 0 < i && 0 < j && *a == two[j - 1] && one[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        if row.iter().all(|distance| most < *distance) {
            return None;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
impl EditNeighbours {
    pub(super) fn is_bare(&self) -> bool {
        self.buckets.iter().all(|drawer| drawer.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edits_are_counted_like_typing_errors() {
        for (one, two, edits) in [
            ("create", "create", Some(0)),
            ("create", "cerate", Some(1)),
            ("create", "crate", Some(1)),
            ("create", "creatte", Some(1)),
            ("create", "creata", Some(1)),
            ("create", "crat", Some(2)),
            ("create", "delete", None),
        ] {
            assert_eq!(distance_within(one, two, 2), edits, "{one} {two}");
        }
    }

    #[test]
    fn a_word_only_has_neighbours_of_its_own_alphabet() {
        let texts =
            ["emailé", "email5", "ema1l", "почта", "почты", "email漢", "메일주소를", "mailпочта"];
        let mut neighbours = EditNeighbours::default();
        let ids: Vec<_> = texts.iter().zip(0..).map(|(text, id)| ((*text).into(), id)).collect();
        neighbours.add_texts(&ids);
        assert_eq!(neighbours.find_candidates("email"), [0, 1, 2]);
        assert_eq!(neighbours.find_candidates("почта"), [3, 4]);
        for text in ["email漢", "메일주소를", "mailпочта"] {
            assert!(neighbours.find_candidates(text).is_empty(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_distance_is_symmetric(one in "[a-e]{0,8}", two in "[a-e]{0,8}", most in 0_usize..3) {
            prop_assert_eq!(distance_within(&one, &two, most), distance_within(&two, &one, most));
        }

        #[test]
        fn every_text_one_edit_away_is_found(one in "[a-c]{4,7}", two in "[a-c]{4,7}") {
            let mut neighbours = EditNeighbours::default();
            neighbours.add_texts(&[(two.as_str().into(), 7)]);
            if distance_within(&one, &two, 1).is_some() {
                prop_assert_eq!(neighbours.find_candidates(&one), [7]);
            }
            neighbours.remove_text(&two, 7);
            prop_assert!(neighbours.find_candidates(&one).is_empty());
        }
    }
}
