//! Workflows: a document of the CNCF Serverless Workflow DSL 1.0 → steps that call tools.
//!
//! Pure: the caller supplies the tools and the clock. The crate does no I/O and starts nothing except the threads
//! that evaluate expressions.

mod budget;
mod document;
mod engine;
mod expression;
mod fault;
mod mermaid;
mod plan;
mod read;
mod template;

pub use self::budget::{MAX_LOOP_ITERATIONS, MAX_RUN_DATA, MAX_RUN_STEPS, MAX_RUN_WORK, RunBudget};
pub use self::document::Workflow;
pub use self::engine::{RunEnvironment, WorkflowClock, WorkflowFuture, WorkflowTools};
pub use self::fault::{ToolCallFailure, WorkflowFault};
pub use self::plan::{PlannedStep, WorkflowPlan};
pub use self::read::{DocumentProblem, InvalidWorkflow};
