//! Runs: callers, connections, time.
//!
//! Callers are tasks, spread over the generator's own threads; each of these has one or more connections, and a recorder
//! that its callers share. Whoever runs a workload waits on a thread of its own, looks at the server's process at both
//! ends of the measured time and tells how it goes in between.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use client::{Cluster, Durability, Options, Registry, Table};
use env::{Moment, Runtime, World};
use parking_lot::Mutex;
use proto::TableName;

use crate::process::{Cost, Usage};
use crate::recorder::Recorder;
use crate::rows::Rows;
use crate::worker::Worker;
use crate::{Error, Report, Result, Workload};

/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);
/// A caller whose operation failed waits so long before its next.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// What a run does, apart from its workloads.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the cluster is looked up.
    pub registry: Registry,
    /// The server's process.
    pub pid: Option<u32>,
    /// Callers, each with one operation under way.
    pub threads: usize,
    /// Connections they share.
    pub connections: usize,
    /// Threads of the generator.
    pub generator_threads: usize,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of a value.
    pub value_size: usize,
    /// Rows of a batch.
    pub batch: usize,
    /// Rows that a filtered scan looks at; at most `rows`.
    pub range: u64,
    /// Rows of one call of a scan.
    pub caching: Option<u32>,
    /// Measured time.
    pub measured: Duration,
    /// Time before it.
    pub warm_up: Duration,
    /// What writes ask for.
    pub durability: Durability,
    /// The table.
    pub table: TableName,
    /// Regions of the table when it is made here.
    pub regions: u64,
    /// Whether the rows are flushed to files after they were loaded.
    pub flush: bool,
    /// Where chance begins.
    pub seed: u64,
}

/// Threads and connections, ready to run workloads.
pub(crate) struct Bench {
    world: World,
    plan: Arc<Plan>,
    rows: Rows,
    runtimes: Vec<Runtime>,
    /// Connection `n` lives on runtime `n` modulo their number.
    clusters: Vec<Cluster>,
}

impl Bench {
    /// Starts the threads; nothing is sent yet.
    pub(crate) fn start(plan: Plan) -> Result<Bench> {
        let world = World::real();
        let runtimes = (0..plan.generator_threads.min(plan.connections))
            .map(|index| Runtime::start(&format!("bench-{index}"), 1))
            .collect::<std::io::Result<_>>()
            .map_err(Error::Thread)?;
        let clusters = (0..plan.connections)
            .map(|_| Cluster::connect(world.clone(), Options::new(plan.registry.clone())))
            .collect();
        let rows = Rows::new(plan.rows, plan.value_size);
        Ok(Bench { world, plan: Arc::new(plan), rows, runtimes, clusters })
    }

    /// Makes and fills the table.
    pub(crate) fn prepare(&self, say: &mut dyn FnMut(&str)) -> Result<()> {
        let (plan, cluster) = (Arc::clone(&self.plan), self.clusters[0].clone());
        let began = self.world.moment();
        let (sender, receiver) = channel();
        self.runtimes[0].spawn(async move {
            // The receiver waits below.
            let _sent = sender.send(crate::prepare(&plan, &cluster).await);
        });
        let filled = receiver.recv().expect("the task answers before it ends")?;
        if filled {
            let seconds = self.world.moment().since(began).as_secs_f64();
            say(&format!("{} has {} rows after {seconds:.1} s", self.plan.table, self.plan.rows));
        }
        Ok(())
    }

    /// Runs one workload.
    pub(crate) fn drive(&self, workload: Workload, say: &mut dyn FnMut(&str)) -> Result<Report> {
        let plan = &self.plan;
        let began = self.world.moment();
        let from = began.plus(plan.warm_up);
        let to = from.plus(plan.measured);
        let recorders: Vec<Arc<Mutex<Recorder>>> = self
            .runtimes
            .iter()
            .map(|_| Arc::new(Mutex::new(Recorder::new(workload.kinds().len(), from, to))))
            .collect();
        let (alive, ended) = channel::<()>();
        for index in 0..plan.threads {
            let connection = index % plan.connections;
            let place = connection % self.runtimes.len();
            let table = self.clusters[connection].table(&plan.table.to_string())?;
            let caller = Caller {
                world: self.world.clone(),
                worker: self.worker(table, workload, index),
                recorder: Arc::clone(&recorders[place]),
                to,
            };
            let alive = alive.clone();
            self.runtimes[place].spawn(async move {
                caller.run().await;
                drop(alive);
            });
        }
        drop(alive);

        self.wait(&ended, from);
        let own = std::process::id();
        let (server_before, own_before) = (plan.pid.map(Usage::of).transpose()?, Usage::of(own)?);
        let measured_from = self.world.moment();
        let mut operations = 0;
        let mut step = from;
        while step < to {
            step = step.plus(PROGRESS).min(to);
            self.wait(&ended, step);
            let so_far = recorders.iter().map(|recorder| recorder.lock().operations()).sum();
            let seconds = step.since(from).as_secs_f64();
            say(&format!("{workload} {seconds:.0} s: {} operations, {so_far} in all", so_far - operations));
            operations = so_far;
        }
        let (server_after, own_after) = (plan.pid.map(Usage::of).transpose()?, Usage::of(own)?);
        let elapsed = self.world.moment().since(measured_from);
        // Operations that were under way end by themselves.
        while ended.recv().is_ok() {}

        let recorders: Vec<_> = recorders.iter().map(|recorder| recorder.lock()).collect();
        let kinds = Recorder::merged(recorders.iter().map(|recorder| &**recorder));
        Ok(Report {
            workload,
            elapsed,
            recorded: Recorder::total(&kinds),
            kinds,
            server: server_before.zip(server_after).map(|(before, after)| Cost::between(before, after)),
            generator: Cost::between(own_before, own_after),
            value_size: plan.value_size,
        })
    }

    fn worker(&self, table: Table, workload: Workload, index: usize) -> Worker {
        Worker::new(Arc::clone(&self.plan), self.rows.clone(), table, workload, index)
    }

    /// Waits until `moment`, or until all callers have ended.
    fn wait(&self, ended: &Receiver<()>, moment: Moment) {
        loop {
            let left = moment.since(self.world.moment());
            if left.is_zero() || ended.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }
}

/// A task that makes operations until the time is over.
struct Caller {
    world: World,
    worker: Worker,
    recorder: Arc<Mutex<Recorder>>,
    to: Moment,
}

impl Caller {
    async fn run(mut self) {
        let mut began = self.world.moment();
        while began < self.to {
            let outcome = self.worker.step().await;
            let ended = self.world.moment();
            match outcome {
                Ok(done) => self.recorder.lock().done(done, began, ended),
                Err(error) => {
                    self.recorder.lock().failed(0, error.to_string());
                    env::sleep(AFTER_FAILURE).await;
                }
            }
            began = self.world.moment();
        }
    }
}
