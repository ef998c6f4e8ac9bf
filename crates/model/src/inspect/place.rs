//! Where a text of a tool stands: whether it only describes, or stands for something that upstreams compare.

use serde_json::Value;

/// Whether a text may be changed on its way to agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It describes: what cannot be seen is left out.
    Text,
    /// A regular expression: what cannot be seen is escaped.
    Pattern,
    /// A name or a value that the upstream compares: it stays as it is.
    Fixed,
}

/// What the members of a JSON value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    /// Each is what its name says.
    Members,
    /// Named by others: `properties`, `$defs`.
    Names,
    /// Data, all of it of one kind.
    Data(Place),
}

/// Members whose texts describe, and whose values agents may have in other words.
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
    /// What a member of this name holds.
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

    /// What a text here is.
    pub(crate) fn text(self) -> Place {
        match self {
            Self::Data(place) => place,
            Self::Members | Self::Names => Place::Fixed,
        }
    }

    /// What the name of a member is.
    pub(crate) fn name(self) -> Place {
        match self {
            Self::Data(Place::Text) => Place::Text,
            Self::Data(_) | Self::Members | Self::Names => Place::Fixed,
        }
    }
}

/// A JSON pointer that grows and shrinks with the walk.
#[derive(Default)]
pub(crate) struct Pointer(String);

impl Pointer {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Does something one step further down.
    fn below(&mut self, step: &str, walk: impl FnOnce(&mut Self)) {
        let length = self.0.len();
        self.0.push('/');
        self.0.push_str(&step.replace('~', "~0").replace('/', "~1"));
        walk(self);
        self.0.truncate(length);
    }
}

/// Shows every text of a value, names of members among them.
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

/// Changes every text of a value that may be changed.
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
