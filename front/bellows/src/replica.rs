//! `bellows start --read-replica`: a server that serves reads of the tables that another server writes, from the same
//! bucket.
//!
//! Everything that such a server has of its own is in memory: a log to which nothing is appended, hbase:namespace, and
//! an hbase:meta in which all regions are on this server. The crate `replica` keeps it equal to the primary's.

use std::sync::Arc;

use conf::Conf;
use env::World;
use env::sync::Mutex;
use master::Master;
use objectstore::{Meter, Prices};
use regionserver::{LogPlace, Primary, RegionServer, Replica, ReplicaOptions};
use storage::{FileName, Files, Memory};

use crate::estimate::Estimate;
use crate::failure::Failure;
use crate::log_place;
use crate::root::{OpenRoot, Root};
use crate::settings::Settings;

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

/// The primary's log, in the place that the primary has recorded.
struct RecordedLog {
    world: World,
    conf: Conf,
    root: Root,
    /// The primary's files.
    files: Arc<dyn Files>,
    meter: Option<Arc<Meter>>,
    /// The log that was opened when this process started, with what was recorded then, until it is asked for.
    first: Mutex<Option<(String, Arc<dyn Files>)>>,
}

impl LogPlace for RecordedLog {
    fn recorded(&self) -> Result<String, String> {
        log_place::record(&*self.files, &self.root.to_string()).map_err(|error| error.to_string())
    }

    fn open(&self) -> Result<Arc<dyn Files>, String> {
        let RecordedLog { world, conf, root, files, meter, first } = self;
        match first.lock().take() {
            // The primary may have moved its log since.
            Some((record, log)) if record == self.recorded()? => Ok(log),
            _ => log_place::open_for_reading(world, conf, files, root, meter.as_ref())
                .map_err(|error| error.to_string()),
        }
    }
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
        let record = log_place::record(&*files, &root.to_string())?;
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
        let log = RecordedLog {
            world: world.clone(),
            conf: conf.clone(),
            root: root.clone(),
            files: Arc::clone(&files),
            meter: meter.clone(),
            first: Mutex::new(Some((record, log))),
        };
        let folder = FileName::new(crate::root::LOG_FOLDER);
        let primary = Primary { files, log: Arc::new(log), folder };
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
            .map_err(|error| Failure::of_words(self.primary.files.place(), error))?;
        server.follow(replica).map_err(|error| Failure::new(format!("cannot start a thread: {error}")))
    }

    /// Copies the primary's catalog to the replica's, opens the regions, and repeats this in the background. Fails if
    /// the first copy fails, or if the server is no read replica.
    pub(crate) fn mirror(&self, server: &Arc<RegionServer>, master: &Arc<Master>) -> Result<(), Failure> {
        let promotion = Arc::clone(&self.promotion);
        let grant = Box::new(move || promotion.grant());
        replica::follow_catalog(&self.world, self.options.poll, server, master, grant)
            .map_err(|error| Failure::of_words(self.primary.files.place(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
