//! Rows as a whole, where the open block and the one behind it show all of them: passed, or given as they lie.
//!
//! What is the same for every row was asked before. So nothing is noted of a row, and none is looked for. Where rows begin
//! [bits](crate::starts) say, and no key is looked at for it. Where the block's last row ends, be it in the next one, that one says,
//! and is open then.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cache::Block;
use cell::{Cell, CellSink, CellType, Comparator, Key, compare_bytes, is_same, is_same_row};

use super::{Cursor, Open};
use crate::{Reader, starts};

/// So many cells that are judged are [asked for](cell::fetch) ahead when rows are [passed](Cursor::pass_rows): as many as memory
/// has time for.
const AHEAD: usize = 12;

/// So many rows of which fewer cells are judged than before are no chance.
const FEWER_MAX: usize = 32;

/// How many cells that are given are [asked for](cell::fetch_whole) ahead. With three a row took a tenth longer, with seven no less.
const WHOLE_AHEAD: usize = 5;

/// Cells before the end of a block whose rows are given: from there on the next block is asked for. Before, what comes of it would
/// be gone again when it is needed.
const NEXT_AHEAD: usize = 24;

/// Cells of a row that is [given as it lies](Cursor::give_rows), at most: of one that is not, they are looked at in vain.
const CELLS_MAX: usize = 64;
const _: () = assert!(CELLS_MAX <= u64::BITS as usize, "each has a bit");

/// Bytes of a block that memory is asked for before the block is open, where its rows are given: a cell, as most are.
const BLOCK_START: usize = 1_100;

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

/// What a run of rows came to. The cursor's index is that of the cell behind them, on which it does not stand yet.
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
        let behind = self.fetch_next_block(usize::MAX, 0);
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
        let _asked = self.fetch_next_block(NEXT_AHEAD, BLOCK_START);
        let mut left = most;
        self.run_on(|cursor, next| cursor.give_rows_of_block(next, end, &mut left, wanted, sink))
    }

    /// Does a run of rows to the end of the open block. If it stops at the last row, which may go on in the next block, that one
    /// is looked up and shown to it. Into which the run comes, that block is open.
    fn run_on(&mut self, mut run: impl FnMut(&mut Cursor, Option<&Block>) -> Run) -> usize {
        let Run { mut rows, reached_end } = run(self, None);
        self.ran_out = false;
        // What keeps the next block from being read is told to who needs it.
        if reached_end && let Ok(Some((at, next))) = self.look_behind() {
            let count = self.block().map_or(0, |block| block.offsets.len());
            let more = if next.offsets.is_empty() { 0 } else { run(self, Some(&next)).rows };
            if more > 0 {
                self.open = Open::Block(at, next);
                self.index -= count;
                self.ran_out = true;
            } else {
                self.put_behind(at, next);
            }
            rows += more;
        }
        if rows > 0 {
            // Only here, and only once: the number of a cell is far from all that was looked at.
            self.stand_on(self.index);
        }
        rows
    }

    /// Whether the last run of rows came to an end because its block did: behind it, more may be as it wants them.
    pub fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// Asks the memory for where cells of the next block begin and for so many bytes of it, once, if no more than so many cells of
    /// this one are left.
    #[inline]
    fn fetch_next_block(&mut self, cells: usize, bytes: usize) -> Option<Arc<Block>> {
        if let Open::Block(at, block) = &self.open
            && self.fetched_behind != *at
            && block.offsets.len() - self.index <= cells
        {
            self.fetched_behind = *at;
            return self.reader.fetch_block_after(*at, block.disk_length, bytes);
        }
        None
    }

    /// Passes rows that begin in the open block; `next` is the one behind it, if the last of them is to be passed.
    fn pass_rows_of_block(
        &mut self,
        next: Option<&Block>,
        behind: Option<&Block>,
        end: Option<&[u8]>,
        refuses: &impl Fn(Cell<'_>) -> Refused,
    ) -> Run {
        let Some(cells) = self.cells_without_tags(next) else { return Run { rows: 0, reached_end: false } };
        let count = cells.block.offsets.len();
        let is_before_end = before(self.reader.comparator(), end);
        // Where the block's last row is before the end, all are.
        let all_before = is_before_end(cells.key(count - 1).row());
        // The last row's cells were asked for when it was judged for the first time.
        let is_asked = next.is_some();
        let mut asking = Asking { block: cells.block, behind, index: self.index, rows: 0 };
        let (mut first, mut rows, mut judged, mut reached_end) = (self.index, 0, self.judged, false);
        'rows: while first < count && (all_before || is_before_end(cells.key(first).row())) {
            let ends = cells.row_end(first);
            let row_end = match ends {
                RowEnd::At(index) => index,
                RowEnd::Behind => count,
                RowEnd::Far => break,
            };
            if !is_asked {
                asking.row_begins(judged);
            }
            // What is known of the row.
            let (mut refused, mut of_row) = (Refused::Cell, 0);
            for index in first..row_end {
                // What follows in a long row was not asked for with its first cells.
                if index + AHEAD < row_end {
                    let (bytes, at) = cells.place(index + AHEAD);
                    cell::fetch(bytes, at);
                }
                let (bytes, at) = cells.place(index);
                of_row = index + 1 - first;
                match refuses(Reader::untagged_at(bytes, at)) {
                    Refused::No => break 'rows,
                    Refused::Cell => {}
                    Refused::Undecided => refused = Refused::Undecided,
                    Refused::Row => {
                        refused = Refused::Row;
                        break;
                    }
                }
            }
            if ends == RowEnd::Behind {
                reached_end = true;
                break;
            }
            if refused == Refused::Undecided {
                break;
            }
            judged.note(of_row);
            (first, rows) = (row_end, rows + 1);
        }
        (self.index, self.judged) = (first, judged);
        Run { rows, reached_end }
    }

    /// Gives rows that begin in the open block, and takes them from what is `left` to be given; `next` is the block behind it, if
    /// the last of them is to be given.
    fn give_rows_of_block(
        &mut self,
        next: Option<&Block>,
        end: Option<&[u8]>,
        left: &mut Most,
        wanted: Option<&[Bytes]>,
        sink: &mut dyn CellSink,
    ) -> Run {
        let Some(cells) = self.cells_without_tags(next) else { return Run { rows: 0, reached_end: false } };
        let count = cells.block.offsets.len();
        let is_before_end = before(self.reader.comparator(), end);
        let all_before = is_before_end(cells.key(count - 1).row());
        let (mut first, mut rows, mut reached_end) = (self.index, 0, false);
        while left.rows > 0 && first < count && (all_before || is_before_end(cells.key(first).row())) {
            let row = match self.plain_row(&cells, first, wanted) {
                Shown::Plain(row) if row.heap_size < left.heap_size => row,
                Shown::Plain(_) | Shown::No => break,
                Shown::ToTheEnd => {
                    reached_end = true;
                    break;
                }
            };
            row.fetch_others_ahead(cells.block);
            row.given().for_each(|index| {
                let (bytes, at) = cells.place(index);
                sink.cell(self.reader.cell_at(bytes, at));
            });
            sink.row_ends();
            (first, rows) = (row.behind, rows + 1);
            *left = Most { rows: left.rows - 1, heap_size: left.heap_size - row.heap_size };
        }
        self.index = first;
        Run { rows, reached_end }
    }

    /// The cells of the open block, if none has tags, and those of the `next` one.
    #[inline]
    fn cells_without_tags<'a>(&'a self, next: Option<&'a Block>) -> Option<Cells<'a>> {
        let block = self.block().filter(|_| !self.reader.may_have_tags())?;
        Some(Cells { block, next })
    }

    /// The row that begins at `first`, if it can be given as it lies.
    #[inline]
    fn plain_row(&self, cells: &Cells<'_>, first: usize, mut wanted: Option<&[Bytes]>) -> Shown {
        let ends = cells.row_end(first);
        let behind = match ends {
            RowEnd::At(index) => index,
            RowEnd::Behind => cells.block.offsets.len(),
            RowEnd::Far => return Shown::No,
        };
        if behind - first > CELLS_MAX {
            return Shown::No;
        }
        let (mut given, mut heap_size) = (0u64, 0);
        let mut last: Option<&[u8]> = None;
        for index in first..behind {
            let key = cells.key(index);
            let qualifier = key.qualifier();
            if key.type_code() != CellType::Put.code() || last.is_some_and(|last| is_same(last, qualifier)) {
                return Shown::No;
            }
            if is_next(&mut wanted, qualifier) {
                given |= 1 << (index - first);
                let (bytes, at) = cells.place(index);
                heap_size += self.reader.untagged_heap_size(bytes, at) as u64;
            }
            last = Some(qualifier);
        }
        match given {
            _ if ends == RowEnd::Behind => Shown::ToTheEnd,
            0 => Shown::No,
            _ => Shown::Plain(PlainRow { first, behind, given, heap_size }),
        }
    }
}

/// The cells of a block, and behind them, with indexes that go on, those of the next block, if it was looked up: into that one the
/// last row may go on.
struct Cells<'a> {
    block: &'a Block,
    next: Option<&'a Block>,
}

/// Where a row of a block ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowEnd {
    /// Before this cell.
    At(usize),
    /// At the end of the block, or in the next one, which was not looked up.
    Behind,
    /// In the block after the next.
    Far,
}

impl<'a> Cells<'a> {
    /// In which bytes the cell at `index` begins, and where.
    #[inline]
    fn place(&self, index: usize) -> (&'a [u8], usize) {
        match (self.block.offsets.get(index), self.next) {
            (None, Some(next)) => (&next.bytes, next.offsets[index - self.block.offsets.len()] as usize),
            _ => (&self.block.bytes, self.block.offsets[index] as usize),
        }
    }

    /// The key of the cell at `index`, of which nothing else is looked at.
    #[inline(always)]
    fn key(&self, index: usize) -> Key<'a> {
        let (bytes, at) = self.place(index);
        Cell::key_within(&bytes[at..])
    }

    /// Where the row ends that begins at `first` in the block.
    #[inline]
    fn row_end(&self, first: usize) -> RowEnd {
        let count = self.block.offsets.len();
        let end = starts::next(&self.block.row_starts, first + 1, count);
        if end < count {
            return RowEnd::At(end);
        }
        let Some(next) = self.next else { return RowEnd::Behind };
        if !is_same_row(self.key(first).row(), self.key(count).row()) {
            return RowEnd::At(count);
        }
        match starts::next(&next.row_starts, 1, next.offsets.len()) {
            end if end < next.offsets.len() => RowEnd::At(count + end),
            _ => RowEnd::Far,
        }
    }
}

/// How many cells of a row are judged: as many as of the one of the last rows that had the most. A row that lacks a column says
/// nothing of those behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    most: usize,
    /// Rows since then with fewer.
    fewer: usize,
}

impl Judged {
    /// Before any row was judged.
    pub(super) const NONE: Judged = Judged { most: 1, fewer: 0 };

    #[inline]
    fn note(&mut self, judged: usize) {
        self.fewer += 1;
        if judged >= self.most || self.fewer > FEWER_MAX {
            *self = Judged { most: judged, fewer: 0 };
        }
    }
}

/// Asks the memory for cells of rows ahead of the one that is judged, as if in each as many were judged as in those before.
struct Asking<'a> {
    block: &'a Block,
    /// The block that comes then.
    behind: Option<&'a Block>,
    /// The cell with which the row begins that is asked for next.
    index: usize,
    /// How many rows were asked for and not judged yet.
    rows: usize,
}

impl Asking<'_> {
    /// A row is about to be judged: asks for rows behind it until enough are on their way.
    #[inline]
    fn row_begins(&mut self, judged: Judged) {
        let cells = judged.most.clamp(1, AHEAD);
        self.rows = self.rows.saturating_sub(1);
        while self.rows * cells < AHEAD + cells && self.ask_for_row(cells) {
            self.rows += 1;
        }
    }

    /// Asks for the first cells of one more row, if there is one.
    #[inline]
    fn ask_for_row(&mut self, cells: usize) -> bool {
        if self.index == self.block.offsets.len() {
            let Some(behind) = self.behind.take() else { return false };
            (self.block, self.index) = (behind, 0);
            // The cursor will stand on its first cell, or the one behind, and needs the number, which is behind the value.
            for end in [0, 1].map(|index| extent(behind, index).end) {
                cell::fetch_whole(behind.bytes.get(end.saturating_sub(1)..end).unwrap_or_default());
            }
        }
        let Block { bytes, offsets, row_starts, .. } = self.block;
        let row = self.index..starts::next(row_starts, self.index + 1, offsets.len());
        let first = offsets.get(row.start..row.end.min(row.start + cells)).unwrap_or_default();
        first.iter().for_each(|at| cell::fetch(bytes, *at as usize));
        self.index = row.end;
        !row.is_empty()
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

/// Whether rows are before `end`, if there is one.
fn before(comparator: Comparator, end: Option<&[u8]>) -> impl Fn(&[u8]) -> bool {
    move |row| end.is_none_or(|end| comparator.compare_rows(row, end).is_lt())
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
