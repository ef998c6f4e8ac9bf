//! Pseudorandom numbers from a seed (`SplitMix64`).

pub(super) struct WorldRandom(u64);

impl WorldRandom {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From zero up to, but not including, `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True with a probability of 1 in `n`.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn percent_chance(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(super) fn pick_from<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// One element, or `None` if there are none.
    pub(super) fn one_of<T>(&mut self, from: impl IntoIterator<Item = T>) -> Option<T> {
        let mut all: Vec<T> = from.into_iter().collect();
        if all.is_empty() {
            return None;
        }
        let place = self.below(all.len());
        Some(all.swap_remove(place))
    }

    /// Each element with the given probability, in percent.
    pub(super) fn some_of<T>(
        &mut self,
        from: impl IntoIterator<Item = T>,
        chance: usize,
    ) -> Vec<T> {
        from.into_iter().filter(|_| self.percent_chance(chance)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_match_the_published_algorithm() {
        let mut random = WorldRandom::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
