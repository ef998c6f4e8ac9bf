//! Counters, gauges and histograms made of atomic numbers: updates never block, and reads are not synchronised.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds a number.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The current count.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds a number, which may be negative.
    pub fn add_signed(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// The current value.
    pub fn read(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The default bucket bounds of durations in nanoseconds: half a millisecond to two minutes.
pub static DURATION_BOUNDS: [u64; 14] = [
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
    30_000_000_000,
    120_000_000_000,
];

/// Bucket bounds for short durations in nanoseconds: a microsecond to a second.
pub static SHORT_DURATION_BOUNDS: [u64; 10] = [
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// The distribution of durations over a few buckets.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds of the buckets in nanoseconds, ascending. A last bucket counts durations above all bounds.
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// A histogram with these upper bounds, in nanoseconds.
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Records a duration.
    pub fn record_duration(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let class = self.bounds.iter().position(|bound| nanos <= *bound);
        if let Some(count) = self.counts.get(class.unwrap_or(self.bounds.len())) {
            count.fetch_add(1, Ordering::Relaxed);
            self.sum.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// The counts so far.
    pub fn read(&self) -> HistogramReading {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        HistogramReading { bounds: self.bounds, counts, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// A copy of a histogram's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramReading {
    /// Upper bounds of the buckets, in nanoseconds.
    pub bounds: &'static [u64],
    /// Counts per bucket, then the count above the last bound. Not cumulative.
    pub counts: Vec<u64>,
    /// Sum of all durations, in nanoseconds.
    pub sum: u64,
}

impl HistogramReading {
    /// Total number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_that_covers_it() {
        let histogram = Histogram::new(&SHORT_DURATION_BOUNDS);
        for nanos in [0, 1_000, 1_001, 2_000_000_000] {
            histogram.record_duration(Duration::from_nanos(nanos));
        }
        let spread = histogram.read();
        assert_eq!(spread.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((spread.count(), spread.sum), (4, 2_000_002_001));
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [&DURATION_BOUNDS[..], &SHORT_DURATION_BOUNDS] {
            assert!(bounds.is_sorted_by(|one, two| one < two));
        }
    }
}
