//! `/api/agents`: what an agent has (requirement A1).

use axum::Json;
use axum::extract::State;
use catalog::tool::Tool;
use model::{SourceId, ToolId, Visibility};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::{AgentView, ViewedTool};

use crate::app::App;
use crate::caller::Caller;
use crate::problem::{Code, Problem};
use crate::query::Asked;
use crate::route::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_agent_tools", "/api/agents/tools", list)
            .agent("agents", "List the tools that the caller may use")
            .asks::<Flags>()
            .answers_plain::<Tools>(),
    ]
}

/// For admins; to others they are forbidden.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AgentToolFlags")]
struct Flags {
    /// Decide anew, and use nothing that is kept.
    #[serde(default)]
    skip_cache: bool,
    /// Also tools of the caller's groups that are not served.
    #[serde(default)]
    include_disabled: bool,
}

/// The tools of one agent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AgentTools")]
struct Tools {
    data: Vec<AgentTool>,
}

/// A tool as an agent gets it.
#[derive(Serialize, JsonSchema)]
struct AgentTool {
    /// For ever.
    tool_id: ToolId,
    /// What this agent calls it.
    name: String,
    /// For the model to read.
    description: String,
    /// Of its arguments, whole.
    input_schema: Value,
    /// Whose it is.
    source_id: SourceId,
    /// The path of the request behind it.
    source_path: String,
    /// The source's words on it.
    tags: Vec<Box<str>>,
    /// Grows whenever anything about the tool changes.
    version: u64,
    /// Where the agent meets it.
    visibility: Visibility,
    /// Whether it can be called; only admins ever see one that cannot.
    is_served: bool,
}

impl AgentTool {
    fn of(view: &AgentView, tool: &ViewedTool) -> Option<Self> {
        let entry = tool.entry()?;
        let known: &Tool = &entry.tool;
        let manifest = known.shown_manifest();
        Some(Self {
            tool_id: known.id.clone(),
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            input_schema: tool.input_schema(),
            source_id: known.source.clone(),
            source_path: manifest.path.to_string(),
            tags: manifest.tags.clone(),
            version: known.version.0,
            visibility: view.visibility(tool),
            is_served: view.snapshot().served().contains(entry.slot),
        })
    }
}

async fn list(
    Caller(identity): Caller,
    State(app): State<App>,
    Asked(flags): Asked<Flags>,
) -> Result<Json<Tools>, Problem> {
    if (flags.skip_cache || flags.include_disabled) && !app.crib.is_admin(&identity) {
        let detail = "`skip_cache` and `include_disabled` are for admins";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let view = match (flags.include_disabled, flags.skip_cache) {
        (true, _) => app.crib.view_with_unserved(&identity.agent),
        (false, true) => app.crib.fresh_view(&identity.agent),
        (false, false) => app.crib.view(&identity.agent),
    };
    let data = view.list().iter().filter_map(|tool| AgentTool::of(&view, tool)).collect();
    Ok(Json(Tools { data }))
}
