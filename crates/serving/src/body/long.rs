//! Limits of large JSON: how many values it may contain, and which thread pool parses and writes it.

use axum::body::Bytes;
use model::strict_json::Parts;
use tokio::sync::Semaphore;
use upstream::LONG;

/// Most JSON values in a request of an agent, on any endpoint. A parsed value takes many times the memory of its text.
pub(crate) const VALUES: usize = 100_000;
/// Most JSON values in a request of an admin, whose configuration may name every tool of a catalog.
pub(super) const VALUES_OF_ADMIN: usize = 1_000_000;

static TURN: Semaphore = Semaphore::const_new(1);

/// Whether a JSON text has more values than the limit.
pub(crate) fn outweighs(bytes: &[u8], limit: usize) -> bool {
    // The heaviest value, an object, counts for four: shorter texts cannot reach the limit.
    limit / 4 <= bytes.len() && Parts::weighed().exceed(limit, bytes)
}

/// Describes the limit for an error message.
pub(crate) fn told(limit: usize) -> String {
    format!("there may be {limit} values, where an object counts for four")
}

/// Parses a small body on this thread and a large one on the low-priority pool, so that this thread can serve others.
pub(crate) async fn unless_long<T: Send + 'static>(
    bytes: Bytes,
    read: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> T {
    match bytes.len() <= LONG {
        true => read(&bytes),
        false => in_turn(move || read(&bytes)).await,
    }
}

/// Runs slow work on the low-priority pool, one job of clients at a time: at most one waits there before upstream data.
pub(crate) async fn in_turn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let _turn = TURN.acquire().await;
    upstream::aside(work).await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn objects_count_more_than_other_values_and_a_string_counts_once() {
        let objects = |count: usize| format!("[{}0]", r#"{"":0},"#.repeat(count)).into_bytes();
        assert!(!outweighs(&objects(VALUES / 6), VALUES));
        assert!(outweighs(&objects(VALUES / 5), VALUES));
        assert!(outweighs(&objects(VALUES), VALUES_OF_ADMIN / 3));
        assert!(!outweighs(format!(r#"["{}"]"#, "{,".repeat(VALUES)).as_bytes(), VALUES));
    }

    #[tokio::test]
    async fn large_bodies_are_parsed_on_another_thread() {
        let here = thread::current().id();
        let by = |_: &[u8]| thread::current().id();
        assert_eq!(unless_long(vec![b' '; LONG].into(), by).await, here);
        assert_ne!(unless_long(vec![b' '; LONG + 1].into(), by).await, here);
    }
}
