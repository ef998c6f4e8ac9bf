//! What a run may use in all, with everything that is run within it.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

/// The most steps of a run.
pub const STEPS: u64 = 10_000;
/// The most iterations of all its loops.
pub const ITERATIONS: u64 = 5_000;
/// The most bytes of memory that its input and all that its steps make may take.
pub const DATA: u64 = 128 << 20;
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

/// About how many bytes of memory it takes.
fn size(value: &Value) -> u64 {
    // A member lies in a list, and a table says where.
    const MEMBER: usize = size_of::<String>() + 3 * size_of::<usize>();
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, it)| (MEMBER + name.len()) as u64 + size(it)).sum()
        }
    };
    size_of::<Value>() as u64 + inside
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_of_small_things_counts_as_what_it_takes() {
        let zeros = json!(vec![0; 1_000]);
        assert!(1_000 * size_of::<Value>() as u64 <= size(&zeros));
        let objects = json!(vec![json!({"a": 0}); 1_000]);
        // A list of one member, its table of at least four, and both have a head of their own.
        assert!(100_000 <= size(&objects), "{}", size(&objects));
        assert!(size(&json!("a".repeat(10_000))) < 11_000);
    }
}
