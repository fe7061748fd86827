//! Whether a file's filter is worth asking for a row before the row is looked for.
//!
//! A filter spares looks into blocks that have not the row. In a store of one file, as compactions leave it, nearly every row
//! that is asked for is there: the filter says so each time, and takes a fifth of the time of a look that finds its block in
//! memory, for its bits lie in lines that nobody else has asked for. So while few looks are in vain they are made at once, and
//! the filter is asked only before a wait for a disk.
//!
//! One look in sixteen counts, chosen by the row, so that threads seldom write what all of them read.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Looks that count before it is decided anew.
const SAMPLE: u32 = 64;
/// The filter is worth asking where one look in so many is in vain: a look that finds nothing costs some five questions.
const VAIN_PART: u32 = 16;
/// One look in so many counts.
const COUNTED_PART: u64 = 16;

/// See the file.
#[derive(Debug)]
pub(crate) struct Worth {
    is_worth: AtomicBool,
    looks: AtomicU32,
    vain: AtomicU32,
}

impl Worth {
    pub(crate) fn new() -> Worth {
        Worth { is_worth: AtomicBool::new(true), looks: AtomicU32::new(0), vain: AtomicU32::new(0) }
    }

    /// Whether the filter is asked first.
    #[inline]
    pub(crate) fn is_worth(&self) -> bool {
        self.is_worth.load(Ordering::Relaxed)
    }

    /// Notes whether `row` was found, or may be there as far as the filter knows.
    #[inline]
    pub(crate) fn note(&self, row: &[u8], is_there: bool) {
        if counts(row) {
            self.count(is_there);
        }
    }

    /// Threads that count at the same time may decide twice, or of some looks more or fewer: it is an estimate.
    fn count(&self, is_there: bool) {
        if !is_there {
            self.vain.fetch_add(1, Ordering::Relaxed);
        }
        if self.looks.fetch_add(1, Ordering::Relaxed) + 1 >= SAMPLE {
            self.looks.store(0, Ordering::Relaxed);
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
    // Multiplied, for the ends of rows are often digits.
    (end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(COUNTED_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_in_sixteen_counts_whatever_rows_look_like() {
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
    fn it_is_asked_where_one_look_in_sixteen_is_in_vain() {
        let worth = Worth::new();
        assert!(worth.is_worth(), "until more is known");
        let look = |vain: u32| (0..SAMPLE).for_each(|look| worth.count(look >= vain));
        for (vain, is_worth) in [(0, false), (3, false), (4, true), (64, true), (1, false)] {
            look(vain);
            assert_eq!(worth.is_worth(), is_worth, "{vain} of {SAMPLE}");
        }
    }
}
