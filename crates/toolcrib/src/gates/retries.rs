//! How many tries may follow a first one: a fifth of all calls, and three for a start. However many callers have reason to
//! try again, a source that does not work is not asked more than a fifth more often for it. The same holds for each agent
//! alone.

/// What a try costs. A call earns one.
const TRY: u32 = 5;
/// What there is at the start, and at most: that of the last hundred calls.
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
    /// A call begins.
    pub(super) fn earn(&mut self) {
        self.earned = (self.earned + 1).min(MOST);
    }

    /// Whether there is enough for a try.
    pub(super) fn is_enough(&self) -> bool {
        TRY <= self.earned
    }

    /// Whether a call may be tried once more.
    pub(super) fn spend(&mut self) -> bool {
        let Some(left) = self.earned.checked_sub(TRY) else { return false };
        self.earned = left;
        self.made += 1;
        true
    }

    /// How many there were.
    pub(super) fn made(&self) -> u64 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_good_time_is_not_saved_up_for_ever() {
        let mut retries = Retries::default();
        (0..10_000).for_each(|_| retries.earn());
        assert_eq!((0..100).filter(|_| retries.spend()).count(), 20);
    }

    proptest! {
        /// However calls and wishes to try again follow each other.
        #[test]
        fn there_are_never_more_than_a_fifth_and_three(steps in prop::collection::vec(0..4_u8, 0..2_000)) {
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
