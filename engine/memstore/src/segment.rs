//! Segments: sorted cells, either active (accepting writes) or sealed and flat.

use std::borrow::Cow;
use std::sync::Arc;

use cell::{Cell, Comparator, Position, SequenceId, Timestamp};

use crate::active::{Active, ActivePosition};
use crate::flat::Flat;
use crate::head::TOGETHER;
use crate::place::{Fill, KEY_LINES, lines_of};
use crate::pool::Pool;
use crate::records::Records;
use crate::span::Span;

/// The position of a cursor in a segment of either kind.
#[derive(Clone, Debug)]
pub(crate) enum SegmentPosition {
    Nowhere,
    Active(ActivePosition),
    Flat(usize),
}

/// A sorted set of cells. Two cells with equal keys and equal sequence ids count as one.
pub struct Segment {
    body: Body,
}

#[expect(
    clippy::large_enum_variant,
    reason = "there are few segments, and looking into one is a step shorter"
)]
enum Body {
    Active(Active),
    /// A sealed segment: its flat index, the size of its records in bytes, and the range of its timestamps.
    Flat(Flat, u64, Span),
}

/// A flat index of a segment: its own, or one made for this call.
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

impl Segment {
    /// Creates an empty segment sorted by `comparator`, with chunks from `pool`.
    pub fn new(comparator: Comparator, pool: &Arc<Pool>) -> Segment {
        Segment { body: Body::Active(Active::new(comparator, pool, b"", Vec::new())) }
    }

    /// Seals this segment, and creates an empty one for later writes. The new segment continues to fill this segment's
    /// partly filled chunks, and expects the same row prefix.
    ///
    /// # Panics
    /// When this segment is sealed already.
    pub fn successor(&self, pool: &Arc<Pool>) -> Segment {
        let active = self.taking_writes();
        let left_open = active.seal();
        Segment { body: Body::Active(Active::new(self.comparator(), pool, &active.prefix(), left_open)) }
    }

    /// Returns the same cells under a flat index. The segment must be sealed: see [`Segment::successor`].
    ///
    /// # Panics
    /// When the segment is active or already flat.
    pub fn flattened(&self) -> Segment {
        let active = self.taking_writes();
        Segment::flat(active.flattened(active.cells() as usize), active.record_bytes(), active.span())
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

    /// Whether the index is flat.
    pub fn is_flat(&self) -> bool {
        matches!(self.body, Body::Flat(..))
    }

    /// Returns the order of the segment's cells.
    pub fn comparator(&self) -> Comparator {
        self.records().comparator()
    }

    /// Copies the cells of one write into the segment, all under `sequence`. Each of `cells` is one complete, validated
    /// cell. Sorted cells cost less. Other threads may insert at the same time; readers never wait.
    ///
    /// Returns whether there is room for more cells. If not, the segment cannot address another chunk, and the
    /// remaining cells were not taken from the iterator: the caller inserts them into the successor.
    ///
    /// # Panics
    /// When the segment is sealed.
    pub fn insert<'a>(&self, cells: impl IntoIterator<Item = &'a [u8]>, sequence: SequenceId) -> bool {
        self.taking_writes().insert(cells, sequence)
    }

    /// Returns the size of the cells and of the index, in bytes.
    pub fn bytes(&self) -> u64 {
        self.record_bytes() + self.index_bytes()
    }

    /// Returns the size of the cells in bytes, with about eight bytes for each sequence id. Dropped cells that are
    /// still in the chunks are included.
    pub fn record_bytes(&self) -> u64 {
        match &self.body {
            Body::Active(active) => active.record_bytes(),
            Body::Flat(_, record_bytes, _) => *record_bytes,
        }
    }

    /// Returns the size of dropped cells in the chunks, in bytes: a part of [`Segment::record_bytes`].
    pub fn dead_bytes(&self) -> u64 {
        match &self.body {
            Body::Active(_) => 0,
            Body::Flat(flat, ..) => flat.dead_bytes(),
        }
    }

    /// Returns the number of bytes in each chunk, by number; trailing empty chunks are omitted. The segment must be
    /// sealed.
    pub(crate) fn fills(&self) -> Cow<'_, [Fill]> {
        match &self.body {
            Body::Active(active) => active.fills().into(),
            Body::Flat(flat, ..) => flat.fills().into(),
        }
    }

    /// Returns the size of the index, in bytes.
    pub fn index_bytes(&self) -> u64 {
        match &self.body {
            Body::Active(active) => active.index_bytes(),
            Body::Flat(flat, ..) => flat.bytes(),
        }
    }

    /// Returns the number of cells in the segment.
    pub fn cells(&self) -> u64 {
        match &self.body {
            Body::Active(active) => active.cells(),
            Body::Flat(flat, ..) => flat.len() as u64,
        }
    }

    /// Whether the segment has no cell.
    pub fn is_empty(&self) -> bool {
        self.cells() == 0
    }

    /// Returns the cell at `index`; `None` after the last cell, or when the index is not flat.
    pub fn cell(&self, index: u64) -> Option<Cell<'_>> {
        match &self.body {
            Body::Active(_) => None,
            Body::Flat(flat, ..) => flat.cell(usize::try_from(index).ok()?),
        }
    }

    /// Returns the oldest and the newest timestamp of the segment's cells; `None` while the segment is empty. After a
    /// compaction the range may be wider than that of the kept cells.
    pub fn timestamps(&self) -> Option<(Timestamp, Timestamp)> {
        self.span().ends()
    }

    /// Whether a cell may be a marker that deletes a whole family of its row, or one version of all its columns. Such
    /// markers sort before all columns. False if they were dropped by a compaction in memory.
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

    /// Returns the index, flattened if needed. The segment must be sealed.
    pub(crate) fn index(&self) -> Index<'_> {
        match &self.body {
            Body::Active(active) => Index::Made(Box::new(active.flattened(active.cells() as usize))),
            Body::Flat(flat, ..) => Index::Own(flat),
        }
    }

    /// Returns the position of the first cell.
    pub(crate) fn first(&self) -> SegmentPosition {
        match &self.body {
            Body::Active(active) => SegmentPosition::Active(active.first()),
            Body::Flat(..) => SegmentPosition::Flat(0),
        }
    }

    #[inline]
    pub(crate) fn seek(&self, position: Position<'_>) -> SegmentPosition {
        match &self.body {
            Body::Active(active) => SegmentPosition::Active(active.seek(position)),
            Body::Flat(flat, ..) => SegmentPosition::Flat(flat.lower_bound(position)),
        }
    }

    /// Like [`seek`](Self::seek), for a caller that needs only the row of `position`. If no cell has the row's head,
    /// returns no position, without reading a cell.
    #[inline]
    pub(crate) fn seek_in_row(&self, position: Position<'_>) -> SegmentPosition {
        match &self.body {
            Body::Active(active) => {
                active.seek_in_row(position).map_or(SegmentPosition::Nowhere, SegmentPosition::Active)
            }
            Body::Flat(flat, ..) => {
                flat.find_in_row(position).map_or(SegmentPosition::Nowhere, SegmentPosition::Flat)
            }
        }
    }

    /// Prefetches the memory that a read of each of these rows needs, up to its first cell, for several rows at once.
    /// Calls `is_here` with the index of each row that is probably present.
    pub fn prefetch_rows(&self, rows: &[&[u8]], mut is_here: impl FnMut(usize)) {
        let lines = lines_of((self.bytes() / self.cells().max(1)) as usize);
        for (group, rows) in rows.chunks(TOGETHER).enumerate() {
            let is_here = |index| is_here(group * TOGETHER + index);
            match &self.body {
                Body::Active(active) => active.prefetch_rows(rows, lines, is_here),
                Body::Flat(flat, ..) => flat.prefetch_rows(rows, lines, is_here),
            }
        }
    }

    #[inline]
    pub(crate) fn advance(&self, spot: &mut SegmentPosition) {
        match (&self.body, spot) {
            (Body::Active(active), SegmentPosition::Active(spot)) => active.advance(spot),
            (Body::Flat(..), SegmentPosition::Flat(index)) => *index += 1,
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn cell_at(&self, spot: &SegmentPosition) -> Option<Cell<'_>> {
        match (&self.body, spot) {
            (Body::Active(active), SegmentPosition::Active(spot)) => {
                active.place_at(spot).map(|place| active.records().cell(place))
            }
            (Body::Flat(flat, ..), SegmentPosition::Flat(index)) => flat.cell(*index),
            _ => None,
        }
    }

    /// Prefetches the key of the cell that is `far` entries after `spot`, in a flat segment.
    #[inline]
    pub(crate) fn fetch_behind(&self, spot: &SegmentPosition, far: usize) {
        self.fetch_lines_behind(spot, far, KEY_LINES);
    }

    /// Prefetches this many cache lines of the cell that is `far` entries after `spot`, in a flat segment.
    #[inline]
    pub(crate) fn fetch_lines_behind(&self, spot: &SegmentPosition, far: usize, lines: usize) {
        if let (Body::Flat(flat, ..), SegmentPosition::Flat(index)) = (&self.body, spot)
            && let Some((_, place)) = flat.entry(index + far)
        {
            flat.records().fetch(place, lines);
        }
    }

    /// Returns the last cell before `end`, or the last of all; `None` if there is none.
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
