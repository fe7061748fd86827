//! Finds, reads and verifies the blocks of an open file: by the index, from the cache, or from storage.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cache::{Block, BlockKind, Cells, Part};
use cell::{Key, Position};

use super::Reader;
use crate::ahead::{ReadAhead, ReadType};
use crate::awaited::{Lookup, UNKNOWN_LENGTH};
use crate::cached_block::Neighbours;
use crate::compress::Compression;
use crate::cursor::ReadOptions;
use crate::facts::note_data;
use crate::format::{BlockHeader, HEADER_LENGTH};
use crate::held::BlockAccess;
use crate::index::{Entries, Leaf, Ordered};
use crate::{Error, Result};

/// A verified block as it is in the file, with header, possibly compressed.
pub(crate) struct RawBlock {
    pub(super) header: BlockHeader,
    /// The bytes of the block from its header up to its checksums.
    pub(super) packed: Bytes,
    pub(super) disk_length: u32,
}

impl RawBlock {
    pub(super) fn neighbours(&self) -> Neighbours {
        let previous = u64::try_from(self.header.previous).ok();
        Neighbours { disk_length: self.disk_length, previous }
    }
}

impl Reader {
    /// Reads and verifies the block at `at`, which must end at or before `end`.
    pub(super) fn read_raw(&self, at: u64, disk_length: Option<u32>, end: u64) -> Result<RawBlock> {
        let room = end.saturating_sub(at);
        let mut block = vec![0; HEADER_LENGTH];
        if let Some(length) = disk_length {
            if (length as usize) < HEADER_LENGTH || u64::from(length) > room {
                return Err(self.corrupt(at, "block size in the index", format!("at most {room}"), length));
            }
            block.resize(length as usize, 0);
        } else if room < HEADER_LENGTH as u64 {
            return Err(self.corrupt(at, "room for a block", HEADER_LENGTH, room));
        }
        self.file.read_at(at, &mut block)?;
        let header = self.header_of(at, &block)?;
        let length = header.disk_length();
        match disk_length {
            Some(expected) if u64::from(expected) != length => {
                return Err(self.corrupt(at, "block size", expected, length));
            }
            None if length > room => {
                return Err(self.corrupt(at, "block size", format!("at most {room}"), length));
            }
            None => {
                block.resize(length as usize, 0);
                self.file.read_at(at + HEADER_LENGTH as u64, &mut block[HEADER_LENGTH..])?;
            }
            Some(_) => {}
        }
        self.verify(at, &header, &block)?;
        let packed = Bytes::from(block).slice(..header.data_size as usize);
        Ok(RawBlock { header, packed, disk_length: length as u32 })
    }

    /// Parses the header at the start of `bytes`, which must be at least as long as a header.
    pub(super) fn header_of(&self, at: u64, bytes: &[u8]) -> Result<BlockHeader> {
        let header = bytes.first_chunk::<HEADER_LENGTH>().expect("at least a header was read");
        BlockHeader::parse(header).map_err(|(what, expected, found)| self.corrupt(at, what, expected, found))
    }

    pub(super) fn verify(&self, at: u64, header: &BlockHeader, block: &[u8]) -> Result<()> {
        if env::planted(26) {
            return Ok(());
        }
        header.verify(block).map_err(|(chunk, expected, found)| {
            self.corrupt(
                at + chunk as u64,
                "block checksum",
                format!("{expected:08x}"),
                format!("{found:08x}"),
            )
        })
    }

    /// Returns the block at `at` from bytes that were read ahead; if it is not among them, reads it and possibly the
    /// bytes after it.
    pub(super) fn read_raw_ahead(
        &self,
        at: u64,
        read_type: ReadType,
        ahead: &mut Option<Box<ReadAhead>>,
    ) -> Result<RawBlock> {
        let ahead = ahead.get_or_insert_with(Box::default);
        let mut found = self.raw_within(at, ahead.at(at))?;
        if found.is_none()
            && let Some(window) =
                ahead.window(at, read_type, self.cached.cache().options().read_ahead_bytes_max)
        {
            let length = (window as u64).min(self.data_end.saturating_sub(at));
            // If this read fails, the error may concern bytes after the block. So the block is then read alone.
            if ahead.take_early(at) || self.file.read_at(at, ahead.refill(at, length as usize)).is_ok() {
                found = self.raw_within(at, ahead.at(at))?;
                ahead.begin_early(&*self.file, self.data_end);
            } else {
                ahead.forget();
            }
        }
        let raw = match found {
            Some(raw) => raw,
            None => self.read_raw(at, None, self.data_end)?,
        };
        ahead.note(at..at + u64::from(raw.disk_length));
        Ok(raw)
    }

    /// Returns the block at offset `at`, which begins at the start of `bytes`, after verifying its checksums. Returns
    /// `None` if `bytes` do not contain all of it.
    pub(super) fn raw_within(&self, at: u64, bytes: Option<&[u8]>) -> Result<Option<RawBlock>> {
        let Some(bytes) = bytes.filter(|bytes| bytes.len() >= HEADER_LENGTH) else { return Ok(None) };
        let header = self.header_of(at, bytes)?;
        let length = header.disk_length();
        let Some(block) = usize::try_from(length).ok().and_then(|length| bytes.get(..length)) else {
            return Ok(None);
        };
        self.verify(at, &header, block)?;
        let packed = Bytes::copy_from_slice(&block[..header.data_size as usize]);
        Ok(Some(RawBlock { header, packed, disk_length: length as u32 }))
    }

    /// Returns the decompressed content of a block, without its header.
    pub(super) fn unpack(&self, at: u64, raw: &RawBlock) -> Result<Bytes> {
        let payload = raw.packed.slice(HEADER_LENGTH..);
        let size = raw.header.unpacked_size as usize;
        if self.compression == Compression::None && payload.len() == size {
            return Ok(payload);
        }
        let bytes = self
            .compression
            .unpack(&payload, size)
            .map_err(|error| self.corrupt(at, "packed block", format!("{size} bytes"), error))?;
        Ok(bytes.into())
    }

    /// Returns the block at `at` from the blocks that the reader keeps, from the cache, or from the file.
    pub(crate) fn block(
        &self,
        at: u64,
        disk_length: Option<u32>,
        expected: BlockKind,
        way: BlockAccess<'_>,
    ) -> Result<Arc<Block>> {
        let block = match way.held {
            None => self.look(at, disk_length, expected, way.options)?,
            Some(held) => held.block(at, || self.look(at, disk_length, expected, way.options))?,
        };
        if block.kind != expected {
            return Err(self.corrupt(at, "block kind", format!("{expected:?}"), format!("{:?}", block.kind)));
        }
        if expected == BlockKind::Data {
            note_data(block.bytes.len());
        }
        Ok(block)
    }

    /// Returns the cells of the data block at `at` that `pick` chooses, for a reader of few cells. The result is a part
    /// of the block, if the block is on a device of the cache and this reader looks at it for the first time. Otherwise
    /// it is the whole block.
    pub(crate) fn cells(
        &self,
        at: u64,
        disk_length: Option<u32>,
        way: BlockAccess<'_>,
        pick: impl FnOnce(&Part) -> Range<usize>,
    ) -> Result<Cells> {
        if !self.keeps_packed()
            && way.held.is_none_or(|held| held.is_first(at))
            && let Some(cells) = self.cached.part(at, way.options.cache_blocks, pick)
        {
            let length = match &cells {
                Cells::Part(part) => part.block_length(),
                Cells::Whole(block) if block.kind == BlockKind::Data && !block.packed => block.bytes.len(),
                Cells::Whole(_) => {
                    return self.block(at, disk_length, BlockKind::Data, way).map(Cells::Whole);
                }
            };
            note_data(length);
            return Ok(cells);
        }
        self.block(at, disk_length, BlockKind::Data, way).map(Cells::Whole)
    }

    /// Returns the block at `at`, which may be of any kind, from the cache or from the file. The cache counts a miss
    /// under the kind `expected`.
    pub(super) fn look(
        &self,
        at: u64,
        disk_length: Option<u32>,
        expected: BlockKind,
        options: ReadOptions,
    ) -> Result<Arc<Block>> {
        let read = || self.read_raw(at, disk_length, self.data_end);
        let found = self.cached.block(at, expected, options.ask(), || self.to_be_kept(at, read()?))?;
        self.unpacked(
            at,
            match found {
                Some(block) => block,
                None => self.arrived(at, expected, options, || {
                    disk_length.map_or(UNKNOWN_LENGTH, |length| length as usize)
                })?,
            },
        )
    }

    /// Returns the block at `at`, which is not in the cache, from the bytes of an awaited read.
    ///
    /// If no bytes have arrived, fails with an error that the caller can await; the awaited read has as many bytes as
    /// `length` returns.
    #[cold]
    pub(super) fn arrived(
        &self,
        at: u64,
        expected: BlockKind,
        options: ReadOptions,
        length: impl FnOnce() -> usize,
    ) -> Result<Arc<Block>> {
        let wanted = match self.fetches.lookup(at) {
            Lookup::Pending(missing) => return Err(Error::Missing(missing)),
            Lookup::Unknown => length(),
            Lookup::Arrived(bytes) => {
                if let Some(raw) = self.raw_within(at, Some(&bytes))? {
                    let block = self.to_be_kept(at, raw)?;
                    return Ok(self.cached.bring(at, expected, options.ask(), block));
                }
                let is_header_there = bytes.len() >= HEADER_LENGTH;
                if is_header_there { self.header_of(at, &bytes)?.disk_length() as usize } else { length() }
            }
        };
        let room = self.data_end.saturating_sub(at);
        if room < HEADER_LENGTH as u64 {
            return Err(self.corrupt(at, "room for a block", HEADER_LENGTH, room));
        }
        // A damaged header may claim any length. Read no more than the file has; the block is then found to be
        // incomplete.
        let wanted = wanted.max(HEADER_LENGTH).min(usize::try_from(room).unwrap_or(usize::MAX));
        if let Lookup::Arrived(bytes) = self.fetches.lookup(at)
            && bytes.len() >= wanted
        {
            return Err(self.corrupt(at, "block size", format!("at most {room}"), "more"));
        }
        Err(match self.file.read_awaited(at, wanted) {
            Some(read) => Error::Missing(self.fetches.begin(&self.name, at, wanted, read)),
            None => Error::NotCached,
        })
    }

    /// Returns the block in the form that readers need: unpacks it if the cache keeps it compressed.
    pub(super) fn unpacked(&self, at: u64, block: Arc<Block>) -> Result<Arc<Block>> {
        if !block.packed {
            return Ok(block);
        }
        let raw = RawBlock {
            header: self.header_of(at, &block.bytes)?,
            packed: block.bytes.clone(),
            disk_length: block.disk_length,
        };
        self.decode(at, &raw).map(Arc::new)
    }

    /// Reads the block at `at` from the file, and returns it in the form in which the cache keeps it.
    pub(crate) fn read_block(&self, at: u64, disk_length: Option<u32>) -> Result<Block> {
        self.to_be_kept(at, self.read_raw(at, disk_length, self.data_end)?)
    }

    /// As [`read_block`](Reader::read_block), from the bytes in `ahead`, which are read for the following blocks, too.
    pub(crate) fn read_block_ahead(
        &self,
        at: u64,
        read_type: ReadType,
        ahead: &mut Option<Box<ReadAhead>>,
    ) -> Result<Block> {
        self.to_be_kept(at, self.read_raw_ahead(at, read_type, ahead)?)
    }

    pub(crate) fn root(&self) -> &Entries {
        &self.root
    }

    pub(crate) fn levels(&self) -> u32 {
        self.levels
    }

    /// Returns the offset and length of the data block that would contain `position`, or of the first block if
    /// `position` is before all of them; `None` for a file without cells.
    pub(crate) fn find_block(
        &self,
        position: Position<'_>,
        way: BlockAccess<'_>,
    ) -> Result<Option<(u64, u32)>> {
        if self.root.is_empty() {
            return Ok(None);
        }
        let mut place = self.pick(&self.root, position);
        for _ in 1..self.levels {
            let block = self.block(place.0, Some(place.1), BlockKind::Index, way)?;
            let leaf = Leaf::checked(&block.bytes).expect("the block was checked");
            place = self.pick(&leaf, position);
        }
        Ok(Some(place))
    }

    /// Returns the offset and length of the block that this level of the index names for `position`: of the first block
    /// if `position` is before all of them.
    pub(super) fn pick(&self, entries: &impl Ordered, position: Position<'_>) -> (u64, u32) {
        // The key of an index entry is equal to the block's first cell or before it. So a block with an equal key may
        // contain the position.
        let after = entries.partition(entries.of_row(position.key.row()), |entry| {
            self.comparator.compare_keys(Key::trusted(entry.key), position.key).is_le()
        });
        // The previous block may end with cells of the same key and newer sequence ids. So the search goes back to the
        // last block whose entry has a smaller key.
        let mut index = after.saturating_sub(1);
        while index > 0
            && self.comparator.compare_keys(Key::trusted(entries.at(index).key), position.key).is_eq()
        {
            index -= 1;
        }
        let entry = entries.at(index);
        (entry.offset, entry.disk_length)
    }

    /// Returns the first cells of the data block right after the one at `at`, whose length in the file is
    /// `disk_length`. Returns `None` unless the next block is in memory, or a part of it can be read without a wait.
    pub(crate) fn part_after(&self, at: u64, disk_length: u32, way: BlockAccess<'_>) -> Option<(u64, Cells)> {
        let next = at + u64::from(disk_length);
        if next > self.last_data || !way.held.is_none_or(|held| held.is_first(next)) {
            return None;
        }
        let cells = self.cached.part(next, way.options.cache_blocks, |_| 0..2)?;
        match &cells {
            Cells::Part(part) => note_data(part.block_length()),
            Cells::Whole(block) if block.kind == BlockKind::Data && !block.packed => {
                note_data(block.bytes.len())
            }
            // A block that is still packed is not used here: the caller looks it up again and unpacks it.
            Cells::Whole(_) => return None,
        }
        Some((next, cells))
    }

    /// Returns the data block after the one at `at`, whose length in the file is `disk_length`; `None` after the last
    /// block. `ahead` has the bytes that were read ahead for this cursor.
    pub(crate) fn block_after(
        &self,
        at: u64,
        disk_length: u32,
        options: ReadOptions,
        ahead: &mut Option<Box<ReadAhead>>,
    ) -> Result<Option<(u64, Arc<Block>)>> {
        if at == self.last_data {
            return Ok(None);
        }
        if at > self.last_data {
            return Err(self.corrupt(at, "last data block", self.last_data, "one after it"));
        }
        let mut next = at + u64::from(disk_length);
        while next <= self.last_data {
            // Index leaves and Bloom filter chunks are between data blocks. Their lengths come from the cache, or they
            // are read.
            let read = || self.read_block_ahead(next, options.read_type, ahead);
            let found = self.cached.block(next, BlockKind::Data, options.ask(), read)?;
            let block = match found {
                Some(block) => block,
                None => self.arrived_ahead(next, options, ahead)?,
            };
            let block = self.unpacked(next, block)?;
            if block.kind == BlockKind::Data {
                note_data(block.bytes.len());
                return Ok(Some((next, block)));
            }
            next += u64::from(block.disk_length);
        }
        Err(self.corrupt(at, "last data block", self.last_data, "none there"))
    }

    /// Like [`arrived`](Reader::arrived), for a cursor that reads ahead: it may await more than one block.
    #[cold]
    pub(super) fn arrived_ahead(
        &self,
        at: u64,
        options: ReadOptions,
        ahead: &mut Option<Box<ReadAhead>>,
    ) -> Result<Arc<Block>> {
        let ahead = ahead.get_or_insert_with(Box::default);
        let window_max = self.cached.cache().options().read_ahead_bytes_max;
        let window = || ahead.window_awaited(at, options.read_type, window_max).max(UNKNOWN_LENGTH);
        let block = self.arrived(at, BlockKind::Data, options, window)?;
        ahead.note(at..at + u64::from(block.disk_length));
        Ok(block)
    }

    /// Prefetches the beginning of the next data block into the processor's cache, if that block is in the block cache:
    /// its cell offsets, row-start bits and first `bytes` bytes. `at` is the offset of the current block, and
    /// `disk_length` its length in the file. Returns the next block if it was prefetched. The block cache does not
    /// count this as a use.
    pub(crate) fn fetch_block_after(&self, at: u64, disk_length: u32, bytes: usize) -> Option<Arc<Block>> {
        let next = at + u64::from(disk_length);
        if next > self.last_data {
            return None;
        }
        let block = self.cached.peek(BlockKind::Data, std::iter::once(next)).pop()??;
        cell::fetch_line(block.offsets.as_ptr().cast());
        cell::fetch_line(block.row_starts.as_ptr().cast());
        // The first cell is at or near the start of the block. Its exact offset is not read, because that would wait
        // for memory.
        cell::fetch_whole(block.bytes.get(..bytes).unwrap_or_default());
        Some(block)
    }
}
