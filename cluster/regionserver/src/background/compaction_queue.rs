//! The queue of compactions, with one entry for each store and kind, the most urgent first.
//!
//! A compaction is large if it takes more bytes than the throttle point. Large compactions have threads of their own,
//! so that a small one does not wait for a large one of another store, which may take an hour. If there is no large
//! one, such a thread takes a small one. Two compactions of one store never run at once.
//!
//! The order is HBase's. The fewer files a store may still get before its flushes wait, the more urgent is its
//! compaction. For a client's request, the number of files that may still come counts as one. Stores of system tables
//! come before all others.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{HashMap, Moment};
use proto::EncodedName;
use region::{CompactionPlan, Region};

use super::queues::Retry;

/// HBase's priority of a client's request (`Store.PRIORITY_USER`).
const USER_PRIORITY: i64 = 1;

/// Who has requested a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The server has requested it, because of the store's policy.
    System,
    /// A client has requested it.
    User,
}

/// Which compactions a thread takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Compactions below the throttle point.
    Small,
    /// Compactions above the throttle point, and smaller ones if there are none.
    Large,
}

/// A queued compaction of one store.
pub(super) struct QueuedCompaction {
    pub(super) region: Arc<Region>,
    pub(super) family: Bytes,
    pub(super) major: bool,
    pub(super) origin: Origin,
    pub(super) lane: Lane,
    pub(super) again: Retry,
    /// The order of the queue, the most urgent first: tables of the system before user tables, then by the number of
    /// files that the store may still get, then by arrival.
    order: (bool, i64, u64),
}

impl QueuedCompaction {
    pub(super) fn new(
        region: &Arc<Region>,
        family: Bytes,
        plan: &CompactionPlan,
        origin: Origin,
    ) -> QueuedCompaction {
        let priority = match origin {
            Origin::User => USER_PRIORITY,
            // As in HBase, a request of the server never has the priority of a client's.
            Origin::System if plan.files_left == USER_PRIORITY => USER_PRIORITY + 1,
            Origin::System => plan.files_left,
        };
        QueuedCompaction {
            region: Arc::clone(region),
            family,
            major: plan.major,
            origin,
            lane: if plan.is_large { Lane::Large } else { Lane::Small },
            again: Retry::default(),
            order: (!region.info().table().is_system(), priority, 0),
        }
    }

    fn is_of(&self, region: &Region, family: &[u8]) -> bool {
        std::ptr::eq(&*self.region, region) && self.family == family
    }
}

/// Numbers of compactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompactionCounts {
    /// Number of queued compactions below the throttle point.
    pub(crate) small: usize,
    /// Number of queued compactions above the throttle point.
    pub(crate) large: usize,
    /// Number of running compactions.
    pub(crate) running: usize,
}

/// The kinds of compaction that are queued or running for a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingCompactions {
    pub(crate) minor: bool,
    pub(crate) major: bool,
}

#[derive(Default)]
pub(super) struct CompactionQueue {
    waiting: Vec<QueuedCompaction>,
    running: Vec<(Arc<Region>, Bytes)>,
    /// For each region, the numbers of queued or running compactions: minor and major.
    counts: HashMap<EncodedName, (usize, usize)>,
    arrivals: u64,
}

impl CompactionQueue {
    /// Queues a compaction. If a compaction of the same store and kind is queued already, that entry becomes at least
    /// as urgent as this one.
    pub(super) fn push(&mut self, mut wanted: QueuedCompaction) {
        let same = |known: &&mut QueuedCompaction| {
            known.is_of(&wanted.region, &wanted.family) && known.major == wanted.major
        };
        if let Some(known) = self.waiting.iter_mut().find(same) {
            known.order = known.order.min((wanted.order.0, wanted.order.1, known.order.2));
            known.lane = wanted.lane;
            if wanted.origin == Origin::User {
                (known.origin, known.again) = (Origin::User, Retry::default());
            }
            return;
        }
        let counts = self.counts.entry(wanted.region.info().encoded_name().clone()).or_default();
        *(if wanted.major { &mut counts.1 } else { &mut counts.0 }) += 1;
        self.arrivals += 1;
        wanted.order.2 = self.arrivals;
        self.waiting.push(wanted);
    }

    /// Takes the most urgent compaction that is due for a thread of `lane`. Its store is busy until
    /// [`CompactionQueue::end`] is called. If no compaction is due, returns the time until the next one is, or `None`
    /// if none waits for a time.
    pub(super) fn take(&mut self, lane: Lane, now: Moment) -> Result<QueuedCompaction, Option<Duration>> {
        let is_free = |wanted: &QueuedCompaction| {
            !self.running.iter().any(|(region, family)| wanted.is_of(region, family))
        };
        let lanes: &[Lane] = if lane == Lane::Large { &[Lane::Large, Lane::Small] } else { &[Lane::Small] };
        for lane in lanes {
            let mine = self.waiting.iter().enumerate().filter(|(_, wanted)| wanted.lane == *lane);
            let due = mine.filter(|(_, wanted)| wanted.again.is_due(now) && is_free(wanted));
            if let Some((index, _)) = due.min_by_key(|(_, wanted)| wanted.order) {
                let wanted = self.waiting.swap_remove(index);
                self.running.push((Arc::clone(&wanted.region), wanted.family.clone()));
                return Ok(wanted);
            }
        }
        let mine = self.waiting.iter().filter(|wanted| lanes.contains(&wanted.lane));
        // A compaction that is already due waits for its store, and not for the clock. It is left out here, because the
        // thread would otherwise wake at once and search again and again.
        let later = mine.filter_map(|wanted| wanted.again.due).filter(|due| *due > now);
        Err(later.map(|due| due.since(now)).min())
    }

    /// Records that a compaction that was taken has ended, so that its store is not busy any more.
    pub(super) fn end(&mut self, wanted: &QueuedCompaction) {
        let is_it = |(region, family): &(Arc<Region>, Bytes)| wanted.is_of(region, family);
        if let Some(at) = self.running.iter().position(is_it) {
            self.running.swap_remove(at);
        }
    }

    /// Puts a compaction back that was taken and has [ended](CompactionQueue::end).
    pub(super) fn put_back(&mut self, wanted: QueuedCompaction) {
        self.waiting.push(wanted);
    }

    /// Records that a compaction is neither queued nor running any more.
    pub(super) fn finished(&mut self, wanted: &QueuedCompaction) {
        let name = wanted.region.info().encoded_name();
        if let Some(counts) = self.counts.get_mut(name) {
            let count = if wanted.major { &mut counts.1 } else { &mut counts.0 };
            *count = count.saturating_sub(1);
            if *counts == (0, 0) {
                self.counts.remove(name);
            }
        }
    }

    /// Drops the waiting compactions of a lane.
    pub(super) fn clear(&mut self, lane: Lane) {
        self.drop_waiting(|wanted| wanted.lane == lane);
    }

    /// Drops the waiting compactions of a region.
    pub(super) fn forget(&mut self, region: &Region) {
        self.drop_waiting(|wanted| std::ptr::eq(&*wanted.region, region));
    }

    fn drop_waiting(&mut self, goes: impl Fn(&QueuedCompaction) -> bool) {
        for wanted in std::mem::take(&mut self.waiting) {
            if goes(&wanted) {
                self.finished(&wanted);
            } else {
                self.waiting.push(wanted);
            }
        }
    }

    pub(super) fn compacting(&self, region: &EncodedName) -> PendingCompactions {
        let counts = self.counts.get(region).copied().unwrap_or_default();
        PendingCompactions { minor: counts.0 > 0, major: counts.1 > 0 }
    }

    pub(super) fn counts(&self) -> CompactionCounts {
        let large = self.waiting.iter().filter(|wanted| wanted.lane == Lane::Large).count();
        CompactionCounts { small: self.waiting.len() - large, large, running: self.running.len() }
    }
}

#[cfg(test)]
mod tests {
    use env::World;

    use super::*;
    use crate::tests::bench::Bench;

    #[test]
    fn a_compaction_that_is_due_while_its_store_is_busy_is_no_reason_to_ask_at_once() {
        let (bench, now) = (Bench::new(), World::real().moment());
        let region = bench.server.regions().all().remove(0);
        let plan = CompactionPlan { files: 3, bytes: 3, major: false, is_large: false, files_left: 5 };
        let wanted = |major| {
            QueuedCompaction::new(&region, "f".into(), &CompactionPlan { major, ..plan }, Origin::System)
        };
        let mut queue = CompactionQueue::default();
        queue.push(wanted(false));
        let running = queue.take(Lane::Small, now).expect("its store is free");
        let mut failed = wanted(true);
        failed.again = Retry { failures: 1, due: Some(now) };
        queue.push(failed);
        assert_eq!(queue.take(Lane::Small, now).err(), Some(None), "not after no time at all");
        queue.end(&running);
        assert!(queue.take(Lane::Small, now).is_ok_and(|next| next.major));
    }
}
