//! Cell blocks: many cells as contiguous bytes. A cell block follows a protobuf message on the wire, and is in the log.
//!
//! For each cell, `KeyValueCodec` and `KeyValueCodecWithTags` write `length 4B · the cell in KeyValue layout`; the
//! former omits the tags. Sequence ids are not part of a cell block.

use bytes::{BufMut, Bytes};

use crate::{Cell, Malformed, Result, SequenceId};

/// A validated cell block: every cell in it is complete.
#[derive(Clone, Debug, Default)]
pub struct CellBlock {
    bytes: Bytes,
    count: usize,
}

impl CellBlock {
    /// Validates that `bytes` are complete cells from start to end.
    pub fn parse(bytes: Bytes) -> Result<CellBlock> {
        let mut at = 0;
        let mut count = 0;
        while at < bytes.len() {
            let room = bytes.len() - at;
            let Some(length) = bytes[at..].first_chunk::<4>() else {
                return Err(Malformed { what: "cell block", offset: at, expected: 4, found: room as u64 });
            };
            let length = u32::from_be_bytes(*length) as usize;
            if length > room - 4 {
                let expected = room as u64 - 4;
                return Err(Malformed {
                    what: "cell block length",
                    offset: at,
                    expected,
                    found: length as u64,
                });
            }
            Cell::parse(&bytes[at + 4..at + 4 + length], SequenceId::ZERO)
                .map_err(|error| Malformed { offset: error.offset + at + 4, ..error })?;
            at += 4 + length;
            count += 1;
        }
        Ok(CellBlock { bytes, count })
    }

    /// Returns the number of cells.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the bytes as they were received.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the bytes as they were received.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Returns the cells in order, with sequence id zero.
    pub fn cells(&self) -> Cells<'_> {
        Cells { rest: &self.bytes }
    }
}

/// Iterates over the cells of a validated block.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let (cell, rest) = split_cell(self.rest)?;
        self.rest = rest;
        Some(Cell::trusted(cell, SequenceId::ZERO))
    }
}

/// Splits the first cell off a validated block: returns the cell's bytes without their length prefix, and the rest of
/// the block. Returns `None` at the end of the block.
#[inline]
pub fn split_cell(block: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = block.split_first_chunk::<4>()?;
    Some(rest.split_at(u32::from_be_bytes(*length) as usize))
}

/// Appends a cell without its tags to `out` (`KeyValueCodec`).
#[inline]
pub fn write_without_tags(out: &mut impl BufMut, cell: Cell<'_>) {
    let bytes = cell.bytes_without_tags();
    out.put_slice(&(bytes.len() as u32).to_be_bytes());
    out.put_slice(bytes);
}

/// Appends a cell with its tags to `out` (`KeyValueCodecWithTags`). A cell without tags gets a tag length of 0, since
/// readers expect those two bytes.
#[inline]
pub fn write_with_tags(out: &mut impl BufMut, cell: Cell<'_>) {
    let (plain, tags) = (cell.bytes_without_tags(), cell.tags().bytes());
    out.put_slice(&((plain.len() + 2 + tags.len()) as u32).to_be_bytes());
    out.put_slice(plain);
    out.put_slice(&(tags.len() as u16).to_be_bytes());
    out.put_slice(tags);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tags::write_tag;
    use crate::{CellParts, CellType, TagType, Timestamp};

    fn sample(value: &[u8], tags: &[u8]) -> Vec<u8> {
        CellParts {
            row: b"row",
            family: b"f",
            qualifier: b"q",
            timestamp: Timestamp(7),
            cell_type: CellType::Put,
            value,
            tags,
        }
        .to_vec()
        .expect("within limits")
    }

    #[test]
    fn what_is_written_is_read() {
        let mut tags = Vec::new();
        write_tag(&mut tags, TagType::Ttl as u8, &8u64.to_be_bytes());
        let (plain, tagged) = (sample(b"one", b""), sample(b"two", &tags));
        let mut with = Vec::new();
        let mut without = Vec::new();
        for bytes in [&plain, &tagged] {
            let cell = Cell::parse(bytes, SequenceId::ZERO).expect("whole");
            write_with_tags(&mut with, cell);
            write_without_tags(&mut without, cell);
        }
        let block = CellBlock::parse(Bytes::from(with)).expect("whole");
        let cells: Vec<_> = block.cells().collect();
        assert_eq!((block.count(), cells.len()), (2, 2));
        assert!(cells[0].tags().is_empty());
        assert_eq!(cells[1].tags().find(TagType::Ttl).expect("kept").value, 8u64.to_be_bytes());
        assert_eq!(cells[1].value(), b"two");
        let block = CellBlock::parse(Bytes::from(without)).expect("whole");
        assert!(block.cells().all(|cell| cell.tags().is_empty()));
        assert_eq!(block.cells().next().expect("first").bytes(), &plain[..]);
    }

    #[test]
    fn every_truncation_and_every_impossible_length_is_refused() {
        let mut whole = Vec::new();
        write_with_tags(&mut whole, Cell::parse(&sample(b"value", b""), SequenceId::ZERO).expect("whole"));
        for cut in 1..whole.len() {
            assert!(CellBlock::parse(Bytes::copy_from_slice(&whole[..cut])).is_err(), "cut at {cut}");
        }
        for at in [0, 4, 8, 12] {
            let mut absurd = whole.clone();
            absurd[at] = 0xff;
            assert!(CellBlock::parse(Bytes::from(absurd)).is_err(), "absurd length at {at}");
        }
    }
}
