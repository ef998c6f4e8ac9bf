//! `/api/groups`: curated tools, selected + explicit − excluded.

mod group_responses;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use catalog::group::GroupCommand;
use catalog::{CataloguedGroup, CataloguedTool};
use model::{GroupId, Selector, ToolId};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{CallerIdentity, Command, Snapshot};

use self::group_responses::{GroupResponse, GroupTool, group_tag};
use super::id_or_from_name;
use crate::change_request::ChangeRequest;
pub(crate) use api_types::group_body::GroupBody;
use api_types::problem::Problem;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::etag::EntityTag;
use endpoint::json_body::{CreateBody, JsonBody};
use endpoint::pagination::{ListPage, PageQuery};
use endpoint::query_params::QueryParams;
use endpoint::responses::{CreatedResponse, PathId, RemovalBody, TaggedResponse};
use endpoint::route::ApiRoute;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_groups", "/api/groups", list_groups)
            .for_admins("groups", "List groups")
            .with_query::<GroupFilter>()
            .returns_json::<ListPage<GroupResponse>>(),
        ApiRoute::post("create_group", "/api/groups", create_group)
            .for_admins("groups", "Create a group")
            .with_body::<CreateBody<GroupId, GroupBody>>()
            .with_example(r#"{"id": "read-pets", "name": "Read pets", "selectors": [{"source": "pets", "method": "GET"}]}"#)
            .returns_created::<GroupResponse>(),
        ApiRoute::get("get_group", "/api/groups/{id}", get_group)
            .for_admins("groups", "Show a group")
            .returns_tagged::<GroupResponse>(),
        ApiRoute::put("replace_group", "/api/groups/{id}", replace_group)
            .for_admins("groups", "Replace a group; its switch stays as it is")
            .with_body::<GroupBody>()
            .returns_tagged::<GroupResponse>(),
        ApiRoute::delete("delete_group", "/api/groups/{id}", delete_group)
            .for_admins("groups", "Delete a group that no policy grants")
            .returns_json::<RemovalBody>(),
        ApiRoute::post("activate_group", "/api/groups/{id}/activate", activate_group)
            .for_admins("groups", "Let policies grant a group")
            .returns_tagged::<GroupResponse>(),
        ApiRoute::post("deactivate_group", "/api/groups/{id}/deactivate", deactivate_group)
            .for_admins("groups", "Let no policy grant a group")
            .returns_tagged::<GroupResponse>(),
        ApiRoute::put("replace_group_selectors", "/api/groups/{id}/selectors", replace_group_selectors)
            .for_admins("groups", "Replace the selectors of a group")
            .with_body::<GroupSelectors>()
            .returns_tagged::<GroupResponse>(),
        ApiRoute::get("list_group_tools", "/api/groups/{id}/tools", list_group_tools)
            .for_admins("groups", "List the tools of a group, and which of them are served")
            .with_query::<GroupToolFilter>()
            .returns_json::<ListPage<GroupTool>>(),
        ApiRoute::put("replace_group_tools", "/api/groups/{id}/tools", replace_group_tools)
            .for_admins("groups", "Replace the explicit tools of a group")
            .with_body::<ExplicitTools>()
            .returns_tagged::<GroupResponse>(),
    ]
}

/// Which groups.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "GroupFilter")]
struct GroupFilter {
    #[serde(flatten)]
    paging: PageQuery,
    /// Only those that are active, or only the others.
    #[serde(default)]
    active: Option<bool>,
}

/// Which tools of a group.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "GroupToolFilter")]
struct GroupToolFilter {
    #[serde(flatten)]
    paging: PageQuery,
    /// Only those that are served, or only the others.
    #[serde(default)]
    served: Option<bool>,
}

/// All selectors of a group.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "GroupSelectors")]
struct GroupSelectors {
    /// Conditions on tools; none selects nothing.
    selectors: Vec<Selector>,
}

/// All explicit tools of a group.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ExplicitTools")]
struct ExplicitTools {
    /// Tools that belong to it whatever the selectors say.
    tools: BTreeSet<ToolId>,
}

fn group_tag_in<'a>(id: &'a GroupId) -> impl Fn(&Snapshot) -> Option<EntityTag> + 'a {
    |snapshot| snapshot.group(id).map(|entry| group_tag(&entry.group))
}

fn show_group(app: &AppState, id: &GroupId) -> Result<TaggedResponse<GroupResponse>, Problem> {
    let snapshot = app.snapshot();
    let entry = snapshot.group(id).ok_or_else(|| Problem::not_found("group", id.as_str()))?;
    Ok(TaggedResponse {
        tag: group_tag(&entry.group),
        body: GroupResponse::from_catalog(&snapshot, entry),
    })
}

/// Executes one command and shows the changed group.
async fn change_group(
    app: &AppState,
    identity: &CallerIdentity,
    change: &ChangeRequest,
    id: &GroupId,
    command: GroupCommand,
) -> Result<TaggedResponse<GroupResponse>, Problem> {
    change
        .execute_command(app, identity, Command::Group(id.clone(), command), group_tag_in(id))
        .await?;
    show_group(app, id)
}

async fn list_groups(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(filter): QueryParams<GroupFilter>,
) -> Result<Json<ListPage<GroupResponse>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.groups().filter(|entry| {
        filter.paging.matches_search(entry.group.id.as_str(), entry.group.profile.name.as_str())
            && filter.active.is_none_or(|active| entry.group.active == active)
    });
    let show = |entry: &Arc<CataloguedGroup>| GroupResponse::from_catalog(&snapshot, entry);
    filter.paging.take_page(wanted, |entry| entry.group.id.to_string(), show).map(Json)
}

async fn create_group(
    Admin(identity): Admin,
    State(app): State<AppState>,
    change: ChangeRequest,
    new: CreateBody<GroupId, GroupBody>,
) -> Result<CreatedResponse<GroupResponse>, Problem> {
    let id = id_or_from_name(new.id, &new.content.name)?;
    let command = GroupCommand::Create(Box::new(new.content.into_new_group(id.clone())));
    change
        .execute_command(&app, &identity, Command::Group(id.clone(), command), group_tag_in(&id))
        .await?;
    CreatedResponse::at_location(format!("/api/groups/{id}"), show_group(&app, &id))
}

async fn get_group(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<GroupId>,
) -> Result<TaggedResponse<GroupResponse>, Problem> {
    show_group(&app, &id)
}

async fn replace_group(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<GroupId>,
    change: ChangeRequest,
    JsonBody(body): JsonBody<GroupBody>,
) -> Result<TaggedResponse<GroupResponse>, Problem> {
    let command = GroupCommand::Replace(Box::new(body.into_new_group(id.clone())));
    change_group(&app, &identity, &change, &id, command).await
}

async fn activate_group(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<GroupId>,
    change: ChangeRequest,
) -> Result<TaggedResponse<GroupResponse>, Problem> {
    change_group(&app, &identity, &change, &id, GroupCommand::Activate).await
}

async fn deactivate_group(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<GroupId>,
    change: ChangeRequest,
) -> Result<TaggedResponse<GroupResponse>, Problem> {
    change_group(&app, &identity, &change, &id, GroupCommand::Deactivate).await
}

async fn replace_group_selectors(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<GroupId>,
    change: ChangeRequest,
    JsonBody(GroupSelectors { selectors }): JsonBody<GroupSelectors>,
) -> Result<TaggedResponse<GroupResponse>, Problem> {
    change_group(&app, &identity, &change, &id, GroupCommand::ReplaceSelectors(selectors)).await
}

async fn replace_group_tools(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<GroupId>,
    change: ChangeRequest,
    JsonBody(ExplicitTools { tools }): JsonBody<ExplicitTools>,
) -> Result<TaggedResponse<GroupResponse>, Problem> {
    change_group(&app, &identity, &change, &id, GroupCommand::ReplaceTools(tools)).await
}

async fn list_group_tools(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<GroupId>,
    QueryParams(filter): QueryParams<GroupToolFilter>,
) -> Result<Json<ListPage<GroupTool>>, Problem> {
    let snapshot = app.snapshot();
    let entry = snapshot.group(&id).ok_or_else(|| Problem::not_found("group", id.as_str()))?;
    let served = snapshot.group_tools(&id).unwrap_or_default();
    let members = entry.members.iter().filter_map(|slot| snapshot.tool_at(slot));
    let wanted = members.filter(|tool| {
        filter.paging.matches_search(tool.tool.id.as_str(), tool.tool.name())
            && filter.served.is_none_or(|wanted| served.contains(tool.slot) == wanted)
    });
    let show = |tool: &Arc<CataloguedTool>| GroupTool::from_catalog(&entry.group, tool, &served);
    filter.paging.take_page(wanted, |tool| tool.tool.id.to_string(), show).map(Json)
}

async fn delete_group(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<GroupId>,
    change: ChangeRequest,
) -> Result<Json<RemovalBody>, Problem> {
    let command = Command::Group(id.clone(), GroupCommand::Delete);
    let executed = change.execute_command(&app, &identity, command, group_tag_in(&id)).await?;
    Ok(RemovalBody::from_answer(&id, &executed.answer))
}
