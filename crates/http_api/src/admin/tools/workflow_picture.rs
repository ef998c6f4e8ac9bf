//! `GET /api/tools/{id}/workflow`: the steps of a workflow, in words and as a flowchart. Calls nothing.

use api_types::problem::{Problem, ProblemCode};
use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::responses::PathId;
use model::{Execution, ToolId};
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib::read_workflow;

/// What a workflow would do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WorkflowPicture")]
pub(super) struct WorkflowPicture {
    /// The tools it may call, by the names it has for them.
    tools: Vec<String>,
    /// Its steps, in the order of the document.
    steps: Vec<PictureStep>,
    /// A flowchart, for anything that draws Mermaid.
    mermaid: String,
}

/// What one step would do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WorkflowStep")]
struct PictureStep {
    /// How many others it stands in.
    depth: usize,
    /// What it is called.
    name: String,
    /// What it does.
    what: String,
}

pub(super) async fn get_workflow(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<ToolId>,
) -> Result<Json<WorkflowPicture>, Problem> {
    let entry = super::find_tool(&app.snapshot(), &id)?;
    let none =
        || Problem::new(ProblemCode::NotFound, "this tool is not a workflow that can be read");
    let Execution::Workflow { document } = &entry.tool.current_manifest().execution else {
        return Err(none());
    };
    let workflow = read_workflow(document).map_err(|_| none())?;
    let plan = workflow.to_plan();
    let steps = plan.steps.into_iter();
    Ok(Json(WorkflowPicture {
        tools: plan.tools.into_iter().collect(),
        steps: steps
            .map(|it| PictureStep { depth: it.depth, name: it.name, what: it.what })
            .collect(),
        mermaid: workflow.to_mermaid(),
    }))
}
