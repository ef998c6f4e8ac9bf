//! The worker threads of the runtime, and their utilisation.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::time::Instant;

pub(super) struct RuntimeWorkers {
    metrics: RuntimeMetrics,
    sampled_at: Instant,
    busy: Duration,
}

/// Utilisation since the previous sample.
pub(super) struct WorkerSample {
    /// The share of the time in which the workers were busy, from 0 to 1.
    pub(super) busy: f64,
    pub(super) time: Duration,
}

impl RuntimeWorkers {
    pub(super) fn of_current_runtime() -> Self {
        let metrics = Handle::current().metrics();
        Self { busy: total_busy_time(&metrics), metrics, sampled_at: Instant::now() }
    }

    pub(super) fn worker_count(&self) -> usize {
        self.metrics.num_workers()
    }

    /// Samples the workers. `None` if their counters have not moved: a worker updates them only after a number of
    /// tasks.
    pub(super) fn take_sample(&mut self) -> Option<WorkerSample> {
        let (now, busy) = (Instant::now(), total_busy_time(&self.metrics));
        if busy == self.busy {
            return None;
        }
        let time = now - self.sampled_at;
        let of_all = time.mul_f64(self.worker_count() as f64);
        let share = (busy - self.busy).div_duration_f64(of_all);
        (self.sampled_at, self.busy) = (now, busy);
        Some(WorkerSample { busy: share, time })
    }
}

fn total_busy_time(metrics: &RuntimeMetrics) -> Duration {
    (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum()
}
