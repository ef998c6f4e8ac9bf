//! Detects prompt injection: instructions to a model, references to other tools, requests for secrets, and code.
//!
//! No phrase is proof. Phrases without honest use are critical alone; ambiguous ones are warnings; common ones count
//! only together with other signs in the same text. All matching takes linear time.

mod machine;
mod reading;
mod signs;
mod undressed;

use std::sync::LazyLock;

use regex::bytes::Regex;

use self::machine::Machine;
use self::reading::{Reading, alike_letter};
use self::signs::{COUNTED_ONCE, CRITICAL, OTHER_ALPHABETS, SIGNS, Sign, WARNING};
use self::undressed::undressed;
use super::unseen;
use crate::Severity;

static ALL: Machine = Machine::new(|| SIGNS.iter().map(expression).collect());
static EACH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compile =
        |sign| Regex::new(&format!("(?-u){}", expression(sign))).expect("it is an expression");
    SIGNS.iter().map(compile).collect()
});
static OTHER: LazyLock<Vec<regex::Regex>> = LazyLock::new(|| {
    let compile = |sign: &Sign| {
        let expression = sign.pattern.replace(r"\b", r"(?-u:\b)");
        regex::Regex::new(&expression).expect("it is an expression")
    };
    OTHER_ALPHABETS.iter().map(compile).collect()
});

/// Adapts a pattern to normalised text: lower case, with `0xff` for each non-ASCII letter.
fn expression(sign: &Sign) -> String {
    let pattern = sign.pattern.replace(r"\w", r"[0-9a-z_\xff]");
    if sign.is_sentence { pattern.replace(' ', BETWEEN) } else { pattern }
}

/// Characters allowed between two words of a sentence: quotes, commas, markup.
const BETWEEN: &str = r"[^0-9a-z.!?\xff]+";

/// A text of this length may be a sentence written without spaces.
const LONG_NAME: usize = 24;

/// Replaces every non-ASCII letter.
const STRANGE: u8 = 0xff;

/// Releases the compiled patterns if they were not used since the last call.
pub(super) fn rest() {
    ALL.rest();
}

/// A sign found in a text.
pub(super) struct Found {
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    pub(super) what: &'static str,
    /// Offset in the text, in characters.
    pub(super) offset: usize,
}

/// The signs of prompt injection in a text.
pub(super) fn signs(text: &str) -> Vec<Found> {
    // Text as short as most names cannot hold an instruction.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:$".contains(&byte);
    let words = text.split(['_', '-', '.']).count();
    if text.len() < LONG_NAME && text.bytes().all(is_name) && words < 3 {
        return Vec::new();
    }
    let lowered = lowered(text);
    let mut found = found_in(&lowered, text, |place| place);
    let mut add = |others: Vec<Found>| {
        for sign in others {
            if found.iter().all(|known| known.what != sign.what) {
                found.push(sign);
            }
        }
    };
    if let Some(reading) = Reading::of(&lowered) {
        add(found_in(&reading.text, text, |place| reading.place(place)));
    }
    // Offsets in the stripped text do not map back to the original.
    if let Some(plain) = undressed(text) {
        add(found_in(&self::lowered(&plain), text, |_| 0));
    }
    found
}

/// The signs in a normalised text. `place` maps a character index back to the lower-case text.
fn found_in(lowered: &str, text: &str, place: impl Fn(usize) -> usize) -> Vec<Found> {
    // One byte per character: Unicode classes would make the automata large.
    let letters: Vec<u8> = lowered.chars().map(|letter| ascii(letter).unwrap_or(STRANGE)).collect();
    let mut all: Vec<(&Sign, Start)> = Vec::new();
    for number in ALL.matches(&letters) {
        all.extend(SIGNS.get(number).map(|sign| (sign, Start::ToBeFound { number })));
    }
    for (sign, expression) in OTHER_ALPHABETS.iter().zip(&*OTHER) {
        let before = expression.find(lowered).and_then(|found| lowered.get(..found.start()));
        all.extend(before.map(|before| (sign, Start::After(before.chars().count()))));
    }
    let is_found = |what: &str| all.iter().any(|(sign, _)| sign.what == what);
    // Two signs may match the same words; count those words once.
    let is_said = |sign: &Sign| {
        COUNTED_ONCE.iter().any(|(little, more)| sign.what == *little && is_found(more))
    };
    let counted = all.iter().filter(|(sign, _)| !is_said(sign));
    let points: usize = counted.map(|(sign, _)| sign.says.points()).sum();
    let most = all.iter().map(|(sign, _)| sign.says.points()).max().unwrap_or_default();
    let severity = match points {
        // Weak signs alone never become critical.
        CRITICAL.. if WARNING <= most => Severity::Critical,
        WARNING.. if WARNING <= most || CRITICAL < points => Severity::Warning,
        _ => return Vec::new(),
    };
    // Report weak signs only if there are no stronger ones.
    let named = all.iter().filter(|(sign, _)| WARNING.min(most) <= sign.says.points());
    let found = named.filter_map(|(sign, start)| {
        let start = match *start {
            Start::After(letters) => letters,
            Start::ToBeFound { number } => EACH.get(number)?.find(&letters)?.start(),
        };
        let offset = offset_of(text, place(start));
        Some(Found { check: sign.check, severity, what: sign.what, offset })
    });
    found.collect()
}

/// The start of a sign, as a character index. Most searches never need it, so it may be computed later.
enum Start {
    After(usize),
    ToBeFound { number: usize },
}

fn ascii(letter: char) -> Option<u8> {
    u8::try_from(letter).ok().filter(u8::is_ascii)
}

/// The text in lower case, with single spaces, without invisible characters and asterisks.
fn lowered(text: &str) -> String {
    let mut lowered = String::with_capacity(text.len());
    each_lowered(text, |_, character| lowered.push(character));
    lowered
}

/// The offset in the text of a character of its normalised form.
fn offset_of(text: &str, wanted: usize) -> usize {
    let (mut seen, mut found) = (0, 0);
    each_lowered(text, |offset, _| {
        if seen == wanted {
            found = offset;
        }
        seen += 1;
    });
    found
}

fn each_lowered(text: &str, mut see: impl FnMut(usize, char)) {
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
    for (offset, (character, why)) in unseen::characters(text).enumerate() {
        if why.is_none() {
            one(offset, character);
        }
    }
}

/// Whether a name mixes ASCII letters with look-alikes of other alphabets.
pub(super) fn mixes_alphabets(name: &str) -> bool {
    name.chars().any(|c| c.is_ascii_alphabetic())
        && name.chars().any(|c| !c.is_ascii() && alike_letter(c).is_ascii())
}
