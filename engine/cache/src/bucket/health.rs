//! Decides when a device's reads, or its writes, have failed for longer than tolerated.
//!
//! The time is measured from the first failure after a success, separately for reads and for writes. A full disk, for
//! example, is read successfully and accepts no write; if successful reads counted for writes, its failure would never
//! be noticed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use env::Moment;
use env::sync::Mutex;

/// The health of a device's reads, or of its writes; see the module documentation.
#[derive(Debug)]
pub(super) struct Health {
    tolerated: Duration,
    /// Whether the last operation failed. If it did not, recording a success needs no lock.
    failing: AtomicBool,
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    failing_since: Option<Moment>,
    /// When a failure was last reported; `None` if never.
    reported: Option<Moment>,
}

/// How to react to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailureResponse {
    /// Whether to report the failure. At most one failure is reported in each tolerated duration; with alternating
    /// failures and successes there would be too many reports otherwise.
    pub(super) is_reported: bool,
    /// Whether failures lasted longer than tolerated.
    pub(super) is_given_up: bool,
}

impl Health {
    pub(super) fn new(tolerated: Duration) -> Health {
        Health { tolerated, failing: AtomicBool::new(false), times: Mutex::default() }
    }

    /// Whether the last operation of this kind failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn note_success(&self) {
        if self.is_failing() {
            self.times.lock().failing_since = None;
            self.failing.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn note_failure(&self, now: Moment) -> FailureResponse {
        let mut times = self.times.lock();
        self.failing.store(true, Ordering::Relaxed);
        let since = *times.failing_since.get_or_insert(now);
        let is_reported = times.reported.is_none_or(|reported| now.since(reported) >= self.tolerated);
        if is_reported {
            times.reported = Some(now);
        }
        FailureResponse { is_reported, is_given_up: now.since(since) >= self.tolerated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::{WallTime, World};

    const TOLERATED: Duration = Duration::from_secs(60);

    fn at(second: u64) -> Moment {
        World::simulated(1, WallTime(0)).moment().plus(Duration::from_secs(second))
    }

    #[test]
    fn the_time_counts_from_the_first_failure_after_a_success() {
        let health = Health::new(TOLERATED);
        let is_given_up = |seconds| health.note_failure(at(seconds)).is_given_up;
        assert!(!is_given_up(0) && !is_given_up(59));
        health.note_success();
        assert!(!health.is_failing() && !is_given_up(60) && !is_given_up(119));
        assert!(health.is_failing() && is_given_up(120));
    }

    #[test]
    fn failures_between_successes_are_reported_once_in_a_while() {
        let health = Health::new(TOLERATED);
        let reported = (0..600_u64).filter(|&second| {
            health.note_success();
            let verdict = health.note_failure(at(second));
            assert!(!verdict.is_given_up);
            verdict.is_reported
        });
        assert_eq!(reported.collect::<Vec<_>>(), (0..10).map(|minute| minute * 60).collect::<Vec<_>>());
    }
}
