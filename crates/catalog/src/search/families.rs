//! Groups of words that share a stem.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use rust_stemmers::{Algorithm, Stemmer};

use super::lexicon::TextId;

const DRAWERS: usize = 1024;

/// The words of a lexicon by stem; cheap to clone.
#[derive(Clone)]
pub(super) struct Families {
    drawers: Vec<Arc<HashMap<Box<str>, Vec<TextId>>>>,
    hasher: RandomState,
}

impl Default for Families {
    fn default() -> Self {
        Self { drawers: vec![Arc::default(); DRAWERS], hasher: RandomState::new() }
    }
}

impl Families {
    fn drawer(&self, stem: &str) -> usize {
        // The remainder is below BUCKETS, so the cast loses nothing.
        (self.hasher.hash_one(stem) % DRAWERS as u64) as usize
    }

    /// The words with this stem.
    pub(super) fn of(&self, stem: &str) -> &[TextId] {
        self.drawers[self.drawer(stem)].get(stem).map_or(&[], Vec::as_slice)
    }

    pub(super) fn add(&mut self, word: &str, id: TextId) {
        let stem = stem(word);
        let drawer = self.drawer(&stem);
        let drawer = Arc::make_mut(&mut self.drawers[drawer]);
        drawer.entry(stem.into()).or_default().push(id);
    }

    pub(super) fn remove(&mut self, word: &str, id: TextId) {
        let stem = stem(word);
        let drawer = self.drawer(&stem);
        let drawer = Arc::make_mut(&mut self.drawers[drawer]);
        let Some(words) = drawer.get_mut(&*stem) else { return };
        words.retain(|other| *other != id);
        if words.is_empty() {
            drawer.remove(&*stem);
        }
    }
}

/// The English stem of a word: `creating`, `creates` and `created` become `creat`.
pub(super) fn stem(word: &str) -> Cow<'_, str> {
    match word.is_ascii() {
        true => Stemmer::create(Algorithm::English).stem(word),
        false => Cow::Borrowed(word),
    }
}

#[cfg(test)]
impl Families {
    pub(super) fn is_bare(&self) -> bool {
        self.drawers.iter().all(|drawer| drawer.is_empty())
    }
}
