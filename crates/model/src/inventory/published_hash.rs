//! The published hash of an inventory (requirement S7): the first 16 hexadecimal characters of SHA-256 over the
//! name-sorted list of `{name, method, path, parameters as key-sorted JSON}`, in the format of Python's `json.dumps`
//! (a space after `,` and `:`, ASCII only), so that other programs can compute it.
//!
//! The parameters of large specifications take tens of megabytes, mostly repeated definitions: each definition is
//! written once, and the whole text is never in memory.

use serde_json::{Map, Value};

use crate::Manifest;
use crate::digest::DigestBuilder;

/// The incremental hash; manifests must be added in the order of their names.
#[derive(Debug)]
pub(super) struct PublishedHashBuilder {
    hashing: DigestBuilder,
    last: Option<Box<str>>,
}

impl PublishedHashBuilder {
    pub(super) fn new() -> Self {
        Self { hashing: DigestBuilder::new(), last: None }
    }

    pub(super) fn add(&mut self, manifest: &Manifest) {
        debug_assert!(
            self.last.as_ref().is_none_or(|last| *last <= manifest.name),
            "names are in order"
        );
        let mut text = String::from(if self.last.is_none() { "[" } else { ", " });
        text.push_str("{\"method\": ");
        write_ascii_string(&manifest.method, &mut text);
        text.push_str(", \"name\": ");
        write_ascii_string(&manifest.name, &mut text);
        text.push_str(", \"parameters\": \"");
        self.hashing.update(&text);
        manifest.input_schema.write_published(|piece| self.hashing.update(piece));
        text = String::from("\", \"path\": ");
        write_ascii_string(&manifest.path, &mut text);
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
pub(crate) fn text_around_definitions(root: &Map<String, Value>) -> (String, String) {
    let mut entries: Vec<(&String, &Value)> = root.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    let text = |entries: &[(&String, &Value)]| {
        let mut text = String::new();
        for (index, (key, value)) in entries.iter().enumerate() {
            if 0 < index {
                text.push_str(", ");
            }
            write_ascii_string(key, &mut text);
            text.push_str(": ");
            write_python_json(value, &mut text);
        }
        escape_ascii(&text)
    };
    let at = entries.partition_point(|(key, _)| key.as_str() < "$defs");
    let (before, after) = entries.split_at(at);
    (format!("{{{}", text(before)), format!("{}}}", text(after)))
}

/// Key-sorted JSON in Python's format, escaped for use inside a JSON string.
pub(crate) fn quoted_python_json(value: &Value) -> String {
    let mut text = String::new();
    write_python_json(value, &mut text);
    escape_ascii(&text)
}

/// Escapes ASCII text for use inside a JSON string.
fn escape_ascii(text: &str) -> String {
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
fn write_python_json(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if 0 < index {
                    text.push_str(", ");
                }
                write_python_json(item, text);
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
                write_ascii_string(key, text);
                text.push_str(": ");
                write_python_json(value, text);
            }
            text.push('}');
        }
        Value::String(string) => write_ascii_string(string, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

fn write_ascii_string(string: &str, text: &mut String) {
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
