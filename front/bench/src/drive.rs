//! Runs the workloads of a benchmark one after the other, and measures each: operations, latencies, and the CPU time of
//! the server's process.
//!
//! A *caller* is a task that sends one request after the other and waits for each answer. The [`Plan`] says how many
//! callers, connections and threads there are, and how long a workload runs. The connections are divided among the
//! threads. The callers of a thread share its connections and one recorder of latencies. Callers on one connection do
//! not wait for each other, so their requests are pipelined. The main thread sends none of these requests. It reads the
//! CPU time of the server's process when the measured time begins and ends, and reports progress.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use client::{Admin, Cluster, Options};
use env::{Moment, Priority, Runtime, Stalls, World};
use parking_lot::Mutex;
use proto::TableName;

use crate::calls::Tally;
use crate::first::{First, first};
use crate::mix::Growth;
use crate::pace::{Pace, Schedule};
use crate::prepare::prepare;
use crate::process::{Cost, Usage};
use crate::recorder::{Counts, Recorder};
use crate::rows::Layout;
use crate::watch::Watch;
use crate::worker::Worker;
use crate::{Calm, Error, Plan, Report, Result, Workload};

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long a server must use little CPU to count as idle; garbage collection and timers always use some.
const IDLE_FOR: Duration = Duration::from_millis(500);
const IDLE_PART: f64 = 0.1;
/// Time between two requests for a major compaction.
const COMPACT_EVERY: Duration = Duration::from_millis(250);
/// Pause of a caller after a failed operation.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// Threads and connections for running workloads.
pub(crate) struct Bench {
    world: World,
    plan: Arc<Plan>,
    runtimes: Vec<Runtime>,
    /// The connections to the server. Connection `n` belongs to the runtime with the index `n` modulo the number of
    /// runtimes.
    clusters: Vec<Cluster>,
    /// A separate connection for asking the server's state, which must not disturb the others.
    observer: Cluster,
}

impl Bench {
    /// Starts the threads; sends nothing yet.
    pub(crate) fn start(plan: Plan) -> Result<Bench> {
        let world = World::real();
        // At a rate, scheduling delays of the generator would count as the server's. Without a rate, callers with a
        // high priority would take the server's CPU time.
        let priority = if plan.rate.is_some() { Priority::Prompt } else { Priority::Foreground };
        let runtimes = (0..plan.generator_threads.min(plan.connections))
            .map(|index| Runtime::start_as(&format!("bench-{index}"), priority, 1))
            .collect::<std::io::Result<_>>()
            .map_err(Error::Thread)?;
        let cluster = || Cluster::connect(world.clone(), Options::new(plan.registry.clone()));
        let (clusters, observer) = ((0..plan.connections).map(|_| cluster()).collect(), cluster());
        Ok(Bench { world, plan: Arc::new(plan), runtimes, clusters, observer })
    }

    /// Runs a task on the generator's first thread, and waits for its result.
    fn wait_for<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        let (sender, receiver) = channel();
        self.runtimes[0].spawn(async move {
            // The send cannot fail, because this function waits for it below.
            let _sent = sender.send(task.await);
        });
        receiver.recv().expect("the task answers before it ends")
    }

    /// Creates and fills the tables of these workloads, as far as they are missing or not full.
    pub(crate) fn prepare(&self, workloads: &[Workload], say: &mut dyn FnMut(&str)) -> Result<()> {
        let layouts: BTreeSet<Layout> = workloads.iter().map(|workload| workload.layout()).collect();
        for layout in layouts {
            let (plan, cluster) = (Arc::clone(&self.plan), self.clusters[0].clone());
            let began = self.world.moment();
            let done = self.wait_for(async move { prepare(&plan, layout, &cluster).await })?;
            let (name, seconds) = (self.plan.table(layout), self.world.moment().since(began).as_secs_f64());
            if done.filled {
                say(&format!("{name} has {} rows after {seconds:.1} s", self.plan.rows));
            }
            if done.in_pieces {
                say(&format!(
                    "{name} still has several files after {seconds:.1} s, though a compaction was asked for"
                ));
            }
        }
        Ok(())
    }

    /// Waits for the first answers of a starting server. Fails if there are none for some minutes.
    pub(crate) fn first(&self) -> Result<First> {
        self.wait_for(first(self.world.clone(), Plan::clone(&self.plan)))
    }

    /// Runs one workload.
    pub(crate) fn drive(&self, workload: Workload, say: &mut dyn FnMut(&str)) -> Result<Report> {
        let plan = &self.plan;
        let rows = plan.rows(workload.layout());
        let table = plan.table(workload.layout());
        let growth = Arc::new(Growth::new(rows.count()));
        self.settle(say)?;
        let began = self.world.moment();
        let from = began.plus(plan.warm_up);
        let to = from.plus(plan.measured);
        let threads = self.runtimes.len();
        let pace = |(thread, runtime)| {
            let schedule = Schedule { from: began, to, rate: plan.rate?, thread, threads };
            let connections = (plan.connections - thread).div_ceil(threads);
            Some(Pace::start(runtime, &self.world, schedule, connections))
        };
        let paces: Vec<Arc<Pace>> = self
            .runtimes
            .iter()
            .enumerate()
            .map_while(pace)
            .collect::<std::io::Result<_>>()
            .map_err(Error::Thread)?;
        let counts = if plan.rate.is_some() { Counts::Due } else { Counts::Ended };
        let recorder = || {
            let recorder = Recorder::new(workload.kinds().len(), counts, from, to);
            // The threads share the operations that are due, so the number for one thread is only estimated.
            let expected =
                plan.rate.filter(|_| plan.calm).map(|rate| 1.1 * rate * plan.measured.as_secs_f64());
            match expected {
                Some(expected) => recorder.with_each((expected / threads as f64) as usize),
                None => recorder,
            }
        };
        let recorders: Vec<_> = self.runtimes.iter().map(|_| Arc::new(Mutex::new(recorder()))).collect();
        let counted = Arc::new(AtomicU64::new(0));
        let left = Arc::new(AtomicU64::new(plan.operations.unwrap_or(u64::MAX)));
        let watch = Arc::new(Watch::default());
        let looking = Arc::clone(&watch).look(self.world.clone(), self.observer.admin(), table.clone());
        let looking = self.runtimes[0].spawn(looking);
        let compacting = plan.major_compactions.then(|| {
            let (failed, failure) = channel();
            let (admin, table) = (self.observer.admin(), table.clone());
            let task = self.runtimes[0].spawn(async move {
                // The receiver exists until the task is aborted.
                let _sent = failed.send(keep_compacting(&admin, &table).await);
            });
            (task, failure)
        });
        let stalls = plan.calm.then(|| Stalls::watch(&self.world)).transpose().map_err(Error::Calm)?;
        let (alive, ended) = channel::<()>();
        for index in 0..plan.threads {
            let connection = index % plan.connections;
            let place = connection % self.runtimes.len();
            let table = self.clusters[connection].table(&table.to_string())?;
            let (plan, growth) = (Arc::clone(plan), Arc::clone(&growth));
            let caller = Caller {
                world: self.world.clone(),
                worker: Worker::new(plan, rows.clone(), growth, table, workload, index),
                recorder: Arc::clone(&recorders[place]),
                counted: Arc::clone(&counted),
                left: Arc::clone(&left),
                to,
            };
            let (alive, pace) = (alive.clone(), paces.get(place).cloned());
            let lane = connection / self.runtimes.len();
            self.runtimes[place].spawn(async move {
                match pace {
                    Some(pace) => caller.run_at(&pace, lane).await,
                    None => caller.run().await,
                }
                drop(alive);
            });
        }
        drop(alive);

        self.wait(&ended, from);
        let own = std::process::id();
        let tally = match plan.pid {
            Some(pid) if plan.count_calls => Some(Tally::start(pid, plan.measured)?),
            _ => None,
        };
        let (server_before, own_before) = (plan.pid.map(Usage::of).transpose()?, Usage::of(own)?);
        let measured_from = self.world.moment();
        let mut operations = 0;
        let mut step = from;
        while step < to {
            step = step.plus(PROGRESS).min(to);
            let is_over = self.wait(&ended, step);
            // The progress is read from a counter and not from the recorders, because locking them would delay the
            // callers.
            let so_far = counted.load(Ordering::Relaxed);
            let seconds = step.since(from).as_secs_f64();
            say(&format!("{workload} {seconds:.0} s: {} operations, {so_far} in all", so_far - operations));
            operations = so_far;
            if is_over {
                break;
            }
        }
        let (server_after, own_after) = (plan.pid.map(Usage::of).transpose()?, Usage::of(own)?);
        let elapsed = self.world.moment().since(measured_from);
        // The time is over: callers end after their current operation.
        while ended.recv().is_ok() {}
        looking.abort();
        if let Some((task, failure)) = compacting {
            task.abort();
            if let Ok(error) = failure.try_recv() {
                return Err(error.into());
            }
        }
        let not_begun = paces.iter().map(|pace| pace.left()).sum();

        let stalls = stalls.map(Stalls::finish).transpose().map_err(Error::Calm)?;
        let recorders: Vec<_> = recorders.iter().map(|recorder| recorder.lock()).collect();
        let calm = stalls.map(|stalls| {
            Calm::of(recorders.iter().filter_map(|recorder| recorder.each()).flatten(), &stalls, from, to)
        });
        let kinds = Recorder::merged(recorders.iter().map(|recorder| &**recorder));
        Ok(Report {
            workload,
            name: plan.name(workload),
            elapsed,
            recorded: Recorder::total(&kinds),
            kinds,
            calm,
            not_begun,
            server: server_before.zip(server_after).map(|(before, after)| Cost::between(before, after)),
            server_calls: tally.map(Tally::finish).transpose()?,
            generator: Cost::between(own_before, own_after),
            marks: watch.marks(from, to),
        })
    }

    /// Waits until the server is idle, up to the plan's limit. Without a process id it does not wait.
    fn settle(&self, say: &mut dyn FnMut(&str)) -> Result<()> {
        let (Some(pid), settle) = (self.plan.pid, self.plan.settle) else { return Ok(()) };
        let end = self.world.moment().plus(settle);
        let mut before = Usage::of(pid)?;
        while self.world.moment() < end {
            self.wait_for(env::sleep(IDLE_FOR));
            let now = Usage::of(pid)?;
            if Duration::from_micros(Cost::between(before, now).cpu_us) < IDLE_FOR.mul_f64(IDLE_PART) {
                return Ok(());
            }
            before = now;
        }
        if !settle.is_zero() {
            say(&format!("the server is still busy with what came before, after {} s", settle.as_secs_f64()));
        }
        Ok(())
    }

    /// Waits until `moment` or until all callers have ended; returns whether they have.
    fn wait(&self, ended: &Receiver<()>, moment: Moment) -> bool {
        loop {
            let left = moment.since(self.world.moment());
            if left.is_zero() {
                return false;
            }
            if ended.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
                return true;
            }
        }
    }
}

/// Requests one major compaction of the table after the other. Returns the error of a request that failed.
async fn keep_compacting(admin: &Admin, table: &TableName) -> client::Error {
    loop {
        // A server that still has a request for a store ignores further ones.
        if let Err(error) = admin.compact(table, true).await {
            return error;
        }
        env::sleep(COMPACT_EVERY).await;
    }
}

/// A task that runs operations until the time is over.
struct Caller {
    world: World,
    worker: Worker,
    recorder: Arc<Mutex<Recorder>>,
    /// Number of operations of all callers that were recorded.
    counted: Arc<AtomicU64>,
    /// Number of operations that all callers have yet to begin.
    left: Arc<AtomicU64>,
    to: Moment,
}

impl Caller {
    /// The closed loop: one operation after the other.
    async fn run(mut self) {
        let mut began = self.world.moment();
        while began < self.to && self.takes_one() {
            self.step(began).await;
            began = self.world.moment();
        }
    }

    /// The open loop: operations begin when they are due.
    async fn run_at(mut self, pace: &Pace, lane: usize) {
        while let Some(intended) = pace.next(lane).await {
            if !self.takes_one() {
                return;
            }
            self.step(intended).await;
        }
    }

    fn takes_one(&self) -> bool {
        self.left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    async fn step(&mut self, began: Moment) {
        match self.worker.step().await {
            Ok(done) => {
                let counts = self.recorder.lock().done(done, began, self.world.moment());
                self.counted.fetch_add(u64::from(counts), Ordering::Relaxed);
            }
            Err(error) => {
                self.recorder.lock().failed(0, error.to_string());
                env::sleep(AFTER_FAILURE).await;
            }
        }
    }
}
