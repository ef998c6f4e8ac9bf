//! Strict parsing of JSON for tokens, key sets and requests: no duplicate field at any depth, and nothing after the
//! value.
//!
//! Of two fields with one name, some parsers take the first and others the last. Signer and verifier must not see
//! different tokens (RFC 7519, section 4), nor client and server different requests. `serde_json` limits the depth to
//! 128 levels.
//!
//! The field name that `serde_json` reserves for raw values is rejected: its content would bypass these checks.

mod members;
mod parts;

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

pub use self::members::{Members, Object, members};
pub use self::parts::Parts;

/// Parses a whole value. The error may repeat a field name.
pub fn value(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let room = (bytes.len() / MEMBER).min(MEMBERS);
    whole(bytes, Strict { room, last_counts: false })
}

/// Parses a whole value from a foreign system like most parsers do: of duplicate fields, the last one counts.
pub fn tolerant(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    whole(bytes, Strict { room: 0, last_counts: true })
}

fn whole(bytes: &[u8], how: Strict) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = how.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Parses a whole object.
pub fn object(bytes: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    match value(bytes)? {
        Value::Object(object) => Ok(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(serde_json::Error::custom("it is not an object"))
        }
    }
}

/// The first number in a JSON text that parsing would round: an integer beyond 64 bits, or more digits than a double
/// has. Callers that pass numbers on must not change them.
pub fn rounded(bytes: &[u8]) -> Option<&str> {
    let mut rest = bytes;
    while let Some(start) = rest.iter().position(|byte| matches!(byte, b'"' | b'-' | b'0'..=b'9')) {
        rest = rest.get(start..)?;
        if rest.first() == Some(&b'"') {
            rest = after_text(rest);
            continue;
        }
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(length)?;
        let number = std::str::from_utf8(number).ok()?;
        if !is_kept(number) {
            return Some(number);
        }
        rest = after;
    }
    None
}

/// The text after a string; `bytes` starts with its opening quotation mark.
fn after_text(bytes: &[u8]) -> &[u8] {
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
const SHORT: usize = 15;

fn is_kept(number: &str) -> bool {
    if number.len() <= SHORT && !number.contains(['e', 'E']) {
        return true;
    }
    if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    }
    // A double may have several shortest spellings; compare with the one that we would write.
    let double = number.parse().ok().and_then(Number::from_f64);
    double.is_some_and(|double| significant(number) == significant(&double.to_string()))
}

/// The significant digits of a number: without sign, point, exponent, and leading and trailing zeros.
fn significant(number: &str) -> String {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

/// Deserialises one value at any depth.
#[derive(Default)]
pub struct Strict {
    /// Capacity of an object at this level.
    room: usize,
    /// Whether duplicate fields are allowed; then the last one counts.
    last_counts: bool,
}

impl Strict {
    fn inside(&self) -> Self {
        Self { room: 0, last_counts: self.last_counts }
    }
}

/// Typical size of a claim in bytes, to allocate the top-level object once.
const MEMBER: usize = 32;
/// Largest initial capacity of an object, in fields.
const MEMBERS: usize = 32;

/// The field name that `serde_json` reserves for raw values. Deserialised again from a tree, its text would become
/// unchecked JSON: of any depth, with duplicate fields.
pub const RESERVED: &str = "$serde_json::private::RawValue";

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
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
        while let Some(element) = elements.next_element_seed(self.inside())? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::with_capacity(self.room);
        while let Some(name) = members.next_key::<String>()? {
            check_name(&name)?;
            let value = members.next_value_seed(self.inside())?;
            match object.entry(name) {
                Entry::Vacant(free) => drop(free.insert(value)),
                Entry::Occupied(mut taken) if self.last_counts => drop(taken.insert(value)),
                Entry::Occupied(taken) => return Err(twice(taken.key())),
            }
        }
        Ok(Value::Object(object))
    }
}

/// Rejects the reserved field name.
pub fn check_name<E: de::Error>(name: &str) -> Result<(), E> {
    match name == RESERVED {
        true => Err(E::custom(format!("no member is called `{RESERVED}`: give it another name"))),
        false => Ok(()),
    }
}

fn twice<E: de::Error>(name: &str) -> E {
    let name: String = name.chars().take(80).collect();
    E::custom(format!("the member `{name}` stands here twice"))
}

#[cfg(test)]
mod tests;
