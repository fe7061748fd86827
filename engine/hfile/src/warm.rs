//! Filling the cache from a file, front to back: when it was just written, or just opened.
//!
//! What was just written is read back from the system's memory. Keeping blocks while they are written would spare that,
//! but a block that is kept is one that was read, checked and taken apart: so it is here, too, and a file that cannot be
//! read back is known before somebody asks.

use cache::{BlockKind, Kinds};

use crate::format::{BlockHeader, BlockType, HEADER_LENGTH};
use crate::{Reader, Result};

/// So many blocks in a row for which there is no room, and no more are looked for: parts of the cache fill up at different times.
const WITHOUT_ROOM_MAX: u32 = 64;

impl Reader {
    /// Reads blocks of some kinds into the cache, those that are there excepted; `asked_for` when their family wants them
    /// there from the start, before others that were asked for once; else as far as there is room. Says how many. Ends early when
    /// the file is gone, or nothing has room.
    pub fn warm(&self, kinds: Kinds, asked_for: bool) -> Result<u64> {
        if !kinds.any() {
            return Ok(0);
        }
        let (mut at, mut read, mut without_room) = (0, 0, 0);
        while at < self.data_end && without_room < WITHOUT_ROOM_MAX && !self.cached.is_gone() {
            let left = self.data_end - at;
            if left < HEADER_LENGTH as u64 {
                return Err(self.corrupt(at, "room for a block", HEADER_LENGTH, left));
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
            if let Some(kind) = kind.filter(|kind| kinds.has(*kind))
                && !self.cached.has(at)
            {
                // Unpacked it is longer than packed, and taken apart longer again: if not even so much has room, none is read.
                let has_room = || self.cached.has_room(at, kind, header.disk_size as usize);
                let is_kept =
                    (asked_for || has_room()) && self.cached.put(at, self.read_block(at, None)?, asked_for);
                without_room = if is_kept { 0 } else { without_room + 1 };
                read += u64::from(is_kept);
            }
            at += length;
        }
        Ok(read)
    }

    /// Reads the blocks into the cache that begin at these offsets and are so long, as a [writer](crate::Written::warm) tells
    /// them, those that are there excepted: they go before others that were asked for once; `into_room` as far as there is room.
    /// Says how many. Ends early when the file is gone.
    pub fn warm_blocks(&self, blocks: &[(u64, u32)], into_room: bool) -> Result<u64> {
        let mut read = 0;
        for &(at, length) in blocks {
            if self.cached.is_gone() {
                break;
            }
            // Which kind it is, is known when it is read.
            let has_room =
                || BlockKind::ALL.into_iter().any(|kind| self.cached.has_room(at, kind, length as usize));
            if !self.cached.has(at) && (!into_room || has_room()) {
                let block = self.read_block(at, Some(length))?;
                read += u64::from(self.cached.put(at, block, !into_room));
            }
        }
        Ok(read)
    }
}
