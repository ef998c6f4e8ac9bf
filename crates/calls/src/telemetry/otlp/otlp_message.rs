//! An OTLP message: every field has its number and its name, so that one description is written as protobuf and as
//! JSON.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// The wire type of a protobuf field: the low bits of its tag.
const WIRE_VARINT: u8 = 0;
const WIRE_FIXED64: u8 = 1;
const WIRE_LENGTH_DELIMITED: u8 = 2;

/// The fields of a message: the protobuf number and the JSON name of each.
#[derive(Debug)]
pub(in crate::telemetry) struct OtlpMessage<'a>(Vec<(u8, &'static str, OtlpField<'a>)>);

/// The value of a field.
#[derive(Debug)]
pub(super) enum OtlpField<'a> {
    Text(&'a str),
    /// Hexadecimal digits in JSON.
    Id(Vec<u8>),
    Flag(bool),
    /// An enum value below 128.
    Choice(u8),
    /// A 64-bit integer: `fixed64`, or `sfixed64` where the value is never that large. A string in JSON.
    Fixed(u64),
    Double(f64),
    Fixeds(Vec<u64>),
    Doubles(Vec<f64>),
    Message(OtlpMessage<'a>),
    Messages(Vec<OtlpMessage<'a>>),
}

impl<'a> OtlpMessage<'a> {
    pub(super) fn from_fields(
        fields: impl IntoIterator<Item = (u8, &'static str, OtlpField<'a>)>,
    ) -> Self {
        Self(fields.into_iter().collect())
    }

    pub(super) fn push_field(&mut self, number: u8, name: &'static str, field: OtlpField<'a>) {
        self.0.push((number, name, field));
    }

    pub(super) fn to_json(&self) -> Json {
        let members = self.0.iter().map(|(_, name, field)| ((*name).to_owned(), field.to_json()));
        Json::Object(members.collect())
    }

    pub(super) fn to_protobuf(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, _, field) in &self.0 {
            field.write_protobuf(*number, &mut bytes);
        }
        bytes
    }
}

impl OtlpField<'_> {
    fn to_json(&self) -> Json {
        match self {
            Self::Text(text) => (*text).into(),
            Self::Id(bytes) => hex_digits(bytes).into(),
            Self::Flag(flag) => (*flag).into(),
            Self::Choice(choice) => (*choice).into(),
            Self::Fixed(number) => number.to_string().into(),
            Self::Double(number) => (*number).into(),
            Self::Fixeds(numbers) => numbers.iter().map(ToString::to_string).collect(),
            Self::Doubles(numbers) => numbers.iter().copied().collect(),
            Self::Message(message) => message.to_json(),
            Self::Messages(messages) => messages.iter().map(OtlpMessage::to_json).collect(),
        }
    }

    /// Writes every field, also if it is zero or empty: within a `oneof`, its presence is significant.
    fn write_protobuf(&self, number: u8, into: &mut Vec<u8>) {
        let mut sized = |bytes: &[u8]| {
            into.push(field_tag(number, WIRE_LENGTH_DELIMITED));
            write_length(bytes.len(), into);
            into.extend_from_slice(bytes);
        };
        match self {
            Self::Text(text) => sized(text.as_bytes()),
            Self::Id(bytes) => sized(bytes),
            Self::Flag(flag) => into.extend([field_tag(number, WIRE_VARINT), u8::from(*flag)]),
            Self::Choice(choice) => into.extend([field_tag(number, WIRE_VARINT), *choice]),
            Self::Fixed(whole) => write_fixed64(number, whole.to_le_bytes(), into),
            Self::Double(double) => write_fixed64(number, double.to_le_bytes(), into),
            Self::Fixeds(numbers) => {
                sized(&numbers.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>());
            }
            Self::Doubles(numbers) => {
                sized(&numbers.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>());
            }
            Self::Message(message) => sized(&message.to_protobuf()),
            Self::Messages(messages) => {
                messages.iter().for_each(|message| sized(&message.to_protobuf()));
            }
        }
    }
}

fn hex_digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes what is written");
        text
    })
}

fn write_fixed64(number: u8, bytes: [u8; 8], into: &mut Vec<u8>) {
    into.push(field_tag(number, WIRE_FIXED64));
    into.extend(bytes);
}

/// A tag in one byte: all field numbers here are at most 15.
fn field_tag(number: u8, begins: u8) -> u8 {
    number << 3 | begins
}

/// Writes a varint: seven bits at a time, the low ones first.
fn write_length(length: usize, into: &mut Vec<u8>) {
    let mut rest = length;
    while 0x80 <= rest {
        into.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    into.push(rest as u8);
}
