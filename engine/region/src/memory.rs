//! The pipeline between the active segment and the flush: a memstore that compacts in memory.
//!
//! 1. A write that fills the active segment up to its bound, a part of the flush size, seals it: a new one takes its
//!    place and the old one enters the pipeline. That is a swap of pointers, under the region's write lock.
//! 2. In the background the sealed segment becomes flat: its cells stay, its index shrinks to a third.
//! 3. A [`Policy`] decides over the flat segments together: leave them, merge their indexes, or drop what nobody can ask
//!    for any more, and copy what lives where much is dead ([`memstore::Cleaning`]). What is made takes their place, unless
//!    a flush has taken them meanwhile.
//! 4. A flush takes the active segment and the pipeline as they are. What was rewritten since the last one it may give
//!    back: see [`retained`](crate::retained_rows).
//!
//! **What may be dropped.** The same as a flush drops, by the same rules ([`CompactionMatcher`]), among the cells up to the read
//! point: a newer cell is kept and counts for nothing, since a reader may still need what is before it. A scanner that
//! is open holds the segments that it began with. One that opens sees in the view's horizon up to which point has been
//! decided, and begins no earlier than that.
//!
//! **Markers too** ([`RegionOptions::drop_markers`]): what a queue has deleted goes together with its markers, where
//! nothing but the pipeline can have the row, and what is remembered of them is a tenth of them: see
//! [`dropped_markers`](crate::dropped_markers). A marker that is to mask what comes later comes back. It goes only if its timestamp is of
//! [a while](Region::before) before the pipeline was sealed: puts that are older than that are noted when they come, so that it
//! is known of every put outside the pipeline that the marker does not mask it. Families that keep deleted cells, in which what was
//! written later wins, or whose tables keep markers for a while (`hbase.hstore.time.to.purge.deletes`) keep theirs.
//!
//! **How much.** Before an adaptive store pays for copying, the rules judge the rows of some cells drawn at random; a
//! row is drawn as often as it has cells, so the mean of the rows' shares is the share of all.
//!
//! The pipeline has at most two segments more than its limit: while the background is behind, the active one grows. It may
//! have more where chunks are small for what is written: a segment tells so many chunks apart and no more, so it is sealed
//! when it has them, within a write, too, and at any level. At [`Level::None`] such segments become flat and wait for the
//! flush.
//!
//! **When to flush.** At the flush size, unless memory can be made smaller instead: then the active segment is sealed,
//! however little it has, and what all of them have is compacted once more ([`Region::needs_flush`]). That goes on for as
//! long as it drops an eighth at a time, so that what is flushed in the end is different rows, and as many as fit.
//!
//! **How much to hold.** More memory means fewer flushes, of larger files, and fewer compactions behind them; and what is
//! flat is cheap to hold, to read and to drop from. So while the server's memory has room, a region whose stores compact
//! in memory may hold [`RegionOptions::stretch`] flush sizes; the less room there is, the less: at half of the lower mark
//! one flush size, as all others. Regions that differ in when they began then differ in when they flush.

mod accordion;
mod compaction;
mod figures;
mod late;
mod pipeline;

use std::sync::atomic::Ordering;

use memstore::Level;

use crate::flush_decision::{FlushDecision, FlushFacts, FlushUrgency, decide_flush, flush_limit};
use crate::open::Access;
use crate::region::Region;
use crate::store::Store;
use crate::{FlushReason, Result};

pub(crate) use accordion::{Accordion, LevelChoice};
pub use figures::{MemoryAct, MemoryCounts, MemoryEvent, MemoryLoad, MemoryUse, SegmentLoad};

/// Which part of a store's share of the flush size the list of markers that have gone may take, and which part of it those
/// of its files.
const DROPPED_PART: u64 = 8;
/// Of a store's share of the flush size, what must be left when it was compacted so that this is not worth another time.
const SPENT_PART: f64 = 0.9375;

/// What a region has in memory: looked up once after each write, for all who ask then.
#[derive(Clone, Copy, Debug, Default)]
pub struct InMemory {
    /// Bytes of all stores.
    pub bytes: u64,
    /// Whether a list of markers has grown so long that it should be in a file.
    has_many_markers: bool,
}

impl Region {
    /// Whether segments wait in memory for [`Region::compact_memory`].
    pub fn needs_memory_compaction(&self) -> bool {
        self.stores.iter().any(|store| store.accordion.waiting.load(Ordering::Acquire))
    }

    /// Does what there is to do with sealed segments. `pressure` says how full the memory of all memstores is, from 0 to
    /// 1; a region that is fuller than that, of what it may hold, counts as such. Reads, writes and flushes go on
    /// meanwhile.
    pub fn compact_memory(&self, pressure: f64) {
        // What is dropped now puts off the flush that is near.
        let limit = self.flush_limit(pressure);
        let near = pressure.max((self.memstore_bytes() as f64 / limit.max(1) as f64).min(1.0));
        let stores = self.stores.len().max(1) as f64;
        for store in &self.stores {
            // What comes before one looks again.
            let step = store.accordion.bound.load(Ordering::Relaxed) as f64 / limit.max(1) as f64;
            // So that not the next one wants room, but the one after that.
            let short = (near + 2.0 * step - 1.0).max(0.0) * limit as f64;
            self.compact_memory_of(store, near, step, short as u64);
            let left = store.memstore_bytes() as f64;
            store.accordion.spent.store(left >= limit as f64 / stores * SPENT_PART, Ordering::Relaxed);
        }
        self.memstore.awaits_room.store(false, Ordering::Relaxed);
    }

    /// Whether it is time to flush. `pressure` is as for [`Region::compact_memory`]. What can be made smaller instead is
    /// sealed, for whoever compacts memory ([`Region::asks_for_memory_compaction`] says so), and while that is done there
    /// is time for a quarter more.
    pub fn needs_flush(&self, pressure: f64) -> bool {
        self.needs_flush_of(self.memory(), pressure)
    }

    /// The same of what was looked up before.
    pub fn needs_flush_of(&self, memory: InMemory, pressure: f64) -> bool {
        matches!(self.decide_flush(memory, pressure, FlushUrgency::default()), FlushDecision::Flush(_))
    }

    /// Whether it is time to flush, and why, of what was [looked up](Region::memory) before. Where memory can be made smaller
    /// instead, what can is sealed.
    pub fn decide_flush(&self, memory: InMemory, pressure: f64, urgency: FlushUrgency) -> FlushDecision {
        let facts = self.flush_facts(memory, pressure, urgency);
        let decision = decide_flush(&facts, || self.is_memory_shrinking() || self.squeeze());
        self.await_room(decision == FlushDecision::Shrink);
        decision
    }

    /// Why the region is flushed that its server has chosen. One that need not be by itself makes room for others.
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
            // Below the flush size the limit is not reached, whatever it is.
            limit: if bytes < self.flush_size { self.flush_size } else { self.flush_limit(pressure) },
            has_many_markers: memory.has_many_markers,
            // What is being flushed is still among these bytes; how much came meanwhile is looked at when it has ended.
            is_flushing: self.flushing.is_locked(),
            urgency,
        }
    }

    /// What it has in memory.
    pub fn memory(&self) -> InMemory {
        self.stores.iter().fold(InMemory::default(), |memory, store| {
            let view = store.view.load();
            InMemory {
                bytes: memory.bytes + view.memory_bytes(),
                has_many_markers: memory.has_many_markers
                    || view.dropped_markers.size() > store.accordion.share / DROPPED_PART,
            }
        })
    }

    fn await_room(&self, awaits: bool) {
        if self.memstore.awaits_room.load(Ordering::Relaxed) != awaits {
            self.memstore.awaits_room.store(awaits, Ordering::Relaxed);
        }
    }

    /// Whether a flush waits for [`Region::compact_memory`], which should not be waited for long: then there will be one all the
    /// same, and what was done in memory was for nothing.
    pub fn awaits_memory_compaction(&self) -> bool {
        self.memstore.awaits_room.load(Ordering::Relaxed)
    }

    /// How it uses its memory.
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

    /// How near its memory was to the limit at which it takes no writes when it was last [added up](Region::memory_change): 1 is
    /// there.
    pub fn fullness(&self) -> f64 {
        let limit = self.flush_size.saturating_mul(self.options.block_multiplier);
        self.memstore.accounted.load(Ordering::Relaxed) as f64 / limit.max(1) as f64
    }

    /// Bytes in memory at which it is time to flush.
    pub(crate) fn flush_limit(&self, pressure: f64) -> u64 {
        let stretch = self.options.stretch.min(self.options.block_multiplier as f64 / 2.0);
        let compacts = |store: &Store| store.accordion.policy().level != Level::None;
        flush_limit(self.flush_size, stretch, self.stores.iter().all(compacts), pressure)
    }

    /// Seals what stores have in their active segments if compacting them may free something. Says whether it may.
    fn squeeze(&self) -> bool {
        let may_free = |store: &&Store| {
            let accordion = &store.accordion;
            accordion.drops() && !accordion.spent.load(Ordering::Relaxed)
        };
        let state = self.write.lock();
        if state.closing {
            return false;
        }
        let mut frees = false;
        for store in self.stores.iter().filter(may_free) {
            frees |= store.seal(&self.options.memory, self.sealed(state.last_sequence));
            // One attempt; if it frees enough there will be another.
            store.accordion.spent.store(true, Ordering::Relaxed);
        }
        frees
    }

    /// Whether somebody is about to make sealed segments smaller, or at it, so that a flush may not be needed.
    fn is_memory_shrinking(&self) -> bool {
        let shrinks =
            |accordion: &Accordion| accordion.told.load(Ordering::Relaxed) || accordion.working.is_locked();
        self.stores.iter().any(|store| shrinks(&store.accordion))
    }

    /// Whether [`Region::compact_memory`] should be called, said once: until it is called it is not said again.
    pub fn asks_for_memory_compaction(&self) -> bool {
        // The first is a load, and nearly always enough.
        let asks = |accordion: &Accordion| {
            accordion.waiting.load(Ordering::Relaxed)
                && !accordion.told.load(Ordering::Relaxed)
                && !accordion.told.swap(true, Ordering::AcqRel)
        };
        self.stores.iter().any(|store| asks(&store.accordion))
    }

    /// What the memory of a family's store did lately, oldest first.
    pub fn memory_events(&self, family: &[u8]) -> Result<Vec<MemoryEvent>> {
        Ok(self.store(family)?.accordion.history.lock().events.iter().copied().collect())
    }
}
