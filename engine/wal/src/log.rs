//! The log that is being written: its buffer, its files, and what may be forgotten.
//!
//! Three locks, always taken in this order: rolling, back, front. The *front* holds what appenders touch: the buffer and
//! who waits. The *back* holds the file; whoever has it takes the buffer away in one exchange and writes it as one batch,
//! while appending goes on into the other buffer. *Rolling* is held by who waits for the disk: a sync, a roll.
//!
//! **A roll** waits for the disk only where nobody else writes: the next file is made first, then the back is taken for
//! as long as writing the end record takes, then the old file is made durable while others write the new one. Nothing in
//! the new file is called durable before the old one is. When the next file cannot be made the old one goes on.
//!
//! **A full disk** is no failure of the log. A write that finds no room is cut off the file again, and the batch is kept:
//! who waits for it is told, new writes are [refused](Log::admits), and the log's thread tries again until there is room.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cell::SequenceId;
use env::{Priority, Thread, World};
use parking_lot::{Condvar, Mutex, MutexGuard};
use storage::{FileName, FileWriter, Files, Outcome};
use telemetry::{Counter, Exposition, Histogram, Source};

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
    /// How long to wait before a write that found the disk full is tried again (`bellows.wal.full.retry`).
    pub full_retry: Duration,
    /// A sync that takes longer is told in the log (`hbase.regionserver.wal.slowsync.ms`).
    pub slow_sync: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            file_bytes_max: 64 << 20,
            buffer_bytes_max: 16 << 20,
            record_bytes_max: 1 << 30,
            files_max: 32,
            idle_write: Duration::from_secs(1),
            full_retry: Duration::from_secs(1),
            slow_sync: Duration::from_millis(100),
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
    /// The log's thread.
    thread: Mutex<Option<std::thread::ThreadId>>,
    /// Held by who waits for the disk. What it guards is that the file before the current one is durable.
    rolling: Mutex<()>,
    pub(crate) front: Mutex<Front>,
    pub(crate) back: Mutex<Back>,
    /// Told when somebody waits for the disk, or the log ends.
    pub(crate) disk_wanted: Condvar,
    /// Stream positions handed to the system, and on the disk.
    written: AtomicU64,
    durable: AtomicU64,
    /// Set once, before the failure it goes with.
    fenced: AtomicBool,
    /// Whether a batch waits for room, without a lock.
    full: AtomicBool,
    files: Arc<dyn Files>,
    folder: FileName,
    options: Options,
    epoch: u64,
    counts: Counts,
    /// For measuring alone: nothing is decided by it.
    clock: World,
}

pub(crate) struct Front {
    /// A batch in the making; its first bytes wait for the batch's header.
    buffer: Vec<u8>,
    /// The newest sequence id of each region in the buffer.
    regions: HashMap<Box<[u8]>, SequenceId>,
    appended: u64,
    records: u64,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) disk_wanted: u64,
    /// The file is full, and who found it so could not wait for the disk.
    roll_wanted: bool,
    pub(crate) failure: Option<Error>,
    /// What is told while a batch waits for room.
    pub(crate) full: Option<Error>,
    stopping: bool,
}

/// What one write hands to the system.
struct Batch {
    /// The batch's header, to be filled in, and its records.
    bytes: Vec<u8>,
    /// The newest sequence id of each region in it.
    regions: HashMap<Box<[u8]>, SequenceId>,
    /// The stream's position after it.
    upto: u64,
    /// How many records.
    records: u64,
}

pub(crate) struct Back {
    writer: Option<Box<dyn FileWriter>>,
    number: u64,
    /// The largest number that a file may have, also one whose making failed.
    number_tried: u64,
    synced_offset: u64,
    /// Bytes at which the file is full. After a roll that came to nothing it may grow on.
    roll_at: u64,
    spare: Vec<u8>,
    /// A batch that found no room.
    stuck: Option<Batch>,
    /// The file before the current one, while it is made durable.
    retiring: Option<u64>,
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
            number_tried: number,
            synced_offset: 0,
            roll_at: options.file_bytes_max,
            spare: empty_batch(),
            stuck: None,
            retiring: None,
            live: found.live,
            unneeded: Vec::new(),
            flushed: HashMap::new(),
        };
        let writer = make_file(&*files, &folder, epoch, number)?;
        back.begin(&folder, number, writer);
        // What earlier lives left empty or torn before the first record is needed by nobody.
        back.forget();
        let shared = Arc::new(Shared {
            thread: Mutex::default(),
            rolling: Mutex::default(),
            front: Mutex::new(Front {
                buffer: empty_batch(),
                regions: HashMap::new(),
                appended: 0,
                records: 0,
                waiters: Vec::new(),
                disk_wanted: 0,
                roll_wanted: false,
                failure: None,
                full: None,
                stopping: false,
            }),
            back: Mutex::new(back),
            disk_wanted: Condvar::new(),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            fenced: AtomicBool::new(false),
            full: AtomicBool::new(false),
            files,
            folder,
            options,
            epoch,
            counts: Counts::default(),
            clock: World::real(),
        });
        let syncing = Arc::clone(&shared);
        let syncer = env::spawn_thread("wal-sync", Priority::Foreground, move || syncing.sync_for_waiters())
            .map_err(|error| Error::Storage(format!("cannot start the log's thread: {error}")))?;
        let log = Log { shared, syncer: Mutex::new(Some(syncer)) };
        log.shared.remove_unneeded();
        Ok((log, recovered))
    }

    /// Whether new writes should be begun: not while the disk is full. A write that has begun may be appended all the
    /// same; it reaches the disk when there is room.
    pub fn admits(&self) -> Result<()> {
        if !self.shared.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        match &self.shared.front.lock().full {
            Some(Error::Full { place, cause, .. }) => Err(Error::Full {
                place: place.clone(),
                cause: cause.clone(),
                outcome: Outcome::DidNotHappen,
            }),
            _ => Ok(()),
        }
    }

    /// Whether `record` is within the limit.
    pub fn check(&self, record: &Record<'_>) -> Result<()> {
        let (found, limit) = (record.size(), self.shared.options.record_bytes_max);
        if found > limit { Err(Error::TooLarge { found, limit }) } else { Ok(()) }
    }

    /// Copies `record` into the buffer. Order of appending is order in the log.
    pub fn append(&self, record: &Record<'_>) -> Result<Ticket> {
        self.check(record)?;
        let size = record.size();
        let mut front = self.shared.front.lock();
        if front.buffer.len() + size > self.shared.options.buffer_bytes_max
            && front.buffer.len() > BATCH_HEADER_LENGTH
        {
            drop(front);
            {
                let mut back = self.shared.back.lock();
                // A failure is found again, with the same words, below; a full disk lets the buffer grow by the writes
                // that have begun.
                let _told = self.shared.drain(&mut back);
                self.shared.ask_for_roll(&back);
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
        front.records += 1;
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

    /// Like [`sync_blocking`](Log::sync_blocking), but a full disk is waited out: only the log's end is an error.
    pub fn sync_patiently(&self, ticket: Ticket, level: Level) -> Result<()> {
        self.sync(ticket, level).patiently().wait()
    }

    /// Ends the current file and begins another. All that was appended before is on the disk afterwards. When the next
    /// file cannot be made, the error says so and the log goes on in the current one.
    pub fn roll(&self) -> Result<()> {
        let rolled = self.shared.roll(&self.shared.rolling.lock());
        self.shared.wake_reached();
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
        self.shared.remove_unneeded();
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

    /// The number of the current file: it grows with every roll.
    pub fn file_number(&self) -> u64 {
        self.shared.back.lock().number
    }

    /// Whether the current file has no record yet.
    pub fn is_fresh(&self) -> bool {
        let back = self.shared.back.lock();
        let is_empty = back.writer.as_ref().is_none_or(|writer| writer.size() <= HEADER_LENGTH as u64);
        is_empty && self.shared.front.lock().buffer.len() == BATCH_HEADER_LENGTH
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
            let _rolling = self.shared.rolling.lock();
            let mut back = self.shared.back.lock();
            self.shared.drain(&mut back).and_then(|()| self.shared.finish_current(&mut back))
        };
        self.shared.fail(Error::Closed);
        self.stop();
        closed
    }

    fn stop(&self) {
        self.shared.front.lock().stopping = true;
        self.shared.disk_wanted.notify_all();
        let syncer = self.syncer.lock().take();
        // Who was woken by the log's thread may hold the last of the log; the thread ends by itself then.
        if *self.shared.thread.lock() == Some(std::thread::current().id()) {
            return;
        }
        if let Some(syncer) = syncer {
            let panicked = syncer.join().is_err();
            debug_assert!(!panicked, "the log's thread broke an invariant");
        }
    }
}

/// What the log has done.
#[derive(Debug, Default)]
struct Counts {
    appends: Counter,
    writes: Counter,
    bytes: Counter,
    syncs: Histogram,
    slow_syncs: Counter,
    rolls: Counter,
    rolls_failed: Counter,
    full: Counter,
}

impl Source for Log {
    fn show(&self, out: &mut Exposition) {
        let counts = &self.shared.counts;
        for (name, help, counter) in [
            ("append_count", "Records appended to the log.", &counts.appends),
            ("write_count", "Batches of records handed to the system.", &counts.writes),
            ("written_bytes", "Bytes written to the log.", &counts.bytes),
            ("slow_sync_count", "Syncs over hbase.regionserver.wal.slowsync.ms.", &counts.slow_syncs),
            ("roll_count", "Log files ended because they were full or old.", &counts.rolls),
            ("roll_failed_count", "Log files that could not be begun.", &counts.rolls_failed),
            ("disk_full_count", "Writes of the log that found no space.", &counts.full),
        ] {
            out.counter(&format!("hbase_wal_{name}"), help, &[], counter.value());
        }
        out.times("hbase_wal_sync_seconds", "Times of making the log durable.", &[], &counts.syncs);
        let (files, bytes) = self.size();
        out.gauge("hbase_wal_file_count", "Log files kept.", &[], files as f64);
        out.gauge("hbase_wal_file_size", "Bytes of log files kept.", &[], bytes as f64);
        let full = f64::from(u8::from(self.shared.full.load(Ordering::Relaxed)));
        out.gauge("hbase_wal_disk_full", "1 while writes are refused for want of space.", &[], full);
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

/// Makes file `number`, durable with its header.
fn make_file(
    files: &dyn Files,
    folder: &FileName,
    epoch: u64,
    number: u64,
) -> storage::Result<Box<dyn FileWriter>> {
    let mut writer = files.create(&file_name(folder, number))?;
    let made =
        writer.write(&Header { version: VERSION, epoch, number }.to_bytes()).and_then(|()| writer.sync());
    match made {
        Ok(()) => Ok(writer),
        Err(error) => {
            writer.abandon();
            Err(error)
        }
    }
}

/// The batch that ends a file, to be written at `offset`.
fn end_batch(number: u64, offset: u64, synced: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    own_record(Kind::End, 0).write(&mut payload);
    let mut batch = BatchHeader::of(number, offset, synced, &payload).to_bytes().to_vec();
    batch.extend_from_slice(&payload);
    batch
}

/// A record by which the log speaks of itself.
fn own_record(kind: Kind, number: u64) -> Record<'static> {
    Record {
        kind,
        region: b"",
        table: b"",
        sequence: SequenceId(number),
        time: env::WallTime(0),
        nonce: None,
        cells: b"",
    }
}

/// What a writer does that finds the file full.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum WhenFull {
    /// It waits for the disk and begins the next file.
    Roll,
    /// It must not wait: the log's thread is asked to.
    Ask,
}

impl Back {
    /// From now on `writer`, of file `number`, is the current one.
    fn begin(&mut self, folder: &FileName, number: u64, writer: Box<dyn FileWriter>) {
        self.synced_offset = writer.size();
        self.writer = Some(writer);
        self.number = number;
        let file = LogFile { name: file_name(folder, number), bytes: 0, regions: HashMap::new() };
        self.live.insert(number, file);
    }

    /// Gives up the closed files that no region needs.
    fn forget(&mut self) {
        let Back { live, unneeded, flushed, number, writer, retiring, .. } = self;
        let current = writer.is_some().then_some(*number);
        live.retain(|number, file| {
            let needed = file
                .regions
                .iter()
                .any(|(region, newest)| flushed.get(region).is_none_or(|through| through < newest));
            let keep = Some(*number) == current || Some(*number) == *retiring || needed;
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

    /// Writes all that was appended as one batch, after the one that found no room if there is one. Must be followed by
    /// [`wake_reached`](Shared::wake_reached) once the back is free.
    pub(crate) fn drain(&self, back: &mut Back) -> Result<()> {
        if let Some(failure) = &self.front.lock().failure {
            return Err(failure.clone());
        }
        if let Some(stuck) = back.stuck.take() {
            self.write_batch(back, stuck)?;
            self.has_room();
        }
        let batch = {
            let mut front = self.front.lock();
            if front.buffer.len() == BATCH_HEADER_LENGTH {
                return Ok(());
            }
            let spare = std::mem::take(&mut back.spare);
            Batch {
                bytes: std::mem::replace(&mut front.buffer, spare),
                regions: std::mem::take(&mut front.regions),
                upto: front.appended,
                records: std::mem::take(&mut front.records),
            }
        };
        self.write_batch(back, batch)
    }

    fn write_batch(&self, back: &mut Back, mut batch: Batch) -> Result<()> {
        let Some(writer) = back.writer.as_mut() else {
            return Err(Error::Closed);
        };
        let offset = writer.size();
        let (header, payload) = batch.bytes.split_at_mut(BATCH_HEADER_LENGTH);
        header.copy_from_slice(&BatchHeader::of(back.number, offset, back.synced_offset, payload).to_bytes());
        if let Err(error) = writer.write(&batch.bytes) {
            if error.kind() != storage::Kind::Full {
                return Err(self.dead(back.number, &error));
            }
            // A part may be written: the next attempt must find the file as it was.
            writer.cut(offset).map_err(|error| self.dead(back.number, &error))?;
            back.stuck = Some(batch);
            back.spare = empty_batch();
            return Err(self.is_full_now(&error));
        }
        let Batch { mut bytes, regions, upto, records } = batch;
        self.counts.appends.add(records);
        self.counts.writes.count();
        self.counts.bytes.add(bytes.len() as u64);
        let file = back.live.get_mut(&back.number).expect("the current file is live");
        for (region, newest) in regions {
            let known = file.regions.entry(region).or_insert(newest);
            *known = (*known).max(newest);
        }
        self.written.store(upto, Ordering::Release);
        // A buffer that one huge batch has grown goes back to the system.
        if bytes.capacity() > 2 * self.options.buffer_bytes_max {
            bytes = empty_batch();
        }
        bytes.truncate(BATCH_HEADER_LENGTH);
        back.spare = bytes;
        Ok(())
    }

    /// Says that there is no room, to everybody who waits and is not patient; what it says is returned.
    fn is_full_now(&self, cause: &storage::Error) -> Error {
        let error = Error::Full {
            place: self.files.place(),
            cause: cause.to_string(),
            outcome: Outcome::MayHaveHappened,
        };
        let (waiters, is_news) = {
            let mut front = self.front.lock();
            let is_news = front.full.is_none();
            front.full = Some(error.clone());
            self.full.store(true, Ordering::Relaxed);
            self.counts.full.count();
            (front.waiters.extract_if(.., |waiter| !waiter.patient).collect::<Vec<_>>(), is_news)
        };
        if is_news {
            tracing::error!(target: "wal", place = self.files.place(), cause = %cause,
                "the disk is full: writes are refused until there is room; free some space, no restart is needed");
        }
        // The log's thread tries again.
        self.disk_wanted.notify_one();
        for waiter in waiters {
            waiter.waker.wake();
        }
        error
    }

    fn has_room(&self) {
        self.front.lock().full = None;
        self.full.store(false, Ordering::Relaxed);
        tracing::info!(target: "wal", place = self.files.place(), "there is room again: writes are taken");
    }

    fn is_due(&self, back: &Back) -> bool {
        back.writer.as_ref().is_some_and(|writer| writer.size() >= back.roll_at)
    }

    /// Asks the log's thread for a roll if the file is full.
    pub(crate) fn ask_for_roll(&self, back: &Back) {
        if self.is_due(back) {
            self.front.lock().roll_wanted = true;
            self.disk_wanted.notify_one();
        }
    }

    /// Rolls if the file is full and nobody else is at it. A roll that came to nothing is told in the log and tried
    /// again when the file has grown.
    pub(crate) fn roll_if_due(&self) {
        if !self.is_due(&self.back.lock()) {
            return;
        }
        if let Some(rolling) = self.rolling.try_lock() {
            self.roll_if_still_due(&rolling);
            drop(rolling);
            self.wake_reached();
        }
    }

    fn roll_if_still_due(&self, rolling: &MutexGuard<'_, ()>) {
        if self.is_due(&self.back.lock()) {
            // A dead log has told everybody; one that could not roll has told the operator.
            let _told = self.roll(rolling);
        }
    }

    fn roll(&self, _rolling: &MutexGuard<'_, ()>) -> Result<()> {
        let number = {
            let mut back = self.back.lock();
            self.drain(&mut back)?;
            back.number_tried += 1;
            back.number_tried
        };
        let next = match make_file(&*self.files, &self.folder, self.epoch, number) {
            Ok(next) => next,
            Err(error) => return Err(self.put_off(&mut self.back.lock(), &error)),
        };
        let (retired, old, upto) = {
            let mut back = self.back.lock();
            match self.write_end(&mut back) {
                Ok(()) => {}
                Err(error) => {
                    next.abandon();
                    return Err(error);
                }
            }
            let (retired, old) = (back.writer.take().expect("its end was just written"), back.number);
            back.retiring = Some(old);
            back.roll_at = self.options.file_bytes_max;
            back.begin(&self.folder, number, next);
            (retired, old, self.written.load(Ordering::Acquire))
        };
        let began = self.clock.moment();
        let bytes = retired.finish().map_err(|error| self.dead(old, &error))?;
        self.synced(old, began);
        self.counts.rolls.count();
        self.durable.fetch_max(upto, Ordering::AcqRel);
        {
            // Before anything in the new file is called durable, the new file says that the old one is.
            let mut front = self.front.lock();
            let whole = own_record(Kind::Whole, old);
            whole.write(&mut front.buffer);
            front.appended += whole.size() as u64;
        }
        {
            let mut back = self.back.lock();
            back.live.get_mut(&old).expect("it is kept while it retires").bytes = bytes;
            back.retiring = None;
            back.forget();
        }
        self.remove_unneeded();
        tracing::info!(target: "wal", file = %file_name(&self.folder, old), bytes, next = number, "rolled the log");
        Ok(())
    }

    /// Notes a sync of file `number`, and tells of a slow one.
    fn synced(&self, number: u64, began: env::Moment) {
        let took = self.clock.moment().since(began);
        self.counts.syncs.record_time(took);
        if took > self.options.slow_sync {
            self.counts.slow_syncs.count();
            tracing::warn!(target: "wal", file = %file_name(&self.folder, number), ms = took.as_millis() as u64,
                "slow sync: the disk is busy or failing");
        }
    }

    /// The next file cannot be begun: the current one grows on for a while.
    fn put_off(&self, back: &mut Back, cause: &storage::Error) -> Error {
        let size = back.writer.as_ref().map_or(0, |writer| writer.size());
        self.counts.rolls_failed.count();
        back.roll_at = size.saturating_add((self.options.file_bytes_max / 4).max(1));
        tracing::warn!(target: "wal", file = %file_name(&self.folder, back.number), bytes = size, cause = %cause,
            "the next log file cannot be begun: this one goes on, and it is tried again at {} bytes; see to the disk",
            back.roll_at);
        Error::Storage(cause.to_string())
    }

    /// Writes what was appended meanwhile, and that the file ends there; it is not durable yet.
    fn write_end(&self, back: &mut Back) -> Result<()> {
        self.drain(back)?;
        let (number, synced) = (back.number, back.synced_offset);
        let Some(writer) = back.writer.as_mut() else { return Err(Error::Closed) };
        let offset = writer.size();
        match writer.write(&end_batch(number, offset, synced)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == storage::Kind::Full => {
                writer.cut(offset).map_err(|error| self.dead(number, &error))?;
                Err(self.put_off(back, &error))
            }
            Err(error) => Err(self.dead(number, &error)),
        }
    }

    /// Writes the batch that says the file is whole, and makes everything durable.
    fn finish_current(&self, back: &mut Back) -> Result<()> {
        let Some(mut writer) = back.writer.take() else { return Ok(()) };
        // This end record says that all before it is durable, so it is, before the record is written.
        writer.sync().map_err(|error| self.dead(back.number, &error))?;
        let offset = writer.size();
        let finished = writer.write(&end_batch(back.number, offset, offset)).and_then(|()| writer.finish());
        let bytes = finished.map_err(|error| self.dead(back.number, &error))?;
        back.live.get_mut(&back.number).expect("the current file is live").bytes = bytes;
        self.durable.fetch_max(self.written.load(Ordering::Acquire), Ordering::AcqRel);
        Ok(())
    }

    /// Removes files outside of the locks: a large one takes the system its time.
    fn remove_unneeded(&self) {
        let mut names = std::mem::take(&mut self.back.lock().unneeded);
        // A file that could not be removed is tried again at the next occasion.
        names.retain(|name| self.files.delete(name).is_err());
        if !names.is_empty() {
            self.back.lock().unneeded.append(&mut names);
        }
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

    /// The thread that syncs for all who wait for the disk, writes out what nobody waits for, and tries again what found
    /// the disk full.
    fn sync_for_waiters(&self) {
        *self.thread.lock() = Some(std::thread::current().id());
        loop {
            let wanted = {
                let mut front = self.front.lock();
                loop {
                    if front.stopping || front.failure.is_some() {
                        return;
                    }
                    if front.full.is_some() {
                        self.disk_wanted.wait_for(&mut front, self.options.full_retry);
                        break true;
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
                let rolling = self.rolling.lock();
                // A failure has told everybody already.
                let drained = self.drain(&mut self.back.lock());
                if drained.is_ok() {
                    self.roll_if_still_due(&rolling);
                    if wanted && self.front.lock().disk_wanted > self.reached(Level::Disk) {
                        let _told = self.sync_file(&mut self.back.lock());
                    }
                }
            }
            self.wake_reached();
        }
    }

    /// The caller is at rolling: the file before this one is durable.
    fn sync_file(&self, back: &mut Back) -> Result<()> {
        self.drain(back)?;
        let upto = self.written.load(Ordering::Acquire);
        if let Some(writer) = back.writer.as_mut() {
            let began = self.clock.moment();
            writer.sync().map_err(|error| self.dead(back.number, &error))?;
            back.synced_offset = writer.size();
            self.synced(back.number, began);
        }
        self.durable.fetch_max(upto, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;
