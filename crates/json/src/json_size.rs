//! The size of a value as JSON, computed without building the text.

use std::io;

use serde::Serialize;
use serde_json::{Map, Value};

/// Exact size in bytes when serialised as JSON; 0 if serialising fails.
pub fn serialized_size(value: &impl Serialize) -> u64 {
    let mut room = ByteBudget(u64::MAX);
    match serde_json::to_writer(&mut room, value) {
        Ok(()) => u64::MAX - room.0,
        Err(_) => 0,
    }
}

/// Approximate size in bytes; counts string lengths without escaping.
pub fn estimate_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => {
            values.iter().map(|value| estimate_size(value) + 1).sum::<usize>() + 1
        }
        Value::Object(members) => estimate_object_size(members),
    }
}

/// Approximate size of an object in bytes.
pub fn estimate_object_size(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, value)| name.len() + 4 + estimate_size(value)).sum::<usize>() + 1
}

/// Whether the JSON is longer than this many bytes. Stops at the limit, except inside a string.
pub fn exceeds_size(value: &impl Serialize, bytes: usize) -> bool {
    serde_json::to_writer(&mut ByteBudget(bytes as u64), value).is_err()
}

/// A writer that counts down the remaining bytes.
struct ByteBudget(u64);

impl io::Write for ByteBudget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_size_equals_the_length_of_the_json() {
        let value = json!({"a": [1, "ü"]});
        let bytes = value.to_string().len();
        assert_eq!(estimate_size(&value), "{'a':[1111,'ü']}".len());
        assert_eq!(serialized_size(&value), bytes as u64);
        assert!(!exceeds_size(&value, bytes));
        assert!(exceeds_size(&value, bytes - 1));
    }
}
