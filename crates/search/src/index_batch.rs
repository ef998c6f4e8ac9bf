//! A batch of tools, collected by text before it is added to an index in one step.

use std::collections::BTreeSet;

use catalog::tool_set::Slot;

use super::postings::{TextWeight, ToolPosting};
use super::ranking_weights::{RankingWeights, SearchField};
use super::search_document::SearchDocument;
use super::search_index::IndexedTool;
use super::search_query::is_filler;
use super::text_additions::{TextAdditions, TextNumber};
use super::word_splitting::{for_each_symbol_word, for_each_word, squash_text, squash_word};

/// Upper bound for different words of one tool.
const WORD_LIMIT: usize = 2_000;
/// Texts and postings that fill a batch. Small in tests, so that they use more than one batch.
const BATCH_LIMIT: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// The texts of several tools, in the order of their slots.
#[derive(Default)]
pub(super) struct IndexBatch {
    pub(super) names: TextAdditions,
    pub(super) keywords: TextAdditions,
    pub(super) whole_names: TextAdditions,
    pub(super) words: TextAdditions,
    pub(super) table_words: TextAdditions,
    /// Tools with text numbers in place of text ids.
    pub(super) tools: Vec<(Slot, IndexedTool)>,
    /// The words of the current tool.
    tally: WordTally,
}

/// The words of one tool with their weights, summed over all fields.
#[derive(Default)]
struct WordTally {
    words: Vec<(TextNumber, WordCount)>,
    /// By text number: the index in `words` plus one, or zero.
    indexes: Vec<usize>,
}

/// The weights of one word of one tool.
#[derive(Clone, Copy, Default)]
struct WordCount {
    weight: f32,
    share: f32,
    described: bool,
}

impl IndexBatch {
    pub(super) fn is_full(&self) -> bool {
        let all = [&self.names, &self.keywords, &self.whole_names, &self.words, &self.table_words];
        BATCH_LIMIT <= all.iter().map(|additions| additions.len()).sum()
    }

    /// True if a slot comes after those of all collected tools.
    pub(super) fn is_next(&self, slot: Slot) -> bool {
        self.tools.last().is_none_or(|(last, _)| *last < slot)
    }

    /// Adds the next tool.
    pub(super) fn add_tool(
        &mut self,
        slot: Slot,
        document: &SearchDocument,
        weights: &RankingWeights,
    ) {
        let bare =
            ToolPosting { slot, weight: TextWeight::default(), share: 0, in_description: false };
        let name = self.names.number_of(&document.name.to_lowercase());
        self.names.add_posting(name, bare);
        let name_words = name_words(&document.name);
        let whole = self.whole_names.number_of(&squash_text(&document.name));
        self.whole_names.add_posting(whole, whole_name_posting(slot, name_words.len(), weights));
        let keywords: BTreeSet<TextNumber> = document
            .keywords
            .iter()
            .map(|it| self.keywords.number_of(&it.to_lowercase()))
            .collect();
        keywords.iter().for_each(|number| self.keywords.add_posting(*number, bare));
        self.count_name(&name_words, weights);
        let asides = self.count_fields(document, weights);
        asides.iter().for_each(|number| self.table_words.add_posting(*number, bare));
        let (words, described) = self.finish_tool(slot);
        let (id, keywords) = (document.id.clone(), keywords.into_iter().collect());
        let asides = asides.into_iter().collect();
        self.tools.push((
            slot,
            IndexedTool {
                id,
                name,
                whole_name: whole,
                keywords,
                words,
                described_words: described,
                table_words: asides,
            },
        ));
    }

    /// Counts the words of the name, each with an equal share of it.
    fn count_name(&mut self, words: &[String], weights: &RankingWeights) {
        let weight = field_worth(weights, SearchField::Name, words.len());
        let share = 1.0 / words.len().max(1) as f32;
        for word in words.iter().take(WORD_LIMIT) {
            let number = self.words.number_of(word);
            self.tally.add_word(number, WordCount { weight, share, described: false });
        }
    }

    /// Counts all other fields. Returns the parts of the description that are only for the table: fillers and words
    /// with symbols.
    fn count_fields(
        &mut self,
        document: &SearchDocument,
        weights: &RankingWeights,
    ) -> BTreeSet<TextNumber> {
        let mut asides = BTreeSet::new();
        let mut numbers = Vec::new();
        for field in SearchField::ALL.into_iter().filter(|field| *field != SearchField::Name) {
            numbers.clear();
            if field == SearchField::Keyword {
                let keywords = document.keywords.iter();
                keywords.for_each(|it| self.number_words(it, &mut numbers));
            }
            for (_, text) in document.texts.iter().filter(|(it, _)| *it == field) {
                match field {
                    SearchField::Keyword => self.number_words(text, &mut numbers),
                    SearchField::Description => {
                        self.number_description(text, &mut numbers, &mut asides)
                    }
                    _ => self.number_significant_words(text, &mut numbers),
                }
            }
            let weight = field_worth(weights, field, numbers.len());
            let described = field == SearchField::Description;
            for number in &numbers {
                self.tally.add_word(*number, WordCount { weight, share: 0.0, described });
            }
        }
        asides
    }

    fn number_words(&mut self, text: &str, numbers: &mut Vec<TextNumber>) {
        for_each_word(text, |word| numbers.push(self.words.number_of(word)));
    }

    fn number_significant_words(&mut self, text: &str, numbers: &mut Vec<TextNumber>) {
        for_each_word(text, |word| {
            if !is_filler(word) {
                numbers.push(self.words.number_of(word));
            }
        });
    }

    fn number_description(
        &mut self,
        text: &str,
        numbers: &mut Vec<TextNumber>,
        asides: &mut BTreeSet<TextNumber>,
    ) {
        for_each_word(text, |word| match is_filler(word) {
            true => _ = asides.insert(self.table_words.number_of(word)),
            false => numbers.push(self.words.number_of(word)),
        });
        for_each_symbol_word(text, |word| {
            if asides.len() < WORD_LIMIT {
                asides.insert(self.table_words.number_of(word));
            }
        });
    }

    /// Completes the current tool: returns its words, those of the description first, and the number of the latter.
    fn finish_tool(&mut self, slot: Slot) -> (Box<[TextNumber]>, usize) {
        let (mut words, mut others) = (Vec::with_capacity(self.tally.words.len()), Vec::new());
        for (number, it) in self.tally.words.drain(..) {
            self.tally.indexes[number as usize] = 0;
            let share = (it.share.min(1.0) * 255.0) as u8;
            let (weight, described) = (TextWeight::from_f32(it.weight), it.described);
            self.words.add_posting(
                number,
                ToolPosting { slot, weight, share, in_description: described },
            );
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

impl WordTally {
    fn add_word(&mut self, number: TextNumber, more: WordCount) {
        let index = number as usize;
        if self.indexes.len() <= index {
            self.indexes.resize(index + 1, 0);
        }
        if self.indexes[index] == 0 {
            if WORD_LIMIT <= self.words.len() {
                return;
            }
            self.words.push((number, WordCount::default()));
            self.indexes[index] = self.words.len();
        }
        let (_, it) = &mut self.words[self.indexes[index] - 1];
        it.weight += more.weight;
        it.share += more.share;
        it.described |= more.described;
    }
}

/// A name of several words counts once more if the query contains it as a whole.
fn whole_name_posting(slot: Slot, words: usize, weights: &RankingWeights) -> ToolPosting {
    let weight = if 1 < words { field_worth(weights, SearchField::Name, words) } else { 0.0 };
    ToolPosting {
        slot,
        weight: TextWeight::from_f32(weight),
        share: u8::MAX,
        in_description: false,
    }
}

/// Weight of one word in a field with `length` words.
fn field_worth(weights: &RankingWeights, field: SearchField, length: usize) -> f32 {
    let field = weights.of_field(field);
    field.weight / (1.0 - field.dilution + field.dilution * length as f32 / field.usual_length)
}

/// The words of a name, each once; a compound without its whole form.
fn name_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for_each_word(name, |word| words.push(word.to_owned()));
    if 1 < words.len() {
        let whole = squash_word(name);
        words.retain(|word| *word != whole);
    }
    words.sort_unstable();
    words.dedup();
    words
}
