//! What a run may use in all, with everything that is run within it.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

/// The most steps of a run.
pub const STEPS: u64 = 10_000;
/// The most iterations of all its loops.
pub const ITERATIONS: u64 = 5_000;
/// The most bytes that all its steps may make, as JSON.
pub const DATA: u64 = 64 << 20;
/// The most work of all its expressions.
pub const WORK: u64 = 20_000_000;
/// The most work of one of them.
pub(crate) const WORK_AT_ONCE: u64 = 2_000_000;

/// What is left to a run. Workflows that a workflow calls share it.
#[derive(Debug)]
pub struct Budget {
    steps: AtomicU64,
    iterations: AtomicU64,
    data: AtomicU64,
    work: AtomicU64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: AtomicU64::new(STEPS),
            iterations: AtomicU64::new(ITERATIONS),
            data: AtomicU64::new(DATA),
            work: AtomicU64::new(WORK),
        }
    }
}

/// Takes some, if there is enough.
fn take(from: &AtomicU64, amount: u64) -> bool {
    let less = |left: u64| left.checked_sub(amount);
    from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
}

impl Budget {
    pub(crate) fn step(&self) -> Result<(), &'static str> {
        take(&self.steps, 1).then_some(()).ok_or("has made more steps than it may")
    }

    pub(crate) fn iteration(&self) -> Result<(), &'static str> {
        take(&self.iterations, 1).then_some(()).ok_or("has gone round more often than it may")
    }

    pub(crate) fn keep(&self, value: &Value) -> Result<(), &'static str> {
        take(&self.data, size(value)).then_some(()).ok_or("has made more data than it may")
    }

    /// How much the next expression may do.
    pub(crate) fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed).min(WORK_AT_ONCE)
    }

    pub(crate) fn worked(&self, amount: u64) {
        if !take(&self.work, amount) {
            self.work.store(0, Ordering::Relaxed);
        }
    }

    /// How many steps were made so far.
    pub(crate) fn steps_made(&self) -> u64 {
        STEPS.saturating_sub(self.steps.load(Ordering::Relaxed))
    }
}

/// About how many bytes it has as JSON.
fn size(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => 2 + text.len() as u64,
        Value::Array(items) => items.iter().map(|item| 1 + size(item)).sum::<u64>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, it)| 4 + name.len() as u64 + size(it)).sum::<u64>() + 2
        }
    }
}
