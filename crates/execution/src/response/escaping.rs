//! Escapes characters in untrusted text that control a terminal or are invisible, such as `\u{1b}`.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

/// Escapes all hidden characters of a text.
pub fn escape_hidden<'a>(text: impl Into<Cow<'a, str>>) -> String {
    let text = text.into();
    if !unusual_chars(&text).any(|(_, character)| is_hidden_char(character)) {
        return text.into_owned();
    }
    replace_hidden(&text, |character, behind, plain| match character {
        '\r' if behind.starts_with('\n') => {}
        character => plain.extend(character.escape_unicode()),
    })
}

/// Escapes only dangerous characters, for text that is passed on unchanged otherwise, such as files: terminal control
/// characters, bidirectional overrides, and tag characters, which only a model reads. Line ends of any kind stay, and
/// so do marks that scripts need, and flags written with tag characters.
pub fn escape_dangerous(text: &mut String) {
    if !unusual_chars(text).any(|(_, character)| is_dangerous(character)) {
        return;
    }
    let mut tame = String::with_capacity(text.len());
    let mut rest = &**text;
    while let Some(character) = rest.chars().next() {
        let length = flag_length(rest).unwrap_or_else(|| character.len_utf8());
        let (piece, behind) = rest.split_at(length);
        match is_dangerous(character) {
            true => tame.extend(character.escape_unicode()),
            false => tame.push_str(piece),
        }
        rest = behind;
    }
    *text = tame;
}

/// All flags written with tag characters: England, Scotland and Wales. Other tag sequences could hide text.
const TAG_FLAGS: [&str; 3] = [
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// The length in bytes of the flag at the start of a text.
fn flag_length(text: &str) -> Option<usize> {
    TAG_FLAGS.iter().find(|flag| text.starts_with(**flag)).map(|flag| flag.len())
}

fn is_dangerous(character: char) -> bool {
    match character {
        '\n' | '\r' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

/// A value as JSON text without hidden characters.
pub(super) fn plain_json_of(value: &Value) -> String {
    let json = serde_json::to_string(value).expect("a value can be written");
    if unusual_chars(&json).next().is_none() { json } else { escape_json(&json) }
}

/// Escapes hidden characters in JSON text as JSON escapes; its value does not change.
pub fn escape_json(json: &str) -> String {
    replace_hidden(json, |character, _, plain| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(plain, "\\u{unit:04x}").expect("a string takes all text");
        }
    })
}

/// Replaces each hidden character. `write` gets the character and the text after it.
fn replace_hidden(text: &str, write: impl Fn(char, &str, &mut String)) -> String {
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let (mut written, mut done) = (String::with_capacity(text.len()), 0);
    for (at, character) in unusual_chars(text).filter(|(_, character)| is_hidden_char(*character)) {
        written.push_str(part(done, at));
        done = at + character.len_utf8();
        write(character, part(done, text.len()), &mut written);
    }
    written.push_str(part(done, text.len()));
    written
}

/// The characters other than visible ASCII, with their positions; only these can be hidden.
fn unusual_chars(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += visible_ascii_length(text.as_bytes().get(at..)?);
        let (start, character) = (at, text.get(at..)?.chars().next()?);
        at += character.len_utf8();
        Some((start, character))
    })
}

/// The length of the leading visible ASCII. Checks eight bytes at once, because the text may be long.
fn visible_ascii_length(bytes: &[u8]) -> usize {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = EACH * 0x80;
    let are_visible = |eight: &[u8; 8]| {
        let eight = u64::from_ne_bytes(*eight);
        let (less, more) = (eight.wrapping_sub(EACH * 0x20), eight.wrapping_add(EACH));
        (eight | less | more) & HIGHEST == 0
    };
    let (eights, _) = bytes.as_chunks();
    let visible = 8 * eights.iter().take_while(|eight| are_visible(eight)).count();
    let rest = bytes.get(visible..).unwrap_or_default();
    visible + rest.iter().take_while(|byte| matches!(byte, b' '..=b'~')).count()
}

/// Control characters except line feeds and tabs, bidirectional marks, zero-width characters and tag characters. The
/// joiners U+200C and U+200D are visible in their effect on Persian words and emoji.
pub fn is_hidden_char(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' => true,
        '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

/// Escapes control and hidden characters, so that foreign text stays on one line and cannot control the terminal.
pub fn escape_for_terminal(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c.is_control() || is_hidden_char(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| match is_escaped(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    #[test]
    fn terminal_control_and_invisible_characters_are_escaped() {
        assert_eq!(escape_hidden("a\u{1b}[31mred\u{7}"), r"a\u{1b}[31mred\u{7}");
        assert_eq!(
            escape_hidden("\u{9b}2J \u{202e}gnp.exe \u{e0041}"),
            r"\u{9b}2J \u{202e}gnp.exe \u{e0041}"
        );
        assert_eq!(escape_hidden("a\u{200b}b\u{2060}\u{feff}"), r"a\u{200b}b\u{2060}\u{feff}");
        assert_eq!(escape_hidden("a\r\nb\tc\n ☕ 👩‍🚀 naïve عربي"), "a\nb\tc\n ☕ 👩‍🚀 naïve عربي");
    }

    #[test]
    fn only_dangerous_characters_are_escaped_in_passed_on_text() {
        let tamed = |text: &str| {
            let mut text = text.to_owned();
            escape_dangerous(&mut text);
            text
        };
        let osc = "\u{1b}]0;a\u{7}\u{9b}2J\u{7f}";
        assert_eq!(tamed(osc), r"\u{1b}]0;a\u{7}\u{9b}2J\u{7f}");
        assert_eq!(tamed(&TAG_FLAGS.concat()), TAG_FLAGS.concat());
        assert!(
            tamed("\u{1f3f4}\u{e0068}\u{e0069}\u{e007f}").ends_with(r"\u{e0068}\u{e0069}\u{e007f}")
        );
        assert_eq!(tamed("\u{202e}gnp\u{2069}.exe\u{e0041}"), r"\u{202e}gnp\u{2069}.exe\u{e0041}");
        let usual = "\u{feff}a\r\nb\tc\rd ☕ 👩‍🚀 \u{200f}عربي \\u{1b}";
        assert_eq!(tamed(usual), usual);
    }

    #[test]
    fn hidden_characters_in_json_use_json_escapes() {
        let value = json!({"\u{202e}": "\u{1b}\u{7f}\u{e0041}\n"});
        assert_eq!(plain_json_of(&value), r#"{"\u202e":"\u001b\u007f\udb40\udc41\n"}"#);
    }

    #[test]
    fn only_visible_ascii_is_skipped_eight_bytes_at_once() {
        let is_visible = |byte: &u8| (b' '..=b'~').contains(byte);
        for (byte, at) in (0..=u8::MAX).flat_map(|byte| (0..20).map(move |at| (byte, at))) {
            for around in [b' ', b'~'] {
                let mut bytes = [around; 20];
                bytes[at] = byte;
                let expected = if is_visible(&byte) { 20 } else { at };
                assert_eq!(visible_ascii_length(&bytes), expected, "{byte} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn only_hidden_characters_of_a_text_change(any in "[ aé\r\n\t\u{7f}\u{202e}]{0,40}") {
            let expected = any.split("\r\n").map(|line| {
                line.chars().map(|character| match is_hidden_char(character) {
                    true => character.escape_unicode().to_string(),
                    false => character.to_string(),
                }).collect::<String>()
            });
            prop_assert_eq!(escape_hidden(&any), expected.collect::<Vec<_>>().join("\n"));
        }

        #[test]
        fn escaped_json_has_the_same_value(any in any::<String>()) {
            let value = json!({"text": any});
            let plain = plain_json_of(&value);
            prop_assert!(!plain.chars().any(is_hidden_char));
            prop_assert_eq!(serde_json::from_str::<Value>(&plain).unwrap(), value);
        }
    }
}
