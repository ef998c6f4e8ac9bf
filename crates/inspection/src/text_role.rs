//! The role of a text in a tool: a description that may be changed, or a value that the upstream compares.

use serde_json::Value;

/// Whether a text may be changed on its way to agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRole {
    /// A description: invisible characters are removed.
    Descriptive,
    /// A regular expression: invisible characters are escaped.
    Pattern,
    /// A name, or a value that the upstream compares: never changed.
    Fixed,
}

/// How the fields of a JSON value in a schema are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaContext {
    /// A schema object: the field name determines the role.
    Keywords,
    /// A map with arbitrary names: `properties`, `$defs`.
    Names,
    /// Data in which all texts have the same role.
    Data(TextRole),
}

/// Fields whose texts only describe, so that agents may get them changed.
const DESCRIPTIVE_KEYWORDS: [&str; 9] = [
    "title",
    "description",
    "summary",
    "$comment",
    "markdownDescription",
    "instructions",
    "default",
    "example",
    "examples",
];
const MAP_KEYWORDS: [&str; 5] =
    ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

impl SchemaContext {
    /// The context of the value of a field.
    pub fn field_context(self, name: &str) -> Self {
        match self {
            Self::Data(_) => self,
            Self::Names => Self::Keywords,
            Self::Keywords if DESCRIPTIVE_KEYWORDS.contains(&name) => {
                Self::Data(TextRole::Descriptive)
            }
            Self::Keywords if matches!(name, "enum" | "const") => Self::Data(TextRole::Fixed),
            Self::Keywords if name == "pattern" => Self::Data(TextRole::Pattern),
            Self::Keywords if MAP_KEYWORDS.contains(&name) => Self::Names,
            Self::Keywords => Self::Keywords,
        }
    }

    /// The role of a string value in this context.
    pub fn value_role(self) -> TextRole {
        match self {
            Self::Data(place) => place,
            Self::Keywords | Self::Names => TextRole::Fixed,
        }
    }

    /// The role of a field name in this context.
    pub fn name_role(self) -> TextRole {
        match self {
            Self::Data(TextRole::Descriptive) => TextRole::Descriptive,
            Self::Data(_) | Self::Keywords | Self::Names => TextRole::Fixed,
        }
    }
}

/// A JSON pointer that follows a depth-first walk.
#[derive(Default)]
pub(crate) struct WalkPointer(String);

impl WalkPointer {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Runs `walk` with the pointer extended by one step.
    fn with_step(&mut self, step: &str, walk: impl FnOnce(&mut Self)) {
        let length = self.0.len();
        self.0.push('/');
        self.0.push_str(&step.replace('~', "~0").replace('/', "~1"));
        walk(self);
        self.0.truncate(length);
    }
}

/// Visits every string of a value, including field names.
pub(crate) fn visit_texts(
    value: &Value,
    within: SchemaContext,
    at: &mut WalkPointer,
    see: &mut impl FnMut(&str, TextRole, &str),
) {
    match value {
        Value::String(text) => see(at.as_str(), within.value_role(), text),
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                at.with_step(&number.to_string(), |at| visit_texts(item, within, at, see));
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                at.with_step(name, |at| {
                    see(at.as_str(), within.name_role(), name);
                    visit_texts(member, within.field_context(name), at, see);
                });
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Passes every string that may be changed to `change`.
pub(crate) fn change_texts(
    value: &mut Value,
    within: SchemaContext,
    change: &mut impl FnMut(TextRole, &mut String),
) {
    match value {
        Value::String(text) => change(within.value_role(), text),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| change_texts(item, within, change));
        }
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                change_texts(member, within.field_context(name), change);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
