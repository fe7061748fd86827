//! Prefetching of rows that will be read soon.
//!
//! A lookup is a chain of waits for memory: the cache's entry, the block, the heads of its rows, the cell. For rows
//! known in advance, each step is made for all of them, and prefetches what the next step reads. So many rows wait no
//! longer than one. The results are not kept: the lookup that follows is made as usual, and finds its data in the
//! processor's cache.

use cache::{Block, BlockKind};
use cell::Key;
use smallvec::SmallVec;

use crate::index::{Leaf, Ordered};
use crate::{Reader, cursor, heads};

/// Maximum number of index levels; a file with more is not prefetched.
pub(crate) const LEVELS_MAX: u32 = 8;
/// Usual number of rows that callers look up together.
const TOGETHER: usize = 16;

impl Reader {
    /// Prefetches the memory that a read of the first cell of each row needs, if the blocks are in memory. Returns the
    /// number of rows for which it did so. Does nothing for a file in which most lookups find no row.
    pub fn prefetch_rows(&self, rows: &[&[u8]]) -> usize {
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
                // In a damaged file an index entry may name a block of another kind. The lookup that follows reports
                // the damage.
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

    /// Returns the offset of the block that most likely contains the row; `None` if there are no entries.
    fn likely(&self, entries: &impl Ordered, row: &[u8]) -> Option<u64> {
        let comparator = self.comparator();
        let behind = entries.partition(entries.of_row(row), |entry| {
            comparator.compare_rows(Key::trusted(entry.key).row(), row).is_le()
        });
        (entries.len() > 0).then(|| entries.at(behind.saturating_sub(1)).offset)
    }
}
