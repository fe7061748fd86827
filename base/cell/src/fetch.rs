//! Prefetches cells: asks the processor to load their bytes into its caches before they are read.
//!
//! A prefetch costs one instruction for each cache line and does not wait. An ordinary read of a byte loads its line,
//! too, but the processor executes only some 200 further instructions until the read ends. Under contention a read
//! takes 0.2 to 0.3 µs. On processors other than x86-64, the functions for cells read a byte of each line in the
//! ordinary way.

/// Size of a cache line of the processor, in bytes.
const LINE: usize = 64;
/// Number of bytes at the start of a cell that [`fetch`] prefetches, in up to three cache lines. They contain most
/// keys, and the part of the value that a comparison reads first. When only two lines were prefetched, a filter waited
/// for the third one at every second row.
const FIRST: usize = 96;
/// Maximum number of consecutive cache lines that are prefetched for one cell. After so many consecutive lines a
/// processor prefetches the next ones by itself.
const LINES_MAX: usize = 32;

/// Prefetches the first 96 bytes of the cell at `at`, at any alignment.
#[inline]
pub fn fetch(bytes: &[u8], at: usize) {
    byte(bytes, at);
    byte(bytes, at.wrapping_add(LINE));
    byte(bytes, at.wrapping_add(FIRST - 1));
}

/// Prefetches the first 64 bytes of the cell at `at`, at any alignment. They contain most keys.
#[inline]
pub fn fetch_key(bytes: &[u8], at: usize) {
    byte(bytes, at);
    byte(bytes, at.wrapping_add(LINE - 1));
}

/// Prefetches a whole cell, or the first 2 KB and the end of a longer one, for a caller that reads its value as well.
#[inline]
pub fn fetch_whole(cell: &[u8]) {
    places(cell.len()).for_each(|at| byte(cell, at));
}

/// Returns an offset in each cache line of a cell of `length` bytes, for the first [`LINES_MAX`] lines and the last
/// one.
#[inline]
fn places(length: usize) -> impl Iterator<Item = usize> {
    // Depending on where the cell begins in its first line, its end may be in one line more.
    let last = length.saturating_sub(1);
    (0..length.min(LINES_MAX * LINE)).step_by(LINE).chain([last])
}

/// Prefetches the line of the byte at `at`, which may be past the end.
#[inline]
fn byte(bytes: &[u8], at: usize) {
    if cfg!(all(target_arch = "x86_64", not(miri))) {
        fetch_line(bytes.as_ptr().wrapping_add(at));
    } else {
        std::hint::black_box(bytes.get(at).copied());
    }
}

/// Prefetches the cache line at this address, which need not be valid. Does nothing on processors other than x86-64.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "an instruction that has no other name")
)]
pub fn fetch_line(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction, and it has no visible effect, wherever the address points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cache_lines_of_a_cell_are_prefetched_at_any_alignment() {
        for length in 1..=LINES_MAX * LINE {
            for begin in 0..LINE {
                let lines: std::collections::BTreeSet<usize> =
                    places(length).map(|at| (begin + at) / LINE).collect();
                assert!(lines.into_iter().eq(0..=(begin + length - 1) / LINE), "{length} bytes from {begin}");
            }
        }
        assert_eq!(places(1 << 20).count(), LINES_MAX + 1);
    }

    #[test]
    fn addresses_that_are_not_mapped_may_be_prefetched() {
        fetch_whole(&[]);
        [0, 1, LINE, usize::MAX].into_iter().for_each(|at| fetch(b"x", at));
    }
}
