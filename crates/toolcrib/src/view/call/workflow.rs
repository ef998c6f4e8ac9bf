//! Runs a workflow: each step is a call of the same agent, with its grants, limits, credentials and call log entries.
//!
//! Dropping the call stops all steps. Nested workflows share one budget, and their nesting depth is limited, so that a
//! workflow that calls itself ends.

use std::sync::Arc;
use std::time::Duration;

use catalog::source::Source;
use jiff::Timestamp;
use model::{Content, ErrorCode, Failure, Outcome, ToolId};
use serde_json::{Map, Value};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use workflow::{Budget, CallFailed, Clock, Coming, Surroundings, Tools};

use super::done::told;
use crate::call::{CallContext, Progress};
use crate::gates::Verdict;
use crate::seal::random;
use crate::view::ready::WorkflowReady;
use crate::view::{AgentView, NotFound, ViewedTool};

/// Maximum duration of a workflow, whatever its document says.
const TIME: Duration = Duration::from_secs(10 * 60);
/// Maximum nesting depth of workflows.
const DEEPEST: u8 = 5;

/// The workflow whose step makes a call.
pub(in crate::view) struct Nested {
    depth: u8,
    budget: Arc<Budget>,
}

/// Gives the workflow engine its tools and clock during one run.
struct Steps<'a> {
    view: AgentView,
    call: &'a CallContext,
    start: Instant,
}

impl AgentView {
    pub(super) async fn run_workflow(
        &self,
        source: &Source,
        id: &ToolId,
        ready: &WorkflowReady,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<Outcome, Failure> {
        let start = Instant::now();
        let time = self.patience.map_or(TIME, |patience| patience.min(TIME));
        let nested = match &self.within {
            None => Nested { depth: 1, budget: Arc::default() },
            Some(outer) if outer.depth < DEEPEST => {
                Nested { depth: outer.depth + 1, budget: Arc::clone(&outer.budget) }
            }
            Some(_) => {
                let message = format!("more than {DEEPEST} workflows stand inside each other");
                return Err(Failure::new(ErrorCode::BuiltinError, message, false));
            }
        };
        let pass = match &self.within {
            None => Some(self.enter(source, id, TIME).await?),
            // A nested workflow takes no slot: waiting for one while holding one could deadlock.
            Some(_) => None,
        };
        let budget = Arc::clone(&nested.budget);
        let view = Self { within: Some(Arc::new(nested)), ..self.clone() };
        let steps = Steps { view, call, start };
        let (run, budget) = (random(), &*budget);
        let around = Surroundings { tools: &steps, clock: &steps, budget, time, id: &run };
        let ran = ready.workflow.run(Value::Object(arguments), &around).await;
        if let Some(pass) = pass {
            // Failures belong to the steps, which were counted where they were called.
            pass.end(Verdict::Works);
        }
        let result = ran.map_err(workflow::Fault::into_failure)?;
        Ok(told(id.clone(), start, Some(result), Vec::new(), None))
    }
}

impl Steps<'_> {
    async fn called(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        within: Duration,
    ) -> Result<Value, CallFailed> {
        let missing = |missing: &NotFound| {
            self.view.record_missing(missing);
            let failure = Failure::new(ErrorCode::NotGranted, missing.to_string(), false);
            CallFailed { failure, status: None }
        };
        let found = self.found(tool).map_err(|it| missing(&it))?;
        let (view, found) = self.now(found).ok_or_else(|| missing(&crate::view::missing(tool)))?;
        let mut view = view.within(Some(within));
        view.via.trace = self.call.trace().cloned();
        let context = CallContext::silent();
        let is_workflow = found.is_workflow();
        let calling = async move { view.outcome_of(&found, arguments, &context).await };
        let outcome = match is_workflow {
            // On a task of its own, so that nested workflows do not deepen the stack.
            true => Spawned(tokio::spawn(calling)).outcome().await?,
            false => calling.await,
        };
        match outcome.error {
            Some(failure) => Err(CallFailed { failure, status: outcome.upstream_status }),
            None => Ok(value(outcome)),
        }
    }
}

impl Steps<'_> {
    /// The current tool under the agent's current grants, since a workflow may run for minutes. `None` if the tool is
    /// gone, or the agent's key or token has expired.
    fn now(&self, found: ViewedTool) -> Option<(AgentView, ViewedTool)> {
        let crib = &self.view.crib;
        let now = crib.view(&self.view.agent);
        if !self.view.came_with.is_good_at(&now.snapshot, &self.view.agent, crib.now()) {
            return None;
        }
        let found = match found.id() {
            Some(id) => now.find_id(id).ok()?,
            None => found,
        };
        let (snapshot, toolset) = (Arc::clone(&now.snapshot), Arc::clone(&now.toolset));
        Some((AgentView { snapshot, toolset, ..self.view.clone() }, found))
    }

    /// The agent's tool with this name, in any form, or with this id.
    fn found(&self, tool: &str) -> Result<ViewedTool, NotFound> {
        self.view.find(tool).or_else(|missing| match tool.parse() {
            Ok(id) => self.view.find_id(&id),
            Err(_) => Err(missing),
        })
    }
}

/// A task that is aborted when its waiter is dropped.
struct Spawned(JoinHandle<Outcome>);

impl Spawned {
    async fn outcome(mut self) -> Result<Outcome, CallFailed> {
        (&mut self.0).await.map_err(|_| {
            let failure = Failure::new(ErrorCode::InternalError, "the workflow failed", false);
            CallFailed { failure, status: None }
        })
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Tools for Steps<'_> {
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        within: Duration,
    ) -> Coming<'a, Result<Value, CallFailed>> {
        Box::pin(self.called(tool, arguments, within))
    }

    fn began(&self, number: u64, step: &str) {
        self.call.progress(Progress {
            progress: number as f64,
            total: None,
            message: Some(step.into()),
        });
    }
}

impl Clock for Steps<'_> {
    fn now(&self) -> Timestamp {
        self.view.crib.now()
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, time: Duration) -> Coming<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// The value that a step continues with: JSON if present, otherwise the only text, otherwise the MCP content.
fn value(outcome: Outcome) -> Value {
    if let Some(result) = outcome.result {
        return result;
    }
    match outcome.content.as_slice() {
        [] => Value::Null,
        [Content::Text { text }] => Value::from(text.as_str()),
        content => serde_json::to_value(content).unwrap_or_default(),
    }
}
