//! Search: tools by their texts, best first, each with a score from 0 to 1 (requirement A7).
//!
//! A query of one word that is part of a name, a keyword or a description gets its score from `match_table.rs`.
//! Every other match gets its relevance (`relevance.rs`): the share of the query that the tool matches. Rare
//! words count more than common ones, and a query that contains the whole name counts a quarter more. Results, order
//! and scores are the same as if only the searched tools existed.

mod edit_neighbours;
mod index_batch;
mod index_updates;
mod lexicon;
mod match_table;
mod name_similarity;
mod postings;
mod ranking_weights;
mod relevance;
mod search_document;
mod search_index;
mod search_query;
mod semantic;
mod stem_families;
mod synonyms;
#[cfg(test)]
mod tests;
mod text_additions;
mod word_splitting;

use std::cmp::Ordering;

pub use index_updates::{changed_tools, embedding_text, embedding_text_from, search_text_bytes};
use match_table::TableScores;
pub use name_similarity::{NameStems, query_stems};
use postings::SearchScope;
pub use ranking_weights::{FieldWeight, RankingWeights, SearchField};
use relevance::RelevanceScorer;
pub use search_document::SearchDocument;
pub use search_index::SearchIndex;
use search_query::SearchQuery;
pub use semantic::{EmbeddingVector, fuse_hits, most_similar};

use catalog::tool_set::{Slot, ToolSet};

/// A tool in the result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchHit {
    /// Number of the index that contains the tool.
    pub index_number: usize,
    /// Slot in that index.
    pub slot: Slot,
    /// Score above 0 and at most 1.
    pub score: f32,
}

/// The searched tools of one index.
struct SearchPart<'a> {
    index: &'a SearchIndex,
    within: SearchScope<'a>,
}

/// Scale for a single word that matches no row of the table: below every row.
const NOT_IN_TABLE: f32 = 0.5;

/// Searches some tools of each of several indexes as if they were one index without any other tools. A query without
/// words finds nothing.
pub fn search_tools(
    indexes: &[(&SearchIndex, &ToolSet)],
    query: &str,
    limit: usize,
) -> Vec<SearchHit> {
    let query = SearchQuery::new(query);
    let parts =
        indexes.iter().map(|(index, tools)| SearchPart { index, within: SearchScope::new(tools) });
    let parts: Vec<SearchPart<'_>> = parts.collect();
    let Some(first) = parts.first() else { return Vec::new() };
    let relevance = RelevanceScorer::new(&query, &parts, &first.index.weights);
    let scale = if query.is_plain_word() { NOT_IN_TABLE } else { 1.0 };
    // The table decides on one word; among tools with equal scores, relevance decides, so all of them need it.
    let relevant = if query.is_one_word() { usize::MAX } else { limit };
    let mut best = BestCandidates { limit, candidates: Vec::new() };
    for (number, part) in parts.iter().enumerate() {
        let mut table = TableScores::new();
        match_table::add_table_scores(part, &query, limit, &mut table);
        relevance.score_tools(number, part, relevant, |slot, relevance| {
            let by_table = if table.is_empty() { None } else { table.remove(&slot) };
            let score = match by_table {
                Some(worth) if query.is_one_word() => worth,
                Some(worth) => worth.max(relevance),
                None => relevance * scale,
            };
            best.offer_hit(part, SearchHit { index_number: number, slot, score }, relevance);
        });
        for (slot, score) in table {
            best.offer_hit(part, SearchHit { index_number: number, slot, score }, 0.0);
        }
    }
    best.candidates.into_iter().map(|candidate| candidate.found).collect()
}

struct RankedCandidate<'a> {
    found: SearchHit,
    /// Decides between equal scores.
    relevance: f32,
    id: &'a str,
}

impl RankedCandidate<'_> {
    fn compare_rank(&self, other: &Self) -> Ordering {
        let by_score = other.found.score.total_cmp(&self.found.score);
        let by_relevance = || other.relevance.total_cmp(&self.relevance);
        by_score.then_with(by_relevance).then_with(|| self.id.cmp(other.id))
    }
}

/// The best candidates so far, in order.
struct BestCandidates<'a> {
    limit: usize,
    candidates: Vec<RankedCandidate<'a>>,
}

impl<'a> BestCandidates<'a> {
    fn offer_hit(&mut self, part: &SearchPart<'a>, found: SearchHit, relevance: f32) {
        let is_too_low = |last: &RankedCandidate<'_>| found.score < last.found.score;
        if self.limit <= self.candidates.len() && self.candidates.last().is_none_or(is_too_low) {
            return;
        }
        let candidate = RankedCandidate { found, relevance, id: part.index.tool_id(found.slot) };
        let place =
            self.candidates.partition_point(|kept| kept.compare_rank(&candidate) == Ordering::Less);
        self.candidates.insert(place, candidate);
        self.candidates.truncate(self.limit);
    }
}
