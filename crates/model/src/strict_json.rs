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

/// The first integer of a JSON text that has more than 64 bits. It would be read as another, that looks much the same.
pub fn oversized_integer(text: &[u8]) -> Option<&str> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let mut rest = text;
    while let Some((&first, others)) = rest.split_first() {
        if first == b'"' {
            rest = after_string(others);
            continue;
        }
        let length = rest.iter().take_while(|byte| is_number(byte)).count();
        let (number, behind) = rest.split_at(length.max(1));
        rest = behind;
        let number = str::from_utf8(number).unwrap_or_default();
        let is_integer = number.ends_with(|c: char| c.is_ascii_digit())
            && number.strip_prefix('-').unwrap_or(number).bytes().all(|b| b.is_ascii_digit());
        if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
            return Some(number);
        }
    }
    None
}

/// What stands behind the end of a string.
fn after_string(text: &[u8]) -> &[u8] {
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => break,
            b'\\' => drop(rest.next()),
            _ => {}
        }
    }
    rest.as_slice()
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
    fn an_integer_that_would_be_rounded_is_found() {
        let found = |text: &str| oversized_integer(text.as_bytes()).map(str::to_owned);
        for number in ["18446744073709551616", "-9223372036854775809", "10000000000000000000000"] {
            for text in
                [number.to_owned(), format!("[1,{number}]"), format!(r#"{{"a\\":{number} }}"#)]
            {
                assert_eq!(found(&text).as_deref(), Some(number), "{text}");
            }
        }
        let fine = [
            "18446744073709551615",
            "-9223372036854775808",
            "1e30",
            "0.1234567890123456789012",
            "true",
            "-0",
        ];
        for number in fine {
            assert_eq!(found(&format!("[{number}]")), None);
        }
        assert_eq!(
            found(r#"{"99999999999999999999": "99999999999999999999\"99999999999999999999"}"#),
            None
        );
        assert_eq!(found(r#""99999999999999999999"#), None);
    }

    #[test]
    fn names_that_mean_something_to_a_library_mean_nothing_here() {
        let text = r#"{"a":{"$serde_json::private::RawValue":"{}"}}"#;
        assert_eq!(read(text).unwrap()["a"]["$serde_json::private::RawValue"], "{}");
    }
}
