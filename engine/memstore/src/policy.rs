//! Decides what happens to segments that wait in memory for a flush, from numbers alone.
//!
//! Every segment is flattened when it is sealed, which costs a few nanoseconds a cell and makes reads faster. Beyond
//! that:
//!
//! * [`Level::Basic`] merges the indexes when there are more segments than a read should visit.
//! * [`Level::Eager`] always drops cells that no reader can see, and copies live cells out of the chunks that contain
//!   dropped ones.
//! * [`Level::Adaptive`] drops and copies cells when that pays, and otherwise acts like `Basic`. Dropping saves bytes
//!   in the flush and in later compactions of files, and makes room for more writes before the flush; its cost is the
//!   copying of live cells. The droppable fraction is first estimated from a sample of rows, and then corrected by how
//!   accurate earlier estimates were.
//!
//! **How much is copied.** In a chunk that is half dead each copied byte frees another one. In a chunk that is nearly
//! all live, a copied byte frees next to nothing now, and more if the copy is made later. So while memory suffices,
//! only chunks that are half dead are emptied. Where memory is short, more chunks are emptied, those with the most dead
//! bytes first, until the next segments have room.
//!
//! **When.** Later is better: one compaction then drops what several would have dropped, and reads all cells only once.
//! While reads visit few segments and the next segment fits, no estimate is made. With much room left, segments are
//! copied only if most of their cells are redundant; just before a flush, even if few are. Copying a cell costs about
//! 150 ns. A dropped cell is not written by the flush and by the three or four compactions after it, which saves about
//! 1 µs. So before a flush, an eighth of redundant cells pays for copying the rest.

use crate::merge::Cleaning;

/// How a store compacts in memory: HBase's `MemoryCompactionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// No in-memory compaction: one segment until the flush.
    None,
    /// The server flattens segments and merges their indexes.
    Basic,
    /// The server always drops redundant cells.
    Eager,
    /// The server drops redundant cells where that pays.
    #[default]
    Adaptive,
}

impl Level {
    /// Parses HBase's name of the level, in upper or lower case; `None` for any other name.
    pub fn of_name(name: &str) -> Option<Level> {
        [Level::None, Level::Basic, Level::Eager, Level::Adaptive]
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// Returns HBase's name of the level.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "NONE",
            Level::Basic => "BASIC",
            Level::Eager => "EAGER",
            Level::Adaptive => "ADAPTIVE",
        }
    }
}

/// Minimum dead fraction of a chunk at which its live cells are copied while memory suffices. Waiting pays: while a
/// chunk waits, more of its bytes become dead, and each copied byte then frees more memory.
const DEAD_MIN: f64 = 0.5;

/// Factor by which dropping cells is worth more just before a flush than while all memory is free.
const WORTH_WHEN_FULL: f64 = 6.0;

/// The configuration of a store's in-memory compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// The level of in-memory compaction.
    pub level: Level,
    /// Number of segments beside the active one that a read may visit
    /// (`hbase.hregion.compacting.pipeline.segments.limit`).
    pub segments_max: usize,
    /// At [`Level::Adaptive`], while memory suffices, cells are dropped only if at most this fraction of the cells
    /// remains (`hbase.memstore.adaptive.compaction.threshold`).
    pub unique_max: f64,
}

/// What to do with all flat segments of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Change nothing.
    Leave,
    /// Merge the indexes of the segments.
    Merge,
    /// Drop redundant cells, and copy the live cells of the chunks that [`Policy::cleaning`] chooses.
    Compact,
}

impl Policy {
    /// Whether [`Policy::decide`] needs an estimate of the redundant fraction for this many flat segments. At
    /// [`Level::Adaptive`] it does if there are too many segments, or if the next one, which adds `step`, would bring
    /// `pressure` to 1. At other levels it does not.
    pub fn wants_estimate(&self, segments: usize, pressure: f64, step: f64) -> bool {
        self.level == Level::Adaptive
            && (segments > self.segments_max.max(1) || segments > 0 && pressure + step >= 1.0)
    }

    /// Decides what to do with `segments` flat segments. `redundant` is the estimated fraction of droppable cells, if
    /// an estimate was made. `pressure`, from 0 to 1, is how full the region's memory or the server's memstores are: at
    /// 1 the region is flushed.
    pub fn decide(&self, segments: usize, redundant: Option<f64>, pressure: f64) -> Action {
        let pays = || {
            let Some(redundant) = redundant else { return false };
            let redundant = redundant.clamp(0.0, 1.0);
            let unique_max = self.unique_max.clamp(0.0, 1.0);
            let worth = 1.0 + WORTH_WHEN_FULL * pressure.clamp(0.0, 1.0).powi(2);
            // Weighs the bytes that are saved against the bytes that must be copied. `unique_max` gives the ratio at
            // which they are equal.
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
    /// Returns the rule by which [`Action::Compact`] empties chunks when `short` more bytes must become free.
    pub fn cleaning(&self, short: u64) -> Cleaning {
        match self.level {
            Level::Adaptive => Cleaning { free_min: short, dead_min: DEAD_MIN },
            _ => Cleaning::ALL,
        }
    }
}

/// How accurate earlier estimates were: the factor by which the next one is corrected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimateTrust(f64);

impl Default for EstimateTrust {
    fn default() -> EstimateTrust {
        EstimateTrust(1.0)
    }
}

impl EstimateTrust {
    /// Returns the corrected estimate.
    pub fn apply(self, estimate: f64) -> f64 {
        (estimate * self.0).clamp(0.0, 1.0)
    }

    /// Records that for the estimate `estimate` the actual value was `actual`. A single wrong estimate counts a
    /// quarter.
    pub fn learn(&mut self, estimate: f64, actual: f64) {
        if estimate > 0.0 {
            let ratio = (actual / estimate).clamp(0.25, 2.0);
            self.0 = (0.75 * self.0 + 0.25 * ratio).clamp(0.25, 2.0);
        }
    }

    /// Records an estimate that led to no action. The correction moves towards 1, so that one wrong estimate loses its
    /// effect.
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
    fn no_estimate_is_made_too_early() {
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
        let mut trust = EstimateTrust::default();
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
