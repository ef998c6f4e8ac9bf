//! Pauses of a call's deadline: the time a user takes to answer a question does not count as the server's.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How often to check whether a question was answered in the last moment.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// When the deadline of a call is paused. A clone is the same; the receiver of the server's questions reports them
/// here.
#[derive(Clone, Debug)]
pub struct DeadlinePauses {
    max_duration: Duration,
    state: Arc<watch::Sender<PauseState>>,
}

#[derive(Debug, Default)]
struct PauseState {
    completed: Duration,
    paused_since: Option<Instant>,
    /// Whether the call's permit is released: from the first pause on, or earlier.
    is_permit_released: bool,
}

impl DeadlinePauses {
    /// The call ends after `most`, however long a user takes.
    pub fn with_max(most: Duration) -> Self {
        Self { max_duration: most, state: Arc::default() }
    }

    /// Begins a pause: a user is asked.
    pub fn begin_pause(&self) {
        self.state.send_modify(|state| {
            state.paused_since.get_or_insert_with(Instant::now);
            state.is_permit_released = true;
        });
    }

    /// Releases the call's permit while its deadline continues.
    pub(super) fn release_permit(&self) {
        self.state.send_modify(|state| state.is_permit_released = true);
    }

    /// Ends the pause.
    pub fn end_pause(&self) {
        self.state.send_modify(|state| {
            state.completed +=
                state.paused_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        });
    }

    /// Completes when the permit is released.
    pub(super) async fn permit_released(&self) {
        // Waiting cannot fail: `self` owns the sender.
        drop(self.state.subscribe().wait_for(|state| state.is_permit_released).await);
    }

    pub(super) fn max_duration(&self) -> Duration {
        self.max_duration
    }

    /// The total time of all pauses so far.
    pub fn total_paused(&self) -> Duration {
        let state = self.state.borrow();
        state.completed + state.paused_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The rest of `time` after `start`, extended by later pauses; `before` is the total of the pauses before `start`.
    fn remaining_time(&self, time: Duration, start: Instant, before: Duration) -> Duration {
        let passed = start.elapsed();
        let own = (time + self.total_paused().saturating_sub(before)).saturating_sub(passed);
        let own = if self.state.borrow().paused_since.is_some() {
            own.max(RECHECK_INTERVAL)
        } else {
            own
        };
        own.min(self.max_duration.saturating_sub(passed))
    }
}

/// Runs `work` with a deadline that pauses extend. On timeout returns the time that it had.
pub(super) async fn run_with_pauses<W: Future>(
    time: Duration,
    pauses: Option<&DeadlinePauses>,
    mut work: Pin<&mut W>,
) -> Result<W::Output, Duration> {
    let start = Instant::now();
    let before = pauses.map_or(Duration::ZERO, DeadlinePauses::total_paused);
    let mut left = time;
    loop {
        if let Ok(done) = timeout(left, work.as_mut()).await {
            return Ok(done);
        }
        left = pauses.map_or(Duration::ZERO, |pauses| pauses.remaining_time(time, start, before));
        if left.is_zero() {
            let most = pauses.map_or(time, |pauses| pauses.max_duration().max(time));
            return Err(if start.elapsed() < most { time } else { most });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_time_a_user_takes_does_not_count() {
        let pauses = DeadlinePauses::with_max(600 * SECOND);
        let start = Instant::now();
        let asks = async {
            sleep(9 * SECOND).await;
            pauses.begin_pause();
            sleep(300 * SECOND).await;
            pauses.end_pause();
            sleep(600 * SECOND).await;
        };
        assert_eq!(run_with_pauses(10 * SECOND, Some(&pauses), pin!(asks)).await, Err(10 * SECOND));
        // One second was left.
        assert_eq!(start.elapsed(), 310 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_are_bounded() {
        let pauses = DeadlinePauses::with_max(60 * SECOND);
        let start = Instant::now();
        let asks = async {
            pauses.begin_pause();
            sleep(600 * SECOND).await;
        };
        assert_eq!(run_with_pauses(10 * SECOND, Some(&pauses), pin!(asks)).await, Err(60 * SECOND));
        assert_eq!(start.elapsed(), 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_pause_the_deadline_is_not_extended() {
        for pauses in [None, Some(DeadlinePauses::with_max(60 * SECOND))] {
            let start = Instant::now();
            let hangs = sleep(600 * SECOND);
            assert_eq!(
                run_with_pauses(10 * SECOND, pauses.as_ref(), pin!(hangs)).await,
                Err(10 * SECOND)
            );
            assert_eq!(start.elapsed(), 10 * SECOND);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_longer_than_the_maximum_pause_holds() {
        let pauses = DeadlinePauses::with_max(60 * SECOND);
        let hangs = sleep(6_000 * SECOND);
        assert_eq!(
            run_with_pauses(600 * SECOND, Some(&pauses), pin!(hangs)).await,
            Err(600 * SECOND)
        );
    }
}
