//! Names of tools that every model accepts (`[A-Za-z0-9_-]{1,64}`). They never contain a counter, so that reordering
//! the operations of a document changes no name (requirement O5).

use std::collections::HashMap;

use model::Digest;

/// The maximum length of a name that the function calls of all models accept.
const MAX_NAME_CHARS: usize = 64;
/// `_` and eight hexadecimal characters.
const HASH_SUFFIX_CHARS: usize = 9;
/// Names of toolcrib's own tools.
const RESERVED_TOOL_NAMES: [&str; 2] = ["tool_search", "execute_tool"];

/// An operation that needs a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameCandidate<'a> {
    pub operation_id: Option<&'a str>,
    pub method: &'a str,
    pub path: &'a str,
}

impl NameCandidate<'_> {
    /// The name without regard to clashes: the operation id, or `{method}_{path}`.
    fn preferred_name(&self) -> String {
        let own =
            self.operation_id.map(|id| to_legal_name(id, false)).filter(|name| !name.is_empty());
        own.unwrap_or_else(|| {
            let path = to_legal_name(self.path, true);
            let method = self.method.to_ascii_lowercase();
            if path.is_empty() { method } else { format!("{method}_{path}") }
        })
    }

    /// Whether the id, or the path if there is no id, contains no letter or digit.
    fn has_no_legal_text(&self) -> bool {
        let nothing = |text: &str| !text.contains(|c: char| c.is_ascii_alphanumeric());
        match self.operation_id {
            Some(id) => nothing(id),
            None => 1 < self.path.len() && nothing(self.path),
        }
    }

    fn hashed_name(&self, name: &str) -> String {
        let hash = Digest::of_bytes(format!("{} {}", self.method, self.path)).to_string();
        let hash: String = hash.chars().take(HASH_SUFFIX_CHARS - 1).collect();
        let name: String = name.chars().take(MAX_NAME_CHARS - HASH_SUFFIX_CHARS).collect();
        format!("{}_{hash}", name.trim_end_matches('_'))
    }
}

/// A name for each operation, in their order; unique regardless of case.
pub(super) fn assign_names(wishes: &[NameCandidate<'_>]) -> Vec<String> {
    let alone: Vec<String> = wishes.iter().map(NameCandidate::preferred_name).collect();
    let wanted = count_names(&alone);
    let name = |(wish, name): (&NameCandidate<'_>, &String)| {
        let taken = 1 < wanted[&name.to_ascii_lowercase()]
            || RESERVED_TOOL_NAMES.iter().any(|other| name.eq_ignore_ascii_case(other));
        match taken || MAX_NAME_CHARS < name.len() || wish.has_no_legal_text() {
            true => wish.hashed_name(name),
            false => name.clone(),
        }
    };
    let names: Vec<String> = wishes.iter().zip(&alone).map(name).collect();
    if count_names(&names).len() == names.len() {
        return names;
    }
    // An id equals the hashed name of another operation, a deliberate clash: give every operation a hash.
    wishes.iter().zip(&alone).map(|(wish, name)| wish.hashed_name(name)).collect()
}

fn count_names(names: &[String]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for name in names {
        *counts.entry(name.to_ascii_lowercase()).or_default() += 1;
    }
    counts
}

/// The letters, digits, `_` and `-` of a text, with one `_` for each run of others; `tight` trims `_` at both ends.
fn to_legal_name(text: &str, tight: bool) -> String {
    let mut name = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            name.push(c);
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    match tight {
        true => name.trim_matches('_').to_owned(),
        false if name.contains(|c: char| c.is_ascii_alphanumeric()) => name,
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(operations: &[(Option<&str>, &str, &str)]) -> Vec<String> {
        let wish = |&(operation_id, method, path)| NameCandidate { operation_id, method, path };
        assign_names(&operations.iter().map(wish).collect::<Vec<_>>())
    }

    #[test]
    fn an_operation_is_named_by_its_id_or_by_method_and_path() {
        assert_eq!(
            named(&[
                (Some("listPets"), "GET", "/pets"),
                (None, "GET", "/users/{id}/pets"),
                (None, "POST", "/"),
                (Some("repos/list for.user"), "GET", "/repos"),
            ]),
            ["listPets", "get_users_id_pets", "post", "repos_list_for_user"]
        );
    }

    #[test]
    fn all_clashing_names_get_a_hash_regardless_of_case() {
        let names = named(&[
            (Some("dup"), "GET", "/a"),
            (Some("dup"), "GET", "/b"),
            (Some("Dup"), "GET", "/c"),
            (Some("other"), "GET", "/d"),
        ]);
        assert!(names[0].starts_with("dup_") && names[0] != names[1], "{names:?}");
        assert!(names[2].starts_with("Dup_"), "{names:?}");
        assert_eq!(names[3], "other");
    }

    #[test]
    fn long_illegal_and_reserved_names_get_a_hash() {
        let long = "a".repeat(70);
        let names = named(&[
            (Some(&long), "GET", "/a"),
            (Some("получить"), "GET", "/b"),
            (Some("tool_search"), "GET", "/c"),
        ]);
        assert_eq!(names[0].len(), 64);
        assert!(names[1].starts_with("get_b_"), "{names:?}");
        assert!(names[2].starts_with("tool_search_"), "{names:?}");
    }

    #[test]
    fn an_id_equal_to_a_hashed_name_does_not_take_that_name() {
        let hashed = named(&[(Some("dup"), "GET", "/a"), (Some("dup"), "GET", "/b")]);
        let names = named(&[
            (Some("dup"), "GET", "/a"),
            (Some("dup"), "GET", "/b"),
            (Some(&hashed[0]), "GET", "/c"),
        ]);
        assert_eq!(names[..2], hashed);
        assert!(names[2].starts_with(&hashed[0]) && names[2] != hashed[0], "{names:?}");
    }

    proptest! {
        #[test]
        fn names_are_legal_unique_and_independent_of_order(
            ids in prop::collection::btree_map("/[a-z]{0,3}", prop::option::of("\\PC{0,70}"), 1..8)
        ) {
            let wishes: Vec<NameCandidate<'_>> = ids
                .iter()
                .map(|(path, id)| NameCandidate { operation_id: id.as_deref(), method: "GET", path })
                .collect();
            let forward = assign_names(&wishes);
            let mut backward: Vec<NameCandidate<'_>> = wishes.clone();
            backward.reverse();
            let mut backward = assign_names(&backward);
            backward.reverse();
            prop_assert_eq!(&forward, &backward);
            for name in &forward {
                prop_assert!((1..=MAX_NAME_CHARS).contains(&name.len()));
                prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
            }
            let unique: std::collections::HashSet<String> =
                forward.iter().map(|name| name.to_ascii_lowercase()).collect();
            prop_assert_eq!(unique.len(), forward.len());
        }
    }
}
