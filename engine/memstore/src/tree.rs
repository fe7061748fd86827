//! The index of the active segment: a B+tree that one writer grows while any number of readers walk over it.
//!
//! Its cost is cache misses on keys, so an entry is twelve bytes in a leaf: the [head](crate::head) of the row and the
//! place of the cell. Cells themselves are looked at only where heads are equal.
//!
//! Readers take no lock and are never in the writer's way. Each node is read as it was at one moment (see
//! [`crate::nodes`]); between nodes a reader may fall behind, and these rules make that harmless:
//!
//! 1. Entries are only added. So a reader that comes to a leaf too early misses nothing that was there when it began.
//! 2. A full leaf gives its upper half to a new one at its right, in this order: the new leaf is made, linked from the
//!    left one, named in the parent, and only then the left one gives up what it has passed on. A reader that was sent
//!    to the left leaf goes on to the right; one that sees the upper half twice passes over it the second time.
//! 3. Inner nodes give up their upper halves the same way. A reader that comes to one too late, after its upper half is
//!    gone, lands in a leaf too far to the left; [`Tree::splits`] tells it, and it descends again. Should that happen
//!    often, it walks to the right instead: it never goes in circles.
//!
//! ```text
//!            ┌── inner: first · (head place child) × 14 ──┐          keys of inner nodes are first keys of leaves,
//!            ▼                                            ▼          named by their places: nothing is copied
//!   leaf: (head place) × 14  ──next──►  leaf: (head place) × 14  ──next──►
//! ```

use std::cmp::Ordering as Is;

use cell::Position;

use crate::arena::Place;
use crate::head::Heads;
use crate::nodes::{Inner, Keys, Leaf, NONE, Nodes, Order, SLOTS};
use crate::records::Records;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Inner levels, at most: with seven children each that is more than every place there is.
const HEIGHT_MAX: usize = 16;
/// Descents after which a reader walks to the right instead.
const DESCENTS_MAX: usize = 4;

/// A place to look for.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) head: u64,
    pub(crate) position: Position<'a>,
}

impl Probe<'_> {
    /// How the probe stands to an entry.
    #[inline]
    fn compare(&self, head: u64, place: Place, records: &Records) -> Is {
        match self.head.cmp(&head) {
            Is::Equal => records.comparator().compare(self.position, records.cell(place).into()),
            order => order,
        }
    }
}

/// Places copied from a leaf, and where it goes on.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    places: [Place; SLOTS],
    at: u8,
    end: u8,
    next: u32,
}

impl Run {
    /// Of nothing.
    pub(crate) const EMPTY: Run = Run { places: [Place(0); SLOTS], at: 0, end: 0, next: NONE };

    /// The place it stands at.
    #[inline]
    pub(crate) fn place(&self) -> Option<Place> {
        (self.at < self.end).then(|| self.places[usize::from(self.at)])
    }
}

/// The index.
pub(crate) struct Tree {
    heads: Heads,
    leaves: Nodes<Leaf>,
    inners: Nodes<Inner>,
    /// The root's number, and how many inner levels there are: `levels 32 bits | number 32 bits`.
    root: AtomicU64,
    /// How many inner nodes have been split.
    splits: AtomicU32,
}

/// What the one writer knows beside.
pub(crate) struct Growing {
    leaves: u32,
    inners: u32,
    /// The inner nodes above the leaf that was found last, from the root down, and the rank taken in each.
    path: [(u32, u8); HEIGHT_MAX],
    levels: usize,
    finger: Finger,
}

/// Where the last entry went: cells of a row, and rows in order, go into the same leaf.
#[derive(Clone, Copy)]
struct Finger {
    leaf: u32,
    /// The rank of the last entry in it; `None` when the finger points nowhere.
    rank: Option<u8>,
    /// The least key that is not of this leaf.
    upper: Option<(u64, Place)>,
}

/// Where an entry belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    leaf: u32,
    rank: usize,
    /// Whether it is there.
    pub(crate) exact: bool,
    /// Whether it comes right after the entry before it in time.
    in_order: bool,
}

impl Tree {
    /// An empty index whose heads are made as given.
    pub(crate) fn new(heads: Heads) -> (Tree, Growing) {
        let tree = Tree {
            heads,
            leaves: Nodes::new(),
            inners: Nodes::new(),
            root: AtomicU64::new(0),
            splits: AtomicU32::new(0),
        };
        tree.leaves.make(0);
        let finger = Finger { leaf: 0, rank: None, upper: None };
        (tree, Growing { leaves: 1, inners: 0, path: [(NONE, 0); HEIGHT_MAX], levels: 0, finger })
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    pub(crate) fn probe<'a>(&self, position: Position<'a>) -> Probe<'a> {
        Probe { head: self.heads.of(position.key.row()), position }
    }

    /// The root's number and the inner levels.
    #[inline]
    fn root(&self) -> (u32, usize) {
        let root = self.root.load(Ordering::Acquire);
        (root as u32, (root >> 32) as usize)
    }

    /// The rank of the first entry at or after the probe, and whether it is that very one.
    #[inline]
    fn lower_bound(keys: &Keys, order: Order, probe: &Probe<'_>, records: &Records) -> (usize, bool) {
        let (mut low, mut size) = (0, order.count());
        while size > 0 {
            let half = size / 2;
            if keys.head(order.slot(low + half)) < probe.head {
                low += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
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

    /// A leaf that has the first entry at or after the probe, or stands left of it.
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
            // What was read above was read with acquire: a node found cut short has been counted before.
            if self.splits.load(Ordering::Relaxed) == splits || descents == DESCENTS_MAX {
                return number;
            }
        }
    }

    /// From the first entry at or after the probe on (behind it, if the very entry shall not belong).
    pub(crate) fn seek(&self, probe: &Probe<'_>, exclusive: bool, records: &Records) -> Run {
        let leaf = self.descend(probe, records);
        self.run_from(leaf, Some((probe, exclusive)), records).0
    }

    /// From the first entry at or after the probe on, if it has the same head.
    pub(crate) fn seek_in_row(&self, probe: &Probe<'_>, records: &Records) -> Option<Run> {
        let leaf = self.descend(probe, records);
        let (run, head) = self.run_from(leaf, Some((probe, false)), records);
        (head == Some(probe.head)).then_some(run)
    }

    /// From the first entry of all on.
    pub(crate) fn first(&self, records: &Records) -> Run {
        // The leftmost leaf is the one that was made first: splits give away upper halves.
        self.run_from(0, None, records).0
    }

    /// Gives every entry, in order. Nobody may be writing.
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

    /// From the start of `leaf`, or from the probe on in it; further to the right if there is nothing. With the head of the
    /// first entry.
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

    /// Goes one entry on.
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
        // The leaf before was just being split: what it passed on was seen there.
        *run = self.seek(&self.probe(last), true, records);
    }

    /// The last entry before the probe; the last of all without one.
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

    // ---- the writer

    /// Where an entry belongs. `growing` is this tree's own.
    #[inline]
    pub(crate) fn find(&self, growing: &mut Growing, probe: &Probe<'_>, records: &Records) -> Found {
        if let Some(found) = self.find_near(growing, probe, records) {
            return found;
        }
        let (mut number, levels) = self.root();
        let mut upper = None;
        for level in 0..levels {
            let inner = self.inners.at(number);
            inner.fetch();
            let order = inner.keys.order();
            let (rank, exact) = Self::lower_bound(&inner.keys, order, probe, records);
            // A key is the first of what lies from it on.
            let rank = rank + usize::from(exact);
            if rank < order.count() {
                let slot = order.slot(rank);
                upper = Some((inner.keys.head(slot), inner.keys.place(slot)));
            }
            growing.path[level] = (number, rank as u8);
            number = inner.child(order, rank);
        }
        growing.levels = levels;
        growing.finger = Finger { leaf: number, rank: None, upper };
        let leaf = self.leaves.at(number);
        leaf.fetch();
        let keys = &leaf.keys;
        let (rank, exact) = Self::lower_bound(keys, keys.order(), probe, records);
        Found { leaf: number, rank, exact, in_order: false }
    }

    /// In the leaf where the last entry went, if it belongs there and behind it.
    #[inline]
    fn find_near(&self, growing: &mut Growing, probe: &Probe<'_>, records: &Records) -> Option<Found> {
        let finger = growing.finger;
        let last = usize::from(finger.rank?);
        let keys = &self.leaves.at(finger.leaf).keys;
        let order = keys.order();
        let follows = |rank: usize| {
            let slot = order.slot(rank);
            probe.compare(keys.head(slot), keys.place(slot), records).is_gt()
        };
        let is_before = |(head, place)| probe.compare(head, place, records).is_lt();
        if !follows(last) || finger.upper.is_some_and(|upper| !is_before(upper)) {
            return None;
        }
        if last + 1 == order.count() {
            return Some(Found { leaf: finger.leaf, rank: last + 1, exact: false, in_order: true });
        }
        let (rank, exact) = Self::lower_bound(keys, order, probe, records);
        Some(Found { leaf: finger.leaf, rank, exact, in_order: rank == last + 1 })
    }

    /// Adds an entry where [`Tree::find`] has just found that it belongs. Says how many bytes the index has grown by.
    #[inline]
    pub(crate) fn add(&self, growing: &mut Growing, found: Found, head: u64, place: Place) -> usize {
        let leaf = self.leaves.at(found.leaf);
        let order = leaf.keys.order();
        if order.count() < SLOTS {
            leaf.keys.fill(order.free(), head, place);
            leaf.keys.grow(order.with(found.rank));
            growing.finger.rank = Some(found.rank as u8);
            return 0;
        }
        // The path belongs to the finger's leaf, which is this one: it is kept until a split makes it wrong.
        growing.finger.rank = None;
        self.split_leaf(growing, found, head, place)
    }

    fn split_leaf(&self, growing: &mut Growing, found: Found, head: u64, place: Place) -> usize {
        let before = growing.bytes();
        let left = self.leaves.at(found.leaf);
        let order = left.keys.order();
        // Where rows come in order the left one stays full, and the new entry is the first at the right.
        let middle = if found.in_order && found.rank == SLOTS { SLOTS } else { SLOTS / 2 };
        let goes_right = found.rank > middle || middle == SLOTS;
        let number = growing.leaves;
        growing.leaves += 1;
        let right = self.leaves.make(number);
        let mut right_order = Order::EMPTY;
        let mut push = |head, place| {
            right.keys.fill(right_order.free(), head, place);
            right_order = right_order.with(right_order.count());
        };
        for rank in middle..=SLOTS {
            if goes_right && rank == found.rank {
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
        let first = right_order.slot(0);
        let key = (right.keys.head(first), right.keys.place(first));
        self.add_child(growing, growing.levels, key, number);
        if middle < SLOTS {
            let order = order.cut(middle);
            left.keys.shrink(order);
            if !goes_right {
                left.keys.fill(order.free(), head, place);
                left.keys.grow(order.with(found.rank));
            }
        }
        growing.bytes() - before
    }

    /// Names a new node in the lowest of `levels` inner levels, right of the one that the path goes through.
    fn add_child(&self, growing: &mut Growing, levels: usize, key: (u64, Place), child: u32) {
        let Some(above) = levels.checked_sub(1) else { return self.grow_root(growing, key, child) };
        let (number, rank) = growing.path[above];
        let (left, rank) = (self.inners.at(number), usize::from(rank));
        let order = left.keys.order();
        if order.count() < SLOTS {
            left.fill(order.free(), key.0, key.1, child);
            left.keys.grow(order.with(rank));
            return;
        }
        // Its fifteen keys, the new one among them, each with the child that begins there. The middle one goes up.
        let at = |index: usize| match index.cmp(&rank) {
            Is::Equal => (key.0, key.1, child),
            side => {
                let old = index - usize::from(side.is_gt());
                let slot = order.slot(old);
                (left.keys.head(slot), left.keys.place(slot), left.child(order, old + 1))
            }
        };
        // Where rows come in order the left one stays full.
        let middle = if rank == SLOTS { SLOTS } else { SLOTS / 2 };
        let number = growing.inners;
        growing.inners += 1;
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
        self.add_child(growing, above, (head, place), number);
        if middle < SLOTS {
            // Before the half is gone, so that who misses it knows.
            self.splits.store(self.splits.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            let stays = order.cut(middle - usize::from(rank < middle));
            left.keys.shrink(stays);
            if rank < middle {
                left.fill(stays.free(), key.0, key.1, child);
                left.keys.grow(stays.with(rank));
            }
        }
    }

    fn grow_root(&self, growing: &mut Growing, key: (u64, Place), child: u32) {
        let (old, levels) = self.root();
        assert!(levels < HEIGHT_MAX, "an index of {levels} levels cannot grow");
        let number = growing.inners;
        growing.inners += 1;
        let root = self.inners.make(number);
        root.set_first(old);
        root.fill(Order::EMPTY.free(), key.0, key.1, child);
        root.keys.grow(Order::EMPTY.with(0));
        self.root.store(((levels as u64 + 1) << 32) | u64::from(number), Ordering::Release);
    }
}

impl Growing {
    /// Bytes of the nodes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.leaves as usize * size_of::<Leaf>() + self.inners as usize * size_of::<Inner>()
    }
}
