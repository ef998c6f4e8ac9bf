//! Findings about invisible and control characters: counts them, decodes hidden messages, and rates the severity.

use std::collections::BTreeMap;

use super::place::Place;
use super::unseen::{self, Unseen};
use crate::Severity;

/// A run of this many characters encodes text.
const IN_A_ROW: usize = 8;
/// This many variation selectors encode bytes.
const SELECTORS: usize = 4;
/// Longest repeated part of a hidden message, in characters.
const DECODED: usize = 120;

/// All invisible characters of one kind in one text.
pub(super) struct Hidden {
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    /// Offset of the first one, in characters.
    pub(super) offset: usize,
    pub(super) what: String,
}

#[derive(Default)]
struct Seen {
    first: usize,
    count: usize,
    in_a_row: usize,
    most_in_a_row: usize,
    last: Option<usize>,
    characters: String,
}

/// The invisible characters in a text, one entry per kind.
pub(super) fn hidden(text: &str, place: Place) -> Vec<Hidden> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Vec::new();
    }
    let mut kinds: BTreeMap<Unseen, Seen> = BTreeMap::new();
    let mut length = 0;
    for (offset, (character, why)) in unseen::characters(text).enumerate() {
        length += 1;
        let Some(why) = why else { continue };
        let seen = kinds.entry(why).or_default();
        if seen.count == 0 {
            seen.first = offset;
        }
        let follows = seen.last.is_some_and(|last| last + 1 == offset);
        seen.in_a_row = if follows { seen.in_a_row + 1 } else { 1 };
        seen.most_in_a_row = seen.most_in_a_row.max(seen.in_a_row);
        (seen.last, seen.count) = (Some(offset), seen.count + 1);
        if seen.count <= 8 * DECODED {
            seen.characters.push(character);
        }
    }
    let runs_left = || text.chars().any(unseen::runs_left);
    let judge = |(why, seen): (Unseen, Seen)| {
        let alone = severity(why, &seen, length, runs_left());
        let severity = match place {
            // A fixed text cannot be sanitised: the agent must send it unchanged, and cannot.
            Place::Fixed => Severity::Critical,
            Place::Text => alone,
            // Agents get patterns with these characters escaped, and many patterns list allowed characters.
            Place::Pattern if why == Unseen::Tag && 4 <= seen.most_in_a_row => alone,
            Place::Pattern => Severity::Note,
        };
        let check = match why {
            Unseen::Steers | Unseen::Control => "text.control",
            _ => "unicode.hidden",
        };
        Hidden { check, severity, offset: seen.first, what: what(why, &seen) }
    };
    kinds.into_iter().map(judge).collect()
}

fn severity(why: Unseen, seen: &Seen, length: usize, runs_left: bool) -> Severity {
    match why {
        Unseen::Steers | Unseen::Tag | Unseen::Override => Severity::Critical,
        // Localisation software isolates inserted text like this.
        Unseen::Embedding if runs_left || is_balanced(&seen.characters) => Severity::Warning,
        Unseen::Embedding => Severity::Critical,
        Unseen::Selector if SELECTORS <= seen.count => Severity::Critical,
        Unseen::ZeroWidth if IN_A_ROW <= seen.most_in_a_row => Severity::Critical,
        // A zero-width character after nearly every letter is no accident.
        Unseen::ZeroWidth if 2 * IN_A_ROW <= seen.count && length < 8 * seen.count => {
            Severity::Critical
        }
        Unseen::PrivateUse if seen.most_in_a_row < IN_A_ROW => Severity::Note,
        Unseen::Mark | Unseen::Leftover => Severity::Note,
        Unseen::Control | Unseen::Selector | Unseen::ZeroWidth | Unseen::PrivateUse => {
            Severity::Warning
        }
    }
}

/// Whether there are only first strong isolates (U+2068), and each is terminated.
fn is_balanced(characters: &str) -> bool {
    let is_isolate = |c: char| matches!(c, '\u{2068}' | '\u{2069}');
    let begun = characters.chars().filter(|c| *c == '\u{2068}').count();
    characters.chars().all(is_isolate) && 2 * begun == characters.chars().count()
}

fn what(why: Unseen, seen: &Seen) -> String {
    let kind = match why {
        Unseen::Steers => "control characters that terminals obey",
        Unseen::Control => "control characters",
        Unseen::Tag => "Unicode tags",
        Unseen::Override => "marks that turn the order of text around",
        Unseen::Embedding => "marks that set text apart which runs the other way",
        Unseen::Mark => "marks for text that runs from right to left",
        Unseen::ZeroWidth => "characters without width",
        Unseen::Leftover => "characters without width of a word processor",
        Unseen::Selector => "variation selectors with nothing to select",
        Unseen::PrivateUse => "characters for private use",
    };
    let first = seen.characters.chars().next().map(|c| format!("U+{:04X}", u32::from(c)));
    let first = first.unwrap_or_default();
    let message = decoded(why, &seen.characters);
    let says = message.map(|message| format!(", which say “{message}”")).unwrap_or_default();
    match seen.count {
        1 => format!("has {kind}: {first}"),
        count => format!("has {count} {kind}, the first {first}{says}"),
    }
}

/// The ASCII text that is hidden in characters of a kind.
fn decoded(why: Unseen, characters: &str) -> Option<String> {
    let codes = characters.chars().map(u32::from);
    let bytes: Vec<u8> = match why {
        Unseen::Tag => codes.filter_map(|code| u8::try_from(code - 0xe0000).ok()).collect(),
        Unseen::Selector => codes
            .filter_map(|code| match code {
                0xfe00..=0xfe0f => u8::try_from(code - 0xfe00).ok(),
                _ => u8::try_from(code.checked_sub(0xe0100)? + 16).ok(),
            })
            .collect(),
        Unseen::ZeroWidth => return bits(characters),
        _ => return None,
    };
    printable(&bytes)
}

/// Decodes two alternating zero-width characters as bits, in either assignment.
fn bits(characters: &str) -> Option<String> {
    let first = characters.chars().next()?;
    let other = characters.chars().find(|c| *c != first)?;
    let only_two = || characters.chars().filter(move |c| *c == first || *c == other);
    let read = |one: char| {
        let bits: Vec<u8> = only_two().map(|c| u8::from(c == one)).collect();
        let byte = |bits: &[u8]| bits.iter().fold(0_u8, |byte, bit| byte << 1 | bit);
        printable(&bits.chunks_exact(8).map(byte).collect::<Vec<u8>>())
    };
    read(first).or_else(|| read(other))
}

fn printable(bytes: &[u8]) -> Option<String> {
    let is_text = |byte: &&u8| matches!(**byte, b' '..=b'~' | b'\n');
    let text: String = bytes.iter().filter(is_text).map(|byte| char::from(*byte)).collect();
    let is_mostly = 2 <= text.len() && bytes.len() <= text.len() + text.len() / 8 + 2;
    is_mostly.then(|| text.replace('\n', " ").chars().take(DECODED).collect())
}
