//! The state that a store keeps about its own memory: its compaction level, the bound of its active segment, and its
//! recent events.

mod figures;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cell::SequenceId;
use env::sync::Mutex;
use memstore::{EstimateTrust, Level, Policy, Segment};

use crate::RegionOptions;
use crate::compaction_matcher::CompactionMatcher;
use crate::dropped_markers::LateRows;
use crate::retained_rows::{Allowance, RetainedRows, Retention};

pub use figures::{InMemory, MemoryAct, MemoryCounts, MemoryEvent, MemoryLoad, MemoryUse, SegmentLoad};

/// Maximum number of events that a store keeps.
const EVENTS_MAX: usize = 64;
/// Size of an active segment, as a fraction of the store's part of the flush size, if no factor is configured.
const BOUND_FRACTION: f64 = 0.25;

#[derive(Default)]
pub(crate) struct MemoryHistory {
    pub(crate) trust: EstimateTrust,
    pub(crate) counts: MemoryCounts,
    pub(crate) events: VecDeque<MemoryEvent>,
}

/// The settings, besides the options, that decide how a store compacts in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelChoice {
    /// Whether the table is a system table. Then the family's own setting does not count.
    pub(crate) is_system: bool,
    /// The level that the family itself sets.
    pub(crate) family: Option<Level>,
}

impl LevelChoice {
    pub(crate) fn level(self, options: &RegionOptions) -> Level {
        if self.is_system {
            options.in_memory_compaction_of_system
        } else {
            self.family.unwrap_or(options.in_memory_compaction)
        }
    }
}

/// The memory state of one store: its policy, limits, counters and recent events.
pub(crate) struct Accordion {
    pub(crate) asked: LevelChoice,
    /// The store's part of the region's flush size, in bytes.
    pub(crate) share: u64,
    pub(crate) policy: Mutex<Policy>,
    /// Number of bytes at which the active segment is sealed; `u64::MAX` for never.
    pub(crate) bound: AtomicU64,
    /// Whether sealed segments wait for a background thread that compacts memory.
    pub(crate) waiting: AtomicBool,
    /// Whether a background thread was asked to compact and has not begun yet.
    pub(crate) announced: AtomicBool,
    /// Whether another compaction is not expected to free much memory before the next flush.
    pub(crate) exhausted: AtomicBool,
    /// Locked while the pipeline is compacted, so that only one memory compaction of the store runs at a time.
    pub(crate) working: Mutex<()>,
    /// The rows that got puts with old timestamps. A memory compaction locks this while it drops markers.
    pub(crate) late: Mutex<LateRows>,
    pub(crate) history: Mutex<MemoryHistory>,
    /// Numbers about the rows that the last flush retained.
    pub(crate) retained: Mutex<RetainedRows>,
}

impl Accordion {
    pub(crate) fn new(asked: LevelChoice, share: u64, options: &RegionOptions) -> Accordion {
        let accordion = Accordion {
            asked,
            share,
            policy: Mutex::new(Policy { level: Level::None, segments_max: 0, unique_max: 0.0 }),
            bound: AtomicU64::new(u64::MAX),
            waiting: AtomicBool::new(false),
            announced: AtomicBool::new(false),
            exhausted: AtomicBool::new(false),
            working: Mutex::new(()),
            late: Mutex::default(),
            history: Mutex::default(),
            retained: Mutex::default(),
        };
        accordion.tune(options);
        accordion
    }

    /// Takes over the settings for memory from `options`.
    pub(crate) fn tune(&self, options: &RegionOptions) {
        let level = self.asked.level(options);
        let factor = options.in_memory_flush_factor;
        let part = if factor > 0.0 { factor } else { BOUND_FRACTION };
        let bound = (self.share as f64 * part).max(1.0) as u64;
        *self.policy.lock() = Policy {
            level,
            segments_max: options.pipeline_segments_max.max(1),
            unique_max: options.adaptive_unique_max,
        };
        self.bound.store(if level == Level::None { u64::MAX } else { bound }, Ordering::Relaxed);
    }

    pub(crate) fn policy(&self) -> Policy {
        *self.policy.lock()
    }

    /// Resets the state that holds from one flush to the next, after a flush has taken all memory.
    pub(crate) fn flushed(&self) {
        self.exhausted.store(false, Ordering::Relaxed);
        self.late.lock().clear();
    }

    /// Whether the policy first estimates whether a compaction pays ([`Level::Adaptive`]).
    pub(crate) fn is_adaptive(&self) -> bool {
        self.policy().level == Level::Adaptive
    }

    /// Decides which cells of `snapshot` a flush leaves in memory; `None` if it writes all of them to files.
    pub(crate) fn split(
        &self,
        snapshot: &[Arc<Segment>],
        sequence: SequenceId,
        allowance: Allowance,
        rewrite: CompactionMatcher,
    ) -> Option<Retention> {
        let dropped = self.history.lock().counts.cells_dropped;
        let (split, spared) = self.retained.lock().split(snapshot, sequence, dropped, allowance, rewrite);
        self.history.lock().counts.bytes_spared += spared;
        split
    }

    /// Records that a flush has written the snapshot up to `sequence`, except `retained_bytes` bytes. `kept` is the
    /// event to record if some rows were retained.
    pub(crate) fn flush_done(&self, sequence: SequenceId, retained_bytes: u64, kept: Option<MemoryEvent>) {
        let mut history = self.history.lock();
        if let Some(event) = kept {
            history.counts.kept += 1;
            history.counts.bytes_kept += retained_bytes;
            history.remember(event);
        }
        self.retained.lock().flushed(sequence, retained_bytes, history.counts.cells_dropped);
    }

    /// Whether the policy drops redundant cells.
    pub(crate) fn drops(&self) -> bool {
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

impl MemoryHistory {
    pub(crate) fn remember(&mut self, event: MemoryEvent) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}
