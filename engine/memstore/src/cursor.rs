//! Cursors over the cells of a segment.

use std::sync::Arc;

use cell::{Cell, KeyBuf, Position};

use crate::pinned::PinnedCell;
use crate::place;
use crate::segment::{Segment, SegmentPosition};

/// Number of entries ahead of the current one whose cell is prefetched; the cell may be anywhere in memory.
const AHEAD: usize = 2;

/// A position in a segment, from which cells are read in order. Before the first seek and after the last cell it has no
/// position. It keeps the segment and all its cells alive.
pub struct Cursor {
    pinned: PinnedCell<Segment>,
    spot: SegmentPosition,
}

impl Cursor {
    /// Creates a cursor over `segment`.
    pub fn new(segment: Arc<Segment>) -> Cursor {
        Cursor { pinned: PinnedCell::new(segment), spot: SegmentPosition::Nowhere }
    }

    /// Returns the current cell; `None` if the cursor has no position.
    #[inline]
    pub fn peek(&self) -> Option<Cell<'_>> {
        self.pinned.cell()
    }

    #[inline]
    fn pin(&mut self) {
        let spot = &self.spot;
        self.pinned.pin(|segment| segment.cell_at(spot));
    }

    /// Moves to the first cell at or after `position`, or to no cell.
    pub fn seek(&mut self, position: Position<'_>) {
        self.spot = self.pinned.owner().seek(position);
        self.pin();
    }

    /// Moves to the first cell at or after `position` if it belongs to that row; otherwise to a cell after the row, or
    /// to no cell.
    #[inline]
    pub fn seek_in_row(&mut self, position: Position<'_>) {
        self.spot = self.pinned.owner().seek_in_row(position);
        self.pin();
    }

    /// Returns the segment.
    pub fn segment(&self) -> &Segment {
        self.pinned.owner()
    }

    /// Moves to the next cell.
    #[inline]
    pub fn advance(&mut self) {
        let spot = &mut self.spot;
        self.pinned.pin(|segment| {
            segment.advance(spot);
            segment.fetch_behind(spot, AHEAD);
            segment.cell_at(spot)
        });
    }

    /// Prefetches the whole cell after the next one, assuming that it is as long as this one. For a caller that also
    /// reads values, and has just read this cell.
    #[inline]
    pub fn fetch_ahead(&self) {
        if let Some(cell) = self.pinned.cell() {
            let lines = place::lines_of(cell.bytes().len());
            self.pinned.owner().fetch_lines_behind(&self.spot, AHEAD, lines);
        }
    }

    /// Moves to the first cell of the last row before `row`, or of the last row of all. Returns whether there is one.
    pub fn seek_row_before(&mut self, row: Option<&[u8]>) -> bool {
        let segment = Arc::clone(self.pinned.owner());
        let end = row.map(KeyBuf::first_on_row);
        let last = segment.last_before(end.as_ref().map(KeyBuf::position));
        match last {
            Some(last) => self.seek(KeyBuf::first_on_row(last.row()).position()),
            None => {
                self.spot = SegmentPosition::Nowhere;
                self.pin();
            }
        }
        last.is_some()
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("at", &self.peek()).finish_non_exhaustive()
    }
}
