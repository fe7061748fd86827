//! Where the write-ahead log is: under the data directory, or in the place that `hbase.wal.dir` names. In an object
//! store its files [grow](storage::Segmented) part by part.
//!
//! If the log is not found, its writes are lost. So the data directory records where its log is, and the log's folder
//! records to which data directory it belongs. A start with another `hbase.wal.dir` is refused [unless](change) the log is
//! not needed, or was moved there with its record. A start is also refused if the folder lacks its record: then its disk
//! is not mounted, or this is not the machine that wrote the log. And it is refused if the log was open when its server ended,
//! and all its files [are gone](state).

mod change;
mod state;

use std::sync::Arc;
use std::time::Duration;

use change::Change;
use conf::{Conf, keys};
use door::{LogEnds, OwnLog};
use env::World;
use objectstore::Meter;
use storage::{
    Capability, FileName, Files, Kind, MachineMemory, Memory, Object, RequestBudget, Segmented, Version,
    swap_confirmed,
};

use crate::data_dir::{self, RootOwner};
use crate::estimate::put_period;
use crate::failure::Failure;
use crate::root::{self, HBasePlace, LOG_FOLDER, OpenRoot, Root};

use state::{LogState, STATE};

pub(crate) use state::OpenedLog;

/// The object in the data directory that holds the folder of the log and an identifier, one a line. The folder is empty
/// while the log is under the data directory; then the object may be absent.
const NOTE: &str = "bellows.wal";
/// The object in the log's folder that holds the identifier of the data directory to which the log belongs.
const BELONGS: &str = "bellows.wal.of";
/// What has to be moved, from one folder of a log to another, for a start to find the log there.
pub(crate) const PARTS: &str = "the folder WALs and the file bellows.wal.of";
/// Of a log that is recovered from an object store, the usable memory divided by this number is kept in memory.
const KEPT_PART: u64 = 8;
/// Maximum size of either object, in bytes.
const NOTE_MAX: usize = 16 << 10;

/// Returns the storage of the log that belongs to the data in `files`. Fails if the records of the two places do not
/// fit each other (see above). Errors call the data `root`; `wal_dir` is the value of `hbase.wal.dir`. If the log is in a bucket of
/// its own, `meter` counts its requests, or else a meter of the bucket. Returns that meter, and `meter` if the log is elsewhere.
/// When the caller has opened the log, it records that in the returned [`OpenedLog`].
pub(crate) fn open(
    world: &World,
    conf: &Conf,
    files: &Arc<dyn Files>,
    root: &str,
    wal_dir: Option<&Root>,
    meter: Option<&Arc<Meter>>,
) -> Result<(OpenRoot, OpenedLog), Failure> {
    let opened = |state| OpenedLog::new(world, files, root, state);
    let Some(wal_dir) = wal_dir else {
        let (log, state) = open_at(world, conf, files, root, None, Caller::Server)?;
        return Ok((OpenRoot { files: log, meter: meter.cloned(), probe: None }, opened(state)));
    };
    let name = wal_dir.to_string();
    let place = wal_dir.open_for_log(conf, meter, |log| {
        Records::read(&**files, root, Some((&name, log)))?.check_owner(root, &name, log)
    })?;
    let (log, state) = open_at(world, conf, files, root, Some((name, place.files)), Caller::Server)?;
    let meter = place.meter.or_else(|| meter.cloned());
    Ok((OpenRoot { files: log, meter, probe: place.probe }, opened(state)))
}

/// Fails if [`open`] would refuse the place of the log, as far as that can be told without becoming the owner of anything. In
/// HDFS a process becomes the owner before it opens the data, and the server that owned them can then change nothing.
pub(crate) fn check_before_taking(
    conf: &Conf,
    files: &dyn Files,
    root: &str,
    wal_dir: Option<&Root>,
) -> Result<(), Failure> {
    let place = wal_dir.map(Root::to_string).unwrap_or_default();
    let log: Option<Arc<dyn Files>> = match wal_dir {
        None => None,
        Some(Root::Folder(folder)) if !folder.is_dir() => Some(Arc::new(Memory::new())),
        Some(folder @ Root::Folder(_)) => Some(folder.open_log_to_check(conf)?),
        Some(elsewhere) => Some(elsewhere.open_for_single_files(conf, None)?),
    };
    let named = log.as_ref().map(|log| (&place[..], &**log));
    let records = Records::read(files, root, named)?;
    if let Some((name, log)) = named {
        records.check_owner(root, name, log)?;
    }
    let is_moved = records.id.is_some() && records.belongs.as_ref().map(|(id, _)| id) == records.id.as_ref();
    if records.place == place || is_moved {
        return Ok(());
    }
    let to = if place.is_empty() { root } else { &place };
    match LogState::read(files, root)?.is_open {
        true => Err(change::not_stopped(root, &records.place, to)),
        false => Ok(()),
    }
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
    open_at(world, conf, files, root, elsewhere.transpose()?, Caller::Visitor).map(|(log, _)| log)
}

/// Returns the storage of the log like [`open`], for a caller that deletes the log of a server that has ended. The place is not
/// recorded, and a folder of this machine must exist.
pub(crate) fn open_existing(
    world: &World,
    conf: &Conf,
    files: &Arc<dyn Files>,
    root: &str,
    wal_dir: Option<&Root>,
) -> Result<Arc<dyn Files>, Failure> {
    let elsewhere = wal_dir.map(|place| {
        let name = place.to_string();
        let opened = place.open_existing_log(conf, |log| {
            Records::read(&**files, root, Some((&name, log)))?.check_owner(root, &name, log)
        })?;
        Ok::<_, Failure>((name, opened))
    });
    open_at(world, conf, files, root, elsewhere.transpose()?, Caller::Visitor).map(|(log, _)| log)
}

/// Fails as a start would if `hbase.wal.dir` does not name the place of the log of the data directory `root`, as far as
/// that can be told without writing. Returns the place of the log. The server must not run; a log in HDFS is not looked at,
/// because this process would have to become its owner.
pub(crate) fn examine(
    world: &World,
    conf: &Conf,
    root: &Root,
    wal_dir: Option<&Root>,
) -> Result<String, Failure> {
    let name = root.to_string();
    let files: Arc<dyn Files> = match root {
        Root::Folder(folder) if data_dir::owner_of(folder)? == RootOwner::Nobody => Arc::new(Memory::new()),
        Root::Folder(_) => root.open_log_to_check(conf)?,
        _ => root.open_for_reading_log(conf, None)?,
    };
    let place = wal_dir.unwrap_or(root).to_string();
    let is_recorded = Records::read(&*files, &name, None)?.place == place;
    let log: Option<Arc<dyn Files>> = match wal_dir {
        None => None,
        // A start makes the folder.
        Some(Root::Folder(folder)) if !folder.is_dir() && !is_recorded => Some(Arc::new(Memory::new())),
        Some(wal_dir) => Some(wal_dir.open_log_to_check(conf)?),
    };
    let elsewhere = log.map(|log| (place.clone(), log));
    open_at(world, conf, &files, &name, elsewhere, Caller::Visitor)?;
    Ok(place)
}

/// Who opens a log's place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// A server, which records the place and appends to the log.
    Server,
    /// A process that records no place and appends nothing.
    Visitor,
}

impl Caller {
    /// Returns `files` in the form that the caller needs.
    fn log_in(self, world: &World, conf: &Conf, files: &Arc<dyn Files>) -> Result<Arc<dyn Files>, Failure> {
        match self {
            Caller::Server => appendable(world, conf, files),
            Caller::Visitor => growing_log(world, conf, files),
        }
    }
}

/// Opens the log's place like [`open`], for a caller that has already opened the storage that `hbase.wal.dir` names.
/// Errors call that storage by the name given with it. Also returns what the data directory records about its log.
fn open_at(
    world: &World,
    conf: &Conf,
    files: &Arc<dyn Files>,
    root: &str,
    elsewhere: Option<(String, Arc<dyn Files>)>,
    caller: Caller,
) -> Result<(Arc<dyn Files>, LogState), Failure> {
    let named = elsewhere.as_ref().map(|(name, log)| (&name[..], &**log));
    let records = Records::read(&**files, root, named)?;
    let state = LogState::read(&**files, root)?;
    let (place, log) = match &elsewhere {
        Some((name, log)) => {
            records.check_owner(root, name, &**log)?;
            (&name[..], log)
        }
        None => ("", files),
    };
    let name = if place.is_empty() { root } else { place };
    change::check_format(&**log, name)?;
    if records.place == place {
        check_is_there(world, conf, &state, root, name, log)?;
        return Ok((caller.log_in(world, conf, log)?, state));
    }
    let change = Change { world, conf, files, root, records: &records, state: &state, to: place, log };
    let is_moved = change.check()?;
    let log = caller.log_in(world, conf, log)?;
    if caller == Caller::Visitor {
        return Ok((log, state));
    }
    let Records { id: known, version, belongs, .. } = records;
    let (id, version) = match known {
        // The folder that the log leaves has the previous identifier, so a later start does not take it for the log's.
        Some(id) if !is_moved => (renewed(&id, world), version),
        Some(id) => (id, version),
        // The data directory records its identifier before the log's folder does. Otherwise a start after a crash between
        // the two would take the folder for that of another data directory.
        None => {
            let id = new_id(world);
            let version = write(&**files, root, NOTE, version.as_ref(), &format!("\n{id}\n"))?;
            (id, Some(version))
        }
    };
    // The data directory names the log's folder only after the folder has its record. Otherwise another server could take
    // the folder.
    if !place.is_empty() && belongs.as_ref().is_none_or(|(of, _)| *of != id) {
        let version = belongs.as_ref().map(|(_, version)| version);
        write(&*log, place, BELONGS, version, &format!("{id}\n"))?;
    }
    write(&**files, root, NOTE, version.as_ref(), &format!("{place}\n{id}\n"))?;
    Ok((log, state))
}

/// Fails if the data directory needs its log, and the log's place `name` has no file of it. Takes no request unless the log is
/// needed.
fn check_is_there(
    world: &World,
    conf: &Conf,
    state: &LogState,
    root: &str,
    name: &str,
    log: &Arc<dyn Files>,
) -> Result<(), Failure> {
    let has_log = !state.is_open || has_log(&*growing_log(world, conf, log)?, name)?;
    state.check(root, name, has_log)
}

/// What a data directory and the place that a start names record of each other.
struct Records {
    /// The place that has the log; empty if that is the data directory, or not recorded.
    place: String,
    /// The identifier of the data directory, and of its log.
    id: Option<String>,
    /// The version of the record in the data directory.
    version: Option<Version>,
    /// The identifier in the record of the named place, and the version of that record.
    belongs: Option<(String, Version)>,
}

impl Records {
    /// Reads the records of the data directory in `files`, and of the place that a start `named` for the log, if any. Errors
    /// call the data directory `root`.
    fn read(files: &dyn Files, root: &str, named: Option<(&str, &dyn Files)>) -> Result<Records, Failure> {
        let (note, version) = read(files, root, NOTE)?.unzip();
        let (place, id) = note.as_deref().and_then(|note| note.split_once('\n')).unwrap_or_default();
        let id = Some(id.trim().to_owned()).filter(|id| !id.is_empty());
        let belongs = match named {
            Some((name, log)) => read(log, name, BELONGS)?,
            None if place.is_empty() => None,
            None => read(files, root, BELONGS)?,
        };
        let belongs = belongs.map(|(id, version)| (id.trim().to_owned(), version));
        Ok(Records { place: place.to_owned(), id, version, belongs })
    }

    /// Fails unless the place `name`, other than the data directory, may have the log of this data directory. Writes nothing.
    fn check_owner(&self, root: &str, name: &str, log: &dyn Files) -> Result<(), Failure> {
        let of_log = self.belongs.as_ref().map(|(id, _)| &id[..]);
        let is_recorded = self.place == name;
        match (of_log, self.id.as_deref()) {
            (None, _) if is_recorded => Err(Failure::new(format!(
                "{name} is not the folder that has the write-ahead log of {root}: its file {BELONGS} is missing; mount the disk \
                 of the log, or start on the machine that has it. If that log is lost for good, and with it what was not flushed, and if \
                 no server of {root} runs on that machine, delete {NOTE} and {STATE} in {root}"
            ))),
            (None, _) => change::check_is_free(name, root, log),
            (Some(of), Some(id)) if of == id || (!is_recorded && lineage(of) == lineage(id)) => Ok(()),
            (Some(_), _) => Err(of_another(name, root)),
        }
    }
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
    pub(crate) fn record(&self, world: &World, files: &dyn Files, root: &str) -> Result<(), Failure> {
        let name = self.elsewhere.as_ref().map_or(root, |(place, _)| place);
        let has_log = has_log(&*self.own.place, name)?;
        // The log has writes of HBase that are in no store file. An interrupted adoption may have recorded that of another
        // one.
        let mut state = LogState::read(files, root)?;
        if has_log || state.is_recorded() {
            state.set(world, files, root, has_log)?;
        }
        let place = match &self.elsewhere {
            Some((place, _)) if has_log => place,
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

/// Returns an identifier of the same [lineage] that no folder has.
fn renewed(id: &str, world: &World) -> String {
    format!("{}.{:016x}", lineage(id), world.random())
}

/// Returns the refusal of a log's folder whose record has not the identifier of this data directory.
fn of_another(log_place: &str, root: &str) -> Failure {
    Failure::new(format!(
        "{log_place} has the log of another data directory than {root}, or of an adoption that was interrupted and repeated with \
         another hbase.wal.dir; give each data directory a hbase.wal.dir of its own"
    ))
}

/// Returns the place of the log that the data directory in `files` records; `None` if that is the data directory, which
/// errors call `root`.
pub(crate) fn recorded(files: &dyn Files, root: &str) -> Result<Option<String>, Failure> {
    let records = Records::read(files, root, None)?;
    Ok(Some(records.place).filter(|place| !place.is_empty()))
}

/// Returns the record of the log's place that the data directory in `files` has, as it is written there; empty without one.
/// Whenever it changes, the log is another one. Errors call the data directory `root`.
pub(crate) fn record(files: &dyn Files, root: &str) -> Result<String, Failure> {
    Ok(read(files, root, NOTE)?.map_or_else(String::new, |(note, _)| note))
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
    let data = root.to_string();
    let place = recorded(&**files, &data)?;
    let log = match &place {
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
    let name = place.as_ref().unwrap_or(&data);
    check_is_there(world, conf, &LogState::read(&**files, &data)?, &data, name, &log)?;
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

/// Whether the place has files of a log, or parts of such files.
fn has_log(files: &dyn Files, place: &str) -> Result<bool, Failure> {
    let listed =
        files.list(&FileName::new(LOG_FOLDER)).map_err(|error| Failure::of_storage(place, &error))?;
    Ok(listed.iter().any(|entry| entry.name.as_str().split('/').any(|part| part.ends_with(".wal"))))
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
mod tests;
