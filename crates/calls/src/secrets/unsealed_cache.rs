//! A cache of recently unsealed values: not every call queries the store, and calls continue for a while when it fails.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use catalog::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;

use super::SecretError;

/// How long a value is used without another query: a value that any node replaced or removed is used no longer than
/// that.
const FRESH_FOR: SignedDuration = SignedDuration::from_secs(1);
/// How long the last known value is used while the store fails: a database usually recovers sooner.
const STALE_FOR: SignedDuration = SignedDuration::from_mins(10);
/// How long the store may take if a cached value can be used instead.
const PATIENCE: Duration = Duration::from_secs(1);

/// Values that were read from the store.
pub(super) struct UnsealedCache {
    clock: Arc<dyn Clock>,
    values: Mutex<HashMap<Box<str>, UnsealedValue>>,
    /// Counts local changes: the result of a query that began before a change is not cached.
    changes: AtomicU64,
    is_failing: AtomicBool,
}

struct UnsealedValue {
    value: SecretString,
    /// When the store was queried for it.
    queried_at: Timestamp,
    /// When the store is queried again.
    query_again_at: Timestamp,
}

impl UnsealedCache {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let (changes, is_failing) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { clock, values: Mutex::default(), changes, is_failing }
    }

    /// The value under a name: the cached one, or the result of `look`, which queries the store.
    pub(super) async fn get_value(
        &self,
        name: &str,
        look: impl Future<Output = Result<SecretString, SecretError>>,
    ) -> Result<SecretString, SecretError> {
        let (now, changes) = (self.clock.now(), self.changes.load(SeqCst));
        let Some((last, is_due)) = self.last_known(name, now) else {
            return self.cache_result(name, (now, changes), look.await);
        };
        if !is_due {
            return Ok(last);
        }
        let why = match tokio::time::timeout(PATIENCE, look).await {
            Ok(Err(SecretError::Journal(error))) => error.to_string(),
            Ok(looked) => return self.cache_result(name, (now, changes), looked),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        self.postpone_query(name, &why);
        Ok(last)
    }

    /// Caches a value that was set on this node.
    pub(super) fn set_value(&self, name: &str, value: &SecretString) {
        let mut values = self.lock_values();
        self.changes.fetch_add(1, SeqCst);
        values.insert(name.into(), UnsealedValue::queried(value, self.clock.now()));
    }

    /// Forgets a value that was removed on this node.
    pub(super) fn remove_value(&self, name: &str) {
        let mut values = self.lock_values();
        self.changes.fetch_add(1, SeqCst);
        values.remove(name);
    }

    /// The last known value, unless it is too old, and whether the store must be queried.
    fn last_known(&self, name: &str, now: Timestamp) -> Option<(SecretString, bool)> {
        let mut values = self.lock_values();
        if values.get(name).is_some_and(|known| STALE_FOR < known.queried_at.duration_until(now)) {
            values.remove(name);
        }
        let known = values.get_mut(name)?;
        let left = now.duration_until(known.query_again_at);
        // After the clock was set back, the age of the value is unknown.
        let is_due = left <= SignedDuration::ZERO || FRESH_FOR < left;
        if is_due && self.is_failing.load(SeqCst) {
            // One caller that waits for a failing store is enough; the others use the cached value.
            known.query_again_at = now + FRESH_FOR;
        }
        Some((known.value.clone(), is_due))
    }

    fn cache_result(
        &self,
        name: &str,
        (asked, changes): (Timestamp, u64),
        looked: Result<SecretString, SecretError>,
    ) -> Result<SecretString, SecretError> {
        // The query failed, so it is unknown whether the value still exists.
        if matches!(looked, Err(SecretError::Journal(_))) {
            return looked;
        }
        if self.is_failing.swap(false, SeqCst) {
            tracing::info!("sealed secrets can be read again");
        }
        let mut values = self.lock_values();
        if changes == self.changes.load(SeqCst) {
            match &looked {
                Ok(value) => values.insert(name.into(), UnsealedValue::queried(value, asked)),
                Err(_) => values.remove(name),
            };
        }
        looked
    }

    fn postpone_query(&self, name: &str, why: &str) {
        if let Some(known) = self.lock_values().get_mut(name) {
            known.query_again_at = self.clock.now() + FRESH_FOR;
        }
        if !self.is_failing.swap(true, SeqCst) {
            let minutes = STALE_FOR.as_mins();
            tracing::warn!(
                cause = why,
                "sealed secrets cannot be read, and those that are known are used for {minutes} minutes: {why}"
            );
        }
    }

    fn lock_values(&self) -> MutexGuard<'_, HashMap<Box<str>, UnsealedValue>> {
        self.values.lock().expect("no one panics while holding the values")
    }
}

impl UnsealedValue {
    fn queried(value: &SecretString, at: Timestamp) -> Self {
        Self { value: value.clone(), queried_at: at, query_again_at: at + FRESH_FOR }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use catalog::clock::ManualClock;
    use catalog::journal::JournalError;
    use secrecy::ExposeSecret as _;

    use super::*;

    /// How the store answers: with a value, with nothing, with an error, or never.
    #[derive(Clone, Copy)]
    enum Store {
        Has(&'static str),
        HasNone,
        Fails,
        IsSilent,
    }

    struct World {
        clock: Arc<ManualClock>,
        known: UnsealedCache,
        /// How often the store was queried.
        asked: RefCell<usize>,
    }

    impl World {
        fn new() -> Self {
            let start = Timestamp::from_second(1_800_000_000).unwrap();
            let clock = Arc::new(ManualClock::starting_at(start));
            let known = UnsealedCache::new(Arc::clone(&clock) as Arc<dyn Clock>);
            Self { clock, known, asked: RefCell::new(0) }
        }

        fn wait(&self, milliseconds: i64) {
            self.clock.advance(SignedDuration::from_millis(milliseconds));
        }

        async fn look(&self, store: Store) -> Result<SecretString, SecretError> {
            *self.asked.borrow_mut() += 1;
            match store {
                Store::Has(value) => Ok(value.into()),
                Store::HasNone => Err(SecretError::NotSealed { name: "x".to_owned() }),
                Store::Fails => {
                    let (place, cause) = ("here".to_owned(), "away".to_owned());
                    Err(JournalError::Unavailable { place, cause, maybe_stored: false }.into())
                }
                Store::IsSilent => std::future::pending().await,
            }
        }

        /// The value, or the reason for its absence, if the store answers like this.
        async fn get(&self, store: Store) -> String {
            match self.known.get_value("x", self.look(store)).await {
                Ok(value) => value.expose_secret().to_owned(),
                Err(SecretError::Journal(_)) => "failed".to_owned(),
                Err(error) => {
                    assert!(matches!(error, SecretError::NotSealed { .. }), "{error}");
                    "none".to_owned()
                }
            }
        }
    }

    #[tokio::test]
    async fn the_store_is_queried_once_a_second() {
        let world = World::new();
        assert_eq!(world.get(Store::Has("one")).await, "one");
        world.wait(999);
        assert_eq!(world.get(Store::Has("two")).await, "one");
        assert_eq!(*world.asked.borrow(), 1);
        world.wait(1);
        assert_eq!(world.get(Store::Has("two")).await, "two");
        // A clock that was set back does not show how long ago that was.
        world.wait(-60_000);
        assert_eq!(world.get(Store::Has("three")).await, "three");
        assert_eq!(world.get(Store::Has("four")).await, "three");
    }

    #[tokio::test]
    async fn a_removed_value_is_gone_within_a_second_and_does_not_come_back() {
        let world = World::new();
        world.get(Store::Has("one")).await;
        world.wait(1_000);
        assert_eq!(world.get(Store::HasNone).await, "none");
        assert_eq!(world.get(Store::Fails).await, "failed");
        world.get(Store::Has("two")).await;
        world.known.remove_value("x");
        assert_eq!(world.get(Store::Fails).await, "failed");
    }

    #[tokio::test]
    async fn the_last_known_value_is_used_for_ten_minutes_while_the_store_fails() {
        let world = World::new();
        assert_eq!(world.get(Store::Fails).await, "failed");
        world.get(Store::Has("one")).await;
        for _ in 0..600 {
            world.wait(1_000);
            assert_eq!(world.get(Store::Fails).await, "one");
            // The other callers do not wait for it again.
            let asked = *world.asked.borrow();
            assert_eq!(world.get(Store::IsSilent).await, "one");
            assert_eq!(*world.asked.borrow(), asked);
        }
        world.wait(1);
        assert_eq!(world.get(Store::Fails).await, "failed");
        assert_eq!(world.get(Store::Has("two")).await, "two");
        world.wait(1_000);
        assert_eq!(world.get(Store::Has("three")).await, "three");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_store_fails_after_a_second_and_only_one_caller_waits_for_it() {
        let world = World::new();
        world.get(Store::Has("one")).await;
        world.wait(1_000);
        let start = tokio::time::Instant::now();
        assert_eq!(world.get(Store::IsSilent).await, "one");
        assert_eq!(start.elapsed(), PATIENCE);
        world.wait(1_000);
        let (one, two) = tokio::join!(world.get(Store::IsSilent), world.get(Store::Has("two")));
        assert_eq!([one, two], ["one", "one"]);
        assert_eq!(*world.asked.borrow(), 3);
    }

    #[tokio::test]
    async fn a_query_from_before_a_change_is_not_cached() {
        let world = World::new();
        let look = async {
            world.known.set_value("x", &"new".into());
            Ok("old".into())
        };
        assert_eq!(world.known.get_value("x", look).await.unwrap().expose_secret(), "old");
        assert_eq!(world.get(Store::Fails).await, "new");
        world.wait(1_000);
        let look = async {
            world.known.remove_value("x");
            Ok("old".into())
        };
        world.known.get_value("x", look).await.unwrap();
        assert_eq!(world.get(Store::HasNone).await, "none");
    }
}
