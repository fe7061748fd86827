//! Random numbers that follow from a seed: SplitMix64.

/// The state of the generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.bits() % bound }
    }

    /// Returns true with a probability of 1 in `times`; always for 0.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns a random element of a list that is not empty.
    pub fn choose<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Returns a number from `from` to `to` inclusive; every order of magnitude is equally likely.
    pub fn spread(&mut self, from: u64, to: u64) -> u64 {
        let (low, high) = ((from.max(1) as f64).ln(), (to.max(1) as f64).ln());
        let at = low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64;
        (at.exp() as u64).clamp(from, to)
    }
}
