//! Unsealed values that were read a moment ago: not every call asks the store, and calls go on for a while when it fails.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use catalog::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;

use super::SecretError;

/// How long a value is used without another look: one that any node replaced or removed is used for no longer.
const FRESH: SignedDuration = SignedDuration::from_secs(1);
/// How long the last known value is used while the store fails: a database comes back sooner, mostly.
const DESPITE: SignedDuration = SignedDuration::from_mins(10);
/// How long the store may take where there is a value to go on with.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of the store.
pub(super) struct Known {
    clock: Arc<dyn Clock>,
    values: Mutex<HashMap<Box<str>, Value>>,
    /// How often something was set or removed here: what was looked for before that is not kept.
    changes: AtomicU64,
    is_failing: AtomicBool,
}

struct Value {
    value: SecretString,
    /// When the store was asked that had it.
    seen: Timestamp,
    /// When it is asked again.
    due: Timestamp,
}

impl Known {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let (changes, is_failing) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { clock, values: Mutex::default(), changes, is_failing }
    }

    /// The value under a name: as it was a moment ago, or as `look` finds it in the store.
    pub(super) async fn get(
        &self,
        name: &str,
        look: impl Future<Output = Result<SecretString, SecretError>>,
    ) -> Result<SecretString, SecretError> {
        let (now, changes) = (self.clock.now(), self.changes.load(SeqCst));
        let Some((last, is_due)) = self.last(name, now) else {
            return self.learn(name, (now, changes), look.await);
        };
        if !is_due {
            return Ok(last);
        }
        let why = match tokio::time::timeout(PATIENCE, look).await {
            Ok(Err(SecretError::Journal(error))) => error.to_string(),
            Ok(looked) => return self.learn(name, (now, changes), looked),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        self.put_off(name, &why);
        Ok(last)
    }

    /// It was set here.
    pub(super) fn set(&self, name: &str, value: &SecretString) {
        let mut values = self.values();
        self.changes.fetch_add(1, SeqCst);
        values.insert(name.into(), Value::seen(value, self.clock.now()));
    }

    /// It was removed here.
    pub(super) fn remove(&self, name: &str) {
        let mut values = self.values();
        self.changes.fetch_add(1, SeqCst);
        values.remove(name);
    }

    /// The last known value, unless that was too long ago, and whether the store is to be asked.
    fn last(&self, name: &str, now: Timestamp) -> Option<(SecretString, bool)> {
        let mut values = self.values();
        if values.get(name).is_some_and(|known| DESPITE < known.seen.duration_until(now)) {
            values.remove(name);
        }
        let known = values.get_mut(name)?;
        let left = now.duration_until(known.due);
        // If the clock was set back, nobody knows how long ago it was.
        let is_due = left <= SignedDuration::ZERO || FRESH < left;
        if is_due && self.is_failing.load(SeqCst) {
            // One who waits for a store that fails is enough; others go on with what is known.
            known.due = now + FRESH;
        }
        Some((known.value.clone(), is_due))
    }

    fn learn(
        &self,
        name: &str,
        (asked, changes): (Timestamp, u64),
        looked: Result<SecretString, SecretError>,
    ) -> Result<SecretString, SecretError> {
        // Whether it is still there is not known then.
        if matches!(looked, Err(SecretError::Journal(_))) {
            return looked;
        }
        if self.is_failing.swap(false, SeqCst) {
            tracing::info!("sealed secrets can be read again");
        }
        let mut values = self.values();
        if changes == self.changes.load(SeqCst) {
            match &looked {
                Ok(value) => values.insert(name.into(), Value::seen(value, asked)),
                Err(_) => values.remove(name),
            };
        }
        looked
    }

    fn put_off(&self, name: &str, why: &str) {
        if let Some(known) = self.values().get_mut(name) {
            known.due = self.clock.now() + FRESH;
        }
        if !self.is_failing.swap(true, SeqCst) {
            let minutes = DESPITE.as_mins();
            tracing::warn!(
                cause = why,
                "sealed secrets cannot be read, and those that are known are used for {minutes} minutes: {why}"
            );
        }
    }

    fn values(&self) -> MutexGuard<'_, HashMap<Box<str>, Value>> {
        self.values.lock().expect("no one panics while holding the values")
    }
}

impl Value {
    fn seen(value: &SecretString, at: Timestamp) -> Self {
        Self { value: value.clone(), seen: at, due: at + FRESH }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use catalog::clock::ManualClock;
    use catalog::journal::JournalError;
    use secrecy::ExposeSecret as _;

    use super::*;

    /// What the store says: a value, that there is none, or that it fails.
    #[derive(Clone, Copy)]
    enum Store {
        Has(&'static str),
        HasNone,
        Fails,
        IsSilent,
    }

    struct World {
        clock: Arc<ManualClock>,
        known: Known,
        /// How often the store was asked.
        asked: RefCell<usize>,
    }

    impl World {
        fn new() -> Self {
            let start = Timestamp::from_second(1_800_000_000).unwrap();
            let clock = Arc::new(ManualClock::at(start));
            let known = Known::new(Arc::clone(&clock) as Arc<dyn Clock>);
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

        /// The value, or why there is none; `store` says what it is asked.
        async fn get(&self, store: Store) -> String {
            match self.known.get("x", self.look(store)).await {
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
    async fn the_store_is_asked_once_a_second() {
        let world = World::new();
        assert_eq!(world.get(Store::Has("one")).await, "one");
        world.wait(999);
        assert_eq!(world.get(Store::Has("two")).await, "one");
        assert_eq!(*world.asked.borrow(), 1);
        world.wait(1);
        assert_eq!(world.get(Store::Has("two")).await, "two");
        // Set back, the clock does not say how long ago that was.
        world.wait(-60_000);
        assert_eq!(world.get(Store::Has("three")).await, "three");
        assert_eq!(world.get(Store::Has("four")).await, "three");
    }

    #[tokio::test]
    async fn what_was_removed_is_gone_within_a_second_and_does_not_come_back() {
        let world = World::new();
        world.get(Store::Has("one")).await;
        world.wait(1_000);
        assert_eq!(world.get(Store::HasNone).await, "none");
        assert_eq!(world.get(Store::Fails).await, "failed");
        world.get(Store::Has("two")).await;
        world.known.remove("x");
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
            // The others do not wait for it again.
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
    async fn a_store_that_says_nothing_fails_after_a_second_and_is_waited_for_by_one() {
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
    async fn what_was_looked_for_before_a_change_is_not_kept() {
        let world = World::new();
        let look = async {
            world.known.set("x", &"new".into());
            Ok("old".into())
        };
        assert_eq!(world.known.get("x", look).await.unwrap().expose_secret(), "old");
        assert_eq!(world.get(Store::Fails).await, "new");
        world.wait(1_000);
        let look = async {
            world.known.remove("x");
            Ok("old".into())
        };
        world.known.get("x", look).await.unwrap();
        assert_eq!(world.get(Store::HasNone).await, "none");
    }
}
