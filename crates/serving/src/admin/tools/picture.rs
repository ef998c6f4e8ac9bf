//! `GET /api/tools/{id}/workflow`: the steps of a workflow, in words and as a flowchart. Calls nothing.

use axum::Json;
use axum::extract::State;
use model::{Execution, ToolId};
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib::read_workflow;

use crate::answer::Id;
use crate::app::App;
use crate::caller::Admin;
use crate::problem::{Code, Problem};

/// What a workflow would do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WorkflowPicture")]
pub(super) struct Picture {
    /// The tools it may call, by the names it has for them.
    tools: Vec<String>,
    /// Its steps, in the order of the document.
    steps: Vec<Step>,
    /// A flowchart, for anything that draws Mermaid.
    mermaid: String,
}

/// What one step would do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WorkflowStep")]
struct Step {
    /// How many others it stands in.
    depth: usize,
    /// What it is called.
    name: String,
    /// What it does.
    what: String,
}

pub(super) async fn show(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<ToolId>,
) -> Result<Json<Picture>, Problem> {
    let entry = super::find(&app.snapshot(), &id)?;
    let none = || Problem::new(Code::NotFound, "this tool is not a workflow that can be read");
    let Execution::Workflow { document } = &entry.tool.shown_manifest().execution else {
        return Err(none());
    };
    let workflow = read_workflow(document).map_err(|_| none())?;
    let plan = workflow.plan();
    let steps = plan.steps.into_iter();
    Ok(Json(Picture {
        tools: plan.tools.into_iter().collect(),
        steps: steps.map(|it| Step { depth: it.depth, name: it.name, what: it.what }).collect(),
        mermaid: workflow.mermaid(),
    }))
}
