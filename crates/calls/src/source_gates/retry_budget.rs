//! A retry budget: retries may be a fifth of all calls, plus three at the start. So a source that fails receives at
//! most a fifth more requests, however many callers have reason to retry. Each agent has a budget of its own as well.

/// The cost of a retry; each call earns 1.
const RETRY_COST: u32 = 5;
/// The budget at the start, and its maximum: the earnings of the last hundred calls.
const INITIAL_BUDGET: u32 = 3 * RETRY_COST;
const MAX_BUDGET: u32 = 20 * RETRY_COST;

#[derive(Debug)]
pub(super) struct RetryBudget {
    budget: u32,
    made: u64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { budget: INITIAL_BUDGET, made: 0 }
    }
}

impl RetryBudget {
    /// Adds the earnings of one call.
    pub(super) fn earn_from_call(&mut self) {
        self.budget = (self.budget + 1).min(MAX_BUDGET);
    }

    /// Whether the budget allows a retry.
    pub(super) fn allows_retry(&self) -> bool {
        RETRY_COST <= self.budget
    }

    /// Spends one retry; returns `false` if the budget does not allow it.
    pub(super) fn try_spend(&mut self) -> bool {
        let Some(left) = self.budget.checked_sub(RETRY_COST) else { return false };
        self.budget = left;
        self.made += 1;
        true
    }

    /// How many retries were made.
    pub(super) fn made(&self) -> u64 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_budget_has_a_maximum() {
        let mut retries = RetryBudget::default();
        (0..10_000).for_each(|_| retries.earn_from_call());
        assert_eq!((0..100).filter(|_| retries.try_spend()).count(), 20);
    }

    proptest! {
        /// Holds for any sequence of calls and retries.
        #[test]
        fn retries_never_exceed_a_fifth_of_calls_plus_three(steps in prop::collection::vec(0..4_u8, 0..2_000)) {
            let (mut retries, mut calls) = (RetryBudget::default(), 0_u64);
            for step in steps {
                match step {
                    0 => {
                        retries.earn_from_call();
                        calls += 1;
                    }
                    _ => drop(retries.try_spend()),
                }
                prop_assert!(retries.made() <= 3 + calls / 5);
            }
        }
    }
}
