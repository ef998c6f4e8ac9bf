//! Text hidden in base64 or hexadecimal encoding.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};

/// Shortest encoded run that can hold a sentence.
const MIN_ENCODED_LENGTH: usize = 24;
/// Levels of nested encoding that are decoded.
const MAX_NESTING: usize = 3;
/// Runs decoded per text, and characters decoded per run.
const MAX_RUNS: usize = 16;
const MAX_RUN_LENGTH: usize = 4096;

/// An encoded run that decodes to text.
pub(super) struct EncodedText {
    /// Offset in the text, in characters.
    pub(super) offset: usize,
    pub(super) plain: String,
    /// Whether it reads like a sentence, unlike a key, a token or a structured document.
    pub(super) is_sentence: bool,
}

/// The encoded runs in a text that decode to text.
pub(super) fn find_encoded(text: &str) -> Vec<EncodedText> {
    find_nested_encoded(text, MAX_NESTING)
}

fn find_nested_encoded(text: &str, depth: usize) -> Vec<EncodedText> {
    let mut found = Vec::new();
    let (mut offset, mut looked_at) = (0, 0);
    for word in text.split_inclusive(|c: char| !is_encoding_character(c)) {
        let length = word.chars().count();
        let run = word.trim_end_matches(|c: char| !is_encoding_character(c));
        if MIN_ENCODED_LENGTH <= run.len() && looked_at < MAX_RUNS {
            looked_at += 1;
            let start: String = run.chars().take(MAX_RUN_LENGTH).collect();
            let Some(plain) = decode_text(&start) else {
                offset += length;
                continue;
            };
            if 1 < depth {
                let within = find_nested_encoded(&plain, depth - 1).into_iter();
                found.extend(within.map(|encoded| EncodedText { offset, ..encoded }));
            }
            let is_sentence = is_sentence(&plain);
            found.push(EncodedText { offset, plain, is_sentence });
        }
        offset += length;
    }
    found
}

fn is_encoding_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '+' | '/' | '-' | '_')
}

fn decode_text(run: &str) -> Option<String> {
    let bytes = if run.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        decode_hex(run)?
    } else {
        let whole = run.get(..run.len() / 4 * 4).unwrap_or(run);
        let alphabet = match run.contains(['-', '_']) {
            true => &alphabet::URL_SAFE,
            false => &alphabet::STANDARD,
        };
        let lenient = GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true);
        GeneralPurpose::new(alphabet, lenient).decode(whole).ok()?
    };
    let text = String::from_utf8(bytes).ok()?;
    text.chars().all(|c| !c.is_control() || c.is_whitespace()).then_some(text)
}

/// Whether the text has at least three words and is not structured.
fn is_sentence(text: &str) -> bool {
    let words =
        text.split_whitespace().filter(|word| word.chars().all(char::is_alphabetic)).count();
    3 <= words && !text.trim_start().starts_with(['{', '<', '['])
}

fn decode_hex(run: &str) -> Option<Vec<u8>> {
    let pairs = run.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
