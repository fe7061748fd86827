//! Counters and sizes of a store's memory, for metrics, the event log and `bellows memstore`.

use std::time::Duration;

use env::WallTime;
use memstore::{Level, Segment};

/// The kind of a change of a store's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAct {
    /// A sealed segment was flattened.
    Flattened,
    /// The indexes of all segments were merged into one.
    Merged,
    /// Redundant cells were dropped.
    Compacted,
    /// A flush retained rewritten rows.
    Kept,
}

impl MemoryAct {
    /// Returns the name of the act in metrics and output.
    pub fn name(self) -> &'static str {
        match self {
            MemoryAct::Flattened => "flattened",
            MemoryAct::Merged => "merged",
            MemoryAct::Compacted => "compacted",
            MemoryAct::Kept => "flushed",
        }
    }
}

/// One change of a store's memory: its expected and its actual result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryEvent {
    /// When the change was made.
    pub time: WallTime,
    /// The kind of change.
    pub act: MemoryAct,
    /// Number of segments that were read.
    pub segments: usize,
    /// Number of cells in the segments that were read.
    pub cells_before: u64,
    /// Number of cells in the result.
    pub cells_after: u64,
    /// Bytes of the segments read, including their indexes.
    pub bytes_before: u64,
    /// Bytes of the result.
    pub bytes_after: u64,
    /// The fraction of cells that the estimate expected to be dropped, if there was an estimate. For
    /// [`MemoryAct::Kept`], the fraction of retained bytes that is expected to be replaced before the next flush.
    pub expected: Option<f64>,
    /// How long the change took.
    pub took: Duration,
    /// Whether a flush took the segments before the change was complete. Then the result was discarded.
    pub overtaken: bool,
}

/// Counters of the changes of a store's memory since the region was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Number of segments that were sealed.
    pub sealed: u64,
    /// Number of segments that were flattened.
    pub flattened: u64,
    /// Number of merges of indexes.
    pub merged: u64,
    /// Number of compactions in memory.
    pub compacted: u64,
    /// Number of cells that compactions read.
    pub cells_compacted: u64,
    /// Number of cells that compactions dropped.
    pub cells_dropped: u64,
    /// Number of bytes that compactions copied out of chunks with many dead cells.
    pub bytes_copied: u64,
    /// Number of flushes that retained rows in memory.
    pub kept: u64,
    /// Number of bytes that flushes retained in memory.
    pub bytes_kept: u64,
    /// Number of retained bytes that were replaced before the next flush, and so never written to a file.
    pub bytes_spared: u64,
}

/// The size of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentLoad {
    /// Number of cells in the segment.
    pub cells: u64,
    /// Bytes of cells and index.
    pub bytes: u64,
    /// Bytes of the index alone.
    pub index_bytes: u64,
    /// Whether the index of the segment is flat.
    pub flat: bool,
}

/// The content of a store's memory, and its counters since the region was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLoad {
    /// The store's level of in-memory compaction.
    pub level: Level,
    /// Number of bytes at which the active segment is sealed; `u64::MAX` for never.
    pub bound: u64,
    /// The segment that takes writes.
    pub active: SegmentLoad,
    /// Segments that wait for the flush, newest first.
    pub pipeline: Vec<SegmentLoad>,
    /// Segments that are being flushed, newest first.
    pub snapshot: Vec<SegmentLoad>,
    /// Counters since the region was opened.
    pub counts: MemoryCounts,
}

/// The size of a region's memory. It is read once after each write and used by all checks that follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct InMemory {
    /// Number of bytes in the memory of all stores.
    pub bytes: u64,
    /// Whether some store's list of dropped markers is so long that it should be written to a file.
    pub(crate) has_many_markers: bool,
}

/// How a region uses its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// Number of bytes that a flush of all stores would free; bytes that are already being flushed do not count.
    pub bytes: u64,
    /// Whether at least one store of the region compacts in memory.
    pub compacts: bool,
    /// Cells dropped by memory compactions since the region was opened, as a fraction of the cells that they read.
    pub dropped: f64,
}

impl SegmentLoad {
    pub(crate) fn of(segment: &Segment) -> SegmentLoad {
        SegmentLoad {
            cells: segment.cells(),
            bytes: segment.bytes(),
            index_bytes: segment.index_bytes(),
            flat: segment.is_flat(),
        }
    }
}
