//! Text of others, made plain: what would steer a terminal or hide from a reader is written out as `\u{1b}`.

use std::fmt::Write as _;

use serde_json::Value;

/// Text in which nothing is invisible or obeyed.
pub fn text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for (number, line) in text.split("\r\n").enumerate() {
        if 0 < number {
            plain.push('\n');
        }
        for character in line.chars() {
            match is_hidden(character) {
                true => plain.extend(character.escape_unicode()),
                false => plain.push(character),
            }
        }
    }
    plain
}

/// The same for text that is passed on as it came, file by file perhaps: only what a terminal obeys, what turns the direction
/// of writing around and the tag characters, which nobody sees but a model, are written out. Line ends of any kind stay, and
/// so do marks that whole scripts are written with, and the flags that are written with tags.
pub fn tame(text: &mut String) {
    if !text.chars().any(is_untame) {
        return;
    }
    let mut tame = String::with_capacity(text.len());
    let mut rest = &**text;
    while let Some(character) = rest.chars().next() {
        let length = flag(rest).unwrap_or_else(|| character.len_utf8());
        let (piece, behind) = rest.split_at(length);
        match is_untame(character) {
            true => tame.extend(character.escape_unicode()),
            false => tame.push_str(piece),
        }
        rest = behind;
    }
    *text = tame;
}

/// The flags that are written with tags, all there are: of England, Scotland and Wales. Others could say something.
const FLAGS: [&str; 3] = [
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// How long the flag is that a text begins with.
fn flag(text: &str) -> Option<usize> {
    FLAGS.iter().find(|flag| text.starts_with(**flag)).map(|flag| flag.len())
}

fn is_untame(character: char) -> bool {
    match character {
        '\n' | '\r' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

/// A value as JSON text in which nothing is.
pub(super) fn json(value: &Value) -> String {
    let json = serde_json::to_string(value).expect("a value can be written");
    if is_visible_ascii(&json) { json } else { plain_json(&json) }
}

/// Whether it is text as most of it is: nothing in it can be hidden.
fn is_visible_ascii(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// JSON text that means the same, with such characters escaped as JSON escapes them.
pub fn plain_json(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for character in json.chars() {
        if !is_hidden(character) {
            plain.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(plain, "\\u{unit:04x}").expect("a string takes all text");
        }
    }
    plain
}

/// Control characters but for line ends and tabs, marks that reorder text, what has no width, and the tag characters.
/// The joiners U+200C and U+200D are seen: in how Persian words and emoji are written.
pub fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' => true,
        '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_steers_a_terminal_or_hides_is_written_out() {
        assert_eq!(text("a\u{1b}[31mred\u{7}"), r"a\u{1b}[31mred\u{7}");
        assert_eq!(
            text("\u{9b}2J \u{202e}gnp.exe \u{e0041}"),
            r"\u{9b}2J \u{202e}gnp.exe \u{e0041}"
        );
        assert_eq!(text("a\u{200b}b\u{2060}\u{feff}"), r"a\u{200b}b\u{2060}\u{feff}");
        assert_eq!(text("a\r\nb\tc\n ☕ 👩‍🚀 naïve عربي"), "a\nb\tc\n ☕ 👩‍🚀 naïve عربي");
    }

    #[test]
    fn text_that_is_passed_on_loses_what_is_obeyed_or_unseen_and_nothing_else() {
        let tamed = |text: &str| {
            let mut text = text.to_owned();
            tame(&mut text);
            text
        };
        let osc = "\u{1b}]0;a\u{7}\u{9b}2J\u{7f}";
        assert_eq!(tamed(osc), r"\u{1b}]0;a\u{7}\u{9b}2J\u{7f}");
        assert_eq!(tamed(&FLAGS.concat()), FLAGS.concat());
        assert!(
            tamed("\u{1f3f4}\u{e0068}\u{e0069}\u{e007f}").ends_with(r"\u{e0068}\u{e0069}\u{e007f}")
        );
        assert_eq!(tamed("\u{202e}gnp\u{2069}.exe\u{e0041}"), r"\u{202e}gnp\u{2069}.exe\u{e0041}");
        let usual = "\u{feff}a\r\nb\tc\rd ☕ 👩‍🚀 \u{200f}عربي \\u{1b}";
        assert_eq!(tamed(usual), usual);
    }

    #[test]
    fn json_is_escaped_in_its_own_way() {
        let value = json!({"\u{202e}": "\u{1b}\u{7f}\u{e0041}\n"});
        assert_eq!(json(&value), r#"{"\u202e":"\u001b\u007f\udb40\udc41\n"}"#);
    }

    proptest! {
        #[test]
        fn plain_json_means_the_same(any in any::<String>()) {
            let value = json!({"text": any});
            let plain = json(&value);
            prop_assert!(!plain.chars().any(is_hidden));
            prop_assert_eq!(serde_json::from_str::<Value>(&plain).unwrap(), value);
        }
    }
}
