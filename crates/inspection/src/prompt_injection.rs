//! Detects prompt injection: instructions to a model, references to other tools, requests for secrets, and code.
//!
//! No phrase is proof. Phrases without honest use are critical alone; ambiguous ones are warnings; common ones count
//! only together with other signs in the same text. All matching takes linear time.

mod homoglyphs;
mod injection_patterns;
mod markup;
mod multi_pattern;

use std::sync::LazyLock;

use regex::bytes::Regex;

use self::homoglyphs::{DeobfuscatedText, latin_look_alike};
use self::injection_patterns::{
    COUNTED_ONCE, CRITICAL, SIGNS, SignDefinition, UNICODE_SIGNS, WARNING,
};
use self::markup::strip_markup;
use self::multi_pattern::MultiPatternMatcher;
use crate::finding::Severity;
use crate::invisible_characters;

static SIGN_SET: MultiPatternMatcher =
    MultiPatternMatcher::new(|| SIGNS.iter().map(sign_expression).collect());
static SIGN_EXPRESSIONS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compile =
        |sign| Regex::new(&format!("(?-u){}", sign_expression(sign))).expect("it is an expression");
    SIGNS.iter().map(compile).collect()
});
static UNICODE_EXPRESSIONS: LazyLock<Vec<regex::Regex>> = LazyLock::new(|| {
    let compile = |sign: &SignDefinition| {
        let expression = sign.pattern.replace(r"\b", r"(?-u:\b)");
        regex::Regex::new(&expression).expect("it is an expression")
    };
    UNICODE_SIGNS.iter().map(compile).collect()
});

/// Adapts a pattern to normalised text: lower case, with `0xff` for each non-ASCII letter.
fn sign_expression(sign: &SignDefinition) -> String {
    let pattern = sign.pattern.replace(r"\w", r"[0-9a-z_\xff]");
    if sign.is_sentence { pattern.replace(' ', WORD_SEPARATOR) } else { pattern }
}

/// Characters allowed between two words of a sentence: quotes, commas, markup.
const WORD_SEPARATOR: &str = r"[^0-9a-z.!?\xff]+";

/// A text of this length may be a sentence written without spaces.
const MIN_SENTENCE_LENGTH: usize = 24;

/// Replaces every non-ASCII letter.
const NON_ASCII_LETTER: u8 = 0xff;

/// Releases the compiled patterns if they were not used since the last call.
pub fn release_memory() {
    SIGN_SET.release_if_unused();
}

/// A sign found in a text.
pub(super) struct InjectionSign {
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    pub(super) what: &'static str,
    /// Offset in the text, in characters.
    pub(super) offset: usize,
}

/// The signs of prompt injection in a text.
pub(super) fn find_signs(text: &str) -> Vec<InjectionSign> {
    // Text as short as most names cannot hold an instruction.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:$".contains(&byte);
    let words = text.split(['_', '-', '.']).count();
    if text.len() < MIN_SENTENCE_LENGTH && text.bytes().all(is_name) && words < 3 {
        return Vec::new();
    }
    let lowered = normalize_text(text);
    let mut found = find_signs_in(&lowered, text, |place| place);
    let mut add = |others: Vec<InjectionSign>| {
        for sign in others {
            if found.iter().all(|known| known.what != sign.what) {
                found.push(sign);
            }
        }
    };
    if let Some(reading) = DeobfuscatedText::from_normalized(&lowered) {
        add(find_signs_in(&reading.text, text, |place| reading.original_index(place)));
    }
    // Offsets in the stripped text do not map back to the original.
    if let Some(plain) = strip_markup(text) {
        add(find_signs_in(&self::normalize_text(&plain), text, |_| 0));
    }
    found
}

/// The signs in a normalised text. `place` maps a character index back to the lower-case text.
fn find_signs_in(lowered: &str, text: &str, place: impl Fn(usize) -> usize) -> Vec<InjectionSign> {
    // One byte per character: Unicode classes would make the automata large.
    let letters: Vec<u8> =
        lowered.chars().map(|letter| ascii_byte(letter).unwrap_or(NON_ASCII_LETTER)).collect();
    let mut all: Vec<(&SignDefinition, SignStart)> = Vec::new();
    for number in SIGN_SET.matches(&letters) {
        all.extend(SIGNS.get(number).map(|sign| (sign, SignStart::Deferred { number })));
    }
    for (sign, expression) in UNICODE_SIGNS.iter().zip(&*UNICODE_EXPRESSIONS) {
        let before = expression.find(lowered).and_then(|found| lowered.get(..found.start()));
        all.extend(before.map(|before| (sign, SignStart::Known(before.chars().count()))));
    }
    let is_found = |what: &str| all.iter().any(|(sign, _)| sign.what == what);
    // Two signs may match the same words; count those words once.
    let is_said = |sign: &SignDefinition| {
        COUNTED_ONCE.iter().any(|(little, more)| sign.what == *little && is_found(more))
    };
    let counted = all.iter().filter(|(sign, _)| !is_said(sign));
    let points: usize = counted.map(|(sign, _)| sign.weight.points()).sum();
    let most = all.iter().map(|(sign, _)| sign.weight.points()).max().unwrap_or_default();
    let severity = match points {
        // Weak signs alone never become critical.
        CRITICAL.. if WARNING <= most => Severity::Critical,
        WARNING.. if WARNING <= most || CRITICAL < points => Severity::Warning,
        _ => return Vec::new(),
    };
    // Report weak signs only if there are no stronger ones.
    let named = all.iter().filter(|(sign, _)| WARNING.min(most) <= sign.weight.points());
    let found = named.filter_map(|(sign, start)| {
        let start = match *start {
            SignStart::Known(letters) => letters,
            SignStart::Deferred { number } => SIGN_EXPRESSIONS.get(number)?.find(&letters)?.start(),
        };
        let offset = original_offset(text, place(start));
        Some(InjectionSign { check: sign.check, severity, what: sign.what, offset })
    });
    found.collect()
}

/// The start of a sign, as a character index. Most searches never need it, so it may be computed later.
enum SignStart {
    Known(usize),
    Deferred { number: usize },
}

fn ascii_byte(letter: char) -> Option<u8> {
    u8::try_from(letter).ok().filter(u8::is_ascii)
}

/// The text in lower case, with single spaces, without invisible characters and asterisks.
fn normalize_text(text: &str) -> String {
    let mut lowered = String::with_capacity(text.len());
    visit_normalized(text, |_, character| lowered.push(character));
    lowered
}

/// The offset in the text of a character of its normalised form.
fn original_offset(text: &str, wanted: usize) -> usize {
    let (mut seen, mut found) = (0, 0);
    visit_normalized(text, |offset, _| {
        if seen == wanted {
            found = offset;
        }
        seen += 1;
    });
    found
}

fn visit_normalized(text: &str, mut see: impl FnMut(usize, char)) {
    let mut after_space = false;
    let mut one = |offset: usize, character: char| {
        let is_space = character.is_whitespace();
        if is_space && after_space {
            return;
        }
        after_space = is_space;
        match character {
            _ if is_space => see(offset, ' '),
            '*' => {}
            '’' => see(offset, '\''),
            _ if character.is_ascii() => see(offset, character.to_ascii_lowercase()),
            // One character for one, so that indexes stay aligned.
            _ => see(offset, character.to_lowercase().next().unwrap_or(character)),
        }
    };
    if text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_control()) {
        for (offset, character) in text.chars().enumerate() {
            one(offset, character);
        }
        return;
    }
    for (offset, (character, why)) in invisible_characters::classify_characters(text).enumerate() {
        if why.is_none() {
            one(offset, character);
        }
    }
}

/// Whether a name mixes ASCII letters with look-alikes of other alphabets.
pub fn mixes_alphabets(name: &str) -> bool {
    name.chars().any(|c| c.is_ascii_alphabetic())
        && name.chars().any(|c| !c.is_ascii() && latin_look_alike(c).is_ascii())
}
