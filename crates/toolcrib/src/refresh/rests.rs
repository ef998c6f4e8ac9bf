//! Cooldowns: how long this node waits before it refreshes a source again, even if the source is due.
//!
//! The snapshot says which source is due. It cannot say that another node is refreshing it right now, or that an
//! upstream reports changes all the time.

use std::collections::HashMap;
use std::time::Duration;

use model::SourceId;
use tokio::time::Instant;

/// The least time between two refreshes that this node starts for one source.
const SPACING: Duration = Duration::from_secs(1);
/// The delay before checking again whether another refresh is still running.
const LATER: Duration = Duration::from_secs(5);
/// The longest interval between two requested refreshes of a source that requests them all the time.
const LONGEST: Duration = Duration::from_secs(60);
/// The cooldown of a requested refresh, as a multiple of its duration: however expensive the source's list is, it takes
/// only a small share of our time.
const SHARE: u32 = 50;

#[derive(Default)]
pub(super) struct Rests(HashMap<SourceId, Rest>);

struct Rest {
    begun: Instant,
    until: Instant,
    /// When the last requested refresh started or ended, and how long the next one must wait after that.
    woken: Option<(Instant, Duration)>,
}

impl Rests {
    /// The remaining cooldown of the source: for any refresh, and for a requested one.
    pub(super) fn left(&self, source: &SourceId, now: Instant) -> (Duration, Duration) {
        let Some(rest) = self.0.get(source) else { return (Duration::ZERO, Duration::ZERO) };
        let left = rest.until.saturating_duration_since(now);
        let woken = rest.woken.map(|(at, pause)| (at + pause).saturating_duration_since(now));
        (left, woken.unwrap_or_default().max(left))
    }

    /// A refresh starts.
    pub(super) fn begin(&mut self, source: &SourceId, is_woken: bool, now: Instant) {
        let before = self.0.get(source).and_then(|rest| rest.woken);
        let woken = if is_woken { Some((now, pause(before, now))) } else { before };
        self.0.insert(source.clone(), Rest { begun: now, until: now + SPACING, woken });
    }

    /// A refresh has ended. A slow source gets a longer cooldown.
    pub(super) fn end(&mut self, source: &SourceId, now: Instant) {
        if let Some(Rest { begun, woken: Some((at, pause)), .. }) = self.0.get_mut(source) {
            let took = now.duration_since(*begun);
            (*at, *pause) = (now, (took * SHARE).clamp(*pause, LONGEST));
        }
    }

    /// The refresh could not be carried out.
    pub(super) fn put_off(&mut self, source: &SourceId, now: Instant) {
        let woken = self.0.get(source).and_then(|rest| rest.woken);
        self.0.insert(source.clone(), Rest { begun: now, until: now + LATER, woken });
    }

    /// Removes expired cooldowns, so that removed sources are forgotten.
    pub(super) fn forget(&mut self, now: Instant, is_going: impl Fn(&SourceId) -> bool) {
        self.0.retain(|source, rest| {
            let woken = rest.woken.is_some_and(|(at, pause)| now < at + 2 * pause);
            woken || now < rest.until || is_going(source)
        });
    }
}

/// Doubles the cooldown if the last request was recent, so that a flood of requests becomes a trickle.
fn pause(before: Option<(Instant, Duration)>, now: Instant) -> Duration {
    match before {
        Some((at, pause)) if now < at + 2 * pause => (2 * pause).min(LONGEST),
        Some(_) | None => SPACING,
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
        let (mut rests, mut now, mut pauses) = (Rests::default(), Instant::now(), Vec::new());
        for _ in 0..9 {
            rests.begin(&pets(), true, now);
            let (_, left) = rests.left(&pets(), now);
            pauses.push(left.as_secs());
            now += left;
            rests.forget(now, |_| false);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        // It was quiet for a while.
        rests.begin(&pets(), true, now + seconds(121));
        assert_eq!(rests.left(&pets(), now + seconds(121)).1, SPACING);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_source_is_refreshed_less_often() {
        let (mut rests, mut now, mut pauses) = (Rests::default(), Instant::now(), Vec::new());
        for took in [0, 1, 2, 100] {
            rests.begin(&pets(), true, now);
            rests.forget(now + seconds(took), |_| true);
            now += seconds(took);
            rests.end(&pets(), now);
            let (_, left) = rests.left(&pets(), now);
            pauses.push(left.as_secs());
            now += left;
        }
        assert_eq!(pauses, [1, 50, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_schedule_does_not_wait_for_the_cooldown_of_requests() {
        let (mut rests, now) = (Rests::default(), Instant::now());
        rests.begin(&pets(), true, now);
        rests.begin(&pets(), true, now + seconds(1));
        assert_eq!(rests.left(&pets(), now + seconds(2)), (seconds(0), seconds(1)));
        rests.begin(&pets(), false, now + seconds(2));
        rests.put_off(&pets(), now + seconds(2));
        assert_eq!(rests.left(&pets(), now + seconds(2)), (LATER, LATER));
        rests.forget(now + seconds(8), |_| false);
        assert!(rests.0.is_empty());
    }
}
