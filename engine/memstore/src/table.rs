//! A table that grows at its end while others read it.
//!
//! Slots lie in blocks, each twice the size of the one before; a block is made when its first slot is filled and never
//! moves. So a reader needs no lock, a table of a few entries takes little, and growing copies nothing.

use std::sync::OnceLock;

/// Slots of the first block.
const FIRST: usize = 8;
/// Blocks: enough for every number of 32 bits.
const BLOCKS: usize = 30;

/// Values by number, each set once.
pub(crate) struct Table<T> {
    blocks: [OnceLock<Box<[OnceLock<T>]>>; BLOCKS],
}

impl<T> Table<T> {
    pub(crate) fn new() -> Table<T> {
        Table { blocks: [const { OnceLock::new() }; BLOCKS] }
    }

    /// Block and place within it.
    #[inline]
    fn place(index: u32) -> (usize, usize) {
        let shifted = index as usize + FIRST;
        let block = (usize::BITS - 1 - shifted.leading_zeros()) as usize - FIRST.trailing_zeros() as usize;
        (block, shifted - (FIRST << block))
    }

    /// What was set there.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (block, at) = Self::place(index);
        self.blocks[block].get()?.get(at)?.get()
    }

    /// Sets a slot.
    ///
    /// # Panics
    /// When it was set before.
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
