//! Caches the blocks of a file while it is written.
//!
//! The writer has a block's cells in memory, and knows where they start. So it makes the same [cached
//! form](crate::cached_block) as a reader of the file would, without reading the block back. In an object store or HDFS each
//! block that is read back costs a request.
//!
//! Nobody looks for the blocks before the file is finished, since its name is new. If it is never finished, they are evicted.
//! A block goes to the cache as soon as it is written, so a large file needs no memory beside the cache's.

use bytes::Bytes;
use cache::{Block, BlockKind, Kinds};
use cell::Comparator;

use crate::cached_block::{self, CellPlaces, Neighbours};
use crate::compress::Compression;
use crate::format::Encoding;
use crate::starts::Builder;

/// What a [`Writer`](crate::Writer) caches of its file.
#[derive(Debug)]
pub struct CacheOnWrite {
    file: cache::File,
    wanted: Kinds,
    into_room: bool,
    is_finished: bool,
}

impl CacheOnWrite {
    /// Caches blocks of the kinds `wanted`, and those that are [marked](crate::Writer::mark_warm), with the index and Bloom
    /// blocks that follow them. These replace blocks that were used once. If `into_room`, all other blocks are cached as
    /// far as there is free space. The new `file` must have been opened with size 0.
    pub fn new(file: cache::File, wanted: Kinds, into_room: bool) -> CacheOnWrite {
        CacheOnWrite { file, wanted, into_room, is_finished: false }
    }

    /// Whether data blocks of this compression and encoding are cached as they are in the file.
    pub(crate) fn keeps_packed(&self, compression: Compression, encoding: Encoding) -> bool {
        cached_block::is_packed(&self.file, compression, encoding)
    }

    /// Caches the block at `at`, which `block` makes, if it is wanted, or marked, or if there is room. `bytes` is about its
    /// size.
    pub(crate) fn offer(
        &self,
        at: u64,
        kind: BlockKind,
        bytes: usize,
        is_marked: bool,
        block: impl FnOnce() -> Block,
    ) {
        let is_wanted = is_marked || self.wanted.has(kind);
        if is_wanted || (self.into_room && self.file.has_room(at, kind, bytes)) {
            self.file.put(at, block(), is_wanted);
        }
    }

    /// Keeps the blocks for the readers of the file, which is finished and has `size` bytes.
    pub(crate) fn finish(mut self, size: u64) {
        self.file.finish(size);
        self.is_finished = true;
    }
}

impl Drop for CacheOnWrite {
    fn drop(&mut self) {
        if !self.is_finished {
            self.file.remove();
        }
    }
}

/// Returns a data block of these cells, which are not encoded, for the cache. The offsets are in bytes from the start of
/// `cells`.
pub(crate) fn data_block(
    cells: &[u8],
    cell_starts: &[u32],
    row_starts: &[u32],
    neighbours: Neighbours,
    comparator: Comparator,
) -> Block {
    let (mut rows, mut bits) = (row_starts.iter().peekable(), Builder::default());
    cell_starts.iter().for_each(|start| bits.push(rows.next_if_eq(&start).is_some()));
    let places = CellPlaces { offsets: cell_starts.to_vec(), row_starts: bits };
    cached_block::ready(BlockKind::Data, Bytes::copy_from_slice(cells), places, neighbours, comparator)
}
