//! A budget of bytes a second, which all flushes or all compactions of a server share.
//!
//! A writer reports the bytes that it has written, and sleeps until the budget covers them. A wait ends early when the
//! limit changes or the writer has to stop, so a new limit also affects running writers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::sync::{Condvar, Mutex};
use env::{Moment, World};

/// Maximum sleep of a writer between two checks of the limit.
const NAP: Duration = Duration::from_millis(100);
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The budget of bytes that all flushes, or all compactions, of a server may write.
#[derive(Debug)]
pub struct WriteBudget {
    /// The limit in bytes a second.
    limit: AtomicU64,
    /// When the budget will have covered all bytes written so far; a time in the past counts as now. `None` before the
    /// first write and after a change of the limit.
    paid_at: Mutex<Option<Moment>>,
    wake: Condvar,
}

impl Default for WriteBudget {
    fn default() -> WriteBudget {
        WriteBudget { limit: AtomicU64::new(u64::MAX), paid_at: Mutex::default(), wake: Condvar::default() }
    }
}

impl WriteBudget {
    /// Returns the limit in bytes a second; [`u64::MAX`] for no limit.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit, which is at least 1, also for waiting writers. Returns whether it has changed.
    pub fn set_limit(&self, bytes_per_second: u64) -> bool {
        let mut paid_at = self.paid_at.lock();
        if self.limit.swap(bytes_per_second, Ordering::Relaxed) == bytes_per_second {
            return false;
        }
        // Earlier bytes were paid for at the old limit, so writers owe nothing for them.
        *paid_at = None;
        self.wake.notify_all();
        true
    }

    /// Makes waiting writers check whether they should stop.
    pub fn wake(&self) {
        let _paid_at = self.paid_at.lock();
        self.wake.notify_all();
    }

    /// Spends `bytes`. Blocks until the budget covers them, until the limit changes, or until `ends` returns true
    /// because the writer should stop.
    pub fn spend(&self, bytes: u64, world: &World, ends: impl Fn() -> bool) {
        let limit = self.limit();
        if limit == u64::MAX || bytes == 0 {
            return;
        }
        let cost = u128::from(bytes) * NANOS_PER_SECOND / u128::from(limit);
        let cost = Duration::from_nanos(u64::try_from(cost).unwrap_or(u64::MAX));
        let mut paid_at = self.paid_at.lock();
        let now = world.moment();
        // Budget that was not used is lost. Otherwise an idle hour would permit a long burst.
        let mine = paid_at.filter(|paid| *paid > now).unwrap_or(now).plus(cost);
        *paid_at = Some(mine);
        // The number of naps is limited. So a clock that stands still does not block a compaction for ever.
        let naps = mine.since(now).as_nanos().div_ceil(NAP.as_nanos());
        for _ in 0..naps {
            let left = mine.since(world.moment());
            if left.is_zero() || self.limit() != limit || ends() {
                return;
            }
            self.wake.wait_for(&mut paid_at, left.min(NAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn bytes_are_paid_for_with_time() {
        let (world, budget) = (World::real(), WriteBudget::default());
        budget.spend(u64::MAX, &world, || false);
        budget.set_limit(100_000);
        let began = world.moment();
        budget.spend(2_000, &world, || false);
        budget.spend(3_000, &world, || false);
        assert!(world.moment().since(began) >= Duration::from_millis(50), "5,000 of 100,000 a second");
    }

    #[test]
    fn a_wait_ends_when_the_limit_rises_or_the_writer_ends() {
        let (world, budget) = (World::real(), Arc::new(WriteBudget::default()));
        budget.set_limit(1);
        budget.spend(1_000_000, &world, || true);
        let waiting = Arc::clone(&budget);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = env::spawn_thread("spends", env::Priority::Background, move || {
            waiting.spend(1_000_000, &World::real(), || false);
            let _nobody_waits = tell.send(());
        });
        drop(thread.expect("a thread"));
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it waits for days");
        budget.set_limit(u64::MAX);
        told.recv_timeout(Duration::from_secs(30)).expect("it goes on");
    }
}
