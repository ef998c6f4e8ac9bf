//! What is long: how many values may be in it, and where it is read and written.

use axum::body::Bytes;
use model::strict_json::Parts;
use tokio::sync::Semaphore;
use upstream::LONG;

/// The most values in what an agent sends, at any door: each takes many times its text when it is read.
pub(crate) const VALUES: usize = 100_000;
/// The same for admins, whose configurations may name every tool of a catalog.
pub(super) const VALUES_OF_ADMIN: usize = 1_000_000;

static TURN: Semaphore = Semaphore::const_new(1);

/// Whether a JSON text has more values than that.
pub(crate) fn outweighs(bytes: &[u8], limit: usize) -> bool {
    // No byte counts for more than an object.
    limit / 4 <= bytes.len() && Parts::weighed().exceed(limit, bytes)
}

/// The limit in words.
pub(crate) fn told(limit: usize) -> String {
    format!("there may be {limit} values, where an object counts for four")
}

/// Reads a body here, or aside if it is long: meanwhile this thread answers others.
pub(crate) async fn unless_long<T: Send + 'static>(
    bytes: Bytes,
    read: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> T {
    match bytes.len() <= LONG {
        true => read(&bytes),
        false => in_turn(move || read(&bytes)).await,
    }
}

/// Does aside what takes long: of all that clients send and get, no more than one stands before what upstreams have sent.
pub(crate) async fn in_turn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let _turn = TURN.acquire().await;
    upstream::aside(work).await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn objects_weigh_more_than_other_values_and_a_text_is_one_however_long() {
        let objects = |count: usize| format!("[{}0]", r#"{"":0},"#.repeat(count)).into_bytes();
        assert!(!outweighs(&objects(VALUES / 6), VALUES));
        assert!(outweighs(&objects(VALUES / 5), VALUES));
        assert!(outweighs(&objects(VALUES), VALUES_OF_ADMIN / 3));
        assert!(!outweighs(format!(r#"["{}"]"#, "{,".repeat(VALUES)).as_bytes(), VALUES));
    }

    #[tokio::test]
    async fn what_is_long_is_read_by_another_thread() {
        let here = thread::current().id();
        let by = |_: &[u8]| thread::current().id();
        assert_eq!(unless_long(vec![b' '; LONG].into(), by).await, here);
        assert_ne!(unless_long(vec![b' '; LONG + 1].into(), by).await, here);
    }
}
