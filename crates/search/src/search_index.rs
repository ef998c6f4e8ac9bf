//! The index of the texts of all tools, updated tool by tool.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::tool_set::Slot;

use super::edit_neighbours::{EditNeighbours, distance_within};
use super::index_batch::IndexBatch;
use super::lexicon::{TextId, TextLexicon};
use super::ranking_weights::RankingWeights;
use super::search_document::SearchDocument;
use super::stem_families::StemFamilies;

const CHUNK_SLOTS: usize = 256;

/// An index of tools by their texts, cheap to clone.
#[derive(Clone, Default)]
pub struct SearchIndex {
    pub(super) names: TextLexicon,
    pub(super) keywords: TextLexicon,
    /// Names without separators, which match a name however it is written.
    pub(super) whole_names: TextLexicon,
    pub(super) words: TextLexicon,
    /// Other parts of descriptions, used only by the table: filler words, and words with symbols in them.
    pub(super) table_words: TextLexicon,
    pub(super) families: StemFamilies,
    whole_name_neighbours: EditNeighbours,
    word_neighbours: EditNeighbours,
    pub(super) weights: Arc<RankingWeights>,
    chunks: Vec<Arc<Vec<Option<Arc<IndexedTool>>>>>,
}

/// The texts of a tool in the index, needed to remove it again.
pub(super) struct IndexedTool {
    pub(super) id: Box<str>,
    pub(super) name: TextId,
    pub(super) whole_name: TextId,
    pub(super) keywords: Box<[TextId]>,
    /// Words of the description come first.
    pub(super) words: Box<[TextId]>,
    pub(super) described_words: usize,
    pub(super) table_words: Box<[TextId]>,
}

impl SearchIndex {
    /// An empty index with these weights.
    pub fn with_weights(weights: RankingWeights) -> Self {
        Self { weights: Arc::new(weights), ..Self::default() }
    }

    /// The same index with other weights, except those of fields: these apply when a tool is added.
    pub fn with_query_weights(&self, weights: RankingWeights) -> Self {
        let weights = RankingWeights { fields: self.weights.fields, ..weights };
        Self { weights: Arc::new(weights), ..self.clone() }
    }

    /// Adds a tool, in place of the previous one at its slot.
    pub fn put_tool(&mut self, slot: Slot, document: &SearchDocument) {
        self.put_tools([(slot, Cow::Borrowed(document))]);
    }

    /// Adds many tools, which takes much less time for each.
    pub fn put_tools<'a>(
        &mut self,
        documents: impl IntoIterator<Item = (Slot, Cow<'a, SearchDocument>)>,
    ) {
        let mut gathering = IndexBatch::default();
        for (slot, document) in documents {
            if gathering.is_full() || !gathering.is_next(slot) {
                self.add_batch(std::mem::take(&mut gathering));
            }
            self.remove_tool(slot);
            gathering.add_tool(slot, &document, &self.weights);
        }
        self.add_batch(gathering);
    }

    fn add_batch(&mut self, gathering: IndexBatch) {
        let names = self.names.add_texts(gathering.names);
        let keywords = self.keywords.add_texts(gathering.keywords);
        let wholes = self.whole_names.add_texts(gathering.whole_names);
        self.whole_name_neighbours.add_texts(&wholes.new_texts);
        let words = self.words.add_texts(gathering.words);
        self.word_neighbours.add_texts(&words.new_texts);
        words.new_texts.iter().for_each(|(word, id)| self.families.add_word(word, *id));
        let asides = self.table_words.add_texts(gathering.table_words);
        for (slot, mut tool) in gathering.tools {
            names.replace_by_id(&mut tool.name);
            wholes.replace_by_id(&mut tool.whole_name);
            tool.keywords.iter_mut().for_each(|it| keywords.replace_by_id(it));
            tool.words.iter_mut().for_each(|it| words.replace_by_id(it));
            tool.table_words.iter_mut().for_each(|it| asides.replace_by_id(it));
            *self.slot_entry(slot) = Some(Arc::new(tool));
        }
    }

    /// Removes the tool at a slot.
    pub fn remove_tool(&mut self, slot: Slot) {
        if self.tool_at(slot).is_none() {
            return;
        }
        let Some(gone) = self.slot_entry(slot).take() else { return };
        self.names.remove_posting(gone.name, slot);
        if let Some(whole) = self.whole_names.remove_posting(gone.whole_name, slot) {
            self.whole_name_neighbours.remove_text(&whole, gone.whole_name);
        }
        for id in &gone.keywords {
            self.keywords.remove_posting(*id, slot);
        }
        for id in &gone.table_words {
            self.table_words.remove_posting(*id, slot);
        }
        for id in &gone.words {
            if let Some(word) = self.words.remove_posting(*id, slot) {
                self.families.remove_word(&word, *id);
                self.word_neighbours.remove_text(&word, *id);
            }
        }
    }

    fn slot_entry(&mut self, slot: Slot) -> &mut Option<Arc<IndexedTool>> {
        let (shelf, place) = (slot as usize / CHUNK_SLOTS, slot as usize % CHUNK_SLOTS);
        while self.chunks.len() <= shelf {
            self.chunks.push(Arc::new(vec![None; CHUNK_SLOTS]));
        }
        &mut Arc::make_mut(&mut self.chunks[shelf])[place]
    }

    fn tool_at(&self, slot: Slot) -> Option<&Arc<IndexedTool>> {
        self.chunks.get(slot as usize / CHUNK_SLOTS)?.get(slot as usize % CHUNK_SLOTS)?.as_ref()
    }

    /// The id of the tool, which decides between equal scores.
    pub(super) fn tool_id(&self, slot: Slot) -> &str {
        self.tool_at(slot).map_or("", |it| &it.id)
    }

    /// The name of a tool, in lower case.
    pub(super) fn name_at(&self, slot: Slot) -> Option<&str> {
        self.tool_at(slot).map(|it| self.names.text(it.name))
    }

    /// The keywords of a tool, in lower case.
    pub(super) fn keywords_at(&self, slot: Slot) -> impl Iterator<Item = &str> {
        let ids = self.tool_at(slot).into_iter().flat_map(|it| &it.keywords);
        ids.map(|id| self.keywords.text(*id))
    }

    /// The words of the description of a tool.
    pub(super) fn described_at(&self, slot: Slot) -> impl Iterator<Item = &str> {
        self.tool_at(slot).into_iter().flat_map(|it| {
            let words = it.words.iter().take(it.described_words).map(|id| self.words.text(*id));
            words.chain(it.table_words.iter().map(|id| self.table_words.text(*id)))
        })
    }

    /// Number of slots that the index covers.
    pub(super) fn slot_count(&self) -> usize {
        self.chunks.len() * CHUNK_SLOTS
    }

    /// The words at an edit distance of one.
    pub(super) fn similar_words(&self, word: &str) -> Vec<TextId> {
        retain_distance_one(self.word_neighbours.find_candidates(word), word, &self.words)
    }

    /// The names at an edit distance of one, compared without separators.
    pub(super) fn similar_names(&self, whole: &str) -> Vec<TextId> {
        retain_distance_one(
            self.whole_name_neighbours.find_candidates(whole),
            whole,
            &self.whole_names,
        )
    }
}

fn retain_distance_one(mut ids: Vec<TextId>, text: &str, lexicon: &TextLexicon) -> Vec<TextId> {
    ids.retain(|id| distance_within(text, lexicon.text(*id), 1) == Some(1));
    ids
}

#[cfg(test)]
impl SearchIndex {
    pub(super) fn words_at(&self, slot: Slot) -> usize {
        self.tool_at(slot).map_or(0, |it| it.words.len())
    }

    /// True if no text is left.
    pub(super) fn is_bare(&self) -> bool {
        let lexicons =
            [&self.names, &self.keywords, &self.whole_names, &self.words, &self.table_words];
        lexicons.iter().all(|lexicon| lexicon.is_bare())
            && self.families.is_bare()
            && self.word_neighbours.is_bare()
            && self.whole_name_neighbours.is_bare()
    }
}
