//! The positions of the fields of a document, so that an error can name its line.

use std::collections::HashMap;

use super::{TextPosition, yaml};

/// The maximum length of a name within a path, and of a path, in bytes. A value nested deeper gets the position of its
/// parent.
const MAX_NAME_BYTES: usize = 256;
const MAX_PATH_BYTES: usize = 1_024;
/// The maximum memory of all paths, in bytes. No hand-written file has that many fields.
const MAX_INDEX_BYTES: usize = 32 << 20;
/// The memory of an entry besides its text, in bytes.
const ENTRY_BYTES: usize = 64;

/// The positions of fields, by paths such as `groups[0].name`.
#[derive(Debug, Default)]
pub struct FieldPositions {
    positions: HashMap<String, TextPosition>,
    used_bytes: usize,
}

impl FieldPositions {
    /// The positions in a readable YAML or JSON document, within the memory limit.
    pub fn from_text(text: &str) -> Self {
        let mut places = Self::default();
        yaml::visit_positions(text, &mut |path, at| places.insert(path, at));
        places
    }

    /// Records the position of a field, within the memory limit.
    pub fn insert(&mut self, path: String, at: TextPosition) {
        let takes = path.len() + ENTRY_BYTES;
        if self.used_bytes + takes <= MAX_INDEX_BYTES {
            self.used_bytes += takes;
            self.positions.entry(path).or_insert(at);
        }
    }

    /// The position of a field, or of its nearest known parent.
    pub fn find_nearest(&self, path: &str) -> Option<TextPosition> {
        let mut path = path;
        loop {
            if let Some(at) = self.positions.get(path) {
                return Some(*at);
            }
            let end = path.rfind(['.', '['])?;
            path = path.get(..end)?;
        }
    }
}

/// The path of a field.
pub fn field_path(path: &str, name: &str) -> String {
    let name = name.get(..name.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or(name);
    match path {
        "" => name.to_owned(),
        path if MAX_PATH_BYTES < path.len() => path.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// The path of a list item.
pub fn item_path(path: &str, number: usize) -> String {
    match MAX_PATH_BYTES < path.len() {
        true => path.to_owned(),
        false => format!("{path}[{number}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, path: &str) -> Option<(usize, usize)> {
        FieldPositions::from_text(text).find_nearest(path).map(|at| (at.line, at.column))
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
        let places = FieldPositions::from_text(&text);
        let kept: usize = places.positions.keys().map(String::len).sum();
        assert!(kept < MAX_INDEX_BYTES, "{kept}");
        let second = places.find_nearest(&item_path(&field_path("", &name), 1)).unwrap();
        assert_eq!((second.line, second.column), (2, 6));
        let many = FieldPositions::from_text(&format!("[{}]", "1,".repeat(1 << 20)));
        assert!(many.used_bytes <= MAX_INDEX_BYTES, "{}", many.used_bytes);
        let deep = (0..40).fold(String::new(), |path, _| field_path(&path, &name));
        assert!(deep.len() <= MAX_PATH_BYTES + MAX_NAME_BYTES + 1, "{}", deep.len());
    }

    #[test]
    fn fields_of_an_alias_have_the_position_of_the_alias() {
        let text = "a: &x\n  b: 1\nc: *x\n";
        assert_eq!(find(text, "c.b"), Some((3, 1)));
    }
}
