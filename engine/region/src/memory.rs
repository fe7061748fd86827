//! A store's memory between the active segment and the flush: a memstore that compacts in memory (HBase:
//! CompactingMemStore).
//!
//! 1. A write that fills the active segment up to its bound, a part of the flush size, seals it. A new segment takes
//!    its place and the old one enters the pipeline. This is a swap of pointers under the region's write lock.
//! 2. A background thread flattens the sealed segment: the cells stay in place, the index shrinks to a third.
//! 3. A [`memstore::Policy`] decides about all flat segments together: leave them, merge their indexes, or drop
//!    redundant cells. When dropping, cells are copied out of chunks that are mostly dead ([`memstore::Cleaning`]). The
//!    result replaces the segments unless a flush has taken them meanwhile.
//! 4. A flush takes the active segment and the pipeline. It may leave rows that were rewritten since the last flush in
//!    memory: see [`retained_rows`](crate::retained_rows).
//!
//! **What may be dropped.** The same cells that a flush drops, by the same rules
//! ([`CompactionMatcher`](crate::compaction_matcher)), up to the read point. Newer cells are kept and hide nothing,
//! since a reader may still need the cells they replace. An open scanner keeps the segments with which it began. A new
//! scanner's read point is at least the view's horizon, which is the read point up to which cells were dropped.
//!
//! **Delete markers too** ([`crate::RegionOptions::drop_markers`]). Cells that were put and deleted in memory are
//! dropped together with their markers, if no cell of the row can be outside the pipeline. A dropped marker leaves a
//! record of 24 bytes: see [`dropped_markers`](crate::dropped_markers). If the marker would have masked a later put, it
//! is inserted again. A marker is dropped only if its timestamp is [some time](crate::Region::late_before) before the
//! pipeline was sealed. Puts with older timestamps are recorded as they arrive, so every other put outside the pipeline
//! is known not to be masked. Families with KEEP_DELETED_CELLS or NEW_VERSION_BEHAVIOR keep their markers, and so do
//! tables that keep markers for a time (`hbase.hstore.time.to.purge.deletes`).
//!
//! **How much would be dropped.** At [`Level::Adaptive`] a compaction is estimated before it copies cells: the rules
//! are applied to the rows of some randomly chosen cells. The probability of a row is proportional to its number of
//! cells, so the mean over the sampled rows is an estimate for all cells.
//!
//! **Limits.** The pipeline has at most two segments more than its limit; while the background thread is late, the
//! active segment grows instead. There is one exception: a segment can address a fixed number of chunks, and is sealed
//! when it has them, even within a write and at any level. At [`Level::None`] such segments become flat and wait for
//! the flush.
//!
//! **When to flush.** At the flush size, unless a compaction can make memory smaller. In that case the active segment
//! is sealed, however small, and all segments are compacted once more ([`crate::Region::needs_flush`]). This repeats as
//! long as a compaction leaves less than 15/16 of the limit, so that the flush finally writes as many distinct rows as
//! fit.
//!
//! **How much to hold.** More memory means fewer flushes, larger files and fewer compactions, and flat segments are
//! cheap to hold and to read. While the server's memory has room, a region whose stores compact in memory may hold
//! [`crate::RegionOptions::stretch`] flush sizes, but no more than half of the size at which it refuses writes. As the
//! server's memory fills up to half of its lower mark, this falls to one flush size, as for all other regions. Until
//! then, regions that were opened at different times also flush at different times.

mod compaction;
mod late;
mod pipeline;

use std::sync::atomic::Ordering;

use memstore::Level;

use crate::accordion::{Accordion, InMemory, MemoryEvent, MemoryUse};
use crate::flush_decision::{FlushDecision, FlushFacts, FlushUrgency, decide_flush, flush_limit};
use crate::options::Access;
use crate::region::Region;
use crate::store::Store;
use crate::{FlushReason, Result};

/// Divisor of the store's part of the flush size; the quotient is the maximum size of the store's list of dropped
/// markers.
const MARKER_LIST_DIVISOR: u64 = 8;
/// A compaction that leaves at least this fraction of the region's flush limit, divided by its number of stores, did
/// not pay. A flush of the region does not wait for another compaction of this store.
const EXHAUSTED_FRACTION: f64 = 0.9375;

impl Region {
    /// Whether segments wait in memory for [`Region::compact_memory`].
    pub fn needs_memory_compaction(&self) -> bool {
        self.stores.iter().any(|store| store.accordion.waiting.load(Ordering::Acquire))
    }

    /// Compacts the sealed segments of all stores, while reads, writes and flushes continue. `pressure` says how full
    /// the server's memory for memstores is, from 0 to 1. If the region's own memory is fuller, its fullness is used
    /// instead.
    pub fn compact_memory(&self, pressure: f64) {
        // The fuller the region's memory is, the more eagerly it is compacted, because dropping cells delays the flush.
        let limit = self.flush_limit(pressure);
        let near = pressure.max((self.memstore_bytes() as f64 / limit.max(1) as f64).min(1.0));
        let stores = self.stores.len().max(1) as f64;
        for store in &self.stores {
            // The size of an active segment as a fraction of the limit. Memory is compacted again after it has grown by
            // this fraction.
            let step = store.accordion.bound.load(Ordering::Relaxed) as f64 / limit.max(1) as f64;
            // The compaction should free enough room for two more segments, so that the next one does not have to run
            // at once.
            let short = (near + 2.0 * step - 1.0).max(0.0) * limit as f64;
            self.compact_memory_of(store, near, step, short as u64);
            let left = store.memstore_bytes() as f64;
            store
                .accordion
                .exhausted
                .store(left >= limit as f64 / stores * EXHAUSTED_FRACTION, Ordering::Relaxed);
        }
        self.memstore.awaits_room.store(false, Ordering::Relaxed);
    }

    /// Whether it is time to flush. `pressure` says how full the server's memory for memstores is, from 0 to 1. If
    /// memory can be made smaller instead, this returns `false` and seals the active segments, and
    /// [`Region::asks_for_memory_compaction`] then returns true. While that compaction runs, memory may grow by another
    /// quarter.
    pub fn needs_flush(&self, pressure: f64) -> bool {
        self.needs_flush_of(self.memory(), pressure)
    }

    /// Like [`crate::Region::needs_flush`], for a caller that has already read `memory`.
    pub fn needs_flush_of(&self, memory: InMemory, pressure: f64) -> bool {
        matches!(self.decide_flush(memory, pressure, FlushUrgency::default()), FlushDecision::Flush(_))
    }

    /// Decides whether to flush, and why. `memory` is the result of [`Region::memory`]. If compacting memory may delay
    /// the flush, this seals the active segments that may shrink and returns [`FlushDecision::Shrink`].
    pub fn decide_flush(&self, memory: InMemory, pressure: f64, urgency: FlushUrgency) -> FlushDecision {
        let facts = self.flush_facts(memory, pressure, urgency);
        let decision = decide_flush(&facts, || self.is_memory_shrinking() || self.seal_for_compaction());
        self.set_awaits_room(decision == FlushDecision::Shrink);
        decision
    }

    /// Returns the reason for flushing a region that its server has chosen. Unless the region itself has a reason, it
    /// is [`FlushReason::MemstoreSize`]: the server needs the memory.
    pub fn reason_to_flush(&self, pressure: f64, urgency: FlushUrgency) -> FlushReason {
        match decide_flush(&self.flush_facts(self.memory(), pressure, urgency), || false) {
            FlushDecision::Flush(reason) => reason,
            FlushDecision::Wait | FlushDecision::Shrink => FlushReason::MemstoreSize,
        }
    }

    fn flush_facts(&self, memory: InMemory, pressure: f64, urgency: FlushUrgency) -> FlushFacts {
        let bytes = memory.bytes;
        FlushFacts {
            is_reader: self.access == Access::Reader,
            bytes,
            // A region below its flush size is below any limit, so the limit is not computed.
            limit: if bytes < self.flush_size { self.flush_size } else { self.flush_limit(pressure) },
            has_many_markers: memory.has_many_markers,
            // `bytes` still include what is being flushed. When that flush ends, its thread checks the rest again.
            is_flushing: self.flushing.is_locked(),
            urgency,
        }
    }

    /// Returns how much memory the region uses now.
    pub fn memory(&self) -> InMemory {
        self.stores.iter().fold(InMemory::default(), |memory, store| {
            let view = store.view.load();
            InMemory {
                bytes: memory.bytes + view.memory_bytes(),
                has_many_markers: memory.has_many_markers
                    || view.dropped_markers.size() > store.accordion.share / MARKER_LIST_DIVISOR,
            }
        })
    }

    fn set_awaits_room(&self, awaits: bool) {
        if self.memstore.awaits_room.load(Ordering::Relaxed) != awaits {
            self.memstore.awaits_room.store(awaits, Ordering::Relaxed);
        }
    }

    /// Whether a flush waits for [`Region::compact_memory`]. The caller should call that soon: if it comes too late,
    /// the region is flushed anyway, and the compaction was useless.
    pub fn awaits_memory_compaction(&self) -> bool {
        self.memstore.awaits_room.load(Ordering::Relaxed)
    }

    /// Returns how the region uses its memory, for choosing a region to flush.
    pub fn memory_use(&self) -> MemoryUse {
        let mut memory = MemoryUse::default();
        let (mut before, mut dropped) = (0, 0);
        for store in &self.stores {
            let view = store.view.load();
            let flushing: u64 = view.snapshot.iter().map(|segment| segment.bytes()).sum();
            memory.bytes += view.memory_bytes().saturating_sub(flushing);
            memory.compacts |= store.accordion.policy().level != Level::None;
            let counts = store.accordion.history.lock().counts;
            before += counts.cells_compacted;
            dropped += counts.cells_dropped;
        }
        memory.dropped = dropped as f64 / before.max(1) as f64;
        memory
    }

    /// Returns how full the region's memory was when it was last [added up](Region::memory_change): above 1 the region
    /// refuses writes, unless it is a region of `hbase:meta`.
    pub fn fullness(&self) -> f64 {
        let limit = self.flush_size.saturating_mul(self.options.block_multiplier);
        self.memstore.accounted.load(Ordering::Relaxed) as f64 / limit.max(1) as f64
    }

    /// Whether the region has more than half of its flush size in memory.
    pub fn memory_exceeds_half(&self) -> bool {
        self.memstore_bytes() > self.flush_size / 2
    }

    /// Returns the number of bytes in memory at which the region flushes.
    pub(crate) fn flush_limit(&self, pressure: f64) -> u64 {
        let stretch = self.options.stretch.min(self.options.block_multiplier as f64 / 2.0);
        let compacts = |store: &Store| store.accordion.policy().level != Level::None;
        flush_limit(self.flush_size, stretch, self.stores.iter().all(compacts), pressure)
    }

    /// Seals the active segments of stores whose compaction may free memory. Returns whether any of them may.
    fn seal_for_compaction(&self) -> bool {
        let may_free = |store: &&Store| {
            let accordion = &store.accordion;
            accordion.drops() && !accordion.exhausted.load(Ordering::Relaxed)
        };
        let state = self.write.lock();
        if state.closing {
            return false;
        }
        let mut frees = false;
        for store in self.stores.iter().filter(may_free) {
            frees |= store.seal(&self.options.memory, self.sealed(state.last_sequence));
            // The store counts as exhausted unless the compaction frees enough, which clears the mark.
            store.accordion.exhausted.store(true, Ordering::Relaxed);
        }
        frees
    }

    /// Whether a memory compaction is requested or running, so that a flush may not be needed.
    fn is_memory_shrinking(&self) -> bool {
        let shrinks = |accordion: &Accordion| {
            accordion.announced.load(Ordering::Relaxed) || accordion.working.is_locked()
        };
        self.stores.iter().any(|store| shrinks(&store.accordion))
    }

    /// Whether [`Region::compact_memory`] should be called. Returns true at most once for each store until it is
    /// called.
    pub fn asks_for_memory_compaction(&self) -> bool {
        // Loading `waiting` is cheap, and in nearly all cases it is `false`.
        let asks = |accordion: &Accordion| {
            accordion.waiting.load(Ordering::Relaxed)
                && !accordion.announced.load(Ordering::Relaxed)
                && !accordion.announced.swap(true, Ordering::AcqRel)
        };
        self.stores.iter().any(|store| asks(&store.accordion))
    }

    /// Returns the recent changes of the memory of a family's store, oldest first; at most 64.
    pub fn memory_events(&self, family: &[u8]) -> Result<Vec<MemoryEvent>> {
        Ok(self.store(family)?.accordion.history.lock().events.iter().copied().collect())
    }
}
