//! The queue of flushes, which has each region at most once, and the state that it shares with the queue of
//! compactions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use env::Moment;
use region::Region;
use rpc::LargePermit;

use super::Background;
use super::compaction_queue::{CompactionCounts, CompactionQueue, Lane, PendingCompactions};
use crate::Options;

/// A waiting flush.
pub(super) struct Flush {
    pub(super) region: Arc<Region>,
    pub(super) again: Retry,
    /// When the flush began to wait for a compaction of the region; `None` if it does not wait for one.
    pub(super) held_since: Option<Moment>,
    /// The permits of the large requests that have filled the region. They are returned when the region was flushed.
    pub(super) permits: Vec<LargePermit>,
}

impl Flush {
    fn of(region: Arc<Region>, permits: Vec<LargePermit>) -> Flush {
        Flush { region, again: Retry::default(), held_since: None, permits }
    }
}

/// When failed work is tried again.
#[derive(Clone, Copy, Default)]
pub(super) struct Retry {
    /// Number of consecutive failures.
    pub(super) failures: u32,
    /// When the next attempt is due; `None` means at once.
    pub(super) due: Option<Moment>,
}

impl Retry {
    pub(super) fn is_due(self, now: Moment) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    /// Counts a further failure. Returns the pause after it, and when the next attempt is due.
    pub(super) fn after_failure(self, now: Moment, options: &Options) -> (Duration, Retry) {
        let wait = options.retry_min.saturating_mul(1 << self.failures.min(20)).min(options.retry_max);
        (wait, Retry { failures: self.failures.saturating_add(1), due: Some(now.plus(wait)) })
    }
}

/// Takes the first entry of the queue that is due. If none is due, returns the time until the first one is; `None` if
/// the queue has no entry with a time.
pub(super) fn next_due<T>(
    queue: &mut VecDeque<T>,
    again: impl Fn(&T) -> Retry,
    now: Moment,
) -> Result<T, Option<Duration>> {
    match queue.iter().position(|waiting| again(waiting).is_due(now)) {
        Some(first) => Ok(queue.remove(first).expect("it was just found")),
        None => Err(queue.iter().filter_map(|waiting| again(waiting).due).map(|due| due.since(now)).min()),
    }
}

#[derive(Default)]
pub(super) struct Queues {
    pub(super) flushes: VecDeque<Flush>,
    /// Regions that are being flushed.
    pub(super) flushing: Vec<Arc<Region>>,
    /// When the running flushes and compactions began.
    pub(super) began: Vec<Moment>,
    pub(super) compactions: CompactionQueue,
}

/// Numbers of flushes and compactions that wait or run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    pub(crate) flushes: usize,
    pub(crate) compactions: CompactionCounts,
}

impl Queues {
    /// Removes the flush or compaction that began at `moment` from the running ones.
    pub(super) fn ended(&mut self, moment: Moment) {
        if let Some(at) = self.began.iter().position(|began| *began == moment) {
            self.began.swap_remove(at);
        }
    }
}

impl Background {
    /// Queues a flush of the region, unless one is queued or running.
    ///
    /// A running flush may seem to need a second one: until it ends, the memory of its edits is not free, and log files
    /// with these edits cannot be deleted. But a second flush would only write a small file with the few edits that
    /// arrived since. When the running flush ends, its thread checks whether another flush is due.
    pub(crate) fn request_flush(&self, region: &Arc<Region>) {
        let mut queues = self.queues.lock();
        if queues.flushing.iter().any(|flushing| Arc::ptr_eq(flushing, region)) {
            return;
        }
        if !queues.flushes.iter().any(|waiting| Arc::ptr_eq(&waiting.region, region)) {
            let region = region.clone();
            queues.flushes.push_back(Flush::of(region, Vec::new()));
            self.wakes.flushes.notify_one();
        }
    }

    /// Returns the regions whose flush has failed and waits for its next attempt.
    pub(crate) fn failing_flushes(&self) -> Vec<Arc<Region>> {
        let queues = self.queues.lock();
        let failing = queues.flushes.iter().filter(|waiting| waiting.again.failures > 0);
        failing.map(|waiting| Arc::clone(&waiting.region)).collect()
    }

    /// Queues a flush of the region even if one is running. If one is queued already, no second one is added. Keeps
    /// `permit` until the queued flush ends.
    pub(crate) fn request_flush_for(&self, region: &Arc<Region>, permit: LargePermit) {
        let mut queues = self.queues.lock();
        match queues.flushes.iter_mut().find(|waiting| Arc::ptr_eq(&waiting.region, region)) {
            Some(waiting) => waiting.permits.push(permit),
            None => {
                queues.flushes.push_back(Flush::of(region.clone(), vec![permit]));
                self.wakes.flushes.notify_one();
            }
        }
    }

    /// Returns the time for which the oldest running flush or compaction has run; zero if none runs.
    pub(crate) fn longest(&self, now: Moment) -> Duration {
        let queues = self.queues.lock();
        queues.began.iter().map(|began| now.since(*began)).max().unwrap_or_default()
    }

    /// Adds running flushes of these regions, for tests.
    #[cfg(test)]
    pub(crate) fn set_flushing(&self, regions: Vec<Arc<Region>>) {
        self.queues.lock().flushing = regions;
    }

    /// Adds running flushes or compactions that began at these moments, for tests.
    #[cfg(test)]
    pub(crate) fn set_began(&self, moments: Vec<Moment>) {
        self.queues.lock().began = moments;
    }

    /// Returns the numbers of waiting and running flushes and compactions.
    pub(crate) fn waiting(&self) -> QueueCounts {
        let queues = self.queues.lock();
        let flushes = queues.flushes.len() + queues.flushing.len();
        QueueCounts { flushes, compactions: queues.compactions.counts() }
    }

    /// Returns which kinds of compaction of a region wait or run.
    pub(crate) fn compacting(&self, region: &Region) -> PendingCompactions {
        self.queues.lock().compactions.compacting(region.info().encoded_name())
    }

    /// Drops the waiting compactions below the throttle point (`small`) or above it.
    pub(crate) fn clear_compactions(&self, small: bool) {
        let lane = if small { Lane::Small } else { Lane::Large };
        self.queues.lock().compactions.clear(lane);
    }

    /// Drops the waiting work of a region that is no longer on this server.
    pub(crate) fn forget(&self, region: &Arc<Region>) {
        self.memory_queue.forget(region);
        let mut queues = self.queues.lock();
        queues.flushes.retain(|waiting| !Arc::ptr_eq(&waiting.region, region));
        queues.compactions.forget(region);
    }
}
