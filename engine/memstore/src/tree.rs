//! The index of the active segment: a B+tree to which several threads add entries while others read it without locks.
//!
//! Its cost is cache misses on keys, so a leaf entry is twelve bytes: the [head](crate::head) of the row and the place
//! of the cell. Cells are read only where heads are equal.
//!
//! Readers take no lock and never delay a writer. Each node is read in a consistent state (see [`crate::nodes`]).
//! Between two nodes a reader may use an outdated state. These rules make that harmless:
//!
//! 1. Entries are only added. So a reader that arrives at a leaf too far to the left misses no entry that existed when
//!    it began.
//! 2. A full leaf moves its upper half to a new leaf at its right, in this order: the new leaf is made, linked from the
//!    left one, and named in the parent; only then the left one drops the moved entries. A reader that was sent to the
//!    left leaf continues to the right. A reader that sees the upper half twice skips it the second time. Until the
//!    left leaf has dropped the entries, the writer keeps other writers out of the new leaf. Otherwise they could add
//!    entries to it that a reader of the old half would skip.
//! 3. Inner nodes move their upper halves in the same way. A reader that arrives after the upper half was dropped
//!    reaches a leaf too far to the left. It notices this by [`Tree::splits`] and descends again. If that happens
//!    often, it walks to the right instead, so it never loops.
//!
//! A writer descends and searches like a reader. Then it *holds* the leaf: it sets the leaf's latch bit
//! ([`Order::is_held`]), and other writers of the leaf wait until it clears the bit. A writer that is alone need not
//! hold it. The following invariants prove that it is the right leaf. The range of a leaf begins at its *least* key,
//! and ends before the least key of its right neighbour.
//!
//! 4. The least key of a leaf is the key of its first entry, and never changes: the leaf was created with that entry,
//!    nothing smaller is added (5), and a split removes upper entries. The leftmost leaf has no least key. The parent
//!    names the leaf by the same key. So an inner node, in any state, sends a key to a leaf whose least key is not
//!    greater, and a writer steps to the right only to such a leaf.
//! 5. So a writer is never too far to the right. It is far enough if it holds the leaf and one of these is true: the
//!    leaf has an entry greater than the writer's key; it has no right neighbour; or the least key of its right
//!    neighbour is greater than the writer's key ([`Tree::keep_if_within`]). While the writer holds the leaf no other
//!    writer can split it, so this stays true. Otherwise it releases the leaf and holds the next one.
//! 6. At any time there is exactly one such leaf for a key. So the writer that holds it knows whether the key is
//!    present, and a key that two writers add is added once.
//! 7. One lock ([`Shape`]) protects changes of inner nodes and the creation of nodes. A writer takes it while it holds
//!    the full leaf, and releases it when the parent names the new leaf. The path of the writer's descent is used if it
//!    still leads to the node that is split; else that node is searched again. No writer waits for a leaf while it
//!    holds another one or that lock, so there is no deadlock.
//!
//! ```text
//!            ┌── inner: first · (head place child) × 14 ──┐          keys of inner nodes are first keys of leaves,
//!            ▼                                            ▼          named by their places: nothing is copied
//!   leaf: (head place) × 14  ──next──►  leaf: (head place) × 14  ──next──►
//! ```

use std::cmp::Ordering as Is;

use cell::Position;

use crate::head::{Heads, TOGETHER};
use crate::nodes::{Inner, Keys, Leaf, NONE, Nodes, Order, SLOTS, begin};
use crate::place::Place;
use crate::records::Records;
use crate::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};

/// Maximum number of inner levels. Even if each node has only seven children, a tree of this height has more leaves
/// than there can be entries.
const HEIGHT_MAX: usize = 16;
/// Number of descents of a search after which a reader no longer descends again when a split disturbs it, but walks to
/// the right.
const DESCENTS_MAX: usize = 4;

/// The key that a search looks for.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) head: u64,
    pub(crate) position: Position<'a>,
}

impl Probe<'_> {
    /// Compares the probe with an entry.
    #[inline]
    fn compare(&self, head: u64, place: Place, records: &Records) -> Is {
        match self.head.cmp(&head) {
            Is::Equal => records.comparator().compare(self.position, records.cell(place).into()),
            order => order,
        }
    }
}

/// Entries copied from a leaf, and the number of the next leaf.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    places: [Place; SLOTS],
    at: u8,
    end: u8,
    next: u32,
}

impl Run {
    /// A run without entries.
    pub(crate) const EMPTY: Run = Run { places: [Place(0); SLOTS], at: 0, end: 0, next: NONE };

    /// Returns the place of the current entry; `None` after the last one.
    #[inline]
    pub(crate) fn place(&self) -> Option<Place> {
        (self.at < self.end).then(|| self.places[usize::from(self.at)])
    }
}

/// The index of an active segment; see the module documentation.
pub(crate) struct Tree {
    heads: Heads,
    leaves: Nodes<Leaf>,
    inners: Nodes<Inner>,
    /// The number of the root and the number of inner levels: `levels 32 bits | number 32 bits`.
    root: AtomicU64,
    /// Number of splits of inner nodes.
    splits: AtomicU32,
    shape: Shape,
}

/// State that writers use one after the other. It is on a cache line of its own, because readers, and writers that find
/// a free slot in their leaf, do not read it.
#[repr(align(64))]
struct Shape {
    /// Locked while a node is created or an inner node is changed.
    changing: Mutex<()>,
    /// Number of leaves; changed only under the lock.
    leaves: AtomicU32,
    inners: AtomicU32,
}

impl Shape {
    /// Increments a counter that only one thread changes at a time, and returns the old value.
    fn count(counter: &AtomicU32) -> u32 {
        let number = counter.load(Ordering::Relaxed);
        counter.store(number + 1, Ordering::Relaxed);
        number
    }
}

/// The nodes from the root to a leaf that a writer's last search has visited. Its next search begins there. Each
/// concurrent writer has its own.
pub(crate) struct WriterPath {
    /// The inner nodes above the last found leaf, from the root down, and the rank of the child taken in each, at that
    /// time.
    path: [(u32, u8); HEIGHT_MAX],
    levels: usize,
    finger: Finger,
}

/// Where the writer added its last entry: cells of one row, and sorted rows, go to the same leaf. Other writers may
/// have changed the leaf since.
#[derive(Clone, Copy)]
struct Finger {
    leaf: u32,
    /// The rank of the last entry in the leaf; `None` for no position.
    rank: Option<u8>,
    /// The smallest key after the range of this leaf, as far as it is known.
    upper: Option<(u64, Place)>,
}

impl WriterPath {
    /// Creates an empty path.
    pub(crate) fn new() -> WriterPath {
        let finger = Finger { leaf: 0, rank: None, upper: None };
        WriterPath { path: [(NONE, 0); HEIGHT_MAX], levels: 0, finger }
    }
}

/// Where an entry is inserted: a position in a leaf that is held until [`Tree::add`] adds the entry.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct InsertPosition {
    leaf: u32,
    order: Order,
    rank: u8,
    /// Whether the entry is present already; then no leaf is held.
    pub(crate) exact: bool,
    /// Whether the entry directly follows the previously added one.
    in_order: bool,
}

impl Tree {
    /// Creates an empty index whose heads are made by `heads`.
    pub(crate) fn new(heads: Heads) -> Tree {
        let shape = Shape { changing: Mutex::new(()), leaves: AtomicU32::new(1), inners: AtomicU32::new(0) };
        let tree = Tree {
            heads,
            leaves: Nodes::new(),
            inners: Nodes::new(),
            root: AtomicU64::new(0),
            splits: AtomicU32::new(0),
            shape,
        };
        tree.leaves.make(0);
        tree
    }

    /// Size of an empty index, in bytes.
    pub(crate) const BYTES_MIN: usize = size_of::<Leaf>();

    /// Returns the size of the nodes in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let count = |counter: &AtomicU32| counter.load(Ordering::Acquire) as usize;
        count(&self.shape.leaves) * size_of::<Leaf>() + count(&self.shape.inners) * size_of::<Inner>()
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    pub(crate) fn probe<'a>(&self, position: Position<'a>) -> Probe<'a> {
        Probe { head: self.heads.of(position.key.row()), position }
    }

    /// Returns the root's number and the number of inner levels.
    #[inline]
    fn root(&self) -> (u32, usize) {
        let root = self.root.load(Ordering::Acquire);
        (root as u32, (root >> 32) as usize)
    }

    /// Returns the rank of the first entry whose head is at least `head`.
    #[inline]
    fn first_head(keys: &Keys, order: Order, head: u64) -> usize {
        let (mut low, mut size) = (0, order.count());
        while size > 0 {
            let half = size / 2;
            if keys.head(order.slot(low + half)) < head {
                low += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        low
    }

    /// Returns the rank of the first entry at or after the probe, and whether it equals the probe.
    #[inline]
    fn lower_bound(keys: &Keys, order: Order, probe: &Probe<'_>, records: &Records) -> (usize, bool) {
        let mut low = Self::first_head(keys, order, probe.head);
        let mut size = order.count() - low;
        if size == 0 || keys.head(order.slot(low)) != probe.head {
            return (low, false);
        }
        while size > 0 {
            let half = size / 2;
            let slot = order.slot(low + half);
            match probe.compare(keys.head(slot), keys.place(slot), records) {
                Is::Greater => {
                    low += half + 1;
                    size -= half + 1;
                }
                Is::Less => size = half,
                Is::Equal => return (low + half, true),
            }
        }
        (low, false)
    }

    // ---- readers

    /// Returns a leaf that contains the first entry at or after the probe, or is left of that leaf.
    fn descend(&self, probe: &Probe<'_>, records: &Records) -> u32 {
        let mut descents = 0;
        loop {
            let splits = self.splits.load(Ordering::Acquire);
            let (mut number, levels) = self.root();
            for _ in 0..levels {
                let inner = self.inners.at(number);
                inner.fetch();
                number = inner.keys.read(|order| {
                    let (rank, _) = Self::lower_bound(&inner.keys, order, probe, records);
                    inner.child(order, rank)
                });
            }
            descents += 1;
            // The loads of the nodes were acquire loads. So if a split has shortened one of them, `splits` has changed.
            if self.splits.load(Ordering::Relaxed) == splits || descents == DESCENTS_MAX {
                return number;
            }
        }
    }

    /// Prefetches what a search for each of these heads reads, step by step for all heads, and this many cache `lines`
    /// of the cells found. Calls `is_there` for the heads that are present. May miss an entry that a writer is moving.
    pub(crate) fn prefetch_rows(
        &self,
        heads: &[u64],
        lines: usize,
        records: &Records,
        mut is_there: impl FnMut(usize),
    ) {
        let (root, levels) = self.root();
        let mut nodes = [root; TOGETHER];
        let nodes = &mut nodes[..heads.len()];
        for level in 1..=levels {
            for (number, &head) in nodes.iter_mut().zip(heads) {
                let inner = self.inners.at(*number);
                *number =
                    inner.keys.read(|order| inner.child(order, Self::first_head(&inner.keys, order, head)));
                match level == levels {
                    true => self.leaves.at(*number).prefetch(),
                    false => self.inners.at(*number).prefetch(),
                }
            }
        }
        for (index, (&number, &head)) in nodes.iter().zip(heads).enumerate() {
            let leaf = self.leaves.at(number);
            // A search for the first key of a leaf may end in the leaf at its left. So the next leaf is searched, too.
            let found = Self::place_of_head(leaf, head).or_else(|| {
                Self::place_of_head(self.leaves.at(Some(leaf.next()).filter(|next| *next != NONE)?), head)
            });
            if let Some(place) = found {
                records.fetch(place, lines);
                is_there(index);
            }
        }
    }

    /// Returns the place of the first entry of a leaf with this head; `None` if the leaf has none.
    #[inline]
    fn place_of_head(leaf: &Leaf, head: u64) -> Option<Place> {
        leaf.keys.read(|order| {
            let rank =
                Some(Self::first_head(&leaf.keys, order, head)).filter(|rank| *rank < order.count())?;
            let slot = order.slot(rank);
            (leaf.keys.head(slot) == head).then(|| leaf.keys.place(slot))
        })
    }

    /// Returns the entries at and after the probe; if `exclusive`, without an entry that equals the probe.
    pub(crate) fn seek(&self, probe: &Probe<'_>, exclusive: bool, records: &Records) -> Run {
        let leaf = self.descend(probe, records);
        self.run_from(leaf, Some((probe, exclusive)), records).0
    }

    /// Returns the entries at and after the probe, if the first of them has the same head.
    pub(crate) fn seek_in_row(&self, probe: &Probe<'_>, records: &Records) -> Option<Run> {
        let leaf = self.descend(probe, records);
        let (run, head) = self.run_from(leaf, Some((probe, false)), records);
        (head == Some(probe.head)).then_some(run)
    }

    /// Returns all entries, from the first one on.
    pub(crate) fn first(&self, records: &Records) -> Run {
        // Splits move entries to the right. So the leaf that was made first always stays the leftmost one.
        self.run_from(0, None, records).0
    }

    /// Calls `give` for every entry, in order. No thread may be writing.
    pub(crate) fn each(&self, mut give: impl FnMut(u64, Place)) {
        let mut leaf = 0;
        while leaf != NONE {
            let node = self.leaves.at(leaf);
            let order = node.keys.order();
            for slot in (0..order.count()).map(|rank| order.slot(rank)) {
                give(node.keys.head(slot), node.keys.place(slot));
            }
            leaf = node.next();
        }
    }

    /// Returns the entries of `leaf`, from its start or from the probe on. If there are none, returns those of a leaf
    /// further right. Also returns the head of the first entry.
    fn run_from(
        &self,
        mut leaf: u32,
        from: Option<(&Probe<'_>, bool)>,
        records: &Records,
    ) -> (Run, Option<u64>) {
        let (mut run, mut head) = (Run::EMPTY, None);
        while leaf != NONE {
            let node = self.leaves.at(leaf);
            node.fetch();
            node.keys.read(|order| {
                let start = from.map_or(0, |(probe, exclusive)| {
                    let (rank, exact) = Self::lower_bound(&node.keys, order, probe, records);
                    rank + usize::from(exact && exclusive)
                });
                for rank in start..order.count() {
                    run.places[rank - start] = node.keys.place(order.slot(rank));
                }
                run.end = (order.count() - start) as u8;
                head = (start < order.count()).then(|| node.keys.head(order.slot(start)));
            });
            run.next = node.next();
            if run.end > 0 {
                return (run, head);
            }
            leaf = run.next;
        }
        (run, head)
    }

    /// Moves to the next entry.
    #[inline]
    pub(crate) fn advance(&self, run: &mut Run, records: &Records) {
        let last = run.place();
        run.at += u8::from(last.is_some());
        if run.at == run.end
            && run.next != NONE
            && let Some(last) = last
        {
            self.next_run(run, last, records);
        }
    }

    fn next_run(&self, run: &mut Run, last: Place, records: &Records) {
        *run = self.run_from(run.next, None, records).0;
        let Some(first) = run.place() else { return };
        let last = Position::from(records.cell(last));
        if records.comparator().compare(records.cell(first).into(), last).is_gt() {
            return;
        }
        // The previous leaf was being split when it was read, so the entries that moved to this leaf were returned
        // already. The search begins again after the last returned entry.
        *run = self.seek(&self.probe(last), true, records);
    }

    /// Returns the last entry before the probe, or the last of all; `None` if there is none.
    pub(crate) fn last_before(&self, probe: Option<&Probe<'_>>, records: &Records) -> Option<Place> {
        let mut leaf = match probe {
            Some(probe) => self.descend(probe, records),
            None => self.rightmost(),
        };
        let mut found = None;
        while leaf != NONE {
            let node = self.leaves.at(leaf);
            let (last, is_end) = node.keys.read(|order| {
                let before = probe
                    .map_or(order.count(), |probe| Self::lower_bound(&node.keys, order, probe, records).0);
                let last = before.checked_sub(1).map(|rank| node.keys.place(order.slot(rank)));
                (last, before < order.count())
            });
            found = last.or(found);
            if is_end {
                break;
            }
            leaf = node.next();
        }
        found
    }

    fn rightmost(&self) -> u32 {
        let (mut number, levels) = self.root();
        for _ in 0..levels {
            let inner = self.inners.at(number);
            number = inner.keys.read(|order| inner.child(order, order.count()));
        }
        number
    }

    // ---- writers

    /// Finds the position for an entry, and holds its leaf unless the entry is present. `trail` is the path of this
    /// writer's last search in this tree, or a new path. With `ALONE`, which a writer may set only if no other has ever
    /// written, no leaf is held.
    #[inline]
    pub(crate) fn find<const ALONE: bool>(
        &self,
        trail: &mut WriterPath,
        probe: &Probe<'_>,
        records: &Records,
    ) -> InsertPosition {
        let found = match self.find_near::<ALONE>(trail, probe, records) {
            Some(found) => found,
            None => self.find_below::<ALONE>(trail, probe, records),
        };
        if found.exact && !ALONE {
            self.leaves.at(found.leaf).keys.grow(found.order.let_go());
        }
        found
    }

    /// Returns the position for an entry if it belongs into the same leaf as the last one, after it. Otherwise returns
    /// `None`.
    #[inline]
    fn find_near<const ALONE: bool>(
        &self,
        trail: &WriterPath,
        probe: &Probe<'_>,
        records: &Records,
    ) -> Option<InsertPosition> {
        let finger = trail.finger;
        let last = usize::from(finger.rank?);
        let keys = &self.leaves.at(finger.leaf).keys;
        let (reuse, order) = (keys.reuse(), keys.order());
        let follows = |rank: usize| {
            let slot = order.slot(rank);
            probe.compare(keys.head(slot), keys.place(slot), records).is_gt()
        };
        let is_before = |(head, place)| probe.compare(head, place, records).is_lt();
        // Another writer may have split the leaf since, so that it has fewer entries.
        if last >= order.count() || !follows(last) || finger.upper.is_some_and(|upper| !is_before(upper)) {
            return None;
        }
        let (rank, exact) = match last + 1 {
            end if end == order.count() => (end, false),
            _ => Self::lower_bound(keys, order, probe, records),
        };
        let found =
            InsertPosition { leaf: finger.leaf, order, rank: rank as u8, exact, in_order: rank == last + 1 };
        match ALONE {
            true => Some(found),
            false => self.hold_as(found, reuse, probe, records),
        }
    }

    /// Searches from the root down.
    #[inline]
    fn find_below<const ALONE: bool>(
        &self,
        trail: &mut WriterPath,
        probe: &Probe<'_>,
        records: &Records,
    ) -> InsertPosition {
        let (leaf, upper) = self.trace::<ALONE>(trail, probe, records);
        trail.finger = Finger { leaf, rank: None, upper };
        let node = self.leaves.at(leaf);
        node.fetch();
        let keys = &node.keys;
        let (reuse, order) = (keys.reuse(), keys.order());
        let (rank, exact) = Self::lower_bound(keys, order, probe, records);
        let found = InsertPosition { leaf, order, rank: rank as u8, exact, in_order: false };
        if ALONE {
            return found;
        }
        // The leaf was searched before it is held. So no other writer waits while this one waits for memory.
        match self.hold_as(found, reuse, probe, records) {
            Some(found) => found,
            None => self.hold_from(trail, leaf, probe, records),
        }
    }

    /// Holds the leaf if it has not changed since it was searched and the probe belongs to it. Otherwise returns `None`
    /// and holds nothing.
    #[inline]
    fn hold_as(
        &self,
        found: InsertPosition,
        reuse: u32,
        probe: &Probe<'_>,
        records: &Records,
    ) -> Option<InsertPosition> {
        let is_held = self.leaves.at(found.leaf).keys.hold_as(found.order, reuse);
        let held = InsertPosition { order: found.order.held(), ..found };
        (is_held && self.keep_if_within(held, probe, records)).then_some(held)
    }

    /// Holds the leaf for the probe: `leaf`, or one to its right. Used when another writer is active.
    #[cold]
    fn hold_from(
        &self,
        trail: &mut WriterPath,
        mut leaf: u32,
        probe: &Probe<'_>,
        records: &Records,
    ) -> InsertPosition {
        loop {
            let keys = &self.leaves.at(leaf).keys;
            let order = keys.hold();
            let (rank, exact) = Self::lower_bound(keys, order, probe, records);
            let found = InsertPosition { leaf, order, rank: rank as u8, exact, in_order: false };
            if self.keep_if_within(found, probe, records) {
                trail.finger.leaf = leaf;
                return found;
            }
            leaf = self.leaves.at(leaf).next();
        }
    }

    /// Returns whether the range of the held leaf still includes the probe. If not, releases the leaf.
    #[inline]
    fn keep_if_within(&self, found: InsertPosition, probe: &Probe<'_>, records: &Records) -> bool {
        let leaf = self.leaves.at(found.leaf);
        let is_within = usize::from(found.rank) < found.order.count() || {
            let next = leaf.next();
            next == NONE || {
                let (head, place) = self.leaves.at(next).least();
                probe.compare(head, place, records).is_lt()
            }
        };
        if !is_within {
            leaf.keys.grow(found.order.let_go());
        }
        is_within
    }

    /// Descends to the leaf of the probe, or one to its left, and records the path. Also returns the smallest key after
    /// that leaf's range, unless other writers are splitting nodes. A writer that is `ALONE` is the only one that
    /// changes inner nodes.
    #[inline]
    fn trace<const ALONE: bool>(
        &self,
        trail: &mut WriterPath,
        probe: &Probe<'_>,
        records: &Records,
    ) -> (u32, Option<(u64, Place)>) {
        let mut descents = 0;
        loop {
            let splits = self.splits.load(Ordering::Acquire);
            let (mut number, levels) = self.root();
            let mut upper = None;
            for level in 0..levels {
                let inner = self.inners.at(number);
                inner.fetch();
                let step = |order: Order| {
                    let (rank, exact) = Self::lower_bound(&inner.keys, order, probe, records);
                    // A key is the first key of its child, so an equal probe belongs to that child.
                    let rank = rank + usize::from(exact);
                    let bound = (rank < order.count()).then(|| {
                        let slot = order.slot(rank);
                        (inner.keys.head(slot), inner.keys.place(slot))
                    });
                    (rank, inner.child(order, rank), bound)
                };
                let (rank, child, bound) = match ALONE {
                    true => step(inner.keys.order()),
                    false => inner.keys.read(step),
                };
                upper = bound.or(upper);
                trail.path[level] = (number, rank as u8);
                number = child;
            }
            trail.levels = levels;
            descents += 1;
            if ALONE || self.splits.load(Ordering::Relaxed) == splits || descents == DESCENTS_MAX {
                return (number, upper);
            }
        }
    }

    /// Adds an entry at the position that [`Tree::find`] returned, and releases the leaf.
    #[inline]
    pub(crate) fn add(
        &self,
        trail: &mut WriterPath,
        found: InsertPosition,
        head: u64,
        place: Place,
        records: &Records,
    ) {
        let (keys, order) = (&self.leaves.at(found.leaf).keys, found.order);
        if order.count() < SLOTS {
            keys.fill(order.free(), head, place);
            keys.grow(order.with(usize::from(found.rank)).let_go());
            trail.finger.rank = Some(found.rank);
            return;
        }
        trail.finger.rank = None;
        self.split_leaf(trail, found, head, place, records);
    }

    fn split_leaf(
        &self,
        trail: &mut WriterPath,
        found: InsertPosition,
        head: u64,
        place: Place,
        records: &Records,
    ) {
        let (left, order, new) = (self.leaves.at(found.leaf), found.order, usize::from(found.rank));
        // If rows arrive in order, the left leaf stays full and the new entry begins the right leaf.
        let middle = if found.in_order && new == SLOTS { SLOTS } else { SLOTS / 2 };
        let goes_right = new > middle || middle == SLOTS;
        let changing = self.change();
        let number = Shape::count(&self.shape.leaves);
        let right = self.leaves.make(number);
        let mut right_order = Order::EMPTY.held();
        let mut push = |head, place| {
            right.keys.fill(right_order.free(), head, place);
            right_order = right_order.with(right_order.count());
        };
        for rank in middle..=SLOTS {
            if goes_right && rank == new {
                push(head, place);
            }
            if rank < SLOTS {
                let slot = order.slot(rank);
                push(left.keys.head(slot), left.keys.place(slot));
            }
        }
        right.keys.grow(right_order);
        right.set_next(left.next());
        left.set_next(number);
        self.add_child(trail, 0, found.leaf, right.least(), number, records);
        drop(changing);
        if middle < SLOTS {
            let mut order = order.cut(middle);
            left.keys.shrink(order);
            if !goes_right {
                left.keys.fill(order.free(), head, place);
                order = order.with(new);
            }
            left.keys.grow(order.let_go());
        } else {
            left.keys.grow(order.let_go());
        }
        // The right leaf is released last. Otherwise entries could be added to it that a reader of the old left leaf
        // misses.
        right.keys.grow(right_order.let_go());
    }

    /// Excludes other writers from changing inner nodes until the result is dropped.
    fn change(&self) -> MutexGuard<'_, ()> {
        let changing = self.shape.changing.lock();
        begin();
        changing
    }

    /// Inserts the node `child`, whose keys begin at `key`, into the parent of `beside`, directly after `beside`. Both
    /// nodes are `height` levels above the leaves. Splits the parent, or adds a root, if necessary. The caller excludes
    /// other changes of inner nodes.
    fn add_child(
        &self,
        trail: &mut WriterPath,
        height: usize,
        beside: u32,
        key: (u64, Place),
        child: u32,
        records: &Records,
    ) {
        let parent = match self.parent(trail, height, beside) {
            Some(parent) => parent,
            None => {
                let probe = Probe { head: key.0, position: records.cell(key.1).into() };
                self.trace::<true>(trail, &probe, records);
                self.parent(trail, height, beside).expect("every node but the root is named above it")
            }
        };
        let Some((above, rank)) = parent else { return self.grow_root(key, child) };
        let left = self.inners.at(above);
        let order = left.keys.order();
        if order.count() < SLOTS {
            left.fill(order.free(), key.0, key.1, child);
            left.keys.grow(order.with(rank));
            return;
        }
        // The fifteen keys with their children: those of the node, and the new one at its rank.
        let at = |index: usize| match index.cmp(&rank) {
            Is::Equal => (key.0, key.1, child),
            side => {
                let old = index - usize::from(side.is_gt());
                let slot = order.slot(old);
                (left.keys.head(slot), left.keys.place(slot), left.child(order, old + 1))
            }
        };
        // If rows arrive in order, the left node stays full.
        let middle = if rank == SLOTS { SLOTS } else { SLOTS / 2 };
        let number = Shape::count(&self.shape.inners);
        let right = self.inners.make(number);
        let (head, place, first) = at(middle);
        right.set_first(first);
        let mut right_order = Order::EMPTY;
        for index in middle + 1..=SLOTS {
            let (head, place, child) = at(index);
            right.fill(right_order.free(), head, place, child);
            right_order = right_order.with(right_order.count());
        }
        right.keys.grow(right_order);
        self.add_child(trail, height + 1, above, (head, place), number, records);
        if middle < SLOTS {
            // `splits` is incremented before the upper half is dropped. So a reader that misses entries of that half
            // notices the split.
            self.splits.store(self.splits.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            let stays = order.cut(middle - usize::from(rank < middle));
            left.keys.shrink(stays);
            if rank < middle {
                left.fill(stays.free(), key.0, key.1, child);
                left.keys.grow(stays.with(rank));
            }
        }
    }

    /// Returns the inner node that names `beside`, and the rank of `beside` in it, if the trail contains them. Returns
    /// `Some(None)` if `beside` is the root.
    fn parent(&self, trail: &WriterPath, height: usize, beside: u32) -> Option<Option<(u32, usize)>> {
        let Some(level) = trail.levels.checked_sub(1 + height) else {
            return (self.root() == (beside, height)).then_some(None);
        };
        let (above, rank) = (trail.path[level].0, usize::from(trail.path[level].1));
        let inner = self.inners.at(above);
        let order = inner.keys.order();
        (rank <= order.count() && inner.child(order, rank) == beside).then_some(Some((above, rank)))
    }

    fn grow_root(&self, key: (u64, Place), child: u32) {
        let (old, levels) = self.root();
        assert!(levels < HEIGHT_MAX, "an index of {levels} levels cannot grow");
        let number = Shape::count(&self.shape.inners);
        let root = self.inners.make(number);
        root.set_first(old);
        root.fill(Order::EMPTY.free(), key.0, key.1, child);
        root.keys.grow(Order::EMPTY.with(0));
        self.root.store(((levels as u64 + 1) << 32) | u64::from(number), Ordering::Release);
    }
}
