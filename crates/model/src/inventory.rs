//! An inventory: all manifests of one source from one discovery, with their hashes.

pub(crate) mod published_hash;

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::published_hash::PublishedHashBuilder;
use crate::{
    Digest, Finding, InvalidId, Manifest, Schema, SchemaDocument, SchemaRef, SourceId,
    TextInspector, ToolId,
};

/// The result of one discovery of a source, ready to be compared with the catalog.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The discovered source.
    pub source: SourceId,
    /// Its tools, ordered by id.
    pub tools: BTreeMap<ToolId, DiscoveredTool>,
    /// The published hash (16 hexadecimal characters over names, methods, paths and parameters), for people and other
    /// programs. No decision depends on it: 64 bits can be forged.
    pub published_hash: String,
    /// Hash over the whole canonical manifests; a refresh compares it to detect changes.
    pub fingerprint: Digest,
    /// The upstream's own version, if it reports one.
    pub source_version: Option<String>,
    /// Parts that could not be converted, with the reasons.
    pub warnings: Vec<DiscoveryWarning>,
}

/// One tool of an inventory.
#[derive(Clone, Debug)]
pub struct DiscoveredTool {
    /// The manifest as stored in events.
    pub manifest: Arc<Manifest<SchemaRef>>,
    /// SHA-256 over every field of the manifest.
    pub fingerprint: Digest,
    /// The documents that its schemas refer to.
    pub documents: Vec<SchemaDocument>,
    /// Invisible or suspicious parts of its texts, the most severe first.
    pub findings: Vec<Finding>,
}

impl DiscoveredTool {
    /// Resolves a schema reference of the manifest.
    pub fn schema(&self, reference: &SchemaRef) -> Schema {
        let find = |digest: &Digest| {
            let document = self.documents.iter().find(|document| document.digest == *digest);
            document.map(|document| document.text.clone())
        };
        Schema::resolve(reference, find).expect("a discovered tool has its documents")
    }
}

/// Something a discovery could not use. Never a silent loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Warning")]
pub struct DiscoveryWarning {
    /// A stable code: `dangling_reference`.
    pub code: Box<str>,
    /// Where it stands: a JSON pointer, a tool's name.
    pub at: Box<str>,
    /// One sentence.
    pub message: Box<str>,
}

/// The error for manifests that do not form an inventory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// Two operations share a key.
    #[error("the key `{key}` stands for two tools")]
    DuplicateKey {
        /// The shared key.
        key: String,
    },
    /// A key is not valid in a tool id.
    #[error(transparent)]
    Key(#[from] InvalidId),
}

impl Inventory {
    /// Builds an inventory from manifests and their operation keys.
    pub fn new(
        source: SourceId,
        manifests: impl IntoIterator<Item = (String, Manifest)>,
    ) -> Result<Self, InventoryError> {
        let mut manifests: Vec<(String, Manifest)> = manifests.into_iter().collect();
        manifests.sort_by(|one, two| one.1.name.cmp(&two.1.name));
        let mut gathering = InventoryBuilder::new(source);
        for (key, manifest) in manifests {
            gathering.add(key, manifest)?;
        }
        Ok(gathering.finish())
    }
}

/// Builds an inventory one manifest at a time, and keeps only the stored form of each.
#[derive(Debug)]
pub struct InventoryBuilder {
    source: SourceId,
    tools: BTreeMap<ToolId, DiscoveredTool>,
    published: PublishedHashBuilder,
    inspector: TextInspector,
}

impl InventoryBuilder {
    /// An empty builder.
    pub fn new(source: SourceId) -> Self {
        Self {
            source,
            tools: BTreeMap::new(),
            published: PublishedHashBuilder::new(),
            inspector: TextInspector::default(),
        }
    }

    /// Adds a manifest under its operation key. Call it in the order of tool names: the published hash requires that
    /// order.
    pub fn add(&mut self, key: String, manifest: Manifest) -> Result<(), InventoryError> {
        let id = ToolId::new(&self.source, &key)?;
        let schemas = std::iter::once(&manifest.input_schema).chain(&manifest.output_schema);
        let documents = schemas.flat_map(|schema| schema.documents().iter().cloned()).collect();
        self.published.add(&manifest);
        let findings = self.inspector.inspect(&manifest);
        let stored = Arc::new(manifest.into_stored());
        let fingerprint = stored.fingerprint();
        let tool = DiscoveredTool { manifest: stored, fingerprint, documents, findings };
        match self.tools.insert(id, tool) {
            None => Ok(()),
            Some(_) => Err(InventoryError::DuplicateKey { key }),
        }
    }

    /// Completes the inventory.
    pub fn finish(self) -> Inventory {
        let whole: Vec<_> = self.tools.iter().map(|(id, tool)| (id, tool.fingerprint)).collect();
        let fingerprint =
            Digest::of_bytes(serde_json::to_string(&whole).expect("ids and digests are JSON"));
        Inventory {
            source: self.source,
            tools: self.tools,
            published_hash: self.published.finish(),
            fingerprint,
            source_version: None,
            warnings: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
