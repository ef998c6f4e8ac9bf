//! `/api/tools`: the tools of all sources, the admin's overrides, and the review of new versions.
//!
//! A tool id may contain a `/`, which is percent-encoded in a path.

mod tool_attempt;
mod tool_diff;
mod tool_responses;
mod workflow_picture;

use std::collections::BTreeSet;
use std::sync::Arc;

use api_types::problem::Problem;
use api_types::tool_patch::ToolPatch;
use axum::Json;
use axum::extract::State;
use catalog::CataloguedTool;
use catalog::tool::{ReviewState, ToolCommand, ToolStatus};
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::etag::EntityTag;
use endpoint::json_body::JsonBody;
use endpoint::pagination::{ListPage, PageQuery};
use endpoint::query_params::QueryParams;
use endpoint::responses::{PathId, TaggedResponse};
use endpoint::route::ApiRoute;
use model::{Digest, LabelId, McpPrimitive, Severity, ToolId};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{CallerIdentity, Command, Snapshot};

use self::tool_attempt::{AttemptResult, ToolAttempt};
use self::tool_diff::ToolDiff;
use self::tool_responses::{ListedTool, ToolResponse, tool_tag};
use self::workflow_picture::WorkflowPicture;
use super::executions;
use crate::change_request::ChangeRequest;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_tools", "/api/tools", list_tools)
            .for_admins("tools", "List tools")
            .with_query::<ToolFilter>()
            .returns_json::<ListPage<ListedTool>>(),
        ApiRoute::get("get_tool", "/api/tools/{id}", get_tool)
            .for_admins("tools", "Show a tool")
            .returns_tagged::<ToolResponse>(),
        ApiRoute::patch("patch_tool", "/api/tools/{id}", patch_tool)
            .for_admins(
                "tools",
                "Say something else of a tool than its source does; null takes it back",
            )
            .with_body::<ToolPatch>()
            .returns_tagged::<ToolResponse>(),
        ApiRoute::put("label_tool", "/api/tools/{id}/labels", label_tool)
            .for_admins("tools", "Replace the labels of a tool")
            .with_body::<ToolLabels>()
            .returns_tagged::<ToolResponse>(),
        ApiRoute::post("enable_tool", "/api/tools/{id}/enable", enable_tool)
            .for_admins("tools", "Serve a tool")
            .returns_tagged::<ToolResponse>(),
        ApiRoute::post("disable_tool", "/api/tools/{id}/disable", disable_tool)
            .for_admins("tools", "Do not serve a tool")
            .returns_tagged::<ToolResponse>(),
        ApiRoute::get("diff_tool", "/api/tools/{id}/diff", diff_tool)
            .for_admins("tools", "Compare what is served with what was last seen at the source")
            .returns_tagged::<ToolDiff>(),
        ApiRoute::post("approve_tool", "/api/tools/{id}/approve", approve_tool)
            .for_admins("tools", "Serve the version that waits")
            .with_body::<ToolApproval>()
            .returns_tagged::<ToolResponse>(),
        ApiRoute::post("reject_tool", "/api/tools/{id}/reject", reject_tool)
            .for_admins("tools", "Do not serve the version that waits")
            .with_body::<ToolRejection>()
            .returns_tagged::<ToolResponse>(),
        ApiRoute::post("try_tool", "/api/tools/{id}/try", tool_attempt::try_tool)
            .for_admins(
                "tools",
                "Call a tool as somebody with other claims would, or see what is sent",
            )
            .with_optional_body::<ToolAttempt>()
            .marked_as_tool_call()
            .returns_json::<AttemptResult>(),
        ApiRoute::get("get_workflow", "/api/tools/{id}/workflow", workflow_picture::get_workflow)
            .for_admins("tools", "Show what a workflow would do, and a picture of it")
            .returns_json::<WorkflowPicture>(),
    ]
}

/// Which tools.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ToolFilter")]
struct ToolFilter {
    #[serde(flatten)]
    paging: PageQuery,
    /// Only those of this source.
    #[serde(default)]
    source: Option<String>,
    /// Only tools, only prompts or only resources.
    #[serde(default)]
    kind: Option<McpPrimitive>,
    /// Only those that their source still offers, or only the others.
    #[serde(default)]
    status: Option<ToolStatus>,
    /// Only those that are enabled, or only the others.
    #[serde(default)]
    enabled: Option<bool>,
    /// Only those of which the last version is approved, waits or was rejected.
    #[serde(default)]
    review: Option<ReviewState>,
    /// Only those in whose texts something was found that is at least so bad.
    #[serde(default)]
    finding: Option<Severity>,
    /// Only those with this label.
    #[serde(default)]
    label: Option<String>,
    /// Only those with this tag.
    #[serde(default)]
    tag: Option<String>,
}

/// All labels of a tool.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ToolLabels")]
struct ToolLabels {
    /// Exactly these.
    labels: BTreeSet<LabelId>,
}

/// Which version is served from now on.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Approval")]
struct ToolApproval {
    /// Of the version that was looked at.
    fingerprint: Digest,
    /// Although something was found in its texts: whoever says so has looked at it.
    #[serde(default)]
    despite_findings: bool,
}

/// Which version is not served.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Rejection")]
struct ToolRejection {
    /// Of the version that was looked at.
    fingerprint: Digest,
    /// Why.
    #[serde(default)]
    reason: Box<str>,
}

fn tool_tag_in<'a>(id: &'a ToolId) -> impl Fn(&Snapshot) -> Option<EntityTag> + 'a {
    |snapshot| snapshot.tool(id).map(|entry| tool_tag(&entry.tool))
}

fn find_tool(snapshot: &Snapshot, id: &ToolId) -> Result<Arc<CataloguedTool>, Problem> {
    snapshot.tool(id).cloned().ok_or_else(|| Problem::not_found("tool", id.as_str()))
}

async fn show_tool(app: &AppState, id: &ToolId) -> Result<TaggedResponse<ToolResponse>, Problem> {
    let snapshot = app.snapshot();
    let entry = find_tool(&snapshot, id)?;
    let usage = executions::read_tool_usage(app, [id]).await;
    Ok(TaggedResponse {
        tag: tool_tag(&entry.tool),
        body: ToolResponse::from_catalog(&snapshot, &entry, usage.usage_of(id)),
    })
}

/// Executes one command and shows the changed tool.
async fn change_tool(
    app: &AppState,
    identity: &CallerIdentity,
    change: &ChangeRequest,
    id: &ToolId,
    command: ToolCommand,
) -> Result<TaggedResponse<ToolResponse>, Problem> {
    change
        .execute_command(app, identity, Command::Tool(id.clone(), command), tool_tag_in(id))
        .await?;
    show_tool(app, id).await
}

async fn list_tools(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(filter): QueryParams<ToolFilter>,
) -> Result<Json<ListPage<ListedTool>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.tools().filter(|entry| {
        let tool = &entry.tool;
        let has_label = |id: &String| tool.labels.iter().any(|label| label.as_str() == id);
        let has_tag = |tag: &String| tool.current_manifest().tags.iter().any(|t| **t == **tag);
        let has_finding = |least| tool.findings.iter().any(|found| least <= found.severity);
        let kind = || tool.current_manifest().execution.primitive();
        filter.source.as_ref().is_none_or(|source| tool.source.as_str() == source)
            && filter.kind.is_none_or(|wanted| kind() == wanted)
            && filter.status.is_none_or(|status| tool.status == status)
            && filter.enabled.is_none_or(|enabled| tool.enabled == enabled)
            && filter.review.is_none_or(|review| tool.review == review)
            && filter.finding.is_none_or(has_finding)
            && filter.label.as_ref().is_none_or(has_label)
            && filter.tag.as_ref().is_none_or(has_tag)
            && filter.paging.matches_search(tool.id.as_str(), tool.name())
    });
    let page = filter.paging.take_page(wanted, |entry| entry.tool.id.to_string(), Arc::clone)?;
    let usage = executions::read_tool_usage(&app, page.data.iter().map(|it| &it.tool.id)).await;
    Ok(Json(page.map_elements(|entry| {
        ListedTool::from_catalog(&snapshot, &entry, usage.usage_of(&entry.tool.id))
    })))
}

async fn get_tool(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<ToolId>,
) -> Result<TaggedResponse<ToolResponse>, Problem> {
    show_tool(&app, &id).await
}

async fn patch_tool(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<ToolId>,
    change: ChangeRequest,
    JsonBody(patch): JsonBody<ToolPatch>,
) -> Result<TaggedResponse<ToolResponse>, Problem> {
    change_tool(&app, &identity, &change, &id, ToolCommand::Amend(patch.into_amendment()?)).await
}

async fn label_tool(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<ToolId>,
    change: ChangeRequest,
    JsonBody(ToolLabels { labels }): JsonBody<ToolLabels>,
) -> Result<TaggedResponse<ToolResponse>, Problem> {
    change_tool(&app, &identity, &change, &id, ToolCommand::Label(labels)).await
}

async fn enable_tool(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<ToolId>,
    change: ChangeRequest,
) -> Result<TaggedResponse<ToolResponse>, Problem> {
    change_tool(&app, &identity, &change, &id, ToolCommand::Enable).await
}

async fn disable_tool(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<ToolId>,
    change: ChangeRequest,
) -> Result<TaggedResponse<ToolResponse>, Problem> {
    change_tool(&app, &identity, &change, &id, ToolCommand::Disable).await
}

async fn diff_tool(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<ToolId>,
) -> Result<TaggedResponse<ToolDiff>, Problem> {
    let entry = find_tool(&app.snapshot(), &id)?;
    let body = tool_diff::compare_versions(app.crib.catalog().journal(), &entry.tool).await?;
    Ok(TaggedResponse { tag: tool_tag(&entry.tool), body })
}

async fn approve_tool(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<ToolId>,
    change: ChangeRequest,
    JsonBody(ToolApproval { fingerprint, despite_findings }): JsonBody<ToolApproval>,
) -> Result<TaggedResponse<ToolResponse>, Problem> {
    let command = ToolCommand::Approve { fingerprint, despite_findings };
    change_tool(&app, &identity, &change, &id, command).await
}

async fn reject_tool(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<ToolId>,
    change: ChangeRequest,
    JsonBody(ToolRejection { fingerprint, reason }): JsonBody<ToolRejection>,
) -> Result<TaggedResponse<ToolResponse>, Problem> {
    change_tool(&app, &identity, &change, &id, ToolCommand::Reject { fingerprint, reason }).await
}
