//! One object of a document: access to its fields, and problem reports for missing, wrong and unknown fields.

use serde_json::{Map, Value};

use super::Reader;

/// An object with its JSON pointer.
pub(super) struct Members<'a> {
    path: String,
    members: &'a Map<String, Value>,
}

impl Reader {
    pub(super) fn members<'a>(&mut self, path: &str, value: &'a Value) -> Option<Members<'a>> {
        match value {
            Value::Object(members) => Some(Members { path: path.to_owned(), members }),
            _ => {
                self.wrong(path, "this must be an object");
                None
            }
        }
    }
}

impl<'a> Members<'a> {
    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}/{}", self.path, escaped(name))
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a String> {
        self.members.keys()
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Reports every field that is not in `known`; for unsupported fields of the DSL, with the reason.
    pub(super) fn only(&self, reader: &mut Reader, known: &[&str], refused: &[(&str, &str)]) {
        for name in self.members.keys().filter(|name| !known.contains(&name.as_str())) {
            let message = match refused.iter().find(|(refused, _)| refused == name) {
                Some((_, why)) => format!("`{name}` of the DSL is not supported: {why}"),
                None => format!("there is no `{}` here", shown(name)),
            };
            reader.wrong(&self.path_of(name), message);
        }
    }

    pub(super) fn needed(&self, reader: &mut Reader, name: &str) -> Option<&'a Value> {
        let value = self.get(name);
        if value.is_none() {
            reader.wrong(&self.path, format!("`{name}` is missing"));
        }
        value
    }

    pub(super) fn text(&self, reader: &mut Reader, name: &str) -> Option<&'a str> {
        match self.get(name)? {
            Value::String(text) => Some(text),
            _ => {
                reader.wrong(&self.path_of(name), "this must be a text");
                None
            }
        }
    }

    pub(super) fn needed_text(&self, reader: &mut Reader, name: &str) -> Option<&'a str> {
        self.needed(reader, name)?;
        let text = self.text(reader, name)?;
        if text.is_empty() {
            reader.wrong(&self.path_of(name), "this must not be empty");
        }
        Some(text)
    }

    pub(super) fn flag(&self, reader: &mut Reader, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Bool(is_so) => Some(*is_so),
            _ => {
                reader.wrong(&self.path_of(name), "this must be `true` or `false`");
                None
            }
        }
    }
}

/// A name escaped as a segment of a JSON pointer (RFC 6901).
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn shown(name: &str) -> String {
    name.chars().take(100).flat_map(char::escape_debug).collect()
}
