//! Text that was encoded so that nobody reads it: base64 and hexadecimal.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Shorter ones hold no sentence.
const FROM: usize = 32;
/// How many are looked at in one text, and how much of each.
const MOST: usize = 16;
const LONGEST: usize = 4096;

/// Something encoded that is text.
pub(super) struct Encoded {
    /// In characters of the text.
    pub(super) offset: usize,
    pub(super) plain: String,
}

/// What in a text is encoded text.
pub(super) fn encoded(text: &str) -> Vec<Encoded> {
    let mut found = Vec::new();
    let (mut offset, mut looked_at) = (0, 0);
    for word in text.split_inclusive(|c: char| !is_of_encoding(c)) {
        let length = word.chars().count();
        let run = word.trim_end_matches(|c: char| !is_of_encoding(c) || c == '=');
        if FROM <= run.len() && looked_at < MOST {
            looked_at += 1;
            let start: String = run.chars().take(LONGEST).collect();
            found.extend(plain(&start).map(|plain| Encoded { offset, plain }));
        }
        offset += length;
    }
    found
}

fn is_of_encoding(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '+' | '/' | '-' | '_' | '=')
}

fn plain(run: &str) -> Option<String> {
    let bytes = if run.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        hexadecimal(run)?
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
    let is_text = text.chars().all(|c| !c.is_control() || c.is_whitespace());
    // A sentence has words; a key, a token or a document of a program has not.
    let words =
        text.split_whitespace().filter(|word| word.chars().all(char::is_alphabetic)).count();
    (is_text && 3 <= words && !text.trim_start().starts_with(['{', '<', '['])).then_some(text)
}

fn hexadecimal(run: &str) -> Option<Vec<u8>> {
    let pairs = run.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
