//! JSON Schemas of tools: large, often shared, mostly passed on as they are.
//!
//! A [`Schema`] is whole and self-contained: what agents get. A [`SchemaRef`] is what events say instead: small
//! schemas stand in the event, large ones are [`Document`]s under their digest, so that a definition used by a
//! hundred tools is stored once. The digest does not see the order of keys; the text keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Digest, RawJson};

/// A part at least this long is stored as a document of its own: below it, the reference would not be much shorter.
const DOCUMENT_FROM: usize = 512;

/// A part of a schema that is stored once, under its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The address: SHA-256 of the text with sorted keys.
    pub digest: Digest,
    /// The JSON text.
    pub text: RawJson,
}

impl Document {
    fn new(value: Value) -> Self {
        Self { text: RawJson::from(&value), digest: Digest::of_canonical(value) }
    }

    /// Whether the text is what the digest says.
    pub fn is_intact(&self) -> bool {
        serde_json::from_str(self.text.as_str())
            .is_ok_and(|value| Digest::of_canonical(value) == self.digest)
    }
}

/// A whole, self-contained JSON Schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    reference: SchemaRef,
    documents: Arc<[Document]>,
}

/// A schema that is not an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tool's schema is a JSON object")]
pub struct InvalidSchema;

/// Where a schema's text is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaRef {
    /// Right here.
    Inline(RawJson),
    /// In documents beside the journal.
    Stored(Arc<StoredSchema>),
}

/// A schema in documents: its root, and the definitions that are documents of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSchema {
    /// The schema without the definitions below.
    pub root: Digest,
    /// `$defs` entries of the root, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<Box<str>, Digest>,
}

impl SchemaRef {
    /// The documents it needs, root first.
    pub fn digests(&self) -> impl Iterator<Item = Digest> + '_ {
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
    /// Takes a self-contained schema apart into what is stored once.
    pub fn new(value: Value) -> Result<Self, InvalidSchema> {
        let Value::Object(mut root) = value else { return Err(InvalidSchema) };
        let mut documents = Vec::new();
        let mut definitions = BTreeMap::new();
        if let Some(Value::Object(defs)) = root.get_mut("$defs") {
            let mut small = Map::new();
            for (name, value) in std::mem::take(defs) {
                if value.to_string().len() < DOCUMENT_FROM {
                    small.insert(name, value);
                } else {
                    let document = Document::new(value);
                    definitions.insert(name.into_boxed_str(), document.digest);
                    documents.push(document);
                }
            }
            *defs = small;
            if defs.is_empty() && !definitions.is_empty() {
                root.shift_remove("$defs");
            }
        }
        let root = Value::Object(root);
        let text = RawJson::from(&root);
        if definitions.is_empty() && text.as_str().len() < DOCUMENT_FROM {
            return Ok(Self { reference: SchemaRef::Inline(text), documents: Arc::new([]) });
        }
        let root = Document { digest: Digest::of_canonical(root), text };
        let stored = StoredSchema { root: root.digest, definitions };
        documents.push(root);
        Ok(Self { reference: SchemaRef::Stored(Arc::new(stored)), documents: documents.into() })
    }

    /// Puts a schema together again; `None` if `find` does not have one of its documents, or
    /// if it is no object.
    pub fn resolve(
        reference: &SchemaRef,
        find: impl Fn(&Digest) -> Option<RawJson>,
    ) -> Option<Self> {
        let document = |digest| find(&digest).map(|text| Document { digest, text });
        let documents = reference.digests().map(document).collect::<Option<Arc<[Document]>>>()?;
        let root = match reference {
            SchemaRef::Inline(text) => text,
            SchemaRef::Stored(_) => &documents.first()?.text,
        };
        // A journal that was imported may hold anything.
        if !root.as_str().starts_with('{') {
            return None;
        }
        Some(Self { reference: reference.clone(), documents })
    }

    /// What an event says instead of the schema.
    pub fn reference(&self) -> &SchemaRef {
        &self.reference
    }

    /// The documents an event that refers to the schema needs.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// The whole schema, self-contained.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn large(word: &str) -> Value {
        json!({"type": "object", "description": word.repeat(DOCUMENT_FROM)})
    }

    #[test]
    fn a_small_schema_stands_in_the_event() {
        let schema = Schema::new(json!({"type": "object"})).unwrap();
        assert!(schema.documents().is_empty());
        assert_eq!(
            serde_json::to_string(schema.reference()).unwrap(),
            r#"{"inline":{"type":"object"}}"#
        );
        assert_eq!(schema.to_value(), json!({"type": "object"}));
    }

    #[test]
    fn a_definition_two_schemas_share_is_one_document() {
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
    fn a_schema_is_put_together_from_its_reference() {
        let schema = Schema::new(json!({"$defs": {"A": large("a")}, "type": "object"})).unwrap();
        let stored = schema.documents().to_vec();
        let text = serde_json::to_string(schema.reference()).unwrap();
        let reference: SchemaRef = serde_json::from_str(&text).unwrap();
        let find =
            |digest: &Digest| stored.iter().find(|d| d.digest == *digest).map(|d| d.text.clone());
        assert_eq!(Schema::resolve(&reference, find).unwrap().to_value(), schema.to_value());
        assert_eq!(Schema::resolve(&reference, |_| None), None);
        assert!(stored.iter().all(Document::is_intact));
    }

    #[test]
    fn a_number_with_many_digits_does_not_change_on_its_way() {
        let value: Value = serde_json::from_str(&format!(
            r#"{{"maximum": 3.4028234663852886e38, "minimum": -1.7976931348623157e308, "x": "{}"}}"#,
            "x".repeat(DOCUMENT_FROM)
        ))
        .unwrap();
        let schema = Schema::new(value.clone()).unwrap();
        assert!(schema.documents().iter().all(Document::is_intact));
        assert_eq!(schema.to_value(), value);
    }

    #[test]
    fn a_document_that_is_no_object_is_no_schema() {
        let reference = SchemaRef::Stored(Arc::new(StoredSchema {
            root: Digest::of("x"),
            definitions: BTreeMap::new(),
        }));
        assert_eq!(Schema::resolve(&reference, |_| RawJson::parse("[1]").ok()), None);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert_eq!(Schema::new(json!(true)), Err(InvalidSchema));
    }
}
