//! Cells that are wanted soon.
//!
//! Asking the memory for bytes ahead costs an instruction a line and waits for nothing. To read a byte there brings the line,
//! too, but a processor does only so much beside a read that it waits for, some 200 instructions, and where others use the same
//! memory a read takes 0.2 to 0.3 µs.

/// What memory gives at a time.
const LINE: usize = 64;
/// The first bytes of a cell: a key as most are, and of the value what a comparison takes at once. They lie in up to three
/// lines: with two of them a filter waited for the third of every other row.
const FIRST: usize = 96;
/// Lines of a cell that are asked for: behind so many in a row a processor asks by itself.
const LINES_MAX: usize = 32;

/// Asks the memory for the first bytes of the cell that begins at `at`, wherever in a line that is.
#[inline]
pub fn fetch(bytes: &[u8], at: usize) {
    byte(bytes, at);
    byte(bytes, at.wrapping_add(LINE));
    byte(bytes, at.wrapping_add(FIRST - 1));
}

/// Asks the memory for the key of the cell that begins at `at`, as most keys are, wherever in a line that is.
#[inline]
pub fn fetch_key(bytes: &[u8], at: usize) {
    byte(bytes, at);
    byte(bytes, at.wrapping_add(LINE - 1));
}

/// Asks the memory for a whole cell, whose value is wanted, too.
#[inline]
pub fn fetch_whole(cell: &[u8]) {
    places(cell.len()).for_each(|at| byte(cell, at));
}

/// Bytes of a cell of this length whose lines are all of its lines, but no more than are worth asking for.
#[inline]
fn places(length: usize) -> impl Iterator<Item = usize> {
    // Wherever the cell begins in its first line, its end may be in a line more.
    let last = length.saturating_sub(1);
    (0..length.min(LINES_MAX * LINE)).step_by(LINE).chain([last])
}

/// Asks for the line of the byte at `at`, be it beyond the end.
#[inline]
fn byte(bytes: &[u8], at: usize) {
    if cfg!(all(target_arch = "x86_64", not(miri))) {
        fetch_line(bytes.as_ptr().wrapping_add(at));
    } else {
        std::hint::black_box(bytes.get(at).copied());
    }
}

/// Asks the memory for the line that has this address, whoever's it is; nothing where the processor has no instruction that is
/// known here.
#[inline]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "an instruction that has no other name")
)]
pub fn fetch_line(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction, and it reads nothing that can be seen, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_of_a_cell_are_asked_for_wherever_it_begins() {
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
    fn what_is_not_there_may_be_asked_for() {
        fetch_whole(&[]);
        [0, 1, LINE, usize::MAX].into_iter().for_each(|at| fetch(b"x", at));
    }
}
