//! `/api/labels`: labels, which admins put on tools.

use api_types::problem::Problem;
use axum::Json;
use axum::extract::State;
use catalog::label::{Label, LabelCommand};
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::etag::EntityTag;
use endpoint::json_body::{CreateBody, JsonBody};
use endpoint::pagination::{ListPage, PageQuery};
use endpoint::query_params::QueryParams;
use endpoint::responses::{CreatedResponse, PathId, RemovalBody, TaggedResponse};
use endpoint::route::ApiRoute;
use jiff::Timestamp;
use model::{LabelId, LabelProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::{Command, Snapshot};

use super::id_or_from_name;
use crate::change_request::ChangeRequest;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_labels", "/api/labels", list_labels)
            .for_admins("labels", "List labels")
            .with_query::<LabelFilter>()
            .returns_json::<ListPage<LabelResponse>>(),
        ApiRoute::post("create_label", "/api/labels", create_label)
            .for_admins("labels", "Create a label")
            .with_body::<CreateBody<LabelId, LabelProfile>>()
            .with_example(r##"{"id": "pii", "name": "Personal data", "colour": "#c02020"}"##)
            .returns_created::<LabelResponse>(),
        ApiRoute::get("get_label", "/api/labels/{id}", get_label)
            .for_admins("labels", "Show a label")
            .returns_tagged::<LabelResponse>(),
        ApiRoute::put("update_label", "/api/labels/{id}", update_label)
            .for_admins("labels", "Change a label")
            .with_body::<LabelProfile>()
            .returns_tagged::<LabelResponse>(),
        ApiRoute::delete("delete_label", "/api/labels/{id}", delete_label)
            .for_admins("labels", "Delete a label and take it off all tools")
            .returns_json::<RemovalBody>(),
    ]
}

/// Which labels.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "LabelFilter")]
struct LabelFilter {
    #[serde(flatten)]
    paging: PageQuery,
}

/// A label.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Label")]
struct LabelResponse {
    /// For ever.
    id: LabelId,
    #[serde(flatten)]
    profile: LabelProfile,
    /// When it was created.
    created_at: Timestamp,
    /// When it last changed.
    updated_at: Timestamp,
}

impl LabelResponse {
    fn from_label(label: &Label) -> Self {
        let Label { id, profile, created_at, updated_at, .. } = label.clone();
        Self { id, profile, created_at, updated_at }
    }
}

fn label_tag(label: &Label) -> EntityTag {
    EntityTag::of_state(&label.profile)
}

fn label_tag_in<'a>(id: &'a LabelId) -> impl Fn(&Snapshot) -> Option<EntityTag> + 'a {
    |snapshot| snapshot.label(id).map(|label| label_tag(label))
}

fn show_label(app: &AppState, id: &LabelId) -> Result<TaggedResponse<LabelResponse>, Problem> {
    let snapshot = app.snapshot();
    let label = snapshot.label(id).ok_or_else(|| Problem::not_found("label", id.as_str()))?;
    Ok(TaggedResponse { tag: label_tag(label), body: LabelResponse::from_label(label) })
}

async fn list_labels(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(LabelFilter { paging }): QueryParams<LabelFilter>,
) -> Result<Json<ListPage<LabelResponse>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot
        .labels()
        .filter(|label| paging.matches_search(label.id.as_str(), label.profile.name.as_str()));
    paging
        .take_page(wanted, |label| label.id.to_string(), |label| LabelResponse::from_label(label))
        .map(Json)
}

async fn create_label(
    Admin(identity): Admin,
    State(app): State<AppState>,
    change: ChangeRequest,
    new: CreateBody<LabelId, LabelProfile>,
) -> Result<CreatedResponse<LabelResponse>, Problem> {
    let id = id_or_from_name(new.id, &new.content.name)?;
    let command = Command::Label(id.clone(), LabelCommand::Create(new.content));
    change.execute_command(&app, &identity, command, label_tag_in(&id)).await?;
    CreatedResponse::at_location(format!("/api/labels/{id}"), show_label(&app, &id))
}

async fn get_label(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<LabelId>,
) -> Result<TaggedResponse<LabelResponse>, Problem> {
    show_label(&app, &id)
}

async fn update_label(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<LabelId>,
    change: ChangeRequest,
    JsonBody(profile): JsonBody<LabelProfile>,
) -> Result<TaggedResponse<LabelResponse>, Problem> {
    let command = Command::Label(id.clone(), LabelCommand::Update(profile));
    change.execute_command(&app, &identity, command, label_tag_in(&id)).await?;
    show_label(&app, &id)
}

async fn delete_label(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<LabelId>,
    change: ChangeRequest,
) -> Result<Json<RemovalBody>, Problem> {
    let command = Command::Label(id.clone(), LabelCommand::Delete);
    let executed = change.execute_command(&app, &identity, command, label_tag_in(&id)).await?;
    Ok(RemovalBody::from_answer(&id, &executed.answer))
}
