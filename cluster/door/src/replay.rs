//! Copies the writes of a killed HBase that are only in its logs to a log of this project, from which the next start
//! recovers each region.
//!
//! The writes of a region may be in several files: in those of successive servers, or twice if HBase had to begin a new
//! file after an error. This project's log needs them in the order of their sequence ids. So the files are read in
//! passes. A region's writes are copied from a file after those of all files with lower sequence ids. Mostly the names
//! of the files are in that order, and one pass is enough. Memory is needed only for one entry, and for the sequence
//! ids of writes that are in two files.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use env::{HashSet, World};
use hbaselog::{Entry, Reader};
use storage::{Capability, FileName, Files, Memory};
use wal::{Kind, Log, LogReader, Record};

use crate::found::OnDisk;
use crate::{Error, Result};

/// The folder of the logs of HBase's region servers, and of this project's.
pub(crate) const LOGS: &str = "WALs";

/// The folder of the logs of HBase's masters.
pub(crate) const MASTERS_LOGS: &str = "MasterData/WALs";

/// The folder of the logs of region servers that HBase no longer needs.
const OLD_LOGS: &str = "oldWALs";

/// A log file of HBase.
pub(crate) struct LogFile {
    files: Arc<dyn Files>,
    pub(crate) name: FileName,
    /// The lowest and the highest sequence id of each region's writes.
    extents: BTreeMap<Vec<u8>, (u64, u64)>,
    pub(crate) entries: usize,
    /// Number of bytes of an incomplete entry at the end of the file.
    pub(crate) torn: u64,
    /// Whether HBase closed the file in order.
    pub(crate) is_closed: bool,
}

impl std::fmt::Debug for LogFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogFile")
            .field("name", &self.name)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl LogFile {
    /// Reads a file once from end to end.
    pub(crate) fn scan(files: &Arc<dyn Files>, name: FileName) -> Result<LogFile> {
        let (mut extents, mut entries) = (BTreeMap::new(), 0);
        let reader = read(files, &name, &mut |entry| {
            let sequence = entry.sequence.0;
            let extent = extents.entry(entry.region).or_insert((sequence, sequence));
            *extent = (extent.0.min(sequence), extent.1.max(sequence));
            entries += 1;
            Ok(())
        })?;
        let (torn, is_closed) = (reader.torn(), reader.is_closed());
        Ok(LogFile { files: Arc::clone(files), name, extents, entries, torn, is_closed })
    }

    /// Whether the file has writes of this region.
    pub(crate) fn has(&self, region: &[u8]) -> bool {
        self.extents.contains_key(region)
    }

    /// Returns the lowest sequence id of this region's writes in the file.
    pub(crate) fn lowest(&self, region: &[u8]) -> Option<u64> {
        self.extents.get(region).map(|extent| extent.0)
    }
}

/// Passes each write of a file to `act`, and returns the reader at the file's end.
fn read(files: &Arc<dyn Files>, name: &FileName, act: &mut dyn FnMut(Entry) -> Result<()>) -> Result<Reader> {
    let mut reader = Reader::open(files.open(name)?, name.clone())?;
    while let Some(entry) = reader.next_entry()? {
        // Entries without cells are markers, for example of a flush. They are skipped, because the store files show
        // what they say.
        if entry.cells.count() > 0 {
            act(entry)?;
        }
    }
    Ok(reader)
}

/// Returns the logs of region servers below `folder`, which has a folder for each server, like `WALs`.
pub(crate) fn logs_of_servers(files: &dyn Files, folder: &FileName) -> Result<Vec<FileName>> {
    let mut found = Vec::new();
    for entry in files.list(folder)? {
        // Log files of Bellows are directly in the folder, those of HBase in a folder of their server.
        if let Some((server, _)) = entry.name.below(folder).and_then(|below| below.split_once('/'))
            && server.contains(',')
        {
            found.push(entry.name);
        }
    }
    // HBase ends a log's name with the time at which the file was begun.
    let time = |name: &FileName| {
        let name = name.last().trim_end_matches(".meta").to_owned();
        name.rsplit('.').next().and_then(|number| number.parse::<u64>().ok())
    };
    found.sort_by_key(|name| (time(name), name.clone()));
    Ok(found)
}

/// The progress of copying the writes of one region.
#[derive(Default)]
struct Progress {
    /// The files that have writes of the region, in the order of the writes' sequence ids.
    files: VecDeque<usize>,
    last: Option<u64>,
    /// The sequence id at which the writes of the next file begin, if the current file has later writes.
    overlaps_from: Option<u64>,
    /// The sequence ids that were copied and may occur again in the next file.
    recent: HashSet<u64>,
}

/// Copies the writes of all files, or those of one region, to `log`. Nothing is durable until the log is closed.
fn copy(files: &[LogFile], only: Option<&[u8]>, log: &Log) -> Result<()> {
    let mut regions = BTreeMap::<&[u8], Progress>::new();
    for (index, file) in files.iter().enumerate() {
        for region in file.extents.keys().filter(|region| only.is_none_or(|only| only == &region[..])) {
            regions.entry(region).or_default().files.push_back(index);
        }
    }
    for (region, progress) in &mut regions {
        progress.files.make_contiguous().sort_by_key(|&index| files[index].extents[*region].0);
    }
    while regions.values().any(|progress| !progress.files.is_empty()) {
        for (index, file) in files.iter().enumerate() {
            copy_due(index, file, files, &mut regions, log)?;
        }
    }
    Ok(())
}

/// Copies the writes of those regions for which `file` is the next file in their order.
fn copy_due(
    index: usize,
    file: &LogFile,
    files: &[LogFile],
    regions: &mut BTreeMap<&[u8], Progress>,
    log: &Log,
) -> Result<()> {
    let mut due: HashSet<&[u8]> = HashSet::default();
    for (region, progress) in &mut *regions {
        if progress.files.front() == Some(&index) {
            progress.files.pop_front();
            let next = progress.files.front().map(|&next| files[next].extents[*region].0);
            progress.overlaps_from = next.filter(|next| *next <= file.extents[*region].1);
            due.insert(*region);
        }
    }
    if due.is_empty() {
        return Ok(());
    }
    let mut in_this_file: HashSet<Vec<u8>> = HashSet::default();
    read(&file.files, &file.name, &mut |entry| {
        if !due.contains(&entry.region[..]) {
            return Ok(());
        }
        let progress = regions.get_mut(&entry.region[..]).expect("it is due");
        let sequence = entry.sequence.0;
        let is_repeated = progress
            .last
            .is_some_and(|last| sequence < last || sequence == last && !in_this_file.contains(&entry.region));
        if is_repeated {
            if progress.recent.contains(&sequence) {
                return Ok(());
            }
            return Err(Error::Order {
                file: file.name.clone(),
                region: entry.region.escape_ascii().to_string(),
                sequence,
            });
        }
        progress.last = Some(sequence);
        if !in_this_file.contains(&entry.region) {
            in_this_file.insert(entry.region.clone());
        }
        if progress.overlaps_from.is_some_and(|from| sequence >= from) {
            progress.recent.insert(sequence);
        }
        log.append(&Record {
            kind: Kind::Edit,
            region: &entry.region,
            table: &entry.table,
            sequence: entry.sequence,
            time: entry.time,
            nonce: entry.nonce,
            cells: entry.cells.bytes(),
        })?;
        Ok(())
    })?;
    Ok(())
}

/// Returns the writes of one region as recovery reads them; `None` if there are none.
pub(crate) fn recovered(files: &[LogFile], region: &[u8], world: &World) -> Result<Option<Arc<LogReader>>> {
    if !files.iter().any(|file| file.has(region)) {
        return Ok(None);
    }
    let memory: Arc<dyn Files> = Arc::new(Memory::new());
    let folder = FileName::new(LOGS);
    let (log, _) = Log::open(world.clone(), Arc::clone(&memory), folder.clone(), wal::Options::default())?;
    copy(files, Some(region), &log)?;
    log.close()?;
    Ok(Some(Arc::new(LogReader::open(&memory, &folder)?)))
}

/// Writes the log from which the next start recovers. If a log of this project exists, it comes from an interrupted
/// adoption and is deleted first. Durable when this returns.
pub(crate) fn write_log(files: &[LogFile], place: &Arc<dyn Files>, world: &World) -> Result<()> {
    delete_own_logs(&**place)?;
    if files.iter().all(|file| file.extents.is_empty()) {
        return Ok(());
    }
    let options = wal::Options { owner: "adopt".to_owned(), ..wal::Options::default() };
    let (log, _) = Log::open(world.clone(), Arc::clone(place), FileName::new(LOGS), options)?;
    copy(files, None, &log)?;
    Ok(log.close()?)
}

/// Deletes the log of this project.
pub(crate) fn delete_own_logs(place: &dyn Files) -> Result<()> {
    let folder = FileName::new(LOGS);
    for entry in place.list(&folder)? {
        let below = entry.name.below(&folder).unwrap_or_default();
        if below.ends_with(".wal") || below == "OWNER" || below.starts_with("holders/") {
            place.delete(&entry.name)?;
        }
    }
    Ok(())
}

/// Whether the storage has logs of HBase, also such that HBase no longer needs. If not, HBase had its logs elsewhere.
pub fn has_logs(log: &dyn Files) -> Result<bool> {
    for folder in [LOGS, OLD_LOGS, MASTERS_LOGS, "MasterData/oldWALs"] {
        if !log.list(&FileName::new(folder))?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Closes the log files that a killed HBase has left open, so that all their writes can be read. If a process of HBase
/// still runs, its next write to such a file fails. May be repeated.
pub fn close_logs(log: &dyn Files) -> Result<()> {
    for folder in [LOGS, MASTERS_LOGS] {
        log.seal_all(&logs_of_servers(log, &FileName::new(folder))?)?;
    }
    Ok(())
}

/// Moves HBase's logs, whose writes were copied, to the folder of logs that HBase no longer needs. Deletes them in an
/// object store, where a move would be a copy. Deletes the files of `recovered.edits`, whose writes were copied, too. May
/// be repeated.
pub fn archive_logs(files: &dyn Files, log: &dyn Files) -> Result<()> {
    let is_object_store = !log.capabilities().has(Capability::SyncPrefix);
    for name in logs_of_servers(log, &FileName::new(LOGS))? {
        if !is_object_store {
            let away = FileName::new(OLD_LOGS).join(name.last());
            // An earlier attempt may have left an incomplete copy, which is deleted first.
            log.delete(&away)?;
            storage::copy(&*log.open(&name)?, log, &away)?;
        }
        log.delete(&name)?;
    }
    for name in OnDisk::list(files)?.unreplayed {
        files.delete(&name)?;
    }
    Ok(())
}
