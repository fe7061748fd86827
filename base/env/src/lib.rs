//! The environment: clocks, random numbers, threads and sockets.
//!
//! Bellows reads clocks and random numbers, opens sockets and starts threads only through this crate. `clippy.toml`
//! forbids other crates to read a clock, draw a random number, open a socket or start a thread. So the seed alone
//! decides a run under [`World::simulated`].
//!
//! Files are not here; they are in `storage`.

// This crate may use what `clippy.toml` bans elsewhere, because the bans point to it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "clocks, threads and sockets are handed out here"
)]

mod alarm;
mod clock_state;
#[cfg(debug_assertions)]
mod executor;
mod first_failure;
mod hashing;
mod limits;
mod machine;
mod network;
mod pages;
mod random;
mod signals;
#[cfg(debug_assertions)]
pub mod simulation;
mod stalls;
pub mod sync;
mod threads;
mod time;
mod weight;

pub use alarm::Alarm;
pub use clock_state::{ClockState, clock_state};
pub use first_failure::FirstFailure;
pub use hashing::{HashMap, HashSet, HashState, hash_seed};
pub use limits::{Limits, limits, raise_open_files};
pub use machine::{ThreadState, host_name, threads};
pub use network::{Detached, Listener, Stream, dial, listen, resolve};
pub use pages::forgo_huge_pages;
pub use signals::told_to_stop;
pub use stalls::{Stall, Stalls};
pub use threads::{
    Handle, Priority, Runtime, Task, TaskError, Thread, ThreadId, Within, block_on, blocking, catch_unwind,
    caught, sleep, spawn, spawn_thread, this_thread, timeout, together,
};
pub use time::{Moment, WallTime};
pub use weight::BackgroundThreads;

use std::sync::Arc;
use std::time::Duration;

use random::SplitMix;
use time::Clock;

/// The source of time and random numbers. Cheap to clone; all clones share one clock and one seed.
#[derive(Clone)]
pub struct World {
    clock: Arc<Clock>,
    random: Arc<parking_lot::Mutex<SplitMix>>,
}

impl World {
    /// Returns a world with the machine's own clocks, and random numbers seeded from the operating system. In a thread
    /// of a simulation, returns the world of the simulated machine.
    pub fn real() -> World {
        #[cfg(debug_assertions)]
        if let Some(world) = simulation::with(|director| director.world()) {
            return world;
        }
        World {
            clock: Arc::new(Clock::real()),
            random: Arc::new(parking_lot::Mutex::new(SplitMix::from_system())),
        }
    }

    /// Returns a world whose time only [`advance`](World::advance) and [`pause`](World::pause) move, and whose random
    /// numbers follow from `seed`.
    pub fn simulated(seed: u64, start: WallTime) -> World {
        World {
            clock: Arc::new(Clock::simulated(start)),
            random: Arc::new(parking_lot::Mutex::new(SplitMix::new(seed))),
        }
    }

    /// Returns the world of another machine of a simulation. It shares the simulation's time, and draws its random
    /// numbers from a `seed` of its own.
    pub fn beside(&self, seed: u64) -> World {
        World {
            clock: Arc::new(self.clock.beside()),
            random: Arc::new(parking_lot::Mutex::new(SplitMix::new(seed))),
        }
    }

    /// Sets how far the wall clock of a simulated machine is ahead of the simulation's time, in ms.
    ///
    /// # Panics
    /// In the real world.
    pub fn set_ahead(&self, by_ms: i64) {
        self.clock.set_ahead(by_ms);
    }

    /// Returns the wall time in ms since 1970, which cells get as timestamp. It goes back when the machine's clock is
    /// set back.
    pub fn now(&self) -> WallTime {
        self.clock.wall()
    }

    /// Returns the monotonic time. Only differences between two moments of one world have a meaning.
    pub fn moment(&self) -> Moment {
        self.clock.moment()
    }

    /// Returns the monotonic time at the system's last tick, at most some ms ago. It costs a fifth of
    /// [`moment`](World::moment); for frequent calls that need no exact time. It may be earlier than a moment that was
    /// read before with `moment`.
    pub fn recent_moment(&self) -> Moment {
        self.clock.recent_moment()
    }

    /// Returns 64 random bits.
    pub fn random(&self) -> u64 {
        self.random.lock().next()
    }

    /// Blocks the calling thread for `time`. If [`advance`](World::advance) moves this world's clocks, moves them by
    /// `time` instead.
    pub fn pause(&self, time: Duration) {
        #[cfg(debug_assertions)]
        if simulation::is_active() {
            return simulation::suspend(time);
        }
        self.clock.pause(time);
    }

    /// Moves the clocks of a simulated world.
    ///
    /// # Panics
    /// In the real world.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// Whether the planted bug `number` is active: a deliberate mistake that a simulation must find. `false` outside of a
/// simulation, and a constant in release builds.
#[inline(always)]
pub fn planted(number: u32) -> bool {
    #[cfg(debug_assertions)]
    return simulation::with(|director| director.planted()) == Some(number);
    #[cfg(not(debug_assertions))]
    {
        let _ = number;
        false
    }
}

/// Records that the run reached `state`, for simulations, which check that some runs reach it. Costs nothing in release
/// builds.
#[inline(always)]
pub fn sometimes(state: &'static str) {
    #[cfg(debug_assertions)]
    simulation::with(|director| director.reached(state));
    #[cfg(not(debug_assertions))]
    let _ = state;
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now()).finish_non_exhaustive()
    }
}
