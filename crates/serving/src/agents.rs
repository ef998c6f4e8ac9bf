//! `/api/agents/tools`: what an agent has (requirement A1).

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use catalog::tool::Tool;
use model::{SourceId, ToolId, Visibility};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::{AgentView, ViewedTool};

use crate::app::App;
use crate::caller::Caller;
use crate::format::Format;
use crate::prepared::Prepared;
use crate::problem::{Code, Problem};
use crate::query::Asked;
use crate::route::Route;
use crate::sight::{BUDGET, Mode, Sight};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_agent_tools", "/api/agents/tools", list)
            .agent("agents", "List the tools that the caller may use")
            .asks::<Wanted>()
            .lists::<List>(),
    ]
}

/// What a caller wants to see, and how.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AgentToolQuery")]
struct Wanted {
    /// Ready-made function definitions instead of all that is known.
    #[serde(default)]
    format: Option<Format>,
    /// `list`: the tools. `search`: only `tool_search` and `execute_tool`, which reach the rest. `auto`: `list`, unless
    /// it is longer than the budget.
    #[serde(default)]
    mode: Option<Mode>,
    /// How long the list may be before `auto` searches, in tokens of four bytes; 20,000 if it is left out.
    #[serde(default)]
    budget: Option<u64>,
    /// Only what is in this group.
    #[serde(default)]
    group: Option<String>,
    /// For admins: decide anew, and use nothing that is kept.
    #[serde(default)]
    skip_cache: bool,
    /// For admins: also tools of the caller's groups that are not served.
    #[serde(default)]
    include_disabled: bool,
}

impl Wanted {
    fn sight(&self) -> Result<Sight, Problem> {
        let group = self.group.as_deref().map(|text| text.parse().map_err(|_| no_group(text)));
        Ok(Sight {
            group: group.transpose()?,
            mode: self.mode.unwrap_or_default(),
            format: self.format.unwrap_or_default(),
            budget: self.budget.unwrap_or(BUDGET),
        })
    }
}

/// Unknown, or not granted: the caller cannot tell which.
fn no_group(text: &str) -> Problem {
    Problem::not_found("group of yours:", text)
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
            description: tool.description().to_owned(),
            input_schema: tool.input_schema(),
            source_id: known.map(|known| known.source.clone()),
            source_path: manifest.map(|manifest| manifest.path.to_string()),
            tags: manifest.map(|manifest| manifest.tags.clone()).unwrap_or_default(),
            version: known.map(|known| known.version.0),
            visibility: view.visibility(tool),
            is_served: entry.is_none_or(|entry| served.contains(entry.slot)),
        }
    }
}

async fn list(
    Caller(identity): Caller,
    State(app): State<App>,
    headers: HeaderMap,
    Asked(wanted): Asked<Wanted>,
) -> Result<Response, Problem> {
    if (wanted.skip_cache || wanted.include_disabled) && !app.crib.is_admin(&identity) {
        let detail = "`skip_cache` and `include_disabled` are for admins";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let sight = wanted.sight()?;
    let (view, is_kept) = match (wanted.include_disabled, wanted.skip_cache) {
        (true, _) => (app.crib.view_with_unserved(&identity.agent), false),
        (false, true) => (app.crib.fresh_view(&identity.agent), false),
        (false, false) => (app.crib.view(&identity.agent), true),
    };
    let no_group = || no_group(wanted.group.as_deref().unwrap_or_default());
    let view = sight.within(&app, view).ok_or_else(no_group)?;
    let list = match is_kept {
        true => sight.format.list(&app, &view),
        false => Prepared::new(sight.format.write(&view)),
    };
    Ok(list.answer(&headers))
}
