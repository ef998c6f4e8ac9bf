//! `/.well-known/oauth-protected-resource`: where clients obtain tokens for this server (RFC 9728). The server issues no
//! tokens itself: it has no `/authorize`, `/token` or `/register`.

use api_types::problem::{Problem, ProblemCode};
use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::protected_resource::{MCP_PATH, METADATA_PATH, ProtectedResource};
use endpoint::route::ApiRoute;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("get_protected_resource", METADATA_PATH, get_server_metadata)
            .open_to_all("about", "Say where tokens for this server are to be had")
            .returns_json::<ProtectedResourceMetadata>(),
        ApiRoute::get(
            "get_protected_mcp",
            "/.well-known/oauth-protected-resource/mcp",
            get_mcp_metadata,
        )
        .open_to_all("about", "Say where tokens for MCP on this server are to be had")
        .returns_json::<ProtectedResourceMetadata>(),
    ]
}

/// What this server is to whoever issues tokens (RFC 9728, 2).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Metadata")]
struct ProtectedResourceMetadata {
    /// What tokens are for: their audience.
    resource: String,
    /// Who issues them.
    authorization_servers: Vec<Box<str>>,
    /// How they are shown: `header`.
    bearer_methods_supported: [&'static str; 1],
    /// What to ask for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes_supported: Vec<Box<str>>,
    /// The name for people.
    resource_name: &'static str,
}

async fn get_server_metadata(
    State(app): State<AppState>,
) -> Result<Json<ProtectedResourceMetadata>, Problem> {
    metadata_for(&app.options.resource, "")
}

async fn get_mcp_metadata(
    State(app): State<AppState>,
) -> Result<Json<ProtectedResourceMetadata>, Problem> {
    metadata_for(&app.options.resource, MCP_PATH)
}

fn metadata_for(
    resource: &ProtectedResource,
    path: &str,
) -> Result<Json<ProtectedResourceMetadata>, Problem> {
    let authorization_servers: Vec<_> = resource.authorization_servers().map(Box::from).collect();
    if authorization_servers.is_empty() {
        let detail = "no issuer's tokens are taken here: ask an admin for an API key";
        return Err(Problem::new(ProblemCode::NotFound, detail));
    }
    Ok(Json(ProtectedResourceMetadata {
        resource: format!("{}{path}", resource.url),
        authorization_servers,
        bearer_methods_supported: ["header"],
        scopes_supported: resource.scopes.iter().map(|scope| scope.0.clone()).collect(),
        resource_name: "toolcrib",
    }))
}
