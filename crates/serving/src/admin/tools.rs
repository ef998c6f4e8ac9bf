//! `/api/tools`: the tools of all sources, the admin's overrides, and the review of new versions.
//!
//! A tool id may contain a `/`, which is percent-encoded in a path.

mod attempt;
mod diff;
mod picture;
mod shown;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use catalog::CataloguedTool;
use catalog::tool::{Review, Status, ToolCommand};
use model::{Digest, LabelId, Primitive, Severity, ToolId};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{Command, Identity, Snapshot};

use self::attempt::{Attempt, Attempted};
use self::diff::Diff;
use self::picture::Picture;
pub(crate) use self::shown::Patch;
use self::shown::{Listed, SeenTool, tag};
use super::executions;
use crate::answer::{Id, Seen};
use crate::app::App;
use crate::body::Body;
use crate::caller::Admin;
use crate::change::Change;
use crate::etag::Tag;
use crate::page::{Page, Paging};
use crate::problem::Problem;
use crate::query::Asked;
use crate::route::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_tools", "/api/tools", list)
            .admin("tools", "List tools")
            .asks::<Filter>()
            .answers_plain::<Page<Listed>>(),
        Route::get("get_tool", "/api/tools/{id}", get)
            .admin("tools", "Show a tool")
            .answers::<SeenTool>(),
        Route::patch("patch_tool", "/api/tools/{id}", patch)
            .admin("tools", "Say something else of a tool than its source does; null takes it back")
            .takes::<Patch>()
            .answers::<SeenTool>(),
        Route::put("label_tool", "/api/tools/{id}/labels", label)
            .admin("tools", "Replace the labels of a tool")
            .takes::<Labels>()
            .answers::<SeenTool>(),
        Route::post("enable_tool", "/api/tools/{id}/enable", enable)
            .admin("tools", "Serve a tool")
            .answers::<SeenTool>(),
        Route::post("disable_tool", "/api/tools/{id}/disable", disable)
            .admin("tools", "Do not serve a tool")
            .answers::<SeenTool>(),
        Route::get("diff_tool", "/api/tools/{id}/diff", diff)
            .admin("tools", "Compare what is served with what was last seen at the source")
            .answers::<Diff>(),
        Route::post("approve_tool", "/api/tools/{id}/approve", approve)
            .admin("tools", "Serve the version that waits")
            .takes::<Approval>()
            .answers::<SeenTool>(),
        Route::post("reject_tool", "/api/tools/{id}/reject", reject)
            .admin("tools", "Do not serve the version that waits")
            .takes::<Rejection>()
            .answers::<SeenTool>(),
        Route::post("try_tool", "/api/tools/{id}/try", attempt::attempt)
            .admin("tools", "Call a tool as somebody with other claims would, or see what is sent")
            .may_take::<Attempt>()
            .calls()
            .answers_plain::<Attempted>(),
        Route::get("get_workflow", "/api/tools/{id}/workflow", picture::show)
            .admin("tools", "Show what a workflow would do, and a picture of it")
            .answers_plain::<Picture>(),
    ]
}

/// Which tools.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ToolFilter")]
struct Filter {
    #[serde(flatten)]
    paging: Paging,
    /// Only those of this source.
    #[serde(default)]
    source: Option<String>,
    /// Only tools, only prompts or only resources.
    #[serde(default)]
    kind: Option<Primitive>,
    /// Only those that their source still offers, or only the others.
    #[serde(default)]
    status: Option<Status>,
    /// Only those that are enabled, or only the others.
    #[serde(default)]
    enabled: Option<bool>,
    /// Only those of which the last version is approved, waits or was rejected.
    #[serde(default)]
    review: Option<Review>,
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
struct Labels {
    /// Exactly these.
    labels: BTreeSet<LabelId>,
}

/// Which version is served from now on.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Approval")]
struct Approval {
    /// Of the version that was looked at.
    fingerprint: Digest,
    /// Although something was found in its texts: whoever says so has looked at it.
    #[serde(default)]
    despite_findings: bool,
}

/// Which version is not served.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Rejection")]
struct Rejection {
    /// Of the version that was looked at.
    fingerprint: Digest,
    /// Why.
    #[serde(default)]
    reason: Box<str>,
}

fn tag_in<'a>(id: &'a ToolId) -> impl Fn(&Snapshot) -> Option<Tag> + 'a {
    |snapshot| snapshot.tool(id).map(|entry| tag(&entry.tool))
}

fn find(snapshot: &Snapshot, id: &ToolId) -> Result<Arc<CataloguedTool>, Problem> {
    snapshot.tool(id).cloned().ok_or_else(|| Problem::not_found("tool", id.as_str()))
}

async fn seen(app: &App, id: &ToolId) -> Result<Seen<SeenTool>, Problem> {
    let snapshot = app.snapshot();
    let entry = find(&snapshot, id)?;
    let usage = executions::usage_of_tools(app, [id]).await;
    Ok(Seen { tag: tag(&entry.tool), body: SeenTool::of(&snapshot, &entry, usage.of(id)) })
}

/// Executes one command and shows the changed tool.
async fn changed(
    app: &App,
    identity: &Identity,
    change: &Change,
    id: &ToolId,
    command: ToolCommand,
) -> Result<Seen<SeenTool>, Problem> {
    change.make(app, identity, Command::Tool(id.clone(), command), tag_in(id)).await?;
    seen(app, id).await
}

async fn list(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Page<Listed>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.tools().filter(|entry| {
        let tool = &entry.tool;
        let has_label = |id: &String| tool.labels.iter().any(|label| label.as_str() == id);
        let has_tag = |tag: &String| tool.shown_manifest().tags.iter().any(|t| **t == **tag);
        let has_finding = |least| tool.findings.iter().any(|found| least <= found.severity);
        let kind = || tool.shown_manifest().execution.primitive();
        filter.source.as_ref().is_none_or(|source| tool.source.as_str() == source)
            && filter.kind.is_none_or(|wanted| kind() == wanted)
            && filter.status.is_none_or(|status| tool.status == status)
            && filter.enabled.is_none_or(|enabled| tool.enabled == enabled)
            && filter.review.is_none_or(|review| tool.review == review)
            && filter.finding.is_none_or(has_finding)
            && filter.label.as_ref().is_none_or(has_label)
            && filter.tag.as_ref().is_none_or(has_tag)
            && filter.paging.finds(tool.id.as_str(), tool.name())
    });
    let page = filter.paging.of(wanted, |entry| entry.tool.id.to_string(), Arc::clone)?;
    let usage = executions::usage_of_tools(&app, page.data.iter().map(|it| &it.tool.id)).await;
    Ok(Json(page.map(|entry| Listed::of(&snapshot, &entry, usage.of(&entry.tool.id)))))
}

async fn get(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<ToolId>,
) -> Result<Seen<SeenTool>, Problem> {
    seen(&app, &id).await
}

async fn patch(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<ToolId>,
    change: Change,
    Body(patch): Body<Patch>,
) -> Result<Seen<SeenTool>, Problem> {
    changed(&app, &identity, &change, &id, ToolCommand::Amend(patch.amendment()?)).await
}

async fn label(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<ToolId>,
    change: Change,
    Body(Labels { labels }): Body<Labels>,
) -> Result<Seen<SeenTool>, Problem> {
    changed(&app, &identity, &change, &id, ToolCommand::Label(labels)).await
}

async fn enable(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<ToolId>,
    change: Change,
) -> Result<Seen<SeenTool>, Problem> {
    changed(&app, &identity, &change, &id, ToolCommand::Enable).await
}

async fn disable(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<ToolId>,
    change: Change,
) -> Result<Seen<SeenTool>, Problem> {
    changed(&app, &identity, &change, &id, ToolCommand::Disable).await
}

async fn diff(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<ToolId>,
) -> Result<Seen<Diff>, Problem> {
    let entry = find(&app.snapshot(), &id)?;
    let body = diff::of(app.crib.catalog().journal(), &entry.tool).await?;
    Ok(Seen { tag: tag(&entry.tool), body })
}

async fn approve(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<ToolId>,
    change: Change,
    Body(Approval { fingerprint, despite_findings }): Body<Approval>,
) -> Result<Seen<SeenTool>, Problem> {
    let command = ToolCommand::Approve { fingerprint, despite_findings };
    changed(&app, &identity, &change, &id, command).await
}

async fn reject(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<ToolId>,
    change: Change,
    Body(Rejection { fingerprint, reason }): Body<Rejection>,
) -> Result<Seen<SeenTool>, Problem> {
    changed(&app, &identity, &change, &id, ToolCommand::Reject { fingerprint, reason }).await
}
