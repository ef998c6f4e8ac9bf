//! A tool as agents see it over REST.

use catalog::tool::Tool;
use model::{SourceId, ToolId, Visibility, sanitize_text};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolcrib::{AgentView, ViewedTool};

/// A tool as an agent gets it. One that is not in the catalog has no id, no source and no version.
#[derive(Serialize, JsonSchema)]
pub struct AgentTool {
    /// For ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_id: Option<ToolId>,
    /// What this agent calls it.
    name: String,
    /// For the model to read.
    description: String,
    /// Of its arguments, whole.
    input_schema: Value,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<SourceId>,
    /// The path of the request behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_path: Option<String>,
    /// The source's words on it.
    tags: Vec<Box<str>>,
    /// Grows whenever anything about the tool changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// Where the agent meets it.
    visibility: Visibility,
    /// Whether it can be called; only admins ever see one that cannot.
    is_served: bool,
}

impl AgentTool {
    pub(crate) fn from_tool(view: &AgentView, tool: &ViewedTool) -> Self {
        let entry = tool.catalog_entry();
        let known: Option<&Tool> = entry.map(|entry| &entry.tool);
        let manifest = known.map(Tool::current_manifest);
        let served = view.snapshot().served();
        Self {
            tool_id: tool.id().cloned(),
            name: tool.name().to_owned(),
            description: tool.description().into_owned(),
            input_schema: tool.input_schema(),
            source_id: known.map(|known| known.source.clone()),
            source_path: manifest.map(|manifest| sanitize_text(&manifest.path).into_owned()),
            tags: manifest.map(|manifest| printable_tags(&manifest.tags)).unwrap_or_default(),
            version: known.map(|known| known.version.0),
            visibility: view.visibility_of(tool),
            is_served: entry.is_none_or(|entry| served.contains(entry.slot)),
        }
    }
}

fn printable_tags(tags: &[Box<str>]) -> Vec<Box<str>> {
    tags.iter().map(|tag| sanitize_text(tag).into()).collect()
}
