//! Request and response bodies of tools.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use catalog::tool::{ReviewState, Tool, ToolOverride, ToolOverrideChange, ToolStatus};
use catalog::{CataloguedTool, Snapshot};
use execution::ResultProjection;
use jiff::Timestamp;
use model::{
    CallLimit, Digest, DisplayName, Execution, Finding, LabelId, McpPrimitive, SourceId, ToolId,
    Visibility,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toolcrib::UsageTotals;

use crate::etag::EntityTag;
use crate::problem::Problem;

/// Allowed values of `max_result_bytes`.
const RESULT_BYTES: RangeInclusive<u32> = 1 << 10..=8 << 20;

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

/// What an admin says of a tool. A member that is left out stays as it is; null takes it back.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ToolPatch")]
pub(crate) struct ToolPatch {
    /// Another name.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<ToolName>")]
    name: Option<Option<ToolName>>,
    /// Another description.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<String>")]
    description: Option<Option<Box<str>>>,
    /// Another place to be met.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<Visibility>")]
    visibility: Option<Option<Visibility>>,
    /// What an agent's token must allow, instead of what the source or its specification says.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<BTreeSet<String>>")]
    required_scopes: Option<Option<BTreeSet<Box<str>>>>,
    /// For whom the tokens are that its upstream is shown, instead of whom the source says: with `client_credentials` and
    /// `token_exchange`.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<DisplayName>")]
    audience: Option<Option<DisplayName>>,
    /// Which part of its JSON agents get, as a JMESPath expression of at most 2,000 bytes.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<String>")]
    projection: Option<Option<Box<str>>>,
    /// How many bytes of text agents get at once of what it answers: 1,024 to 8,388,608; otherwise 262,144.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<u32>")]
    max_result_bytes: Option<Option<u32>>,
    /// How many calls of it there may be, instead of how many the source allows of each tool.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<CallLimit>")]
    limit: Option<Option<CallLimit>>,
}

/// Deserializes a field that is present, so that null (restore) differs from absent (keep).
fn deserialize_present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl ToolPatch {
    pub(crate) fn into_amendment(self) -> Result<ToolOverrideChange, Problem> {
        if let Some(Some(text)) = &self.projection {
            let checked = ResultProjection::compile(text);
            checked.map_err(|error| Problem::invalid_field("projection", error.to_string()))?;
        }
        if let Some(Some(bytes)) = self.max_result_bytes
            && !RESULT_BYTES.contains(&bytes)
        {
            return Err(Problem::invalid_field("max_result_bytes", "is to be 1024 to 8388608"));
        }
        let name = self.name.map(|name| name.map(|ToolName(name)| name));
        Ok(ToolOverrideChange {
            name,
            description: self.description,
            visibility: self.visibility,
            required_scopes: self.required_scopes,
            audience: self.audience,
            projection: self.projection,
            max_result_bytes: self.max_result_bytes,
            limit: self.limit,
        })
    }
}

/// 1 to 64 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`, so that every model can say it.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(inline, extend("title" = "1 to 64 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`", "pattern" = "^[A-Za-z0-9_.-]{1,64}$"))]
struct ToolName(Box<str>);

impl TryFrom<String> for ToolName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        match (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            true => Ok(Self(text.into())),
            false => {
                Err("a tool's name is 1 to 64 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`")
            }
        }
    }
}
