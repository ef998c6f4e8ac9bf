//! The workflow engine: it runs the steps in the order of the document, through tools that the caller supplies.
//!
//! The engine spawns nothing: dropping the run's future stops every step at once. A budget bounds the whole run, and
//! `try` does not catch an exceeded budget.

mod attempt;
mod scope;
mod step;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::budget::Budget;
use crate::document::{Step, Then, Workflow};
use crate::fault::{CallFailed, Fault};

/// A boxed future, as the traits of the engine return it.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The tools that steps call.
pub trait Tools: Sync {
    /// Calls a tool; the result must be there within this time.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        within: Duration,
    ) -> Coming<'a, Result<Value, CallFailed>>;

    /// Called when a step starts, with the number of steps so far and the step's name.
    fn began(&self, number: u64, step: &str);
}

/// The clock of a run.
pub trait Clock: Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// The time since the run began.
    fn elapsed(&self) -> Duration;
    /// Sleeps for this time.
    fn sleep(&self, time: Duration) -> Coming<'_, ()>;
}

/// Everything that the caller supplies to a run.
pub struct Surroundings<'a> {
    /// The tools that steps may call.
    pub tools: &'a dyn Tools,
    /// The clock for timestamps, timeouts and waits.
    pub clock: &'a dyn Clock,
    /// The limits on steps, loops, data and work.
    pub budget: &'a Budget,
    /// The maximum duration of the whole run.
    pub time: Duration,
    /// The id of the run, as expressions see it.
    pub id: &'a str,
}

/// How a list of steps ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The list is done; the steps after it run.
    List,
    /// The whole workflow is done.
    Workflow,
}

type Done = Result<(Arc<Value>, Ended), Fault>;

/// The state that earlier steps leave for later ones. Each branch of a fork has its own copy.
#[derive(Clone, Debug)]
struct Frame {
    context: Arc<Value>,
    /// Variables of loops and of caught errors.
    variables: Vec<(Box<str>, Arc<Value>)>,
    /// Deadline of the enclosing task, as time since the run began.
    until: Duration,
}

struct Run<'a> {
    workflow: &'a Workflow,
    around: &'a Surroundings<'a>,
    input: Arc<Value>,
    started: Timestamp,
}

impl Workflow {
    /// Runs the workflow.
    pub async fn run(&self, input: Value, around: &Surroundings<'_>) -> Result<Value, Fault> {
        let time = self.timeout.map_or(around.time, |timeout| timeout.min(around.time));
        let (input, started) = (Arc::new(input), around.clock.now());
        let run = Run { workflow: self, around, input, started };
        let late = || match self.timeout.is_some_and(|timeout| timeout <= around.time) {
            true => Fault { is_final: true, ..Fault::timeout("/") },
            false => {
                let late = Fault::timeout("/");
                Fault {
                    title: "the workflow took longer than it may".into(),
                    is_final: true,
                    ..late
                }
            }
        };
        run.within(time, run.whole(time), late).await
    }
}

impl Run<'_> {
    async fn whole(&self, time: Duration) -> Result<Value, Fault> {
        let raw = Arc::clone(&self.input);
        self.around.budget.keep(&raw).map_err(|what| Fault::bound(what, "/input"))?;
        let mut frame = Frame { context: Arc::default(), variables: Vec::new(), until: time };
        let scope = frame.outermost();
        let input = self.made(self.workflow.input.as_ref(), raw, &scope, "/input/from").await?;
        // The DSL defines the input as the initial context.
        frame.context = Arc::clone(&input);
        let (output, _) = self.steps(&self.workflow.steps, input, &mut frame).await?;
        let scope = frame.outermost();
        let output = self.made(self.workflow.output.as_ref(), output, &scope, "/output/as").await?;
        Ok(Arc::unwrap_or_clone(output))
    }

    /// Runs a list of steps; each step gets the output of the one before.
    fn steps<'b>(
        &'b self,
        steps: &'b [Step],
        input: Arc<Value>,
        frame: &'b mut Frame,
    ) -> Coming<'b, Done> {
        Box::pin(async move {
            let (mut value, mut place) = (input, 0);
            while let Some(step) = steps.get(place) {
                let (output, then) = self.step(step, value, frame).await?;
                value = output;
                place = match then {
                    Then::Continue => place + 1,
                    Then::To(other) => other,
                    Then::Exit => break,
                    Then::End => return Ok((value, Ended::Workflow)),
                };
            }
            Ok((value, Ended::List))
        })
    }

    /// Runs a future with a timeout.
    async fn within<T>(
        &self,
        time: Duration,
        doing: impl Future<Output = Result<T, Fault>> + Send,
        late: impl FnOnce() -> Fault,
    ) -> Result<T, Fault> {
        let doing = Box::pin(doing);
        match select(doing, self.around.clock.sleep(time)).await {
            Either::Left((done, _)) => done,
            Either::Right(((), _)) => Err(late()),
        }
    }
}

#[cfg(test)]
mod tests;
