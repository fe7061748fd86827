//! Records: the bytes that store a cell in a chunk, and places, which name records.
//!
//! ```text
//!   record:  [ sequence id 40 bits | length 24 bits ]  cell in KeyValue layout  padding to 4
//!   where sequence id or length do not fit:
//!            [ 0 | 2²⁴-1 ] [ sequence id 64 bits ] [ length 64 bits ]  cell  padding to 4
//! ```
//!
//! A [`Place`] names a record in 32 bits: the number of its chunk in the segment, and a quarter of the offset in the
//! chunk.

use cell::{Cell, SequenceId};

use crate::chunk::Chunk;
use crate::free_list::CHUNK_SIZE_MAX;

/// Number of bits of a place that hold the offset.
const OFFSET_BITS: u32 = (CHUNK_SIZE_MAX / GRAIN).trailing_zeros();
/// The alignment of records, in bytes.
pub(crate) const GRAIN: usize = 4;
/// Maximum number of chunks that a segment can address.
pub(crate) const CHUNKS_MAX: u32 = 1 << (32 - OFFSET_BITS);
/// Maximum number of chunks that an active segment fills: half of the maximum. A copy of its cells in another order may
/// need more chunks, and must fit into one segment too.
pub(crate) const CHUNKS_FILLED_MAX: u32 = CHUNKS_MAX / 2;
/// Size of a cache line of the processor, in bytes.
pub(crate) const LINE: usize = 64;
/// Number of cache lines that contain most keys: the record's header and 60 to 120 bytes of the key.
pub(crate) const KEY_LINES: usize = 2;
pub(crate) const LENGTH_BITS: u32 = 24;
pub(crate) const LENGTH_ESCAPE: u64 = (1 << LENGTH_BITS) - 1;

/// The address of a record within its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) u32);

impl Place {
    #[inline]
    pub(crate) fn new(chunk: u32, offset: usize) -> Place {
        debug_assert!(chunk < CHUNKS_MAX && offset.is_multiple_of(GRAIN) && offset < CHUNK_SIZE_MAX);
        Place(chunk << OFFSET_BITS | (offset / GRAIN) as u32)
    }

    #[inline]
    pub(crate) fn chunk(self) -> u32 {
        self.0 >> OFFSET_BITS
    }

    #[inline]
    pub(crate) fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize * GRAIN
    }

    /// Returns the place of the same record when its chunk has the number `chunk`.
    #[inline]
    pub(crate) fn in_chunk(self, chunk: u32) -> Place {
        Place(chunk << OFFSET_BITS | self.0 & ((1 << OFFSET_BITS) - 1))
    }
}

/// Returns the cell at `place` in `chunk`, which must be the chunk that the place names.
///
/// # Panics
/// When no record begins at that place.
#[inline]
pub(crate) fn cell_in(chunk: &Chunk, place: Place) -> Cell<'_> {
    cell_among(chunk.bytes(), place)
}

/// Like [`cell_in`], for a caller that has the chunk's bytes.
#[inline]
pub(crate) fn cell_among(bytes: &[u8], place: Place) -> Cell<'_> {
    let (word, bytes) = word(&bytes[place.offset()..]);
    let length = word & LENGTH_ESCAPE;
    if length != LENGTH_ESCAPE {
        return Cell::trusted(&bytes[..length as usize], SequenceId(word >> LENGTH_BITS));
    }
    let (sequence, bytes) = self::word(bytes);
    let (length, bytes) = self::word(bytes);
    Cell::trusted(&bytes[..length as usize], SequenceId(sequence))
}

/// Whether sequence id and length of a cell fit into one word, the short form of a record's header.
#[inline]
pub(crate) fn fits(length: usize, sequence: SequenceId) -> bool {
    (length as u64) < LENGTH_ESCAPE && sequence.0 < 1 << (u64::BITS - LENGTH_BITS)
}

/// Returns the size of a cell's record, in bytes.
#[inline]
pub(crate) fn record_bytes(cell: Cell<'_>) -> u64 {
    let length = cell.bytes().len();
    let head = if fits(length, cell.sequence()) { 8 } else { 24 };
    (head + length).next_multiple_of(GRAIN) as u64
}

/// Returns the approximate number of cache lines of a cell's record, limited to those worth prefetching: after a few
/// consecutive lines, the processor prefetches by itself.
#[inline]
pub(crate) fn lines_of(length: usize) -> usize {
    const LINES_MAX: usize = 32;
    // The header of the record, which precedes the cell, is part of the first line.
    (length / LINE + KEY_LINES).min(LINES_MAX)
}

/// Prefetches the first cache lines of the record at `place` in `chunk`.
#[inline]
pub(crate) fn fetch_in(chunk: &Chunk, place: Place, lines: usize) {
    (0..lines).for_each(|line| chunk.fetch(place.offset() + line * LINE));
}

/// Prefetches the part of a key that most comparisons read, of the record at `place` in a chunk with these bytes.
#[inline]
pub(crate) fn fetch_key(bytes: &[u8], place: Place) {
    cell::fetch(bytes, place.offset());
}

/// Prefetches this many cache lines of the record at `place` in a chunk with these bytes.
#[inline]
pub(crate) fn fetch_among(bytes: &[u8], place: Place, lines: usize) {
    let start = bytes.as_ptr().wrapping_add(place.offset());
    (0..lines).for_each(|line| cell::fetch_line(start.wrapping_add(line * LINE)));
}

#[inline]
fn word(bytes: &[u8]) -> (u64, &[u8]) {
    let (word, rest) = bytes.split_first_chunk::<8>().expect("a record begins with a word");
    (u64::from_le_bytes(*word), rest)
}

/// Number of bytes of the records in one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fill {
    /// Number of bytes of records that the index names.
    pub(crate) live: u64,
    /// Number of bytes of records that the index does not name any more.
    pub(crate) dead: u64,
}
