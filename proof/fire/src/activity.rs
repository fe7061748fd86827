//! What the administrators do: which of their operations are under way, and how long each kind takes.
//!
//! The runner asks for an operation of a kind ([`Activity::want`]) and kills the server while it is under way. An
//! operation whose server was killed stays under way until its client notices, so the runner also learns what it hit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use env::sync::Mutex;
use env::{Moment, World};

/// Number of ended operations that are remembered to explain a slow operation of a client.
const ENDED_MAX: usize = 200;
/// Maximum wait until an administrator begins a wanted operation.
const BEGIN_MAX: Duration = Duration::from_secs(10);
/// Assumed duration of an operation of which no other of the same kind has ended yet.
const TIME_FIRST: Duration = Duration::from_millis(50);
/// Number of characters of a failure's message by which failures are grouped.
const FAILURE_LENGTH: usize = 160;

macro_rules! admin_operations {
    ($($operation:ident $name:literal),* $(,)?) => {
        /// A kind of operation of an administrator.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum AdminOperation {
            $($operation),*
        }

        impl AdminOperation {
            pub(crate) const ALL: &[AdminOperation] = &[$(AdminOperation::$operation),*];

            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(AdminOperation::$operation => $name),*
                }
            }
        }
    };
}

admin_operations! {
    Flush "flush",
    MinorCompaction "minor-compaction",
    MajorCompaction "major-compaction",
    Split "split",
    Merge "merge",
    AlterFamily "alter-family",
    AlterTable "alter-table",
    AddFamily "add-family",
    DeleteFamily "delete-family",
    Snapshot "snapshot",
    SnapshotOfFiles "snapshot-of-files",
    Clone "clone",
    Restore "restore",
    DeleteSnapshot "delete-snapshot",
    Create "create",
    Disable "disable",
    Enable "enable",
    Truncate "truncate",
    Delete "delete",
}

impl AdminOperation {
    pub(crate) fn parse(name: &str) -> Option<AdminOperation> {
        AdminOperation::ALL.iter().copied().find(|operation| operation.name() == name)
    }

    /// Returns whether the server may refuse the operation. It refuses splits and merges of regions that refer to files
    /// of their parents, and whatever names a region that was closed, split or merged a moment ago.
    pub(crate) fn may_be_refused(self) -> bool {
        use AdminOperation::{MajorCompaction, Merge, MinorCompaction, Split};
        matches!(self, MinorCompaction | MajorCompaction | Split | Merge)
    }
}

/// An operation that is under way or has ended.
struct Run {
    number: u64,
    operation: AdminOperation,
    began: Moment,
    ended: Option<Moment>,
}

#[derive(Default)]
struct Inner {
    /// Number of operations that were begun.
    begun: u64,
    /// In the order of their begin.
    runs: VecDeque<Run>,
    /// The usual time of each kind: a moving average.
    times: BTreeMap<AdminOperation, Duration>,
    wanted: BTreeSet<AdminOperation>,
    /// Number of failures by kind and message.
    failures: BTreeMap<(AdminOperation, String), u64>,
}

/// The operations of all administrators.
pub(crate) struct Activity {
    world: World,
    inner: Mutex<Inner>,
}

impl Activity {
    pub(crate) fn new(world: World) -> Activity {
        Activity { world, inner: Mutex::default() }
    }

    /// Records that an operation begins. Returns its number.
    pub(crate) fn begin(&self, operation: AdminOperation) -> u64 {
        let mut inner = self.inner.lock();
        inner.begun += 1;
        let number = inner.begun;
        inner.runs.push_back(Run { number, operation, began: self.world.moment(), ended: None });
        while inner.runs.len() > ENDED_MAX && inner.runs.front().is_some_and(|run| run.ended.is_some()) {
            inner.runs.pop_front();
        }
        number
    }

    /// Records that an operation has ended.
    pub(crate) fn end(&self, number: u64) {
        let now = self.world.moment();
        let mut inner = self.inner.lock();
        let Some(run) = inner.runs.iter_mut().find(|run| run.number == number) else { return };
        run.ended = Some(now);
        let (operation, time) = (run.operation, now.since(run.began));
        let usual = inner.times.entry(operation).or_insert(time);
        *usual = (*usual * 3 + time) / 4;
    }

    /// Records the message of a failure.
    pub(crate) fn note_failure(&self, operation: AdminOperation, error: &client::Error) {
        // Messages that differ only in the names and numbers of regions and procedures count as one failure.
        let words = error.to_string();
        let words = words.split_whitespace().filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
        let words: String = words.collect::<Vec<_>>().join(" ").chars().take(FAILURE_LENGTH).collect();
        *self.inner.lock().failures.entry((operation, words)).or_default() += 1;
    }

    /// Returns the failures, one with its count and its kind in each text.
    pub(crate) fn failures(&self) -> Vec<String> {
        let inner = self.inner.lock();
        let shown = inner.failures.iter();
        shown.map(|((operation, words), count)| format!("{count} {}: {words}", operation.name())).collect()
    }

    /// Returns the names of the kinds that are under way, each with how long in ms.
    pub(crate) fn under_way(&self) -> Vec<(&'static str, u64)> {
        let now = self.world.moment();
        let inner = self.inner.lock();
        let runs = inner.runs.iter().filter(|run| run.ended.is_none());
        runs.map(|run| (run.operation.name(), now.since(run.began).as_millis() as u64)).collect()
    }

    /// Describes the operations that were under way between two moments.
    pub(crate) fn between(&self, from: Moment, to: Moment) -> String {
        let inner = self.inner.lock();
        let overlaps = |run: &&Run| run.began <= to && run.ended.is_none_or(|ended| ended >= from);
        let shown = inner.runs.iter().filter(overlaps).map(|run| {
            // Positive: after the begin of the client's operation.
            let relative = |moment: Moment| match moment >= from {
                true => format!("+{}", moment.since(from).as_millis()),
                false => format!("-{}", from.since(moment).as_millis()),
            };
            let end = run.ended.map_or("now".to_owned(), relative);
            format!("{} ({} to {end} ms)", run.operation.name(), relative(run.began))
        });
        let shown: Vec<String> = shown.collect();
        if shown.is_empty() { "nothing".to_owned() } else { shown.join(" ") }
    }

    /// Returns the first of these kinds that the runner wants, and removes it from the wanted ones; `None` if it wants
    /// none of them.
    pub(crate) fn take_wanted(&self, of: &[AdminOperation]) -> Option<AdminOperation> {
        let mut inner = self.inner.lock();
        let wanted = of.iter().copied().find(|operation| inner.wanted.contains(operation))?;
        inner.wanted.remove(&wanted);
        Some(wanted)
    }

    /// Waits until an administrator begins an operation of this kind. Returns the usual time of such an operation;
    /// `None` if none begins in time.
    pub(crate) async fn want(&self, operation: AdminOperation) -> Option<Duration> {
        let since = self.world.moment();
        let before = {
            let mut inner = self.inner.lock();
            inner.wanted.insert(operation);
            inner.begun
        };
        loop {
            {
                let inner = self.inner.lock();
                let mut runs = inner.runs.iter().rev().take_while(|run| run.number > before);
                if runs.any(|run| run.operation == operation) {
                    return Some(inner.times.get(&operation).copied().unwrap_or(TIME_FIRST));
                }
            }
            if self.world.moment().since(since) > BEGIN_MAX {
                return None;
            }
            env::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use env::WallTime;

    use super::*;

    #[test]
    fn operations_under_way_and_recent_ones_are_listed() {
        let world = World::simulated(1, WallTime(0));
        let activity = Activity::new(world.clone());
        let split = activity.begin(AdminOperation::Split);
        world.advance(Duration::from_millis(10));
        let from = world.moment();
        world.advance(Duration::from_millis(5));
        assert_eq!(activity.under_way(), [("split", 15)]);
        activity.end(split);
        world.advance(Duration::from_millis(5));
        activity.begin(AdminOperation::Merge);
        assert_eq!(activity.under_way(), [("merge", 0)]);
        let shown = activity.between(from, world.moment());
        assert_eq!(shown, "split (-10 to +5 ms) merge (+10 to now ms)");
        world.advance(Duration::from_millis(5));
        assert_eq!(activity.between(world.moment(), world.moment()), "merge (-5 to now ms)");
    }

    #[test]
    fn a_wanted_kind_is_taken_once_and_by_who_can_do_it() {
        let activity = Activity::new(World::simulated(1, WallTime(0)));
        activity.inner.lock().wanted.insert(AdminOperation::Clone);
        assert_eq!(activity.take_wanted(&[AdminOperation::Split]), None);
        let mine = [AdminOperation::Snapshot, AdminOperation::Clone];
        assert_eq!(activity.take_wanted(&mine), Some(AdminOperation::Clone));
        assert_eq!(activity.take_wanted(&mine), None);
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for operation in AdminOperation::ALL {
            assert_eq!(AdminOperation::parse(operation.name()), Some(*operation));
        }
        assert_eq!(AdminOperation::parse("nothing"), None);
    }
}
