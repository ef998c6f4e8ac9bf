//! Workflows: a document of the CNCF Serverless Workflow DSL 1.0 → steps that call tools.
//!
//! Pure: the caller supplies the tools and the clock. The crate does no I/O and starts nothing except the threads
//! that evaluate expressions.

mod document_reader;
mod engine;
mod mermaid;
mod run_budget;
mod runtime_expression;
mod value_template;
mod workflow_document;
mod workflow_fault;
mod workflow_plan;

pub use self::document_reader::{DocumentProblem, InvalidWorkflow};
pub use self::engine::{RunEnvironment, WorkflowClock, WorkflowFuture, WorkflowTools};
pub use self::run_budget::{
    MAX_LOOP_ITERATIONS, MAX_RUN_DATA, MAX_RUN_STEPS, MAX_RUN_WORK, RunBudget,
};
pub use self::workflow_document::Workflow;
pub use self::workflow_fault::{ToolCallFailure, WorkflowFault};
pub use self::workflow_plan::{PlannedStep, WorkflowPlan};
