//! A machine with the whole server: master, region server and registry in one process, as `bellows start` wires them.
//! Its files are all on one disk, or in an object store, with the log there or on the disk.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cache::Cache;
use master::{Master, MasterService};
use parking_lot::Mutex;
use prost::Message;
use proto::{ServerName, pb};
use region::{CompactionPolicy, RegionOptions, StripeOptions};
use regionserver::{ClusterView, Foundation, LocalServers, MetaLocation, RegionServer};
use storage::{FileName, Files, Memory, Segmented};

use crate::disk::{Conduct, Disk, LOG_FOLDER, Medium, Profile};
use crate::random::Random;
use crate::scheduler::{Health, MachineId, Scheduler};
use crate::store::Store;
use crate::target::Target;

/// The options of a server that differ from seed to seed.
#[derive(Clone)]
pub struct Settings {
    pub(crate) rpc_threads: usize,
    pub(crate) cache_bytes: u64,
    pub(crate) region: RegionOptions,
    pub(crate) log: wal::Options,
    pub(crate) server: regionserver::Options,
    pub(crate) parents_period: Duration,
    /// The kind of the server's file system.
    pub(crate) profile: Profile,
    /// Whether all files except the log are in an object store.
    pub(crate) uses_store: bool,
    /// Maximum number of awaited reads of the store; `None` if reads block.
    pub(crate) awaited_max: Option<usize>,
    /// Whether the log is in the store, too.
    pub(crate) log_in_store: bool,
    /// Whether a read replica follows the server.
    pub(crate) has_replica: bool,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Settings {
            rpc_threads,
            cache_bytes,
            region,
            log,
            server,
            parents_period,
            profile,
            uses_store,
            awaited_max,
            log_in_store,
            has_replica,
        } = self;
        write!(
            f,
            "disk {profile:?}, store {uses_store}, awaited {awaited_max:?}, log there {log_in_store}, replica {has_replica}, rpc threads {rpc_threads}, cache {cache_bytes}, flush {} × {}, memory {:?}, keeps {}, stretch {}, markers {}, \
             files {}..{}, {:?} {:?}, log file {} × {}, reuse {}, idle {:?}, flushers {}, compactors {}, split {} {:?}, parents {:?}, unnamed files {:?} grace {:?}",
            region.flush_size,
            region.block_multiplier,
            region.in_memory_compaction,
            region.flush_keeps,
            region.stretch,
            region.drop_markers,
            region.compaction_files_min,
            region.compaction_files_max,
            region.compaction_policy,
            region.stripe,
            log.file_bytes_max,
            log.files_max,
            log.reuse,
            log.idle_write,
            server.flushers,
            server.compactors,
            server.split.policy,
            server.split.initial_bytes,
            parents_period,
            server.unnamed_files_period,
            server.unnamed_files_grace,
        )
    }
}

/// Draws when regions are split by their size. In a third of the runs none is: clients can still split regions.
fn draw_split(random: &mut Random) -> regionserver::SplitOptions {
    let policy = random.choose(&[None, Some("SteppingSplitPolicy"), Some("ConstantSizeRegionSplitPolicy")]);
    let file_bytes_max = random.spread(16 << 10, 1 << 20);
    regionserver::SplitOptions {
        policy: policy.unwrap_or("ConstantSizeRegionSplitPolicy").to_owned(),
        file_bytes_max: if policy.is_some() { file_bytes_max } else { u64::MAX },
        initial_bytes: Some(random.spread(8 << 10, 1 << 20)),
        regions_max: 16,
        ..regionserver::Options::default().split
    }
}

impl Settings {
    /// Draws random settings with small limits, so that everything happens often.
    pub fn draw(random: &mut Random) -> Settings {
        let flush_size = random.spread(4 << 10, 1 << 20);
        let chunk_bytes = [64 << 10, 256 << 10, 2 << 20][random.below(3) as usize];
        let region = RegionOptions {
            flush_size,
            block_multiplier: 2 + random.below(4),
            memory: region::Pool::new(chunk_bytes, 4),
            in_memory_compaction: random.choose(&model::in_process::LEVELS),
            in_memory_flush_factor: random.choose(&[0.0, 0.02, 0.1, 0.5]),
            pipeline_segments_max: 1 + random.below(4) as usize,
            stretch: random.choose(&[1.0, 1.5, 2.0]),
            flush_keeps: random.choose(&[0.0, 0.5, 1.0]),
            flush_keeps_gain_min: random.choose(&[0.0, 0.25]),
            drop_markers: random.one_in(2),
            put_waits_for_delete: true,
            compaction_files_min: 2 + random.below(3) as usize,
            compaction_files_max: 3 + random.below(8) as usize,
            blocking_files: 4 + random.below(12) as usize,
            major_period: Duration::from_secs(random.spread(5, 100_000)),
            ..RegionOptions::default()
        };
        let log = wal::Options {
            file_bytes_max: random.spread(4 << 10, 1 << 20),
            files_max: 2 + random.below(8) as usize,
            files_min: 2,
            idle_write: Duration::from_millis(random.spread(10, 2_000)),
            reuse: random.one_in(2),
            // A file that is kept for its nonces hides a mistake in the decision which files can be deleted.
            keep_nonces: if random.one_in(3) { wal::Options::default().keep_nonces } else { Duration::ZERO },
            ..wal::Options::default()
        };
        let server = regionserver::Options {
            flushers: 1 + random.below(2),
            compactors: 1 + random.below(2),
            memory_compactors: 1,
            wake_period: Duration::from_millis(random.spread(50, 2_000)),
            flush_period: Duration::from_secs(random.spread(2, 3_600)),
            unnamed_files_period: Duration::from_secs(random.spread(1, 600)),
            // Shorter than a run, so that the janitor deletes files where a file has a grace.
            unnamed_files_grace: Duration::from_millis(random.spread(100, 20_000)),
            log_roll_period: Duration::from_secs(random.spread(2, 3_600)),
            memstore_bytes_max: match random.one_in(4) {
                true => random.spread(256 << 10, 4 << 20),
                false => 64 << 20,
            },
            split: draw_split(random),
            ..regionserver::Options::default()
        };
        let region = match random.one_in(4) {
            false => region,
            true => RegionOptions {
                compaction_policy: CompactionPolicy::Stripe,
                stripe: StripeOptions {
                    initial_count: 1 + random.below(4) as usize,
                    // With smaller stripes a store would have hundreds of files, and a run would take minutes.
                    split_size: Some(random.spread(16 << 10, 1 << 20)),
                    flush_to_level0: random.one_in(3),
                    level0_files_min: 1 + random.below(4) as usize,
                    files_min: Some(2 + random.below(3) as usize),
                    ..StripeOptions::default()
                },
                ..region
            },
        };
        let uses_store = random.one_in(3);
        let cache_bytes =
            random.spread(32 << 10, 4 << 20).max(if uses_store { STORE_CACHE_BYTES_MIN } else { 0 });
        let mut settings = Settings {
            rpc_threads: 1 + random.below(3) as usize,
            cache_bytes,
            region,
            log,
            server,
            parents_period: Duration::from_secs(random.spread(1, 60)),
            profile: random.choose(&[Profile::Local, Profile::Local, Profile::Local, Profile::Hdfs]),
            uses_store,
            awaited_max: random.one_in(2).then(|| random.spread(1, 32) as usize),
            log_in_store: uses_store && random.one_in(2),
            has_replica: false,
        };
        settings.has_replica = settings.log_in_store && random.one_in(2);
        settings
    }

    /// Moves all files and the log of these settings onto a file system of this kind.
    pub(crate) fn put_on_disk(&mut self, profile: Profile) {
        self.uses_store = false;
        self.log_in_store = false;
        self.has_replica = false;
        self.profile = profile;
    }

    /// Moves the files of these settings into an object store, for a search whose faults concern stores only.
    pub(crate) fn put_into_store(&mut self, random: &mut Random) {
        if !self.uses_store {
            self.uses_store = true;
            self.cache_bytes = self.cache_bytes.max(STORE_CACHE_BYTES_MIN);
            self.log_in_store = random.one_in(2);
        }
    }

    /// Moves the files and the log so that a kind of fault has an effect.
    pub(crate) fn provide(&mut self, target: Target, random: &mut Random) {
        match target {
            Target::Server => {}
            Target::Disk => {
                self.log_in_store = false;
                self.has_replica = false;
            }
            Target::Store => self.put_into_store(random),
            Target::LogInStore => {
                self.put_into_store(random);
                self.log_in_store = true;
            }
            Target::Shared => {
                if !self.has(Target::Shared) {
                    self.provide(Target::LogInStore, random);
                }
            }
            Target::Replica => {
                self.provide(Target::LogInStore, random);
                self.has_replica = true;
            }
        }
    }

    /// Whether the files and the log are where a kind of fault has an effect.
    pub(crate) fn has(&self, target: Target) -> bool {
        match target {
            Target::Server => true,
            // With the log in the store the server does not use its disk.
            Target::Disk => !self.log_in_store,
            Target::Store => self.uses_store,
            Target::LogInStore => self.log_in_store,
            Target::Shared => self.log_in_store || self.profile == Profile::Hdfs,
            Target::Replica => self.has_replica,
        }
    }
}

/// Minimum size of the block cache over a store, in bytes. Reading a block from a store takes so long that a scan
/// without a cache would not end in time.
const STORE_CACHE_BYTES_MIN: u64 = 16 << 20;

/// The port of the region server.
pub const RPC_PORT: u16 = 16_020;
/// The port of the master.
pub const MASTER_PORT: u16 = 16_000;
/// The port of the registry.
pub const REGISTRY_PORT: u16 = 2_181;

/// A simulated server; see the module documentation.
pub struct Server {
    scheduler: Rc<Scheduler>,
    /// The machine of the process that owns the files, or is about to.
    machine: Cell<MachineId>,
    /// The machine without a process, on which the next process starts that takes over the files; `None` if there is
    /// none.
    standby: Cell<Option<MachineId>>,
    /// The process that was replaced and has not ended yet.
    replaced: Mutex<Option<Replaced>>,
    /// The number of times that a replaced process began to run again, or ended.
    replacements: Arc<AtomicU64>,
    settings: Settings,
    disk: Disk,
    /// The store with all files except the log; `None` if they are on the disk.
    store: Option<Store>,
    /// The present behaviour of the server's disk.
    pub conduct: Arc<Mutex<Conduct>>,
    life: Mutex<Arc<Life>>,
    lives: Arc<AtomicU64>,
}

/// A process whose files another process has taken over, or is about to.
#[derive(Clone)]
pub struct Replaced {
    /// The machine of the process.
    pub machine: MachineId,
    /// The state of the process.
    pub life: Arc<Life>,
}

/// The state of one process, from its start to its end.
#[derive(Default)]
pub struct Life {
    /// Whether the process has opened its log.
    pub owns_log: AtomicBool,
    /// The log that the process has opened.
    log: Mutex<Option<Arc<wal::Log>>>,
    /// Whether the process serves clients.
    pub ready: AtomicBool,
    /// Whether the process has ever served clients.
    pub was_ready: AtomicBool,
    /// Notified when the process is asked to stop.
    stopping: tokio::sync::Notify,
    /// Whether the process has ended by itself, by an orderly stop or a failed start.
    pub ended: AtomicBool,
    /// The error with which the process failed to start, or ended.
    pub failure: Mutex<Option<String>>,
}

impl Server {
    /// Creates a machine with an empty disk and no process.
    pub fn new(scheduler: &Rc<Scheduler>, machine: MachineId, settings: Settings) -> Rc<Server> {
        let store = settings.uses_store.then(|| Store::new(settings.awaited_max));
        let conduct = Arc::<Mutex<Conduct>>::default();
        Rc::new(Server {
            disk: Disk::new(settings.profile, Arc::clone(&conduct)),
            store,
            scheduler: Rc::clone(scheduler),
            machine: Cell::new(machine),
            standby: Cell::new(None),
            replaced: Mutex::default(),
            replacements: Arc::default(),
            settings,
            conduct,
            life: Mutex::default(),
            lives: Arc::default(),
        })
    }

    /// Returns the machine of the process that runs, or ran last.
    pub fn machine(&self) -> MachineId {
        self.machine.get()
    }

    /// Returns the options of the server.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the server has what a kind of fault needs to have an effect.
    pub fn has(&self, target: Target) -> bool {
        self.settings.has(target)
    }

    /// Adds a machine on which a process can take over the files.
    pub fn add_standby(&self) {
        self.standby.set(Some(self.scheduler.machine("standby")));
    }

    /// Returns the machine of the process that runs, or ran last, and the standby's machine, if there is one.
    pub fn machines(&self) -> Vec<MachineId> {
        [Some(self.machine.get()), self.standby.get()].into_iter().flatten().collect()
    }

    /// Returns the process that was replaced and has not ended yet.
    pub fn replaced(&self) -> Option<Replaced> {
        self.replaced.lock().clone()
    }

    /// Returns the number of times that a replaced process began to run again, or ended. It is odd while one runs, which
    /// may answer reads with old rows until it learns that it was replaced.
    pub fn replacements(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.replacements)
    }

    /// Returns the process that runs, or ran last.
    pub fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life.lock())
    }

    /// Returns the number of processes started so far.
    pub fn lives(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.lives)
    }

    /// Returns the content of the server's disk.
    pub fn place(&self) -> Memory {
        self.disk.content()
    }

    /// Returns a function that returns the current content of the storage of its root directory.
    pub fn storage(&self) -> Arc<dyn Fn() -> Memory + Send + Sync> {
        let (disk, store) = (self.disk.clone(), self.store.as_ref().map(Store::content));
        Arc::new(move || store.clone().unwrap_or_else(|| disk.content()))
    }

    /// Returns the server's name of that storage.
    pub fn storage_place(&self) -> String {
        self.store.as_ref().map_or_else(|| self.disk.place(), Files::place)
    }

    /// Returns what is known of the acknowledged bytes that the server's disk has destroyed.
    pub fn medium(&self) -> Medium {
        self.disk.medium()
    }

    /// Returns the server's object store; `None` if its files are on the disk.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Starts the process.
    pub fn start(&self) {
        let life = Arc::<Life>::default();
        *self.life.lock() = Arc::clone(&life);
        let number = self.lives.fetch_add(1, Ordering::AcqRel) + 1;
        let machine = self.machine.get();
        self.scheduler.revive(machine);
        self.scheduler.note(|| format!("server starts, life {number}"));
        let disk = self.disk.for_process();
        let (settings, store) = (self.settings.clone(), self.store.as_ref().map(Store::for_process));
        let work = Box::new(move || {
            let served = serve(&settings, machine, disk, store, &life);
            let log = life.log.lock().take();
            if let Err(failure) = served {
                // Several parts may be the first to find that another process has taken the files. As in `bellows start`
                // the log is asked.
                let fenced = log.and_then(|log| log.taken_over());
                *life.failure.lock() = Some(fenced.map_or(failure, |error| error.to_string()));
            }
            life.ended.store(true, Ordering::Release);
        });
        self.scheduler.spawn_on(machine, "main", work);
    }

    /// Starts a process on another machine, which takes over the files of the present one. The present process is
    /// suspended, and [continues](Server::resume_replaced) later.
    ///
    /// # Panics
    /// Without a standby, or while another process is replaced.
    pub fn take_over(&self) {
        self.scheduler.note(|| "fault  another server takes over".to_owned());
        let (machine, life) = (self.machine.get(), self.life());
        self.machine.set(self.standby.take().expect("there is a standby"));
        *self.replaced.lock() = Some(Replaced { machine, life });
        self.start();
    }

    /// Lets the replaced process continue.
    pub fn resume_replaced(&self) {
        if let Some(Replaced { machine, .. }) = self.replaced()
            && self.scheduler.health(machine) == Health::Paused
        {
            self.scheduler.note(|| "fault  the replaced server continues".to_owned());
            self.replacements.fetch_add(1, Ordering::AcqRel);
            self.scheduler.resume_machine(machine);
        }
    }

    /// Ends the remaining threads of the replaced process, which has ended.
    pub fn exit_replaced(&self) {
        let Some(Replaced { machine, .. }) = self.replaced.lock().take() else { return };
        self.scheduler.kill(machine, Health::Killed);
        self.scheduler.announce_death(machine, Health::Killed);
        self.standby.set(Some(machine));
        self.replacements.fetch_add(1, Ordering::AcqRel);
    }

    /// Asks the process to stop.
    pub fn stop(&self) {
        self.scheduler.note(|| "server is asked to stop".to_owned());
        self.life.lock().stopping.notify_one();
    }

    /// Kills the process as `kill -9` does: the system keeps all written bytes.
    pub fn kill(&self) {
        self.scheduler.note(|| "fault  kill -9".to_owned());
        self.scheduler.count("fault: kill -9");
        let next = self.place().kill();
        self.end_life(next, Health::Killed);
    }

    /// Cuts the power: unsynced bytes may be lost or torn.
    pub fn lose_power(&self) {
        self.scheduler.note(|| "fault  power is lost".to_owned());
        self.scheduler.count("fault: power lost");
        let seed = self.scheduler.below(u64::MAX);
        let next = self.place().crash(seed);
        self.end_life(next, Health::Dark);
    }

    /// Ends the remaining threads of a process that has ended.
    pub fn exit(&self) {
        let next = self.place().kill();
        self.end_life(next, Health::Killed);
    }

    fn end_life(&self, next: Memory, how: Health) {
        self.disk.become_content(next);
        self.disk.end_life();
        self.scheduler.kill(self.machine.get(), how);
        self.scheduler.announce_death(self.machine.get(), how);
        self.life.lock().ended.store(true, Ordering::Release);
    }
}

/// Time for which the write of a part of the log in the store is repeated before the log fails.
pub(crate) const PART_PATIENCE: Duration = Duration::from_secs(10);

/// A mirror of table states that does nothing: no client here reads them from the registry.
pub(crate) struct NoMirror;

impl master::TableStateMirror for NoMirror {
    fn set(&self, _table: &proto::TableName, _state: Option<proto::catalog::TableState>) {}
}

/// Runs the process, from its start to its end.
fn serve(
    settings: &Settings,
    machine: MachineId,
    disk: Disk,
    store: Option<Store>,
    life: &Life,
) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let world = env::World::real();
    let at = |port| SocketAddr::new(machine.ip(), port);
    let options = rpc::Options { threads: settings.rpc_threads, ..rpc::Options::default() };
    let bound = rpc::Server::bind(world.clone(), options, &[at(RPC_PORT), at(MASTER_PORT)]);
    let rpc = bound.map_err(|error| words(&error))?;
    let registry = registry::Server::bind(world.clone(), registry::Options::default(), at(REGISTRY_PORT));
    let registry = registry.map_err(|error| words(&error))?;

    let disk: Arc<dyn Files> = Arc::new(disk);
    let files = store.map_or_else(|| Arc::clone(&disk), |store| Arc::new(store) as Arc<dyn Files>);
    let log_files: Arc<dyn Files> = match settings.log_in_store {
        true => Arc::new(Segmented::new(Arc::clone(&files), world.clone(), PART_PATIENCE)),
        false => disk,
    };
    let opened = wal::Log::open(world.clone(), log_files, FileName::new(LOG_FOLDER), settings.log.clone());
    let (log, recovered) = opened.map_err(|error| words(&error))?;
    let log = Arc::new(log);
    *life.log.lock() = Some(Arc::clone(&log));
    life.owns_log.store(true, Ordering::Release);
    let start_code = u64::try_from(world.now().0).unwrap_or(0);
    let name =
        |port| ServerName::from_address(&format!("{}:{port}", machine.ip()), start_code).expect("a name");
    let (server_name, master_name) = (name(RPC_PORT), name(MASTER_PORT));
    let foundation = Foundation {
        world: world.clone(),
        files: Arc::clone(&files),
        log: Arc::clone(&log),
        cache: Arc::new(Cache::with_bytes(settings.cache_bytes as usize)),
        // Each process gets its own objects, so that nothing that an earlier process knew survives in memory.
        region_options: RegionOptions {
            ledger: Arc::default(),
            flush_budget: Arc::default(),
            open_files: Arc::default(),
            first_abort: Arc::default(),
            is_fenced: Arc::default(),
            ..settings.region.clone()
        },
        recovered: (!recovered.is_empty()).then(|| Arc::new(recovered)),
    };
    let server = RegionServer::new(server_name.clone(), foundation, settings.server.clone());
    let servers = Arc::new(LocalServers::new(Arc::clone(&server)).map_err(|error| words(&error))?);
    let options = master::Options { parents_period: settings.parents_period, ..master::Options::default() };
    let started = Master::start(
        world.clone(),
        options,
        files,
        Arc::clone(&servers) as Arc<_>,
        servers,
        Arc::new(NoMirror),
        master_name.clone(),
    );
    let (master, tables) = started.map_err(|error| words(&error))?;
    server.start().map_err(|error| words(&error))?;

    let meta = master.meta_location();
    let meta = MetaLocation {
        region: meta.region.clone(),
        server: Some(server_name.clone()),
        open_sequence: meta.open_sequence.unwrap_or(0),
    };
    let view = Arc::new(ClusterView::of_one_process(master.cluster_id(), &master_name, meta));
    let services = regionserver::services(&server, &view, 10)
        .with("MasterService", Arc::new(MasterService::new(Arc::clone(&master))))
        .with_cluster_id(master.cluster_id());
    let rpc = rpc.serve(services);
    let tree = Arc::new(registry::Tree::new(world.clone()));
    let set = |path: &str, message: Vec<u8>| {
        let writer = format!("master:{master_name}");
        tree.set(&format!("/hbase/{path}"), registry::payload::wrap(&writer, world.random(), &message));
    };
    set("hbaseid", pb::ClusterId { cluster_id: master.cluster_id().to_owned() }.encode_to_vec());
    let of_master = pb::Master { master: (&master_name).into(), rpc_version: Some(0), info_port: None };
    set("master", of_master.encode_to_vec());
    let of_meta = pb::MetaRegionServer {
        server: (&server_name).into(),
        rpc_version: Some(0),
        state: Some(pb::region_state::State::Open as i32),
    };
    set("meta-region-server", of_meta.encode_to_vec());
    let _registry = registry.serve(tree);
    // As in `bellows start`, clients are served while the regions of their tables are opened.
    master.open_tables(tables).map_err(|error| words(&error))?;
    server.set_master(master.requests());
    master.start_chores().map_err(|error| words(&error))?;
    life.ready.store(true, Ordering::Release);
    life.was_ready.store(true, Ordering::Release);
    env::sometimes("server: ready");

    let failed = env::block_on(async {
        tokio::select! {
            // With `biased` the branches are polled in this order. Without it tokio would choose by its own random
            // numbers, and the seed would not decide the run.
            biased;
            () = life.stopping.notified() => None,
            failure = log.failed() => {
                env::sometimes("server: ended because its log failed");
                Some(failure.to_string())
            }
            cause = server.region_aborted() => {
                env::sometimes("server: ended because a region was aborted");
                Some(cause)
            }
            cause = master.replaced() => {
                env::sometimes("server: ended because another process took over");
                Some(cause)
            }
        }
    });
    life.ready.store(false, Ordering::Release);
    if let Some(cause) = failed {
        return Err(cause);
    }
    server.stop();
    rpc.stop();
    master.wait_idle();
    server.close_all().map_err(|error| words(&error))?;
    log.close().map_err(|error| words(&error))?;
    env::sometimes("server: stopped in order");
    Ok(())
}
