//! Workloads: clients of the simulated server, each kind with a judge of its results.
//!
//! A workload creates tables and runs clients until the scene ends; then its judge checks the stored rows. A client
//! that sees a mistake earlier reports it to the scene at once.

mod appends;
mod bank;
mod cells;
mod churn;
mod counters;
mod division;
mod families;
mod followed;
mod list;
mod loads;
mod register;
mod snapshots;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::{Cluster, Registry, Table};
use env::World;
use parking_lot::Mutex;
use proto::descriptor::tracker::TRACKER;
use proto::{FamilyDescriptor, TableDescriptor};
use storage::{Files, Memory};

use crate::options::{FOLLOWED, Options};
use crate::preset::Preset;
use crate::random::Random;
use crate::scheduler::{MachineId, scheduler};
use crate::server::{MASTER_PORT, Server};

/// The work of a client, or a part of a judge's work.
pub type Job<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The work of a judge.
pub type Verdict = Job<Result<(), Complaint>>;

/// A finding of a judge.
#[derive(Clone, Debug)]
pub enum Complaint {
    /// Rows cannot be read. That is no mistake if the disk has destroyed them.
    Unreadable(String),
    /// A read returned an impossible result, or lacks rows without an error.
    Wrong(String),
}

impl From<String> for Complaint {
    fn from(words: String) -> Complaint {
        Complaint::Wrong(words)
    }
}

/// The state that all clients of a run share.
#[derive(Clone)]
pub struct Scene(Arc<Shared>);

struct Shared {
    /// The machines of the servers.
    servers: Vec<MachineId>,
    /// The machine of the read replica, if there is one.
    replica: Option<MachineId>,
    world: World,
    replacements: Arc<AtomicU64>,
    lives: Arc<AtomicU64>,
    storage: Arc<dyn Fn() -> Memory + Send + Sync>,
    place: String,
    clock_steps_back: bool,
    keeps_nonces: bool,
    may_flush: bool,
    is_over: AtomicBool,
    /// Counts calls and returns, for histories.
    turns: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Scene {
    /// Creates what the clients in `world` share: the server and the replica that they use, and what they may expect of
    /// the server.
    pub fn new(
        server: &Server,
        replica: Option<MachineId>,
        world: World,
        clock_steps_back: bool,
        keeps_nonces: bool,
        may_flush: bool,
    ) -> Scene {
        Scene(Arc::new(Shared {
            servers: server.machines(),
            replica,
            world,
            replacements: server.replacements(),
            lives: server.lives(),
            storage: server.storage(),
            place: server.storage_place(),
            clock_steps_back,
            keeps_nonces,
            may_flush,
            is_over: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            failures: Mutex::default(),
        }))
    }

    /// Returns a client that retries for `patience`; with zero it never retries.
    pub fn client(&self, patience: Duration) -> Cluster {
        self.connect(&self.0.servers, patience)
    }

    /// Returns a client of the read replica that retries for `patience`; with zero it never retries.
    ///
    /// # Panics
    /// If the run has no replica.
    pub fn replica_client(&self, patience: Duration) -> Cluster {
        self.connect(&[self.0.replica.expect("the run has a replica")], patience)
    }

    fn connect(&self, machines: &[MachineId], patience: Duration) -> Cluster {
        let masters = machines.iter().map(|machine| format!("{}:{MASTER_PORT}", machine.ip()));
        let mut options = client::Options::new(Registry::rpc(masters));
        options.call_max = Duration::from_secs(5);
        options.operation_max = patience;
        options.retries = if patience.is_zero() { 0 } else { u32::MAX };
        options.connection.connect_max = Duration::from_secs(3);
        // A short pause, so that a client soon notices that the server is back.
        options.pause = Duration::from_millis(20);
        Cluster::connect(self.0.world.clone(), options)
    }

    /// Returns the storage of the server's root directory without faults, for a job that writes files there.
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::new((self.0.storage)())
    }

    /// Returns the server's name of that storage.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// Returns the number of the server's process. A server knows a nonce only while it runs, or while its log has the
    /// record, unless it [keeps nonces](Scene::keeps_nonces). So each attempt of a call that outlasts a process may have been applied.
    pub fn life(&self) -> u64 {
        self.0.lives.load(Ordering::Acquire)
    }

    /// Whether the server's wall clock may step back. Then an acknowledged write may hide a later one with a smaller
    /// timestamp, as HBase defines. Increments, appends and checked puts are not hidden, because their timestamp is
    /// never smaller than that of the cell they replace.
    pub fn clock_steps_back(&self) -> bool {
        self.0.clock_steps_back
    }

    /// Whether the server knows the nonce of each write until the end of the run. Then no write may be applied twice.
    pub fn keeps_nonces(&self) -> bool {
        self.0.keeps_nonces
    }

    /// Begins a read; see [`may_be_stale`](Scene::may_be_stale).
    pub fn begin_read(&self) -> Read {
        Read(self.0.replacements.load(Ordering::Acquire))
    }

    /// Whether the answer to a read may be as old as the beginning of a take-over. A server that was replaced may answer
    /// reads until it learns of that.
    pub fn may_be_stale(&self, read: Read) -> bool {
        read.0 % 2 == 1 || self.begin_read() != read
    }

    /// Whether clients should finish.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    /// Tells clients to finish.
    pub fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
    }

    /// Returns this moment of the clients' machine.
    pub fn now(&self) -> env::Moment {
        self.0.world.moment()
    }

    /// Returns the next number of the counter of calls and returns.
    pub fn turn(&self) -> u64 {
        self.0.turns.fetch_add(1, Ordering::AcqRel)
    }

    /// Records a mistake.
    pub fn fail(&self, words: impl Into<String>) {
        let words = words.into();
        scheduler().note(|| format!("JUDGE  {words}"));
        self.0.failures.lock().push(words);
    }

    /// Returns the recorded mistakes.
    pub fn failures(&self) -> Vec<String> {
        self.0.failures.lock().clone()
    }

    /// Returns a random number generator for one client.
    pub fn random(&self) -> Random {
        Random::new(self.0.world.random())
    }

    /// Waits for a random time up to `up_to_ms`.
    pub async fn pause(&self, random: &mut Random, up_to_ms: u64) {
        env::sleep(Duration::from_micros(random.spread(10, up_to_ms * 1_000))).await;
    }
}

/// A moment at which a client began to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read(u64);

/// A kind of load with its judge.
pub trait Workload: Send + Sync {
    /// Returns the name of the workload.
    fn name(&self) -> &'static str;
    /// Returns the tables that the workload needs, with their split keys.
    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)>;
    /// Returns the work of each client.
    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>>;
    /// Judges the stored rows after all clients have ended.
    fn judge(self: Arc<Self>, scene: Scene) -> Verdict;
}

/// The names of all workloads.
pub const NAMES: [&str; 12] = [
    "registers",
    "list",
    "counters",
    "appends",
    "bank",
    "churn",
    "division",
    "cells",
    "snapshots",
    "loads",
    "families",
    FOLLOWED,
];

/// Returns some workloads with random options, among them those that `options` names, or only these.
pub fn draw(random: &mut Random, options: &Options, has_replica: bool) -> Vec<Arc<dyn Workload>> {
    let has_turns = options.presets.contains(&Preset::RetainedRows);
    let which = random.bits();
    let is_drawn = |kind: usize| {
        if NAMES[kind] == FOLLOWED {
            return has_replica;
        }
        let by_seed = which >> kind & 1 == 1 || which & 63 == 0;
        (by_seed && !options.only) || options.workloads.iter().any(|name| name == NAMES[kind])
    };
    let mut all: Vec<Arc<dyn Workload>> = Vec::new();
    for kind in (0..NAMES.len()).filter(|kind| is_drawn(*kind)) {
        all.push(match NAMES[kind] {
            "registers" => Arc::new(register::Registers::new(random)),
            "list" => Arc::new(list::List::new(random)),
            "counters" => Arc::new(counters::Counters::new(random, has_turns)),
            "appends" => Arc::new(appends::Appends::new(random)),
            "bank" => Arc::new(bank::Bank::new(random)),
            "churn" => Arc::new(churn::Churn::new(random)),
            "division" => Arc::new(division::Division::new(random)),
            "cells" => Arc::new(cells::Cells::new(random)),
            "snapshots" => Arc::new(snapshots::Snapshots::new(random)),
            "loads" => Arc::new(loads::Loads::new(random)),
            "families" => Arc::new(families::Families::new(random)),
            _ => Arc::new(followed::Followed::new(random)),
        });
    }
    all
}

/// Returns a table with random options for its families.
pub(crate) fn table(name: &str, families: &[&str], random: &mut Random) -> TableDescriptor {
    let mut table = TableDescriptor::new(name.parse().expect("a name"));
    if random.one_in(2) {
        let tracker = random.choose(&["DEFAULT", "FILE"]);
        table.attributes_mut().set(TRACKER.into(), tracker.into());
    }
    for family in families {
        // GZ is rare, because it takes a fourth of the time of a run and has nothing to do with the order of events.
        let compression = match random.one_in(40) {
            true => "GZ",
            false => random.choose(&["NONE", "NONE", "SNAPPY", "LZ4", "ZSTD"]),
        };
        let mut descriptor = FamilyDescriptor::new(family.to_string())
            .expect("a name")
            .with("BLOCKSIZE", random.spread(1 << 10, 16 << 10))
            .with(
                "DATA_BLOCK_ENCODING",
                random.choose(&["NONE", "PREFIX", "DIFF", "FAST_DIFF", "ROW_INDEX_V1"]),
            )
            .with("COMPRESSION", compression)
            .with("BLOOMFILTER", random.choose(&["NONE", "ROW", "ROWCOL"]))
            .with("VERSIONS", random.choose(&[1, 1, 3]));
        if random.one_in(2) {
            let level = random.choose(&["NONE", "BASIC", "EAGER", "ADAPTIVE"]);
            descriptor = descriptor.with("IN_MEMORY_COMPACTION", level);
        }
        if random.one_in(4) {
            descriptor.configure(TRACKER, random.choose(&["DEFAULT", "FILE"]));
        }
        if random.one_in(4) {
            descriptor = descriptor.with("IS_MOB", true).with("MOB_THRESHOLD", random.below(32));
        }
        table.set_family(descriptor);
    }
    table
}

/// Returns two or three split keys of a table whose rows begin with a letter or digit, or none.
pub(crate) fn splits(random: &mut Random) -> Vec<Bytes> {
    let mut keys: Vec<Bytes> =
        (0..random.below(3)).map(|_| Bytes::from(vec![random.choose(b"2468acegikmoqsuwy")])).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Enables a table that was disabled. Returns whether it is enabled.
pub(crate) async fn enable(scene: &Scene, admin: &client::Admin, table: &proto::TableName) -> bool {
    let read = scene.begin_read();
    // An earlier attempt without an answer may have enabled the table. Then this attempt fails, and the state is asked
    // for.
    admin.enable_table(table).await.is_ok()
        || (matches!(admin.table_state(table).await, Ok(Some(proto::catalog::TableState::Enabled)))
            && !scene.may_be_stale(read))
}

/// Maximum number of failed deletions of a snapshot or table, five seconds apart, before one must succeed.
pub(crate) const DELETIONS_MAX: u32 = 24;

/// Deletes a table in any state. Returns whether it is deleted.
pub(crate) async fn remove(scene: &Scene, admin: &client::Admin, table: &proto::TableName) -> bool {
    let read = scene.begin_read();
    match admin.table_exists(table).await {
        Ok(true) => {
            let _either = admin.disable_table(table).await;
            admin.delete_table(table).await.is_ok()
        }
        Ok(false) => !scene.may_be_stale(read),
        Err(_) => false,
    }
}

/// Deletes a table that an interrupted change has left in an unknown state. After all faults that change ends without help,
/// and then no table may resist.
pub(crate) async fn remove_interrupted(
    scene: &Scene,
    admin: &client::Admin,
    table: &proto::TableName,
) -> Result<(), Complaint> {
    let mut tries = 0;
    while !remove(scene, admin, table).await {
        if tries == DELETIONS_MAX {
            let (state, exists) = (admin.table_state(table).await, admin.table_exists(table).await);
            let (disabled, deleted) = (admin.disable_table(table).await, admin.delete_table(table).await);
            return Err(Complaint::Unreadable(format!(
                "table {table} cannot be deleted: state {state:?}, exists {exists:?}, disabled {disabled:?}, deleted \
                 {deleted:?}"
            )));
        }
        tries += 1;
        env::sleep(Duration::from_secs(5)).await;
    }
    Ok(())
}

/// Flushes and compacts a table, and changes its store file tracker, at random times until the scene ends. Does nothing
/// in a run [without flushes](crate::Preset::NoFlushes).
pub(crate) fn stir(scene: &Scene, table: Table) -> Job<()> {
    let scene = scene.clone();
    let admin = scene.client(Duration::ZERO).admin();
    Box::pin(async move {
        let mut random = scene.random();
        while !scene.is_over() && scene.0.may_flush {
            scene.pause(&mut random, 5_000).await;
            if random.one_in(6) {
                let tracker = random.choose(&["DEFAULT", "FILE"]);
                if admin.change_tracker(table.name(), None, tracker).await.is_ok() {
                    env::sometimes("client: a store file tracker was changed");
                }
                continue;
            }
            let done = match random.below(3) {
                0 | 1 => admin.flush(table.name()).await,
                _ => {
                    let major = random.one_in(2);
                    admin.compact(table.name(), major).await
                }
            };
            if done.is_ok() {
                env::sometimes("client: a flush or compaction that it asked for was taken");
            }
        }
    })
}
