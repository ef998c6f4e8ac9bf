//! Limits of large JSON: how many values it may contain, and which thread pool parses and writes it.

use axum::body::Bytes;
use json::strict_json::ValueCounter;
use limits::MAX_INLINE_BYTES;
use tokio::sync::Semaphore;

/// Most JSON values in a request of an agent, on any endpoint. A parsed value takes many times the memory of its text.
pub const MAX_AGENT_VALUES: usize = 100_000;
/// Most JSON values in a request of an admin, whose configuration may name every tool of a catalog.
pub(super) const MAX_ADMIN_VALUES: usize = 1_000_000;

static LARGE_JSON_PERMIT: Semaphore = Semaphore::const_new(1);

/// Whether a JSON text has more values than the limit.
pub fn exceeds_value_limit(bytes: &[u8], limit: usize) -> bool {
    // The heaviest value, an object, counts for four: shorter texts cannot reach the limit.
    limit / 4 <= bytes.len() && ValueCounter::at_start().count_and_check(limit, bytes)
}

/// Describes the limit for an error message.
pub fn describe_limit(limit: usize) -> String {
    format!("there may be {limit} values, where an object counts for four")
}

/// Parses a small body on this thread and a large one on the low-priority pool, so that this thread can serve others.
pub async fn parse_offloading_large<T: Send + 'static>(
    bytes: Bytes,
    read: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> T {
    match bytes.len() <= MAX_INLINE_BYTES {
        true => read(&bytes),
        false => run_one_at_a_time(move || read(&bytes)).await,
    }
}

/// Runs slow work on the low-priority pool, one job of clients at a time: at most one waits there before upstream data.
pub async fn run_one_at_a_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let _turn = LARGE_JSON_PERMIT.acquire().await;
    limits::run_low_priority(work).await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn objects_count_more_than_other_values_and_a_string_counts_once() {
        let objects = |count: usize| format!("[{}0]", r#"{"":0},"#.repeat(count)).into_bytes();
        assert!(!exceeds_value_limit(&objects(MAX_AGENT_VALUES / 6), MAX_AGENT_VALUES));
        assert!(exceeds_value_limit(&objects(MAX_AGENT_VALUES / 5), MAX_AGENT_VALUES));
        assert!(exceeds_value_limit(&objects(MAX_AGENT_VALUES), MAX_ADMIN_VALUES / 3));
        assert!(!exceeds_value_limit(
            format!(r#"["{}"]"#, "{,".repeat(MAX_AGENT_VALUES)).as_bytes(),
            MAX_AGENT_VALUES
        ));
    }

    #[tokio::test]
    async fn large_bodies_are_parsed_on_another_thread() {
        let here = thread::current().id();
        let by = |_: &[u8]| thread::current().id();
        assert_eq!(parse_offloading_large(vec![b' '; MAX_INLINE_BYTES].into(), by).await, here);
        assert_ne!(parse_offloading_large(vec![b' '; MAX_INLINE_BYTES + 1].into(), by).await, here);
    }
}
