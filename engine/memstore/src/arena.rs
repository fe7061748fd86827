//! Copies the cells of a segment into chunks, one after the other.
//!
//! A cell that is too large to share a chunk gets a chunk of its own. A segment can have 8,192 chunks: with chunks of
//! the usual size that is at least 2 GB and mostly 16 GB, with the smallest size as little as 4 MB. A segment that
//! takes writes uses at most half of them ([`Filler::has_room`]); further cells go to its successor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cell::SequenceId;
use env::sync::Mutex;

use crate::chunk::Appender;
use crate::place::{CHUNKS_FILLED_MAX, GRAIN, LENGTH_BITS, LENGTH_ESCAPE, Place, fits};
use crate::pool::Pool;
use crate::records::Records;

/// Gives chunks to the fillers of a segment.
pub(crate) struct Source {
    pool: Arc<Pool>,
    /// Chunks that the previous segment left partly filled. They are used first, the last one before the others.
    left_open: Mutex<Vec<Appender>>,
    /// Number of chunks that the segment has or has reserved. A filler reserves the number of its next chunk: see
    /// [`Filler::has_room`].
    promised: AtomicU32,
}

impl Source {
    /// Creates a source that first gives out `left_open`, the last chunk first, and then chunks from `pool`.
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

    /// Returns the partly filled chunks of the previous segment that no filler has used, and forgets them.
    pub(crate) fn take_left(&self) -> Vec<Appender> {
        std::mem::take(&mut *self.left_open.lock())
    }
}

/// The chunk that a filler fills now.
#[derive(Debug)]
struct Open {
    appender: Appender,
    /// The chunk's number in this segment.
    number: u32,
    /// The room that the chunk had when the filler began, in bytes.
    room: usize,
}

/// Copies cells into chunks. A segment has one filler for each concurrent writer.
#[derive(Debug, Default)]
pub(crate) struct Filler {
    open: Option<Open>,
    /// Chunks that the filler has finished, by number, each with the bytes that the filler has put there.
    left: Vec<(u32, usize)>,
    /// Whether a chunk number is reserved for this filler's next chunk.
    is_promised: bool,
}

impl Filler {
    /// Returns this filler's partly filled chunk, which the next segment continues, and forgets it; `None` if it has
    /// none.
    pub(crate) fn take_open(&mut self) -> Option<Appender> {
        self.leave()
    }

    /// Finishes the current chunk, and returns its appender.
    fn leave(&mut self) -> Option<Appender> {
        let Open { appender, number, room } = self.open.take()?;
        self.left.push((number, room - appender.room()));
        Some(appender)
    }

    /// Returns the chunks that the filler has finished, by number, each with the bytes that the filler has put there.
    pub(crate) fn left(&self) -> &[(u32, usize)] {
        &self.left
    }

    /// Whether an active segment is certain to have room for another cell. If so, reserves a chunk number for it.
    #[inline]
    pub(crate) fn has_room(&mut self, source: &Source) -> bool {
        self.is_promised = self.is_promised || source.promise();
        self.is_promised
    }

    /// Copies a validated cell into a chunk of `source`. Returns the cell's place, and the size of its record in bytes.
    /// If the chunk is new to the segment, it is added to `records` before this returns.
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
    use crate::place::record_bytes;
    use crate::sample;
    use cell::{Cell, Comparator};

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
