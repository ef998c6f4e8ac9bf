//! `GET /tools` and `POST /tools/{name}`: an agent's tools for clients of the http manifest convention (requirement
//! H3), such as another toolcrib.

use api_types::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use endpoint::app_state::AppState;
use endpoint::caller::Caller;
use endpoint::json_body::ExactJsonBody;
use endpoint::request_context::RequestContext;
use endpoint::responses::PathName;
use endpoint::route::ApiRoute;
use endpoint::tool_format::ToolFormat;
use model::{CallFailure, ErrorCode, ToolResult};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use toolcrib::{AuthMethod, CallContext, CallEndpoint, CallResult, ToolAnswer};

use crate::agents::prefer_header::PreferHeader;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("get_http_manifest", "/tools", get_manifest)
            .for_agents("agents", "List the tools that the caller may use, as an http manifest")
            .returns_list::<HttpManifest>(),
        ApiRoute::post("call_http_tool", "/tools/{name}", call_manifest_tool)
            .for_agents("agents", "Call a tool of the http manifest")
            .with_optional_body::<Map<String, Value>>()
            .marked_as_tool_call()
            .returns_json::<ToolResult>(),
    ]
}

/// The tools of one agent, each with the address it is called at.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it says what is written, and lists are written tool by tool")]
struct HttpManifest {
    tools: Vec<HttpManifestTool>,
}

/// A tool, as MCP shows it, and where it is called. There may be more members.
#[derive(JsonSchema)]
#[schemars(rename = "HttpManifestTool", rename_all = "camelCase")]
#[expect(dead_code, reason = "it says what is written, and lists are written tool by tool")]
struct HttpManifestTool {
    /// What it is called.
    name: String,
    /// For the model to read.
    description: String,
    /// Of its arguments, whole.
    input_schema: Value,
    /// Of its results, whole, if it promises anything.
    output_schema: Option<Value>,
    /// `/tools/NAME`
    endpoint: String,
    /// `POST`: the arguments are the body.
    method: String,
}

async fn get_manifest(
    Caller(identity): Caller,
    State(app): State<AppState>,
    headers: HeaderMap,
) -> Response {
    ToolFormat::HttpManifest
        .cached_list(&app.list_cache, &app.crib.view_for_identity(&identity))
        .into_response_for(&headers)
}

async fn call_manifest_tool(
    Caller(identity): Caller,
    State(app): State<AppState>,
    coming: RequestContext,
    prefer: PreferHeader,
    PathName(name): PathName,
    ExactJsonBody(arguments): ExactJsonBody<Map<String, Value>>,
) -> Result<Json<Map<String, Value>>, Problem> {
    let view = app
        .crib
        .view_for_identity(&identity)
        .with_request_credentials(&identity.request_credentials);
    let view = view
        .with_via(coming.via_endpoint(CallEndpoint::Manifest, &identity))
        .with_client_timeout(prefer.call_time_limit());
    let view = view.search_only();
    let tool = view.find(&name).inspect_err(|missing| view.record_missing_tool(missing))?;
    let called = view.call_found_tool(&tool, arguments, &CallContext::silent()).await;
    let answer = match called {
        CallResult::Completed(done) => match done.scope_failure() {
            // Respond with a status: a client that can get a wider token acts on the status.
            Some(failure) if matches!(identity.auth_method, AuthMethod::Token) => {
                let CallFailure { message, scopes, .. } = failure.clone();
                return Err(Problem::scopes_missing(message, scopes));
            }
            _ => done.into_tool_answer(),
        },
        CallResult::ProtocolError { message, error_code: as_ours, .. } => {
            failed_answer(as_ours, &message)
        }
        CallResult::InputRequired(_) | CallResult::MissingCapability(_) => {
            let why = "the tool asks its caller, and nobody can be asked here";
            failed_answer(ErrorCode::BuiltinError, why)
        }
    };
    Ok(Json(answer.into_map()))
}

fn failed_answer(code: ErrorCode, why: &str) -> ToolAnswer {
    ToolAnswer::Built(ToolResult::from_failure(CallFailure::new(
        code,
        format!("Error: {why}"),
        false,
    )))
}
