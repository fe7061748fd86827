//! `bellows start --read-replica`: a server that serves reads of the tables that another server writes, from the same
//! bucket.
//!
//! Everything that such a server has of its own is in memory: a log to which nothing is appended, hbase:namespace, and
//! an hbase:meta in which all regions are on this server. A thread compares the primary's hbase:meta with this one,
//! and opens and closes regions.

use std::sync::Arc;
use std::time::Duration;

use conf::Conf;
use env::sync::{Condvar, Mutex};
use env::{Priority, World};
use master::{FollowedPrimary, Master, Mirror, MirrorOutcome, PrimaryCatalog};
use objectstore::{Meter, Prices};
use proto::{RegionInfo, TableDescriptor, catalog};
use region::Region;
use regionserver::{Primary, RegionServer, Replica, ReplicaOptions};
use storage::{FileName, Files, Memory};

use crate::estimate::Estimate;
use crate::failure::Failure;
use crate::log_place;
use crate::root::{OpenRoot, Root};
use crate::settings::Settings;

/// How often the descriptors of tables are read again although no region has changed, because a change of some
/// attributes changes no region.
const REREAD: Duration = Duration::from_secs(30);
/// Pause before a region that could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Maximum time that a client waits for the tables of the primary.
const CATALOG_WITHIN: Duration = Duration::from_secs(60);

/// What a read replica has in place of a server's own files and log.
pub(crate) struct ReadReplica {
    world: World,
    primary: Primary,
    pub(crate) meter: Option<Arc<Meter>>,
    /// The files of the replica's own catalog.
    pub(crate) own: Arc<dyn Files>,
    options: ReplicaOptions,
    promotion: Arc<Promotion>,
}

/// What decides whether a read replica may become the primary.
struct Promotion {
    world: World,
    conf: Conf,
    root: Root,
    /// The primary's files.
    files: Arc<dyn Files>,
    /// The place of the log with which this process starts as the primary, empty for the root, after a client has requested
    /// the promotion. `None` before.
    granted: Mutex<Option<String>>,
}

impl Promotion {
    /// Checks what a start as the primary would refuse, while the replica still serves: the store must do what a server
    /// needs, and the log must be where the primary has recorded it. Leaves no object.
    fn check(&self) -> Result<String, Failure> {
        let Promotion { world, conf, root, files, .. } = self;
        let name = root.to_string();
        let place = log_place::recorded(&**files, &name)?;
        let wal_dir = place.as_deref().map(|place| Root::parse("hbase.wal.dir", place)).transpose()?;
        root.probe(conf)?;
        wal_dir.as_ref().map_or(Ok(()), |wal_dir| wal_dir.probe(conf))?;
        log_place::open_to_check(world, conf, files, &name, wal_dir.as_ref())?;
        Ok(place.unwrap_or_default())
    }

    /// Lets this process become the primary when it has ended its work as a replica. Fails if a start would be refused.
    fn grant(&self) -> Result<(), String> {
        let place =
            self.check().map_err(|why| format!("it cannot become the primary, and serves on: {why}"))?;
        *self.granted.lock() = Some(place);
        Ok(())
    }
}

impl ReadReplica {
    /// Opens the primary's files for reading, and writes nothing there.
    pub(crate) fn open(world: &World, settings: &Settings) -> Result<ReadReplica, Failure> {
        let (conf, root) = (&settings.conf, &settings.root);
        let OpenRoot { files, meter, .. } = root.open_for_reading(conf)?;
        let log = log_place::open_for_reading(world, conf, &files, root, meter.as_ref())?;
        let own: Arc<dyn Files> = Arc::new(Memory::new());
        let id = layout::cluster_id();
        let content = files.read(&id, 4096).map_err(|error| Failure::of_storage(root, &error))?;
        own.swap(&id, None, &content).map_err(|error| Failure::of_storage(root, &error))?;
        let promotion = Promotion {
            world: world.clone(),
            conf: conf.clone(),
            root: root.clone(),
            files: Arc::clone(&files),
            granted: Mutex::default(),
        };
        let primary = Primary { files, log, folder: FileName::new(crate::root::LOG_FOLDER) };
        Ok(ReadReplica {
            world: world.clone(),
            primary,
            meter,
            own,
            options: ReplicaOptions::from_conf(conf)?,
            promotion: Arc::new(promotion),
        })
    }

    /// Returns what following the primary costs in a day.
    pub(crate) fn estimate(&self, prices: &Prices) -> Estimate {
        Estimate::of_replica(prices, self.options.poll_idle, self.options.poll)
    }

    /// Returns the place of the log, empty for the root, with which this process becomes the primary when it has ended its
    /// work as a replica; `None` if it does not.
    pub(crate) fn promoted(&self) -> Option<String> {
        self.promotion.granted.lock().clone()
    }

    /// Lets the server follow the primary's log.
    pub(crate) fn attach(&self, server: &Arc<RegionServer>) -> Result<(), Failure> {
        let replica = Replica::new(self.world.clone(), self.primary.clone(), self.options.clone())
            .map_err(|error| Failure::of_words(self.primary.log.place(), error))?;
        server.follow(replica).map_err(|error| Failure::new(format!("cannot start a thread: {error}")))
    }

    /// Copies the primary's catalog to the replica's, opens the regions, and repeats this in the background. Fails if
    /// the first copy fails, or if the server is no read replica.
    pub(crate) fn mirror(&self, server: &Arc<RegionServer>, master: &Arc<Master>) -> Result<(), Failure> {
        let replica =
            Arc::clone(server.replica().ok_or_else(|| Failure::new("the server is no read replica"))?);
        let rounds = Arc::new(CatalogRounds::new(self.world.clone(), replica, Arc::clone(&self.promotion)));
        let asked: Arc<dyn FollowedPrimary> = Arc::clone(&rounds) as Arc<dyn FollowedPrimary>;
        let mut catalog = Catalog {
            mirror: Mirror::new(Arc::clone(master), Arc::clone(&self.primary.files), asked),
            files: Arc::clone(&self.primary.files),
            meta: RegionInfo::meta(),
            namespaces: None,
        };
        let place = self.primary.files.place();
        let mut last = catalog.look(server).map_err(|error| Failure::of_words(&place, error))?;
        let first = catalog.follow(server, true).map_err(|error| Failure::of_words(&place, error))?;
        let (world, poll, server) = (self.world.clone(), self.options.poll, Arc::downgrade(server));
        let mut retry = first != MirrorOutcome::default();
        let work = move || {
            let (mut read, mut tried) = (world.moment(), world.moment());
            loop {
                let asked = rounds.next(poll);
                let Some(server) = server.upgrade().filter(|server| !server.is_stopping()) else { return };
                let now = world.moment();
                let reread = is_reread(asked, now.since(read));
                let outcome = catalog.look(&server).and_then(|seen| {
                    let is_retried = retry && (asked.is_some() || now.since(tried) >= RETRY);
                    let is_due = reread || seen != last || is_retried;
                    if !is_due {
                        return Ok(None);
                    }
                    last = seen;
                    catalog.follow(&server, reread).map(Some)
                });
                match outcome {
                    Ok(None) => {
                        rounds.ended(asked);
                        continue;
                    }
                    Ok(Some(mirrored)) => {
                        retry = mirrored != MirrorOutcome::default();
                        // Tables without a descriptor do not count as failures: they are being created or dropped.
                        if mirrored.failed == 0 {
                            rounds.ended(asked);
                        }
                    }
                    Err(error) => {
                        tracing::warn!(error, "the primary's catalog cannot be followed; it is tried again");
                        retry = true;
                    }
                }
                tried = now;
                if reread {
                    read = now;
                }
            }
        };
        env::spawn_thread("catalog", Priority::Background, work)
            .map(drop)
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))
    }
}

/// Whether a round reads the descriptors of all tables: if a client waits for it, or if the last such round began
/// `since_reread` ago. A client that waits must see every change that was acknowledged before, and some of them change
/// nothing in hbase:meta.
fn is_reread(asked: Option<u64>, since_reread: Duration) -> bool {
    asked.is_some() || since_reread >= REREAD
}

/// Counts the rounds in which the catalog is followed, and the clients that wait for one of them.
struct CatalogRounds {
    world: World,
    replica: Arc<Replica>,
    promotion: Arc<Promotion>,
    state: Mutex<Rounds>,
    /// Notified when `state` changes.
    changed: Condvar,
}

#[derive(Default)]
struct Rounds {
    /// Number of requests for a round so far.
    asked: u64,
    /// Number of requests when the last round began.
    begun: u64,
    /// Number of requests when the last successful round began: these requests have been served.
    served: u64,
}

impl CatalogRounds {
    fn new(world: World, replica: Arc<Replica>, promotion: Arc<Promotion>) -> CatalogRounds {
        CatalogRounds { world, replica, promotion, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until the next round is due. Returns the number of requests that this round serves, or `None` if nobody
    /// waits.
    fn next(&self, pause: Duration) -> Option<u64> {
        let mut state = self.state.lock();
        if state.asked == state.begun {
            self.changed.wait_for(&mut state, pause);
        }
        state.begun = state.asked;
        (state.asked > state.served).then_some(state.asked)
    }

    /// Records that a round has followed the catalog, and wakes the clients that wait for it.
    fn ended(&self, asked: Option<u64>) {
        if let Some(asked) = asked {
            self.state.lock().served = asked;
            self.changed.notify_all();
        }
    }
}

impl FollowedPrimary for CatalogRounds {
    fn refresh(&self) -> Result<(), String> {
        // The catalog itself has two regions, which must be current first. A region that the round opens is current
        // when it is opened.
        self.replica.refresh()?;
        let began = self.world.moment();
        let mut state = self.state.lock();
        state.asked += 1;
        let number = state.asked;
        self.changed.notify_all();
        while state.served < number {
            let waited = self.world.moment().since(began);
            if waited >= CATALOG_WITHIN {
                return Err(format!(
                    "the primary's tables are not all open here {} ms after their rows had come; the log says why; try again",
                    waited.as_millis()
                ));
            }
            self.changed.wait_for(&mut state, CATALOG_WITHIN.saturating_sub(waited));
        }
        Ok(())
    }

    fn promote(&self) -> Result<(), String> {
        self.promotion.grant()
    }
}

/// The primary's catalog, which the replica follows and which no client finds on the replica.
struct Catalog {
    mirror: Mirror,
    files: Arc<dyn Files>,
    meta: RegionInfo,
    namespaces: Option<RegionInfo>,
}

/// The sequence ids up to which the two regions of the catalog were read.
type Seen = (u64, u64);

impl Catalog {
    fn region(&self, server: &RegionServer, info: &RegionInfo) -> Result<Arc<Region>, String> {
        let replica = server.replica().ok_or("the server is no read replica")?;
        if let Some(region) = replica.region(info.encoded_name()) {
            return Ok(region);
        }
        let table =
            master::descriptors::read(&*self.files, info.table()).map_err(|error| error.to_string())?;
        let built_in = || -> TableDescriptor {
            if info.is_meta() { catalog::meta_descriptor() } else { catalog::namespaces_descriptor() }
        };
        let table = Arc::new(table.unwrap_or_else(built_in));
        replica.watch(server, info.clone(), table).map_err(|error| error.to_string())
    }

    fn look(&self, server: &RegionServer) -> Result<Seen, String> {
        let meta = self.region(server, &self.meta)?.read_point();
        let namespaces = match &self.namespaces {
            Some(region) => self.region(server, region)?.read_point().0,
            None => 0,
        };
        Ok((meta.0, namespaces))
    }

    fn follow(&mut self, server: &RegionServer, reread: bool) -> Result<MirrorOutcome, String> {
        let rows = |region: &Arc<Region>| region::catalog_rows(region).map_err(|error| error.to_string());
        let meta = rows(&self.region(server, &self.meta)?)?;
        let region = PrimaryCatalog::namespace_region(meta.clone());
        if region != self.namespaces
            && let (Some(old), Some(replica)) = (&self.namespaces, server.replica())
        {
            replica.forget(old.encoded_name());
        }
        self.namespaces = region;
        let namespaces = match &self.namespaces {
            Some(region) => rows(&self.region(server, region)?)?,
            None => Vec::new(),
        };
        let primary = PrimaryCatalog { meta, namespaces };
        self.mirror.follow(&primary, reread).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_waits_gets_the_descriptors_of_this_moment() {
        assert!(is_reread(Some(1), Duration::ZERO), "an attribute may have changed since the last round");
        assert!(!is_reread(None, REREAD - Duration::from_millis(1)), "each costs a read of every table");
        assert!(is_reread(None, REREAD));
    }

    #[test]
    fn a_replica_that_could_not_start_as_the_primary_is_not_promoted() {
        let promotion = |note: &[u8]| {
            let files: Arc<dyn Files> = Arc::new(Memory::new());
            files.swap(&FileName::new("bellows.wal"), None, note).expect("written");
            let root = Root::Folder("/srv/x".into());
            Promotion { world: World::real(), conf: Conf::new(), root, files, granted: Mutex::default() }
        };
        let refused = promotion(b"/nowhere/log\nid\n");
        let why = refused.grant().expect_err("the primary's log is not there");
        assert!(why.contains("serves on: hbase.wal.dir is /nowhere/log: there is no such folder"), "{why}");
        assert_eq!(*refused.granted.lock(), None);
        let granted = promotion(b"\nid\n");
        granted.grant().expect("the log is in the root");
        assert_eq!(granted.granted.lock().as_deref(), Some(""));
    }

    #[test]
    fn a_folder_is_no_place_for_a_read_replica() {
        let start = crate::args::Start { data_dir: Some("/srv/x".into()), ..Default::default() };
        let settings = Settings::gather(&start).expect("good");
        let refused = ReadReplica::open(&World::real(), &settings).err().expect("refused").to_string();
        assert!(refused.contains("/srv/x") && refused.contains("s3://BUCKET/FOLDER"), "{refused}");
    }
}
