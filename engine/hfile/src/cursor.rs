//! A cursor over the cells of a file.
//!
//! A cursor has one block open. A reader that seeks a row, and probably needs no other row of the block, gets only a
//! [part](cache::Part) of the block: the cells of this row and the next cell. If the reader continues after these, the
//! cursor opens the whole block.

use std::ops::Range;
use std::sync::Arc;

use cache::{Ask, Block, BlockKind, Cells, Part};
use cell::{Cell, KeyBuf, Position, SequenceId, is_same_row};

mod rows;

pub(crate) use rows::fetch_whole;

pub use rows::{CopyLimits, Refused};

use crate::ahead::{ReadAhead, ReadType};
use crate::heads::{self, Number};
use crate::held::{BlockAccess, HeldBlocks};
use crate::{Reader, Result};

/// How a cursor gets blocks.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Whether data blocks read from the file are put into the cache.
    pub cache_blocks: bool,
    /// Whether a block that is not cached is [an error](crate::Error::would_block) instead of a wait for storage.
    pub memory_only: bool,
    /// Whether consecutive blocks are read together.
    pub read_type: ReadType,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions { cache_blocks: true, memory_only: false, read_type: ReadType::Default }
    }
}

impl ReadOptions {
    pub(crate) fn ask(self) -> Ask {
        Ask { keep: self.cache_blocks, memory_only: self.memory_only }
    }
}

/// The block or part of a block that a cursor has open, with its offset in the file.
enum Open {
    Nothing,
    Block(u64, Arc<Block>),
    Part(u64, Part),
}

/// A position in a file, from which cells are read in order. Before the first seek, and after the last cell, the cursor
/// has no position. After an error its position is unknown until it seeks again.
pub struct Cursor {
    reader: Arc<Reader>,
    options: ReadOptions,
    open: Open,
    index: usize,
    /// Range in the block of the cell at `index`; kept because it is needed often.
    cell: Range<usize>,
    /// Sequence id of the cell at `index`; kept because it is needed often.
    sequence: SequenceId,
    held: Option<Box<HeldBlocks>>,
    ahead: Option<Box<ReadAhead>>,
    /// The block after the open one, if the cursor has looked it up already.
    next_block: Option<NextBlock>,
    /// Offset of the block after which a block was prefetched last.
    fetched_after: u64,
    /// See [`Cursor::ran_out`].
    ran_out: bool,
    /// Statistics of the cells examined in skipped rows.
    examined: rows::ExaminedCells,
    /// Whether the cursor checks if the blocks that it opens were in the cache.
    watches_cache: bool,
    /// Whether the open block was in the cache.
    was_in_cache: bool,
}

/// A block that was looked up because it follows another one; see [`Cursor::next_block`].
struct NextBlock {
    /// Offset of the block before this one.
    of: u64,
    at: u64,
    block: Arc<Block>,
}

impl Cursor {
    pub(crate) fn new(reader: Arc<Reader>, options: ReadOptions) -> Cursor {
        Cursor {
            reader,
            options,
            open: Open::Nothing,
            index: 0,
            cell: 0..0,
            sequence: SequenceId::ZERO,
            held: None,
            ahead: None,
            next_block: None,
            fetched_after: u64::MAX,
            ran_out: false,
            examined: rows::ExaminedCells::NONE,
            watches_cache: false,
            was_in_cache: false,
        }
    }

    /// Changes how blocks are read from now on.
    pub fn set_options(&mut self, options: ReadOptions) {
        self.options = options;
    }

    /// Returns how blocks are read.
    pub fn options(&self) -> ReadOptions {
        self.options
    }

    /// Makes the cursor keep up to 64 of the blocks that it looks up until it is dropped, so that later rows in the
    /// same blocks mostly need no lookup. For cursors that read many rows and live a short time.
    pub fn hold_blocks(&mut self) {
        self.held.get_or_insert_with(|| Box::new(HeldBlocks::new()));
    }

    /// Makes the cursor record [whether opened blocks were in the cache](Cursor::was_in_cache).
    pub fn watch_cache(&mut self) {
        self.watches_cache = true;
    }

    /// Whether the open block was in the cache right after it was opened. This says something only if the cursor itself
    /// caches no blocks. Always `false` unless [`watch_cache`](Cursor::watch_cache) was called.
    #[inline]
    pub fn was_in_cache(&self) -> bool {
        self.was_in_cache
    }

    fn way(&self) -> BlockAccess<'_> {
        BlockAccess { options: self.options, held: self.held.as_deref() }
    }

    /// Whether the file may have cells of `row`, by its Bloom filter; `true` if it has none of rows or prefixes.
    pub fn may_contain_row(&self, row: &[u8]) -> Result<bool> {
        self.reader.row_may_be_here(row, self.way())
    }

    /// Whether the file may have cells of the column, other than deletes of the whole family.
    pub fn may_contain_column(&self, row: &[u8], qualifier: &[u8]) -> Result<bool> {
        self.reader.column_may_be_here(row, qualifier, self.way())
    }

    /// Whether the file may have markers that delete a whole family of `row`; `true` if the file does not say.
    pub fn may_delete_families_of(&self, row: &[u8]) -> Result<bool> {
        self.reader.families_may_be_deleted(row, self.way())
    }

    /// Drops the cursor's position: it has no current cell until the next seek.
    pub fn leave(&mut self) {
        self.open = Open::Nothing;
        self.next_block = None;
    }

    /// Returns the file.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// Returns the current cell; `None` if the cursor has no position.
    #[inline]
    pub fn peek(&self) -> Option<Cell<'_>> {
        let bytes = match &self.open {
            Open::Block(_, block) => &block.bytes[..],
            Open::Part(_, part) => part.bytes(),
            Open::Nothing => return None,
        };
        Some(Cell::trusted(&bytes[self.cell.clone()], self.sequence))
    }

    /// Returns the open block; `None` if only a part of a block is open, or nothing.
    #[inline]
    fn block(&self) -> Option<&Arc<Block>> {
        match &self.open {
            Open::Block(_, block) => Some(block),
            Open::Nothing | Open::Part(..) => None,
        }
    }

    /// Moves to the cell at `index` of the open block; returns `false` if `index` is after the last cell or outside the
    /// part.
    #[inline]
    fn move_to(&mut self, index: usize) -> bool {
        self.index = index;
        (self.cell, self.sequence) = match &self.open {
            Open::Block(_, block) => {
                let Some(&place) = block.offsets.get(index) else { return false };
                self.reader.place_of_cell(&block.bytes, place as usize)
            }
            Open::Part(_, part) => {
                if !part.here().contains(&index) {
                    return false;
                }
                let place = part.offsets()[index].value() as usize - part.from();
                self.reader.place_of_cell(part.bytes(), place)
            }
            Open::Nothing => return false,
        };
        true
    }

    /// Opens the whole block if only a part is open.
    #[cold]
    fn open_whole(&mut self) -> Result<()> {
        if let Open::Part(at, _) = self.open {
            self.open = Open::Nothing;
            self.open = Open::Block(at, self.reader.block(at, None, BlockKind::Data, self.way())?);
        }
        Ok(())
    }

    /// Moves to the first cell at or after `position`. Without such a cell the cursor then has no position.
    ///
    /// A scan that looks for its position again seeks in all its files. Those that it has passed cost no read, even if
    /// their blocks are not cached.
    pub fn seek(&mut self, position: Position<'_>) -> Result<()> {
        match &self.open {
            Open::Block(_, block) if self.is_within(block, position) => {
                self.move_to(self.place_in(block, position));
                return Ok(());
            }
            Open::Part(_, part) => {
                let index = self.place_in_part(part, position);
                // The first cells at or after a block's start may be in the block before it.
                if index.is_some_and(|index| index > 0 && self.move_to(index)) {
                    return Ok(());
                }
            }
            Open::Block(..) | Open::Nothing => {}
        }
        let comparator = self.reader.comparator();
        if self.reader.last_key().is_some_and(|last| comparator.compare_keys(last, position.key).is_lt()) {
            self.leave();
            return Ok(());
        }
        let open = std::mem::replace(&mut self.open, Open::Nothing);
        let Some((offset, length)) = self.reader.find_block(position, self.way())? else { return Ok(()) };
        self.open = match open {
            Open::Block(at, _) if at == offset => open,
            _ => Open::Block(offset, self.reader.block(offset, Some(length), BlockKind::Data, self.way())?),
        };
        self.seek_from_open(position)
    }

    /// Like [`Cursor::seek`], for a position that is probably in another block, and a reader that needs little more
    /// than the row. Does not compare with the first and last cell of the open block, which are seldom in the
    /// processor's cache.
    pub fn seek_far(&mut self, position: Position<'_>) -> Result<()> {
        let open = std::mem::replace(&mut self.open, Open::Nothing);
        let Some((offset, length)) = self.reader.find_block(position, self.way())? else { return Ok(()) };
        self.open = match open {
            Open::Block(at, _) if at == offset => open,
            // This is the second seek in the same block, so open all of it.
            Open::Part(at, _) if at == offset => {
                Open::Block(at, self.reader.block(at, Some(length), BlockKind::Data, self.way())?)
            }
            _ => {
                let pick = |part: &Part| wanted_of(part, position);
                match self.reader.cells(offset, Some(length), self.way(), pick)? {
                    Cells::Whole(block) => {
                        heads::fetch(&block);
                        Open::Block(offset, block)
                    }
                    Cells::Part(part) => {
                        let (index, count) = (self.place_in_part(&part, position), part.offsets().len());
                        self.open = Open::Part(offset, part);
                        match index {
                            Some(index) if self.move_to(index) => return Ok(()),
                            Some(index) if index == count => {
                                self.advance_far()?;
                                // The next block may begin with cells of the same key that sort before this position by
                                // their sequence ids.
                                let comparator = self.reader.comparator();
                                let is_before =
                                    |cell: Cell<'_>| comparator.compare(cell.into(), position).is_lt();
                                if !self.peek().is_some_and(is_before) {
                                    return Ok(());
                                }
                            }
                            _ => {}
                        }
                        self.open_whole()?;
                        std::mem::replace(&mut self.open, Open::Nothing)
                    }
                }
            }
        };
        self.seek_from_open(position)
    }

    /// Like [`Cursor::seek_far`], for a row that the file may not have. If the file lacks the row, the cursor is then
    /// somewhere after the row or has no position. The file's Bloom filter is checked first while that is
    /// [worth](crate::worth) its cost; otherwise only before a wait for storage.
    pub fn seek_row(&mut self, position: Position<'_>) -> Result<()> {
        if !self.reader.knows_rows() {
            return self.seek_far(position);
        }
        let row = position.key.row();
        let is_asked_late = !self.reader.worth.is_worth();
        let mut missing = None;
        if is_asked_late {
            let memory_only = std::mem::replace(&mut self.options.memory_only, true);
            let outcome = self.seek_far(position);
            self.options.memory_only = memory_only;
            match outcome {
                Err(error) if error.would_block() => missing = Some(error),
                outcome => {
                    let is_there = self.peek().is_some_and(|cell| is_same_row(cell.row(), row));
                    self.reader.worth.note(row, is_there);
                    return outcome;
                }
            }
        }
        let may_be_there = self.may_contain_row(row)?;
        self.reader.worth.note(row, may_be_there);
        if !may_be_there {
            self.leave();
            return Ok(());
        }
        match missing.filter(|_| self.options.memory_only) {
            // The filter admits the row, so the missing block is needed, and the error is returned.
            Some(missing) => Err(missing),
            None => self.seek_far(position),
        }
    }

    /// Moves to the first cell at or after `position`, in the open block or after it.
    fn seek_from_open(&mut self, position: Position<'_>) -> Result<()> {
        while let Open::Block(_, block) = &self.open {
            let index = self.place_in(block, position);
            if self.move_to(index) {
                break;
            }
            self.open_next()?;
        }
        self.note_cached();
        Ok(())
    }

    /// Records whether the open block is in the cache, if [`watch_cache`](Cursor::watch_cache) was called.
    #[inline]
    fn note_cached(&mut self) {
        if self.watches_cache {
            self.was_in_cache = match &self.open {
                Open::Block(at, _) | Open::Part(at, _) => self.reader.cached().has(*at),
                Open::Nothing => false,
            };
        }
    }

    /// Opens the block after the open one; after the last block the cursor has no position.
    fn open_next(&mut self) -> Result<()> {
        let next = self.look_up_next();
        self.open = Open::Nothing;
        if let Some((at, next)) = next? {
            self.open = Open::Block(at, next);
        }
        self.note_cached();
        Ok(())
    }

    /// Returns the offset of the block after the open one, and that block; `None` after the last one.
    fn look_up_next(&mut self) -> Result<Option<(u64, Arc<Block>)>> {
        let (open_at, disk_length) = match &self.open {
            Open::Block(at, block) => (*at, block.disk_length),
            Open::Part(at, part) => (*at, part.disk_length()),
            Open::Nothing => return Ok(None),
        };
        if let Some(NextBlock { of, at, block }) = self.next_block.take()
            && of == open_at
        {
            return Ok(Some((at, block)));
        }
        let next = self.reader.block_after(open_at, disk_length, self.options, &mut self.ahead)?;
        if self.reader.is_loaded
            && let Some((at, block)) = &next
            && let Some(&first) = block.offsets.first()
        {
            self.check_order(*at, &block.bytes, first as usize)?;
        }
        Ok(next)
    }

    /// Fails if the first cell of the next block, which is in `bytes` at `place`, sorts before the last cell of the open one.
    /// For files whose order [is checked](Reader::check_order).
    fn check_order(&self, next_at: u64, bytes: &[u8], place: usize) -> Result<()> {
        let last = match &self.open {
            Open::Block(_, block) => {
                block.offsets.last().map(|&last| self.reader.cell_at(&block.bytes, last as usize))
            }
            Open::Part(_, part) => {
                let last = part.here().end.checked_sub(1).filter(|last| last + 1 == part.offsets().len());
                let place = last.map(|last| part.offsets()[last].value() as usize - part.from());
                place.map(|place| self.reader.cell_at(part.bytes(), place))
            }
            Open::Nothing => None,
        };
        self.reader.check_order(next_at, last, self.reader.cell_at(bytes, place))
    }

    /// Keeps a looked-up block after the open one, so that it is neither read nor counted twice.
    fn keep_next(&mut self, at: u64, block: Arc<Block>) {
        if let Open::Block(of, _) = self.open {
            self.next_block = Some(NextBlock { of, at, block });
        }
    }

    /// Whether a block has cells before and at or after `position`, so that no other block is needed.
    fn is_within(&self, block: &Block, position: Position<'_>) -> bool {
        let comparator = self.reader.comparator();
        let cell = |index: usize| self.reader.cell_at(&block.bytes, block.offsets[index] as usize);
        let last = block.offsets.len() - 1;
        comparator.compare(cell(0).into(), position).is_lt()
            && comparator.compare(cell(last).into(), position).is_ge()
    }

    /// Returns the index, in a block, of the first cell at or after `position`.
    #[inline]
    fn place_in(&self, block: &Block, position: Position<'_>) -> usize {
        let candidates = candidates_of(&block.offsets, &block.heads, block.shared, position);
        // Usually the first candidate is the result, and its value is wanted too: prefetch it while its key is
        // compared.
        rows::fetch_whole(block, candidates.start);
        let shared = (!block.heads.is_empty()).then_some(block.shared);
        self.place_among(&block.bytes, 0, &block.offsets, shared, candidates, position)
    }

    /// Like [`Cursor::place_in`], for a part; returns `None` if the part lacks the cells that would decide.
    fn place_in_part(&self, part: &Part, position: Position<'_>) -> Option<usize> {
        let (offsets, heads, here) = (part.offsets(), part.heads(), part.here());
        let candidates = candidates_of(offsets, heads, part.shared(), position);
        let looked_at = candidates.start.min(offsets.len() - 1);
        let has_all =
            here.start <= candidates.start && candidates.end <= here.end && here.contains(&looked_at);
        let shared = (!heads.is_empty()).then_some(part.shared());
        has_all.then(|| self.place_among(part.bytes(), part.from(), offsets, shared, candidates, position))
    }

    /// Returns the index of the first cell at or after `position`. By the row heads it is one of the candidates, or the
    /// cell right after them. `bytes` begin at offset `from` of the block.
    #[inline]
    fn place_among<N: Number>(
        &self,
        bytes: &[u8],
        from: usize,
        offsets: &[N],
        shared: Option<u16>,
        candidates: Range<usize>,
        position: Position<'_>,
    ) -> usize {
        let comparator = self.reader.comparator();
        let place = |offset: N| offset.value() as usize - from;
        let row = |index: usize| Cell::key_within(&bytes[place(offsets[index])..]).row();
        let candidates = match shared {
            None => candidates,
            Some(shared) => heads::narrow(candidates, offsets.len(), shared, position.key.row(), row),
        };
        let first = candidates.start;
        let before = |&offset: &N| {
            // The sequence id is stored after the value, and is read only for equal keys.
            let place = place(offset);
            comparator
                .compare_keys(Cell::key_within(&bytes[place..]), position.key)
                .then_with(|| position.sequence.cmp(&self.reader.cell_at(bytes, place).sequence()))
                .is_lt()
        };
        first + offsets[candidates].partition_point(before)
    }

    /// Moves to the next cell. After the last one the cursor has no position.
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        self.touch_ahead();
        if matches!(self.open, Open::Nothing) || self.move_to(self.index + 1) {
            return Ok(());
        }
        self.advance_far()
    }

    /// Moves to the next cell as [`Cursor::advance`] does, when that cell is not among the open cells. `self.index` is
    /// already the index of the next cell.
    fn advance_far(&mut self) -> Result<()> {
        if let Open::Part(at, part) = &self.open {
            let (at, disk_length) = (*at, part.disk_length());
            if self.index < part.offsets().len() {
                self.open_whole()?;
                self.move_to(self.index);
                return Ok(());
            }
            // Often the caller only checks whether the row continues. For that, the first cells of the next block are
            // enough.
            if let Some((at, cells)) = self.reader.part_after(at, disk_length, self.way()) {
                match &cells {
                    Cells::Part(part) if self.reader.is_loaded && part.here().contains(&0) => {
                        self.check_order(at, part.bytes(), part.offsets()[0].value() as usize - part.from())?;
                    }
                    Cells::Whole(block) if self.reader.is_loaded => {
                        self.check_order(at, &block.bytes, block.offsets[0] as usize)?;
                    }
                    _ => {}
                }
                self.open = match cells {
                    Cells::Part(part) => Open::Part(at, part),
                    Cells::Whole(block) => Open::Block(at, block),
                };
                self.move_to(0);
                return Ok(());
            }
        }
        self.open_next()?;
        self.move_to(0);
        Ok(())
    }

    /// Reads a byte of the cell after the next one, so that the processor loads its cache line while earlier cells are
    /// processed. A cell of 1 KB begins in a cache line of its own.
    #[inline]
    fn touch_ahead(&self) {
        if let Some(block) = self.block()
            && let Some(&ahead) = block.offsets.get(self.index + 2)
        {
            std::hint::black_box(block.bytes.get(ahead as usize).copied());
        }
    }

    /// Prefetches the whole cell after the next one, for a caller that reads values in sequence.
    #[inline]
    pub fn fetch_ahead(&self) {
        if let Some(block) = self.block() {
            rows::fetch_whole(block, self.index + 2);
        }
    }

    /// Moves to the first cell of the file. In a file without cells the cursor then has no position.
    pub fn seek_first(&mut self) -> Result<()> {
        self.open = Open::Nothing;
        if let Some(first) = self.reader.first_data() {
            self.open = Open::Block(first, self.reader.block(first, None, BlockKind::Data, self.way())?);
            self.move_to(0);
        }
        Ok(())
    }

    /// Moves to the first cell of the last row before `row`, or of the last row of all. Returns whether there is one.
    ///
    /// A reversed scan calls this for each row, and a block that is not cached costs a read of the file. So the open
    /// block is used again if it is the wanted one.
    pub fn seek_row_before(&mut self, row: Option<&[u8]>) -> Result<bool> {
        let found = self.last_cell_before(row);
        if !matches!(found, Ok(Some(_))) {
            self.open = Open::Nothing;
        }
        let Some(key) = found? else { return Ok(false) };
        let first = KeyBuf::first_on_row(key.key().row());
        self.seek(first.position())?;
        Ok(true)
    }

    /// Returns the last cell before `row`, or the last cell of all, and opens its block.
    fn last_cell_before(&mut self, row: Option<&[u8]>) -> Result<Option<KeyBuf>> {
        if self.reader.first_data().is_none() {
            return Ok(None);
        }
        // Once the scan is before the first row of the file, no block is read again.
        let begins_at_or_after = |row: &[u8]| {
            let first = self.reader.first_key();
            first.is_some_and(|first| self.reader.comparator().compare_rows(first.row(), row).is_ge())
        };
        if row.is_some_and(begins_at_or_after) {
            return Ok(None);
        }
        let (mut block, mut count) = match row {
            Some(row) => {
                let first = KeyBuf::first_on_row(row);
                let Some((offset, length)) = self.reader.find_block(first.position(), self.way())? else {
                    return Ok(None);
                };
                let block = self.open_block(offset, Some(length))?;
                let count = self.place_in(&block, first.position());
                (block, count)
            }
            None => {
                let block = self.open_block(self.reader.last_data(), None)?;
                let count = block.offsets.len();
                (block, count)
            }
        };
        while count == 0 {
            let Open::Block(offset, _) = self.open else { return Ok(None) };
            let Some(previous) = block.previous.filter(|previous| *previous < offset) else {
                return Ok(None);
            };
            block = self.open_block(previous, None)?;
            count = block.offsets.len();
        }
        Ok(Some(KeyBuf::of(self.reader.cell_at(&block.bytes, block.offsets[count - 1] as usize))))
    }

    /// Opens the block at `offset` and returns it; reads nothing if it is open already.
    fn open_block(&mut self, offset: u64, length: Option<u32>) -> Result<Arc<Block>> {
        if let Open::Block(at, block) = &self.open
            && *at == offset
        {
            return Ok(Arc::clone(block));
        }
        let block = self.reader.block(offset, length, BlockKind::Data, self.way())?;
        self.open = Open::Block(offset, Arc::clone(&block));
        Ok(block)
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("file", self.reader.name()).field("at", &self.peek()).finish()
    }
}

/// Returns the cells of a block among which the first cell at or after `position` may be. If it is not among them,
/// it is the cell after them. Assumes that the row has the prefix that all rows of the block share.
#[inline]
fn candidates_of<N: Number>(offsets: &[N], heads: &[N], shared: u16, position: Position<'_>) -> Range<usize> {
    match heads.len() {
        0 => 0..offsets.len(),
        _ => heads::candidates(heads, shared, position.key.row()),
    }
}

/// Returns the cells of a block that a seek to `position` needs: the cells of its row, and the cell after them, which
/// ends the row.
fn wanted_of(part: &Part, position: Position<'_>) -> Range<usize> {
    let count = part.offsets().len();
    let candidates = candidates_of(part.offsets(), part.heads(), part.shared(), position);
    candidates.start.min(count - 1)..(candidates.end + 1).min(count)
}
