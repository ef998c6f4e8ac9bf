//! A rate limit for unsolicited server messages. Beyond it, reading pauses, which makes the server wait.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct UnsolicitedRate {
    max_per_second: u32,
    since: Instant,
    count: u32,
    /// Bytes that do not add up to one unit yet.
    bytes: usize,
}

impl UnsolicitedRate {
    /// Allows `max` units per second.
    pub(crate) fn new(max: u32) -> Self {
        Self { max_per_second: max, since: Instant::now(), count: 0, bytes: 0 }
    }

    pub(crate) fn count_message(&mut self) {
        self.add_units(1);
    }

    /// Counts each kilobyte as one unit, because scanning many bytes takes long whatever they contain.
    pub(crate) fn count_bytes(&mut self, length: usize) {
        self.bytes = self.bytes.saturating_add(length);
        self.add_units(u32::try_from(self.bytes / 1024).unwrap_or(u32::MAX));
        self.bytes %= 1024;
    }

    fn add_units(&mut self, more: u32) {
        if SECOND <= self.since.elapsed() {
            (self.since, self.count) = (Instant::now(), 0);
        }
        self.count = self.count.saturating_add(more);
    }

    /// Until when reading must pause, if the rate is exceeded.
    pub(crate) fn paused_until(&mut self) -> Option<Instant> {
        let is_enough = self.max_per_second < self.count;
        is_enough.then(|| self.since + SECOND)
    }

    /// Waits until reading may continue.
    pub(crate) async fn wait_if_exceeded(&mut self) {
        if let Some(until) = self.paused_until() {
            sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_at_the_configured_rate() {
        let start = Instant::now();
        let mut pace = UnsolicitedRate::new(99);
        for _ in 0..1000 {
            pace.count_message();
            pace.wait_if_exceeded().await;
        }
        assert_eq!(start.elapsed(), 10 * SECOND);
        pace.count_bytes(99 * 1024);
        pace.count_bytes(512);
        assert_eq!(pace.paused_until(), None);
        pace.count_bytes(512);
        assert!(pace.paused_until().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_server_is_never_delayed() {
        let mut pace = UnsolicitedRate::new(10);
        for _ in 0..100 {
            pace.count_message();
            assert_eq!(pace.paused_until(), None);
            sleep(SECOND / 10).await;
        }
    }
}
