//! What is known of the texts of all tools, changed tool by tool.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::document::Document;
use super::families::Families;
use super::lexicon::{Lexicon, TextId};
use super::near::{Neighbours, distance_within};
use super::postings::{Posting, Weight};
use super::query::is_filler;
use super::weights::{Field, Weights};
use super::words::{each_signed, each_word, squashed, squashed_word};
use crate::tool_set::Slot;

const SHELF: usize = 256;
/// How many different words of a tool count.
const MOST_WORDS: usize = 2_000;

/// An index of tools by their texts, cheap to clone.
#[derive(Clone, Default)]
pub struct SearchIndex {
    pub(super) names: Lexicon,
    pub(super) keywords: Lexicon,
    /// Names without anything between their words, by which they are known however they are written.
    pub(super) wholes: Lexicon,
    pub(super) words: Lexicon,
    /// What else stands in descriptions, for the table alone: words that say nothing, and words with signs in them.
    pub(super) asides: Lexicon,
    pub(super) families: Families,
    near_wholes: Neighbours,
    near_words: Neighbours,
    pub(super) weights: Arc<Weights>,
    shelves: Vec<Arc<Vec<Option<Arc<Indexed>>>>>,
}

/// What a tool has in the index, so that it can be taken out again.
struct Indexed {
    id: Box<str>,
    name: TextId,
    whole: TextId,
    keywords: Box<[TextId]>,
    /// Those of the description first.
    words: Box<[TextId]>,
    described: usize,
    asides: Box<[TextId]>,
}

/// What is gathered of one word of one tool.
#[derive(Default)]
struct Gathered {
    weight: f32,
    share: f32,
    described: bool,
}

impl SearchIndex {
    /// An empty index with other weights than the usual ones.
    pub fn with(weights: Weights) -> Self {
        Self { weights: Arc::new(weights), ..Self::default() }
    }

    /// The same with other weights. Those of fields count when a tool is put in: they stay as they were.
    pub fn reweighted(&self, weights: Weights) -> Self {
        let weights = Weights { fields: self.weights.fields, ..weights };
        Self { weights: Arc::new(weights), ..self.clone() }
    }

    /// Puts a tool in its place, instead of what was there.
    pub fn put(&mut self, slot: Slot, document: &Document) {
        self.remove(slot);
        let bare = Posting { slot, weight: Weight::default(), share: 0, described: false };
        let (name, _) = self.names.add(&document.name.to_lowercase(), bare);
        let whole = squashed(&document.name);
        let (whole_id, is_new) = self.wholes.add(&whole, self.as_whole(slot, &document.name));
        if is_new {
            self.near_wholes.add(&whole, whole_id);
        }
        let keywords =
            document.keywords.iter().map(|it| self.keywords.add(&it.to_lowercase(), bare).0);
        let mut keywords: Vec<TextId> = keywords.collect();
        keywords.sort_unstable();
        keywords.dedup();
        let (mut words, mut others) = (Vec::new(), Vec::new());
        for (word, it) in self.gather(document) {
            let share = (it.share.min(1.0) * 255.0) as u8;
            let (weight, described) = (Weight::of(it.weight), it.described);
            let (id, is_new) = self.words.add(&word, Posting { slot, weight, share, described });
            if is_new {
                self.families.add(&word, id);
                self.near_words.add(&word, id);
            }
            if described {
                words.push(id)
            } else {
                others.push(id)
            };
        }
        let described = words.len();
        words.extend(others);
        let (id, keywords, words) = (document.id.clone(), keywords.into(), words.into());
        let asides = asides(document).iter().map(|it| self.asides.add(it, bare).0).collect();
        let indexed = Indexed { id, name, whole: whole_id, keywords, words, described, asides };
        *self.place(slot) = Some(Arc::new(indexed));
    }

    /// Takes a tool out.
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

    /// By which equals are told apart.
    pub(super) fn id(&self, slot: Slot) -> &str {
        self.at(slot).map_or("", |it| &it.id)
    }

    /// The name of a tool, in lower case.
    pub(super) fn name_at(&self, slot: Slot) -> Option<&str> {
        self.at(slot).map(|it| self.names.text(it.name))
    }

    /// Its keywords, in lower case.
    pub(super) fn keywords_at(&self, slot: Slot) -> impl Iterator<Item = &str> {
        let ids = self.at(slot).into_iter().flat_map(|it| &it.keywords);
        ids.map(|id| self.keywords.text(*id))
    }

    /// The words of its description.
    pub(super) fn described_at(&self, slot: Slot) -> impl Iterator<Item = &str> {
        self.at(slot).into_iter().flat_map(|it| {
            let words = it.words.iter().take(it.described).map(|id| self.words.text(*id));
            words.chain(it.asides.iter().map(|id| self.asides.text(*id)))
        })
    }

    /// How many slots it knows of.
    pub(super) fn slots(&self) -> usize {
        self.shelves.len() * SHELF
    }

    /// The words that are one edit away from this one.
    pub(super) fn words_near(&self, word: &str) -> Vec<TextId> {
        only_near(self.near_words.of(word), word, &self.words)
    }

    /// The names that are one edit away from this one, both without anything between their words.
    pub(super) fn wholes_near(&self, whole: &str) -> Vec<TextId> {
        only_near(self.near_wholes.of(whole), whole, &self.wholes)
    }

    /// Every word of a tool with what it counts there, over all fields.
    fn gather(&self, document: &Document) -> HashMap<String, Gathered> {
        let mut gathered: HashMap<String, Gathered> = HashMap::new();
        self.gather_name(&document.name, &mut gathered);
        for field in Field::ALL {
            let of_field = document.texts.iter().filter(|(it, _)| *it == field);
            let texts = of_field.map(|(_, text)| &**text);
            match field {
                Field::Name => {}
                Field::Keyword => {
                    let keywords = document.keywords.iter().map(AsRef::as_ref);
                    self.gather_field(field, keywords.chain(texts), &mut gathered);
                }
                _ => self.gather_field(field, texts, &mut gathered),
            }
        }
        gathered
    }

    /// A name of several words counts once more where it was said as a whole.
    fn as_whole(&self, slot: Slot, name: &str) -> Posting {
        let words = name_words(name).len();
        let weight = if 1 < words { self.worth(Field::Name, words) } else { 0.0 };
        Posting { slot, weight: Weight::of(weight), share: u8::MAX, described: false }
    }

    /// The parts of the name share it.
    fn gather_name(&self, name: &str, gathered: &mut HashMap<String, Gathered>) {
        let words = name_words(name);
        let weight = self.worth(Field::Name, words.len());
        let share = 1.0 / words.len().max(1) as f32;
        for word in words.into_iter().take(MOST_WORDS) {
            gathered.insert(word, Gathered { weight, share, described: false });
        }
    }

    fn gather_field<'a>(
        &self,
        field: Field,
        texts: impl Iterator<Item = &'a str>,
        gathered: &mut HashMap<String, Gathered>,
    ) {
        let mut words: Vec<String> = Vec::new();
        let keeps_filler = field == Field::Keyword;
        for text in texts {
            each_word(text, |word| {
                if keeps_filler || !is_filler(word) {
                    words.push(word.to_owned());
                }
            });
        }
        let weight = self.worth(field, words.len());
        for word in words {
            if MOST_WORDS <= gathered.len() && !gathered.contains_key(&word) {
                continue;
            }
            let it = gathered.entry(word).or_default();
            it.weight += weight;
            it.described |= field == Field::Description;
        }
    }

    /// What a word counts in a field of so many words.
    fn worth(&self, field: Field, length: usize) -> f32 {
        let field = self.weights.of(field);
        field.weight / (1.0 - field.dilution + field.dilution * length as f32 / field.usual_length)
    }
}

/// The words of a name, each once, without the whole if it has parts.
fn name_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    each_word(name, |word| words.push(word.to_owned()));
    if 1 < words.len() {
        let whole = squashed_word(name);
        words.retain(|word| *word != whole);
    }
    words.sort_unstable();
    words.dedup();
    words
}

/// What stands in a description and is no word of its own, each once.
fn asides(document: &Document) -> BTreeSet<String> {
    let mut asides = BTreeSet::new();
    for (_, text) in document.texts.iter().filter(|(field, _)| *field == Field::Description) {
        each_word(text, |word| {
            if is_filler(word) {
                asides.insert(word.to_owned());
            }
        });
        each_signed(text, |word| {
            if asides.len() < MOST_WORDS {
                asides.insert(word.to_owned());
            }
        });
    }
    asides
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

    /// Whether no text is left.
    pub(super) fn is_bare(&self) -> bool {
        let lexicons = [&self.names, &self.keywords, &self.wholes, &self.words, &self.asides];
        lexicons.iter().all(|lexicon| lexicon.is_bare())
            && self.families.is_bare()
            && self.near_words.is_bare()
            && self.near_wholes.is_bare()
    }
}
