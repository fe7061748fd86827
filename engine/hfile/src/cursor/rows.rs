//! Skips or copies whole rows without parsing their cells. Works for rows that lie completely in the open block and the
//! next one.
//!
//! Conditions that are the same for all rows are checked once, before the first row, so no state is kept for a row. The
//! [row-start bits](crate::starts) show where rows begin without reading keys. If the last row of the open block
//! continues in the next block, the next block shows where the row ends, and becomes the open block.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cache::Block;
use cell::{Cell, CellSink, CellType, Comparator, Key, compare_bytes, is_same, is_same_row};

use super::{Cursor, Open};
use crate::{Reader, starts};

/// Number of cells [prefetched](cell::fetch) ahead while rows are [skipped](Cursor::skip_rows). More would exceed the
/// memory bandwidth.
const AHEAD: usize = 12;

/// Number of consecutive rows with fewer examined cells than expected after which the expectation is lowered.
const FEWER_MAX: usize = 32;

/// Number of returned cells that are [prefetched](cell::fetch_whole) ahead. With three cells, copying a row took a
/// tenth longer than with five; with seven, it took the same time.
const WHOLE_AHEAD: usize = 5;

/// Number of cells before the end of a block at which the next block is prefetched. If it were prefetched earlier, its
/// cache lines would be evicted before they are used.
const NEXT_AHEAD: usize = 24;

/// Maximum number of cells of a row that is [returned unparsed](Cursor::copy_rows). A longer row is parsed, without
/// examining all its cells first.
const CELLS_MAX: usize = 64;
const _: () = assert!(CELLS_MAX <= u64::BITS as usize, "each has a bit");

/// Number of bytes prefetched from the start of the next block before it is opened: about one cell.
const BLOCK_START: usize = 1_100;

/// How much [`Cursor::copy_rows`] returns at once.
#[derive(Clone, Copy, Debug)]
pub struct CopyLimits {
    /// Maximum number of rows.
    pub rows: usize,
    /// Maximum sum of the returned cells' [heap sizes](Reader::heap_size), exclusive.
    pub heap_size: u64,
}

/// The decision of a filter about one cell, when rows are [skipped](Cursor::skip_rows).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The filter does not refuse the cell: it may be wanted.
    No,
    /// The filter refuses the cell.
    Cell,
    /// The filter refuses the cell if it refuses the [row](Refused::Row) because of another cell.
    Undecided,
    /// The filter refuses the cell and its whole row.
    Row,
}

/// The result of skipping or copying several rows. `index` is the index of the cell after these rows; the cursor has
/// not moved there yet.
struct Run {
    rows: usize,
    /// Whether the run stopped at a row that may continue in the next block.
    reached_end: bool,
}

impl Cursor {
    /// Skips the next rows that `refuses` refuses, and returns their number. A row is refused if one of its cells
    /// returns [`Refused::Row`], or all return [`Refused::Cell`]. Stops at the first other row, at `end`, and at a row
    /// that ends neither in the open block nor in the next one. The cursor must be at the first cell of a row, and moves
    /// to the first cell after the skipped rows.
    ///
    /// `refuses` is called for the cells of a row in order, until the row is refused or a cell may be wanted. No row at or after `end` is skipped, and none in a file with tags. The cells passed to it
    /// have no sequence id, which is stored after the value, in another cache line.
    pub fn skip_rows(&mut self, end: Option<&[u8]>, refuses: impl Fn(Cell<'_>) -> Refused) -> u64 {
        let next_block = self.fetch_next_block(usize::MAX, 0);
        self.run_on(|cursor, next| cursor.skip_rows_of_block(next, next_block.as_deref(), end, &refuses))
            as u64
    }

    /// Passes the wanted cells of the next rows before `end` to `sink`, without a parse of each cell, and returns the
    /// number of these rows. It stops at `limits`, and at the first row that does not qualify.
    ///
    /// A row qualifies if it begins in the open block, ends in it or in the next block, and has at most `CELLS_MAX`
    /// cells: Puts of different columns, at least one of them in the sorted columns `wanted` (`None` for all). In a file
    /// with tags no row qualifies. The cursor must be at the first cell of a row, and moves to the first cell after the
    /// passed rows.
    pub fn copy_rows(
        &mut self,
        end: Option<&[u8]>,
        limits: CopyLimits,
        wanted: Option<&[Bytes]>,
        sink: &mut dyn CellSink,
    ) -> usize {
        let _asked = self.fetch_next_block(NEXT_AHEAD, BLOCK_START);
        let mut left = limits;
        self.run_on(|cursor, next| cursor.copy_rows_of_block(next, end, &mut left, wanted, sink))
    }

    /// Calls `run`, which copies or skips rows, for the open block. If it stops at the last row, which may continue in
    /// the next block, loads that block and calls `run` with it. If `run` then reaches the next block, that becomes the
    /// open block. Returns the number of rows.
    fn run_on(&mut self, mut run: impl FnMut(&mut Cursor, Option<&Block>) -> Run) -> usize {
        let Run { mut rows, reached_end } = run(self, None);
        self.ran_out = false;
        // If reading the next block fails, the run only ends early. The caller gets the error when it moves there.
        if reached_end && let Ok(Some((at, next))) = self.look_up_next() {
            let count = self.block().map_or(0, |block| block.offsets.len());
            let more = if next.offsets.is_empty() { 0 } else { run(self, Some(&next)).rows };
            if more > 0 {
                self.open = Open::Block(at, next);
                self.index -= count;
                self.ran_out = true;
            } else {
                self.keep_next(at, next);
            }
            rows += more;
        }
        if rows > 0 {
            // Done once at the end, because it reads the cell's sequence id, which is not in the processor's cache.
            self.move_to(self.index);
        }
        rows
    }

    /// Whether the last call of [`skip_rows`](Cursor::skip_rows) or [`copy_rows`](Cursor::copy_rows) returned because
    /// it had entered the next block. Then another call may find more rows.
    pub fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// Prefetches the beginning of the next block into the processor's cache: its cell offsets, its row-start bits and
    /// its first `bytes` bytes. Does so once for each open block, when at most `cells` of its cells are left, and only
    /// if the next block is in the block cache. Returns the next block if this call prefetched it.
    #[inline]
    fn fetch_next_block(&mut self, cells: usize, bytes: usize) -> Option<Arc<Block>> {
        if let Open::Block(at, block) = &self.open
            && self.fetched_after != *at
            && block.offsets.len() - self.index <= cells
        {
            self.fetched_after = *at;
            return self.reader.fetch_block_after(*at, block.disk_length, bytes);
        }
        None
    }

    /// Skips rows that begin in the open block, and returns how many. With `next`, the block after it, also skips the
    /// last row of the open block if it ends in `next`; without `next` it stops at that row. `next_block` is the same
    /// block if it is only to be prefetched.
    fn skip_rows_of_block(
        &mut self,
        next: Option<&Block>,
        next_block: Option<&Block>,
        end: Option<&[u8]>,
        refuses: &impl Fn(Cell<'_>) -> Refused,
    ) -> Run {
        let Some(cells) = self.cells_without_tags(next) else { return Run { rows: 0, reached_end: false } };
        let count = cells.block.offsets.len();
        let is_before_end = before(self.reader.comparator(), end);
        // If the block's last row is before the end, all rows are.
        let all_before = is_before_end(cells.key(count - 1).row());
        // With `next`, this is the second examination of the last row, whose cells were prefetched at the first one.
        let is_asked = next.is_some();
        let mut prefetch = RowPrefetch { block: cells.block, next_block, index: self.index, rows: 0 };
        let (mut first, mut rows, mut examined, mut reached_end) = (self.index, 0, self.examined, false);
        'rows: while first < count && (all_before || is_before_end(cells.key(first).row())) {
            let ends = cells.row_end(first);
            let row_end = match ends {
                RowEnd::At(index) => index,
                RowEnd::NextBlock => count,
                RowEnd::Far => break,
            };
            if !is_asked {
                prefetch.row_begins(examined);
            }
            // `refused` is the decision about the row by the cells examined so far.
            let (mut refused, mut of_row) = (Refused::Cell, 0);
            for index in first..row_end {
                // The cells of a long row are prefetched here. Before the row, only its first cells were.
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
            if ends == RowEnd::NextBlock {
                reached_end = true;
                break;
            }
            if refused == Refused::Undecided {
                break;
            }
            examined.note(of_row);
            (first, rows) = (row_end, rows + 1);
        }
        (self.index, self.examined) = (first, examined);
        Run { rows, reached_end }
    }

    /// Passes the wanted cells of rows that begin in the open block to `sink`. Returns the number of rows, and reduces
    /// `left` by what it passed. With `next`, the block after it, also passes the last row of the open block if it ends
    /// in `next`; without `next` it stops at that row.
    fn copy_rows_of_block(
        &mut self,
        next: Option<&Block>,
        end: Option<&[u8]>,
        left: &mut CopyLimits,
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
                RowView::Plain(row) if row.heap_size < left.heap_size => row,
                RowView::Plain(_) | RowView::No => break,
                RowView::ToTheEnd => {
                    reached_end = true;
                    break;
                }
            };
            row.fetch_others_ahead(cells.block);
            row.given().for_each(|index| {
                let (bytes, at) = cells.place(index);
                let cell = self.reader.cell_at(bytes, at);
                sink.sized_cell(cell, self.reader.heap_size(cell));
            });
            sink.row_ends();
            (first, rows) = (row.end, rows + 1);
            *left = CopyLimits { rows: left.rows - 1, heap_size: left.heap_size - row.heap_size };
        }
        self.index = first;
        Run { rows, reached_end }
    }

    /// Returns the cells of the open block and of `next`; `None` if cells of the file may have tags.
    #[inline]
    fn cells_without_tags<'a>(&'a self, next: Option<&'a Block>) -> Option<Cells<'a>> {
        let block = self.block().filter(|_| !self.reader.may_have_tags())?;
        Some(Cells { block, next })
    }

    /// Returns the row that begins at `first`, if it can be returned unparsed.
    #[inline]
    fn plain_row(&self, cells: &Cells<'_>, first: usize, mut wanted: Option<&[Bytes]>) -> RowView {
        let ends = cells.row_end(first);
        let end = match ends {
            RowEnd::At(index) => index,
            RowEnd::NextBlock => cells.block.offsets.len(),
            RowEnd::Far => return RowView::No,
        };
        if end - first > CELLS_MAX {
            return RowView::No;
        }
        let (mut given, mut heap_size) = (0u64, 0);
        let mut last: Option<&[u8]> = None;
        for index in first..end {
            let key = cells.key(index);
            let qualifier = key.qualifier();
            if key.type_code() != CellType::Put.code() || last.is_some_and(|last| is_same(last, qualifier)) {
                return RowView::No;
            }
            if is_next(&mut wanted, qualifier) {
                given |= 1 << (index - first);
                let (bytes, at) = cells.place(index);
                heap_size += self.reader.untagged_heap_size(bytes, at) as u64;
            }
            last = Some(qualifier);
        }
        match given {
            _ if ends == RowEnd::NextBlock => RowView::ToTheEnd,
            0 => RowView::No,
            _ => RowView::Plain(PlainRow { first, end, given, heap_size }),
        }
    }
}

/// The cells of a block. The cells of the next block follow with consecutive indices, if it was loaded, because the
/// last row of the block may continue there.
struct Cells<'a> {
    block: &'a Block,
    next: Option<&'a Block>,
}

/// Where a row of the open block ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowEnd {
    /// The row ends before the cell with this index.
    At(usize),
    /// The row ends at the end of the block, or in the next one, which was not loaded.
    NextBlock,
    /// The row continues even after the next block.
    Far,
}

impl<'a> Cells<'a> {
    /// Returns the bytes that contain the cell at `index`, and its offset.
    #[inline]
    fn place(&self, index: usize) -> (&'a [u8], usize) {
        match (self.block.offsets.get(index), self.next) {
            (None, Some(next)) => (&next.bytes, next.offsets[index - self.block.offsets.len()] as usize),
            _ => (&self.block.bytes, self.block.offsets[index] as usize),
        }
    }

    /// Returns the key of the cell at `index`, and reads nothing else of it.
    #[inline(always)]
    fn key(&self, index: usize) -> Key<'a> {
        let (bytes, at) = self.place(index);
        Cell::key_within(&bytes[at..])
    }

    /// Returns the end of the row that begins at `first`.
    #[inline]
    fn row_end(&self, first: usize) -> RowEnd {
        let count = self.block.offsets.len();
        let end = starts::next(&self.block.row_starts, first + 1, count);
        if end < count {
            return RowEnd::At(end);
        }
        let Some(next) = self.next else { return RowEnd::NextBlock };
        if !is_same_row(self.key(first).row(), self.key(count).row()) {
            return RowEnd::At(count);
        }
        match starts::next(&next.row_starts, 1, next.offsets.len()) {
            end if end < next.offsets.len() => RowEnd::At(count + end),
            _ => RowEnd::Far,
        }
    }
}

/// The expected number of examined cells of a row: the greatest number among the last rows. A single row with fewer
/// examined cells does not lower it, since rows may lack columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExaminedCells {
    most: usize,
    /// Number of rows with fewer examined cells since the greatest one.
    fewer: usize,
}

impl ExaminedCells {
    /// The expected number before any row was examined.
    pub(super) const NONE: ExaminedCells = ExaminedCells { most: 1, fewer: 0 };

    #[inline]
    fn note(&mut self, examined: usize) {
        self.fewer += 1;
        if examined >= self.most || self.fewer > FEWER_MAX {
            *self = ExaminedCells { most: examined, fewer: 0 };
        }
    }
}

/// Prefetches cells of later rows: in each of them as many as were examined in earlier rows.
struct RowPrefetch<'a> {
    block: &'a Block,
    /// The block after the open one.
    next_block: Option<&'a Block>,
    /// The first cell of the row to prefetch next.
    index: usize,
    /// Number of rows that are prefetched and not examined yet.
    rows: usize,
}

impl RowPrefetch<'_> {
    /// Prefetches later rows until as many cells are on their way as [`AHEAD`] asks for. Called before a row is
    /// examined.
    #[inline]
    fn row_begins(&mut self, examined: ExaminedCells) {
        let cells = examined.most.clamp(1, AHEAD);
        self.rows = self.rows.saturating_sub(1);
        while self.rows * cells < AHEAD + cells && self.ask_for_row(cells) {
            self.rows += 1;
        }
    }

    /// Prefetches the first `cells` cells of one more row. Returns `false` if no row is left in the known blocks.
    #[inline]
    fn ask_for_row(&mut self, cells: usize) -> bool {
        if self.index == self.block.offsets.len() {
            let Some(next) = self.next_block.take() else { return false };
            (self.block, self.index) = (next, 0);
            // The next block begins here. The cursor will read the sequence ids of the first two cells, which follow
            // their values.
            for end in [0, 1].map(|index| extent(next, index).end) {
                cell::fetch_whole(next.bytes.get(end.saturating_sub(1)..end).unwrap_or_default());
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

/// The result of looking at a row's cells without parsing them.
enum RowView {
    /// The row is complete, and can be returned unparsed.
    Plain(PlainRow),
    /// The row reaches the end of the block. Up to there it can be returned unparsed.
    ToTheEnd,
    /// The row cannot be returned unparsed.
    No,
}

/// A row that can be returned unparsed.
struct PlainRow {
    first: usize,
    end: usize,
    /// Which cells of the row are returned, as bits; the lowest bit stands for the first cell.
    given: u64,
    /// Heap size of the returned cells, in bytes.
    heap_size: u64,
}

impl PlainRow {
    /// Returns the positions in the row of the cells to return.
    #[inline]
    fn given(&self) -> impl Iterator<Item = usize> {
        let (first, mut left) = (self.first, self.given);
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| first + left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(next)
        })
    }

    /// Prefetches cells of later rows, on the assumption that all rows are like this one: the whole cell if it is
    /// returned, else only its key, which shows where the row ends. The alternatives were slower for rows of ten
    /// columns of which one is returned: a fifth if everything was prefetched, a third if nothing was.
    ///
    /// If some rows lack columns, positions after them differ from this row's. So a cell is also assumed to be returned
    /// if it is longer than every cell of this row that is not returned.
    #[inline]
    fn fetch_others_ahead(&self, block: &Block) {
        let count = self.end - self.first;
        let given = self.given.count_ones() as usize;
        if given == count {
            return self.fetch_ahead(WHOLE_AHEAD, |index, _| fetch_whole(block, index));
        }
        let is_given = |like: usize| self.given >> like & 1 == 1;
        let others = (0..count).filter(|like| !is_given(*like));
        let longest = others.map(|like| length_of(block, self.first + like)).max().unwrap_or(0);
        // As many rows as have at least this many returned cells.
        self.fetch_ahead(WHOLE_AHEAD.div_ceil(given) * count, |index, like| {
            if is_given(like) || length_of(block, index) > longest {
                fetch_whole(block, index);
            } else {
                fetch_key(block, index);
            }
        });
    }

    /// Calls `fetch` with the index of a cell of a later row, `cells` cells ahead, and with the position that the cell
    /// has in its row if all rows are like this one.
    #[inline]
    fn fetch_ahead(&self, cells: usize, fetch: impl Fn(usize, usize)) {
        let count = self.end - self.first;
        if self.first == 0 {
            // The first cells could not be prefetched before the block was open.
            (1..cells).for_each(|index| fetch(index, index % count));
        }
        (0..count).for_each(|like| fetch(self.first + cells + like, like));
    }
}

/// Whether a row is before `end`; always true without an `end`.
fn before(comparator: Comparator, end: Option<&[u8]>) -> impl Fn(&[u8]) -> bool {
    move |row| end.is_none_or(|end| comparator.compare_rows(row, end).is_lt())
}

/// Whether the column `qualifier` is wanted. `wanted` has the wanted columns in order; those before `qualifier` are
/// removed from it.
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

/// Prefetches the key of the cell at `index` of a block, if that cell exists.
#[inline]
fn fetch_key(block: &Block, index: usize) {
    if let Some(&at) = block.offsets.get(index) {
        cell::fetch_key(&block.bytes, at as usize);
    }
}

/// Returns the distance from the cell at `index` to the next one, in bytes; 0 if there is no next one.
#[inline]
fn length_of(block: &Block, index: usize) -> usize {
    extent(block, index).len()
}

/// Prefetches the whole cell at `index` of a block, if that cell exists.
#[inline]
pub(crate) fn fetch_whole(block: &Block, index: usize) {
    let extent = extent(block, index);
    if !extent.is_empty() {
        cell::fetch_whole(block.bytes.get(extent).unwrap_or_default());
    }
}

/// Returns the range in the block of the cell at `index`, with its sequence id; an empty range if that cell does not
/// exist.
#[inline]
fn extent(block: &Block, index: usize) -> Range<usize> {
    match block.offsets.get(index..) {
        Some(&[from, ref rest @ ..]) => {
            from as usize..rest.first().map_or(block.bytes.len(), |next| *next as usize)
        }
        _ => 0..0,
    }
}
