//! Who has a text, in the order of slots, in shared chunks: a change copies one of them.

use std::sync::Arc;

use crate::tool_set::{Slot, ToolSet};

/// A tool that has a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Posting {
    pub(super) slot: Slot,
    /// How much the text counts there, over all fields.
    pub(super) weight: Weight,
    /// Which part of the tool's name it is, in 255ths.
    pub(super) share: u8,
    /// Whether it stands in the description.
    pub(super) described: bool,
}

/// A number from 0 to 64, in steps of 1/1024.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Weight(u16);

impl Weight {
    pub(super) fn of(number: f32) -> Self {
        // The cast saturates, and what has any weight keeps some.
        Self(((number * 1024.0) as u16).max(u16::from(0.0 < number)))
    }

    pub(super) fn get(self) -> f32 {
        f32::from(self.0) / 1024.0
    }
}

/// Small in tests, so that a dozen tools go through everything that many do.
const CHUNK: usize = if cfg!(test) { 4 } else { 512 };
/// From so many on, they are kept as a set too.
const MANY: usize = if cfg!(test) { 6 } else { 1024 };
/// Tools are looked up one by one where so many times as many have the text.
const MUCH_MORE: usize = if cfg!(test) { 2 } else { 16 };

/// All who have a text.
#[derive(Clone, Debug, Default)]
pub(super) struct Postings {
    chunks: Vec<Arc<Vec<Posting>>>,
    len: usize,
    /// The same as a set, if they are many: counting those within another set takes no time then.
    set: Option<Box<ToolSet>>,
}

impl Postings {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The chunk that a slot is in, or would be.
    fn chunk(&self, slot: Slot) -> usize {
        let after =
            self.chunks.partition_point(|chunk| chunk.first().is_some_and(|it| it.slot <= slot));
        after.saturating_sub(1)
    }

    /// Puts in tools that are not there yet, in their order. Those that come after all others are appended.
    pub(super) fn put_all(&mut self, postings: impl Iterator<Item = Posting>) {
        for posting in postings {
            let last = self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK);
            match last {
                Some(last) if last.last().is_some_and(|it| it.slot < posting.slot) => {
                    Arc::make_mut(last).push(posting);
                    self.len += 1;
                    self.note(posting.slot);
                }
                _ => self.put(posting),
            }
        }
    }

    fn put(&mut self, posting: Posting) {
        if self.chunks.is_empty() {
            self.chunks.push(Arc::default());
        }
        let index = self.chunk(posting.slot);
        let chunk = Arc::make_mut(&mut self.chunks[index]);
        match chunk.binary_search_by_key(&posting.slot, |it| it.slot) {
            Ok(place) => chunk[place] = posting,
            Err(place) => {
                chunk.insert(place, posting);
                self.len += 1;
            }
        }
        if CHUNK < chunk.len() {
            // What is appended goes on in a new chunk; elsewhere both halves have room.
            let keep = if chunk.last() == Some(&posting) { CHUNK } else { CHUNK / 2 };
            let rest = chunk.split_off(keep);
            self.chunks.insert(index + 1, Arc::new(rest));
        }
        self.note(posting.slot);
    }

    /// Has a tool that was put in among the set of them all, if there is one.
    fn note(&mut self, slot: Slot) {
        match &mut self.set {
            Some(set) => _ = set.set(slot, true),
            None if MANY <= self.len => {
                self.set = Some(Box::new(self.iter().map(|posting| posting.slot).collect()));
            }
            None => {}
        }
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let index = self.chunk(slot);
        let Some(chunk) = self.chunks.get_mut(index) else { return };
        let chunk = Arc::make_mut(chunk);
        let Ok(place) = chunk.binary_search_by_key(&slot, |it| it.slot) else { return };
        chunk.remove(place);
        self.len -= 1;
        if let Some(set) = &mut self.set {
            set.set(slot, false);
        }
        if chunk.is_empty() {
            self.chunks.remove(index);
        }
    }

    fn get(&self, slot: Slot) -> Option<&Posting> {
        let chunk = self.chunks.get(self.chunk(slot))?;
        chunk.get(chunk.binary_search_by_key(&slot, |it| it.slot).ok()?)
    }

    /// All of them, in the order of slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Posting> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Those within a set. Where the set is much the smaller, its tools are looked up one by one.
    pub(super) fn each_within(&self, within: &Within<'_>, mut each: impl FnMut(&Posting)) {
        match &within.few {
            Some(few) if few.len() * MUCH_MORE < self.len => {
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

    /// How many within a set have any of some texts.
    pub(super) fn count_any(several: &[&Self], within: &Within<'_>) -> usize {
        let sets: Vec<&ToolSet> = several.iter().filter_map(|it| it.set.as_deref()).collect();
        if let (true, [only]) = (sets.is_empty(), several) {
            let mut count = 0;
            only.each_within(within, |_| count += 1);
            return count;
        }
        let mut any = ToolSet::any_within(&sets, within.set);
        for small in several.iter().filter(|it| it.set.is_none()) {
            small.each_within(within, |posting| {
                any.set(posting.slot, true);
            });
        }
        any.len()
    }
}

/// The set of tools that is searched.
pub(super) struct Within<'a> {
    set: &'a ToolSet,
    /// Its slots, if they are few.
    few: Option<Vec<Slot>>,
}

/// More tools than this are not looked up one by one.
const FEW: usize = if cfg!(test) { 5 } else { 4096 };

impl<'a> Within<'a> {
    pub(super) fn new(set: &'a ToolSet) -> Self {
        Self { set, few: (set.len() <= FEW).then(|| set.iter().collect()) }
    }

    pub(super) fn len(&self) -> usize {
        self.set.len()
    }

    /// Its slots, if they are few.
    pub(super) fn few(&self) -> Option<&[Slot]> {
        self.few.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_any_weight_keeps_some_and_nothing_is_nothing() {
        assert_eq!(Weight::of(0.0).get(), 0.0);
        assert_eq!(Weight::of(1e-6).get(), 1.0 / 1024.0);
        assert_eq!(Weight::of(2.0).get(), 2.0);
    }
}
