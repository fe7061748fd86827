//! A region server: its parts, and the opening and closing of regions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use cache::Cache;
use conf::Conf;
use contract::OnFullDisk;
use env::sync::Mutex;
use env::{HashMap, WallTime, World};
use proto::{EncodedName, RegionInfo, ServerName, TableDescriptor, TableName, pb};
use region::{Janitor, Opening, Region, RegionOptions};
use rpc::{Exception, LargePermit, class};
use storage::{FileName, Files};
use tokio::sync::Notify;

use crate::background::Background;
use crate::bulk_source::{ForeignStorage, SourcePaths};
use crate::call_sample::CallObserver;
use crate::call_span::SpanObserver;
use crate::counters::{Counters, count, count_many};
use crate::memory::pressure;
use crate::nonces::Nonces;
use crate::regions::{MovedTo, OnlineRegions};
use crate::replica::{self, Replica};
use crate::scanners::Scanners;
use crate::slow_calls::SlowCalls;
use crate::split_requests::SplitRequests;
use crate::tasks::{RunningCalls, Tasks};
use crate::user_loads::UserLoads;
use crate::watch::Times;
use crate::{Options, exceptions};

/// What a server needs from its environment.
#[derive(Clone)]
pub struct Foundation {
    /// Clocks and random numbers.
    pub world: World,
    /// The storage of all files.
    pub files: Arc<dyn Files>,
    /// This server's log.
    pub log: Arc<wal::Log>,
    /// The block cache.
    pub cache: Arc<Cache>,
    /// The options of each region.
    pub region_options: RegionOptions,
    /// The log of earlier runs, for opening regions; `None` if there was none.
    pub recovered: Option<Arc<wal::LogReader>>,
}

/// Reads the configuration again. The operator gets the error.
type Reread = Box<dyn Fn() -> Result<Conf, String> + Send + Sync>;

/// A region server. Services hold it by `Arc`.
pub struct RegionServer {
    name: ServerName,
    options: ArcSwap<Options>,
    /// The options of regions that are opened from now on.
    region_options: ArcSwap<RegionOptions>,
    foundation: Foundation,
    regions: OnlineRegions,
    pub(crate) scanners: Scanners,
    pub(crate) nonces: Arc<Nonces>,
    pub(crate) background: Background,
    counters: Counters,
    pub(crate) times: Times,
    pub(crate) background_tasks: Arc<Tasks>,
    pub(crate) running_calls: RunningCalls,
    pub(crate) slow_calls: SlowCalls,
    pub(crate) observer: OnceLock<Arc<dyn CallObserver>>,
    pub(crate) span_observer: OnceLock<Arc<dyn SpanObserver>>,
    foreign_storage: OnceLock<Arc<dyn ForeignStorage>>,
    pub(crate) user_loads: UserLoads,
    pub(crate) janitor: Janitor,
    pub(crate) split_requests: SplitRequests,
    /// When each region was last flushed or, before its first flush, opened.
    flush_times: Mutex<HashMap<EncodedName, WallTime>>,
    reread: Mutex<Option<Reread>>,
    /// Follows the primary, if this is a read replica.
    replica: OnceLock<Arc<Replica>>,
    stopping: AtomicBool,
    stop: Notify,
}

impl RegionServer {
    /// Creates a server without regions. It does no background work before [`start`](RegionServer::start).
    pub fn new(name: ServerName, foundation: Foundation, options: Options) -> Arc<RegionServer> {
        let world = foundation.world.clone();
        let open_files = Arc::clone(&foundation.region_options.open_files);
        let janitor = Janitor::new(foundation.files.clone(), open_files)
            .keeping(world.clone(), options.unnamed_files_grace)
            .owning(Arc::clone(&foundation.log))
            .evicting(foundation.cache.clone());
        Arc::new(RegionServer {
            regions: OnlineRegions::new(name.clone(), world.clone()),
            scanners: Scanners::new(&name, world.clone(), options.scanner_timeout),
            nonces: Arc::new(Nonces::new(world, options.nonce_grace_period, options.nonces_enabled)),
            background: Background::new(options.compaction_enabled, options.background_nice),
            counters: Counters::default(),
            times: Times::default(),
            background_tasks: Tasks::new(foundation.world.clone()),
            running_calls: RunningCalls::default(),
            slow_calls: SlowCalls::default(),
            observer: OnceLock::new(),
            span_observer: OnceLock::new(),
            foreign_storage: OnceLock::new(),
            user_loads: UserLoads::default(),
            janitor,
            split_requests: SplitRequests::default(),
            flush_times: Mutex::default(),
            reread: Mutex::default(),
            replica: OnceLock::new(),
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
            name,
            options: ArcSwap::from_pointee(options),
            region_options: ArcSwap::from_pointee(foundation.region_options.clone()),
            foundation,
        })
    }

    /// Makes this server a read replica. From now on it opens regions of tables for reading only, and follows them.
    /// Only hbase:meta and hbase:namespace are its own. If the server is a replica already, it stays that of its first
    /// primary. After an error the server must end, because nothing follows the primary.
    pub fn follow(self: &Arc<Self>, replica: Arc<Replica>) -> std::io::Result<()> {
        if self.replica.set(Arc::clone(&replica)).is_err() {
            tracing::warn!("the server is a read replica already; another primary is ignored");
            return Ok(());
        }
        replica.start(self)
    }

    /// Returns the replica that follows the primary, if this server is one.
    pub fn replica(&self) -> Option<&Arc<Replica>> {
        self.replica.get()
    }

    /// Refuses a change on a read replica.
    pub(crate) fn check_primary(&self) -> Result<(), Exception> {
        if self.replica.get().is_some() { Err(replica::refused()) } else { Ok(()) }
    }

    /// Starts the threads that flush, compact and expire leases. They end when the server is stopped or dropped.
    pub fn start(self: &Arc<Self>) -> std::io::Result<()> {
        Background::start(self)
    }

    /// Returns the server's name.
    pub fn name(&self) -> &ServerName {
        &self.name
    }

    /// Returns the current options.
    pub fn options(&self) -> Guard<Arc<Options>> {
        self.options.load()
    }

    /// Returns the environment, storage and log of the server.
    pub fn foundation(&self) -> &Foundation {
        &self.foundation
    }

    /// Returns the open regions.
    pub fn regions(&self) -> &OnlineRegions {
        &self.regions
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sends the spans of traced calls to `observer` from now on. A second observer is ignored.
    pub fn observe_spans(&self, observer: Arc<dyn SpanObserver>) {
        if self.span_observer.set(observer).is_err() {
            tracing::warn!("spans are observed already; another observer is ignored");
        }
    }

    /// Lets bulk loads name files of `storage` from now on. Without it, they name files of the root and of this machine
    /// only. A second one is ignored.
    pub fn set_foreign_storage(&self, storage: Arc<dyn ForeignStorage>) {
        if self.foreign_storage.set(storage).is_err() {
            tracing::warn!("bulk loads have foreign storage already; another one is ignored");
        }
    }

    /// Returns what is needed to interpret the paths of a bulk load.
    pub(crate) fn source_paths(&self) -> SourcePaths<'_> {
        let foreign = self.foreign_storage.get().map(|storage| &**storage);
        SourcePaths::new(&*self.foundation.files, &self.foundation.log, foreign)
    }

    /// Passes samples of calls to `observer` from now on. A second observer is ignored.
    pub fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        if self.observer.set(observer).is_err() {
            tracing::warn!("calls are observed already; another observer is ignored");
        }
    }

    /// Returns the number of open scanners.
    pub fn open_scanners(&self) -> usize {
        self.scanners.count()
    }

    /// Applies a new schema to an open region. Returns `false` if the region must be opened again instead.
    pub(crate) fn alter_region(
        &self,
        region: &Region,
        table: &Arc<TableDescriptor>,
    ) -> Result<bool, region::Error> {
        let is_altered = region.alter(table, &Options::of_table(&self.region_options.load(), table))?;
        if is_altered {
            tracing::info!(region = %region.info(), table = %table.name(), "region altered");
        }
        Ok(is_altered)
    }

    /// Fails if a region was aborted, or the log has failed: then the server ends, and must open no region before. The last
    /// writes of a closed region may be in the log of this run only, and an opening looks for them in the logs of
    /// earlier runs.
    fn check_not_aborted(&self) -> Result<(), region::Error> {
        let has_aborted = self.foundation.region_options.first_abort.has_happened();
        if !has_aborted && self.foundation.log.failure().is_none() {
            return Ok(());
        }
        let words = "a region of this server was aborted or its log has failed, so it opens no region: restart the server";
        Err(region::Error::Aborted(words.to_owned()))
    }

    /// Opens a region, replays its part of the log, and serves it. Returns the existing region if it is already open. A
    /// read replica instead follows the primary's region, unless the region is its own. Fails after a region was aborted.
    /// Blocks on storage.
    pub fn open_region(
        &self,
        info: RegionInfo,
        table: Arc<TableDescriptor>,
    ) -> Result<Arc<Region>, region::Error> {
        let encoded = info.encoded_name().clone();
        if let Some(region) = self.regions.by_encoded_name(&encoded) {
            return Ok(region);
        }
        self.check_not_aborted()?;
        self.settle_unflushed(&encoded)?;
        self.regions.begin_opening(encoded.clone(), info.name().clone());
        let is_own = info.is_meta() || *info.table() == TableName::namespaces();
        let opening = self.opening(info, table);
        if let Some(replica) = self.replica.get().filter(|_| !is_own) {
            return replica.open(&opening, true).inspect_err(|_| self.regions.opening_failed(&encoded));
        }
        let began = self.foundation.world.moment();
        let task = self.background_tasks.begin(format!("Opening {}", opening.info), "replaying the log");
        let opened = Region::open(opening);
        task.end(&opened);
        match opened {
            Ok(region) => {
                let (info, load) = (region.info(), region.load());
                tracing::info!(region = %info, table = %info.table(), files = load.files, bytes = load.file_bytes,
                    replayed = region.replayed(), sequence = region.open_sequence().0,
                    ms = self.foundation.world.moment().since(began).as_millis() as u64, "region opened");
                self.nonces.recover(&region.take_recovered_nonces());
                // At this moment the region's memory has only writes that were replayed.
                count_many(&self.counters.replayed_bytes, region.memstore_bytes() as usize);
                self.note_flush(&encoded);
                self.regions.insert(region.clone());
                self.forget_recovered(&region);
                // A region that refers to files of its parent keeps them from being deleted. So it is compacted soon,
                // to get files of its own.
                if region.has_references() {
                    self.background.consider_compaction(&region);
                }
                // Many regions together may replay more than fits into memory, before any client writes. Then this
                // region is flushed.
                if self.background.account(&region) > self.options().memstore_bytes_low()
                    && let Err(error) = self.flush(&region, region::FlushReason::MemstoreSize)
                {
                    tracing::error!(region = %region.info(), %error,
                        "replayed writes fill the memory, and their flush failed; it is tried again");
                    self.background.request_flush(&region);
                }
                Ok(region)
            }
            Err(error) => {
                self.regions.opening_failed(&encoded);
                Err(error)
            }
        }
    }

    pub(crate) fn opening(&self, info: RegionInfo, table: Arc<TableDescriptor>) -> Opening {
        Opening {
            folder: layout::region_folder(&info),
            info,
            options: Options::of_table(&self.region_options.load(), &table),
            table,
            files: self.foundation.files.clone(),
            log: self.foundation.log.clone(),
            cache: self.foundation.cache.clone(),
            world: self.foundation.world.clone(),
            recovered: self.foundation.recovered.clone(),
        }
    }

    /// Lets the reader of earlier runs' log forget the records of a region that serves or was flushed; the log's files keep
    /// those that are not flushed. If the region were dropped before it is flushed, its next opening would not find them.
    fn forget_recovered(&self, region: &Region) {
        if let Some(recovered) = &self.foundation.recovered {
            recovered.taken(region.info().encoded_name().as_str().as_bytes());
        }
    }

    /// Removes every row of a closed region, including rows that are only in the log. Requests do not find the region
    /// meanwhile. Blocks on storage.
    pub fn truncate_region(
        &self,
        info: RegionInfo,
        table: Arc<TableDescriptor>,
    ) -> Result<(), region::Error> {
        let region = self.open_briefly(info, table, Region::truncate)?;
        tracing::info!(region = %region.info(), table = %region.info().table(), "region truncated");
        Ok(())
    }

    /// Opens a closed region, calls `act`, and flushes and closes the region. Requests do not find it meanwhile. Returns the
    /// closed region.
    fn open_briefly(
        &self,
        info: RegionInfo,
        table: Arc<TableDescriptor>,
        act: impl FnOnce(&Region) -> Result<(), region::Error>,
    ) -> Result<Arc<Region>, region::Error> {
        self.check_not_aborted()?;
        self.settle_unflushed(info.encoded_name())?;
        let region = Region::open(self.opening(info, table))?;
        self.nonces.recover(&region.take_recovered_nonces());
        // The region is closed even if `act` failed, because an open region would keep its records in the log.
        let outcome = act(&region);
        region.close()?;
        self.forget_recovered(&region);
        outcome.map(|()| region)
    }

    /// Writes the folder of the region `child` with references to the files of `parents`, which are closed. May be
    /// repeated until the child has been opened. Blocks on storage.
    pub fn write_child(
        &self,
        child: &RegionInfo,
        parents: Vec<RegionInfo>,
        table: &Arc<TableDescriptor>,
    ) -> Result<(), region::Error> {
        parents.iter().try_for_each(|parent| self.settle_unflushed(parent.encoded_name()))?;
        let open = |parent| Region::open_for_reading(self.opening(parent, Arc::clone(table)));
        let parents = parents.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        Region::write_child(child, &layout::region_folder(child), &parents)?;
        parents.iter().try_for_each(|parent| parent.close().map(drop))
    }

    /// Lists the files of an open region at one moment, for a snapshot, and the MOB files that they need as files of
    /// another region. If `flush` is set, the files have all acknowledged writes. Blocks on storage.
    pub fn snapshot(
        &self,
        region: &Arc<Region>,
        flush: bool,
    ) -> Result<Vec<pb::SnapshotRegionManifest>, region::Error> {
        if flush {
            // The flush is a step of its own, so that the list of tasks shows it. Few writes arrive between the flush
            // and the listing.
            self.flush(region, region::FlushReason::Requested)?;
        }
        self.with_mob_files(region.snapshot(flush)?, &region.table())
    }

    /// Like [`RegionServer::snapshot`], for a closed region. Blocks on storage.
    ///
    /// If the region could not be opened since a crash, acknowledged writes may be in the log only, and a bulk load may be in some
    /// families only. Then the region is opened and flushed first, and the snapshot fails if that fails.
    pub fn snapshot_of_closed(
        &self,
        region: &RegionInfo,
        table: &Arc<TableDescriptor>,
    ) -> Result<Vec<pb::SnapshotRegionManifest>, region::Error> {
        self.check_not_aborted()?;
        self.settle_unflushed(region.encoded_name())?;
        if self.has_unfiled_writes(region)? {
            tracing::info!(region = %region, table = %table.name(),
                "the closed region has writes that are not in its files; it is opened and flushed for a snapshot");
            self.open_briefly(region.clone(), Arc::clone(table), |_| Ok(()))?;
        }
        let (files, world) = (&self.foundation.files, &self.foundation.world);
        let folder = layout::region_folder(region);
        self.with_mob_files(Region::snapshot_of_closed(files, world, &folder, region, table)?, table)
    }

    /// Whether a closed region may have writes that its file lists lack. A split parent has none, because it was flushed before
    /// the split; it is not opened any more.
    fn has_unfiled_writes(&self, region: &RegionInfo) -> Result<bool, region::Error> {
        if region.is_split() {
            return Ok(false);
        }
        let name = region.encoded_name().as_str().as_bytes();
        let note = layout::region_folder(region).join(region::BULK_LOAD_NOTE);
        let is_in_log =
            self.foundation.recovered.as_ref().is_some_and(|recovered| recovered.sequences(name).is_some());
        Ok(is_in_log || region::is_bulk_load_unfinished(&*self.foundation.files, &note)?)
    }

    fn with_mob_files(
        &self,
        region: pb::SnapshotRegionManifest,
        table: &TableDescriptor,
    ) -> Result<Vec<pb::SnapshotRegionManifest>, region::Error> {
        let mob_files = Region::mob_files_of(&self.foundation.files, &region, table)?;
        for missing in mob_files.missing {
            tracing::warn!("{missing}; the snapshot does not list it");
        }
        Ok([region].into_iter().chain(mob_files.manifest).collect())
    }

    /// Writes the folder of the new region `region` with links to files of a snapshot. May be repeated until it has
    /// been opened. Blocks on storage.
    pub fn write_clone(
        &self,
        region: &RegionInfo,
        source: &pb::SnapshotRegionManifest,
    ) -> Result<(), region::Error> {
        let Foundation { files, log, world, .. } = &self.foundation;
        Region::write_clone(files, log, world, &layout::region_folder(region), source)
    }

    /// Closes a region: requests do not find it any more, its scanners end, and its memory is flushed. If `moved_to` is
    /// set, clients are told the new location. Returns `false` if the region is not open here. If its writes could not
    /// be flushed, returns the error; the region continues to serve, unless it was aborted, and the caller can try
    /// again to close it. Blocks on storage.
    pub fn close_region(
        &self,
        encoded: &EncodedName,
        moved_to: Option<MovedTo>,
    ) -> Result<bool, region::Error> {
        self.close_region_as(encoded, moved_to, OnFullDisk::ServesOn)
    }

    /// Like [`close_region`](RegionServer::close_region). If only a full disk prevents the flush, `on_full_disk` says what follows.
    pub(crate) fn close_region_as(
        &self,
        encoded: &EncodedName,
        moved_to: Option<MovedTo>,
        on_full_disk: OnFullDisk,
    ) -> Result<bool, region::Error> {
        if let Some(replica) = self.replica.get() {
            replica.forget(encoded);
        }
        // Running compactions end first. Until the next step the region still serves requests.
        if let Some(region) = self.regions.by_encoded_name(encoded) {
            region.end_compactions();
        }
        let Some(region) = self.regions.remove(encoded, moved_to) else { return Ok(false) };
        self.scanners.close_region(&region);
        self.background.forget(&region);
        self.flush_times.lock().remove(encoded);
        self.split_requests.forget(encoded);
        let task = self.background_tasks.begin(format!("Closing {}", region.info()), "flushing");
        let mut closed = region.close();
        if closed.as_ref().is_err_and(region::Error::is_disk_full) && self.foundation.log.remove_spares() {
            closed = region.close();
        }
        task.end(&closed);
        self.background.account(&region);
        if on_full_disk == OnFullDisk::KeepsMemory
            && let Err(cause) = &closed
            && cause.is_disk_full()
            && self.keep_unflushed(&region, cause)
        {
            return Ok(true);
        }
        if self.replica.get().is_some() {
            self.background.disregard(&region);
        }
        let flushed = closed.inspect_err(|error| {
            // If the region was aborted, its last writes are only in its memory and in the log. Another opening in this
            // process would not find them.
            if !matches!(error, region::Error::Aborted(_)) {
                self.regions.insert(Arc::clone(&region));
            }
        })?;
        tracing::info!(region = %region.info(), table = %region.info().table(), files = flushed.files,
            bytes = flushed.bytes, "region closed");
        Ok(true)
    }

    /// Closes and flushes every region. Tries all of them, and then returns the first error.
    pub fn close_all(&self) -> Result<(), region::Error> {
        let mut outcome = Ok(());
        let mut regions = self.regions.all();
        // The catalog is closed last, because clients use it to look up regions.
        regions.sort_by_key(|region| (region.info().table().is_system(), region.info().is_meta()));
        for region in regions {
            let closed = self.close_region(region.info().encoded_name(), None).map(drop);
            outcome = outcome.and(closed);
        }
        outcome.and(self.settle_all_unflushed())
    }

    /// Deletes the folder of a dropped table, region or family whose regions are closed. Files that a clone or a
    /// snapshot needs move to the archive; others are deleted. May be repeated. Refuses a folder that an open region
    /// uses, because the region would go on without its files. Of a family whose cells the log may have, a file without
    /// cells remains.
    pub fn drop_folder(&self, folder: &FileName) -> Result<(), region::Error> {
        let uses = |region: &Region| {
            let own = layout::region_folder(region.info());
            own == *folder
                || own.parent().as_ref() == Some(folder)
                || folder.parent() == Some(own) && region.table().family(folder.last().as_bytes()).is_some()
        };
        self.settle_unflushed_if(uses)?;
        if let Some(region) = self.regions.all().iter().find(|region| uses(region)) {
            let words = format!("folder {folder} is to be deleted, but region {} is open", region.info());
            return Err(region::Error::Broken(words));
        }
        self.janitor.drop_folder(folder)?;
        let Foundation { files, log, world, .. } = self.foundation();
        region::seal_store(files, log, world, folder)
    }

    /// Records that a region was flushed just now.
    pub(crate) fn note_flush(&self, region: &EncodedName) {
        self.flush_times.lock().insert(region.clone(), self.foundation.world.now());
    }

    /// Returns when a region was last flushed or, before its first flush, opened, in ms since 1970; 0 for an unknown
    /// region.
    pub(crate) fn last_flush(&self, region: &EncodedName) -> u64 {
        self.flush_times.lock().get(region).map_or(0, |time| time.0.max(0) as u64)
    }

    /// Sets the source of the configuration for [`update_configuration`](RegionServer::update_configuration).
    pub fn on_update_configuration(&self, reread: impl Fn() -> Result<Conf, String> + Send + Sync + 'static) {
        *self.reread.lock() = Some(Box::new(reread));
    }

    /// Reads the configuration again and applies what can change at run time, such as compaction settings, warning
    /// thresholds, limits of batches, responses and cells, flush and log-roll periods, retry times. Numbers of threads,
    /// leases, settings of nonces and the memory for all memstores keep their first values. Fails, and changes nothing,
    /// if a value is invalid or if the server was not started from configuration files.
    pub(crate) fn update_configuration(&self) -> Result<(), Exception> {
        let reread = self.reread.lock();
        let reread = reread.as_ref().ok_or_else(|| {
            Exception::do_not_retry(
                "this server was not started from configuration files, there is nothing to read",
            )
        })?;
        let conf = reread().map_err(Exception::io)?;
        let options = Options::from_conf(&conf).map_err(|error| Exception::io(error.to_string()))?;
        let of_regions = Options::of_regions(&conf).map_err(|error| Exception::io(error.to_string()))?;
        self.background.switch_compaction(options.compaction_enabled);
        let first = self.options.load_full();
        self.options.store(Arc::new(Options {
            scanner_timeout: first.scanner_timeout,
            nonce_grace_period: first.nonce_grace_period,
            nonces_enabled: first.nonces_enabled,
            flushers: first.flushers,
            background_nice: first.background_nice,
            compactors: first.compactors,
            large_compactors: first.large_compactors,
            memory_compactors: first.memory_compactors,
            memstore_bytes_max: first.memstore_bytes_max,
            info_port: first.info_port,
            ..options
        }));
        let first = &self.foundation.region_options;
        let of_regions = RegionOptions {
            memory: Arc::clone(&first.memory),
            ledger: Arc::clone(&first.ledger),
            flush_budget: Arc::clone(&first.flush_budget),
            open_files: Arc::clone(&first.open_files),
            first_abort: Arc::clone(&first.first_abort),
            is_fenced: Arc::clone(&first.is_fenced),
            refused_writes: Arc::clone(&first.refused_writes),
            ..of_regions
        };
        for region in self.regions.all() {
            region.tune(&Options::of_table(&of_regions, &region.table()));
            // With the new options some stores may have too many files. Their compactions are queued now.
            self.background.consider_compaction(&region);
        }
        self.region_options.store(Arc::new(of_regions));
        tracing::info!("the configuration was read again");
        Ok(())
    }

    /// Asks the process to stop. Requests are refused from now on, and [`stopped`](RegionServer::stopped) returns.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.background.stop();
        if let Some(replica) = self.replica.get() {
            replica.stop();
        }
        self.stop.notify_waiters();
    }

    /// Whether the server was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until the server is asked to stop.
    pub async fn stopped(&self) {
        loop {
            let asked = self.stop.notified();
            if self.is_stopping() {
                return;
            }
            asked.await;
        }
    }

    /// Waits until a region was aborted. Returns the region's name and the cause, in one sentence. Then the server must
    /// end, and the next start opens the region.
    pub fn region_aborted(&self) -> impl Future<Output = String> + Send + use<> {
        self.foundation.region_options.first_abort.happened()
    }

    /// Whether a region was aborted because another server has taken its files.
    pub fn is_fenced(&self) -> bool {
        self.foundation.region_options.is_fenced.load(Ordering::Acquire)
    }

    /// Refuses calls while the server stops.
    pub(crate) fn check_open(&self) -> Result<(), Exception> {
        if self.is_stopping() {
            return Err(Exception::new(
                class::REGION_SERVER_STOPPED,
                format!("Server {} not running, aborting", self.name),
            ));
        }
        Ok(())
    }

    /// Checks a region after a write: queues a flush or a memory compaction if one is due.
    pub(crate) fn written(&self, region: &Arc<Region>) {
        let memory = region.memory();
        let all = self.background.account_for(region, memory);
        let low = self.options().memstore_bytes_low();
        if region.needs_flush_of(memory, pressure(all, low)) {
            self.background.request_flush(region);
        } else if all > low {
            self.relieve_memory();
        }
        if self.foundation().log.has_grown() {
            self.shorten_log();
        }
        if region.awaits_memory_compaction() {
            self.background.memory_threads.hurry(true);
        }
        if region.asks_for_memory_compaction() {
            self.background.memory_queue.push(region);
        }
    }

    /// Flushes a region to which a large request has written, if its memory has half of the flush size. The permit is
    /// held until the flush ends, so that the next large request finds the memory free.
    pub(crate) fn flush_large(&self, region: &Arc<Region>, permit: &LargePermit) {
        if region.memory_exceeds_half() {
            self.background.request_flush_for(region, permit.clone());
        }
    }

    /// Refuses writes on a read replica. Also refuses writes while all memstores together exceed their limit, except to
    /// hbase:meta.
    pub(crate) fn check_memory(&self, options: &Options, region: &Region) -> Result<(), Exception> {
        self.check_primary()?;
        if self.background.memory() > options.memstore_bytes_max && !region.info().is_meta() {
            count(&self.foundation.region_options.refused_writes);
            env::sometimes("memory: a write was refused because all memstores together were full");
            return Err(Exception::region_too_busy(format!(
                "the memstores of {} take more than {} bytes; wait for a flush",
                self.name, options.memstore_bytes_max
            )));
        }
        Ok(())
    }

    /// Returns the number of calls whose writes were refused because the memstores of a region, or of all regions, were
    /// full (`blockedRequestCount`).
    pub(crate) fn refused_writes(&self) -> u64 {
        self.foundation.region_options.refused_writes.load(Ordering::Relaxed)
    }

    /// Returns the exception that a client gets for an engine's error.
    pub(crate) fn exception(&self, error: &region::Error) -> Exception {
        if self.replica.get().is_some() && replica::is_gone(error) {
            // A file that the reader needed was deleted. The next round of the replica finds the files that replace it,
            // and then clients continue where they were.
            return Exception::not_serving_region(format!(
                "a file was compacted away by the primary and deleted before it was read: {error}"
            ));
        }
        exceptions::of_region(error, &self.name)
    }
}

impl Drop for RegionServer {
    fn drop(&mut self) {
        self.background.stop();
    }
}

impl std::fmt::Debug for RegionServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionServer")
            .field("name", &self.name)
            .field("regions", &self.regions)
            .finish_non_exhaustive()
    }
}
