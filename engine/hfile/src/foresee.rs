//! Rows that are read soon.
//!
//! A look for one row is a chain of waits: for the cache's entry, the block, the heads of its rows, the cell. Of rows that are
//! known beforehand each step is made for all, and asks the memory for what the next one looks at; so many rows wait as long as
//! one. What is found is not kept: the look that follows is made like any other, and finds near the processor what it needs.

use cache::{Block, BlockKind};
use cell::Key;
use smallvec::SmallVec;

use crate::index::{Leaf, Ordered};
use crate::{Reader, cursor, heads};

/// An index of more levels is not gone down beforehand.
const LEVELS_MAX: u32 = 8;
/// So many rows are mostly looked for together.
const TOGETHER: usize = 16;

impl Reader {
    /// Asks the memory for what reading the first cell of each row needs, as far as that lies in memory, and says of how many that
    /// was asked. Where many rows are looked for that the file has not, nothing is done.
    pub fn foresee(&self, rows: &[&[u8]]) -> usize {
        // A damaged file may claim any number of levels.
        let is_in_vain = self.knows_rows() && self.worth.is_worth() || self.levels() > LEVELS_MAX;
        if is_in_vain || !self.cached.has_data_in_memory() {
            return 0;
        }
        let mut places: SmallVec<[(&[u8], u64); TOGETHER]> =
            rows.iter().filter_map(|&row| Some((row, self.likely(self.root(), row)?))).collect();
        for _ in 1..self.levels() {
            let leaves = self.cached.peek(BlockKind::Index, places.iter().map(|(_, at)| *at));
            let below = places.iter().zip(leaves).filter_map(|(&(row, _), leaf)| {
                // What an index names may be anything in a damaged file: who reads it is told.
                let leaf = leaf.filter(|leaf| leaf.kind == BlockKind::Index && !leaf.packed)?;
                Some((row, self.likely(&Leaf::checked(&leaf.bytes)?, row)?))
            });
            places = below.collect();
        }
        let blocks = self.cached.peek(BlockKind::Data, places.iter().map(|(_, at)| *at));
        let has_heads =
            |block: &Block| block.kind == BlockKind::Data && !block.packed && !block.heads.is_empty();
        let found = places.iter().zip(blocks);
        let found =
            found.filter_map(|((row, _), block)| Some((*row, block.filter(|block| has_heads(block))?)));
        let found: SmallVec<[_; TOGETHER]> = found.inspect(|(_, block)| heads::fetch(block)).collect();
        for (row, block) in &found {
            cursor::fetch_whole(block, heads::candidates(&block.heads, block.shared, row).start);
        }
        found.len()
    }

    /// Where the block begins in which the row most likely is.
    fn likely(&self, entries: &impl Ordered, row: &[u8]) -> Option<u64> {
        let comparator = self.comparator();
        let behind = entries.partition(entries.of_row(row), |entry| {
            comparator.compare_rows(Key::trusted(entry.key).row(), row).is_le()
        });
        (entries.len() > 0).then(|| entries.at(behind.saturating_sub(1)).offset)
    }
}
