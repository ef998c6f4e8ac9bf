//! A batch of tools, collected by text before it is added to an index in one step.

use std::collections::BTreeSet;

use super::additions::{Additions, Number};
use super::document::Document;
use super::index::Indexed;
use super::postings::{Posting, Weight};
use super::query::is_filler;
use super::weights::{Field, Weights};
use super::words::{each_signed, each_word, squashed, squashed_word};
use crate::tool_set::Slot;

/// Upper bound for different words of one tool.
const MOST_WORDS: usize = 2_000;
/// Texts and postings that fill a batch. Small in tests, so that they use more than one batch.
const ENOUGH: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// The texts of several tools, in the order of their slots.
#[derive(Default)]
pub(super) struct Gathering {
    pub(super) names: Additions,
    pub(super) keywords: Additions,
    pub(super) wholes: Additions,
    pub(super) words: Additions,
    pub(super) asides: Additions,
    /// Tools with text numbers in place of text ids.
    pub(super) tools: Vec<(Slot, Indexed)>,
    /// The words of the current tool.
    tally: Tally,
}

/// The words of one tool with their weights, summed over all fields.
#[derive(Default)]
struct Tally {
    words: Vec<(Number, Counted)>,
    /// By text number: the index in `words` plus one, or zero.
    places: Vec<usize>,
}

/// The weights of one word of one tool.
#[derive(Clone, Copy, Default)]
struct Counted {
    weight: f32,
    share: f32,
    described: bool,
}

impl Gathering {
    pub(super) fn is_enough(&self) -> bool {
        let all = [&self.names, &self.keywords, &self.wholes, &self.words, &self.asides];
        ENOUGH <= all.iter().map(|additions| additions.len()).sum()
    }

    /// True if a slot comes after those of all collected tools.
    pub(super) fn is_next(&self, slot: Slot) -> bool {
        self.tools.last().is_none_or(|(last, _)| *last < slot)
    }

    /// Adds the next tool.
    pub(super) fn take(&mut self, slot: Slot, document: &Document, weights: &Weights) {
        let bare = Posting { slot, weight: Weight::default(), share: 0, described: false };
        let name = self.names.number(&document.name.to_lowercase());
        self.names.add(name, bare);
        let name_words = name_words(&document.name);
        let whole = self.wholes.number(&squashed(&document.name));
        self.wholes.add(whole, as_whole(slot, name_words.len(), weights));
        let keywords: BTreeSet<Number> =
            document.keywords.iter().map(|it| self.keywords.number(&it.to_lowercase())).collect();
        keywords.iter().for_each(|number| self.keywords.add(*number, bare));
        self.count_name(&name_words, weights);
        let asides = self.count_fields(document, weights);
        asides.iter().for_each(|number| self.asides.add(*number, bare));
        let (words, described) = self.settle(slot);
        let (id, keywords) = (document.id.clone(), keywords.into_iter().collect());
        let asides = asides.into_iter().collect();
        self.tools.push((slot, Indexed { id, name, whole, keywords, words, described, asides }));
    }

    /// Counts the words of the name, each with an equal share of it.
    fn count_name(&mut self, words: &[String], weights: &Weights) {
        let weight = worth(weights, Field::Name, words.len());
        let share = 1.0 / words.len().max(1) as f32;
        for word in words.iter().take(MOST_WORDS) {
            let number = self.words.number(word);
            self.tally.count(number, Counted { weight, share, described: false });
        }
    }

    /// Counts all other fields. Returns the parts of the description that are only for the table: fillers and words
    /// with symbols.
    fn count_fields(&mut self, document: &Document, weights: &Weights) -> BTreeSet<Number> {
        let mut asides = BTreeSet::new();
        let mut numbers = Vec::new();
        for field in Field::ALL.into_iter().filter(|field| *field != Field::Name) {
            numbers.clear();
            if field == Field::Keyword {
                let keywords = document.keywords.iter();
                keywords.for_each(|it| self.number_all(it, &mut numbers));
            }
            for (_, text) in document.texts.iter().filter(|(it, _)| *it == field) {
                match field {
                    Field::Keyword => self.number_all(text, &mut numbers),
                    Field::Description => self.number_described(text, &mut numbers, &mut asides),
                    _ => self.number_telling(text, &mut numbers),
                }
            }
            let weight = worth(weights, field, numbers.len());
            let described = field == Field::Description;
            for number in &numbers {
                self.tally.count(*number, Counted { weight, share: 0.0, described });
            }
        }
        asides
    }

    fn number_all(&mut self, text: &str, numbers: &mut Vec<Number>) {
        each_word(text, |word| numbers.push(self.words.number(word)));
    }

    fn number_telling(&mut self, text: &str, numbers: &mut Vec<Number>) {
        each_word(text, |word| {
            if !is_filler(word) {
                numbers.push(self.words.number(word));
            }
        });
    }

    fn number_described(
        &mut self,
        text: &str,
        numbers: &mut Vec<Number>,
        asides: &mut BTreeSet<Number>,
    ) {
        each_word(text, |word| match is_filler(word) {
            true => _ = asides.insert(self.asides.number(word)),
            false => numbers.push(self.words.number(word)),
        });
        each_signed(text, |word| {
            if asides.len() < MOST_WORDS {
                asides.insert(self.asides.number(word));
            }
        });
    }

    /// Completes the current tool: returns its words, those of the description first, and the number of the latter.
    fn settle(&mut self, slot: Slot) -> (Box<[Number]>, usize) {
        let (mut words, mut others) = (Vec::with_capacity(self.tally.words.len()), Vec::new());
        for (number, it) in self.tally.words.drain(..) {
            self.tally.places[number as usize] = 0;
            let share = (it.share.min(1.0) * 255.0) as u8;
            let (weight, described) = (Weight::of(it.weight), it.described);
            self.words.add(number, Posting { slot, weight, share, described });
            match described {
                true => words.push(number),
                false => others.push(number),
            }
        }
        let described = words.len();
        words.extend(others);
        (words.into(), described)
    }
}

impl Tally {
    fn count(&mut self, number: Number, more: Counted) {
        let index = number as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, 0);
        }
        if self.places[index] == 0 {
            if MOST_WORDS <= self.words.len() {
                return;
            }
            self.words.push((number, Counted::default()));
            self.places[index] = self.words.len();
        }
        let (_, it) = &mut self.words[self.places[index] - 1];
        it.weight += more.weight;
        it.share += more.share;
        it.described |= more.described;
    }
}

/// A name of several words counts once more if the query contains it as a whole.
fn as_whole(slot: Slot, words: usize, weights: &Weights) -> Posting {
    let weight = if 1 < words { worth(weights, Field::Name, words) } else { 0.0 };
    Posting { slot, weight: Weight::of(weight), share: u8::MAX, described: false }
}

/// Weight of one word in a field with `length` words.
fn worth(weights: &Weights, field: Field, length: usize) -> f32 {
    let field = weights.of(field);
    field.weight / (1.0 - field.dilution + field.dilution * length as f32 / field.usual_length)
}

/// The words of a name, each once; a compound without its whole form.
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
