//! The worker threads of the runtime, and their utilisation.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::time::Instant;

pub(super) struct Workers {
    metrics: RuntimeMetrics,
    seen_at: Instant,
    busy: Duration,
}

/// Utilisation since the previous sample.
pub(super) struct Look {
    /// The share of the time in which the workers were busy, from 0 to 1.
    pub(super) busy: f64,
    pub(super) time: Duration,
}

impl Workers {
    pub(super) fn here() -> Self {
        let metrics = Handle::current().metrics();
        Self { busy: busy(&metrics), metrics, seen_at: Instant::now() }
    }

    pub(super) fn number(&self) -> usize {
        self.metrics.num_workers()
    }

    /// Samples the workers. `None` if their counters have not moved: a worker updates them only after a number of
    /// tasks.
    pub(super) fn look(&mut self) -> Option<Look> {
        let (now, busy) = (Instant::now(), busy(&self.metrics));
        if busy == self.busy {
            return None;
        }
        let time = now - self.seen_at;
        let of_all = time.mul_f64(self.number() as f64);
        let share = (busy - self.busy).div_duration_f64(of_all);
        (self.seen_at, self.busy) = (now, busy);
        Some(Look { busy: share, time })
    }
}

fn busy(metrics: &RuntimeMetrics) -> Duration {
    (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum()
}
