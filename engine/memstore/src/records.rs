//! The chunks of a segment by number, and the cells in them.

use std::sync::Arc;

use cell::{Cell, Comparator};

use crate::arena::{KEY_LINES, Place, cell_in, fetch_in};
use crate::chunk::Chunk;
use crate::table::Table;

/// The cells of a segment, by place.
pub(crate) struct Records {
    comparator: Comparator,
    chunks: Table<Arc<Chunk>>,
}

impl Records {
    pub(crate) fn new(comparator: Comparator) -> Records {
        Records { comparator, chunks: Table::new() }
    }

    /// Cells in chunks that are there already, numbered from zero.
    pub(crate) fn of(comparator: Comparator, chunks: impl IntoIterator<Item = Arc<Chunk>>) -> Records {
        let records = Records::new(comparator);
        for (number, chunk) in chunks.into_iter().enumerate() {
            records.chunks.set(number as u32, chunk);
        }
        records
    }

    #[inline]
    pub(crate) fn comparator(&self) -> Comparator {
        self.comparator
    }

    /// Takes in the next chunk.
    pub(crate) fn add(&self, number: u32, chunk: &Arc<Chunk>) {
        self.chunks.set(number, Arc::clone(chunk));
    }

    /// The chunks by number.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        (0..).map_while(|number| self.chunks.get(number))
    }

    /// Asks the memory for the cell at a place.
    #[inline]
    pub(crate) fn fetch(&self, place: Place) {
        if let Some(chunk) = self.chunks.get(place.chunk()) {
            fetch_in(chunk, place, KEY_LINES);
        }
    }

    /// The cell at a place that this segment gave out.
    #[inline]
    pub(crate) fn cell(&self, place: Place) -> Cell<'_> {
        let chunk = self.chunks.get(place.chunk()).expect("a place names a chunk of its segment");
        cell_in(chunk, place)
    }
}
