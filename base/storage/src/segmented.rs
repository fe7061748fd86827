//! Files that grow, on storage whose files appear whole.
//!
//! An object store has no open file to which a log could append. [`Segmented`] stores a growing file as several
//! objects: the file `F` is the objects `F/00000000.part`, `F/00000001.part` and so on ([`part`] describes their
//! bytes). Each [sync](FileWriter::sync) writes one part, by a conditional put that fails when the object exists. Small
//! objects pass through unchanged.
//!
//! **Order.** A writer has up to eight parts on their way (`flight.rs`), so a later part may be stored before an earlier
//! one. The file ends before the first absent number: a part behind a gap does not belong to it. The writer calls a part
//! durable only when all parts before it are certainly there. So a reader that stops at the first absent number finds
//! every byte that was called durable.
//!
//! **Sealing** a file writes a part, too: a seal with the first absent number, which is the first gap and not the number
//! after the last part. The writer and the sealer compete for that number. The store refuses the second of them, which
//! then reads the part of the first. If the seal is first, the writer never calls that part durable, nor any later one,
//! and no reader goes past the seal, whatever is stored behind it. A put that may have happened is repeated with the
//! same bytes until its outcome is known, so a late reply never makes two contents of one part.
//!
//! **Deleting** a file deletes its first part, without which there is no file, and then the others. A seal is never
//! deleted, because nothing else would refuse a request of the old writer that arrives hours later. A seal has 48
//! bytes, and there is one for each growing file that was sealed.
//!
//! No listing decides which parts count: a listing only says where the search for the first absent number begins. A
//! listed part has the size of its object. One without a payload may be a seal, and the search begins there.

mod budget;
mod flight;
mod kept;
mod part;
mod reader;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use env::World;
use env::sync::Mutex;

use crate::{
    Capabilities, Capability, Entry, Error, FileName, FileReader, FileWriter, Files, Kind, Object, Outcome,
    Result, Settled, Version, swap_confirmed,
};
pub use budget::RequestBudget;
use kept::PartMemory;
use part::{Part, PartKind};
use reader::Reader;
use writer::Writer;

/// Maximum size of an object that is read as a part, in bytes.
const PART_MAX: usize = 1 << 30;
/// Maximum number of files that are sealed at the same time.
const SEALED_AT_ONCE: usize = 16;
/// Default of the maximum number of parts that are requested at the same time.
const READS_MAX: usize = 64;
/// The first pause before a put is repeated; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Storage that stores growing files as parts in other storage; see the module documentation.
#[derive(Clone)]
pub struct Segmented {
    base: Arc<dyn Files>,
    world: World,
    /// How long a put whose outcome is unknown is repeated before the writer fails, by the monotonic clock.
    patience: Duration,
    /// How many requests may be sent; `None`: any number.
    budget: Option<Arc<RequestBudget>>,
    /// Maximum number of parts that are requested at the same time.
    reads_max: usize,
    /// The bytes of the parts that readers keep in memory.
    kept: Arc<PartMemory>,
}

/// The outcome of writing a part.
enum Put {
    /// The part is durable.
    Written,
    /// The name is taken by a part of this kind.
    Taken(PartKind),
}

impl Segmented {
    /// Stores growing files in `base`. A put whose outcome is unknown is repeated for `patience`.
    pub fn new(base: Arc<dyn Files>, world: World, patience: Duration) -> Segmented {
        let kept = Arc::new(PartMemory::new(u64::MAX));
        Segmented { base, world, patience, budget: None, reads_max: READS_MAX, kept }
    }

    /// Requests at most `reads_max` parts of a file, or of [files that are opened together](Files::open_all), at the
    /// same time.
    pub fn reading(self, reads_max: usize) -> Segmented {
        Segmented { reads_max: reads_max.max(1), ..self }
    }

    /// Lets all readers together keep at most `bytes_max` bytes of the parts that they have read, and one part each.
    pub fn keeping(self, bytes_max: u64) -> Segmented {
        Segmented { kept: Arc::new(PartMemory::new(bytes_max)), ..self }
    }

    /// Delays syncs so that the requests stay within `budget`. Of the requests that the storage below repeats by itself,
    /// one is counted.
    pub fn within(self, budget: RequestBudget) -> Segmented {
        Segmented { budget: Some(Arc::new(budget)), ..self }
    }

    /// Counts a request against the budget.
    fn spend(&self) {
        if let Some(budget) = &self.budget {
            budget.spend();
        }
    }

    /// Writes a part unless an object of this name exists. Returns whether the part was written, or the kind of the
    /// part that has the name. A put that failed is repeated as long as `is_wanted` returns true, at most for
    /// `patience` with the time of the requests. What the storage below repeats by itself ends by then, too. The caller
    /// has counted the first request against the budget.
    fn put(&self, name: &FileName, bytes: &[u8], is_wanted: &dyn Fn() -> bool) -> Result<Put> {
        let (began, mut pause) = (self.world.moment(), PAUSE_MIN);
        let bounded = self.base.under_one_deadline();
        let base = bounded.as_deref().unwrap_or(&*self.base);
        let mut outcome = swap_confirmed(base, name, None, bytes);
        loop {
            let mut error = match outcome {
                Ok(_) => return Ok(Put::Written),
                Err(error) => error,
            };
            if error.kind() == Kind::Conflict {
                match base.load(name, PART_MAX) {
                    Ok(found) if found.content == bytes => return Ok(Put::Written),
                    Ok(found) => return Ok(Put::Taken(Part::parse(name, &found.content)?.kind)),
                    // The name was taken, but the part no longer exists. So the file was sealed and then deleted.
                    Err(gone) if gone.kind() == Kind::NotFound => return Ok(Put::Taken(PartKind::Seal)),
                    Err(unknown) => error = unknown,
                }
            }
            if env::planted(30) && error.outcome() == Outcome::MayHaveHappened {
                return Ok(Put::Written);
            }
            let is_final = matches!(error.kind(), Kind::ReadOnly | Kind::Unsupported | Kind::TooLarge);
            if is_final || self.world.moment().since(began) + pause > self.patience || !is_wanted() {
                return Err(error);
            }
            self.world.pause(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            outcome = match base.settle(name, None, bytes) {
                Ok(Settled::Happened(version)) => Ok(version),
                Ok(Settled::DidNotHappen) => {
                    self.spend();
                    swap_confirmed(base, name, None, bytes)
                }
                Ok(Settled::Replaced) => {
                    Err(Error::new(Kind::Conflict, Outcome::MayHaveHappened, name, "write"))
                }
                Err(error) => Err(error),
            };
        }
    }

    /// Reads a part; returns `None` when it does not exist.
    fn part(&self, file: &FileName, number: u32) -> Result<Option<Part>> {
        let name = part::name(file, number);
        match self.base.load(&name, PART_MAX) {
            Ok(found) => Part::parse(&name, &found.content).map(Some),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the payload sizes of the first parts of a file, as far as a listing shows that they certainly have bytes
    /// of the file: up to the first number that it lacks, or a part without payload, which may be a seal.
    fn leading(&self, file: &FileName) -> Result<Vec<u64>> {
        Ok(leading_of(self.listed(file)?))
    }

    /// Returns the number and payload size of each part of the file that a listing shows.
    fn listed(&self, file: &FileName) -> Result<Vec<(u32, u64)>> {
        Ok(parts_among(&self.base.list(file)?, file))
    }

    /// Deletes the listed parts of a file, except the first one and a seal.
    fn delete_later_parts(&self, file: &FileName) -> Result<()> {
        let mut parts = Vec::new();
        for (number, size) in self.listed(file)? {
            let may_be_seal = || Ok::<_, Error>(size == 0 && self.is_seal(file, number)?);
            if number > 0 && !may_be_seal()? {
                parts.push(part::name(file, number));
            }
        }
        self.base.delete_all(&parts)
    }

    fn is_seal(&self, file: &FileName, number: u32) -> Result<bool> {
        Ok(self.part(file, number)?.is_some_and(|part| part.kind == PartKind::Seal))
    }

    /// Deletes parts below `folder` that interrupted deletions have left: those of files without a first part. Returns
    /// the number of such files. Concurrent deletions and a stale listing do no harm.
    pub fn collect(&self, folder: &FileName) -> Result<usize> {
        let mut files: Vec<FileName> = Vec::new();
        for Entry { name, size } in self.base.list(folder)? {
            // Seals are never deleted. They are recognised by having no payload.
            if part::number(name.last()).is_some_and(|number| number > 0)
                && part::payload_size(size) > 0
                && let Some(file) = name.parent()
                && files.last() != Some(&file)
            {
                files.push(file);
            }
        }
        let mut collected = 0;
        for file in files {
            if self.part(&file, 0)?.is_none() {
                self.delete_later_parts(&file)?;
                collected += 1;
            }
        }
        Ok(collected)
    }

    fn absent(&self, file: &FileName, act: &'static str) -> Error {
        Error::new(Kind::NotFound, Outcome::DidNotHappen, file, act)
    }
}

/// Returns the number and payload size of each part of `file` among the objects of a listing.
fn parts_among(listed: &[Entry], file: &FileName) -> Vec<(u32, u64)> {
    let part = |entry: &Entry| Some((part::number(entry.name.below(file)?)?, part::payload_size(entry.size)));
    listed.iter().filter_map(part).collect()
}

/// Returns the payload sizes of the listed parts that certainly have bytes of their file; see [`Segmented::leading`].
fn leading_of(listed: Vec<(u32, u64)>) -> Vec<u64> {
    let is_data = |index: usize, number: u32, size: u64| {
        number as usize == index && (number == 0 || size > 0 || env::planted(35))
    };
    let listed = listed.into_iter().enumerate();
    let leading = listed.take_while(|(index, (number, size))| is_data(*index, *number, *size));
    leading.map(|(_, (_, size))| size).collect()
}

impl Files for Segmented {
    fn capabilities(&self) -> Capabilities {
        let base = self.base.capabilities();
        let kept = [Capability::ListsAll, Capability::OneProcess].into_iter().filter(|&one| base.has(one));
        kept.fold(Capabilities::NONE.with(Capability::SyncPrefix), Capabilities::with)
    }

    /// Creates a growing file. Takes one request, which writes the first part.
    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        Ok(Box::new(Writer::create(self.clone(), name.clone())?))
    }

    /// Opens a growing file. Takes one listing, and a request for each part from the last listed one on.
    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        Ok(Arc::new(Reader::open(self.clone(), name.clone())?))
    }

    /// Opens growing files in one folder. Takes one listing of that folder, one request for each listed part if the
    /// files are small, and two requests for each file that has not ended.
    fn open_all(&self, names: &[FileName]) -> Vec<Result<Arc<dyn FileReader>>> {
        reader::open_all(self, names)
    }

    fn sync(&self, name: &FileName) -> Result<()> {
        self.part(name, 0)?.map(drop).ok_or_else(|| self.absent(name, "sync"))
    }

    fn seal(&self, name: &FileName) -> Result<()> {
        if self.part(name, 0)?.is_none() {
            return Err(self.absent(name, "seal"));
        }
        // The search begins with the last part before the first gap, because that part says whether it ends the file.
        // It refuses the seal, and so does any part that the listing lacks.
        let mut number = match env::planted(37) {
            true => self.listed(name)?.last().map_or(0, |(last, _)| last + 1),
            false => (self.leading(name)?.len() as u32).saturating_sub(1),
        };
        let nonce = self.world.random();
        loop {
            let seal = Part { kind: PartKind::Seal, number, nonce, offset: 0, payload: &[] as &[u8] };
            match self.put(&part::name(name, number), &seal.to_bytes(), &|| true)? {
                Put::Written | Put::Taken(PartKind::Seal | PartKind::End) => return Ok(()),
                Put::Taken(PartKind::Data) => number += 1,
            }
        }
    }

    /// Seals several files at the same time, because each takes four requests.
    fn seal_all(&self, names: &[FileName]) -> Result<()> {
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        env::together("log-seals", SEALED_AT_ONCE.min(names.len()), || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.seal(name)
                    && error.kind() != Kind::NotFound
                {
                    failure.lock().get_or_insert(error);
                    return;
                }
            }
        });
        failure.into_inner().map_or(Ok(()), Err)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        // The file whose part was listed last, and the number of its next part.
        let mut growing: Option<(FileName, u32)> = None;
        for Entry { name, size } in self.base.list(folder)? {
            let file = name.parent().filter(|parent| parent.below(folder).is_some());
            let Some((file, number)) = file.zip(part::number(name.last())) else {
                entries.push(Entry { name, size });
                growing = None;
                continue;
            };
            let payload = part::payload_size(size);
            match &mut growing {
                // A part that follows a seal does not count. Seals have no payload.
                Some((open, next)) if *open == file && *next == number && payload > 0 => {
                    *next += 1;
                    entries.last_mut().expect("its first part was listed").size += payload;
                }
                // Only the parts from the first one up to the first gap count.
                _ if number == 0 => {
                    entries.push(Entry { name: file.clone(), size: payload });
                    growing = Some((file, 1));
                }
                _ => {}
            }
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        self.base.delete(&part::name(name, 0))?;
        self.delete_later_parts(name)?;
        self.base.delete(name)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        match self.base.load(name, bytes_max) {
            Err(error) if error.kind() == Kind::NotFound => {}
            loaded => return loaded,
        }
        let reader = Reader::open(self.clone(), name.clone())?;
        if reader.size() > bytes_max as u64 {
            return Err(Error::new(Kind::TooLarge, Outcome::DidNotHappen, name, "read"));
        }
        let mut content = vec![0; reader.size() as usize];
        reader.read_at(0, &mut content)?;
        Ok(Object { content, version: Version::new(*b"a growing file") })
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        self.spend();
        self.base.swap(name, expected, new)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        self.base.settle(name, expected, new)
    }

    fn sync_pause(&self, waited: Duration) -> Duration {
        self.budget.as_ref().map_or(Duration::ZERO, |budget| budget.pause(waited))
    }

    fn place(&self) -> String {
        self.base.place()
    }
}

#[cfg(test)]
mod tests;
