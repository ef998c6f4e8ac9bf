//! JSON Schemas of tools: large, often shared, mostly passed on unchanged.
//!
//! A [`Schema`] is complete and self-contained; agents get this form. Events contain a [`SchemaRef`] instead: small
//! schemas are inline, large ones are [`SchemaDocument`]s addressed by digest, so a definition used by a hundred tools is
//! stored once. The digest ignores the order of keys; the text keeps it.

mod inline_definitions;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::inventory::published_hash;
use crate::{Digest, RawJson};

/// Shortest root schema that is stored as a separate document: for less, a reference saves little.
const MIN_DOCUMENT_LENGTH: usize = 512;
/// Shortest definition that is stored as a separate document, because schemas may share it.
const MIN_DEFINITION_LENGTH: usize = 192;

/// A part of a schema that is stored once, addressed by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaDocument {
    /// The address: SHA-256 of the text with sorted keys.
    pub digest: Digest,
    /// The JSON text.
    pub text: RawJson,
}

impl SchemaDocument {
    /// Whether the text matches the digest.
    pub fn is_intact(&self) -> bool {
        serde_json::from_str(self.text.as_str())
            .is_ok_and(|value| Digest::of_canonical(&value) == self.digest)
    }
}

/// An entry of `$defs` that several schemas may share; its text and digest are computed once.
#[derive(Clone, Debug)]
pub struct SchemaDefinition(Arc<PreparedDefinition>);

#[derive(Debug)]
struct PreparedDefinition {
    name: Box<str>,
    /// The name and a colon, in JSON syntax.
    key: Box<str>,
    text: RawJson,
    /// The text with sorted keys; empty if the definition is a separate document.
    sorted_text: Box<str>,
    /// The digest, if the definition is stored as a separate document.
    digest: Option<Digest>,
    /// Name and text in the format of the published hash.
    published_text: OnceLock<String>,
}

impl SchemaDefinition {
    /// Prepares a definition under its name in `$defs`.
    pub fn new(name: Box<str>, value: &Value) -> Self {
        let text = RawJson::from(value);
        let sorted = Digest::canonical_json(value);
        let is_document = MIN_DEFINITION_LENGTH <= text.as_str().len();
        let digest = is_document.then(|| Digest::of_bytes(&sorted));
        let sorted = if is_document { Box::default() } else { sorted.into() };
        let key = format!("{}:", Value::from(&*name)).into();
        Self(Arc::new(PreparedDefinition {
            name,
            key,
            text,
            sorted_text: sorted,
            digest,
            published_text: OnceLock::new(),
        }))
    }

    /// Length of the text in bytes.
    pub fn text_length(&self) -> usize {
        self.0.text.as_str().len()
    }

    /// A definition of the same name that allows any value.
    pub fn to_unrestricted(&self) -> Self {
        Self::new(self.0.name.clone(), &Value::Object(Map::new()))
    }

    /// Name and text in the format of the published hash.
    fn published_text(&self) -> &str {
        let name = || published_hash::quoted_python_json(&Value::from(&*self.0.name));
        let text = || published_hash::quoted_python_json(&self.0.text.to_value());
        self.0.published_text.get_or_init(|| format!("{}: {}", name(), text()))
    }
}

/// A complete, self-contained JSON Schema.
#[derive(Clone, Debug)]
pub struct Schema {
    reference: SchemaRef,
    documents: Arc<[SchemaDocument]>,
    /// Input of the published hash; only set for a newly discovered schema.
    published: Option<Arc<PublishedSchema>>,
}

#[derive(Debug)]
struct PublishedSchema {
    /// The root's text before and after `$defs`, with sorted keys.
    root_parts: (String, String),
    /// All definitions, ordered by name.
    definitions: Vec<SchemaDefinition>,
}

impl PublishedSchema {
    fn write_text(&self, mut write: impl FnMut(&str)) {
        let (before, after) = &self.root_parts;
        let (is_first, is_last) = (before == "{", after == "}");
        write(before);
        if self.definitions.is_empty() {
            write(if is_first || is_last { "" } else { ", " });
        } else {
            write(if is_first { "" } else { ", " });
            let mut between = "\\\"$defs\\\": {";
            for definition in &self.definitions {
                write(between);
                write(definition.published_text());
                between = ", ";
            }
            write(if is_last { "}" } else { "}, " });
        }
        write(after);
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.reference == other.reference && self.documents == other.documents
    }
}
impl Eq for Schema {}

/// The error for a schema that is not a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tool's schema is a JSON object")]
pub struct InvalidSchema;

/// A reference to a schema's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaRef {
    /// The text itself.
    Inline(RawJson),
    /// Digests of documents that are stored next to the journal.
    Stored(Arc<StoredSchema>),
}

/// A schema in documents: its root, and the definitions that are separate documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSchema {
    /// Digest of the schema without the definitions listed below.
    pub root: Digest,
    /// Digests of the separate `$defs` entries, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<Box<str>, Digest>,
}

impl SchemaRef {
    /// Digests of the documents it refers to, root first.
    pub fn document_digests(&self) -> impl Iterator<Item = Digest> + '_ {
        let stored = match self {
            Self::Inline(_) => None,
            Self::Stored(stored) => Some(stored),
        };
        stored.into_iter().flat_map(|stored| {
            std::iter::once(stored.root).chain(stored.definitions.values().copied())
        })
    }
}

impl Schema {
    /// Splits a self-contained schema into its root and definitions.
    pub fn new(value: Value) -> Result<Self, InvalidSchema> {
        let Value::Object(mut root) = value else { return Err(InvalidSchema) };
        // Keep an invalid `$defs` in place.
        let definitions = match root.get("$defs") {
            Some(Value::Object(_)) => root.shift_remove("$defs"),
            _ => None,
        };
        let definitions = definitions.as_ref().and_then(Value::as_object).into_iter().flatten();
        let mut definitions: Vec<SchemaDefinition> = definitions
            .map(|(name, value)| SchemaDefinition::new(name.as_str().into(), value))
            .collect();
        Ok(Self::with_definitions(&root, &mut definitions))
    }

    /// Builds a schema from its root and its definitions, which other schemas may share.
    pub fn with_definitions(
        root: &Map<String, Value>,
        definitions: &mut [SchemaDefinition],
    ) -> Self {
        definitions.sort_by(|one, two| one.0.name.cmp(&two.0.name));
        let (mut documents, mut large) = (Vec::new(), BTreeMap::new());
        let mut small: Vec<&SchemaDefinition> = Vec::new();
        for definition in &*definitions {
            match definition.0.digest {
                Some(digest) => {
                    large.insert(definition.0.name.clone(), digest);
                    documents.push(SchemaDocument { digest, text: definition.0.text.clone() });
                }
                None => small.push(definition),
            }
        }
        let text = root_text(root, &small);
        if large.is_empty() && text.len() < MIN_DOCUMENT_LENGTH {
            let reference = SchemaRef::Inline(RawJson::from_trusted(text));
            return Self { reference, documents: Arc::new([]), published: None };
        }
        let digest = Digest::of_bytes(sorted_root(root, &small));
        documents.push(SchemaDocument { digest, text: RawJson::from_trusted(text) });
        let stored = StoredSchema { root: digest, definitions: large };
        Self {
            reference: SchemaRef::Stored(Arc::new(stored)),
            documents: documents.into(),
            published: None,
        }
    }

    /// Builds the schema of a tool's arguments, which is part of the published hash. Definitions that tools share are
    /// prepared once.
    pub fn for_arguments(
        root: &Map<String, Value>,
        mut definitions: Vec<SchemaDefinition>,
    ) -> Self {
        let schema = Self::with_definitions(root, &mut definitions);
        let published = PublishedSchema {
            root_parts: published_hash::text_around_definitions(root),
            definitions,
        };
        Self { published: Some(Arc::new(published)), ..schema }
    }

    /// Writes the schema in the format of the published hash, piece by piece.
    pub(crate) fn write_published(&self, mut write: impl FnMut(&str)) {
        match &self.published {
            Some(prepared) => prepared.write_text(write),
            None => write(&published_hash::quoted_python_json(&self.to_value())),
        }
    }

    /// Rebuilds a schema; `None` if `find` does not return one of its documents, or if the root is not an object.
    pub fn resolve(
        reference: &SchemaRef,
        find: impl Fn(&Digest) -> Option<RawJson>,
    ) -> Option<Self> {
        let document = |digest| find(&digest).map(|text| SchemaDocument { digest, text });
        let documents = reference
            .document_digests()
            .map(document)
            .collect::<Option<Arc<[SchemaDocument]>>>()?;
        let root = match reference {
            SchemaRef::Inline(text) => text,
            SchemaRef::Stored(_) => &documents.first()?.text,
        };
        // An imported journal may contain anything.
        if !root.as_str().starts_with('{') {
            return None;
        }
        Some(Self { reference: reference.clone(), documents, published: None })
    }

    /// The reference to store in events.
    pub fn reference(&self) -> &SchemaRef {
        &self.reference
    }

    /// Whether the schema's text contains this string.
    pub fn contains_text(&self, word: &str) -> bool {
        let inline = match &self.reference {
            SchemaRef::Inline(text) => Some(text),
            SchemaRef::Stored(_) => None,
        };
        let mut texts = self.documents.iter().map(|document| &document.text).chain(inline);
        texts.any(|text| text.as_str().contains(word))
    }

    /// The documents that the reference refers to.
    pub fn documents(&self) -> &[SchemaDocument] {
        &self.documents
    }

    /// The complete schema for agents; definitions are inlined where that is shorter.
    pub fn to_served(&self) -> Value {
        inline_definitions::inline_definitions(self.to_value())
    }

    /// The schema without its separately stored definitions: sufficient to list the arguments.
    pub fn root_value(&self) -> Value {
        match &self.reference {
            SchemaRef::Inline(text) => text.to_value(),
            SchemaRef::Stored(stored) => {
                let root = self.documents.iter().find(|document| document.digest == stored.root);
                root.map_or(Value::Null, |document| document.text.to_value())
            }
        }
    }

    /// The complete, self-contained schema.
    pub fn to_value(&self) -> Value {
        let stored = match &self.reference {
            SchemaRef::Inline(text) => return text.to_value(),
            SchemaRef::Stored(stored) => stored,
        };
        let text = |digest: &Digest| {
            let found = self.documents.iter().find(|document| document.digest == *digest);
            found.expect("a schema holds its documents").text.to_value()
        };
        let mut root = text(&stored.root);
        if let (Some(object), false) = (root.as_object_mut(), stored.definitions.is_empty()) {
            let mut defs = match object.shift_remove("$defs") {
                Some(Value::Object(defs)) => defs,
                _ => Map::new(),
            };
            for (name, digest) in &stored.definitions {
                defs.insert(name.as_ref().to_owned(), text(digest));
            }
            object.insert("$defs".to_owned(), Value::Object(defs));
        }
        root
    }
}

/// The text of a root schema, with its small definitions at the end.
fn root_text(root: &Map<String, Value>, small: &[&SchemaDefinition]) -> String {
    let mut text = serde_json::to_string(root).expect("a map of values is JSON");
    if !small.is_empty() {
        text.pop();
        text.push_str(if root.is_empty() { "\"$defs\":{" } else { ",\"$defs\":{" });
        push_definitions(&mut text, small, |definition| definition.0.text.as_str());
        text.push_str("}}");
    }
    text
}

/// The text of a root schema with sorted keys.
fn sorted_root(root: &Map<String, Value>, small: &[&SchemaDefinition]) -> String {
    let mut entries: Vec<(&str, Option<&Value>)> =
        root.iter().map(|(key, value)| (key.as_str(), Some(value))).collect();
    if !small.is_empty() {
        entries.push(("$defs", None));
    }
    entries.sort_unstable_by_key(|(key, _)| *key);
    let mut text = String::from("{");
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if 0 < index {
            text.push(',');
        }
        text.push_str(&Value::from(key).to_string());
        text.push(':');
        match value {
            Some(value) => text.push_str(&Digest::canonical_json(value)),
            None => {
                text.push('{');
                push_definitions(&mut text, small, |definition| &definition.0.sorted_text);
                text.push('}');
            }
        }
    }
    text.push('}');
    text
}

fn push_definitions<'a>(
    text: &mut String,
    definitions: &[&'a SchemaDefinition],
    own: impl Fn(&'a SchemaDefinition) -> &'a str,
) {
    for (index, definition) in definitions.iter().enumerate() {
        if 0 < index {
            text.push(',');
        }
        text.push_str(&definition.0.key);
        text.push_str(own(definition));
    }
}

/// Whether an object's schema may define properties elsewhere than in `properties`.
pub fn has_indirect_properties(schema: &Value) -> bool {
    const ELSEWHERE: [&str; 9] = [
        "$ref",
        "$dynamicRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "dependentSchemas",
        "patternProperties",
        "unevaluatedProperties",
    ];
    ELSEWHERE.iter().any(|keyword| schema.get(keyword).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn large(word: &str) -> Value {
        json!({"type": "object", "description": word.repeat(MIN_DOCUMENT_LENGTH)})
    }

    #[test]
    fn a_small_schema_is_inline() {
        let schema = Schema::new(json!({"type": "object"})).unwrap();
        assert!(schema.documents().is_empty());
        assert_eq!(
            serde_json::to_string(schema.reference()).unwrap(),
            r#"{"inline":{"type":"object"}}"#
        );
        assert_eq!(schema.to_value(), json!({"type": "object"}));
    }

    #[test]
    fn a_shared_definition_is_one_document() {
        let whole = |title: &str| {
            json!({"title": title, "properties": {"pet": {"$ref": "#/$defs/Pet"}},
                   "$defs": {"Pet": large("p"), "Id": {"type": "integer"}}})
        };
        let (one, two) = (Schema::new(whole("one")).unwrap(), Schema::new(whole("two")).unwrap());
        assert_eq!(one.documents().len(), 2);
        assert_eq!(one.documents()[0], two.documents()[0]);
        assert_ne!(one.documents()[1], two.documents()[1]);
        assert_eq!(one.to_value(), whole("one"));
    }

    #[test]
    fn a_schema_is_rebuilt_from_its_reference() {
        let schema = Schema::new(json!({"$defs": {"A": large("a")}, "type": "object"})).unwrap();
        let stored = schema.documents().to_vec();
        let text = serde_json::to_string(schema.reference()).unwrap();
        let reference: SchemaRef = serde_json::from_str(&text).unwrap();
        let find =
            |digest: &Digest| stored.iter().find(|d| d.digest == *digest).map(|d| d.text.clone());
        assert_eq!(Schema::resolve(&reference, find).unwrap().to_value(), schema.to_value());
        assert_eq!(Schema::resolve(&reference, |_| None), None);
        assert!(stored.iter().all(SchemaDocument::is_intact));
    }

    #[test]
    fn a_number_with_many_digits_stays_unchanged() {
        let value: Value = serde_json::from_str(&format!(
            r#"{{"maximum": 3.4028234663852886e38, "minimum": -1.7976931348623157e308, "x": "{}"}}"#,
            "x".repeat(MIN_DOCUMENT_LENGTH)
        ))
        .unwrap();
        let schema = Schema::new(value.clone()).unwrap();
        assert!(schema.documents().iter().all(SchemaDocument::is_intact));
        assert_eq!(schema.to_value(), value);
    }

    #[test]
    fn a_document_must_be_an_object() {
        let reference = SchemaRef::Stored(Arc::new(StoredSchema {
            root: Digest::of_bytes("x"),
            definitions: BTreeMap::new(),
        }));
        assert_eq!(Schema::resolve(&reference, |_| RawJson::parse("[1]").ok()), None);
    }

    #[test]
    fn a_schema_must_be_an_object() {
        assert_eq!(Schema::new(json!(true)), Err(InvalidSchema));
    }
}
