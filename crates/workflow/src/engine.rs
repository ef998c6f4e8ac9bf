//! Runs a workflow: one step after the other, as the document says, through tools that are handed in.
//!
//! Nothing is spawned: whoever drops the run stops all of it at once. What a run may use is bounded in all, and a
//! `try` does not catch that.

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

/// What comes of it, some time.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The tools that steps call.
pub trait Tools: Sync {
    /// Calls a tool, within this time.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        within: Duration,
    ) -> Coming<'a, Result<Value, CallFailed>>;

    /// Hears of every step as it begins: how many there were, and which this is.
    fn began(&self, number: u64, step: &str);
}

/// The time, handed in.
pub trait Clock: Sync {
    /// What time it is.
    fn now(&self) -> Timestamp;
    /// How long ago the run began.
    fn elapsed(&self) -> Duration;
    /// Waits.
    fn sleep(&self, time: Duration) -> Coming<'_, ()>;
}

/// What a run has around it.
pub struct Surroundings<'a> {
    /// What is called.
    pub tools: &'a dyn Tools,
    /// What time it is.
    pub clock: &'a dyn Clock,
    /// What may be used.
    pub budget: &'a Budget,
    /// How long it may take in all.
    pub time: Duration,
    /// Names this run.
    pub id: &'a str,
}

/// How a list of steps ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// What stands behind it goes on.
    List,
    /// All of it is over.
    Workflow,
}

type Done = Result<(Arc<Value>, Ended), Fault>;

/// What steps see of what was before them. Branches have their own.
#[derive(Clone, Debug)]
struct Frame {
    context: Arc<Value>,
    /// Of loops and of errors that were caught.
    variables: Vec<(Box<str>, Arc<Value>)>,
    /// When what is around has to be done, counted from the beginning of the run.
    until: Duration,
}

struct Run<'a> {
    workflow: &'a Workflow,
    around: &'a Surroundings<'a>,
    input: Arc<Value>,
    started: Timestamp,
}

impl Workflow {
    /// Runs it.
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
        // As the DSL has it, the context begins as the input.
        frame.context = Arc::clone(&input);
        let (output, _) = self.steps(&self.workflow.steps, input, &mut frame).await?;
        let scope = frame.outermost();
        let output = self.made(self.workflow.output.as_ref(), output, &scope, "/output/as").await?;
        Ok(Arc::unwrap_or_clone(output))
    }

    /// A list of steps, each with the output of the one before.
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

    /// Something that has to be done in time.
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
