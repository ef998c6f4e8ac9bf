//! Execution: call → outcome.

mod answer;

pub use answer::completed;
