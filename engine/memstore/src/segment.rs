//! Cells in order: a segment that takes writes, or one that takes no more and is flat.

use std::borrow::Cow;
use std::sync::Arc;

use cell::{Cell, CellType, Comparator, Position, SequenceId, Timestamp};

use crate::active::{self, Active};
use crate::arena::{Fill, KEY_LINES, lines_of};
use crate::flat::Flat;
use crate::records::Records;
use crate::{Pool, merge};

/// So many rows are looked for together, when they are foreseen.
pub(crate) const TOGETHER: usize = 16;

/// Where a cursor stands in a segment.
#[derive(Clone, Debug)]
pub(crate) enum Spot {
    Nowhere,
    Active(active::Spot),
    Flat(usize),
}

/// An ordered set of cells. Two cells at the same place with the same sequence id are one.
pub struct Segment {
    body: Body,
}

#[expect(
    clippy::large_enum_variant,
    reason = "there are few segments, and looking into one is a step shorter"
)]
enum Body {
    Active(Active),
    /// The index, bytes of records, and timestamps.
    Flat(Flat, u64, Span),
}

/// Which chunks a compaction empties, so that their memory is free again. What lives there is copied; other chunks stay,
/// with what was dropped among the rest. Those come first of which the greatest share is dead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleaning {
    /// Bytes that are to be had in any case, as far as something is dead at all.
    pub free_min: u64,
    /// Beyond that, the share of a chunk that must be dead, from 0 to 1.
    pub dead_min: f64,
}

impl Cleaning {
    /// All in which anything is dead.
    pub const ALL: Cleaning = Cleaning { free_min: u64::MAX, dead_min: 0.0 };
}

/// A flat index of a segment.
pub(crate) enum Index<'a> {
    Own(&'a Flat),
    Made(Box<Flat>),
}

impl std::ops::Deref for Index<'_> {
    type Target = Flat;

    #[inline]
    fn deref(&self) -> &Flat {
        match self {
            Index::Own(flat) => flat,
            Index::Made(flat) => flat,
        }
    }
}

/// What a compaction has made.
#[derive(Debug)]
pub struct Compacted {
    /// The cells that were kept.
    pub segment: Segment,
    /// Bytes of those that were copied.
    pub bytes_copied: u64,
}

/// What is known of some cells without looking at them: the oldest and the newest timestamp, whether a marker is among
/// them that deletes a whole family of its row, and whether all are values without tags. They may be fewer than those of which it
/// is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) oldest: i64,
    pub(crate) newest: i64,
    pub(crate) deletes_families: bool,
    pub(crate) is_plain: bool,
}

impl Default for Span {
    fn default() -> Span {
        Span { oldest: i64::MAX, newest: i64::MIN, deletes_families: false, is_plain: true }
    }
}

impl Span {
    #[inline]
    pub(crate) fn take(&mut self, cell: Cell<'_>) {
        let timestamp = cell.timestamp();
        (self.oldest, self.newest) = (self.oldest.min(timestamp.0), self.newest.max(timestamp.0));
        let cell_type = cell.cell_type();
        self.deletes_families |= cell_type.is_some_and(CellType::is_family_delete);
        self.is_plain &= cell_type == Some(CellType::Put) && cell.tags().is_empty();
    }

    /// Of these cells and those.
    pub(crate) fn join(&mut self, other: Span) {
        (self.oldest, self.newest) = (self.oldest.min(other.oldest), self.newest.max(other.newest));
        self.deletes_families |= other.deletes_families;
        self.is_plain &= other.is_plain;
    }

    /// `None` of nothing.
    pub(crate) fn ends(self) -> Option<(Timestamp, Timestamp)> {
        (self.oldest <= self.newest).then_some((Timestamp(self.oldest), Timestamp(self.newest)))
    }
}

impl Segment {
    /// An empty segment in the order of `comparator`, with chunks from `pool`.
    pub fn new(comparator: Comparator, pool: &Arc<Pool>) -> Segment {
        Segment { body: Body::Active(Active::new(comparator, pool, b"", Vec::new())) }
    }

    /// An empty segment to take the writes from here on: this one takes no more. It goes on in the chunks that this one
    /// has not filled, and expects rows that begin as those here do.
    ///
    /// # Panics
    /// When this one does not take writes.
    pub fn successor(&self, pool: &Arc<Pool>) -> Segment {
        let active = self.taking_writes();
        let left_open = active.seal();
        Segment { body: Body::Active(Active::new(self.comparator(), pool, &active.prefix(), left_open)) }
    }

    /// The same cells under an index that is flat. This one must take no more writes: see [`Segment::successor`].
    ///
    /// # Panics
    /// When it still takes writes, or is flat.
    pub fn flattened(&self) -> Segment {
        let active = self.taking_writes();
        Segment::flat(active.flattened(active.cells() as usize), active.record_bytes(), active.span())
    }

    /// One flat segment with the cells of all of `segments`, which come newest first and take no more writes; the cells
    /// stay where they are. `None` when they lie in more chunks than one segment can tell apart.
    pub fn merged(segments: &[Arc<Segment>]) -> Option<Segment> {
        merge::merged(segments)
    }

    /// One flat segment with those cells of `segments`, which come newest first and take no more writes, that `keeps`
    /// keeps; those of chunks that `cleaning` wants emptied are copied into new chunks of `pool`, the others stay where they
    /// are. `keeps` sees every cell once, in order. `None` as for [`Segment::merged`], at half as many chunks. A value
    /// behind which older ones of its column are not kept is noted as rewritten.
    pub fn compacted(
        segments: &[Arc<Segment>],
        pool: &Arc<Pool>,
        cleaning: Cleaning,
        keeps: impl FnMut(Cell<'_>) -> bool,
    ) -> Option<Compacted> {
        merge::compacted(segments, pool, cleaning, None, keeps)
    }

    /// The same, where a cell need not be seen that is the only one of its row, a value without tags, and no older than
    /// `lone_since`: it is kept. Of a segment that has nothing but such values those are not read whose row's head no other
    /// cell has.
    pub fn compacted_keeping_lone(
        segments: &[Arc<Segment>],
        pool: &Arc<Pool>,
        cleaning: Cleaning,
        lone_since: Timestamp,
        keeps: impl FnMut(Cell<'_>) -> bool,
    ) -> Option<Compacted> {
        merge::compacted(segments, pool, cleaning, Some(lone_since), keeps)
    }

    /// Whether `other`, which comes later in the order of cells, is a value of the same column as `cell`, which is one, too.
    pub fn is_older_version(cell: Cell<'_>, other: Cell<'_>) -> bool {
        merge::is_older_version(cell, other)
    }

    /// Whether [`Segment::compacted`] makes one of them.
    pub fn fit_one(segments: &[Arc<Segment>]) -> bool {
        merge::fit_one(segments)
    }

    /// Gives every cell of `segments`, which come newest first and take no more writes, to `each`, once and in order, and
    /// says whether it is known to be rewritten: whether [`Segment::compacted`] had an older version behind it once.
    pub fn visit<'a>(segments: &'a [Arc<Segment>], each: impl FnMut(Cell<'a>, bool)) {
        merge::visit(segments, each);
    }

    pub(crate) fn flat(flat: Flat, record_bytes: u64, span: Span) -> Segment {
        Segment { body: Body::Flat(flat, record_bytes, span) }
    }

    fn taking_writes(&self) -> &Active {
        match &self.body {
            Body::Active(active) => active,
            Body::Flat(flat, ..) => panic!("a flat segment of {} cells takes no writes", flat.len()),
        }
    }

    /// Whether its index is flat.
    pub fn is_flat(&self) -> bool {
        matches!(self.body, Body::Flat(..))
    }

    /// The order of its cells.
    pub fn comparator(&self) -> Comparator {
        self.records().comparator()
    }

    /// Adds the cells of one write, all under `sequence`, by copying them. Each of `cells` is one whole cell that was
    /// checked before. Cells that come in order cost less. Others may write at the same time, and nobody waits who reads.
    ///
    /// Says whether there is room for more. Where there is not, because a segment cannot tell more chunks apart, the cells that
    /// are left were not taken from the iterator: they go to a successor.
    ///
    /// # Panics
    /// When the segment takes no more writes.
    pub fn insert<'a>(&self, cells: impl IntoIterator<Item = &'a [u8]>, sequence: SequenceId) -> bool {
        self.taking_writes().insert(cells, sequence)
    }

    /// Bytes of its cells and of the index over them.
    pub fn bytes(&self) -> u64 {
        self.record_bytes() + self.index_bytes()
    }

    /// Bytes of its cells, with eight or so for the sequence id of each, and of those that were dropped and still lie
    /// in its chunks.
    pub fn record_bytes(&self) -> u64 {
        match &self.body {
            Body::Active(active) => active.record_bytes(),
            Body::Flat(_, record_bytes, _) => *record_bytes,
        }
    }

    /// Bytes in its chunks of cells that were dropped: a part of [`Segment::record_bytes`].
    pub fn dead_bytes(&self) -> u64 {
        match &self.body {
            Body::Active(_) => 0,
            Body::Flat(flat, ..) => flat.dead_bytes(),
        }
    }

    /// What lies in its chunks, by number; nothing beyond the end. It must take no more writes.
    pub(crate) fn fills(&self) -> Cow<'_, [Fill]> {
        match &self.body {
            Body::Active(active) => active.fills().into(),
            Body::Flat(flat, ..) => flat.fills().into(),
        }
    }

    /// Bytes of the index over them.
    pub fn index_bytes(&self) -> u64 {
        match &self.body {
            Body::Active(active) => active.index_bytes(),
            Body::Flat(flat, ..) => flat.bytes(),
        }
    }

    /// How many cells there are.
    pub fn cells(&self) -> u64 {
        match &self.body {
            Body::Active(active) => active.cells(),
            Body::Flat(flat, ..) => flat.len() as u64,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cells() == 0
    }

    /// The cell that has `index` cells before it; `None` beyond the end, or when the index is not flat.
    pub fn cell(&self, index: u64) -> Option<Cell<'_>> {
        match &self.body {
            Body::Active(_) => None,
            Body::Flat(flat, ..) => flat.cell(usize::try_from(index).ok()?),
        }
    }

    /// The oldest and the newest timestamp; `None` while it is empty.
    pub fn timestamps(&self) -> Option<(Timestamp, Timestamp)> {
        self.span().ends()
    }

    /// Whether some cell may be a marker that deletes a whole family of its row, or one version of all its columns: such
    /// stand before all columns. Once they are dropped from memory it is no longer so.
    pub fn may_delete_families(&self) -> bool {
        match &self.body {
            Body::Active(active) => active.may_delete_families(),
            Body::Flat(_, _, span) => span.deletes_families,
        }
    }

    pub(crate) fn span(&self) -> Span {
        match &self.body {
            Body::Active(active) => active.span(),
            Body::Flat(_, _, span) => *span,
        }
    }

    pub(crate) fn records(&self) -> &Records {
        match &self.body {
            Body::Active(active) => active.records(),
            Body::Flat(flat, ..) => flat.records(),
        }
    }

    /// Its index as it is, or made flat. It must take no more writes.
    pub(crate) fn index(&self) -> Index<'_> {
        match &self.body {
            Body::Active(active) => Index::Made(Box::new(active.flattened(active.cells() as usize))),
            Body::Flat(flat, ..) => Index::Own(flat),
        }
    }

    /// Where the first of its cells is.
    pub(crate) fn first(&self) -> Spot {
        match &self.body {
            Body::Active(active) => Spot::Active(active.first()),
            Body::Flat(..) => Spot::Flat(0),
        }
    }

    #[inline]
    pub(crate) fn seek(&self, position: Position<'_>) -> Spot {
        match &self.body {
            Body::Active(active) => Spot::Active(active.seek(position)),
            Body::Flat(flat, ..) => Spot::Flat(flat.lower_bound(position)),
        }
    }

    /// The same where only the row of `position` matters: nowhere if its head says that it is not here, so that no cell is
    /// looked at.
    #[inline]
    pub(crate) fn seek_in_row(&self, position: Position<'_>) -> Spot {
        match &self.body {
            Body::Active(active) => active.seek_in_row(position).map_or(Spot::Nowhere, Spot::Active),
            Body::Flat(flat, ..) => flat.find_in_row(position).map_or(Spot::Nowhere, Spot::Flat),
        }
    }

    /// Asks the memory for what reading each of these rows needs, the first cell and all: for all of them at once, so that they
    /// wait as long as one. Gives the index of each row that is likely here.
    pub fn foresee(&self, rows: &[&[u8]], mut is_here: impl FnMut(usize)) {
        let lines = lines_of((self.bytes() / self.cells().max(1)) as usize);
        for (group, rows) in rows.chunks(TOGETHER).enumerate() {
            let is_here = |index| is_here(group * TOGETHER + index);
            match &self.body {
                Body::Active(active) => active.foresee(rows, lines, is_here),
                Body::Flat(flat, ..) => flat.foresee(rows, lines, is_here),
            }
        }
    }

    #[inline]
    pub(crate) fn advance(&self, spot: &mut Spot) {
        match (&self.body, spot) {
            (Body::Active(active), Spot::Active(spot)) => active.advance(spot),
            (Body::Flat(..), Spot::Flat(index)) => *index += 1,
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn cell_at(&self, spot: &Spot) -> Option<Cell<'_>> {
        match (&self.body, spot) {
            (Body::Active(active), Spot::Active(spot)) => {
                active.place_at(spot).map(|place| active.records().cell(place))
            }
            (Body::Flat(flat, ..), Spot::Flat(index)) => flat.cell(*index),
            _ => None,
        }
    }

    /// Asks the memory for the first bytes of the cell that is `far` entries from there.
    #[inline]
    pub(crate) fn fetch_behind(&self, spot: &Spot, far: usize) {
        self.fetch_lines_behind(spot, far, KEY_LINES);
    }

    /// The same for so many lines of it.
    #[inline]
    pub(crate) fn fetch_lines_behind(&self, spot: &Spot, far: usize, lines: usize) {
        if let (Body::Flat(flat, ..), Spot::Flat(index)) = (&self.body, spot)
            && let Some((_, place)) = flat.entry(index + far)
        {
            flat.records().fetch(place, lines);
        }
    }

    /// The last cell before `end`, or of all.
    pub(crate) fn last_before(&self, end: Option<Position<'_>>) -> Option<Cell<'_>> {
        match &self.body {
            Body::Active(active) => active.last_before(end),
            Body::Flat(flat, ..) => {
                let end = end.map_or(flat.len(), |end| flat.lower_bound(end));
                flat.cell(end.checked_sub(1)?)
            }
        }
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment")
            .field("flat", &self.is_flat())
            .field("cells", &self.cells())
            .field("bytes", &self.bytes())
            .finish()
    }
}
