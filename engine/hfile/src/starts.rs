//! Row-start bits: one bit for each cell of a block, which says whether the cell begins a row.
//!
//! Without these bits, the end of a row is known only from the next cell's key, so even a skipped cell costs one or two
//! cache lines. A scan that skips small cells among large ones would spend most of its memory traffic on this. The bits
//! are computed once, when every cell of the block is validated.

use std::iter;

/// Number of bits in one element of the array.
const BITS: usize = u32::BITS as usize;

/// Collects the row-start bits, cell by cell.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    words: Vec<u32>,
    cells: usize,
}

impl Builder {
    /// Adds a cell, which begins a row or continues one.
    #[inline]
    pub(crate) fn push(&mut self, begins: bool) {
        let bit = self.cells % BITS;
        if bit == 0 {
            self.words.push(0);
        }
        if let Some(word) = self.words.last_mut() {
            *word |= u32::from(begins) << bit;
        }
        self.cells += 1;
    }

    /// Returns the bits in the form of [`cache::Block::row_starts`].
    pub(crate) fn finish(self) -> Box<[u32]> {
        self.words.into_boxed_slice()
    }
}

/// Returns the index of the first cell from `from` on that begins a row; `count`, the number of cells, if there is
/// none.
#[inline]
pub(crate) fn next(starts: &[u32], from: usize, count: usize) -> usize {
    let first = from / BITS;
    let begun = starts.get(first).map(|word| word & (u32::MAX << (from % BITS)));
    let rest = starts.iter().skip(first + 1).copied();
    for (at, word) in iter::zip(first.., begun.into_iter().chain(rest)) {
        if word != 0 {
            return (at * BITS + word.trailing_zeros() as usize).min(count);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_row_start_is_the_one_that_a_search_cell_by_cell_finds() {
        let world = env::World::simulated(7, env::WallTime(0));
        for count in [0_usize, 1, 31, 32, 33, 63, 64, 65, 200] {
            for one_in in [1, 2, 40, 1_000] {
                let begins: Vec<bool> = (0..count).map(|_| world.random().is_multiple_of(one_in)).collect();
                let mut builder = Builder::default();
                begins.iter().for_each(|begins| builder.push(*begins));
                let starts = builder.finish();
                assert_eq!(starts.len(), count.div_ceil(BITS));
                for from in 0..count + 70 {
                    let found = (from..count).find(|at| begins[*at]).unwrap_or(count);
                    assert_eq!(next(&starts, from, count), found, "from {from} of {count}");
                }
            }
        }
    }
}
