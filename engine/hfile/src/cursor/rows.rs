//! Rows as a whole, where the open block shows all of them: passed, or given as they lie.
//!
//! What is the same for every row was asked before. So nothing is noted of a row, and none is looked for.

use bytes::Bytes;
use cache::Block;
use cell::{Cell, CellSink, CellType, Key, compare_bytes, is_same, is_same_row};

use super::Cursor;
use crate::Reader;

/// Cells whose first bytes are [asked for](cell::fetch) ahead when rows are [passed](Cursor::pass_rows): as many as memory has
/// time for.
const AHEAD: usize = 8;

/// How many cells that are given are [asked for](cell::fetch_whole) ahead. With three a row took a tenth longer, with seven no less.
const WHOLE_AHEAD: usize = 5;

/// Cells of a row that is [given as it lies](Cursor::give_rows), at most: of one that is not, they are looked at in vain.
const CELLS_MAX: usize = 64;
const _: () = assert!(CELLS_MAX <= u64::BITS as usize, "each has a bit");

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
                // Of rows like this one it is the same cell, or one as likely to be looked at: of one that is not judged the
                // key alone, which says whether the row goes on.
                if let Some(&ahead) = offsets.get(index + AHEAD) {
                    match refused {
                        Refused::Row => cell::fetch_key(bytes, ahead as usize),
                        _ => cell::fetch(bytes, ahead as usize),
                    }
                }
                if refused != Refused::Row {
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
        let all_before = is_before_end(key_at(block, block.offsets.len() - 1).row());
        let cell = |index: usize| self.reader.cell_at(&block.bytes, block.offsets[index] as usize);
        let (mut first, mut rows, mut left) = (self.index, 0, most.heap_size);
        while rows < most.rows
            && (all_before || is_before_end(key_at(block, first).row()))
            && let Some(row) = self.plain_row(block, first, wanted)
            && row.heap_size < left
        {
            row.fetch_others_ahead(block);
            row.given().for_each(|index| sink.cell(cell(index)));
            sink.row_ends();
            (first, rows, left) = (row.behind, rows + 1, left - row.heap_size);
        }
        if rows > 0 {
            self.stand_on(first);
        }
        rows
    }

    /// The row that begins at `first`, if it can be given as it lies.
    #[inline]
    fn plain_row(&self, block: &Block, first: usize, mut wanted: Option<&[Bytes]>) -> Option<PlainRow> {
        let (mut index, mut key) = (first, key_at(block, first));
        let row = key.row();
        let (mut given, mut heap_size) = (0u64, 0);
        loop {
            let qualifier = key.qualifier();
            if key.type_code() != CellType::Put.code() || index - first == CELLS_MAX {
                return None;
            }
            if is_next(&mut wanted, qualifier) {
                given |= 1 << (index - first);
                heap_size +=
                    self.reader.untagged_heap_size(&block.bytes, block.offsets[index] as usize) as u64;
            }
            index += 1;
            // Whether the row goes on is for the next block to say.
            if index == block.offsets.len() {
                return None;
            }
            key = key_at(block, index);
            if !is_same(key.row(), row) {
                return (given != 0).then_some(PlainRow { first, behind: index, given, heap_size });
            }
            if is_same(key.qualifier(), qualifier) {
                return None;
            }
        }
    }
}

/// A row that is given as it lies.
struct PlainRow {
    first: usize,
    behind: usize,
    /// Which of its cells are given, the first in the lowest bit.
    given: u64,
    /// Of those that are given.
    heap_size: u64,
}

impl PlainRow {
    /// The cells that are given.
    #[inline]
    fn given(&self) -> impl Iterator<Item = usize> {
        let (first, mut left) = (self.first, self.given);
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| first + left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(next)
        })
    }

    /// Asks the memory for cells of rows that come, as if all were like this one: those that will be given wholly, and of
    /// others the keys, which say where rows end. Where all of it was asked for, rows of ten columns of which one is given took
    /// a fifth longer; where nothing was, a third.
    #[inline]
    fn fetch_others_ahead(&self, block: &Block) {
        let count = self.behind - self.first;
        let given = self.given.count_ones() as usize;
        // So many cells that are given; where others lie between them, in whole rows.
        let ahead = if given == count { WHOLE_AHEAD } else { WHOLE_AHEAD.div_ceil(given) * count };
        let fetch = |index: usize, like: usize| match self.given >> like & 1 {
            0 => fetch_key(block, index),
            _ => fetch_whole(block, index),
        };
        if self.first == 0 {
            // Nobody has asked for them before the block was open.
            (1..ahead).for_each(|index| fetch(index, index % count));
        }
        (0..count).for_each(|like| fetch(self.first + ahead + like, like));
    }
}

/// The key of a cell of a block, of which nothing else is looked at.
#[inline(always)]
fn key_at(block: &Block, index: usize) -> Key<'_> {
    Cell::key_within(&block.bytes[block.offsets[index] as usize..])
}

/// Whether a column is wanted; what is wanted loses those before it. Columns come in order.
#[inline]
fn is_next(wanted: &mut Option<&[Bytes]>, qualifier: &[u8]) -> bool {
    let Some(wanted) = wanted else { return true };
    while let [next, rest @ ..] = wanted {
        if is_same(next, qualifier) {
            return true;
        }
        if compare_bytes(next, qualifier).is_gt() {
            return false;
        }
        *wanted = rest;
    }
    false
}

/// Asks the memory for the key of a cell of a block, if there is one.
#[inline]
fn fetch_key(block: &Block, index: usize) {
    if let Some(&at) = block.offsets.get(index) {
        cell::fetch_key(&block.bytes, at as usize);
    }
}

/// Asks the memory for a whole cell of a block, if there is one.
#[inline]
pub(crate) fn fetch_whole(block: &Block, index: usize) {
    if let Some(&[from, ref behind @ ..]) = block.offsets.get(index..) {
        let end = behind.first().map_or(block.bytes.len(), |next| *next as usize);
        cell::fetch_whole(block.bytes.get(from as usize..end).unwrap_or_default());
    }
}
