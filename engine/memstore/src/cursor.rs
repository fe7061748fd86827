//! Walking over a segment.

use std::ops::Bound;
use std::sync::Arc;

use cell::{Cell, KeyBuf, Position};

use crate::Segment;
use crate::segment::{Entry, Placed, Probe};

/// Entries copied at once: the first time few, since a read of one row needs few.
const FIRST: usize = 8;
const MORE: usize = 128;

/// A place in a segment, and the cells from there on. Before the first seek it stands nowhere.
#[derive(Debug)]
pub struct Cursor {
    segment: Arc<Segment>,
    ahead: Vec<Entry>,
    at: usize,
    /// Whether the segment has nothing after `ahead`.
    complete: bool,
}

impl Cursor {
    /// A cursor over `segment`.
    pub fn new(segment: Arc<Segment>) -> Cursor {
        Cursor { segment, ahead: Vec::new(), at: 0, complete: true }
    }

    /// The cell it stands on.
    #[inline]
    pub fn peek(&self) -> Option<Cell<'_>> {
        self.ahead.get(self.at).map(Entry::cell)
    }

    /// Stands on the first cell at or after `position`.
    pub fn seek(&mut self, position: Position<'_>) {
        self.ahead.clear();
        self.at = 0;
        let probe = Probe::new(self.segment.comparator(), position);
        self.segment.copy_from(Bound::Included(&probe as &dyn Placed), FIRST, &mut self.ahead);
        self.complete = self.ahead.len() < FIRST;
    }

    /// Stands on the next cell.
    #[inline]
    pub fn advance(&mut self) {
        self.at += 1;
        if self.at == self.ahead.len() && !self.complete {
            self.refill();
        }
    }

    fn refill(&mut self) {
        let last = self.ahead.pop().expect("a cursor that is not complete has copied some");
        self.ahead.clear();
        self.at = 0;
        self.segment.copy_from(Bound::Excluded(&last as &dyn Placed), MORE, &mut self.ahead);
        self.complete = self.ahead.len() < MORE;
    }

    /// Stands on the first cell of the last row before `row`, or, without `row`, of the last row of all. Says whether
    /// there is one.
    pub fn seek_row_before(&mut self, row: Option<&[u8]>) -> bool {
        let last = match row {
            Some(row) => {
                let first = KeyBuf::first_on_row(row);
                self.segment.last_before(&Probe::new(self.segment.comparator(), first.position()))
            }
            None => self.segment.last(),
        };
        match last {
            Some(last) => {
                let first = KeyBuf::first_on_row(last.cell().row());
                self.seek(first.position());
                true
            }
            None => {
                self.ahead.clear();
                self.at = 0;
                self.complete = true;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use cell::{CellParts, CellType, Comparator, SequenceId, Timestamp};

    fn put(row: &str, timestamp: i64) -> Bytes {
        let parts = CellParts {
            row: row.as_bytes(),
            family: b"f",
            qualifier: b"q",
            timestamp: Timestamp(timestamp),
            cell_type: CellType::Put,
            value: b"v",
            tags: b"",
        };
        parts.to_vec().expect("within limits").into()
    }

    fn rows(cursor: &mut Cursor) -> Vec<String> {
        let mut rows = Vec::new();
        while let Some(cell) = cursor.peek() {
            rows.push(String::from_utf8_lossy(cell.row()).into_owned());
            cursor.advance();
        }
        rows
    }

    #[test]
    fn cells_come_in_order_however_they_went_in() {
        let segment = Arc::new(Segment::new(Comparator::Table));
        let mut expected: Vec<String> =
            (0..1000).map(|n| format!("row-with-a-long-prefix-{:04}", n * 7 % 1000)).collect();
        for (sequence, row) in expected.iter().enumerate() {
            segment.insert([put(row, 1)], SequenceId(sequence as u64 + 1));
        }
        expected.sort();
        let mut cursor = Cursor::new(Arc::clone(&segment));
        cursor.seek(KeyBuf::first_on_row(b"").position());
        assert_eq!(rows(&mut cursor), expected);
        cursor.seek(KeyBuf::first_on_row(b"row-with-a-long-prefix-0990").position());
        assert_eq!(rows(&mut cursor), &expected[990..]);
        assert_eq!((segment.cells(), segment.timestamps()), (1000, Some((Timestamp(1), Timestamp(1)))));
    }

    #[test]
    fn rows_are_found_backwards() {
        let segment = Arc::new(Segment::new(Comparator::Table));
        let mut cursor = Cursor::new(Arc::clone(&segment));
        assert!(!cursor.seek_row_before(None));
        for row in ["a", "b", "b", "c"] {
            segment.insert([put(row, 1), put(row, 2)], SequenceId(1));
        }
        assert!(cursor.seek_row_before(None));
        assert_eq!(rows(&mut cursor), ["c", "c"]);
        assert!(cursor.seek_row_before(Some(b"bb")));
        assert_eq!(cursor.peek().expect("found").timestamp(), Timestamp(2), "the row's first cell");
        assert!(cursor.seek_row_before(Some(b"b")));
        assert_eq!(cursor.peek().expect("found").row(), b"a");
        assert!(!cursor.seek_row_before(Some(b"a")));
        assert!(cursor.peek().is_none());
    }

    #[test]
    fn the_same_write_again_is_the_same_cell() {
        let segment = Segment::new(Comparator::Table);
        segment.insert([put("a", 1)], SequenceId(1));
        let once = segment.bytes();
        segment.insert([put("a", 1)], SequenceId(1));
        assert_eq!((segment.cells(), segment.bytes()), (1, once));
        segment.insert([put("a", 1)], SequenceId(2));
        assert_eq!(segment.cells(), 2);
    }
}
