//! The pipeline of a store: sealed segments enter it, compacted ones take their place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cell::SequenceId;
use memstore::{Pool, Segment};

use super::figures::{MemoryLoad, SegmentLoad};
use crate::dropped_markers::DroppedMarkers;
use crate::region::Region;
use crate::store::{Sealed, Store, View};

/// Segments beyond the pipeline's limit that may wait for the background.
const BEHIND_MAX: usize = 2;

impl Region {
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

    /// Puts `new` in the place of `old`, neighbours in the pipeline, unless a flush has taken them. Readers must begin at
    /// `horizon` or later from then on. `dropped_markers` are those that have gone from the pipeline then, if others than before.
    pub(super) fn replace_in_pipeline(
        &self,
        old: &[Arc<Segment>],
        new: Arc<Segment>,
        horizon: SequenceId,
        dropped_markers: Option<DroppedMarkers>,
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
            let dropped_markers = dropped_markers.as_ref().unwrap_or(&view.dropped_markers).clone();
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
