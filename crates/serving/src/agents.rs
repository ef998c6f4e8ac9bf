//! `/api/agents/tools`: the tools of an agent (requirement A1).

pub(crate) mod call;
pub(crate) mod pending;
pub(crate) mod prefer;
pub(crate) mod results;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use catalog::tool::Tool;
use model::{SourceId, ToolId, Visibility, shown_text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::{AgentView, ViewedTool};

use crate::app::App;
use crate::caller::Caller;
use crate::prepared::Prepared;
use crate::problem::{Code, Problem};
use crate::query::Asked;
use crate::route::Route;
use crate::sight::Wanted;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_agent_tools", "/api/agents/tools", list)
            .agent("agents", "List the tools that the caller may use")
            .asks::<Query>()
            .lists::<List>(),
    ]
}

/// What is wanted, and what only admins may want.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AgentToolQuery")]
struct Query {
    #[serde(flatten)]
    wanted: Wanted,
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
enum List {
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
    pub(crate) fn of(view: &AgentView, tool: &ViewedTool) -> Self {
        let entry = tool.entry();
        let known: Option<&Tool> = entry.map(|entry| &entry.tool);
        let manifest = known.map(Tool::shown_manifest);
        let served = view.snapshot().served();
        Self {
            tool_id: tool.id().cloned(),
            name: tool.name().to_owned(),
            description: tool.description().into_owned(),
            input_schema: tool.input_schema(),
            source_id: known.map(|known| known.source.clone()),
            source_path: manifest.map(|manifest| shown_text(&manifest.path).into_owned()),
            tags: manifest.map(|manifest| shown_tags(&manifest.tags)).unwrap_or_default(),
            version: known.map(|known| known.version.0),
            visibility: view.visibility(tool),
            is_served: entry.is_none_or(|entry| served.contains(entry.slot)),
        }
    }
}

fn shown_tags(tags: &[Box<str>]) -> Vec<Box<str>> {
    tags.iter().map(|tag| shown_text(tag).into()).collect()
}

async fn list(
    Caller(identity): Caller,
    State(app): State<App>,
    headers: HeaderMap,
    Asked(query): Asked<Query>,
) -> Result<Response, Problem> {
    if (query.skip_cache || query.include_disabled) && !app.crib.is_admin(&identity) {
        let detail = "`skip_cache` and `include_disabled` are for admins";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let sight = query.wanted.sight()?;
    let (view, is_kept) = match (query.include_disabled, query.skip_cache) {
        (true, _) => (
            app.crib.view_with_unserved(&identity.agent).with_providers(&identity.providers),
            false,
        ),
        (false, true) => {
            (app.crib.fresh_view(&identity.agent).with_providers(&identity.providers), false)
        }
        (false, false) => (app.crib.view_of(&identity), true),
    };
    let view = sight.within(&app, view).ok_or_else(|| query.wanted.no_group())?;
    let list = match is_kept {
        true => sight.format.list(&app, &view),
        false => Prepared::new(sight.format.write(&view)),
    };
    Ok(list.answer(&headers))
}
