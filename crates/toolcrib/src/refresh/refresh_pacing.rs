//! Cooldowns: how long this node waits before it refreshes a source again, even if the source is due.
//!
//! The snapshot says which source is due. It cannot say that another node is refreshing it right now, or that an
//! upstream reports changes all the time.

use std::collections::HashMap;
use std::time::Duration;

use model::SourceId;
use tokio::time::Instant;

/// The least time between two refreshes that this node starts for one source.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The delay before checking again whether another refresh is still running.
const BUSY_DELAY: Duration = Duration::from_secs(5);
/// The longest interval between two requested refreshes of a source that requests them all the time.
const MAX_REQUEST_INTERVAL: Duration = Duration::from_secs(60);
/// The cooldown of a requested refresh, as a multiple of its duration: however expensive the source's list is, it takes
/// only a small share of our time.
const COOLDOWN_FACTOR: u32 = 50;

#[derive(Default)]
pub(super) struct Cooldowns(HashMap<SourceId, SourceCooldown>);

struct SourceCooldown {
    started_at: Instant,
    until: Instant,
    /// When the last requested refresh started or ended, and how long the next one must wait after that.
    requested: Option<(Instant, Duration)>,
}

impl Cooldowns {
    /// The remaining cooldown of the source: for any refresh, and for a requested one.
    pub(super) fn remaining_cooldown(
        &self,
        source: &SourceId,
        now: Instant,
    ) -> (Duration, Duration) {
        let Some(rest) = self.0.get(source) else { return (Duration::ZERO, Duration::ZERO) };
        let left = rest.until.saturating_duration_since(now);
        let woken = rest.requested.map(|(at, pause)| (at + pause).saturating_duration_since(now));
        (left, woken.unwrap_or_default().max(left))
    }

    /// A refresh starts.
    pub(super) fn start_refresh(&mut self, source: &SourceId, is_woken: bool, now: Instant) {
        let before = self.0.get(source).and_then(|rest| rest.requested);
        let woken = if is_woken { Some((now, next_pause(before, now))) } else { before };
        self.0.insert(
            source.clone(),
            SourceCooldown { started_at: now, until: now + MIN_INTERVAL, requested: woken },
        );
    }

    /// A refresh has ended. A slow source gets a longer cooldown.
    pub(super) fn finish_refresh(&mut self, source: &SourceId, now: Instant) {
        if let Some(SourceCooldown { started_at: begun, requested: Some((at, pause)), .. }) =
            self.0.get_mut(source)
        {
            let took = now.duration_since(*begun);
            (*at, *pause) = (now, (took * COOLDOWN_FACTOR).clamp(*pause, MAX_REQUEST_INTERVAL));
        }
    }

    /// The refresh could not be carried out.
    pub(super) fn postpone(&mut self, source: &SourceId, now: Instant) {
        let woken = self.0.get(source).and_then(|rest| rest.requested);
        self.0.insert(
            source.clone(),
            SourceCooldown { started_at: now, until: now + BUSY_DELAY, requested: woken },
        );
    }

    /// Removes expired cooldowns, so that removed sources are forgotten.
    pub(super) fn remove_expired(&mut self, now: Instant, is_going: impl Fn(&SourceId) -> bool) {
        self.0.retain(|source, rest| {
            let woken = rest.requested.is_some_and(|(at, pause)| now < at + 2 * pause);
            woken || now < rest.until || is_going(source)
        });
    }
}

/// Doubles the cooldown if the last request was recent, so that a flood of requests becomes a trickle.
fn next_pause(before: Option<(Instant, Duration)>, now: Instant) -> Duration {
    match before {
        Some((at, pause)) if now < at + 2 * pause => (2 * pause).min(MAX_REQUEST_INTERVAL),
        Some(_) | None => MIN_INTERVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pets() -> SourceId {
        "pets".parse().unwrap()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_keeps_requesting_refreshes_is_refreshed_less_and_less_often() {
        let (mut rests, mut now, mut pauses) = (Cooldowns::default(), Instant::now(), Vec::new());
        for _ in 0..9 {
            rests.start_refresh(&pets(), true, now);
            let (_, left) = rests.remaining_cooldown(&pets(), now);
            pauses.push(left.as_secs());
            now += left;
            rests.remove_expired(now, |_| false);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        // It was quiet for a while.
        rests.start_refresh(&pets(), true, now + seconds(121));
        assert_eq!(rests.remaining_cooldown(&pets(), now + seconds(121)).1, MIN_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_source_is_refreshed_less_often() {
        let (mut rests, mut now, mut pauses) = (Cooldowns::default(), Instant::now(), Vec::new());
        for took in [0, 1, 2, 100] {
            rests.start_refresh(&pets(), true, now);
            rests.remove_expired(now + seconds(took), |_| true);
            now += seconds(took);
            rests.finish_refresh(&pets(), now);
            let (_, left) = rests.remaining_cooldown(&pets(), now);
            pauses.push(left.as_secs());
            now += left;
        }
        assert_eq!(pauses, [1, 50, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_schedule_does_not_wait_for_the_cooldown_of_requests() {
        let (mut rests, now) = (Cooldowns::default(), Instant::now());
        rests.start_refresh(&pets(), true, now);
        rests.start_refresh(&pets(), true, now + seconds(1));
        assert_eq!(rests.remaining_cooldown(&pets(), now + seconds(2)), (seconds(0), seconds(1)));
        rests.start_refresh(&pets(), false, now + seconds(2));
        rests.postpone(&pets(), now + seconds(2));
        assert_eq!(rests.remaining_cooldown(&pets(), now + seconds(2)), (BUSY_DELAY, BUSY_DELAY));
        rests.remove_expired(now + seconds(8), |_| false);
        assert!(rests.0.is_empty());
    }
}
