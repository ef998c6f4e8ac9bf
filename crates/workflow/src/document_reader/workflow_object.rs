//! One object of a document: access to its fields, and problem reports for missing, wrong and unknown fields.

use serde_json::{Map, Value};

use super::DocumentReader;

/// An object with its JSON pointer.
pub(super) struct WorkflowObject<'a> {
    path: String,
    members: &'a Map<String, Value>,
}

impl DocumentReader {
    pub(super) fn read_object<'a>(
        &mut self,
        path: &str,
        value: &'a Value,
    ) -> Option<WorkflowObject<'a>> {
        match value {
            Value::Object(members) => Some(WorkflowObject { path: path.to_owned(), members }),
            _ => {
                self.report_problem(path, "this must be an object");
                None
            }
        }
    }
}

impl<'a> WorkflowObject<'a> {
    pub(super) fn field_path(&self, name: &str) -> String {
        format!("{}/{}", self.path, escape_pointer_segment(name))
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn field_names(&self) -> impl Iterator<Item = &'a String> {
        self.members.keys()
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn has_field(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Reports every field that is not in `known`; for unsupported fields of the DSL, with the reason.
    pub(super) fn reject_unknown_fields(
        &self,
        reader: &mut DocumentReader,
        known: &[&str],
        refused: &[(&str, &str)],
    ) {
        for name in self.members.keys().filter(|name| !known.contains(&name.as_str())) {
            let message = match refused.iter().find(|(refused, _)| refused == name) {
                Some((_, why)) => format!("`{name}` of the DSL is not supported: {why}"),
                None => format!("there is no `{}` here", quote_name(name)),
            };
            reader.report_problem(&self.field_path(name), message);
        }
    }

    pub(super) fn require_field(
        &self,
        reader: &mut DocumentReader,
        name: &str,
    ) -> Option<&'a Value> {
        let value = self.get(name);
        if value.is_none() {
            reader.report_problem(&self.path, format!("`{name}` is missing"));
        }
        value
    }

    pub(super) fn get_text(&self, reader: &mut DocumentReader, name: &str) -> Option<&'a str> {
        match self.get(name)? {
            Value::String(text) => Some(text),
            _ => {
                reader.report_problem(&self.field_path(name), "this must be a text");
                None
            }
        }
    }

    pub(super) fn require_text(&self, reader: &mut DocumentReader, name: &str) -> Option<&'a str> {
        self.require_field(reader, name)?;
        let text = self.get_text(reader, name)?;
        if text.is_empty() {
            reader.report_problem(&self.field_path(name), "this must not be empty");
        }
        Some(text)
    }

    pub(super) fn get_flag(&self, reader: &mut DocumentReader, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Bool(is_so) => Some(*is_so),
            _ => {
                reader.report_problem(&self.field_path(name), "this must be `true` or `false`");
                None
            }
        }
    }
}

/// A name escaped as a segment of a JSON pointer (RFC 6901).
pub(super) fn escape_pointer_segment(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn quote_name(name: &str) -> String {
    name.chars().take(100).flat_map(char::escape_debug).collect()
}
