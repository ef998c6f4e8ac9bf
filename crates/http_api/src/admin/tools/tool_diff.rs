//! Compares the version of a tool that agents get with the one last seen at the source, per field (requirement T1).

use std::collections::HashMap;
use std::sync::Arc;

use api_types::problem::Problem;
use catalog::tool::{ReviewState, StoredManifest, Tool};
use model::{Digest, Finding, RawJson, Schema, SchemaRef};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use toolcrib::Journal;

/// What differs between two versions of a tool.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ToolDiff")]
pub(super) struct ToolDiff {
    /// Whether an admin has decided about the version last seen.
    review: ReviewState,
    /// Of the version that agents get, if there is one.
    served_fingerprint: Option<Digest>,
    /// Of the version last seen: what `approve` and `reject` want.
    fingerprint: Digest,
    /// What a person cannot see or should not trust in the texts of the version last seen, the worst first.
    findings: Vec<Finding>,
    /// The fields that differ; none if agents get what was last seen.
    changes: Vec<FieldChange>,
}

/// A field that differs.
#[derive(Serialize, JsonSchema)]
struct FieldChange {
    /// Which.
    field: String,
    /// As agents get it; null if they do not.
    before: Value,
    /// As it was last seen; null if it was not.
    after: Value,
}

pub(super) async fn compare_versions(
    journal: &Arc<dyn Journal>,
    tool: &Tool,
) -> Result<ToolDiff, Problem> {
    let served = tool.served_manifest();
    let mut digests: Vec<Digest> = tool.manifest.document_digests().collect();
    digests.extend(served.into_iter().flat_map(|manifest| manifest.document_digests()));
    let documents = journal.read_documents(digests).await?;
    let texts: HashMap<Digest, RawJson> =
        documents.into_iter().map(|document| (document.digest, document.text)).collect();
    let before = served.map(|manifest| manifest_fields(manifest, &texts)).unwrap_or_default();
    let after = manifest_fields(&tool.manifest, &texts);
    let names = after.keys().chain(before.keys().filter(|name| !after.contains_key(*name)));
    let side =
        |fields: &Map<String, Value>, name: &str| fields.get(name).cloned().unwrap_or_default();
    let change = |name: &String| FieldChange {
        field: name.clone(),
        before: side(&before, name),
        after: side(&after, name),
    };
    let changes = names.filter(|name| before.get(*name) != after.get(*name)).map(change).collect();
    let served_fingerprint = served.map(|manifest| manifest.fingerprint());
    let (fingerprint, findings) = (tool.fingerprint, tool.findings.clone());
    Ok(ToolDiff { review: tool.review, served_fingerprint, fingerprint, findings, changes })
}

/// The fields of a manifest, with its schemas resolved.
fn manifest_fields(
    manifest: &StoredManifest,
    texts: &HashMap<Digest, RawJson>,
) -> Map<String, Value> {
    let whole = |reference: &SchemaRef| {
        let schema = Schema::resolve(reference, |digest| texts.get(digest).cloned());
        schema.map(|schema| schema.to_value()).unwrap_or_default()
    };
    let Ok(Value::Object(mut fields)) = serde_json::to_value(manifest) else { return Map::new() };
    fields.insert("input_schema".to_owned(), whole(&manifest.input_schema));
    if let Some(output) = &manifest.output_schema {
        fields.insert("output_schema".to_owned(), whole(output));
    }
    fields
}
