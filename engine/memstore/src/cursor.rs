//! Walking over a segment.

use std::sync::Arc;

use cell::{Cell, KeyBuf, Position};

use crate::Segment;
use crate::arena;
use crate::segment::Spot;
use crate::standing::Standing;

/// Who walks wants the cell soon that comes so many behind the one it steps to: it lies anywhere in memory.
const AHEAD: usize = 2;

/// A place in a segment, and the cells from there on. Before the first seek it stands nowhere. It keeps the segment,
/// and with it every cell, alive.
pub struct Cursor {
    standing: Standing<Segment>,
    spot: Spot,
}

impl Cursor {
    /// A cursor over `segment`.
    pub fn new(segment: Arc<Segment>) -> Cursor {
        Cursor { standing: Standing::new(segment), spot: Spot::Nowhere }
    }

    /// The cell it stands on.
    #[inline]
    pub fn peek(&self) -> Option<Cell<'_>> {
        self.standing.cell()
    }

    #[inline]
    fn stand(&mut self) {
        let spot = &self.spot;
        self.standing.stand(|segment| segment.cell_at(spot));
    }

    /// Stands on the first cell at or after `position`.
    pub fn seek(&mut self, position: Position<'_>) {
        self.spot = self.standing.owner().seek(position);
        self.stand();
    }

    /// Stands on the first cell at or after `position` as far as it is of that row; behind the row, or nowhere, if there is
    /// none.
    #[inline]
    pub fn seek_in_row(&mut self, position: Position<'_>) {
        self.spot = self.standing.owner().seek_in_row(position);
        self.stand();
    }

    /// What it walks over.
    pub fn segment(&self) -> &Segment {
        self.standing.owner()
    }

    /// Stands on the next cell.
    #[inline]
    pub fn advance(&mut self) {
        let spot = &mut self.spot;
        self.standing.stand(|segment| {
            segment.advance(spot);
            segment.fetch_behind(spot, AHEAD);
            segment.cell_at(spot)
        });
    }

    /// Asks the memory for the whole cell that comes after the next one, if it is as long as this one: for who reads the
    /// values, too, and has just read this one's.
    #[inline]
    pub fn fetch_ahead(&self) {
        if let Some(cell) = self.standing.cell() {
            let lines = arena::lines_of(cell.bytes().len());
            self.standing.owner().fetch_lines_behind(&self.spot, AHEAD, lines);
        }
    }

    /// Stands on the first cell of the last row before `row`, or, without `row`, of the last row of all. Says whether
    /// there is one.
    pub fn seek_row_before(&mut self, row: Option<&[u8]>) -> bool {
        let segment = Arc::clone(self.standing.owner());
        let end = row.map(KeyBuf::first_on_row);
        let last = segment.last_before(end.as_ref().map(KeyBuf::position));
        match last {
            Some(last) => self.seek(KeyBuf::first_on_row(last.row()).position()),
            None => {
                self.spot = Spot::Nowhere;
                self.stand();
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
