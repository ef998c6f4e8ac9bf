//! How long something is as JSON, without writing it down.

use std::io;

use serde::Serialize;
use serde_json::{Map, Value};

/// How many bytes it takes as JSON.
pub fn size(value: &impl Serialize) -> u64 {
    let mut room = Room(u64::MAX);
    match serde_json::to_writer(&mut room, value) {
        Ok(()) => u64::MAX - room.0,
        Err(_) => 0,
    }
}

/// About how many bytes it takes: no text is looked into, only at how long it is.
pub fn about(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => values.iter().map(|value| about(value) + 1).sum::<usize>() + 1,
        Value::Object(members) => about_members(members),
    }
}

/// The same for an object.
pub fn about_members(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, value)| name.len() + 4 + about(value)).sum::<usize>() + 1
}

/// Whether it takes more bytes than this. It is not gone through further than that, but to the end of a text.
pub fn is_longer(value: &impl Serialize, bytes: usize) -> bool {
    serde_json::to_writer(&mut Room(bytes as u64), value).is_err()
}

/// For so many bytes more.
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
    fn json_is_as_long_as_its_bytes() {
        let value = json!({"a": [1, "ü"]});
        let bytes = value.to_string().len();
        assert_eq!(about(&value), "{'a':[1111,'ü']}".len());
        assert_eq!(size(&value), bytes as u64);
        assert!(!is_longer(&value, bytes));
        assert!(is_longer(&value, bytes - 1));
    }
}
