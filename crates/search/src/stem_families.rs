//! Groups of words that share a stem.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use rust_stemmers::{Algorithm, Stemmer};

use super::lexicon::TextId;

const BUCKETS: usize = 1024;

/// The words of a lexicon by stem; cheap to clone.
#[derive(Clone)]
pub(super) struct StemFamilies {
    buckets: Vec<Arc<HashMap<Box<str>, Vec<TextId>>>>,
    hasher: RandomState,
}

impl Default for StemFamilies {
    fn default() -> Self {
        Self { buckets: vec![Arc::default(); BUCKETS], hasher: RandomState::new() }
    }
}

impl StemFamilies {
    fn bucket_index(&self, stem: &str) -> usize {
        // The remainder is below BUCKETS, so the cast loses nothing.
        (self.hasher.hash_one(stem) % BUCKETS as u64) as usize
    }

    /// The words with this stem.
    pub(super) fn words_with_stem(&self, stem: &str) -> &[TextId] {
        self.buckets[self.bucket_index(stem)].get(stem).map_or(&[], Vec::as_slice)
    }

    pub(super) fn add_word(&mut self, word: &str, id: TextId) {
        let stem = stem_of(word);
        let drawer = self.bucket_index(&stem);
        let drawer = Arc::make_mut(&mut self.buckets[drawer]);
        drawer.entry(stem.into()).or_default().push(id);
    }

    pub(super) fn remove_word(&mut self, word: &str, id: TextId) {
        let stem = stem_of(word);
        let drawer = self.bucket_index(&stem);
        let drawer = Arc::make_mut(&mut self.buckets[drawer]);
        let Some(words) = drawer.get_mut(&*stem) else { return };
        words.retain(|other| *other != id);
        if words.is_empty() {
            drawer.remove(&*stem);
        }
    }
}

/// The English stem of a word: `creating`, `creates` and `created` become `creat`.
pub(super) fn stem_of(word: &str) -> Cow<'_, str> {
    match word.is_ascii() {
        true => Stemmer::create(Algorithm::English).stem(word),
        false => Cow::Borrowed(word),
    }
}

#[cfg(test)]
impl StemFamilies {
    pub(super) fn is_bare(&self) -> bool {
        self.buckets.iter().all(|drawer| drawer.is_empty())
    }
}
