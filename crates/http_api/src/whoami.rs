//! `/api/whoami`: how the server identifies the caller.

use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::caller::Caller;
use endpoint::route::ApiRoute;
use model::Claims;
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib::AuthMethod;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("whoami", "/api/whoami", describe_caller)
            .for_agents("about", "Say who the caller is")
            .returns_json::<CallerDescription>(),
    ]
}

/// Who is calling.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Whoami")]
struct CallerDescription {
    /// Who it is, for the record.
    subject: String,
    /// What was shown: `key`, `token` or `nothing`.
    means: &'static str,
    /// Whether the caller may change the catalog.
    is_admin: bool,
    /// What policies see of it.
    claims: Claims,
}

async fn describe_caller(
    Caller(identity): Caller,
    State(app): State<AppState>,
) -> Json<CallerDescription> {
    Json(CallerDescription {
        means: match identity.auth_method {
            AuthMethod::Key { .. } => "key",
            AuthMethod::Token => "token",
            AuthMethod::Anonymous => "nothing",
        },
        is_admin: app.crib.is_admin(&identity),
        subject: identity.agent.subject.to_string(),
        claims: Claims::clone(&identity.agent.claims),
    })
}
