//! Texts that are nearly the same: one letter was left out, added, changed or swapped with its neighbour.
//!
//! Two texts one edit apart become the same when one letter, or none, is taken out of each at the right place. So every
//! word is kept under all that it becomes that way, and a question is as many looks as the word has letters.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use super::lexicon::TextId;

const DRAWERS: usize = 4096;
/// Shorter texts are near too many others; longer ones have parts to be found by.
const LENGTHS: std::ops::RangeInclusive<usize> = 4..=24;

/// Finds texts that may be nearly the same; cheap to clone. Only hashes are kept: whoever finds a text compares.
#[derive(Clone)]
pub(super) struct Neighbours {
    /// In each drawer pairs of a hash and a text that has it, in order.
    drawers: Vec<Arc<Vec<(u32, TextId)>>>,
    hasher: RandomState,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { drawers: vec![Arc::default(); DRAWERS], hasher: RandomState::new() }
    }
}

impl Neighbours {
    /// Takes in texts that it does not have.
    pub(super) fn add_all(&mut self, texts: &[(Arc<str>, TextId)]) {
        let mut places: Vec<(usize, u32, TextId)> = Vec::new();
        for (text, id) in texts {
            places.extend(self.places(text).into_iter().map(|(drawer, hash)| (drawer, hash, *id)));
        }
        places.sort_unstable();
        // A letter that stands twice leaves the same behind either time.
        places.dedup();
        for run in places.chunk_by(|one, two| one.0 == two.0) {
            let Some((drawer, ..)) = run.first() else { continue };
            let drawer = Arc::make_mut(&mut self.drawers[*drawer]);
            drawer.extend(run.iter().map(|(_, hash, id)| (*hash, *id)));
            // Two runs that are in order: they are merged, not sorted anew.
            drawer.sort();
        }
    }

    pub(super) fn remove(&mut self, text: &str, id: TextId) {
        for (drawer, hash) in self.places(text) {
            let drawer = Arc::make_mut(&mut self.drawers[drawer]);
            if let Ok(place) = drawer.binary_search(&(hash, id)) {
                drawer.remove(place);
            }
        }
    }

    /// The texts that may be one edit away, each once.
    pub(super) fn of(&self, text: &str) -> Vec<TextId> {
        let mut found = Vec::new();
        for (drawer, hash) in self.places(text) {
            let drawer = &self.drawers[drawer];
            let first = drawer.partition_point(|(other, _)| *other < hash);
            let same = drawer.iter().skip(first).take_while(|(other, _)| *other == hash);
            found.extend(same.map(|(_, id)| *id));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Where a text is kept: under itself, and under itself without each of its letters.
    fn places(&self, text: &str) -> Vec<(usize, u32)> {
        let length = text.chars().count();
        if !LENGTHS.contains(&length) || !is_of_one_alphabet(text) {
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
            // The remainder is below DRAWERS, and half of the rest is enough to tell texts apart.
            places.push(((hash % DRAWERS as u64) as usize, (hash >> 32) as u32));
        }
        places
    }
}

/// Whether all letters, but for digits, are of one alphabet. Where any sign may stand beside any other, and where there are
/// thousands of them, a word has so many neighbours that whoever writes them all down makes it slow to look for.
fn is_of_one_alphabet(text: &str) -> bool {
    let alphabet = |letter: char| match u32::from(letter) {
        ..0x250 => (!letter.is_ascii_digit()).then_some(0),
        number => Some(number / 0x100),
    };
    let mut alphabets = text.chars().filter_map(alphabet);
    let Some(first) = alphabets.next() else { return true };
    first < 0x2e && alphabets.all(|other| other == first)
}

/// The number of edits between two texts, if it is not above `most`. Neighbours that were swapped are one edit.
pub(super) fn distance_within(one: &str, two: &str, most: usize) -> Option<usize> {
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    if most < one.len().abs_diff(two.len()) {
        return None;
    }
    // Rows of the usual table: two before, the last one, and the one that is written.
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
impl Neighbours {
    pub(super) fn is_bare(&self) -> bool {
        self.drawers.iter().all(|drawer| drawer.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edits_are_counted_as_people_make_them() {
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
    fn a_word_has_neighbours_of_its_own_alphabet_only() {
        let texts =
            ["emailé", "email5", "ema1l", "почта", "почты", "email漢", "메일주소를", "mailпочта"];
        let mut neighbours = Neighbours::default();
        let ids: Vec<_> = texts.iter().zip(0..).map(|(text, id)| ((*text).into(), id)).collect();
        neighbours.add_all(&ids);
        assert_eq!(neighbours.of("email"), [0, 1, 2]);
        assert_eq!(neighbours.of("почта"), [3, 4]);
        for text in ["email漢", "메일주소를", "mailпочта"] {
            assert!(neighbours.of(text).is_empty(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_way_back_is_as_far(one in "[a-e]{0,8}", two in "[a-e]{0,8}", most in 0_usize..3) {
            prop_assert_eq!(distance_within(&one, &two, most), distance_within(&two, &one, most));
        }

        #[test]
        fn whatever_is_one_edit_away_is_found(one in "[a-c]{4,7}", two in "[a-c]{4,7}") {
            let mut neighbours = Neighbours::default();
            neighbours.add_all(&[(two.as_str().into(), 7)]);
            if distance_within(&one, &two, 1).is_some() {
                prop_assert_eq!(neighbours.of(&one), [7]);
            }
            neighbours.remove(&two, 7);
            prop_assert!(neighbours.of(&one).is_empty());
        }
    }
}
