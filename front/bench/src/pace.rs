//! The open loop: operations begin when their time has come, whatever became of those before them.
//!
//! On each of the generator's threads a task waits until operations are due and puts their intended moments into a queue;
//! a caller that is free takes one from there, and the latency counts from the intended moment. When a server pauses, the
//! queue grows and the pause is in the latency of everything that should have begun meanwhile, which a closed loop would
//! hide. The queue is not worked off when the time is over: what is left in it is said.
//!
//! What is due when the task is woken begins together, in one queue for each connection, so that it goes out in one write;
//! the task sleeps for no less than [`STEP`]. Each wake-up takes a processor from somebody, perhaps from the server, so
//! that one for each operation would cost more than the operation. What begins later for that is in its latency.
//!
//! On a machine that generator and server share, the generator's own waiting for a processor would be in every figure: a
//! timer that the system puts off by 50 µs, and milliseconds whenever a thread of the server is in the middle of its turn.
//! At a rate its threads therefore go before all others ([`Priority::Prompt`]), where the system allows it, as if they were
//! on a machine of their own: half reads and half writes at 8,000 a second were answered after 47 µs and not 96.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use env::{Alarm, Moment, Runtime, World};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// The least time between two wake-ups: what a system puts off the timers of ordinary threads by. At 20,000 a second and
/// fewer nothing waits for it.
const STEP: Duration = Duration::from_micros(50);
/// So many that are due go to one connection, the next to another: after a pause they are many.
const TOGETHER_MAX: usize = 16;

/// Operations that are due on one of the generator's threads, by connection.
#[derive(Debug)]
pub(crate) struct Pace {
    lanes: Box<[ConnectionQueue]>,
}

#[derive(Debug)]
struct ConnectionQueue {
    due: Mutex<VecDeque<Moment>>,
    ready: Semaphore,
}

/// When operations begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// From one moment up to another.
    pub(crate) from: Moment,
    pub(crate) to: Moment,
    /// Operations a second, of all threads together.
    pub(crate) rate: f64,
    /// Which thread it is of how many: they take turns.
    pub(crate) thread: usize,
    pub(crate) threads: usize,
}

impl Schedule {
    /// When the thread's operation of this number should begin; `None` when the time is over by then.
    fn moment(&self, count: u64) -> Option<Moment> {
        let before = count * self.threads as u64 + self.thread as u64;
        let moment = self.from.plus(Duration::from_secs_f64(before as f64 / self.rate));
        (moment < self.to).then_some(moment)
    }
}

impl Pace {
    /// Lets operations begin on `runtime`, where so many connections live.
    pub(crate) fn start(
        runtime: &Runtime,
        world: &World,
        schedule: Schedule,
        connections: usize,
    ) -> std::io::Result<Arc<Pace>> {
        let lane = |_| ConnectionQueue { due: Mutex::default(), ready: Semaphore::new(0) };
        let pace = Arc::new(Pace { lanes: (0..connections).map(lane).collect() });
        let alarm = {
            let _within = runtime.handle().enter();
            Alarm::new()?
        };
        let (world, mine) = (world.clone(), Arc::clone(&pace));
        runtime.spawn(async move { mine.keep(&world, &alarm, schedule).await });
        Ok(pace)
    }

    async fn keep(&self, world: &World, alarm: &Alarm, schedule: Schedule) {
        let mut count = 0;
        let mut lanes = self.lanes.iter().cycle();
        while let Some(next) = schedule.moment(count) {
            let now = world.moment();
            if next > now {
                let wait = next.since(now).max(STEP);
                if alarm.wait(wait).await.is_err() {
                    env::sleep(wait).await;
                }
                continue;
            }
            let Some(lane) = lanes.next() else { break };
            let due = (count..).map_while(|count| schedule.moment(count).filter(|moment| *moment <= now));
            let before = count;
            lane.due.lock().extend(due.take(TOGETHER_MAX).inspect(|_| count += 1));
            lane.ready.add_permits((count - before) as usize);
        }
        // What was due last has until then to begin.
        let rest = schedule.to.since(world.moment());
        if alarm.wait(rest).await.is_err() {
            env::sleep(rest).await;
        }
        self.lanes.iter().for_each(|lane| lane.ready.close());
    }

    /// Waits for the next operation of a connection; its intended moment. `None` when the time is over.
    pub(crate) async fn next(&self, connection: usize) -> Option<Moment> {
        let lane = &self.lanes[connection];
        lane.ready.acquire().await.ok()?.forget();
        lane.due.lock().pop_front()
    }

    /// The next operation of a connection that is due already.
    pub(crate) fn next_now(&self, connection: usize) -> Option<Moment> {
        let lane = &self.lanes[connection];
        lane.ready.try_acquire().ok()?.forget();
        lane.due.lock().pop_front()
    }

    /// Operations that were due and never began.
    pub(crate) fn left(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.due.lock().len() as u64).sum()
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
        let mut all = Vec::new();
        for thread in 0..2 {
            let runtime = Runtime::start("test", 1).expect("a runtime");
            let schedule = Schedule { from, to, rate: 10_000.0, thread, threads: 2 };
            let pace = Pace::start(&runtime, &world, schedule, 3).expect("a timer");
            let (sender, receiver) = std::sync::mpsc::channel();
            for connection in 0..3 {
                let (caller, sender, world) = (Arc::clone(&pace), sender.clone(), world.clone());
                runtime.spawn(async move {
                    let mut begun: Vec<Moment> = Vec::new();
                    while let Some(moment) = caller.next(connection).await {
                        assert!(moment <= world.moment(), "nothing begins before its time");
                        begun.push(moment);
                    }
                    assert!(begun.is_sorted());
                    sender.send(begun).expect("the test waits");
                });
            }
            drop(sender);
            let begun: Vec<Moment> = receiver.iter().flatten().collect();
            assert_eq!(begun.len() as u64 + pace.left(), 250);
            assert!(begun.len() > 200 || thread == 1, "the second thread is started when the time is over");
            all.extend(begun);
        }
        assert!(all.iter().all(|moment| (from..to).contains(moment)));
        all.sort();
        all.dedup();
        assert!(all.len() > 200, "each is another moment");
    }

    #[test]
    fn threads_take_turns_and_leave_none_out() {
        let world = World::simulated(1, env::WallTime(0));
        let from = world.moment();
        let to = from.plus(Duration::from_millis(10));
        let of = |thread, threads| {
            let schedule = Schedule { from, to, rate: 1_000.0, thread, threads };
            (0..).map_while(move |count| schedule.moment(count))
        };
        let mut both: Vec<Moment> = of(0, 2).chain(of(1, 2)).collect();
        both.sort();
        assert_eq!((both.clone(), both.len()), (of(0, 1).collect(), 10));
    }
}
