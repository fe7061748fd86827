//! Finds where each cell of a block begins and ends, and computes the size that counts for it.

use std::ops::Range;

use cell::{Cell, SequenceId};

use super::Reader;
use crate::format::read_vlong;

impl Reader {
    /// Returns the end of the cell at offset `place`, and the start of the next cell; `None` if the cell is not
    /// complete.
    #[inline]
    pub(super) fn cell_end(&self, bytes: &[u8], place: usize) -> Option<(usize, usize)> {
        let end = self.end_before_number(bytes, place)?;
        let rest = bytes.get(end..)?;
        let next = if self.has_mvcc { end + read_vlong(rest)?.1 } else { end };
        Some((end, next))
    }

    /// Returns the end of the cell at offset `place`, without its sequence id. The end may be after the end of the
    /// block. `None` if the block ends within the cell's lengths.
    #[inline]
    pub(super) fn end_before_number(&self, bytes: &[u8], place: usize) -> Option<usize> {
        let word = |at: usize| -> Option<usize> {
            bytes.get(at..)?.first_chunk::<4>().map(|word| u32::from_be_bytes(*word) as usize)
        };
        let mut end = place.checked_add(8)?.checked_add(word(place)?)?.checked_add(word(place + 4)?)?;
        if self.has_tags {
            let tags = u16::from_be_bytes(*bytes.get(end..)?.first_chunk::<2>()?);
            end += 2 + usize::from(tags);
        }
        Some(end)
    }

    /// Returns the range of the cell at offset `place` of a validated block, and its sequence id.
    #[inline]
    pub(crate) fn place_of_cell(&self, bytes: &[u8], place: usize) -> (Range<usize>, SequenceId) {
        let end = self.end_before_number(bytes, place).expect("the block was checked");
        let sequence = self.common_sequence.unwrap_or_else(|| {
            SequenceId(read_vlong(&bytes[end..]).map_or(0, |(number, _)| u64::try_from(number).unwrap_or(0)))
        });
        (place..end, sequence)
    }

    /// Whether a cell of the file may have a tag.
    #[inline]
    pub fn may_have_tags(&self) -> bool {
        self.may_have_tags
    }

    /// Returns the newest sequence id of a cell; zero if cells of the file have no sequence ids, `None` if the file
    /// does not record it.
    #[inline]
    pub fn newest_write(&self) -> Option<SequenceId> {
        self.newest_write
    }

    /// Returns the cell at `place` of a validated block, for a file without tags. The cell has no sequence id.
    #[inline]
    pub(crate) fn untagged_at(bytes: &[u8], place: usize) -> Cell<'_> {
        let word = |at: usize| -> usize {
            bytes[at..].first_chunk::<4>().map_or(0, |word| u32::from_be_bytes(*word) as usize)
        };
        Cell::trusted(&bytes[place..place + 8 + word(place) + word(place + 4)], SequenceId::ZERO)
    }

    /// Returns the size in bytes that HBase counts in size limits for a cell of this file.
    ///
    /// HBase wraps the bytes of a block in an object of 38 bytes, and counts these with the cell's bytes. With an
    /// encoding that shares bytes of keys (PREFIX, DIFF, FAST_DIFF) it makes an object of 120 bytes, and adds row,
    /// family, qualifier, value and tags, but not the 20 bytes of lengths, timestamp and type. In both cases it does
    /// not count the length field of tags for a cell without tags.
    #[inline]
    pub fn heap_size(&self, cell: Cell<'_>) -> usize {
        let length = cell.bytes().len();
        if !self.has_tags {
            return self.object_bytes() + length;
        }
        let has_length = self.may_have_tags && !self.encoding.shares_key_bytes() && !cell.tags().is_empty();
        self.object_bytes() + length - if has_length { 0 } else { size_of::<u16>() }
    }

    /// Returns the heap size of the cell at `place` of a validated block, in a file without tags.
    #[inline]
    pub(crate) fn untagged_heap_size(&self, bytes: &[u8], place: usize) -> usize {
        self.object_bytes() + Reader::untagged_at(bytes, place).bytes().len()
    }

    /// Returns the number of bytes that HBase counts for a cell of this file in addition to the cell's own bytes.
    #[inline]
    pub(super) fn object_bytes(&self) -> usize {
        if self.encoding.shares_key_bytes() { 100 } else { 38 }
    }

    /// Returns the cell at `place` of a validated block.
    #[inline]
    pub(crate) fn cell_at<'a>(&self, bytes: &'a [u8], place: usize) -> Cell<'a> {
        let (cell, sequence) = self.place_of_cell(bytes, place);
        Cell::trusted(&bytes[cell], sequence)
    }
}
