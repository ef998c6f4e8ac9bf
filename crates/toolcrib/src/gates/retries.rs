//! A retry budget: retries may be a fifth of all calls, plus three at the start. So a source that fails receives at
//! most a fifth more requests, however many callers have reason to retry. Each agent has a budget of its own as well.

/// The cost of a retry; each call earns 1.
const TRY: u32 = 5;
/// The budget at the start, and its maximum: the earnings of the last hundred calls.
const FIRST: u32 = 3 * TRY;
const MOST: u32 = 20 * TRY;

#[derive(Debug)]
pub(super) struct Retries {
    earned: u32,
    made: u64,
}

impl Default for Retries {
    fn default() -> Self {
        Self { earned: FIRST, made: 0 }
    }
}

impl Retries {
    /// Adds the earnings of one call.
    pub(super) fn earn(&mut self) {
        self.earned = (self.earned + 1).min(MOST);
    }

    /// Whether the budget allows a retry.
    pub(super) fn is_enough(&self) -> bool {
        TRY <= self.earned
    }

    /// Spends one retry; returns `false` if the budget does not allow it.
    pub(super) fn spend(&mut self) -> bool {
        let Some(left) = self.earned.checked_sub(TRY) else { return false };
        self.earned = left;
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
        let mut retries = Retries::default();
        (0..10_000).for_each(|_| retries.earn());
        assert_eq!((0..100).filter(|_| retries.spend()).count(), 20);
    }

    proptest! {
        /// Holds for any sequence of calls and retries.
        #[test]
        fn retries_never_exceed_a_fifth_of_calls_plus_three(steps in prop::collection::vec(0..4_u8, 0..2_000)) {
            let (mut retries, mut calls) = (Retries::default(), 0_u64);
            for step in steps {
                match step {
                    0 => {
                        retries.earn();
                        calls += 1;
                    }
                    _ => drop(retries.spend()),
                }
                prop_assert!(retries.made() <= 3 + calls / 5);
            }
        }
    }
}
