//! `/api/agents/tools`: the tools of an agent (requirement A1).

pub(crate) mod agent_call;
pub(crate) mod pending_calls;
pub(crate) mod prefer_header;
pub(crate) mod result_parts;

use api_types::problem::{Problem, ProblemCode};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use endpoint::app_state::AppState;
use endpoint::caller::Caller;
use endpoint::list_cache::SerializedList;
use endpoint::query_params::QueryParams;
use endpoint::route::ApiRoute;
use endpoint::tool_format::AgentTool;
use endpoint::tool_listing::ListQuery;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_agent_tools", "/api/agents/tools", list_tools)
            .for_agents("agents", "List the tools that the caller may use")
            .with_query::<AgentToolQuery>()
            .returns_list::<AgentToolList>(),
    ]
}

/// What is wanted, and what only admins may want.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AgentToolQuery")]
struct AgentToolQuery {
    #[serde(flatten)]
    wanted: ListQuery,
    /// For admins: decide anew, and use nothing that is kept.
    #[serde(default)]
    skip_cache: bool,
    /// For admins: also tools of the caller's groups that are not served.
    #[serde(default)]
    include_disabled: bool,
}

/// The tools of one agent.
#[derive(JsonSchema)]
#[schemars(rename = "AgentTools", untagged)]
#[expect(dead_code, reason = "it says what is written, and lists are written tool by tool")]
enum AgentToolList {
    /// All that is known.
    Data {
        /// The tools.
        data: Vec<AgentTool>,
    },
    /// Function definitions in the format that was asked for.
    Functions {
        /// The tools.
        tools: Vec<Value>,
    },
}

async fn list_tools(
    Caller(identity): Caller,
    State(app): State<AppState>,
    headers: HeaderMap,
    QueryParams(query): QueryParams<AgentToolQuery>,
) -> Result<Response, Problem> {
    if (query.skip_cache || query.include_disabled) && !app.crib.is_admin(&identity) {
        let detail = "`skip_cache` and `include_disabled` are for admins";
        return Err(Problem::new(ProblemCode::Forbidden, detail));
    }
    let sight = query.wanted.to_list_options()?;
    let (view, is_kept) = match (query.include_disabled, query.skip_cache) {
        (true, _) => (
            app.crib.view_with_unserved(&identity.agent).with_providers(&identity.providers),
            false,
        ),
        (false, true) => {
            (app.crib.uncached_view(&identity.agent).with_providers(&identity.providers), false)
        }
        (false, false) => (app.crib.view_for_identity(&identity), true),
    };
    let view = sight.apply_to(&app, view).ok_or_else(|| query.wanted.group_not_found())?;
    let list = match is_kept {
        true => sight.format.cached_list(&app.list_cache, &view),
        false => SerializedList::new(sight.format.serialize_list(&view)),
    };
    Ok(list.into_response_for(&headers))
}
