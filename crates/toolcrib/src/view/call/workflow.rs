//! A call of a workflow: every step is a call of the same agent, with its grants, limits, credentials and record.
//!
//! Whoever drops the call stops all of it. Workflows that a workflow calls share what it may use, and may only stand so
//! deep inside each other: one that calls itself ends.

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

/// The longest a workflow may take, whatever it says itself.
const TIME: Duration = Duration::from_secs(10 * 60);
/// How many workflows may stand inside each other.
const DEEPEST: u8 = 5;

/// A workflow for whose step something is called.
pub(in crate::view) struct Nested {
    depth: u8,
    budget: Arc<Budget>,
}

/// The steps of one run: what they call, and what time it is.
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
            // One that waits for a place while it holds one might wait for ever.
            Some(_) => None,
        };
        let budget = Arc::clone(&nested.budget);
        let view = Self { within: Some(Arc::new(nested)), ..self.clone() };
        let steps = Steps { view, call, start };
        let (run, budget) = (random(), &*budget);
        let around = Surroundings { tools: &steps, clock: &steps, budget, time, id: &run };
        let ran = ready.workflow.run(Value::Object(arguments), &around).await;
        if let Some(pass) = pass {
            // What fails are its steps, and they have been counted where they were called.
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
            // From a stack of its own: they stand inside each other.
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
    /// The tool as it is now, for who the agent is now: minutes are long. None if there is none any more, or the agent's
    /// key or token has ended.
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

    /// The agent's tool of this name, in any form, or with this id.
    fn found(&self, tool: &str) -> Result<ViewedTool, NotFound> {
        self.view.find(tool).or_else(|missing| match tool.parse() {
            Ok(id) => self.view.find_id(&id),
            Err(_) => Err(missing),
        })
    }
}

/// A task that ends with whoever waits for it.
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

/// What a step works on: JSON if there is some, or a text, or the parts of MCP.
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
