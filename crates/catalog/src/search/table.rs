//! The table of requirement A7: what a query of one word is worth that hits a name, a keyword or a description.

use std::collections::HashMap;

use super::Part;
use super::lexicon::{Lexicon, TextId};
use super::query::Query;
use super::words::squashed;
use crate::tool_set::Slot;

const NAME: f32 = 1.0;
/// The name, written otherwise: `readFile` for `read_file`.
const SAME_NAME: f32 = 0.95;
const NAME_BEGINS: f32 = 0.9;
const KEYWORD: f32 = 0.85;
const NAME_CONTAINS: f32 = 0.8;
const KEYWORD_CONTAINS: f32 = 0.7;
const DESCRIPTION_WORD: f32 = 0.6;
const DESCRIPTION_CONTAINS: f32 = 0.5;
/// A name that is nearly the query, times how alike they are.
const NEARLY: f32 = 0.4;
/// The same if the name has several words: there is less doubt which is meant.
const NEARLY_WHOLE: f32 = 0.9;

/// What the table says of the tools of one part.
pub(super) type Ranked = HashMap<Slot, f32>;

/// What the table says of a query, if it says anything.
pub(super) fn look_up(part: &Part<'_>, query: &Query, limit: usize, found: &mut Ranked) {
    same_name(part, query, found);
    if query.is_one_word() {
        one_word(part, &query.text, limit, found);
    }
}

/// What a whole query is worth that is a name, however written, or nearly is.
fn same_name(part: &Part<'_>, query: &Query, found: &mut Ranked) {
    let (whole, wholes) = (squashed(&query.text), &part.index.wholes);
    if whole.is_empty() {
        return;
    }
    if let Some(id) = wholes.find(&whole) {
        raise_all(part, wholes, id, SAME_NAME, found);
    }
    let alike = 1.0 - 1.0 / whole.chars().count() as f32;
    let worth = if query.is_plain_word() { NEARLY } else { NEARLY_WHOLE };
    for id in part.index.wholes_near(&whole) {
        raise_all(part, wholes, id, worth * alike, found);
    }
}

/// What a query of one word is worth, by the table.
fn one_word(part: &Part<'_>, text: &str, limit: usize, found: &mut Ranked) {
    let index = part.index;
    for id in index.names.containing(text) {
        let name = index.names.text(id);
        let worth = match name.strip_prefix(text) {
            Some("") => NAME,
            Some(_) => NAME_BEGINS,
            None => NAME_CONTAINS,
        };
        raise_all(part, &index.names, id, worth, found);
    }
    for id in index.keywords.containing(text) {
        let is_exact = index.keywords.text(id) == text;
        let worth = if is_exact { KEYWORD } else { KEYWORD_CONTAINS };
        raise_all(part, &index.keywords, id, worth, found);
    }
    // What is worth less is not looked for if there is enough of what is worth more.
    if limit <= found.len() {
        return;
    }
    for id in index.words.containing(text) {
        let is_exact = index.words.text(id) == text;
        let worth = if is_exact { DESCRIPTION_WORD } else { DESCRIPTION_CONTAINS };
        if let Some(postings) = index.words.postings(id) {
            postings.each_within(&part.within, |posting| {
                if posting.described {
                    raise(found, posting.slot, worth);
                }
            });
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
