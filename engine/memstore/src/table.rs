//! A table that grows at its end while other threads read it.
//!
//! Slots are in blocks, each twice as large as the previous one. A block is allocated when its first slot is set, and
//! never moves. So readers need no lock, a small table uses little memory, and growing copies nothing.

use std::sync::OnceLock;

/// Number of slots in the first block.
const FIRST: usize = 8;
/// Number of blocks: enough for all 32-bit indices.
const BLOCKS: usize = 30;

/// Values by index, each set once.
pub(crate) struct Table<T> {
    blocks: [OnceLock<Box<[OnceLock<T>]>>; BLOCKS],
}

impl<T> Table<T> {
    pub(crate) fn new() -> Table<T> {
        Table { blocks: [const { OnceLock::new() }; BLOCKS] }
    }

    /// Returns the block of the slot at `index`, and the position in the block.
    #[inline]
    fn place(index: u32) -> (usize, usize) {
        let shifted = index as usize + FIRST;
        let block = (usize::BITS - 1 - shifted.leading_zeros()) as usize - FIRST.trailing_zeros() as usize;
        (block, shifted - (FIRST << block))
    }

    /// Returns the value at an index; `None` if it is not set.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (block, at) = Self::place(index);
        self.blocks[block].get()?.get(at)?.get()
    }

    /// Sets a slot.
    ///
    /// # Panics
    /// When it is set already.
    pub(crate) fn set(&self, index: u32, value: T) {
        let (block, at) = Self::place(index);
        let slots = self.blocks[block].get_or_init(|| (0..FIRST << block).map(|_| OnceLock::new()).collect());
        assert!(slots[at].set(value).is_ok(), "slot {index} of a table is set once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_slot_of_its_own() {
        let table = Table::new();
        let count = if cfg!(miri) { 100 } else { 5_000u32 };
        for index in 0..count {
            assert_eq!(table.get(index), None);
            table.set(index, index);
        }
        assert!((0..count).all(|index| table.get(index) == Some(&index)));
        assert_eq!(Table::<u32>::place(u32::MAX).0, BLOCKS - 1);
    }
}
