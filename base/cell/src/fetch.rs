//! Cells that are wanted soon.
//!
//! Asking the memory for bytes ahead costs an instruction a line and waits for nothing. To read a byte there brings the line,
//! too, but a processor does only so much beside a read that it waits for, some 200 instructions, and where others use the same
//! memory a read takes 0.2 to 0.3 µs.

/// What memory gives at a time.
const LINE: usize = 64;
/// Lines of a cell that are asked for: behind so many in a row a processor asks by itself.
const LINES_MAX: usize = 32;

/// Asks the memory for the first bytes of the cell that begins at `at`: the key of most, and the begin of the value, which lie
/// in two lines of memory wherever it begins.
#[inline]
pub fn fetch(bytes: &[u8], at: usize) {
    line(bytes, at);
    line(bytes, at.wrapping_add(LINE));
}

/// Asks the memory for a whole cell, whose value is wanted, too.
#[inline]
pub fn fetch_whole(cell: &[u8]) {
    // Wherever it begins in its first line, its last byte is in the last of these or in one that is asked for.
    let last = cell.len().saturating_sub(1);
    (0..=last).step_by(LINE).take(LINES_MAX).chain([last]).for_each(|at| line(cell, at));
}

/// Asks for the line of the byte at `at`, be it beyond the end.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "an instruction that has no other name")
)]
fn line(bytes: &[u8], at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction, and it reads nothing that can be seen, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(at).cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::hint::black_box(bytes.get(at).copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_may_be_asked_for() {
        for length in [0, 1, LINE, 5 * LINE + 3, 100 * LINE] {
            let bytes = vec![7; length];
            fetch_whole(&bytes);
            [0, length, length + LINE, usize::MAX - LINE].into_iter().for_each(|at| fetch(&bytes, at));
            assert!(bytes.iter().all(|byte| *byte == 7));
        }
    }
}
