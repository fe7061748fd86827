//! What is done with the segments that wait in memory to be flushed: a decision from numbers, and nothing else.
//!
//! Each segment is flattened when it takes no more writes; that costs a few nanoseconds a cell and makes reads faster.
//! Beyond that:
//!
//! - [`Level::Basic`] merges the indexes when there are more segments than a read should visit.
//! - [`Level::Eager`] always drops what nobody can ask for any more, and copies what lies among it.
//! - [`Level::Adaptive`] does so when it pays, and else as `Basic`. Dropping saves the bytes that need not be written by
//!   the flush and by the compactions of files after it, and makes room for more writes before the flush; it costs
//!   copying what stays. The share that can be dropped is estimated from a sample of rows before anything is paid. How
//!   far earlier estimates came true counts.
//!
//! **How much is copied.** Of a chunk that is half dead a copied byte frees another; of one that is nearly whole it frees
//! next to nothing, and later it will free more. So as long as memory is not short only chunks are emptied of which half is
//! dead, and where it is short so many more, the deadest first, that the next segments fit.
//!
//! **When.** The later the better, since one copy then drops what several would have, and the walk over all cells is paid
//! for once: as long as reads visit few segments and the next one still fits, nothing is even estimated. Then, with much
//! room left, only what is mostly redundant is copied, and just before the flush even a little. A cell that is copied
//! costs some 150 ns; one that is dropped is not written by the flush and by the three or four compactions of files behind
//! it, near 1 µs together. So an eighth of redundant cells is worth the copy of the rest where the flush is the other
//! choice.

use crate::Cleaning;

/// How a store compacts in memory: HBase's `MemoryCompactionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Not at all: one segment, until the flush.
    None,
    /// Indexes become flat and are merged.
    Basic,
    /// What is redundant is dropped, always.
    Eager,
    /// What is redundant is dropped where that pays.
    #[default]
    Adaptive,
}

impl Level {
    /// By HBase's name, in any case.
    pub fn of_name(name: &str) -> Option<Level> {
        [Level::None, Level::Basic, Level::Eager, Level::Adaptive]
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// HBase's name.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "NONE",
            Level::Basic => "BASIC",
            Level::Eager => "EAGER",
            Level::Adaptive => "ADAPTIVE",
        }
    }
}

/// Of a chunk, the share that must be dead for copying the rest, as long as memory is not short. The more is dead the more room
/// a copied byte makes, and what waits gets deader.
const DEAD_MIN: f64 = 0.5;

/// By how much more dropping is worth just before a flush than with all memory free.
const WORTH_WHEN_FULL: f64 = 6.0;

/// The numbers that one configures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// The level.
    pub level: Level,
    /// Segments beside the active one that a read visits (`hbase.hregion.compacting.pipeline.segments.limit`).
    pub segments_max: usize,
    /// At [`Level::Adaptive`]: of all cells, the share that must stay at most for dropping the others to pay, when memory
    /// is not short (`hbase.memstore.adaptive.compaction.threshold`).
    pub unique_max: f64,
}

/// What is to be done with all the flat segments of a store together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Leave,
    /// Their indexes become one.
    Merge,
    /// What is redundant is dropped, and the rest copied.
    Compact,
}

impl Policy {
    /// Whether [`Policy::decide`] wants an estimate: whether it is time to do anything about so many flat segments at
    /// `pressure`, when the next one will add `step` to it.
    pub fn wants_estimate(&self, segments: usize, pressure: f64, step: f64) -> bool {
        self.level == Level::Adaptive
            && (segments > self.segments_max.max(1) || segments > 0 && pressure + step >= 1.0)
    }

    /// Decides over `segments` flat segments of which the share `redundant` is expected to be dropped, if that was
    /// estimated. `pressure` is how near the flush is, from 0 to 1: how full the region's memory is, or that of the
    /// server's memstores.
    pub fn decide(&self, segments: usize, redundant: Option<f64>, pressure: f64) -> Action {
        let pays = || {
            let Some(redundant) = redundant else { return false };
            let redundant = redundant.clamp(0.0, 1.0);
            let unique_max = self.unique_max.clamp(0.0, 1.0);
            let worth = 1.0 + WORTH_WHEN_FULL * pressure.clamp(0.0, 1.0).powi(2);
            // What is saved to what is copied, as it is to what it must be.
            redundant * worth * unique_max >= (1.0 - redundant) * (1.0 - unique_max) && redundant > 0.0
        };
        match self.level {
            Level::Eager if segments > 0 => Action::Compact,
            Level::Adaptive if segments > 0 && pays() => Action::Compact,
            Level::Basic | Level::Adaptive if segments > self.segments_max.max(1) => Action::Merge,
            _ => Action::Leave,
        }
    }
}

impl Policy {
    /// Which chunks [`Action::Compact`] empties when `short` bytes more must be free.
    pub fn cleaning(&self, short: u64) -> Cleaning {
        match self.level {
            Level::Adaptive => Cleaning { free_min: short, dead_min: DEAD_MIN },
            _ => Cleaning::ALL,
        }
    }
}

/// How far estimates came true: what they are multiplied by before they are believed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trust(f64);

impl Default for Trust {
    fn default() -> Trust {
        Trust(1.0)
    }
}

impl Trust {
    /// The estimate, as far as it is believed.
    pub fn apply(self, estimate: f64) -> f64 {
        (estimate * self.0).clamp(0.0, 1.0)
    }

    /// The estimate was `estimate`, and `actual` came of it. One surprise counts a quarter.
    pub fn learn(&mut self, estimate: f64, actual: f64) {
        if estimate > 0.0 {
            let ratio = (actual / estimate).clamp(0.25, 2.0);
            self.0 = (0.75 * self.0 + 0.25 * ratio).clamp(0.25, 2.0);
        }
    }

    /// An estimate that was not acted on: what was learnt fades, so that one disappointment does not rule for ever.
    pub fn fade(&mut self) {
        self.0 += (1.0 - self.0) / 16.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(level: Level, segments: usize, redundant: f64, pressure: f64, expected: Action) {
        let policy = Policy { level, segments_max: 2, unique_max: 0.5 };
        let action = policy.decide(segments, Some(redundant), pressure);
        assert_eq!(action, expected, "{level:?} {segments} segments, {redundant} redundant, {pressure} full");
    }

    #[test]
    fn each_level_does_what_it_says() {
        for segments in 0..5 {
            check(Level::None, segments, 1.0, 1.0, Action::Leave);
            let merged = if segments > 2 { Action::Merge } else { Action::Leave };
            check(Level::Basic, segments, 1.0, 1.0, merged);
            check(Level::Adaptive, segments, 0.0, 1.0, merged);
            check(Level::Adaptive, segments, 0.3, 0.0, merged);
            let compacted = if segments > 0 { Action::Compact } else { Action::Leave };
            check(Level::Eager, segments, 0.0, 0.0, compacted);
            check(Level::Adaptive, segments, 0.5, 0.0, compacted);
            check(Level::Adaptive, segments, 0.34, 0.5, compacted);
            check(Level::Adaptive, segments, 0.13, 1.0, compacted);
            check(Level::Adaptive, segments, 0.12, 1.0, merged);
        }
    }

    #[test]
    fn nothing_is_estimated_before_it_is_time() {
        let wants = |level, segments, pressure| {
            Policy { level, segments_max: 2, unique_max: 0.5 }.wants_estimate(segments, pressure, 0.25)
        };
        assert!(!wants(Level::Adaptive, 2, 0.7), "the next segment fits");
        assert!(wants(Level::Adaptive, 3, 0.0) && wants(Level::Adaptive, 1, 0.75));
        assert!(
            !wants(Level::Adaptive, 0, 1.0) && !wants(Level::Basic, 3, 1.0) && !wants(Level::Eager, 3, 1.0)
        );
        let policy = Policy { level: Level::Adaptive, segments_max: 2, unique_max: 0.5 };
        assert_eq!(
            (policy.decide(2, None, 1.0), policy.decide(3, None, 1.0)),
            (Action::Leave, Action::Merge)
        );
    }

    #[test]
    fn thresholds_at_their_ends_mean_never_and_always() {
        let decide = |unique_max, redundant| {
            Policy { level: Level::Adaptive, segments_max: 2, unique_max }.decide(1, Some(redundant), 0.0)
        };
        assert_eq!((decide(0.0, 0.99), decide(1.0, 0.01)), (Action::Leave, Action::Compact));
        assert_eq!(decide(1.0, 0.0), Action::Leave, "there is nothing to be had");
    }

    #[test]
    fn estimates_are_believed_as_far_as_they_came_true() {
        let mut trust = Trust::default();
        (0..20).for_each(|_| trust.learn(0.8, 0.4));
        assert!((0.38..0.44).contains(&trust.apply(0.8)));
        (0..200).for_each(|_| trust.fade());
        assert!(trust.apply(0.8) > 0.79, "what is not acted on is forgotten");
        trust.learn(0.0, 1.0);
        (0..50).for_each(|_| trust.learn(0.01, 1.0));
        assert!(trust.apply(1.0) <= 1.0);
    }

    #[test]
    fn levels_have_hbases_names() {
        assert_eq!(Level::of_name("eager"), Some(Level::Eager));
        assert_eq!(Level::of_name("SOMETIMES"), None);
        assert_eq!(Level::default().name(), "ADAPTIVE");
    }
}
