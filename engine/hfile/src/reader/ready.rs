//! Prepares blocks for reads: decompresses them, validates every cell, and builds search structures.

use cache::{Block, BlockKind};
use cell::{Cell, Key, SequenceId, is_same_row};

use super::Reader;
use super::blocks::RawBlock;
use crate::Result;
use crate::cached_block::{self, CellPlaces};
use crate::encode::{self, Layout};
use crate::format::{BlockType, Encoding};
use crate::index::{Leaf, Ordered};
use crate::starts::Builder;

impl Reader {
    /// Builds the block that the cache keeps: ready to be read or, if so configured, still compressed as in the file.
    pub(super) fn to_be_kept(&self, at: u64, raw: RawBlock) -> Result<Block> {
        let is_data = matches!(raw.header.kind, BlockType::Data | BlockType::EncodedData);
        if !(is_data && self.keeps_packed()) {
            return self.decode(at, &raw);
        }
        let neighbours = raw.neighbours();
        Ok(cached_block::packed(raw.packed, neighbours))
    }

    /// Whether the cache keeps data blocks compressed, as in the file. Parts of such blocks cannot be used.
    pub(super) fn keeps_packed(&self) -> bool {
        cached_block::is_packed(&self.cached, self.compression, self.encoding)
    }

    /// Makes a block readable without further validation.
    pub(super) fn decode(&self, at: u64, raw: &RawBlock) -> Result<Block> {
        let neighbours = raw.neighbours();
        let block = |kind, bytes, cells| cached_block::ready(kind, bytes, cells, neighbours, self.comparator);
        let bytes = self.unpack(at, raw)?;
        match raw.header.kind {
            BlockType::Data if self.encoding == Encoding::None => {
                let places = self.check_cells(at, &bytes)?;
                Ok(block(BlockKind::Data, bytes, places))
            }
            BlockType::EncodedData if self.encoding == Encoding::RowIndexV1 => {
                let (area, rows) = self.cell_area(&bytes).ok_or_else(|| {
                    self.corrupt(at, "encoded block", "ROW_INDEX_V1 with its row starts", "other bytes")
                })?;
                let bytes = bytes.slice(2..2 + area);
                let places = self.check_cells(at, &bytes)?;
                // The row index stays in memory with the cells, which alone are counted.
                let cells = places.offsets.len();
                if rows > cells {
                    return Err(self.corrupt(at, "rows in the row index", format!("at most {cells}"), rows));
                }
                Ok(block(BlockKind::Data, bytes, places))
            }
            BlockType::EncodedData => {
                let plain = self.decode_cells(&bytes).ok_or_else(|| {
                    self.corrupt(
                        at,
                        "encoded block",
                        format!("{:?} of whole cells", self.encoding),
                        "other bytes",
                    )
                })?;
                let places = self.check_cells(at, &plain)?;
                Ok(block(BlockKind::Data, plain.into(), places))
            }
            BlockType::LeafIndex | BlockType::IntermediateIndex => {
                let sound = Leaf::check(&bytes).is_some_and(|leaf| {
                    leaf.len() > 0 && leaf.iter().all(|entry| Key::parse(entry.key).is_ok())
                });
                if !sound {
                    return Err(self.corrupt(at, "index block", "whole entries", "other bytes"));
                }
                Ok(block(BlockKind::Index, bytes, CellPlaces::default()))
            }
            BlockType::BloomChunk => Ok(block(BlockKind::Bloom, bytes, CellPlaces::default())),
            kind => Err(self.corrupt(at, "block kind", "one between data", format!("{kind:?}"))),
        }
    }

    fn decode_cells(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (id, bytes) = bytes.split_first_chunk::<2>()?;
        let layout =
            Layout { has_tags: self.has_tags, has_mvcc: self.has_mvcc, tags_by_number: self.tags_by_number };
        (Some(u16::from_be_bytes(*id)) == self.encoding.id())
            .then(|| encode::decode(self.encoding, layout, bytes))
            .flatten()
    }

    /// Returns the length in bytes of the cells in a ROW_INDEX_V1 block, and the number of rows in the row index, which
    /// follows them; `None` if the block has another encoding or is malformed.
    fn cell_area(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let (id, _) = bytes.split_first_chunk::<2>()?;
        let (rest, area) = bytes.split_last_chunk::<4>()?;
        let area = u32::from_be_bytes(*area) as usize;
        let rows = u32::from_be_bytes(*rest.get(2 + area..)?.first_chunk::<4>()?) as usize;
        let whole = 2 + area + 4 + rows.checked_mul(4)? + 4;
        (Some(u16::from_be_bytes(*id)) == Encoding::RowIndexV1.id() && whole == bytes.len())
            .then_some((area, rows))
    }

    /// Validates every cell of a block, and returns where each cell and each row starts.
    fn check_cells(&self, at: u64, bytes: &[u8]) -> Result<CellPlaces> {
        let (mut offsets, mut row_starts) = (Vec::with_capacity(bytes.len() / 64), Builder::default());
        let mut place = 0;
        let mut last: Option<Cell<'_>> = None;
        while place < bytes.len() {
            let (cell, next) = self.cell_end(bytes, place).ok_or_else(|| {
                self.corrupt(at, "cell", "one inside its block", format!("byte {place} of the block"))
            })?;
            let parsed = Cell::parse(&bytes[place..cell], SequenceId::ZERO).map_err(|error| {
                self.corrupt(at, "cell", format!("a whole one at byte {place} of the block"), error)
            })?;
            self.check_order(at, last, parsed)?;
            row_starts.push(last.is_none_or(|last| !is_same_row(last.row(), parsed.row())));
            last = Some(parsed);
            offsets.push(place as u32);
            place = next;
        }
        if offsets.is_empty() {
            return Err(self.corrupt(at, "data block", "a cell", "none"));
        }
        Ok(CellPlaces { offsets, row_starts })
    }
}
