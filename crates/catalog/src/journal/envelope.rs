//! What is written on the outside of an event.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use model::{Actor, Digest, GroupId, KeyId, LabelId, PolicyId, SourceId, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A place in the journal. The first event has position 1.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Position(pub u64);

/// A place in one stream. The first event has version 1.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// Of a stream without events.
    pub const NONE: Self = Self(0);

    /// The next one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of the stream of one aggregate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamName(Arc<str>);

impl StreamName {
    /// The prefix of a source's stream.
    pub const SOURCE: &str = "upstream_source-";
    /// The prefix of a tool's stream.
    pub const TOOL: &str = "source_tool-";
    /// The prefix of a group's stream.
    pub const GROUP: &str = "tool_group-";
    /// The prefix of a policy's stream.
    pub const POLICY: &str = "access_policy-";
    /// The prefix of a label's stream.
    pub const LABEL: &str = "label-";
    /// The prefix of an API key's stream.
    pub const KEY: &str = "api_key-";

    /// Any name; streams of future kinds are kept too.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
    /// The stream of a source.
    pub fn source(id: &SourceId) -> Self {
        Self(format!("{}{id}", Self::SOURCE).into())
    }
    /// The stream of a tool.
    pub fn tool(id: &ToolId) -> Self {
        Self(format!("{}{id}", Self::TOOL).into())
    }
    /// The stream of a group.
    pub fn group(id: &GroupId) -> Self {
        Self(format!("{}{id}", Self::GROUP).into())
    }
    /// The stream of a policy.
    pub fn policy(id: &PolicyId) -> Self {
        Self(format!("{}{id}", Self::POLICY).into())
    }
    /// The stream of a label.
    pub fn label(id: &LabelId) -> Self {
        Self(format!("{}{id}", Self::LABEL).into())
    }
    /// The stream of an API key.
    pub fn key(id: &KeyId) -> Self {
        Self(format!("{}{id}", Self::KEY).into())
    }
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// Who wants a change, and as part of what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Context {
    /// Who.
    pub actor: Actor,
    /// Ties together everything that followed from one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    /// What led to it directly: a request, an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<Box<str>>,
}

impl Context {
    /// By this actor, as part of nothing larger.
    pub fn by(actor: &str) -> Self {
        Self { actor: Actor::new(actor), correlation_id: None, causation_id: None }
    }
}

impl Default for Context {
    fn default() -> Self {
        Self::by("system")
    }
}

/// An event that has no place yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Its type: `ToolRegistered`.
    pub kind: Box<str>,
    /// What happened, as JSON.
    pub data: Box<str>,
}

/// An event in its place. `data` is the stored text, byte for byte: what this program does not understand is not lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its place among all events.
    pub position: Position,
    /// Whose event it is.
    pub stream: StreamName,
    /// Its place in the stream.
    pub version: Version,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// When it was recorded, by the store's clock. Order is by position, not by time.
    pub time: Timestamp,
    /// Who wanted it.
    pub actor: Box<str>,
    /// Ties together everything that followed from one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    /// What led to it directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<Box<str>>,
    /// What happened, as JSON.
    #[serde(with = "raw")]
    pub data: Box<str>,
}

/// The text of `data` stands in an export as JSON, not as a string with JSON in it.
mod raw {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, ser};

    use super::RawValue;

    pub(super) fn serialize<S: Serializer>(data: &str, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(data).map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<str>, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Box::<str>::from)
    }
}

/// Makes a step happen at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// Chosen by the caller.
    pub key: Box<str>,
    /// Of the request: the same key with another request is refused.
    pub request: Digest,
    /// What the caller is told, now and again.
    pub answer: Box<str>,
}

/// The answer that was given under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The key.
    pub key: Box<str>,
    /// Of the request.
    pub request: Digest,
    /// What the caller was told.
    pub answer: Box<str>,
    /// Of the last event of the step.
    pub position: Position,
}
