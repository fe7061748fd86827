//! Decides when the next sync begins while others are under way.
//!
//! While none is under way, a sync begins at once: a lone writer waits for nothing but its own request. While some are,
//! writers that come meanwhile share the next one, which begins a quarter of a sync's usual time after the last. So a
//! writer waits an eighth of a request on average before its own, and the requests stay few.

use std::time::Duration;

use env::Moment;

/// Minimum time between the beginnings of two syncs, while one is under way.
const INTERVAL_MIN: Duration = Duration::from_millis(5);
/// The part of a sync's usual time that passes between the beginnings of two.
const PART_OF_SYNC: u32 = 4;
/// Number of bytes in the buffer for which a sync begins without waiting.
const BYTES_ENOUGH: usize = 4 << 20;
/// How long the log's thread sleeps while as many syncs are under way as may be. The end of one wakes it.
const SLEEP: Duration = Duration::from_secs(1);

/// Returns the time between two syncs of a log that is written without a pause, when a sync usually takes `usual` and
/// several can run at the same time.
pub fn sync_interval(usual: Duration) -> Duration {
    (usual / PART_OF_SYNC).max(INTERVAL_MIN)
}

/// The syncs that run beside each other.
#[derive(Debug, Default)]
pub(super) struct SyncsUnderWay {
    count: usize,
    /// The position in the stream of records up to which syncs have begun.
    pub(super) sent: u64,
    /// When the last one began.
    last: Option<Moment>,
    /// The usual time of a sync: an exponential average. Zero before the first has ended.
    usual: Duration,
}

impl SyncsUnderWay {
    /// Returns how long to wait before the next sync; `None` if it begins now. `buffered` is the number of bytes in the
    /// buffer.
    pub(super) fn pause(&self, now: Moment, at_once: usize, buffered: usize) -> Option<Duration> {
        let last = self.last.filter(|_| self.count > 0)?;
        if self.count >= at_once {
            return Some(SLEEP);
        }
        let left = sync_interval(self.usual).saturating_sub(now.since(last));
        (buffered < BYTES_ENOUGH && left > Duration::ZERO).then_some(left)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn begin(&mut self, upto: u64, now: Moment) {
        self.count += 1;
        self.sent = self.sent.max(upto);
        self.last = Some(now);
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
    fn a_sync_begins_at_once_when_none_is_under_way_and_else_a_quarter_later() {
        let start = env::World::real().moment();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let mut syncs = SyncsUnderWay::default();
        assert_eq!(syncs.pause(at(0), 2, 0), None);
        syncs.begin(1, at(0));
        assert_eq!(syncs.pause(at(1), 2, 0), Some(Duration::from_millis(4)), "before anything is known");
        assert_eq!(syncs.pause(at(5), 2, 0), None);
        syncs.end(Duration::from_millis(40));
        syncs.begin(2, at(40));
        assert_eq!(syncs.pause(at(42), 2, 0), Some(Duration::from_millis(8)));
        assert_eq!(syncs.pause(at(42), 2, BYTES_ENOUGH), None, "enough for a request of its own");
        syncs.begin(3, at(50));
        assert_eq!(syncs.pause(at(90), 2, BYTES_ENOUGH), Some(SLEEP), "two are under way");
        syncs.end(Duration::from_millis(40));
        assert_eq!(syncs.pause(at(90), 2, 0), None);
        assert_eq!(syncs.sent, 3);
    }
}
