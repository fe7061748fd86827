//! What a store's memory holds and has done, in numbers: for metrics, the event log and `bellows memstore`.

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
    /// What is redundant was dropped.
    Compacted,
    /// A flush left what was rewritten.
    Kept,
}

impl MemoryAct {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            MemoryAct::Flattened => "flattened",
            MemoryAct::Merged => "merged",
            MemoryAct::Compacted => "compacted",
            MemoryAct::Kept => "flushed",
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
    /// The share of cells that was expected to go, where it was estimated; of [`MemoryAct::Kept`], that of the bytes which
    /// stayed and are expected to be replaced before the next flush.
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
    /// Bytes that compactions have copied: what lived where enough was dead.
    pub bytes_copied: u64,
    /// Flushes that left something in memory.
    pub kept: u64,
    /// Bytes that they left.
    pub bytes_kept: u64,
    /// Bytes of those that were replaced by the next flush, and never written to a file.
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
    /// Bytes that a flush of all would free: without what is being flushed.
    pub bytes: u64,
    /// Whether some of its stores compact in memory.
    pub compacts: bool,
    /// The share of the cells before them that compactions in memory have dropped since the region was opened.
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
