//! Counters, levels and spreads: plain atomic numbers. Whoever counts never waits; whoever reads sees what is there.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// By so many; fewer if it is negative.
    pub fn change(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn read(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The usual bounds of times, in nanoseconds: from half a millisecond to two minutes.
pub static TIMES: [u64; 14] = [
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

/// The same for what is mostly there at once: from a microsecond to a second.
pub static SHORT_TIMES: [u64; 10] = [
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

/// How long things take, in a few classes.
#[derive(Debug)]
pub struct Histogram {
    /// In nanoseconds, rising; what is above the last has a class too.
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// With these bounds, in nanoseconds.
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Something took so long.
    pub fn took(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let class = self.bounds.iter().position(|bound| nanos <= *bound);
        if let Some(count) = self.counts.get(class.unwrap_or(self.bounds.len())) {
            count.fetch_add(1, Ordering::Relaxed);
            self.sum.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// What was measured so far.
    pub fn read(&self) -> Spread {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Spread { bounds: self.bounds, counts, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// What a histogram has measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// In nanoseconds.
    pub bounds: &'static [u64],
    /// How many there were up to each bound and above the one before, and then above the last.
    pub counts: Vec<u64>,
    /// In nanoseconds.
    pub sum: u64,
}

impl Spread {
    /// How many there were in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_class_of_the_first_bound_that_is_not_below_it() {
        let histogram = Histogram::new(&SHORT_TIMES);
        for nanos in [0, 1_000, 1_001, 2_000_000_000] {
            histogram.took(Duration::from_nanos(nanos));
        }
        let spread = histogram.read();
        assert_eq!(spread.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((spread.count(), spread.sum), (4, 2_000_002_001));
    }

    #[test]
    fn bounds_rise() {
        for bounds in [&TIMES[..], &SHORT_TIMES] {
            assert!(bounds.is_sorted_by(|one, two| one < two));
        }
    }
}
