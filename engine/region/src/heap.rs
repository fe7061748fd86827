//! Many sorted sources as one.
//!
//! Sources are few (a segment or two, some files), so the smallest head is found by looking at all of them, and only
//! when the current source's head has moved past that of the runner-up: runs of cells from one source cost one
//! comparison each. Cells newer than the read point are passed over where they lie.
//!
//! A read of some columns of one row looks into a file only when it must. The file knows its newest timestamp, so a place
//! of that time in the first column stands in for its head: before that place the file has nothing that is asked for. Is
//! a newer cell of the column found elsewhere, and no more than one is wanted, the file is never looked into. Segments know
//! the same, and come newest first: behind one that has the column, those that are older than what it has are put off, too.
//! What has a marker that deletes a whole family of this row (a file), or of any (a segment), is looked into from the start
//! of the row: the marker stands there.

use std::cell::Cell as Slot;
use std::cmp::Ordering;

use bytes::Bytes;
use cell::{Cell, Comparator, KeyBuf, Position, SequenceId, Timestamp, is_same_row};
use smallvec::SmallVec;

use crate::Result;

/// Steps before a seek is worth its price. Where steps have not been enough, the next place will not be near either, and
/// fewer are tried: a row with thousands of versions of each column is passed by seeks.
const STEPS_MAX: usize = 8;

/// Sources of a store that has nothing to compact: more make a buffer on the heap.
const SOURCES: usize = 4;

thread_local! {
    /// Keys for the next heap that needs some: they are long, so that a heap which does not has no room for them.
    static KEYS: Slot<Vec<KeyBuf>> = const { Slot::new(Vec::new()) };
}
/// Keys that a thread keeps.
const KEYS_KEPT_MAX: usize = 64;

/// What a heap merges.
pub(crate) type Sources = SmallVec<[Source; SOURCES]>;

/// One source.
pub(crate) enum Source {
    Memory(memstore::Cursor),
    File(hfile::Cursor),
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

/// What a read of one row asks of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim<'a> {
    pub(crate) row: &'a [u8],
    pub(crate) family: &'a [u8],
    /// The columns, in order; `None` for all.
    pub(crate) qualifiers: Option<&'a [Bytes]>,
    /// Whether a cell is hidden only by what has its timestamp or a newer one.
    pub(crate) newest_counts: bool,
    /// Whether nobody is told of a row that has nothing in the columns, as a scan tells how many rows it met.
    pub(crate) is_get: bool,
}

impl Aim<'_> {
    /// Whether the row lies between the first and the last of a file.
    fn is_within(&self, file: &hfile::Cursor, comparator: Comparator) -> bool {
        let is_behind = |row: &[u8], other: &[u8]| comparator.compare_rows(row, other).is_gt();
        let (first, last) = (file.reader().first_key(), file.reader().last_key());
        last.is_none_or(|last| !is_behind(self.row, last.row()))
            && first.is_none_or(|first| !is_behind(first.row(), self.row))
    }

    /// Whether the bloom filters of a file let it have something of this.
    fn may_be_in(&self, file: &hfile::Cursor) -> Result<bool> {
        if !file.may_contain_row(self.row)? {
            return Ok(false);
        }
        let Some(qualifiers) = self.qualifiers else { return Ok(true) };
        for qualifier in qualifiers {
            if file.may_contain_column(self.row, qualifier)? {
                return Ok(true);
            }
        }
        Ok(file.may_delete_families_of(self.row)?)
    }

    /// Where the first of the columns begins; `None` where something else of the row may hide what is in them.
    fn column(&self) -> Option<KeyBuf> {
        let [first, ..] = self.qualifiers.filter(|_| self.newest_counts)? else { return None };
        Some(KeyBuf::first_on_column(self.row, self.family, first))
    }

    /// Whether `cell` is of the first of the columns.
    fn is_in_column(&self, cell: Cell<'_>) -> bool {
        let first = self.qualifiers.and_then(<[Bytes]>::first);
        is_same_row(cell.row(), self.row) && first.is_some_and(|first| cell.qualifier() == first)
    }

    /// Of a file that has nothing of this before some time in the first column: that time.
    fn newest_in(&self, file: &hfile::Cursor) -> Result<Option<Timestamp>> {
        let reader = file.reader();
        let Some(span) = reader.span().filter(|_| reader.bloom() != hfile::BloomType::RowColumn) else {
            return Ok(None);
        };
        Ok((!file.may_delete_families_of(self.row)?).then_some(span.newest))
    }
}

/// The sources of one store, merged.
pub(crate) struct Heap {
    comparator: Comparator,
    read_point: SequenceId,
    sources: Sources,
    /// Reversed: which sources stand on the current row. Forward: all of them.
    active: SmallVec<[bool; SOURCES]>,
    /// Places that stand in for the heads of sources which have not been looked into; those of others mean nothing.
    stand_ins: Vec<KeyBuf>,
    put_off: SmallVec<[bool; SOURCES]>,
    current: Option<usize>,
    runner_up: Option<usize>,
    /// Steps that are tried before the next seek.
    steps: usize,
}

impl Heap {
    /// `sources` come newest first: of two cells that are the same in every respect the first source's counts.
    pub(crate) fn new(comparator: Comparator, read_point: SequenceId, sources: Sources) -> Heap {
        let active = SmallVec::from_elem(true, sources.len());
        let put_off = SmallVec::from_elem(false, sources.len());
        Heap {
            comparator,
            read_point,
            sources,
            active,
            stand_ins: Vec::new(),
            put_off,
            current: None,
            runner_up: None,
            steps: STEPS_MAX,
        }
    }

    /// How many sources there are.
    #[cfg(test)]
    pub(crate) fn sources(&self) -> usize {
        self.sources.len()
    }

    /// How many of them are put off.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.put_off.iter().filter(|put_off| **put_off).count()
    }

    pub(crate) fn set_options(&mut self, options: hfile::ReadOptions) {
        for source in &mut self.sources {
            if let Source::File(cursor) = source {
                cursor.set_options(options);
            }
        }
    }

    /// From now on blocks of files that were looked at are held.
    pub(crate) fn hold_blocks(&mut self) {
        for source in &mut self.sources {
            if let Source::File(cursor) = source {
                cursor.hold_blocks();
            }
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<Cell<'_>> {
        self.sources[self.current?].peek()
    }

    /// Where the source stands, as far as is known.
    #[inline]
    fn head(&self, index: usize) -> Option<Position<'_>> {
        if self.put_off[index] {
            return Some(self.stand_ins[index].position());
        }
        self.sources[index].peek().map(Position::from)
    }

    /// Stands on the first cell at or after `position`, wherever it stood before.
    pub(crate) fn seek(&mut self, position: Position<'_>) -> Result<()> {
        for (source, active) in self.sources.iter_mut().zip(&mut self.active) {
            source.seek(position)?;
            *active = true;
        }
        self.put_off.fill(false);
        self.skip_invisible_heads()?;
        self.settle()
    }

    /// Stands on the first cell of the row that is asked for, or of its columns, wherever it stood before; where there is
    /// none, anywhere behind.
    pub(crate) fn seek_row(&mut self, aim: &Aim<'_>) -> Result<()> {
        let (row, column) = (KeyBuf::first_on_row(aim.row), aim.column());
        // Where nothing may be put off, or there is nothing to put off for, everything is looked into.
        let waiting = column.as_ref().filter(|_| self.sources.len() > 1);
        if waiting.is_some() {
            if self.stand_ins.is_empty() {
                self.stand_ins = KEYS.take();
            }
            self.stand_ins.resize_with(self.sources.len(), KeyBuf::default);
        }
        // The newest that was seen of the first column.
        let mut found: Option<Timestamp> = None;
        for index in 0..self.sources.len() {
            (self.active[index], self.put_off[index]) = (true, false);
            let mut put_off = None;
            match &mut self.sources[index] {
                Source::Memory(cursor) => match &column {
                    Some(column) if aim.is_get && !cursor.segment().may_delete_families() => {
                        // The segment that takes writes comes first, when nothing is found yet: that its figures are told
                        // behind its cells puts nothing off wrongly.
                        let newest = cursor.segment().timestamps().map(|(_, newest)| newest);
                        match newest.filter(|newest| found.is_some_and(|found| found > *newest)) {
                            Some(newest) => put_off = Some(newest),
                            None => cursor.seek_in_row(column.position()),
                        }
                    }
                    _ => cursor.seek_in_row(row.position()),
                },
                Source::File(cursor) if !aim.is_within(cursor, self.comparator) => cursor.leave(),
                Source::File(cursor) => {
                    put_off = if waiting.is_some() { aim.newest_in(cursor)? } else { None };
                    if put_off.is_some() {
                        // It may never be looked into.
                    } else if aim.may_be_in(cursor)? {
                        cursor.seek_far(row.position())?;
                    } else {
                        cursor.leave();
                    }
                }
            }
            if let (Some(newest), Some(column)) = (put_off, waiting) {
                self.stand_ins[index].copy_at(column, newest);
                self.put_off[index] = true;
                continue;
            }
            self.skip_invisible(index)?;
            if let Some(cell) = self.sources[index].peek().filter(|cell| aim.is_in_column(*cell)) {
                found = found.max(Some(cell.timestamp()));
            }
        }
        self.settle()
    }

    /// Looks into what was put off: from `position` on, or from where it was put off.
    fn look_into(&mut self, index: usize, position: Option<Position<'_>>) -> Result<()> {
        self.put_off[index] = false;
        let stand_in = &self.stand_ins[index];
        let position = position.unwrap_or(stand_in.position());
        match &mut self.sources[index] {
            Source::Memory(cursor) => cursor.seek_in_row(position),
            Source::File(cursor) if cursor.may_contain_row(stand_in.key().row())? => {
                cursor.seek_far(position)?;
            }
            Source::File(cursor) => cursor.leave(),
        }
        self.skip_invisible(index)
    }

    /// Goes to the next cell.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some(current) = self.current else { return Ok(()) };
        self.sources[current].advance()?;
        self.skip_invisible(current)?;
        let still = match (self.sources[current].peek(), self.runner_up.and_then(|next| self.head(next))) {
            (Some(_), None) => true,
            (Some(cell), Some(next)) => self.comparator.compare(cell.into(), next).is_lt(),
            (None, _) => false,
        };
        if still { Ok(()) } else { self.settle() }
    }

    /// Goes on to the first cell that is not `behind`: by steps if it is near, else by seeking `target`, which must be
    /// the place that `behind` means; it is told the cell that is still behind.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        behind: impl Fn(Cell<'_>) -> bool,
        target: impl FnOnce(Cell<'_>) -> KeyBuf,
    ) -> Result<()> {
        if !self.peek().is_some_and(&behind) {
            return Ok(());
        }
        self.pass_on(behind, target)
    }

    /// The same where the cell that it stands on is known to be behind, so that it is not looked at.
    #[inline]
    pub(crate) fn pass_on(
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

    /// Goes forward to the first cell at or after `position` by seeking, unless it stands there.
    pub(crate) fn forward(&mut self, position: Position<'_>) -> Result<()> {
        for index in 0..self.sources.len() {
            let behind = self.active[index]
                && self.head(index).is_some_and(|head| self.comparator.compare(head, position).is_lt());
            if behind && self.put_off[index] {
                self.look_into(index, Some(position))?;
            } else if behind {
                self.sources[index].seek(position)?;
                self.skip_invisible(index)?;
            }
        }
        self.settle()
    }

    /// Standing on the first cell of a row, passes rows before `end` of which `refuses` wants nothing, as long as they lie
    /// one after the other in a file that is all visible and no other source has something before them. Says how many; 0
    /// says nothing of what follows.
    pub(crate) fn pass_rows(
        &mut self,
        end: Option<&[u8]>,
        refuses: impl Fn(Cell<'_>) -> hfile::Refused,
    ) -> Result<u64> {
        let Some(current) = self.current.filter(|current| !self.put_off[*current]) else { return Ok(0) };
        let (comparator, read_point) = (self.comparator, self.read_point);
        let other: Option<SmallVec<[u8; 64]>> =
            self.runner_up.and_then(|next| self.head(next)).map(|head| SmallVec::from_slice(head.key.row()));
        let end = match (end, other.as_deref()) {
            (Some(end), Some(other)) if comparator.compare_rows(other, end).is_lt() => Some(other),
            (end, other) => end.or(other),
        };
        let Source::File(cursor) = &mut self.sources[current] else { return Ok(0) };
        if cursor.reader().newest_write().is_none_or(|newest| newest > read_point) {
            return Ok(0);
        }
        let rows = cursor.pass_rows(end, refuses);
        if rows > 0 {
            self.settle()?;
        }
        Ok(rows)
    }

    /// Stands on the first cell of the last row before `row` (of the last row of all without one). In that state only
    /// the sources that have the row take part. `false` when there is none.
    pub(crate) fn seek_row_before(&mut self, row: Option<&[u8]>) -> Result<bool> {
        let mut wanted = row.map(<[u8]>::to_vec);
        self.put_off.fill(false);
        loop {
            let mut last: Option<Vec<u8>> = None;
            for source in &mut self.sources {
                if source.seek_row_before(wanted.as_deref())?
                    && let Some(cell) = source.peek()
                    && last.as_ref().is_none_or(|last| self.comparator.compare_rows(last, cell.row()).is_lt())
                {
                    last = Some(cell.row().to_vec());
                }
            }
            let Some(last) = last else {
                self.current = None;
                return Ok(false);
            };
            for (source, active) in self.sources.iter().zip(&mut self.active) {
                *active = source.peek().is_some_and(|cell| cell.row() == last);
            }
            self.skip_invisible_heads()?;
            for (source, active) in self.sources.iter().zip(&mut self.active) {
                *active = *active && source.peek().is_some_and(|cell| cell.row() == last);
            }
            self.settle()?;
            if self.current.is_some() {
                return Ok(true);
            }
            // Nothing of the row is visible to this reader.
            wanted = Some(last);
        }
    }

    fn skip_invisible_heads(&mut self) -> Result<()> {
        (0..self.sources.len()).try_for_each(|index| self.skip_invisible(index))
    }

    #[inline]
    fn skip_invisible(&mut self, index: usize) -> Result<()> {
        if self.put_off[index] {
            return Ok(());
        }
        while self.sources[index].peek().is_some_and(|cell| cell.sequence() > self.read_point) {
            self.sources[index].advance()?;
        }
        Ok(())
    }

    /// Finds the source with the smallest head, and the one after it. One that was put off is looked into when it comes
    /// first.
    fn settle(&mut self) -> Result<()> {
        loop {
            self.compare_heads();
            match self.current {
                Some(first) if self.put_off[first] => self.look_into(first, None)?,
                _ => return Ok(()),
            }
        }
    }

    fn compare_heads(&mut self) {
        (self.current, self.runner_up) = (None, None);
        if let [only] = &self.sources[..] {
            self.current = only.peek().map(|_| 0).filter(|_| self.active[0]);
            return;
        }
        for index in 0..self.sources.len() {
            let Some(head) = self.head(index).filter(|_| self.active[index]) else { continue };
            let order = |other: Option<usize>| -> Ordering {
                match other.and_then(|other| Some((other, self.head(other)?))) {
                    // They differ in their time alone.
                    Some((other, place)) if self.put_off[index] && self.put_off[other] => {
                        place.key.timestamp().cmp(&head.key.timestamp())
                    }
                    Some((_, place)) => self.comparator.compare(head, place),
                    None => Ordering::Less,
                }
            };
            if order(self.current).is_lt() {
                self.runner_up = self.current;
                self.current = Some(index);
            } else if order(self.runner_up).is_lt() {
                self.runner_up = Some(index);
            }
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if !self.stand_ins.is_empty() && self.stand_ins.len() <= KEYS_KEPT_MAX {
            // At its end a thread has nowhere to keep them.
            let _ended = KEYS.try_with(|keys| keys.set(std::mem::take(&mut self.stand_ins)));
        }
    }
}
