//! The pipeline between the active segment and the flush: a memstore that compacts in memory.
//!
//! 1. A write that fills the active segment up to its bound, a part of the flush size, seals it: a new one takes its
//!    place and the old one enters the pipeline. That is a swap of pointers, under the region's write lock.
//! 2. In the background the sealed segment becomes flat: its cells stay, its index shrinks to a third.
//! 3. A [`Policy`] decides over the flat segments together: leave them, merge their indexes, or drop what nobody can ask
//!    for any more, and copy what lives where much is dead ([`memstore::Cleaning`]). What is made takes their place, unless
//!    a flush has taken them meanwhile.
//! 4. A flush takes the active segment and the pipeline as they are. What was rewritten since the last one it may give
//!    back: see [`young`](crate::young).
//!
//! **What may be dropped.** The same as a flush drops, by the same rules ([`Rewrite`]), among the cells up to the read
//! point: a newer cell is kept and counts for nothing, since a reader may still need what is before it. A scanner that
//! is open holds the segments that it began with. One that opens sees in the view's horizon up to which point has been
//! decided, and begins no earlier than that.
//!
//! **Markers too** ([`RegionOptions::drop_markers`]): what a queue has deleted goes together with its markers, where
//! nothing but the pipeline can have the row, and what is remembered of them is a tenth of them: see
//! [`swept`](crate::swept). A marker that is to mask what comes later comes back. It goes only if its timestamp is of
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

mod figures;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cell::block::split_cell;
use cell::{Cell, CellType, KeyBuf, SequenceId};
use env::sync::Mutex;
use hfile::ReadOptions;
use memstore::{Action, Cleaning, Compacted, Cursor, Level, Policy, Pool, Segment, Trust};
use proto::descriptor::KeepDeletedCells;

use crate::flush_decision::{FlushDecision, FlushFacts, FlushUrgency, decide_flush, flush_limit};
use crate::heap::{Heap, Source};
use crate::open::Access;
use crate::region::Region;
use crate::rewrite::{Rewrite, RewriteKind};
use crate::store::{Sealed, Store, View};
use crate::store_file::StoreFile;
use crate::swept::{Late, Sweep, Swept};
use crate::young::{Allowance, Split, Young};
use crate::{FlushReason, RegionOptions, Result};

pub use figures::{MemoryAct, MemoryCounts, MemoryEvent, MemoryLoad, MemoryUse, SegmentLoad};

/// Segments beyond the pipeline's limit that may wait for the background.
const BEHIND_MAX: usize = 2;
/// Rows that an estimate looks at, and cells of each.
const SAMPLE_ROWS: u64 = 64;
const SAMPLE_CELLS: u64 = 1_000;
/// Events that a store remembers.
const EVENTS_MAX: usize = 64;
/// What the bound of the active segment is of the flush size, where nothing else is said.
const BOUND_PART: f64 = 0.25;
/// How far the past is that nobody writes to who has the right time, in ms.
const GRACE_MS: i64 = 20;
/// Which part of a store's share of the flush size the list of markers that have gone may take, and which part of it those
/// of its files.
const SWEPT_PART: u64 = 8;
const SWEPT_PART_OF_FILES: u64 = 2;
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

#[derive(Default)]
struct Log {
    trust: Trust,
    counts: MemoryCounts,
    events: VecDeque<MemoryEvent>,
}

/// What was said of how a store compacts in memory, beside the options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Whether the table is the system's: then its families have no say.
    pub(crate) is_system: bool,
    /// What the family says.
    pub(crate) family: Option<Level>,
}

impl Asked {
    fn level(self, options: &RegionOptions) -> Level {
        if self.is_system {
            options.in_memory_compaction_of_system
        } else {
            self.family.unwrap_or(options.in_memory_compaction)
        }
    }
}

/// What a store knows of its own memory.
pub(crate) struct Accordion {
    asked: Asked,
    /// The store's share of the region's flush size.
    share: u64,
    policy: Mutex<Policy>,
    /// Bytes at which the active segment is sealed; the greatest number for never.
    bound: AtomicU64,
    /// Whether something waits for the background.
    waiting: AtomicBool,
    /// Whether somebody was told so.
    told: AtomicBool,
    /// Whether memory cannot be made much smaller any more before the next flush.
    spent: AtomicBool,
    /// One at a time works on a store's pipeline.
    working: Mutex<()>,
    /// Puts that came late. Whoever holds it may let markers go.
    late: Mutex<Late>,
    log: Mutex<Log>,
    /// Of what stayed at the last flush.
    young: Mutex<Young>,
}

impl Accordion {
    pub(crate) fn new(asked: Asked, share: u64, options: &RegionOptions) -> Accordion {
        let accordion = Accordion {
            asked,
            share,
            policy: Mutex::new(Policy { level: Level::None, segments_max: 0, unique_max: 0.0 }),
            bound: AtomicU64::new(u64::MAX),
            waiting: AtomicBool::new(false),
            told: AtomicBool::new(false),
            spent: AtomicBool::new(false),
            working: Mutex::new(()),
            late: Mutex::default(),
            log: Mutex::default(),
            young: Mutex::default(),
        };
        accordion.tune(options);
        accordion
    }

    /// From now on the store follows `options`.
    pub(crate) fn tune(&self, options: &RegionOptions) {
        let level = self.asked.level(options);
        let factor = options.in_memory_flush_factor;
        let part = if factor > 0.0 { factor } else { BOUND_PART };
        let bound = (self.share as f64 * part).max(1.0) as u64;
        *self.policy.lock() = Policy {
            level,
            segments_max: options.pipeline_segments_max.max(1),
            unique_max: options.adaptive_unique_max,
        };
        self.bound.store(if level == Level::None { u64::MAX } else { bound }, Ordering::Relaxed);
    }

    fn policy(&self) -> Policy {
        *self.policy.lock()
    }

    /// A flush takes all there is.
    pub(crate) fn flushed(&self) {
        self.spent.store(false, Ordering::Relaxed);
        self.late.lock().clear();
    }

    /// Whether it decides by what pays.
    pub(crate) fn is_adaptive(&self) -> bool {
        self.policy().level == Level::Adaptive
    }

    /// What of a snapshot stays in memory, if anything does.
    pub(crate) fn split(
        &self,
        snapshot: &[Arc<Segment>],
        sequence: SequenceId,
        allowance: Allowance,
        rewrite: Rewrite,
    ) -> Option<Split> {
        let dropped = self.log.lock().counts.cells_dropped;
        let (split, spared) = self.young.lock().split(snapshot, sequence, dropped, allowance, rewrite);
        self.log.lock().counts.bytes_spared += spared;
        split
    }

    /// Whether the log has writes that were in memory at the last flush and are not in the files up to their sequence ids.
    pub(crate) fn has_young(&self) -> bool {
        self.young.lock().has_stayed()
    }

    /// A flush has written the snapshot up to `sequence`, but for `stayed` bytes, if `kept` tells of some.
    pub(crate) fn flush_done(&self, sequence: SequenceId, stayed: u64, kept: Option<MemoryEvent>) {
        let mut log = self.log.lock();
        if let Some(event) = kept {
            log.counts.kept += 1;
            log.counts.bytes_kept += stayed;
            log.remember(event);
        }
        self.young.lock().flushed(sequence, stayed, log.counts.cells_dropped);
    }

    /// Whether it drops what is redundant.
    fn drops(&self) -> bool {
        matches!(self.policy().level, Level::Eager | Level::Adaptive)
    }
}

impl std::fmt::Debug for Accordion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accordion")
            .field("policy", &self.policy())
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

/// What a flush drops, among the cells that every reader to come sees; and markers that mask nothing elsewhere.
struct Judge<'a> {
    rewrite: Rewrite,
    horizon: SequenceId,
    /// Markers that go; `None` where they stay.
    sweep: Option<Sweep>,
    /// Where older cells of a row could be.
    files: &'a [Arc<StoreFile>],
    /// The row of the last marker, and whether it is nowhere else.
    row: Vec<u8>,
    is_nowhere_else: bool,
}

impl<'a> Judge<'a> {
    fn new(region: &Region, store: &Store, view: &'a View, horizon: SequenceId) -> Judge<'a> {
        let (keeping, now) = (store.keeping, region.world.now().0);
        let markers_go = region.options.drop_markers
            && keeping.keep_deleted == KeepDeletedCells::False
            && !keeping.new_versions
            && store.tuning.load().purge_deletes_after <= 0
            && view.snapshot.is_empty()
            // What is not complete yet counts for nothing, and must not be uncovered.
            && view.sealed.through <= horizon
            && view.files.iter().map(|file| file.swept.size()).sum::<u64>() <= store.accordion.share / SWEPT_PART_OF_FILES;
        let sweep = || Sweep::new(&store.accordion.late.lock(), view.sealed.below);
        Judge {
            rewrite: Rewrite::new(keeping, RewriteKind::Some, now),
            horizon,
            sweep: markers_go.then(sweep).flatten(),
            files: &view.files,
            row: Vec::new(),
            is_nowhere_else: false,
        }
    }

    #[inline]
    fn keeps(&mut self, cell: Cell<'_>) -> bool {
        if cell.sequence() > self.horizon {
            return true;
        }
        self.rewrite.keeps(cell)
            && !(cell.cell_type().is_some_and(CellType::is_delete) && self.masks_nothing_else(cell))
    }

    /// Whether a marker, which was told to the rest of its row, masks nothing that lies elsewhere.
    fn masks_nothing_else(&mut self, marker: Cell<'_>) -> bool {
        let Some(sweep) = self.sweep.as_mut().filter(|sweep| sweep.takes(marker)) else { return false };
        if self.row != marker.row() {
            self.row.clear();
            self.row.extend_from_slice(marker.row());
            let options = ReadOptions::default();
            // Who cannot be asked may have it.
            let may_have =
                |file: &Arc<StoreFile>| file.reader.may_contain_row(&self.row, options).unwrap_or(true);
            self.is_nowhere_else = !sweep.is_late(&self.row) && !self.files.iter().any(may_have);
        }
        if self.is_nowhere_else {
            sweep.drop_marker(marker);
        }
        self.is_nowhere_else
    }
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
        self.awaits_room.store(false, Ordering::Relaxed);
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
                    || view.swept.size() > store.accordion.share / SWEPT_PART,
            }
        })
    }

    fn await_room(&self, awaits: bool) {
        if self.awaits_room.load(Ordering::Relaxed) != awaits {
            self.awaits_room.store(awaits, Ordering::Relaxed);
        }
    }

    /// Whether a flush waits for [`Region::compact_memory`], which should not be waited for long: then there will be one all the
    /// same, and what was done in memory was for nothing.
    pub fn awaits_memory_compaction(&self) -> bool {
        self.awaits_room.load(Ordering::Relaxed)
    }

    /// The moment before which, at this one, a put is late: in ms since 1970. Who leaves the timestamp to the server, or
    /// has a clock that is as right, is not late.
    pub(crate) fn before(clock: i64) -> i64 {
        clock.saturating_sub(GRACE_MS)
    }

    /// What segments reach to that are sealed after the write `through`. The write lock is held.
    pub(crate) fn sealed(&self, through: SequenceId) -> Sealed {
        Sealed { below: Region::before(self.clock.load(Ordering::Relaxed)), through }
    }

    /// Adds cells of one write to the active segment of a store, and where it cannot tell more chunks apart to those after it.
    /// The write lock is held.
    pub(crate) fn insert_into<'a>(
        &self,
        store: &Store,
        cells: impl IntoIterator<Item = &'a [u8]>,
        sequence: SequenceId,
    ) {
        let mut cells = cells.into_iter();
        while !store.view.load().active.insert(&mut cells, sequence) {
            store.seal_now(&self.options.memory, self.sealed(sequence));
        }
    }

    /// Puts of `run`, which were just inserted, came later than their timestamps say: the markers that they are masked by
    /// stay, and come back if they have gone. The write lock is held.
    pub(crate) fn mask_late(&self, store: &Store, run: &[u8], sequence: SequenceId, moment: i64) {
        let mut rest = run;
        let cells = std::iter::from_fn(|| {
            let (bytes, after) = split_cell(rest)?;
            rest = after;
            Some(Cell::trusted(bytes, sequence))
        });
        let is_late = |cell: &Cell<'_>| {
            cell.timestamp().0 < moment && !cell.cell_type().is_some_and(CellType::is_delete)
        };
        let late: Vec<Cell<'_>> = cells.filter(is_late).collect();
        // Before the lists are looked at: who lets a marker go meanwhile sees the row, or is seen.
        {
            let mut noted = store.accordion.late.lock();
            late.iter().for_each(|cell| noted.note(cell.row()));
        }
        // There the put is what was written later.
        if store.keeping.new_versions {
            return;
        }
        let view = store.view.load();
        for cell in late {
            let markers = view.swept_markers_of(cell);
            self.insert_into(store, markers.iter().map(|marker| &marker[..]), sequence);
        }
    }

    /// Puts of `cells`, which were just replayed, may be in the log longer than the markers that they are masked by: those
    /// that have gone from memory before a flush which left something there. They come back.
    pub(crate) fn mask_replayed(&self, cells: &[u8], sequence: SequenceId) {
        let mut rest = cells;
        while let Some((bytes, after)) = split_cell(rest) {
            rest = after;
            let cell = Cell::trusted(bytes, sequence);
            let Some(store) = self.stores.iter().find(|store| store.family == cell.family()) else {
                continue;
            };
            let view = store.view.load();
            if !store.keeping.new_versions && cell.cell_type() == Some(CellType::Put) {
                let markers = view.swept_markers_of(cell);
                self.insert_into(store, markers.iter().map(|marker| &marker[..]), sequence);
            }
        }
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
            let counts = store.accordion.log.lock().counts;
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
        self.accounted.load(Ordering::Relaxed) as f64 / limit.max(1) as f64
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
        Ok(self.store(family)?.accordion.log.lock().events.iter().copied().collect())
    }

    fn compact_memory_of(&self, store: &Store, pressure: f64, step: f64, short: u64) {
        let accordion = &store.accordion;
        let _alone = accordion.working.lock();
        accordion.told.store(false, Ordering::Release);
        while accordion.waiting.swap(false, Ordering::AcqRel) {
            // Oldest first: merging and dropping take neighbours.
            let sealed = store.view.load().pipeline.clone();
            for segment in sealed.iter().rev().filter(|segment| !segment.is_flat()) {
                self.flatten(store, segment);
            }
            let view = store.view.load_full();
            let segments = &view.pipeline;
            // Readers to come see all that is complete now.
            let horizon = self.mvcc.read_point();
            let policy = accordion.policy();
            let estimate = policy
                .wants_estimate(segments.len(), pressure, step)
                .then(|| self.redundant_share(store, &view, horizon));
            let trust = accordion.log.lock().trust;
            let expected = estimate.map(|estimate| trust.apply(estimate));
            // What can be had is what is dead already, too.
            let records: u64 = segments.iter().map(|segment| segment.record_bytes()).sum();
            let dead: u64 = segments.iter().map(|segment| segment.dead_bytes()).sum();
            let live_share = 1.0 - dead as f64 / records.max(1) as f64;
            let to_be_had = expected.map(|expected| 1.0 - (1.0 - expected) * live_share);
            match policy.decide(segments.len(), to_be_had, pressure) {
                Action::Leave => accordion.log.lock().trust.fade(),
                Action::Merge => self.merge(store, segments, expected),
                Action::Compact => {
                    let cleaning = policy.cleaning(short);
                    self.drop_redundant(store, &view, horizon, cleaning, estimate);
                }
            }
        }
    }

    fn flatten(&self, store: &Store, segment: &Arc<Segment>) {
        let began = self.world.moment();
        let flat = Arc::new(segment.flattened());
        let old = std::slice::from_ref(segment);
        let taken = store.replace_in_pipeline(old, Arc::clone(&flat), SequenceId::ZERO, None);
        let event = self.event(MemoryAct::Flattened, old, &flat, None, began, taken);
        let mut log = store.accordion.log.lock();
        log.counts.flattened += 1;
        log.remember(event);
    }

    fn merge(&self, store: &Store, segments: &[Arc<Segment>], expected: Option<f64>) {
        let began = self.world.moment();
        // Too many chunks for one index: the segments stay as they are.
        let Some(merged) = Segment::merged(segments) else { return };
        let merged = Arc::new(merged);
        let taken = store.replace_in_pipeline(segments, Arc::clone(&merged), SequenceId::ZERO, None);
        let event = self.event(MemoryAct::Merged, segments, &merged, expected, began, taken);
        let mut log = store.accordion.log.lock();
        log.counts.merged += 1;
        log.remember(event);
    }

    fn drop_redundant(
        &self,
        store: &Store,
        view: &View,
        horizon: SequenceId,
        cleaning: Cleaning,
        estimate: Option<f64>,
    ) {
        let segments = &view.pipeline;
        let began = self.world.moment();
        let mut judge = Judge::new(self, store, view, horizon);
        // A value that is alone is kept whether it is below the horizon or not.
        let (memory, lone_since) = (&self.options.memory, judge.rewrite.lone_since());
        let compacted =
            Segment::compacted_keeping_lone(segments, memory, cleaning, lone_since, |cell| judge.keeps(cell));
        let Some(Compacted { segment, bytes_copied }) = compacted else { return };
        let compacted = Arc::new(segment);
        let taken = {
            let late = store.accordion.late.lock();
            match judge.sweep {
                // A put has come that would be uncovered: the markers stay, and with them all, for another time.
                Some(sweep) if sweep.is_overtaken(&late) => false,
                sweep => {
                    let swept = sweep.map(|sweep| sweep.with(&view.swept));
                    store.replace_in_pipeline(segments, Arc::clone(&compacted), horizon, swept)
                }
            }
        };
        let event = self.event(MemoryAct::Compacted, segments, &compacted, estimate, began, taken);
        let dropped = event.cells_before - event.cells_after;
        let mut log = store.accordion.log.lock();
        log.counts.compacted += 1;
        log.counts.cells_compacted += event.cells_before;
        log.counts.cells_dropped += dropped;
        log.counts.bytes_copied += bytes_copied;
        if let Some(estimate) = estimate {
            log.trust.learn(estimate, dropped as f64 / event.cells_before.max(1) as f64);
        }
        log.remember(event);
    }

    pub(crate) fn event(
        &self,
        act: MemoryAct,
        before: &[Arc<Segment>],
        after: &Segment,
        expected: Option<f64>,
        began: env::Moment,
        taken: bool,
    ) -> MemoryEvent {
        MemoryEvent {
            time: self.world.now(),
            act,
            segments: before.len(),
            cells_before: before.iter().map(|segment| segment.cells()).sum(),
            cells_after: after.cells(),
            bytes_before: before.iter().map(|segment| segment.bytes()).sum(),
            bytes_after: after.bytes(),
            expected,
            took: self.world.moment().since(began),
            overtaken: !taken,
        }
    }

    /// The share of the pipeline's cells that would be dropped, by a sample.
    fn redundant_share(&self, store: &Store, view: &View, horizon: SequenceId) -> f64 {
        let segments = &view.pipeline;
        const NEVER: &str = "reading memory does not fail";
        let cells: u64 = segments.iter().map(|segment| segment.cells()).sum();
        if cells == 0 {
            return 0.0;
        }
        let sources = segments.iter().map(|segment| Source::Memory(Cursor::new(Arc::clone(segment))));
        let mut heap = Heap::new(store.comparator, SequenceId::MAX, sources.collect());
        let mut shares = 0.0;
        for _ in 0..SAMPLE_ROWS {
            let mut at = self.world.random() % cells;
            let drawn = segments.iter().find_map(|segment| match at.checked_sub(segment.cells()) {
                Some(rest) => {
                    at = rest;
                    None
                }
                None => segment.cell(at),
            });
            let Some(row) = drawn.map(Cell::row) else { continue };
            heap.seek(KeyBuf::first_on_row(row).position()).expect(NEVER);
            let mut judge = Judge::new(self, store, view, horizon);
            let (mut seen, mut kept) = (0u64, 0u64);
            while let Some(cell) = heap.peek().filter(|cell| cell.row() == row && seen < SAMPLE_CELLS) {
                seen += 1;
                kept += u64::from(judge.keeps(cell));
                heap.advance().expect(NEVER);
            }
            shares += (seen - kept) as f64 / seen.max(1) as f64;
        }
        shares / SAMPLE_ROWS as f64
    }
}

impl Log {
    fn remember(&mut self, event: MemoryEvent) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

impl Store {
    pub(crate) fn memory_load(&self, view: &View) -> MemoryLoad {
        let loads =
            |segments: &[Arc<Segment>]| segments.iter().map(|segment| SegmentLoad::of(segment)).collect();
        MemoryLoad {
            level: self.accordion.policy().level,
            bound: self.accordion.bound.load(Ordering::Relaxed),
            active: SegmentLoad::of(&view.active),
            pipeline: loads(&view.pipeline),
            snapshot: loads(&view.snapshot),
            counts: self.accordion.log.lock().counts,
        }
    }

    /// Whether its active segment should be sealed.
    pub(crate) fn is_full(&self) -> bool {
        self.view.load().active.bytes() >= self.accordion.bound.load(Ordering::Relaxed)
    }

    /// Seals the active segment if it has something and the pipeline has room. Says whether something waits for the
    /// background. The region's write lock is held.
    pub(crate) fn seal(&self, memory: &Arc<Pool>, sealed: Sealed) -> bool {
        let accordion = &self.accordion;
        let view = self.view.load_full();
        if view.pipeline.len() >= accordion.policy().segments_max + BEHIND_MAX {
            accordion.waiting.store(true, Ordering::Release);
            return true;
        }
        if view.active.is_empty() {
            return false;
        }
        self.seal_now(memory, sealed);
        true
    }

    /// Seals the active segment, whatever it has and however many wait. The region's write lock is held.
    fn seal_now(&self, memory: &Arc<Pool>, sealed: Sealed) {
        let accordion = &self.accordion;
        let view = self.view.load_full();
        let next = Arc::new(view.active.successor(memory));
        self.change_view(|view| View {
            active: Arc::clone(&next),
            pipeline: std::iter::once(&view.active).chain(&view.pipeline).cloned().collect(),
            sealed,
            ..view.clone()
        });
        accordion.log.lock().counts.sealed += 1;
        accordion.waiting.store(true, Ordering::Release);
    }

    /// Puts `new` in the place of `old`, neighbours in the pipeline, unless a flush has taken them. Readers must begin at
    /// `horizon` or later from then on. `swept` are the markers that have gone from the pipeline then, if others than before.
    fn replace_in_pipeline(
        &self,
        old: &[Arc<Segment>],
        new: Arc<Segment>,
        horizon: SequenceId,
        swept: Option<Swept>,
    ) -> bool {
        let mut replaced = false;
        self.view.rcu(|view| {
            let is_old = |segment: &Arc<Segment>| old.iter().any(|old| Arc::ptr_eq(old, segment));
            let place = view.pipeline.iter().position(is_old);
            // A flush takes all of the pipeline at once.
            replaced = place.is_some();
            let Some(place) = place else { return Arc::clone(view) };
            let mut pipeline: Vec<Arc<Segment>> =
                view.pipeline.iter().filter(|segment| !is_old(segment)).cloned().collect();
            pipeline.insert(place, Arc::clone(&new));
            let swept = swept.as_ref().unwrap_or(&view.swept).clone();
            Arc::new(View { pipeline, horizon: view.horizon.max(horizon), swept, ..View::clone(view) })
        });
        replaced
    }
}
