//! The index of the texts of all tools, updated tool by tool.

use std::borrow::Cow;
use std::sync::Arc;

use super::document::Document;
use super::families::Families;
use super::gather::Gathering;
use super::lexicon::{Lexicon, TextId};
use super::near::{Neighbours, distance_within};
use super::weights::Weights;
use crate::tool_set::Slot;

const SHELF: usize = 256;

/// An index of tools by their texts, cheap to clone.
#[derive(Clone, Default)]
pub struct SearchIndex {
    pub(super) names: Lexicon,
    pub(super) keywords: Lexicon,
    /// Names without separators, which match a name however it is written.
    pub(super) wholes: Lexicon,
    pub(super) words: Lexicon,
    /// Other parts of descriptions, used only by the table: filler words, and words with symbols in them.
    pub(super) asides: Lexicon,
    pub(super) families: Families,
    near_wholes: Neighbours,
    near_words: Neighbours,
    pub(super) weights: Arc<Weights>,
    shelves: Vec<Arc<Vec<Option<Arc<Indexed>>>>>,
}

/// The texts of a tool in the index, needed to remove it again.
pub(super) struct Indexed {
    pub(super) id: Box<str>,
    pub(super) name: TextId,
    pub(super) whole: TextId,
    pub(super) keywords: Box<[TextId]>,
    /// Words of the description come first.
    pub(super) words: Box<[TextId]>,
    pub(super) described: usize,
    pub(super) asides: Box<[TextId]>,
}

impl SearchIndex {
    /// An empty index with these weights.
    pub fn with(weights: Weights) -> Self {
        Self { weights: Arc::new(weights), ..Self::default() }
    }

    /// The same index with other weights, except those of fields: these apply when a tool is added.
    pub fn reweighted(&self, weights: Weights) -> Self {
        let weights = Weights { fields: self.weights.fields, ..weights };
        Self { weights: Arc::new(weights), ..self.clone() }
    }

    /// Adds a tool, in place of the previous one at its slot.
    pub fn put(&mut self, slot: Slot, document: &Document) {
        self.put_all([(slot, Cow::Borrowed(document))]);
    }

    /// Adds many tools, which takes much less time for each.
    pub fn put_all<'a>(&mut self, documents: impl IntoIterator<Item = (Slot, Cow<'a, Document>)>) {
        let mut gathering = Gathering::default();
        for (slot, document) in documents {
            if gathering.is_enough() || !gathering.is_next(slot) {
                self.take_in(std::mem::take(&mut gathering));
            }
            self.remove(slot);
            gathering.take(slot, &document, &self.weights);
        }
        self.take_in(gathering);
    }

    fn take_in(&mut self, gathering: Gathering) {
        let names = self.names.add_all(gathering.names);
        let keywords = self.keywords.add_all(gathering.keywords);
        let wholes = self.wholes.add_all(gathering.wholes);
        self.near_wholes.add_all(&wholes.new);
        let words = self.words.add_all(gathering.words);
        self.near_words.add_all(&words.new);
        words.new.iter().for_each(|(word, id)| self.families.add(word, *id));
        let asides = self.asides.add_all(gathering.asides);
        for (slot, mut tool) in gathering.tools {
            names.give_id(&mut tool.name);
            wholes.give_id(&mut tool.whole);
            tool.keywords.iter_mut().for_each(|it| keywords.give_id(it));
            tool.words.iter_mut().for_each(|it| words.give_id(it));
            tool.asides.iter_mut().for_each(|it| asides.give_id(it));
            *self.place(slot) = Some(Arc::new(tool));
        }
    }

    /// Removes the tool at a slot.
    pub fn remove(&mut self, slot: Slot) {
        if self.at(slot).is_none() {
            return;
        }
        let Some(gone) = self.place(slot).take() else { return };
        self.names.remove(gone.name, slot);
        if let Some(whole) = self.wholes.remove(gone.whole, slot) {
            self.near_wholes.remove(&whole, gone.whole);
        }
        for id in &gone.keywords {
            self.keywords.remove(*id, slot);
        }
        for id in &gone.asides {
            self.asides.remove(*id, slot);
        }
        for id in &gone.words {
            if let Some(word) = self.words.remove(*id, slot) {
                self.families.remove(&word, *id);
                self.near_words.remove(&word, *id);
            }
        }
    }

    fn place(&mut self, slot: Slot) -> &mut Option<Arc<Indexed>> {
        let (shelf, place) = (slot as usize / SHELF, slot as usize % SHELF);
        while self.shelves.len() <= shelf {
            self.shelves.push(Arc::new(vec![None; SHELF]));
        }
        &mut Arc::make_mut(&mut self.shelves[shelf])[place]
    }

    fn at(&self, slot: Slot) -> Option<&Arc<Indexed>> {
        self.shelves.get(slot as usize / SHELF)?.get(slot as usize % SHELF)?.as_ref()
    }

    /// The id of the tool, which decides between equal scores.
    pub(super) fn id(&self, slot: Slot) -> &str {
        self.at(slot).map_or("", |it| &it.id)
    }

    /// The name of a tool, in lower case.
    pub(super) fn name_at(&self, slot: Slot) -> Option<&str> {
        self.at(slot).map(|it| self.names.text(it.name))
    }

    /// The keywords of a tool, in lower case.
    pub(super) fn keywords_at(&self, slot: Slot) -> impl Iterator<Item = &str> {
        let ids = self.at(slot).into_iter().flat_map(|it| &it.keywords);
        ids.map(|id| self.keywords.text(*id))
    }

    /// The words of the description of a tool.
    pub(super) fn described_at(&self, slot: Slot) -> impl Iterator<Item = &str> {
        self.at(slot).into_iter().flat_map(|it| {
            let words = it.words.iter().take(it.described).map(|id| self.words.text(*id));
            words.chain(it.asides.iter().map(|id| self.asides.text(*id)))
        })
    }

    /// Number of slots that the index covers.
    pub(super) fn slots(&self) -> usize {
        self.shelves.len() * SHELF
    }

    /// The words at an edit distance of one.
    pub(super) fn words_near(&self, word: &str) -> Vec<TextId> {
        only_near(self.near_words.of(word), word, &self.words)
    }

    /// The names at an edit distance of one, compared without separators.
    pub(super) fn wholes_near(&self, whole: &str) -> Vec<TextId> {
        only_near(self.near_wholes.of(whole), whole, &self.wholes)
    }
}

fn only_near(mut ids: Vec<TextId>, text: &str, lexicon: &Lexicon) -> Vec<TextId> {
    ids.retain(|id| distance_within(text, lexicon.text(*id), 1) == Some(1));
    ids
}

#[cfg(test)]
impl SearchIndex {
    pub(super) fn words_at(&self, slot: Slot) -> usize {
        self.at(slot).map_or(0, |it| it.words.len())
    }

    /// True if no text is left.
    pub(super) fn is_bare(&self) -> bool {
        let lexicons = [&self.names, &self.keywords, &self.wholes, &self.words, &self.asides];
        lexicons.iter().all(|lexicon| lexicon.is_bare())
            && self.families.is_bare()
            && self.near_words.is_bare()
            && self.near_wholes.is_bare()
    }
}
