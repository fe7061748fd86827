//! Records what callers saw: counts and latencies, in total and over time.

use std::collections::BTreeMap;
use std::time::Duration;

use env::Moment;
use hdrhistogram::Histogram;

use crate::calm::{self, Timed};

/// Longest latency that is recorded, in ns; a longer one counts as this.
pub(crate) const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// Length of a time slot.
pub(crate) const SLOT: Duration = Duration::from_millis(500);
/// Maximum number of distinct failure messages that are counted separately; all others are counted together.
const FAILURES_MAX: usize = 8;

/// The result of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// The kind of the operation, as an index into the workload's kinds.
    pub(crate) kind: usize,
    /// Number of rows written or read.
    pub(crate) rows: u64,
    /// Number of rows that differ from what was written.
    pub(crate) wrong: u64,
    /// Number of bytes of keys and values written.
    pub(crate) written: u64,
}

/// The recorded operations of one kind.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Number of operations that succeeded.
    pub operations: u64,
    /// Number of rows of the operations that succeeded.
    pub rows: u64,
    /// Number of rows that differ from what was written.
    pub wrong: u64,
    /// Number of bytes of keys and values written.
    pub written: u64,
    /// Number of failed operations, by message.
    pub failures: BTreeMap<String, u64>,
    /// Latencies of successful operations in ns.
    pub latencies: Histogram<u64>,
    /// The time slots.
    pub slots: Vec<Slot>,
}

/// One time slot.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Number of operations that ended in the slot.
    pub operations: u64,
    /// The longest latency among them, in ns.
    pub latency_max_ns: u64,
}

/// Returns an empty histogram of latencies in ns.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("constants that fit each other")
}

impl Recorded {
    fn new() -> Recorded {
        Recorded {
            operations: 0,
            rows: 0,
            wrong: 0,
            written: 0,
            failures: BTreeMap::new(),
            latencies: latencies(),
            slots: Vec::new(),
        }
    }

    fn add(&mut self, other: &Recorded) {
        self.operations += other.operations;
        self.rows += other.rows;
        self.wrong += other.wrong;
        self.written += other.written;
        for (words, count) in &other.failures {
            *self.failures.entry(words.clone()).or_default() += count;
        }
        self.latencies.add(&other.latencies).expect("of the same bounds");
        if self.slots.len() < other.slots.len() {
            self.slots.resize(other.slots.len(), Slot { operations: 0, latency_max_ns: 0 });
        }
        for (mine, theirs) in self.slots.iter_mut().zip(&other.slots) {
            mine.operations += theirs.operations;
            mine.latency_max_ns = mine.latency_max_ns.max(theirs.latency_max_ns);
        }
    }

    /// Returns the number of operations that failed.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Returns the latency quantile in µs, 0 without operations. `part` is from 0 to 1.
    pub fn latency_us(&self, part: f64) -> f64 {
        self.latencies.value_at_quantile(part) as f64 / 1_000.0
    }
}

/// Which operations belong to the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Operations that ended in the measured time, for the closed loop.
    Ended,
    /// Operations that were due in the measured time, however long they took, for the open loop.
    Due,
}

/// Records operations between two moments.
#[derive(Debug)]
pub(crate) struct Recorder {
    counts: Counts,
    from: Moment,
    to: Moment,
    kinds: Vec<Recorded>,
    /// Each single operation, if requested.
    each: Option<Vec<Timed>>,
}

impl Recorder {
    /// Creates a recorder for a workload with `kinds` kinds of operations.
    pub(crate) fn new(kinds: usize, counts: Counts, from: Moment, to: Moment) -> Recorder {
        Recorder { counts, from, to, kinds: vec![Recorded::new(); kinds], each: None }
    }

    /// Returns the same recorder, which also keeps each operation; about `expected` are expected.
    pub(crate) fn with_each(mut self, expected: usize) -> Recorder {
        self.each = Some(calm::room(expected));
        self
    }

    /// Returns each single operation, if they are kept.
    pub(crate) fn each(&self) -> Option<&[Timed]> {
        self.each.as_deref()
    }

    /// Records a successful operation; returns whether it belongs to the measured time.
    pub(crate) fn done(&mut self, done: Done, began: Moment, ended: Moment) -> bool {
        let moment = match self.counts {
            Counts::Ended => ended,
            Counts::Due => began,
        };
        if moment < self.from || moment >= self.to {
            return false;
        }
        let latency = u64::try_from(ended.since(began).as_nanos()).unwrap_or(u64::MAX);
        let recorded = &mut self.kinds[done.kind];
        recorded.operations += 1;
        recorded.rows += done.rows;
        recorded.wrong += done.wrong;
        recorded.written += done.written;
        recorded.latencies.saturating_record(latency);
        if let Some(each) = &mut self.each {
            each.push((began, latency));
        }
        let at = (moment.since(self.from).as_nanos() / SLOT.as_nanos()) as usize;
        if recorded.slots.len() <= at {
            recorded.slots.resize(at + 1, Slot { operations: 0, latency_max_ns: 0 });
        }
        let slot = &mut recorded.slots[at];
        slot.operations += 1;
        slot.latency_max_ns = slot.latency_max_ns.max(latency);
        true
    }

    /// Records a failed operation. Failures before the measured time count too, because they may explain later ones.
    pub(crate) fn failed(&mut self, kind: usize, words: String) {
        let failures = &mut self.kinds[kind].failures;
        if failures.len() < FAILURES_MAX || failures.contains_key(&words) {
            *failures.entry(words).or_default() += 1;
        } else {
            *failures.entry("other failures".to_owned()).or_default() += 1;
        }
    }

    /// Merges recorders, kind by kind.
    pub(crate) fn merged<'a>(all: impl IntoIterator<Item = &'a Recorder>) -> Vec<Recorded> {
        let mut merged: Vec<Recorded> = Vec::new();
        for recorder in all {
            merged.resize_with(recorder.kinds.len(), Recorded::new);
            for (mine, theirs) in merged.iter_mut().zip(&recorder.kinds) {
                mine.add(theirs);
            }
        }
        merged
    }

    /// Returns the operations of all kinds together.
    pub(crate) fn total(kinds: &[Recorded]) -> Recorded {
        let mut total = Recorded::new();
        kinds.iter().for_each(|kind| total.add(kind));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::{WallTime, World};

    #[test]
    fn only_operations_that_end_in_the_measured_time_count() {
        let world = World::simulated(1, WallTime(0));
        let start = world.moment();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let mut recorder = Recorder::new(1, Counts::Ended, at(1_000), at(3_000));
        let done = Done { kind: 0, rows: 2, wrong: 0, written: 5 };
        for (began, ended) in [(0, 999), (999, 1_000), (1_400, 1_500), (2_000, 2_999), (2_000, 3_000)] {
            recorder.done(done, at(began), at(ended));
        }
        let merged = Recorder::merged([&recorder, &recorder]);
        assert_eq!((merged[0].operations, merged[0].rows, merged[0].written), (6, 12, 30));
        assert!((merged[0].latency_us(1.0) - 999_000.0).abs() < 1_000.0);
        let slots: Vec<u64> = merged[0].slots.iter().map(|slot| slot.operations).collect();
        assert_eq!(slots, [2, 2, 0, 2]);
    }

    #[test]
    fn an_operation_that_was_due_in_time_counts_however_late_it_ends() {
        let world = World::simulated(1, WallTime(0));
        let at = |ms| world.moment().plus(Duration::from_millis(ms));
        let mut recorder = Recorder::new(1, Counts::Due, at(1_000), at(2_000));
        let done = Done { kind: 0, rows: 1, wrong: 0, written: 0 };
        for (began, ended) in [(999, 1_500), (1_000, 1_001), (1_999, 9_999), (2_000, 2_001)] {
            recorder.done(done, at(began), at(ended));
        }
        let merged = Recorder::merged([&recorder]);
        assert_eq!(merged[0].operations, 2);
        let longest = merged[0].latency_us(1.0);
        assert!((longest - 8_000_000.0).abs() < 8_000.0, "{longest}");
    }
}
