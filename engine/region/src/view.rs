//! The view of a store: its segments and files at one moment, as a reader sees them.

use std::sync::Arc;

use cell::{Cell, SequenceId};
use memstore::Segment;
use proto::FamilyOptions;

use crate::dropped_markers::{DroppedMarkers, markers_of};
use crate::matcher::ScanInfo;
use crate::store_file::StoreFile;

/// All segments and files of a store at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Segment>,
    /// Sealed segments that wait for the flush, newest first.
    pub(crate) pipeline: Vec<Arc<Segment>>,
    /// Segments that are being flushed, newest first; also those that a failed flush has left.
    pub(crate) snapshot: Vec<Arc<Segment>>,
    /// The files of the store, oldest first.
    pub(crate) files: Vec<Arc<StoreFile>>,
    /// The read point up to which versions were dropped. A reader with an earlier read point may miss cells.
    pub(crate) horizon: SequenceId,
    /// The limits of the writes in the sealed segments.
    pub(crate) sealed: Sealed,
    /// The markers that were dropped from the pipeline.
    pub(crate) dropped_markers: DroppedMarkers,
    /// The markers that were dropped from the snapshot.
    pub(crate) dropped_of_snapshot: DroppedMarkers,
    /// Whether compactions must keep delete markers: cells that these mask were dropped by flushes, and are still in the log,
    /// or have come back from it into memory.
    pub(crate) keeps_markers: bool,
    /// The family's retention rules. A reader continues with the rules with which it began.
    pub(crate) scan_info: ScanInfo,
    /// How the store's new files are written.
    pub(crate) options: Arc<FamilyOptions>,
}

/// The writes that the sealed segments of a store contain, as limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    /// A lower bound in ms since 1970: every put after the sealing has at least this timestamp, unless it was recorded
    /// as late.
    pub(crate) below: i64,
    /// The sequence id of the last write in the sealed segments.
    pub(crate) through: SequenceId,
}

impl Default for Sealed {
    fn default() -> Sealed {
        Sealed { below: i64::MIN, through: SequenceId::ZERO }
    }
}

impl View {
    /// Returns all segments, newest first.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        std::iter::once(&self.active).chain(&self.pipeline).chain(&self.snapshot)
    }

    /// Returns the number of bytes in memory, including pipeline and snapshot.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let cells: u64 = self.segments().map(|segment| segment.bytes()).sum();
        cells + self.dropped_markers.size() + self.dropped_of_snapshot.size()
    }

    /// Whether cells of the store may be references to MOB files.
    #[inline]
    pub(crate) fn may_have_mob_references(&self) -> bool {
        self.options.is_mob || self.files.iter().any(|file| file.has_mob_references)
    }

    fn lists(&self) -> impl Iterator<Item = &DroppedMarkers> + Clone {
        let of_files = self.files.iter().map(|file| &file.dropped_markers);
        [&self.dropped_markers, &self.dropped_of_snapshot]
            .into_iter()
            .chain(of_files)
            .filter(|list| !list.is_empty())
    }

    /// Whether the store has recorded a dropped marker.
    pub(crate) fn remembers_markers(&self) -> bool {
        self.lists().next().is_some()
    }

    /// Returns the dropped markers that mask `put`, as cells.
    pub(crate) fn dropped_markers_of(&self, put: Cell<'_>) -> Vec<Vec<u8>> {
        if !self.remembers_markers() {
            return Vec::new();
        }
        markers_of(put, self.lists())
    }
}
