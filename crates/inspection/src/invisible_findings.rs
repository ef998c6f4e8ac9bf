//! Findings about invisible and control characters: counts them, decodes hidden messages, and rates the severity.

use std::collections::BTreeMap;

use crate::finding::Severity;
use crate::invisible_characters;
use crate::invisible_characters::InvisibleKind;
use crate::text_role::TextRole;

/// A run of this many characters encodes text.
const ENCODED_RUN: usize = 8;
/// This many variation selectors encode bytes.
const ENCODED_SELECTORS: usize = 4;
/// Longest repeated part of a hidden message, in characters.
const DECODED_LIMIT: usize = 120;

/// All invisible characters of one kind in one text.
pub(super) struct InvisibleRun {
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    /// Offset of the first one, in characters.
    pub(super) offset: usize,
    pub(super) what: String,
}

#[derive(Default)]
struct InvisibleCount {
    first: usize,
    count: usize,
    current_run: usize,
    longest_run: usize,
    last: Option<usize>,
    characters: String,
}

/// The invisible characters in a text, one entry per kind.
pub(super) fn find_invisible(text: &str, place: TextRole) -> Vec<InvisibleRun> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Vec::new();
    }
    let mut kinds: BTreeMap<InvisibleKind, InvisibleCount> = BTreeMap::new();
    let mut length = 0;
    for (offset, (character, why)) in invisible_characters::classify_characters(text).enumerate() {
        length += 1;
        let Some(why) = why else { continue };
        let seen = kinds.entry(why).or_default();
        if seen.count == 0 {
            seen.first = offset;
        }
        let follows = seen.last.is_some_and(|last| last + 1 == offset);
        seen.current_run = if follows { seen.current_run + 1 } else { 1 };
        seen.longest_run = seen.longest_run.max(seen.current_run);
        (seen.last, seen.count) = (Some(offset), seen.count + 1);
        if seen.count <= 8 * DECODED_LIMIT {
            seen.characters.push(character);
        }
    }
    let runs_left = || text.chars().any(invisible_characters::is_right_to_left);
    let judge = |(why, seen): (InvisibleKind, InvisibleCount)| {
        let alone = rate_severity(why, &seen, length, runs_left());
        let severity = match place {
            // A fixed text cannot be sanitised: the agent must send it unchanged, and cannot.
            TextRole::Fixed => Severity::Critical,
            TextRole::Descriptive => alone,
            // Agents get patterns with these characters escaped, and many patterns list allowed characters.
            TextRole::Pattern if why == InvisibleKind::Tag && 4 <= seen.longest_run => alone,
            TextRole::Pattern => Severity::Note,
        };
        let check = match why {
            InvisibleKind::TerminalControl | InvisibleKind::Control => "text.control",
            _ => "unicode.hidden",
        };
        InvisibleRun { check, severity, offset: seen.first, what: describe_run(why, &seen) }
    };
    kinds.into_iter().map(judge).collect()
}

fn rate_severity(
    why: InvisibleKind,
    seen: &InvisibleCount,
    length: usize,
    runs_left: bool,
) -> Severity {
    match why {
        InvisibleKind::TerminalControl | InvisibleKind::Tag | InvisibleKind::Override => {
            Severity::Critical
        }
        // Localisation software isolates inserted text like this.
        InvisibleKind::Embedding if runs_left || is_balanced(&seen.characters) => Severity::Warning,
        InvisibleKind::Embedding => Severity::Critical,
        InvisibleKind::VariationSelector if ENCODED_SELECTORS <= seen.count => Severity::Critical,
        InvisibleKind::ZeroWidth if ENCODED_RUN <= seen.longest_run => Severity::Critical,
        // A zero-width character after nearly every letter is no accident.
        InvisibleKind::ZeroWidth if 2 * ENCODED_RUN <= seen.count && length < 8 * seen.count => {
            Severity::Critical
        }
        InvisibleKind::PrivateUse if seen.longest_run < ENCODED_RUN => Severity::Note,
        InvisibleKind::DirectionMark | InvisibleKind::Leftover => Severity::Note,
        InvisibleKind::Control
        | InvisibleKind::VariationSelector
        | InvisibleKind::ZeroWidth
        | InvisibleKind::PrivateUse => Severity::Warning,
    }
}

/// Whether there are only first strong isolates (U+2068), and each is terminated.
fn is_balanced(characters: &str) -> bool {
    let is_isolate = |c: char| matches!(c, '\u{2068}' | '\u{2069}');
    let begun = characters.chars().filter(|c| *c == '\u{2068}').count();
    characters.chars().all(is_isolate) && 2 * begun == characters.chars().count()
}

fn describe_run(why: InvisibleKind, seen: &InvisibleCount) -> String {
    let kind = match why {
        InvisibleKind::TerminalControl => "control characters that terminals obey",
        InvisibleKind::Control => "control characters",
        InvisibleKind::Tag => "Unicode tags",
        InvisibleKind::Override => "marks that turn the order of text around",
        InvisibleKind::Embedding => "marks that set text apart which runs the other way",
        InvisibleKind::DirectionMark => "marks for text that runs from right to left",
        InvisibleKind::ZeroWidth => "characters without width",
        InvisibleKind::Leftover => "characters without width of a word processor",
        InvisibleKind::VariationSelector => "variation selectors with nothing to select",
        InvisibleKind::PrivateUse => "characters for private use",
    };
    let first = seen.characters.chars().next().map(|c| format!("U+{:04X}", u32::from(c)));
    let first = first.unwrap_or_default();
    let message = decode_hidden(why, &seen.characters);
    let says = message.map(|message| format!(", which say “{message}”")).unwrap_or_default();
    match seen.count {
        1 => format!("has {kind}: {first}"),
        count => format!("has {count} {kind}, the first {first}{says}"),
    }
}

/// The ASCII text that is hidden in characters of a kind.
fn decode_hidden(why: InvisibleKind, characters: &str) -> Option<String> {
    let codes = characters.chars().map(u32::from);
    let bytes: Vec<u8> = match why {
        InvisibleKind::Tag => codes.filter_map(|code| u8::try_from(code - 0xe0000).ok()).collect(),
        InvisibleKind::VariationSelector => codes
            .filter_map(|code| match code {
                0xfe00..=0xfe0f => u8::try_from(code - 0xfe00).ok(),
                _ => u8::try_from(code.checked_sub(0xe0100)? + 16).ok(),
            })
            .collect(),
        InvisibleKind::ZeroWidth => return decode_bits(characters),
        _ => return None,
    };
    printable_message(&bytes)
}

/// Decodes two alternating zero-width characters as bits, in either assignment.
fn decode_bits(characters: &str) -> Option<String> {
    let first = characters.chars().next()?;
    let other = characters.chars().find(|c| *c != first)?;
    let only_two = || characters.chars().filter(move |c| *c == first || *c == other);
    let read = |one: char| {
        let bits: Vec<u8> = only_two().map(|c| u8::from(c == one)).collect();
        let byte = |bits: &[u8]| bits.iter().fold(0_u8, |byte, bit| byte << 1 | bit);
        printable_message(&bits.chunks_exact(8).map(byte).collect::<Vec<u8>>())
    };
    read(first).or_else(|| read(other))
}

fn printable_message(bytes: &[u8]) -> Option<String> {
    let is_text = |byte: &&u8| matches!(**byte, b' '..=b'~' | b'\n');
    let text: String = bytes.iter().filter(is_text).map(|byte| char::from(*byte)).collect();
    let is_mostly = 2 <= text.len() && bytes.len() <= text.len() + text.len() / 8 + 2;
    is_mostly.then(|| text.replace('\n', " ").chars().take(DECODED_LIMIT).collect())
}
