//! Calls over REST (requirement A3). The HTTP status describes the request; the outcome of the tool is in the body.
//!
//! If a tool was called, the status is 200. So a client that retries on other statuses never calls a tool twice.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use model::{ErrorCode, Failure, Outcome, ToolId, WrongArgument};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolcrib::{AgentView, CallContext, CallDoor, Identity, NotFound, ViewedTool};

use super::pending::PendingCall;
use super::prefer::Prefer;
use crate::answer::Named;
use crate::app::App;
use crate::body::Exact;
use crate::caller::Caller;
use crate::coming::Coming;
use crate::problem::{Code, FieldError, Problem};
use crate::route::Route;
use crate::watching::principal;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::post("call_agent_tool", "/api/agents/tools/call", call)
            .agent("agents", "Call a tool by its name or id")
            .takes::<Call>()
            .calls()
            .may_defer::<PendingCall>()
            .answers_plain::<Outcome>(),
        Route::post("execute_tool", "/api/tools/{id}/execute", execute)
            .agent("agents", "Call a tool by its id")
            .may_take::<Execute>()
            .calls()
            .may_defer::<PendingCall>()
            .answers_plain::<Outcome>(),
    ]
}

/// What an agent asks for: a tool by one of its name and its id.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AgentCall")]
struct Call {
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
struct Execute {
    /// Its arguments, as its schema says.
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

async fn call(
    Caller(identity): Caller,
    State(app): State<App>,
    coming: Coming,
    prefer: Prefer,
    Exact(call): Exact<Call>,
) -> Result<Response, Problem> {
    let view = app.crib.view_of(&identity).came_with(&identity.came_with);
    // Calls have no listing mode, so the search tools are always callable: the agent's list may contain them.
    let view = view.via(coming.via(CallDoor::Rest, &identity)).by_search();
    let tool = match (call.name, call.tool_id) {
        (Some(name), None) => view.find(&name),
        (None, Some(id)) => find_id(&view, &id),
        (None, None) => return Err(Problem::field("name", "is missing, and so is `tool_id`")),
        (Some(_), Some(_)) => {
            return Err(Problem::field("tool_id", "stands beside `name`: send one"));
        }
    };
    carry_out(&app, &identity, view, tool, call.arguments, prefer).await
}

async fn execute(
    Caller(identity): Caller,
    State(app): State<App>,
    coming: Coming,
    prefer: Prefer,
    Named(id): Named,
    Exact(call): Exact<Execute>,
) -> Result<Response, Problem> {
    let view = app.crib.view_of(&identity).came_with(&identity.came_with);
    let view = view.via(coming.via(CallDoor::Rest, &identity));
    let tool = find_id(&view, &id);
    carry_out(&app, &identity, view, tool, call.arguments, prefer).await
}

/// Finds a tool by id; an invalid id gives the same error as an unknown one.
fn find_id(view: &AgentView, id: &str) -> Result<ViewedTool, NotFound> {
    match id.parse::<ToolId>() {
        Ok(id) => view.find_id(&id),
        Err(_) => Err(NotFound::NoSuchTool { name: id.into() }),
    }
}

/// Calls a tool. With `Prefer: respond-async`, and for jobs, a slow call becomes a pending call.
async fn carry_out(
    app: &App,
    identity: &Identity,
    view: AgentView,
    tool: Result<ViewedTool, NotFound>,
    arguments: Option<Map<String, Value>>,
    prefer: Prefer,
) -> Result<Response, Problem> {
    let tool = tool.inspect_err(|missing| view.record_missing(missing))?;
    let arguments = arguments.unwrap_or_default();
    if !prefer.respond_async && !tool.is_job() {
        let view = view.within(prefer.patience());
        let outcome = view.outcome_of(&tool, arguments, &CallContext::silent()).await;
        return answer(outcome).map(IntoResponse::into_response);
    }
    let mut begun = app.pending.begin(app, principal(identity), view, tool, arguments)?;
    match begun.ended_within(prefer.wait()).await {
        Some(outcome) => answer(outcome).map(IntoResponse::into_response),
        None => Ok(begun.goes_on()),
    }
}

/// The response to an outcome. Invalid arguments and missing scopes are errors of the request, because nothing was sent
/// to the upstream. So are a rate limit and an open circuit. A workflow that failed in such a step reports neither
/// scopes nor a retry delay, because other steps may have had effects; its status stays 200.
pub(crate) fn answer(outcome: Outcome) -> Result<Json<Outcome>, Problem> {
    match outcome.error {
        Some(error) if error.code == ErrorCode::ValidationError => {
            Err(Problem::fields(wrong_arguments(error)))
        }
        Some(error) if !error.scopes.is_empty() => {
            Err(Problem::scopes_missing(error.message, error.scopes))
        }
        Some(Failure {
            code: ErrorCode::RateLimited, message, retry_after: Some(seconds), ..
        }) => Err(Problem::later(Code::RateLimited, message, seconds)),
        Some(Failure {
            code: ErrorCode::CircuitOpen, message, retry_after: Some(seconds), ..
        }) => Err(Problem::later(Code::CircuitOpen, message, seconds)),
        Some(_) | None => Ok(Json(outcome)),
    }
}

/// The field errors of invalid arguments. An error of a template has no path and applies to all arguments.
pub(crate) fn wrong_arguments(failure: Failure) -> Vec<FieldError> {
    if failure.arguments.is_empty() {
        let line = |line: &str| FieldError { field: ARGUMENTS.into(), message: line.into() };
        return failure.message.lines().map(line).collect();
    }
    let one = |WrongArgument { path, message }: WrongArgument| {
        let field = format!("{ARGUMENTS}{}", place(&path));
        FieldError { field, message }
    };
    failure.arguments.into_iter().map(one).collect()
}

const ARGUMENTS: &str = "arguments";

/// A JSON pointer as a field path of our problems: `.pizzas[0].name`. Numeric segments are shown as array indices, even
/// if they are field names.
fn place(pointer: &str) -> String {
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
        let failure = Failure::new(ErrorCode::RateLimited, "too many", true);
        let failed = |retry_after| {
            let error = Some(Failure { retry_after, ..failure.clone() });
            let outcome = serde_json::json!({"tool_id": "a:b", "status": "failed",
                "execution_time_ms": 0, "error": error});
            answer(serde_json::from_value(outcome).unwrap())
        };
        assert!(failed(Some(1)).is_err_and(|problem| problem.is(Code::RateLimited)));
        assert!(failed(None).is_ok(), "a step of a workflow");
    }

    #[test]
    fn a_json_pointer_becomes_a_field_path() {
        assert_eq!(place(""), "");
        assert_eq!(place("/pizzas/0/name"), ".pizzas[0].name");
        assert_eq!(place("/a~1b/~01"), ".a/b.~1");
    }

    #[test]
    fn a_template_error_applies_to_all_arguments() {
        let failure = Failure::new(ErrorCode::ValidationError, "`id` is empty\nand `b` too", false);
        let told = Problem::fields(wrong_arguments(failure)).into_errors();
        let told: Vec<_> = told.iter().map(|it| (it.field.as_str(), it.message.as_str())).collect();
        assert_eq!(told, [("arguments", "`id` is empty"), ("arguments", "and `b` too")]);
    }
}
