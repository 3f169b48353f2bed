//! The source of randomness: `SplitMix64`.
//!
//! A generator of our own, since what a published crate draws from a seed may change from one of
//! its versions to the next, and committed data would change with it.

/// `SplitMix64` as Sebastiano Vigna published it: <https://prng.di.unimi.it/splitmix64.c>.
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

    /// A number from 0 to `bound` exclusive. Its bias, `bound` in 2^32, shows in no log line.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let product = (self.next() >> 32) * u64::from(bound);
        // The upper half of the product is below `bound`, which a `u32` holds.
        #[allow(clippy::cast_possible_truncation)]
        let number = (product >> 32) as u32;
        number
    }

    /// A number from `low` to `high`, both included.
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

    /// What the reference implementation prints for the seed 1234567.
    #[test]
    fn draws_what_the_reference_implementation_draws() {
        let mut random = Random::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn a_range_includes_both_ends_and_nothing_else() {
        let mut random = Random::new(1);
        let mut seen: Vec<u32> = (0..1_000).map(|_| random.between(3, 7)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [3, 4, 5, 6, 7]);
    }
}
