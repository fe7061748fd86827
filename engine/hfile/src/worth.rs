//! Decides whether to check a file's Bloom filter before searching a row.
//!
//! A filter avoids reading blocks that do not contain the row. But if a store has one file, as after a compaction,
//! nearly every requested row exists. The filter then admits the row each time, and costs a fifth of a lookup in
//! memory, because its bits are in cache lines that nothing else uses. So while few lookups fail, they are made without
//! the filter. It is then checked only before a wait for storage.
//!
//! One lookup in sixteen is counted, chosen by the row, so that threads seldom write to shared memory.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Number of counted lookups after which the decision is made again.
const SAMPLE: u32 = 64;
/// The filter is checked when at least one lookup in this many finds no row: such a lookup costs about five checks.
const VAIN_PART: u32 = 16;
/// One lookup in this many is counted.
const COUNTED_PART: u64 = 16;

/// The decision and its counters; see the module documentation.
#[derive(Debug)]
pub(crate) struct Worth {
    is_worth: AtomicBool,
    lookups: AtomicU32,
    vain: AtomicU32,
}

impl Worth {
    pub(crate) fn new() -> Worth {
        Worth { is_worth: AtomicBool::new(true), lookups: AtomicU32::new(0), vain: AtomicU32::new(0) }
    }

    /// Whether the Bloom filter is checked before a row is searched.
    #[inline]
    pub(crate) fn is_worth(&self) -> bool {
        self.is_worth.load(Ordering::Relaxed)
    }

    /// Records whether a lookup found `row`. If the filter was checked, its answer counts as the result.
    #[inline]
    pub(crate) fn note(&self, row: &[u8], is_there: bool) {
        if counts(row) {
            self.count(is_there);
        }
    }

    /// Counts a lookup. If threads count at the same time, a count may be lost or a decision made twice: the result is
    /// an estimate.
    fn count(&self, is_there: bool) {
        if !is_there {
            self.vain.fetch_add(1, Ordering::Relaxed);
        }
        if self.lookups.fetch_add(1, Ordering::Relaxed) + 1 >= SAMPLE {
            self.lookups.store(0, Ordering::Relaxed);
            let vain = self.vain.swap(0, Ordering::Relaxed);
            self.is_worth.store(vain * VAIN_PART >= SAMPLE, Ordering::Relaxed);
        }
    }
}

#[inline]
fn counts(row: &[u8]) -> bool {
    let end = row.last_chunk::<8>().map_or_else(
        || row.iter().fold(0, |end, &byte| end << 8 | u64::from(byte)),
        |end| u64::from_be_bytes(*end),
    );
    // Rows often end in digits, whose low bits are not random, so the number is multiplied.
    (end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(COUNTED_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_in_sixteen_is_counted_whatever_the_keys_are() {
        for rows in [
            (0..16_000).map(|n: u64| format!("{n:026}").into_bytes()).collect::<Vec<_>>(),
            (0..16_000).map(|n: u64| format!("user{n}").into_bytes()).collect(),
            (0..16_000).map(|n: u64| n.to_be_bytes().to_vec()).collect(),
            (0..16_000).map(|n: u64| (n as u16).to_be_bytes().to_vec()).collect(),
        ] {
            let counted = rows.iter().filter(|row| counts(row)).count();
            assert!((800..1_200).contains(&counted), "{counted} of {:?}", rows[1]);
        }
    }

    #[test]
    fn the_filter_is_used_where_one_lookup_in_sixteen_finds_nothing() {
        let worth = Worth::new();
        assert!(worth.is_worth(), "until more is known");
        let look = |vain: u32| (0..SAMPLE).for_each(|look| worth.count(look >= vain));
        for (vain, is_worth) in [(0, false), (3, false), (4, true), (64, true), (1, false)] {
            look(vain);
            assert_eq!(worth.is_worth(), is_worth, "{vain} of {SAMPLE}");
        }
    }
}
