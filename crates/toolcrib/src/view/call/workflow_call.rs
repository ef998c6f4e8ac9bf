//! Runs a workflow: each step is a call of the same agent, with its grants, limits, credentials and call log entries.
//!
//! Dropping the call stops all steps. Nested workflows share one budget, and their nesting depth is limited, so that a
//! workflow that calls itself ends.

use std::sync::Arc;
use std::time::Duration;

use calls::compiled_tool::CompiledWorkflow;
use calls::source_gates::SourceVerdict;
use calls::state_cipher::random_id;
use catalog::source::Source;
use jiff::Timestamp;
use model::{CallFailure, Content, ErrorCode, Outcome, ToolId};
use provider::{CallContext, CallProgress};
use serde_json::{Map, Value};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use workflow::{
    RunBudget, RunEnvironment, ToolCallFailure, WorkflowClock, WorkflowFuture, WorkflowTools,
};

use super::call_result::build_outcome;
use crate::view::{AgentView, ToolLookupError, ViewedTool};

/// Maximum duration of a workflow, whatever its document says.
const WORKFLOW_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum nesting depth of workflows.
const MAX_NESTING: u8 = 5;

/// The workflow whose step makes a call.
pub(in crate::view) struct WorkflowNesting {
    depth: u8,
    budget: Arc<RunBudget>,
}

/// Gives the workflow engine its tools and clock during one run.
struct WorkflowSteps<'a> {
    view: AgentView,
    call: &'a CallContext,
    start: Instant,
}

impl AgentView {
    pub(super) async fn run_workflow(
        &self,
        source: &Source,
        id: &ToolId,
        ready: &CompiledWorkflow,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<Outcome, CallFailure> {
        let start = Instant::now();
        let time =
            self.client_timeout.map_or(WORKFLOW_TIMEOUT, |patience| patience.min(WORKFLOW_TIMEOUT));
        let nested = match &self.parent_workflow {
            None => WorkflowNesting { depth: 1, budget: Arc::default() },
            Some(outer) if outer.depth < MAX_NESTING => {
                WorkflowNesting { depth: outer.depth + 1, budget: Arc::clone(&outer.budget) }
            }
            Some(_) => {
                let message = format!("more than {MAX_NESTING} workflows stand inside each other");
                return Err(CallFailure::new(ErrorCode::BuiltinError, message, false));
            }
        };
        let pass = match &self.parent_workflow {
            None => Some(self.admit_once(source, id, WORKFLOW_TIMEOUT).await?),
            // A nested workflow takes no slot: waiting for one while holding one could deadlock.
            Some(_) => None,
        };
        let budget = Arc::clone(&nested.budget);
        let view = Self { parent_workflow: Some(Arc::new(nested)), ..self.clone() };
        let steps = WorkflowSteps { view, call, start };
        let (run, budget) = (random_id(), &*budget);
        let around = RunEnvironment { tools: &steps, clock: &steps, budget, time, id: &run };
        let ran = ready.workflow.run(Value::Object(arguments), &around).await;
        if let Some(pass) = pass {
            // Failures belong to the steps, which were counted where they were called.
            pass.finish(SourceVerdict::Works);
        }
        let result = ran.map_err(workflow::WorkflowFault::into_failure)?;
        Ok(build_outcome(id.clone(), start, Some(result), Vec::new(), None))
    }
}

impl WorkflowSteps<'_> {
    async fn call_step(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        within: Duration,
    ) -> Result<Value, ToolCallFailure> {
        let missing = |missing: &ToolLookupError| {
            self.view.record_missing_tool(missing);
            let failure = CallFailure::new(ErrorCode::NotGranted, missing.to_string(), false);
            ToolCallFailure { failure, status: None }
        };
        let found = self.find_step_tool(tool).map_err(|it| missing(&it))?;
        let (view, found) =
            self.refresh_tool(found).ok_or_else(|| missing(&crate::view::no_such_tool(tool)))?;
        let mut view = view.with_client_timeout(Some(within));
        view.via.trace = self.call.trace().cloned();
        let context = CallContext::silent();
        let is_workflow = found.is_workflow();
        let calling = async move { view.call_for_outcome(&found, arguments, &context).await };
        let outcome = match is_workflow {
            // On a task of its own, so that nested workflows do not deepen the stack.
            true => NestedWorkflowTask(tokio::spawn(calling)).join_outcome().await?,
            false => calling.await,
        };
        match outcome.error {
            Some(failure) => Err(ToolCallFailure { failure, status: outcome.upstream_status }),
            None => Ok(step_value(outcome)),
        }
    }
}

impl WorkflowSteps<'_> {
    /// The current tool under the agent's current grants, since a workflow may run for minutes. `None` if the tool is
    /// gone, or the agent's key or token has expired.
    fn refresh_tool(&self, found: ViewedTool) -> Option<(AgentView, ViewedTool)> {
        let crib = &self.view.crib;
        let now = crib.view(&self.view.agent);
        if !self.view.request_credentials.is_valid_at(&now.snapshot, &self.view.agent, crib.now()) {
            return None;
        }
        let found = match found.id() {
            Some(id) => now.find_by_id(id).ok()?,
            None => found,
        };
        let (snapshot, toolset) = (Arc::clone(&now.snapshot), Arc::clone(&now.toolset));
        Some((AgentView { snapshot, toolset, ..self.view.clone() }, found))
    }

    /// The agent's tool with this name, in any form, or with this id.
    fn find_step_tool(&self, tool: &str) -> Result<ViewedTool, ToolLookupError> {
        self.view.find(tool).or_else(|missing| match tool.parse() {
            Ok(id) => self.view.find_by_id(&id),
            Err(_) => Err(missing),
        })
    }
}

/// A task that is aborted when its waiter is dropped.
struct NestedWorkflowTask(JoinHandle<Outcome>);

impl NestedWorkflowTask {
    async fn join_outcome(mut self) -> Result<Outcome, ToolCallFailure> {
        (&mut self.0).await.map_err(|_| {
            let failure = CallFailure::new(ErrorCode::InternalError, "the workflow failed", false);
            ToolCallFailure { failure, status: None }
        })
    }
}

impl Drop for NestedWorkflowTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl WorkflowTools for WorkflowSteps<'_> {
    fn call_tool<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        within: Duration,
    ) -> WorkflowFuture<'a, Result<Value, ToolCallFailure>> {
        Box::pin(self.call_step(tool, arguments, within))
    }

    fn on_step_started(&self, number: u64, step: &str) {
        self.call.report_progress(CallProgress {
            progress: number as f64,
            total: None,
            message: Some(step.into()),
        });
    }
}

impl WorkflowClock for WorkflowSteps<'_> {
    fn now(&self) -> Timestamp {
        self.view.crib.now()
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, time: Duration) -> WorkflowFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// The value that a step continues with: JSON if present, otherwise the only text, otherwise the MCP content.
fn step_value(outcome: Outcome) -> Value {
    if let Some(result) = outcome.result {
        return result;
    }
    match outcome.content.as_slice() {
        [] => Value::Null,
        [Content::Text { text }] => Value::from(text.as_str()),
        content => serde_json::to_value(content).unwrap_or_default(),
    }
}
