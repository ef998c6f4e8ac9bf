//! The tools that have a text, in the order of slots, in shared chunks: a change copies one chunk.

use std::sync::Arc;

use catalog::tool_set::{Slot, ToolSet};

/// A tool that has a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ToolPosting {
    pub(super) slot: Slot,
    /// Weight of the text in this tool, summed over all fields.
    pub(super) weight: TextWeight,
    /// The share of the tool's name that this text is, in 255ths.
    pub(super) share: u8,
    /// True if the description contains the text.
    pub(super) in_description: bool,
}

/// A number from 0 to 64, in steps of 1/1024.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TextWeight(u16);

impl TextWeight {
    pub(super) fn from_f32(number: f32) -> Self {
        // The cast saturates, and a positive weight never becomes zero.
        Self(((number * 1024.0) as u16).max(u16::from(0.0 < number)))
    }

    pub(super) fn get(self) -> f32 {
        f32::from(self.0) / 1024.0
    }
}

/// Postings per chunk. Small in tests, so that a dozen tools exercise every case.
const CHUNK_LEN: usize = if cfg!(test) { 4 } else { 512 };
/// From this number on, the slots are also stored as a set.
const SET_THRESHOLD: usize = if cfg!(test) { 6 } else { 1024 };
/// If a text has this many times more tools than a search, the searched tools are looked up individually.
const LOOKUP_RATIO: usize = if cfg!(test) { 2 } else { 16 };

/// All tools that have a text.
#[derive(Clone, Debug, Default)]
pub(super) struct PostingList {
    chunks: Vec<Arc<Vec<ToolPosting>>>,
    len: usize,
    /// The slots as a set if there are many; counting its members within another set is then very fast.
    set: Option<Box<ToolSet>>,
}

impl PostingList {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Index of the chunk that contains a slot, or would.
    fn chunk_index(&self, slot: Slot) -> usize {
        let after =
            self.chunks.partition_point(|chunk| chunk.first().is_some_and(|it| it.slot <= slot));
        after.saturating_sub(1)
    }

    /// Adds tools in the order of their slots; the ones after all existing slots are appended.
    pub(super) fn put_postings(&mut self, postings: impl Iterator<Item = ToolPosting>) {
        for posting in postings {
            let last = self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK_LEN);
            match last {
                Some(last) if last.last().is_some_and(|it| it.slot < posting.slot) => {
                    Arc::make_mut(last).push(posting);
                    self.len += 1;
                    self.add_to_set(posting.slot);
                }
                _ => self.put_posting(posting),
            }
        }
    }

    fn put_posting(&mut self, posting: ToolPosting) {
        if self.chunks.is_empty() {
            self.chunks.push(Arc::default());
        }
        let index = self.chunk_index(posting.slot);
        let chunk = Arc::make_mut(&mut self.chunks[index]);
        match chunk.binary_search_by_key(&posting.slot, |it| it.slot) {
            Ok(place) => chunk[place] = posting,
            Err(place) => {
                chunk.insert(place, posting);
                self.len += 1;
            }
        }
        if CHUNK_LEN < chunk.len() {
            // After an append, start a new chunk; elsewhere split in half, so that both halves can grow.
            let keep = if chunk.last() == Some(&posting) { CHUNK_LEN } else { CHUNK_LEN / 2 };
            let rest = chunk.split_off(keep);
            self.chunks.insert(index + 1, Arc::new(rest));
        }
        self.add_to_set(posting.slot);
    }

    /// Adds a slot to the set, or creates the set once there are enough postings.
    fn add_to_set(&mut self, slot: Slot) {
        match &mut self.set {
            Some(set) => _ = set.set_member(slot, true),
            None if SET_THRESHOLD <= self.len => {
                self.set = Some(Box::new(self.iter().map(|posting| posting.slot).collect()));
            }
            None => {}
        }
    }

    pub(super) fn remove_slot(&mut self, slot: Slot) {
        let index = self.chunk_index(slot);
        let Some(chunk) = self.chunks.get_mut(index) else { return };
        let chunk = Arc::make_mut(chunk);
        let Ok(place) = chunk.binary_search_by_key(&slot, |it| it.slot) else { return };
        chunk.remove(place);
        self.len -= 1;
        if let Some(set) = &mut self.set {
            set.set_member(slot, false);
        }
        if chunk.is_empty() {
            self.chunks.remove(index);
        }
    }

    fn get(&self, slot: Slot) -> Option<&ToolPosting> {
        let chunk = self.chunks.get(self.chunk_index(slot))?;
        chunk.get(chunk.binary_search_by_key(&slot, |it| it.slot).ok()?)
    }

    /// All postings in the order of slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ToolPosting> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Calls `each` for the postings within a scope. If the scope is much smaller, its tools are looked up
    /// individually.
    pub(super) fn for_each_within(
        &self,
        within: &SearchScope<'_>,
        mut each: impl FnMut(&ToolPosting),
    ) {
        match &within.few {
            Some(few) if few.len() * LOOKUP_RATIO < self.len => {
                few.iter().filter_map(|slot| self.get(*slot)).for_each(each);
            }
            _ => {
                for posting in self.iter() {
                    if within.set.contains(posting.slot) {
                        each(posting);
                    }
                }
            }
        }
    }

    /// Number of tools within a scope that have any of several texts.
    pub(super) fn count_any(several: &[&Self], within: &SearchScope<'_>) -> usize {
        let sets: Vec<&ToolSet> = several.iter().filter_map(|it| it.set.as_deref()).collect();
        if let (true, [only]) = (sets.is_empty(), several) {
            let mut count = 0;
            only.for_each_within(within, |_| count += 1);
            return count;
        }
        let mut any = ToolSet::union_within(&sets, within.set);
        for small in several.iter().filter(|it| it.set.is_none()) {
            small.for_each_within(within, |posting| {
                any.set_member(posting.slot, true);
            });
        }
        any.len()
    }
}

/// The set of searched tools.
pub(super) struct SearchScope<'a> {
    set: &'a ToolSet,
    /// The slots of the set if there are few.
    few: Option<Vec<Slot>>,
}

/// Larger sets of tools are not looked up individually.
const LOOKUP_LIMIT: usize = if cfg!(test) { 5 } else { 4096 };

impl<'a> SearchScope<'a> {
    pub(super) fn new(set: &'a ToolSet) -> Self {
        Self { set, few: (set.len() <= LOOKUP_LIMIT).then(|| set.iter().collect()) }
    }

    pub(super) fn len(&self) -> usize {
        self.set.len()
    }

    /// The slots of the set if there are few.
    pub(super) fn few_slots(&self) -> Option<&[Slot]> {
        self.few.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_positive_weight_never_becomes_zero() {
        assert_eq!(TextWeight::from_f32(0.0).get(), 0.0);
        assert_eq!(TextWeight::from_f32(1e-6).get(), 1.0 / 1024.0);
        assert_eq!(TextWeight::from_f32(2.0).get(), 2.0);
    }
}
