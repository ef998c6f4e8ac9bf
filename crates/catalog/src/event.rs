//! Events as they are stored: a type, and data as JSON.
//!
//! The type is a field of the envelope, so an event enum is read from two strings at once (`Stored`, below) and written
//! as two. An unknown event is not an error: a newer node may have written it. It stays in the journal unchanged.

use std::fmt;
use std::str::FromStr;

use model::{GroupId, KeyId, LabelId, PolicyId, SourceId, ToolId};
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, VariantAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::group::GroupEvent;
use crate::journal::{NewEvent, Recorded, StreamName};
use crate::key::KeyEvent;
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
    Key(KeyId, KeyEvent),
}

/// Why this program cannot interpret an event.
#[derive(Debug, thiserror::Error)]
pub enum NotUnderstood {
    /// Only a newer version of the program knows the type.
    #[error("the type is not known to this version")]
    UnknownType,
    /// The type is known, but its data do not fit.
    #[error("the data cannot be read: {0}")]
    Data(String),
}

impl Event {
    /// Reads an event from its envelope.
    pub fn read(recorded: &Recorded) -> Result<Self, NotUnderstood> {
        let stream = recorded.stream.as_str();
        let stored = Stored { kind: &recorded.kind, data: &recorded.data };
        if let Some(id) = stream.strip_prefix(StreamName::TOOL) {
            return Ok(Self::Tool(parse(id)?, ToolEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::SOURCE) {
            return Ok(Self::Source(parse(id)?, SourceEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::GROUP) {
            return Ok(Self::Group(parse(id)?, GroupEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::POLICY) {
            return Ok(Self::Policy(parse(id)?, PolicyEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::LABEL) {
            return Ok(Self::Label(parse(id)?, LabelEvent::deserialize(stored)?));
        }
        if let Some(id) = stream.strip_prefix(StreamName::KEY) {
            return Ok(Self::Key(parse(id)?, KeyEvent::deserialize(stored)?));
        }
        Err(NotUnderstood::UnknownType)
    }
}

fn parse<T: FromStr<Err = model::InvalidId>>(id: &str) -> Result<T, NotUnderstood> {
    id.parse().map_err(|error: model::InvalidId| NotUnderstood::Data(error.to_string()))
}

/// Encodes an event enum as a type and its data.
pub(crate) fn write(event: &impl Serialize) -> NewEvent {
    let text = serde_json::to_string(event).expect("events are JSON");
    // Serde writes an enum as `{"Type":{…}}`; event types need no escaping.
    let inner = text.strip_prefix("{\"").and_then(|text| text.strip_suffix('}'));
    let (kind, data) =
        inner.and_then(|inner| inner.split_once("\":")).expect("an event is a variant with fields");
    NewEvent { kind: kind.into(), data: data.into() }
}

/// A type and its data, deserialized as the enum that they were written from.
struct Stored<'a> {
    kind: &'a str,
    data: &'a str,
}

impl<'de> Deserializer<'de> for Stored<'de> {
    type Error = NotUnderstood;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotUnderstood> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for Stored<'de> {
    type Error = NotUnderstood;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), NotUnderstood> {
        let kind = StrDeserializer::<de::value::Error>::new(self.kind);
        let variant = seed.deserialize(kind).map_err(|_| NotUnderstood::UnknownType)?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Stored<'de> {
    type Error = NotUnderstood;

    fn unit_variant(self) -> Result<(), NotUnderstood> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, NotUnderstood> {
        let mut json = serde_json::Deserializer::from_str(self.data);
        seed.deserialize(&mut json).map_err(NotUnderstood::custom_from)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, NotUnderstood> {
        serde_json::Deserializer::from_str(self.data)
            .deserialize_seq(visitor)
            .map_err(NotUnderstood::custom_from)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NotUnderstood> {
        let mut json = serde_json::Deserializer::from_str(self.data);
        let value =
            json.deserialize_struct("", fields, visitor).map_err(NotUnderstood::custom_from)?;
        json.end().map_err(NotUnderstood::custom_from)?;
        Ok(value)
    }
}

impl NotUnderstood {
    fn custom_from(error: serde_json::Error) -> Self {
        Self::Data(error.to_string())
    }
}

impl de::Error for NotUnderstood {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Data(message.to_string())
    }
}

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;
