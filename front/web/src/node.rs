//! The server as the web pages see it, and its latest measurements.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use conf::Conf;
use env::{Moment, WallTime, World};
use parking_lot::{Mutex, RwLock};
use proto::ServerName;
use regionserver::RegionServer;
use storage::MachineMemory;
use telemetry::{Exposition, Source, Spread};

use crate::CacheWindow;
use crate::client_table::ClientTable;
use crate::cost::CostHours;
use crate::heat::HeatMaps;
use crate::history::History;
use crate::log_ring::LogRing;
use crate::table_times::TableTimes;

/// What the pages know of the process, even before clients can be served.
pub struct Console {
    pub(crate) world: World,
    pub(crate) conf: Conf,
    /// Facts about the process, such as version and folder.
    pub(crate) about: About,
    pub(crate) node: OnceLock<Node>,
    pub(crate) history: RwLock<Arc<History>>,
    /// The cost of the object store's requests in each of the last hours.
    pub(crate) cost: Mutex<CostHours>,
    pub(crate) heat: Arc<HeatMaps>,
    pub(crate) clients: Arc<ClientTable>,
    pub(crate) table_times: Arc<TableTimes>,
    /// The call times of each table at the last measurement.
    pub(crate) table_spreads: Mutex<HashMap<String, Spread>>,
    pub(crate) log: Arc<LogRing>,
    pub(crate) level: OnceLock<LevelSwitch>,
    pub(crate) cache_window: CacheWindow,
    pub(crate) snapshots: RwLock<Snapshots>,
    pub(crate) tables: Mutex<Option<(Moment, Arc<Vec<TableFacts>>)>>,
}

type SetLevel = dyn Fn(&str) -> Result<(), String> + Send + Sync;

/// Reads and changes the level of the log.
pub struct LevelSwitch {
    /// Returns the present level.
    pub level: Box<dyn Fn() -> String + Send + Sync>,
    /// Changes the level; the error names the levels that are accepted.
    pub set: Box<SetLevel>,
}

/// Facts about the process.
#[derive(Clone, Debug)]
pub struct About {
    /// The version of the program.
    pub version: &'static str,
    /// The place of the server's files.
    pub root: String,
    /// The address at which the web pages are served.
    pub web: SocketAddr,
    /// When the process started.
    pub started: WallTime,
}

/// The parts of a server that can serve clients.
pub struct Node {
    /// The region server.
    pub server: Arc<RegionServer>,
    /// The write-ahead log of the region server.
    pub log: Arc<wal::Log>,
    /// Returns the counters of the RPC server.
    pub rpc: Box<dyn Fn() -> rpc::Snapshot + Send + Sync>,
    /// A client of the cluster, for data and for facts that only the master has.
    pub cluster: client::Cluster,
    /// The name of the master.
    pub master: ServerName,
    /// The cluster's id.
    pub cluster_id: String,
    /// The address at which ZooKeeper clients connect.
    pub quorum: String,
    /// When clients could first be served.
    pub ready: WallTime,
    /// Returns the last check of the catalog; `None` before the first check.
    pub self_check: Box<dyn Fn() -> Option<SelfCheck> + Send + Sync>,
    /// Returns the regions whose opening failed and whose rows are therefore out of reach: a sentence each, with the cause
    /// and the remedy.
    pub failed_regions: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Other sources of metrics: the object store, if files are in one.
    pub meters: Vec<Arc<dyn Source>>,
}

/// The result of a check of the catalog, the open regions and their folders.
#[derive(Clone, Debug)]
pub struct SelfCheck {
    /// When the check ended.
    pub ended: WallTime,
    /// What contradicts, in one sentence each, with the remedy. Regions whose opening failed are in
    /// [`failed_regions`](Node::failed_regions).
    pub inconsistencies: Vec<String>,
}

/// The figures of a region at a measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegionFacts {
    pub(crate) table: String,
    pub(crate) encoded: String,
    pub(crate) name: Bytes,
    pub(crate) start: Bytes,
    pub(crate) end: Bytes,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) filtered: u64,
    pub(crate) files: usize,
    pub(crate) file_bytes: u64,
    pub(crate) memstore_bytes: u64,
    pub(crate) stores: Vec<StoreFacts>,
    pub(crate) last_major: Option<WallTime>,
    pub(crate) oldest_edit: Option<WallTime>,
    pub(crate) compacting_cells: u64,
    pub(crate) compacted_cells: u64,
    pub(crate) index_bytes: u64,
    pub(crate) bloom_bytes: u64,
}

/// The figures of a store at a measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreFacts {
    pub(crate) family: String,
    pub(crate) files: usize,
    pub(crate) file_bytes: u64,
    pub(crate) memstore_bytes: u64,
}

/// What the master knows of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableFacts {
    pub(crate) name: String,
    /// `ENABLED`, `DISABLED` and so on, or why it is unknown.
    pub(crate) state: String,
}

/// All measurements of one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) moment: Moment,
    pub(crate) time: WallTime,
    pub(crate) metrics: Exposition,
    pub(crate) regions: Vec<RegionFacts>,
}

/// A jump of the wall clock: it advanced more or less than the monotonic clock between two measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockJump {
    /// The moment of the first measurement after the jump.
    pub(crate) moment: Moment,
    /// By how many seconds the clock jumped forward; negative for a jump back.
    pub(crate) seconds: f64,
}

/// Minimum jump of the clock that is recorded, in seconds.
const CLOCK_JUMP_MIN: f64 = 2.0;

/// The latest measurements, and earlier ones from which rates are computed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshots {
    pub(crate) latest: Option<Arc<Snapshot>>,
    /// The last jump of the wall clock.
    pub(crate) clock_jump: Option<ClockJump>,
    /// A snapshot at least ten seconds older than the latest, once there is one.
    pub(crate) earlier: Option<Arc<Snapshot>>,
    /// The snapshot that will replace `earlier`.
    pub(crate) next: Option<Arc<Snapshot>>,
}

impl Snapshots {
    pub(crate) fn add(&mut self, snapshot: Arc<Snapshot>) {
        let due = self
            .next
            .as_ref()
            .is_none_or(|next| snapshot.moment.since(next.moment) >= Duration::from_secs(10));
        if due {
            self.earlier = self.next.replace(Arc::clone(&snapshot));
        }
        if let Some(before) = &self.latest {
            let wall = (snapshot.time.0 - before.time.0) as f64 / 1_000.0;
            let seconds = wall - snapshot.moment.since(before.moment).as_secs_f64();
            if seconds.abs() >= CLOCK_JUMP_MIN {
                self.clock_jump = Some(ClockJump { moment: snapshot.moment, seconds });
            }
        }
        self.latest = Some(snapshot);
    }

    /// Returns the snapshot from which rates are computed, and how many seconds it is older than the latest; `None`
    /// before the second measurement.
    pub(crate) fn base(&self) -> Option<(&Snapshot, f64)> {
        let latest = self.latest.as_ref()?;
        let base = self.earlier.as_ref().or(self.next.as_ref())?;
        let seconds = latest.moment.since(base.moment).as_secs_f64();
        (seconds > 0.0).then_some((base, seconds))
    }

    /// Returns reads and writes per second, by encoded name of the region. Regions that the earlier snapshot lacks are
    /// left out.
    pub(crate) fn region_rates(&self) -> HashMap<&str, (f64, f64)> {
        let (Some(latest), Some((base, seconds))) = (&self.latest, self.base()) else {
            return HashMap::new();
        };
        let before: HashMap<&str, (u64, u64)> =
            base.regions.iter().map(|region| (&region.encoded[..], (region.reads, region.writes))).collect();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        latest
            .regions
            .iter()
            .filter_map(|region| {
                let (reads, writes) = before.get(&region.encoded[..])?;
                Some((&region.encoded[..], (rate(region.reads, *reads), rate(region.writes, *writes))))
            })
            .collect()
    }
}

impl Console {
    /// Creates the console of a process that is starting.
    pub fn new(world: World, conf: Conf, about: About, log: Arc<LogRing>) -> Arc<Console> {
        Arc::new(Console {
            heat: Arc::new(HeatMaps::new(world.clone())),
            clients: Arc::new(ClientTable::new(world.clone())),
            world,
            conf,
            about,
            node: OnceLock::new(),
            history: RwLock::default(),
            cost: Mutex::default(),
            table_times: Arc::default(),
            table_spreads: Mutex::default(),
            log,
            level: OnceLock::new(),
            cache_window: CacheWindow::default(),
            snapshots: RwLock::default(),
            tables: Mutex::default(),
        })
    }

    /// Creates the console of a server that never becomes ready, for tests of the pages alone.
    pub fn without_server(web: SocketAddr) -> Arc<Console> {
        let world = World::real();
        let about = About { version: "0.0.0", root: String::new(), web, started: world.now() };
        Console::new(world.clone(), Conf::new(), about, LogRing::new(world))
    }

    /// Records that clients can be served, and begins to observe the server's calls.
    ///
    /// # Panics
    /// When it is called twice.
    pub fn serve_node(&self, node: Node) {
        let observer = crate::sampler::Watcher::new(self);
        node.server.observe_calls(Arc::new(observer));
        self.load_history(&node);
        assert!(self.node.set(node).is_ok(), "a console serves one node");
    }

    /// Lets the pages read and change the level of the log. Later calls are ignored.
    pub fn with_level(&self, switch: LevelSwitch) {
        if self.level.set(switch).is_err() {
            tracing::warn!("the log has a switch for its level already; another one is ignored");
        }
    }

    /// Returns the level of the log.
    pub(crate) fn log_level(&self) -> String {
        self.level.get().map_or_else(|| "INFO".to_owned(), |switch| (switch.level)())
    }

    /// Changes the level of the log.
    pub(crate) fn set_log_level(&self, level: &str) -> Result<(), String> {
        let switch = self.level.get().ok_or("this process cannot change the level of its log")?;
        (switch.set)(level)
    }

    /// Returns the last check of the catalog; `None` before the first check.
    pub(crate) fn self_check(&self) -> Option<SelfCheck> {
        self.node.get().and_then(|node| (node.self_check)())
    }

    /// Returns the regions whose opening failed, a sentence each.
    pub(crate) fn failed_regions(&self) -> Vec<String> {
        self.node.get().map(|node| (node.failed_regions)()).unwrap_or_default()
    }

    /// Returns `Ok` if clients can be served; the error says why not.
    pub fn health(&self) -> Result<(), String> {
        let node = self.node.get().ok_or("regions are being opened")?;
        if node.server.is_stopping() {
            return Err("the server is stopping".to_owned());
        }
        match node.log.failure() {
            Some(failure) => Err(failure.to_string()),
            None => Ok(()),
        }
    }

    /// Returns the present metrics; before clients can be served only those of the process.
    pub fn metrics(&self) -> Exposition {
        let mut out = Exposition::default();
        if let Some(node) = self.node.get() {
            node.server.show(&mut out);
            node.log.show(&mut out);
            show_rpc(&(node.rpc)(), &mut out);
            node.meters.iter().for_each(|meter| meter.show(&mut out));
            out.gauge(
                "bellows_ready_time_ms",
                "When clients could be served, in ms since 1970.",
                &[],
                node.ready.0 as f64,
            );
            // An object store and the memory of a read replica have no limit that is known here.
            let free = node.server.foundation().files.bytes_free().ok().filter(|free| *free < u64::MAX);
            if let Some(free) = free {
                out.gauge("bellows_disk_free_bytes", "Bytes free on the disk of the data.", &[], free as f64);
            }
            let spent = match node.server.foundation().files.reserve_state() {
                storage::ReserveState::None => None,
                storage::ReserveState::Kept => Some(0.0),
                storage::ReserveState::Spent => Some(1.0),
            };
            if let Some(spent) = spent {
                out.gauge(
                    "bellows_disk_reserve_spent",
                    "1 while the disk of the data lacks the reserve with which tables can be dropped when it is full.",
                    &[],
                    spent,
                );
            }
        }
        out.gauge(
            "bellows_start_time_ms",
            "When the process started, in ms since 1970.",
            &[],
            self.about.started.0 as f64,
        );
        show_process(&mut out);
        out
    }

    /// Measures everything now; `None` before clients can be served.
    pub(crate) fn measure(&self) -> Option<Snapshot> {
        let node = self.node.get()?;
        let regions = node
            .server
            .regions()
            .all()
            .iter()
            .map(|region| {
                let (info, load) = (region.info(), region.load());
                RegionFacts {
                    table: info.table().to_string(),
                    encoded: info.encoded_name().to_string(),
                    name: info.name().clone(),
                    start: info.start_key().clone(),
                    end: info.end_key().clone(),
                    reads: load.reads,
                    writes: load.writes,
                    filtered: load.filtered,
                    files: load.files,
                    file_bytes: load.file_bytes,
                    memstore_bytes: load.memstore_bytes,
                    stores: load
                        .stores
                        .iter()
                        .map(|store| StoreFacts {
                            family: store.family.escape_ascii().to_string(),
                            files: store.files,
                            file_bytes: store.file_bytes,
                            memstore_bytes: store.memstore_bytes,
                        })
                        .collect(),
                    last_major: load.last_major_compaction,
                    oldest_edit: load.oldest_edit,
                    compacting_cells: load.compacting_cells,
                    compacted_cells: load.compacted_cells,
                    index_bytes: load.sizes.index,
                    bloom_bytes: load.sizes.bloom,
                }
            })
            .collect();
        Some(Snapshot {
            moment: self.world.moment(),
            time: self.world.now(),
            metrics: self.metrics(),
            regions,
        })
    }

    /// Returns what the master knows of all tables, at most two seconds old. Fails while the server starts, and if the
    /// master does not answer.
    pub(crate) async fn tables(&self) -> Result<Arc<Vec<TableFacts>>, String> {
        let now = self.world.moment();
        if let Some((at, tables)) = &*self.tables.lock()
            && now.since(*at) < Duration::from_secs(2)
        {
            return Ok(Arc::clone(tables));
        }
        let node = self.node.get().ok_or("the server is starting")?;
        let admin = node.cluster.admin();
        let mut tables = Vec::new();
        for name in admin.tables().await.map_err(|error| error.to_string())? {
            let state = match admin.table_state(&name).await {
                Ok(Some(state)) => format!("{state:?}").to_uppercase(),
                Ok(None) => "UNKNOWN".to_owned(),
                Err(error) => error.to_string(),
            };
            tables.push(TableFacts { name: name.to_string(), state });
        }
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let tables = Arc::new(tables);
        *self.tables.lock() = Some((now, Arc::clone(&tables)));
        Ok(tables)
    }

    /// Whether these pages may change anything: only for clients of this machine, because there is no authentication.
    pub(crate) fn may_change(&self) -> bool {
        self.about.web.ip().is_loopback()
    }

    /// Returns the present history.
    pub(crate) fn history(&self) -> Arc<History> {
        Arc::clone(&self.history.read())
    }
}

fn show_rpc(counted: &rpc::Snapshot, out: &mut Exposition) {
    for (name, help, value) in [
        ("received_bytes", "Bytes read from clients.", counted.bytes_received),
        ("sent_bytes", "Bytes written to clients.", counted.bytes_sent),
        ("call_count", "Calls that were served.", counted.calls),
        ("inline_call_count", "Calls that were answered at once.", counted.calls_inline),
        ("expired_call_count", "Calls whose client had given up.", counted.calls_expired),
        ("refused_call_count", "Calls refused because too many were served.", counted.calls_refused),
        ("accepted_connection_count", "Connections accepted.", counted.connections_accepted),
        ("refused_connection_count", "Connections refused: too many.", counted.connections_refused),
        (
            "expired_connection_count",
            "Connections closed because the client made no progress or was idle.",
            counted.connections_expired,
        ),
        ("panic_count", "Calls that broke an invariant of ours.", counted.panics),
    ] {
        out.counter(&format!("hbase_ipc_{name}"), help, &[], value);
    }
    for (name, help, value) in [
        ("num_open_connections", "Connections open.", counted.connections_open),
        ("num_calls_in_general_queue", "Calls that wait for their answer.", counted.calls_in_flight),
        ("queue_size", "Bytes of the requests of those.", counted.calls_in_flight_size),
        ("answers_size", "Bytes of answers that are made or wait to be written.", counted.answers_size),
        ("large_size", "Bytes of large requests and answers that the server works on.", counted.large_size),
        ("large_waiting", "Large requests and answers that wait for memory.", counted.large_waiting),
    ] {
        out.gauge(&format!("hbase_ipc_{name}"), help, &[], value as f64);
    }
    for (class, count) in &counted.exceptions {
        let help = "Exceptions given to clients, by class.";
        out.counter("hbase_ipc_exception_count", help, &[("class", class)], *count);
    }
}

/// Adds what the system reports about this process.
fn show_process(out: &mut Exposition) {
    let read = |name: &str| storage::read_text(Path::new(&format!("/proc/self/{name}"))).unwrap_or_default();
    let status = read("status");
    let of_status = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<f64>().ok()
    };
    if let Some(kilobytes) = of_status("VmRSS") {
        out.gauge("bellows_process_resident_bytes", "Memory of the process.", &[], kilobytes * 1_024.0);
    }
    if let Some(threads) = of_status("Threads") {
        out.gauge("bellows_process_threads", "Threads of the process.", &[], threads);
    }
    // After the name in brackets, the 12th and 13th field are user and system time in ticks of 10 ms.
    let stat = read("stat");
    let ticks = stat.rsplit_once(')').map(|(_, rest)| {
        rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
    });
    if let Some(ticks) = ticks {
        let help = "Time that the process ran, in ms.";
        out.counter("bellows_process_cpu_ms", help, &[], (ticks * 10.0) as u64);
    }
    let limit = MachineMemory::read().usable().unwrap_or(0);
    let help = "Memory of the machine, or the limit of the container.";
    out.gauge("bellows_memory_limit_bytes", help, &[], limit as f64);
}

/// Sums over the regions of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableSums {
    pub(crate) regions: usize,
    pub(crate) files: usize,
    pub(crate) files_max: usize,
    pub(crate) file_bytes: u64,
    pub(crate) memstore_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) filtered: u64,
    pub(crate) stores: usize,
    pub(crate) index_bytes: u64,
    pub(crate) bloom_bytes: u64,
}

/// Returns the sums over a snapshot's regions, by table.
pub(crate) fn table_sums(regions: &[RegionFacts]) -> BTreeMap<&str, TableSums> {
    let mut sums: BTreeMap<&str, TableSums> = BTreeMap::new();
    for region in regions {
        let sum = sums.entry(&region.table).or_default();
        sum.regions += 1;
        sum.files += region.files;
        sum.files_max = region.stores.iter().map(|store| store.files).fold(sum.files_max, usize::max);
        sum.file_bytes += region.file_bytes;
        sum.memstore_bytes += region.memstore_bytes;
        sum.reads += region.reads;
        sum.writes += region.writes;
        sum.filtered += region.filtered;
        sum.stores += region.stores.len();
        sum.index_bytes += region.index_bytes;
        sum.bloom_bytes += region.bloom_bytes;
    }
    sums
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("about", &self.about).finish_non_exhaustive()
    }
}
