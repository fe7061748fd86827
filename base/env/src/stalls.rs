//! When a processor stood still, whoever had something to do on it.
//!
//! A processor that a host lends is taken away now and then, for 0.1 to 40 ms, and nothing that runs on it can tell: a
//! latency measured then is the machine's, and not that of the server that was measured. Little of it is in `/proc/stat`.
//!
//! So a thread for each processor of the machine, which goes before all others on it, sleeps for a [step](Stalls::STEP) and looks
//! how late it was woken. No thread that shares by weight makes it late, nor one that is prompt; the system's own work of a
//! moment does, and what Linux grants to threads that starve behind prompt ones. It sees every standstill longer than a step
//! and [`LATE`] together, and of shorter ones a part. It takes 2 to 4 % of a processor.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::threads::{Priority, Thread, spawn_thread};
use crate::{Moment, World, weight};

/// Who is woken so much too late was on a processor that stood still: 20 to 60 µs are usual on virtual machines.
const LATE: Duration = Duration::from_micros(100);

/// A time in which one processor stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When it was noticed: it may have begun [`Stalls::STEP`] before.
    pub from: Moment,
    /// Its end.
    pub to: Moment,
}

/// Watches all processors of the machine until it is asked what it saw, or dropped.
#[derive(Debug)]
pub struct Stalls {
    is_over: Arc<AtomicBool>,
    watchers: Vec<Thread<Vec<Stall>>>,
}

impl Stalls {
    /// Between two looks.
    pub const STEP: Duration = Duration::from_micros(500);

    /// Begins to watch: when this returns all are watched. An error says that they may not be.
    pub fn watch(world: &World) -> io::Result<Stalls> {
        let mut all = Stalls { is_over: Arc::default(), watchers: Vec::new() };
        let (begins, begun) = channel();
        for processor in weight::processors()? {
            let (world, is_over, begins) = (world.clone(), Arc::clone(&all.is_over), begins.clone());
            all.watchers.push(spawn_thread("stalls", Priority::Foreground, move || {
                let outcome = weight::be_first_on(processor);
                let may_watch = outcome.is_ok();
                // Who began it may have given up because of another.
                let _told = begins.send(outcome);
                drop(begins);
                if may_watch { stalls(&world, &is_over, thread::sleep) } else { Vec::new() }
            })?);
        }
        drop(begins);
        begun.iter().collect::<io::Result<()>>()?;
        Ok(all)
    }

    /// What each of them saw, in the order of time.
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
    fn who_is_woken_late_has_seen_a_standstill() {
        let (world, is_over) = (World::simulated(1, crate::WallTime(0)), AtomicBool::new(false));
        let (start, turn) = (world.moment(), std::cell::Cell::new(0));
        let late = [0, 100, 101, 40, 8_000].map(Duration::from_micros);
        let seen = stalls(&world, &is_over, |step| {
            world.advance(step + late[turn.get()]);
            turn.set(turn.get() + 1);
            is_over.store(turn.get() == late.len(), Ordering::Relaxed);
        });
        let at = |us| start.plus(Duration::from_micros(us));
        // Steps of 500 µs: the third ends 201 late in all, the fifth 8,241.
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
        // A thread that waits its turn among eight busy ones on each processor is late half of the time. The machine itself
        // may stand still once, but not again and again.
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
