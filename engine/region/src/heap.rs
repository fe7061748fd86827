//! Merges the sorted sources of a store into one sequence of cells.
//!
//! A store has few sources: one or two segments, some files. So they are in a list, ordered by their heads; the head of
//! a source is its current cell. When a source has moved, its head is compared with that of the next source in the
//! list: a run of cells from one source costs one comparison each. If the other head is now smaller, the source moves
//! down to its place. Cells newer than the read point are skipped.
//!
//! A get of some columns opens a source only when it must (HBase: lazy seek). Sources come newest first, and each knows
//! its newest timestamp. Once one source has returned a cell of the first column, every source whose newest timestamp
//! is older is deferred. A deferred source has no head yet. In its place it has a key with its newest timestamp in the
//! first column, since it has no wanted cell before that key. If the first cell is the only one wanted, no deferred
//! source is opened. A source that may have a family delete marker is opened at the start of the row, where the marker
//! is sorted. For a file this is decided by row, for a segment as a whole.

use std::cell::Cell as Slot;

use bytes::Bytes;
use cell::{Cell, CellSink, Comparator, KeyBuf, Position, SequenceId, Timestamp, is_same_row};
use hfile::CopyLimits;
use smallvec::SmallVec;

use crate::store_file::FileCursor;
use crate::{Error, Result};

/// Maximum number of single steps before a seek. After steps that did not suffice, fewer are tried, because the next
/// target is unlikely to be near: in a row with thousands of versions of each column, seeks are cheaper.
const STEPS_MAX: usize = 8;

thread_local! {
    /// Lists of sources for the next heaps to reuse. They are on the heap because a cursor is large, and would be
    /// copied several times if sources were fields of [`Heap`].
    static SOURCE_LISTS: Slot<Vec<SourceList>> = const { Slot::new(Vec::new()) };
    /// Keys for the next heap that defers a source; most heaps defer none.
    static KEYS: Slot<Vec<KeyBuf>> = const { Slot::new(Vec::new()) };
}
/// Maximum number of source lists that a thread keeps.
const SOURCE_LISTS_MAX: usize = 8;
/// Maximum number of sources or keys in a kept list.
const KEPT_MAX: usize = 64;

/// Which cells a heap passes over.
#[derive(Clone, Copy)]
struct Visibility {
    /// The reader sees no newer cells.
    read_point: SequenceId,
    /// Whether the reader must leave its thread at a long run of newer cells or rows.
    is_hurried: bool,
}

/// Maximum number of newer cells in a row that a hurried reader passes over: some hundred microseconds.
const NEWER_CELLS_MAX: u32 = 4_096;
/// Maximum number of rows with newer cells only that a hurried reversed reader passes over. Each is searched in all sources.
const NEWER_ROWS_MAX: u32 = 256;

/// A source and its part in the merge.
struct HeapEntry {
    source: Source,
    /// Whether the source takes part: in a forward read always, in a reversed read only if it has the current row.
    active: bool,
    /// Whether the source is deferred: it is not opened yet, and has a stand-in key in place of its head.
    deferred: bool,
}

impl HeapEntry {
    #[inline]
    fn skip_invisible(&mut self, visibility: Visibility) -> Result<()> {
        let mut skipped = 0;
        while !self.deferred && self.source.peek().is_some_and(|cell| cell.sequence() > visibility.read_point)
        {
            self.source.advance()?;
            skipped += 1;
            if visibility.is_hurried && skipped > NEWER_CELLS_MAX {
                return Err(Error::WouldBlock);
            }
        }
        Ok(())
    }
}

/// Memory for sources and their order, which is reused.
#[derive(Default)]
struct SourceList {
    entries: Vec<HeapEntry>,
    /// Indices of the active sources that are not at their end, ordered by head; of equal heads the newer source comes
    /// first.
    order: Vec<u32>,
}

/// The sources of a heap, newest first, in memory that the thread reuses.
pub(crate) struct Sources(SourceList);

impl Sources {
    pub(crate) fn new() -> Sources {
        let mut lists = SOURCE_LISTS.take();
        let list = lists.pop().unwrap_or_default();
        SOURCE_LISTS.set(lists);
        Sources(list)
    }

    pub(crate) fn push(&mut self, source: Source) {
        self.0.entries.push(HeapEntry { source, active: true, deferred: false });
    }
}

impl FromIterator<Source> for Sources {
    fn from_iter<I: IntoIterator<Item = Source>>(all: I) -> Sources {
        let mut sources = Sources::new();
        all.into_iter().for_each(|source| sources.push(source));
        sources
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        let mut list = std::mem::take(&mut self.0);
        // Blocks and segments are released now; only the memory of the empty list is kept.
        list.entries.clear();
        list.order.clear();
        if list.entries.capacity() == 0 || list.entries.capacity() > KEPT_MAX {
            return;
        }
        // When the thread ends, its storage may be gone already. Then the list is freed and not kept.
        let _ended = SOURCE_LISTS.try_with(|slot| {
            let mut lists = slot.take();
            if lists.len() < SOURCE_LISTS_MAX {
                lists.push(list);
            }
            slot.set(lists);
        });
    }
}

/// A segment or file that takes part in the merge.
#[expect(
    clippy::large_enum_variant,
    reason = "it is stored in memory that the thread reuses; a box would be allocated for each read"
)]
pub(crate) enum Source {
    Memory(memstore::Cursor),
    File(FileCursor),
}

impl Source {
    #[inline]
    fn peek(&self) -> Option<Cell<'_>> {
        match self {
            Source::Memory(cursor) => cursor.peek(),
            Source::File(cursor) => cursor.peek(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            Source::Memory(cursor) => cursor.advance(),
            Source::File(cursor) => cursor.advance()?,
        }
        Ok(())
    }

    fn seek(&mut self, position: Position<'_>) -> Result<()> {
        match self {
            Source::Memory(cursor) => cursor.seek(position),
            Source::File(cursor) => cursor.seek(position)?,
        }
        Ok(())
    }

    fn seek_row_before(&mut self, row: Option<&[u8]>) -> Result<bool> {
        Ok(match self {
            Source::Memory(cursor) => cursor.seek_row_before(row),
            Source::File(cursor) => cursor.seek_row_before(row)?,
        })
    }
}

/// The row and columns that a read of one row wants from a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowTarget<'a> {
    pub(crate) row: &'a [u8],
    pub(crate) family: &'a [u8],
    /// The columns in order; `None` for all.
    pub(crate) qualifiers: Option<&'a [Bytes]>,
    /// Whether a cell can be hidden only by cells with the same or a newer timestamp.
    pub(crate) newest_counts: bool,
    /// Whether the read is a get. A get may skip a row without wanted cells. A scan must see such a row, because it
    /// counts the row.
    pub(crate) is_get: bool,
}

impl RowTarget<'_> {
    /// Whether the file may have the row, by its first and last key and its Bloom filter.
    fn is_within(&self, file: &FileCursor, comparator: Comparator) -> bool {
        let is_behind = |row: &[u8], other: &[u8]| comparator.compare_rows(row, other).is_gt();
        let (first, last) = (file.reader().first_key(), file.reader().last_key());
        last.is_none_or(|last| !is_behind(self.row, last.row()))
            && first.is_none_or(|first| !is_behind(first.row(), self.row))
            && file.has_row(self.row)
    }

    /// Whether the file's row-column Bloom filter, if it has one, admits any of the columns.
    fn columns_may_be_in(&self, file: &FileCursor) -> Result<bool> {
        let by_column = file.reader().bloom() == hfile::BloomType::RowColumn;
        let Some(qualifiers) = self.qualifiers.filter(|_| by_column) else { return Ok(true) };
        for qualifier in qualifiers {
            if file.may_contain_column(self.row, qualifier)? {
                return Ok(true);
            }
        }
        Ok(file.may_delete_families_of(self.row)?)
    }

    /// Returns the first key of the first wanted column; `None` if other parts of the row matter too.
    fn column(&self) -> Option<KeyBuf> {
        let [first, ..] = self.qualifiers.filter(|_| self.newest_counts && self.is_get)? else { return None };
        Some(KeyBuf::first_on_column(self.row, self.family, first))
    }

    /// Whether `cell` is in the first wanted column.
    fn is_in_column(&self, cell: Cell<'_>) -> bool {
        let first = self.qualifiers.and_then(<[Bytes]>::first);
        is_same_row(cell.row(), self.row) && first.is_some_and(|first| cell.qualifier() == first)
    }

    /// Returns an upper bound of the timestamps that cells of `source` have in the first wanted column; `None` if none
    /// is known.
    fn newest_in(&self, source: &Source) -> Result<Option<Timestamp>> {
        match source {
            // The figures of the active segment may change while they are read. That does no harm, because the active
            // segment is the first source. No cell was found before it, so it is never deferred.
            Source::Memory(cursor) => {
                let segment = Some(cursor.segment()).filter(|segment| !segment.may_delete_families());
                let newest = |(_, newest)| newest;
                Ok(segment.map(|segment| segment.timestamps().map_or(Timestamp::OLDEST, newest)))
            }
            Source::File(cursor) => {
                let reader = cursor.reader();
                match reader.span().filter(|_| reader.bloom() != hfile::BloomType::RowColumn) {
                    Some(span) if !cursor.may_delete_families_of(self.row)? => Ok(Some(span.newest)),
                    _ => Ok(None),
                }
            }
        }
    }
}

/// The merged sources of one store.
pub(crate) struct Heap {
    comparator: Comparator,
    visibility: Visibility,
    sources: Sources,
    /// Stand-in keys of the deferred sources; entries of other sources are meaningless. Empty until a source is
    /// deferred.
    stand_ins: Vec<KeyBuf>,
    /// Maximum number of steps to try before the next seek.
    steps: usize,
    /// See [`Heap::ran_out`].
    ran_out: bool,
}

impl Heap {
    /// Creates a heap of `sources`, newest first. If two sources have equal cells, the first source's cell comes first.
    pub(crate) fn new(comparator: Comparator, read_point: SequenceId, sources: Sources) -> Heap {
        let visibility = Visibility { read_point, is_hurried: false };
        Heap { comparator, visibility, sources, stand_ins: Vec::new(), steps: STEPS_MAX, ran_out: false }
    }

    /// Returns the number of sources.
    #[cfg(test)]
    pub(crate) fn sources(&self) -> usize {
        self.sources.0.entries.len()
    }

    /// Returns the number of deferred sources.
    #[cfg(test)]
    pub(crate) fn deferred(&self) -> usize {
        self.sources.0.entries.iter().filter(|entry| entry.deferred).count()
    }

    /// Changes how the heap reads from now on. If it may only read memory, it also fails with [`Error::WouldBlock`] at a
    /// long run of cells newer than the read point.
    pub(crate) fn set_options(&mut self, options: hfile::ReadOptions) {
        self.visibility.is_hurried = options.memory_only;
        for entry in &mut self.sources.0.entries {
            if let Source::File(cursor) = &mut entry.source {
                cursor.set_options(options);
            }
        }
    }

    /// Makes the heap record whether the blocks of its cells were in the cache, for
    /// [`was_in_cache`](Heap::was_in_cache).
    pub(crate) fn watch_cache(&mut self) {
        for entry in &mut self.sources.0.entries {
            if let Source::File(cursor) = &mut entry.source {
                cursor.watch_cache();
            }
        }
    }

    /// Whether the current cell is in a block that was found in the cache. Always `false` unless
    /// [`watch_cache`](Heap::watch_cache) was called.
    #[inline]
    pub(crate) fn was_in_cache(&self) -> bool {
        let source = self.current().map(|index| &self.sources.0.entries[index].source);
        matches!(source, Some(Source::File(cursor)) if cursor.was_in_cache())
    }

    /// Returns the size that HBase counts in size limits for `cell`, the current cell, in bytes.
    #[inline]
    pub(crate) fn heap_size(&self, cell: Cell<'_>) -> usize {
        match self.current().map(|index| &self.sources.0.entries[index].source) {
            Some(Source::File(cursor)) => cursor.reader().heap_size(cell),
            _ => cell.heap_size(),
        }
    }

    /// Makes the sources keep the blocks that they read from now on, for a reader of many rows.
    pub(crate) fn hold_blocks(&mut self) {
        for entry in &mut self.sources.0.entries {
            if let Source::File(cursor) = &mut entry.source {
                cursor.hold_blocks();
            }
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<Cell<'_>> {
        self.sources.0.entries[self.current()?].source.peek()
    }

    /// Prefetches into the processor's cache a cell that will be read soon, for a caller that reads whole cells in
    /// sequence.
    #[inline]
    pub(crate) fn fetch_ahead(&self) {
        match self.current().map(|index| &self.sources.0.entries[index].source) {
            Some(Source::Memory(cursor)) => cursor.fetch_ahead(),
            Some(Source::File(cursor)) => cursor.fetch_ahead(),
            None => {}
        }
    }

    /// Returns the index of the source with the first cell; `None` at the end.
    #[inline]
    fn current(&self) -> Option<usize> {
        self.sources.0.order.first().map(|index| *index as usize)
    }

    /// Returns the index of the source that is second in the order; `None` if no other source has cells left.
    #[inline]
    fn runner_up(&self) -> Option<usize> {
        self.sources.0.order.get(1).map(|index| *index as usize)
    }

    /// Returns the head of a source, or its stand-in key; `None` at its end.
    #[inline]
    fn head(&self, index: usize) -> Option<Position<'_>> {
        let entry = &self.sources.0.entries[index];
        if entry.deferred {
            return Some(self.stand_ins[index].position());
        }
        entry.source.peek().map(Position::from)
    }

    /// Moves to the first cell at or after `position`, from anywhere.
    pub(crate) fn seek(&mut self, position: Position<'_>) -> Result<()> {
        for entry in &mut self.sources.0.entries {
            entry.source.seek(position)?;
            (entry.active, entry.deferred) = (true, false);
            entry.skip_invisible(self.visibility)?;
        }
        self.reorder()
    }

    /// Moves to the first cell of the wanted row, or of its wanted columns, from any position. If there is none, the
    /// heap is somewhere after the row.
    pub(crate) fn seek_row(&mut self, target: &RowTarget<'_>) -> Result<()> {
        let (column, mut row) = (target.column(), None);
        // The newest timestamp of the cells found so far in the first wanted column.
        let mut found: Option<Timestamp> = None;
        for index in 0..self.sources.0.entries.len() {
            let entry = &mut self.sources.0.entries[index];
            (entry.active, entry.deferred) = (true, false);
            if let Source::File(cursor) = &mut entry.source
                && !target.is_within(cursor, self.comparator)
            {
                cursor.leave();
                continue;
            }
            let newest = if column.is_some() { target.newest_in(&entry.source)? } else { None };
            let place = match (&column, newest) {
                (Some(column), Some(newest)) if found.is_some_and(|found| found > newest) => {
                    entry.deferred = true;
                    self.stand_in(index, column, newest);
                    continue;
                }
                (Some(column), Some(_)) => column.position(),
                _ => row.get_or_insert_with(|| KeyBuf::first_on_row(target.row)).position(),
            };
            match &mut entry.source {
                Source::Memory(cursor) => cursor.seek_in_row(place),
                Source::File(cursor) if target.columns_may_be_in(cursor)? => cursor.seek_row(place)?,
                Source::File(cursor) => cursor.leave(),
            }
            entry.skip_invisible(self.visibility)?;
            if let Some(cell) = entry.source.peek().filter(|cell| target.is_in_column(*cell)) {
                found = found.max(Some(cell.timestamp()));
            }
        }
        self.reorder()
    }

    /// Defers a source: sets its stand-in key to `newest` in the column.
    fn stand_in(&mut self, index: usize, column: &KeyBuf, newest: Timestamp) {
        if self.stand_ins.is_empty() {
            self.stand_ins = KEYS.take();
        }
        self.stand_ins.resize_with(self.sources.0.entries.len(), KeyBuf::default);
        self.stand_ins[index].copy_at(column, newest);
    }

    /// Opens a deferred source, and moves it to `position`, or to its stand-in key if `position` is `None`.
    fn open_deferred(&mut self, index: usize, position: Option<Position<'_>>) -> Result<()> {
        let (entry, stand_in) = (&mut self.sources.0.entries[index], &self.stand_ins[index]);
        entry.deferred = false;
        let position = position.unwrap_or(stand_in.position());
        match &mut entry.source {
            Source::Memory(cursor) => cursor.seek_in_row(position),
            Source::File(cursor) => cursor.seek_row(position)?,
        }
        entry.skip_invisible(self.visibility)
    }

    /// Moves to the next cell.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some(current) = self.current() else { return Ok(()) };
        let entry = &mut self.sources.0.entries[current];
        entry.source.advance()?;
        entry.skip_invisible(self.visibility)?;
        let is_still_first = match (self.head(current), self.runner_up()) {
            (Some(head), Some(next)) => self.is_before(current, head, next),
            (head, _) => head.is_some(),
        };
        if is_still_first {
            return Ok(());
        }
        // The source comes after the second one in the order, with which it was just compared.
        self.reposition_first(2);
        self.open_first()
    }

    /// Moves forward past all cells for which `behind` returns true: by single steps if few are left, else by a seek.
    /// `target` gets a cell that is still to be passed, and returns the first key after all such cells.
    #[inline]
    pub(crate) fn skip_while(
        &mut self,
        behind: impl Fn(Cell<'_>) -> bool,
        target: impl FnOnce(Cell<'_>) -> KeyBuf,
    ) -> Result<()> {
        if !self.peek().is_some_and(&behind) {
            return Ok(());
        }
        self.skip_on(behind, target)
    }

    /// Like [`Heap::skip_while`], for a caller that knows that `behind` returns true for the current cell.
    #[inline]
    pub(crate) fn skip_on(
        &mut self,
        behind: impl Fn(Cell<'_>) -> bool,
        target: impl FnOnce(Cell<'_>) -> KeyBuf,
    ) -> Result<()> {
        for step in 1..=self.steps {
            self.advance()?;
            if !self.peek().is_some_and(&behind) {
                if step < self.steps {
                    self.steps = STEPS_MAX.min(self.steps + 1);
                }
                return Ok(());
            }
        }
        match self.peek().map(target) {
            Some(target) => {
                self.steps = (self.steps / 2).max(1);
                self.forward(target.position())
            }
            None => Ok(()),
        }
    }

    /// Seeks forward to the first cell at or after `position`; does not move if it is already there.
    pub(crate) fn forward(&mut self, position: Position<'_>) -> Result<()> {
        for index in 0..self.sources.0.entries.len() {
            let behind = self.sources.0.entries[index].active
                && self.head(index).is_some_and(|head| self.comparator.compare(head, position).is_lt());
            let entry = &mut self.sources.0.entries[index];
            if behind && entry.deferred {
                self.open_deferred(index, Some(position))?;
            } else if behind {
                entry.source.seek(position)?;
                entry.skip_invisible(self.visibility)?;
            }
        }
        self.reorder()
    }

    /// Skips rows before `end` whose cells `refuses` rejects. The current cell must be the first one of a row. Only
    /// rows are skipped that are in one file, whose cells are all visible, and that no other source has. Returns the
    /// number of skipped rows. 0 may also mean that such a row comes next, but cannot be skipped this way.
    pub(crate) fn skip_rows(
        &mut self,
        end: Option<&[u8]>,
        refuses: impl Fn(Cell<'_>) -> hfile::Refused,
    ) -> Result<u64> {
        self.run(end, |cursor, end| cursor.skip_rows(end, refuses))
    }

    /// Whether the last call of [`skip_rows`](Heap::skip_rows) or [`copy_rows`](Heap::copy_rows) returned more than 0 and
    /// stopped at the end of a block, so that another call may find more rows.
    pub(crate) fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// Like [`Heap::skip_rows`], copying [raw rows](hfile::Cursor::copy_rows) to `sink`.
    pub(crate) fn copy_rows(
        &mut self,
        end: Option<&[u8]>,
        limits: CopyLimits,
        wanted: Option<&[Bytes]>,
        sink: &mut dyn CellSink,
    ) -> Result<u64> {
        self.run(end, |cursor, end| cursor.copy_rows(end, limits, wanted, sink) as u64)
    }

    /// Calls `done` for the rows of the current file that are before `end` and before the rows of every other source.
    /// Does nothing unless the read point covers the whole file. `done` must leave the file on the first cell of the
    /// next row, and returns the number of rows.
    fn run(
        &mut self,
        end: Option<&[u8]>,
        done: impl FnOnce(&mut FileCursor, Option<&[u8]>) -> u64,
    ) -> Result<u64> {
        self.ran_out = false;
        let Some(current) = self.current().filter(|current| !self.sources.0.entries[*current].deferred)
        else {
            return Ok(0);
        };
        let (comparator, read_point) = (self.comparator, self.visibility.read_point);
        let other: Option<SmallVec<[u8; 64]>> = self
            .runner_up()
            .and_then(|next| self.head(next))
            .map(|head| SmallVec::from_slice(head.key.row()));
        let end = match (end, other.as_deref()) {
            (Some(end), Some(other)) if comparator.compare_rows(other, end).is_lt() => Some(other),
            (end, other) => end.or(other),
        };
        let Source::File(cursor) = &mut self.sources.0.entries[current].source else { return Ok(0) };
        if cursor.reader().newest_write().is_none_or(|newest| newest > read_point) {
            return Ok(0);
        }
        let rows = done(cursor, end);
        self.ran_out = rows > 0 && cursor.ran_out();
        if rows > 0 {
            self.reposition_first(1);
            self.open_first()?;
        }
        Ok(rows)
    }

    /// Moves to the first cell of the last row before `row`, or of the last row of all. Afterwards only the sources
    /// that have the row take part. Returns `false` when there is no such row.
    pub(crate) fn seek_row_before(&mut self, row: Option<&[u8]>) -> Result<bool> {
        let mut wanted = row.map(<[u8]>::to_vec);
        let mut newer_rows = 0;
        loop {
            let mut last: Option<Vec<u8>> = None;
            for HeapEntry { source, deferred, .. } in &mut self.sources.0.entries {
                *deferred = false;
                if source.seek_row_before(wanted.as_deref())?
                    && let Some(cell) = source.peek()
                    && last.as_ref().is_none_or(|last| self.comparator.compare_rows(last, cell.row()).is_lt())
                {
                    last = Some(cell.row().to_vec());
                }
            }
            let Some(last) = last else {
                self.sources.0.order.clear();
                return Ok(false);
            };
            for entry in &mut self.sources.0.entries {
                let stands_in_it = |source: &Source| source.peek().is_some_and(|cell| cell.row() == last);
                entry.active = stands_in_it(&entry.source);
                entry.skip_invisible(self.visibility)?;
                entry.active &= stands_in_it(&entry.source);
            }
            self.reorder()?;
            if self.current().is_some() {
                return Ok(true);
            }
            // The reader sees no cell of this row, so it tries the row before.
            wanted = Some(last);
            newer_rows += 1;
            if self.visibility.is_hurried && newer_rows > NEWER_ROWS_MAX {
                return Err(Error::WouldBlock);
            }
        }
    }

    /// Orders the sources after they were moved.
    fn reorder(&mut self) -> Result<()> {
        self.sources.0.order.clear();
        for index in 0..self.sources.0.entries.len() {
            if self.sources.0.entries[index].active
                && let Some(head) = self.head(index)
            {
                // Searches from the end, because an older source has usually the greater head.
                let behind = |other: &u32| !self.is_before(index, head, *other as usize);
                let place = self.sources.0.order.iter().rposition(behind).map_or(0, |last| last + 1);
                let order = &mut self.sources.0.order;
                order.push(index as u32);
                order[place..].rotate_right(1);
            }
        }
        self.open_first()
    }

    /// Opens deferred sources until the first one is open.
    fn open_first(&mut self) -> Result<()> {
        while let Some(first) = self.current()
            && self.sources.0.entries[first].deferred
        {
            self.open_deferred(first, None)?;
            self.reposition_first(1);
        }
        Ok(())
    }

    /// Moves the first source, which has advanced, down to its place in the order. The caller knows that it now comes
    /// after the first `behind` entries, of which it is one. A source at its end is removed.
    fn reposition_first(&mut self, behind: usize) {
        let Some(first) = self.current() else { return };
        let place = self.head(first).map(|head| {
            let order = &self.sources.0.order;
            let others = order[behind..].iter();
            behind + others.take_while(|&&other| !self.is_before(first, head, other as usize)).count()
        });
        let order = &mut self.sources.0.order;
        match place {
            Some(place) => order[..place].rotate_left(1),
            None => _ = order.remove(0),
        }
    }

    /// Whether the source at `index`, whose head is `head`, comes before the source `other`.
    #[inline]
    fn is_before(&self, index: usize, head: Position<'_>, other: usize) -> bool {
        let Some(place) = self.head(other) else { return true };
        let entries = &self.sources.0.entries;
        let order = match entries[index].deferred && entries[other].deferred {
            // Two stand-in keys are of the same column, so only their timestamps can differ.
            true => place.key.timestamp().cmp(&head.key.timestamp()),
            false => self.comparator.compare(head, place),
        };
        order.then(index.cmp(&other)).is_lt()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if !self.stand_ins.is_empty() && self.stand_ins.len() <= KEPT_MAX {
            // While the thread ends, its storage is gone. Then the keys are freed.
            let _ended = KEYS.try_with(|keys| keys.set(std::mem::take(&mut self.stand_ins)));
        }
    }
}
