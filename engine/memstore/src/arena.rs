//! Where the cells of a segment lie: copied once, one after the other, into chunks.
//!
//! ```text
//!   record:  [ sequence id 40 bits | length 24 bits ]  cell in KeyValue layout  padding to 4
//!   where sequence id or length do not fit:
//!            [ 0 | 2²⁴-1 ] [ sequence id 64 bits ] [ length 64 bits ]  cell  padding to 4
//! ```
//!
//! A [`Place`] says in 32 bits where a record is: the number of the chunk, and a quarter of the offset in it. Cells too
//! large for a share of a chunk have a chunk of their own. A segment reaches 8,192 chunks: of the usual size that is at least
//! 2 GB and mostly 16, of the smallest size as little as 4 MB. One that takes writes has no more than half of them
//! ([`Filler::has_room`]); what comes then goes to its successor.

use std::sync::Arc;

use cell::{Cell, SequenceId};

use crate::Pool;
use crate::chunk::{Appender, Chunk};
use crate::pool::CHUNK_SIZE_MAX;

/// Bits of a place that say where in a chunk.
const OFFSET_BITS: u32 = (CHUNK_SIZE_MAX / GRAIN).trailing_zeros();
/// Records begin at multiples of this.
const GRAIN: usize = 4;
/// Chunks that one segment can tell apart.
pub(crate) const CHUNKS_MAX: u32 = 1 << (32 - OFFSET_BITS);
/// Chunks that a segment fills: so few that a copy of its cells in another order, which may take some more, is one segment,
/// too.
pub(crate) const CHUNKS_FILLED_MAX: u32 = CHUNKS_MAX / 2;
/// Bytes that memory gives at a time.
const LINE: usize = 64;
/// Lines in which most keys end: the head of the record and 60 to 120 bytes.
pub(crate) const KEY_LINES: usize = 2;
const LENGTH_BITS: u32 = 24;
const LENGTH_ESCAPE: u64 = (1 << LENGTH_BITS) - 1;

/// Where a record is among the chunks of its segment.
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

    /// The same record, when its chunk has another number.
    #[inline]
    pub(crate) fn in_chunk(self, chunk: u32) -> Place {
        Place(chunk << OFFSET_BITS | self.0 & ((1 << OFFSET_BITS) - 1))
    }
}

/// The cell at `place` in `chunk`, which is the chunk that the place names.
///
/// # Panics
/// When there is no record at that place.
#[inline]
pub(crate) fn cell_in(chunk: &Chunk, place: Place) -> Cell<'_> {
    let bytes = &chunk.bytes()[place.offset()..];
    let (word, bytes) = word(bytes);
    let length = word & LENGTH_ESCAPE;
    if length != LENGTH_ESCAPE {
        return Cell::trusted(&bytes[..length as usize], SequenceId(word >> LENGTH_BITS));
    }
    let (sequence, bytes) = self::word(bytes);
    let (length, bytes) = self::word(bytes);
    Cell::trusted(&bytes[..length as usize], SequenceId(sequence))
}

/// Whether sequence id and length of a cell share a word.
#[inline]
fn fits(length: usize, sequence: SequenceId) -> bool {
    (length as u64) < LENGTH_ESCAPE && sequence.0 < 1 << (u64::BITS - LENGTH_BITS)
}

/// How many bytes the record of a cell takes.
#[inline]
pub(crate) fn record_bytes(cell: Cell<'_>) -> u64 {
    let length = cell.bytes().len();
    let head = if fits(length, cell.sequence()) { 8 } else { 24 };
    (head + length).next_multiple_of(GRAIN) as u64
}

/// Asks the memory for the first lines of the record at `place` in `chunk`, which is wanted soon.
#[inline]
pub(crate) fn fetch_in(chunk: &Chunk, place: Place, lines: usize) {
    (0..lines).for_each(|line| chunk.fetch(place.offset() + line * LINE));
}

#[inline]
fn word(bytes: &[u8]) -> (u64, &[u8]) {
    let (word, rest) = bytes.split_first_chunk::<8>().expect("a record begins with a word");
    (u64::from_le_bytes(*word), rest)
}

/// Copies cells into chunks, the last of which it goes on filling.
#[derive(Debug)]
pub(crate) struct Filler {
    pool: Arc<Pool>,
    /// The chunk that is being filled, and its number once this segment has put something there.
    open: Option<(Appender, Option<u32>)>,
    /// How many chunks the segment has.
    chunks: u32,
}

impl Filler {
    /// Fills from the start of a chunk, or goes on where another stopped.
    pub(crate) fn new(pool: Arc<Pool>, open: Option<Appender>) -> Filler {
        Filler { pool, open: open.map(|appender| (appender, None)), chunks: 0 }
    }

    /// Fills chunks of a segment that has some already.
    pub(crate) fn beside(pool: Arc<Pool>, chunks: u32) -> Filler {
        Filler { pool, open: None, chunks }
    }

    /// The chunk that is not full yet, for the segment that comes next.
    pub(crate) fn take_open(&mut self) -> Option<Appender> {
        self.open.take().map(|(appender, _)| appender)
    }

    /// Whether another cell has room for certain, in a segment that takes writes.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.chunks < CHUNKS_FILLED_MAX
    }

    /// Copies a cell, whose bytes were checked before. `added` learns of each chunk that the segment has not had yet, before
    /// the place is given. Says how many bytes the record takes beside.
    ///
    /// # Panics
    /// When the segment has no number left for another chunk.
    #[inline]
    pub(crate) fn copy(
        &mut self,
        bytes: &[u8],
        sequence: SequenceId,
        mut added: impl FnMut(u32, &Arc<Chunk>),
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
        if length + padding > self.pool.allocation_max() {
            let mut own = Pool::chunk_for(length + padding);
            let number = self.next_chunk(own.chunk(), &mut added);
            return (Place::new(number, own.append([header, bytes], padding)), length + padding);
        }
        if self.open.as_ref().is_none_or(|(appender, _)| appender.room() < length + padding) {
            self.open = Some((self.pool.chunk(), None));
        }
        let (mut appender, number) = self.open.take().expect("opened above");
        let number = number.unwrap_or_else(|| self.next_chunk(appender.chunk(), &mut added));
        let offset = appender.append([header, bytes], padding);
        self.open = Some((appender, Some(number)));
        (Place::new(number, offset), length + padding)
    }

    fn next_chunk(&mut self, chunk: &Arc<Chunk>, added: &mut impl FnMut(u32, &Arc<Chunk>)) -> u32 {
        let number = self.chunks;
        assert!(number < CHUNKS_MAX, "a segment has at most {CHUNKS_MAX} chunks");
        self.chunks += 1;
        added(number, chunk);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::{CellParts, CellType, Timestamp};

    fn cell(row: &str, value: usize) -> Vec<u8> {
        let value = vec![b'v'; value];
        let parts = CellParts {
            row: row.as_bytes(),
            family: b"f",
            qualifier: b"q",
            timestamp: Timestamp(1),
            cell_type: CellType::Put,
            value: &value,
            tags: b"",
        };
        parts.to_vec().expect("within limits")
    }

    #[test]
    fn cells_of_every_size_are_found_again() {
        let pool = Pool::new(16 << 10, 8);
        let mut filler = Filler::new(Arc::clone(&pool), None);
        let mut chunks: Vec<Arc<Chunk>> = Vec::new();
        let mut copied = Vec::new();
        let sizes = [0, 1, 2, 3, 100, 1_000, 2_000, 3_000, 50_000, 5];
        for (number, size) in sizes.iter().cycle().take(60).enumerate() {
            let bytes = cell(&format!("row{number}"), *size);
            let sequence = SequenceId([7, 1 << 40, u64::MAX][number % 3]);
            let (place, taken) = filler.copy(&bytes, sequence, |number, chunk| {
                assert_eq!(number as usize, chunks.len());
                chunks.push(Arc::clone(chunk));
            });
            assert_eq!(taken as u64, record_bytes(Cell::trusted(&bytes, sequence)));
            assert!(taken >= bytes.len() + 8 && taken <= bytes.len() + 27, "{taken}");
            copied.push((bytes, sequence, place));
        }
        for (bytes, sequence, place) in copied {
            let chunk = &chunks[place.chunk() as usize];
            let found = cell_in(chunk, place);
            assert_eq!((found.bytes(), found.sequence()), (&bytes[..], sequence));
        }
    }

    #[test]
    fn the_next_segment_goes_on_in_the_chunk_that_is_not_full() {
        let pool = Pool::new(16 << 10, 8);
        let mut first = Filler::new(Arc::clone(&pool), None);
        let mut chunk = None;
        let (earlier, _) =
            first.copy(&cell("a", 9), SequenceId(1), |_, added| chunk = Some(Arc::clone(added)));
        let chunk = chunk.expect("the first chunk");
        let mut second = Filler::new(Arc::clone(&pool), first.take_open());
        let mut again = None;
        let (later, _) = second.copy(&cell("b", 9), SequenceId(2), |number, added| {
            again = Some((number, Arc::clone(added)));
        });
        let (number, again) = again.expect("the chunk is new to the second");
        assert!(Arc::ptr_eq(&chunk, &again) && number == 0);
        assert_eq!((cell_in(&chunk, earlier).row(), cell_in(&chunk, later).row()), (&b"a"[..], &b"b"[..]));
        assert_eq!(pool.usage().used, 1);
    }
}
