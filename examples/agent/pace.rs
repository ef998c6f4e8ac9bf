//! How long to wait before something is asked again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

/// How long to wait before something is asked again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// While all is well.
    pub(crate) poll: Duration,
    /// After the first failure; it doubles with each.
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
    /// How often somebody who waits is asked for.
    pub(crate) tries: u32,
}

impl Default for Pace {
    fn default() -> Self {
        let (poll, longest) = (Duration::from_secs(30), Duration::from_secs(30));
        Self { poll, first: Duration::from_millis(500), longest, tries: 5 }
    }
}

impl Pace {
    /// After so many failures in a row: half of it at least, and the rest by chance, so that agents that failed together do
    /// not come back together.
    pub(crate) fn rest(&self, failures: u32) -> Duration {
        let doubled = 1_u32 << failures.saturating_sub(1).min(16);
        let longest = self.first.saturating_mul(doubled).min(self.longest);
        let chance = u16::try_from(RandomState::new().hash_one(failures) >> 48).unwrap_or(0);
        longest.mul_f64(0.5 + f64::from(chance) / f64::from(u16::MAX) / 2.0)
    }
}
