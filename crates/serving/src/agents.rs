//! `/api/agents/tools`: the tools of an agent (requirement A1).

pub(crate) mod agent_call;
pub(crate) mod pending_calls;
pub(crate) mod prefer_header;
pub(crate) mod result_parts;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use catalog::tool::Tool;
use model::{SourceId, ToolId, Visibility, sanitize_text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::{AgentView, ViewedTool};

use crate::app_state::AppState;
use crate::caller::Caller;
use crate::list_cache::SerializedList;
use crate::problem::{Problem, ProblemCode};
use crate::query_params::QueryParams;
use crate::route::ApiRoute;
use crate::tool_listing::ListQuery;

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

/// A tool as an agent gets it. One that is not in the catalog has no id, no source and no version.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentTool {
    /// For ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_id: Option<ToolId>,
    /// What this agent calls it.
    name: String,
    /// For the model to read.
    description: String,
    /// Of its arguments, whole.
    input_schema: Value,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<SourceId>,
    /// The path of the request behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_path: Option<String>,
    /// The source's words on it.
    tags: Vec<Box<str>>,
    /// Grows whenever anything about the tool changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// Where the agent meets it.
    visibility: Visibility,
    /// Whether it can be called; only admins ever see one that cannot.
    is_served: bool,
}

impl AgentTool {
    pub(crate) fn from_tool(view: &AgentView, tool: &ViewedTool) -> Self {
        let entry = tool.catalog_entry();
        let known: Option<&Tool> = entry.map(|entry| &entry.tool);
        let manifest = known.map(Tool::current_manifest);
        let served = view.snapshot().served();
        Self {
            tool_id: tool.id().cloned(),
            name: tool.name().to_owned(),
            description: tool.description().into_owned(),
            input_schema: tool.input_schema(),
            source_id: known.map(|known| known.source.clone()),
            source_path: manifest.map(|manifest| sanitize_text(&manifest.path).into_owned()),
            tags: manifest.map(|manifest| printable_tags(&manifest.tags)).unwrap_or_default(),
            version: known.map(|known| known.version.0),
            visibility: view.visibility_of(tool),
            is_served: entry.is_none_or(|entry| served.contains(entry.slot)),
        }
    }
}

fn printable_tags(tags: &[Box<str>]) -> Vec<Box<str>> {
    tags.iter().map(|tag| sanitize_text(tag).into()).collect()
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
        true => sight.format.cached_list(&app, &view),
        false => SerializedList::new(sight.format.serialize_list(&view)),
    };
    Ok(list.into_response_for(&headers))
}
