//! Filling the cache from a file, front to back: when it was just written, or just opened.
//!
//! What was just written is read back from the system's memory. Keeping blocks while they are written would spare that,
//! but a block that is kept is one that was read, checked and taken apart: so it is here, too, and a file that cannot be
//! read back is known before somebody asks.

use cache::{BlockKind, Kinds};

use crate::format::{BlockHeader, BlockType, HEADER_LENGTH};
use crate::{Reader, Result};

impl Reader {
    /// Reads blocks of some kinds into the cache, those that are there excepted; `asked_for` when their family wants them
    /// there from the start, before others that were asked for once; else none is read for which there is no room. Says how many.
    /// Ends early when the file is gone.
    pub fn warm(&self, kinds: Kinds, asked_for: bool) -> Result<u64> {
        let (mut at, mut read) = (0, 0);
        while kinds.any() && at < self.data_end && !self.cached.is_gone() {
            let room = self.data_end - at;
            if room < HEADER_LENGTH as u64 {
                return Err(self.corrupt(at, "room for a block", HEADER_LENGTH, room));
            }
            let mut header = [0; HEADER_LENGTH];
            self.file.read_at(at, &mut header)?;
            let header = BlockHeader::parse(&header)
                .map_err(|(what, expected, found)| self.corrupt(at, what, expected, found))?;
            let length = u64::from(header.disk_size) + HEADER_LENGTH as u64;
            let kind = match header.kind {
                BlockType::Data | BlockType::EncodedData => Some(BlockKind::Data),
                BlockType::LeafIndex | BlockType::IntermediateIndex => Some(BlockKind::Index),
                BlockType::BloomChunk => Some(BlockKind::Bloom),
                _ => None,
            };
            let is_wanted = |kind: BlockKind| {
                let has_room = || self.cached.has_room(at, kind, header.unpacked_size as usize);
                kinds.has(kind) && !self.cached.has(at) && (asked_for || has_room())
            };
            if kind.is_some_and(is_wanted) {
                self.cached.put(at, self.read_block(at, None)?, asked_for);
                read += 1;
            }
            at += length;
        }
        Ok(read)
    }

    /// Reads the data blocks into the cache that begin at these offsets and are so long, as a [writer](crate::Written::warm) tells
    /// them, those that are there excepted: they go before others that were asked for once. With `into_room` none is read
    /// for which there is no room. Says how many. Ends early when the file is gone.
    pub fn warm_blocks(&self, blocks: &[(u64, u32)], into_room: bool) -> Result<u64> {
        let mut read = 0;
        for &(at, length) in blocks {
            if self.cached.is_gone() {
                break;
            }
            let has_room = || self.cached.has_room(at, BlockKind::Data, length as usize);
            if !self.cached.has(at) && (!into_room || has_room()) {
                self.cached.put(at, self.read_block(at, Some(length))?, true);
                read += 1;
            }
        }
        Ok(read)
    }
}
