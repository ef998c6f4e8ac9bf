//! The clock as an argument: decisions contain no `now()`, and tests set the time.

use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};

/// A source of the current time.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
    fn now(&self) -> Timestamp {
        // Whole microseconds, the precision that every store supports.
        Timestamp::from_microsecond(Timestamp::now().as_microsecond()).expect("now is a time")
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    pub fn starting_at(time: Timestamp) -> Self {
        Self(Mutex::new(time))
    }

    /// Moves the clock forwards or backwards.
    pub fn advance(&self, by: SignedDuration) {
        *self.0.lock().expect("no one panics while moving the clock") += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("no one panics while moving the clock")
    }
}
