//! A map that iterates in insertion order.

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
    /// Appends an item unless the key exists; returns whether it was appended.
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
