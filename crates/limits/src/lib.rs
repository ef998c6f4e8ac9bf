//! Bounds that all crates share: caches, instruments, bounded reads, and the low-priority executor.

pub mod bounded_read;
pub mod instruments;
pub mod low_priority;
mod lru_cache;

pub use low_priority::{
    MAX_INLINE_BYTES, pending_low_priority_tasks, run_low_priority, run_low_priority_if_long,
};
pub use lru_cache::LruCache;
