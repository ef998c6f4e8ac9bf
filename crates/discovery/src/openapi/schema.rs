//! Converts the schemas of a specification to self-contained JSON Schema 2020-12, with each definition once.
//!
//! A definition is converted when the first tool needs it, and shared with all later tools. A tool carries the closure
//! of its references; circular schemas stay circular `$ref`s into the tool's own `$defs`.

mod convert;
mod definition_name;
mod keyword;
mod objects;
mod pattern;

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};

use model::{Definition, Schema};
use serde_json::{Map, Value};

pub(super) use self::definition_name::DefinitionNames;
pub(super) use self::objects::takes_objects_unsaid;
use super::documents::{Dangling, Documents, Place, reference};
use crate::text::{Node, Object};

/// A definition up to this length in bytes is inlined: a reference would not be shorter.
const INLINE_UNTIL: usize = 64;

/// The maximum size of the definitions in a response schema, in bytes, nearest first. Definitions beyond it accept
/// anything. Real closures have hundreds of kilobytes for every tool, and no agent reads them.
const RESPONSE_UNTIL: usize = 4096;

/// Whether a schema describes a request or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Omits `readOnly` properties.
    Request,
    /// Omits `writeOnly` properties, and examples, because no agent fills in a response.
    Response,
}

/// The converted schemas of one specification in one direction.
#[derive(Debug)]
pub(super) struct Schemas<'a> {
    documents: &'a Documents<'a>,
    names: &'a DefinitionNames,
    direction: Direction,
    /// The entry of each target, by address; the values do not move.
    index: HashMap<*const Node<'a>, usize>,
    entries: Vec<Entry<'a>>,
    /// The entry of each reference, by the document that contains it; specifications repeat the same references.
    known: HashMap<(usize, &'a str), usize>,
    /// Whether a reference leads to a property that this direction omits.
    left_out: RefCell<HashMap<(usize, &'a str), bool>>,
    /// The index of the first entry that is not converted yet.
    converted: usize,
    /// Whether each pattern is valid in ECMA-262; specifications repeat the same patterns.
    portable: HashMap<&'a str, bool>,
}

#[derive(Debug)]
struct Entry<'a> {
    target: Place<'a>,
    name: Box<str>,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting,
    /// Short enough to replace every reference to it.
    Inline(Value),
    Shared {
        definition: Definition,
        /// The permissive definition that replaces it when the size limit is reached.
        anything: OnceCell<Definition>,
        uses: Vec<usize>,
    },
    Broken(Dangling),
}

/// A converted schema and the definitions that it uses.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub value: Value,
    pub uses: Vec<usize>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(
        documents: &'a Documents<'a>,
        names: &'a DefinitionNames,
        direction: Direction,
    ) -> Self {
        Self {
            documents,
            names,
            direction,
            index: HashMap::new(),
            entries: Vec::new(),
            known: HashMap::new(),
            left_out: RefCell::default(),
            converted: 0,
            portable: HashMap::new(),
        }
    }

    /// Converts one schema; its definitions are converted when the whole schema is assembled.
    pub(super) fn draft(&mut self, place: Place<'a>) -> Result<Draft, Dangling> {
        let mut uses = Vec::new();
        let value = convert::convert(self, place, &mut uses)?;
        Ok(Draft { value, uses })
    }

    /// Assembles a root schema and the closure of the definitions that it uses.
    pub(super) fn whole(
        &mut self,
        root: Map<String, Value>,
        uses: Vec<usize>,
    ) -> Result<Schema, Dangling> {
        self.convert_waiting();
        let mut definitions = Vec::new();
        let mut reached = vec![false; self.entries.len()];
        let mut open: VecDeque<usize> = uses.into();
        let mut room = match self.direction {
            Direction::Request => usize::MAX,
            Direction::Response => RESPONSE_UNTIL,
        };
        while let Some(entry) = open.pop_front() {
            if std::mem::replace(&mut reached[entry], true) {
                continue;
            }
            match &self.entries[entry].state {
                State::Shared { definition, uses, .. } if definition.size() <= room => {
                    room -= definition.size();
                    definitions.push(definition.clone());
                    open.extend(uses);
                }
                State::Shared { definition, anything, .. } => {
                    definitions.push(anything.get_or_init(|| definition.to_anything()).clone());
                }
                State::Broken(dangling) => return Err(dangling.clone()),
                State::Waiting | State::Inline(_) => {}
            }
        }
        Ok(match self.direction {
            Direction::Request => Schema::of_arguments(&root, definitions),
            Direction::Response => Schema::with_definitions(&root, &mut definitions),
        })
    }

    fn convert_waiting(&mut self) {
        while let Some(entry) = self.entries.get(self.converted) {
            if matches!(entry.state, State::Waiting) {
                let target = entry.target;
                let mut uses = Vec::new();
                let state = match convert::convert(self, target, &mut uses) {
                    Ok(value) => {
                        let name = self.entries[self.converted].name.clone();
                        State::Shared {
                            definition: Definition::new(name, &value),
                            anything: OnceCell::new(),
                            uses,
                        }
                    }
                    Err(dangling) => State::Broken(dangling),
                };
                self.entries[self.converted].state = state;
            }
            self.converted += 1;
        }
    }

    /// Replaces a reference by `{"$ref": …}`, or by the definition itself if it is short.
    fn referred(
        &mut self,
        place: Place<'a>,
        text: &'a str,
        uses: &mut Vec<usize>,
    ) -> Result<Value, Dangling> {
        let entry = match self.known.get(&(place.document, text)) {
            Some(entry) => *entry,
            None => {
                let (target, reference) = self.target(place, text)?;
                let entry = match self.index.get(&std::ptr::from_ref(target.value)) {
                    Some(entry) => *entry,
                    None => self.define(target, reference),
                };
                self.known.insert((place.document, text), entry);
                entry
            }
        };
        match &self.entries[entry].state {
            State::Inline(value) => Ok(value.clone()),
            State::Waiting | State::Shared { .. } | State::Broken(_) => {
                uses.push(entry);
                let mut schema = Map::new();
                let name = &self.entries[entry].name;
                schema.insert("$ref".to_owned(), Value::String(format!("#/$defs/{name}")));
                Ok(Value::Object(schema))
            }
        }
    }

    fn define(&mut self, target: Place<'a>, reference: &'a str) -> usize {
        let entry = self.entries.len();
        self.index.insert(std::ptr::from_ref(target.value), entry);
        let name = self.names.name(self.documents, target.document, reference);
        let state = match self.short(target) {
            Some(value) => State::Inline(value),
            None => State::Waiting,
        };
        self.entries.push(Entry { target, name: name.into(), state });
        entry
    }

    /// The converted schema, if it is short and has no references.
    fn short(&mut self, place: Place<'a>) -> Option<Value> {
        let object = place.object()?;
        let nested = |value: &Node<'_>| match value {
            Node::Object(_) => true,
            Node::List(items) => {
                6 < items.len()
                    || items.iter().any(|item| matches!(item, Node::Object(_) | Node::List(_)))
            }
            _ => false,
        };
        if 6 < object.len()
            || object.contains("$ref")
            || object.iter().any(|(_, value)| nested(value))
        {
            return None;
        }
        let mut uses = Vec::new();
        let value = convert::convert(self, place, &mut uses).ok()?;
        (uses.is_empty() && value.to_string().len() <= INLINE_UNTIL).then_some(value)
    }

    /// The target of a reference and the last reference on the way: a schema that is only a reference to another is not
    /// a definition of its own.
    fn target(&self, place: Place<'a>, text: &'a str) -> Result<(Place<'a>, &'a str), Dangling> {
        let (mut here, mut last) = (self.documents.follow(place, text)?, text);
        // The length of the chain is limited.
        self.documents.resolve(here)?;
        while let (Some(next), Some(1)) = (reference(here), here.object().map(Object::len)) {
            (here, last) = (self.documents.follow(here, next)?, next);
        }
        Ok((here, last))
    }

    fn is_portable(&mut self, pattern: &'a str) -> bool {
        *self.portable.entry(pattern).or_insert_with(|| pattern::is_portable(pattern))
    }

    /// Whether a value is omitted in this direction: `readOnly` in a request, `writeOnly` in a response.
    pub(super) fn is_left_out(&self, place: Place<'a>) -> bool {
        let word = match self.direction {
            Direction::Request => "readOnly",
            Direction::Response => "writeOnly",
        };
        let says = |place: Place<'a>| place.value.get(word).and_then(Node::as_bool);
        if let Some(said) = says(place) {
            return said;
        }
        let Some(text) = reference(place) else { return false };
        let resolve =
            || self.documents.resolve(place).is_ok_and(|target| says(target) == Some(true));
        *self.left_out.borrow_mut().entry((place.document, text)).or_insert_with(resolve)
    }

    pub(super) fn documents(&self) -> &'a Documents<'a> {
        self.documents
    }
}
