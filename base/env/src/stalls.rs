//! Detects periods in which a processor of a virtual machine stood still.
//!
//! The host of a virtual machine takes a processor away now and then, for 0.1 to 40 ms. A program that runs there then
//! sees only that its work took longer, so a latency measured then is the machine's and not the server's. `/proc/stat`
//! shows little of it.
//!
//! So there is one thread for each processor, with priority over all others. It sleeps for one [step](Stalls::STEP) and
//! measures how late it was woken. Neither ordinary threads nor threads of [`Priority::Prompt`] delay it. Short work of
//! the kernel does, and so does the time that Linux reserves for ordinary threads that real-time threads would starve.
//! The thread sees every standstill that is longer than the sum of a step and [`LATE`], and some shorter ones. It takes
//! 2 to 4 % of a processor.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::threads::{Priority, Thread, spawn_thread};
use crate::{Moment, World, weight};

/// Delay of a wake-up above which the processor stood still. On virtual machines 20 to 60 µs are usual.
const LATE: Duration = Duration::from_micros(100);

/// A period in which one processor stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When the thread that watches the processor should have been woken; the stall may have begun up to one
    /// [`Stalls::STEP`] earlier.
    pub from: Moment,
    /// When that thread was woken.
    pub to: Moment,
}

/// Watches all processors of the machine until [`finish`](Stalls::finish) is called or this value is dropped.
#[derive(Debug)]
pub struct Stalls {
    is_over: Arc<AtomicBool>,
    watchers: Vec<Thread<Vec<Stall>>>,
}

impl Stalls {
    /// Time between two measurements.
    pub const STEP: Duration = Duration::from_micros(500);

    /// Starts a thread for each processor. All processors are watched when this returns. Fails if this process may not
    /// have threads of such priority, and on systems other than Linux.
    pub fn watch(world: &World) -> io::Result<Stalls> {
        let mut all = Stalls { is_over: Arc::default(), watchers: Vec::new() };
        let (begins, begun) = channel();
        for processor in weight::processors()? {
            let (world, is_over, begins) = (world.clone(), Arc::clone(&all.is_over), begins.clone());
            all.watchers.push(spawn_thread("stalls", Priority::Foreground, move || {
                let outcome = weight::be_first_on(processor);
                let may_watch = outcome.is_ok();
                // The send fails if the caller has given up because another processor's thread failed.
                let _told = begins.send(outcome);
                drop(begins);
                if may_watch { stalls(&world, &is_over, thread::sleep) } else { Vec::new() }
            })?);
        }
        drop(begins);
        begun.iter().collect::<io::Result<()>>()?;
        Ok(all)
    }

    /// Stops watching and returns the stalls of each processor, sorted by time. Fails if a thread that watched
    /// panicked.
    pub fn finish(mut self) -> io::Result<Vec<Vec<Stall>>> {
        self.is_over.store(true, Ordering::Relaxed);
        let watchers = std::mem::take(&mut self.watchers).into_iter();
        watchers.map(|watcher| watcher.join().map_err(|_| io::Error::other("a watcher panicked"))).collect()
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn stalls(world: &World, is_over: &AtomicBool, sleep: impl Fn(Duration)) -> Vec<Stall> {
    let mut stalls = Vec::new();
    let mut last = world.moment();
    while !is_over.load(Ordering::Relaxed) {
        sleep(Stalls::STEP);
        let (due, woken) = (last.plus(Stalls::STEP), world.moment());
        if woken.since(due) > LATE {
            stalls.push(Stall { from: due, to: woken });
        }
        last = woken;
    }
    stalls
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_late_wake_up_is_recorded_as_a_standstill() {
        let (world, is_over) = (World::simulated(1, crate::WallTime(0)), AtomicBool::new(false));
        let (start, turn) = (world.moment(), std::cell::Cell::new(0));
        let late = [0, 100, 101, 40, 8_000].map(Duration::from_micros);
        let seen = stalls(&world, &is_over, |step| {
            world.advance(step + late[turn.get()]);
            turn.set(turn.get() + 1);
            is_over.store(turn.get() == late.len(), Ordering::Relaxed);
        });
        let at = |us| start.plus(Duration::from_micros(us));
        // With steps of 500 µs, the third is 201 µs late in total, and the fifth 8,241 µs.
        let expected =
            [(1_600, 1_701), (2_741, 10_741)].map(|(from, to)| Stall { from: at(from), to: at(to) });
        assert_eq!(seen, expected);
    }

    #[test]
    fn load_is_no_standstill() {
        let world = World::real();
        let seen = |beside: usize| {
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..beside {
                    scope.spawn(|| {
                        while !is_over.load(Ordering::Relaxed) {
                            std::hint::spin_loop()
                        }
                    });
                }
                let watched = Stalls::watch(&world);
                thread::sleep(Duration::from_millis(200));
                is_over.store(true, Ordering::Relaxed);
                watched.and_then(Stalls::finish)
            })
        };
        let stood = |seen: &[Vec<Stall>]| {
            let times = seen.iter().map(|stalls| stalls.iter().map(|stall| stall.to.since(stall.from)).sum());
            times.max().unwrap_or(Duration::ZERO)
        };
        // A thread on a processor with eight busy threads is late half of the time. The machine itself may stand still
        // once during the test, but not repeatedly.
        let busy = 8 * thread::available_parallelism().map_or(1, usize::from);
        let mut least = Duration::MAX;
        for _ in 0..5 {
            match seen(busy) {
                Ok(seen) => {
                    assert!(seen.len() >= thread::available_parallelism().map_or(1, usize::from));
                    least = least.min(stood(&seen));
                }
                Err(error) => return assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
            }
        }
        assert!(least < Duration::from_millis(20), "{least:?}");
    }
}
