//! `bellows start`: master, region server and registry in one process.
//!
//! The server opens its ports first, so that a taken port ends the start before anything has changed. Then it locks the
//! data directory, reads the log, opens the regions, and only then answers clients.

use std::cell::OnceCell;
use std::sync::Arc;

use cache::Cache;
use env::{Runtime, World};
use master::{HbckService, Inconsistency, Master, MasterService};
use proto::ServerName;
use regionserver::{ClusterView, Foundation, LocalServers, MetaLocation, RegionServer, SpanObserver};
use storage::FileName;
use telemetry::Source;
use web::{About, Console, LevelSwitch, LogRing, Node, SelfCheck};

use crate::allocator;
use crate::args::{Ports, Start};
use crate::estimate::{Estimate, IdleServer};
use crate::failure::Failure;
use crate::foreign::ForeignStores;
use crate::greeting::Greeting;
use crate::log_place;
use crate::replica::ReadReplica;
use crate::root::{self, OpenRoot, Root};
use crate::settings::Settings;
use crate::spans::SpanExporter;
use crate::znodes::Znodes;

/// Maximum time that a page waits for facts that only the master or a region knows.
const PAGE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// How the work of a server has ended.
pub(crate) enum End {
    /// The server was told to stop.
    Stopped,
    /// A replica was told to become the primary. Holds the options with which the process starts next.
    Promoted(Start),
}

/// Runs the server until the process is told to stop, or a replica to become the primary. Calls `greet` when clients
/// can be served. Fails if the server cannot start, or cannot continue.
pub(crate) fn run(
    start: &Start,
    ring: Arc<LogRing>,
    level: LevelSwitch,
    greet: impl FnOnce(&Greeting),
) -> Result<End, Failure> {
    let log = OnceCell::new();
    serve(start, ring, level, greet, &log).map_err(|failure| match log.get() {
        Some(OpenLog { log, place }) => or_takeover(log, place, failure),
        None => failure,
    })
}

/// The log of this server, from when it has taken it over.
struct OpenLog {
    log: Arc<wal::Log>,
    /// The place of the log, for messages.
    place: String,
}

/// Does the work of [`run`]. Sets `open_log` as soon as the server has its log: whatever fails from then on may fail because
/// another process has taken over the files, also while the server still starts.
fn serve(
    start: &Start,
    ring: Arc<LogRing>,
    level: LevelSwitch,
    greet: impl FnOnce(&Greeting),
    open_log: &OnceCell<OpenLog>,
) -> Result<End, Failure> {
    let world = World::real();
    let began = world.moment();
    let settings = Settings::gather(start)?;
    if !settings.huge_pages {
        // Some systems do not permit this. Then the server runs with large pages, so an error is ignored.
        let _is_done = env::forgo_huge_pages();
    }
    let memory_release = allocator::start_memory_release()?;
    if let Err(error) = env::raise_open_files() {
        tracing::warn!(%error, "the number of open files stays as it is; ulimit -n raises it");
    }

    let rpc =
        rpc::Server::bind(world.clone(), settings.rpc_options.clone(), &[settings.rpc, settings.master])
            .map_err(|error| match error {
                rpc::server::Error::Listen { address, source } => {
                    let option = if address == settings.rpc { "--rpc-port" } else { "--master-port" };
                    Failure::of_listening(address, option, &source)
                }
                error => Failure::new(error),
            })?;
    let registry =
        registry::Server::bind(world.clone(), settings.registry_options.clone(), settings.zookeeper)
            .map_err(|error| match error {
                registry::server::Error::Listen { address, source } => {
                    Failure::of_listening(address, "--zk-port", &source)
                }
                error => Failure::new(error),
            })?;
    let runtime =
        Runtime::start("web", 2).map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let web = {
        let _inside = runtime.handle().enter();
        env::listen(settings.web)
            .map_err(|error| Failure::of_listening(settings.web, "--web-port", &error))?
    };
    let web_address = web.local_addr().map_err(Failure::new)?;
    let root = &settings.root;
    let about = About {
        version: env!("CARGO_PKG_VERSION"),
        root: root.to_string(),
        web: web_address,
        started: world.now(),
    };
    let console = Console::new(world.clone(), settings.conf.clone(), about, ring);
    console.with_level(level);
    runtime.spawn(web::serve(web, settings.web_options.clone(), Arc::clone(&console)));

    let foreign = ForeignStores::new(&settings.conf, root)?;
    let replica = settings.is_replica.then(|| ReadReplica::open(&world, &settings)).transpose()?;
    let wal_dir = settings.wal_dir.as_ref().filter(|_| replica.is_none());
    let (files, OpenRoot { files: log_files, meter, probe }, mut opened_log) = match &replica {
        Some(replica) => {
            let log: Arc<dyn storage::Files> = Arc::new(storage::Memory::new());
            (
                Arc::clone(&replica.own),
                OpenRoot { files: log, meter: replica.meter.clone(), probe: None },
                None,
            )
        }
        None => {
            let place = root.to_string();
            let OpenRoot { files, meter, probe } = root.open(&settings.conf, |files| {
                log_place::check_before_taking(&settings.conf, files, &place, wal_dir)
            })?;
            keep_reserve(&*files);
            let (log, opened) =
                log_place::open(&world, &settings.conf, &files, &place, wal_dir, meter.as_ref())?;
            keep_reserve(&*log.files);
            (files, OpenRoot { probe: log.probe.or(probe), ..log }, Some(opened))
        }
    };
    let log_root = wal_dir.unwrap_or(root).to_string();
    // Another server of these files has its log elsewhere, so this one's log does not show it.
    let checks_root = root.folder().is_none() && wal_dir.is_some_and(|place| place.folder().is_some());
    if checks_root {
        tracing::warn!(log = log_root, files = %root,
            "the log is on a disk of this machine: what is acknowledged and not yet flushed survives the process, and not the machine");
    }
    let log_folder = FileName::new(crate::root::LOG_FOLDER);
    let port = rpc.addresses().first().map_or(settings.rpc.port(), |address| address.port());
    let owner = format!("{}:{port}", settings.host);
    let log_options = wal::Options { owner, ..settings.log.clone() };
    let (log, recovered) = wal::Log::open(world.clone(), log_files, log_folder, log_options)
        .map_err(|error| of_opening(&log_root, error))?;
    // The lock of a folder of this machine shows that its previous owner has ended.
    let may_run = wal_dir.unwrap_or(root).folder().is_none() && !recovered.was_closed();
    if let Some(previous) = other_server(log.previous_owner(), log.owner(), may_run) {
        tracing::warn!(
            log = log_root,
            previous,
            "took over the files of another server, which did not stop in order; if it still runs, it ends now with status 3"
        );
    }
    for tail in recovered.torn_tails() {
        tracing::warn!(file = %tail.file, offset = tail.offset, bytes = tail.bytes, "the torn tail of a log file is ignored");
    }
    if !recovered.is_empty() {
        let (files, bytes) = log.size();
        let regions = recovered.regions().len();
        tracing::info!(
            regions,
            files,
            bytes,
            "reading the log of the last run: regions replay what is not in store files"
        );
    }
    let log = Arc::new(log);
    let _first = open_log.set(OpenLog { log: Arc::clone(&log), place: log_root.clone() });
    if let Some(opened) = &mut opened_log {
        opened.begin()?;
    }
    let cache = Cache::new(settings.cache.clone());
    let cache = match &settings.bucket {
        Some(bucket) => bucket.add_to(cache, &world),
        None => Arc::new(cache),
    };
    let start_code = u64::try_from(world.now().0).unwrap_or(0);
    let [rpc_address, master_address] = rpc.addresses() else { unreachable!("two addresses were asked for") };
    let (rpc_address, master_address) = (*rpc_address, *master_address);
    let name = |host: &str, port: u16| {
        ServerName::from_address(&format!("{host}:{port}"), start_code)
            .map_err(|error| Failure::new(format!("{host}:{port}: {error}")))
    };
    let server_name = name(&settings.host, rpc_address.port())?;
    let master_name = name(&settings.master_host, master_address.port())?;
    let foundation = Foundation {
        world: world.clone(),
        files: Arc::clone(&files),
        log: Arc::clone(&log),
        cache,
        region_options: settings.region.clone(),
        recovered: (!recovered.is_empty()).then(|| Arc::new(recovered)),
    };
    let mut options = regionserver::Options::from_conf(&settings.conf)?;
    options.memstore_bytes_max = settings.memstore_bytes;
    options.info_port = Some(web_address.port());
    let server = RegionServer::new(server_name.clone(), foundation, options.clone());
    server.set_foreign_storage(Arc::new(foreign.counted_by(meter.clone())));
    let again = start.clone();
    server.on_update_configuration(move || {
        Settings::gather(&again).map(|settings| settings.conf).map_err(|failure| failure.to_string())
    });
    if let Some(replica) = &replica {
        replica.attach(&server)?;
    }
    let spans = settings.spans.clone();
    let spans = spans
        .map(|spans| SpanExporter::start(&world, &runtime, spans, &server_name.to_string()))
        .transpose()?;
    if let Some(spans) = &spans {
        server.observe_spans(Arc::clone(spans) as Arc<dyn SpanObserver>);
    }
    let servers = LocalServers::new(Arc::clone(&server))
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let servers = Arc::new(servers);
    let master_options = master::Options::from_conf(&settings.conf)?;
    let tree = Arc::new(registry::Tree::new(world.clone()));
    let znodes = Znodes::new(Arc::clone(&tree), &settings.znode_parent, &master_name, world.clone());
    let znodes = Arc::new(znodes);
    let mirror = Arc::clone(&znodes) as Arc<dyn master::TableStateMirror>;
    let no_thread = |error: std::io::Error| Failure::new(format!("cannot start a thread: {error}"));
    let started = Master::start(
        world.clone(),
        master_options,
        files,
        Arc::clone(&servers) as Arc<_>,
        servers,
        mirror,
        master_name.clone(),
    );
    let (master, tables) = started.map_err(|error| Failure::of_words(root, error))?;
    let open_tables = || {
        master.open_tables(tables).map_err(|error| Failure::of_words(root, error))?;
        server.set_master(master.requests());
        match &replica {
            Some(replica) => replica.mirror(&server, &master),
            None => master.start_chores().map_err(no_thread),
        }
    };
    // A replica serves when it follows its primary.
    let mut unopened = Some(open_tables);
    if replica.is_some()
        && let Some(open_tables) = unopened.take()
    {
        open_tables()?;
    }
    server.start().map_err(no_thread)?;

    let meta = master.meta_location();
    let meta = MetaLocation {
        region: meta.region.clone(),
        server: Some(server_name.clone()),
        open_sequence: meta.open_sequence.unwrap_or(0),
    };
    let view = Arc::new(ClusterView::of_one_process(master.cluster_id(), &master_name, meta));
    let nodes_max = usize::try_from(options.bootstrap_nodes_max).unwrap_or(usize::MAX);
    let services = regionserver::services(&server, &view, nodes_max)
        .with("MasterService", Arc::new(MasterService::new(Arc::clone(&master))))
        .with("HbckService", Arc::new(HbckService::new(Arc::clone(&master))))
        .with_cluster_id(master.cluster_id());
    let rpc = rpc.serve(services.with_reclaim(memory_release.as_ref().map(allocator::reclaim)));
    znodes.set_servers(&master_name, &server_name, master.cluster_id(), web_address.port());
    let registry = registry.serve(tree);
    // A region that is open need not wait for those that still replay the log.
    if let Some(open_tables) = unopened {
        open_tables()?;
    }
    let cluster = {
        let _inside = runtime.handle().enter();
        // A person waits for the page, so a request may take only a few seconds.
        let registry = client::Registry::rpc([rpc_address.to_string()]);
        let options = client::Options {
            retries: 2,
            call_max: PAGE_PATIENCE,
            operation_max: PAGE_PATIENCE,
            ..client::Options::new(registry)
        };
        client::Cluster::connect(world.clone(), options)
    };
    console.serve_node(Node {
        server: Arc::clone(&server),
        log: Arc::clone(&log),
        rpc: Box::new(rpc.counting()),
        cluster,
        master: master_name.clone(),
        cluster_id: master.cluster_id().to_owned(),
        quorum: format!("{}:{}", settings.host, registry.address().port()),
        ready: world.now(),
        self_check: Box::new({
            let master = Arc::clone(&master);
            move || {
                let report = master.hbck_report()?;
                let found = report.inconsistencies.iter();
                let found = found.filter(|found| !matches!(found, Inconsistency::FailedOpen { .. }));
                let inconsistencies = found.map(ToString::to_string).collect();
                Some(SelfCheck { ended: report.ended, inconsistencies })
            }
        }),
        failed_regions: Box::new({
            let master = Arc::clone(&master);
            move || master.failed_regions().iter().map(ToString::to_string).collect()
        }),
        meters: (meter.into_iter().map(|meter| meter as Arc<dyn Source>))
            .chain(spans.clone().map(|spans| spans as Arc<dyn Source>))
            .collect(),
    });

    for key in settings.conf.unknown().filter(|key| !root.understands(key)) {
        tracing::info!(key, "no meaning here; bellows keys lists the keys that act");
    }
    let replayed_bytes = server.counters().snapshot().replayed_bytes;
    if replayed_bytes > 0 && replica.is_none() {
        tracing::info!(bytes = replayed_bytes, "recovered from the log what was not in store files");
    }
    let role = if replica.is_some() { "read replica" } else { "primary" };
    tracing::info!(version = env!("CARGO_PKG_VERSION"), data = %root, server = %server_name, role,
        regions = server.regions().count(), ms = world.moment().since(began).as_millis() as u64, "started");
    // Signals are handled before the greeting is printed, so that one that comes right after it is not missed.
    let told_to_stop = {
        let _inside = runtime.handle().enter();
        env::told_to_stop().map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?
    };
    let prices = root::prices(&settings.conf)?;
    let sync_period_min = log_place::sync_period_min(&settings.conf)?;
    let estimate = match &replica {
        Some(replica) => Some(replica.estimate(&prices)),
        None => probe.map(|probe| {
            let idle = IdleServer {
                owner_period: options.wake_period,
                search_period: options.unnamed_files_period,
                stores: root
                    .is_bucket()
                    .then(|| server.regions().all().iter().map(|region| region.load().stores.len()).sum()),
                history_period: web::HISTORY_PERIOD,
                probe,
                has_log: wal_dir.unwrap_or(root).is_bucket(),
                checks_root: root.is_bucket() && checks_root,
                sync_period_min,
            };
            Estimate::of(&prices, &idle)
        }),
    };
    greet(&Greeting {
        host: settings.host.clone(),
        rpc: rpc_address,
        master: master_address,
        zookeeper: registry.address(),
        web: web_address,
        znode_parent: settings.znode_parent.clone(),
        replica_of: replica.as_ref().map(|_| root.to_string()),
        estimate,
        ready_after_ms: world.moment().since(began).as_millis(),
    });
    let zookeeper_address = registry.address();
    // A start that ended after it had taken a root in HDFS has not reached a log elsewhere.
    let watches_root = checks_root || (matches!(root, Root::Hdfs { .. }) && wal_dir.is_some());
    let replaced = opened_log.as_ref().filter(|_| watches_root);
    let replaced = replaced.map(|opened| (root.to_string(), opened.replaced(options.wake_period)));
    wait_for_the_end(&runtime, &server, &master, &log, &log_root, replaced, told_to_stop)?;

    console.keep_history();
    server.stop();
    rpc.stop();
    master.wait_idle();
    if let Some(spans) = &spans {
        spans.end();
    }
    server.close_all().map_err(|error| Failure::of_words(root, error))?;
    if let Err(error) = server.foundation().cache.persist() {
        tracing::warn!(%error, "the bucket cache's index cannot be kept");
    }
    log.close().map_err(|error| Failure::of_words(&log_root, error))?;
    if let Some(opened) = opened_log {
        opened.end();
    }
    if let Some(log_place) = replica.as_ref().and_then(ReadReplica::promoted) {
        let ports = Ports {
            rpc: rpc_address.port(),
            master: master_address.port(),
            zookeeper: zookeeper_address.port(),
            web: web_address.port(),
        };
        tracing::info!("stopped in order, and starts again as the primary");
        return Ok(End::Promoted(start.as_primary(&ports, &log_place)));
    }
    tracing::info!("stopped in order: everything is in store files");
    Ok(End::Stopped)
}

/// Waits until a signal comes or a client asks the server to stop. Fails when the log fails: nothing can be
/// acknowledged from then on, and no flush can end, so the process must end without them. Also fails when a region was
/// aborted, or when another process has taken over the files. The next start recovers.
fn wait_for_the_end(
    runtime: &Runtime,
    server: &Arc<RegionServer>,
    master: &Master,
    log: &wal::Log,
    log_root: &str,
    replaced_root: Option<(String, impl Future<Output = String> + Send + 'static)>,
    told_to_stop: impl Future<Output = &'static str> + Send + 'static,
) -> Result<(), Failure> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let asked = Arc::clone(server);
    let by_client = sender.clone();
    runtime.spawn(async move {
        asked.stopped().await;
        let _ended = by_client.send(Ok("a client's request"));
    });
    let (by_log, failed, place) = (sender.clone(), log.failed(), log_root.to_owned());
    runtime.spawn(async move {
        let _ended = by_log.send(Err(Failure::of_words(place, failed.await)));
    });
    let (by_master, replaced, place) = (sender.clone(), master.replaced(), log_root.to_owned());
    runtime.spawn(async move {
        let _ended = by_master.send(Err(Failure::of_words(place, replaced.await).of_takeover()));
    });
    if let Some((place, replaced)) = replaced_root {
        let by_root = sender.clone();
        runtime.spawn(async move {
            let _ended = by_root.send(Err(Failure::of_words(place, replaced.await).of_takeover()));
        });
    }
    let (by_region, aborted, place) = (sender.clone(), server.region_aborted(), log_root.to_owned());
    let aborted_of = Arc::clone(server);
    runtime.spawn(async move {
        let failure = Failure::of_words(place, aborted.await);
        let _ended = by_region.send(Err(match aborted_of.is_fenced() {
            true => failure.of_takeover(),
            false => failure,
        }));
    });
    runtime.spawn(async move {
        let _ended = sender.send(Ok(told_to_stop.await));
    });
    let by = receiver.recv().map_err(|_| Failure::new("the thread that waits for signals has ended"))??;
    tracing::info!(by, "stopping");
    Ok(())
}

/// Reserves room on a disk of this machine for what frees room when the disk is full. Without it the server works, too.
fn keep_reserve(files: &dyn storage::Files) {
    if let Err(error) = files.keep_reserve() {
        tracing::warn!(place = files.place(), %error,
            "no room can be reserved for the time when the disk is full: then no table can be dropped");
    }
}

/// Returns the name of the log's previous owner if it is another server, with another host or port, that may still run.
fn other_server<'n>(previous: Option<&'n str>, own: &str, may_run: bool) -> Option<&'n str> {
    previous.filter(|previous| *previous != own && may_run)
}

/// Returns the failure of a server that could not open its log in `log_root`.
fn of_opening(log_root: &str, error: wal::Error) -> Failure {
    let is_takeover = matches!(error, wal::Error::Fenced { .. });
    let failure = Failure::of_words(log_root, error);
    if is_takeover { failure.of_takeover() } else { failure }
}

/// Returns the failure to print when `failure` ends the server. Several parts may be the first to find that another
/// process has taken the files. Only the log knows that process's name, so it is asked.
fn or_takeover(log: &wal::Log, log_root: &str, failure: Failure) -> Failure {
    log.taken_over().map_or(failure, |error| Failure::of_words(log_root, error).of_takeover())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_takeover_from_another_server_that_may_run_names_it() {
        assert_eq!(other_server(Some("a:16020"), "b:16020", true), Some("a:16020"));
        assert_eq!(other_server(Some("a:16020"), "a:16020", true), None, "the same server after a kill");
        assert_eq!(other_server(Some("a:16020"), "b:16020", false), None, "it stopped in order");
        assert_eq!(other_server(None, "b:16020", true), None);
    }

    #[test]
    fn only_a_server_that_lost_its_files_ends_with_the_status_of_a_takeover() {
        let world = World::simulated(1, env::WallTime(0));
        let files: Arc<dyn storage::Files> = Arc::new(storage::Memory::new());
        let folder = FileName::new(crate::root::LOG_FOLDER);
        let (log, _) =
            wal::Log::open(world.clone(), Arc::clone(&files), folder.clone(), wal::Options::default())
                .expect("an empty folder");
        let ended = || or_takeover(&log, "s3://b/f", Failure::new("the disk failed"));
        assert_eq!((ended().status(), ended().to_string()), (1, "the disk failed".to_owned()));
        wal::seal(&world, &files, &folder, "new:16020").expect("sealed");
        let failure = ended();
        assert_eq!(failure.status(), 3);
        assert!(failure.to_string().contains("taken over by new:16020"), "{failure}");
        let fenced = log.taken_over().expect("sealed");
        assert_eq!(of_opening("s3://b/f", fenced).status(), 3, "while the log is opened");
    }
}
