//! Where the members of a document stand, so that what is wrong with one can be said with its line.

use std::collections::HashMap;

use super::{Place, yaml};

/// How much of a name stands in a path, and how long a path gets, in bytes. What is further in stands where its holder
/// does.
const LONGEST_NAME: usize = 256;
const LONGEST_PATH: usize = 1_024;
/// How much is kept of all paths, in bytes. No file that somebody wrote has so many members.
const ROOM: usize = 32 << 20;
/// What a path takes beside its text.
const SLOT: usize = 64;

/// Where members stand, by paths such as `groups[0].name`.
#[derive(Debug, Default)]
pub struct Places {
    known: HashMap<String, Place>,
    taken: usize,
}

impl Places {
    /// Those of a YAML or JSON document that could be read; as far as they can be told.
    pub fn of(text: &str) -> Self {
        let mut places = Self::default();
        yaml::visit(text, &mut |path, at| places.put(path, at));
        places
    }

    /// Says where a member stands, as long as there is room.
    pub fn put(&mut self, path: String, at: Place) {
        let takes = path.len() + SLOT;
        if self.taken + takes <= ROOM {
            self.taken += takes;
            self.known.entry(path).or_insert(at);
        }
    }

    /// Where a member stands, or else what it would stand in.
    pub fn find(&self, path: &str) -> Option<Place> {
        let mut path = path;
        loop {
            if let Some(at) = self.known.get(path) {
                return Some(*at);
            }
            let end = path.rfind(['.', '['])?;
            path = path.get(..end)?;
        }
    }
}

/// The path of a member.
pub fn member(path: &str, name: &str) -> String {
    let name = name.get(..name.floor_char_boundary(LONGEST_NAME)).unwrap_or(name);
    match path {
        "" => name.to_owned(),
        path if LONGEST_PATH < path.len() => path.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// The path of an element.
pub fn element(path: &str, number: usize) -> String {
    match LONGEST_PATH < path.len() {
        true => path.to_owned(),
        false => format!("{path}[{number}]"),
    }
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
    fn long_names_and_many_members_take_little() {
        let name = "n".repeat(1 << 20);
        let text = format!("? {name}\n: [{}]\n", "1,".repeat(100_000));
        let places = Places::of(&text);
        let kept: usize = places.known.keys().map(String::len).sum();
        assert!(kept < ROOM, "{kept}");
        let second = places.find(&element(&member("", &name), 1)).unwrap();
        assert_eq!((second.line, second.column), (2, 6));
        let many = Places::of(&format!("[{}]", "1,".repeat(1 << 20)));
        assert!(many.taken <= ROOM, "{}", many.taken);
        let deep = (0..40).fold(String::new(), |path, _| member(&path, &name));
        assert!(deep.len() <= LONGEST_PATH + LONGEST_NAME + 1, "{}", deep.len());
    }

    #[test]
    fn an_alias_stands_where_it_is_written() {
        let text = "a: &x\n  b: 1\nc: *x\n";
        assert_eq!(find(text, "c.b"), Some((3, 1)));
    }
}
