//! The log that is being written: its buffer, its files, and what may be forgotten.
//!
//! Two locks, always taken back before front. The *front* holds what appenders touch: the buffer and who waits. The
//! *back* holds the file; whoever has it takes the buffer away in one exchange and writes it as one batch, while
//! appending goes on into the other buffer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cell::SequenceId;
use env::{Priority, Thread};
use parking_lot::{Condvar, Mutex};
use storage::{FileName, FileWriter, Files};

use crate::commit::{Durable, Waiter};
use crate::format::{BATCH_HEADER_LENGTH, BatchHeader, HEADER_LENGTH, Header, Kind, Record, VERSION};
use crate::recover::{self, Recovered};
use crate::{Error, Level, Result, Ticket};

/// Limits of the log.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes after which a file is ended and another begun (`hbase.regionserver.hlog.blocksize` times
    /// `hbase.regionserver.logroll.multiplier` in HBase; 128 MB × 0.5).
    pub file_bytes_max: u64,
    /// Bytes that may wait in the buffer; an append beyond writes them out itself.
    pub buffer_bytes_max: usize,
    /// Bytes of one record.
    pub record_bytes_max: usize,
    /// Files after which regions are asked to flush (`hbase.regionserver.maxlogs`).
    pub files_max: usize,
    /// How long a write that nobody waits for may stay in the buffer (`hbase.regionserver.optionallogflushinterval`).
    pub idle_write: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            file_bytes_max: 64 << 20,
            buffer_bytes_max: 16 << 20,
            record_bytes_max: 1 << 30,
            files_max: 32,
            idle_write: Duration::from_secs(1),
        }
    }
}

/// The write-ahead log of a server.
pub struct Log {
    shared: Arc<Shared>,
    syncer: Mutex<Option<Thread<()>>>,
}

/// What appenders, waiters and the syncing thread share.
pub(crate) struct Shared {
    pub(crate) front: Mutex<Front>,
    pub(crate) back: Mutex<Back>,
    /// Told when somebody waits for the disk, or the log ends.
    pub(crate) disk_wanted: Condvar,
    /// Stream positions handed to the system, and on the disk.
    written: AtomicU64,
    durable: AtomicU64,
    /// Set once, before the failure it goes with.
    fenced: AtomicBool,
    files: Arc<dyn Files>,
    folder: FileName,
    options: Options,
    epoch: u64,
}

pub(crate) struct Front {
    /// A batch in the making; its first bytes wait for the batch's header.
    buffer: Vec<u8>,
    /// The newest sequence id of each region in the buffer.
    regions: HashMap<Box<[u8]>, SequenceId>,
    appended: u64,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) disk_wanted: u64,
    /// The file is full, and who found it so could not wait for the disk.
    roll_wanted: bool,
    pub(crate) failure: Option<Error>,
    stopping: bool,
}

pub(crate) struct Back {
    writer: Option<Box<dyn FileWriter>>,
    number: u64,
    synced_offset: u64,
    spare: Vec<u8>,
    live: BTreeMap<u64, LogFile>,
    /// Files that nobody needs, not yet removed.
    unneeded: Vec<FileName>,
    flushed: HashMap<Box<[u8]>, SequenceId>,
}

/// A file that some region may still need.
pub(crate) struct LogFile {
    pub(crate) name: FileName,
    pub(crate) bytes: u64,
    /// The newest sequence id of each region in it.
    pub(crate) regions: HashMap<Box<[u8]>, SequenceId>,
}

impl Log {
    /// Reads what earlier lives left in `folder` and begins a new file after it.
    ///
    /// Fails with [`Error::Corrupt`] when bytes that were durable are damaged; a torn tail is cut and told by
    /// [`Recovered::cuts`].
    pub fn open(files: Arc<dyn Files>, folder: FileName, options: Options) -> Result<(Log, Recovered)> {
        let found = recover::read_all(&files, &folder)?;
        let (epoch, number) = (found.epoch_max + 1, found.number_max + 1);
        let recovered = found.recovered;
        let mut back = Back {
            writer: None,
            number,
            synced_offset: 0,
            spare: empty_batch(),
            live: found.live,
            unneeded: Vec::new(),
            flushed: HashMap::new(),
        };
        begin_file(&files, &folder, epoch, &mut back)?;
        // What earlier lives left empty or torn before the first record is needed by nobody.
        back.forget();
        let shared = Arc::new(Shared {
            front: Mutex::new(Front {
                buffer: empty_batch(),
                regions: HashMap::new(),
                appended: 0,
                waiters: Vec::new(),
                disk_wanted: 0,
                roll_wanted: false,
                failure: None,
                stopping: false,
            }),
            back: Mutex::new(back),
            disk_wanted: Condvar::new(),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            fenced: AtomicBool::new(false),
            files,
            folder,
            options,
            epoch,
        });
        let syncing = Arc::clone(&shared);
        let syncer = env::spawn_thread("wal-sync", Priority::Foreground, move || syncing.sync_for_waiters())
            .map_err(|error| Error::Storage(format!("cannot start the log's thread: {error}")))?;
        let log = Log { shared, syncer: Mutex::new(Some(syncer)) };
        log.remove_unneeded();
        Ok((log, recovered))
    }

    /// Copies `record` into the buffer. Order of appending is order in the log.
    pub fn append(&self, record: &Record<'_>) -> Result<Ticket> {
        let size = record.size();
        if size > self.shared.options.record_bytes_max {
            return Err(Error::TooLarge { found: size, limit: self.shared.options.record_bytes_max });
        }
        let mut front = self.shared.front.lock();
        if front.buffer.len() + size > self.shared.options.buffer_bytes_max
            && front.buffer.len() > BATCH_HEADER_LENGTH
        {
            drop(front);
            {
                let mut back = self.shared.back.lock();
                // Its failure is found again, with the same words, below.
                let _dead = self.shared.drain(&mut back, WhenFull::Roll);
            }
            self.shared.wake_reached();
            front = self.shared.front.lock();
        }
        if let Some(failure) = &front.failure {
            return Err(failure.clone());
        }
        record.write(&mut front.buffer);
        match front.regions.get_mut(record.region) {
            Some(newest) => *newest = (*newest).max(record.sequence),
            None => {
                front.regions.insert(record.region.into(), record.sequence);
            }
        }
        front.appended += size as u64;
        Ok(Ticket(front.appended))
    }

    /// Waits, as a future, until `ticket` has reached `level`. Works under any executor.
    pub fn sync(&self, ticket: Ticket, level: Level) -> Durable {
        Durable::new(Arc::clone(&self.shared), ticket, level)
    }

    /// Waits, holding the thread, until `ticket` has reached `level`.
    pub fn sync_blocking(&self, ticket: Ticket, level: Level) -> Result<()> {
        self.sync(ticket, level).wait()
    }

    /// Ends the current file and begins another. All that was appended before is on the disk afterwards.
    pub fn roll(&self) -> Result<()> {
        let rolled = {
            let mut back = self.shared.back.lock();
            self.shared.drain(&mut back, WhenFull::Leave).and_then(|()| self.shared.roll(&mut back))
        };
        self.shared.wake_reached();
        self.remove_unneeded();
        rolled
    }

    /// `region` needs nothing up to and with `through` any more: its cells are in store files. Files that no region
    /// needs are removed.
    pub fn flushed(&self, region: &[u8], through: SequenceId) {
        {
            let mut back = self.shared.back.lock();
            match back.flushed.get_mut(region) {
                Some(known) => *known = (*known).max(through),
                None => {
                    back.flushed.insert(region.into(), through);
                }
            }
            back.forget();
        }
        self.remove_unneeded();
    }

    /// Removes files outside of the locks: a large one takes the system its time.
    fn remove_unneeded(&self) {
        let mut names = std::mem::take(&mut self.shared.back.lock().unneeded);
        // A file that could not be removed is tried again at the next occasion.
        names.retain(|name| self.shared.files.delete(name).is_err());
        if !names.is_empty() {
            self.shared.back.lock().unneeded.append(&mut names);
        }
    }

    /// The region is gone for good (its table was deleted): nothing of it is needed.
    pub fn forget_region(&self, region: &[u8]) {
        self.flushed(region, SequenceId::MAX);
    }

    /// Files that are kept, the current one included, and their bytes.
    pub fn size(&self) -> (usize, u64) {
        let back = self.shared.back.lock();
        let current = back.writer.as_ref().map_or(0, |writer| writer.size());
        (back.live.len() + 1, back.live.values().map(|file| file.bytes).sum::<u64>() + current)
    }

    /// When there are more files than the limit: the regions because of which the oldest is kept.
    pub fn regions_holding_back(&self) -> Vec<Box<[u8]>> {
        let back = self.shared.back.lock();
        if back.live.len() < self.shared.options.files_max {
            return Vec::new();
        }
        let Some(oldest) = back.live.values().next() else { return Vec::new() };
        oldest
            .regions
            .iter()
            .filter(|(region, newest)| back.flushed.get(*region).is_none_or(|through| through < newest))
            .map(|(region, _)| region.clone())
            .collect()
    }

    /// Ends the log at once, for good: somebody with `epoch` owns it now. Whoever waits is told; nothing is
    /// acknowledged after this returns, not even what is on the disk already.
    pub fn fence(&self, epoch: u64) {
        self.shared.fenced.store(true, Ordering::SeqCst);
        self.shared.fail(Error::Fenced { epoch });
    }

    /// Why nothing is acknowledged any more; `None` while all is well.
    pub fn failure(&self) -> Option<Error> {
        self.shared.front.lock().failure.clone()
    }

    /// The epoch of this life: larger than that of every earlier one.
    pub fn epoch(&self) -> u64 {
        self.shared.epoch
    }

    /// Ends the log in order: all that was appended is on the disk, the file says that it is whole.
    pub fn close(&self) -> Result<()> {
        let closed = {
            let mut back = self.shared.back.lock();
            self.shared.drain(&mut back, WhenFull::Leave).and_then(|()| self.shared.finish_current(&mut back))
        };
        self.shared.fail(Error::Closed);
        self.stop();
        closed
    }

    fn stop(&self) {
        self.shared.front.lock().stopping = true;
        self.shared.disk_wanted.notify_all();
        if let Some(syncer) = self.syncer.lock().take() {
            let panicked = syncer.join().is_err();
            debug_assert!(!panicked, "the log's thread broke an invariant");
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("folder", &self.shared.folder)
            .field("epoch", &self.shared.epoch)
            .finish_non_exhaustive()
    }
}

fn empty_batch() -> Vec<u8> {
    vec![0; BATCH_HEADER_LENGTH]
}

/// The name of file `number`: digits enough to sort by name.
pub(crate) fn file_name(folder: &FileName, number: u64) -> FileName {
    folder.join(&format!("{number:020}.wal"))
}

fn begin_file(files: &Arc<dyn Files>, folder: &FileName, epoch: u64, back: &mut Back) -> storage::Result<()> {
    let mut writer = files.create(&file_name(folder, back.number))?;
    writer.write(&Header { version: VERSION, epoch, number: back.number }.to_bytes())?;
    writer.sync()?;
    back.writer = Some(writer);
    back.synced_offset = HEADER_LENGTH as u64;
    back.live.insert(
        back.number,
        LogFile { name: file_name(folder, back.number), bytes: 0, regions: HashMap::new() },
    );
    Ok(())
}

/// What a writer does that finds the file full.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum WhenFull {
    /// It waits for the disk and begins the next file.
    Roll,
    /// It must not wait: the log's thread is asked to.
    Ask,
    /// Nothing: the caller does what is needed.
    Leave,
}

impl Back {
    /// Gives up the closed files that no region needs.
    fn forget(&mut self) {
        let Back { live, unneeded, flushed, number, writer, .. } = self;
        let current = writer.is_some().then_some(*number);
        live.retain(|number, file| {
            let needed = file
                .regions
                .iter()
                .any(|(region, newest)| flushed.get(region).is_none_or(|through| through < newest));
            let keep = Some(*number) == current || needed;
            if !keep {
                unneeded.push(file.name.clone());
            }
            keep
        });
    }
}

impl Shared {
    /// Whether the log was fenced. Asked after a ticket was found to have reached its level, so that an
    /// acknowledgement given came before the fence.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::SeqCst)
    }

    /// How far the stream has reached `level`.
    pub(crate) fn reached(&self, level: Level) -> u64 {
        match level {
            Level::Os => self.written.load(Ordering::Acquire),
            Level::Disk => self.durable.load(Ordering::Acquire),
        }
    }

    /// Writes all that was appended as one batch. Must be followed by [`wake_reached`](Shared::wake_reached) once the
    /// back is free.
    pub(crate) fn drain(&self, back: &mut Back, when_full: WhenFull) -> Result<()> {
        let (mut batch, regions, upto) = {
            let mut front = self.front.lock();
            if let Some(failure) = &front.failure {
                return Err(failure.clone());
            }
            if front.buffer.len() == BATCH_HEADER_LENGTH {
                return Ok(());
            }
            let spare = std::mem::take(&mut back.spare);
            (std::mem::replace(&mut front.buffer, spare), std::mem::take(&mut front.regions), front.appended)
        };
        let result = self.write_batch(back, &mut batch);
        // A buffer that one huge batch has grown goes back to the system.
        if batch.capacity() > 2 * self.options.buffer_bytes_max {
            batch = empty_batch();
        }
        batch.truncate(BATCH_HEADER_LENGTH);
        back.spare = batch;
        result?;
        let file = back.live.get_mut(&back.number).expect("the current file is live");
        for (region, newest) in regions {
            let known = file.regions.entry(region).or_insert(newest);
            *known = (*known).max(newest);
        }
        self.written.store(upto, Ordering::Release);
        match when_full {
            WhenFull::Roll => self.roll_if_full(back),
            WhenFull::Ask if self.is_full(back) => {
                self.front.lock().roll_wanted = true;
                self.disk_wanted.notify_one();
                Ok(())
            }
            WhenFull::Ask | WhenFull::Leave => Ok(()),
        }
    }

    fn write_batch(&self, back: &mut Back, batch: &mut [u8]) -> Result<()> {
        let Some(writer) = back.writer.as_mut() else {
            return Err(Error::Closed);
        };
        let (header, payload) = batch.split_at_mut(BATCH_HEADER_LENGTH);
        header.copy_from_slice(
            &BatchHeader::of(back.number, writer.size(), back.synced_offset, payload).to_bytes(),
        );
        writer.write(batch).map_err(|error| self.dead(back.number, &error))
    }

    fn roll_if_full(&self, back: &mut Back) -> Result<()> {
        if self.is_full(back) { self.roll(back) } else { Ok(()) }
    }

    fn is_full(&self, back: &Back) -> bool {
        back.writer.as_ref().is_some_and(|writer| writer.size() >= self.options.file_bytes_max)
    }

    fn roll(&self, back: &mut Back) -> Result<()> {
        self.finish_current(back)?;
        back.number += 1;
        begin_file(&self.files, &self.folder, self.epoch, back)
            .map_err(|error| self.dead(back.number, &error))?;
        back.forget();
        Ok(())
    }

    /// Writes the batch that says the file is whole, and makes everything durable.
    fn finish_current(&self, back: &mut Back) -> Result<()> {
        let Some(mut writer) = back.writer.take() else { return Ok(()) };
        let mut payload = Vec::new();
        Record {
            kind: Kind::End,
            region: b"",
            table: b"",
            sequence: SequenceId::ZERO,
            time: env::WallTime(0),
            nonce: None,
            cells: b"",
        }
        .write(&mut payload);
        // The end record says that all before it is durable, so it is, before the record is written.
        writer.sync().map_err(|error| self.dead(back.number, &error))?;
        let offset = writer.size();
        let mut batch = BatchHeader::of(back.number, offset, offset, &payload).to_bytes().to_vec();
        batch.extend_from_slice(&payload);
        let finished = writer.write(&batch).and_then(|()| writer.finish());
        let bytes = finished.map_err(|error| self.dead(back.number, &error))?;
        back.live.get_mut(&back.number).expect("the current file is live").bytes = bytes;
        self.durable.fetch_max(self.written.load(Ordering::Acquire), Ordering::AcqRel);
        Ok(())
    }

    /// The first failure decides; it is returned to every later caller.
    fn dead(&self, number: u64, cause: &storage::Error) -> Error {
        let error = Error::Dead { file: file_name(&self.folder, number), cause: cause.to_string() };
        self.fail(error.clone());
        error
    }

    pub(crate) fn fail(&self, error: Error) {
        let waiters = {
            let mut front = self.front.lock();
            front.failure.get_or_insert(error);
            std::mem::take(&mut front.waiters)
        };
        for waiter in waiters {
            waiter.waker.wake();
        }
    }

    /// Wakes, in one pass, those whose ticket was reached; and one that waits for the system alone, to be the next
    /// leader.
    pub(crate) fn wake_reached(&self) {
        let (written, durable) = (self.reached(Level::Os), self.reached(Level::Disk));
        let woken: Vec<Waiter> = {
            let mut front = self.front.lock();
            let mut leader = false;
            front
                .waiters
                .extract_if(.., |waiter| match waiter.level {
                    Level::Disk => waiter.ticket.0 <= durable,
                    Level::Os if waiter.ticket.0 <= written => true,
                    Level::Os => !std::mem::replace(&mut leader, true),
                })
                .collect()
        };
        for waiter in woken {
            waiter.waker.wake();
        }
    }

    /// The thread that syncs for all who wait for the disk, and writes out what nobody waits for.
    fn sync_for_waiters(&self) {
        loop {
            let wanted = {
                let mut front = self.front.lock();
                loop {
                    if front.stopping || front.failure.is_some() {
                        return;
                    }
                    if front.disk_wanted > self.reached(Level::Disk) {
                        break true;
                    }
                    if std::mem::take(&mut front.roll_wanted) {
                        break false;
                    }
                    let waited = self.disk_wanted.wait_for(&mut front, self.options.idle_write);
                    if waited.timed_out() && front.buffer.len() > BATCH_HEADER_LENGTH {
                        break false;
                    }
                }
            };
            {
                let mut back = self.back.lock();
                // A failure has told everybody already.
                let _told = self
                    .drain(&mut back, WhenFull::Leave)
                    .and_then(|()| self.roll_if_full(&mut back))
                    .and_then(|()| if wanted { self.sync_file(&mut back) } else { Ok(()) });
            }
            self.wake_reached();
        }
    }

    fn sync_file(&self, back: &mut Back) -> Result<()> {
        let upto = self.written.load(Ordering::Acquire);
        if let Some(writer) = back.writer.as_mut() {
            writer.sync().map_err(|error| self.dead(back.number, &error))?;
            back.synced_offset = writer.size();
        }
        self.durable.fetch_max(upto, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;
