//! Deserializes JSON values; errors name the field.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::problem::Problem;

/// Deserializes a value; errors report the field path.
pub fn deserialize_value<T: DeserializeOwned>(value: &Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "" } else { path.as_str() };
        let message = error.inner().to_string();
        match split_field_message(value, error.path(), &message) {
            Some((name, rest)) => Problem::invalid_field(name, rest).nested_under(field),
            None => Problem::invalid_field(field, message),
        }
    })
}

/// Splits a message about one field of the value, such as "`value` does not suit `equals`", into field and message.
fn split_field_message<'a>(
    value: &Value,
    path: &serde_path_to_error::Path,
    message: &'a str,
) -> Option<(&'a str, &'a str)> {
    let mut place = value;
    for segment in path.iter() {
        place = match segment {
            Segment::Seq { index } => place.get(index)?,
            Segment::Map { key } => place.get(key)?,
            Segment::Enum { .. } | Segment::Unknown => place,
        };
    }
    let (name, rest) = message.strip_prefix('`')?.split_once("` ")?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (place.is_object() && is_name).then_some((name, rest))
}
