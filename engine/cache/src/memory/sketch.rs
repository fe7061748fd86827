//! Recent frequency of keys: a count-min sketch of four-bit counters, as in TinyLFU.
//!
//! A key has four counters, all in one cache line of eight words; its frequency is the smallest of them. After six
//! counted lookups for each word all counters are halved, so that old lookups weigh less. A lookup of a key that
//! already has the greatest count is counted as half a lookup. If such lookups were not counted, a few keys that
//! receive all lookups would never let other keys age. If they were fully counted, the most popular keys would age the
//! others too fast. The sketch doubles with the number of entries. A key's position is the lower bits of its hash, so
//! both halves of the doubled sketch begin as copies.

/// Number of words in a cache line.
const LINE: usize = 8;
/// Number of counted lookups for each word after which the counters are halved. The published number, ten, adapts to a
/// moving working set more slowly and gains nothing elsewhere (`engine/cache/src/memory/traces.rs`).
const SAMPLES: usize = 6;
/// How much one lookup adds to the number of counted lookups.
const LOOK: usize = 2;
/// The greatest count of a key.
pub(super) const FREQUENCY_MAX: u64 = 15;
/// A mask for the lower three bits of each four-bit counter. All counters of a word are halved by one shift; the mask
/// removes the bit that a counter gets from its neighbour.
const HALVES: u64 = 0x7777_7777_7777_7777;

#[derive(Debug)]
pub(super) struct Sketch {
    words: Vec<u64>,
    counted: usize,
}

impl Sketch {
    pub(super) fn new() -> Sketch {
        Sketch { words: vec![0; LINE * 8], counted: 0 }
    }

    /// Makes room for counters of this many entries, one word for each.
    pub(super) fn fit(&mut self, entries: usize) {
        while self.words.len() < entries {
            self.words.extend_from_within(..);
        }
    }

    /// Returns the four counters of a hash, each as the index of its word and the shift in it.
    #[inline]
    fn counters(&self, hash: u64) -> [(usize, u32); 4] {
        let line = (hash as usize & (self.words.len() / LINE - 1)) * LINE;
        // The other half of the hash gives four bytes. Each selects one of two words and one of the sixteen counters in
        // it.
        let bits = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        std::array::from_fn(|index| {
            let bits = (bits >> (8 * index)) as usize;
            (line + 2 * index + (bits & 1), ((bits >> 1) & 15) as u32 * 4)
        })
    }

    #[inline]
    pub(super) fn count(&mut self, hash: u64) {
        let counters = self.counters(hash);
        let mut any = false;
        for (word, shift) in counters {
            let word = &mut self.words[word];
            if (*word >> shift) & FREQUENCY_MAX != FREQUENCY_MAX {
                *word += 1 << shift;
                any = true;
            }
        }
        self.counted += if any { LOOK } else { LOOK / 2 };
        if self.counted >= LOOK * SAMPLES * self.words.len() {
            self.halve();
        }
    }

    #[cold]
    fn halve(&mut self) {
        self.words.iter_mut().for_each(|word| *word = (*word >> 1) & HALVES);
        self.counted /= 2;
    }

    pub(super) fn frequency(&self, hash: u64) -> u64 {
        let of = |(word, shift): (usize, u32)| (self.words[word] >> shift) & FREQUENCY_MAX;
        self.counters(hash).into_iter().map(of).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::hash_of;
    use crate::{BlockKey, FileId};

    fn hash(offset: u64) -> u64 {
        hash_of(BlockKey { file: FileId(1), offset })
    }

    #[test]
    fn frequent_keys_have_larger_estimates() {
        let mut sketch = Sketch::new();
        sketch.fit(1_000);
        for round in 0..8 {
            (0..1_000).filter(|key| key % 8 <= round).for_each(|key| sketch.count(hash(key)));
        }
        let right = (0..1_000).filter(|&key| sketch.frequency(hash(key)).abs_diff(8 - key % 8) <= 1).count();
        assert!(right > 970, "{right} of 1,000 are within one of what was counted");
    }

    #[test]
    fn counters_grow_old_and_survive_growth() {
        let mut sketch = Sketch::new();
        (0..12).for_each(|_| sketch.count(hash(7)));
        assert_eq!(sketch.frequency(hash(7)), 12);
        sketch.fit(4_096);
        assert_eq!(sketch.frequency(hash(7)), 12);
        (100_000..141_000).for_each(|key| sketch.count(hash(key)));
        assert!(sketch.frequency(hash(7)) < 12, "what was is worth less than what is");
    }

    #[test]
    fn few_keys_that_are_asked_for_all_the_time_make_others_old() {
        let mut sketch = Sketch::new();
        sketch.fit(1_024);
        (0..12).for_each(|_| sketch.count(hash(7)));
        (0..50_000).for_each(|look| sketch.count(hash(100 + look % 5)));
        assert_eq!(sketch.frequency(hash(7)), 0);
        assert!((100..105).all(|key| sketch.frequency(hash(key)) >= FREQUENCY_MAX / 2));
    }
}
