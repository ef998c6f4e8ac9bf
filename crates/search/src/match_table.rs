//! The table of requirement A7: scores for a query of one word that matches a name, a keyword or a description.

use std::collections::HashMap;

use catalog::tool_set::Slot;
use memchr::memmem::Finder;

use super::lexicon::{TextId, TextLexicon};
use super::search_query::SearchQuery;
use super::word_splitting::squash_text;
use super::{SearchIndex, SearchPart};

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
const SIMILAR_NAME: f32 = 0.4;
/// A similar name of several words, which is less ambiguous.
const SIMILAR_WHOLE_NAME: f32 = 0.9;

/// Scores by the table for the tools of one part.
pub(super) type TableScores = HashMap<Slot, f32>;

/// Adds the scores by the table for a query, if it matches any row.
pub(super) fn add_table_scores(
    part: &SearchPart<'_>,
    query: &SearchQuery,
    limit: usize,
    found: &mut TableScores,
) {
    let whole = squash_text(&query.text);
    score_same_name(part, &whole, found);
    if query.is_one_word() {
        let word = OneWordQuery::new(&query.text);
        match part.within.few_slots() {
            Some(few) => few.iter().for_each(|slot| score_tool(part.index, *slot, &word, found)),
            None => score_all_tools(part, &word, limit, found),
        }
    }
    // Last, because similar names score less than the matches that the search may omit once there are enough.
    let worth = if query.is_plain_word() { SIMILAR_NAME } else { SIMILAR_WHOLE_NAME };
    score_similar_name(part, &whole, worth, found);
}

/// Scores tools whose name is the whole query, in any notation.
fn score_same_name(part: &SearchPart<'_>, whole: &str, found: &mut TableScores) {
    let wholes = &part.index.whole_names;
    if let Some(id) = wholes.find_text(whole).filter(|_| !whole.is_empty()) {
        raise_scores(part, wholes, id, SAME_NAME, found);
    }
}

/// Scores tools whose name is similar to the whole query.
fn score_similar_name(part: &SearchPart<'_>, whole: &str, worth: f32, found: &mut TableScores) {
    let alike = 1.0 - 1.0 / whole.chars().count().max(1) as f32;
    for id in part.index.similar_names(whole) {
        raise_scores(part, &part.index.whole_names, id, worth * alike, found);
    }
}

/// A query of one word, which computes its score in a text.
struct OneWordQuery<'a> {
    text: &'a str,
    finder: Finder<'a>,
    /// One or two letters are part of nearly every text: they match only the beginning of a text.
    is_short: bool,
}

/// Texts below this length are short, in bytes. One Chinese word already has three bytes.
const SHORT_BYTES: usize = 3;

impl<'a> OneWordQuery<'a> {
    fn new(text: &'a str) -> Self {
        let is_short = text.len() < SHORT_BYTES && text.chars().all(char::is_alphanumeric);
        Self { text, finder: Finder::new(text), is_short }
    }

    fn occurs_in(&self, text: &str) -> bool {
        !self.is_short && self.finder.find(text.as_bytes()).is_some()
    }

    fn score_in_name(&self, name: &str) -> Option<f32> {
        match name.strip_prefix(self.text) {
            Some("") => Some(NAME),
            Some(_) => Some(NAME_BEGINS),
            None => self.occurs_in(name).then_some(NAME_CONTAINS),
        }
    }

    fn score_in_keyword(&self, keyword: &str) -> Option<f32> {
        match keyword.strip_prefix(self.text) {
            Some("") => Some(KEYWORD),
            Some(_) => Some(KEYWORD_CONTAINS),
            None => self.occurs_in(keyword).then_some(KEYWORD_CONTAINS),
        }
    }

    fn score_in_description(&self, word: &str) -> Option<f32> {
        match word == self.text {
            true => Some(DESCRIPTION_WORD),
            false => self.occurs_in(word).then_some(DESCRIPTION_CONTAINS),
        }
    }

    /// Names or keywords that may match.
    fn candidate_texts(&self, lexicon: &TextLexicon) -> Vec<TextId> {
        match self.is_short {
            true => lexicon.beginning_with(self.text),
            false => lexicon.texts_containing(&self.finder),
        }
    }

    /// Words that may match.
    fn candidate_words(&self, lexicon: &TextLexicon) -> Vec<TextId> {
        match self.is_short {
            true => lexicon.find_text(self.text).into_iter().collect(),
            false => lexicon.texts_containing(&self.finder),
        }
    }
}

/// Scores one tool by its own texts. If few tools are searched, the time does not depend on the number of other tools.
fn score_tool(index: &SearchIndex, slot: Slot, word: &OneWordQuery<'_>, found: &mut TableScores) {
    let of_name = index.name_at(slot).and_then(|name| word.score_in_name(name));
    let of_keywords = index.keywords_at(slot).filter_map(|keyword| word.score_in_keyword(keyword));
    let best = of_name.into_iter().chain(of_keywords).reduce(f32::max);
    let of_words = || index.described_at(slot).filter_map(|it| word.score_in_description(it));
    if let Some(worth) = best.or_else(|| of_words().reduce(f32::max)) {
        raise_score(found, slot, worth);
    }
}

/// Scores all tools: scans the texts of the index once, and then follows the postings of matching ones.
fn score_all_tools(
    part: &SearchPart<'_>,
    word: &OneWordQuery<'_>,
    limit: usize,
    found: &mut TableScores,
) {
    let index = part.index;
    for id in word.candidate_texts(&index.names) {
        if let Some(worth) = word.score_in_name(index.names.text(id)) {
            raise_scores(part, &index.names, id, worth, found);
        }
    }
    for id in word.candidate_texts(&index.keywords) {
        if let Some(worth) = word.score_in_keyword(index.keywords.text(id)) {
            raise_scores(part, &index.keywords, id, worth, found);
        }
    }
    // Lower rows of the table are skipped if the higher ones already fill the result.
    if limit <= found.len() {
        return;
    }
    for id in word.candidate_words(&index.words) {
        let worth = word.score_in_description(index.words.text(id)).unwrap_or_default();
        if let Some(postings) = index.words.postings(id) {
            postings.for_each_within(&part.within, |posting| {
                if posting.in_description {
                    raise_score(found, posting.slot, worth);
                }
            });
        }
    }
    for id in word.candidate_words(&index.table_words) {
        if let Some(worth) = word.score_in_description(index.table_words.text(id)) {
            raise_scores(part, &index.table_words, id, worth, found);
        }
    }
}

fn raise_scores(
    part: &SearchPart<'_>,
    lexicon: &TextLexicon,
    id: TextId,
    worth: f32,
    found: &mut TableScores,
) {
    if let Some(postings) = lexicon.postings(id) {
        postings.for_each_within(&part.within, |posting| raise_score(found, posting.slot, worth));
    }
}

fn raise_score(found: &mut TableScores, slot: Slot, worth: f32) {
    let known = found.entry(slot).or_default();
    *known = known.max(worth);
}
