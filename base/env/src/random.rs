//! A random number generator: SplitMix64, which is small and fast, and gives the same numbers on every machine for
//! the same seed.

use std::hash::{BuildHasher, RandomState};

/// The state of the generator.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// Creates a generator, seeded by the keys that the standard library draws from the operating system for its hash
    /// maps.
    pub(crate) fn from_system() -> SplitMix {
        SplitMix(RandomState::new().hash_one(std::process::id()))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let (mut left, mut right) = (SplitMix::new(42), SplitMix::new(42));
        for _ in 0..100 {
            assert_eq!(left.next(), right.next());
        }
        assert_ne!(SplitMix::new(1).next(), SplitMix::new(2).next());
    }
}
