//! The index of the active segment: a B+tree that writers grow while any number of readers walk over it.
//!
//! Its cost is cache misses on keys, so an entry is twelve bytes in a leaf: the [head](crate::head) of the row and the
//! place of the cell. Cells themselves are looked at only where heads are equal.
//!
//! Readers take no lock and are never in a writer's way. Each node is read as it was at one moment (see
//! [`crate::nodes`]); between nodes a reader may fall behind, and these rules make that harmless:
//!
//! 1. Entries are only added. So a reader that comes to a leaf too early misses nothing that was there when it began.
//! 2. A full leaf gives its upper half to a new one at its right, in this order: the new leaf is made, linked from the
//!    left one, named in the parent, and only then the left one gives up what it has passed on. A reader that was sent
//!    to the left leaf goes on to the right; one that sees the upper half twice passes over it the second time. The new leaf
//!    is held until then, so nothing is added to it that who still finds the old half at the left would pass over.
//! 3. Inner nodes give up their upper halves the same way. A reader that comes to one too late, after its upper half is
//!    gone, lands in a leaf too far to the left; [`Tree::splits`] tells it, and it descends again. Should that happen
//!    often, it walks to the right instead: it never goes in circles.
//!
//! Writers descend and search as readers do, and then hold the leaf; the one who is alone needs not. That it is the right one
//! follows from what never changes. A leaf's keys reach from its *least* up to the least of the leaf at its right.
//!
//! 4. The least key of a leaf is its first entry, for as long as it lives: it was made with it, nothing below comes to it (5),
//!    and a split gives up what is above. The leftmost leaf has no least. The same key names it above, so an inner node, of
//!    whatever moment, sends a key to a leaf whose least is not above it; and a step to the right is only taken to such a one.
//! 5. So a writer never stands too far to the right. It stands far enough if it holds the leaf and the leaf has an entry above
//!    its key, or nothing at its right, or a leaf whose least is above its key ([`Tree::keep_if_within`]); while it holds
//!    the leaf nobody else can split it, so that stays true. Else it lets it go and takes the next one.
//! 6. For every key there is one such leaf at a time, so who holds it knows whether the key is there: what two add is added
//!    once.
//! 7. Inner nodes are changed, and nodes made, under one lock ([`Shape`]), which is taken with the full leaf held, and let go when
//!    the new leaf is named. The way that was taken down is used if it still leads to the split node, else it is looked for
//!    again. Nobody waits for a leaf while holding another, nor while having that lock: no one waits in a circle.
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
use crate::nodes::{Inner, Keys, Leaf, NONE, Nodes, Order, SLOTS, begin};
use crate::records::Records;
use crate::segment::TOGETHER;
use crate::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};

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
    shape: Shape,
}

/// What writers do one after the other, on a line of its own: readers and writers who find a free slot do not look at it.
#[repr(align(64))]
struct Shape {
    /// Held while nodes are made and inner nodes are changed.
    changing: Mutex<()>,
    /// How many there are of each. Changed by whoever holds the lock.
    leaves: AtomicU32,
    inners: AtomicU32,
}

impl Shape {
    /// One more.
    fn count(counter: &AtomicU32) -> u32 {
        let number = counter.load(Ordering::Relaxed);
        counter.store(number + 1, Ordering::Relaxed);
        number
    }
}

/// What a writer remembers of its way: each that writes at the same time has its own.
pub(crate) struct Trail {
    /// The inner nodes above the leaf that was found last, from the root down, and the rank taken in each, as they were then.
    path: [(u32, u8); HEIGHT_MAX],
    levels: usize,
    finger: Finger,
}

/// Where the last entry went: cells of a row, and rows in order, go into the same leaf. Others may have changed it since.
#[derive(Clone, Copy)]
struct Finger {
    leaf: u32,
    /// The rank of the last entry in it; `None` when the finger points nowhere.
    rank: Option<u8>,
    /// The least key that was not of this leaf.
    upper: Option<(u64, Place)>,
}

impl Trail {
    /// Of one who has been nowhere.
    pub(crate) fn new() -> Trail {
        let finger = Finger { leaf: 0, rank: None, upper: None };
        Trail { path: [(NONE, 0); HEIGHT_MAX], levels: 0, finger }
    }
}

/// Where an entry belongs: in a leaf that is held until [`Tree::add`] adds it.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Found {
    leaf: u32,
    order: Order,
    rank: u8,
    /// Whether it is there: then nothing is held.
    pub(crate) exact: bool,
    /// Whether it comes right after the entry before it in time.
    in_order: bool,
}

impl Tree {
    /// An empty index whose heads are made as given.
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

    /// What an empty one takes.
    pub(crate) const BYTES_MIN: usize = size_of::<Leaf>();

    /// Bytes of the nodes in use.
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

    /// The root's number and the inner levels.
    #[inline]
    fn root(&self) -> (u32, usize) {
        let root = self.root.load(Ordering::Acquire);
        (root as u32, (root >> 32) as usize)
    }

    /// The rank of the first entry whose head is not below this one.
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

    /// The rank of the first entry at or after the probe, and whether it is that very one.
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

    /// Asks the memory for what a search for each of these heads looks at, step by step for all of them, and for so many `lines`
    /// of the cells that it comes to. Says which are there. One that others move meanwhile may be missed.
    pub(crate) fn foresee(
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
                    true => self.leaves.at(*number).foresee(),
                    false => self.inners.at(*number).foresee(),
                }
            }
        }
        for (index, (&number, &head)) in nodes.iter().zip(heads).enumerate() {
            let leaf = self.leaves.at(number);
            // A key that begins a leaf may be looked for from the one at its left.
            let found = Self::place_of_head(leaf, head).or_else(|| {
                Self::place_of_head(self.leaves.at(Some(leaf.next()).filter(|next| *next != NONE)?), head)
            });
            if let Some(place) = found {
                records.fetch(place, lines);
                is_there(index);
            }
        }
    }

    /// The place of the first entry with this head, if the leaf has one.
    #[inline]
    fn place_of_head(leaf: &Leaf, head: u64) -> Option<Place> {
        leaf.keys.read(|order| {
            let rank =
                Some(Self::first_head(&leaf.keys, order, head)).filter(|rank| *rank < order.count())?;
            let slot = order.slot(rank);
            (leaf.keys.head(slot) == head).then(|| leaf.keys.place(slot))
        })
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

    // ---- writers

    /// Holds the leaf where an entry belongs, unless it is there already. `trail` was left in this tree, or is new. Who is
    /// `ALONE`, and has always been, needs to hold nothing.
    #[inline]
    pub(crate) fn find<const ALONE: bool>(
        &self,
        trail: &mut Trail,
        probe: &Probe<'_>,
        records: &Records,
    ) -> Found {
        let found = match self.find_near::<ALONE>(trail, probe, records) {
            Some(found) => found,
            None => self.find_below::<ALONE>(trail, probe, records),
        };
        if found.exact && !ALONE {
            self.leaves.at(found.leaf).keys.grow(found.order.let_go());
        }
        found
    }

    /// In the leaf where the last entry went, if it belongs there and behind it.
    #[inline]
    fn find_near<const ALONE: bool>(
        &self,
        trail: &Trail,
        probe: &Probe<'_>,
        records: &Records,
    ) -> Option<Found> {
        let finger = trail.finger;
        let last = usize::from(finger.rank?);
        let keys = &self.leaves.at(finger.leaf).keys;
        let (reuse, order) = (keys.reuse(), keys.order());
        let follows = |rank: usize| {
            let slot = order.slot(rank);
            probe.compare(keys.head(slot), keys.place(slot), records).is_gt()
        };
        let is_before = |(head, place)| probe.compare(head, place, records).is_lt();
        // Where another writer has split the leaf there may be less in it.
        if last >= order.count() || !follows(last) || finger.upper.is_some_and(|upper| !is_before(upper)) {
            return None;
        }
        let (rank, exact) = match last + 1 {
            end if end == order.count() => (end, false),
            _ => Self::lower_bound(keys, order, probe, records),
        };
        let found = Found { leaf: finger.leaf, order, rank: rank as u8, exact, in_order: rank == last + 1 };
        match ALONE {
            true => Some(found),
            false => self.hold_as(found, reuse, probe, records),
        }
    }

    /// Wherever it is, from the root down.
    #[inline]
    fn find_below<const ALONE: bool>(
        &self,
        trail: &mut Trail,
        probe: &Probe<'_>,
        records: &Records,
    ) -> Found {
        let (leaf, upper) = self.trace::<ALONE>(trail, probe, records);
        trail.finger = Finger { leaf, rank: None, upper };
        let node = self.leaves.at(leaf);
        node.fetch();
        let keys = &node.keys;
        let (reuse, order) = (keys.reuse(), keys.order());
        let (rank, exact) = Self::lower_bound(keys, order, probe, records);
        let found = Found { leaf, order, rank: rank as u8, exact, in_order: false };
        if ALONE {
            return found;
        }
        // What is not in the cache has been waited for before the leaf is held.
        match self.hold_as(found, reuse, probe, records) {
            Some(found) => found,
            None => self.hold_from(trail, leaf, probe, records),
        }
    }

    /// Holds the leaf as it was when it was searched, if it is so still, and the probe belongs there.
    #[inline]
    fn hold_as(&self, found: Found, reuse: u32, probe: &Probe<'_>, records: &Records) -> Option<Found> {
        let is_held = self.leaves.at(found.leaf).keys.hold_as(found.order, reuse);
        let held = Found { order: found.order.held(), ..found };
        (is_held && self.keep_if_within(held, probe, records)).then_some(held)
    }

    /// Holds the leaf where the probe belongs: this one, or one to its right. Another writer is at work there.
    #[cold]
    fn hold_from(&self, trail: &mut Trail, mut leaf: u32, probe: &Probe<'_>, records: &Records) -> Found {
        loop {
            let keys = &self.leaves.at(leaf).keys;
            let order = keys.hold();
            let (rank, exact) = Self::lower_bound(keys, order, probe, records);
            let found = Found { leaf, order, rank: rank as u8, exact, in_order: false };
            if self.keep_if_within(found, probe, records) {
                trail.finger.leaf = leaf;
                return found;
            }
            leaf = self.leaves.at(leaf).next();
        }
    }

    /// Whether the held leaf still reaches as far as the probe. If not it is let go.
    #[inline]
    fn keep_if_within(&self, found: Found, probe: &Probe<'_>, records: &Records) -> bool {
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

    /// Descends to the leaf of the probe, or one to the left of it, and remembers the way. Says, too, the least key that is
    /// not of that leaf, unless others are splitting nodes. Nobody changes inner nodes beside who is `ALONE`.
    #[inline]
    fn trace<const ALONE: bool>(
        &self,
        trail: &mut Trail,
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
                    // A key is the first of what lies from it on.
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

    /// Adds an entry where [`Tree::find`] has just found that it belongs, and lets the leaf go.
    #[inline]
    pub(crate) fn add(&self, trail: &mut Trail, found: Found, head: u64, place: Place, records: &Records) {
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

    fn split_leaf(&self, trail: &mut Trail, found: Found, head: u64, place: Place, records: &Records) {
        let (left, order, new) = (self.leaves.at(found.leaf), found.order, usize::from(found.rank));
        // Where rows come in order the left one stays full, and the new entry is the first at the right.
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
        // Not before: what is added at the right from here on nobody who comes later misses at the left.
        right.keys.grow(right_order.let_go());
    }

    /// Waits for the others who change inner nodes.
    fn change(&self) -> MutexGuard<'_, ()> {
        let changing = self.shape.changing.lock();
        begin();
        changing
    }

    /// Names a new node, whose keys begin at `key`, right of the node `beside`, which is `height` levels above the leaves.
    /// Nobody else changes inner nodes.
    fn add_child(
        &self,
        trail: &mut Trail,
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

    /// The inner node that names the node `beside`, and at which rank, if the trail knows: `Some(None)` for the root.
    fn parent(&self, trail: &Trail, height: usize, beside: u32) -> Option<Option<(u32, usize)>> {
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
