//! Wall time for the timestamps of cells, and monotonic time for timeouts and durations.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds since 1970-01-01 UTC: the unit of HBase's cell timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub i64);

/// Nanoseconds on a clock that only goes forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the moment that is `by` earlier, but not before the clock's first moment.
    pub fn before(self, by: Duration) -> Moment {
        Moment(self.0.saturating_sub(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the moment that is `by` later.
    pub fn plus(self, by: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)).unwrap_or(0)
}

/// The wall clock and the monotonic clock of a world.
pub(crate) enum Clock {
    Real {
        start: Instant,
        /// The moment at which the world began, on the system's own monotonic scale, in ns.
        start_there: u64,
    },
    Simulated {
        start: WallTime,
        /// Simulated time since the start, in ns; shared by all machines of a simulation.
        elapsed: Arc<AtomicU64>,
        /// By how many ms this machine's wall clock is ahead of the simulation's time.
        ahead: AtomicI64,
    },
}

impl Clock {
    pub(crate) fn real() -> Clock {
        Clock::Real { start: Instant::now(), start_there: nanoseconds(clock_gettime(ClockId::Monotonic)) }
    }

    pub(crate) fn simulated(start: WallTime) -> Clock {
        Clock::Simulated { start, elapsed: Arc::default(), ahead: AtomicI64::new(0) }
    }

    /// Returns a clock for another machine, which runs at the same speed.
    pub(crate) fn beside(&self) -> Clock {
        match self {
            Clock::Real { .. } => Clock::real(),
            Clock::Simulated { start, elapsed, .. } => {
                Clock::Simulated { start: *start, elapsed: Arc::clone(elapsed), ahead: AtomicI64::new(0) }
            }
        }
    }

    pub(crate) fn set_ahead(&self, by_ms: i64) {
        match self {
            Clock::Real { .. } => panic!("the real world's clock is not set from here"),
            Clock::Simulated { ahead, .. } => ahead.store(by_ms, Ordering::Release),
        }
    }

    pub(crate) fn wall(&self) -> WallTime {
        match self {
            // A clock before 1970 was never set. Then the time counts from zero.
            Clock::Real { .. } => WallTime(
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
            ),
            Clock::Simulated { start, elapsed, ahead } => {
                let elapsed_ms = (elapsed.load(Ordering::Acquire) / 1_000_000) as i64;
                WallTime(start.0 + elapsed_ms + ahead.load(Ordering::Acquire))
            }
        }
    }

    pub(crate) fn moment(&self) -> Moment {
        match self {
            Clock::Real { start, .. } => {
                Moment(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
            }
            Clock::Simulated { elapsed, .. } => Moment(elapsed.load(Ordering::Acquire)),
        }
    }

    pub(crate) fn recent_moment(&self) -> Moment {
        match self {
            Clock::Real { start_there, .. } => {
                Moment(nanoseconds(clock_gettime(ClockId::MonotonicCoarse)).saturating_sub(*start_there))
            }
            Clock::Simulated { .. } => self.moment(),
        }
    }

    pub(crate) fn pause(&self, time: Duration) {
        match self {
            Clock::Real { .. } => std::thread::sleep(time),
            Clock::Simulated { .. } => self.advance(time),
        }
    }

    pub(crate) fn advance(&self, by: Duration) {
        match self {
            Clock::Real { .. } => panic!("the real world's time cannot be moved"),
            Clock::Simulated { elapsed, .. } => {
                elapsed.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::AcqRel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    #[test]
    fn the_coarse_moment_is_at_most_two_ticks_old() {
        let world = World::real();
        for _ in 0..100 {
            let before = world.moment();
            let lately = world.recent_moment();
            // The longest tick that systems use is 10 ms.
            assert!(lately <= world.moment() && before.since(lately) < Duration::from_millis(50));
            std::thread::yield_now();
        }
    }

    #[test]
    fn simulated_time_moves_only_when_told() {
        let world = World::simulated(7, WallTime(1_000));
        let before = world.moment();
        assert_eq!(world.now(), WallTime(1_000));
        world.advance(Duration::from_millis(25));
        assert_eq!(world.now(), WallTime(1_025));
        assert_eq!(world.moment().since(before), Duration::from_millis(25));
        assert_eq!(before.since(world.moment()), Duration::ZERO, "never negative");
    }

    #[test]
    fn real_moments_do_not_go_backwards() {
        let world = World::real();
        let first = world.moment();
        assert!(world.moment() >= first);
        assert!(world.now().0 > 1_600_000_000_000, "milliseconds since 1970");
    }
}
