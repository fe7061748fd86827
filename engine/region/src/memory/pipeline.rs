//! The pipeline of a store: sealed segments enter it, and compacted segments replace them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cell::SequenceId;
use memstore::{Pool, Segment};

use crate::accordion::{MemoryLoad, SegmentLoad};
use crate::dropped_markers::DroppedMarkers;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::StoreFile;
use crate::view::{Sealed, View};

/// Number of segments that may wait for the background threads in addition to the pipeline's limit.
const BEHIND_MAX: usize = 2;

impl Region {
    /// Returns the [`Sealed`] of segments that are sealed after the write `through`. The caller holds the write lock.
    pub(crate) fn sealed(&self, through: SequenceId) -> Sealed {
        Sealed { below: Region::late_before(self.clock.load(Ordering::Relaxed)), through }
    }

    /// Adds the cells of one write to a store's active segment. When the segment can address no more chunks, seals it,
    /// and continues in a new one. The caller holds the write lock.
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
            counts: self.accordion.history.lock().counts,
        }
    }

    /// Whether the active segment should be sealed.
    pub(crate) fn is_full(&self) -> bool {
        self.view.load().active.bytes() >= self.accordion.bound.load(Ordering::Relaxed)
    }

    /// Seals the active segment if it has cells and the pipeline has room. Returns whether the background threads have
    /// work: `true` if the segment was sealed, or if the pipeline is full. The caller holds the write lock.
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

    /// Seals the active segment unconditionally. The caller holds the write lock.
    pub(super) fn seal_now(&self, memory: &Arc<Pool>, sealed: Sealed) {
        let accordion = &self.accordion;
        let view = self.view.load_full();
        let next = Arc::new(view.active.successor(memory));
        self.change_view(|view| View {
            active: Arc::clone(&next),
            pipeline: std::iter::once(&view.active).chain(&view.pipeline).cloned().collect(),
            sealed,
            ..view.clone()
        });
        accordion.history.lock().counts.sealed += 1;
        accordion.waiting.store(true, Ordering::Release);
    }

    /// Replaces `old`, neighbours in the pipeline, by `new`. Returns `false` if a flush has taken them. Afterwards the
    /// read point of a reader must not be smaller than `horizon`. `dropped`, if given, has the new list of dropped
    /// markers, and the files that were asked whether these mask anything. If the store has another file by now, such as a
    /// bulk-loaded one, nothing is replaced and `false` is returned.
    pub(super) fn replace_in_pipeline(
        &self,
        old: &[Arc<Segment>],
        new: Arc<Segment>,
        horizon: SequenceId,
        dropped: Option<(DroppedMarkers, &[Arc<StoreFile>])>,
    ) -> bool {
        let mut replaced = false;
        self.view.rcu(|view| {
            let is_old = |segment: &Arc<Segment>| old.iter().any(|old| Arc::ptr_eq(old, segment));
            let may_drop = dropped.as_ref().is_none_or(|(_, asked)| {
                let was_asked = |file: &Arc<StoreFile>| asked.iter().any(|other| Arc::ptr_eq(other, file));
                view.files.iter().all(was_asked)
            });
            let place = view.pipeline.iter().position(is_old).filter(|_| may_drop);
            // A flush takes all segments of the pipeline at once. So they are all still there, or none is.
            replaced = place.is_some();
            let Some(place) = place else { return Arc::clone(view) };
            let mut pipeline: Vec<Arc<Segment>> =
                view.pipeline.iter().filter(|segment| !is_old(segment)).cloned().collect();
            pipeline.insert(place, Arc::clone(&new));
            let dropped_markers = dropped.as_ref().map_or(&view.dropped_markers, |(list, _)| list).clone();
            Arc::new(View {
                pipeline,
                horizon: view.horizon.max(horizon),
                dropped_markers,
                ..View::clone(view)
            })
        });
        replaced
    }
}
