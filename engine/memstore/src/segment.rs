//! Cells in order.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{self, AtomicI64, AtomicU64};

use bytes::Bytes;
use cell::{Cell, Comparator, Position, SequenceId, Timestamp};
use parking_lot::RwLock;

/// What the index adds to a cell's own bytes: the entry, its share of the tree's nodes, the buffer's head.
const OVERHEAD: u64 = 96;

/// A cell in the index: its bytes, and of them what most comparisons need.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The first eight bytes of the row, padded with zeros.
    head: u64,
    comparator: Comparator,
    sequence: SequenceId,
    bytes: Bytes,
}

impl Entry {
    pub(crate) fn cell(&self) -> Cell<'_> {
        Cell::trusted(&self.bytes, self.sequence)
    }
}

/// Rows in the plain order compare as their heads do, as long as the heads differ.
fn head_of(row: &[u8]) -> u64 {
    let mut head = [0; 8];
    let length = row.len().min(8);
    head[..length].copy_from_slice(&row[..length]);
    u64::from_be_bytes(head)
}

/// Anything that has a place among the entries.
pub(crate) trait Placed {
    fn head(&self) -> u64;
    fn comparator(&self) -> Comparator;
    fn position(&self) -> Position<'_>;
}

impl Placed for Entry {
    fn head(&self) -> u64 {
        self.head
    }

    fn comparator(&self) -> Comparator {
        self.comparator
    }

    fn position(&self) -> Position<'_> {
        self.cell().into()
    }
}

/// A place to look from.
pub(crate) struct Probe<'a> {
    head: u64,
    comparator: Comparator,
    position: Position<'a>,
}

impl<'a> Probe<'a> {
    pub(crate) fn new(comparator: Comparator, position: Position<'a>) -> Probe<'a> {
        Probe { head: head_of(position.key.row()), comparator, position }
    }
}

impl Placed for Probe<'_> {
    fn head(&self) -> u64 {
        self.head
    }

    fn comparator(&self) -> Comparator {
        self.comparator
    }

    fn position(&self) -> Position<'_> {
        self.position
    }
}

fn order(left: &(impl Placed + ?Sized), right: &(impl Placed + ?Sized)) -> Ordering {
    let heads = match left.comparator() {
        Comparator::Table => left.head().cmp(&right.head()),
        // The catalog's order is not that of its rows' first bytes.
        Comparator::Meta => Ordering::Equal,
    };
    heads.then_with(|| left.comparator().compare(left.position(), right.position()))
}

impl PartialEq for dyn Placed + '_ {
    fn eq(&self, other: &Self) -> bool {
        order(self, other).is_eq()
    }
}

impl Eq for dyn Placed + '_ {}

impl PartialOrd for dyn Placed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Placed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        order(self, other)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        order(self, other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        order(self, other)
    }
}

impl<'a> Borrow<dyn Placed + 'a> for Entry {
    fn borrow(&self) -> &(dyn Placed + 'a) {
        self
    }
}

/// An ordered set of cells. Two cells at the same place with the same sequence id are one.
#[derive(Debug)]
pub struct Segment {
    comparator: Comparator,
    index: RwLock<BTreeMap<Entry, ()>>,
    bytes: AtomicU64,
    cells: AtomicU64,
    oldest: AtomicI64,
    newest: AtomicI64,
}

impl Segment {
    /// An empty segment in the order of `comparator`.
    pub fn new(comparator: Comparator) -> Segment {
        Segment {
            comparator,
            index: RwLock::default(),
            bytes: AtomicU64::new(0),
            cells: AtomicU64::new(0),
            oldest: AtomicI64::new(i64::MAX),
            newest: AtomicI64::new(i64::MIN),
        }
    }

    /// The order of its cells.
    pub fn comparator(&self) -> Comparator {
        self.comparator
    }

    /// Adds the cells of one write, all under `sequence`. Each of `cells` is one whole cell that was checked before;
    /// slices of one buffer share it.
    pub fn insert(&self, cells: impl IntoIterator<Item = Bytes>, sequence: SequenceId) {
        let (mut bytes, mut count) = (0, 0);
        let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
        let mut index = self.index.write();
        for cell in cells {
            let view = Cell::trusted(&cell, sequence);
            let timestamp = view.timestamp().0;
            (oldest, newest) = (oldest.min(timestamp), newest.max(timestamp));
            let (head, size) = (head_of(view.row()), cell.len() as u64);
            if index.insert(Entry { head, comparator: self.comparator, sequence, bytes: cell }, ()).is_none()
            {
                bytes += size + OVERHEAD;
                count += 1;
            }
        }
        drop(index);
        self.oldest.fetch_min(oldest, atomic::Ordering::AcqRel);
        self.newest.fetch_max(newest, atomic::Ordering::AcqRel);
        self.cells.fetch_add(count, atomic::Ordering::AcqRel);
        self.bytes.fetch_add(bytes, atomic::Ordering::AcqRel);
    }

    /// Bytes of its cells and of the index over them.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(atomic::Ordering::Acquire)
    }

    /// How many cells there are.
    pub fn cells(&self) -> u64 {
        self.cells.load(atomic::Ordering::Acquire)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cells() == 0
    }

    /// The oldest and the newest timestamp; `None` while it is empty.
    pub fn timestamps(&self) -> Option<(Timestamp, Timestamp)> {
        let oldest = self.oldest.load(atomic::Ordering::Acquire);
        let newest = self.newest.load(atomic::Ordering::Acquire);
        (oldest <= newest).then_some((Timestamp(oldest), Timestamp(newest)))
    }

    /// Takes in the cells of another segment; their bytes are shared.
    pub fn absorb(&self, other: &Segment) {
        let theirs = other.index.read();
        let mut index = self.index.write();
        for entry in theirs.keys() {
            let (timestamp, size) = (entry.cell().timestamp().0, entry.bytes.len() as u64);
            if index.insert(entry.clone(), ()).is_none() {
                self.cells.fetch_add(1, atomic::Ordering::AcqRel);
                self.bytes.fetch_add(size + OVERHEAD, atomic::Ordering::AcqRel);
                self.oldest.fetch_min(timestamp, atomic::Ordering::AcqRel);
                self.newest.fetch_max(timestamp, atomic::Ordering::AcqRel);
            }
        }
    }

    /// Copies up to `count` entries from `from` on into `out`, in order.
    pub(crate) fn copy_from(&self, from: Bound<&dyn Placed>, count: usize, out: &mut Vec<Entry>) {
        let index = self.index.read();
        out.extend(
            index
                .range::<dyn Placed, _>((from, Bound::Unbounded))
                .take(count)
                .map(|(entry, ())| entry.clone()),
        );
    }

    /// The last entry before `end`.
    pub(crate) fn last_before(&self, end: &dyn Placed) -> Option<Entry> {
        let index = self.index.read();
        index
            .range::<dyn Placed, _>((Bound::Unbounded, Bound::Excluded(end)))
            .next_back()
            .map(|(entry, ())| entry.clone())
    }

    /// The last entry of all.
    pub(crate) fn last(&self) -> Option<Entry> {
        self.index.read().last_key_value().map(|(entry, ())| entry.clone())
    }
}
