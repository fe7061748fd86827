//! Many sorted sources as one.
//!
//! Sources are few (a segment or two, some files), so they stand in a list by their heads. The one that has moved is compared
//! with the one behind it: runs of cells from one source cost one comparison each. Where it has passed that one it goes down
//! the list to its place: rows that lie in several sources in turn cost as many comparisons as it passes. Cells newer than the
//! read point are passed over where they lie.
//!
//! A get of some columns looks into a source only when it must. Sources come newest first, and each knows its newest
//! timestamp: behind one that has the first column, those that are older than what it has are put off. A place of their time
//! in that column stands in for their head: before it they have nothing that is asked for. Is no more than one version
//! wanted, they are never looked into. What has a marker that deletes a whole family of this row (a file), or of any (a
//! segment), is looked into from the start of the row: the marker stands there.

use std::cell::Cell as Slot;

use bytes::Bytes;
use cell::{Cell, CellSink, Comparator, KeyBuf, Position, SequenceId, Timestamp, is_same_row};
use hfile::Most;
use smallvec::SmallVec;

use crate::Result;
use crate::store_file::FileCursor;

/// Steps before a seek is worth its price. Where steps have not been enough, the next place will not be near either, and
/// fewer are tried: a row with thousands of versions of each column is passed by seeks.
const STEPS_MAX: usize = 8;

thread_local! {
    /// Room for the sources of the next heaps. A cursor is long: sources that lay in the heap would be moved with it, again
    /// and again on its way to whoever reads.
    static ROOMS: Slot<Vec<Room>> = const { Slot::new(Vec::new()) };
    /// Keys for the next heap that needs some: most need none.
    static KEYS: Slot<Vec<KeyBuf>> = const { Slot::new(Vec::new()) };
}
/// Rooms that a thread keeps, for so many sources each, and keys.
const ROOMS_KEPT_MAX: usize = 8;
const KEPT_MAX: usize = 64;

/// A source, and how it takes part.
struct Lane {
    source: Source,
    /// Reversed: whether it stands on the current row. Forward: always.
    active: bool,
    /// Whether it was not looked into, and a place stands in for its head.
    put_off: bool,
}

impl Lane {
    #[inline]
    fn skip_invisible(&mut self, read_point: SequenceId) -> Result<()> {
        while !self.put_off && self.source.peek().is_some_and(|cell| cell.sequence() > read_point) {
            self.source.advance()?;
        }
        Ok(())
    }
}

/// Room for sources, and for their order.
#[derive(Default)]
struct Room {
    lanes: Vec<Lane>,
    /// Those that take part and are not at their end, by where they stand; of two that stand on the same the newer first.
    order: Vec<u32>,
}

/// What a heap merges, newest first, in room that the thread keeps.
pub(crate) struct Sources(Room);

impl Sources {
    pub(crate) fn new() -> Sources {
        let mut rooms = ROOMS.take();
        let room = rooms.pop().unwrap_or_default();
        ROOMS.set(rooms);
        Sources(room)
    }

    pub(crate) fn push(&mut self, source: Source) {
        self.0.lanes.push(Lane { source, active: true, put_off: false });
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
        let mut room = std::mem::take(&mut self.0);
        // Blocks and segments are let go of here, whoever keeps the room.
        room.lanes.clear();
        room.order.clear();
        if room.lanes.capacity() == 0 || room.lanes.capacity() > KEPT_MAX {
            return;
        }
        // At its end a thread has nowhere to keep it.
        let _ended = ROOMS.try_with(|slot| {
            let mut rooms = slot.take();
            if rooms.len() < ROOMS_KEPT_MAX {
                rooms.push(room);
            }
            slot.set(rooms);
        });
    }
}

/// One source.
#[expect(
    clippy::large_enum_variant,
    reason = "it lies in room that the thread keeps; a box would be made for each read"
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
    fn is_within(&self, file: &FileCursor, comparator: Comparator) -> bool {
        let is_behind = |row: &[u8], other: &[u8]| comparator.compare_rows(row, other).is_gt();
        let (first, last) = (file.reader().first_key(), file.reader().last_key());
        last.is_none_or(|last| !is_behind(self.row, last.row()))
            && first.is_none_or(|first| !is_behind(first.row(), self.row))
            && file.has_row(self.row)
    }

    /// Whether a file's filter, if it is one of columns, lets it have something of this.
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

    /// Where the first of the columns begins; `None` where something else of the row counts.
    fn column(&self) -> Option<KeyBuf> {
        let [first, ..] = self.qualifiers.filter(|_| self.newest_counts && self.is_get)? else { return None };
        Some(KeyBuf::first_on_column(self.row, self.family, first))
    }

    /// Whether `cell` is of the first of the columns.
    fn is_in_column(&self, cell: Cell<'_>) -> bool {
        let first = self.qualifiers.and_then(<[Bytes]>::first);
        is_same_row(cell.row(), self.row) && first.is_some_and(|first| cell.qualifier() == first)
    }

    /// Of a source that has nothing of this before its newest timestamp in the first column: that timestamp.
    fn newest_in(&self, source: &Source) -> Result<Option<Timestamp>> {
        match source {
            // The segment that takes writes comes first, when nothing is found yet: that its figures are told behind its cells
            // puts nothing off wrongly.
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

/// The sources of one store, merged.
pub(crate) struct Heap {
    comparator: Comparator,
    read_point: SequenceId,
    sources: Sources,
    /// Places that stand in for the heads of sources which are put off; those of others mean nothing, and where none was put
    /// off yet there are none.
    stand_ins: Vec<KeyBuf>,
    /// Steps that are tried before the next seek.
    steps: usize,
    /// See [`Heap::ran_out`].
    ran_out: bool,
}

impl Heap {
    /// `sources` come newest first: of two cells that are the same in every respect the first source's counts.
    pub(crate) fn new(comparator: Comparator, read_point: SequenceId, sources: Sources) -> Heap {
        Heap { comparator, read_point, sources, stand_ins: Vec::new(), steps: STEPS_MAX, ran_out: false }
    }

    /// How many sources there are.
    #[cfg(test)]
    pub(crate) fn sources(&self) -> usize {
        self.sources.0.lanes.len()
    }

    /// How many of them are put off.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.sources.0.lanes.iter().filter(|lane| lane.put_off).count()
    }

    pub(crate) fn set_options(&mut self, options: hfile::ReadOptions) {
        for lane in &mut self.sources.0.lanes {
            if let Source::File(cursor) = &mut lane.source {
                cursor.set_options(options);
            }
        }
    }

    /// From now on it is known [whether cells lay in the cache](Heap::lay_in_cache).
    pub(crate) fn watch_cache(&mut self) {
        for lane in &mut self.sources.0.lanes {
            if let Source::File(cursor) = &mut lane.source {
                cursor.watch_cache();
            }
        }
    }

    /// Whether the cell that it stands on lies in a file's block that lay in the cache, and this is watched.
    #[inline]
    pub(crate) fn lay_in_cache(&self) -> bool {
        let source = self.current().map(|index| &self.sources.0.lanes[index].source);
        matches!(source, Some(Source::File(cursor)) if cursor.lay_in_cache())
    }

    /// From now on blocks of files that were looked at are held.
    pub(crate) fn hold_blocks(&mut self) {
        for lane in &mut self.sources.0.lanes {
            if let Source::File(cursor) = &mut lane.source {
                cursor.hold_blocks();
            }
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<Cell<'_>> {
        self.sources.0.lanes[self.current()?].source.peek()
    }

    /// Asks the memory for a cell that comes soon: for who reads whole cells one after the other.
    #[inline]
    pub(crate) fn fetch_ahead(&self) {
        match self.current().map(|index| &self.sources.0.lanes[index].source) {
            Some(Source::Memory(cursor)) => cursor.fetch_ahead(),
            Some(Source::File(cursor)) => cursor.fetch_ahead(),
            None => {}
        }
    }

    /// The source that stands first.
    #[inline]
    fn current(&self) -> Option<usize> {
        self.sources.0.order.first().map(|index| *index as usize)
    }

    /// The source behind it.
    #[inline]
    fn runner_up(&self) -> Option<usize> {
        self.sources.0.order.get(1).map(|index| *index as usize)
    }

    /// Where the source stands, as far as is known.
    #[inline]
    fn head(&self, index: usize) -> Option<Position<'_>> {
        let lane = &self.sources.0.lanes[index];
        if lane.put_off {
            return Some(self.stand_ins[index].position());
        }
        lane.source.peek().map(Position::from)
    }

    /// Stands on the first cell at or after `position`, wherever it stood before.
    pub(crate) fn seek(&mut self, position: Position<'_>) -> Result<()> {
        for lane in &mut self.sources.0.lanes {
            lane.source.seek(position)?;
            (lane.active, lane.put_off) = (true, false);
            lane.skip_invisible(self.read_point)?;
        }
        self.settle()
    }

    /// Stands on the first cell of the row that is asked for, or of its columns, wherever it stood before; where there is
    /// none, anywhere behind.
    pub(crate) fn seek_row(&mut self, aim: &Aim<'_>) -> Result<()> {
        let (column, mut row) = (aim.column(), None);
        // The newest that was seen of the first column.
        let mut found: Option<Timestamp> = None;
        for index in 0..self.sources.0.lanes.len() {
            let lane = &mut self.sources.0.lanes[index];
            (lane.active, lane.put_off) = (true, false);
            if let Source::File(cursor) = &mut lane.source
                && !aim.is_within(cursor, self.comparator)
            {
                cursor.leave();
                continue;
            }
            let newest = if column.is_some() { aim.newest_in(&lane.source)? } else { None };
            let place = match (&column, newest) {
                (Some(column), Some(newest)) if found.is_some_and(|found| found > newest) => {
                    lane.put_off = true;
                    self.stand_in(index, column, newest);
                    continue;
                }
                (Some(column), Some(_)) => column.position(),
                _ => row.get_or_insert_with(|| KeyBuf::first_on_row(aim.row)).position(),
            };
            match &mut lane.source {
                Source::Memory(cursor) => cursor.seek_in_row(place),
                Source::File(cursor) if aim.columns_may_be_in(cursor)? => cursor.seek_row(place)?,
                Source::File(cursor) => cursor.leave(),
            }
            lane.skip_invisible(self.read_point)?;
            if let Some(cell) = lane.source.peek().filter(|cell| aim.is_in_column(*cell)) {
                found = found.max(Some(cell.timestamp()));
            }
        }
        self.settle()
    }

    /// Has a place of that time in the column stand in for the head of a source.
    fn stand_in(&mut self, index: usize, column: &KeyBuf, newest: Timestamp) {
        if self.stand_ins.is_empty() {
            self.stand_ins = KEYS.take();
        }
        self.stand_ins.resize_with(self.sources.0.lanes.len(), KeyBuf::default);
        self.stand_ins[index].copy_at(column, newest);
    }

    /// Looks into what was put off: from `position` on, or from where it was put off.
    fn look_into(&mut self, index: usize, position: Option<Position<'_>>) -> Result<()> {
        let (lane, stand_in) = (&mut self.sources.0.lanes[index], &self.stand_ins[index]);
        lane.put_off = false;
        let position = position.unwrap_or(stand_in.position());
        match &mut lane.source {
            Source::Memory(cursor) => cursor.seek_in_row(position),
            Source::File(cursor) => cursor.seek_row(position)?,
        }
        lane.skip_invisible(self.read_point)
    }

    /// Goes to the next cell.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some(current) = self.current() else { return Ok(()) };
        let lane = &mut self.sources.0.lanes[current];
        lane.source.advance()?;
        lane.skip_invisible(self.read_point)?;
        let is_still_first = match (self.head(current), self.runner_up()) {
            (Some(head), Some(next)) => self.is_before(current, head, next),
            (head, _) => head.is_some(),
        };
        if is_still_first {
            return Ok(());
        }
        // It is behind the second, which need not be asked again.
        self.reenlist(2);
        self.look_into_first()
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
        for index in 0..self.sources.0.lanes.len() {
            let behind = self.sources.0.lanes[index].active
                && self.head(index).is_some_and(|head| self.comparator.compare(head, position).is_lt());
            let lane = &mut self.sources.0.lanes[index];
            if behind && lane.put_off {
                self.look_into(index, Some(position))?;
            } else if behind {
                lane.source.seek(position)?;
                lane.skip_invisible(self.read_point)?;
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
        self.run(end, |cursor, end| cursor.pass_rows(end, refuses))
    }

    /// Whether the last run of rows came to an end because a block of a file did.
    pub(crate) fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// The same for rows that are given [as they lie](hfile::Cursor::give_rows).
    pub(crate) fn give_rows(
        &mut self,
        end: Option<&[u8]>,
        most: Most,
        wanted: Option<&[Bytes]>,
        sink: &mut dyn CellSink,
    ) -> Result<u64> {
        self.run(end, |cursor, end| cursor.give_rows(end, most, wanted, sink) as u64)
    }

    /// Has rows `done` that lie in a file, if all of it is visible, before any other source's and before `end`; `done` leaves
    /// the file on the first cell of the row after them, and says how many they were.
    fn run(
        &mut self,
        end: Option<&[u8]>,
        done: impl FnOnce(&mut FileCursor, Option<&[u8]>) -> u64,
    ) -> Result<u64> {
        let Some(current) = self.current().filter(|current| !self.sources.0.lanes[*current].put_off) else {
            return Ok(0);
        };
        let (comparator, read_point) = (self.comparator, self.read_point);
        let other: Option<SmallVec<[u8; 64]>> = self
            .runner_up()
            .and_then(|next| self.head(next))
            .map(|head| SmallVec::from_slice(head.key.row()));
        let end = match (end, other.as_deref()) {
            (Some(end), Some(other)) if comparator.compare_rows(other, end).is_lt() => Some(other),
            (end, other) => end.or(other),
        };
        let Source::File(cursor) = &mut self.sources.0.lanes[current].source else { return Ok(0) };
        if cursor.reader().newest_write().is_none_or(|newest| newest > read_point) {
            return Ok(0);
        }
        let rows = done(cursor, end);
        self.ran_out = rows > 0 && cursor.ran_out();
        if rows > 0 {
            self.reenlist(1);
            self.look_into_first()?;
        }
        Ok(rows)
    }

    /// Stands on the first cell of the last row before `row` (of the last row of all without one). In that state only
    /// the sources that have the row take part. `false` when there is none.
    pub(crate) fn seek_row_before(&mut self, row: Option<&[u8]>) -> Result<bool> {
        let mut wanted = row.map(<[u8]>::to_vec);
        loop {
            let mut last: Option<Vec<u8>> = None;
            for Lane { source, put_off, .. } in &mut self.sources.0.lanes {
                *put_off = false;
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
            for lane in &mut self.sources.0.lanes {
                let stands_in_it = |source: &Source| source.peek().is_some_and(|cell| cell.row() == last);
                lane.active = stands_in_it(&lane.source);
                lane.skip_invisible(self.read_point)?;
                lane.active &= stands_in_it(&lane.source);
            }
            self.settle()?;
            if self.current().is_some() {
                return Ok(true);
            }
            // Nothing of the row is visible to this reader.
            wanted = Some(last);
        }
    }

    /// Puts the sources in order, wherever each was moved to.
    fn settle(&mut self) -> Result<()> {
        self.sources.0.order.clear();
        for index in 0..self.sources.0.lanes.len() {
            if self.sources.0.lanes[index].active
                && let Some(head) = self.head(index)
            {
                // From the end: most often older sources stand further on, too.
                let behind = |other: &u32| !self.is_before(index, head, *other as usize);
                let place = self.sources.0.order.iter().rposition(behind).map_or(0, |last| last + 1);
                let order = &mut self.sources.0.order;
                order.push(index as u32);
                order[place..].rotate_right(1);
            }
        }
        self.look_into_first()
    }

    /// One that was put off is looked into when it comes first.
    fn look_into_first(&mut self) -> Result<()> {
        while let Some(first) = self.current()
            && self.sources.0.lanes[first].put_off
        {
            self.look_into(first, None)?;
            self.reenlist(1);
        }
        Ok(())
    }

    /// Moves the one that stood first, and was moved forward, down to its place behind so many, itself among them; out of the
    /// list at its end.
    fn reenlist(&mut self, behind: usize) {
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

    /// Whether a source that stands at `head` comes before another one.
    #[inline]
    fn is_before(&self, index: usize, head: Position<'_>, other: usize) -> bool {
        let Some(place) = self.head(other) else { return true };
        let lanes = &self.sources.0.lanes;
        let order = match lanes[index].put_off && lanes[other].put_off {
            // They differ in their time alone.
            true => place.key.timestamp().cmp(&head.key.timestamp()),
            false => self.comparator.compare(head, place),
        };
        order.then(index.cmp(&other)).is_lt()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if !self.stand_ins.is_empty() && self.stand_ins.len() <= KEPT_MAX {
            // At its end a thread has nowhere to keep them.
            let _ended = KEYS.try_with(|keys| keys.set(std::mem::take(&mut self.stand_ins)));
        }
    }
}
