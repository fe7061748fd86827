//! The active segment, which accepts writes: cells copied into chunks, and the index over them.
//!
//! Each writer uses a *slot*. A slot has the chunk that the writer fills, the writer's path through the index, and
//! counters of what the writer has added.
//!
//! 1. A writer that is alone finds the first slot free every time, whichever thread it runs on. As long as no two
//!    writers have wanted that slot at the same time, its owner is the only writer: it locks nothing in the index, and
//!    fills one chunk after the other.
//! 2. A writer that finds the first slot taken waits for it once, and then marks the segment as shared. From then on
//!    each writer locks the leaf that it changes. A writer that finds a slot taken uses the next slot, and begins with
//!    that one the next time. So two writers share no cache lines but those of nodes and of the [`crate::tree`]'s
//!    `Shape`.
//! 3. A writer that changes the whole segment (seals it, or rebuilds the index) takes all slots, in order. No writer
//!    waits for a slot while it holds another one, except in that order.
//!
//! In a server the writers of a region are serialized, so segments are not shared.
//!
//! A cell is in its chunk before its place is in the index, and a chunk is in the records before a place names it. So
//! readers need no lock.
//!
//! The heads of the first index are made after the row prefix of the previous segment, if there was one. When the
//! segment has a few cells, and again when it has many, the prefix that its rows share is computed again. If it
//! differs, the index is rebuilt: rows such as `user8517…` or `0000000123` differ only in later bytes. Readers of the
//! old index continue in it, since it has every cell that existed when they began.

use std::sync::{Arc, OnceLock};

use cell::{Cell, Comparator, Position, SequenceId};

use crate::arena::{Filler, Source};
use crate::chunk::Appender;
use crate::flat::{Builder, Flat};
use crate::head::{Heads, TOGETHER, common_prefix};
use crate::place::{Fill, Place};
use crate::pool::Pool;
use crate::records::Records;
use crate::span::Span;
use crate::sync::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::tree::{Run, Tree, WriterPath};

/// Numbers of cells at which the common row prefix is computed again. They are small, so that no writer waits long.
const LEARN_AT: [u64; 2] = if cfg!(any(miri, shuttle)) { [4, 12] } else { [32, 1_024] };
/// Maximum number of concurrent writers.
const WRITER_SLOTS: usize = if cfg!(any(miri, shuttle)) { 2 } else { 4 };

/// The position of a cursor in an active segment.
#[derive(Clone, Debug)]
pub(crate) struct ActivePosition {
    /// The number of the index in which the cursor is.
    index: u32,
    run: Run,
}

/// The active segment: cells in chunks, and the indexes over them, of which the last is current.
pub(crate) struct Active {
    records: Records,
    source: Source,
    indexes: [OnceLock<Tree>; 1 + LEARN_AT.len()],
    /// The number of the current index. Like `looked`, it is changed only by the owner of all slots.
    current: AtomicU32,
    /// How often the common row prefix was computed, which is an index into [`LEARN_AT`].
    looked: AtomicU32,
    /// Whether slots other than the first may be taken. Set once, by the owner of the first slot.
    is_shared: AtomicBool,
    slots: [WriterSlot; WRITER_SLOTS],
}

/// The state of one writer, on cache lines that no other writer uses.
#[repr(align(128))]
struct WriterSlot {
    writing: Mutex<Writing>,
    figures: Figures,
}

struct Writing {
    filler: Filler,
    trail: WriterPath,
    /// Whether the segment accepts no more writes.
    sealed: bool,
    /// Whether no writer has ever used another slot. Can be true for the first slot only.
    alone: bool,
}

/// Counters of one slot. Its owner changes them; any thread reads them.
struct Figures {
    cells: AtomicU64,
    record_bytes: AtomicU64,
    oldest: AtomicI64,
    newest: AtomicI64,
    deletes_families: AtomicBool,
    is_plain: AtomicBool,
}

impl Figures {
    fn new() -> Figures {
        let (none, span) = (AtomicU64::new(0), Span::default());
        let (oldest, newest) = (AtomicI64::new(span.oldest), AtomicI64::new(span.newest));
        let (deletes_families, is_plain) = (AtomicBool::new(false), AtomicBool::new(true));
        Figures { cells: AtomicU64::new(0), record_bytes: none, oldest, newest, deletes_families, is_plain }
    }

    #[inline]
    fn count(&self, cells: u64, record_bytes: u64, span: Span) {
        let mut all = self.span();
        if span.oldest < all.oldest || span.newest > all.newest {
            all.join(span);
            self.oldest.store(all.oldest, Ordering::Release);
            self.newest.store(all.newest, Ordering::Release);
        }
        if !span.is_plain {
            self.is_plain.store(false, Ordering::Release);
        }
        let add = |sum: &AtomicU64, more| sum.store(sum.load(Ordering::Relaxed) + more, Ordering::Release);
        add(&self.record_bytes, record_bytes);
        add(&self.cells, cells);
    }

    #[inline]
    fn span(&self) -> Span {
        let (oldest, newest) = (self.oldest.load(Ordering::Acquire), self.newest.load(Ordering::Acquire));
        let deletes_families = self.deletes_families.load(Ordering::Acquire);
        Span { oldest, newest, deletes_families, is_plain: self.is_plain.load(Ordering::Acquire) }
    }
}

#[cfg(not(shuttle))]
thread_local! {
    /// The address of the segment in which this thread last had to use another slot, and the index of that slot. If
    /// another segment is later allocated at that address, the thread begins its search for a free slot there, which
    /// does no harm.
    static LAST_SLOT: std::cell::Cell<(usize, usize)> = const { std::cell::Cell::new((0, 0)) };
}

impl Active {
    /// Creates an empty segment whose heads are made after `prefix`. It first fills the chunks `left_open`, the last of
    /// them first.
    pub(crate) fn new(
        comparator: Comparator,
        pool: &Arc<Pool>,
        prefix: &[u8],
        left_open: Vec<Appender>,
    ) -> Active {
        let slot = |number| {
            let (filler, trail) = (Filler::default(), WriterPath::new());
            let writing = Writing { filler, trail, sealed: false, alone: number == 0 };
            WriterSlot { writing: Mutex::new(writing), figures: Figures::new() }
        };
        let active = Active {
            records: Records::new(comparator),
            source: Source::new(Arc::clone(pool), left_open),
            indexes: Default::default(),
            current: AtomicU32::new(0),
            looked: AtomicU32::new(0),
            is_shared: AtomicBool::new(false),
            slots: std::array::from_fn(slot),
        };
        active.put_index(0, Tree::new(Heads::new(comparator, prefix)));
        active
    }

    fn put_index(&self, number: u32, tree: Tree) {
        assert!(self.indexes[number as usize].set(tree).is_ok(), "index {number} of a segment is made once");
        self.current.store(number, Ordering::Release);
    }

    #[inline]
    fn index(&self, number: u32) -> &Tree {
        self.indexes[number as usize].get().expect("an index is made before it is named")
    }

    #[inline]
    fn current(&self) -> u32 {
        self.current.load(Ordering::Acquire)
    }

    /// Prefetches the memory of lookups; see [`Tree::prefetch_rows`].
    pub(crate) fn prefetch_rows(&self, rows: &[&[u8]], lines: usize, is_there: impl FnMut(usize)) {
        let tree = self.index(self.current());
        let mut heads = [0; TOGETHER];
        let heads = &mut heads[..rows.len()];
        heads.iter_mut().zip(rows).for_each(|(head, row)| *head = tree.heads().of(row));
        tree.prefetch_rows(heads, lines, &self.records, is_there);
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    /// Takes a slot for a write: a free one, or one for which this thread has waited. Returns its index and its guard.
    #[inline]
    fn enter(&self) -> (usize, MutexGuard<'_, Writing>) {
        #[cfg(not(shuttle))]
        let first = match LAST_SLOT.get() {
            (segment, slot)
                if segment == std::ptr::from_ref(self).addr() && self.is_shared.load(Ordering::Acquire) =>
            {
                slot
            }
            _ => 0,
        };
        #[cfg(shuttle)]
        let first = 0;
        match self.slots[first].writing.try_lock() {
            Some(writing) => (first, writing),
            None => self.enter_another(first),
        }
    }

    #[cold]
    fn enter_another(&self, first: usize) -> (usize, MutexGuard<'_, Writing>) {
        if !self.is_shared.load(Ordering::Acquire) {
            let mut writing = self.slots[0].writing.lock();
            writing.alone = false;
            self.is_shared.store(true, Ordering::Release);
            return (0, writing);
        }
        for number in (1..WRITER_SLOTS).map(|turn| (first + turn) % WRITER_SLOTS) {
            if let Some(writing) = self.slots[number].writing.try_lock() {
                #[cfg(not(shuttle))]
                LAST_SLOT.set((std::ptr::from_ref(self).addr(), number));
                return (number, writing);
            }
        }
        (first, self.slots[first].writing.lock())
    }

    /// Copies validated cells, and inserts them under `sequence`. Skips a cell that is present already. When no chunk
    /// is left, the remaining cells are not taken from the iterator. Returns whether there is room for another cell.
    ///
    /// # Panics
    /// When the segment is sealed.
    pub(crate) fn insert<'a>(&self, cells: impl IntoIterator<Item = &'a [u8]>, sequence: SequenceId) -> bool {
        let (number, slot) = self.enter();
        assert!(!slot.sealed, "a sealed segment of {} cells takes no writes", self.cells());
        let has_room = match slot.alone {
            true => self.insert_at::<true>(number, slot, cells.into_iter(), sequence),
            false => self.insert_at::<false>(number, slot, cells.into_iter(), sequence),
        };
        if self.look_at().is_some_and(|look_at| self.cells() >= look_at) {
            self.learn_now();
        }
        has_room
    }

    #[inline]
    fn insert_at<'a, const ALONE: bool>(
        &self,
        number: usize,
        mut slot: MutexGuard<'_, Writing>,
        mut cells: impl Iterator<Item = &'a [u8]>,
        sequence: SequenceId,
    ) -> bool {
        let (mut tree, mut look_at) = (self.index(self.current()), self.look_at());
        let (mut count, mut record_bytes, mut span) = (0, 0, Span::default());
        let has_room = loop {
            let Writing { filler, trail, .. } = &mut *slot;
            if !filler.has_room(&self.source) {
                break false;
            }
            let Some(bytes) = cells.next() else { break true };
            let cell = Cell::trusted(bytes, sequence);
            let probe = tree.probe(cell.into());
            let found = tree.find::<ALONE>(trail, &probe, &self.records);
            if found.exact {
                continue;
            }
            let (place, taken) = filler.copy(bytes, sequence, &self.source, &self.records);
            span.take(cell);
            // Set before the cell becomes visible: so a reader that checks this first, and then reads the cells, misses
            // no marker.
            if span.deletes_families {
                self.slots[number].figures.deletes_families.store(true, Ordering::Release);
            }
            tree.add(trail, found, probe.head, place, &self.records);
            count += 1;
            record_bytes += taken as u64;
            if look_at.is_some_and(|look_at| self.cells() + count >= look_at)
                && self.learn_if_nobody_writes(number, &mut slot)
            {
                (tree, look_at) = (self.index(self.current()), self.look_at());
            }
        };
        self.slots[number].figures.count(count, record_bytes, span);
        has_room
    }

    /// Rebuilds the index if all other slots are free, and returns whether it did. It does not wait for a slot, because
    /// the slot's owner may be waiting for this one.
    fn learn_if_nobody_writes(&self, number: usize, slot: &mut Writing) -> bool {
        let others = (0..WRITER_SLOTS).filter(|other| *other != number);
        let others: Option<Vec<_>> = others.map(|other| self.slots[other].writing.try_lock()).collect();
        let Some(mut others) = others else { return false };
        self.learn(others.iter_mut().map(|other| &mut **other).chain([slot]));
        true
    }

    /// Waits for all writers, then computes the common row prefix and rebuilds the index if the prefix differs. Does
    /// nothing if another writer has done so meanwhile.
    #[cold]
    fn learn_now(&self) {
        let mut all = self.enter_all();
        if !all[0].sealed && self.look_at().is_some_and(|look_at| self.cells() >= look_at) {
            self.learn(all.iter_mut().map(|slot| &mut **slot));
        }
    }

    /// Returns how often the index was rebuilt.
    #[cfg(all(test, any(miri, shuttle)))]
    pub(crate) fn learnt(&self) -> u32 {
        self.current()
    }

    /// Marks the segment as shared, as if two writers had wanted the first slot at the same time. For tests.
    #[cfg(test)]
    pub(crate) fn share(&self) {
        self.slots[0].writing.lock().alone = false;
        self.is_shared.store(true, Ordering::Release);
    }

    /// Waits for all slots and takes them; returns their guards.
    fn enter_all(&self) -> [MutexGuard<'_, Writing>; WRITER_SLOTS] {
        std::array::from_fn(|number| self.slots[number].writing.lock())
    }

    /// Returns the number of cells at which the common row prefix is computed next; `None` if it will not be computed
    /// again.
    #[inline]
    fn look_at(&self) -> Option<u64> {
        LEARN_AT.get(self.looked.load(Ordering::Relaxed) as usize).copied()
    }

    /// Rebuilds the index if rows have another prefix than it expects. The caller owns all `slots`.
    fn learn<'d>(&self, slots: impl Iterator<Item = &'d mut Writing>) {
        self.looked.store(self.looked.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let number = self.current();
        let old = self.index(number);
        let heads = Heads::new(self.records.comparator(), &self.prefix());
        if *old.heads() == heads {
            return;
        }
        let (tree, mut trail) = (Tree::new(heads), WriterPath::new());
        let mut run = old.first(&self.records);
        while let Some(place) = run.place() {
            let probe = tree.probe(self.records.cell(place).into());
            let found = tree.find::<true>(&mut trail, &probe, &self.records);
            tree.add(&mut trail, found, probe.head, place, &self.records);
            old.advance(&mut run, &self.records);
        }
        // The paths of writers lead through the old index, so they are reset.
        slots.for_each(|slot| slot.trail = WriterPath::new());
        self.put_index(number + 1, tree);
    }

    /// Returns the number of cells in the segment.
    pub(crate) fn cells(&self) -> u64 {
        self.slots.iter().map(|slot| slot.figures.cells.load(Ordering::Acquire)).sum()
    }

    /// Returns the size of the cells' records, in bytes.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.slots.iter().map(|slot| slot.figures.record_bytes.load(Ordering::Acquire)).sum()
    }

    /// Returns the size of all indexes, in bytes, including old ones that readers may still use. An empty index counts
    /// nothing.
    pub(crate) fn index_bytes(&self) -> u64 {
        let bytes: usize = self.indexes.iter().filter_map(|index| Some(index.get()?.bytes())).sum();
        (bytes - Tree::BYTES_MIN) as u64
    }

    /// Returns the range of the cells' timestamps.
    pub(crate) fn span(&self) -> Span {
        let mut all = Span::default();
        self.slots.iter().for_each(|slot| all.join(slot.figures.span()));
        all
    }

    /// Whether the cells may include a marker that deletes a whole family of its row.
    pub(crate) fn may_delete_families(&self) -> bool {
        self.slots.iter().any(|slot| slot.figures.deletes_families.load(Ordering::Acquire))
    }

    /// Returns the common prefix of all rows.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        let tree = self.index(self.current());
        let first = tree.first(&self.records).place();
        let last = tree.last_before(None, &self.records);
        match (first, last) {
            // Rows of the catalog are not in byte order. So its first and last row say nothing about the prefix of the
            // others.
            (Some(first), Some(last)) if self.records.comparator() == Comparator::Table => {
                common_prefix(self.records.cell(first).row(), self.records.cell(last).row()).to_vec()
            }
            _ => tree.heads().prefix().to_vec(),
        }
    }

    /// Seals the segment. Returns the chunks that are not full, for the next segment; the chunk of the first slot is
    /// last.
    pub(crate) fn seal(&self) -> Vec<Appender> {
        let mut slots = self.enter_all();
        let mut left_open = self.source.take_left();
        for slot in slots.iter_mut().rev() {
            slot.sealed = true;
            left_open.extend(slot.filler.take_open());
        }
        left_open
    }

    /// Returns the bytes of records in each chunk, by chunk number. Valid once the segment is sealed.
    pub(crate) fn fills(&self) -> Vec<Fill> {
        let mut fills = vec![Fill::default(); self.records.chunks().count()];
        for slot in self.enter_all().iter() {
            slot.filler
                .left()
                .iter()
                .for_each(|&(number, bytes)| fills[number as usize].live += bytes as u64);
        }
        fills
    }

    /// Builds a flat index over the same cells. Reads no cell if the heads of the active index can be used.
    ///
    /// # Panics
    /// When the segment is not sealed.
    pub(crate) fn flattened(&self, expected: usize) -> Flat {
        assert!(self.slots[0].writing.lock().sealed, "a segment is flattened when it takes no more writes");
        let tree = self.index(self.current());
        let heads = Heads::new(self.records.comparator(), &self.prefix());
        let same_heads = heads == *tree.heads();
        let mut builder = Builder::new(heads.clone(), expected);
        tree.each(|head, place| {
            let head = if same_heads { head } else { heads.of(self.records.cell(place).row()) };
            builder.push(head, place);
        });
        builder.finish(Records::of(self.records.comparator(), self.records.chunks().cloned()), self.fills())
    }

    /// Returns the position of the first cell.
    pub(crate) fn first(&self) -> ActivePosition {
        let index = self.current();
        ActivePosition { index, run: self.index(index).first(&self.records) }
    }

    /// Returns the position of the first cell at or after `position`.
    #[inline]
    pub(crate) fn seek(&self, position: Position<'_>) -> ActivePosition {
        let index = self.current();
        let tree = self.index(index);
        ActivePosition { index, run: tree.seek(&tree.probe(position), false, &self.records) }
    }

    /// Like [`seek`](Self::seek), but returns nothing if no cell has the row's head, so that the row is absent.
    #[inline]
    pub(crate) fn seek_in_row(&self, position: Position<'_>) -> Option<ActivePosition> {
        let index = self.current();
        let tree = self.index(index);
        let run = tree.seek_in_row(&tree.probe(position), &self.records)?;
        Some(ActivePosition { index, run })
    }

    #[inline]
    pub(crate) fn advance(&self, spot: &mut ActivePosition) {
        self.index(spot.index).advance(&mut spot.run, &self.records);
    }

    #[inline]
    pub(crate) fn place_at(&self, spot: &ActivePosition) -> Option<Place> {
        spot.run.place()
    }

    /// Returns the last cell before `end`, or the last of all; `None` if there is none.
    pub(crate) fn last_before(&self, end: Option<Position<'_>>) -> Option<Cell<'_>> {
        let tree = self.index(self.current());
        let probe = end.map(|end| tree.probe(end));
        tree.last_before(probe.as_ref(), &self.records).map(|place| self.records.cell(place))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn without_contention_every_writer_takes_the_first_slot() {
        let active = Active::new(Comparator::Table, &Pool::new(4 << 10, 1), b"", Vec::new());
        let insert = |row: &[u8]| {
            active.insert([&sample::cell(row, b"", 1, b"")[..]], SequenceId(1));
        };
        let cells =
            || active.slots.each_ref().map(|slot| slot.figures.cells.load(Ordering::Relaxed))[..2].to_vec();
        // As if an earlier segment at the same address had left this value.
        LAST_SLOT.set((std::ptr::from_ref(&active).addr(), 1));
        insert(b"a");
        assert_eq!(cells(), [1, 0]);
        active.share();
        insert(b"b");
        assert_eq!(cells(), [1, 1]);
        let slot = active.slots[1].writing.lock();
        insert(b"c");
        drop(slot);
        assert_eq!((active.cells(), cells()[1]), (3, 1));
    }
}
