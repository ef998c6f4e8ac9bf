//! Converts YAML 1.2 to a JSON value, event by event.
//!
//! Keys keep their spelling (`200:` is `"200"`, `1.10:` is `"1.10"`), and tags of other schemas are ignored. `<<`
//! merges as in YAML 1.1: the mapping's own keys take precedence, then the mapping named first.

mod yaml_anchors;
mod yaml_characters;
mod yaml_positions;
mod yaml_scalar;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use self::yaml_anchors::YamlAnchors;
use self::yaml_characters::{MAX_AHEAD, YamlCharacters};
pub(super) use self::yaml_positions::visit_positions;
use crate::document_text::document_node::{DocumentNode, DocumentObject};
use crate::document_text::{DocumentError, MAX_DEPTH, TextPosition};
use crate::strict_json::RESERVED_NAME;

/// The maximum length of a key in an error, in characters.
const KEY_EXCERPT_CHARS: usize = 80;

/// Up to this many keys are compared linearly.
const LINEAR_KEYS: usize = 16;

/// Reads the only document in `text`.
pub(super) fn read_yaml(text: &str) -> Result<DocumentNode<'_>, DocumentError> {
    let ahead = Cell::new(0);
    let events = Parser::new(YamlCharacters::new(text, &ahead));
    let mut reader = YamlReader { events, ahead: &ahead, anchors: YamlAnchors::new(text.len()) };
    reader.read_only_document()
}

struct YamlReader<'text, 'ahead> {
    events: Parser<'text, YamlCharacters<'text, 'ahead>>,
    /// The number of steps of the parser since its last event.
    ahead: &'ahead Cell<usize>,
    anchors: YamlAnchors<'text>,
}

impl<'text> YamlReader<'text, '_> {
    fn read_only_document(&mut self) -> Result<DocumentNode<'text>, DocumentError> {
        let mut document = None;
        loop {
            let (event, at) = self.next_event()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(_) if document.is_some() => {
                    return Err(DocumentError::SecondDocument { at });
                }
                Event::DocumentStart(_) => {
                    let (event, at) = self.next_event()?;
                    document = Some(self.read_value(event, at, 0)?);
                }
                Event::StreamEnd => return document.ok_or(DocumentError::Empty),
                other => return Err(misplaced_event(&other, at)),
            }
        }
    }

    fn next_event(&mut self) -> Result<(Event<'text>, TextPosition), DocumentError> {
        let next = self.events.next_event();
        let ahead = self.ahead.replace(0);
        match next {
            Some(Ok((_, span))) if MAX_AHEAD < ahead => {
                Err(DocumentError::FlowTooLong { at: position_of(span.start) })
            }
            Some(Err(error)) if MAX_AHEAD < ahead => {
                Err(DocumentError::FlowTooLong { at: position_of(*error.marker()) })
            }
            Some(Ok((event, span))) => Ok((event, position_of(span.start))),
            Some(Err(error)) => Err(scan_error(&error)),
            None => Ok((Event::StreamEnd, position_of(Marker::default()))),
        }
    }

    /// Reads the value that `event` starts, nested in `depth` others.
    fn read_value(
        &mut self,
        event: Event<'text>,
        at: TextPosition,
        depth: usize,
    ) -> Result<DocumentNode<'text>, DocumentError> {
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, yaml_scalar::scalar_value(shrink_text(text), style, tag))
            }
            Event::SequenceStart(anchor, _) => {
                (anchor, DocumentNode::List(self.read_list(increment_depth(depth, at)?)?))
            }
            Event::MappingStart(anchor, _) => {
                (anchor, DocumentNode::Object(self.read_mapping(increment_depth(depth, at)?)?))
            }
            Event::Alias(anchor) => return self.anchors.copy_value(anchor, at, depth),
            other => return Err(misplaced_event(&other, at)),
        };
        self.anchors.store_value(anchor, &value, at)?;
        Ok(value)
    }

    fn read_list(&mut self, depth: usize) -> Result<Box<[DocumentNode<'text>]>, DocumentError> {
        let mut list = Vec::new();
        loop {
            let (event, at) = self.next_event()?;
            if event == Event::SequenceEnd {
                return Ok(list.into_boxed_slice());
            }
            list.push(self.read_value(event, at, depth)?);
        }
    }

    fn read_mapping(&mut self, depth: usize) -> Result<DocumentObject<'text>, DocumentError> {
        let mut mapping: Vec<(Cow<'text, str>, DocumentNode<'text>)> = Vec::new();
        let mut merged = Vec::new();
        // Filled only when there are too many keys for a linear search.
        let mut known: HashSet<Cow<'text, str>> = HashSet::new();
        loop {
            let (event, at) = self.next_event()?;
            if event == Event::MappingEnd {
                break;
            }
            let merges = is_merge_key(&event);
            let key = self.read_key(event, at)?;
            let (event, value_at) = self.next_event()?;
            let value = self.read_value(event, value_at, depth)?;
            if merges {
                merged.append(&mut merged_mappings(value, at)?);
                continue;
            }
            let is_known = match mapping.len() {
                0..LINEAR_KEYS => mapping.iter().any(|(other, _)| *other == key),
                LINEAR_KEYS => {
                    known = mapping.iter().map(|(key, _)| key.clone()).collect();
                    !known.insert(key.clone())
                }
                _ => !known.insert(key.clone()),
            };
            if key == RESERVED_NAME {
                return Err(DocumentError::ReservedKey { at });
            }
            if is_known {
                return Err(DocumentError::DuplicateKey {
                    key: key.chars().take(KEY_EXCERPT_CHARS).collect(),
                    at,
                });
            }
            mapping.push((key, value));
        }
        if !merged.is_empty() {
            known = mapping.iter().map(|(key, _)| key.clone()).collect();
            for (key, value) in merged.into_iter().flat_map(DocumentObject::into_fields) {
                if known.insert(key.clone()) {
                    mapping.push((key, value));
                }
            }
        }
        Ok(DocumentObject::new(mapping))
    }

    fn read_key(
        &mut self,
        event: Event<'text>,
        at: TextPosition,
    ) -> Result<Cow<'text, str>, DocumentError> {
        match event {
            Event::Scalar(text, _, 0, _) => Ok(intern_key(text)),
            Event::Scalar(text, style, anchor, tag) => {
                let key = text.clone();
                self.anchors.store_value(
                    anchor,
                    &yaml_scalar::scalar_value(text, style, tag),
                    at,
                )?;
                Ok(key)
            }
            Event::Alias(anchor) => match self.anchors.copy_value(anchor, at, 0)? {
                DocumentNode::Text(text) => Ok(text),
                DocumentNode::List(_) | DocumentNode::Object(_) => {
                    Err(DocumentError::KeyIsNoText { at })
                }
                value => Ok(value.to_value().to_string().into()),
            },
            _ => Err(DocumentError::KeyIsNoText { at }),
        }
    }
}

/// Borrows a key that specifications repeat thousands of times; shrinks the allocation of any other key.
fn intern_key(text: Cow<'_, str>) -> Cow<'_, str> {
    const USUAL: [&str; 32] = [
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "application/json",
        "content",
        "default",
        "deprecated",
        "description",
        "enum",
        "example",
        "examples",
        "explode",
        "format",
        "get",
        "in",
        "items",
        "maxLength",
        "minLength",
        "name",
        "nullable",
        "oneOf",
        "operationId",
        "parameters",
        "properties",
        "required",
        "responses",
        "schema",
        "style",
        "summary",
        "title",
        "type",
    ];
    match USUAL.binary_search(&text.as_ref()) {
        Ok(found) => Cow::Borrowed(USUAL[found]),
        Err(_) => shrink_text(text),
    }
}

/// Releases unused capacity: the parser allocates more than most texts need.
fn shrink_text(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Owned(mut text) => {
            text.shrink_to_fit();
            Cow::Owned(text)
        }
        borrowed => borrowed,
    }
}

fn increment_depth(depth: usize, at: TextPosition) -> Result<usize, DocumentError> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(DocumentError::TooDeep { at }) }
}

/// Whether a key is `<<`; with quotes or a tag it is an ordinary key.
fn is_merge_key(key: &Event<'_>) -> bool {
    matches!(key, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<")
}

/// The mappings that `<<` merges.
fn merged_mappings(
    value: DocumentNode<'_>,
    at: TextPosition,
) -> Result<Vec<DocumentObject<'_>>, DocumentError> {
    let named = match value {
        DocumentNode::List(list) => list.into_vec(),
        other => vec![other],
    };
    let mapping = |value| match value {
        DocumentNode::Object(mapping) => Ok(mapping),
        _ => Err(DocumentError::NotMergeable { at }),
    };
    named.into_iter().map(mapping).collect()
}

fn position_of(marker: Marker) -> TextPosition {
    TextPosition { line: marker.line(), column: marker.col() + 1 }
}

fn scan_error(error: &ScanError) -> DocumentError {
    let at = position_of(*error.marker());
    match error.info() {
        // The parser itself limits brackets to a depth of 255.
        "recursion limit exceeded" => DocumentError::TooDeep { at },
        reason => DocumentError::NotYaml { reason: reason.to_owned(), at },
    }
}

fn misplaced_event(event: &Event<'_>, at: TextPosition) -> DocumentError {
    DocumentError::NotYaml { reason: format!("there is no place for {event:?}"), at }
}

#[cfg(test)]
mod tests;
