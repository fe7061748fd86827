//! The memory of a segment's cells: each is copied once, one after the other, into chunks.
//!
//! ```text
//!   record:  [ sequence id 40 bits | length 24 bits ]  cell in KeyValue layout  padding to 4
//!   where sequence id or length do not fit:
//!            [ 0 | 2²⁴-1 ] [ sequence id 64 bits ] [ length 64 bits ]  cell  padding to 4
//! ```
//!
//! A [`Place`] is the 32-bit address of a record: the number of its chunk, and a quarter of its offset there. A cell
//! too large for its share of a chunk has a chunk of its own. A segment can address 8,192 chunks: at the usual size
//! this is at least 2 GB and mostly 16 GB, at the smallest size as little as 4 MB. An active segment uses at most half
//! of them ([`Filler::has_room`]); later writes go to its successor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cell::{Cell, SequenceId};
use env::sync::Mutex;

use crate::Pool;
use crate::chunk::{Appender, Chunk};
use crate::pool::CHUNK_SIZE_MAX;
use crate::records::Records;

/// Bits of a place that hold the offset.
const OFFSET_BITS: u32 = (CHUNK_SIZE_MAX / GRAIN).trailing_zeros();
/// Records begin at multiples of this, in bytes.
const GRAIN: usize = 4;
/// Maximum number of chunks that a segment can address.
pub(crate) const CHUNKS_MAX: u32 = 1 << (32 - OFFSET_BITS);
/// Maximum number of chunks that an active segment fills. Half remains, so that a reordered copy of its cells, which
/// may need more chunks, is one segment too.
pub(crate) const CHUNKS_FILLED_MAX: u32 = CHUNKS_MAX / 2;
/// Bytes in a cache line.
pub(crate) const LINE: usize = 64;
/// Cache lines that contain most keys: the record's head and 60 to 120 bytes.
pub(crate) const KEY_LINES: usize = 2;
const LENGTH_BITS: u32 = 24;
const LENGTH_ESCAPE: u64 = (1 << LENGTH_BITS) - 1;

/// The address of a record within its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) u32);

impl Place {
    #[inline]
    fn new(chunk: u32, offset: usize) -> Place {
        debug_assert!(chunk < CHUNKS_MAX && offset.is_multiple_of(GRAIN) && offset < CHUNK_SIZE_MAX);
        Place(chunk << OFFSET_BITS | (offset / GRAIN) as u32)
    }

    #[inline]
    pub(crate) fn chunk(self) -> u32 {
        self.0 >> OFFSET_BITS
    }

    #[inline]
    fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize * GRAIN
    }

    /// Returns the same record's place after its chunk was renumbered.
    #[inline]
    pub(crate) fn in_chunk(self, chunk: u32) -> Place {
        Place(chunk << OFFSET_BITS | self.0 & ((1 << OFFSET_BITS) - 1))
    }
}

/// Returns the cell at `place` in `chunk`, which must be the chunk that the place names.
///
/// # Panics
/// When no record begins there.
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

/// Whether sequence id and length of a cell fit one word.
#[inline]
fn fits(length: usize, sequence: SequenceId) -> bool {
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
/// consecutive lines a processor prefetches by itself.
#[inline]
pub(crate) fn lines_of(length: usize) -> usize {
    const LINES_MAX: usize = 32;
    // The record's head precedes the cell.
    (length / LINE + KEY_LINES).min(LINES_MAX)
}

/// Prefetches the first cache lines of the record at `place` in `chunk`.
#[inline]
pub(crate) fn fetch_in(chunk: &Chunk, place: Place, lines: usize) {
    (0..lines).for_each(|line| chunk.fetch(place.offset() + line * LINE));
}

/// Prefetches the key of the record at `place` in a chunk with these bytes, and the bytes after it that a comparison
/// reads at once.
#[inline]
pub(crate) fn fetch_key(bytes: &[u8], place: Place) {
    cell::fetch(bytes, place.offset());
}

/// Prefetches this many cache lines of the record.
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

/// Provides the fillers of a segment with chunks.
pub(crate) struct Source {
    pool: Arc<Pool>,
    /// Chunks that the previous segment left partly filled. They are used first, the last one before the others.
    left_open: Mutex<Vec<Appender>>,
    /// Number of chunks that the segment has, including those that its fillers are sure to get: see
    /// [`Filler::has_room`].
    promised: AtomicU32,
}

impl Source {
    /// Creates a source that hands out `left_open`, the last one first, and then chunks from `pool`.
    pub(crate) fn new(pool: Arc<Pool>, left_open: Vec<Appender>) -> Source {
        Source { pool, left_open: Mutex::new(left_open), promised: AtomicU32::new(0) }
    }

    fn chunk(&self) -> Appender {
        let left = self.left_open.lock().pop();
        left.unwrap_or_else(|| self.pool.chunk())
    }

    fn promise(&self) -> bool {
        let one_more = |chunks| (chunks < CHUNKS_FILLED_MAX).then_some(chunks + 1);
        self.promised.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Takes the chunks that no filler has used.
    pub(crate) fn take_left(&self) -> Vec<Appender> {
        std::mem::take(&mut *self.left_open.lock())
    }
}

/// Bytes of records in one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fill {
    /// Bytes of records that the index names.
    pub(crate) live: u64,
    /// Bytes of records that the index does not name any more.
    pub(crate) dead: u64,
}

/// The chunk that a filler fills.
#[derive(Debug)]
struct Open {
    appender: Appender,
    /// The chunk's number in this segment.
    number: u32,
    /// The room in the chunk when the filler began, in bytes.
    room: usize,
}

/// Copies cells into chunks. A segment has one filler for each concurrent writer.
#[derive(Debug, Default)]
pub(crate) struct Filler {
    open: Option<Open>,
    /// Chunks that the filler has finished, by number, and the bytes that it has put there.
    left: Vec<(u32, usize)>,
    /// Whether a chunk number is reserved for this filler's next chunk.
    is_promised: bool,
}

impl Filler {
    /// Takes the partly filled chunk, for the next segment.
    pub(crate) fn take_open(&mut self) -> Option<Appender> {
        self.leave()
    }

    /// Finishes the current chunk.
    fn leave(&mut self) -> Option<Appender> {
        let Open { appender, number, room } = self.open.take()?;
        self.left.push((number, room - appender.room()));
        Some(appender)
    }

    /// Returns the finished chunks, by number, and the bytes that the filler has put there.
    pub(crate) fn left(&self) -> &[(u32, usize)] {
        &self.left
    }

    /// Whether an active segment is sure to have room for another cell.
    #[inline]
    pub(crate) fn has_room(&mut self, source: &Source) -> bool {
        self.is_promised = self.is_promised || source.promise();
        self.is_promised
    }

    /// Copies a validated cell into a chunk of `source`, and returns its place and the size of its record. A chunk that
    /// is new to the segment is added to `records` before the place is returned.
    ///
    /// # Panics
    /// When the segment cannot address another chunk.
    #[inline]
    pub(crate) fn copy(
        &mut self,
        bytes: &[u8],
        sequence: SequenceId,
        source: &Source,
        records: &Records,
    ) -> (Place, usize) {
        let mut header = [0; 24];
        let header: &[u8] = if fits(bytes.len(), sequence) {
            let word = sequence.0 << LENGTH_BITS | bytes.len() as u64;
            header[..8].copy_from_slice(&word.to_le_bytes());
            &header[..8]
        } else {
            header[..8].copy_from_slice(&LENGTH_ESCAPE.to_le_bytes());
            header[8..16].copy_from_slice(&sequence.0.to_le_bytes());
            header[16..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            &header
        };
        let length = header.len() + bytes.len();
        let padding = length.next_multiple_of(GRAIN) - length;
        if length + padding > source.pool.allocation_max() {
            let mut own = Pool::chunk_for(length + padding);
            self.is_promised = false;
            let number = records.add(own.chunk());
            self.left.push((number, length + padding));
            return (Place::new(number, own.append([header, bytes], padding)), length + padding);
        }
        let Open { appender, number, .. } = match &mut self.open {
            Some(open) if open.appender.room() >= length + padding => open,
            _ => self.begin(length + padding, source, records),
        };
        (Place::new(*number, appender.append([header, bytes], padding)), length + padding)
    }

    /// Continues in the next chunk that has room for `length` bytes.
    #[cold]
    fn begin(&mut self, length: usize, source: &Source, records: &Records) -> &mut Open {
        self.leave();
        let mut appender = source.chunk();
        while appender.room() < length {
            appender = source.chunk();
        }
        self.is_promised = false;
        let number = records.add(appender.chunk());
        let room = appender.room();
        self.open.insert(Open { appender, number, room })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use cell::Comparator;

    fn cell(row: &str, value: usize) -> Vec<u8> {
        sample::cell(row.as_bytes(), b"q", 1, &vec![b'v'; value])
    }

    #[test]
    fn cells_of_every_size_are_found_again() {
        let source = Source::new(Pool::new(16 << 10, 8), Vec::new());
        let (mut fillers, records) =
            ([Filler::default(), Filler::default()], Records::new(Comparator::Table));
        let mut copied = Vec::new();
        let sizes = [0, 1, 2, 3, 100, 1_000, 2_000, 3_000, 50_000, 5];
        for (number, size) in sizes.iter().cycle().take(60).enumerate() {
            let bytes = cell(&format!("row{number}"), *size);
            let sequence = SequenceId([7, 1 << 40, u64::MAX][number % 3]);
            let (place, taken) = fillers[number / 7 % 2].copy(&bytes, sequence, &source, &records);
            assert_eq!(taken as u64, record_bytes(Cell::trusted(&bytes, sequence)));
            assert!(taken >= bytes.len() + 8 && taken <= bytes.len() + 27, "{taken}");
            copied.push((bytes, sequence, place));
        }
        for (bytes, sequence, place) in copied {
            let found = records.cell(place);
            assert_eq!((found.bytes(), found.sequence()), (&bytes[..], sequence));
        }
    }

    #[test]
    fn the_next_segment_goes_on_in_the_chunks_that_are_not_full() {
        let pool = Pool::new(16 << 10, 8);
        let copy = |filler: &mut Filler, row, source: &Source, records: &Records| {
            filler.copy(&cell(row, 9), SequenceId(1), source, records).0
        };
        let source = Source::new(Arc::clone(&pool), Vec::new());
        let (mut fillers, records) =
            ([Filler::default(), Filler::default()], Records::new(Comparator::Table));
        let earlier =
            ["a", "b"].map(|row| copy(&mut fillers[usize::from(row == "b")], row, &source, &records));
        let left = fillers.each_mut().map(|filler| filler.take_open().expect("there is room in it")).into();

        let source = Source::new(Arc::clone(&pool), left);
        let (mut fillers, after) = ([Filler::default(), Filler::default()], Records::new(Comparator::Table));
        let later = ["c", "d"].map(|row| copy(&mut fillers[usize::from(row == "d")], row, &source, &after));
        assert!(source.take_left().is_empty());
        let row = |records: &Records, place: Place| records.cell(place).row().to_vec();
        assert_eq!(earlier.map(|place| row(&records, place)), [b"a", b"b"]);
        assert_eq!(later.map(|place| row(&after, place)), [b"c", b"d"]);
        assert_eq!(later.map(Place::chunk), [0, 1], "they have numbers of their own there");
        assert_eq!(pool.usage().used, 2);
    }
}
