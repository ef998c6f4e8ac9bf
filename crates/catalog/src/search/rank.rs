//! Relevance of tools for a query: BM25F over words and their substitutes, with a bonus for a name in the query.
//!
//! All statistics cover only the searched tools, so a score reveals nothing about any other tool.

use std::cell::Cell;

use super::Part;
use super::families::stem;
use super::lexicon::TextId;
use super::postings::{Posting, Postings, Weight};
use super::query::Query;
use super::synonyms::synonyms;
use super::weights::Weights;
use crate::tool_set::Slot;

/// A word in an index, or a name of several words as one.
#[derive(Clone, Copy)]
enum Entry {
    Word(TextId),
    Whole(TextId),
}

impl Entry {
    fn text<'a>(self, part: &Part<'a>) -> &'a str {
        match self {
            Self::Word(id) => part.index.words.text(id),
            Self::Whole(id) => part.index.wholes.text(id),
        }
    }

    fn postings<'a>(self, part: &Part<'a>) -> Option<&'a Postings> {
        match self {
            Self::Word(id) => part.index.words.postings(id),
            Self::Whole(id) => part.index.wholes.postings(id),
        }
    }
}

/// The index terms that match a query word in one index, each with a factor for its weight.
type Entries = Vec<(Entry, f32)>;

/// A word of the query with its matches and its rarity.
struct Term {
    /// Matches for each part.
    entries: Vec<Entries>,
    /// Inverse document frequency among the searched tools: the upper bound of what the word adds to a score.
    rarity: f32,
    /// Number of searched tools that have the word.
    having: usize,
}

/// Computes the relevance of the tools of each part.
pub(super) struct Relevance<'a> {
    /// The rarest word first.
    terms: Vec<Term>,
    /// The score of a tool that has every word of the query.
    most: f32,
    weights: &'a Weights,
}

/// Upper bound for words of a query: the rarest count. The same number of adjacent pairs may count in addition.
const MOST_WORDS: usize = 32;
/// Words of more tools than this are scanned completely only if they can still change the result.
const MANY: usize = if cfg!(test) { 3 } else { 512 };

impl<'a> Relevance<'a> {
    pub(super) fn new(query: &Query, parts: &[Part<'_>], weights: &'a Weights) -> Self {
        let all: usize = parts.iter().map(|part| part.within.len()).sum();
        let asked = query.words.iter().map(|word| asked_term(word, parts, all, weights));
        let mut terms: Vec<Term> = asked.collect();
        // A word that no tool has gives no information, so it comes last.
        terms.sort_by(|one, two| {
            let by_rarity = || two.rarity.total_cmp(&one.rarity);
            (one.having == 0).cmp(&(two.having == 0)).then_with(by_rarity)
        });
        terms.truncate(MOST_WORDS);
        let most = terms.iter().map(|term| term.rarity).sum::<f32>().max(f32::MIN_POSITIVE);
        terms.extend(query.pairs.iter().filter_map(|pair| {
            let entries: Vec<Entries> = parts.iter().map(|part| exact(part, pair)).collect();
            let having = count(&entries, parts);
            let rarity = rarity(having, all);
            (0 < having).then_some(Term { entries, rarity, having })
        }));
        terms.retain(|term| 0 < term.having);
        terms.sort_by(|one, two| two.rarity.total_cmp(&one.rarity));
        terms.truncate(2 * MOST_WORDS);
        Self { terms, most, weights }
    }

    /// Calls `each` with the tools of a part that have any of the words, and their relevance, above 0 and at most 1.
    /// Tools that cannot be among the best `limit` may be omitted.
    pub(super) fn each(
        &self,
        number: usize,
        part: &Part<'_>,
        limit: usize,
        mut each: impl FnMut(Slot, f32),
    ) {
        let mut sums = Sums::new(part.index.slots());
        let mut left: f32 = self.terms.iter().map(|term| term.rarity).sum();
        for term in &self.terms {
            // Tools without any of the rarer words cannot reach the best any more: it suffices to update the other
            // tools.
            let is_decided = MANY < term.having && left < self.least(&sums, limit);
            for (entry, factor) in &term.entries[number] {
                let Some(postings) = entry.postings(part) else { continue };
                match is_decided {
                    true => sums.gather_known(postings, *factor),
                    false => {
                        postings.each_within(&part.within, |posting| sums.gather(posting, *factor))
                    }
                }
            }
            sums.settle(term.rarity, self.weights.saturation);
            left -= term.rarity;
        }
        sums.finish(|slot, it| each(slot, self.score(it.sum, it.share)));
    }

    fn score(&self, sum: f32, share: f32) -> f32 {
        (self.named(sum, share) / self.most).min(1.0)
    }

    fn named(&self, sum: f32, share: f32) -> f32 {
        let naming = self.weights.naming;
        sum * (1.0 + naming * share.min(1.0)) / (1.0 + naming)
    }

    /// The current score of the last of the best `limit` tools.
    fn least(&self, sums: &Sums, limit: usize) -> f32 {
        if limit == 0 || sums.known.len() < limit {
            return 0.0;
        }
        let score = |slot: &Slot| {
            let it = &sums.by_slot[*slot as usize];
            self.named(it.sum, it.share)
        };
        let mut scores: Vec<f32> = sums.known.iter().map(score).collect();
        let (_, least, _) = scores.select_nth_unstable_by(limit - 1, |one, two| two.total_cmp(one));
        *least
    }
}

/// The sums of all tools of a part.
struct Sums {
    by_slot: Vec<Sum>,
    /// Tools with a sum above zero.
    known: Vec<Slot>,
    /// Tools that have the current word.
    touched: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f32,
    share: f32,
    /// Weight of the current word.
    weight: f32,
    own_share: f32,
}

thread_local! {
    /// Reused buffer, all zero between two searches: clearing a megabyte would take longer than most searches.
    static BY_SLOT: Cell<Vec<Sum>> = const { Cell::new(Vec::new()) };
}

impl Sums {
    fn new(slots: usize) -> Self {
        let mut by_slot = BY_SLOT.take();
        by_slot.resize(slots.max(by_slot.len()), Sum::default());
        Self { by_slot, known: Vec::new(), touched: Vec::new() }
    }

    /// Passes on all sums and resets the buffer to zero.
    fn finish(mut self, mut each: impl FnMut(Slot, Sum)) {
        for slot in self.known {
            each(slot, std::mem::take(&mut self.by_slot[slot as usize]));
        }
        BY_SLOT.set(self.by_slot);
    }

    fn gather(&mut self, posting: &Posting, factor: f32) {
        if posting.weight == Weight::default() {
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
    fn gather_known(&mut self, postings: &Postings, factor: f32) {
        for posting in postings.iter() {
            if 0.0 < self.by_slot[posting.slot as usize].sum {
                self.gather(posting, factor);
            }
        }
    }

    fn settle(&mut self, rarity: f32, saturation: f32) {
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
fn rarity(having: usize, all: usize) -> f32 {
    let (having, others) = (having as f32, all.saturating_sub(having) as f32);
    (1.0 + (others + 0.5) / (having + 0.5)).ln()
}

/// Number of tools that have any of the terms.
fn count(entries: &[Entries], parts: &[Part<'_>]) -> usize {
    let counts = entries.iter().zip(parts).map(|(entries, part)| {
        let postings = entries.iter().filter_map(|(entry, _)| entry.postings(part));
        Postings::count_any(&postings.collect::<Vec<_>>(), &part.within)
    });
    counts.sum()
}

/// Matches of a query word: the word itself and words with its stem, or, if no tool has these, words at an edit
/// distance of one. Synonyms are added in both cases.
fn asked_term(word: &str, parts: &[Part<'_>], all: usize, weights: &Weights) -> Term {
    let wanted = stem(word);
    let own = |part: &Part<'_>| own_words(part, word, &wanted, weights.same_stem);
    let mut entries: Vec<Entries> = parts.iter().map(own).collect();
    let mut having = count(&entries, parts);
    if having == 0 && !word.chars().all(char::is_numeric) {
        entries = parts.iter().map(|part| near(part, word, weights.near)).collect();
        having = count(&entries, parts);
    }
    for (entries, part) in entries.iter_mut().zip(parts) {
        let others = stand_ins(part, &wanted, weights.synonym);
        entries.extend(others.into_iter().filter(|(entry, _)| tells(part, *entry, all)));
    }
    // Sort, because floating-point sums depend on the order of addition, which must not depend on the age of tools.
    for (entries, part) in entries.iter_mut().zip(parts) {
        entries.sort_by(|(one, _), (two, _)| one.text(part).cmp(two.text(part)));
    }
    let having = if having == 0 { count(&entries, parts) } else { having };
    Term { rarity: rarity(having, all), entries, having }
}

/// True if the term is rare enough to be a synonym: at most an eighth of all tools have it.
fn tells(part: &Part<'_>, entry: Entry, all: usize) -> bool {
    let most = (all / 8).max(MANY);
    let postings = entry.postings(part);
    postings.is_some_and(|postings| Postings::count_any(&[postings], &part.within) <= most)
}

fn exact(part: &Part<'_>, word: &str) -> Entries {
    let plain = part.index.words.find(word).map(Entry::Word);
    let whole = part.index.wholes.find(word).map(Entry::Whole);
    plain.into_iter().chain(whole).map(|entry| (entry, 1.0)).collect()
}

fn own_words(part: &Part<'_>, word: &str, stem: &str, same_stem: f32) -> Entries {
    let index = part.index;
    let others = index.families.of(stem).iter().filter(|id| index.words.text(**id) != word);
    let others = others.map(|id| (Entry::Word(*id), same_stem));
    exact(part, word).into_iter().chain(others).collect()
}

fn near(part: &Part<'_>, word: &str, factor: f32) -> Entries {
    part.index.words_near(word).into_iter().map(|id| (Entry::Word(id), factor)).collect()
}

/// Terms for synonyms.
fn stand_ins(part: &Part<'_>, stem: &str, factor: f32) -> Entries {
    let words = synonyms(stem).iter().flat_map(|other| part.index.families.of(other));
    words.map(|id| (Entry::Word(*id), factor)).collect()
}
