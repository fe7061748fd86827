//! Walking over a file.

use std::ops::Range;
use std::sync::Arc;

use cache::{Block, BlockKind};
use cell::{Cell, KeyBuf, Position, SequenceId, is_same_row};

use crate::ahead::{Ahead, ReadType};
use crate::held::{Held, Way};
use crate::{Reader, Result, heads};

/// How blocks are got.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Whether data blocks read from the file go into the cache.
    pub cache_blocks: bool,
    /// Whether a block that is not cached is [an error](crate::Error::NotCached) instead of a wait for the disk.
    pub memory_only: bool,
    /// Whether blocks behind one another are read together.
    pub read_type: ReadType,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions { cache_blocks: true, memory_only: false, read_type: ReadType::Default }
    }
}

/// Cells whose first bytes are read ahead when rows are [passed](Cursor::pass_rows): as many as memory has time for.
const AHEAD: usize = 4;

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

/// A place in a file, and the cells from there on. Before the first seek it stands nowhere. After an error it stands
/// nowhere either, and may be sought again.
pub struct Cursor {
    reader: Arc<Reader>,
    options: ReadOptions,
    block: Option<(u64, Arc<Block>)>,
    index: usize,
    /// Where the cell at `index` lies in the block, and its number: it is looked at again and again.
    cell: Range<usize>,
    sequence: SequenceId,
    held: Option<Box<Held>>,
    ahead: Option<Box<Ahead>>,
}

impl Cursor {
    pub(crate) fn new(reader: Arc<Reader>, options: ReadOptions) -> Cursor {
        Cursor {
            reader,
            options,
            block: None,
            index: 0,
            cell: 0..0,
            sequence: SequenceId::ZERO,
            held: None,
            ahead: None,
        }
    }

    /// Changes how blocks are got from now on.
    pub fn set_options(&mut self, options: ReadOptions) {
        self.options = options;
    }

    /// How blocks are got.
    pub fn options(&self) -> ReadOptions {
        self.options
    }

    /// From now on blocks that were looked at are held, so that they are not looked up again: for whoever reads many rows
    /// and is soon done.
    pub fn hold_blocks(&mut self) {
        self.held.get_or_insert_with(|| Box::new(Held::new()));
    }

    fn way(&self) -> Way<'_> {
        Way { options: self.options, held: self.held.as_deref() }
    }

    /// Whether the file may have cells of `row`.
    pub fn may_contain_row(&self, row: &[u8]) -> Result<bool> {
        self.reader.row_may_be_here(row, self.way())
    }

    /// Whether the file may have cells of the column, deletes of the whole family aside.
    pub fn may_contain_column(&self, row: &[u8], qualifier: &[u8]) -> Result<bool> {
        self.reader.column_may_be_here(row, qualifier, self.way())
    }

    /// Whether the file may have markers that delete whole families of `row`.
    pub fn may_delete_families_of(&self, row: &[u8]) -> Result<bool> {
        self.reader.families_may_be_deleted(row, self.way())
    }

    /// Stands nowhere.
    pub fn leave(&mut self) {
        self.block = None;
    }

    /// The file.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// The cell it stands on.
    #[inline]
    pub fn peek(&self) -> Option<Cell<'_>> {
        let (_, block) = self.block.as_ref()?;
        Some(Cell::trusted(&block.bytes[self.cell.clone()], self.sequence))
    }

    /// Stands on the cell at `index` of the open block; `false` behind its last.
    #[inline]
    fn stand_on(&mut self, index: usize) -> bool {
        let (_, block) = self.block.as_ref().expect("a block is open");
        self.index = index;
        let Some(&place) = block.offsets.get(index) else { return false };
        (self.cell, self.sequence) = self.reader.place_of_cell(&block.bytes, place as usize);
        true
    }

    /// Stands on the first cell at or after `position`.
    pub fn seek(&mut self, position: Position<'_>) -> Result<()> {
        if self.is_within_block(position) {
            self.stand_on(self.place_of(position));
            return Ok(());
        }
        self.seek_far(position)
    }

    /// The same for a place that is likely in another block: the first and last cell of the open one, which are seldom in
    /// a cache line by then, are not looked at.
    pub fn seek_far(&mut self, position: Position<'_>) -> Result<()> {
        let open = self.block.take();
        let Some((offset, length)) = self.reader.find_block(position, self.way())? else { return Ok(()) };
        self.block = match open {
            Some((at, _)) if at == offset => open,
            _ => Some((offset, self.reader.block(offset, Some(length), BlockKind::Data, self.way())?)),
        };
        loop {
            if self.stand_on(self.place_of(position)) {
                return Ok(());
            }
            let (offset, block) = self.block.as_ref().expect("set above");
            match self.reader.block_after(*offset, block, self.options, &mut self.ahead) {
                Ok(next @ Some(_)) => self.block = next,
                Ok(None) => {
                    self.block = None;
                    return Ok(());
                }
                Err(error) => {
                    self.block = None;
                    return Err(error);
                }
            }
        }
    }

    /// Whether the open block has cells on both sides of `position`, so that no other needs to be looked at.
    fn is_within_block(&self, position: Position<'_>) -> bool {
        let Some((_, block)) = &self.block else { return false };
        let comparator = self.reader.comparator();
        let cell = |index: usize| self.reader.cell_at(&block.bytes, block.offsets[index] as usize);
        let last = block.offsets.len() - 1;
        comparator.compare(cell(0).into(), position).is_lt()
            && comparator.compare(cell(last).into(), position).is_ge()
    }

    /// The index, in the open block, of the first cell at or after `position`.
    fn place_of(&self, position: Position<'_>) -> usize {
        let (_, block) = self.block.as_ref().expect("a block is open");
        let comparator = self.reader.comparator();
        let row = |index: usize| Cell::key_within(&block.bytes[block.offsets[index] as usize..]).row();
        let candidates = match block.heads.len() {
            0 => 0..block.offsets.len(),
            _ => heads::narrow(&block.heads, block.shared, position.key.row(), row),
        };
        let from = candidates.start;
        let before = |&offset: &u32| {
            // The number stands behind the value, and is asked for only where keys are the same.
            let place = offset as usize;
            comparator
                .compare_keys(Cell::key_within(&block.bytes[place..]), position.key)
                .then_with(|| position.sequence.cmp(&self.reader.cell_at(&block.bytes, place).sequence()))
                .is_lt()
        };
        from + block.offsets[candidates].partition_point(before)
    }

    /// Stands on the next cell.
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        self.touch_ahead();
        if self.block.is_none() || self.stand_on(self.index + 1) {
            return Ok(());
        }
        self.next_block()
    }

    /// Reads a byte of the cell that comes after the next one. A cell of a kilobyte begins in a line of memory that nobody
    /// has asked for; it comes while the cells before it are worked on.
    #[inline]
    fn touch_ahead(&self) {
        if let Some((_, block)) = &self.block
            && let Some(&ahead) = block.offsets.get(self.index + 2)
        {
            std::hint::black_box(block.bytes.get(ahead as usize).copied());
        }
    }

    /// From the first cell of a row on, passes the rows that `refuses` does not want any cell of, as far as the open block
    /// shows where they end. Stands on the first cell of the row after them, and says how many they were.
    ///
    /// `refuses` is asked of the cells of a row one after the other until it wants one, or not the row
    /// ([`Refused::Row`]). No row at or behind `end` is passed, and none of a file with tags. The number of the write is
    /// not told of the cells: it stands behind the value, in another line of memory.
    pub fn pass_rows(&mut self, end: Option<&[u8]>, refuses: impl Fn(Cell<'_>) -> Refused) -> u64 {
        let Some((_, block)) = self.block.as_ref().filter(|_| !self.reader.may_have_tags()) else { return 0 };
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
                        std::hint::black_box(bytes.get(ahead as usize).copied());
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

    fn next_block(&mut self) -> Result<()> {
        let (offset, block) = self.block.take().expect("a block is open");
        self.block = self.reader.block_after(offset, &block, self.options, &mut self.ahead)?;
        if self.block.is_some() {
            self.stand_on(0);
        }
        Ok(())
    }

    /// Stands on the first cell of all.
    pub fn seek_first(&mut self) -> Result<()> {
        self.block = None;
        if let Some(first) = self.reader.first_data() {
            self.block = Some((first, self.reader.block(first, None, BlockKind::Data, self.way())?));
            self.stand_on(0);
        }
        Ok(())
    }

    /// Stands on the first cell of the last row before `row`, or, without `row`, of the last row of all. Says whether
    /// there is one.
    pub fn seek_row_before(&mut self, row: Option<&[u8]>) -> Result<bool> {
        let found = self.last_cell_before(row);
        if !matches!(found, Ok(Some(_))) {
            self.block = None;
        }
        let Some(key) = found? else { return Ok(false) };
        let first = KeyBuf::first_on_row(key.key().row());
        self.seek(first.position())?;
        Ok(true)
    }

    fn last_cell_before(&mut self, row: Option<&[u8]>) -> Result<Option<KeyBuf>> {
        if self.reader.first_data().is_none() {
            return Ok(None);
        }
        let (mut offset, mut block, mut count) = match row {
            Some(row) => {
                let first = KeyBuf::first_on_row(row);
                let Some((offset, length)) = self.reader.find_block(first.position(), self.way())? else {
                    return Ok(None);
                };
                let block = self.reader.block(offset, Some(length), BlockKind::Data, self.way())?;
                self.block = Some((offset, Arc::clone(&block)));
                let count = self.place_of(first.position());
                (offset, block, count)
            }
            None => {
                let last = self.reader.last_data();
                let block = self.reader.block(last, None, BlockKind::Data, self.way())?;
                let count = block.offsets.len();
                (last, block, count)
            }
        };
        while count == 0 {
            let Some(previous) = block.previous.filter(|previous| *previous < offset) else {
                return Ok(None);
            };
            block = self.reader.block(previous, None, BlockKind::Data, self.way())?;
            offset = previous;
            count = block.offsets.len();
        }
        Ok(Some(KeyBuf::of(self.reader.cell_at(&block.bytes, block.offsets[count - 1] as usize))))
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("file", self.reader.name()).field("at", &self.peek()).finish()
    }
}
