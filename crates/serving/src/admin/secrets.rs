//! `/api/secrets`: encrypted secrets, stored beside the journal. A value can be set but never read: answers contain
//! its name, when it was set, and which sources refer to it. Changes are not events, so the log records them with the
//! actor.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use model::{SecretRef, SourceId};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize};
use toolcrib::{Identity, SecretError, Secrets, Snapshot};

use crate::answer::Named;
use crate::app::App;
use crate::body::Body;
use crate::caller::Admin;
use crate::page::{Page, Paging};
use crate::problem::Problem;
use crate::query::Asked;
use crate::route::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_secrets", "/api/secrets", list)
            .admin("secrets", "List the names of what is sealed, and which sources refer to it")
            .asks::<Filter>()
            .answers_plain::<Page<SeenSecret>>(),
        Route::put("set_secret", "/api/secrets/{name}", set)
            .admin("secrets", "Seal a value under a name, in the place of what is there")
            .takes::<NewSecret>()
            .answers_nothing(),
        Route::delete("remove_secret", "/api/secrets/{name}", remove)
            .admin("secrets", "Remove what is sealed under a name")
            .answers_nothing(),
    ]
}

/// Which secrets.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SecretFilter")]
struct Filter {
    #[serde(flatten)]
    paging: Paging,
}

/// A secret, without its value.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Secret")]
struct SeenSecret {
    /// What it is sealed under; sources say `sealed:NAME`.
    name: String,
    /// When it was set, if that is known.
    set_at: Option<Timestamp>,
    /// Who refers to it.
    sources: Vec<SourceId>,
}

/// A value to be sealed.
#[derive(Deserialize, JsonSchema)]
struct NewSecret {
    /// At most 65536 bytes. It is in no answer.
    #[serde(deserialize_with = "hidden")]
    #[schemars(with = "String", length(min = 1), extend("writeOnly" = true))]
    value: SecretString,
}

fn hidden<'de, D: Deserializer<'de>>(from: D) -> Result<SecretString, D::Error> {
    String::deserialize(from).map(SecretString::from)
}

fn secrets(app: &App) -> Result<&Secrets, Problem> {
    app.crib.secrets().ok_or_else(|| SecretError::NoKey.into())
}

fn referring(snapshot: &Snapshot, name: &str) -> Vec<SourceId> {
    let wanted = SecretRef::Sealed(name.into());
    let sources = snapshot.sources().map(|entry| &entry.source);
    let refer = sources.filter(|source| source.profile.secrets().contains(&&wanted));
    refer.map(|source| source.id.clone()).collect()
}

async fn list(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(Filter { paging }): Asked<Filter>,
) -> Result<Json<Page<SeenSecret>>, Problem> {
    let secrets = secrets(&app)?;
    let names = secrets.names().await?.into_iter().filter(|name| paging.finds(name, name));
    let page = paging.of(names, String::clone, |name| name)?;
    let (snapshot, mut data) = (app.snapshot(), Vec::new());
    for name in page.data {
        let (set_at, sources) = (secrets.set_at(&name).await?, referring(&snapshot, &name));
        data.push(SeenSecret { name, set_at, sources });
    }
    Ok(Json(Page { data, next_cursor: page.next_cursor }))
}

async fn set(
    Admin(identity): Admin,
    State(app): State<App>,
    Named(name): Named,
    Body(new): Body<NewSecret>,
) -> Result<StatusCode, Problem> {
    secrets(&app)?.seal(&name, &new.value).await?;
    tell(&identity, &name, "set");
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(
    Admin(identity): Admin,
    State(app): State<App>,
    Named(name): Named,
) -> Result<StatusCode, Problem> {
    secrets(&app)?.remove(&name).await?;
    tell(&identity, &name, "removed");
    Ok(StatusCode::NO_CONTENT)
}

fn tell(identity: &Identity, name: &str, done: &str) {
    let actor = identity.actor();
    tracing::info!(secret = name, actor, "secret `{name}` was {done} by {actor}");
}
