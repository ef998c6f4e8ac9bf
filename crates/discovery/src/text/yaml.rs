//! Converts YAML 1.2 to a JSON value, event by event.
//!
//! Keys keep their spelling (`200:` is `"200"`, `1.10:` is `"1.10"`), and tags of other schemas are ignored. `<<`
//! merges as in YAML 1.1: the mapping's own keys take precedence, then the mapping named first.

mod anchors;
mod characters;
mod scalar;
mod visit;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;

use model::strict_json::RESERVED;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use self::anchors::Anchors;
use self::characters::{Characters, MAX_AHEAD};
pub(super) use self::visit::visit;
use crate::text::node::{Node, Object};
use crate::text::{MAX_DEPTH, Place, TextError};

/// The maximum length of a key in an error, in characters.
const SHOWN: usize = 80;

/// Up to this many keys are compared linearly.
const FEW: usize = 16;

/// Reads the only document in `text`.
pub(super) fn read(text: &str) -> Result<Node<'_>, TextError> {
    let ahead = Cell::new(0);
    let events = Parser::new(Characters::new(text, &ahead));
    let mut reader = Reader { events, ahead: &ahead, anchors: Anchors::new(text.len()) };
    reader.document()
}

struct Reader<'text, 'ahead> {
    events: Parser<'text, Characters<'text, 'ahead>>,
    /// The number of steps of the parser since its last event.
    ahead: &'ahead Cell<usize>,
    anchors: Anchors<'text>,
}

impl<'text> Reader<'text, '_> {
    fn document(&mut self) -> Result<Node<'text>, TextError> {
        let mut document = None;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(_) if document.is_some() => {
                    return Err(TextError::SecondDocument { at });
                }
                Event::DocumentStart(_) => {
                    let (event, at) = self.next()?;
                    document = Some(self.value(event, at, 0)?);
                }
                Event::StreamEnd => return document.ok_or(TextError::Empty),
                other => return Err(misplaced(&other, at)),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'text>, Place), TextError> {
        let next = self.events.next_event();
        let ahead = self.ahead.replace(0);
        match next {
            Some(Ok((_, span))) if MAX_AHEAD < ahead => {
                Err(TextError::FlowTooLong { at: place(span.start) })
            }
            Some(Err(error)) if MAX_AHEAD < ahead => {
                Err(TextError::FlowTooLong { at: place(*error.marker()) })
            }
            Some(Ok((event, span))) => Ok((event, place(span.start))),
            Some(Err(error)) => Err(not_yaml(&error)),
            None => Ok((Event::StreamEnd, place(Marker::default()))),
        }
    }

    /// Reads the value that `event` starts, nested in `depth` others.
    fn value(
        &mut self,
        event: Event<'text>,
        at: Place,
        depth: usize,
    ) -> Result<Node<'text>, TextError> {
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, scalar::value(trimmed(text), style, tag))
            }
            Event::SequenceStart(anchor, _) => (anchor, Node::List(self.list(inside(depth, at)?)?)),
            Event::MappingStart(anchor, _) => {
                (anchor, Node::Object(self.mapping(inside(depth, at)?)?))
            }
            Event::Alias(anchor) => return self.anchors.copy(anchor, at, depth),
            other => return Err(misplaced(&other, at)),
        };
        self.anchors.keep(anchor, &value, at)?;
        Ok(value)
    }

    fn list(&mut self, depth: usize) -> Result<Box<[Node<'text>]>, TextError> {
        let mut list = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(list.into_boxed_slice());
            }
            list.push(self.value(event, at, depth)?);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Object<'text>, TextError> {
        let mut mapping: Vec<(Cow<'text, str>, Node<'text>)> = Vec::new();
        let mut merged = Vec::new();
        // Filled only when there are too many keys for a linear search.
        let mut known: HashSet<Cow<'text, str>> = HashSet::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let merges = is_merge(&event);
            let key = self.key(event, at)?;
            let (event, value_at) = self.next()?;
            let value = self.value(event, value_at, depth)?;
            if merges {
                merged.append(&mut mappings(value, at)?);
                continue;
            }
            let is_known = match mapping.len() {
                0..FEW => mapping.iter().any(|(other, _)| *other == key),
                FEW => {
                    known = mapping.iter().map(|(key, _)| key.clone()).collect();
                    !known.insert(key.clone())
                }
                _ => !known.insert(key.clone()),
            };
            if key == RESERVED {
                return Err(TextError::ReservedKey { at });
            }
            if is_known {
                return Err(TextError::DuplicateKey { key: key.chars().take(SHOWN).collect(), at });
            }
            mapping.push((key, value));
        }
        if !merged.is_empty() {
            known = mapping.iter().map(|(key, _)| key.clone()).collect();
            for (key, value) in merged.into_iter().flat_map(Object::into_members) {
                if known.insert(key.clone()) {
                    mapping.push((key, value));
                }
            }
        }
        Ok(Object::new(mapping))
    }

    fn key(&mut self, event: Event<'text>, at: Place) -> Result<Cow<'text, str>, TextError> {
        match event {
            Event::Scalar(text, _, 0, _) => Ok(key_text(text)),
            Event::Scalar(text, style, anchor, tag) => {
                let key = text.clone();
                self.anchors.keep(anchor, &scalar::value(text, style, tag), at)?;
                Ok(key)
            }
            Event::Alias(anchor) => match self.anchors.copy(anchor, at, 0)? {
                Node::Text(text) => Ok(text),
                Node::List(_) | Node::Object(_) => Err(TextError::KeyIsNoText { at }),
                value => Ok(value.to_value().to_string().into()),
            },
            _ => Err(TextError::KeyIsNoText { at }),
        }
    }
}

/// Borrows a key that specifications repeat thousands of times; shrinks the allocation of any other key.
fn key_text(text: Cow<'_, str>) -> Cow<'_, str> {
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
        Err(_) => trimmed(text),
    }
}

/// Releases unused capacity: the parser allocates more than most texts need.
fn trimmed(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Owned(mut text) => {
            text.shrink_to_fit();
            Cow::Owned(text)
        }
        borrowed => borrowed,
    }
}

fn inside(depth: usize, at: Place) -> Result<usize, TextError> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(TextError::TooDeep { at }) }
}

/// Whether a key is `<<`; with quotes or a tag it is an ordinary key.
fn is_merge(key: &Event<'_>) -> bool {
    matches!(key, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<")
}

/// The mappings that `<<` merges.
fn mappings(value: Node<'_>, at: Place) -> Result<Vec<Object<'_>>, TextError> {
    let named = match value {
        Node::List(list) => list.into_vec(),
        other => vec![other],
    };
    let mapping = |value| match value {
        Node::Object(mapping) => Ok(mapping),
        _ => Err(TextError::NotMergeable { at }),
    };
    named.into_iter().map(mapping).collect()
}

fn place(marker: Marker) -> Place {
    Place { line: marker.line(), column: marker.col() + 1 }
}

fn not_yaml(error: &ScanError) -> TextError {
    let at = place(*error.marker());
    match error.info() {
        // The parser itself limits brackets to a depth of 255.
        "recursion limit exceeded" => TextError::TooDeep { at },
        reason => TextError::NotYaml { reason: reason.to_owned(), at },
    }
}

fn misplaced(event: &Event<'_>, at: Place) -> TextError {
    TextError::NotYaml { reason: format!("there is no place for {event:?}"), at }
}

#[cfg(test)]
mod tests;
