//! The published hash of an inventory (requirement S7): the first 16 hexadecimal characters of SHA-256 over the
//! name-sorted list of `{name, method, path, parameters as key-sorted JSON}`, in the format of Python's `json.dumps`
//! (a space after `,` and `:`, ASCII only), so that other programs can compute it.
//!
//! The parameters of large specifications take tens of megabytes, mostly repeated definitions: each definition is
//! written once, and the whole text is never in memory.

use serde_json::{Map, Value};

use crate::Manifest;
use crate::digest::Hashing;

/// The incremental hash; manifests must be added in the order of their names.
#[derive(Debug)]
pub(super) struct PublishedHash {
    hashing: Hashing,
    last: Option<Box<str>>,
}

impl PublishedHash {
    pub(super) fn new() -> Self {
        Self { hashing: Hashing::new(), last: None }
    }

    pub(super) fn add(&mut self, manifest: &Manifest) {
        debug_assert!(
            self.last.as_ref().is_none_or(|last| *last <= manifest.name),
            "names are in order"
        );
        let mut text = String::from(if self.last.is_none() { "[" } else { ", " });
        text.push_str("{\"method\": ");
        write_ascii(&manifest.method, &mut text);
        text.push_str(", \"name\": ");
        write_ascii(&manifest.name, &mut text);
        text.push_str(", \"parameters\": \"");
        self.hashing.update(&text);
        manifest.input_schema.publish(|piece| self.hashing.update(piece));
        text = String::from("\", \"path\": ");
        write_ascii(&manifest.path, &mut text);
        text.push('}');
        self.hashing.update(&text);
        self.last = Some(manifest.name.clone());
    }

    pub(super) fn finish(mut self) -> String {
        self.hashing.update(if self.last.is_none() { "[]" } else { "]" });
        self.hashing.finish().to_string().chars().take(16).collect()
    }
}

/// The parts of a key-sorted object before and after `$defs`.
pub(crate) fn around(root: &Map<String, Value>) -> (String, String) {
    let mut entries: Vec<(&String, &Value)> = root.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    let text = |entries: &[(&String, &Value)]| {
        let mut text = String::new();
        for (index, (key, value)) in entries.iter().enumerate() {
            if 0 < index {
                text.push_str(", ");
            }
            write_ascii(key, &mut text);
            text.push_str(": ");
            write(value, &mut text);
        }
        escaped(&text)
    };
    let at = entries.partition_point(|(key, _)| key.as_str() < "$defs");
    let (before, after) = entries.split_at(at);
    (format!("{{{}", text(before)), format!("{}}}", text(after)))
}

/// Key-sorted JSON in Python's format, escaped for use inside a JSON string.
pub(crate) fn quoted(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    escaped(&text)
}

/// Escapes ASCII text for use inside a JSON string.
fn escaped(text: &str) -> String {
    let mut escaped = Vec::with_capacity(text.len() + text.len() / 4);
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    String::from_utf8(escaped).expect("ASCII stays ASCII")
}

/// Key-sorted JSON in Python's format.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if 0 < index {
                    text.push_str(", ");
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(object) => {
            let mut entries: Vec<(&String, &Value)> = object.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if 0 < index {
                    text.push_str(", ");
                }
                write_ascii(key, text);
                text.push_str(": ");
                write(value, text);
            }
            text.push('}');
        }
        Value::String(string) => write_ascii(string, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

fn write_ascii(string: &str, text: &mut String) {
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    if string.bytes().all(plain) {
        text.push('"');
        text.push_str(string);
        return text.push('"');
    }
    for c in serde_json::to_string(string).expect("a text is JSON").chars() {
        if (' '..='~').contains(&c) {
            text.push(c);
        } else {
            let mut units = [0; 2];
            text.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
}
