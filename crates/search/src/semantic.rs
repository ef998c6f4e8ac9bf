//! Semantic search: embedding vectors, which are similar for texts of similar meaning, and its fusion with word search.

use std::collections::HashMap;

use catalog::tool_set::Slot;

use super::{RankingWeights, SearchHit};

/// Upper bound for the dimensions of a vector.
const DIMENSION_LIMIT: usize = 4_096;
/// A tool with at least this score by words (its name, or nearly all words) is not ranked lower by fusion.
const CONFIDENT_SCORE: f32 = 0.85;

/// The embedding of a text: a direction, with coordinates in steps of 1/127.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingVector(Box<[i8]>);

impl EmbeddingVector {
    /// `None` if the numbers have no direction: if there are none, too many, or only zeros.
    pub fn new(numbers: &[f32]) -> Option<Self> {
        let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
        let is_one = length.is_normal() && numbers.len() <= DIMENSION_LIMIT;
        // The rounded value always fits, so the cast loses nothing.
        is_one.then(|| Self(numbers.iter().map(|it| (it / length * 127.0).round() as i8).collect()))
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().map(|number| number.to_ne_bytes()[0]).collect()
    }

    /// Reads the stored form.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let is_one = !bytes.is_empty() && bytes.len() <= DIMENSION_LIMIT;
        is_one.then(|| Self(bytes.iter().map(|byte| i8::from_ne_bytes([*byte])).collect()))
    }

    /// Similarity from 0 (nothing in common) to 1 (equal). Vectors of different models have nothing in common.
    pub fn similarity(&self, other: &Self) -> f32 {
        if self.0.len() != other.0.len() {
            return 0.0;
        }
        let products = self.0.iter().zip(&other.0).map(|(a, b)| i32::from(*a) * i32::from(*b));
        (products.sum::<i32>() as f32 / (127.0 * 127.0)).clamp(0.0, 1.0)
    }
}

/// The most similar tools, best first. A stable key decides between equals, because slots depend on earlier tools.
pub fn most_similar<By: Ord>(mut near: Vec<(Slot, By, f32)>, limit: usize) -> Vec<(Slot, f32)> {
    near.retain(|(.., nearness)| 0.0 < *nearness);
    near.sort_by(|one, two| two.2.total_cmp(&one.2).then_with(|| one.1.cmp(&two.1)));
    near.truncate(limit);
    near.into_iter().map(|(slot, _, nearness)| (slot, nearness)).collect()
}

/// Fuses word hits (best first) with semantically similar tools. The score combines the share of the best score by
/// words with the similarity. A query of one word keeps the scores of the table, and tools that are only similar come
/// after.
pub fn fuse_hits(
    by_words: Vec<SearchHit>,
    near: &[(Slot, f32)],
    query: &str,
    limit: usize,
    weights: &RankingWeights,
) -> Vec<SearchHit> {
    let weight = weights.meaning;
    let is_one_word = !query.trim().contains(char::is_whitespace);
    let best = by_words.first().map_or(0.0, |found| found.score).max(f32::MIN_POSITIVE);
    let mut others: HashMap<Slot, f32> = near.iter().copied().collect();
    let mut fused = by_words;
    for found in &mut fused {
        let near = if found.index_number == 0 { others.remove(&found.slot) } else { None };
        let both = (found.score / best + weight * near.unwrap_or_default()) / (1.0 + weight);
        found.score = match is_one_word {
            true => found.score,
            false if CONFIDENT_SCORE <= found.score => found.score.max(both),
            false => both,
        };
    }
    for (slot, nearness) in near {
        if others.contains_key(slot) {
            let scale = if is_one_word { 0.5 } else { 1.0 };
            let score = scale * weight * nearness / (1.0 + weight);
            fused.push(SearchHit { index_number: 0, slot: *slot, score });
        }
    }
    // The sort is stable: of equal scores, word hits come first.
    fused.sort_by(|one, two| two.score.total_cmp(&one.score));
    fused.truncate(limit);
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_a_direction() {
        let vector = |numbers: &[f32]| EmbeddingVector::new(numbers).unwrap();
        let (east, north) = (vector(&[2.0, 0.0]), vector(&[0.0, 0.1]));
        assert_eq!(east.similarity(&east), 1.0);
        assert_eq!(east.similarity(&north), 0.0);
        assert_eq!(east.similarity(&vector(&[-1.0, 0.0])), 0.0);
        assert!((east.similarity(&vector(&[1.0, 1.0])) - 0.707).abs() < 0.01);
        assert_eq!(east.similarity(&vector(&[1.0])), 0.0);
        assert_eq!(EmbeddingVector::from_bytes(&east.to_bytes()), Some(east));
        let none = [vec![], vec![0.0; 3], vec![f32::NAN], vec![f32::INFINITY], vec![1.0; 5_000]];
        assert!(none.iter().all(|numbers| EmbeddingVector::new(numbers).is_none()));
    }

    #[test]
    fn equal_similarities_are_ordered_by_key() {
        let near = vec![(1, "c", 0.5), (2, "b", 0.5), (3, "z", 0.9), (4, "a", 0.5), (5, "x", 0.0)];
        assert_eq!(most_similar(near, 3), [(3, 0.9), (4, 0.5), (2, 0.5)]);
    }

    #[test]
    fn words_and_similarity_are_combined() {
        let found = |slot, score| SearchHit { index_number: 0, slot, score };
        let fused = |by_words: &[SearchHit], near: &[(Slot, f32)], query: &str, limit| {
            super::fuse_hits(by_words.to_vec(), near, query, limit, &RankingWeights::default())
        };
        let order = |found: &[SearchHit]| found.iter().map(|it| it.slot).collect::<Vec<_>>();
        let by_words = vec![found(1, 0.4), found(2, 0.3)];
        let near = [(3, 0.9), (2, 0.8), (4, 0.1)];
        let both = fused(&by_words, &near, "some words", 10);
        assert_eq!(order(&both), [2, 3, 1, 4]);
        assert!(both.iter().all(|it| 0.0 < it.score && it.score <= 1.0));
        assert_eq!(fused(&by_words, &near, "some words", 1).len(), 1);
        // With weight zero, tools that are only similar come last.
        let words_alone = RankingWeights { meaning: 0.0, ..RankingWeights::default() };
        let both = super::fuse_hits(by_words.clone(), &near, "some words", 10, &words_alone);
        assert_eq!(order(&both), [1, 2, 3, 4]);
        // A tool whose name is in the query stays first, and so does one with a score of the table.
        assert_eq!(order(&fused(&[found(1, 0.95)], &near, "its name", 10))[0], 1);
        let word = fused(&by_words, &near, "word", 10);
        assert_eq!((word[0], word[1].slot), (found(1, 0.4), 3));
        assert_eq!(fused(&by_words, &[], "word", 10), by_words);
        // Tools of providers have no embeddings, so they are only found by words.
        let provided = SearchHit { index_number: 1, slot: 3, score: 0.5 };
        assert_eq!(fused(&[provided], &near, "some words", 10).len(), 4);
    }
}
