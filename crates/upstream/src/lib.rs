//! Outgoing connections and child processes: the only code that opens either, always with size limits and deadlines.

mod aside;
pub mod egress;
pub mod files;
pub mod http;
mod large;
mod last_words;
pub mod limits;
pub mod mcp;
mod pieces;
mod resolver;
pub mod stdio;

pub use aside::{
    MAX_INLINE_BYTES, pending_low_priority_tasks, run_low_priority, run_low_priority_if_long,
};
pub use large::{LargeBodyLease, LargeBodyLimiter};
pub use last_words::CancelNotices;
