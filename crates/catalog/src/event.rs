//! Events as they are stored: a type, and data as JSON.
//!
//! The type is a field of the envelope, so an event enum is read from two strings at once (`Stored`, below) and written
//! as two. An unknown event is not an error: a newer node may have written it. It stays in the journal unchanged.

use std::fmt;
use std::str::FromStr;

use model::{GroupId, KeyId, LabelId, PolicyId, SourceId, ToolId};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, VariantAccess, Visitor};
use serde::{Deserialize, Serialize, de};

use crate::api_key::ApiKeyEvent;
use crate::group::GroupEvent;
use crate::journal::{NewEvent, RecordedEvent, StreamName};
use crate::label::LabelEvent;
use crate::policy::PolicyEvent;
use crate::source::SourceEvent;
use crate::tool::ToolEvent;

/// A change that has happened, and the aggregate that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Source(SourceId, SourceEvent),
    Tool(ToolId, ToolEvent),
    Group(GroupId, GroupEvent),
    Policy(PolicyId, PolicyEvent),
    Label(LabelId, LabelEvent),
    Key(KeyId, ApiKeyEvent),
}

/// Why this program cannot interpret an event.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEvent {
    /// Only a newer version of the program knows the type.
    #[error("the type is not known to this version")]
    UnknownType,
    /// The type is known, but its data do not fit.
    #[error("the data cannot be read: {0}")]
    Data(String),
}

impl Event {
    /// Reads an event from its envelope.
    pub fn from_recorded(recorded: &RecordedEvent) -> Result<Self, UnreadableEvent> {
        let stream = recorded.stream.as_str();
        let stored = StoredEvent { kind: &recorded.kind, data: &recorded.data };
        if let Some(id) = stream.strip_prefix(StreamName::TOOL_PREFIX) {
            return Ok(Self::Tool(parse_id(id)?, ToolEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::SOURCE_PREFIX) {
            return Ok(Self::Source(parse_id(id)?, SourceEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::GROUP_PREFIX) {
            return Ok(Self::Group(parse_id(id)?, GroupEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::POLICY_PREFIX) {
            return Ok(Self::Policy(parse_id(id)?, PolicyEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::LABEL_PREFIX) {
            return Ok(Self::Label(parse_id(id)?, LabelEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::API_KEY_PREFIX) {
            return Ok(Self::Key(parse_id(id)?, ApiKeyEvent::deserialize(stored)?));
        }
        Err(UnreadableEvent::UnknownType)
    }
}

fn parse_id<T: FromStr<Err = model::InvalidId>>(id: &str) -> Result<T, UnreadableEvent> {
    id.parse().map_err(|error: model::InvalidId| UnreadableEvent::Data(error.to_string()))
}

/// Encodes an event enum as a type and its data.
pub(crate) fn encode_event(event: &impl Serialize) -> NewEvent {
    let text = serde_json::to_string(event).expect("events are JSON");
    // Serde writes an enum as `{"Type":{…}}`; event types need no escaping.
    let inner = text.strip_prefix("{\"").and_then(|text| text.strip_suffix('}'));
    let (kind, data) =
        inner.and_then(|inner| inner.split_once("\":")).expect("an event is a variant with fields");
    NewEvent { kind: kind.into(), data: data.into() }
}

/// A type and its data, deserialized as the enum that they were written from.
struct StoredEvent<'a> {
    kind: &'a str,
    data: &'a str,
}

impl<'de> Deserializer<'de> for StoredEvent<'de> {
    type Error = UnreadableEvent;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnreadableEvent> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for StoredEvent<'de> {
    type Error = UnreadableEvent;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), UnreadableEvent> {
        let kind = StrDeserializer::<de::value::Error>::new(self.kind);
        let variant = seed.deserialize(kind).map_err(|_| UnreadableEvent::UnknownType)?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for StoredEvent<'de> {
    type Error = UnreadableEvent;

    fn unit_variant(self) -> Result<(), UnreadableEvent> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, UnreadableEvent> {
        let mut json = serde_json::Deserializer::from_str(self.data);
        seed.deserialize(&mut json).map_err(UnreadableEvent::from_json_error)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, UnreadableEvent> {
        serde_json::Deserializer::from_str(self.data)
            .deserialize_seq(visitor)
            .map_err(UnreadableEvent::from_json_error)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, UnreadableEvent> {
        let mut json = serde_json::Deserializer::from_str(self.data);
        let value = json
            .deserialize_struct("", fields, visitor)
            .map_err(UnreadableEvent::from_json_error)?;
        json.end().map_err(UnreadableEvent::from_json_error)?;
        Ok(value)
    }
}

impl UnreadableEvent {
    fn from_json_error(error: serde_json::Error) -> Self {
        Self::Data(error.to_string())
    }
}

impl de::Error for UnreadableEvent {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Data(message.to_string())
    }
}

#[cfg(test)]
mod events_page;
#[cfg(test)]
mod tests;
