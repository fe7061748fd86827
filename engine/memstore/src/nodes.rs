//! The nodes of the index: the order of their slots, and their memory.
//!
//! A node has fourteen slots, filled in the order of arrival. One word, its [`Order`], says which slots are in use and
//! how they sort. To add an entry, a writer fills a free slot and then stores the new order. So a reader that has
//! loaded an order sees a complete earlier state of the node, as long as no slot is reused.
//!
//! Slots are reused after a split has freed them. The split increments `reuse` first. A reader that finds `reuse`
//! unchanged after reading the slots has read a consistent state; otherwise it reads again. It never waits for the
//! writer, because the writer has finished its change when it has changed the count.
//!
//! A writer *holds* a leaf while it changes it: it sets a latch bit in the same word, at which other writers wait and
//! which readers ignore. If the writer has read the order before, it sets the bit by one compare-and-swap, which also
//! proves that the leaf has not changed since.
//!
//! All fields are atomics. A reader that is too late reads inconsistent numbers, notices, and reads again. Before it
//! notices, it may read a cell. So a place is stored with release ordering after the cell's bytes, and loaded with
//! acquire: the cell of every place that a reader sees has been written.

use crate::place::{LINE, Place};
use crate::sync::{AtomicU32, AtomicU64, Backoff, Ordering, fence};
use crate::table::Table;

/// Number of slots of a node. Interleaving tests use few, so that nodes split soon.
pub(crate) const SLOTS: usize = if cfg!(any(miri, shuttle)) { 3 } else { 14 };
/// The number that means "no node".
pub(crate) const NONE: u32 = u32::MAX;

/// Says which slots of a node are in use, and how they sort.
///
/// ```text
///   bits 0–3     how many are in use
///   bits 4–59    fourteen slot numbers of four bits: first those in use, in order; then those that are free
///   bit  60      the latch: whether a writer holds the node
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order(u64);

impl Order {
    /// The order of a node without entries.
    pub(crate) const EMPTY: Order = Order(0x0dcb_a987_6543_2100);
    const HELD: u64 = 1 << 60;

    /// Whether a writer holds the node.
    #[inline]
    pub(crate) fn is_held(self) -> bool {
        self.0 & Order::HELD != 0
    }

    /// Returns the same order with the held bit set. [`Order::with`] and [`Order::cut`] keep the bit.
    #[inline]
    pub(crate) fn held(self) -> Order {
        Order(self.0 | Order::HELD)
    }

    /// Returns the same order with the held bit cleared.
    #[inline]
    pub(crate) fn let_go(self) -> Order {
        Order(self.0 & !Order::HELD)
    }

    #[inline]
    pub(crate) fn count(self) -> usize {
        (self.0 & 15) as usize
    }

    /// Returns the slot at a rank below 14.
    #[inline]
    pub(crate) fn slot(self, rank: usize) -> usize {
        (self.0 >> (4 + 4 * rank) & 15) as usize
    }

    /// Returns the slot for the next entry.
    #[inline]
    pub(crate) fn free(self) -> usize {
        debug_assert!(self.count() < SLOTS, "a full node has no free slot");
        self.slot(self.count())
    }

    /// Returns the order with the free slot inserted at `rank`.
    #[inline]
    pub(crate) fn with(self, rank: usize) -> Order {
        let (count, slot) = (self.count(), self.free() as u64);
        debug_assert!(rank <= count, "rank {rank} of {count}");
        let below = |rank: usize| (1u64 << (4 + 4 * rank)) - 1;
        let keep = self.0 & (below(rank) | !below(count + 1));
        let moved = (self.0 & below(count) & !below(rank)) << 4;
        Order((keep | moved | slot << (4 + 4 * rank)) + 1)
    }

    /// Returns the order with only the first `count` slots; the others become free.
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

/// The part that leaves and inner nodes have in common: sorted keys, and their values.
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

    /// Returns the current order of the slots. Must be called by a writer that excludes all others, or inside
    /// [`Keys::read`].
    #[inline]
    pub(crate) fn order(&self) -> Order {
        Order(self.order.load(Ordering::Acquire))
    }

    /// Returns how often slots were freed. Must be loaded before the order: see [`Keys::hold_as`].
    #[inline]
    pub(crate) fn reuse(&self) -> u32 {
        self.reuse.load(Ordering::Acquire)
    }

    /// Holds the node if no writer holds it and it is unchanged since `reuse` and then `order` were loaded. Returns
    /// whether it does. If so, everything that was read between these loads and this call is current. While `reuse`
    /// stays the same, an order only grows and never returns to an earlier value.
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

    /// Waits until no other writer holds the node, and holds it. Returns the order, which no other writer changes until
    /// the node is released.
    pub(crate) fn hold(&self) -> Order {
        let mut backoff = Backoff::default();
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
            backoff.wait();
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

    /// Prefetches all cache lines of the node, since a search reads most of them: the order, the heads, and the values.
    #[inline]
    fn fetch(&self) {
        if cfg!(not(any(miri, shuttle))) {
            let order = self.order.load(Ordering::Relaxed);
            let (head, place) =
                (self.heads[0].load(Ordering::Relaxed), self.places[SLOTS - 1].load(Ordering::Relaxed));
            std::hint::black_box((order, head, place));
        }
    }

    /// Runs `reading` on a consistent state of the node. It may run more than once.
    #[inline]
    pub(crate) fn read<T>(&self, mut reading: impl FnMut(Order) -> T) -> T {
        loop {
            let before = self.reuse.load(Ordering::Acquire);
            let read = reading(self.order());
            // This fence and those in `shrink` and `begin` form pairs. So a reader that has seen a reused slot also
            // sees the changed `reuse`.
            fence(Ordering::Acquire);
            if self.reuse.load(Ordering::Relaxed) == before {
                return read;
            }
        }
    }

    /// Fills a free slot. Readers see it when the order includes it.
    #[inline]
    pub(crate) fn fill(&self, slot: usize, head: u64, place: Place) {
        self.heads[slot].store(head, Ordering::Relaxed);
        self.places[slot].store(place.0, Ordering::Release);
    }

    /// Stores an order that keeps all slots of the old one: with a new slot, without the latch bit, or both.
    #[inline]
    pub(crate) fn grow(&self, order: Order) {
        self.order.store(order.0, Ordering::Release);
    }

    /// Stores a shorter order; the slots that it lacks may be reused.
    pub(crate) fn shrink(&self, order: Order) {
        self.order.store(order.0, Ordering::Release);
        let reuse = self.reuse.load(Ordering::Relaxed).wrapping_add(1);
        self.reuse.store(reuse, Ordering::Release);
        // So a reader that sees a later store to a slot also sees the new value of `reuse`.
        fence(Ordering::Release);
    }
}

/// Begins a change after another writer's change. A reader that sees this writer's stores also sees which slots the
/// other writer has freed, as in [`Keys::shrink`].
#[inline]
pub(crate) fn begin() {
    fence(Ordering::Release);
}

/// A leaf: entries, and a link to the next leaf.
#[repr(align(64))]
pub(crate) struct Leaf {
    pub(crate) keys: Keys,
    next: AtomicU32,
}

impl Leaf {
    /// Returns the next leaf. Callers must load it after this leaf's order. Then the next leaf begins at or before the
    /// end of the entries in that order, so no entry is missed.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.next.load(Ordering::Acquire)
    }

    /// Prefetches a node that is needed now.
    #[inline]
    pub(crate) fn fetch(&self) {
        self.keys.fetch();
    }

    /// Prefetches a node that is needed soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        fetch_lines(self);
    }

    pub(crate) fn set_next(&self, next: u32) {
        self.next.store(next, Ordering::Release);
    }

    /// Returns the least possible key of a leaf that has a left neighbour, which is the key of its first entry. That
    /// entry stays in the first slot, since a new leaf is filled in order and a split removes only the upper entries.
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

/// An inner node: the child before the first key, and one child for each key.
#[repr(align(64))]
pub(crate) struct Inner {
    pub(crate) keys: Keys,
    first: AtomicU32,
    children: [AtomicU32; SLOTS],
}

impl Inner {
    /// Returns the child at a rank; rank zero is the child before the first key.
    #[inline]
    pub(crate) fn child(&self, order: Order, rank: usize) -> u32 {
        match rank {
            0 => self.first.load(Ordering::Relaxed),
            rank => self.children[order.slot(rank - 1)].load(Ordering::Relaxed),
        }
    }

    /// Prefetches a node that is needed now.
    #[inline]
    pub(crate) fn fetch(&self) {
        self.keys.fetch();
        if cfg!(not(any(miri, shuttle))) {
            std::hint::black_box(self.children[SLOTS - 1].load(Ordering::Relaxed));
        }
    }

    /// Prefetches a node that is needed soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
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

/// Prefetches all cache lines of `node`.
#[inline]
fn fetch_lines<T>(node: &T) {
    let start: *const u8 = std::ptr::from_ref(node).cast();
    (0..size_of::<T>()).step_by(LINE).for_each(|at| cell::fetch_line(start.wrapping_add(at)));
}

/// The nodes of one kind, by number. They are allocated in blocks, which are so small that an allocation does not
/// noticeably delay a write.
pub(crate) struct Nodes<T> {
    blocks: Table<Box<[T]>>,
}

/// Number of nodes in a block.
const BLOCK: usize = if cfg!(any(miri, shuttle)) { 1 } else { 32 };

impl<T: Default> Nodes<T> {
    pub(crate) fn new() -> Nodes<T> {
        Nodes { blocks: Table::new() }
    }

    /// Creates the next node, which must have this number.
    pub(crate) fn make(&self, number: u32) -> &T {
        if number.is_multiple_of(BLOCK as u32) {
            self.blocks.set(number / BLOCK as u32, (0..BLOCK).map(|_| T::default()).collect());
        }
        self.at(number)
    }

    /// Returns the node with this number.
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
                let random = (word >> 33) as usize;
                if list.len() == SLOTS || random.is_multiple_of(7) {
                    let count = random % (list.len() + 1);
                    order = order.cut(count);
                    list.truncate(count);
                } else {
                    let rank = random % (list.len() + 1);
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
