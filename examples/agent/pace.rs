//! Polling interval and retry delays with exponential backoff.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

/// Polling interval, and delays between retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryTiming {
    /// Interval between polls while requests succeed.
    pub(crate) poll: Duration,
    /// Delay after the first failure; doubled after each further one, up to `longest`.
    pub(crate) first_delay: Duration,
    pub(crate) longest_delay: Duration,
    /// Most attempts of a request whose caller is waiting.
    pub(crate) max_attempts: u32,
}

impl Default for RetryTiming {
    fn default() -> Self {
        let (poll, longest) = (Duration::from_secs(30), Duration::from_secs(30));
        Self {
            poll,
            first_delay: Duration::from_millis(500),
            longest_delay: longest,
            max_attempts: 5,
        }
    }
}

impl RetryTiming {
    /// Delay after this many consecutive failures: half of the backoff plus a random share of the other half, so that
    /// agents that failed together do not retry together.
    pub(crate) fn retry_delay(&self, failures: u32) -> Duration {
        let doubled = 1_u32 << failures.saturating_sub(1).min(16);
        let longest = self.first_delay.saturating_mul(doubled).min(self.longest_delay);
        let chance = u16::try_from(RandomState::new().hash_one(failures) >> 48).unwrap_or(0);
        longest.mul_f64(0.5 + f64::from(chance) / f64::from(u16::MAX) / 2.0)
    }
}
