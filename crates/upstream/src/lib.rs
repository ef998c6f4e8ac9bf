//! Outgoing connections and child processes: the only code that opens either, always with size limits and deadlines.

pub mod bounded_read;
mod cancel_notices;
mod chunked;
pub mod egress;
mod egress_resolver;
pub mod http;
mod large_bodies;
mod low_priority;
pub mod mcp;
pub mod readable_folders;
pub mod stdio;

pub use cancel_notices::CancelNotices;
pub use large_bodies::{LargeBodyLease, LargeBodyLimiter};
pub use low_priority::{
    MAX_INLINE_BYTES, pending_low_priority_tasks, run_low_priority, run_low_priority_if_long,
};
