//! Random numbers that follow from a seed: with the same seed each caller gets the same numbers in the same order.

/// A random number generator; each caller has its own.
///
/// SplitMix64: one addition and two multiplications for a number. It has no seeds with worse numbers than others.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// The constant by which SplitMix64 steps: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a number; equal numbers give equal results.
pub(crate) fn spread(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Random {
    /// Creates the generator of caller `index` in a run with this seed.
    pub(crate) fn new(seed: u64, index: u64) -> Random {
        Random(spread(seed.wrapping_mul(STEP).wrapping_add(index)))
    }

    /// Returns a random number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        spread(self.0)
    }

    /// Returns a random number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The upper half of the product is uniformly distributed, and needs no division.
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a random number from 0 (inclusive) to 1 (exclusive).
    pub(crate) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_the_end_comes_about_as_often() {
        let mut random = Random::new(1, 0);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
    }

    #[test]
    fn callers_of_one_seed_differ_and_the_same_caller_repeats_itself() {
        let first = |seed, index| Random::new(seed, index).next();
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(2, 0));
    }
}
