//! In-memory compaction of one store: sealed segments are flattened, merged, or rewritten without redundant cells.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cell::{Cell, CellType, KeyBuf, SequenceId};
use hfile::ReadOptions;
use memstore::{Action, Cleaning, Compacted, Cursor, Segment};
use proto::descriptor::KeepDeletedCells;

use crate::accordion::{MemoryAct, MemoryEvent};
use crate::compaction_matcher::{CompactionMatcher, CompactionScope};
use crate::dropped_markers::PendingDrops;
use crate::heap::{Heap, Source};
use crate::region::Region;
use crate::store::Store;
use crate::store_file::StoreFile;
use crate::view::View;

/// Number of rows that an estimate samples.
const SAMPLE_ROWS: u64 = 64;
/// Maximum number of cells that an estimate reads of each sampled row.
const SAMPLE_CELLS: u64 = 1_000;
/// A memory compaction drops no delete markers while the lists of dropped markers in the store's files together exceed
/// the store's share of the flush size divided by this number.
const LISTED_MARKERS_DIVISOR: u64 = 2;

/// Decides which cells a memory compaction keeps. It keeps the same cells as a flush, except markers that mask nothing
/// outside the pipeline. Cells newer than the horizon are always kept.
struct Judge<'a> {
    rewrite: CompactionMatcher,
    horizon: SequenceId,
    /// Collects dropped markers; `None` if markers must stay.
    pending_drops: Option<PendingDrops>,
    /// Files in which older cells of a row could be.
    files: &'a [Arc<StoreFile>],
    /// The row of the last marker.
    row: Vec<u8>,
    /// Whether no file and no other segment can have the row of the last marker.
    is_nowhere_else: bool,
}

impl<'a> Judge<'a> {
    fn new(region: &Region, store: &Store, view: &'a View, horizon: SequenceId) -> Judge<'a> {
        let (scan_info, now) = (view.scan_info, region.world.now().0);
        let markers_go = region.options.drop_markers
            && scan_info.keep_deleted == KeepDeletedCells::False
            && !scan_info.new_versions
            && store.tuning.load().purge_deletes_after <= 0
            // In a store with stripes markers stay. The list of dropped markers names no stripe, so a compaction of one
            // stripe could never remove a marker from it.
            && !store.has_stripes()
            && view.snapshot.is_empty()
            // Markers are dropped only when all sealed writes are complete. A delete that is not complete hides nothing
            // yet, so its marker and the cells that it will hide must stay.
            && view.sealed.through <= horizon
            && view.files.iter().map(|file| file.dropped_markers.size()).sum::<u64>() <= store.accordion.share / LISTED_MARKERS_DIVISOR;
        let pending_drops = || PendingDrops::new(&store.accordion.late.lock(), view.sealed.below);
        Judge {
            rewrite: CompactionMatcher::new(scan_info, CompactionScope::Some, now),
            horizon,
            pending_drops: markers_go.then(pending_drops).flatten(),
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

    /// Whether a marker masks nothing outside the pipeline. Such a marker is recorded, and the caller drops it. The
    /// matcher already knows the marker, so later cells of its row are still masked.
    fn masks_nothing_else(&mut self, marker: Cell<'_>) -> bool {
        let Some(pending_drops) =
            self.pending_drops.as_mut().filter(|pending_drops| pending_drops.may_drop(marker))
        else {
            return false;
        };
        if self.row != marker.row() {
            self.row.clear();
            self.row.extend_from_slice(marker.row());
            let options = ReadOptions::default();
            // If the Bloom filter cannot be read, the file may have the row.
            let may_have =
                |file: &Arc<StoreFile>| file.reader.may_contain_row(&self.row, options).unwrap_or(true);
            self.is_nowhere_else = !pending_drops.is_late(&self.row) && !self.files.iter().any(may_have);
        }
        if self.is_nowhere_else {
            pending_drops.drop_marker(marker);
        }
        self.is_nowhere_else
    }
}

impl Region {
    pub(super) fn compact_memory_of(&self, store: &Store, pressure: f64, step: f64, short: u64) {
        let accordion = &store.accordion;
        let _alone = accordion.working.lock();
        accordion.announced.store(false, Ordering::Release);
        while accordion.waiting.swap(false, Ordering::AcqRel) {
            // Segments are passed from the oldest to the newest, because merging and dropping work on neighbours.
            let sealed = store.view.load().pipeline.clone();
            for segment in sealed.iter().rev().filter(|segment| !segment.is_flat()) {
                self.flatten(store, segment);
            }
            let view = store.view.load_full();
            let segments = &view.pipeline;
            // A reader that opens from now on sees all writes up to this read point. So versions that were replaced
            // before it are not needed.
            let horizon = self.mvcc.read_point();
            let policy = accordion.policy();
            let estimate = policy
                .wants_estimate(segments.len(), pressure, step)
                .then(|| self.redundant_share(store, &view, horizon));
            let trust = accordion.history.lock().trust;
            let expected = estimate.map(|estimate| trust.apply(estimate));
            // Cells that were dropped from an index count as redundant, because their memory can be freed, too.
            let records: u64 = segments.iter().map(|segment| segment.record_bytes()).sum();
            let dead: u64 = segments.iter().map(|segment| segment.dead_bytes()).sum();
            let live_share = 1.0 - dead as f64 / records.max(1) as f64;
            let redundant = expected.map(|expected| 1.0 - (1.0 - expected) * live_share);
            match policy.decide(segments.len(), redundant, pressure) {
                Action::Leave => accordion.history.lock().trust.fade(),
                Action::Merge => self.merge(store, segments, expected),
                Action::Compact => {
                    let cleaning = policy.cleaning(short);
                    self.drop_redundant(store, &view, horizon, cleaning, estimate);
                }
            }
        }
    }

    pub(super) fn flatten(&self, store: &Store, segment: &Arc<Segment>) {
        let began = self.world.moment();
        let flat = Arc::new(segment.flattened());
        let old = std::slice::from_ref(segment);
        let taken = store.replace_in_pipeline(old, Arc::clone(&flat), SequenceId::ZERO, None);
        let event = self.event(MemoryAct::Flattened, old, &flat, None, began, taken);
        let mut history = store.accordion.history.lock();
        history.counts.flattened += 1;
        history.remember(event);
    }

    pub(super) fn merge(&self, store: &Store, segments: &[Arc<Segment>], expected: Option<f64>) {
        let began = self.world.moment();
        // `None` means that the segments have more chunks than one index can address. Then they stay separate.
        let Some(merged) = Segment::merged(segments) else { return };
        let merged = Arc::new(merged);
        let taken = store.replace_in_pipeline(segments, Arc::clone(&merged), SequenceId::ZERO, None);
        let event = self.event(MemoryAct::Merged, segments, &merged, expected, began, taken);
        let mut history = store.accordion.history.lock();
        history.counts.merged += 1;
        history.remember(event);
    }

    pub(crate) fn drop_redundant(
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
        // A value that is the only cell of its row is kept whatever the horizon is.
        let (memory, lone_since) = (&self.options.memory, judge.rewrite.lone_since());
        let compacted =
            Segment::compacted_keeping_lone(segments, memory, cleaning, lone_since, |cell| judge.keeps(cell));
        let Some(Compacted { segment, bytes_copied }) = compacted else { return };
        let compacted = Arc::new(segment);
        let taken = {
            let late = store.accordion.late.lock();
            match judge.pending_drops {
                // A put with an old timestamp has arrived in the row of a dropped marker. The result is discarded, and
                // the next compaction tries again.
                Some(pending_drops) if pending_drops.is_overtaken(&late) => false,
                pending_drops => {
                    let dropped = pending_drops
                        .filter(|pending_drops| !pending_drops.is_empty())
                        .map(|pending_drops| (pending_drops.with(&view.dropped_markers), &view.files[..]));
                    store.replace_in_pipeline(segments, Arc::clone(&compacted), horizon, dropped)
                }
            }
        };
        let event = self.event(MemoryAct::Compacted, segments, &compacted, estimate, began, taken);
        let dropped = event.cells_before - event.cells_after;
        let mut history = store.accordion.history.lock();
        history.counts.compacted += 1;
        history.counts.cells_compacted += event.cells_before;
        history.counts.cells_dropped += dropped;
        history.counts.bytes_copied += bytes_copied;
        if let Some(estimate) = estimate {
            history.trust.learn(estimate, dropped as f64 / event.cells_before.max(1) as f64);
        }
        history.remember(event);
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

    /// Estimates, from a sample of rows, the fraction of the pipeline's cells that a compaction would drop.
    pub(super) fn redundant_share(&self, store: &Store, view: &View, horizon: SequenceId) -> f64 {
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
