//! Things by their key, in the order they came.

use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct Shelf<T> {
    places: HashMap<Box<str>, usize>,
    all: Vec<Arc<T>>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { places: HashMap::new(), all: Vec::new() }
    }
}

impl<T> Shelf<T> {
    /// Puts it at the end, unless there is one of that key.
    pub(super) fn add(&mut self, key: &str, thing: T) -> bool {
        if self.places.contains_key(key) {
            return false;
        }
        self.places.insert(key.into(), self.all.len());
        self.all.push(Arc::new(thing));
        true
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.all.get(*self.places.get(key)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.all.iter()
    }
}
