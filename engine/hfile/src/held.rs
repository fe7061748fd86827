//! Blocks that a reader of many rows keeps, so that rows in the same block need only one lookup.
//!
//! A batch of rows uses the same Bloom filter chunks and index blocks again and again, and the same data block where
//! rows are close to each other, in any order. A lookup in the cache costs a lock and, on a device, a system call and a
//! checksum; a lookup here only compares offsets.
//!
//! The first lookup of a block on a device returns a [part](cache::Part), which is not kept: most blocks are used once.
//!
//! Each offset has one of a fixed number of slots. A later block with the same slot replaces the block in it, so the
//! number of kept blocks is bounded.

use std::cell::RefCell;
use std::sync::Arc;

use cache::Block;

use crate::Result;
use crate::cursor::ReadOptions;

/// Number of slots, which is the maximum number of blocks that a reader keeps.
const PLACES: usize = 64;

/// The offset of a block, and the block, unless only a part of it was read so far.
type Place = Option<(u64, Option<Arc<Block>>)>;

/// The kept blocks; see the module documentation.
#[derive(Debug)]
pub(crate) struct HeldBlocks(RefCell<[Place; PLACES]>);

impl HeldBlocks {
    pub(crate) fn new() -> HeldBlocks {
        HeldBlocks(RefCell::new([const { None }; PLACES]))
    }

    /// Returns the block at `at`: the kept one, or else the result of `look`, which is then kept.
    pub(crate) fn block(&self, at: u64, look: impl FnOnce() -> Result<Arc<Block>>) -> Result<Arc<Block>> {
        let place = place_of(at);
        if let Some((held, Some(block))) = &self.0.borrow()[place]
            && *held == at
        {
            return Ok(Arc::clone(block));
        }
        let block = look()?;
        self.0.borrow_mut()[place] = Some((at, Some(Arc::clone(&block))));
        Ok(block)
    }

    /// Records a lookup of the block at `at`. Returns whether this is the first one, so that the caller reads only a
    /// part of the block. It may also return `true` for a later lookup, if another block has taken the slot meanwhile.
    pub(crate) fn is_first(&self, at: u64) -> bool {
        let place = &mut self.0.borrow_mut()[place_of(at)];
        let is_known = place.as_ref().is_some_and(|(held, _)| *held == at);
        if !is_known {
            *place = Some((at, None));
        }
        !is_known
    }
}

fn place_of(at: u64) -> usize {
    // Offsets in a file of equal blocks have the same lower bits, so the offset is multiplied.
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

/// How a reader loads blocks, and the blocks that it keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockAccess<'a> {
    pub(crate) options: ReadOptions,
    pub(crate) held: Option<&'a HeldBlocks>,
}

impl From<ReadOptions> for BlockAccess<'_> {
    fn from(options: ReadOptions) -> Self {
        BlockAccess { options, held: None }
    }
}
