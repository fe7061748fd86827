//! Reading what earlier lives left.
//!
//! Every file is read once from end to end when the log is opened: batches are checked, and the place of each record is
//! noted under its region. Replay then reads a region's records alone, so regions can be replayed side by side, and
//! memory is bound by the number of records, not by their size. A file that is not known to be durable is synced before
//! anything of it is given: what one life reads must not be gone in the next. What a region has
//! [taken](Recovered::taken) is let go: an old file that is removed gives its space back only when nobody holds it open.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::SequenceId;
use env::HashMap;
use env::sync::Mutex;
use storage::{FileName, FileReader, Files};

use crate::format::{
    BATCH_HEADER_LENGTH, BatchHeader, HEADER_LENGTH, Header, Kind, NO_NUMBER, RECORD_BEGIN, Record,
    VERSION_OVER,
};
use crate::log::LogFile;
use crate::{Error, Result};

/// What earlier lives left, by region.
pub struct Recovered {
    left: Mutex<Left>,
    cuts: Vec<Cut>,
}

/// What was not taken yet.
#[derive(Default)]
struct Left {
    /// `None` for files that no region needs any more.
    files: Vec<Option<OldFile>>,
    regions: HashMap<Box<[u8]>, Arc<[Place]>>,
}

#[derive(Clone)]
struct OldFile {
    name: FileName,
    reader: Arc<dyn FileReader>,
    /// How many regions have a record in it.
    regions: usize,
}

/// The files in which these places, which are in order, lie; each once.
fn files_of(places: &[Place]) -> impl Iterator<Item = usize> + '_ {
    places.chunk_by(|left, right| left.file == right.file).map(|same| same[0].file as usize)
}

/// A torn tail that was cut: none of it was ever acknowledged as durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: FileName,
    /// Where the whole batches end, in bytes.
    pub offset: u64,
    /// Bytes after it; in a file that was begun in the space of another, some of them may be the other's.
    pub bytes: u64,
}

#[derive(Clone, Copy)]
struct Place {
    file: u32,
    length: u32,
    offset: u64,
}

impl Recovered {
    /// The regions that have records which were not taken yet.
    pub fn regions(&self) -> Vec<Box<[u8]>> {
        self.left.lock().regions.keys().cloned().collect()
    }

    /// Whether nothing was left, or all was taken.
    pub fn is_empty(&self) -> bool {
        self.left.lock().regions.is_empty()
    }

    /// The region has its records, or is gone for good: nobody will ask for them again in this life. They stay in the
    /// log until [`Log::flushed`](crate::Log::flushed).
    pub fn taken(&self, region: &[u8]) {
        let mut left = self.left.lock();
        let Left { files, regions } = &mut *left;
        for index in regions.remove(region).iter().flat_map(|places| files_of(places)) {
            let file = files[index].as_mut().expect("a file is kept while a region has a place in it");
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

    /// The torn tails that were cut.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// Gives each record of `region`, in the order in which they were appended.
    pub fn replay<E: From<Error>>(
        &self,
        region: &[u8],
        mut each: impl FnMut(&Record<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (all, files) = {
            let left = self.left.lock();
            let Some(places) = left.regions.get(region) else { return Ok(()) };
            (Arc::clone(places), left.files.clone())
        };
        let mut buffer = Vec::new();
        let mut places = &all[..];
        while let Some(first) = places.first() {
            let OldFile { name, reader, .. } =
                files[first.file as usize].as_ref().expect("a file is kept while a region has a place in it");
            let (run, rest) = places.split_at(run_length(places));
            places = rest;
            let end = run.last().map_or(first.offset, |last| last.offset + u64::from(last.length));
            buffer.resize((end - first.offset) as usize, 0);
            reader.read_at(first.offset, &mut buffer).map_err(Error::from)?;
            for place in run {
                let at = (place.offset - first.offset) as usize;
                let (record, _) =
                    Record::read(&buffer[at..at + place.length as usize]).ok_or_else(|| Error::Corrupt {
                        file: name.clone(),
                        offset: place.offset,
                        what: "record changed since the log was opened",
                        expected: "the record that was checked".to_owned(),
                        found: "other bytes".to_owned(),
                    })?;
                each(&record)?;
            }
        }
        Ok(())
    }
}

/// Reading this many bytes that belong to other regions costs less than asking the system twice.
const GAP_MAX: u64 = 4 << 10;
/// Bytes that are read in one go, unless a single record is longer.
const RUN_BYTES_MAX: u64 = 256 << 10;

/// How many of `places`, which are not empty, lie so close together that they are read in one go.
fn run_length(places: &[Place]) -> usize {
    let first = &places[0];
    let follows = |pair: &[Place]| {
        let (before, after) = (&pair[0], &pair[1]);
        let gap = after.offset.checked_sub(before.offset + u64::from(before.length));
        after.file == first.file
            && gap.is_some_and(|gap| gap <= GAP_MAX)
            && after.offset + u64::from(after.length) - first.offset <= RUN_BYTES_MAX
    };
    1 + places.windows(2).take_while(|pair| follows(pair)).count()
}

impl std::fmt::Debug for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovered")
            .field("regions", &self.left.lock().regions.len())
            .field("cuts", &self.cuts)
            .finish_non_exhaustive()
    }
}

/// All that a look into the folder tells.
pub(crate) struct Found {
    pub(crate) recovered: Recovered,
    files: Vec<OldFile>,
    regions: HashMap<Box<[u8]>, Vec<Place>>,
    pub(crate) live: BTreeMap<u64, LogFile>,
    pub(crate) epoch_max: u64,
    pub(crate) number_max: u64,
}

pub(crate) fn read_all(files: &Arc<dyn Files>, folder: &FileName) -> Result<Found> {
    let mut found = Found {
        recovered: Recovered { left: Mutex::default(), cuts: Vec::new() },
        files: Vec::new(),
        regions: HashMap::default(),
        live: BTreeMap::new(),
        epoch_max: 0,
        number_max: 0,
    };
    let mut numbered = Vec::new();
    for entry in files.list(folder)? {
        let number = entry.name.last().strip_suffix(".wal").and_then(|digits| digits.parse::<u64>().ok());
        match number {
            Some(number) => numbered.push((number, entry.name)),
            None => {
                return Err(Error::Storage(format!(
                    "{} is not a file of the log: move it out of the folder",
                    entry.name
                )));
            }
        }
    }
    numbered.sort();
    let mut before: Option<Read> = None;
    let mut empty: Vec<Read> = Vec::new();
    let mut durable_to = 0;
    for (number, name) in numbered {
        found.number_max = number;
        let Some((read, mut content)) = read_file(files, number, &name, &mut found)? else { continue };
        durable_to = durable_to.max(read.whole_to.unwrap_or(0));
        if read.is_empty {
            // It was made and never begun, so that the one before need not have an end.
            found.live.insert(number, content.live);
            empty.push(read);
            continue;
        }
        if let Some(lost) = empty.iter().find(|empty| read.whole_to == Some(empty.number)) {
            return Err(no_end(lost, number));
        }
        // Who does not say yet which file it came after may have come after one of which nothing reached the disk. One that was
        // never begun is there only if its removal came to nothing, so this costs what nobody was promised.
        let from = before.as_ref().map_or(0, |before| before.number);
        let lost = |empty: &Read| empty.epoch == read.epoch && empty.number > from && empty.version >= 2;
        if read.whole_to.is_none()
            && let Some(at) = empty.iter().position(lost)
        {
            before = Some(empty.remove(at));
        }
        if let Some(before) = before.as_ref().filter(|before| before.epoch == read.epoch && !before.ended) {
            if before.version < 2 || read.whole_to.is_some_and(|whole| whole >= before.number) {
                return Err(no_end(before, number));
            }
            // The power was lost before the file before was durable: what came after it would leave a gap.
            let offset = HEADER_LENGTH as u64;
            found.recovered.cuts.push(Cut { file: name, offset, bytes: read.size - offset });
            content.live.regions.clear();
            found.live.insert(number, content.live);
            continue;
        }
        for (region, places) in content.places {
            found.regions.entry(region).or_default().extend(places);
        }
        found.live.insert(number, content.live);
        before = Some(read);
    }
    // Who wrote the newest files may have been killed before their last sync. Whoever reads what is replayed relies on it.
    for (_, file) in found.live.range(durable_to + 1..) {
        files.sync(&file.name)?;
    }
    for places in found.regions.values() {
        files_of(places).for_each(|file| found.files[file].regions += 1);
    }
    *found.recovered.left.get_mut() = Left {
        files: found.files.drain(..).map(|file| (file.regions > 0).then_some(file)).collect(),
        regions: found.regions.drain().map(|(region, places)| (region, places.into())).collect(),
    };
    Ok(found)
}

/// `file` was durable to its end, as file `later` says, and has none.
fn no_end(file: &Read, later: u64) -> Error {
    Error::Corrupt {
        file: file.name.clone(),
        offset: file.whole,
        what: "no end of a file that was finished",
        expected: format!("an end record, as file {later} says it was durable"),
        found: format!("{} bytes that are none", file.size - file.whole),
    }
}

/// What was learnt of one file.
struct Read {
    name: FileName,
    number: u64,
    version: u32,
    epoch: u64,
    size: u64,
    /// Whether nothing was written behind its header, as far as that can be told.
    is_empty: bool,
    /// Where the whole batches end.
    whole: u64,
    /// Whether it is whole to its end record.
    ended: bool,
    /// The newest file that it says is durable to its end.
    whole_to: Option<u64>,
}

/// What a file holds.
struct Content {
    live: LogFile,
    places: HashMap<Box<[u8]>, Vec<Place>>,
}

/// `None` for a file that was never begun.
fn read_file(
    files: &Arc<dyn Files>,
    number: u64,
    name: &FileName,
    found: &mut Found,
) -> Result<Option<(Read, Content)>> {
    let file = files.open(name)?;
    let size = file.size();
    let corrupt = |offset, what, expected: String, found: String| Error::Corrupt {
        file: name.clone(),
        offset,
        what,
        expected,
        found,
    };
    let mut live = LogFile { name: name.clone(), bytes: size, regions: HashMap::default(), is_read: true };
    if size <= HEADER_LENGTH as u64 && read_header(&*file, size)?.is_none() {
        // A process died while it made the file; nothing was ever appended to it. It need not be the newest: the
        // next process may have died before it removed it.
        found.recovered.cuts.push(Cut { file: name.clone(), offset: 0, bytes: size });
        found.live.insert(number, live);
        return Ok(None);
    }
    let header = read_header(&*file, size)?
        .ok_or_else(|| corrupt(0, "file header", "a whole header".to_owned(), "other bytes".to_owned()))?;
    if header.version > VERSION_OVER {
        return Err(Error::Newer { file: name.clone(), found: header.version, known: VERSION_OVER });
    }
    let is_over = header.version == VERSION_OVER;
    if is_over && header.number == NO_NUMBER {
        // It waited for its turn, or for its name.
        live.is_read = false;
        found.live.insert(number, live);
        return Ok(None);
    }
    if header.number != number {
        return Err(corrupt(20, "file number", number.to_string(), header.number.to_string()));
    }
    found.epoch_max = found.epoch_max.max(header.epoch);
    let index = u32::try_from(found.files.len()).expect("fewer log files than 4 billion");
    found.files.push(OldFile { name: name.clone(), reader: Arc::clone(&file), regions: 0 });

    let mut offset = HEADER_LENGTH as u64;
    let mut payload = Vec::new();
    let (mut ended, mut whole_to) = (false, None);
    let mut places: HashMap<_, _> = HashMap::default();
    while offset < size && !ended {
        if !read_batch(&*file, number, offset, size, &mut payload)? {
            let sign = match is_over {
                true => later_batch(&*file, number, offset, size, offset + 1)?
                    .map(|later| format!("the one at offset {later} says it was durable")),
                false => damage(&*file, number, offset, size)?,
            };
            if let Some(sign) = sign {
                let expected = format!("a whole batch ({sign})");
                return Err(corrupt(offset, "batch checksum", expected, "other bytes".to_owned()));
            }
            if !(is_over && are_zeros(&*file, offset, size)?) {
                found.recovered.cuts.push(Cut { file: name.clone(), offset, bytes: size - offset });
            }
            break;
        }
        let payload_at = offset + BATCH_HEADER_LENGTH as u64;
        let mut rest = &payload[..];
        while !rest.is_empty() {
            let at = payload_at + (payload.len() - rest.len()) as u64;
            let (record, after) = Record::read(rest).ok_or_else(|| {
                corrupt(at, "record", "a whole record".to_owned(), "other bytes".to_owned())
            })?;
            match record.kind {
                Kind::End => ended = true,
                Kind::Whole => whole_to = whole_to.max(Some(record.sequence.0)),
                Kind::Edit | Kind::Open => note(&mut places, &mut live, index, at, &record),
            }
            rest = after;
        }
        offset = payload_at + payload.len() as u64;
    }
    if ended && offset < size && !is_over {
        return Err(corrupt(
            offset,
            "bytes after the end",
            "nothing".to_owned(),
            format!("{} bytes", size - offset),
        ));
    }
    // Where the first batch is not whole, one behind it tells that the file was begun.
    let is_empty = match is_over {
        true => {
            offset <= HEADER_LENGTH as u64 && later_batch(&*file, number, offset, size, offset)?.is_none()
        }
        false => size <= HEADER_LENGTH as u64,
    };
    let read = Read {
        name: name.clone(),
        number,
        version: header.version,
        epoch: header.epoch,
        size,
        is_empty,
        whole: offset,
        ended,
        whole_to,
    };
    Ok(Some((read, Content { live, places })))
}

fn note(
    regions: &mut HashMap<Box<[u8]>, Vec<Place>>,
    live: &mut LogFile,
    file: u32,
    offset: u64,
    record: &Record<'_>,
) {
    let place = Place { file, length: record.size() as u32, offset };
    match regions.get_mut(record.region) {
        Some(places) => places.push(place),
        None => {
            regions.insert(record.region.into(), vec![place]);
        }
    }
    let newest: &mut SequenceId = live.regions.entry(record.region.into()).or_default();
    *newest = (*newest).max(record.sequence);
}

fn read_header(file: &dyn FileReader, size: u64) -> Result<Option<Header>> {
    if size < HEADER_LENGTH as u64 {
        return Ok(None);
    }
    let mut bytes = [0; HEADER_LENGTH];
    file.read_at(0, &mut bytes)?;
    Ok(Header::parse(&bytes))
}

/// Reads the batch at `offset` into `payload`; false when there is no whole one.
fn read_batch(
    file: &dyn FileReader,
    number: u64,
    offset: u64,
    size: u64,
    payload: &mut Vec<u8>,
) -> Result<bool> {
    let room = size - offset;
    if room < BATCH_HEADER_LENGTH as u64 {
        return Ok(false);
    }
    let mut header = [0; BATCH_HEADER_LENGTH];
    file.read_at(offset, &mut header)?;
    let header = BatchHeader::parse(header);
    // No batch is empty, and none claims more than the file has.
    if header.length == 0 || u64::from(header.length) > room - BATCH_HEADER_LENGTH as u64 {
        return Ok(false);
    }
    payload.resize(header.length as usize, 0);
    file.read_at(offset + BATCH_HEADER_LENGTH as u64, payload)?;
    Ok(header.fits(number, offset, payload))
}

/// What a disk writes whole or not at all, in bytes.
const SECTOR: u64 = 512;
/// The part of a sector from which on zeros are no accident: a batch does not begin with as many.
const ZEROS_MIN: usize = 8;

/// Why the bad batch at `bad` is damage and not a torn tail, if it is.
///
/// A whole batch behind it that says the bytes at `bad` were durable proves it. So does any whole batch behind it, unless
/// there is a hole between the two: when the power goes, sectors that were not written are zeros, and later ones may
/// have been; a process that is killed leaves no hole.
fn damage(file: &dyn FileReader, number: u64, bad: u64, size: u64) -> Result<Option<String>> {
    let mut tail = vec![0; (size - bad) as usize];
    file.read_at(bad, &mut tail)?;
    let mut whole = None;
    for at in 1..tail.len().saturating_sub(BATCH_HEADER_LENGTH) {
        let Some((header, rest)) = tail[at..].split_first_chunk::<BATCH_HEADER_LENGTH>() else { break };
        let header = BatchHeader::parse(*header);
        let offset = bad + at as u64;
        if header.synced <= offset
            && header.length > 0
            && (header.synced > bad || whole.is_none())
            && let Some(payload) = rest.get(..header.length as usize)
            && Record::read(payload).is_some()
            && header.fits(number, offset, payload)
        {
            if header.synced > bad {
                return Ok(Some(format!("the one at offset {offset} says it was durable")));
            }
            whole = Some(at);
        }
    }
    Ok(whole
        .filter(|&at| !has_hole(&tail[..at], bad))
        .map(|at| format!("there is one at offset {}", bad + at as u64)))
}

/// How much of a file is looked through at a time, in bytes.
const WINDOW: usize = 256 << 10;

/// Where behind `bad` there is a whole batch that says at least `synced` bytes were durable, if there is one. In a file over an
/// older one, where a sector that was not written cannot be told from one that is damaged, that alone is a sign of damage.
///
/// Much may lie behind the end of such a file, and whatever somebody once wrote may look like the header of a long batch,
/// again and again; so the record behind it is looked at before the batch is read.
fn later_batch(file: &dyn FileReader, number: u64, bad: u64, size: u64, synced: u64) -> Result<Option<u64>> {
    const LOOK: usize = BATCH_HEADER_LENGTH + RECORD_BEGIN;
    let (mut window, mut payload) = (Vec::new(), Vec::new());
    let mut at = bad + 1;
    while at + LOOK as u64 <= size {
        window.resize(WINDOW.min((size - at) as usize), 0);
        file.read_at(at, &mut window)?;
        for (index, bytes) in window.windows(LOOK).enumerate() {
            let offset = at + index as u64;
            let (header, record) = bytes.split_first_chunk().expect("a window has as many");
            let header = BatchHeader::parse(*header);
            if header.synced >= synced
                && header.synced <= offset
                && Record::may_begin_with(record.first_chunk().expect("a window has as many"), header.length)
                && read_batch(file, number, offset, size, &mut payload)?
            {
                return Ok(Some(offset));
            }
        }
        at += (window.len() - LOOK + 1) as u64;
    }
    Ok(None)
}

/// Whether what follows `offset` are the zeros with which a write into the space of another file ends.
fn are_zeros(file: &dyn FileReader, offset: u64, size: u64) -> Result<bool> {
    let mut bytes = [0; storage::ZEROS_MIN];
    let bytes = &mut bytes[..storage::ZEROS_MIN.min((size - offset) as usize)];
    file.read_at(offset, bytes)?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// Whether a sector, or what of one lies in `bytes`, which begin at `offset` of their file, is nothing but zeros.
fn has_hole(bytes: &[u8], offset: u64) -> bool {
    let first = (SECTOR - offset % SECTOR) as usize;
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    std::iter::once(head)
        .chain(rest.chunks(SECTOR as usize))
        .any(|part| part.len() >= ZEROS_MIN && part.iter().all(|&byte| byte == 0))
}
