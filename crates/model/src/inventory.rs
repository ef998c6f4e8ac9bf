//! An inventory: all manifests of one source from one discovery, with their hashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Digest, Document, InvalidId, Manifest, SchemaRef, SourceId, ToolId};

/// What one discovery found, ready to be compared with what is known.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// Which source was asked.
    pub source: SourceId,
    /// Its tools, in the order of their ids.
    pub tools: BTreeMap<ToolId, Discovered>,
    /// The published hash (16 hexadecimal characters over names, methods, paths and parameters): for people and other
    /// programs. Nothing is decided by it: 64 bits can be forged.
    pub published_hash: String,
    /// Over the whole canonical manifests: whether anything changed is decided by this.
    pub fingerprint: Digest,
    /// The upstream's own version, if it has one.
    pub source_version: Option<String>,
    /// What could not be converted, and why.
    pub warnings: Vec<Warning>,
}

/// One tool of an inventory.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// What the tool is, as events hold it.
    pub manifest: Arc<Manifest<SchemaRef>>,
    /// SHA-256 over every field of the manifest.
    pub fingerprint: Digest,
    /// The documents its schemas need.
    pub documents: Vec<Document>,
}

/// Something a discovery could not use. Never a silent loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// A stable code: `duplicate_operation_id`.
    pub code: Box<str>,
    /// Where it stands: a JSON pointer, a tool's name.
    pub at: Box<str>,
    /// One sentence.
    pub message: Box<str>,
}

/// A list of tools that cannot be an inventory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// Two operations with one key.
    #[error("the key `{key}` stands for two tools")]
    TwoOfOneKey {
        /// The key.
        key: String,
    },
    /// A key that cannot be part of a tool id.
    #[error(transparent)]
    Key(#[from] InvalidId),
}

impl Inventory {
    /// Takes the manifests by operation key.
    pub fn new(
        source: SourceId,
        manifests: impl IntoIterator<Item = (String, Manifest)>,
    ) -> Result<Self, InventoryError> {
        let mut tools = BTreeMap::new();
        let mut published = Vec::new();
        for (key, manifest) in manifests {
            let id = ToolId::new(&source, &key)?;
            let schemas = std::iter::once(&manifest.input_schema).chain(&manifest.output_schema);
            let documents = schemas.flat_map(|schema| schema.documents().iter().cloned()).collect();
            let stored = Arc::new(manifest.to_stored());
            let fingerprint = stored.fingerprint();
            published.push(published_entry(&manifest));
            if tools.insert(id, Discovered { manifest: stored, fingerprint, documents }).is_some() {
                return Err(InventoryError::TwoOfOneKey { key });
            }
        }
        let whole: Vec<_> = tools.iter().map(|(id, tool)| (id, tool.fingerprint)).collect();
        let fingerprint =
            Digest::of(serde_json::to_string(&whole).expect("ids and digests are JSON"));
        let published_hash = published_hash(published);
        Ok(Self {
            source,
            tools,
            published_hash,
            fingerprint,
            source_version: None,
            warnings: Vec::new(),
        })
    }
}

fn published_entry(manifest: &Manifest) -> (Box<str>, Value) {
    let mut parameters = manifest.input_schema.to_value();
    parameters.sort_all_objects();
    let entry = json!({
        "method": manifest.method, "name": manifest.name,
        "parameters": spaced(&parameters), "path": manifest.path,
    });
    (manifest.name.clone(), entry)
}

/// First 16 hexadecimal characters of SHA-256 over the name-sorted list, in the published spelling (requirement S7).
fn published_hash(mut entries: Vec<(Box<str>, Value)>) -> String {
    entries.sort_by(|one, two| one.0.cmp(&two.0));
    let list = Value::Array(entries.into_iter().map(|(_, entry)| entry).collect());
    Digest::of(spaced(&list)).to_string().chars().take(16).collect()
}

/// JSON as Python's `json.dumps` writes it (a space after `,` and `:`, ASCII only), so that hashes can be compared.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{}: {}", ascii(key), spaced(value));
            format!("{{{}}}", object.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => ascii(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn ascii(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    let mut out = String::with_capacity(quoted.len());
    for c in quoted.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

#[cfg(test)]
mod tests;
