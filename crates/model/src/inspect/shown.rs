//! Sanitises the texts of a tool for agents: removes or escapes invisible characters. Ordinary text stays unchanged.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use super::place::{Place, Within, change_texts};
use super::unseen::{self, Unseen};

/// Longest description that agents get, in bytes.
pub const DESCRIPTION_LIMIT: usize = 16 * 1024;

/// A text without invisible characters.
pub fn shown_text(text: &str) -> Cow<'_, str> {
    if is_plain(text) || unseen::characters(text).all(|(_, why)| why.is_none()) {
        return Cow::Borrowed(text);
    }
    let kept = unseen::characters(text).filter_map(|(character, why)| match (character, why) {
        (_, None) => Some(character),
        // A lone carriage return is an old line ending.
        ('\r', Some(Unseen::Control)) => Some('\n'),
        (_, Some(_)) => None,
    });
    Cow::Owned(kept.collect())
}

/// A description without invisible characters, truncated to 16 KiB.
pub fn shown_description(text: &str) -> Cow<'_, str> {
    let shown = shown_text(text);
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
pub fn show_json(mut value: Value) -> Value {
    change_texts(&mut value, Within::Members, &mut |place, text| match place {
        Place::Fixed => {}
        Place::Text => {
            if let Cow::Owned(shown) = shown_description(text) {
                *text = shown;
            }
        }
        Place::Pattern => escape(text),
    });
    value
}

/// A foreign text as one line for logs and messages, with invisible and control characters escaped.
pub fn plain_line(text: &str) -> String {
    unseen::written_out(text)
}

/// Whether a name has no invisible characters.
pub fn is_seen(name: &str) -> bool {
    is_plain(name) || unseen::characters(name).all(|(_, why)| why.is_none())
}

/// Fast path: printable ASCII, as most texts are.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
}

/// Replaces invisible characters of a regular expression by equivalent escapes.
fn escape(pattern: &mut String) {
    if is_seen(pattern) {
        return;
    }
    let mut escaped = String::with_capacity(pattern.len());
    for (character, why) in unseen::characters(pattern) {
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
