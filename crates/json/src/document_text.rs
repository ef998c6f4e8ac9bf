//! Reads a document as it was served, JSON or YAML 1.2, into one JSON value.
//!
//! The document is untrusted: its size, its depth and the copies made by its aliases are limited. JSON keeps the last
//! of several fields with one name; YAML forbids duplicate keys, and this reader rejects them.

mod document_node;
mod field_positions;
mod yaml;

use std::fmt;

use serde_json::Value;

use crate::strict_json::RESERVED_NAME;

pub use self::document_node::{DocumentNode, DocumentObject};
pub use self::field_positions::{FieldPositions, field_path, item_path};

/// The maximum length of a document, in bytes.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The maximum number of values in a document, estimated by commas, brackets and line ends. In memory a value takes
/// about 100 bytes, however short its text is.
const MAX_VALUES: usize = 2_000_000;
/// The maximum nesting depth of lists and objects; `serde_json` has the same limit.
const MAX_DEPTH: usize = 128;

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("the document has {bytes} bytes, and at most {MAX_BYTES} are read")]
    TooLong { bytes: usize },
    #[error("the document has more than {MAX_VALUES} values")]
    TooManyValues,
    #[error("the document is UTF-16: save it as UTF-8")]
    Utf16,
    #[error("byte {offset} of the document is not UTF-8: save it as UTF-8")]
    NotUtf8 { offset: usize },
    #[error("the document is empty")]
    Empty,
    #[error("the document is not JSON: {reason}")]
    NotJson { reason: String },
    #[error("the document is not YAML: {reason} at {at}")]
    NotYaml { reason: String, at: TextPosition },
    #[error("a second document starts at {at}: keep one, and serve the others by themselves")]
    SecondDocument { at: TextPosition },
    #[error("the key `{key}` at {at} was there before: remove one of them")]
    DuplicateKey { key: String, at: TextPosition },
    #[error("no key is called `{RESERVED_NAME}`, as at {at}: give it another name")]
    ReservedKey { at: TextPosition },
    #[error("the key at {at} is a list or a mapping: write a text")]
    KeyIsNoText { at: TextPosition },
    #[error("`<<` at {at} takes a mapping or a list of mappings")]
    NotMergeable { at: TextPosition },
    #[error("the alias at {at} stands inside the value it means: write that value out")]
    EndlessAlias { at: TextPosition },
    #[error("the aliases up to {at} copy too much: write their values out")]
    TooManyCopies { at: TextPosition },
    #[error("more than {MAX_DEPTH} lists and mappings stand inside each other at {at}")]
    TooDeep { at: TextPosition },
    #[error(
        "the list or mapping in brackets around {at} is too long: write it without brackets, or the whole document as JSON"
    )]
    FlowTooLong { at: TextPosition },
}

impl DocumentError {
    /// The position of the error, if known.
    pub fn position(&self) -> Option<TextPosition> {
        match self {
            Self::TooLong { .. }
            | Self::TooManyValues
            | Self::Utf16
            | Self::NotUtf8 { .. }
            | Self::Empty
            | Self::NotJson { .. } => None,
            Self::NotYaml { at, .. }
            | Self::SecondDocument { at }
            | Self::DuplicateKey { at, .. }
            | Self::ReservedKey { at }
            | Self::KeyIsNoText { at }
            | Self::NotMergeable { at }
            | Self::EndlessAlias { at }
            | Self::TooManyCopies { at }
            | Self::TooDeep { at }
            | Self::FlowTooLong { at } => Some(*at),
        }
    }
}

/// A position in a document; both numbers start at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// The line number.
    pub line: usize,
    /// The number of the character in the line.
    pub column: usize,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// Reads a JSON or YAML document.
pub fn read_document(bytes: &[u8]) -> Result<Value, DocumentError> {
    parse_document(&decode_document(bytes.to_owned())?).map(DocumentNode::into_value)
}

/// Reads a JSON or YAML document into a tree that borrows from it.
pub fn parse_document(text: &str) -> Result<DocumentNode<'_>, DocumentError> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    if has_too_many_values(text, is_json) {
        return Err(DocumentError::TooManyValues);
    }
    if is_json { read_json(text) } else { yaml::read_yaml(text) }
}

/// Whether a document exceeds the limit on values. In JSON, a line end separates nothing.
fn has_too_many_values(text: &str, is_json: bool) -> bool {
    let separates =
        |byte: &&u8| matches!(byte, b',' | b'[' | b'{') || (**byte == b'\n' && !is_json);
    MAX_VALUES < text.as_bytes().iter().filter(separates).count()
}

/// Decodes a UTF-8 document and removes its byte order mark.
pub fn decode_document(bytes: Vec<u8>) -> Result<String, DocumentError> {
    if MAX_BYTES < bytes.len() {
        return Err(DocumentError::TooLong { bytes: bytes.len() });
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(DocumentError::Utf16);
    }
    let mut text = String::from_utf8(bytes)
        .map_err(|error| DocumentError::NotUtf8 { offset: error.utf8_error().valid_up_to() })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

/// Reads JSON, or YAML that looks like it: with unquoted keys, comments, or a comma before a closing bracket.
///
/// The YAML parser accepts both, but it is slower and does not support surrogate pairs (`\ud83d\ude00`).
fn read_json(text: &str) -> Result<DocumentNode<'_>, DocumentError> {
    let error = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    match yaml::read_yaml(text) {
        Err(DocumentError::NotYaml { .. } | DocumentError::FlowTooLong { .. })
            if looks_like_json(text) =>
        {
            Err(DocumentError::NotJson { reason: error.to_string() })
        }
        read => read,
    }
}

/// Whether the author probably meant JSON (`[` or `{"`), so that the JSON error is the helpful one.
fn looks_like_json(text: &str) -> bool {
    match text.trim_start().strip_prefix('{') {
        None => true,
        Some(inside) => inside.trim_start().starts_with('"'),
    }
}

#[cfg(test)]
mod tests;
