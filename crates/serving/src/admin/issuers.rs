//! `/api/issuers`: the accepted token issuers and the state of their keys. Issuers come from the configuration only.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib::IssuerState;

use crate::app::App;
use crate::caller::Admin;
use crate::route::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_issuers", "/api/issuers", list)
            .admin("issuers", "List the issuers whose tokens are taken, and how their keys are")
            .answers_plain::<Issuers>(),
        Route::post("refresh_keys", "/api/issuers/refresh-keys", refresh)
            .admin("issuers", "Fetch the keys of all issuers now, at most once a second")
            .without_key()
            .answers_plain::<Issuers>(),
    ]
}

/// Whose tokens are taken.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Issuers")]
struct Issuers {
    data: Vec<IssuerState>,
}

async fn list(Admin(_): Admin, State(app): State<App>) -> Json<Issuers> {
    let issuers = app.crib.authenticator().map(toolcrib::Authenticator::issuers);
    Json(Issuers { data: issuers.unwrap_or_default() })
}

async fn refresh(Admin(_): Admin, State(app): State<App>) -> Json<Issuers> {
    let data = match app.crib.authenticator() {
        Some(authenticator) => authenticator.refresh_keys().await,
        None => Vec::new(),
    };
    Json(Issuers { data })
}
