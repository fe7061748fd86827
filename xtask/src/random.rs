//! Random numbers that follow from a seed: SplitMix64, equal on every machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// The state of the generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a random number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }
}

/// Returns a seed that differs from run to run; the caller prints it.
pub(crate) fn seed_from_the_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64 % 1_000_000_007)
}
