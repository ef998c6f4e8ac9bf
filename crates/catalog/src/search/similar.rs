//! Similarity of names: by stem, at least half of their words are shared. Also the stems of a query.

use std::collections::BTreeSet;

use super::families::stem;
use super::query::Query;
use super::words::{each_word, squashed_word};

/// The stems of the words of a name.
pub struct NameStems(BTreeSet<String>);

impl NameStems {
    pub fn of(name: &str) -> Self {
        Self(stems(name))
    }

    /// True if two names are similar: `list_orders`, `listOrder` and `list_orders_by_date`, but not `list_users`.
    pub fn are_similar(&self, other: &Self) -> bool {
        let shared = self.0.intersection(&other.0).count();
        0 < shared && self.0.union(&other.0).count() <= 2 * shared
    }
}

/// The stems of the significant words of a query.
pub fn gist(query: &str) -> BTreeSet<String> {
    Query::new(query).words.iter().map(|word| stem(word).into_owned()).collect()
}

fn stems(name: &str) -> BTreeSet<String> {
    let whole = squashed_word(name);
    let mut stems = BTreeSet::new();
    each_word(name, |word| {
        stems.insert(stem(word).into_owned());
    });
    // A compound consists of its parts and a whole; only the parts can be shared with other names.
    if 1 < stems.len() {
        stems.remove(&*stem(&whole));
    }
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_similar(one: &str, two: &str) -> bool {
        NameStems::of(one).are_similar(&NameStems::of(two))
    }

    #[test]
    fn queries_are_compared_without_fillers_and_endings() {
        assert_eq!(gist("Please create the invoices"), gist("creating an invoice"));
        assert_ne!(gist("create an invoice"), gist("delete an invoice"));
    }

    #[test]
    fn names_that_differ_in_little_are_similar() {
        for (one, two) in [
            ("list_orders", "listOrder"),
            ("list_orders", "list_orders_by_date"),
            ("get_user", "get_user_by_name"),
            ("天気予報", "天気予報"),
        ] {
            assert!(are_similar(one, two) && are_similar(two, one), "{one} {two}");
        }
        for (one, two) in [
            ("list_orders", "list_users"),
            ("create_invoice", "delete_invoice"),
            ("a", "b"),
            ("", ""),
            ("__", "--"),
        ] {
            assert!(!are_similar(one, two) && !are_similar(two, one), "{one} {two}");
        }
    }
}
