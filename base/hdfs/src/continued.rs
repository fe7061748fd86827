//! Log files that survive the failure of DataNodes: when a sync fails, the file goes on in another file of HDFS.
//!
//! A log file consists of one file of HDFS or of several, its *parts*:
//!
//! ```text
//! 00000000000000000012.wal         the first part
//! 00000000000000000012.wal~0001    the second part
//! ```
//!
//! 1. The writer keeps the bytes that are not acknowledged yet.
//! 2. When a sync of the current part fails or exceeds its limit, the writer begins the next part with these bytes, and
//!    syncs it. It never returns to an earlier part. It does not wait until the lease of that part is recovered.
//! 3. A part begins with a header of 32 bytes, which has the offset in the log file at which the part begins. All bytes
//!    before this offset were acknowledged, so they are in the earlier parts.
//! 4. A reader takes from each part the bytes up to the offset at which the next part begins. What follows them was
//!    written to the failed part and never acknowledged there.
//!
//! The header is, in big endian:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `BLWSPART` |
//! | 8 | number of the part, from 1 |
//! | 8 | offset in the log file of the first byte after the header |
//! | 8 | the offset again, with all bits inverted |
//!
//! **Fence.** A part appears, with its first bytes durable, only while this process owns the storage
//! ([`PartFiles::begin_part`]). So the next owner finds all parts when it has taken the storage, seals them, and no
//! further part appears.
//!
//! Deleting a log file deletes its first part first. Parts without a first part are not shown, and are deleted before a
//! log file of the same name is created.

use std::sync::Arc;
use std::time::Duration;

use env::sync::Mutex;
use env::{HashMap, World};
use storage::{
    Capabilities, Entry, Error, FileName, FileReader, FileWriter, Files, Kind, Object, Outcome, Result,
    Settled, Version,
};

/// The first bytes of a part.
const MAGIC: &[u8; 8] = b"BLWSPART";
/// Size of a part's header, in bytes.
const HEADER_LENGTH: u64 = 32;
/// What separates the name of the log file from the number of the part.
const SEPARATOR: char = '~';
/// The first pause between two attempts to begin a part; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Storage that can begin parts of log files.
pub trait PartFiles: Files {
    /// Creates the first part of a log file. A sync of it may take `limit` before it fails.
    fn create_first(&self, name: &FileName, limit: Duration) -> Result<Box<dyn FileWriter>>;

    /// Creates the file `part`, which appears with `bytes` as its durable content. `earlier` is the part before. A sync
    /// may take `limit` before it fails.
    ///
    /// Fails with [`Kind::Sealed`] or [`Kind::InUse`] if this process does not own the storage any more. After another
    /// error the part may appear, but no later than the next part that this process begins.
    fn begin_part(
        &self,
        part: &FileName,
        earlier: &FileName,
        bytes: &[u8],
        limit: Duration,
    ) -> Result<Box<dyn FileWriter>>;
}

/// Limits of log files.
#[derive(Clone, Copy, Debug)]
pub struct PartLimits {
    /// Maximum duration of a sync, after which the file goes on in another part.
    pub sync: Duration,
    /// Greatest value to which the limit of a sync grows while no part can be begun.
    pub sync_max: Duration,
    /// How long the writer tries to begin a part before the sync fails.
    pub patience: Duration,
}

/// Files of which the log files can go on in other parts. All other files are those of the storage below.
pub struct Continued<F> {
    shared: Arc<Shared<F>>,
}

struct Shared<F> {
    base: F,
    is_log: fn(&FileName) -> bool,
    limits: PartLimits,
    world: World,
    /// The log files that this process writes.
    writers: Mutex<HashMap<FileName, Arc<Seal>>>,
}

/// Whether this process has sealed the log file. Locked while a part is begun.
type Seal = Mutex<bool>;

impl<F: PartFiles> Continued<F> {
    /// Creates a layer over `base`. `is_log` says which names are those of log files.
    pub fn new(base: F, is_log: fn(&FileName) -> bool, limits: PartLimits, world: World) -> Continued<F> {
        Continued { shared: Arc::new(Shared { base, is_log, limits, world, writers: Mutex::default() }) }
    }

    /// Returns the storage below.
    pub fn base(&self) -> &F {
        &self.shared.base
    }
}

impl<F: PartFiles> Shared<F> {
    /// Returns the numbers of the later parts of a log file, in order.
    fn later_parts(&self, name: &FileName) -> Result<Vec<u64>> {
        let folder = name.parent().unwrap_or_else(FileName::root);
        let listed = self.base.list(&folder)?;
        let mut parts: Vec<u64> = listed
            .iter()
            .filter_map(|entry| {
                self.parse(&entry.name).filter(|(log, _)| log == name).map(|(_, number)| number)
            })
            .collect();
        parts.sort_unstable();
        Ok(parts)
    }

    /// Returns the log file and the number of a later part; `None` for any other file.
    fn parse(&self, name: &FileName) -> Option<(FileName, u64)> {
        let (log, number) = name.as_str().rsplit_once(SEPARATOR)?;
        let number = number.parse().ok()?;
        let log = FileName::new(log);
        (self.is_log)(&log).then_some((log, number))
    }

    /// Deletes the parts that remain of a deleted log file.
    fn delete_remains(&self, name: &FileName) -> Result<()> {
        let parts = self.later_parts(name)?;
        if parts.is_empty() {
            return Ok(());
        }
        match self.base.open(name) {
            Ok(_) => Err(Error::new(Kind::Exists, Outcome::DidNotHappen, name, "create")),
            Err(error) if error.kind() == Kind::NotFound => {
                parts.into_iter().try_for_each(|number| self.base.delete(&part_name(name, number)))
            }
            Err(error) => Err(error),
        }
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        let numbers = self.later_parts(name)?;
        if numbers.is_empty() {
            return self.base.open(name);
        }
        let names: Vec<FileName> = std::iter::once(name.clone())
            .chain(numbers.iter().map(|number| part_name(name, *number)))
            .collect();
        // The writer has left all parts but the last one. Their end can be read after their leases were recovered.
        for left in &names[..names.len() - 1] {
            self.base.seal(left)?;
        }
        let mut parts: Vec<Part> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let reader = self.base.open(name)?;
            let (begin, header) = match index {
                0 => (0, 0),
                _ => match read_header(&*reader, name, numbers[index - 1])? {
                    Some(begin) => (begin, HEADER_LENGTH),
                    // The part was never durable, so nothing in it was acknowledged.
                    None => continue,
                },
            };
            let end = begin + (reader.size() - header);
            parts.push(Part { reader, header, begin, end });
        }
        for index in 1..parts.len() {
            let begin = parts[index].begin;
            let before = &mut parts[index - 1];
            if before.end < begin || before.begin > begin {
                return Err(Error::new(Kind::TooShort, Outcome::DidNotHappen, name, "open").because(format!(
                    "part {index} of the file has the bytes from {} to {}, and the next one begins at {begin}",
                    before.begin, before.end
                )));
            }
            before.end = begin;
        }
        let name = name.clone();
        Ok(Arc::new(Reader { name, parts }))
    }
}

fn part_name(name: &FileName, number: u64) -> FileName {
    FileName::new(format!("{name}{SEPARATOR}{number:04}"))
}

fn header(number: u64, begin: u64) -> [u8; HEADER_LENGTH as usize] {
    let mut header = [0; HEADER_LENGTH as usize];
    let fields = [*MAGIC, number.to_be_bytes(), begin.to_be_bytes(), (!begin).to_be_bytes()];
    header.as_chunks_mut().0.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    header
}

/// Returns the offset at which a part begins; `None` if the part ends within its header.
fn read_header(reader: &dyn FileReader, name: &FileName, number: u64) -> Result<Option<u64>> {
    let mut found = [0; HEADER_LENGTH as usize];
    if reader.size() < HEADER_LENGTH {
        return Ok(None);
    }
    reader.read_at(0, &mut found)?;
    let begin = u64::from_be_bytes(found.as_chunks().0[2]);
    if found != header(number, begin) {
        return Err(Error::new(Kind::Failed, Outcome::DidNotHappen, name, "read")
            .because("the first 32 bytes are not the header of this part of a log file"));
    }
    Ok(Some(begin))
}

/// A part that is open for reading.
struct Part {
    reader: Arc<dyn FileReader>,
    /// Size of the header, in bytes.
    header: u64,
    /// The offset in the log file of the part's first byte.
    begin: u64,
    /// The offset in the log file at which the next part begins.
    end: u64,
}

/// A log file of several parts that is open for reading.
struct Reader {
    name: FileName,
    parts: Vec<Part>,
}

impl FileReader for Reader {
    fn size(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        let end = offset.saturating_add(length);
        if end > self.size() {
            return Err(Error::new(Kind::TooShort, Outcome::DidNotHappen, &self.name, "read").because(
                format!("{length} bytes at offset {offset} expected, the file has {}", self.size()),
            ));
        }
        for part in &self.parts {
            let (from, to) = (part.begin.max(offset), part.end.min(end));
            if from < to {
                let wanted = &mut buffer[(from - offset) as usize..(to - offset) as usize];
                part.reader.read_at(part.header + (from - part.begin), wanted)?;
            }
        }
        Ok(())
    }
}

/// The only writer of a log file.
struct Writer<F: PartFiles> {
    files: Arc<Shared<F>>,
    name: FileName,
    /// The part that is being written; `None` after it failed.
    part: Option<Box<dyn FileWriter>>,
    part_name: FileName,
    /// The number of the last part that may exist.
    number: u64,
    /// Number of bytes that are certainly durable.
    durable: u64,
    /// The bytes after those.
    pending: Vec<u8>,
    seal: Arc<Seal>,
    /// Why the writer refuses further writes.
    failure: Option<Error>,
}

impl<F: PartFiles> Writer<F> {
    /// Gives up the current part. Its file stays: it has durable bytes.
    fn leave(&mut self, error: &Error) {
        tracing::warn!(
            target: "wal", file = %self.part_name, %error,
            "a log file cannot be written any more; another file is begun"
        );
        drop(self.part.take());
    }

    /// Whether no other part may be begun after this error.
    fn is_final(error: &Error) -> bool {
        matches!(error.kind(), Kind::Sealed | Kind::InUse | Kind::ReadOnly | Kind::Full)
    }

    /// Makes the pending bytes durable in a new part.
    fn go_on(&mut self) -> Result<()> {
        let seal = Arc::clone(&self.seal);
        let sealed = seal.lock();
        if *sealed {
            return Err(Error::new(Kind::Sealed, Outcome::MayHaveHappened, &self.name, "sync"));
        }
        let Shared { base, limits, world, .. } = &*self.files;
        let began = world.moment();
        let (mut limit, mut pause) = (limits.sync, PAUSE_MIN);
        loop {
            self.number += 1;
            let part = part_name(&self.name, self.number);
            let mut bytes = header(self.number, self.durable).to_vec();
            bytes.extend_from_slice(&self.pending);
            let error = match base.begin_part(&part, &self.part_name, &bytes, limit) {
                Ok(writer) => {
                    let ms = world.moment().since(began).as_millis() as u64;
                    tracing::warn!(target: "wal", file = %part, ms, "the log goes on in another file");
                    (self.part, self.part_name) = (Some(writer), part);
                    return Ok(());
                }
                Err(error) => error,
            };
            if Self::is_final(&error) || world.moment().since(began) >= limits.patience {
                return Err(error);
            }
            tracing::warn!(target: "wal", file = %part, %error, "cannot begin another file of the log; it is tried again");
            world.pause(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            limit = (limit * 2).min(limits.sync_max);
        }
    }

    /// Makes all bytes durable, in the current part or in a new one.
    fn make_durable(&mut self) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let synced = self.part.as_mut().map(|part| part.sync());
        let done = match synced {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) if Self::is_final(&error) => Err(error),
            Some(Err(error)) => {
                self.leave(&error);
                self.go_on()
            }
            None => self.go_on(),
        };
        match done {
            Ok(()) => {
                self.durable += self.pending.len() as u64;
                self.pending.clear();
                Ok(())
            }
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }
}

impl<F: PartFiles> Drop for Writer<F> {
    fn drop(&mut self) {
        let mut writers = self.files.writers.lock();
        // Another writer may use this name by now.
        if writers.get(&self.name).is_some_and(|seal| Arc::ptr_eq(seal, &self.seal)) {
            writers.remove(&self.name);
        }
    }
}

impl<F: PartFiles> FileWriter for Writer<F> {
    fn name(&self) -> &FileName {
        &self.name
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.pending.extend_from_slice(bytes);
        match self.part.as_mut().map(|part| part.write(bytes)) {
            Some(Err(error)) if Self::is_final(&error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
            Some(Err(error)) => {
                // The next sync begins another part.
                self.leave(&error);
                Ok(())
            }
            Some(Ok(())) | None => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.make_durable()
    }

    fn size(&self) -> u64 {
        self.durable + self.pending.len() as u64
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.make_durable()?;
        let size = self.size();
        let part = self.part.take().expect("a part is open after a sync");
        match part.finish() {
            Ok(_) => Ok(size),
            Err(error) if Self::is_final(&error) => Err(error),
            // All bytes are durable, and the recovery of the lease ends the file.
            Err(error) => {
                tracing::warn!(target: "wal", file = %self.part_name, %error, "a log file is ended by recovering its lease");
                Ok(size)
            }
        }
    }

    fn abandon(mut self: Box<Self>) {
        if let Some(part) = self.part.take() {
            drop(part);
        }
        // If files remain, they are garbage: nothing names them.
        let _left = self.files.delete(&self.name);
    }
}

impl<F: PartFiles> Shared<F> {
    fn delete(&self, name: &FileName) -> Result<()> {
        let parts = self.later_parts(name)?;
        // Without its first part, the remaining parts are not a file.
        self.base.delete(name)?;
        parts.into_iter().try_for_each(|number| self.base.delete(&part_name(name, number)))
    }
}

impl<F: PartFiles> Files for Continued<F> {
    fn capabilities(&self) -> Capabilities {
        self.base().capabilities()
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        if !(self.shared.is_log)(name) {
            return self.base().create(name);
        }
        self.shared.delete_remains(name)?;
        let part = self.base().create_first(name, self.shared.limits.sync)?;
        let seal = Arc::new(Seal::default());
        self.shared.writers.lock().insert(name.clone(), Arc::clone(&seal));
        Ok(Box::new(Writer {
            files: Arc::clone(&self.shared),
            name: name.clone(),
            part: Some(part),
            part_name: name.clone(),
            number: 0,
            durable: 0,
            pending: Vec::new(),
            seal,
            failure: None,
        }))
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        if (self.shared.is_log)(name) { self.shared.open(name) } else { self.base().open(name) }
    }

    fn sync(&self, name: &FileName) -> Result<()> {
        self.base().sync(name)
    }

    fn seal(&self, name: &FileName) -> Result<()> {
        if !(self.shared.is_log)(name) {
            return self.base().seal(name);
        }
        let seal = self.shared.writers.lock().get(name).cloned();
        if let Some(seal) = seal {
            *seal.lock() = true;
        }
        // No part appears after this listing: the file is sealed, and a writer of another process owns the storage no
        // longer.
        let parts = self.shared.later_parts(name)?;
        self.base().seal(name)?;
        parts.into_iter().try_for_each(|number| self.base().seal(&part_name(name, number)))
    }

    /// Shows a log file with the sum of the sizes of its parts, which may be more than its size.
    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let mut entries = self.base().list(folder)?;
        let mut later: HashMap<FileName, u64> = HashMap::default();
        entries.retain(|entry| match self.shared.parse(&entry.name) {
            Some((log, _)) => {
                *later.entry(log).or_default() += entry.size.saturating_sub(HEADER_LENGTH);
                false
            }
            None => true,
        });
        for entry in &mut entries {
            entry.size += later.get(&entry.name).copied().unwrap_or(0);
        }
        Ok(entries)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        if (self.shared.is_log)(name) { self.shared.delete(name) } else { self.base().delete(name) }
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        self.base().load(name, bytes_max)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        self.base().swap(name, expected, new)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        self.base().settle(name, expected, new)
    }

    fn is_taken_over(&self) -> Result<bool> {
        self.base().is_taken_over()
    }

    fn place(&self) -> String {
        self.base().place()
    }
}

#[cfg(test)]
mod tests;
