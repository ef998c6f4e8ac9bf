//! The budget of a run: limits on steps, loop iterations, data and work, shared with all workflows that it calls.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

/// Maximum number of steps in a run.
pub const MAX_RUN_STEPS: u64 = 10_000;
/// Maximum number of iterations in all loops of a run.
pub const MAX_LOOP_ITERATIONS: u64 = 5_000;
/// Maximum memory for the input and all values that steps produce, in bytes.
pub const MAX_RUN_DATA: u64 = 128 << 20;
/// Maximum work of all expressions of a run, in evaluated values.
pub const MAX_RUN_WORK: u64 = 20_000_000;
/// Maximum work of one expression.
pub(crate) const MAX_EXPRESSION_WORK: u64 = 2_000_000;

/// The remaining budget of a run. Nested workflows share the budget of their caller.
#[derive(Debug)]
pub struct RunBudget {
    steps: AtomicU64,
    iterations: AtomicU64,
    data: AtomicU64,
    work: AtomicU64,
}

impl Default for RunBudget {
    fn default() -> Self {
        Self {
            steps: AtomicU64::new(MAX_RUN_STEPS),
            iterations: AtomicU64::new(MAX_LOOP_ITERATIONS),
            data: AtomicU64::new(MAX_RUN_DATA),
            work: AtomicU64::new(MAX_RUN_WORK),
        }
    }
}

/// Subtracts the amount if enough is left.
fn try_subtract(from: &AtomicU64, amount: u64) -> bool {
    let less = |left: u64| left.checked_sub(amount);
    from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
}

impl RunBudget {
    pub(crate) fn consume_step(&self) -> Result<(), &'static str> {
        try_subtract(&self.steps, 1).then_some(()).ok_or("has made more steps than it may")
    }

    pub(crate) fn consume_iteration(&self) -> Result<(), &'static str> {
        try_subtract(&self.iterations, 1)
            .then_some(())
            .ok_or("has gone round more often than it may")
    }

    pub(crate) fn consume_data(&self, value: &Value) -> Result<(), &'static str> {
        try_subtract(&self.data, memory_size(value))
            .then_some(())
            .ok_or("has made more data than it may")
    }

    /// The work that the next expression may do.
    pub(crate) fn work_allowance(&self) -> u64 {
        self.work.load(Ordering::Relaxed).min(MAX_EXPRESSION_WORK)
    }

    pub(crate) fn consume_work(&self, amount: u64) {
        if !try_subtract(&self.work, amount) {
            self.work.store(0, Ordering::Relaxed);
        }
    }

    /// The number of steps so far.
    pub(crate) fn steps_made(&self) -> u64 {
        MAX_RUN_STEPS.saturating_sub(self.steps.load(Ordering::Relaxed))
    }
}

/// Approximate memory of a value, in bytes.
fn memory_size(value: &Value) -> u64 {
    // A field is an entry of a vector, with an index in a hash table.
    const MEMBER: usize = size_of::<String>() + 3 * size_of::<usize>();
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(memory_size).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, it)| (MEMBER + name.len()) as u64 + memory_size(it)).sum()
        }
    };
    size_of::<Value>() as u64 + inside
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn small_values_count_with_the_memory_that_they_take() {
        let zeros = json!(vec![0; 1_000]);
        assert!(1_000 * size_of::<Value>() as u64 <= memory_size(&zeros));
        let objects = json!(vec![json!({"a": 0}); 1_000]);
        // Each object is a vector of one field plus a table of at least four slots, each with its own header.
        assert!(100_000 <= memory_size(&objects), "{}", memory_size(&objects));
        assert!(memory_size(&json!("a".repeat(10_000))) < 11_000);
    }
}
