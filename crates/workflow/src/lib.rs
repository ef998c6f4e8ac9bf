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

pub use self::budget::{Budget, DATA, ITERATIONS, STEPS, WORK};
pub use self::document::Workflow;
pub use self::engine::{Clock, Coming, Surroundings, Tools};
pub use self::fault::{CallFailed, Fault};
pub use self::plan::{Plan, Planned};
pub use self::read::{InvalidWorkflow, Problem};
