//! The size of a value as JSON, computed without building the text.

use std::io;

use serde::Serialize;
use serde_json::{Map, Value};

/// Exact size in bytes when serialised as JSON; 0 if serialising fails.
pub fn size(value: &impl Serialize) -> u64 {
    let mut room = Room(u64::MAX);
    match serde_json::to_writer(&mut room, value) {
        Ok(()) => u64::MAX - room.0,
        Err(_) => 0,
    }
}

/// Approximate size in bytes; counts string lengths without escaping.
pub fn about(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => values.iter().map(|value| about(value) + 1).sum::<usize>() + 1,
        Value::Object(members) => about_members(members),
    }
}

/// Approximate size of an object in bytes.
pub fn about_members(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, value)| name.len() + 4 + about(value)).sum::<usize>() + 1
}

/// Whether the JSON is longer than this many bytes. Stops at the limit, except inside a string.
pub fn is_longer(value: &impl Serialize, bytes: usize) -> bool {
    serde_json::to_writer(&mut Room(bytes as u64), value).is_err()
}

/// A writer that counts down the remaining bytes.
struct Room(u64);

impl io::Write for Room {
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
        assert_eq!(about(&value), "{'a':[1111,'ü']}".len());
        assert_eq!(size(&value), bytes as u64);
        assert!(!is_longer(&value, bytes));
        assert!(is_longer(&value, bytes - 1));
    }
}
