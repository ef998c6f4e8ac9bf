//! Converts the schemas of a specification to self-contained JSON Schema 2020-12, with each definition once.
//!
//! A definition is converted when the first tool needs it, and shared with all later tools. A tool carries the closure
//! of its references; circular schemas stay circular `$ref`s into the tool's own `$defs`.

mod definition_name;
mod ecma_pattern;
mod keyword_values;
mod object_acceptance;
mod schema_conversion;

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};

use model::{Schema, SchemaDefinition};
use serde_json::{Map, Value};

pub(super) use self::definition_name::DefinitionNames;
pub(super) use self::object_acceptance::accepts_objects_implicitly;
use json::document_text::{DocumentNode, DocumentObject};

use super::specification_documents::{
    DanglingReference, DocumentValue, SpecificationDocuments, reference_of,
};

/// A definition up to this length in bytes is inlined: a reference would not be shorter.
const MAX_INLINE_BYTES: usize = 64;

/// The maximum size of the definitions in a response schema, in bytes, nearest first. Definitions beyond it accept
/// anything. Real closures have hundreds of kilobytes for every tool, and no agent reads them.
const MAX_RESPONSE_DEFINITION_BYTES: usize = 4096;

/// Whether a schema describes a request or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaDirection {
    /// Omits `readOnly` properties.
    Request,
    /// Omits `writeOnly` properties, and examples, because no agent fills in a response.
    Response,
}

/// The converted schemas of one specification in one direction.
#[derive(Debug)]
pub(super) struct SharedSchemas<'a> {
    documents: &'a SpecificationDocuments<'a>,
    names: &'a DefinitionNames,
    direction: SchemaDirection,
    /// The entry of each target, by address; the values do not move.
    index: HashMap<*const DocumentNode<'a>, usize>,
    entries: Vec<SchemaEntry<'a>>,
    /// The entry of each reference, by the document that contains it; specifications repeat the same references.
    resolved: HashMap<(usize, &'a str), usize>,
    /// Whether a reference leads to a property that this direction omits.
    omitted: RefCell<HashMap<(usize, &'a str), bool>>,
    /// The index of the first entry that is not converted yet.
    converted: usize,
    /// Whether each pattern is valid in ECMA-262; specifications repeat the same patterns.
    portable: HashMap<&'a str, bool>,
}

#[derive(Debug)]
struct SchemaEntry<'a> {
    target: DocumentValue<'a>,
    name: Box<str>,
    state: DefinitionState,
}

#[derive(Debug)]
enum DefinitionState {
    Pending,
    /// Short enough to replace every reference to it.
    Inline(Value),
    Shared {
        definition: SchemaDefinition,
        /// The permissive definition that replaces it when the size limit is reached.
        anything: OnceCell<SchemaDefinition>,
        uses: Vec<usize>,
    },
    Broken(DanglingReference),
}

/// A converted schema and the definitions that it uses.
#[derive(Debug, Default)]
pub(super) struct SchemaDraft {
    pub value: Value,
    pub uses: Vec<usize>,
}

impl<'a> SharedSchemas<'a> {
    pub(super) fn new(
        documents: &'a SpecificationDocuments<'a>,
        names: &'a DefinitionNames,
        direction: SchemaDirection,
    ) -> Self {
        Self {
            documents,
            names,
            direction,
            index: HashMap::new(),
            entries: Vec::new(),
            resolved: HashMap::new(),
            omitted: RefCell::default(),
            converted: 0,
            portable: HashMap::new(),
        }
    }

    /// Converts one schema; its definitions are converted when the whole schema is assembled.
    pub(super) fn draft_schema(
        &mut self,
        place: DocumentValue<'a>,
    ) -> Result<SchemaDraft, DanglingReference> {
        let mut uses = Vec::new();
        let value = schema_conversion::convert_schema(self, place, &mut uses)?;
        Ok(SchemaDraft { value, uses })
    }

    /// Assembles a root schema and the closure of the definitions that it uses.
    pub(super) fn assemble_schema(
        &mut self,
        root: Map<String, Value>,
        uses: Vec<usize>,
    ) -> Result<Schema, DanglingReference> {
        self.convert_pending();
        let mut definitions = Vec::new();
        let mut reached = vec![false; self.entries.len()];
        let mut open: VecDeque<usize> = uses.into();
        let mut room = match self.direction {
            SchemaDirection::Request => usize::MAX,
            SchemaDirection::Response => MAX_RESPONSE_DEFINITION_BYTES,
        };
        while let Some(entry) = open.pop_front() {
            if std::mem::replace(&mut reached[entry], true) {
                continue;
            }
            match &self.entries[entry].state {
                DefinitionState::Shared { definition, uses, .. }
                    if definition.text_length() <= room =>
                {
                    room -= definition.text_length();
                    definitions.push(definition.clone());
                    open.extend(uses);
                }
                DefinitionState::Shared { definition, anything, .. } => {
                    definitions.push(anything.get_or_init(|| definition.to_unrestricted()).clone());
                }
                DefinitionState::Broken(dangling) => return Err(dangling.clone()),
                DefinitionState::Pending | DefinitionState::Inline(_) => {}
            }
        }
        Ok(match self.direction {
            SchemaDirection::Request => Schema::for_arguments(&root, definitions),
            SchemaDirection::Response => Schema::with_definitions(&root, &mut definitions),
        })
    }

    fn convert_pending(&mut self) {
        while let Some(entry) = self.entries.get(self.converted) {
            if matches!(entry.state, DefinitionState::Pending) {
                let target = entry.target;
                let mut uses = Vec::new();
                let state = match schema_conversion::convert_schema(self, target, &mut uses) {
                    Ok(value) => {
                        let name = self.entries[self.converted].name.clone();
                        DefinitionState::Shared {
                            definition: SchemaDefinition::new(name, &value),
                            anything: OnceCell::new(),
                            uses,
                        }
                    }
                    Err(dangling) => DefinitionState::Broken(dangling),
                };
                self.entries[self.converted].state = state;
            }
            self.converted += 1;
        }
    }

    /// Replaces a reference by `{"$ref": …}`, or by the definition itself if it is short.
    fn convert_reference(
        &mut self,
        place: DocumentValue<'a>,
        text: &'a str,
        uses: &mut Vec<usize>,
    ) -> Result<Value, DanglingReference> {
        let entry = match self.resolved.get(&(place.document, text)) {
            Some(entry) => *entry,
            None => {
                let (target, reference) = self.resolve_target(place, text)?;
                let entry = match self.index.get(&std::ptr::from_ref(target.value)) {
                    Some(entry) => *entry,
                    None => self.add_definition(target, reference),
                };
                self.resolved.insert((place.document, text), entry);
                entry
            }
        };
        match &self.entries[entry].state {
            DefinitionState::Inline(value) => Ok(value.clone()),
            DefinitionState::Pending
            | DefinitionState::Shared { .. }
            | DefinitionState::Broken(_) => {
                uses.push(entry);
                let mut schema = Map::new();
                let name = &self.entries[entry].name;
                schema.insert("$ref".to_owned(), Value::String(format!("#/$defs/{name}")));
                Ok(Value::Object(schema))
            }
        }
    }

    fn add_definition(&mut self, target: DocumentValue<'a>, reference: &'a str) -> usize {
        let entry = self.entries.len();
        self.index.insert(std::ptr::from_ref(target.value), entry);
        let name = self.names.definition_name(self.documents, target.document, reference);
        let state = match self.inline_value(target) {
            Some(value) => DefinitionState::Inline(value),
            None => DefinitionState::Pending,
        };
        self.entries.push(SchemaEntry { target, name: name.into(), state });
        entry
    }

    /// The converted schema, if it is short and has no references.
    fn inline_value(&mut self, place: DocumentValue<'a>) -> Option<Value> {
        let object = place.as_object()?;
        let nested = |value: &DocumentNode<'_>| match value {
            DocumentNode::Object(_) => true,
            DocumentNode::List(items) => {
                6 < items.len()
                    || items
                        .iter()
                        .any(|item| matches!(item, DocumentNode::Object(_) | DocumentNode::List(_)))
            }
            _ => false,
        };
        if 6 < object.len()
            || object.contains_key("$ref")
            || object.iter().any(|(_, value)| nested(value))
        {
            return None;
        }
        let mut uses = Vec::new();
        let value = schema_conversion::convert_schema(self, place, &mut uses).ok()?;
        (uses.is_empty() && value.to_string().len() <= MAX_INLINE_BYTES).then_some(value)
    }

    /// The target of a reference and the last reference on the way: a schema that is only a reference to another is not
    /// a definition of its own.
    fn resolve_target(
        &self,
        place: DocumentValue<'a>,
        text: &'a str,
    ) -> Result<(DocumentValue<'a>, &'a str), DanglingReference> {
        let (mut here, mut last) = (self.documents.follow_reference(place, text)?, text);
        // The length of the chain is limited.
        self.documents.resolve_reference(here)?;
        while let (Some(next), Some(1)) =
            (reference_of(here), here.as_object().map(DocumentObject::len))
        {
            (here, last) = (self.documents.follow_reference(here, next)?, next);
        }
        Ok((here, last))
    }

    fn is_portable(&mut self, pattern: &'a str) -> bool {
        *self.portable.entry(pattern).or_insert_with(|| ecma_pattern::is_ecma_pattern(pattern))
    }

    /// Whether a value is omitted in this direction: `readOnly` in a request, `writeOnly` in a response.
    pub(super) fn is_omitted(&self, place: DocumentValue<'a>) -> bool {
        let word = match self.direction {
            SchemaDirection::Request => "readOnly",
            SchemaDirection::Response => "writeOnly",
        };
        let says = |place: DocumentValue<'a>| place.value.get(word).and_then(DocumentNode::as_bool);
        if let Some(said) = says(place) {
            return said;
        }
        let Some(text) = reference_of(place) else { return false };
        let resolve = || {
            self.documents.resolve_reference(place).is_ok_and(|target| says(target) == Some(true))
        };
        *self.omitted.borrow_mut().entry((place.document, text)).or_insert_with(resolve)
    }

    pub(super) fn documents(&self) -> &'a SpecificationDocuments<'a> {
        self.documents
    }
}
