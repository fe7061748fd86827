//! Follows a log while it is written.

use std::sync::Arc;

use env::HashMap;
use storage::{Capability, FileName, FileReader, Files, Kind as StorageKind};

use super::folder::numbered_files;
use super::scan::{OpenFile, SpanBatches, read_header};
use super::{LogReader, OldFile, no_record};
use crate::format::{BATCH_HEADER_LENGTH, HEADER_LENGTH, Header, Kind, Record};
use crate::index::{FileSpan, Sequences};
use crate::owner::{LogOwner, NotedFiles, noted_files, read_owner};
use crate::{Error, Result};

/// A position in a log, between two batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The number of the file; 0 for the first existing file.
    pub file: u64,
    /// The offset in the file, in bytes; 0 for its first batch.
    pub offset: u64,
}

/// Returns the position up to which the log is durable at this moment.
type DurableSource = Arc<dyn Fn() -> LogPosition + Send + Sync>;

/// Number of calls in a row that find nothing new in a growing file before the owner is read. At two requests a call this
/// adds 2.5 % to the cost of following an idle log. A replica with the default poll makes such a call each 1.25 s.
const IDLE_CALLS_MAX: u32 = 20;

/// Follows a log, regardless of its owner, up to what is durable.
///
/// If a file was deleted before it was read, the result is [`Error::Gone`]. To avoid this, a caller
/// [holds](crate::Log::hold) the log's files. A read replica does not hold them; it opens its regions again.
///
/// The owner deletes files in any order, so a deleted file may lie between two others. A number without a file may also
/// be one that the owner has skipped, because a roll failed. In files that [grow part by part](storage::GrowingFile) a
/// gap counts as skipped only if the first `Whole` record after it names the file before it: the owner writes this
/// record in each file, for the file before. Any other gap is [`Error::Gone`], which at worst is a needless opening. So is a
/// log that was deleted and begun anew, whose files have small numbers again: the object `OWNER` tells the two apart. On
/// other storage, which skips numbers whenever it reuses space, only a holder notices every deletion.
pub struct LogTail {
    files: Arc<dyn Files>,
    folder: FileName,
    position: LogPosition,
    /// The newest file that the [reader before](LogTail::after) this tail has found. Up to it no gap has a record that the
    /// reader lacks and a region still needed.
    covered_to: u64,
    /// Returns the durable position, for a log in this process; `None` if only the log's bytes show what is durable.
    durable: Option<DurableSource>,
    /// The file at the current position, if it grows part by part.
    growing: Option<LiveFile>,
    /// Number of calls in a row that found nothing new in `growing`.
    idle_calls: u32,
    /// Whether the next call reads the owner, however much it finds.
    looks_at_owner: bool,
    /// The owner that was last read; `None` if there was none, or if the log is one of this process.
    owner: Option<LogOwner>,
    /// The number of a file that grew part by part and was read to its end. It is not opened again: its owner may delete it.
    ended: Option<u64>,
    /// The reader to which returned batches are added.
    index: Option<Arc<LogReader>>,
    buffer: Vec<u8>,
}

/// A file of the log that its owner has begun.
struct LiveFile {
    number: u64,
    name: FileName,
    reader: Arc<dyn FileReader>,
    header: Header,
}

impl LiveFile {
    fn open(&self) -> OpenFile<'_> {
        let (name, reader, header) = (&self.name, &*self.reader, self.header);
        OpenFile { name, reader, header, size: reader.size() }
    }

    /// Whether the storage says that this file will not grow any more.
    fn is_ended(&self) -> bool {
        self.reader.as_growing().is_some_and(|growing| growing.is_ended())
    }
}

/// How much of a file may be read now.
struct Readable {
    /// The offset after the last durable batch.
    end: u64,
    /// Whether the file will not grow any more.
    is_all: bool,
}

impl LogTail {
    /// Follows the log in `folder` from `from` on. What is durable is determined from the log's bytes alone: a batch
    /// counts when a later batch or file says that it was synced. So the last batches of an idle log are returned only
    /// when more is written. In files that [grow part by part](storage::GrowingFile) everything that can be read is
    /// durable, and is returned at once; a call that finds nothing new costs two requests, and each 20th
    /// such call in a row three. In a closed log it costs one.
    pub fn open(files: Arc<dyn Files>, folder: FileName, from: LogPosition) -> LogTail {
        LogTail {
            files,
            folder,
            position: from,
            covered_to: 0,
            durable: None,
            growing: None,
            idle_calls: 0,
            looks_at_owner: false,
            owner: None,
            ended: None,
            index: None,
            buffer: Vec::new(),
        }
    }

    /// Follows the log in `folder` from the end of `reader` on, and [adds](LogTail::note_in) to it what is returned. All
    /// files that were deleted before the reader was opened were not needed any more, so regions that are opened after the
    /// reader miss nothing.
    pub fn after(reader: &Arc<LogReader>, folder: FileName) -> LogTail {
        let tail = LogTail::open(Arc::clone(&reader.place), folder, reader.end());
        let owner = reader.owner.clone();
        LogTail { covered_to: reader.newest, index: Some(Arc::clone(reader)), owner, ..tail }
    }

    pub(crate) fn with_source(self, durable: DurableSource) -> LogTail {
        LogTail { durable: Some(durable), ..self }
    }

    /// Adds to `reader` every batch that is returned from now on; `reader` must have the log at least up to the
    /// position of this tail. So the reader always has what the tail has returned, without reading it again.
    pub fn note_in(&mut self, reader: Arc<LogReader>) {
        self.index = Some(reader);
    }

    /// Returns the position after the last returned record.
    pub fn position(&self) -> LogPosition {
        self.position
    }

    /// Lets the next call find everything that was acknowledged before it, also by an owner that has taken the log over or
    /// begun it anew. Without this, a call may rely on a growing file that nobody writes any more, up to 20 times in a row.
    /// Costs one request.
    pub fn look_at_owner(&mut self) {
        self.looks_at_owner = true;
    }

    /// Whether the file at the tail's position has ended, and no later one was found: the log is closed, or was, before its
    /// owner began another file.
    pub fn is_at_end(&self) -> bool {
        self.growing.is_none()
    }

    /// Passes each record, edit or marker, that became durable since the last call to `each`, in order. Returns the
    /// number of these records. When `each` fails, the next call repeats the batch in which it failed.
    ///
    /// Fails with [`Error::Gone`] when a file was deleted before it was read to its end, also between two files that exist, and
    /// when the log was begun anew.
    pub fn advance<E: From<Error>>(
        &mut self,
        mut each: impl FnMut(&Record<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<u64, E> {
        let mut given = 0;
        let looks_at_owner = std::mem::take(&mut self.looks_at_owner);
        if let Some(file) = self.growing.take() {
            let file = self.look_again(file)?;
            let Readable { end, is_all } = self.readable(&file, &[], false)?;
            given += self.give(&file, end, &mut each)?;
            if !is_all && !file.is_ended() {
                self.idle_calls = if given == 0 { self.idle_calls + 1 } else { 0 };
                let looks_at_owner = looks_at_owner || self.idle_calls >= IDLE_CALLS_MAX;
                if !looks_at_owner || !self.is_superseded(&file)? {
                    self.growing = Some(file);
                    return Ok(given);
                }
            }
            self.ended = is_all.then_some(file.number);
        }
        // The durable position is read before the listing. So the listing has every file that contains durable records.
        let durable = self.durable.as_ref().map(|source| source());
        let mut files = self.begun_files()?;
        for (index, file) in files.iter().enumerate() {
            if durable.is_some_and(|durable| file.number > durable.file) {
                break;
            }
            if !self.is_next(file)? {
                let number = self.position.file + 1;
                return Err(Error::Gone { folder: self.folder.clone(), number }.into());
            }
            if file.number > self.position.file || self.position.offset < HEADER_LENGTH as u64 {
                self.position = LogPosition { file: file.number, offset: HEADER_LENGTH as u64 };
            }
            let later = &files[index + 1..];
            let Readable { end, is_all } = match durable {
                Some(durable) if file.number == durable.file => {
                    Readable { end: durable.offset, is_all: false }
                }
                _ => self.readable(file, later, durable.is_some())?,
            };
            given += self.give(file, end, &mut each)?;
            if !is_all {
                break;
            }
            self.ended = file.reader.as_growing().is_some().then_some(file.number);
        }
        let is_last = |file: &LiveFile| {
            file.number == self.position.file
                && file.reader.as_growing().is_some()
                && self.ended != Some(file.number)
        };
        self.growing = files.pop().filter(is_last);
        Ok(given)
    }

    /// Opens the file again, and returns it with the bytes that were written meanwhile.
    fn look_again(&self, file: LiveFile) -> Result<LiveFile> {
        let Some(growing) = file.reader.as_growing() else { return Ok(file) };
        match growing.grown() {
            Ok(reader) => Ok(LiveFile { reader, ..file }),
            Err(error) if error.kind() == StorageKind::NotFound => {
                Err(Error::Gone { folder: self.folder.clone(), number: file.number })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the file may never grow although nothing ends it. An owner that was suspended while it began the file may
    /// have created it after the next owner had sealed the log. Neither writes to it, and the tail must list the files
    /// to find the one after it. Or the log was lost while the file grew, and was begun anew.
    fn is_superseded(&mut self, file: &LiveFile) -> Result<bool> {
        self.idle_calls = 0;
        let found = read_owner(&*self.files, &self.folder)?;
        Ok(found.is_none_or(|(owner, noted)| {
            owner.epoch != file.header.epoch
                || noted.is_some_and(|noted| noted.last > file.number)
                || self.owner.as_ref().is_some_and(|known| !known.is(&owner))
        }))
    }

    /// Reads which files the owner has recorded, where listings may be stale. Fails if the log was begun anew.
    fn read_noted(&mut self) -> Result<Option<NotedFiles>> {
        if self.durable.is_some() {
            return noted_files(&*self.files, &self.folder);
        }
        let (owner, noted) = read_owner(&*self.files, &self.folder)?.unzip();
        if self.owner.as_ref().is_some_and(|known| known.is_of_another_log(owner.as_ref())) {
            return Err(Error::Gone { folder: self.folder.clone(), number: self.position.file });
        }
        self.owner = owner;
        Ok(noted.flatten().filter(|_| !self.files.capabilities().has(Capability::ListsAll)))
    }

    /// Returns the files that were begun, from the tail's position on.
    fn begun_files(&mut self) -> Result<Vec<LiveFile>> {
        let mut begun: Vec<LiveFile> = Vec::new();
        let is_ended = self.ended == Some(self.position.file);
        let known = self.owner.clone();
        let noted = self.read_noted()?;
        // An owner records itself, and then each file, before it begins the file. So while nothing is recorded, a closed log
        // costs no listing, however long nobody takes it over.
        let is_known = known.is_some_and(|known| self.owner.as_ref().is_some_and(|owner| known.is(owner)));
        if is_ended && is_known && noted.is_some_and(|noted| noted.last <= self.position.file) {
            return Ok(begun);
        }
        // The files are opened from the last to the first. An owner seals the files of the previous owner before it
        // begins its own. So when a file of a later owner was found first, the bytes that are then found in a file of
        // an earlier owner are complete.
        let numbered = numbered_files(&*self.files, &self.folder, noted)?;
        if let (Some(index), Some((first, _))) = (&self.index, numbered.first()) {
            index.forget_before(*first);
        }
        for (number, name) in numbered.into_iter().rev() {
            if number < self.position.file || (is_ended && number == self.position.file) {
                break;
            }
            let reader = match self.files.open(&name) {
                Ok(reader) => reader,
                Err(error) if error.kind() == StorageKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            let header = read_header(&*reader, reader.size())?;
            if let Some(header) = header.filter(|header| header.number == number) {
                begun.push(LiveFile { number, name, reader, header });
            }
        }
        begun.reverse();
        // The file after one that has ended may not have been begun.
        let first = begun.first().map(|file| file.number);
        if !is_ended && self.position.file != 0 && first != Some(self.position.file) {
            return Err(Error::Gone { folder: self.folder.clone(), number: self.position.file });
        }
        Ok(begun)
    }

    /// Whether no file with records that this tail lacks can have been between the tail's position and `file`.
    fn is_next(&self, file: &LiveFile) -> Result<bool> {
        let before = self.position.file;
        if before == 0 || file.number <= before + 1 || file.number <= self.covered_to {
            return Ok(true);
        }
        Ok(file.reader.as_growing().is_none() || first_whole(file)? == Some(before))
    }

    /// Returns how much of a file may be read. `later` are the files after it. `is_older` says that its owner has begun
    /// a later file.
    fn readable(&self, file: &LiveFile, later: &[LiveFile], is_older: bool) -> Result<Readable> {
        let open = file.open();
        // The next owner has synced everything that it found in the files of earlier owners.
        let is_left = later.iter().any(|other| other.header.epoch > file.header.epoch);
        let all_durable = file.reader.as_growing().is_some();
        let mut whole = self.position.offset;
        let mut synced = whole;
        let mut payload = Vec::new();
        while let Some(header) = open.read_batch(whole, &mut payload)? {
            synced = synced.max(header.synced);
            let offset = whole;
            whole += (BATCH_HEADER_LENGTH + payload.len()) as u64;
            let ends = open
                .records(offset, &payload)
                .try_fold(false, |ends, record| record.map(|record| ends || record.kind == Kind::End))?;
            if ends {
                let is_durable = is_older
                    || is_left
                    || all_durable
                    || header.synced == offset
                    || later.first().is_some_and(|next| says_whole(next, file.number).unwrap_or(false));
                let end = if is_durable { whole } else { synced };
                return Ok(Readable { end, is_all: is_durable });
            }
        }
        if is_left || is_older || file.is_ended() {
            return Ok(Readable { end: whole, is_all: true });
        }
        let end = if all_durable { whole } else { synced.min(whole) };
        Ok(Readable { end, is_all: false })
    }

    /// Passes the records between the tail's position and `end` to `each`, and returns their number.
    fn give<E: From<Error>>(
        &mut self,
        file: &LiveFile,
        end: u64,
        each: &mut impl FnMut(&Record<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<u64, E> {
        let span =
            FileSpan { offset: self.position.offset, length: end.saturating_sub(self.position.offset) };
        let buffer = std::mem::take(&mut self.buffer);
        let mut batches = SpanBatches::new(&file.name, &*file.reader, file.number, span, buffer);
        let mut given = 0;
        while let Some((offset, _, payload)) = batches.next()? {
            let mut rest = payload;
            let mut regions: HashMap<Box<[u8]>, Sequences> = HashMap::default();
            while !rest.is_empty() {
                let (record, after) = Record::read(rest).ok_or_else(|| no_record(&file.name, offset))?;
                rest = after;
                if record.kind == Kind::Edit || record.kind.is_marker() {
                    each(&record)?;
                    given += 1;
                    if self.index.is_some() {
                        match regions.get_mut(record.region) {
                            Some(known) => known.include(Sequences::of(&record)),
                            None => drop(regions.insert(record.region.into(), Sequences::of(&record))),
                        }
                    }
                }
            }
            let span = FileSpan { offset, length: (BATCH_HEADER_LENGTH + payload.len()) as u64 };
            self.position.offset = span.end();
            if let Some(index) = &self.index {
                let (name, reader) = (file.name.clone(), Arc::clone(&file.reader));
                index.note(OldFile { name, number: file.number, reader, regions: 0 }, span, regions);
            }
        }
        self.buffer = batches.into_buffer();
        Ok(given)
    }
}

/// Whether a record in `file` says that file `number` is durable to its end.
fn says_whole(file: &LiveFile, number: u64) -> Result<bool> {
    find_whole(file, |whole| whole >= number).map(|found| found.is_some())
}

/// Returns the number of the file before `file`, according to its first `Whole` record; `None` without such a record.
fn first_whole(file: &LiveFile) -> Result<Option<u64>> {
    find_whole(file, |_| true)
}

/// Returns the file number in the first `Whole` record of `file` for which `is_wanted` returns true.
fn find_whole(file: &LiveFile, is_wanted: impl Fn(u64) -> bool) -> Result<Option<u64>> {
    let open = file.open();
    let (mut offset, mut payload) = (HEADER_LENGTH as u64, Vec::new());
    while open.read_batch(offset, &mut payload)?.is_some() {
        for record in open.records(offset, &payload) {
            let record = record?;
            if record.kind == Kind::Whole && is_wanted(record.sequence.0) {
                return Ok(Some(record.sequence.0));
            }
        }
        offset += (BATCH_HEADER_LENGTH + payload.len()) as u64;
    }
    Ok(None)
}

impl std::fmt::Debug for LogTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogTail")
            .field("folder", &self.folder)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
