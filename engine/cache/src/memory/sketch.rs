//! How often keys were asked for lately: a count-min sketch of four-bit counters, as in TinyLFU.
//!
//! A key has four counters, all in one cache line of eight words; its frequency is the smallest of them. When as many
//! looks were counted as make six for each word, all counters are halved: what was is worth less than what is. A look
//! at what has the greatest count already is half of one: counted not at all, few keys that are all that is asked for
//! would keep those before them young for ever; in full, what is asked for most ages the rest too soon. The
//! sketch doubles with the number of entries; the place of a key is the lower bits of its hash, so both halves of the
//! doubled one begin as copies.

/// Words of a cache line.
const LINE: usize = 8;
/// Looks for each word after which counters are halved. Ten, as published, follow a set that moves more slowly and
/// gain nothing elsewhere (`traces.rs`).
const SAMPLES: usize = 6;
/// What a look counts towards that.
const LOOK: usize = 2;
/// Nothing counts more.
pub(super) const FREQUENCY_MAX: u64 = 15;
/// The upper three bits of the lower three of each counter: what is left of a counter that was shifted.
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

    /// Makes room for so many entries: a word for each.
    pub(super) fn fit(&mut self, entries: usize) {
        while self.words.len() < entries {
            self.words.extend_from_within(..);
        }
    }

    /// The four counters of a hash: word and shift.
    #[inline]
    fn counters(&self, hash: u64) -> [(usize, u32); 4] {
        let line = (hash as usize & (self.words.len() / LINE - 1)) * LINE;
        // Four bytes from the other end: which of two words, and which of sixteen counters in it.
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
    fn what_is_asked_for_more_often_counts_more() {
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
