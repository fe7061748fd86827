//! The open loop: operations begin when their time has come, whatever became of those before them.
//!
//! A thread of its own sleeps until the next operation is due and puts the intended moment into a queue; a caller that is
//! free takes it from there, and the latency counts from the intended moment. When a server pauses, the queue grows and
//! the pause is in the latency of everything that should have begun meanwhile, which a closed loop would hide. The queue
//! is not worked off when the time is over: what is left in it is said.
//!
//! On a machine that generator and server share, the generator's own waiting for a processor would be in every figure: a
//! timer that the system puts off by 50 µs, and milliseconds whenever a thread of the server is in the middle of its turn.
//! At a rate its threads therefore go before all others ([`Priority::Prompt`]), where the system allows it, as if they were
//! on a machine of their own: half reads and half writes at 8,000 a second were answered after 47 µs and not 96.

use std::collections::VecDeque;
use std::sync::Arc;

use env::{Moment, Priority, Thread, World};
use parking_lot::{Condvar, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Operations that are due.
#[derive(Debug)]
pub(crate) struct Pace {
    due: Mutex<VecDeque<Moment>>,
    ready: Semaphore,
}

impl Pace {
    /// Lets operations begin from one moment up to another, `rate` a second.
    pub(crate) fn start(
        world: &World,
        from: Moment,
        to: Moment,
        rate: f64,
    ) -> std::io::Result<(Arc<Pace>, Thread<()>)> {
        let pace = Arc::new(Pace { due: Mutex::default(), ready: Semaphore::new(0) });
        let (world, mine) = (world.clone(), Arc::clone(&pace));
        let thread = env::spawn_thread("bench-pace", Priority::Prompt, move || {
            // Nobody signals: a condition variable is a sleep that is as exact as the system's timers.
            let (lock, never) = (Mutex::new(()), Condvar::new());
            let moment = |count: u64| from.plus(Duration::from_secs_f64(count as f64 / rate));
            let mut count = 0;
            while moment(count) < to {
                let now = world.moment();
                let mut ready = 0;
                {
                    let mut due = mine.due.lock();
                    while moment(count) <= now && moment(count) < to {
                        due.push_back(moment(count));
                        count += 1;
                        ready += 1;
                    }
                }
                mine.ready.add_permits(ready);
                never.wait_for(&mut lock.lock(), moment(count).since(world.moment()));
            }
            mine.ready.close();
        })?;
        Ok((pace, thread))
    }

    /// Waits for the next operation; its intended moment. `None` when the time is over.
    pub(crate) async fn next(&self) -> Option<Moment> {
        self.ready.acquire().await.ok()?.forget();
        self.due.lock().pop_front()
    }

    /// Operations that were due and never began.
    pub(crate) fn left(&self) -> u64 {
        self.due.lock().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_due_began_or_is_left() {
        let world = World::real();
        let from = world.moment();
        let to = from.plus(Duration::from_millis(50));
        let (pace, thread) = Pace::start(&world, from, to, 10_000.0).expect("a thread");
        let runtime = env::Runtime::start("test", 1).expect("a runtime");
        let (sender, receiver) = std::sync::mpsc::channel();
        let caller = Arc::clone(&pace);
        runtime.spawn(async move {
            let mut begun: Vec<Moment> = Vec::new();
            while let Some(moment) = caller.next().await {
                begun.push(moment);
            }
            sender.send(begun).expect("the test waits");
        });
        thread.join().expect("it ends when the time is over");
        let begun = receiver.recv().expect("the task ends too");
        assert_eq!(begun.len() as u64 + pace.left(), 500);
        assert!(begun.iter().all(|moment| (from..to).contains(moment)));
        assert!(begun.is_sorted());
    }
}
