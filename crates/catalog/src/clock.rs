//! What time it is, handed in: decisions have no `now()`, and tests set the clock.

use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};

/// Says what time it is.
pub trait Clock: Send + Sync {
    /// The time now.
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
        // Whole microseconds: what every store keeps.
        Timestamp::from_microsecond(Timestamp::now().as_microsecond()).expect("now is a time")
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// Stands at this time.
    pub fn at(time: Timestamp) -> Self {
        Self(Mutex::new(time))
    }

    /// Moves it, forward or back.
    pub fn advance(&self, by: SignedDuration) {
        *self.0.lock().expect("no one panics while moving the clock") += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("no one panics while moving the clock")
    }
}
