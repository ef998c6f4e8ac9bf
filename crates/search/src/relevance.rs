//! Relevance of tools for a query: BM25F over words and their substitutes, with a bonus for a name in the query.
//!
//! All statistics cover only the searched tools, so a score reveals nothing about any other tool.

use std::cell::Cell;

use catalog::tool_set::Slot;

use super::SearchPart;
use super::lexicon::TextId;
use super::postings::{PostingList, TextWeight, ToolPosting};
use super::ranking_weights::RankingWeights;
use super::search_query::SearchQuery;
use super::stem_families::stem_of;
use super::synonyms::find_synonyms;

/// A word in an index, or a name of several words as one.
#[derive(Clone, Copy)]
enum IndexTerm {
    Word(TextId),
    WholeName(TextId),
}

impl IndexTerm {
    fn text<'a>(self, part: &SearchPart<'a>) -> &'a str {
        match self {
            Self::Word(id) => part.index.words.text(id),
            Self::WholeName(id) => part.index.whole_names.text(id),
        }
    }

    fn postings<'a>(self, part: &SearchPart<'a>) -> Option<&'a PostingList> {
        match self {
            Self::Word(id) => part.index.words.postings(id),
            Self::WholeName(id) => part.index.whole_names.postings(id),
        }
    }
}

/// The index terms that match a query word in one index, each with a factor for its weight.
type WeightedTerms = Vec<(IndexTerm, f32)>;

/// A word of the query with its matches and its rarity.
struct QueryTerm {
    /// Matches for each part.
    entries: Vec<WeightedTerms>,
    /// Inverse document frequency among the searched tools: the upper bound of what the word adds to a score.
    rarity: f32,
    /// Number of searched tools that have the word.
    tool_count: usize,
}

/// Computes the relevance of the tools of each part.
pub(super) struct RelevanceScorer<'a> {
    /// The rarest word first.
    terms: Vec<QueryTerm>,
    /// The score of a tool that has every word of the query.
    best_score: f32,
    weights: &'a RankingWeights,
}

/// Upper bound for words of a query: the rarest count. The same number of adjacent pairs may count in addition.
const QUERY_TERMS: usize = 32;
/// Words of more tools than this are scanned completely only if they can still change the result.
const FREQUENT_WORD: usize = if cfg!(test) { 3 } else { 512 };

impl<'a> RelevanceScorer<'a> {
    pub(super) fn new(
        query: &SearchQuery,
        parts: &[SearchPart<'_>],
        weights: &'a RankingWeights,
    ) -> Self {
        let all: usize = parts.iter().map(|part| part.within.len()).sum();
        let asked = query.words.iter().map(|word| build_query_term(word, parts, all, weights));
        let mut terms: Vec<QueryTerm> = asked.collect();
        // A word that no tool has gives no information, so it comes last.
        terms.sort_by(|one, two| {
            let by_rarity = || two.rarity.total_cmp(&one.rarity);
            (one.tool_count == 0).cmp(&(two.tool_count == 0)).then_with(by_rarity)
        });
        terms.truncate(QUERY_TERMS);
        let most = terms.iter().map(|term| term.rarity).sum::<f32>().max(f32::MIN_POSITIVE);
        terms.extend(query.pairs.iter().filter_map(|pair| {
            let entries: Vec<WeightedTerms> =
                parts.iter().map(|part| exact_terms(part, pair)).collect();
            let having = count_tools(&entries, parts);
            let rarity = inverse_document_frequency(having, all);
            (0 < having).then_some(QueryTerm { entries, rarity, tool_count: having })
        }));
        terms.retain(|term| 0 < term.tool_count);
        terms.sort_by(|one, two| two.rarity.total_cmp(&one.rarity));
        terms.truncate(2 * QUERY_TERMS);
        Self { terms, best_score: most, weights }
    }

    /// Calls `each` with the tools of a part that have any of the words, and their relevance, above 0 and at most 1.
    /// Tools that cannot be among the best `limit` may be omitted.
    pub(super) fn score_tools(
        &self,
        number: usize,
        part: &SearchPart<'_>,
        limit: usize,
        mut each: impl FnMut(Slot, f32),
    ) {
        let mut sums = ScoreSums::new(part.index.slot_count());
        let mut left: f32 = self.terms.iter().map(|term| term.rarity).sum();
        for term in &self.terms {
            // Tools without any of the rarer words cannot reach the best any more: it suffices to update the other
            // tools.
            let is_decided =
                FREQUENT_WORD < term.tool_count && left < self.lowest_best_score(&sums, limit);
            for (entry, factor) in &term.entries[number] {
                let Some(postings) = entry.postings(part) else { continue };
                match is_decided {
                    true => sums.add_to_known_tools(postings, *factor),
                    false => postings.for_each_within(&part.within, |posting| {
                        sums.add_posting(posting, *factor)
                    }),
                }
            }
            sums.finish_term(term.rarity, self.weights.saturation);
            left -= term.rarity;
        }
        sums.drain_sums(|slot, it| each(slot, self.normalized_score(it.sum, it.share)));
    }

    fn normalized_score(&self, sum: f32, share: f32) -> f32 {
        (self.add_name_bonus(sum, share) / self.best_score).min(1.0)
    }

    fn add_name_bonus(&self, sum: f32, share: f32) -> f32 {
        let naming = self.weights.naming;
        sum * (1.0 + naming * share.min(1.0)) / (1.0 + naming)
    }

    /// The current score of the last of the best `limit` tools.
    fn lowest_best_score(&self, sums: &ScoreSums, limit: usize) -> f32 {
        if limit == 0 || sums.known.len() < limit {
            return 0.0;
        }
        let score = |slot: &Slot| {
            let it = &sums.by_slot[*slot as usize];
            self.add_name_bonus(it.sum, it.share)
        };
        let mut scores: Vec<f32> = sums.known.iter().map(score).collect();
        let (_, least, _) = scores.select_nth_unstable_by(limit - 1, |one, two| two.total_cmp(one));
        *least
    }
}

/// The sums of all tools of a part.
struct ScoreSums {
    by_slot: Vec<ToolSum>,
    /// Tools with a sum above zero.
    known: Vec<Slot>,
    /// Tools that have the current word.
    touched: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct ToolSum {
    sum: f32,
    share: f32,
    /// Weight of the current word.
    weight: f32,
    own_share: f32,
}

thread_local! {
    /// Reused buffer, all zero between two searches: clearing a megabyte would take longer than most searches.
    static BY_SLOT: Cell<Vec<ToolSum>> = const { Cell::new(Vec::new()) };
}

impl ScoreSums {
    fn new(slots: usize) -> Self {
        let mut by_slot = BY_SLOT.take();
        by_slot.resize(slots.max(by_slot.len()), ToolSum::default());
        Self { by_slot, known: Vec::new(), touched: Vec::new() }
    }

    /// Passes on all sums and resets the buffer to zero.
    fn drain_sums(mut self, mut each: impl FnMut(Slot, ToolSum)) {
        for slot in self.known {
            each(slot, std::mem::take(&mut self.by_slot[slot as usize]));
        }
        BY_SLOT.set(self.by_slot);
    }

    fn add_posting(&mut self, posting: &ToolPosting, factor: f32) {
        if posting.weight == TextWeight::default() {
            return;
        }
        let it = &mut self.by_slot[posting.slot as usize];
        if it.weight == 0.0 {
            self.touched.push(posting.slot);
        }
        it.weight += posting.weight.get() * factor;
        it.own_share = it.own_share.max(f32::from(posting.share) / 255.0 * factor);
    }

    /// Adds postings only to tools that already have a sum, which implies that they are searched.
    fn add_to_known_tools(&mut self, postings: &PostingList, factor: f32) {
        for posting in postings.iter() {
            if 0.0 < self.by_slot[posting.slot as usize].sum {
                self.add_posting(posting, factor);
            }
        }
    }

    fn finish_term(&mut self, rarity: f32, saturation: f32) {
        for slot in self.touched.drain(..) {
            let it = &mut self.by_slot[slot as usize];
            if it.sum == 0.0 {
                self.known.push(slot);
            }
            it.sum += rarity * it.weight / (saturation + it.weight);
            it.share += it.own_share;
            (it.weight, it.own_share) = (0.0, 0.0);
        }
    }
}

/// Inverse document frequency (BM25 in the variant that is always positive).
fn inverse_document_frequency(having: usize, all: usize) -> f32 {
    let (having, others) = (having as f32, all.saturating_sub(having) as f32);
    (1.0 + (others + 0.5) / (having + 0.5)).ln()
}

/// Number of tools that have any of the terms.
fn count_tools(entries: &[WeightedTerms], parts: &[SearchPart<'_>]) -> usize {
    let counts = entries.iter().zip(parts).map(|(entries, part)| {
        let postings = entries.iter().filter_map(|(entry, _)| entry.postings(part));
        PostingList::count_any(&postings.collect::<Vec<_>>(), &part.within)
    });
    counts.sum()
}

/// Matches of a query word: the word itself and words with its stem, or, if no tool has these, words at an edit
/// distance of one. Synonyms are added in both cases.
fn build_query_term(
    word: &str,
    parts: &[SearchPart<'_>],
    all: usize,
    weights: &RankingWeights,
) -> QueryTerm {
    let wanted = stem_of(word);
    let own = |part: &SearchPart<'_>| same_stem_terms(part, word, &wanted, weights.same_stem);
    let mut entries: Vec<WeightedTerms> = parts.iter().map(own).collect();
    let mut having = count_tools(&entries, parts);
    if having == 0 && !word.chars().all(char::is_numeric) {
        entries = parts.iter().map(|part| similar_terms(part, word, weights.near)).collect();
        having = count_tools(&entries, parts);
    }
    for (entries, part) in entries.iter_mut().zip(parts) {
        let others = synonym_terms(part, &wanted, weights.synonym);
        entries.extend(others.into_iter().filter(|(entry, _)| is_selective(part, *entry, all)));
    }
    // Sort, because floating-point sums depend on the order of addition, which must not depend on the age of tools.
    for (entries, part) in entries.iter_mut().zip(parts) {
        entries.sort_by(|(one, _), (two, _)| one.text(part).cmp(two.text(part)));
    }
    let having = if having == 0 { count_tools(&entries, parts) } else { having };
    QueryTerm { rarity: inverse_document_frequency(having, all), entries, tool_count: having }
}

/// True if the term is rare enough to be a synonym: at most an eighth of all tools have it.
fn is_selective(part: &SearchPart<'_>, entry: IndexTerm, all: usize) -> bool {
    let most = (all / 8).max(FREQUENT_WORD);
    let postings = entry.postings(part);
    postings.is_some_and(|postings| PostingList::count_any(&[postings], &part.within) <= most)
}

fn exact_terms(part: &SearchPart<'_>, word: &str) -> WeightedTerms {
    let plain = part.index.words.find_text(word).map(IndexTerm::Word);
    let whole = part.index.whole_names.find_text(word).map(IndexTerm::WholeName);
    plain.into_iter().chain(whole).map(|entry| (entry, 1.0)).collect()
}

fn same_stem_terms(part: &SearchPart<'_>, word: &str, stem: &str, same_stem: f32) -> WeightedTerms {
    let index = part.index;
    let others =
        index.families.words_with_stem(stem).iter().filter(|id| index.words.text(**id) != word);
    let others = others.map(|id| (IndexTerm::Word(*id), same_stem));
    exact_terms(part, word).into_iter().chain(others).collect()
}

fn similar_terms(part: &SearchPart<'_>, word: &str, factor: f32) -> WeightedTerms {
    part.index.similar_words(word).into_iter().map(|id| (IndexTerm::Word(id), factor)).collect()
}

/// Terms for synonyms.
fn synonym_terms(part: &SearchPart<'_>, stem: &str, factor: f32) -> WeightedTerms {
    let words =
        find_synonyms(stem).iter().flat_map(|other| part.index.families.words_with_stem(other));
    words.map(|id| (IndexTerm::Word(*id), factor)).collect()
}
