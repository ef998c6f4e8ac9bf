//! JSON kept as text: a tree of values takes several times the memory, and most documents are only passed on.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A valid JSON text, cheap to clone. It serialises as JSON, not as a string.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Arc<str>);

impl RawJson {
    /// Validates a JSON text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(|raw| Self(one_line(raw.get())))
    }

    /// Serialises a value.
    pub fn serialize_value(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// Wraps text that `serde_json` has just written, without validating it again.
    pub fn from_trusted(text: String) -> Self {
        Self(text.into())
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the text into a tree of values.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(&self.0).expect("a raw JSON text is JSON")
    }

    /// Number of owners that share this text.
    pub fn owner_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

/// Replaces line breaks by spaces: an exported event is one line. Inside JSON strings, line breaks are escaped anyway.
fn one_line(text: &str) -> Arc<str> {
    match text.contains(['\n', '\r']) {
        true => text.replace(['\n', '\r'], " ").into(),
        false => text.into(),
    }
}

impl From<&serde_json::Value> for RawJson {
    fn from(value: &serde_json::Value) -> Self {
        // Faster than `Display`.
        Self(serde_json::to_string(value).expect("a value is JSON").into())
    }
}
impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0)
            .expect("a raw JSON text is JSON")
            .serialize(serializer)
    }
}
impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(one_line(raw.get())))
    }
}
