//! The role of a text in a tool: a description that may be changed, or a value that the upstream compares.

use serde_json::Value;

/// Whether a text may be changed on its way to agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A description: invisible characters are removed.
    Text,
    /// A regular expression: invisible characters are escaped.
    Pattern,
    /// A name, or a value that the upstream compares: never changed.
    Fixed,
}

/// How the fields of a JSON value in a schema are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    /// A schema object: the field name determines the role.
    Members,
    /// A map with arbitrary names: `properties`, `$defs`.
    Names,
    /// Data in which all texts have the same role.
    Data(Place),
}

/// Fields whose texts only describe, so that agents may get them changed.
const TEXTS: [&str; 9] = [
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
const NAMES: [&str; 5] =
    ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

impl Within {
    /// The context of the value of a field.
    pub(crate) fn member(self, name: &str) -> Self {
        match self {
            Self::Data(_) => self,
            Self::Names => Self::Members,
            Self::Members if TEXTS.contains(&name) => Self::Data(Place::Text),
            Self::Members if matches!(name, "enum" | "const") => Self::Data(Place::Fixed),
            Self::Members if name == "pattern" => Self::Data(Place::Pattern),
            Self::Members if NAMES.contains(&name) => Self::Names,
            Self::Members => Self::Members,
        }
    }

    /// The role of a string value in this context.
    pub(crate) fn text(self) -> Place {
        match self {
            Self::Data(place) => place,
            Self::Members | Self::Names => Place::Fixed,
        }
    }

    /// The role of a field name in this context.
    pub(crate) fn name(self) -> Place {
        match self {
            Self::Data(Place::Text) => Place::Text,
            Self::Data(_) | Self::Members | Self::Names => Place::Fixed,
        }
    }
}

/// A JSON pointer that follows a depth-first walk.
#[derive(Default)]
pub(crate) struct Pointer(String);

impl Pointer {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Runs `walk` with the pointer extended by one step.
    fn below(&mut self, step: &str, walk: impl FnOnce(&mut Self)) {
        let length = self.0.len();
        self.0.push('/');
        self.0.push_str(&step.replace('~', "~0").replace('/', "~1"));
        walk(self);
        self.0.truncate(length);
    }
}

/// Visits every string of a value, including field names.
pub(crate) fn each_text(
    value: &Value,
    within: Within,
    at: &mut Pointer,
    see: &mut impl FnMut(&str, Place, &str),
) {
    match value {
        Value::String(text) => see(at.as_str(), within.text(), text),
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                at.below(&number.to_string(), |at| each_text(item, within, at, see));
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                at.below(name, |at| {
                    see(at.as_str(), within.name(), name);
                    each_text(member, within.member(name), at, see);
                });
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Passes every string that may be changed to `change`.
pub(crate) fn change_texts(
    value: &mut Value,
    within: Within,
    change: &mut impl FnMut(Place, &mut String),
) {
    match value {
        Value::String(text) => change(within.text(), text),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| change_texts(item, within, change));
        }
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                change_texts(member, within.member(name), change);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
