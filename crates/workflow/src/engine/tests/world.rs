//! Tools and a clock for tests: the tools record their calls, and time passes without waiting.

use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use model::{CallFailure, ErrorCode};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::{
    RunBudget, RunEnvironment, ToolCallFailure, Workflow, WorkflowClock, WorkflowFault,
    WorkflowFuture, WorkflowTools,
};

/// Sleeps shorter than this return at once; longer ones end when the tool `slow` has been called.
const SHORT: Duration = Duration::from_secs(60);

pub(super) struct World {
    pub(super) calls: Mutex<Vec<(String, Value)>>,
    pub(super) steps: Mutex<Vec<String>>,
    /// The time limit of each call.
    pub(super) within: Mutex<Vec<Duration>>,
    /// The number of failures left to `flaky`.
    pub(super) failures: Mutex<u32>,
    pub(super) waited: Mutex<Vec<Duration>>,
    pub(super) budget: RunBudget,
    pub(super) time: Duration,
    elapsed: watch::Sender<Duration>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            calls: Mutex::default(),
            steps: Mutex::default(),
            within: Mutex::default(),
            failures: Mutex::new(2),
            waited: Mutex::default(),
            budget: RunBudget::default(),
            time: Duration::from_secs(600),
            elapsed: watch::Sender::new(Duration::ZERO),
        }
    }

    pub(super) async fn run(
        &self,
        workflow: &Workflow,
        input: Value,
    ) -> Result<Value, WorkflowFault> {
        let (budget, time) = (&self.budget, self.time);
        let around = RunEnvironment { tools: self, clock: self, budget, time, id: "run-1" };
        workflow.run(input, &around).await
    }

    pub(super) fn called(&self) -> Vec<(String, Value)> {
        self.calls.lock().unwrap().clone()
    }
}

/// A workflow with these tasks.
pub(super) fn workflow(tasks: Value) -> Workflow {
    let document = json!({"dsl": "1.0.0", "namespace": "test", "name": "one", "version": "1.0.0"});
    read(json!({"document": document, "do": tasks}))
}

pub(super) fn read(document: Value) -> Workflow {
    Workflow::from_document(&document).unwrap()
}

/// The result of running these tasks.
pub(super) async fn done(tasks: Value, input: Value) -> Result<Value, WorkflowFault> {
    World::new().run(&workflow(tasks), input).await
}

fn failed(code: ErrorCode, message: &str, status: Option<u16>) -> ToolCallFailure {
    ToolCallFailure { failure: CallFailure::new(code, message, false), status }
}

impl WorkflowTools for World {
    fn call_tool<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        within: Duration,
    ) -> WorkflowFuture<'a, Result<Value, ToolCallFailure>> {
        self.within.lock().unwrap().push(within);
        let arguments = Value::Object(arguments);
        self.calls.lock().unwrap().push((tool.to_owned(), arguments.clone()));
        Box::pin(async move {
            match tool {
                "echo" => Ok(arguments),
                "large" => Ok(Value::from("x".repeat(1 << 20))),
                "broken" => Err(failed(ErrorCode::UpstreamError, "it is down", Some(503))),
                "slow" => {
                    self.elapsed.send_modify(|elapsed| *elapsed += Duration::from_secs(3_600));
                    pending().await
                }
                "never" => pending().await,
                "flaky" => {
                    let mut failures = self.failures.lock().unwrap();
                    if *failures == 0 {
                        return Ok(json!("at last"));
                    }
                    *failures -= 1;
                    Err(failed(ErrorCode::UpstreamError, "not yet", Some(503)))
                }
                _ => {
                    let message = format!("Tool not found: {tool}");
                    Err(failed(ErrorCode::NotGranted, &message, None))
                }
            }
        })
    }

    fn on_step_started(&self, number: u64, step: &str) {
        self.steps.lock().unwrap().push(format!("{number} {step}"));
    }
}

impl WorkflowClock for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    fn elapsed(&self) -> Duration {
        *self.elapsed.borrow()
    }

    fn sleep(&self, time: Duration) -> WorkflowFuture<'_, ()> {
        if time < SHORT {
            self.waited.lock().unwrap().push(time);
            self.elapsed.send_modify(|elapsed| *elapsed += time);
            return Box::pin(async {});
        }
        let until = self.elapsed() + time;
        let mut elapsed = self.elapsed.subscribe();
        Box::pin(async move {
            drop(elapsed.wait_for(|elapsed| until <= *elapsed).await);
        })
    }
}
