//! The pipeline between the active segment and the flush: a memstore that compacts in memory.
//!
//! 1. A write that fills the active segment up to its bound, a part of the flush size, seals it: a new one takes its
//!    place and the old one enters the pipeline. That is a swap of pointers, under the region's write lock.
//! 2. In the background the sealed segment becomes flat: its cells stay, its index shrinks to a third.
//! 3. A [`Policy`] decides over the flat segments together: leave them, merge their indexes, or drop what nobody can ask
//!    for any more and copy the rest. What is made takes their place, unless a flush has taken them meanwhile.
//! 4. A flush takes the active segment and the pipeline as they are.
//!
//! **What may be dropped.** The same as a flush drops, by the same rules ([`Rewrite`]), among the cells up to the read
//! point: a newer cell is kept and counts for nothing, since a reader may still need what is before it. A scanner that
//! is open holds the segments that it began with. One that opens sees in the view's horizon up to which point has been
//! decided, and begins no earlier than that.
//!
//! **Markers too, where asked for** ([`RegionOptions::drop_markers`]). A queue is put, read and deleted; with its markers
//! kept, as HBase's memstores keep them at every level, half of what is written reaches the disk to say that something is
//! gone which never was there. A marker may go together with what it masks if nothing older than the pipeline can have the
//! row: no flush is under way, and each file's filter says that it has not the row. What then remains is what a major
//! compaction, in HBase also, makes of the row a while later, with two differences, for which this is not the default. Who
//! writes an older timestamp *after* a delete is masked by the marker until it goes: here that is sooner. And the log has
//! the marker still: after a death before the next flush such a write, seen meanwhile, is masked again. Clients that let
//! the server set timestamps see neither. For those that set their own a marker goes only if its timestamp is of a time
//! at which this region was open, a little while ago ([`Judge::GRACE_MS`]): made-up times and times of a copied table are
//! not. Families that keep deleted cells, in which what was written later wins, or whose tables keep markers for a while
//! (`hbase.hstore.time.to.purge.deletes`) keep theirs. A raw scan does not see the markers that went, as it does not see
//! the versions that did.
//!
//! **How much.** Before an adaptive store pays for copying, the rules judge the rows of some cells drawn at random; a
//! row is drawn as often as it has cells, so the mean of the rows' shares is the share of all.
//!
//! The pipeline has at most two segments more than its limit: while the background is behind, the active one grows.
//!
//! **When to flush.** At the flush size, unless memory can be made smaller instead: then the active segment is sealed,
//! however little it has, and what all of them have is compacted once more ([`Region::needs_flush`]). That goes on for as
//! long as it drops an eighth at a time, so that what is flushed in the end is different rows, and as many as fit.
//!
//! **How much to hold.** More memory means fewer flushes, of larger files, and fewer compactions behind them; and what is
//! flat is cheap to hold, to read and to drop from. So while the server's memory has room, a region whose stores compact
//! in memory may hold [`RegionOptions::stretch`] flush sizes; the less room there is, the less: at half of the lower mark
//! one flush size, as all others. Regions that differ in when they began then differ in when they flush.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cell::{Cell, CellType, KeyBuf, SequenceId};
use env::WallTime;
use hfile::ReadOptions;
use memstore::{Action, Cursor, Level, Policy, Pool, Segment, Trust};
use parking_lot::Mutex;
use proto::descriptor::KeepDeletedCells;

use crate::heap::{Heap, Source};
use crate::region::Region;
use crate::rewrite::{Rewrite, RewriteKind};
use crate::store::{Store, StoreFile, View};
use crate::{RegionOptions, Result};

/// Segments beyond the pipeline's limit that may wait for the background.
const BEHIND_MAX: usize = 2;
/// Rows that an estimate looks at, and cells of each.
const SAMPLE_ROWS: u64 = 64;
const SAMPLE_CELLS: u64 = 1_000;
/// Events that a store remembers.
const EVENTS_MAX: usize = 64;
/// What the bound of the active segment is of the flush size, where nothing else is said.
const BOUND_PART: f64 = 0.25;
/// Of a store's share of the flush size, what must be left when it was compacted so that this is worth another time.
const SPENT_PART: f64 = 0.875;

/// What a store's memory did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAct {
    /// A sealed segment became flat.
    Flattened,
    /// The indexes of all segments became one.
    Merged,
    /// What is redundant was dropped.
    Compacted,
}

impl MemoryAct {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            MemoryAct::Flattened => "flattened",
            MemoryAct::Merged => "merged",
            MemoryAct::Compacted => "compacted",
        }
    }
}

/// One thing that a store's memory did, what it expected, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryEvent {
    /// When it was done.
    pub time: WallTime,
    /// What.
    pub act: MemoryAct,
    /// Segments that it was done to.
    pub segments: usize,
    /// Cells in them.
    pub cells_before: u64,
    /// Cells in what was made of them.
    pub cells_after: u64,
    /// Bytes of them, index included.
    pub bytes_before: u64,
    /// Bytes of what was made of them.
    pub bytes_after: u64,
    /// The share of cells that was expected to go, where it was estimated.
    pub expected: Option<f64>,
    /// How long it took.
    pub took: Duration,
    /// Whether a flush took the segments first, so that the work was for nothing.
    pub overtaken: bool,
}

/// What a store's memory has done since the region was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Segments that were sealed.
    pub sealed: u64,
    /// Segments that became flat.
    pub flattened: u64,
    /// Merges of indexes.
    pub merged: u64,
    /// Compactions, and the cells they had before them and dropped.
    pub compacted: u64,
    /// Cells that compactions have looked at.
    pub cells_compacted: u64,
    /// Cells that compactions have dropped.
    pub cells_dropped: u64,
    /// Bytes that compactions have copied.
    pub bytes_copied: u64,
}

/// A segment, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentLoad {
    /// Its cells.
    pub cells: u64,
    /// Bytes of cells and index.
    pub bytes: u64,
    /// Bytes of the index alone.
    pub index_bytes: u64,
    /// Whether the index is flat.
    pub flat: bool,
}

/// What a store has in memory, and what it did there since the region was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLoad {
    /// How it compacts in memory.
    pub level: Level,
    /// Bytes at which the active segment is sealed; the greatest number for never.
    pub bound: u64,
    /// What takes the writes.
    pub active: SegmentLoad,
    /// What waits for the flush, newest first.
    pub pipeline: Vec<SegmentLoad>,
    /// What is being flushed, newest first.
    pub snapshot: Vec<SegmentLoad>,
    /// What was done.
    pub counts: MemoryCounts,
}

/// How a region uses its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// Bytes that a flush would free: without what is being flushed.
    pub bytes: u64,
    /// Whether some of its stores compact in memory.
    pub compacts: bool,
    /// The share of the cells before them that compactions in memory have dropped since the region was opened.
    pub dropped: f64,
}

impl SegmentLoad {
    fn of(segment: &Segment) -> SegmentLoad {
        SegmentLoad {
            cells: segment.cells(),
            bytes: segment.bytes(),
            index_bytes: segment.index_bytes(),
            flat: segment.is_flat(),
        }
    }
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
    log: Mutex<Log>,
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
            log: Mutex::default(),
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
    /// Where older cells of a row could be; `None` where markers stay.
    files: Option<&'a [Arc<StoreFile>]>,
    /// Timestamps of markers that may go.
    times: Range<i64>,
    /// The row of the last marker, and whether it is nowhere else.
    row: Vec<u8>,
    is_nowhere_else: bool,
}

impl<'a> Judge<'a> {
    /// How long ago a marker must have been made, in ms, before it may go: what was written at the same moment is
    /// complete by then, and was judged with it.
    const GRACE_MS: i64 = 100;

    fn new(region: &Region, store: &Store, view: &'a View, horizon: SequenceId) -> Judge<'a> {
        let (keeping, now) = (store.keeping, region.world.now().0);
        let markers_go = region.options.drop_markers
            && keeping.keep_deleted == KeepDeletedCells::False
            && !keeping.new_versions
            && store.tuning.load().purge_deletes_after <= 0
            && view.snapshot.is_empty();
        Judge {
            rewrite: Rewrite::new(keeping, RewriteKind::Some, now),
            horizon,
            files: markers_go.then_some(&view.files[..]),
            times: region.opened.0..now.saturating_sub(Self::GRACE_MS),
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
        let Some(files) = self.files else { return false };
        if !self.times.contains(&marker.timestamp().0) {
            return false;
        }
        if self.row != marker.row() {
            self.row.clear();
            self.row.extend_from_slice(marker.row());
            let options = ReadOptions { cache_blocks: true, memory_only: false };
            // Who cannot be asked may have it.
            let may_have =
                |file: &Arc<StoreFile>| file.reader.may_contain_row(&self.row, options).unwrap_or(true);
            self.is_nowhere_else = !files.iter().any(may_have);
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
            self.compact_memory_of(store, near);
            let left = store.memstore_bytes() as f64;
            if left >= limit as f64 / stores * SPENT_PART {
                store.accordion.spent.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether it is time to flush. `pressure` is as for [`Region::compact_memory`]. What can be made smaller instead is
    /// sealed, for whoever compacts memory ([`Region::asks_for_memory_compaction`] says so), and while that is done there
    /// is time for a quarter more.
    pub fn needs_flush(&self, pressure: f64) -> bool {
        let bytes = self.memstore_bytes();
        if bytes < self.flush_size {
            return false;
        }
        let limit = self.flush_limit(pressure);
        if bytes < limit {
            return false;
        }
        bytes >= limit.saturating_add(limit / 4) || !(self.is_memory_shrinking() || self.squeeze())
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

    /// How near its memory is to the limit at which it takes no writes: 1 is there.
    pub fn fullness(&self) -> f64 {
        let limit = self.flush_size.saturating_mul(self.options.block_multiplier);
        self.memstore_bytes() as f64 / limit.max(1) as f64
    }

    /// Bytes in memory at which it is time to flush.
    fn flush_limit(&self, pressure: f64) -> u64 {
        let stretch = self.options.stretch.min(self.options.block_multiplier as f64 / 2.0);
        let room = (1.0 - 2.0 * pressure).clamp(0.0, 1.0);
        let compacts = |store: &Store| store.accordion.policy().level != Level::None;
        if stretch <= 1.0 || room == 0.0 || !self.stores.iter().all(compacts) {
            return self.flush_size;
        }
        (self.flush_size as f64 * (1.0 + (stretch - 1.0) * room)) as u64
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
            frees |= store.seal(&self.options.memory);
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

    fn compact_memory_of(&self, store: &Store, pressure: f64) {
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
            let estimate = match policy.wants_estimate() {
                true => Some(self.redundant_share(store, &view, horizon)),
                false => None,
            };
            let trust = accordion.log.lock().trust;
            let expected = estimate.map(|estimate| trust.apply(estimate));
            match policy.decide(segments.len(), expected.unwrap_or(0.0), pressure) {
                Action::Leave => accordion.log.lock().trust.fade(),
                Action::Merge => self.merge(store, segments, expected),
                Action::Compact => self.drop_redundant(store, &view, horizon, estimate),
            }
        }
    }

    fn flatten(&self, store: &Store, segment: &Arc<Segment>) {
        let began = self.world.moment();
        let flat = Arc::new(segment.flattened());
        let old = std::slice::from_ref(segment);
        let taken = store.replace_in_pipeline(old, Arc::clone(&flat), SequenceId::ZERO);
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
        let taken = store.replace_in_pipeline(segments, Arc::clone(&merged), SequenceId::ZERO);
        let event = self.event(MemoryAct::Merged, segments, &merged, expected, began, taken);
        let mut log = store.accordion.log.lock();
        log.counts.merged += 1;
        log.remember(event);
    }

    fn drop_redundant(&self, store: &Store, view: &View, horizon: SequenceId, estimate: Option<f64>) {
        let segments = &view.pipeline;
        let began = self.world.moment();
        let mut judge = Judge::new(self, store, view, horizon);
        let compacted = Segment::compacted(segments, &self.options.memory, |cell| judge.keeps(cell));
        let Some(compacted) = compacted else { return };
        let compacted = Arc::new(compacted);
        let taken = store.replace_in_pipeline(segments, Arc::clone(&compacted), horizon);
        let event = self.event(MemoryAct::Compacted, segments, &compacted, estimate, began, taken);
        let dropped = event.cells_before - event.cells_after;
        let mut log = store.accordion.log.lock();
        log.counts.compacted += 1;
        log.counts.cells_compacted += event.cells_before;
        log.counts.cells_dropped += dropped;
        log.counts.bytes_copied += compacted.record_bytes();
        if let Some(estimate) = estimate {
            log.trust.learn(estimate, dropped as f64 / event.cells_before.max(1) as f64);
        }
        log.remember(event);
    }

    fn event(
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

    /// Seals the active segment if it is full, so that a new one takes the writes. The region's write lock is held.
    pub(crate) fn seal_if_full(&self, active: &Segment, memory: &Arc<Pool>) {
        let accordion = &self.accordion;
        if active.bytes() >= accordion.bound.load(Ordering::Relaxed) {
            self.seal(memory);
        }
    }

    /// Seals the active segment if it has something and the pipeline has room. Says whether something waits for the
    /// background. The region's write lock is held.
    fn seal(&self, memory: &Arc<Pool>) -> bool {
        let accordion = &self.accordion;
        let view = self.view.load_full();
        if view.pipeline.len() >= accordion.policy().segments_max + BEHIND_MAX {
            accordion.waiting.store(true, Ordering::Release);
            return true;
        }
        if view.active.is_empty() {
            return false;
        }
        let next = Arc::new(view.active.successor(memory));
        self.change_view(|view| View {
            active: Arc::clone(&next),
            pipeline: std::iter::once(&view.active).chain(&view.pipeline).cloned().collect(),
            ..view.clone()
        });
        accordion.log.lock().counts.sealed += 1;
        accordion.waiting.store(true, Ordering::Release);
        true
    }

    /// Puts `new` in the place of `old`, neighbours in the pipeline, unless a flush has taken them. Readers must begin at
    /// `horizon` or later from then on.
    fn replace_in_pipeline(&self, old: &[Arc<Segment>], new: Arc<Segment>, horizon: SequenceId) -> bool {
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
            Arc::new(View { pipeline, horizon: view.horizon.max(horizon), ..View::clone(view) })
        });
        replaced
    }
}
