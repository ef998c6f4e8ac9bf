//! Calls over REST (requirement A3). The HTTP status describes the request; the outcome of the tool is in the body.
//!
//! If a tool was called, the status is 200. So a client that retries on other statuses never calls a tool twice.

use api_types::problem::{FieldError, Problem, ProblemCode};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use endpoint::app_state::AppState;
use endpoint::caller::Caller;
use endpoint::json_body::ExactJsonBody;
use endpoint::request_context::RequestContext;
use endpoint::responses::PathName;
use endpoint::route::ApiRoute;
use endpoint::view_subscription::principal_key;
use model::{ArgumentProblem, CallFailure, ErrorCode, Outcome, ToolId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolcrib::{AgentView, CallContext, CallEndpoint, CallerIdentity, ToolLookupError, ViewedTool};

use super::prefer_header::PreferHeader;
use crate::agents::pending_calls::{PendingCall, PendingCalls};

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post("call_agent_tool", "/api/agents/tools/call", call_tool)
            .for_agents("agents", "Call a tool by its name or id")
            .with_body::<AgentCallRequest>()
            .marked_as_tool_call()
            .may_defer::<PendingCall>()
            .returns_json::<Outcome>(),
        ApiRoute::post("execute_tool", "/api/tools/{id}/execute", execute_tool)
            .for_agents("agents", "Call a tool by its id")
            .with_optional_body::<AgentExecutionRequest>()
            .marked_as_tool_call()
            .may_defer::<PendingCall>()
            .returns_json::<Outcome>(),
    ]
}

/// What an agent asks for: a tool by one of its name and its id.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AgentCall")]
struct AgentCallRequest {
    /// The tool, by the name that the agent was shown.
    #[serde(default)]
    name: Option<String>,
    /// The tool, by its id.
    #[serde(default)]
    tool_id: Option<String>,
    /// Its arguments, as its schema says.
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

/// What an agent asks for, of a tool in the path.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AgentExecution")]
struct AgentExecutionRequest {
    /// Its arguments, as its schema says.
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

async fn call_tool(
    Caller(identity): Caller,
    State(app): State<AppState>,
    coming: RequestContext,
    prefer: PreferHeader,
    ExactJsonBody(call): ExactJsonBody<AgentCallRequest>,
) -> Result<Response, Problem> {
    let view = app
        .crib
        .view_for_identity(&identity)
        .with_request_credentials(&identity.request_credentials);
    // Calls have no listing mode, so the search tools are always callable: the agent's list may contain them.
    let view = view.with_via(coming.via_endpoint(CallEndpoint::Rest, &identity)).search_only();
    let tool = match (call.name, call.tool_id) {
        (Some(name), None) => view.find(&name),
        (None, Some(id)) => find_by_id(&view, &id),
        (None, None) => {
            return Err(Problem::invalid_field("name", "is missing, and so is `tool_id`"));
        }
        (Some(_), Some(_)) => {
            return Err(Problem::invalid_field("tool_id", "stands beside `name`: send one"));
        }
    };
    run_call(&app, &identity, view, tool, call.arguments, prefer).await
}

async fn execute_tool(
    Caller(identity): Caller,
    State(app): State<AppState>,
    coming: RequestContext,
    prefer: PreferHeader,
    PathName(id): PathName,
    ExactJsonBody(call): ExactJsonBody<AgentExecutionRequest>,
) -> Result<Response, Problem> {
    let view = app
        .crib
        .view_for_identity(&identity)
        .with_request_credentials(&identity.request_credentials);
    let view = view.with_via(coming.via_endpoint(CallEndpoint::Rest, &identity));
    let tool = find_by_id(&view, &id);
    run_call(&app, &identity, view, tool, call.arguments, prefer).await
}

/// Finds a tool by id; an invalid id gives the same error as an unknown one.
fn find_by_id(view: &AgentView, id: &str) -> Result<ViewedTool, ToolLookupError> {
    match id.parse::<ToolId>() {
        Ok(id) => view.find_by_id(&id),
        Err(_) => Err(ToolLookupError::NoSuchTool { name: id.into() }),
    }
}

/// Calls a tool. With `Prefer: respond-async`, and for jobs, a slow call becomes a pending call.
async fn run_call(
    app: &AppState,
    identity: &CallerIdentity,
    view: AgentView,
    tool: Result<ViewedTool, ToolLookupError>,
    arguments: Option<Map<String, Value>>,
    prefer: PreferHeader,
) -> Result<Response, Problem> {
    let tool = tool.inspect_err(|missing| view.record_missing_tool(missing))?;
    let arguments = arguments.unwrap_or_default();
    if !prefer.respond_async && !tool.is_job() {
        let view = view.with_client_timeout(prefer.call_time_limit());
        let outcome = view.call_for_outcome(&tool, arguments, &CallContext::silent()).await;
        return outcome_response(outcome).map(IntoResponse::into_response);
    }
    let mut begun = PendingCalls::of_app(app).start_call(
        app,
        principal_key(identity),
        view,
        tool,
        arguments,
    )?;
    match begun.wait_for_outcome(prefer.wait_duration()).await {
        Some(outcome) => outcome_response(outcome).map(IntoResponse::into_response),
        None => Ok(begun.into_accepted_response()),
    }
}

/// The response to an outcome. Invalid arguments and missing scopes are errors of the request, because nothing was sent
/// to the upstream. So are a rate limit and an open circuit. A workflow that failed in such a step reports neither
/// scopes nor a retry delay, because other steps may have had effects; its status stays 200.
pub(crate) fn outcome_response(outcome: Outcome) -> Result<Json<Outcome>, Problem> {
    match outcome.error {
        Some(error) if error.code == ErrorCode::ValidationError => {
            Err(Problem::invalid_fields(argument_errors(error)))
        }
        Some(error) if !error.scopes.is_empty() => {
            Err(Problem::scopes_missing(error.message, error.scopes))
        }
        Some(CallFailure {
            code: ErrorCode::RateLimited,
            message,
            retry_after: Some(seconds),
            ..
        }) => Err(Problem::retry_after(ProblemCode::RateLimited, message, seconds)),
        Some(CallFailure {
            code: ErrorCode::CircuitOpen,
            message,
            retry_after: Some(seconds),
            ..
        }) => Err(Problem::retry_after(ProblemCode::CircuitOpen, message, seconds)),
        Some(_) | None => Ok(Json(outcome)),
    }
}

/// The field errors of invalid arguments. An error of a template has no path and applies to all arguments.
pub(crate) fn argument_errors(failure: CallFailure) -> Vec<FieldError> {
    if failure.arguments.is_empty() {
        let line = |line: &str| FieldError { field: ARGUMENTS.into(), message: line.into() };
        return failure.message.lines().map(line).collect();
    }
    let one = |ArgumentProblem { path, message }: ArgumentProblem| {
        let field = format!("{ARGUMENTS}{}", field_path_suffix(&path));
        FieldError { field, message }
    };
    failure.arguments.into_iter().map(one).collect()
}

const ARGUMENTS: &str = "arguments";

/// A JSON pointer as a field path of our problems: `.pizzas[0].name`. Numeric segments are shown as array indices, even
/// if they are field names.
fn field_path_suffix(pointer: &str) -> String {
    let is_number = |step: &str| !step.is_empty() && step.bytes().all(|it| it.is_ascii_digit());
    let step = |step: &str| match is_number(step) {
        true => format!("[{step}]"),
        false => format!(".{}", step.replace("~1", "/").replace("~0", "~")),
    };
    pointer.split('/').skip(1).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_never_began_gets_an_error_status() {
        let failure = CallFailure::new(ErrorCode::RateLimited, "too many", true);
        let failed = |retry_after| {
            let error = Some(CallFailure { retry_after, ..failure.clone() });
            let outcome = serde_json::json!({"tool_id": "a:b", "status": "failed",
                "execution_time_ms": 0, "error": error});
            outcome_response(serde_json::from_value(outcome).unwrap())
        };
        assert!(failed(Some(1)).is_err_and(|problem| problem.has_code(ProblemCode::RateLimited)));
        assert!(failed(None).is_ok(), "a step of a workflow");
    }

    #[test]
    fn a_json_pointer_becomes_a_field_path() {
        assert_eq!(field_path_suffix(""), "");
        assert_eq!(field_path_suffix("/pizzas/0/name"), ".pizzas[0].name");
        assert_eq!(field_path_suffix("/a~1b/~01"), ".a/b.~1");
    }

    #[test]
    fn a_template_error_applies_to_all_arguments() {
        let failure =
            CallFailure::new(ErrorCode::ValidationError, "`id` is empty\nand `b` too", false);
        let told = Problem::invalid_fields(argument_errors(failure)).into_errors();
        let told: Vec<_> = told.iter().map(|it| (it.field.as_str(), it.message.as_str())).collect();
        assert_eq!(told, [("arguments", "`id` is empty"), ("arguments", "and `b` too")]);
    }
}
