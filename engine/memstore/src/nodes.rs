//! The nodes of an index: how their slots are put in order, and where they lie.
//!
//! A node has fourteen slots, filled in the order of arrival; one word, its [`Order`], says which slots are in use and
//! how they sort. Adding an entry is filling a free slot and then storing that word, so whoever has loaded the word sees
//! the node as it was then, whole, for as long as no slot is used a second time.
//!
//! Slots are used a second time after a split has given them up. Then `reuse` has been counted up first: a reader that
//! finds it unchanged after it has read the slots has read what belonged to the word; else it reads once more. It does
//! not wait for the writer by that, since a count that has changed is a change that is done.
//!
//! A writer has a leaf to itself while it changes it: a bit of the same word, which readers do not look at, says that it is
//! held. To hold a leaf whose word is known is one step, which is also the proof that nothing has changed since.
//!
//! All fields are atomics: a reader that reads too late reads numbers that do not belong together, and does so once more. Before
//! it learns of that it may look at a cell, so a place is stored with release behind the cell's bytes, and loaded with acquire:
//! whatever place is read, its cell is there.

use crate::arena::{LINE, Place};
use crate::sync::{AtomicU32, AtomicU64, Ordering, Patience, fence};
use crate::table::Table;

/// Slots of a node. Where interleavings are tried there are few, so that nodes are split soon.
pub(crate) const SLOTS: usize = if cfg!(any(miri, shuttle)) { 3 } else { 14 };
/// In the place of a node's number: none.
pub(crate) const NONE: u32 = u32::MAX;

/// Which slots are in use, and how they sort.
///
/// ```text
///   bits 0–3     how many are in use
///   bits 4–59    fourteen slot numbers of four bits: first those in use, in order; then those that are free
///   bit  60      whether a writer holds the node
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order(u64);

impl Order {
    /// No slot in use.
    pub(crate) const EMPTY: Order = Order(0x0dcb_a987_6543_2100);
    const HELD: u64 = 1 << 60;

    #[inline]
    pub(crate) fn is_held(self) -> bool {
        self.0 & Order::HELD != 0
    }

    /// The same of a node that a writer holds. It stays held with what [`Order::with`] and [`Order::cut`] make of it.
    #[inline]
    pub(crate) fn held(self) -> Order {
        Order(self.0 | Order::HELD)
    }

    /// The same of a node that nobody holds.
    #[inline]
    pub(crate) fn let_go(self) -> Order {
        Order(self.0 & !Order::HELD)
    }

    #[inline]
    pub(crate) fn count(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot at a rank below 14.
    #[inline]
    pub(crate) fn slot(self, rank: usize) -> usize {
        (self.0 >> (4 + 4 * rank) & 15) as usize
    }

    /// The slot that the next entry goes into.
    #[inline]
    pub(crate) fn free(self) -> usize {
        debug_assert!(self.count() < SLOTS, "a full node has no free slot");
        self.slot(self.count())
    }

    /// With the free slot put in at `rank`.
    #[inline]
    pub(crate) fn with(self, rank: usize) -> Order {
        let (count, slot) = (self.count(), self.free() as u64);
        debug_assert!(rank <= count, "rank {rank} of {count}");
        let below = |rank: usize| (1u64 << (4 + 4 * rank)) - 1;
        let keep = self.0 & (below(rank) | !below(count + 1));
        let moved = (self.0 & below(count) & !below(rank)) << 4;
        Order((keep | moved | slot << (4 + 4 * rank)) + 1)
    }

    /// With only the first `count`; the slots of the others are free.
    #[inline]
    pub(crate) fn cut(self, count: usize) -> Order {
        debug_assert!(count <= self.count(), "{count} of {}", self.count());
        Order(self.0 & !15 | count as u64)
    }
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((0..self.count()).map(|rank| self.slot(rank))).finish()
    }
}

/// What leaves and inner nodes share: keys in order.
pub(crate) struct Keys {
    order: AtomicU64,
    reuse: AtomicU32,
    heads: [AtomicU64; SLOTS],
    places: [AtomicU32; SLOTS],
}

impl Keys {
    fn new() -> Keys {
        Keys {
            order: AtomicU64::new(Order::EMPTY.0),
            reuse: AtomicU32::new(0),
            heads: std::array::from_fn(|_| AtomicU64::new(0)),
            places: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// As it is now: for a writer that nobody else can change it under, or within [`Keys::read`].
    #[inline]
    pub(crate) fn order(&self) -> Order {
        Order(self.order.load(Ordering::Acquire))
    }

    /// How often slots were given up. To be loaded before the order: see [`Keys::hold_as`].
    #[inline]
    pub(crate) fn reuse(&self) -> u32 {
        self.reuse.load(Ordering::Acquire)
    }

    /// Holds the node if it is still as it was when `reuse` and then `order` were loaded, and free. Then what was read since
    /// is what is there. With an unchanged `reuse` an order has only grown, and is not the same again.
    #[inline]
    pub(crate) fn hold_as(&self, order: Order, reuse: u32) -> bool {
        if order.is_held()
            || self
                .order
                .compare_exchange(order.0, order.held().0, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        if self.reuse.load(Ordering::Relaxed) != reuse {
            self.order.store(order.0, Ordering::Release);
            return false;
        }
        begin();
        true
    }

    /// Waits until nobody holds the node, and holds it. Says the order, which nobody else changes until one that is let go is
    /// put in its place.
    pub(crate) fn hold(&self) -> Order {
        let mut patience = Patience::default();
        loop {
            let order = Order(self.order.load(Ordering::Relaxed));
            if !order.is_held()
                && self
                    .order
                    .compare_exchange(order.0, order.held().0, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                begin();
                return order.held();
            }
            patience.wait();
        }
    }

    #[inline]
    pub(crate) fn head(&self, slot: usize) -> u64 {
        self.heads[slot].load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn place(&self, slot: usize) -> Place {
        Place(self.places[slot].load(Ordering::Acquire))
    }

    /// Asks the memory for all lines of the node at once, of which a search needs most, one after the other: the order, the
    /// heads, and what is found beside them.
    #[inline]
    fn fetch(&self) {
        if cfg!(not(any(miri, shuttle))) {
            let order = self.order.load(Ordering::Relaxed);
            let (head, place) =
                (self.heads[0].load(Ordering::Relaxed), self.places[SLOTS - 1].load(Ordering::Relaxed));
            std::hint::black_box((order, head, place));
        }
    }

    /// What `reading` makes of the node as it was at one moment. It may be called more than once.
    #[inline]
    pub(crate) fn read<T>(&self, mut reading: impl FnMut(Order) -> T) -> T {
        loop {
            let before = self.reuse.load(Ordering::Acquire);
            let read = reading(self.order());
            // Together with the fences in `shrink` and `begin`: who has read a slot that is in use again finds the count changed.
            fence(Ordering::Acquire);
            if self.reuse.load(Ordering::Relaxed) == before {
                return read;
            }
        }
    }

    /// Fills a free slot. Readers see it once the order says so.
    #[inline]
    pub(crate) fn fill(&self, slot: usize, head: u64, place: Place) {
        self.heads[slot].store(head, Ordering::Relaxed);
        self.places[slot].store(place.0, Ordering::Release);
    }

    /// Puts a longer order in the place of the old one, whose slots all stay, or the same to let the node go.
    #[inline]
    pub(crate) fn grow(&self, order: Order) {
        self.order.store(order.0, Ordering::Release);
    }

    /// Puts a shorter order in the place of the old one; slots that are missing in it may be filled again.
    pub(crate) fn shrink(&self, order: Order) {
        self.order.store(order.0, Ordering::Release);
        let reuse = self.reuse.load(Ordering::Relaxed).wrapping_add(1);
        self.reuse.store(reuse, Ordering::Release);
        // Nothing is filled from here on without the count being seen by whoever sees what was filled.
        fence(Ordering::Release);
    }
}

/// Begins changes after those of another writer: whoever sees what is filled from here on finds the slots given up that the
/// other has given up, as in [`Keys::shrink`].
#[inline]
pub(crate) fn begin() {
    fence(Ordering::Release);
}

/// A leaf: entries, and the leaf to the right.
#[repr(align(64))]
pub(crate) struct Leaf {
    pub(crate) keys: Keys,
    next: AtomicU32,
}

impl Leaf {
    /// The leaf to the right. To be loaded after the order: it goes on where that order ends, or before.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.next.load(Ordering::Acquire)
    }

    /// Asks the memory for it, which is wanted now.
    #[inline]
    pub(crate) fn fetch(&self) {
        self.keys.fetch();
    }

    /// Asks the memory for it, which is wanted soon.
    #[inline]
    pub(crate) fn foresee(&self) {
        fetch_lines(self);
    }

    pub(crate) fn set_next(&self, next: u32) {
        self.next.store(next, Ordering::Release);
    }

    /// The least key that a leaf with another at its left may have: its first entry's. That is in the first slot from the
    /// start, for a leaf is filled in order when it is made, and stays there, for a split gives up what is behind it.
    #[inline]
    pub(crate) fn least(&self) -> (u64, Place) {
        (self.keys.head(0), self.keys.place(0))
    }
}

impl Default for Leaf {
    fn default() -> Leaf {
        Leaf { keys: Keys::new(), next: AtomicU32::new(NONE) }
    }
}

/// An inner node: the child before the first key, and one from each key on.
#[repr(align(64))]
pub(crate) struct Inner {
    pub(crate) keys: Keys,
    first: AtomicU32,
    children: [AtomicU32; SLOTS],
}

impl Inner {
    /// The child at a rank of the keys, zero being the one before the first of them.
    #[inline]
    pub(crate) fn child(&self, order: Order, rank: usize) -> u32 {
        match rank {
            0 => self.first.load(Ordering::Relaxed),
            rank => self.children[order.slot(rank - 1)].load(Ordering::Relaxed),
        }
    }

    /// Asks the memory for it, which is wanted now.
    #[inline]
    pub(crate) fn fetch(&self) {
        self.keys.fetch();
        if cfg!(not(any(miri, shuttle))) {
            std::hint::black_box(self.children[SLOTS - 1].load(Ordering::Relaxed));
        }
    }

    /// Asks the memory for it, which is wanted soon.
    #[inline]
    pub(crate) fn foresee(&self) {
        fetch_lines(self);
    }

    pub(crate) fn set_first(&self, child: u32) {
        self.first.store(child, Ordering::Relaxed);
    }

    pub(crate) fn fill(&self, slot: usize, head: u64, place: Place, child: u32) {
        self.keys.fill(slot, head, place);
        self.children[slot].store(child, Ordering::Relaxed);
    }
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            keys: Keys::new(),
            first: AtomicU32::new(NONE),
            children: std::array::from_fn(|_| AtomicU32::new(NONE)),
        }
    }
}

/// Asks the memory for all lines of something, and waits for none of them.
#[inline]
fn fetch_lines<T>(node: &T) {
    let start: *const u8 = std::ptr::from_ref(node).cast();
    (0..size_of::<T>()).step_by(LINE).for_each(|at| cell::fetch_line(start.wrapping_add(at)));
}

/// Nodes of one kind by number, made a block at a time: no block is so large that making it is felt.
pub(crate) struct Nodes<T> {
    blocks: Table<Box<[T]>>,
}

/// Nodes of a block.
const BLOCK: usize = if cfg!(any(miri, shuttle)) { 1 } else { 32 };

impl<T: Default> Nodes<T> {
    pub(crate) fn new() -> Nodes<T> {
        Nodes { blocks: Table::new() }
    }

    /// Makes the node of this number, the next one.
    pub(crate) fn make(&self, number: u32) -> &T {
        if number.is_multiple_of(BLOCK as u32) {
            self.blocks.set(number / BLOCK as u32, (0..BLOCK).map(|_| T::default()).collect());
        }
        self.at(number)
    }

    /// The node of this number.
    #[inline]
    pub(crate) fn at(&self, number: u32) -> &T {
        let block = self.blocks.get(number / BLOCK as u32).expect("nodes are made before they are named");
        &block[number as usize % BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_list_of_slots() {
        let mut word = 1u64;
        for _ in 0..if cfg!(miri) { 10 } else { 1_000 } {
            let (mut order, mut list) = (Order::EMPTY, Vec::new());
            for _ in 0..40 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let chance = (word >> 33) as usize;
                if list.len() == SLOTS || chance.is_multiple_of(7) {
                    let count = chance % (list.len() + 1);
                    order = order.cut(count);
                    list.truncate(count);
                } else {
                    let rank = chance % (list.len() + 1);
                    assert!(!list.contains(&order.free()), "{order:?}");
                    list.insert(rank, order.free());
                    order = order.with(rank);
                }
                assert_eq!((0..order.count()).map(|rank| order.slot(rank)).collect::<Vec<_>>(), list);
            }
        }
    }

    #[cfg(not(shuttle))]
    #[test]
    fn nodes_fill_whole_cache_lines() {
        let (leaf, inner) = if SLOTS == 14 { (192, 256) } else { (64, 64) };
        assert_eq!((size_of::<Leaf>(), size_of::<Inner>()), (leaf, inner));
    }
}
