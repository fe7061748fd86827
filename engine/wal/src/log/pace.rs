//! Decides when the next sync begins while others are under way.
//!
//! While none is under way, a sync begins at once: a lone writer waits for nothing but its own request. While some are,
//! writers that come meanwhile share the next one, which begins a quarter of a sync's usual time after the last. So a
//! writer waits an eighth of a request on average before its own, and the requests stay few.
//!
//! The storage may have a budget for its requests ([`storage::Files::sync_pause`]). A sync then waits for that, too, also
//! while no other is under way and however many bytes wait: the storage says for how long at most.

use std::time::Duration;

use env::Moment;

/// Minimum time between the beginnings of two syncs, while one is under way.
const INTERVAL_MIN: Duration = Duration::from_millis(5);
/// A sync's usual time is divided by this number: the result is the time between the beginnings of two syncs.
const PART_OF_SYNC: u32 = 4;
/// Number of bytes in the buffer for which a sync begins without waiting.
const BYTES_ENOUGH: usize = 4 << 20;
/// How long the log's thread sleeps while the maximum number of syncs is under way. The end of a sync wakes it earlier.
const SLEEP: Duration = Duration::from_secs(1);

/// Returns the time between two syncs of a log that is written without a pause, when a sync usually takes `usual` and
/// several can run at the same time.
pub fn sync_interval(usual: Duration) -> Duration {
    (usual / PART_OF_SYNC).max(INTERVAL_MIN)
}

/// State of the syncs that are under way at the same time, and when they began.
#[derive(Debug, Default)]
pub(super) struct SyncsUnderWay {
    count: usize,
    /// The position in the stream of records up to which syncs have begun.
    pub(super) sent: u64,
    /// When the last one began.
    last: Option<Moment>,
    /// Since when a sync is wanted that has not begun; `None` if there is none.
    wanted: Option<Moment>,
    /// The usual time of a sync: an exponential average. Zero before the first has ended.
    usual: Duration,
}

impl SyncsUnderWay {
    /// Returns how long to wait before the next sync, which is wanted; `None` if it begins now. `buffered` is the number
    /// of bytes in the buffer. `of_budget` returns how long a sync that was wanted for a given time has to wait for the
    /// budget.
    pub(super) fn pause(
        &mut self,
        now: Moment,
        at_once: usize,
        buffered: usize,
        of_budget: impl Fn(Duration) -> Duration,
    ) -> Option<Duration> {
        let wanted = *self.wanted.get_or_insert(now);
        if self.count > 0 && self.count >= at_once {
            return Some(SLEEP);
        }
        let left = match self.last.filter(|_| self.count > 0 && buffered < BYTES_ENOUGH) {
            Some(last) => sync_interval(self.usual).saturating_sub(now.since(last)),
            None => Duration::ZERO,
        };
        let pause = left.max(of_budget(now.since(wanted)));
        (pause > Duration::ZERO).then_some(pause)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn begin(&mut self, upto: u64, now: Moment) {
        self.count += 1;
        self.sent = self.sent.max(upto);
        self.last = Some(now);
        self.wanted = None;
    }

    pub(super) fn end(&mut self, took: Duration) {
        self.count -= 1;
        self.usual = match self.usual {
            Duration::ZERO => took,
            usual => (usual * 7 + took) / 8,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_begins_at_once_if_none_is_under_way_and_else_a_quarter_of_its_time_later() {
        let start = env::World::real().moment();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let pause =
            |syncs: &mut SyncsUnderWay, ms, buffered| syncs.pause(at(ms), 2, buffered, |_| Duration::ZERO);
        let mut syncs = SyncsUnderWay::default();
        assert_eq!(pause(&mut syncs, 0, 0), None);
        syncs.begin(1, at(0));
        assert_eq!(pause(&mut syncs, 1, 0), Some(Duration::from_millis(4)), "before anything is known");
        assert_eq!(pause(&mut syncs, 5, 0), None);
        syncs.end(Duration::from_millis(40));
        syncs.begin(2, at(40));
        assert_eq!(pause(&mut syncs, 42, 0), Some(Duration::from_millis(8)));
        assert_eq!(pause(&mut syncs, 42, BYTES_ENOUGH), None, "enough for a request of its own");
        syncs.begin(3, at(50));
        assert_eq!(pause(&mut syncs, 90, BYTES_ENOUGH), Some(SLEEP), "two are under way");
        syncs.end(Duration::from_millis(40));
        assert_eq!(pause(&mut syncs, 90, 0), None);
        assert_eq!(syncs.sent, 3);
    }

    #[test]
    fn a_budget_delays_a_sync_by_the_time_since_it_was_wanted() {
        let start = env::World::real().moment();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let budget = |waited: Duration| Duration::from_millis(100).saturating_sub(waited);
        let mut syncs = SyncsUnderWay::default();
        assert_eq!(syncs.pause(at(0), 2, BYTES_ENOUGH, budget), Some(Duration::from_millis(100)));
        assert_eq!(syncs.pause(at(60), 2, 0, budget), Some(Duration::from_millis(40)));
        assert_eq!(syncs.pause(at(100), 2, 0, budget), None);
        syncs.begin(1, at(100));
        assert_eq!(syncs.pause(at(130), 2, 0, budget), Some(Duration::from_millis(100)), "the next one");
    }
}
