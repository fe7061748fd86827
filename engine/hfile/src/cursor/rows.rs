//! Rows as a whole, where the open block shows all of them: passed, or given as they lie.
//!
//! What is the same for every row was asked before. So nothing is noted of a row, and none is looked for.

use std::cmp::Ordering;

use bytes::Bytes;
use cache::Block;
use cell::{Cell, CellSink, CellType, is_same_row};
use smallvec::SmallVec;

use super::Cursor;
use crate::Reader;

/// Cells whose first bytes are [asked for](cell::fetch) ahead when rows are [passed](Cursor::pass_rows): as many as memory has
/// time for.
const AHEAD: usize = 8;

/// How far ahead whole cells are [asked for](cell::fetch_whole) when rows are given. As many rows were no better.
const WHOLE_AHEAD: usize = 5;

/// Cells of a row that is [given as it lies](Cursor::give_rows), at most: of one that is not, they are looked at in vain.
const CELLS_MAX: usize = 64;

/// How much is [given](Cursor::give_rows) at once.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Rows.
    pub rows: usize,
    /// What they stay below together: [heap sizes](Cell::heap_size) of cells.
    pub heap_size: u64,
}

/// What becomes of a cell when rows are [passed](Cursor::pass_rows).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It may be wanted.
    No,
    /// It is not.
    Cell,
    /// It is not, if another one of its row is refused with the [row](Refused::Row).
    Undecided,
    /// Nor is any other of its row.
    Row,
}

impl Cursor {
    /// From the first cell of a row on, passes the rows that `refuses` does not want any cell of, as far as the open block
    /// shows where they end. Stands on the first cell of the row after them, and says how many they were.
    ///
    /// `refuses` is asked of the cells of a row one after the other until one may be wanted, or the row is not
    /// ([`Refused::Row`]). No row at or behind `end` is passed, and none of a file with tags. The number of the write is
    /// not told of the cells: it stands behind the value, in another line of memory.
    pub fn pass_rows(&mut self, end: Option<&[u8]>, refuses: impl Fn(Cell<'_>) -> Refused) -> u64 {
        let Some(block) = self.block().filter(|_| !self.reader.may_have_tags()) else { return 0 };
        let (bytes, offsets) = (&block.bytes[..], &block.offsets[..]);
        let row = |index: usize| Cell::key_within(&bytes[offsets[index] as usize..]).row();
        let comparator = self.reader.comparator();
        let is_before_end = |row: &[u8]| end.is_none_or(|end| comparator.compare_rows(row, end).is_lt());
        // Where the block's last row is before the end, all are.
        let all_before = is_before_end(row(offsets.len() - 1));
        let mut rows = 0;
        let (mut first, mut first_row) = (self.index, row(self.index));
        'rows: while all_before || is_before_end(first_row) {
            let mut index = first;
            // What is known of the row.
            let mut refused = Refused::Cell;
            let next_row = loop {
                if refused != Refused::Row {
                    // By the time that they are asked for, the first bytes of a cell of a kilobyte are there.
                    if let Some(&ahead) = offsets.get(index + AHEAD) {
                        cell::fetch(bytes, ahead as usize);
                    }
                    match refuses(Reader::untagged_at(bytes, offsets[index] as usize)) {
                        Refused::No => break 'rows,
                        Refused::Cell => {}
                        more => refused = more,
                    }
                }
                index += 1;
                // Whether the row goes on is for the next block to say.
                if index == offsets.len() {
                    break 'rows;
                }
                let row = row(index);
                if !is_same_row(row, first_row) {
                    break row;
                }
            };
            if refused == Refused::Undecided {
                break;
            }
            rows += 1;
            (first, first_row) = (index, next_row);
        }
        if rows > 0 {
            self.stand_on(first);
        }
        rows
    }

    /// From the first cell of a row on, gives rows before `end` as they lie, as many as `most` allows, as far as the open block
    /// shows where they end and there is nothing to decide: Puts without tags, few in a row, each of another column, one of
    /// them at least `wanted` (in their order; `None` for all). Stands on the first cell of the row after them, and says how
    /// many they were.
    pub fn give_rows(
        &mut self,
        end: Option<&[u8]>,
        most: Most,
        wanted: Option<&[Bytes]>,
        sink: &mut dyn CellSink,
    ) -> usize {
        let Some(block) = self.block().filter(|_| !self.reader.may_have_tags()) else { return 0 };
        let comparator = self.reader.comparator();
        let is_before_end = |row: &[u8]| end.is_none_or(|end| comparator.compare_rows(row, end).is_lt());
        let last = block.offsets[block.offsets.len() - 1];
        let all_before = is_before_end(Cell::key_within(&block.bytes[last as usize..]).row());
        let cell = |index: usize| self.reader.cell_at(&block.bytes, block.offsets[index] as usize);
        let (mut first, mut rows, mut left) = (self.index, 0, most.heap_size);
        let mut given = SmallVec::new();
        if first == 0 {
            // Nobody has asked for them before the block was open.
            (1..WHOLE_AHEAD).for_each(|index| fetch_whole(block, index));
        }
        while rows < most.rows
            && (all_before || is_before_end(cell(first).row()))
            && let Some((behind, heap_size)) = self.plain_row(block, first, left, wanted, &mut given)
        {
            (first..behind).for_each(|index| fetch_whole(block, index + WHOLE_AHEAD));
            given.drain(..).for_each(|index| sink.cell(cell(index)));
            sink.row_ends();
            (first, rows, left) = (behind, rows + 1, left - heap_size);
        }
        if rows > 0 {
            self.stand_on(first);
        }
        rows
    }

    /// Where the row ends that begins at `first`, and the heap size of its cells that are to be `given`, if that is below
    /// `heap_size_max` and the row can be given as it lies.
    #[inline]
    fn plain_row(
        &self,
        block: &Block,
        first: usize,
        heap_size_max: u64,
        wanted: Option<&[Bytes]>,
        given: &mut SmallVec<[usize; 8]>,
    ) -> Option<(usize, u64)> {
        given.clear();
        let mut wanted = wanted;
        let cell =
            |index: usize| Some(self.reader.cell_at(&block.bytes, *block.offsets.get(index)? as usize));
        let (mut index, mut heap_size, mut here) = (first, 0, cell(first)?);
        let row = here.row();
        loop {
            let (key, qualifier) = (here.key(), here.qualifier());
            if key.type_code() != CellType::Put.code() || index - first == CELLS_MAX {
                return None;
            }
            if is_next(&mut wanted, qualifier) {
                heap_size += here.heap_size() as u64;
                given.push(index);
            }
            index += 1;
            // Whether the row goes on is for the next block to say.
            here = cell(index)?;
            if !is_same_row(here.row(), row) {
                let is_plain = !given.is_empty() && heap_size < heap_size_max;
                return is_plain.then_some((index, heap_size));
            }
            if here.qualifier() == qualifier {
                return None;
            }
        }
    }
}

/// Whether a column is wanted; what is wanted loses those before it. Columns come in order.
#[inline]
fn is_next(wanted: &mut Option<&[Bytes]>, qualifier: &[u8]) -> bool {
    let Some(wanted) = wanted else { return true };
    while let [next, rest @ ..] = wanted {
        match next[..].cmp(qualifier) {
            Ordering::Less => *wanted = rest,
            order => return order.is_eq(),
        }
    }
    false
}

/// Asks the memory for a whole cell of a block, if there is one.
#[inline]
pub(crate) fn fetch_whole(block: &Block, index: usize) {
    if let Some(&[from, ref behind @ ..]) = block.offsets.get(index..) {
        let end = behind.first().map_or(block.bytes.len(), |next| *next as usize);
        cell::fetch_whole(block.bytes.get(from as usize..end).unwrap_or_default());
    }
}
