//! Reads a log, regardless of its owner. The reader writes, cuts and removes nothing.
//!
//! When the log is opened for reading, only the index is read of a file that ends with an index that can be trusted.
//! Any other file is read once from beginning to end. The reader then knows the spans of each region.
//! [`replay`](LogReader::replay) reads only those, and verifies their checksums. So regions can be replayed in
//! parallel, and memory is bounded by the number of spans, not by their bytes. Damage in a span is found when the span
//! is read.
//!
//! When a region has [taken](LogReader::taken) its records, the reader forgets the region, and closes files that no
//! region needs any more. This matters because a deleted file frees its space only when nobody has it open.

mod folder;
mod scan;
mod tail;

use std::sync::Arc;

use env::HashMap;
use env::sync::Mutex;
use storage::{Capability, FileName, FileReader, Files};

pub(crate) use folder::{FolderContents, numbered_files, read_folder};
use scan::SpanBatches;
pub use tail::{LogPosition, LogTail};

use crate::format::{Kind, Record};
use crate::index::{FileSpan, RegionExtent, Sequences};
use crate::owner::{LogOwner, read_owner};
use crate::{Error, Result};

/// Reads the records of a log, region by region.
pub struct LogReader {
    place: Arc<dyn Files>,
    left: Mutex<NotTaken>,
    torn_tails: Vec<TornTail>,
    end: Mutex<LogPosition>,
    /// The number of the newest file that was begun when this reader was opened; 0 without one.
    newest: u64,
    was_closed: bool,
    /// The owner of the log when this reader was opened; `None` if there was none, or if the caller has sealed the log.
    owner: Option<LogOwner>,
}

/// How a log ends.
struct LogEnd {
    /// The position after the last record.
    position: LogPosition,
    /// The number of the newest file that was begun, which may have no record; 0 without one.
    newest: u64,
    /// Whether the last file has its end.
    was_closed: bool,
}

/// The regions that have not taken their records yet, and the files with these records.
struct NotTaken {
    /// The files of the log; `None` for a file that no region needs any more.
    files: Vec<Option<OldFile>>,
    regions: HashMap<Box<[u8]>, Arc<RegionPlaces>>,
}

#[derive(Clone)]
struct OldFile {
    name: FileName,
    number: u64,
    reader: Arc<dyn FileReader>,
    /// Number of regions with records in the file.
    regions: usize,
}

/// Where a region's records are, in the order of the log.
#[derive(Clone, Debug, Default)]
struct RegionPlaces {
    sequences: Sequences,
    /// The spans of the region's records, each with the index of its file.
    spans: Vec<(u32, FileSpan)>,
}

impl RegionPlaces {
    fn add(&mut self, file: u32, extent: &RegionExtent) {
        self.sequences.include(extent.sequences);
        self.spans.extend(extent.spans.iter().map(|span| (file, *span)));
    }

    /// Iterates over the files in which the region has spans, each once.
    fn files(&self) -> impl Iterator<Item = usize> + '_ {
        self.spans.chunk_by(|left, right| left.0 == right.0).map(|same| same[0].0 as usize)
    }
}

/// Bytes at the end of a file that are ignored, because no later batch or file says that they were ever durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file.
    pub file: FileName,
    /// The offset after the last whole batch, in bytes.
    pub offset: u64,
    /// Number of bytes after that batch. If the file reuses the space of an older one, they may include bytes of the
    /// older file.
    pub bytes: u64,
}

impl LogReader {
    /// Reads the index of the log in `folder`, whose owner may still be writing it. The reader has the records that
    /// exist at this moment; the last of them may not be durable yet.
    ///
    /// Fails with [`Error::Corrupt`] when bytes that were durable are damaged.
    pub fn open(files: &Arc<dyn Files>, folder: &FileName) -> Result<LogReader> {
        let (owner, noted) = read_owner(&**files, folder)?.unzip();
        let noted = noted.flatten().filter(|_| !files.capabilities().has(Capability::ListsAll));
        let reader = read_folder(files, folder, noted)?.reader;
        Ok(LogReader { owner, ..reader })
    }

    fn new(
        place: Arc<dyn Files>,
        mut files: Vec<OldFile>,
        regions: HashMap<Box<[u8]>, RegionPlaces>,
        torn_tails: Vec<TornTail>,
        end: LogEnd,
    ) -> LogReader {
        for places in regions.values() {
            places.files().for_each(|file| files[file].regions += 1);
        }
        let files = files.into_iter().map(|file| (file.regions > 0).then_some(file)).collect();
        let regions = regions.into_iter().map(|(region, places)| (region, Arc::new(places))).collect();
        let LogEnd { position, newest, was_closed } = end;
        let left = Mutex::new(NotTaken { files, regions });
        LogReader { place, left, torn_tails, end: Mutex::new(position), newest, was_closed, owner: None }
    }

    /// Whether the log's owner [closed](crate::Log::close) it. If not, the owner was killed, or still runs.
    pub fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// Returns the position after the last record of this reader, including records that a [tail](LogTail::note_in) has
    /// added. A tail that begins there returns the records that this reader lacks.
    pub fn end(&self) -> LogPosition {
        *self.end.lock()
    }

    /// Adds a batch that a tail has returned.
    fn note(&self, file: OldFile, span: FileSpan, regions: HashMap<Box<[u8]>, Sequences>) {
        let mut end = self.end.lock();
        if (LogPosition { file: file.number, offset: span.offset }) < *end {
            return;
        }
        *end = LogPosition { file: file.number, offset: span.end() };
        let mut left = self.left.lock();
        let NotTaken { files, regions: known } = &mut *left;
        let index = match files.last_mut() {
            // The last file of this reader has grown.
            Some(Some(last)) if last.number == file.number => {
                last.reader = file.reader;
                files.len() - 1
            }
            _ => {
                files.push(Some(file));
                files.len() - 1
            }
        };
        for (region, sequences) in regions {
            let places = Arc::make_mut(known.entry(region).or_default());
            places.sequences.include(sequences);
            match places.spans.last_mut() {
                Some((last, before)) if *last as usize == index && before.end() == span.offset => {
                    before.length += span.length;
                }
                _ => {
                    places.spans.push((index as u32, span));
                    let is_first =
                        !places.spans[..places.spans.len() - 1].iter().any(|(one, _)| *one as usize == index);
                    let file = files[index].as_mut().expect("just noted");
                    file.regions += usize::from(is_first);
                }
            }
        }
    }

    /// Forgets the files with numbers below `first`, which were deleted.
    fn forget_before(&self, first: u64) {
        let mut left = self.left.lock();
        let NotTaken { files, regions } = &mut *left;
        let is_gone: Vec<bool> =
            files.iter().map(|file| file.as_ref().is_some_and(|file| file.number < first)).collect();
        if !is_gone.contains(&true) {
            return;
        }
        regions.retain(|_, places| {
            Arc::make_mut(places).spans.retain(|(index, _)| !is_gone[*index as usize]);
            !places.spans.is_empty()
        });
        for (file, _) in files.iter_mut().zip(&is_gone).filter(|(_, gone)| **gone) {
            *file = None;
        }
    }

    /// Returns the regions that have not taken their records yet.
    pub fn regions(&self) -> Vec<Box<[u8]>> {
        self.left.lock().regions.keys().cloned().collect()
    }

    /// Whether no record is left: the log had none, or all were taken.
    pub fn is_empty(&self) -> bool {
        self.left.lock().regions.is_empty()
    }

    /// Returns the oldest and newest sequence id of a region's edits; `None` when this reader has no edit of the
    /// region, or the region has [taken](LogReader::taken) its records.
    pub fn sequences(&self, region: &[u8]) -> Option<Sequences> {
        let sequences = self.left.lock().regions.get(region)?.sequences;
        (sequences != Sequences::default()).then_some(sequences)
    }

    /// Returns the number of bytes that the replay of a region reads; 0 for a region without records.
    pub fn bytes_of(&self, region: &[u8]) -> u64 {
        let left = self.left.lock();
        left.regions.get(region).map_or(0, |places| places.spans.iter().map(|(_, span)| span.length).sum())
    }

    /// Records that the region has replayed its records or no longer exists, so that this reader can forget them. The
    /// log's files keep the records until all holders release them; see [`Log::flushed`](crate::Log::flushed).
    pub fn taken(&self, region: &[u8]) {
        let mut left = self.left.lock();
        let NotTaken { files, regions } = &mut *left;
        let Some(places) = regions.remove(region) else { return };
        for index in places.files() {
            let file = files[index].as_mut().expect("a file is kept while a region has a span in it");
            file.regions -= 1;
            if file.regions == 0 {
                files[index] = None;
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn open_files(&self) -> usize {
        self.left.lock().files.iter().flatten().count()
    }

    /// Returns the torn tails that were found.
    pub fn torn_tails(&self) -> &[TornTail] {
        &self.torn_tails
    }

    /// Passes each edit of `region` to `each`, in the order of their appends. Like [`read`](LogReader::read) otherwise.
    pub fn replay<E: From<Error>>(
        &self,
        region: &[u8],
        mut each: impl FnMut(&Record<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.read(region, |record| if record.kind == Kind::Edit { each(record) } else { Ok(()) })
    }

    /// Passes each record of `region`, edits and [markers](crate::Marker), to `each`, in the order of their appends.
    /// Passes none if the region has [taken](LogReader::taken) its records. Leaves out a file that the owner has
    /// deleted or reused since the log was opened: its edits are in store files.
    ///
    /// Fails with [`Error::Corrupt`] when bytes that were durable are damaged.
    pub fn read<E: From<Error>>(
        &self,
        region: &[u8],
        each: impl FnMut(&Record<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.read_until(region, LogPosition { file: u64::MAX, offset: 0 }, false, each)
    }

    /// Like [`read`](LogReader::read), for the records before `until`. If `strict`, it is an [error](Error::Gone) when
    /// the owner has deleted or reused a file since the log was opened: a caller that has already read the stores' file
    /// lists needs the records in that file.
    pub fn read_until<E: From<Error>>(
        &self,
        region: &[u8],
        until: LogPosition,
        strict: bool,
        mut each: impl FnMut(&Record<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (places, files) = {
            let left = self.left.lock();
            let Some(places) = left.regions.get(region) else { return Ok(()) };
            (Arc::clone(places), left.files.clone())
        };
        let mut buffer = Vec::new();
        for &(index, span) in &places.spans {
            let OldFile { name, number, reader, .. } =
                files[index as usize].as_ref().expect("a file is kept while a region has a span in it");
            let mut batches = SpanBatches::new(name, &**reader, *number, span, buffer);
            loop {
                let (offset, mut rest) = match batches.next() {
                    Ok(Some((offset, ..))) if (LogPosition { file: *number, offset }) >= until => break,
                    Ok(Some((offset, _, payload))) => (offset, payload),
                    Ok(None) => break,
                    // An owner has given the file up. Either it was the previous owner, just when the log was taken
                    // over: then all edits in the file are in store files. Or it is the current owner, while the file
                    // is read only for its markers: a region with an edit in it would keep the file. If a removed file
                    // cannot be read any more, the error comes from the storage.
                    Err(Error::Corrupt { .. } | Error::Storage(_))
                        if folder::is_given_up(&*self.place, name)? =>
                    {
                        if strict {
                            let folder = name.parent().unwrap_or_else(FileName::root);
                            return Err(Error::Gone { folder, number: *number }.into());
                        }
                        break;
                    }
                    Err(error) => return Err(error.into()),
                };
                while !rest.is_empty() {
                    let (record, after) = Record::read(rest).ok_or_else(|| no_record(name, offset))?;
                    rest = after;
                    if record.region == region {
                        each(&record)?;
                    }
                }
            }
            buffer = batches.into_buffer();
        }
        Ok(())
    }
}

/// Returns the error for a batch whose checksum is right, but whose payload is not a sequence of records.
fn no_record(file: &FileName, offset: u64) -> Error {
    Error::Corrupt {
        file: file.clone(),
        offset,
        what: "record in the batch",
        expected: "a whole record".to_owned(),
        found: "other bytes".to_owned(),
    }
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader")
            .field("regions", &self.left.lock().regions.len())
            .field("torn_tails", &self.torn_tails)
            .finish_non_exhaustive()
    }
}
