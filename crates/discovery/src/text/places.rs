//! The positions of the fields of a document, so that an error can name its line.

use std::collections::HashMap;

use super::{Place, yaml};

/// The maximum length of a name within a path, and of a path, in bytes. A value nested deeper gets the position of its
/// parent.
const LONGEST_NAME: usize = 256;
const LONGEST_PATH: usize = 1_024;
/// The maximum memory of all paths, in bytes. No hand-written file has that many fields.
const ROOM: usize = 32 << 20;
/// The memory of an entry besides its text, in bytes.
const SLOT: usize = 64;

/// The positions of fields, by paths such as `groups[0].name`.
#[derive(Debug, Default)]
pub struct Places {
    known: HashMap<String, Place>,
    taken: usize,
}

impl Places {
    /// The positions in a readable YAML or JSON document, within the memory limit.
    pub fn of(text: &str) -> Self {
        let mut places = Self::default();
        yaml::visit(text, &mut |path, at| places.put(path, at));
        places
    }

    /// Records the position of a field, within the memory limit.
    pub fn put(&mut self, path: String, at: Place) {
        let takes = path.len() + SLOT;
        if self.taken + takes <= ROOM {
            self.taken += takes;
            self.known.entry(path).or_insert(at);
        }
    }

    /// The position of a field, or of its nearest known parent.
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

/// The path of a field.
pub fn member(path: &str, name: &str) -> String {
    let name = name.get(..name.floor_char_boundary(LONGEST_NAME)).unwrap_or(name);
    match path {
        "" => name.to_owned(),
        path if LONGEST_PATH < path.len() => path.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// The path of a list item.
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
    fn fields_and_items_have_a_line_and_a_column() {
        let text = "groups:\n  - id: a\n    selectors:\n      - {name: x, kind: tool}\n";
        assert_eq!(find(text, "groups"), Some((1, 1)));
        assert_eq!(find(text, "groups[0]"), Some((2, 5)));
        assert_eq!(find(text, "groups[0].selectors[0].kind"), Some((4, 19)));
        let json = "{\"a\": [\n  {\"b\": 1}]}";
        assert_eq!(find(json, "a[0].b"), Some((2, 4)));
    }

    #[test]
    fn a_missing_field_gets_the_position_of_its_parent() {
        let text = "groups:\n  - id: a\n";
        assert_eq!(find(text, "groups[0].name"), Some((2, 5)));
        assert_eq!(find(text, "groups[7].name"), Some((1, 1)));
        assert_eq!(find(text, "policies"), None);
    }

    #[test]
    fn long_names_and_many_fields_stay_within_the_memory_limit() {
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
    fn fields_of_an_alias_have_the_position_of_the_alias() {
        let text = "a: &x\n  b: 1\nc: *x\n";
        assert_eq!(find(text, "c.b"), Some((3, 1)));
    }
}
