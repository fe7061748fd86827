//! Rows as a whole, where the open block shows all of them: passed, or given as they lie.
//!
//! What is the same for every row was asked before. So nothing is noted of a row, and none is looked for. Where the block's last
//! row ends, the first one of the next block says, and that block is open then.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cache::Block;
use cell::{Cell, CellSink, CellType, Key, compare_bytes, is_same, is_same_row};

use super::{Cursor, Open};
use crate::Reader;

/// Cells whose first bytes are [asked for](cell::fetch) ahead when rows are [passed](Cursor::pass_rows): as many as memory has
/// time for.
const AHEAD: usize = 8;

/// How many cells that are given are [asked for](cell::fetch_whole) ahead. With three a row took a tenth longer, with seven no less.
const WHOLE_AHEAD: usize = 5;

/// Cells before the end of a block whose rows are given: from there on the next block is asked for. Before, what comes of it would
/// be gone again when it is needed.
const NEXT_AHEAD: usize = 24;

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

/// What a run of rows came to.
struct Run {
    rows: usize,
    /// Whether it stopped at a row of which the next block must say whether it goes on there.
    reached_end: bool,
}

impl Cursor {
    /// From the first cell of a row on, passes the rows that `refuses` does not want any cell of, as far as the open block
    /// and the first row of the next show where they end. Stands on the first cell of the row after them, and says how many
    /// they were.
    ///
    /// `refuses` is asked of the cells of a row one after the other until one may be wanted, or the row is not
    /// ([`Refused::Row`]). No row at or behind `end` is passed, and none of a file with tags. The number of the write is
    /// not told of the cells: it stands behind the value, in another line of memory.
    pub fn pass_rows(&mut self, end: Option<&[u8]>, refuses: impl Fn(Cell<'_>) -> Refused) -> u64 {
        let behind = self.fetch_next_block(usize::MAX);
        self.run_on(|cursor, next| cursor.pass_rows_of_block(next, behind.as_deref(), end, &refuses)) as u64
    }

    /// From the first cell of a row on, gives rows before `end` as they lie, as many as `most` allows, as far as the open block
    /// and the first row of the next show where they end and there is nothing to decide: Puts without tags, few in a row, each
    /// of another column, one of them at least `wanted` (in their order; `None` for all). Stands on the first cell of the row
    /// after them, and says how many they were.
    pub fn give_rows(
        &mut self,
        end: Option<&[u8]>,
        most: Most,
        wanted: Option<&[Bytes]>,
        sink: &mut dyn CellSink,
    ) -> usize {
        let _asked = self.fetch_next_block(NEXT_AHEAD);
        let mut left = most;
        self.run_on(|cursor, next| cursor.give_rows_of_block(next, end, &mut left, wanted, sink))
    }

    /// Does a run of rows to the end of the open block. If it stops at the last row, which may go on in the next block, that one
    /// is looked up, and the run told of its first row. Into which the run comes, that block is open.
    fn run_on(&mut self, mut run: impl FnMut(&mut Cursor, Option<&[u8]>) -> Run) -> usize {
        let Run { rows, reached_end } = run(self, None);
        if !reached_end {
            return rows;
        }
        // What keeps it from being read is told to who needs it.
        let Ok(Some((at, next))) = self.look_behind() else { return rows };
        let more = match next.offsets.is_empty() {
            true => 0,
            false => run(self, Some(key_at(&next, 0).row())).rows,
        };
        if more > 0 {
            self.open = Open::Block(at, next);
            self.stand_on(0);
        } else {
            self.put_behind(at, next);
        }
        rows + more
    }

    /// Asks the memory for the start of the next block, once, if no more than so many cells of this one are left.
    #[inline]
    fn fetch_next_block(&mut self, cells: usize) -> Option<Arc<Block>> {
        if let Open::Block(at, block) = &self.open
            && self.fetched_behind != *at
            && block.offsets.len() - self.index <= cells
        {
            self.fetched_behind = *at;
            return self.reader.fetch_block_after(*at, block.disk_length);
        }
        None
    }

    /// Passes rows of the open block; `next` is the first row of the one behind it.
    fn pass_rows_of_block(
        &mut self,
        next: Option<&[u8]>,
        behind: Option<&Block>,
        end: Option<&[u8]>,
        refuses: &impl Fn(Cell<'_>) -> Refused,
    ) -> Run {
        let Some(block) = self.block_without_tags() else { return Run { rows: 0, reached_end: false } };
        let (bytes, offsets) = (&block.bytes[..], &block.offsets[..]);
        let row = |index: usize| Cell::key_within(&bytes[offsets[index] as usize..]).row();
        let comparator = self.reader.comparator();
        let is_before_end = |row: &[u8]| end.is_none_or(|end| comparator.compare_rows(row, end).is_lt());
        // Where the block's last row is before the end, all are.
        let all_before = end.is_none() || is_before_end(row(offsets.len() - 1));
        let (mut rows, mut reached_end) = (0, false);
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
                } else if let Some(behind) = behind
                    && let Some(&ahead) = behind.offsets.get(index + AHEAD - offsets.len())
                {
                    cell::fetch(&behind.bytes, ahead as usize);
                }
                if refused != Refused::Row {
                    match refuses(Reader::untagged_at(bytes, offsets[index] as usize)) {
                        Refused::No => break 'rows,
                        Refused::Cell => {}
                        more => refused = more,
                    }
                }
                index += 1;
                let row = match next {
                    _ if index < offsets.len() => row(index),
                    Some(next) => next,
                    None => {
                        reached_end = true;
                        break 'rows;
                    }
                };
                if !is_same_row(row, first_row) {
                    break row;
                }
                if index == offsets.len() {
                    break 'rows;
                }
            };
            if refused == Refused::Undecided {
                break;
            }
            rows += 1;
            (first, first_row) = (index, next_row);
            if first == offsets.len() {
                break;
            }
        }
        if rows > 0 {
            self.stand_on(first);
        }
        Run { rows, reached_end }
    }

    /// Gives rows of the open block, and takes them from what is `left` to be given; `next` is the first row of the block
    /// behind it.
    fn give_rows_of_block(
        &mut self,
        next: Option<&[u8]>,
        end: Option<&[u8]>,
        left: &mut Most,
        wanted: Option<&[Bytes]>,
        sink: &mut dyn CellSink,
    ) -> Run {
        let Some(block) = self.block_without_tags() else { return Run { rows: 0, reached_end: false } };
        let comparator = self.reader.comparator();
        let is_before_end = |row: &[u8]| end.is_none_or(|end| comparator.compare_rows(row, end).is_lt());
        let count = block.offsets.len();
        let all_before = end.is_none() || is_before_end(key_at(block, count - 1).row());
        let cell = |index: usize| self.reader.cell_at(&block.bytes, block.offsets[index] as usize);
        let (mut first, mut rows, mut reached_end) = (self.index, 0, false);
        while left.rows > 0 && first < count && (all_before || is_before_end(key_at(block, first).row())) {
            let row = match self.plain_row(block, next, first, wanted) {
                Shown::Plain(row) if row.heap_size < left.heap_size => row,
                Shown::Plain(_) | Shown::No => break,
                Shown::ToTheEnd => {
                    reached_end = true;
                    break;
                }
            };
            row.fetch_others_ahead(block);
            row.given().for_each(|index| sink.cell(cell(index)));
            sink.row_ends();
            (first, rows) = (row.behind, rows + 1);
            *left = Most { rows: left.rows - 1, heap_size: left.heap_size - row.heap_size };
        }
        if rows > 0 {
            self.stand_on(first);
        }
        Run { rows, reached_end }
    }

    /// The open block, in which cells have no tags.
    #[inline]
    fn block_without_tags(&self) -> Option<&Arc<Block>> {
        self.block().filter(|_| !self.reader.may_have_tags())
    }

    /// The row that begins at `first`, if it can be given as it lies; `next` is the first row of the block behind.
    #[inline]
    fn plain_row(
        &self,
        block: &Block,
        next: Option<&[u8]>,
        first: usize,
        mut wanted: Option<&[Bytes]>,
    ) -> Shown {
        let (mut index, mut key) = (first, key_at(block, first));
        let row = key.row();
        let (mut given, mut heap_size) = (0u64, 0);
        loop {
            let qualifier = key.qualifier();
            if key.type_code() != CellType::Put.code() || index - first == CELLS_MAX {
                return Shown::No;
            }
            if is_next(&mut wanted, qualifier) {
                given |= 1 << (index - first);
                heap_size +=
                    self.reader.untagged_heap_size(&block.bytes, block.offsets[index] as usize) as u64;
            }
            index += 1;
            let ends = if index < block.offsets.len() {
                key = key_at(block, index);
                !is_same(key.row(), row)
            } else {
                match next {
                    None => return Shown::ToTheEnd,
                    Some(next) if is_same(next, row) => return Shown::No,
                    Some(_) => true,
                }
            };
            if ends {
                return match given {
                    0 => Shown::No,
                    _ => Shown::Plain(PlainRow { first, behind: index, given, heap_size }),
                };
            }
            if is_same(key.qualifier(), qualifier) {
                return Shown::No;
            }
        }
    }
}

/// What a block shows of a row.
enum Shown {
    /// All of it, and it is given as it lies.
    Plain(PlainRow),
    /// Nothing that speaks against that before the block ends.
    ToTheEnd,
    /// That it is not.
    No,
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
    ///
    /// Not every row has all columns, and behind one that lacks some the places are others than here. So a cell that is longer
    /// than any which is not given here is one that will be.
    #[inline]
    fn fetch_others_ahead(&self, block: &Block) {
        let count = self.behind - self.first;
        let given = self.given.count_ones() as usize;
        if given == count {
            return self.fetch_ahead(WHOLE_AHEAD, |index, _| fetch_whole(block, index));
        }
        let is_given = |like: usize| self.given >> like & 1 == 1;
        let others = (0..count).filter(|like| !is_given(*like));
        let longest = others.map(|like| length_of(block, self.first + like)).max().unwrap_or(0);
        // So many cells that are given, with what lies between them, in whole rows.
        self.fetch_ahead(WHOLE_AHEAD.div_ceil(given) * count, |index, like| {
            if is_given(like) || length_of(block, index) > longest {
                fetch_whole(block, index);
            } else {
                fetch_key(block, index);
            }
        });
    }

    /// Does `fetch` for cells of rows so many cells ahead, with the place that each has in its row if all rows are like this one.
    #[inline]
    fn fetch_ahead(&self, cells: usize, fetch: impl Fn(usize, usize)) {
        let count = self.behind - self.first;
        if self.first == 0 {
            // Nobody has asked for them before the block was open.
            (1..cells).for_each(|index| fetch(index, index % count));
        }
        (0..count).for_each(|like| fetch(self.first + cells + like, like));
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

/// Bytes from where a cell of a block begins to where the next one does; 0 where there is none.
#[inline]
fn length_of(block: &Block, index: usize) -> usize {
    extent(block, index).len()
}

/// Asks the memory for a whole cell of a block, if there is one.
#[inline]
pub(crate) fn fetch_whole(block: &Block, index: usize) {
    let extent = extent(block, index);
    if !extent.is_empty() {
        cell::fetch_whole(block.bytes.get(extent).unwrap_or_default());
    }
}

/// Where a cell of a block lies, with what stands behind its value; nowhere if there is none.
#[inline]
fn extent(block: &Block, index: usize) -> Range<usize> {
    match block.offsets.get(index..) {
        Some(&[from, ref behind @ ..]) => {
            from as usize..behind.first().map_or(block.bytes.len(), |next| *next as usize)
        }
        _ => 0..0,
    }
}
