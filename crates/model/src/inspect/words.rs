//! Words that speak to a model and not to whoever looks for a tool: orders, other tools, secrets, code.
//!
//! No word is proof. What hardly anybody writes in earnest is critical alone; what somebody might write is a warning; and
//! what many write is one only beside other signs in the same text. Everything is matched in linear time.

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

/// Words are in lower case, and may have letters of other alphabets.
fn expression(sign: &Sign) -> String {
    let pattern = sign.pattern.replace(r"\w", r"[0-9a-z_\xff]");
    if sign.is_sentence { pattern.replace(' ', BETWEEN) } else { pattern }
}

/// What may stand between two words of one sentence: quotes, commas, marks of a markup.
const BETWEEN: &str = r"[^0-9a-z.!?\xff]+";

/// What is as long may be a sentence without spaces.
const LONG_NAME: usize = 24;

/// Stands for every letter that is not ASCII.
const STRANGE: u8 = 0xff;

/// Gives back what is needed only while texts are looked through, if nobody did since this was last asked.
pub(super) fn rest() {
    ALL.rest();
}

/// A sign that was found.
pub(super) struct Found {
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    pub(super) what: &'static str,
    /// In characters of the text.
    pub(super) offset: usize,
}

/// The signs in a text.
pub(super) fn signs(text: &str) -> Vec<Found> {
    // A word or two, as most names are, order nothing.
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
    // Where its words stand in the text is not known.
    if let Some(plain) = undressed(text) {
        add(found_in(&self::lowered(&plain), text, |_| 0));
    }
    found
}

/// The signs of a reading. `place` is where one of its letters stands in the lowered text.
fn found_in(lowered: &str, text: &str, place: impl Fn(usize) -> usize) -> Vec<Found> {
    // A letter is a byte here: all of Unicode's would make large machines of small expressions.
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
    // The same words may be two signs, and say no more for that.
    let is_said = |sign: &Sign| {
        COUNTED_ONCE.iter().any(|(little, more)| sign.what == *little && is_found(more))
    };
    let counted = all.iter().filter(|(sign, _)| !is_said(sign));
    let points: usize = counted.map(|(sign, _)| sign.says.points()).sum();
    let most = all.iter().map(|(sign, _)| sign.says.points()).max().unwrap_or_default();
    let severity = match points {
        // What says little does not say more by itself.
        CRITICAL.. if WARNING <= most => Severity::Critical,
        WARNING.. if WARNING <= most || CRITICAL < points => Severity::Warning,
        _ => return Vec::new(),
    };
    // Those that say little are named only if there are no others.
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

/// Where a sign begins, in letters. Most are never asked for it.
enum Start {
    After(usize),
    ToBeFound { number: usize },
}

fn ascii(letter: char) -> Option<u8> {
    u8::try_from(letter).ok().filter(u8::is_ascii)
}

/// A text in lower case, with single spaces, without what cannot be seen and without emphasis.
fn lowered(text: &str) -> String {
    let mut lowered = String::with_capacity(text.len());
    each_lowered(text, |_, character| lowered.push(character));
    lowered
}

/// At which character of a text this one of its lowered form stands.
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
            // One for one, so that places can be counted.
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

/// Whether a name has letters that only look like those beside them.
pub(super) fn mixes_alphabets(name: &str) -> bool {
    name.chars().any(|c| c.is_ascii_alphabetic())
        && name.chars().any(|c| !c.is_ascii() && alike_letter(c).is_ascii())
}
