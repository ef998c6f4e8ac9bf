//! `/api/secrets`: encrypted secrets, stored beside the journal. A value can be set but never read: answers contain
//! its name, when it was set, and which sources refer to it. Changes are not events, so the log records them with the
//! actor.

use api_types::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::json_body::JsonBody;
use endpoint::pagination::{ListPage, PageQuery};
use endpoint::query_params::QueryParams;
use endpoint::responses::PathName;
use endpoint::route::ApiRoute;
use jiff::Timestamp;
use model::{SecretRef, SourceId};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize};
use toolcrib::{CallerIdentity, SecretError, SecretStore, Snapshot};

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_secrets", "/api/secrets", list_secrets)
            .for_admins(
                "secrets",
                "List the names of what is sealed, and which sources refer to it",
            )
            .with_query::<SecretFilter>()
            .returns_json::<ListPage<SecretResponse>>(),
        ApiRoute::put("set_secret", "/api/secrets/{name}", set_secret)
            .for_admins("secrets", "Seal a value under a name, in the place of what is there")
            .with_body::<NewSecret>()
            .returns_no_content(),
        ApiRoute::delete("remove_secret", "/api/secrets/{name}", remove_secret)
            .for_admins("secrets", "Remove what is sealed under a name")
            .returns_no_content(),
    ]
}

/// Which secrets.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SecretFilter")]
struct SecretFilter {
    #[serde(flatten)]
    paging: PageQuery,
}

/// A secret, without its value.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Secret")]
struct SecretResponse {
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
    #[serde(deserialize_with = "deserialize_secret")]
    #[schemars(with = "String", length(min = 1), extend("writeOnly" = true))]
    value: SecretString,
}

fn deserialize_secret<'de, D: Deserializer<'de>>(from: D) -> Result<SecretString, D::Error> {
    String::deserialize(from).map(SecretString::from)
}

fn secret_store(app: &AppState) -> Result<&SecretStore, Problem> {
    app.crib.secrets().ok_or_else(|| SecretError::NoKey.into())
}

fn referring_sources(snapshot: &Snapshot, name: &str) -> Vec<SourceId> {
    let wanted = SecretRef::Sealed(name.into());
    let sources = snapshot.sources().map(|entry| &entry.source);
    let refer = sources.filter(|source| source.profile.secret_refs().contains(&&wanted));
    refer.map(|source| source.id.clone()).collect()
}

async fn list_secrets(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(SecretFilter { paging }): QueryParams<SecretFilter>,
) -> Result<Json<ListPage<SecretResponse>>, Problem> {
    let secrets = secret_store(&app)?;
    let names =
        secrets.sealed_names().await?.into_iter().filter(|name| paging.matches_search(name, name));
    let page = paging.take_page(names, String::clone, |name| name)?;
    let (snapshot, mut data) = (app.snapshot(), Vec::new());
    for name in page.data {
        let (set_at, sources) =
            (secrets.sealed_at(&name).await?, referring_sources(&snapshot, &name));
        data.push(SecretResponse { name, set_at, sources });
    }
    Ok(Json(ListPage { data, next_cursor: page.next_cursor }))
}

async fn set_secret(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathName(name): PathName,
    JsonBody(new): JsonBody<NewSecret>,
) -> Result<StatusCode, Problem> {
    secret_store(&app)?.seal_secret(&name, &new.value).await?;
    log_secret_change(&identity, &name, "set");
    Ok(StatusCode::NO_CONTENT)
}

async fn remove_secret(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathName(name): PathName,
) -> Result<StatusCode, Problem> {
    secret_store(&app)?.remove_secret(&name).await?;
    log_secret_change(&identity, &name, "removed");
    Ok(StatusCode::NO_CONTENT)
}

fn log_secret_change(identity: &CallerIdentity, name: &str, done: &str) {
    let actor = identity.actor_name();
    tracing::info!(secret = name, actor, "secret `{name}` was {done} by {actor}");
}
