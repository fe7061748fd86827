//! Where the write-ahead log is: under the data directory, or in the place that `hbase.wal.dir` names. In an object
//! store its files [grow](storage::Segmented) part by part.
//!
//! If the log is not found, its writes are lost. So the data directory records where its log is, and the log's folder
//! records to which data directory it belongs. A start with another `hbase.wal.dir` is refused until the log was moved
//! there. A start is also refused if the folder lacks its record: then its disk is not mounted, or this is not the
//! machine that wrote the log.

use std::sync::Arc;
use std::time::Duration;

use conf::{Conf, keys};
use door::{LogEnds, OwnLog};
use env::World;
use objectstore::Meter;
use storage::{
    Capability, FileName, Files, Kind, MachineMemory, Object, RequestBudget, Segmented, Version,
    swap_confirmed,
};

use crate::data_dir;
use crate::estimate::put_period;
use crate::failure::Failure;
use crate::root::{self, HBasePlace, LOG_FOLDER, OpenRoot, Root};

/// The object in the data directory that holds the folder of the log and an identifier, one a line. The folder is empty
/// while the log is under the data directory; then the object may be absent.
const NOTE: &str = "bellows.wal";
/// The object in the log's folder that holds the identifier of the data directory to which the log belongs.
const BELONGS: &str = "bellows.wal.of";
/// Of a log that is recovered from an object store, the usable memory divided by this number is kept in memory.
const KEPT_PART: u64 = 8;
/// Maximum size of either object, in bytes.
const NOTE_MAX: usize = 16 << 10;

/// Returns the storage of the log that belongs to the data in `files`. Fails if the records of the two places do not
/// fit each other (see above). Errors call the data `root`; `wal_dir` is the value of `hbase.wal.dir`.
pub(crate) fn open(
    world: &World,
    conf: &Conf,
    files: &Arc<dyn Files>,
    root: &str,
    wal_dir: Option<&Root>,
) -> Result<Arc<dyn Files>, Failure> {
    open_metered(world, conf, files, root, wal_dir, None).map(|log| log.files)
}

/// Like [`open`]. If the log is in a bucket of its own, `meter` counts its requests, or else a meter of the bucket. Returns that
/// meter, and `meter` if the log is elsewhere.
pub(crate) fn open_metered(
    world: &World,
    conf: &Conf,
    files: &Arc<dyn Files>,
    root: &str,
    wal_dir: Option<&Root>,
    meter: Option<&Arc<Meter>>,
) -> Result<OpenRoot, Failure> {
    let Some(wal_dir) = wal_dir else {
        let files = open_at(world, conf, files, root, None, Caller::Server)?;
        return Ok(OpenRoot { files, meter: meter.cloned(), probe: None });
    };
    let opened = wal_dir.open_for_log(conf, meter)?;
    let elsewhere = Some((wal_dir.to_string(), opened.files));
    let files = open_at(world, conf, files, root, elsewhere, Caller::Server)?;
    Ok(OpenRoot { files, meter: opened.meter.or_else(|| meter.cloned()), ..opened })
}

/// Returns the storage of the log like [`open`], for a caller that has the data in `files` to itself and only reads. Nothing is
/// written, apart from a lock file in a folder of this machine; the folder must exist.
pub(crate) fn open_to_check(
    world: &World,
    conf: &Conf,
    files: &Arc<dyn Files>,
    root: &str,
    wal_dir: Option<&Root>,
) -> Result<Arc<dyn Files>, Failure> {
    let elsewhere =
        wal_dir.map(|place| Ok::<_, Failure>((place.to_string(), place.open_log_to_check(conf)?)));
    open_at(world, conf, files, root, elsewhere.transpose()?, Caller::Checker)
}

/// Who opens a log's place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// A server, which records the place and appends to the log.
    Server,
    /// A process that writes nothing.
    Checker,
}

impl Caller {
    /// Returns `files` in the form that the caller needs.
    fn log_in(self, world: &World, conf: &Conf, files: &Arc<dyn Files>) -> Result<Arc<dyn Files>, Failure> {
        match self {
            Caller::Server => appendable(world, conf, files),
            Caller::Checker => growing_log(world, conf, files),
        }
    }
}

/// Opens the log's place like [`open`], for a caller that has already opened the storage that `hbase.wal.dir` names.
/// Errors call that storage by the name given with it.
fn open_at(
    world: &World,
    conf: &Conf,
    files: &Arc<dyn Files>,
    root: &str,
    elsewhere: Option<(String, Arc<dyn Files>)>,
    caller: Caller,
) -> Result<Arc<dyn Files>, Failure> {
    let (note, version) = read(&**files, root, NOTE)?.unzip();
    let noted = note.as_deref().and_then(|note| note.split_once('\n'));
    let before = noted.map(|(place, _)| place).filter(|place| !place.is_empty());
    let Some((log_place, log)) = elsewhere else {
        let log = caller.log_in(world, conf, files)?;
        let Some(before) = before else { return Ok(log) };
        if !has_log(&*log, root)? {
            return Err(moved(root, before, root, Some(before)));
        }
        if caller == Caller::Checker {
            return Ok(log);
        }
        let id = noted.map_or("", |(_, id)| id);
        write(&**files, root, NOTE, version.as_ref(), &format!("\n{id}"))?;
        return Ok(log);
    };
    let log = caller.log_in(world, conf, &log)?;
    let known = noted.map(|(_, id)| id.trim().to_owned()).filter(|id| !id.is_empty());
    let belongs = read(&*log, &log_place, BELONGS)?;
    let id = known.clone().unwrap_or_else(|| new_id(world));
    if belongs.as_ref().is_some_and(|(other, _)| other.trim() != id) {
        return Err(of_another(&log_place, root));
    }
    if before == Some(&log_place) && belongs.is_none() {
        return Err(Failure::new(format!(
            "{log_place} is not the folder that has the write-ahead log of {root}: its file {BELONGS} is missing; mount the disk \
             of the log, or start on the machine that has it. If that log is lost for good, and with it what was not flushed, \
             delete {NOTE} in {root}"
        )));
    }
    if before != Some(&log_place) {
        let has_old = before.is_some() || has_log(&*caller.log_in(world, conf, files)?, root)?;
        if has_old && !has_log(&*log, &log_place)? {
            return Err(moved(root, before.unwrap_or(root), &log_place, before));
        }
        if caller == Caller::Checker {
            return Ok(log);
        }
        // The data directory records its identifier before the log's folder does. Otherwise a start after a crash between
        // the two would take the folder for that of another data directory.
        let version = match known {
            Some(_) => version,
            None => Some(write(&**files, root, NOTE, version.as_ref(), &format!("\n{id}\n"))?),
        };
        // The data directory names the log's folder only after the folder has its record. Otherwise another server could
        // take the folder.
        if belongs.is_none() {
            write(&*log, &log_place, BELONGS, None, &format!("{id}\n"))?;
        }
        write(&**files, root, NOTE, version.as_ref(), &format!("{log_place}\n{id}\n"))?;
    }
    Ok(log)
}

/// A root folder of HBase whose log is being adopted.
pub(crate) struct AdoptedLog {
    /// The storage of HBase's logs.
    pub(crate) files: Arc<dyn Files>,
    /// Whether that storage shows the end of log files that HBase has left open.
    pub(crate) ends: LogEnds,
    /// Where the adoption writes its log.
    pub(crate) own: OwnLog,
    /// The place that `hbase.wal.dir` names; `None` if the log is under the root.
    elsewhere: Option<(String, HBasePlace)>,
    /// The identifier that the record in the root has, or a new one.
    id: String,
    /// The folder in the record in the root, which an interrupted adoption has left, and the version of that record.
    noted: Option<(String, Version)>,
}

impl AdoptedLog {
    /// Opens the log's place of a root of HBase, which is `data`, and writes nothing. Errors call the data `root`. Fails if
    /// the place has the log of a data directory of Bellows, which the adoption would delete.
    pub(crate) fn open(
        world: &World,
        conf: &Conf,
        data: &HBasePlace,
        root: &str,
        wal_dir: Option<&Root>,
    ) -> Result<AdoptedLog, Failure> {
        let files = &data.files;
        let (note, version) = read(&**files, root, NOTE)?.unzip();
        let (before, id) = note.as_deref().and_then(|note| note.split_once('\n')).unwrap_or_default();
        let id = match id.trim() {
            "" => new_id(world),
            id => id.to_owned(),
        };
        let noted = version.map(|version| (before.to_owned(), version));
        let in_root = growing_log(world, conf, files)?;
        let Some(wal_dir) = wal_dir else {
            let (files, ends) = (Arc::clone(files), data.log_ends());
            let own = OwnLog { place: in_root, abandoned: None };
            return Ok(AdoptedLog { files, ends, own, elsewhere: None, id, noted });
        };
        let (place, opened) = (wal_dir.to_string(), wal_dir.open_logs_of_hbase(conf)?);
        let log = Arc::clone(&opened.files);
        let belongs = read(&*log, &place, BELONGS)?;
        if belongs.is_some_and(|(other, _)| lineage(other.trim()) != lineage(&id)) {
            return Err(of_another(&place, root));
        }
        if data_dir::is_of_bellows(&*log, &place)? {
            return Err(Failure::new(format!(
                "{place} is a data directory of bellows, and not the folder of the logs of {root}; set hbase.wal.dir as HBase had it"
            )));
        }
        let own = OwnLog { place: growing_log(world, conf, &log)?, abandoned: Some(in_root) };
        Ok(AdoptedLog {
            files: log,
            ends: opened.log_ends(),
            own,
            elsewhere: Some((place, opened)),
            id,
            noted,
        })
    }

    /// Makes this process the owner of the place that `hbase.wal.dir` names, so that it may write there.
    pub(crate) fn take(&self, conf: &Conf) -> Result<(), Failure> {
        self.elsewhere.as_ref().map_or(Ok(()), |(_, place)| place.take(conf))
    }

    /// Records in the root and in the log's folder where the log is, if the adoption has written one elsewhere than
    /// under the root. Without a log, any `hbase.wal.dir` may be chosen at the next start. May be repeated; the caller
    /// writes the version file of the root afterwards.
    ///
    /// If an interrupted adoption has recorded another folder, the identifier changes. So a start refuses the log that
    /// the interrupted adoption has written there.
    pub(crate) fn record(&self, files: &dyn Files, root: &str) -> Result<(), Failure> {
        let place = match &self.elsewhere {
            Some((place, _)) if has_log(&*self.own.place, place)? => place,
            // An interrupted adoption has recorded another place.
            _ if self.noted.is_some() => "",
            _ => return Ok(()),
        };
        let (before, version) = self.noted.as_ref().map(|(before, version)| (before, version)).unzip();
        let id = match before {
            Some(before) if before != place => successor(&self.id),
            _ => self.id.clone(),
        };
        // The record in the root is first. If there were only the record in the log's folder, a repeated adoption would
        // not know its identifier.
        write(files, root, NOTE, version, &format!("{place}\n{id}\n"))?;
        if place.is_empty() {
            return Ok(());
        }
        let belongs = read(&*self.files, place, BELONGS)?;
        if belongs.as_ref().is_none_or(|(other, _)| other.trim() != id) {
            let version = belongs.as_ref().map(|(_, version)| version);
            write(&*self.files, place, BELONGS, version, &format!("{id}\n"))?;
        }
        Ok(())
    }
}

/// Returns a new identifier of a data directory.
fn new_id(world: &World) -> String {
    format!("{:016x}{:016x}", world.random(), world.random())
}

/// Returns the part of an identifier that all of its [successors](successor) have.
fn lineage(id: &str) -> &str {
    id.split_once('.').map_or(id, |(lineage, _)| lineage)
}

/// Returns the identifier that replaces `id` when the log is adopted from another folder.
fn successor(id: &str) -> String {
    let number: u64 = id.split_once('.').and_then(|(_, number)| number.parse().ok()).unwrap_or(1);
    format!("{}.{}", lineage(id), number + 1)
}

/// Returns the refusal of a log's folder whose record has not the identifier of this data directory.
fn of_another(log_place: &str, root: &str) -> Failure {
    Failure::new(format!(
        "{log_place} has the log of another data directory than {root}, or of an adoption that was interrupted and repeated with \
         another hbase.wal.dir; give each data directory a hbase.wal.dir of its own"
    ))
}

/// Returns the storage of the log of another server, whose data are in `files`, for a process that only reads it.
/// Errors call the data `root`. If the log is in a bucket of its own, `meter` counts its requests.
pub(crate) fn open_for_reading(
    world: &World,
    conf: &Conf,
    files: &Arc<dyn Files>,
    root: &Root,
    meter: Option<&Arc<Meter>>,
) -> Result<Arc<dyn Files>, Failure> {
    let note = read(&**files, &root.to_string(), NOTE)?.map(|(note, _)| note);
    let place = note.as_deref().and_then(|note| note.split_once('\n')).map(|(place, _)| place);
    let log = match place.filter(|place| !place.is_empty()) {
        None => Arc::clone(files),
        Some(place) => match Root::parse(NOTE, place)? {
            Root::Folder(folder) => {
                return Err(Failure::new(format!(
                    "the write-ahead log of {root} is in the folder {} of its server's machine, where no read replica can follow it; \
                     start that server with its hbase.wal.dir in a bucket, or without one",
                    folder.display()
                )));
            }
            bucket => bucket.open_for_reading_log(conf, meter)?,
        },
    };
    Ok(Arc::new(growing(world, conf, log)?))
}

/// Returns `files` in a form in which a log can append to a file: unchanged, or with files that grow part by part.
fn appendable(world: &World, conf: &Conf, files: &Arc<dyn Files>) -> Result<Arc<dyn Files>, Failure> {
    if files.capabilities().has(Capability::SyncPrefix) {
        return Ok(Arc::clone(files));
    }
    let mut growing = growing(world, conf, Arc::clone(files))?;
    if let Some((period, delay_max)) = budget(conf)? {
        if period > delay_max {
            tracing::warn!(
                ms_of_budget = period.as_millis() as u64,
                ms_of_delay = delay_max.as_millis() as u64,
                "under load the log will cost more than bellows.wal.store.budget: the budget permits a request less often than \
                 bellows.wal.store.delay.max lets a sync wait"
            );
        }
        growing = growing.within(RequestBudget::new(world.clone(), period, delay_max));
    }
    match growing.collect(&FileName::new(LOG_FOLDER)) {
        Ok(0) => {}
        Ok(files) => tracing::info!(files, "removed what was left of deleted log files"),
        Err(error) => {
            tracing::warn!(%error, "cannot remove what is left of deleted log files; the next start tries again")
        }
    }
    Ok(Arc::new(growing))
}

/// Returns `files` as [`appendable`] does, and writes nothing: requests have no budget, and nothing is cleaned up.
fn growing_log(world: &World, conf: &Conf, files: &Arc<dyn Files>) -> Result<Arc<dyn Files>, Failure> {
    match files.capabilities().has(Capability::SyncPrefix) {
        true => Ok(Arc::clone(files)),
        false => Ok(Arc::new(growing(world, conf, Arc::clone(files))?)),
    }
}

/// Returns `files` with files that grow part by part.
fn growing(world: &World, conf: &Conf, files: Arc<dyn Files>) -> Result<Segmented, Failure> {
    let patience = conf.value(&keys::cluster::S3_SETTLE_TIME)?;
    let reads_max: u64 = conf.value(&keys::cluster::S3_READS_MAX)?;
    let reads_max = usize::try_from(reads_max).unwrap_or(usize::MAX);
    let kept = MachineMemory::read().usable().map_or(u64::MAX, |bytes| bytes / KEPT_PART);
    Ok(Segmented::new(files, world.clone(), patience).reading(reads_max).keeping(kept))
}

/// Returns the time between two requests of the log that its budget permits, and for how long a sync waits for that at
/// most; `None` without a budget.
fn budget(conf: &Conf) -> Result<Option<(Duration, Duration)>, Failure> {
    use keys::cluster as key;
    let period = put_period(&root::prices(conf)?, conf.value(&key::WAL_STORE_BUDGET)?);
    let delay_max = conf.value(&key::WAL_STORE_DELAY_MAX)?;
    Ok(period.map(|period| (period, delay_max)))
}

/// Returns the time between two syncs of a log in an object store that is written without a pause; `None` if requests
/// have no budget.
pub(crate) fn sync_period_min(conf: &Conf) -> Result<Option<Duration>, Failure> {
    Ok(budget(conf)?.map(|(period, delay_max)| period.min(delay_max)))
}

/// Returns the refusal of a start with the log in `to` although it is in `from`. `key` is the value of `hbase.wal.dir`
/// with which the log is found; `None` if that is none.
fn moved(root: &str, from: &str, to: &str, key: Option<&str>) -> Failure {
    let start = match key {
        Some(place) => format!("with -D hbase.wal.dir={place}"),
        None => "without hbase.wal.dir".to_owned(),
    };
    Failure::new(format!(
        "the write-ahead log of {root} is in {from}/{LOG_FOLDER}, and {to}/{LOG_FOLDER} has none: start {start}; or, to have the log \
         in {to}, move the folder {LOG_FOLDER} from {from} to {to}, and start again"
    ))
}

fn has_log(files: &dyn Files, place: &str) -> Result<bool, Failure> {
    let listed =
        files.list(&FileName::new(LOG_FOLDER)).map_err(|error| Failure::of_storage(place, &error))?;
    Ok(listed.iter().any(|entry| entry.name.last().ends_with(".wal")))
}

fn read(files: &dyn Files, place: &str, name: &str) -> Result<Option<(String, Version)>, Failure> {
    match files.load(&FileName::new(name), NOTE_MAX) {
        Ok(Object { content, version }) => {
            Ok(Some((String::from_utf8_lossy(&content).into_owned(), version)))
        }
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(Failure::of_storage(place, &error)),
    }
}

fn write(
    files: &dyn Files,
    place: &str,
    name: &str,
    expected: Option<&Version>,
    content: &str,
) -> Result<Version, Failure> {
    swap_confirmed(files, &FileName::new(name), expected, content.as_bytes())
        .map_err(|error| Failure::of_storage(place, &error))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "real folders are the point")]
mod tests {
    use std::path::PathBuf;

    use storage::memory::Fault;
    use storage::{Local, Memory, Outcome};

    use super::*;

    /// Starts a server of `data`, whose log is at `place` if one is named, and begins a log file.
    fn begin(data: &Memory, place: Option<(&str, &Memory)>) -> Result<(), String> {
        let shared = |memory: &Memory| Arc::new(memory.clone()) as Arc<dyn Files>;
        let elsewhere = place.map(|(name, log)| (name.to_owned(), shared(log)));
        let log = open_at(&World::real(), &Conf::new(), &shared(data), "data", elsewhere, Caller::Server);
        let log = log.map_err(|failure| failure.to_string())?;
        if let Ok(writer) = log.create(&FileName::new(LOG_FOLDER).join("00000000000000000001.wal")) {
            writer.finish().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Records of the log's place that were written but reported as failed lead the next start to the log, whichever of
    /// them a crash undoes.
    #[test]
    fn records_of_the_logs_place_that_were_written_despite_an_error_lead_to_the_log() {
        let overcome = storage::at_every_false_alarm(
            |_empty| {},
            |data| begin(data, Some(("log", &Memory::new()))).is_ok(),
            |data, succeeded| {
                let elsewhere = begin(data, None);
                assert!(!succeeded || elsewhere.is_err_and(|why| why.contains("move the folder WALs")));
            },
        );
        assert_eq!(overcome, 2, "both records in the data directory are read again");
        let data = env::sync::Mutex::new(Memory::new());
        let overcome = storage::at_every_false_alarm(
            |_empty| *data.lock() = Memory::new(),
            |log| begin(&data.lock(), Some(("log", log))).is_ok(),
            |log, succeeded| {
                let started = begin(&data.lock(), Some(("log", log)));
                assert!(!succeeded || started.is_ok(), "{started:?}");
            },
        );
        // Two failing calls do not fail the start. One is the creation of the log file, which the server postpones. The
        // other is the record in the log's folder, which is read again.
        assert_eq!(overcome, 2, "the record in the log's folder is read again");
    }

    /// A first start is killed at each of its writes, and repeated.
    #[test]
    fn a_first_start_that_was_killed_can_be_repeated() {
        let killed = |data: &Memory, log: &Memory, victim: &Memory, act: u64| {
            let fault = Fault { act, kind: Kind::Failed, outcome: Outcome::DidNotHappen, last: true };
            victim.set_fault(Some(fault));
            let is_killed = begin(data, Some(("log", log))).is_err();
            let (data, log) = (data.kill(), log.kill());
            begin(&data, Some(("log", &log))).expect("repeated");
            begin(&data, None).expect_err("the log is elsewhere");
            is_killed
        };
        for act in 1..=3 {
            let (data, log) = (Memory::new(), Memory::new());
            assert_eq!(killed(&data, &log, &data, act), act <= 2, "write {act} in the data directory");
            let (data, log) = (Memory::new(), Memory::new());
            assert_eq!(killed(&data, &log, &log, act), act != 2, "write {act} in the log's folder");
        }
    }

    /// The log was moved back under the data directory, and the record of that was written but reported as failed.
    #[test]
    fn a_log_that_was_moved_back_is_found_despite_an_error() {
        let moved_back = |data: &Memory| {
            begin(data, Some(("log", &Memory::new()))).expect("new");
            let writer = data.create(&FileName::new(LOG_FOLDER).join("00000000000000000001.wal"));
            writer.and_then(|writer| writer.finish()).expect("moved");
        };
        let overcome = storage::at_every_false_alarm(
            moved_back,
            |data| begin(data, None).is_ok(),
            |data, _| begin(data, None).expect("the log is there"),
        );
        // Two failing calls do not fail the start. One is the creation of the log file, which exists already. The other is
        // the record in the data directory, which is read again.
        assert_eq!(overcome, 2, "the record is read again");
    }

    /// The folders `data`, `data2`, `log` and `log2` of one test, which are removed at its end.
    struct Folders(PathBuf);

    impl Drop for Folders {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("the test's own");
        }
    }

    impl Folders {
        fn new() -> Folders {
            Folders(std::env::temp_dir().join(format!("bellows-log-place-{:x}", World::real().random())))
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        /// Starts a server of `data`, which begins a log file, and ends it.
        fn start(&self, data: &str, wal_dir: Option<&str>) -> Result<(), String> {
            let (root, wal_dir) = (self.at(data), wal_dir.map(|name| self.at(name)));
            let files: Arc<dyn Files> = Arc::new(Local::open(&root).expect("free"));
            let text = root.display().to_string();
            let place = wal_dir.clone().map(Root::Folder);
            let log = open(&World::real(), &Conf::new(), &files, &text, place.as_ref());
            let log = log.map_err(|it| it.to_string())?;
            let name = FileName::new(LOG_FOLDER).join("00000000000000000001.wal");
            if let Ok(writer) = log.create(&name) {
                writer.finish().expect("durable");
            }
            let place = wal_dir.unwrap_or(root);
            assert!(place.join(name.as_str()).exists(), "the log is in {}", place.display());
            Ok(())
        }

        fn move_log(&self, from: &str, to: &str) {
            std::fs::rename(self.at(from).join(LOG_FOLDER), self.at(to).join(LOG_FOLDER)).expect("moved");
        }
    }

    #[test]
    fn a_start_is_refused_if_the_log_is_elsewhere_than_the_key_says() {
        let folders = Folders::new();
        folders.start("data", None).expect("under the data directory");
        let refused = folders.start("data", Some("log")).expect_err("its log is elsewhere");
        assert!(refused.contains("move the folder WALs"), "{refused}");
        folders.move_log("data", "log");
        folders.start("data", Some("log")).expect("moved");
        folders.start("data", Some("log")).expect("as before");
        for other in [None, Some("log2")] {
            let refused = folders.start("data", other).expect_err("its log is elsewhere");
            assert!(refused.contains("/log/WALs") && refused.contains("move the folder WALs"), "{refused}");
        }
        folders.move_log("log", "log2");
        folders.start("data", Some("log2")).expect("moved");
        folders.move_log("log2", "data");
        folders.start("data", None).expect("moved back");
        let refused = folders.start("data", Some("log2")).expect_err("its log is under the data directory");
        assert!(refused.contains("/data/WALs"), "{refused}");
    }

    #[test]
    fn a_folder_of_the_same_name_on_another_machine_is_not_taken_for_the_log() {
        let folders = Folders::new();
        folders.start("data", Some("log")).expect("new");
        std::fs::rename(folders.at("log"), folders.at("elsewhere")).expect("as if its disk were not mounted");
        let refused = folders.start("data", Some("log")).expect_err("an empty folder");
        assert!(
            refused.contains("/log is not the folder") && refused.contains("mount the disk"),
            "{refused}"
        );
        let refused = folders.start("data", Some("log")).expect_err("the first attempt has left no note");
        assert!(refused.contains("mount the disk"), "{refused}");
        std::fs::remove_dir_all(folders.at("log")).expect("the test's own");
        std::fs::rename(folders.at("elsewhere"), folders.at("log")).expect("mounted");
        folders.start("data", Some("log")).expect("it is there again");
        // If the log is lost, the operator removes the record in this way.
        std::fs::remove_dir_all(folders.at("log")).expect("lost");
        std::fs::remove_file(folders.at("data").join(NOTE)).expect("given up");
        folders.start("data", Some("log")).expect("a new log");
    }

    #[test]
    fn a_check_records_nothing_and_makes_no_folder() {
        let folders = Folders::new();
        let (root, log) = (folders.at("data"), folders.at("log"));
        let files: Arc<dyn Files> = Arc::new(Local::open(&root).expect("free"));
        let check = || {
            let (text, place) = (root.display().to_string(), Root::Folder(log.clone()));
            open_to_check(&World::real(), &Conf::new(), &files, &text, Some(&place)).map(drop)
        };
        let refused = check().expect_err("there is no such folder").to_string();
        assert!(refused.contains("/log: there is no such folder") && !log.exists(), "{refused}");
        std::fs::create_dir_all(&log).expect("new");
        check().expect("neither place has a log");
        assert!(!root.join(NOTE).exists() && !log.join(BELONGS).exists());
        drop(files);
        folders.start("data", None).expect("a start finds its log where it was");
        let files: Arc<dyn Files> = Arc::new(Local::open(&root).expect("free"));
        let place = Root::Folder(log.clone());
        let refused = open_to_check(&World::real(), &Conf::new(), &files, "data", Some(&place));
        assert!(refused.is_err_and(|why| why.to_string().contains("move the folder WALs")));
    }

    #[test]
    fn two_data_directories_do_not_share_a_log() {
        let folders = Folders::new();
        folders.start("data", Some("log")).expect("new");
        let refused = folders.start("data2", Some("log")).expect_err("of another");
        assert!(refused.contains("another data directory"), "{refused}");
        folders.start("data2", Some("log2")).expect("its own");
    }
}
