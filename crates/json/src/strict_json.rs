//! Strict parsing of JSON for tokens, key sets and requests: no duplicate field at any depth, and nothing after the
//! value.
//!
//! Of two fields with one name, some parsers take the first and others the last. Signer and verifier must not see
//! different tokens (RFC 7519, section 4), nor client and server different requests. `serde_json` limits the depth to
//! 128 levels.
//!
//! The field name that `serde_json` reserves for raw values is rejected: its content would bypass these checks.

mod known_fields;
mod value_counter;

use std::fmt;

use serde::de;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

pub use self::known_fields::{KnownFields, KnownFieldsSeed, parse_known_fields};
pub use self::value_counter::ValueCounter;

/// Parses a whole value. The error may repeat a field name.
pub fn parse_value(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let room = (bytes.len() / BYTES_PER_FIELD).min(MAX_CAPACITY);
    parse_whole(bytes, StrictValueSeed { capacity: room, allow_duplicates: false })
}

/// Parses a whole value from a foreign system like most parsers do: of duplicate fields, the last one counts.
pub fn parse_tolerant(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    parse_whole(bytes, StrictValueSeed { capacity: 0, allow_duplicates: true })
}

fn parse_whole(bytes: &[u8], how: StrictValueSeed) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = how.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Parses a whole object.
pub fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    match parse_value(bytes)? {
        Value::Object(object) => Ok(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(serde_json::Error::custom("it is not an object"))
        }
    }
}

/// The first number in a JSON text that parsing would round: an integer beyond 64 bits, or more digits than a double
/// has. Callers that pass numbers on must not change them.
pub fn find_rounded_number(bytes: &[u8]) -> Option<&str> {
    let mut rest = bytes;
    while let Some(start) = rest.iter().position(|byte| matches!(byte, b'"' | b'-' | b'0'..=b'9')) {
        rest = rest.get(start..)?;
        if rest.first() == Some(&b'"') {
            rest = after_string(rest);
            continue;
        }
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(length)?;
        let number = std::str::from_utf8(number).ok()?;
        if !is_exact_number(number) {
            return Some(number);
        }
        rest = after;
    }
    None
}

/// The text after a string; `bytes` starts with its opening quotation mark.
fn after_string(bytes: &[u8]) -> &[u8] {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return bytes.get(at + 1..).unwrap_or_default(),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    &[]
}

/// A number of at most this many characters is exact, unless it has an exponent.
const EXACT_LENGTH: usize = 15;

fn is_exact_number(number: &str) -> bool {
    if number.len() <= EXACT_LENGTH && !number.contains(['e', 'E']) {
        return true;
    }
    if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    }
    // A double may have several shortest spellings; compare with the one that we would write.
    let double = number.parse().ok().and_then(Number::from_f64);
    double
        .is_some_and(|double| significant_digits(number) == significant_digits(&double.to_string()))
}

/// The significant digits of a number: without sign, point, exponent, and leading and trailing zeros.
fn significant_digits(number: &str) -> String {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

/// Deserialises one value at any depth.
#[derive(Default)]
pub struct StrictValueSeed {
    /// Capacity of an object at this level.
    capacity: usize,
    /// Whether duplicate fields are allowed; then the last one counts.
    allow_duplicates: bool,
}

impl StrictValueSeed {
    fn nested_seed(&self) -> Self {
        Self { capacity: 0, allow_duplicates: self.allow_duplicates }
    }
}

/// Typical size of a claim in bytes, to allocate the top-level object once.
const BYTES_PER_FIELD: usize = 32;
/// Largest initial capacity of an object, in fields.
const MAX_CAPACITY: usize = 32;

/// The field name that `serde_json` reserves for raw values. Deserialised again from a tree, its text would become
/// unchecked JSON: of any depth, with duplicate fields.
pub const RESERVED_NAME: &str = "$serde_json::private::RawValue";

impl<'de> DeserializeSeed<'de> for StrictValueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValueSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self.nested_seed())? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::with_capacity(self.capacity);
        while let Some(name) = members.next_key::<String>()? {
            check_field_name(&name)?;
            let value = members.next_value_seed(self.nested_seed())?;
            match object.entry(name) {
                Entry::Vacant(free) => drop(free.insert(value)),
                Entry::Occupied(mut taken) if self.allow_duplicates => drop(taken.insert(value)),
                Entry::Occupied(taken) => return Err(duplicate_field_error(taken.key())),
            }
        }
        Ok(Value::Object(object))
    }
}

/// Rejects the reserved field name.
pub fn check_field_name<E: de::Error>(name: &str) -> Result<(), E> {
    match name == RESERVED_NAME {
        true => {
            Err(E::custom(format!("no member is called `{RESERVED_NAME}`: give it another name")))
        }
        false => Ok(()),
    }
}

fn duplicate_field_error<E: de::Error>(name: &str) -> E {
    let name: String = name.chars().take(80).collect();
    E::custom(format!("the member `{name}` stands here twice"))
}

#[cfg(test)]
mod tests;
