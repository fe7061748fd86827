//! A machine with a read replica of the server: it follows the server's log and file lists in the object store, as
//! `bellows start --read-replica` does.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cache::Cache;
use env::World;
use master::{Master, MasterService};
use proto::ServerName;
use region::RegionOptions;
use regionserver::{
    ClusterView, Foundation, LocalServers, MetaLocation, Primary, RegionServer, ReplicaOptions,
};
use storage::{FileName, Files, Memory, Segmented};

use crate::disk::LOG_FOLDER;
use crate::random::Random;
use crate::scheduler::{Health, MachineId, Scheduler};
use crate::server::{Life, MASTER_PORT, NoMirror, PART_PATIENCE, RPC_PORT, Server, Settings};
use crate::store::Store;

/// Size of a chunk of a replica's memstores, in bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// A simulated read replica; see the module documentation.
pub struct Replica {
    scheduler: Rc<Scheduler>,
    machine: MachineId,
    settings: Settings,
    options: ReplicaOptions,
    store: Store,
    life: RefCell<Arc<Life>>,
}

impl Replica {
    /// Creates a machine without a process, on which a replica of `server` can run.
    ///
    /// # Panics
    /// If the server has no object store.
    pub fn new(scheduler: &Rc<Scheduler>, server: &Server, random: &mut Random) -> Rc<Replica> {
        let poll = Duration::from_millis(random.spread(2, 500));
        let poll_idle = poll.max(Duration::from_millis(random.spread(2, 5_000)));
        let replica = Replica {
            scheduler: Rc::clone(scheduler),
            machine: scheduler.machine("replica"),
            settings: server.settings().clone(),
            options: ReplicaOptions { poll, poll_idle, lag_max: None },
            store: server.store().expect("a replica needs a store").clone(),
            life: RefCell::default(),
        };
        replica.scheduler.note(|| format!("replica: {:?}", replica.options));
        replica.life.borrow().ended.store(true, Ordering::Release);
        Rc::new(replica)
    }

    /// Returns the machine of the replica.
    pub fn machine(&self) -> MachineId {
        self.machine
    }

    /// Whether a process runs, which may be suspended.
    pub fn is_up(&self) -> bool {
        !self.life.borrow().ended.load(Ordering::Acquire)
    }

    /// Starts the process if none runs.
    pub fn start(&self) {
        if self.is_up() {
            return;
        }
        self.scheduler.revive(self.machine);
        self.scheduler.note(|| "replica starts".to_owned());
        let life = Arc::<Life>::default();
        *self.life.borrow_mut() = Arc::clone(&life);
        let (settings, options) = (self.settings.clone(), self.options.clone());
        let (machine, store) = (self.machine, self.store.for_process());
        let work = Box::new(move || {
            if let Err(failure) = serve(&settings, options, machine, store, &life) {
                *life.failure.lock() = Some(failure);
            }
            life.ended.store(true, Ordering::Release);
        });
        self.scheduler.spawn_on(self.machine, "main", work);
    }

    /// Kills the process as `kill -9` does.
    pub fn kill(&self) {
        self.scheduler.note(|| "fault  kill -9 of the replica".to_owned());
        self.scheduler.count("fault: the replica is killed");
        self.end_life();
    }

    /// Suspends the process.
    pub fn pause(&self) {
        self.scheduler.note(|| "fault  the replica is suspended".to_owned());
        self.scheduler.count("fault: the replica is suspended");
        self.scheduler.pause(self.machine);
    }

    /// Lets the suspended process continue.
    pub fn resume(&self) {
        if self.scheduler.health(self.machine) == Health::Paused {
            self.scheduler.note(|| "fault  the replica goes on".to_owned());
            self.scheduler.resume_machine(self.machine);
        }
    }

    /// If the process has ended by itself, ends its remaining threads and returns the cause, and whether it had served
    /// clients.
    pub fn take_end(&self) -> Option<(String, bool)> {
        let life = Arc::clone(&self.life.borrow());
        let failure = life.failure.lock().take()?;
        self.scheduler.note(|| format!("replica ends: {failure}"));
        self.end_life();
        Some((failure, life.was_ready.load(Ordering::Acquire)))
    }

    fn end_life(&self) {
        self.scheduler.resume_machine(self.machine);
        self.scheduler.kill(self.machine, Health::Killed);
        self.scheduler.announce_death(self.machine, Health::Killed);
        self.life.borrow().ended.store(true, Ordering::Release);
    }
}

/// Runs the process until it fails.
fn serve(
    settings: &Settings,
    options: ReplicaOptions,
    machine: MachineId,
    store: Store,
    life: &Life,
) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let world = World::real();
    let at = |port| SocketAddr::new(machine.ip(), port);
    let threads = rpc::Options { threads: settings.rpc_threads, ..rpc::Options::default() };
    let bound = rpc::Server::bind(world.clone(), threads, &[at(RPC_PORT), at(MASTER_PORT)]);
    let rpc = bound.map_err(|error| words(&error))?;

    let files: Arc<dyn Files> = Arc::new(store);
    let log: Arc<dyn Files> = Arc::new(Segmented::new(Arc::clone(&files), world.clone(), PART_PATIENCE));
    let id = layout::cluster_id();
    let content = files.read(&id, 4096).map_err(|error| words(&error))?;
    let primary = Primary { files, log: Arc::new(log), folder: FileName::new(LOG_FOLDER) };
    let own: Arc<dyn Files> = Arc::new(Memory::new());
    own.swap(&id, None, &content).map_err(|error| words(&error))?;

    let in_memory: Arc<dyn Files> = Arc::new(Memory::new());
    let opened = wal::Log::open(world.clone(), in_memory, FileName::new(LOG_FOLDER), wal::Options::default());
    let (log, _) = opened.map_err(|error| words(&error))?;
    let start_code = u64::try_from(world.now().0).unwrap_or(0);
    let name =
        |port| ServerName::from_address(&format!("{}:{port}", machine.ip()), start_code).expect("a name");
    let (server_name, master_name) = (name(RPC_PORT), name(MASTER_PORT));
    let foundation = Foundation {
        world: world.clone(),
        files: Arc::clone(&own),
        log: Arc::new(log),
        cache: Arc::new(Cache::with_bytes(settings.cache_bytes as usize)),
        region_options: RegionOptions {
            memory: region::Pool::new(CHUNK_BYTES, 4),
            ledger: Arc::default(),
            flush_budget: Arc::default(),
            open_files: Arc::default(),
            first_abort: Arc::default(),
            is_fenced: Arc::default(),
            ..settings.region.clone()
        },
        recovered: None,
    };
    let server = RegionServer::new(server_name.clone(), foundation, settings.server.clone());
    let poll = options.poll;
    let replica =
        regionserver::Replica::new(world.clone(), primary, options).map_err(|error| words(&error))?;
    server.follow(replica).map_err(|error| words(&error))?;
    let servers = Arc::new(LocalServers::new(Arc::clone(&server)).map_err(|error| words(&error))?);
    let started = Master::start(
        world.clone(),
        master::Options::default(),
        own,
        Arc::clone(&servers) as Arc<_>,
        servers,
        Arc::new(NoMirror),
        master_name.clone(),
    );
    let (master, tables) = started.map_err(|error| words(&error))?;
    master.open_tables(tables).map_err(|error| words(&error))?;
    server.set_master(master.requests());
    ::replica::follow_catalog(&world, poll, &server, &master, Box::new(|| Ok(())))?;
    server.start().map_err(|error| words(&error))?;

    let meta = master.meta_location();
    let meta = MetaLocation {
        region: meta.region.clone(),
        server: Some(server_name),
        open_sequence: meta.open_sequence.unwrap_or(0),
    };
    let view = Arc::new(ClusterView::of_one_process(master.cluster_id(), &master_name, meta));
    let services = regionserver::services(&server, &view, 10)
        .with("MasterService", Arc::new(MasterService::new(Arc::clone(&master))))
        .with_cluster_id(master.cluster_id());
    let _rpc = rpc.serve(services);
    life.was_ready.store(true, Ordering::Release);
    env::sometimes("replica: ready");
    Err(env::block_on(server.region_aborted()))
}
