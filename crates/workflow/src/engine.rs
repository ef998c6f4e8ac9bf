//! The workflow engine: it runs the steps in the order of the document, through tools that the caller supplies.
//!
//! The engine spawns nothing: dropping the run's future stops every step at once. A budget bounds the whole run, and
//! `try` does not catch an exceeded budget.

mod evaluation_scope;
mod run_step;
mod run_try;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::run_budget::RunBudget;
use crate::workflow_document::{FlowDirective, Workflow, WorkflowStep};
use crate::workflow_fault::{ToolCallFailure, WorkflowFault};

/// A boxed future, as the traits of the engine return it.
pub type WorkflowFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The tools that steps call.
pub trait WorkflowTools: Sync {
    /// Calls a tool; the result must be there within this time.
    fn call_tool<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        within: Duration,
    ) -> WorkflowFuture<'a, Result<Value, ToolCallFailure>>;

    /// Called when a step starts, with the number of steps so far and the step's name.
    fn on_step_started(&self, number: u64, step: &str);
}

/// The clock of a run.
pub trait WorkflowClock: Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// The time since the run began.
    fn elapsed(&self) -> Duration;
    /// Sleeps for this time.
    fn sleep(&self, time: Duration) -> WorkflowFuture<'_, ()>;
}

/// Everything that the caller supplies to a run.
pub struct RunEnvironment<'a> {
    /// The tools that steps may call.
    pub tools: &'a dyn WorkflowTools,
    /// The clock for timestamps, timeouts and waits.
    pub clock: &'a dyn WorkflowClock,
    /// The limits on steps, loops, data and work.
    pub budget: &'a RunBudget,
    /// The maximum duration of the whole run.
    pub time: Duration,
    /// The id of the run, as expressions see it.
    pub id: &'a str,
}

/// How a list of steps ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowOutcome {
    /// The list is done; the steps after it run.
    List,
    /// The whole workflow is done.
    Workflow,
}

type StepsResult = Result<(Arc<Value>, FlowOutcome), WorkflowFault>;

/// The state that earlier steps leave for later ones. Each branch of a fork has its own copy.
#[derive(Clone, Debug)]
struct StepFrame {
    context: Arc<Value>,
    /// Variables of loops and of caught errors.
    variables: Vec<(Box<str>, Arc<Value>)>,
    /// Deadline of the enclosing task, as time since the run began.
    deadline: Duration,
}

struct WorkflowRun<'a> {
    workflow: &'a Workflow,
    environment: &'a RunEnvironment<'a>,
    input: Arc<Value>,
    started: Timestamp,
}

impl Workflow {
    /// Runs the workflow.
    pub async fn run(
        &self,
        input: Value,
        around: &RunEnvironment<'_>,
    ) -> Result<Value, WorkflowFault> {
        let time = self.timeout.map_or(around.time, |timeout| timeout.min(around.time));
        let (input, started) = (Arc::new(input), around.clock.now());
        let run = WorkflowRun { workflow: self, environment: around, input, started };
        let late = || match self.timeout.is_some_and(|timeout| timeout <= around.time) {
            true => WorkflowFault { is_final: true, ..WorkflowFault::timed_out("/") },
            false => {
                let late = WorkflowFault::timed_out("/");
                WorkflowFault {
                    title: "the workflow took longer than it may".into(),
                    is_final: true,
                    ..late
                }
            }
        };
        run.run_with_timeout(time, run.run_workflow(time), late).await
    }
}

impl WorkflowRun<'_> {
    async fn run_workflow(&self, time: Duration) -> Result<Value, WorkflowFault> {
        let raw = Arc::clone(&self.input);
        self.environment
            .budget
            .consume_data(&raw)
            .map_err(|what| WorkflowFault::limit_reached(what, "/input"))?;
        let mut frame =
            StepFrame { context: Arc::default(), variables: Vec::new(), deadline: time };
        let scope = frame.workflow_scope();
        let input =
            self.apply_template(self.workflow.input.as_ref(), raw, &scope, "/input/from").await?;
        // The DSL defines the input as the initial context.
        frame.context = Arc::clone(&input);
        let (output, _) = self.run_steps(&self.workflow.steps, input, &mut frame).await?;
        let scope = frame.workflow_scope();
        let output = self
            .apply_template(self.workflow.output.as_ref(), output, &scope, "/output/as")
            .await?;
        Ok(Arc::unwrap_or_clone(output))
    }

    /// Runs a list of steps; each step gets the output of the one before.
    fn run_steps<'b>(
        &'b self,
        steps: &'b [WorkflowStep],
        input: Arc<Value>,
        frame: &'b mut StepFrame,
    ) -> WorkflowFuture<'b, StepsResult> {
        Box::pin(async move {
            let (mut value, mut place) = (input, 0);
            while let Some(step) = steps.get(place) {
                let (output, then) = self.run_step(step, value, frame).await?;
                value = output;
                place = match then {
                    FlowDirective::Continue => place + 1,
                    FlowDirective::To(other) => other,
                    FlowDirective::Exit => break,
                    FlowDirective::End => return Ok((value, FlowOutcome::Workflow)),
                };
            }
            Ok((value, FlowOutcome::List))
        })
    }

    /// Runs a future with a timeout.
    async fn run_with_timeout<T>(
        &self,
        time: Duration,
        doing: impl Future<Output = Result<T, WorkflowFault>> + Send,
        late: impl FnOnce() -> WorkflowFault,
    ) -> Result<T, WorkflowFault> {
        let doing = Box::pin(doing);
        match select(doing, self.environment.clock.sleep(time)).await {
            Either::Left((done, _)) => done,
            Either::Right(((), _)) => Err(late()),
        }
    }
}

#[cfg(test)]
mod tests;
