//! The table of requirement A7: scores for a query of one word that matches a name, a keyword or a description.

use std::collections::HashMap;

use memchr::memmem::Finder;

use super::lexicon::{Lexicon, TextId};
use super::query::Query;
use super::words::squashed;
use super::{Part, SearchIndex};
use crate::tool_set::Slot;

const NAME: f32 = 1.0;
/// The same name in another notation: `readFile` for `read_file`.
const SAME_NAME: f32 = 0.95;
const NAME_BEGINS: f32 = 0.9;
const KEYWORD: f32 = 0.85;
const NAME_CONTAINS: f32 = 0.8;
const KEYWORD_CONTAINS: f32 = 0.7;
const DESCRIPTION_WORD: f32 = 0.6;
const DESCRIPTION_CONTAINS: f32 = 0.5;
/// A similar name, multiplied by the similarity.
const NEARLY: f32 = 0.4;
/// A similar name of several words, which is less ambiguous.
const NEARLY_WHOLE: f32 = 0.9;

/// Scores by the table for the tools of one part.
pub(super) type Ranked = HashMap<Slot, f32>;

/// Adds the scores by the table for a query, if it matches any row.
pub(super) fn look_up(part: &Part<'_>, query: &Query, limit: usize, found: &mut Ranked) {
    let whole = squashed(&query.text);
    same_name(part, &whole, found);
    if query.is_one_word() {
        let word = Asked::new(&query.text);
        match part.within.few() {
            Some(few) => few.iter().for_each(|slot| own_texts(part.index, *slot, &word, found)),
            None => all_texts(part, &word, limit, found),
        }
    }
    // Last, because similar names score less than the matches that the search may omit once there are enough.
    let worth = if query.is_plain_word() { NEARLY } else { NEARLY_WHOLE };
    nearly_same_name(part, &whole, worth, found);
}

/// Scores tools whose name is the whole query, in any notation.
fn same_name(part: &Part<'_>, whole: &str, found: &mut Ranked) {
    let wholes = &part.index.wholes;
    if let Some(id) = wholes.find(whole).filter(|_| !whole.is_empty()) {
        raise_all(part, wholes, id, SAME_NAME, found);
    }
}

/// Scores tools whose name is similar to the whole query.
fn nearly_same_name(part: &Part<'_>, whole: &str, worth: f32, found: &mut Ranked) {
    let alike = 1.0 - 1.0 / whole.chars().count().max(1) as f32;
    for id in part.index.wholes_near(whole) {
        raise_all(part, &part.index.wholes, id, worth * alike, found);
    }
}

/// A query of one word, which computes its score in a text.
struct Asked<'a> {
    text: &'a str,
    finder: Finder<'a>,
    /// One or two letters are part of nearly every text: they match only the beginning of a text.
    is_short: bool,
}

/// Texts below this length are short, in bytes. One Chinese word already has three bytes.
const SHORT: usize = 3;

impl<'a> Asked<'a> {
    fn new(text: &'a str) -> Self {
        let is_short = text.len() < SHORT && text.chars().all(char::is_alphanumeric);
        Self { text, finder: Finder::new(text), is_short }
    }

    fn is_in(&self, text: &str) -> bool {
        !self.is_short && self.finder.find(text.as_bytes()).is_some()
    }

    fn in_name(&self, name: &str) -> Option<f32> {
        match name.strip_prefix(self.text) {
            Some("") => Some(NAME),
            Some(_) => Some(NAME_BEGINS),
            None => self.is_in(name).then_some(NAME_CONTAINS),
        }
    }

    fn in_keyword(&self, keyword: &str) -> Option<f32> {
        match keyword.strip_prefix(self.text) {
            Some("") => Some(KEYWORD),
            Some(_) => Some(KEYWORD_CONTAINS),
            None => self.is_in(keyword).then_some(KEYWORD_CONTAINS),
        }
    }

    fn in_description(&self, word: &str) -> Option<f32> {
        match word == self.text {
            true => Some(DESCRIPTION_WORD),
            false => self.is_in(word).then_some(DESCRIPTION_CONTAINS),
        }
    }

    /// Names or keywords that may match.
    fn candidates(&self, lexicon: &Lexicon) -> Vec<TextId> {
        match self.is_short {
            true => lexicon.beginning_with(self.text),
            false => lexicon.containing(&self.finder),
        }
    }

    /// Words that may match.
    fn words(&self, lexicon: &Lexicon) -> Vec<TextId> {
        match self.is_short {
            true => lexicon.find(self.text).into_iter().collect(),
            false => lexicon.containing(&self.finder),
        }
    }
}

/// Scores one tool by its own texts. If few tools are searched, the time does not depend on the number of other tools.
fn own_texts(index: &SearchIndex, slot: Slot, word: &Asked<'_>, found: &mut Ranked) {
    let of_name = index.name_at(slot).and_then(|name| word.in_name(name));
    let of_keywords = index.keywords_at(slot).filter_map(|keyword| word.in_keyword(keyword));
    let best = of_name.into_iter().chain(of_keywords).reduce(f32::max);
    let of_words = || index.described_at(slot).filter_map(|it| word.in_description(it));
    if let Some(worth) = best.or_else(|| of_words().reduce(f32::max)) {
        raise(found, slot, worth);
    }
}

/// Scores all tools: scans the texts of the index once, and then follows the postings of matching ones.
fn all_texts(part: &Part<'_>, word: &Asked<'_>, limit: usize, found: &mut Ranked) {
    let index = part.index;
    for id in word.candidates(&index.names) {
        if let Some(worth) = word.in_name(index.names.text(id)) {
            raise_all(part, &index.names, id, worth, found);
        }
    }
    for id in word.candidates(&index.keywords) {
        if let Some(worth) = word.in_keyword(index.keywords.text(id)) {
            raise_all(part, &index.keywords, id, worth, found);
        }
    }
    // Lower rows of the table are skipped if the higher ones already fill the result.
    if limit <= found.len() {
        return;
    }
    for id in word.words(&index.words) {
        let worth = word.in_description(index.words.text(id)).unwrap_or_default();
        if let Some(postings) = index.words.postings(id) {
            postings.each_within(&part.within, |posting| {
                if posting.described {
                    raise(found, posting.slot, worth);
                }
            });
        }
    }
    for id in word.words(&index.asides) {
        if let Some(worth) = word.in_description(index.asides.text(id)) {
            raise_all(part, &index.asides, id, worth, found);
        }
    }
}

fn raise_all(part: &Part<'_>, lexicon: &Lexicon, id: TextId, worth: f32, found: &mut Ranked) {
    if let Some(postings) = lexicon.postings(id) {
        postings.each_within(&part.within, |posting| raise(found, posting.slot, worth));
    }
}

fn raise(found: &mut Ranked, slot: Slot, worth: f32) {
    let known = found.entry(slot).or_default();
    *known = known.max(worth);
}
