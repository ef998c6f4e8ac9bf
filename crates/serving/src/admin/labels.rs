//! `/api/labels`: labels, which admins put on tools.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use model::{LabelId, LabelProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::label::{Label, LabelCommand};
use toolcrib::{Command, Snapshot};

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
        Route::get("list_labels", "/api/labels", list)
            .admin("labels", "List labels")
            .asks::<Filter>()
            .answers_plain::<Page<SeenLabel>>(),
        Route::post("create_label", "/api/labels", create)
            .admin("labels", "Create a label")
            .takes::<New<LabelId, LabelProfile>>()
            .like(r##"{"id": "pii", "name": "Personal data", "colour": "#c02020"}"##)
            .makes::<SeenLabel>(),
        Route::get("get_label", "/api/labels/{id}", get)
            .admin("labels", "Show a label")
            .answers::<SeenLabel>(),
        Route::put("update_label", "/api/labels/{id}", update)
            .admin("labels", "Change a label")
            .takes::<LabelProfile>()
            .answers::<SeenLabel>(),
        Route::delete("delete_label", "/api/labels/{id}", delete)
            .admin("labels", "Delete a label and take it off all tools")
            .answers_plain::<Removed>(),
    ]
}

/// Which labels.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "LabelFilter")]
struct Filter {
    #[serde(flatten)]
    paging: Paging,
}

/// A label.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Label")]
struct SeenLabel {
    /// For ever.
    id: LabelId,
    #[serde(flatten)]
    profile: LabelProfile,
    /// When it was created.
    created_at: Timestamp,
    /// When it last changed.
    updated_at: Timestamp,
}

impl SeenLabel {
    fn of(label: &Label) -> Self {
        let Label { id, profile, created_at, updated_at, .. } = label.clone();
        Self { id, profile, created_at, updated_at }
    }
}

fn tag(label: &Label) -> Tag {
    Tag::of(&label.profile)
}

fn tag_in<'a>(id: &'a LabelId) -> impl Fn(&Snapshot) -> Option<Tag> + 'a {
    |snapshot| snapshot.label(id).map(|label| tag(label))
}

fn seen(app: &App, id: &LabelId) -> Result<Seen<SeenLabel>, Problem> {
    let snapshot = app.snapshot();
    let label = snapshot.label(id).ok_or_else(|| Problem::not_found("label", id.as_str()))?;
    Ok(Seen { tag: tag(label), body: SeenLabel::of(label) })
}

async fn list(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(Filter { paging }): Asked<Filter>,
) -> Result<Json<Page<SeenLabel>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot
        .labels()
        .filter(|label| paging.finds(label.id.as_str(), label.profile.name.as_str()));
    paging.of(wanted, |label| label.id.to_string(), |label| SeenLabel::of(label)).map(Json)
}

async fn create(
    Admin(identity): Admin,
    State(app): State<App>,
    change: Change,
    new: New<LabelId, LabelProfile>,
) -> Result<Made<SeenLabel>, Problem> {
    let id = id_for(new.id, &new.rest.name)?;
    let command = Command::Label(id.clone(), LabelCommand::Create(new.rest));
    change.make(&app, &identity, command, tag_in(&id)).await?;
    Made::at(format!("/api/labels/{id}"), seen(&app, &id))
}

async fn get(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<LabelId>,
) -> Result<Seen<SeenLabel>, Problem> {
    seen(&app, &id)
}

async fn update(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<LabelId>,
    change: Change,
    Body(profile): Body<LabelProfile>,
) -> Result<Seen<SeenLabel>, Problem> {
    let command = Command::Label(id.clone(), LabelCommand::Update(profile));
    change.make(&app, &identity, command, tag_in(&id)).await?;
    seen(&app, &id)
}

async fn delete(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<LabelId>,
    change: Change,
) -> Result<Json<Removed>, Problem> {
    let command = Command::Label(id.clone(), LabelCommand::Delete);
    let executed = change.make(&app, &identity, command, tag_in(&id)).await?;
    Ok(Removed::of(&id, &executed.answer))
}
