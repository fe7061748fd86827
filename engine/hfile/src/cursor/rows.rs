//! Rows as a whole, where the open block shows all of them: passed, or given as they lie.
//!
//! What is the same for every row was asked before. So nothing is noted of a row, and none is looked for.

use bytes::Bytes;
use cache::Block;
use cell::{Cell, CellSink, CellType, is_same_row};

use super::Cursor;
use crate::Reader;

/// Cells whose first bytes are [asked for](cell::fetch) ahead when rows are [passed](Cursor::pass_rows): as many as memory has
/// time for.
const AHEAD: usize = 8;

/// How far ahead whole cells are [asked for](cell::fetch_whole) when rows are given.
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
    /// Nor is any other of its row.
    Row,
}

impl Cursor {
    /// From the first cell of a row on, passes the rows that `refuses` does not want any cell of, as far as the open block
    /// shows where they end. Stands on the first cell of the row after them, and says how many they were.
    ///
    /// `refuses` is asked of the cells of a row one after the other until it wants one, or not the row
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
            let mut refused = Refused::Cell;
            let next_row = loop {
                if refused == Refused::Cell {
                    // By the time that they are asked for, the first bytes of a cell of a kilobyte are there.
                    if let Some(&ahead) = offsets.get(index + AHEAD) {
                        cell::fetch(bytes, ahead as usize);
                    }
                    refused = refuses(Reader::untagged_at(bytes, offsets[index] as usize));
                    if refused == Refused::No {
                        break 'rows;
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
            rows += 1;
            (first, first_row) = (index, next_row);
        }
        if rows > 0 {
            self.stand_on(first);
        }
        rows
    }

    /// From the first cell of a row on, gives rows before `end` as they lie, as many as `most` allows, as far as the open block
    /// shows where they end and there is nothing to decide: Puts without tags, few in a row, each of another column, all of
    /// them `wanted` (in their order; `None` for all). Stands on the first cell of the row after them, and says how many
    /// they were.
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
        if first == 0 {
            // Nobody has asked for them before the block was open.
            (1..WHOLE_AHEAD).for_each(|index| fetch_whole(block, index));
        }
        while rows < most.rows
            && (all_before || is_before_end(cell(first).row()))
            && let Some((behind, heap_size)) = self.plain_row(block, first, left, wanted)
        {
            for index in first..behind {
                fetch_whole(block, index + WHOLE_AHEAD);
                sink.cell(cell(index));
            }
            sink.row_ends();
            (first, rows, left) = (behind, rows + 1, left - heap_size);
        }
        if rows > 0 {
            self.stand_on(first);
        }
        rows
    }

    /// Where the row ends that begins at `first`, and its heap size, if that is below `heap_size_max` and the row can be given
    /// as it lies.
    #[inline]
    fn plain_row(
        &self,
        block: &Block,
        first: usize,
        heap_size_max: u64,
        wanted: Option<&[Bytes]>,
    ) -> Option<(usize, u64)> {
        let mut wanted = wanted.map(<[Bytes]>::iter);
        let mut is_wanted = |qualifier: &[u8]| {
            wanted.as_mut().is_none_or(|wanted| wanted.any(|wanted| *wanted == *qualifier))
        };
        let cell =
            |index: usize| Some(self.reader.cell_at(&block.bytes, *block.offsets.get(index)? as usize));
        let (mut index, mut heap_size, mut here) = (first, 0, cell(first)?);
        let row = here.row();
        loop {
            let key = here.key();
            heap_size += here.heap_size() as u64;
            let is_plain = key.type_code() == CellType::Put.code() && is_wanted(key.qualifier());
            if !is_plain || heap_size >= heap_size_max || index - first == CELLS_MAX {
                return None;
            }
            index += 1;
            // Whether the row goes on is for the next block to say.
            here = cell(index)?;
            if !is_same_row(here.row(), row) {
                return Some((index, heap_size));
            }
            if here.qualifier() == key.qualifier() {
                return None;
            }
        }
    }
}

/// Asks the memory for a whole cell of a block, if there is one.
#[inline]
pub(super) fn fetch_whole(block: &Block, index: usize) {
    if let Some(&[from, ref behind @ ..]) = block.offsets.get(index..) {
        let end = behind.first().map_or(block.bytes.len(), |next| *next as usize);
        cell::fetch_whole(block.bytes.get(from as usize..end).unwrap_or_default());
    }
}
