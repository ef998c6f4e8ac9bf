//! The envelope of an event: position, stream, version, time and origin.

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
pub struct StreamVersion(pub u64);

impl StreamVersion {
    /// Version of a stream without events.
    pub const NONE: Self = Self(0);

    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Display for StreamVersion {
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
    pub const SOURCE_PREFIX: &str = "upstream_source-";
    /// The prefix of a tool's stream.
    pub const TOOL_PREFIX: &str = "source_tool-";
    /// The prefix of a group's stream.
    pub const GROUP_PREFIX: &str = "tool_group-";
    /// The prefix of a policy's stream.
    pub const POLICY_PREFIX: &str = "access_policy-";
    /// The prefix of a label's stream.
    pub const LABEL_PREFIX: &str = "label-";
    /// The prefix of an API key's stream.
    pub const API_KEY_PREFIX: &str = "api_key-";

    /// Accepts any name: streams of aggregates that this version does not know are preserved.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
    pub fn for_source(id: &SourceId) -> Self {
        Self(format!("{}{id}", Self::SOURCE_PREFIX).into())
    }
    pub fn for_tool(id: &ToolId) -> Self {
        Self(format!("{}{id}", Self::TOOL_PREFIX).into())
    }
    pub fn for_group(id: &GroupId) -> Self {
        Self(format!("{}{id}", Self::GROUP_PREFIX).into())
    }
    pub fn for_policy(id: &PolicyId) -> Self {
        Self(format!("{}{id}", Self::POLICY_PREFIX).into())
    }
    pub fn for_label(id: &LabelId) -> Self {
        Self(format!("{}{id}", Self::LABEL_PREFIX).into())
    }
    pub fn for_api_key(id: &KeyId) -> Self {
        Self(format!("{}{id}", Self::API_KEY_PREFIX).into())
    }
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

/// The actor of a change, and the request that the change belongs to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeContext {
    pub actor: Actor,
    /// Groups all events that follow from one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    /// The direct cause: a request or an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<Box<str>>,
}

impl ChangeContext {
    /// A change by this actor that belongs to no larger request.
    pub fn by_actor(actor: &str) -> Self {
        Self { actor: Actor::new(actor), correlation_id: None, causation_id: None }
    }
}

impl Default for ChangeContext {
    fn default() -> Self {
        Self::by_actor("system")
    }
}

/// An event that has not been stored yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Event type, for example `ToolRegistered`.
    pub kind: Box<str>,
    /// Event data as JSON.
    pub data: Box<str>,
}

/// A stored event. `data` is the stored text, byte for byte, so fields that this program does not know are preserved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// Position in the journal.
    pub position: Position,
    /// Stream of the aggregate.
    pub stream: StreamName,
    /// Position in the stream.
    pub version: StreamVersion,
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// When the event was recorded, by the clock of the store. The order is that of positions, not of times.
    pub time: Timestamp,
    /// Who caused the change.
    pub actor: Box<str>,
    /// Groups all events that follow from one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    /// The direct cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<Box<str>>,
    /// Event data as JSON.
    #[serde(with = "raw")]
    pub data: Box<str>,
}

/// Serializes `data` as embedded JSON instead of a string that contains JSON.
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

/// Makes a step idempotent: the journal stores it at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyEntry {
    /// Chosen by the caller.
    pub key: Box<str>,
    /// Digest of the request: the same key with a different request is rejected.
    pub request: Digest,
    /// Answer for the caller, now and on a repetition.
    pub answer: Box<str>,
}

/// The answer that was stored under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotentAnswer {
    pub key: Box<str>,
    /// Digest of the request.
    pub request: Digest,
    /// Answer that the caller got.
    pub answer: Box<str>,
    /// Position of the last event of the step.
    pub position: Position,
}
