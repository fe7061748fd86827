//! Counters and sizes of a store's memory, for metrics, the event log and `bellows memstore`.

use std::time::Duration;

use env::WallTime;
use memstore::{Level, Segment};

/// What a store's memory did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAct {
    /// A sealed segment became flat.
    Flattened,
    /// The indexes of all segments became one.
    Merged,
    /// Redundant cells were dropped.
    Compacted,
    /// A flush retained rewritten rows.
    Kept,
}

impl MemoryAct {
    /// Its name in metrics and output.
    pub fn name(self) -> &'static str {
        match self {
            MemoryAct::Flattened => "flattened",
            MemoryAct::Merged => "merged",
            MemoryAct::Compacted => "compacted",
            MemoryAct::Kept => "flushed",
        }
    }
}

/// One step of a store's memory: what it expected, and the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryEvent {
    /// When it was done.
    pub time: WallTime,
    /// The kind of step.
    pub act: MemoryAct,
    /// Segments that it read.
    pub segments: usize,
    /// Their cells.
    pub cells_before: u64,
    /// Cells in the result.
    pub cells_after: u64,
    /// Bytes of the segments read, including their indexes.
    pub bytes_before: u64,
    /// Bytes of the result.
    pub bytes_after: u64,
    /// The share of cells that the estimate expected to be dropped, if there was one. For [`MemoryAct::Kept`], the
    /// share of retained bytes expected to be replaced before the next flush.
    pub expected: Option<f64>,
    /// How long it took.
    pub took: Duration,
    /// Whether a flush took the segments first, so that the result was discarded.
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
    /// Compactions.
    pub compacted: u64,
    /// Cells that compactions read.
    pub cells_compacted: u64,
    /// Cells that compactions have dropped.
    pub cells_dropped: u64,
    /// Bytes that compactions copied out of chunks with many dead cells.
    pub bytes_copied: u64,
    /// Flushes that retained rows in memory.
    pub kept: u64,
    /// Bytes that they retained.
    pub bytes_kept: u64,
    /// Retained bytes that were replaced before the next flush, and so never written to a file.
    pub bytes_spared: u64,
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

/// What a store has in memory, and its counters since the region was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLoad {
    /// Its compaction level.
    pub level: Level,
    /// Bytes at which the active segment is sealed; `u64::MAX` for never.
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

/// A region's memory, read once after each write for all checks that follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct InMemory {
    /// Bytes of all stores.
    pub bytes: u64,
    /// Whether some store's list of dropped markers is so long that it should be written to a file.
    pub(crate) has_many_markers: bool,
}

/// How a region uses its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// Bytes that a flush of all stores would free; bytes already being flushed do not count.
    pub bytes: u64,
    /// Whether some of its stores compact in memory.
    pub compacts: bool,
    /// Cells dropped by memory compactions since the region was opened, as a share of the cells they read.
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
