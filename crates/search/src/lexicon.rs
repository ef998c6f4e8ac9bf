//! A lexicon: texts, each with the tools that have it, found exactly or by a part.
//!
//! Its chunks are shared like those of the other tables: a change copies only the affected chunks. A text that no tool
//! has any more leaves no trace.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use catalog::tool_set::Slot;
use memchr::memmem::Finder;

use super::postings::PostingList;
use super::text_additions::{TextAdditions, TextNumber};

/// Identifies a text as long as a tool has it.
pub(super) type TextId = u32;

const CHUNK_TEXTS: usize = 256;
const BUCKETS: usize = 1024;

/// A lexicon, cheap to clone.
#[derive(Clone)]
pub(super) struct TextLexicon {
    chunks: Vec<Arc<LexiconChunk>>,
    buckets: Vec<Arc<HashMap<Arc<str>, TextId>>>,
    hasher: RandomState,
    free: Arc<BTreeSet<TextId>>,
}

/// Texts with consecutive ids, stored contiguously for fast scans.
#[derive(Clone, Default)]
struct LexiconChunk {
    entries: Vec<LexiconEntry>,
    /// All texts concatenated, each after a newline, and the offset of each.
    joined_texts: String,
    offsets: Vec<u32>,
}

#[derive(Clone, Default)]
struct LexiconEntry {
    text: Arc<str>,
    postings: Arc<PostingList>,
}

/// The result of adding texts.
pub(super) struct AddedTexts {
    /// Ids of the texts, by number.
    ids: Vec<TextId>,
    /// Texts that were not in the lexicon before.
    pub(super) new_texts: Vec<(Arc<str>, TextId)>,
}

impl AddedTexts {
    /// Replaces the number of a text by its id.
    pub(super) fn replace_by_id(&self, number: &mut TextNumber) {
        *number = self.ids[*number as usize];
    }
}

impl Default for TextLexicon {
    fn default() -> Self {
        let (drawers, hasher) = (vec![Arc::default(); BUCKETS], RandomState::new());
        Self { chunks: Vec::new(), buckets: drawers, hasher, free: Arc::default() }
    }
}

impl TextLexicon {
    fn bucket_index(&self, text: &str) -> usize {
        // The remainder is below BUCKETS, so the cast loses nothing.
        (self.hasher.hash_one(text) % BUCKETS as u64) as usize
    }

    /// The id of exactly this text.
    pub(super) fn find_text(&self, text: &str) -> Option<TextId> {
        self.buckets[self.bucket_index(text)].get(text).copied()
    }

    fn entry(&self, id: TextId) -> Option<&LexiconEntry> {
        self.chunks.get(id as usize / CHUNK_TEXTS)?.entries.get(id as usize % CHUNK_TEXTS)
    }

    pub(super) fn text(&self, id: TextId) -> &str {
        self.entry(id).map_or("", |entry| &entry.text)
    }

    pub(super) fn postings(&self, id: TextId) -> Option<&PostingList> {
        self.entry(id).map(|entry| &*entry.postings)
    }

    /// Texts that begin with this, and possibly others that contain it after a newline.
    pub(super) fn beginning_with(&self, beginning: &str) -> Vec<TextId> {
        self.texts_containing(&Finder::new(&format!("\n{beginning}")))
    }

    /// Texts that contain this.
    pub(super) fn texts_containing(&self, finder: &Finder<'_>) -> Vec<TextId> {
        let mut found = Vec::new();
        for (shelf, number) in self.chunks.iter().zip(0_u32..) {
            let mut last = None;
            for place in finder.find_iter(shelf.joined_texts.as_bytes()) {
                let index = shelf.offsets.partition_point(|begin| *begin as usize <= place);
                let id = number * CHUNK_TEXTS as u32 + index as u32 - 1;
                if last.replace(id) != Some(id) {
                    found.push(id);
                }
            }
        }
        found
    }

    /// Adds texts with the tools that have them.
    pub(super) fn add_texts(&mut self, additions: TextAdditions) -> AddedTexts {
        let mut taken = AddedTexts { ids: vec![0; additions.text_count()], new_texts: Vec::new() };
        additions.for_each_text(|number, text, run| {
            let id = self.find_text(&text).unwrap_or_else(|| {
                let id = self.insert_text(Arc::clone(&text));
                taken.new_texts.push((text, id));
                id
            });
            taken.ids[number as usize] = id;
            let shelf = Arc::make_mut(&mut self.chunks[id as usize / CHUNK_TEXTS]);
            let postings = Arc::make_mut(&mut shelf.entries[id as usize % CHUNK_TEXTS].postings);
            postings.put_postings(run.iter().map(|(_, posting)| *posting));
        });
        taken
    }

    /// Removes a tool from a text. If no tool has the text any more, it is removed and returned.
    pub(super) fn remove_posting(&mut self, id: TextId, slot: Slot) -> Option<Arc<str>> {
        let shelf = Arc::make_mut(&mut self.chunks[id as usize / CHUNK_TEXTS]);
        let entry = &mut shelf.entries[id as usize % CHUNK_TEXTS];
        let postings = Arc::make_mut(&mut entry.postings);
        postings.remove_slot(slot);
        if !postings.is_empty() {
            return None;
        }
        let gone = std::mem::take(entry).text;
        shelf.rebuild_joined_texts();
        let drawer = self.bucket_index(&gone);
        Arc::make_mut(&mut self.buckets[drawer]).remove(&gone);
        Arc::make_mut(&mut self.free).insert(id);
        Some(gone)
    }

    fn insert_text(&mut self, text: Arc<str>) -> TextId {
        let entry = LexiconEntry { text: Arc::clone(&text), postings: Arc::default() };
        let reused = self.free.first().copied();
        let id = match reused {
            Some(id) => {
                Arc::make_mut(&mut self.free).remove(&id);
                let shelf = Arc::make_mut(&mut self.chunks[id as usize / CHUNK_TEXTS]);
                shelf.entries[id as usize % CHUNK_TEXTS] = entry;
                shelf.rebuild_joined_texts();
                id
            }
            None => {
                if self.chunks.last().is_none_or(|shelf| shelf.entries.len() == CHUNK_TEXTS) {
                    self.chunks.push(Arc::default());
                }
                let shelves = self.chunks.len();
                let shelf = Arc::make_mut(self.chunks.last_mut().expect("there is a shelf"));
                shelf.append_entry(entry);
                TextId::try_from((shelves - 1) * CHUNK_TEXTS + shelf.entries.len() - 1)
                    .expect("fewer than four billion texts")
            }
        };
        let drawer = self.bucket_index(&text);
        Arc::make_mut(&mut self.buckets[drawer]).insert(text, id);
        id
    }
}

impl LexiconChunk {
    fn append_entry(&mut self, entry: LexiconEntry) {
        self.offsets.push(u32::try_from(self.joined_texts.len()).unwrap_or(u32::MAX));
        self.joined_texts.push('\n');
        self.joined_texts.push_str(&entry.text);
        self.entries.push(entry);
    }

    fn rebuild_joined_texts(&mut self) {
        self.joined_texts.clear();
        self.offsets.clear();
        for entry in &self.entries {
            self.offsets.push(u32::try_from(self.joined_texts.len()).unwrap_or(u32::MAX));
            self.joined_texts.push('\n');
            self.joined_texts.push_str(&entry.text);
        }
    }
}

#[cfg(test)]
impl TextLexicon {
    pub(super) fn is_bare(&self) -> bool {
        self.buckets.iter().all(|drawer| drawer.is_empty())
            && self.chunks.iter().flat_map(|shelf| &shelf.entries).all(|it| it.postings.is_empty())
    }
}
