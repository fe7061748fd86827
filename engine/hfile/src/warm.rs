//! Loads blocks of a file into the cache, after it was opened, or where its [writer](crate::CacheOnWrite) found no room for
//! them.

use cache::{BlockKind, Kinds};

use crate::format::{BlockHeader, BlockType, HEADER_LENGTH};
use crate::{Reader, Result};

/// Number of consecutive blocks without room in the cache after which loading stops. More than one, because parts of
/// the cache fill up at different times.
const WITHOUT_ROOM_MAX: u32 = 64;

impl Reader {
    /// Loads blocks of these kinds that are not cached. Set `asked_for` if the family's settings want them cached: they
    /// then replace blocks that were used once; otherwise they only use free space. Returns the number of loaded
    /// blocks. Stops early when the file is deleted or the cache has no room.
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
                // The decompressed block is larger than `disk_size`. So without room for `disk_size` bytes the block is
                // not read at all.
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

    /// Loads those of the given blocks that are not cached and for which there is free space; `blocks` are the offsets and
    /// lengths from [`Written::warm`](crate::Written::warm). Returns the number of loaded blocks. Stops early when the file
    /// is deleted.
    pub fn warm_blocks(&self, blocks: &[(u64, u32)]) -> Result<u64> {
        let mut read = 0;
        for &(at, length) in blocks {
            if self.cached.is_gone() {
                break;
            }
            // The kind of a block is known only after it was read, so room in the part of any kind is enough.
            let has_room =
                || BlockKind::ALL.into_iter().any(|kind| self.cached.has_room(at, kind, length as usize));
            if !self.cached.has(at) && has_room() {
                let block = self.read_block(at, Some(length))?;
                read += u64::from(self.cached.put(at, block, false));
            }
        }
        Ok(read)
    }
}
