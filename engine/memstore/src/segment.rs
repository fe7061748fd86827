//! Cells in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use cell::{Cell, Comparator, Position, SequenceId, Timestamp};

use crate::Pool;
use crate::active::{self, Active};

/// Where a cursor stands in a segment.
#[derive(Clone, Debug)]
pub(crate) enum Spot {
    Nowhere,
    Active(active::Spot),
}

/// An ordered set of cells. Two cells at the same place with the same sequence id are one.
pub struct Segment {
    body: Body,
    bytes: AtomicU64,
    cells: AtomicU64,
    oldest: AtomicI64,
    newest: AtomicI64,
}

enum Body {
    Active(Active),
}

impl Segment {
    /// An empty segment in the order of `comparator`, with chunks from `pool`.
    pub fn new(comparator: Comparator, pool: &Arc<Pool>) -> Segment {
        Segment::over(Active::new(comparator, pool, b"", None))
    }

    /// An empty segment to take the writes from here on. It goes on in the chunk that this one has not filled, and
    /// expects rows that begin as those here do.
    pub fn successor(&self, pool: &Arc<Pool>) -> Segment {
        let Body::Active(active) = &self.body;
        Segment::over(Active::new(self.comparator(), pool, &active.prefix(), active.take_open()))
    }

    fn over(active: Active) -> Segment {
        Segment {
            body: Body::Active(active),
            bytes: AtomicU64::new(0),
            cells: AtomicU64::new(0),
            oldest: AtomicI64::new(i64::MAX),
            newest: AtomicI64::new(i64::MIN),
        }
    }

    /// The order of its cells.
    pub fn comparator(&self) -> Comparator {
        let Body::Active(active) = &self.body;
        active.records().comparator()
    }

    /// Adds the cells of one write, all under `sequence`, by copying them. Each of `cells` is one whole cell that was
    /// checked before. Cells that come in order cost less. Another writer waits until this one is done; readers do not.
    pub fn insert<'a>(&self, cells: impl IntoIterator<Item = &'a [u8]>, sequence: SequenceId) {
        let Body::Active(active) = &self.body;
        let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
        let added = active.insert(cells, sequence, |cell| {
            let timestamp = cell.timestamp().0;
            (oldest, newest) = (oldest.min(timestamp), newest.max(timestamp));
        });
        if oldest < self.oldest.load(Ordering::Relaxed) {
            self.oldest.fetch_min(oldest, Ordering::AcqRel);
        }
        if newest > self.newest.load(Ordering::Relaxed) {
            self.newest.fetch_max(newest, Ordering::AcqRel);
        }
        self.cells.fetch_add(added.cells, Ordering::AcqRel);
        self.bytes.fetch_add(added.bytes, Ordering::AcqRel);
    }

    /// Bytes of its cells and of the index over them.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// How many cells there are.
    pub fn cells(&self) -> u64 {
        self.cells.load(Ordering::Acquire)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cells() == 0
    }

    /// The oldest and the newest timestamp; `None` while it is empty.
    pub fn timestamps(&self) -> Option<(Timestamp, Timestamp)> {
        let (oldest, newest) = (self.oldest.load(Ordering::Acquire), self.newest.load(Ordering::Acquire));
        (oldest <= newest).then_some((Timestamp(oldest), Timestamp(newest)))
    }

    #[inline]
    pub(crate) fn seek(&self, position: Position<'_>) -> Spot {
        match &self.body {
            Body::Active(active) => Spot::Active(active.seek(position)),
        }
    }

    #[inline]
    pub(crate) fn advance(&self, spot: &mut Spot) {
        match (&self.body, spot) {
            (Body::Active(active), Spot::Active(spot)) => active.advance(spot),
            (_, Spot::Nowhere) => {}
        }
    }

    #[inline]
    pub(crate) fn cell_at(&self, spot: &Spot) -> Option<Cell<'_>> {
        match (&self.body, spot) {
            (Body::Active(active), Spot::Active(spot)) => {
                active.place_at(spot).map(|place| active.records().cell(place))
            }
            (_, Spot::Nowhere) => None,
        }
    }

    /// The last cell before `end`, or of all.
    pub(crate) fn last_before(&self, end: Option<Position<'_>>) -> Option<Cell<'_>> {
        match &self.body {
            Body::Active(active) => active.last_before(end),
        }
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("cells", &self.cells()).field("bytes", &self.bytes()).finish()
    }
}
