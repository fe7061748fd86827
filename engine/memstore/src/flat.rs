//! The index of a segment that takes no more writes: sorted arrays of heads and places.
//!
//! ```text
//!   heads   8 B each ──► searched without looking at a cell        one piece where all fit into it (HBase's
//!   places  4 B each ──► the cells, where they have always been    CellArrayMap), else several (its CellChunkMap)
//! ```
//!
//! Heads and places lie apart, so that a search touches few cache lines; between entries whose heads are equal the cells
//! decide. Pieces keep an index of millions of cells from asking for one run of memory of that size.

use std::cmp::Ordering;

use cell::{Cell, Position};

use crate::arena::Place;
use crate::head::Heads;
use crate::records::Records;

/// Entries of a piece: 1.5 MB.
const PIECE: usize = 1 << 17;

/// What one entry takes.
const ENTRY_BYTES: usize = size_of::<u64>() + size_of::<Place>();

struct Piece {
    heads: Box<[u64]>,
    places: Box<[Place]>,
}

/// Cells in chunks, and a sorted index over them that does not change.
pub(crate) struct Flat {
    records: Records,
    heads: Heads,
    pieces: Vec<Piece>,
    length: usize,
}

/// Takes entries in order.
pub(crate) struct Builder {
    heads: Heads,
    pieces: Vec<Piece>,
    open: (Vec<u64>, Vec<Place>),
}

impl Builder {
    /// For about `expected` entries whose heads are made as given.
    pub(crate) fn new(heads: Heads, expected: usize) -> Builder {
        let room = expected.min(PIECE);
        Builder { heads, pieces: Vec::new(), open: (Vec::with_capacity(room), Vec::with_capacity(room)) }
    }

    /// Adds an entry that comes after all others.
    #[inline]
    pub(crate) fn push(&mut self, head: u64, place: Place) {
        if self.open.0.len() == PIECE {
            self.close();
        }
        self.open.0.push(head);
        self.open.1.push(place);
    }

    fn close(&mut self) {
        let (heads, places) = std::mem::take(&mut self.open);
        self.pieces.push(Piece { heads: heads.into(), places: places.into() });
    }

    pub(crate) fn finish(mut self, records: Records) -> Flat {
        if !self.open.0.is_empty() {
            self.close();
        }
        let length = self.pieces.iter().map(|piece| piece.heads.len()).sum();
        Flat { records, heads: self.heads, pieces: self.pieces, length }
    }
}

impl Flat {
    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Bytes of the index.
    pub(crate) fn bytes(&self) -> u64 {
        (self.length * ENTRY_BYTES) as u64
    }

    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Option<(u64, Place)> {
        let piece = self.pieces.get(index / PIECE)?;
        let at = index % PIECE;
        Some((*piece.heads.get(at)?, piece.places[at]))
    }

    #[inline]
    pub(crate) fn cell(&self, index: usize) -> Option<Cell<'_>> {
        let place = *self.pieces.get(index / PIECE)?.places.get(index % PIECE)?;
        Some(self.records.cell(place))
    }

    /// The first entry at or after `position`.
    pub(crate) fn lower_bound(&self, position: Position<'_>) -> usize {
        let head = self.heads.of(position.key.row());
        let low = self.first_head(|found| found < head);
        // Most heads are different: the next one decides without a search.
        match self.entry(low) {
            Some((found, _)) if found == head => {}
            _ => return low,
        }
        let end = match self.entry(low + 1) {
            Some((found, _)) if found == head => self.first_head(|found| found <= head),
            _ => low + 1,
        };
        let (mut low, mut size) = (low, end - low);
        while size > 0 {
            let half = size / 2;
            let cell = self.cell(low + half).expect("within the index");
            match self.records.comparator().compare(cell.into(), position) {
                Ordering::Less => {
                    low += half + 1;
                    size -= half + 1;
                }
                Ordering::Equal => return low + half,
                Ordering::Greater => size = half,
            }
        }
        low
    }

    /// The first entry whose head is not `before`, as all after it are not.
    #[inline]
    fn first_head(&self, before: impl Fn(u64) -> bool) -> usize {
        let piece = self.pieces.partition_point(|piece| piece.heads.last().is_some_and(|&last| before(last)));
        match self.pieces.get(piece) {
            Some(found) => piece * PIECE + found.heads.partition_point(|&head| before(head)),
            None => self.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::Comparator;

    #[test]
    fn an_index_of_several_pieces_is_searched_as_one() {
        let count = if cfg!(miri) { 10 } else { 2 * PIECE + 10 };
        let mut builder = Builder::new(Heads::new(Comparator::Table, b""), count);
        for index in 0..count {
            builder.push(index as u64 / 3, Place(index as u32));
        }
        let flat = builder.finish(Records::new(Comparator::Table));
        assert_eq!(flat.len(), count);
        for index in (0..count).step_by(if cfg!(miri) { 1 } else { 911 }) {
            assert_eq!(flat.entry(index), Some((index as u64 / 3, Place(index as u32))));
            assert_eq!(flat.first_head(|head| head < index as u64 / 3), index / 3 * 3);
        }
        assert_eq!((flat.entry(count), flat.first_head(|_| true)), (None, count));
    }
}
