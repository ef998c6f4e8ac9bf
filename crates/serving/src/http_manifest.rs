//! `GET /tools` and `POST /tools/{name}`: an agent's tools for clients of the http manifest convention (requirement
//! H3), such as another toolcrib.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use model::{ErrorCode, Failure, ToolResult};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use toolcrib::{CallContext, CallDoor, Called, Means, ToolAnswer};

use crate::agents::prefer::Prefer;
use crate::answer::Named;
use crate::app::App;
use crate::body::Exact;
use crate::caller::Caller;
use crate::coming::Coming;
use crate::format::Format;
use crate::problem::Problem;
use crate::route::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("get_http_manifest", "/tools", list)
            .agent("agents", "List the tools that the caller may use, as an http manifest")
            .lists::<HttpManifest>(),
        Route::post("call_http_tool", "/tools/{name}", call)
            .agent("agents", "Call a tool of the http manifest")
            .may_take::<Map<String, Value>>()
            .calls()
            .answers_plain::<ToolResult>(),
    ]
}

/// The tools of one agent, each with the address it is called at.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it says what is written, and lists are written tool by tool")]
struct HttpManifest {
    tools: Vec<Entry>,
}

/// A tool, as MCP shows it, and where it is called. There may be more members.
#[derive(JsonSchema)]
#[schemars(rename = "HttpManifestTool", rename_all = "camelCase")]
#[expect(dead_code, reason = "it says what is written, and lists are written tool by tool")]
struct Entry {
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

async fn list(Caller(identity): Caller, State(app): State<App>, headers: HeaderMap) -> Response {
    Format::HttpManifest.list(&app, &app.crib.view_of(&identity)).answer(&headers)
}

async fn call(
    Caller(identity): Caller,
    State(app): State<App>,
    coming: Coming,
    prefer: Prefer,
    Named(name): Named,
    Exact(arguments): Exact<Map<String, Value>>,
) -> Result<Json<Map<String, Value>>, Problem> {
    let view = app.crib.view_of(&identity).came_with(&identity.came_with);
    let view = view.via(coming.via(CallDoor::Manifest, &identity)).within(prefer.patience());
    let view = view.by_search();
    let tool = view.find(&name).inspect_err(|missing| view.record_missing(missing))?;
    let called = view.call_with(&tool, arguments, &CallContext::silent()).await;
    let answer = match called {
        Called::Done(done) => match done.lacks_scopes() {
            // Respond with a status: a client that can get a wider token acts on the status.
            Some(failure) if matches!(identity.means, Means::Token) => {
                let Failure { message, scopes, .. } = failure.clone();
                return Err(Problem::scopes_missing(message, scopes));
            }
            _ => done.into_answer(),
        },
        Called::Error { message, as_ours, .. } => failed(as_ours, &message),
        Called::Asks(_) | Called::Unable(_) => {
            let why = "the tool asks its caller, and nobody can be asked here";
            failed(ErrorCode::BuiltinError, why)
        }
    };
    Ok(Json(answer.into_map()))
}

fn failed(code: ErrorCode, why: &str) -> ToolAnswer {
    ToolAnswer::Ours(ToolResult::failed(Failure::new(code, format!("Error: {why}"), false)))
}
