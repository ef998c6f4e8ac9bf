//! The time of a call. It stands still while somebody is asked: what people take is not the server's.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How often it is looked whether somebody has answered who was asked in the last moment.
const LOOK: Duration = Duration::from_secs(1);

/// When the time of a call stands still. A copy is the same; whoever hears what the server asks says so.
#[derive(Clone, Debug)]
pub struct Pauses {
    most: Duration,
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Default)]
struct State {
    over: Duration,
    since: Option<Instant>,
    /// Whether its place is for others: from the first pause on, or sooner.
    gives_way: bool,
}

impl Pauses {
    /// However long people take, the call is over after so long.
    pub fn up_to(most: Duration) -> Self {
        Self { most, state: Arc::default() }
    }

    /// Somebody is asked.
    pub fn begin(&self) {
        self.state.send_modify(|state| {
            state.since.get_or_insert_with(Instant::now);
            state.gives_way = true;
        });
    }

    /// Its place is for others, though its time goes on.
    pub(super) fn give_way(&self) {
        self.state.send_modify(|state| state.gives_way = true);
    }

    /// Nobody is asked any more.
    pub fn end(&self) {
        self.state.send_modify(|state| {
            state.over += state.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        });
    }

    /// Ends when its place is for others.
    pub(super) async fn given_way(&self) {
        // Its sender is ours.
        drop(self.state.subscribe().wait_for(|state| state.gives_way).await);
    }

    pub(super) fn most(&self) -> Duration {
        self.most
    }

    /// How long somebody was asked so far.
    pub fn taken(&self) -> Duration {
        let state = self.state.borrow();
        state.over + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// What is left of a time that began then, when so much had been taken before.
    fn left(&self, time: Duration, start: Instant, before: Duration) -> Duration {
        let passed = start.elapsed();
        let own = (time + self.taken().saturating_sub(before)).saturating_sub(passed);
        let own = if self.state.borrow().since.is_some() { own.max(LOOK) } else { own };
        own.min(self.most.saturating_sub(passed))
    }
}

/// What comes of some work that has so much time, or how much it had.
pub(super) async fn in_time<W: Future>(
    time: Duration,
    pauses: Option<&Pauses>,
    mut work: Pin<&mut W>,
) -> Result<W::Output, Duration> {
    let start = Instant::now();
    let before = pauses.map_or(Duration::ZERO, Pauses::taken);
    let mut left = time;
    loop {
        if let Ok(done) = timeout(left, work.as_mut()).await {
            return Ok(done);
        }
        left = pauses.map_or(Duration::ZERO, |pauses| pauses.left(time, start, before));
        if left.is_zero() {
            let most = pauses.map_or(time, |pauses| pauses.most().max(time));
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
    async fn the_time_that_people_take_does_not_count() {
        let pauses = Pauses::up_to(600 * SECOND);
        let start = Instant::now();
        let asks = async {
            sleep(9 * SECOND).await;
            pauses.begin();
            sleep(300 * SECOND).await;
            pauses.end();
            sleep(600 * SECOND).await;
        };
        assert_eq!(in_time(10 * SECOND, Some(&pauses), pin!(asks)).await, Err(10 * SECOND));
        // A second is what had been left.
        assert_eq!(start.elapsed(), 310 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn people_do_not_have_all_the_time_in_the_world() {
        let pauses = Pauses::up_to(60 * SECOND);
        let start = Instant::now();
        let asks = async {
            pauses.begin();
            sleep(600 * SECOND).await;
        };
        assert_eq!(in_time(10 * SECOND, Some(&pauses), pin!(asks)).await, Err(60 * SECOND));
        assert_eq!(start.elapsed(), 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_is_asked_nothing_is_longer() {
        for pauses in [None, Some(Pauses::up_to(60 * SECOND))] {
            let start = Instant::now();
            let hangs = sleep(600 * SECOND);
            assert_eq!(in_time(10 * SECOND, pauses.as_ref(), pin!(hangs)).await, Err(10 * SECOND));
            assert_eq!(start.elapsed(), 10 * SECOND);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_more_time_than_people_says_so() {
        let pauses = Pauses::up_to(60 * SECOND);
        let hangs = sleep(6_000 * SECOND);
        assert_eq!(in_time(600 * SECOND, Some(&pauses), pin!(hangs)).await, Err(600 * SECOND));
    }
}
