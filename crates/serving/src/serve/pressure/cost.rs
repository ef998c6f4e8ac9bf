//! The cost of calls: how long a call occupies a worker thread, as a moving average.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A call that occupies a thread for longer is costly: sixty such tasks may run before the runtime polls the sockets
/// again.
const COSTLY: Duration = Duration::from_micros(250);

/// The average in nanoseconds.
#[derive(Default)]
pub(super) struct Cost(AtomicU64);

impl Cost {
    /// Resets the average to a high cost: before the first measurement, calls are assumed to be costly.
    pub(super) fn forget(&self) {
        self.0.store(4 * COSTLY.as_nanos() as u64, Relaxed);
    }

    pub(super) fn is_high(&self) -> bool {
        COSTLY <= self.of_one()
    }

    pub(super) fn of_one(&self) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }

    /// Weights the new measurement by a quarter, because calls differ. Of two concurrent updates, one may be lost.
    pub(super) fn learn(&self, took: Duration) {
        let (before, took) = (self.0.load(Relaxed), took.as_nanos() as u64);
        self.0.store(before - before / 4 + took / 4, Relaxed);
    }
}

/// Runs a call, and measures the time spent polling it, without the time it waited.
pub(super) async fn measured<F: Future>(call: F) -> (F::Output, Duration) {
    let mut call = pin!(call);
    let mut took = Duration::ZERO;
    let output = poll_fn(|context| {
        let begun = Instant::now();
        let polled = call.as_mut().poll(context);
        took += begun.elapsed();
        polled
    });
    (output.await, took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_a_few_calls() {
        let cost = Cost::default();
        assert!(!cost.is_high(), "nobody looks");
        cost.forget();
        assert!(cost.is_high(), "nobody knows");
        for _ in 0..8 {
            cost.learn(COSTLY / 4);
        }
        assert!(!cost.is_high());
        cost.learn(4 * COSTLY);
        assert!(cost.is_high(), "one that is costly is worth a look");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_does_not_count_as_cost() {
        let work = async {
            std::thread::sleep(COSTLY);
            tokio::time::sleep(Duration::from_secs(60)).await;
            std::thread::sleep(COSTLY);
        };
        let ((), took) = measured(work).await;
        assert!((2 * COSTLY..Duration::from_secs(1)).contains(&took), "{took:?}");
    }
}
