//! Search: tools by what is said of them, best first, each with a score from 0 to 1 (requirement A7).
//!
//! A query of one word that is part of a name, a keyword or a description gets what `search/table.rs` says. Everything
//! else gets its relevance (`search/rank.rs`): the share of what was asked for that the tool has, rare words counting more
//! than common ones, and a quarter more where the whole name was said. What is found, in which order and with which score,
//! is the same as if no other tools existed than those that are searched.

mod additions;
mod document;
mod families;
mod follow;
mod gather;
mod index;
mod lexicon;
mod meaning;
mod near;
mod postings;
mod query;
mod rank;
mod similar;
mod synonyms;
mod table;
#[cfg(test)]
mod tests;
mod weights;
mod words;

use std::cmp::Ordering;

pub use document::Document;
pub use follow::{differing, text_for_meaning, text_length, text_of};
pub use index::SearchIndex;
pub use meaning::{Vector, fused, nearest};
use postings::Within;
use query::Query;
use rank::Relevance;
pub use similar::{NameStems, gist};
use table::Ranked;
pub use weights::{Field, FieldWeight, Weights};

use crate::tool_set::{Slot, ToolSet};

/// A tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// In which of the indexes.
    pub part: usize,
    /// Where in it.
    pub slot: Slot,
    /// How well it fits, above 0 and at most 1.
    pub score: f32,
}

/// Some of the tools of an index.
struct Part<'a> {
    index: &'a SearchIndex,
    within: Within<'a>,
}

/// What a word alone is worth that is in no row of the table: less than any of them.
const NOT_IN_TABLE: f32 = 0.5;

/// Searches some tools of each of several indexes as if they were one, and nothing else existed. Nothing is found by a
/// query without a word.
pub fn search(indexes: &[(&SearchIndex, &ToolSet)], query: &str, limit: usize) -> Vec<Found> {
    let query = Query::new(query);
    let parts = indexes.iter().map(|(index, tools)| Part { index, within: Within::new(tools) });
    let parts: Vec<Part<'_>> = parts.collect();
    let Some(first) = parts.first() else { return Vec::new() };
    let relevance = Relevance::new(&query, &parts, &first.index.weights);
    let scale = if query.is_plain_word() { NOT_IN_TABLE } else { 1.0 };
    // The table decides on one word; among its equals, everybody's relevance counts.
    let relevant = if query.is_one_word() { usize::MAX } else { limit };
    let mut best = Best { limit, kept: Vec::new() };
    for (number, part) in parts.iter().enumerate() {
        let mut table = Ranked::new();
        table::look_up(part, &query, limit, &mut table);
        relevance.each(number, part, relevant, |slot, relevance| {
            let by_table = if table.is_empty() { None } else { table.remove(&slot) };
            let score = match by_table {
                Some(worth) if query.is_one_word() => worth,
                Some(worth) => worth.max(relevance),
                None => relevance * scale,
            };
            best.take(part, Found { part: number, slot, score }, relevance);
        });
        for (slot, score) in table {
            best.take(part, Found { part: number, slot, score }, 0.0);
        }
    }
    best.kept.into_iter().map(|candidate| candidate.found).collect()
}

struct Candidate<'a> {
    found: Found,
    /// Decides among those that have the same score by the table.
    relevance: f32,
    id: &'a str,
}

impl Candidate<'_> {
    fn order(&self, other: &Self) -> Ordering {
        let by_score = other.found.score.total_cmp(&self.found.score);
        let by_relevance = || other.relevance.total_cmp(&self.relevance);
        by_score.then_with(by_relevance).then_with(|| self.id.cmp(other.id))
    }
}

/// The best so far, in order.
struct Best<'a> {
    limit: usize,
    kept: Vec<Candidate<'a>>,
}

impl<'a> Best<'a> {
    fn take(&mut self, part: &Part<'a>, found: Found, relevance: f32) {
        let is_too_low = |last: &Candidate<'_>| found.score < last.found.score;
        if self.limit <= self.kept.len() && self.kept.last().is_none_or(is_too_low) {
            return;
        }
        let candidate = Candidate { found, relevance, id: part.index.id(found.slot) };
        let place = self.kept.partition_point(|kept| kept.order(&candidate) == Ordering::Less);
        self.kept.insert(place, candidate);
        self.kept.truncate(self.limit);
    }
}
