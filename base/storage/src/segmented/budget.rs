//! Limits what the requests of a log cost in a store that charges for each PUT.
//!
//! The budget permits one request for each `interval`. What is not spent is saved for at most [`SAVED_MAX`], so a burst
//! of writes after a pause does not wait. Requests that cannot wait, such as those of a new log file, are counted like
//! all others, and later syncs wait for them, too. So over any time `t` a log that is written without a pause sends at
//! most `(t + SAVED_MAX) / interval` requests, unless its syncs would wait longer than their limit.

use std::time::Duration;

use env::sync::Mutex;
use env::{Moment, World};

/// Maximum time for which the budget is saved while less is spent: 5 s, which is less than 1 % of ten minutes.
const SAVED_MAX: Duration = Duration::from_secs(5);
/// Maximum time by which the budget can be exceeded in advance. What is spent beyond that is not made up for.
const OWED_MAX: Duration = Duration::from_secs(60);

/// How many requests a log may send, and how long a sync may wait for that.
#[derive(Debug)]
pub struct RequestBudget {
    world: World,
    /// The time that one request pays for.
    interval: Duration,
    /// Maximum time by which the budget delays a sync.
    delay_max: Duration,
    /// The requests until now pay for the time until this moment. It is in the past while something is saved.
    paid_until: Mutex<Moment>,
}

impl RequestBudget {
    /// Permits one request for each `interval`. A sync is delayed by `delay_max` at most, even if that exceeds the
    /// budget.
    pub fn new(world: World, interval: Duration, delay_max: Duration) -> RequestBudget {
        let paid_until = Mutex::new(world.moment());
        RequestBudget { world, interval, delay_max, paid_until }
    }

    /// Counts a request.
    pub(super) fn spend(&self) {
        let now = self.world.moment();
        let mut paid_until = self.paid_until.lock();
        let from = (*paid_until).max(now.before(SAVED_MAX));
        *paid_until = from.plus(self.interval).min(now.plus(OWED_MAX.max(self.interval)));
    }

    /// Returns how long a sync must still wait, for which a caller has waited for `waited`.
    pub(super) fn pause(&self, waited: Duration) -> Duration {
        let owed = self.paid_until.lock().since(self.world.moment());
        owed.min(self.delay_max.saturating_sub(waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;

    /// Sends requests without a pause for `time`, each of which ends at once. Returns their number, and the longest
    /// time that one waited.
    fn spend_for(time: Duration, world: &World, budget: &RequestBudget) -> (u32, Duration) {
        let (until, mut count, mut longest) = (world.moment().plus(time), 0, Duration::ZERO);
        while world.moment() < until {
            let wanted = world.moment();
            loop {
                let pause = budget.pause(world.moment().since(wanted));
                if pause.is_zero() {
                    break;
                }
                // A thread is woken a little later than it asked for.
                world.advance(pause + Duration::from_micros(700));
            }
            longest = longest.max(world.moment().since(wanted));
            budget.spend();
            count += 1;
        }
        (count, longest)
    }

    #[test]
    fn ten_minutes_under_load_cost_the_budget_within_two_percent() {
        let world = World::simulated(1, WallTime(0));
        world.advance(Duration::from_secs(3_600));
        // A budget of 5 dollars a day, with 0.005 dollars for 1,000 requests.
        let interval = Duration::from_secs_f64(86_400.0 * 0.005 / 1_000.0 / 5.0);
        let budget = RequestBudget::new(world.clone(), interval, Duration::from_secs(1));
        world.advance(Duration::from_secs(3_600));
        let ten_minutes = Duration::from_secs(600);
        let permitted = ten_minutes.as_secs_f64() / interval.as_secs_f64();
        for round in ["with what an hour has saved", "without"] {
            let (count, longest) = spend_for(ten_minutes, &world, &budget);
            let ratio = f64::from(count) / permitted;
            assert!((0.98..=1.02).contains(&ratio), "{round}: {count} requests, {permitted} permitted");
            assert!(longest <= interval + Duration::from_millis(1), "{round}: one waited for {longest:?}");
        }
    }

    #[test]
    fn no_sync_waits_longer_than_the_limit_and_excess_cost_is_forgotten_after_a_minute() {
        let world = World::simulated(1, WallTime(0));
        let budget = RequestBudget::new(world.clone(), Duration::from_secs(10), Duration::from_millis(300));
        let (count, longest) = spend_for(Duration::from_secs(600), &world, &budget);
        assert!(count > 1_900, "{count} requests");
        assert!(longest <= Duration::from_millis(301), "one waited for {longest:?}");
        assert_eq!(budget.pause(Duration::from_millis(100)), Duration::from_millis(200));
        world.advance(Duration::from_secs(60));
        assert_eq!(budget.pause(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_log_that_spends_less_never_waits() {
        let world = World::simulated(1, WallTime(0));
        let budget = RequestBudget::new(world.clone(), Duration::from_millis(100), Duration::from_secs(1));
        world.advance(SAVED_MAX);
        for second in 0..60 {
            for _ in 0..8 {
                assert_eq!(budget.pause(Duration::ZERO), Duration::ZERO, "second {second}");
                budget.spend();
                world.advance(Duration::from_millis(10));
            }
            world.advance(Duration::from_millis(920));
        }
    }
}
