//! `/api/keys`: API keys. The key itself is only in the answer that creates it; its hash is in no answer.

use api_types::problem::Problem;
use axum::Json;
use axum::extract::State;
use catalog::api_key::{ApiKey, ApiKeyCommand};
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::etag::EntityTag;
use endpoint::json_body::{CreateBody, JsonBody};
use endpoint::pagination::{ListPage, PageQuery};
use endpoint::query_params::QueryParams;
use endpoint::responses::{CreatedResponse, PathId, RemovalBody, TaggedResponse};
use endpoint::route::ApiRoute;
use jiff::Timestamp;
use model::{KeyId, KeyProfile};
use schemars::JsonSchema;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use toolcrib::{Command, Snapshot, new_api_key};

use super::id_or_from_name;
use crate::change_request::ChangeRequest;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_keys", "/api/keys", list_keys)
            .for_admins("keys", "List API keys")
            .with_query::<KeyFilter>()
            .returns_json::<ListPage<KeyResponse>>(),
        ApiRoute::post("create_key", "/api/keys", create_key)
            .for_admins("keys", "Make an API key; it is shown once, in this answer")
            .with_body::<CreateBody<KeyId, KeyProfile>>()
            .with_example(r#"{"name": "Nightly build", "claims": {"role": "bot"}, "expires_at": "2030-01-01T00:00:00Z"}"#)
            .returns_created::<CreatedKeyResponse>(),
        ApiRoute::get("get_key", "/api/keys/{id}", get_key)
            .for_admins("keys", "Show an API key")
            .returns_tagged::<KeyResponse>(),
        ApiRoute::put("update_key", "/api/keys/{id}", update_key)
            .for_admins("keys", "Change what is said of an API key")
            .with_body::<KeyProfile>()
            .returns_tagged::<KeyResponse>(),
        ApiRoute::delete("delete_key", "/api/keys/{id}", delete_key)
            .for_admins("keys", "Delete an API key")
            .returns_json::<RemovalBody>(),
        ApiRoute::post("revoke_key", "/api/keys/{id}/revoke", revoke_key)
            .for_admins("keys", "Revoke an API key for good")
            .returns_tagged::<KeyResponse>(),
    ]
}

/// Which keys.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "KeyFilter")]
struct KeyFilter {
    #[serde(flatten)]
    paging: PageQuery,
    /// Only those that were revoked, or only the others.
    #[serde(default)]
    revoked: Option<bool>,
    /// Only those of admins, or only the others.
    #[serde(default)]
    admin: Option<bool>,
}

/// An API key, without the key.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Key")]
struct KeyResponse {
    /// For ever; part of the key.
    id: KeyId,
    #[serde(flatten)]
    profile: KeyProfile,
    /// Whether it was taken back.
    is_revoked: bool,
    /// When it was made.
    created_at: Timestamp,
    /// When it last changed.
    updated_at: Timestamp,
}

/// An API key that was just made.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MadeKey")]
struct CreatedKeyResponse {
    #[serde(flatten)]
    seen: KeyResponse,
    /// The key: keep it. It is not in an answer to the same request sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl KeyResponse {
    fn from_key(key: &ApiKey) -> Self {
        let ApiKey { id, profile, revoked, created_at, updated_at, .. } = key.clone();
        Self { id, profile, is_revoked: revoked, created_at, updated_at }
    }
}

fn key_tag(key: &ApiKey) -> EntityTag {
    EntityTag::of_state(&(&key.profile, key.revoked))
}

fn key_tag_in<'a>(id: &'a KeyId) -> impl Fn(&Snapshot) -> Option<EntityTag> + 'a {
    |snapshot| snapshot.key(id).map(|key| key_tag(key))
}

fn show_key(app: &AppState, id: &KeyId) -> Result<TaggedResponse<KeyResponse>, Problem> {
    let snapshot = app.snapshot();
    let key = snapshot.key(id).ok_or_else(|| Problem::not_found("key", id.as_str()))?;
    Ok(TaggedResponse { tag: key_tag(key), body: KeyResponse::from_key(key) })
}

async fn list_keys(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(filter): QueryParams<KeyFilter>,
) -> Result<Json<ListPage<KeyResponse>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.keys().filter(|key| {
        filter.paging.matches_search(key.id.as_str(), key.profile.name.as_str())
            && filter.revoked.is_none_or(|revoked| key.revoked == revoked)
            && filter.admin.is_none_or(|admin| key.profile.admin == admin)
    });
    filter
        .paging
        .take_page(wanted, |key| key.id.to_string(), |key| KeyResponse::from_key(key))
        .map(Json)
}

async fn create_key(
    Admin(identity): Admin,
    State(app): State<AppState>,
    change: ChangeRequest,
    new: CreateBody<KeyId, KeyProfile>,
) -> Result<CreatedResponse<CreatedKeyResponse>, Problem> {
    let id = id_or_from_name(new.id, &new.content.name)?;
    let (secret, command) = new_api_key(&id, new.content);
    let command = Command::Key(id.clone(), command);
    let executed = change.execute_command(&app, &identity, command, key_tag_in(&id)).await?;
    // A repeated request generated a new secret, but the stored key is the first one: do not show the new secret.
    let key = (!executed.repeated).then(|| secret.expose_secret().to_owned());
    let made = |TaggedResponse { tag, body }| TaggedResponse {
        tag,
        body: CreatedKeyResponse { seen: body, key },
    };
    CreatedResponse::at_location(format!("/api/keys/{id}"), show_key(&app, &id).map(made))
}

async fn get_key(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<KeyId>,
) -> Result<TaggedResponse<KeyResponse>, Problem> {
    show_key(&app, &id)
}

async fn update_key(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<KeyId>,
    change: ChangeRequest,
    JsonBody(profile): JsonBody<KeyProfile>,
) -> Result<TaggedResponse<KeyResponse>, Problem> {
    let command = Command::Key(id.clone(), ApiKeyCommand::Update(profile));
    change.execute_command(&app, &identity, command, key_tag_in(&id)).await?;
    show_key(&app, &id)
}

async fn revoke_key(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<KeyId>,
    change: ChangeRequest,
) -> Result<TaggedResponse<KeyResponse>, Problem> {
    let command = Command::Key(id.clone(), ApiKeyCommand::Revoke);
    change.execute_command(&app, &identity, command, key_tag_in(&id)).await?;
    show_key(&app, &id)
}

async fn delete_key(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<KeyId>,
    change: ChangeRequest,
) -> Result<Json<RemovalBody>, Problem> {
    let command = Command::Key(id.clone(), ApiKeyCommand::Delete);
    let executed = change.execute_command(&app, &identity, command, key_tag_in(&id)).await?;
    Ok(RemovalBody::from_answer(&id, &executed.answer))
}
