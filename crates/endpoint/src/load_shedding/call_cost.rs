//! The cost of calls: how long a call occupies a worker thread, as a moving average.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A call that occupies a thread for longer is costly: sixty such tasks may run before the runtime polls the sockets
/// again.
const COSTLY_CALL: Duration = Duration::from_micros(250);

/// The average in nanoseconds.
#[derive(Default)]
pub(super) struct CallCost(AtomicU64);

impl CallCost {
    /// Resets the average to a high cost: before the first measurement, calls are assumed to be costly.
    pub(super) fn assume_costly(&self) {
        self.0.store(4 * COSTLY_CALL.as_nanos() as u64, Relaxed);
    }

    pub(super) fn is_high(&self) -> bool {
        COSTLY_CALL <= self.average()
    }

    pub(super) fn average(&self) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }

    /// Weights the new measurement by a quarter, because calls differ. Of two concurrent updates, one may be lost.
    pub(super) fn record_call(&self, took: Duration) {
        let (before, took) = (self.0.load(Relaxed), took.as_nanos() as u64);
        self.0.store(before - before / 4 + took / 4, Relaxed);
    }
}

/// Runs a call, and measures the time spent polling it, without the time it waited.
pub(super) async fn measure_poll_time<F: Future>(call: F) -> (F::Output, Duration) {
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
        let cost = CallCost::default();
        assert!(!cost.is_high(), "nobody looks");
        cost.assume_costly();
        assert!(cost.is_high(), "nobody knows");
        for _ in 0..8 {
            cost.record_call(COSTLY_CALL / 4);
        }
        assert!(!cost.is_high());
        cost.record_call(4 * COSTLY_CALL);
        assert!(cost.is_high(), "one that is costly is worth a look");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_does_not_count_as_cost() {
        let work = async {
            std::thread::sleep(COSTLY_CALL);
            tokio::time::sleep(Duration::from_secs(60)).await;
            std::thread::sleep(COSTLY_CALL);
        };
        let ((), took) = measure_poll_time(work).await;
        assert!((2 * COSTLY_CALL..Duration::from_secs(1)).contains(&took), "{took:?}");
    }
}
