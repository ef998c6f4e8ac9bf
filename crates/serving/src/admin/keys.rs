//! `/api/keys`: API keys. The key itself is only in the answer that creates it; its hash is in no answer.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use model::{KeyId, KeyProfile};
use schemars::JsonSchema;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use toolcrib::key::{Key, KeyCommand};
use toolcrib::{Command, Snapshot, new_key};

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
        Route::get("list_keys", "/api/keys", list)
            .admin("keys", "List API keys")
            .asks::<Filter>()
            .answers_plain::<Page<SeenKey>>(),
        Route::post("create_key", "/api/keys", create)
            .admin("keys", "Make an API key; it is shown once, in this answer")
            .takes::<New<KeyId, KeyProfile>>()
            .like(r#"{"name": "Nightly build", "claims": {"role": "bot"}, "expires_at": "2030-01-01T00:00:00Z"}"#)
            .makes::<MadeKey>(),
        Route::get("get_key", "/api/keys/{id}", get)
            .admin("keys", "Show an API key")
            .answers::<SeenKey>(),
        Route::put("update_key", "/api/keys/{id}", update)
            .admin("keys", "Change what is said of an API key")
            .takes::<KeyProfile>()
            .answers::<SeenKey>(),
        Route::delete("delete_key", "/api/keys/{id}", delete)
            .admin("keys", "Delete an API key")
            .answers_plain::<Removed>(),
        Route::post("revoke_key", "/api/keys/{id}/revoke", revoke)
            .admin("keys", "Revoke an API key for good")
            .answers::<SeenKey>(),
    ]
}

/// Which keys.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "KeyFilter")]
struct Filter {
    #[serde(flatten)]
    paging: Paging,
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
struct SeenKey {
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
struct MadeKey {
    #[serde(flatten)]
    seen: SeenKey,
    /// The key: keep it. It is not in an answer to the same request sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl SeenKey {
    fn of(key: &Key) -> Self {
        let Key { id, profile, revoked, created_at, updated_at, .. } = key.clone();
        Self { id, profile, is_revoked: revoked, created_at, updated_at }
    }
}

fn tag(key: &Key) -> Tag {
    Tag::of(&(&key.profile, key.revoked))
}

fn tag_in<'a>(id: &'a KeyId) -> impl Fn(&Snapshot) -> Option<Tag> + 'a {
    |snapshot| snapshot.key(id).map(|key| tag(key))
}

fn seen(app: &App, id: &KeyId) -> Result<Seen<SeenKey>, Problem> {
    let snapshot = app.snapshot();
    let key = snapshot.key(id).ok_or_else(|| Problem::not_found("key", id.as_str()))?;
    Ok(Seen { tag: tag(key), body: SeenKey::of(key) })
}

async fn list(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Page<SeenKey>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.keys().filter(|key| {
        filter.paging.finds(key.id.as_str(), key.profile.name.as_str())
            && filter.revoked.is_none_or(|revoked| key.revoked == revoked)
            && filter.admin.is_none_or(|admin| key.profile.admin == admin)
    });
    filter.paging.of(wanted, |key| key.id.to_string(), |key| SeenKey::of(key)).map(Json)
}

async fn create(
    Admin(identity): Admin,
    State(app): State<App>,
    change: Change,
    new: New<KeyId, KeyProfile>,
) -> Result<Made<MadeKey>, Problem> {
    let id = id_for(new.id, &new.rest.name)?;
    let (secret, command) = new_key(&id, new.rest);
    let command = Command::Key(id.clone(), command);
    let executed = change.make(&app, &identity, command, tag_in(&id)).await?;
    // A repeated request generated a new secret, but the stored key is the first one: do not show the new secret.
    let key = (!executed.repeated).then(|| secret.expose_secret().to_owned());
    let made = |Seen { tag, body }| Seen { tag, body: MadeKey { seen: body, key } };
    Made::at(format!("/api/keys/{id}"), seen(&app, &id).map(made))
}

async fn get(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<KeyId>,
) -> Result<Seen<SeenKey>, Problem> {
    seen(&app, &id)
}

async fn update(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<KeyId>,
    change: Change,
    Body(profile): Body<KeyProfile>,
) -> Result<Seen<SeenKey>, Problem> {
    let command = Command::Key(id.clone(), KeyCommand::Update(profile));
    change.make(&app, &identity, command, tag_in(&id)).await?;
    seen(&app, &id)
}

async fn revoke(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<KeyId>,
    change: Change,
) -> Result<Seen<SeenKey>, Problem> {
    let command = Command::Key(id.clone(), KeyCommand::Revoke);
    change.make(&app, &identity, command, tag_in(&id)).await?;
    seen(&app, &id)
}

async fn delete(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<KeyId>,
    change: Change,
) -> Result<Json<Removed>, Problem> {
    let command = Command::Key(id.clone(), KeyCommand::Delete);
    let executed = change.make(&app, &identity, command, tag_in(&id)).await?;
    Ok(Removed::of(&id, &executed.answer))
}
