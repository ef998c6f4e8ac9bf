//! Typed ids. A value that exists is valid; later code does not check it again.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Permanent id of a source: `petstore`.
pub type SourceId = Slug<kind::SourceMarker>;
/// Id of a group: `billing-read`.
pub type GroupId = Slug<kind::GroupMarker>;
/// Id of a policy: `staff-may-read`.
pub type PolicyId = Slug<kind::PolicyMarker>;
/// Id of a label: `pii`.
pub type LabelId = Slug<kind::LabelMarker>;
/// Id of an API key: `nightly-build`.
pub type KeyId = Slug<kind::KeyMarker>;

/// Marker types for the kind of a [`Slug`]. They have no values; they make ids of different kinds different types.
pub mod kind {
    /// Marks the id of a source.
    #[derive(Debug)]
    pub enum SourceMarker {}
    /// Marks the id of a group.
    #[derive(Debug)]
    pub enum GroupMarker {}
    /// Marks the id of a policy.
    #[derive(Debug)]
    pub enum PolicyMarker {}
    /// Marks the id of a label.
    #[derive(Debug)]
    pub enum LabelMarker {}
    /// Marks the id of an API key.
    #[derive(Debug)]
    pub enum KeyMarker {}
}

/// Longest slug, in bytes.
pub const SLUG_LIMIT: usize = 64;
/// Longest tool id, in bytes.
pub const TOOL_ID_LIMIT: usize = 512;

/// An immutable id of lower-case ASCII letters, digits and inner hyphens, at most 64 of them.
pub struct Slug<Kind> {
    text: Arc<str>,
    kind: PhantomData<fn() -> Kind>,
}

/// The error for a string that is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id: {rule}")]
pub struct InvalidId {
    /// The rejected string, cut to a readable length.
    pub text: String,
    /// The violated rule.
    pub rule: &'static str,
}

impl InvalidId {
    fn new(text: &str, rule: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), rule }
    }
}

impl<Kind> Slug<Kind> {
    /// The id as a string.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Derives an id from a display name: `Pet Store (v2)` becomes `pet-store-v2`.
    pub fn from_name(name: &str) -> Result<Self, InvalidId> {
        let mut text = String::new();
        for c in name.chars() {
            if c.is_ascii_alphanumeric() {
                text.push(c.to_ascii_lowercase());
            } else if !text.is_empty() && !text.ends_with('-') {
                text.push('-');
            }
        }
        text.truncate(SLUG_LIMIT);
        let text = text.trim_end_matches('-');
        if text.is_empty() {
            return Err(InvalidId::new(
                name,
                "no ASCII letter or digit to make an id from; give an id",
            ));
        }
        text.parse()
    }
}

impl<Kind> FromStr for Slug<Kind> {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        check_slug(text)?;
        Ok(Self { text: text.into(), kind: PhantomData })
    }
}

fn check_slug(text: &str) -> Result<(), InvalidId> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() || SLUG_LIMIT < text.len() || !text.chars().all(allowed) {
        return Err(InvalidId::new(text, "1 to 64 of the characters a-z, 0-9 and `-`"));
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(InvalidId::new(text, "a hyphen stands neither first nor last"));
    }
    Ok(())
}

// Implemented by hand: a derive would require the same traits of `Kind`, which has no values.
impl<Kind> Clone for Slug<Kind> {
    fn clone(&self) -> Self {
        Self { text: Arc::clone(&self.text), kind: PhantomData }
    }
}
impl<Kind> PartialEq for Slug<Kind> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl<Kind> Eq for Slug<Kind> {}
impl<Kind> PartialOrd for Slug<Kind> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<Kind> Ord for Slug<Kind> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}
impl<Kind> Hash for Slug<Kind> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}
impl<Kind> Borrow<str> for Slug<Kind> {
    fn borrow(&self) -> &str {
        &self.text
    }
}
impl<Kind> fmt::Debug for Slug<Kind> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}
impl<Kind> fmt::Display for Slug<Kind> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl<Kind> Serialize for Slug<Kind> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
impl<'de, Kind> Deserialize<'de> for Slug<Kind> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<Kind> JsonSchema for Slug<Kind> {
    fn schema_name() -> Cow<'static, str> {
        "Slug".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        json_schema!({
            "type": "string",
            "title": "an id: 1 to 64 of the characters a-z, 0-9 and inner `-`",
            "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
            "maxLength": SLUG_LIMIT,
        })
    }
}

/// Names a tool, for ever: `{source id}:{operation key}`.
///
/// The key is the upstream's own name of the operation and may hold any printable text; it is never parsed back.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("title" = "the id of a tool, `source:key`", "pattern" = "^[a-z0-9-]+:.+", "maxLength" = 512))]
pub struct ToolId(Arc<str>);

impl ToolId {
    /// Joins the source's id and the upstream's key of the operation.
    pub fn new(source: &SourceId, key: &str) -> Result<Self, InvalidId> {
        format!("{source}:{key}").parse()
    }

    /// The id as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of its source.
    pub fn source_id(&self) -> &str {
        self.0.split_once(':').expect("a tool id holds a colon").0
    }

    /// The upstream's key of the operation.
    pub fn operation_key(&self) -> &str {
        self.0.split_once(':').expect("a tool id holds a colon").1
    }
}

impl FromStr for ToolId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let Some((source, key)) = text.split_once(':') else {
            return Err(InvalidId::new(text, "a tool id is `source:key`"));
        };
        check_slug(source)?;
        if key.is_empty() || TOOL_ID_LIMIT < text.len() || key.chars().any(char::is_control) {
            return Err(InvalidId::new(
                text,
                "a tool id has at most 512 bytes, and a printable key after the colon",
            ));
        }
        Ok(Self(text.into()))
    }
}

impl Borrow<str> for ToolId {
    fn borrow(&self) -> &str {
        &self.0
    }
}
impl TryFrom<String> for ToolId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}
impl From<ToolId> for String {
    fn from(id: ToolId) -> Self {
        id.0.as_ref().to_owned()
    }
}
impl fmt::Debug for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_derived_from_a_name() {
        let id = |name: &str| SourceId::from_name(name).map(|id| id.to_string());
        assert_eq!(id("Pet Store (v2)").unwrap(), "pet-store-v2");
        assert_eq!(id("  Ünïcode & co. ").unwrap(), "n-code-co");
        assert_eq!(id(&"x".repeat(100)).unwrap().len(), SLUG_LIMIT);
        assert!(id("日本").is_err());
    }

    #[test]
    fn an_invalid_slug_is_rejected_with_the_rule() {
        for text in ["", "-a", "a-", "A", "a b", "a/b", "a:b", &"a".repeat(65)] {
            assert!(text.parse::<SourceId>().is_err(), "{text:?}");
        }
        let error = "Pet".parse::<SourceId>().unwrap_err().to_string();
        assert_eq!(error, "`Pet` is not an id: 1 to 64 of the characters a-z, 0-9 and `-`");
    }

    #[test]
    fn a_tool_key_is_kept_as_the_upstream_wrote_it() {
        let source: SourceId = "s".parse().unwrap();
        let id = ToolId::new(&source, "GET /a:b/{c}").unwrap();
        assert_eq!((id.as_str(), id.operation_key()), ("s:GET /a:b/{c}", "GET /a:b/{c}"));
        assert!(ToolId::new(&source, "").is_err());
        assert!(ToolId::new(&source, "a\nb").is_err());
    }
}
