//! A map that iterates in insertion order.

use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct OrderedMap<T> {
    positions: HashMap<Box<str>, usize>,
    items: Vec<Arc<T>>,
}

impl<T> Default for OrderedMap<T> {
    fn default() -> Self {
        Self { positions: HashMap::new(), items: Vec::new() }
    }
}

impl<T> OrderedMap<T> {
    /// Appends an item unless the key exists; returns whether it was appended.
    pub(super) fn insert_new(&mut self, key: &str, thing: T) -> bool {
        if self.positions.contains_key(key) {
            return false;
        }
        self.positions.insert(key.into(), self.items.len());
        self.items.push(Arc::new(thing));
        true
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.items.get(*self.positions.get(key)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.iter()
    }
}
