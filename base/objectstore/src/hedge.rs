//! Decides when a read is sent a second time, because the store answers it much later than other reads.
//!
//! - The delay before the second request is a quarter more than the 95th percentile of the last [`RECENT`] times until a
//!   reply began, between the configured minimum and [`DELAY_MAX`]. So it follows a store that is slow for all.
//! - A budget limits the second requests: each read adds a fraction of a request to it, up to [`SAVED_MAX`], and each
//!   second request takes one. A read that finds the budget empty looks again after the same delay.

use std::time::Duration;

use env::sync::Mutex;

/// Number of the latest reads whose times decide the delay.
const RECENT: usize = 256;
/// Number of reads after which the delay is computed again.
const RECOMPUTED_EACH: usize = 16;
/// The delay until enough reads have been measured, and the maximum.
const DELAY_MAX: Duration = Duration::from_secs(1);
/// Maximum number of second requests that the budget saves.
const SAVED_MAX: f64 = 10.0;

/// When reads are sent a second time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hedging {
    /// Maximum share of the reads that are sent a second time, in percent. 0: none.
    pub percent_max: f64,
    /// The second request is sent after this time at the earliest.
    pub delay_min: Duration,
}

impl Hedging {
    /// Sends no read a second time.
    pub const OFF: Hedging = Hedging { percent_max: 0.0, delay_min: Duration::ZERO };
}

/// The delay and the budget.
#[derive(Debug)]
pub(crate) struct Hedge {
    hedging: Hedging,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Times until the replies of the latest reads began.
    recent: Vec<Duration>,
    /// Number of times measured so far.
    measured: usize,
    delay: Duration,
    /// Number of second requests that may be sent now.
    budget: f64,
}

impl Hedge {
    pub(crate) fn new(hedging: Hedging) -> Hedge {
        let state = State { recent: Vec::new(), measured: 0, delay: DELAY_MAX, budget: 0.0 };
        Hedge { hedging, state: Mutex::new(state) }
    }

    /// Records that a read begins. Returns the time after which it may be sent again; `None` for never.
    pub(crate) fn begin(&self) -> Option<Duration> {
        if self.hedging.percent_max <= 0.0 {
            return None;
        }
        let mut state = self.state.lock();
        state.budget = (state.budget + self.hedging.percent_max / 100.0).min(SAVED_MAX);
        Some(state.delay)
    }

    /// Returns whether a second request may be sent now, and takes it from the budget.
    pub(crate) fn take(&self) -> bool {
        let mut state = self.state.lock();
        let is_within = state.budget >= 1.0;
        if is_within {
            state.budget -= 1.0;
        }
        is_within
    }

    /// Records the time until the reply of a read began.
    pub(crate) fn measure(&self, time: Duration) {
        let mut state = self.state.lock();
        let at = state.measured % RECENT;
        if state.recent.len() <= at {
            state.recent.push(time);
        } else {
            state.recent[at] = time;
        }
        state.measured += 1;
        if state.measured.is_multiple_of(RECOMPUTED_EACH) {
            let mut times = state.recent.clone();
            let high = times.len() * 95 / 100;
            let high = *times.select_nth_unstable(high).1;
            state.delay = (high * 5 / 4).max(self.hedging.delay_min).min(DELAY_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn hedge() -> Hedge {
        Hedge::new(Hedging { percent_max: 5.0, delay_min: ms(4) })
    }

    #[test]
    fn the_delay_follows_the_store_within_its_bounds() {
        let hedge = hedge();
        assert_eq!(hedge.begin(), Some(DELAY_MAX), "nothing is known yet");
        let measure = |count, time| {
            (0..count).for_each(|_| hedge.measure(time));
            hedge.begin()
        };
        assert_eq!(measure(RECENT, ms(20)), Some(ms(25)));
        assert_eq!(measure(RECENT / 32, ms(1_000)), Some(ms(25)), "3 % of the reads are late");
        assert_eq!(measure(RECENT / 8, ms(220)), Some(ms(275)), "the store has become slow");
        assert_eq!(measure(RECENT, ms(1)), Some(ms(4)));
        assert_eq!(measure(RECENT, ms(5_000)), Some(DELAY_MAX));
        assert_eq!(Hedge::new(Hedging::OFF).begin(), None);
    }

    #[test]
    fn the_budget_limits_the_second_requests() {
        let hedge = hedge();
        let sent = |reads: usize, wish_each: usize| {
            (1..=reads)
                .filter(|read| {
                    hedge.begin();
                    read % wish_each == 0 && hedge.take()
                })
                .count()
        };
        assert!(!hedge.take(), "nothing is saved at the beginning");
        assert_eq!(sent(1_000, 100), 10, "1 % of the reads are late");
        assert!((45..=60).contains(&sent(1_000, 1)), "all are late");
        assert!((45..=51).contains(&sent(1_000, 1)), "and nothing was saved");
    }
}
