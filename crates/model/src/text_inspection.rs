//! Inspects the texts of a tool for invisible characters and prompt injection (requirement T2).
//!
//! Inspection takes linear time and never repeats a text unescaped. Callers decide what follows from a finding. The
//! stored texts stay unchanged; agents get them through [`sanitize_text`].

mod encoded_payload;
mod invisible_characters;
mod invisible_findings;
mod prompt_injection;
mod sanitize;
mod text_role;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use self::text_role::{SchemaContext, TextRole, WalkPointer, visit_texts};
use crate::{Digest, Finding, Manifest, Schema, SchemaDocument, SchemaRef, Severity};

pub use sanitize::{
    DESCRIPTION_LIMIT, is_fully_visible, printable_line, sanitize_description, sanitize_json,
    sanitize_text,
};

/// Findings reported per tool, the most severe first.
const MAX_FINDINGS: usize = 20;
/// Longest reported JSON pointer, in characters.
const POINTER_LIMIT: usize = 200;
/// Length of an excerpt in a finding, in characters.
const EXCERPT_LENGTH: usize = 60;
/// Runs of white space of this many characters, or lines, hide the text behind them.
const PADDING_LENGTH: usize = 200;
const PADDING_LINES: usize = 15;
/// White space this long is no accident.
const CRITICAL_PADDING_LENGTH: usize = 1000;

/// Inspects tools; caches the findings of schema documents that several tools share.
#[derive(Debug, Default)]
pub struct TextInspector {
    documents: HashMap<Digest, Arc<[Finding]>>,
}

impl TextInspector {
    /// The findings in a tool, the most severe first.
    pub fn inspect(&mut self, manifest: &Manifest) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut see = |at: &str, place, text: &str| inspect_text(at, place, text, &mut found);
        see("/name", TextRole::Fixed, &manifest.name);
        if let Some(title) = &manifest.title {
            see("/title", TextRole::Descriptive, title);
        }
        see("/description", TextRole::Descriptive, &manifest.description);
        for (number, tag) in manifest.tags.iter().enumerate() {
            see(&format!("/tags/{number}"), TextRole::Descriptive, tag);
        }
        if let Some(uri) = manifest.execution.resource_uri() {
            see("/execution/uri", TextRole::Fixed, uri);
        }
        if let Some(uri_template) = manifest.execution.resource_template() {
            see("/execution/uri_template", TextRole::Fixed, uri_template);
        }
        let extra = manifest.extra.iter();
        let extra = extra.map(|(name, value)| (name.to_string(), value.to_value())).collect();
        found.extend(inspect_json(&Value::Object(extra), SchemaContext::Keywords, "/extra"));
        if prompt_injection::mixes_alphabets(&manifest.name) {
            let what = "the name has letters that only look like those beside them";
            found.push(new_finding(
                "unicode.mixed",
                Severity::Warning,
                "/name",
                0,
                what.to_owned(),
            ));
        }
        self.inspect_schema("/input_schema", &manifest.input_schema, &mut found);
        if let Some(schema) = &manifest.output_schema {
            self.inspect_schema("/output_schema", schema, &mut found);
        }
        most_severe(found)
    }

    fn inspect_schema(&mut self, at: &str, schema: &Schema, found: &mut Vec<Finding>) {
        let stored = match schema.reference() {
            SchemaRef::Inline(text) => {
                return found.extend(inspect_json(&text.to_value(), SchemaContext::Keywords, at));
            }
            SchemaRef::Stored(stored) => stored,
        };
        let names: BTreeMap<&Digest, &str> =
            stored.definitions.iter().map(|(name, digest)| (digest, &**name)).collect();
        for document in schema.documents() {
            let place = match names.get(&document.digest) {
                Some(name) => {
                    let at = format!("{at}/$defs/{name}");
                    inspect_text(&at, TextRole::Fixed, name, found);
                    at
                }
                None => at.to_owned(),
            };
            let known = self.inspect_document(document);
            found.extend(known.iter().map(|finding| {
                let at = printable_pointer(&format!("{place}{}", finding.at));
                Finding { at, ..finding.clone() }
            }));
        }
    }

    fn inspect_document(&mut self, document: &SchemaDocument) -> Arc<[Finding]> {
        let inspect = || {
            let found = inspect_json(&document.text.to_value(), SchemaContext::Keywords, "");
            most_severe(found).into()
        };
        Arc::clone(self.documents.entry(document.digest).or_insert_with(inspect))
    }
}

/// Releases the memory of the pattern matcher if no text was inspected since the last call. The matcher is rebuilt when
/// it is needed.
pub fn release_inspector_memory() {
    prompt_injection::release_memory();
}

/// Sorts the findings by severity and drops those over the limit.
fn most_severe(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found.truncate(MAX_FINDINGS);
    found
}

fn inspect_json(value: &Value, within: SchemaContext, at: &str) -> Vec<Finding> {
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
fn inspect_text(at: &str, place: TextRole, text: &str, found: &mut Vec<Finding>) {
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

fn new_finding(
    check: &'static str,
    severity: Severity,
    at: &str,
    offset: usize,
    what: String,
) -> Finding {
    Finding { check: check.into(), severity, at: printable_pointer(at), offset, what: what.into() }
}

/// A printable pointer of limited length.
fn printable_pointer(at: &str) -> Box<str> {
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

#[cfg(test)]
mod tests;
