//! Search: tools by their texts, best first, each with a score from 0 to 1 (requirement A7).
//!
//! A query of one word that is part of a name, a keyword or a description gets its score from `search/match_table.rs`.
//! Every other match gets its relevance (`search/relevance.rs`): the share of the query that the tool matches. Rare
//! words count more than common ones, and a query that contains the whole name counts a quarter more. Results, order
//! and scores are the same as if only the searched tools existed.

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

/// A tool in the result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Number of the index that contains the tool.
    pub part: usize,
    /// Slot in that index.
    pub slot: Slot,
    /// Score above 0 and at most 1.
    pub score: f32,
}

/// The searched tools of one index.
struct Part<'a> {
    index: &'a SearchIndex,
    within: Within<'a>,
}

/// Scale for a single word that matches no row of the table: below every row.
const NOT_IN_TABLE: f32 = 0.5;

/// Searches some tools of each of several indexes as if they were one index without any other tools. A query without
/// words finds nothing.
pub fn search(indexes: &[(&SearchIndex, &ToolSet)], query: &str, limit: usize) -> Vec<Found> {
    let query = Query::new(query);
    let parts = indexes.iter().map(|(index, tools)| Part { index, within: Within::new(tools) });
    let parts: Vec<Part<'_>> = parts.collect();
    let Some(first) = parts.first() else { return Vec::new() };
    let relevance = Relevance::new(&query, &parts, &first.index.weights);
    let scale = if query.is_plain_word() { NOT_IN_TABLE } else { 1.0 };
    // The table decides on one word; among tools with equal scores, relevance decides, so all of them need it.
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
    /// Decides between equal scores.
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

/// The best candidates so far, in order.
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
