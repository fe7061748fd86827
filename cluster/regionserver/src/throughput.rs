//! Limits the bytes a second that all compactions together, and all flushes together, may write.
//!
//! The limit follows the pressure of the store with the most files, as HBase's
//! `PressureAwareCompactionThroughputController` has it:
//!
//! ```text
//! bytes/s  ▲                        ┊ no limit: flushes wait
//!   higher ┤                    ___/┊
//!          │            ___----     ┊
//!    lower ┤___----                 ┊
//!          └────────────────────────┴─▶ files of the fullest store
//!           min of a compaction     blocking files
//! ```
//!
//! Flushes have limits of their own, and by default none. Their limit rises with the memory of all memstores. Above the
//! lower limit of memstores, at which regions are flushed to free memory, flushes have no limit
//! (`PressureAwareFlushThroughputController`).
//!
//! In off-peak hours compactions have another limit. A running compaction checks the limit after every quarter of a
//! megabyte. Its pause ends when the limit rises or the compaction is cancelled. HBase checks the limit after as many
//! bytes as may be written in a second, so its compactions write in bursts.

use std::sync::Arc;

use env::WallTime;
use region::Region;

use crate::RegionServer;

const MS_PER_HOUR: i64 = 3_600_000;

/// The hours of a day in which a server has little to do, in UTC (`hbase.offpeak.start.hour`,
/// `hbase.offpeak.end.hour`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffPeakHours {
    /// No hours are off-peak.
    #[default]
    Never,
    /// From the first hour until before the second. If the second is less, the hours include midnight.
    Between(i64, i64),
}

impl OffPeakHours {
    /// Creates the hours from the values of the two keys. If a value is not from 0 to 23, or if both are equal, no
    /// hours are off-peak.
    pub fn new(start: i64, end: i64) -> OffPeakHours {
        let is_hour = |hour: i64| (0..24).contains(&hour);
        match is_hour(start) && is_hour(end) && start != end {
            true => OffPeakHours::Between(start, end),
            false => OffPeakHours::Never,
        }
    }

    /// Whether `time` is off-peak.
    pub fn contains(self, time: WallTime) -> bool {
        let hour = time.0.div_euclid(MS_PER_HOUR).rem_euclid(24);
        match self {
            OffPeakHours::Never => false,
            OffPeakHours::Between(start, end) if start < end => (start..end).contains(&hour),
            OffPeakHours::Between(start, end) => hour >= start || hour < end,
        }
    }
}

/// The bounds of a limit, in bytes a second. The keys are those for compactions; flushes have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThroughputOptions {
    /// Whether there is a limit at all (`hbase.regionserver.throughput.controller`).
    pub is_limited: bool,
    /// The limit without pressure, in bytes a second (`hbase.hstore.compaction.throughput.lower.bound`).
    pub lower: u64,
    /// The limit just before flushes wait, in bytes a second (`hbase.hstore.compaction.throughput.higher.bound`).
    pub higher: u64,
    /// The limit in off-peak hours, in bytes a second (`hbase.hstore.compaction.throughput.offpeak`).
    pub off_peak: u64,
}

impl ThroughputOptions {
    /// Returns the limit in bytes a second under `pressure`. For compactions, the pressure is 0 if no store has more
    /// files than a compaction needs, and above 1 if some store has so many files that its flushes must wait. For
    /// flushes, it is the memory of all memstores divided by the lower limit. [`u64::MAX`] means no limit.
    pub fn limit(&self, pressure: f64, is_off_peak: bool) -> u64 {
        if !self.is_limited || pressure > 1.0 {
            return u64::MAX;
        }
        if is_off_peak {
            return self.off_peak.max(1);
        }
        let span = self.higher.saturating_sub(self.lower) as f64;
        self.lower.saturating_add((span * pressure.max(0.0)) as u64).max(1)
    }
}

impl RegionServer {
    /// Sets the limits for compactions and flushes. That of compactions depends on the store that is closest to the
    /// number of files at which flushes are delayed, that of flushes on the memory of all memstores.
    pub(crate) fn tune_throughput(&self, regions: &[Arc<Region>]) {
        let pressure = regions.iter().map(|region| region.compaction_pressure()).fold(0.0, f64::max);
        let options = self.options();
        let is_off_peak = options.off_peak.contains(self.foundation().world.now());
        let limit = options.throughput.limit(pressure, is_off_peak);
        if self.background.compaction_budget.set_limit(limit) {
            tracing::debug!(pressure, bytes_per_second = limit, "the limit of compactions has changed");
        }
        let pressure = self.background.memory() as f64 / options.memstore_bytes_low().max(1) as f64;
        let limit = options.flush_throughput.limit(pressure, false);
        if self.foundation().region_options.flush_budget.set_limit(limit) {
            tracing::debug!(pressure, bytes_per_second = limit, "the limit of flushes has changed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn options() -> ThroughputOptions {
        ThroughputOptions { is_limited: true, lower: 50 * MB, higher: 100 * MB, off_peak: u64::MAX }
    }

    #[test]
    fn the_limit_rises_with_the_pressure() {
        let options = options();
        assert_eq!(options.limit(0.0, false), 50 * MB);
        assert_eq!(options.limit(0.5, false), 75 * MB);
        assert_eq!(options.limit(1.0, false), 100 * MB);
        assert_eq!(options.limit(1.01, false), u64::MAX, "flushes wait");
        assert_eq!(options.limit(0.0, true), u64::MAX);
        let quiet = ThroughputOptions { off_peak: 7, ..options };
        assert_eq!((quiet.limit(1.0, true), quiet.limit(1.5, true)), (7, u64::MAX));
        let none = ThroughputOptions { is_limited: false, ..options };
        assert_eq!(none.limit(0.0, false), u64::MAX);
    }

    #[test]
    fn quiet_hours_may_reach_over_midnight() {
        let at = |hours: OffPeakHours, hour: i64| hours.contains(WallTime(hour * MS_PER_HOUR + 1));
        let night = OffPeakHours::new(22, 6);
        assert_eq!(
            [21, 22, 23, 24, 29, 30].map(|hour| at(night, hour)),
            [false, true, true, true, true, false]
        );
        let day = OffPeakHours::new(6, 22);
        assert_eq!([5, 6, 21, 22].map(|hour| at(day, hour)), [false, true, true, false]);
        for none in [(-1, -1), (5, 5), (-1, 6), (3, 24)] {
            assert_eq!(OffPeakHours::new(none.0, none.1), OffPeakHours::Never);
        }
    }
}
