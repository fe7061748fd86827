//! The open loop: operations begin when they are due, even if earlier ones have not ended.
//!
//! On each thread of the generator a task waits until operations are due and puts their intended start times into a
//! queue. A free caller takes one from the queue. Latency counts from the intended start. So when a server pauses,
//! the queue grows, and the pause is in the latency of every operation that was due meanwhile. A closed loop would
//! hide that. Operations that are left in the queue at the end are reported.
//!
//! When the task wakes up, all operations that are due begin together. There is one queue for each connection, so
//! that they are sent in one write. The task sleeps for at least [`STEP`]: each wake-up takes a processor from
//! another thread, perhaps the server's, and would cost more than an operation. The delay is in the latency.
//!
//! If generator and server share a machine, every figure would include the time in which the generator waits for a
//! processor: 50 µs by which the system delays timers, and some ms while a thread of the server uses up its time slice.
//! So at a rate the generator's threads have priority over all others ([`Priority::Prompt`]), if the system allows it.
//! With half reads and half writes at 8,000 a second this reduced the latency from 96 to 47 µs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use env::{Alarm, Moment, Runtime, World};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Minimum time between two wake-ups: the delay of timers of ordinary threads. It delays operations only at rates above
/// about 20,000 a second on one thread.
const STEP: Duration = Duration::from_micros(50);
/// Maximum number of operations that are given to one connection before the next connection gets some. After a pause
/// many operations are due.
const TOGETHER_MAX: usize = 16;

/// The operations that are due on one thread of the generator, by connection.
#[derive(Debug)]
pub(crate) struct Pace {
    lanes: Box<[ConnectionQueue]>,
}

#[derive(Debug)]
struct ConnectionQueue {
    due: Mutex<VecDeque<Moment>>,
    ready: Semaphore,
}

/// The times at which a thread's operations are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// The operations are due from the first moment to the second.
    pub(crate) from: Moment,
    pub(crate) to: Moment,
    /// Number of operations a second, of all threads together.
    pub(crate) rate: f64,
    /// The index of the thread among those that take turns.
    pub(crate) thread: usize,
    /// The number of threads that take turns.
    pub(crate) threads: usize,
}

impl Schedule {
    /// Returns the intended start of the thread's operation with this number; `None` after the end.
    fn moment(&self, count: u64) -> Option<Moment> {
        let before = count * self.threads as u64 + self.thread as u64;
        let moment = self.from.plus(Duration::from_secs_f64(before as f64 / self.rate));
        (moment < self.to).then_some(moment)
    }
}

impl Pace {
    /// Starts the task on `runtime`, which has this number of connections.
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
        // Callers may begin the last operations that are due until the time is over.
        let rest = schedule.to.since(world.moment());
        if alarm.wait(rest).await.is_err() {
            env::sleep(rest).await;
        }
        self.lanes.iter().for_each(|lane| lane.ready.close());
    }

    /// Waits for the next operation of a connection, and returns its intended start; `None` when the time is over.
    pub(crate) async fn next(&self, connection: usize) -> Option<Moment> {
        let lane = &self.lanes[connection];
        lane.ready.acquire().await.ok()?.forget();
        lane.due.lock().pop_front()
    }

    /// Returns the intended start of the next operation of a connection that is already due; `None` if none is due.
    pub(crate) fn next_now(&self, connection: usize) -> Option<Moment> {
        let lane = &self.lanes[connection];
        lane.ready.try_acquire().ok()?.forget();
        lane.due.lock().pop_front()
    }

    /// Returns the number of operations that were due and never began.
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
