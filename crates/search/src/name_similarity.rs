//! Similarity of names: by stem, at least half of their words are shared. Also the stems of a query.

use std::collections::BTreeSet;

use super::search_query::SearchQuery;
use super::stem_families::stem_of;
use super::word_splitting::{for_each_word, squash_word};

/// The stems of the words of a name.
pub struct NameStems(BTreeSet<String>);

impl NameStems {
    pub fn from_name(name: &str) -> Self {
        Self(name_stems(name))
    }

    /// True if two names are similar: `list_orders`, `listOrder` and `list_orders_by_date`, but not `list_users`.
    pub fn is_similar_to(&self, other: &Self) -> bool {
        let shared = self.0.intersection(&other.0).count();
        0 < shared && self.0.union(&other.0).count() <= 2 * shared
    }
}

/// The stems of the significant words of a query.
pub fn query_stems(query: &str) -> BTreeSet<String> {
    SearchQuery::new(query).words.iter().map(|word| stem_of(word).into_owned()).collect()
}

fn name_stems(name: &str) -> BTreeSet<String> {
    let whole = squash_word(name);
    let mut stems = BTreeSet::new();
    for_each_word(name, |word| {
        stems.insert(stem_of(word).into_owned());
    });
    // A compound consists of its parts and a whole; only the parts can be shared with other names.
    if 1 < stems.len() {
        stems.remove(&*stem_of(&whole));
    }
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_similar(one: &str, two: &str) -> bool {
        NameStems::from_name(one).is_similar_to(&NameStems::from_name(two))
    }

    #[test]
    fn queries_are_compared_without_fillers_and_endings() {
        assert_eq!(query_stems("Please create the invoices"), query_stems("creating an invoice"));
        assert_ne!(query_stems("create an invoice"), query_stems("delete an invoice"));
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
