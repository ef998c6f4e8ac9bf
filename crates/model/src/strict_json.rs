//! JSON as tokens, key sets and requests must have it: no member twice at any depth, and nothing after it.
//!
//! Of two members with one name, one reader takes the first and another the last; whoever signs and whoever checks must
//! not see different tokens (RFC 7519, section 4), and whoever asks and whoever answers not different requests. Depth is bounded by the 128 levels of `serde_json`.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// Reads a whole value. The error may repeat the name of a member.
pub fn value(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let room = (bytes.len() / MEMBER).min(MEMBERS);
    let value = Strict { room }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Reads a whole object.
pub fn object(bytes: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    match value(bytes)? {
        Value::Object(object) => Ok(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(serde_json::Error::custom("it is not an object"))
        }
    }
}

/// The first number in a JSON text that would not be kept as it stands there: a whole number beyond 64 bits, or more
/// digits than a double has. Whoever passes numbers on must not change them on the way.
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

/// What comes after a text, which begins with its quotation mark.
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

/// Every number with so few characters is kept.
const SHORT: usize = 15;

fn is_kept(number: &str) -> bool {
    if number.len() <= SHORT {
        return true;
    }
    if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    }
    let Ok(double) = number.parse::<f64>() else { return false };
    double.is_finite() && significant(number) == significant(&format!("{double:e}"))
}

/// The digits of a number without its sign, its point, its exponent and the zeros around.
fn significant(number: &str) -> String {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

/// One value at any depth.
#[derive(Default)]
pub struct Strict {
    /// How many members an object is made for.
    room: usize,
}

/// The bytes a claim takes, roughly: an object with room for all of them does not grow again and again.
const MEMBER: usize = 32;
/// The most members room is made for before they come.
const MEMBERS: usize = 32;

const INSIDE: Strict = Strict { room: 0 };

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
        while let Some(element) = elements.next_element_seed(INSIDE)? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::with_capacity(self.room);
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(INSIDE)?;
            match object.entry(name) {
                Entry::Vacant(free) => drop(free.insert(value)),
                Entry::Occupied(taken) => {
                    let name: String = taken.key().chars().take(80).collect();
                    return Err(A::Error::custom(format!("the member `{name}` stands here twice")));
                }
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Option<Value> {
        object(text.as_bytes()).ok().map(Value::Object)
    }

    #[test]
    fn a_number_that_would_be_rounded_is_found() {
        for text in [
            "1",
            "-0",
            "18446744073709551615",
            "-9223372036854775808",
            "0.1",
            "1.10",
            "1e10",
            "1.5E-7",
            "0.30000000000000004",
            "100000000000000000000.0",
            r#"{"12345678901234567890123":"1e999 \" 99999999999999999999"}"#,
            "3.141592653589793",
            "1.7976931348623157e308",
            "0.000000000000000000001",
        ] {
            assert_eq!(rounded(text.as_bytes()), None, "{text}");
        }
        for number in [
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "0.1000000000000000055511151231257827",
            "3.14159265358979323846",
            "1.23456789012345678e5",
        ] {
            let text = format!(r#"{{"a":["x\\",{{"b":{number}}}]}}"#);
            assert_eq!(rounded(text.as_bytes()), Some(number));
        }
    }

    #[test]
    fn an_object_is_read_as_it_is() {
        let text = r#" {"a": [1, -2, 0.5, true, null, "\u00e9\n"], "b": {"a": {}}} "#;
        assert_eq!(read(text), Some(json!({"a": [1, -2, 0.5, true, null, "é\n"], "b": {"a": {}}})));
    }

    #[test]
    fn a_member_that_stands_there_twice_is_refused_at_any_depth() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"a":{"b":1,"c":2,"b":3}}"#,
            r#"{"a":[[{"b":1,"b":1}]]}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn the_member_that_stands_there_twice_is_named() {
        let error = value(br#"[{"b":1,"c":2,"b":1}]"#).unwrap_err().to_string();
        assert!(error.contains("`b` stands here twice"), "{error}");
        assert!(value(br#"[{"b":1},{"b":1}]"#).is_ok());
    }

    #[test]
    fn anything_but_one_object_is_refused() {
        for text in ["", "[]", "1", "null", r#""a""#, "{}{}", "{} x", "{'a':1}", "{\"a\":1,}", "{"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(object(b"{\"a\":\"\xff\"}").is_err());
        assert!(object(b"\xef\xbb\xbf{}").is_err());
        assert_eq!(read(r#"{"a":"\ud800"}"#), None);
        assert_eq!(read(r#"{"a":1e999}"#), None);
        assert_eq!(read(r#"{"a":NaN}"#), None);
    }

    #[test]
    fn what_is_too_deep_is_refused_without_a_crash() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(100)).is_some());
        assert!(read(&nested(128)).is_none());
        assert!(read(&nested(8000)).is_none());
    }

    #[test]
    fn names_that_mean_something_to_a_library_mean_nothing_here() {
        let text = r#"{"a":{"$serde_json::private::RawValue":"{}"}}"#;
        assert_eq!(read(text).unwrap()["a"]["$serde_json::private::RawValue"], "{}");
    }
}
