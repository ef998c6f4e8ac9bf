//! Inspects the texts of a tool for invisible characters and prompt injection (requirement T2).
//!
//! Inspection takes linear time and never repeats a text unescaped. Callers decide what follows from a finding. The
//! stored texts stay unchanged; agents get them through [`sanitize_text`](crate::sanitize_text).

use serde_json::Value;

use crate::finding::{Finding, Severity};
use crate::sanitize::DESCRIPTION_LIMIT;
use crate::text_role::{SchemaContext, TextRole, WalkPointer, visit_texts};
use crate::{encoded_payload, invisible_characters, invisible_findings, prompt_injection};

/// Findings reported per tool, the most severe first.
pub const MAX_FINDINGS: usize = 20;
/// Longest reported JSON pointer, in characters.
const POINTER_LIMIT: usize = 200;
/// Length of an excerpt in a finding, in characters.
const EXCERPT_LENGTH: usize = 60;
/// Runs of white space of this many characters, or lines, hide the text behind them.
const PADDING_LENGTH: usize = 200;
const PADDING_LINES: usize = 15;
/// White space this long is no accident.
const CRITICAL_PADDING_LENGTH: usize = 1000;

/// Sorts the findings by severity and drops those over the limit.
pub fn most_severe(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found.truncate(MAX_FINDINGS);
    found
}

/// The findings in all texts of a JSON value that stands at this JSON pointer.
pub fn inspect_json(value: &Value, within: SchemaContext, at: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    visit_texts(value, within, &mut WalkPointer::default(), &mut |below, place, text| {
        if text.len() < 2 {
            return;
        }
        let length = found.len();
        inspect_text(below, place, text, &mut found);
        for finding in found.iter_mut().skip(length) {
            finding.at = printable_pointer(&format!("{at}{}", finding.at));
        }
        // Truncate while collecting, so that memory stays bounded.
        if 4 * MAX_FINDINGS < found.len() {
            found = most_severe(std::mem::take(&mut found));
        }
    });
    found
}

/// Adds the findings in one text.
pub fn inspect_text(at: &str, place: TextRole, text: &str, found: &mut Vec<Finding>) {
    let mut add = |check: &'static str, severity, offset, what: String| {
        found.push(new_finding(check, severity, at, offset, what));
    };
    for hidden in invisible_findings::find_invisible(text, place) {
        add(hidden.check, hidden.severity, hidden.offset, hidden.what);
    }
    // No instruction is shorter than this.
    if text.len() < 12 {
        return;
    }
    for sign in prompt_injection::find_signs(text) {
        let excerpt = printable_excerpt(text, sign.offset);
        add(sign.check, sign.severity, sign.offset, format!("{}: “{excerpt}”", sign.what));
    }
    for encoded in encoded_payload::find_encoded(text) {
        let is_order = prompt_injection::find_signs(&encoded.plain)
            .iter()
            .any(|sign| Severity::Note < sign.severity);
        if !is_order && !encoded.is_sentence {
            continue;
        }
        let severity = if is_order { Severity::Critical } else { Severity::Warning };
        let what = format!("holds encoded text: “{}”", printable_excerpt(&encoded.plain, 0));
        add("text.payload", severity, encoded.offset, what);
    }
    if let Some((offset, length, is_inside)) = longest_padding(text) {
        let severity = match is_inside && CRITICAL_PADDING_LENGTH <= length {
            true => Severity::Critical,
            false if is_inside => Severity::Warning,
            false => Severity::Note,
        };
        let after = if is_inside { ", with text behind it" } else { "" };
        add(
            "text.padding",
            severity,
            offset,
            format!("has {length} characters of white space{after}"),
        );
    }
    if place == TextRole::Descriptive && DESCRIPTION_LIMIT < text.len() {
        let what = format!("has {} bytes: agents get the first {DESCRIPTION_LIMIT}", text.len());
        add("text.long", Severity::Note, 0, what);
    }
}

/// The longest run of white space: its offset, its length, and whether text follows it.
fn longest_padding(text: &str) -> Option<(usize, usize, bool)> {
    let (mut longest, mut start, mut length, mut lines, mut most_lines) =
        ((0, 0, false), 0, 0, 0, 0);
    for (offset, character) in text.chars().enumerate() {
        // The blank Braille pattern renders as a space.
        if character.is_whitespace() || character == '\u{2800}' {
            start = if length == 0 { offset } else { start };
            length += 1;
            lines += usize::from(character == '\n');
            continue;
        }
        most_lines = most_lines.max(std::mem::take(&mut lines));
        if longest.1 < length {
            longest = (start, length, true);
        }
        length = 0;
    }
    if longest.1 < length {
        longest = (start, length, false);
    }
    (PADDING_LENGTH <= longest.1 || PADDING_LINES <= most_lines).then_some(longest)
}

/// A finding with a printable pointer.
pub fn new_finding(
    check: &'static str,
    severity: Severity,
    at: &str,
    offset: usize,
    what: String,
) -> Finding {
    Finding { check: check.into(), severity, at: printable_pointer(at), offset, what: what.into() }
}

/// A printable pointer of limited length.
pub fn printable_pointer(at: &str) -> Box<str> {
    let plain = invisible_characters::escape_invisible(at);
    match plain.char_indices().nth(POINTER_LIMIT) {
        Some((end, _)) => format!("{}…", plain.get(..end).unwrap_or_default()).into(),
        None => plain.into(),
    }
}

/// An excerpt of the text from this character on, with invisible characters escaped.
fn printable_excerpt(text: &str, offset: usize) -> String {
    let some: String = text.chars().skip(offset).take(EXCERPT_LENGTH).collect();
    invisible_characters::escape_invisible(some.trim())
}
