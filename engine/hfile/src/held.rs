//! Blocks that a reader of many rows holds on to, so that rows which lie in the same block look it up once.
//!
//! Whoever gets a batch of rows meets the same bloom chunk and the same index again and again, and the same data block
//! where rows are near each other, in whatever order they are asked for. A look into the cache costs a lock and, on a
//! device, a system call and a checksum; a look in here compares a number.
//!
//! Of a block on a device the first look takes a [part](cache::Part), which is not held: most are looked at once.
//!
//! Each block has one place, by its offset, and gives it up to the next that has the same: so what is held has a limit.

use std::cell::RefCell;
use std::sync::Arc;

use cache::Block;

use crate::Result;
use crate::cursor::ReadOptions;

/// How many blocks are held at most.
const PLACES: usize = 64;

/// Where a block begins in the file, and the block, unless only a part of it was looked at so far.
type Place = Option<(u64, Option<Arc<Block>>)>;

/// See the file.
#[derive(Debug)]
pub(crate) struct Held(RefCell<[Place; PLACES]>);

impl Held {
    pub(crate) fn new() -> Held {
        Held(RefCell::new([const { None }; PLACES]))
    }

    /// The block at `at`: as it is held, or by `look`, and held from then on.
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

    /// Whether the block at `at` is looked at for the first time, as far as is known: then a part of it may be enough. It is
    /// the second time from now on.
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
    // Multiplied, for offsets in a file of even blocks share their lower bits.
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

/// How blocks are got, and which are at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'a> {
    pub(crate) options: ReadOptions,
    pub(crate) held: Option<&'a Held>,
}

impl From<ReadOptions> for Way<'_> {
    fn from(options: ReadOptions) -> Self {
        Way { options, held: None }
    }
}
