//! Sanitises the texts of a tool for agents: removes or escapes invisible characters. Ordinary text stays unchanged.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use crate::invisible_characters;
use crate::invisible_characters::InvisibleKind;
use crate::text_role::{SchemaContext, TextRole, change_texts};

/// Longest description that agents get, in bytes.
pub const DESCRIPTION_LIMIT: usize = 16 * 1024;

/// A text without invisible characters.
pub fn sanitize_text(text: &str) -> Cow<'_, str> {
    if is_printable_ascii(text)
        || invisible_characters::classify_characters(text).all(|(_, why)| why.is_none())
    {
        return Cow::Borrowed(text);
    }
    let kept = invisible_characters::classify_characters(text).filter_map(|(character, why)| {
        match (character, why) {
            (_, None) => Some(character),
            // A lone carriage return is an old line ending.
            ('\r', Some(InvisibleKind::Control)) => Some('\n'),
            (_, Some(_)) => None,
        }
    });
    Cow::Owned(kept.collect())
}

/// A description without invisible characters, truncated to 16 KiB.
pub fn sanitize_description(text: &str) -> Cow<'_, str> {
    let shown = sanitize_text(text);
    if shown.len() <= DESCRIPTION_LIMIT {
        return shown;
    }
    let mut cut = shown.into_owned();
    let note = format!("… [cut: {} bytes in all]", cut.len());
    cut.truncate(cut.floor_char_boundary(DESCRIPTION_LIMIT - note.len()));
    Cow::Owned(cut + &note)
}

/// Sanitises the texts of a schema or of other JSON from an upstream. Names, and values that the upstream compares,
/// stay unchanged.
pub fn sanitize_json(mut value: Value) -> Value {
    change_texts(&mut value, SchemaContext::Keywords, &mut |place, text| match place {
        TextRole::Fixed => {}
        TextRole::Descriptive => {
            if let Cow::Owned(shown) = sanitize_description(text) {
                *text = shown;
            }
        }
        TextRole::Pattern => escape_pattern(text),
    });
    value
}

/// A foreign text as one line for logs and messages, with invisible and control characters escaped.
pub fn printable_line(text: &str) -> String {
    invisible_characters::escape_invisible(text)
}

/// Whether a name has no invisible characters.
pub fn is_fully_visible(name: &str) -> bool {
    is_printable_ascii(name)
        || invisible_characters::classify_characters(name).all(|(_, why)| why.is_none())
}

/// Fast path: printable ASCII, as most texts are.
fn is_printable_ascii(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
}

/// Replaces invisible characters of a regular expression by equivalent escapes.
fn escape_pattern(pattern: &mut String) {
    if is_fully_visible(pattern) {
        return;
    }
    let mut escaped = String::with_capacity(pattern.len());
    for (character, why) in invisible_characters::classify_characters(pattern) {
        match why {
            None => escaped.push(character),
            Some(_) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(escaped, "\\u{unit:04x}").expect("a string takes all text");
                }
            }
        }
    }
    *pattern = escaped;
}
