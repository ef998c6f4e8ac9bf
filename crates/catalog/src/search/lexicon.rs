//! A lexicon: texts, each with the tools that have it, found exactly or by a part.
//!
//! Its chunks are shared like those of the other tables: a change copies only the affected chunks. A text that no tool
//! has any more leaves no trace.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use memchr::memmem::Finder;

use super::additions::{Additions, Number};
use super::postings::Postings;
use crate::tool_set::Slot;

/// Identifies a text as long as a tool has it.
pub(super) type TextId = u32;

const SHELF: usize = 256;
const DRAWERS: usize = 1024;

/// A lexicon, cheap to clone.
#[derive(Clone)]
pub(super) struct Lexicon {
    shelves: Vec<Arc<Shelf>>,
    drawers: Vec<Arc<HashMap<Arc<str>, TextId>>>,
    hasher: RandomState,
    free: Arc<BTreeSet<TextId>>,
}

/// Texts with consecutive ids, stored contiguously for fast scans.
#[derive(Clone, Default)]
struct Shelf {
    entries: Vec<Entry>,
    /// All texts concatenated, each after a newline, and the offset of each.
    all: String,
    begins: Vec<u32>,
}

#[derive(Clone, Default)]
struct Entry {
    text: Arc<str>,
    postings: Arc<Postings>,
}

/// The result of adding texts.
pub(super) struct Taken {
    /// Ids of the texts, by number.
    ids: Vec<TextId>,
    /// Texts that were not in the lexicon before.
    pub(super) new: Vec<(Arc<str>, TextId)>,
}

impl Taken {
    /// Replaces the number of a text by its id.
    pub(super) fn give_id(&self, number: &mut Number) {
        *number = self.ids[*number as usize];
    }
}

impl Default for Lexicon {
    fn default() -> Self {
        let (drawers, hasher) = (vec![Arc::default(); DRAWERS], RandomState::new());
        Self { shelves: Vec::new(), drawers, hasher, free: Arc::default() }
    }
}

impl Lexicon {
    fn drawer(&self, text: &str) -> usize {
        // The remainder is below BUCKETS, so the cast loses nothing.
        (self.hasher.hash_one(text) % DRAWERS as u64) as usize
    }

    /// The id of exactly this text.
    pub(super) fn find(&self, text: &str) -> Option<TextId> {
        self.drawers[self.drawer(text)].get(text).copied()
    }

    fn entry(&self, id: TextId) -> Option<&Entry> {
        self.shelves.get(id as usize / SHELF)?.entries.get(id as usize % SHELF)
    }

    pub(super) fn text(&self, id: TextId) -> &str {
        self.entry(id).map_or("", |entry| &entry.text)
    }

    pub(super) fn postings(&self, id: TextId) -> Option<&Postings> {
        self.entry(id).map(|entry| &*entry.postings)
    }

    /// Texts that begin with this, and possibly others that contain it after a newline.
    pub(super) fn beginning_with(&self, beginning: &str) -> Vec<TextId> {
        self.containing(&Finder::new(&format!("\n{beginning}")))
    }

    /// Texts that contain this.
    pub(super) fn containing(&self, finder: &Finder<'_>) -> Vec<TextId> {
        let mut found = Vec::new();
        for (shelf, number) in self.shelves.iter().zip(0_u32..) {
            let mut last = None;
            for place in finder.find_iter(shelf.all.as_bytes()) {
                let index = shelf.begins.partition_point(|begin| *begin as usize <= place);
                let id = number * SHELF as u32 + index as u32 - 1;
                if last.replace(id) != Some(id) {
                    found.push(id);
                }
            }
        }
        found
    }

    /// Adds texts with the tools that have them.
    pub(super) fn add_all(&mut self, additions: Additions) -> Taken {
        let mut taken = Taken { ids: vec![0; additions.texts()], new: Vec::new() };
        additions.each(|number, text, run| {
            let id = self.find(&text).unwrap_or_else(|| {
                let id = self.take_in(Arc::clone(&text));
                taken.new.push((text, id));
                id
            });
            taken.ids[number as usize] = id;
            let shelf = Arc::make_mut(&mut self.shelves[id as usize / SHELF]);
            let postings = Arc::make_mut(&mut shelf.entries[id as usize % SHELF].postings);
            postings.put_all(run.iter().map(|(_, posting)| *posting));
        });
        taken
    }

    /// Removes a tool from a text. If no tool has the text any more, it is removed and returned.
    pub(super) fn remove(&mut self, id: TextId, slot: Slot) -> Option<Arc<str>> {
        let shelf = Arc::make_mut(&mut self.shelves[id as usize / SHELF]);
        let entry = &mut shelf.entries[id as usize % SHELF];
        let postings = Arc::make_mut(&mut entry.postings);
        postings.remove(slot);
        if !postings.is_empty() {
            return None;
        }
        let gone = std::mem::take(entry).text;
        shelf.write_all();
        let drawer = self.drawer(&gone);
        Arc::make_mut(&mut self.drawers[drawer]).remove(&gone);
        Arc::make_mut(&mut self.free).insert(id);
        Some(gone)
    }

    fn take_in(&mut self, text: Arc<str>) -> TextId {
        let entry = Entry { text: Arc::clone(&text), postings: Arc::default() };
        let reused = self.free.first().copied();
        let id = match reused {
            Some(id) => {
                Arc::make_mut(&mut self.free).remove(&id);
                let shelf = Arc::make_mut(&mut self.shelves[id as usize / SHELF]);
                shelf.entries[id as usize % SHELF] = entry;
                shelf.write_all();
                id
            }
            None => {
                if self.shelves.last().is_none_or(|shelf| shelf.entries.len() == SHELF) {
                    self.shelves.push(Arc::default());
                }
                let shelves = self.shelves.len();
                let shelf = Arc::make_mut(self.shelves.last_mut().expect("there is a shelf"));
                shelf.append(entry);
                TextId::try_from((shelves - 1) * SHELF + shelf.entries.len() - 1)
                    .expect("fewer than four billion texts")
            }
        };
        let drawer = self.drawer(&text);
        Arc::make_mut(&mut self.drawers[drawer]).insert(text, id);
        id
    }
}

impl Shelf {
    fn append(&mut self, entry: Entry) {
        self.begins.push(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.all.push('\n');
        self.all.push_str(&entry.text);
        self.entries.push(entry);
    }

    fn write_all(&mut self) {
        self.all.clear();
        self.begins.clear();
        for entry in &self.entries {
            self.begins.push(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
            self.all.push('\n');
            self.all.push_str(&entry.text);
        }
    }
}

#[cfg(test)]
impl Lexicon {
    pub(super) fn is_bare(&self) -> bool {
        self.drawers.iter().all(|drawer| drawer.is_empty())
            && self.shelves.iter().flat_map(|shelf| &shelf.entries).all(|it| it.postings.is_empty())
    }
}
