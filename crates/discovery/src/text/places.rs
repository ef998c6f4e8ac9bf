//! Where the members of a document stand, so that what is wrong with one can be said with its line.

use std::collections::HashMap;

use super::{Place, yaml};

/// Where members stand, by paths such as `groups[0].name`.
#[derive(Debug, Default)]
pub struct Places(HashMap<String, Place>);

impl Places {
    /// Those of a YAML or JSON document that could be read; as far as they can be told.
    pub fn of(text: &str) -> Self {
        let mut places = Self::default();
        yaml::visit(text, &mut |path, at| places.put(path, at));
        places
    }

    /// Says where a member stands.
    pub fn put(&mut self, path: String, at: Place) {
        self.0.insert(path, at);
    }

    /// Where a member stands, or else what it would stand in.
    pub fn find(&self, path: &str) -> Option<Place> {
        let mut path = path;
        loop {
            if let Some(at) = self.0.get(path) {
                return Some(*at);
            }
            let end = path.rfind(['.', '['])?;
            path = path.get(..end)?;
        }
    }
}

/// The path of a member.
pub fn member(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The path of an element.
pub fn element(path: &str, number: usize) -> String {
    format!("{path}[{number}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, path: &str) -> Option<(usize, usize)> {
        Places::of(text).find(path).map(|at| (at.line, at.column))
    }

    #[test]
    fn members_and_elements_have_a_line_and_a_column() {
        let text = "groups:\n  - id: a\n    selectors:\n      - {name: x, kind: tool}\n";
        assert_eq!(find(text, "groups"), Some((1, 1)));
        assert_eq!(find(text, "groups[0]"), Some((2, 5)));
        assert_eq!(find(text, "groups[0].selectors[0].kind"), Some((4, 19)));
        let json = "{\"a\": [\n  {\"b\": 1}]}";
        assert_eq!(find(json, "a[0].b"), Some((2, 4)));
    }

    #[test]
    fn what_is_missing_stands_where_it_would_be() {
        let text = "groups:\n  - id: a\n";
        assert_eq!(find(text, "groups[0].name"), Some((2, 5)));
        assert_eq!(find(text, "groups[7].name"), Some((1, 1)));
        assert_eq!(find(text, "policies"), None);
    }

    #[test]
    fn an_alias_stands_where_it_is_written() {
        let text = "a: &x\n  b: 1\nc: *x\n";
        assert_eq!(find(text, "c.b"), Some((3, 1)));
    }
}
