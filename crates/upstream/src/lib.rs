//! Outgoing connections and child processes: the only code that opens either, always with size limits and deadlines.

pub mod cancel_notices;
pub mod chunked;
pub mod egress;
mod egress_resolver;
pub mod http;
pub mod large_bodies;
pub mod readable_folders;
pub mod stdio;

pub use cancel_notices::CancelNotices;
pub use large_bodies::{LargeBodyLease, LargeBodyLimiter};
