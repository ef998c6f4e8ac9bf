//! Request and response bodies of tools.

use std::collections::BTreeSet;

use catalog::tool::{ReviewState, Tool, ToolOverride, ToolStatus};
use catalog::{CataloguedTool, Snapshot};
use endpoint::etag::EntityTag;
use jiff::Timestamp;
use model::{Digest, Execution, Finding, LabelId, McpPrimitive, SourceId, ToolId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolcrib::UsageTotals;

/// A tool in a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedTool")]
pub(super) struct ListedTool {
    /// For ever.
    id: ToolId,
    /// What it is: sources that speak MCP have prompts and resources too.
    kind: McpPrimitive,
    /// Whose it is.
    source_id: SourceId,
    /// Its plain name; an agent for whom it clashes with another sees a longer one.
    name: String,
    /// The description agents see.
    description: String,
    /// Of the request behind it.
    method: String,
    /// Of the request behind it.
    path: String,
    /// The source's words on it.
    tags: Vec<Box<str>>,
    /// Our admins' words on it.
    labels: BTreeSet<LabelId>,
    /// Whether the source still offers it.
    status: ToolStatus,
    /// The admin's switch.
    is_enabled: bool,
    /// Whether an admin has decided about the version last seen.
    review: ReviewState,
    /// Whether nothing stops it, whoever asks.
    is_served: bool,
    /// Of the version last seen.
    fingerprint: Digest,
    /// What a person cannot see or should not trust in the texts of the version last seen, the worst first.
    findings: Vec<Finding>,
    /// How often it was called; left out if calls are not recorded.
    #[serde(flatten)]
    usage: Option<UsageTotals>,
}

impl ListedTool {
    pub(super) fn from_catalog(
        snapshot: &Snapshot,
        entry: &CataloguedTool,
        usage: Option<UsageTotals>,
    ) -> Self {
        let (tool, manifest) = (&entry.tool, entry.tool.current_manifest());
        Self {
            id: tool.id.clone(),
            kind: manifest.execution.primitive(),
            source_id: tool.source.clone(),
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            method: manifest.method.to_string(),
            path: manifest.path.to_string(),
            tags: manifest.tags.clone(),
            labels: tool.labels.clone(),
            status: tool.status,
            is_enabled: tool.enabled,
            review: tool.review,
            is_served: snapshot.served().contains(entry.slot),
            fingerprint: tool.fingerprint,
            findings: toolcrib::tool_findings(snapshot, tool),
            usage,
        }
    }
}

/// A tool.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tool")]
pub(super) struct ToolResponse {
    #[serde(flatten)]
    listed: ListedTool,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<Box<str>>,
    /// What an admin says instead of the source.
    overridden: ToolOverride,
    /// The arguments, as agents get them.
    input_schema: Option<Value>,
    /// The shape of a result, as agents get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    /// How a call is carried out.
    execution: Execution,
    /// Whether the specification calls it out of date.
    is_deprecated: bool,
    /// Grows whenever anything about the tool changes.
    version: u64,
    /// When it was first seen.
    created_at: Timestamp,
    /// When it last changed.
    updated_at: Timestamp,
    /// When it was last seen at its source.
    last_seen_at: Timestamp,
}

impl ToolResponse {
    pub(super) fn from_catalog(
        snapshot: &Snapshot,
        entry: &CataloguedTool,
        usage: Option<UsageTotals>,
    ) -> Self {
        let (tool, manifest) = (&entry.tool, entry.tool.current_manifest());
        Self {
            listed: ListedTool::from_catalog(snapshot, entry, usage),
            title: manifest.title.clone(),
            overridden: tool.overridden.clone(),
            input_schema: entry.input_schema.as_ref().map(model::Schema::to_served),
            output_schema: entry.promised_output_schema().map(model::Schema::to_served),
            execution: manifest.execution.clone(),
            is_deprecated: manifest.deprecated,
            version: tool.version.0,
            created_at: tool.created_at,
            updated_at: tool.updated_at,
            last_seen_at: snapshot.last_seen_at(tool),
        }
    }
}

/// The tag of everything an admin can edit, and of the version that the edit refers to.
pub(super) fn tool_tag(tool: &Tool) -> EntityTag {
    EntityTag::of_state(&(
        &tool.overridden,
        &tool.labels,
        tool.enabled,
        tool.review,
        tool.fingerprint,
    ))
}
