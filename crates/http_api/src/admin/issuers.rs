//! `/api/issuers`: the accepted token issuers and the state of their keys. Issuers come from the configuration only.

use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::route::ApiRoute;
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib::IssuerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_issuers", "/api/issuers", list_issuers)
            .for_admins(
                "issuers",
                "List the issuers whose tokens are taken, and how their keys are",
            )
            .returns_json::<IssuerList>(),
        ApiRoute::post("refresh_keys", "/api/issuers/refresh-keys", refresh_keys)
            .for_admins("issuers", "Fetch the keys of all issuers now, at most once a second")
            .without_idempotency_key()
            .returns_json::<IssuerList>(),
    ]
}

/// Whose tokens are taken.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Issuers")]
struct IssuerList {
    data: Vec<IssuerState>,
}

async fn list_issuers(Admin(_): Admin, State(app): State<AppState>) -> Json<IssuerList> {
    let issuers = app.crib.authenticator().map(toolcrib::Authenticator::issuer_states);
    Json(IssuerList { data: issuers.unwrap_or_default() })
}

async fn refresh_keys(Admin(_): Admin, State(app): State<AppState>) -> Json<IssuerList> {
    let data = match app.crib.authenticator() {
        Some(authenticator) => authenticator.refresh_keys().await,
        None => Vec::new(),
    };
    Json(IssuerList { data })
}
