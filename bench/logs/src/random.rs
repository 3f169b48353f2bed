//! Random numbers: `SplitMix64`.
//!
//! This crate has its own generator, because a new version of a published crate may return other numbers
//! for a seed, and the committed data would change.

/// The generator `SplitMix64` by Sebastiano Vigna: <https://prng.di.unimi.it/splitmix64.c>.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `bound`, exclusive. The bias, `bound` in 2^32, does not matter
    /// for log lines.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let product = (self.next() >> 32) * u64::from(bound);
        // The upper half of the product is below `bound`, so it fits a `u32`.
        #[allow(clippy::cast_possible_truncation)]
        let number = (product >> 32) as u32;
        number
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        // The longest list has 64 entries.
        let count = u32::try_from(choices.len()).unwrap_or(u32::MAX);
        choices[self.below(count) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation prints these numbers for the seed 1234567.
    #[test]
    fn numbers_equal_those_of_the_reference_implementation() {
        let mut random = Random::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn range_includes_exactly_both_ends() {
        let mut random = Random::new(1);
        let mut seen: Vec<u32> = (0..1_000).map(|_| random.between(3, 7)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [3, 4, 5, 6, 7]);
    }
}
