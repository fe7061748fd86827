//! Reads all files of a log. Decides which exist, which of them count, and what they contain.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use env::HashMap;
use storage::{FileName, FileReader, Files};

use super::scan::{FileContents, OpenFile, read_header};
use super::{LogEnd, LogPosition, LogReader, OldFile, RegionPlaces, TornTail};
use crate::format::{HEADER_LENGTH, VERSION_OVER};
use crate::log::{LogFile, file_name};
use crate::owner::NotedFiles;
use crate::{Error, Result};

/// Maximum number of files whose indexes are read at the same time.
const INDEXES_AT_ONCE: usize = 16;

/// The content of a log's folder.
pub(crate) struct FolderContents {
    pub(crate) reader: LogReader,
    /// All files of the log, by number.
    pub(crate) live: BTreeMap<u64, LogFile>,
    /// The files that are not known to be durable to their end.
    pub(crate) unsynced: Vec<FileName>,
    pub(crate) epoch_max: u64,
    pub(crate) number_max: u64,
    /// The lowest number of a file that was there; `None` without one.
    pub(crate) first: Option<u64>,
}

/// Returns the files of a log, by number: those that are listed, and those that its owner has `noted`, some of which
/// may not exist. Fails if the folder has a file that cannot belong to a log.
pub(crate) fn numbered_files(
    files: &dyn Files,
    folder: &FileName,
    noted: Option<NotedFiles>,
) -> Result<Vec<(u64, FileName)>> {
    let mut numbered = Vec::new();
    for entry in files.list(folder)? {
        let below = entry.name.below(folder).unwrap_or_default();
        match below.strip_suffix(".wal").and_then(|digits| digits.parse::<u64>().ok()) {
            Some(number) => numbered.push((number, entry.name)),
            None if is_other_part(below) => {}
            None => {
                return Err(Error::Storage(format!(
                    "{} is not a file of the log: move it out of the folder",
                    entry.name
                )));
            }
        }
    }
    if let Some(NotedFiles { first, last }) = noted
        && !env::planted(29)
    {
        numbered.extend((first..=last).map(|number| (number, file_name(folder, number))));
    }
    numbered.sort_unstable();
    numbered.dedup();
    Ok(numbered)
}

/// Whether `below`, a name relative to the log's folder, is no log file but may be there: an owner or holder object of
/// the log, or a file in one of HBase's folders `host,port,start code`, which are in the same place.
fn is_other_part(below: &str) -> bool {
    below == crate::owner::OWNER
        || below.starts_with(crate::holder::HOLDERS_WITH_SLASH)
        || below.split_once('/').is_some_and(|(folder, _)| folder.contains(','))
}

/// The result of reading one file of the log.
enum Look {
    /// The file was deleted, or is a spare (`is_void`): nothing in it is needed.
    Nothing {
        name: FileName,
        size: u64,
        cut: Option<TornTail>,
        is_void: bool,
    },
    Begun(Box<BegunFile>),
}

impl Look {
    /// Whether the file exists.
    const fn is_there(&self) -> bool {
        !matches!(self, Look::Nothing { size: 0, cut: None, .. })
    }
}

struct BegunFile {
    file: OldFile,
    version: u32,
    epoch: u64,
    size: u64,
    contents: FileContents,
}

impl BegunFile {
    fn number(&self) -> u64 {
        self.file.number
    }
}

pub(crate) fn read_folder(
    files: &Arc<dyn Files>,
    folder: &FileName,
    noted: Option<NotedFiles>,
) -> Result<FolderContents> {
    let numbered = numbered_files(&**files, folder, noted)?;
    let number_max = numbered.last().map_or(0, |(number, _)| *number);
    // From the last to the first, because a later file says whether an earlier one is durable to its end.
    let (mut looks, mut durable_to) = (Vec::with_capacity(numbered.len()), 0);
    let mut whole_of_owner = WholeOfOwner::default();
    // All files are opened before the first is read, so that storage with slow requests can send many at once.
    let names: Vec<FileName> = numbered.iter().rev().map(|(_, name)| name.clone()).collect();
    let opened = files.open_all(&names);
    request_indexes(&names, &opened);
    for ((number, name), opened) in numbered.into_iter().rev().zip(opened) {
        let look = look_at(opened, number, &name, &whole_of_owner);
        // The previous owner may have given the file up while it was read here: it was deleted, or became a spare and
        // was overwritten. Then bad bytes are neither damage nor a torn tail, and an error of the storage is no
        // failure. A file that is still not given up now was not overwritten while it was read.
        let is_doubtful = match &look {
            Err(Error::Corrupt { .. } | Error::Storage(_)) => true,
            Ok(Look::Begun(begun)) => !begun.contents.ended,
            _ => false,
        };
        let look = match look {
            _ if is_doubtful && is_given_up(&**files, &name)? => {
                Look::Nothing { name, size: 0, cut: None, is_void: true }
            }
            look => look?,
        };
        if let Look::Begun(begun) = &look {
            durable_to = durable_to.max(begun.contents.whole_to.unwrap_or(0));
            whole_of_owner.note(begun.epoch, begun.contents.whole_to);
        }
        looks.push((number, look));
    }
    looks.reverse();
    let first = looks.iter().find(|(_, look)| look.is_there()).map(|(number, _)| *number);
    let epoch_max = looks.iter().map(|(_, look)| if let Look::Begun(begun) = look { begun.epoch } else { 0 });
    let epoch_max = epoch_max.max().unwrap_or(0);
    let newest = looks.iter().rev().find(|(_, look)| matches!(look, Look::Begun(_)));
    let newest = newest.map_or(0, |(number, _)| *number);
    let mut found = Assembly::default();
    for (number, look) in looks {
        found.add(number, look)?;
    }
    let unsynced = found.live.range(durable_to + 1..).map(|(_, file)| file.name.clone()).collect();
    let Assembly { old_files, regions, torn_tails, live, before, .. } = found;
    let was_closed = before.as_ref().is_none_or(|last| last.contents.ended);
    let end = before.map(|last| LogPosition { file: last.number(), offset: last.contents.whole });
    let end = LogEnd { position: end.unwrap_or_default(), newest, was_closed };
    let reader = LogReader::new(Arc::clone(files), old_files, regions, torn_tails, end);
    Ok(FolderContents { reader, live, unsynced, epoch_max, number_max, first })
}

/// Reads the indexes of the growing files that were opened, several at a time, so that they are in memory when each file is
/// looked at. The index of a file is a chain of parts, and each step along it is a request.
fn request_indexes(names: &[FileName], opened: &[storage::Result<Arc<dyn FileReader>>]) {
    let growing = names.iter().zip(opened).filter_map(|(name, opened)| Some((name, opened.as_ref().ok()?)));
    let growing: Vec<_> = growing.filter(|(_, reader)| reader.as_growing().is_some()).collect();
    let next = AtomicUsize::new(0);
    env::together("log-indexes", INDEXES_AT_ONCE.min(growing.len()), || {
        while let Some((name, reader)) = growing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let size = reader.size();
            if let Ok(Some(header)) = read_header(&***reader, size) {
                // An error is found again when the file is looked at.
                let _read = OpenFile { name, reader: &***reader, header, size }.read_by_index(true);
            }
        }
    });
}

/// For each owner, by its epoch: its newest file that is durable to its end, according to the owner's later files.
///
/// Only `Whole` records of the same owner count. A file that an earlier owner left torn also becomes durable, when a
/// later owner reads and syncs it. But it has a hole, which the index at its end does not know.
#[derive(Default)]
struct WholeOfOwner(HashMap<u64, u64>);

impl WholeOfOwner {
    fn note(&mut self, epoch: u64, whole_to: Option<u64>) {
        let known = self.0.entry(epoch).or_default();
        *known = (*known).max(whole_to.unwrap_or(0));
    }

    fn includes(&self, epoch: u64, number: u64) -> bool {
        self.0.get(&epoch).is_some_and(|whole_to| *whole_to >= number)
    }
}

/// The records of regions in the files read so far, in order.
#[derive(Default)]
struct Assembly {
    old_files: Vec<OldFile>,
    regions: HashMap<Box<[u8]>, RegionPlaces>,
    torn_tails: Vec<TornTail>,
    live: BTreeMap<u64, LogFile>,
    /// The last file that counts, among those added so far.
    before: Option<BegunFile>,
    /// The files that have no batch.
    empty: Vec<BegunFile>,
}

impl Assembly {
    fn add(&mut self, number: u64, look: Look) -> Result<()> {
        let begun = match look {
            Look::Nothing { name, size, cut, is_void } => {
                self.torn_tails.extend(cut);
                self.live.insert(number, LogFile::found(name, size, !is_void));
                return Ok(());
            }
            Look::Begun(begun) => *begun,
        };
        let mut live = LogFile::found(begun.file.name.clone(), begun.size, true);
        live.parts = begun.file.reader.as_growing().map_or(0, |growing| growing.parts());
        self.torn_tails.extend(begun.contents.cut.clone());
        if begun.contents.is_empty {
            // The file has no batch: its owner created it and died. So the file before it need not have an end.
            self.live.insert(number, live);
            self.empty.push(begun);
            return Ok(());
        }
        let whole_to = begun.contents.whole_to;
        if let Some(lost) = self.empty.iter().find(|empty| whole_to == Some(empty.number())) {
            return Err(no_end(lost, number));
        }
        // The file before this one may have lost all its bytes, and then looks empty. So an empty file counts as lost,
        // unless this file has a `Whole` record for it. An empty file that lost nothing exists only if its removal has
        // failed, so this rule costs no acknowledged record.
        let from = self.before.as_ref().map_or(0, |before| before.number());
        let lost =
            |empty: &BegunFile| empty.epoch == begun.epoch && empty.number() > from && empty.version >= 2;
        if whole_to.is_none()
            && let Some(at) = self.empty.iter().position(lost)
        {
            self.before = Some(self.empty.remove(at));
        }
        let unended = self.before.as_ref().filter(|it| it.epoch == begun.epoch && !it.contents.ended);
        if let Some(before) = unended {
            if before.version < 2 || whole_to.is_some_and(|whole| whole >= before.number()) {
                return Err(no_end(before, number));
            }
            // The power failed before the previous file was durable, so the records of this file would follow a gap.
            // They are ignored.
            let offset = HEADER_LENGTH as u64;
            self.torn_tails.push(TornTail {
                file: begun.file.name.clone(),
                offset,
                bytes: begun.size - offset,
            });
            self.live.insert(number, live);
            return Ok(());
        }
        let index = u32::try_from(self.old_files.len()).expect("fewer log files than 4 billion");
        for (region, extent) in &begun.contents.regions {
            live.note_found(region, extent.sequences);
            self.regions.entry(region.clone()).or_default().add(index, extent);
        }
        live.newest_nonce = begun.contents.newest_nonce;
        self.old_files.push(begun.file.clone());
        self.live.insert(number, live);
        self.before = Some(begun);
        Ok(())
    }
}

/// Returns the error for a file that has no end record although file `later` says that it was durable to its end.
fn no_end(file: &BegunFile, later: u64) -> Error {
    Error::Corrupt {
        file: file.file.name.clone(),
        offset: file.contents.whole,
        what: "a finished file without its end",
        expected: format!("an end record, as file {later} says it was durable"),
        found: format!("{} bytes without one", file.size - file.contents.whole),
    }
}

fn look_at(
    opened: storage::Result<Arc<dyn FileReader>>,
    number: u64,
    name: &FileName,
    whole: &WholeOfOwner,
) -> Result<Look> {
    let reader = match opened {
        Ok(reader) => reader,
        Err(error) if error.kind() == storage::Kind::NotFound => {
            return Ok(Look::Nothing { name: name.clone(), size: 0, cut: None, is_void: true });
        }
        Err(error) => return Err(error.into()),
    };
    let size = reader.size();
    let corrupt = |offset, what, expected: String, found: String| Error::Corrupt {
        file: name.clone(),
        offset,
        what,
        expected,
        found,
    };
    let Some(header) = read_header(&*reader, size)? else {
        if size <= HEADER_LENGTH as u64 {
            // A process died while it created the file, and wrote no record to it. The file need not be the newest one:
            // the next process may have died before it removed the file.
            let cut = Some(TornTail { file: name.clone(), offset: 0, bytes: size });
            return Ok(Look::Nothing { name: name.clone(), size, cut, is_void: false });
        }
        return Err(corrupt(0, "file header", "a whole header".to_owned(), "other bytes".to_owned()));
    };
    if header.version > VERSION_OVER {
        return Err(Error::Newer { file: name.clone(), found: header.version, known: VERSION_OVER });
    }
    if header.is_void() {
        return Ok(Look::Nothing { name: name.clone(), size, cut: None, is_void: true });
    }
    if header.number != number {
        return Err(corrupt(20, "file number", number.to_string(), header.number.to_string()));
    }
    let open = OpenFile { name, reader: &*reader, header, size };
    let contents = match open.read_by_index(whole.includes(header.epoch, number))? {
        Some(contents) => contents,
        None => open.scan()?,
    };
    let file = OldFile { name: name.clone(), number, reader: Arc::clone(&reader), regions: 0 };
    let (version, epoch) = (header.version, header.epoch);
    Ok(Look::Begun(Box::new(BegunFile { file, version, epoch, size, contents })))
}

/// Whether the owner has given the file up: deleted it, or turned it into a spare.
pub(super) fn is_given_up(files: &dyn Files, name: &FileName) -> Result<bool> {
    match files.open(name) {
        Ok(reader) => Ok(read_header(&*reader, reader.size())?.is_some_and(|header| header.is_void())),
        Err(error) if error.kind() == storage::Kind::NotFound => Ok(true),
        Err(error) => Err(error.into()),
    }
}
