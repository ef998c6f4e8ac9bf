//! `/api/groups`: curated tools, selected + explicit − excluded.

mod shown;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use catalog::{CataloguedGroup, CataloguedTool};
use model::{GroupId, Selector, ToolId};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::group::GroupCommand;
use toolcrib::{Command, Identity, Snapshot};

pub(crate) use self::shown::GroupBody;
use self::shown::{Member, SeenGroup, tag};
use super::id_for;
use crate::answer::{Id, Made, Removed, Seen};
use crate::app::App;
use crate::body::{Body, New};
use crate::caller::Admin;
use crate::change::Change;
use crate::etag::Tag;
use crate::page::{Page, Paging};
use crate::problem::Problem;
use crate::query::Asked;
use crate::route::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_groups", "/api/groups", list)
            .admin("groups", "List groups")
            .asks::<Filter>()
            .answers_plain::<Page<SeenGroup>>(),
        Route::post("create_group", "/api/groups", create)
            .admin("groups", "Create a group")
            .takes::<New<GroupId, GroupBody>>()
            .like(r#"{"id": "read-pets", "name": "Read pets", "selectors": [{"source": "pets", "method": "GET"}]}"#)
            .makes::<SeenGroup>(),
        Route::get("get_group", "/api/groups/{id}", get)
            .admin("groups", "Show a group")
            .answers::<SeenGroup>(),
        Route::put("replace_group", "/api/groups/{id}", replace)
            .admin("groups", "Replace a group; its switch stays as it is")
            .takes::<GroupBody>()
            .answers::<SeenGroup>(),
        Route::delete("delete_group", "/api/groups/{id}", delete)
            .admin("groups", "Delete a group that no policy grants")
            .answers_plain::<Removed>(),
        Route::post("activate_group", "/api/groups/{id}/activate", activate)
            .admin("groups", "Let policies grant a group")
            .answers::<SeenGroup>(),
        Route::post("deactivate_group", "/api/groups/{id}/deactivate", deactivate)
            .admin("groups", "Let no policy grant a group")
            .answers::<SeenGroup>(),
        Route::put("replace_group_selectors", "/api/groups/{id}/selectors", replace_selectors)
            .admin("groups", "Replace the selectors of a group")
            .takes::<Selectors>()
            .answers::<SeenGroup>(),
        Route::get("list_group_tools", "/api/groups/{id}/tools", list_tools)
            .admin("groups", "List the tools of a group, and which of them are served")
            .asks::<ToolFilter>()
            .answers_plain::<Page<Member>>(),
        Route::put("replace_group_tools", "/api/groups/{id}/tools", replace_tools)
            .admin("groups", "Replace the explicit tools of a group")
            .takes::<Tools>()
            .answers::<SeenGroup>(),
    ]
}

/// Which groups.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "GroupFilter")]
struct Filter {
    #[serde(flatten)]
    paging: Paging,
    /// Only those that are active, or only the others.
    #[serde(default)]
    active: Option<bool>,
}

/// Which tools of a group.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "GroupToolFilter")]
struct ToolFilter {
    #[serde(flatten)]
    paging: Paging,
    /// Only those that are served, or only the others.
    #[serde(default)]
    served: Option<bool>,
}

/// All selectors of a group.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "GroupSelectors")]
struct Selectors {
    /// Conditions on tools; none selects nothing.
    selectors: Vec<Selector>,
}

/// All explicit tools of a group.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ExplicitTools")]
struct Tools {
    /// Tools that belong to it whatever the selectors say.
    tools: BTreeSet<ToolId>,
}

fn tag_in<'a>(id: &'a GroupId) -> impl Fn(&Snapshot) -> Option<Tag> + 'a {
    |snapshot| snapshot.group(id).map(|entry| tag(&entry.group))
}

fn seen(app: &App, id: &GroupId) -> Result<Seen<SeenGroup>, Problem> {
    let snapshot = app.snapshot();
    let entry = snapshot.group(id).ok_or_else(|| Problem::not_found("group", id.as_str()))?;
    Ok(Seen { tag: tag(&entry.group), body: SeenGroup::of(&snapshot, entry) })
}

/// Executes one command and shows the changed group.
async fn changed(
    app: &App,
    identity: &Identity,
    change: &Change,
    id: &GroupId,
    command: GroupCommand,
) -> Result<Seen<SeenGroup>, Problem> {
    change.make(app, identity, Command::Group(id.clone(), command), tag_in(id)).await?;
    seen(app, id)
}

async fn list(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Page<SeenGroup>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.groups().filter(|entry| {
        filter.paging.finds(entry.group.id.as_str(), entry.group.profile.name.as_str())
            && filter.active.is_none_or(|active| entry.group.active == active)
    });
    let show = |entry: &Arc<CataloguedGroup>| SeenGroup::of(&snapshot, entry);
    filter.paging.of(wanted, |entry| entry.group.id.to_string(), show).map(Json)
}

async fn create(
    Admin(identity): Admin,
    State(app): State<App>,
    change: Change,
    new: New<GroupId, GroupBody>,
) -> Result<Made<SeenGroup>, Problem> {
    let id = id_for(new.id, &new.rest.name)?;
    let command = GroupCommand::Create(Box::new(new.rest.under(id.clone())));
    change.make(&app, &identity, Command::Group(id.clone(), command), tag_in(&id)).await?;
    Made::at(format!("/api/groups/{id}"), seen(&app, &id))
}

async fn get(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<GroupId>,
) -> Result<Seen<SeenGroup>, Problem> {
    seen(&app, &id)
}

async fn replace(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<GroupId>,
    change: Change,
    Body(body): Body<GroupBody>,
) -> Result<Seen<SeenGroup>, Problem> {
    let command = GroupCommand::Replace(Box::new(body.under(id.clone())));
    changed(&app, &identity, &change, &id, command).await
}

async fn activate(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<GroupId>,
    change: Change,
) -> Result<Seen<SeenGroup>, Problem> {
    changed(&app, &identity, &change, &id, GroupCommand::Activate).await
}

async fn deactivate(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<GroupId>,
    change: Change,
) -> Result<Seen<SeenGroup>, Problem> {
    changed(&app, &identity, &change, &id, GroupCommand::Deactivate).await
}

async fn replace_selectors(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<GroupId>,
    change: Change,
    Body(Selectors { selectors }): Body<Selectors>,
) -> Result<Seen<SeenGroup>, Problem> {
    changed(&app, &identity, &change, &id, GroupCommand::ReplaceSelectors(selectors)).await
}

async fn replace_tools(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<GroupId>,
    change: Change,
    Body(Tools { tools }): Body<Tools>,
) -> Result<Seen<SeenGroup>, Problem> {
    changed(&app, &identity, &change, &id, GroupCommand::ReplaceTools(tools)).await
}

async fn list_tools(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<GroupId>,
    Asked(filter): Asked<ToolFilter>,
) -> Result<Json<Page<Member>>, Problem> {
    let snapshot = app.snapshot();
    let entry = snapshot.group(&id).ok_or_else(|| Problem::not_found("group", id.as_str()))?;
    let served = snapshot.group_tools(&id).unwrap_or_default();
    let members = entry.members.iter().filter_map(|slot| snapshot.tool_at(slot));
    let wanted = members.filter(|tool| {
        filter.paging.finds(tool.tool.id.as_str(), tool.tool.name())
            && filter.served.is_none_or(|wanted| served.contains(tool.slot) == wanted)
    });
    let show = |tool: &Arc<CataloguedTool>| Member::of(&entry.group, tool, &served);
    filter.paging.of(wanted, |tool| tool.tool.id.to_string(), show).map(Json)
}

async fn delete(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<GroupId>,
    change: Change,
) -> Result<Json<Removed>, Problem> {
    let command = Command::Group(id.clone(), GroupCommand::Delete);
    let executed = change.make(&app, &identity, command, tag_in(&id)).await?;
    Ok(Removed::of(&id, &executed.answer))
}
