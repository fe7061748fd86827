//! The chunks of a segment by number, and the cells in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cell::{Cell, Comparator};

use crate::chunk::Chunk;
use crate::place::{CHUNKS_MAX, Place, cell_in, fetch_in};
use crate::table::Table;

/// The cells of a segment, by place.
pub(crate) struct Records {
    comparator: Comparator,
    chunks: Table<Arc<Chunk>>,
    /// Number of chunk numbers that were assigned. A number is assigned shortly before its chunk is in the table.
    numbers: AtomicU32,
}

impl Records {
    pub(crate) fn new(comparator: Comparator) -> Records {
        Records { comparator, chunks: Table::new(), numbers: AtomicU32::new(0) }
    }

    /// Creates records over existing chunks, numbered from zero.
    pub(crate) fn of(comparator: Comparator, chunks: impl IntoIterator<Item = Arc<Chunk>>) -> Records {
        let records = Records::new(comparator);
        chunks.into_iter().for_each(|chunk| _ = records.take(chunk));
        records
    }

    #[inline]
    pub(crate) fn comparator(&self) -> Comparator {
        self.comparator
    }

    /// Adds the next chunk, and returns its number.
    ///
    /// # Panics
    /// When all numbers are used.
    pub(crate) fn add(&self, chunk: &Arc<Chunk>) -> u32 {
        self.take(Arc::clone(chunk))
    }

    fn take(&self, chunk: Arc<Chunk>) -> u32 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        assert!(number < CHUNKS_MAX, "a segment has at most {CHUNKS_MAX} chunks");
        self.chunks.set(number, chunk);
        number
    }

    /// Returns the chunks by number. No thread may be adding one.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        (0..).map_while(|number| self.chunks.get(number))
    }

    /// Prefetches this many cache lines of the cell at a place.
    #[inline]
    pub(crate) fn fetch(&self, place: Place, lines: usize) {
        if let Some(chunk) = self.chunks.get(place.chunk()) {
            fetch_in(chunk, place, lines);
        }
    }

    /// Returns the cell at a place of this segment.
    #[inline]
    pub(crate) fn cell(&self, place: Place) -> Cell<'_> {
        let chunk = self.chunks.get(place.chunk()).expect("a place names a chunk of its segment");
        cell_in(chunk, place)
    }
}
