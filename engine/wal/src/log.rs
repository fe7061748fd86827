//! The log as its owner writes it: the buffer, the files, and the decision which files can be removed.
//!
//! There are three locks, always taken in this order: rolling, back, front. The *front* guards what appenders use: the
//! buffer and the waiters. The *back* guards the files. A thread that locks the back exchanges the buffer for an empty
//! one, and writes it as one batch while others append. *Rolling* is locked by a thread that waits for the disk, in a
//! sync or a roll.
//!
//! **A roll** does not hold up writers while it waits for the disk. It makes the next file first, locks the back while
//! it writes the end of the current file, and syncs that file while others write the next one. Nothing in the new file
//! counts as durable before the old file is durable. If the next file cannot be made, the log continues in the current
//! one.
//!
//! **Syncs side by side.** In an object store a sync takes one request, tens of milliseconds long. There the log's thread
//! has several syncs under way in one file ([`pace`] says when the next one begins), and the storage reports their ends in
//! order. A writer is told of its write when its sync and all earlier ones have ended.
//!
//! **Space is reused.** While the log has fewer files than its limit, a file that nobody needs becomes a spare. A later
//! roll overwrites the spare instead of creating a file. Writing over existing pages costs a half to a third of writing
//! new ones, and a sync need not write the file's size. The log removes the spares when the disk is full, when the log
//! is closed, and when files end by age, before they have reached their size. [`format`](crate::format) describes what
//! such files contain.
//!
//! **A full disk** is no failure of the log. The log cuts the file where the failed write began, and keeps the batch in
//! memory. Waiters get an error, [`admits`](Log::admits) refuses new writes, and the log's thread tries again until
//! there is room.
//!
//! A record without which nobody could free room, such as one of hbase:meta, is written all the same: the log gives up the
//! [reserve](Files::keep_reserve) of its storage for it, and writes the batch that waits first, because records stay in
//! order. That batch is no larger than the buffer, unless a single record is. New writes of clients stay refused until the
//! reserve is kept again, so that they cannot use it.

mod back;
mod held;
mod holding;
mod pace;
mod roll;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};

use cell::SequenceId;
use env::sync::{Condvar, Mutex};
use env::{HashMap, Priority, Thread, WallTime, World};
use storage::{Capability, FileName, Files, Outcome, ReserveState};
use telemetry::{Counter, Exposition, Histogram, Source};

use crate::commit::{Durable, Patience, Waiter};
use crate::format::{BATCH_HEADER_LENGTH, HEADER_LENGTH, Record};
use crate::holder::{HolderObjects, LogHolder, check_name};
use crate::index::Sequences;
use crate::options::Options;
use crate::owner::{Claim, NotedFiles};
use crate::reader::{LogPosition, LogReader, LogTail};
use crate::seal::{Sealed, seal_for_owner};
use crate::{Error, Level, Marker, Result, Ticket};
use back::{Back, NEVER, OpenSection, empty_batch, make_file};
use pace::SyncsUnderWay;

pub(crate) use back::{LogFile, file_name};
pub use pace::sync_interval;
pub(crate) use roll::WhenFull;

/// The write-ahead log of a server.
pub struct Log {
    shared: Arc<Shared>,
    syncer: Mutex<Option<Thread<()>>>,
    /// The thread that removes the spare files that the previous owner left.
    remover: Mutex<Option<Thread<()>>>,
}

/// State that appenders, waiters and the log's thread share.
pub(crate) struct Shared {
    /// The log's thread.
    thread: Mutex<Option<env::ThreadId>>,
    /// Locked by a thread that waits for the disk. While it is not locked, all files before the current one are
    /// durable.
    rolling: Mutex<()>,
    pub(crate) front: Mutex<Front>,
    /// Locked by [`back`](Shared::back), which wakes waiters when it is released.
    back: Mutex<Back>,
    /// Notified when a writer waits for the disk, or the log ends.
    pub(crate) disk_wanted: Condvar,
    /// The position in the stream of records up to which they are written.
    written: AtomicU64,
    /// The position in the stream of records up to which they are synced.
    durable: AtomicU64,
    /// The position in the files up to which the log is durable, for [`LogTail`].
    durable_at: Mutex<LogPosition>,
    /// The objects of named holders. Locked while one of them is written; the back may be locked while this is locked.
    holders: Mutex<HolderObjects>,
    /// Whether the disk is full: a batch waits for room, or the reserve is spent. Can be read without a lock.
    full: AtomicBool,
    /// Whether a file was begun since the last call of [`Log::has_grown`].
    grown: AtomicBool,
    files: Arc<dyn Files>,
    folder: FileName,
    options: Options,
    /// Whether a listing of the folder may lack files ([`Capability::ListsAll`]). If so, the object `OWNER` records
    /// which files exist.
    notes_files: bool,
    /// Whether written bytes survive the death of the process. If not, every waiter waits for a sync.
    writes_through: bool,
    /// Maximum number of syncs of a file that run at the same time.
    syncs_at_once: usize,
    /// This owner's right to write the log.
    pub(crate) claim: Claim,
    counts: Counts,
    /// The clock, which measures how long a sync takes, and how long an unneeded file is kept.
    world: World,
}

pub(crate) struct Front {
    /// Records that are not written yet; the first bytes are room for the batch's header.
    buffer: Vec<u8>,
    /// The sequence ids of each region in the buffer.
    regions: HashMap<Box<[u8]>, Sequences>,
    /// When the newest record in the buffer with a nonce was made; `None` if there is none.
    newest_nonce: Option<WallTime>,
    appended: u64,
    records: u64,
    pub(crate) waiters: Vec<Waiter>,
    /// Number of waiters since the log was opened.
    pub(crate) waiters_seen: u64,
    /// Tasks that wait for the log's end.
    watchers: Vec<Waker>,
    pub(crate) disk_wanted: u64,
    /// The syncs that run beside each other.
    syncs: SyncsUnderWay,
    /// Whether a thread that must not wait for the disk has found that the file is full, and asks for a roll.
    roll_wanted: bool,
    pub(crate) failure: Option<Error>,
    /// The error that waiters get while a batch waits for room on the disk, or the reserve is spent; `None` while there is
    /// room.
    pub(crate) full: Option<Error>,
    /// The position in the stream of records up to which they may use the reserve.
    pub(crate) reserve_wanted: u64,
    /// The position up to which records may use the reserve, and found no room even so.
    reserve_failed: u64,
    stopping: bool,
}

impl Front {
    /// Whether a waiter with this patience and ticket gets the error of the full disk.
    pub(crate) fn gets_error(&self, patience: Patience, ticket: Ticket) -> bool {
        match patience {
            Patience::None => true,
            Patience::UsesReserve => self.reserve_failed >= ticket.0,
            Patience::Waits => false,
        }
    }

    /// Records, for each region, the range of sequence ids that were added to the buffer.
    fn note(&mut self, run: RegionRun<'_>) {
        match self.regions.get_mut(run.region) {
            Some(known) => known.include(run.sequences),
            None => {
                self.regions.insert(run.region.into(), run.sequences);
            }
        }
    }
}

/// Consecutive records of one region in one append.
struct RegionRun<'r> {
    region: &'r [u8],
    sequences: Sequences,
}

impl Log {
    /// Takes over the log in `folder` from its owner, reads the records of earlier owners, and begins a new file after
    /// their files. From now on, any other process or `Log` that still writes there gets [`Error::Fenced`].
    ///
    /// Fails with [`Error::Corrupt`] when bytes that were durable are damaged, and with [`Error::Storage`] when the
    /// storage cannot keep a log. A torn tail is ignored and reported by [`LogReader::torn_tails`].
    pub fn open(
        world: World,
        files: Arc<dyn Files>,
        folder: FileName,
        options: Options,
    ) -> Result<(Log, LogReader)> {
        // `Capability::Cut` is not required: without it a full disk ends the log instead of making it wait, which is
        // safe.
        if !files.capabilities().has(Capability::SyncPrefix) {
            return Err(Error::Storage(format!(
                "the write-ahead log cannot be kept in {}: this storage cannot {}; set hbase.wal.dir to a folder on a \
                 local disk",
                files.place(),
                Capability::SyncPrefix
            )));
        }
        let reuses = options.reuse && files.capabilities().has(Capability::ReuseSpace);
        let Sealed { mut claim, found } = seal_for_owner(&world, &files, &folder, &options.owner)?;
        claim.raise_epoch(found.epoch_max + 1)?;
        let epoch = claim.owner.epoch;
        let (holders, held_from) = HolderObjects::open(&files, &folder)?;
        let mut number = found.number_max + 1;
        let lists_all = files.capabilities().has(Capability::ListsAll);
        // `found.first` is the lowest file that exists. `OWNER` may name lower files, which were deleted; if they were
        // noted again, each start would look for the files of all earlier owners.
        let first = found.first;
        let writer = loop {
            if !lists_all {
                claim.note_files(NotedFiles { first: first.unwrap_or(number), last: number })?;
            }
            match storage::with_reserve(&*files, || make_file(&*files, &folder, epoch, number)) {
                // The previous owner has created a file with this number just now. It will check `OWNER` before it
                // writes, and write nothing. So take the next number.
                Err(error) if error.kind() == storage::Kind::Exists => number += 1,
                made => break made?,
            }
        };
        if let Err(error) = claim.check() {
            writer.abandon();
            return Err(error);
        }
        let mut back = Back {
            writer: None,
            number,
            number_tried: number,
            synced_offset: 0,
            section: OpenSection::FIRST,
            whole_to: None,
            roll_at: options.file_bytes_max,
            roll_at_parts: options.file_parts_max(),
            spare: empty_batch(),
            stuck: None,
            retiring: None,
            live: found.live,
            spares: BTreeMap::new(),
            reuse_min: if reuses { options.file_bytes_max / 2 } else { NEVER },
            unneeded: Vec::new(),
            flushed: HashMap::default(),
            held_from,
            keep_unneeded: options.keep_unneeded,
            nonce_keeping: options.nonce_keeping(),
        };
        let syncs_at_once = writer.syncs_at_once();
        back.begin(&folder, number, writer);
        // Some files of earlier owners can be removed at once: those without a record.
        back.find_unneeded(&world);
        let durable_at = LogPosition { file: number, offset: back.synced_offset };
        let shared = Arc::new(Shared {
            thread: Mutex::default(),
            rolling: Mutex::default(),
            front: Mutex::new(Front {
                buffer: empty_batch(),
                regions: HashMap::default(),
                newest_nonce: None,
                appended: 0,
                records: 0,
                waiters: Vec::new(),
                waiters_seen: 0,
                watchers: Vec::new(),
                disk_wanted: 0,
                syncs: SyncsUnderWay::default(),
                roll_wanted: false,
                failure: None,
                full: None,
                reserve_wanted: 0,
                reserve_failed: 0,
                stopping: false,
            }),
            back: Mutex::new(back),
            disk_wanted: Condvar::new(),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            durable_at: Mutex::new(durable_at),
            holders: Mutex::new(holders),
            full: AtomicBool::new(false),
            notes_files: !lists_all,
            writes_through: files.capabilities().has(Capability::WriteThrough),
            syncs_at_once,
            grown: AtomicBool::new(false),
            files,
            folder,
            options,
            claim,
            counts: Counts::default(),
            world,
        });
        let syncing = Arc::clone(&shared);
        let syncer = env::spawn_thread("wal-sync", Priority::Foreground, move || syncing.sync_for_waiters())
            .map_err(|error| Error::Storage(format!("cannot start the log's thread: {error}")))?;
        let log = Log { shared, syncer: Mutex::new(Some(syncer)), remover: Mutex::default() };
        log.remove_left_files()?;
        Ok((log, found.reader))
    }

    /// Removes unneeded files of the previous owner. Spare files are large, so a separate thread removes them, and
    /// opening the log does not wait for it.
    fn remove_left_files(&self) -> Result<()> {
        if !self.shared.back().unneeded.iter().any(|file| file.can_be_reused) {
            self.shared.remove_unneeded_soon();
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let remover = env::spawn_thread("wal-remove", Priority::Background, move || shared.remove_unneeded())
            .map_err(|error| Error::Storage(format!("cannot start a thread of the log: {error}")))?;
        *self.remover.lock() = Some(remover);
        Ok(())
    }

    /// Fails with [`Error::Full`] while the disk is full, so that the caller begins no new write. A write that was
    /// begun earlier may still be appended, and reaches the disk when there is room.
    pub fn admits(&self) -> Result<()> {
        if !self.shared.is_full() {
            return Ok(());
        }
        refusal(self.shared.front.lock().full.as_ref())
    }

    /// Like [`admits`](Log::admits), for a record that may use the [reserve](Durable::by_reserve): fails only if that has no
    /// room either.
    pub fn admits_by_reserve(&self) -> Result<()> {
        if !self.shared.is_full() {
            return Ok(());
        }
        let front = self.shared.front.lock();
        let has_failed = front.reserve_failed > self.shared.reached(Level::Os);
        let has_none = self.shared.files.reserve_state() == ReserveState::None;
        if has_failed || has_none { refusal(front.full.as_ref()) } else { Ok(()) }
    }

    /// Fails with [`Error::TooLarge`] if `record` is longer than [`record_bytes_max`](Options::record_bytes_max).
    pub fn check(&self, record: &Record<'_>) -> Result<()> {
        let (found, limit) = (record.size(), self.shared.options.record_bytes_max);
        if found > limit { Err(Error::TooLarge { found, limit }) } else { Ok(()) }
    }

    /// Copies `record` into the buffer. The log has the records in the order of their appends. If the buffer is over
    /// its limit, this first writes it to the file. Fails if the record is too large, or if the log has failed; a full
    /// disk is no error here.
    pub fn append(&self, record: &Record<'_>) -> Result<Ticket> {
        self.check(record)?;
        let ticket = self.append_all([*record])?;
        Ok(ticket.expect("there is a record"))
    }

    /// Appends several records, each [within the limit](Log::check), and returns the ticket of the last one; `None`
    /// when there is none. Records of other callers may come between them. Fails only if the log has failed; some of
    /// the records may then be in the log.
    pub fn append_all<'r>(&self, records: impl IntoIterator<Item = Record<'r>>) -> Result<Option<Ticket>> {
        let mut front = self.shared.front.lock();
        let mut run: Option<RegionRun<'r>> = None;
        for record in records {
            let size = record.size();
            if front.buffer.len() + size > self.shared.options.buffer_bytes_max
                && front.buffer.len() > BATCH_HEADER_LENGTH
            {
                run.take().into_iter().for_each(|run| front.note(run));
                drop(front);
                {
                    let mut back = self.shared.back();
                    // An error may be ignored here, because the check below returns it. If the disk is full, `drain`
                    // keeps the buffer. The buffer then exceeds its limit, but only by writes that were admitted before.
                    let _seen = self.shared.drain(&mut back);
                    self.shared.ask_for_roll(&back);
                }
                front = self.shared.front.lock();
            }
            if let Some(failure) = &front.failure {
                return Err(failure.clone());
            }
            record.write(&mut front.buffer);
            front.appended += size as u64;
            front.records += 1;
            if record.nonce.is_some() {
                front.newest_nonce = front.newest_nonce.max(Some(record.time));
            }
            let sequences = Sequences::of(&record);
            match &mut run {
                Some(run) if run.region == record.region => run.sequences.include(sequences),
                _ => {
                    let ended = run.replace(RegionRun { region: record.region, sequences });
                    ended.into_iter().for_each(|run| front.note(run));
                }
            }
        }
        Ok(run.map(|run| {
            front.note(run);
            Ticket(front.appended)
        }))
    }

    /// Appends a marker to the log. It becomes durable with later records; nobody waits for it, because recovery does
    /// not use markers.
    pub fn mark(&self, region: &[u8], table: &[u8], sequence: SequenceId, marker: &Marker) -> Result<Ticket> {
        debug_assert!(marker.kind.is_marker(), "{:?} is no marker", marker.kind);
        self.append(&Record {
            kind: marker.kind,
            region,
            table,
            sequence,
            time: self.shared.world.now(),
            nonce: None,
            cells: &marker.encode(),
        })
    }

    /// Returns a future that resolves when `ticket` has reached `level`. It works with any executor. On storage without
    /// [`Capability::WriteThrough`], written bytes do not survive the process, so each level is treated as
    /// [`Level::Disk`].
    pub fn sync(&self, ticket: Ticket, level: Level) -> Durable {
        let level = if self.shared.writes_through { level } else { Level::Disk };
        Durable::new(Arc::clone(&self.shared), ticket, level)
    }

    /// Blocks the thread until `ticket` has reached `level`.
    pub fn sync_blocking(&self, ticket: Ticket, level: Level) -> Result<()> {
        self.sync(ticket, level).wait()
    }

    /// Like [`sync_blocking`](Log::sync_blocking), but waits while the disk is full: only the end of the log is an
    /// error.
    pub fn sync_patiently(&self, ticket: Ticket, level: Level) -> Result<()> {
        self.sync(ticket, level).patiently().wait()
    }

    /// Ends the current file and begins another one. All records appended before the call are durable when this
    /// returns. If the next file cannot be created, fails, and the log continues in the current file.
    pub fn roll(&self) -> Result<()> {
        self.shared.roll(&self.shared.rolling.lock())
    }

    /// Records that all cells of `region` up to and including `through` are in store files. Removes log files that
    /// nobody needs any more. In an object store the next [`tidy`](Log::tidy) removes them instead, because deletions
    /// take many requests there.
    pub fn flushed(&self, region: &[u8], through: SequenceId) {
        {
            let mut back = self.shared.back();
            match back.flushed.get_mut(region) {
                Some(known) => *known = (*known).max(through),
                None => {
                    back.flushed.insert(region.into(), through);
                }
            }
            back.find_unneeded(&self.shared.world);
        }
        self.shared.remove_unneeded_soon();
    }

    /// Removes files that nobody needs any more and whose [grace period](Options::keep_unneeded) is over. Must be
    /// called every few seconds. An idle owner learns only here that another process has taken the log.
    pub fn tidy(&self) {
        if !self.shared.files.capabilities().has(Capability::OneProcess) {
            // If another process has taken the log, `check_claim` ends this log and wakes those who wait for its end.
            // If the storage does not answer, nobody knows the owner, and the log continues.
            let _told = self.shared.check_claim();
        }
        self.shared.back().find_unneeded(&self.shared.world);
        self.shared.remove_unneeded();
    }

    /// Returns the holder `name`, or creates it; a new holder needs every existing file. From then on each file is kept
    /// until the holder has released it, also after a restart. Fails if `name` is not made of 1 to 100 letters, digits,
    /// `-`, `_` and `.`, or begins with a dot.
    pub fn hold(&self, name: &str) -> Result<LogHolder> {
        check_name(name)?;
        self.shared.begin_holder(name)?;
        Ok(LogHolder::new(Arc::clone(&self.shared), name.into()))
    }

    /// Returns the named holders, each with the number of the lowest file that it needs.
    pub fn holders(&self) -> Vec<(Box<str>, u64)> {
        self.shared.back().held_from.iter().map(|(name, lowest)| (name.clone(), *lowest)).collect()
    }

    /// Follows this log from position `from` on, up to what is durable. Files that were not read yet should be
    /// [held](Log::hold); otherwise the tail may fail with [`Error::Gone`].
    pub fn follow(&self, from: LogPosition) -> LogTail {
        let shared = Arc::clone(&self.shared);
        let tail = LogTail::open(Arc::clone(&shared.files), shared.folder.clone(), from);
        tail.with_source(Arc::new(move || *shared.durable_at.lock()))
    }

    /// Records that a region no longer exists, for example because its table was dropped. From then on the log keeps no
    /// file for its records, until the region is [opened](Log::remember_region).
    pub fn forget_region(&self, region: &[u8]) {
        self.flushed(region, SequenceId::MAX);
    }

    /// Records that a region is opened. A region of the same name may have been [forgotten](Log::forget_region), for example
    /// because an interrupted creation is repeated: files are kept for the edits that follow, which must have greater
    /// sequence ids than [the known ones](Log::newest_edit).
    pub fn remember_region(&self, region: &[u8]) {
        let newest = self.newest_edit(region);
        let mut back = self.shared.back();
        if back.flushed.get(region) == Some(&SequenceId::MAX) {
            back.flushed.remove(region);
            back.flushed.extend(newest.map(|newest| (region.into(), newest)));
        }
    }

    /// Returns a sequence id that no edit of the region in this log exceeds; `None` if this process knows of no edit.
    pub fn newest_edit(&self, region: &[u8]) -> Option<SequenceId> {
        let back = self.shared.back();
        // Files that are no longer needed may still exist after a crash. What they have was flushed.
        let flushed = back.flushed.get(region).copied().filter(|through| *through != SequenceId::MAX);
        let in_files = back.live.values().filter_map(|file| file.newest_of(region));
        let stuck = back.stuck.as_ref().and_then(|batch| batch.regions.get(region)).map(|it| it.newest);
        let in_buffer = self.shared.front.lock().regions.get(region).map(|it| it.newest);
        let newest = in_files.chain(flushed).chain(stuck).chain(in_buffer).max();
        newest.filter(|newest| *newest != SequenceId::ZERO)
    }

    /// Removes spare files, because another writer found the disk full. Returns whether there were any.
    pub fn remove_spares(&self) -> bool {
        // The files are removed after the lock on the back is released, because removing large files takes time.
        let spares = std::mem::take(&mut self.shared.back().spares);
        let any = !spares.is_empty();
        spares.into_values().for_each(|writer| writer.abandon());
        any
    }

    /// Returns the number of files, including the current one and without spares, and their bytes.
    pub fn size(&self) -> (usize, u64) {
        let back = self.shared.back();
        // `live` has the size of a file only when the file has ended, so the size of the current file is added.
        let current = back.writer.as_ref().map_or(0, |writer| writer.size());
        (back.live.len(), back.live.values().map(|file| file.bytes).sum::<u64>() + current)
    }

    /// Whether a file was begun since the last call. If so, it is time to call
    /// [`regions_holding_back`](Log::regions_holding_back).
    pub fn has_grown(&self) -> bool {
        // The load is cheaper than the swap, and nearly always returns `false`.
        self.shared.grown.load(Ordering::Relaxed) && self.shared.grown.swap(false, Ordering::Relaxed)
    }

    /// Returns the regions that should be flushed because the log has too many files or parts: those with unflushed edits
    /// in the oldest file that a region needs. Returns none if the log is within its limits while all memstores together
    /// have `memory` bytes.
    pub fn regions_holding_back(&self, memory: u64) -> Vec<Box<[u8]>> {
        let Options { files_min, files_max, file_bytes_max, .. } = self.shared.options;
        let twice = usize::try_from(memory.saturating_mul(2) / file_bytes_max.max(1)).unwrap_or(usize::MAX);
        let back = self.shared.back();
        // Searches the first file with unflushed edits. Older files are kept for named holders, so flushes would not
        // help to remove them.
        let is_needed = |file: &&LogFile| file.unflushed(&back.flushed).next().is_some();
        let before = back.live.values().take_while(|file| !is_needed(file)).count();
        let Some(oldest) = back.live.values().nth(before) else { return Vec::new() };
        let has_few_files = back.live.len() - before < twice.max(files_min).min(files_max);
        // The current file counts nothing here: it may have the other half of the limit.
        let ended_parts: usize = back.live.values().skip(before).map(|file| file.parts).sum();
        if has_few_files && ended_parts < self.shared.options.file_parts_max() {
            return Vec::new();
        }
        oldest.unflushed(&back.flushed).map(Into::into).collect()
    }

    /// Returns the number of [parts](storage::FileWriter::parts) of all files, including the current one; 0 where a file
    /// is one object.
    pub fn parts(&self) -> usize {
        let back = self.shared.back();
        let current = back.writer.as_ref().map_or(0, |writer| writer.parts());
        back.live.values().map(|file| file.parts).sum::<usize>() + current
    }

    /// Returns the number of the current file, which grows with every roll.
    pub fn file_number(&self) -> u64 {
        self.shared.back().number
    }

    /// Whether the current file has no record yet.
    pub fn is_fresh(&self) -> bool {
        let is_empty = |back: &Back| {
            let no_records = back.writer.as_ref().is_none_or(|writer| writer.size() <= HEADER_LENGTH as u64);
            no_records && self.shared.front.lock().buffer.len() == BATCH_HEADER_LENGTH
        };
        is_empty(&self.shared.back())
    }

    /// Returns the error because of which the log accepts no more writes; `None` while it works.
    pub fn failure(&self) -> Option<Error> {
        self.shared.front.lock().failure.clone()
    }

    /// Returns a future that resolves with the [`failure`](Log::failure) once there is one. The server must then end.
    pub fn failed(&self) -> impl Future<Output = Error> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        std::future::poll_fn(move |context| {
            let mut front = shared.front.lock();
            if let Some(failure) = &front.failure {
                return Poll::Ready(failure.clone());
            }
            if !front.watchers.iter().any(|watcher| watcher.will_wake(context.waker())) {
                front.watchers.push(context.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Asks the storage whether another process has taken the log. If so, this log ends, and the returned error names
    /// that process. Returns `None` also when the storage does not answer.
    pub fn taken_over(&self) -> Option<Error> {
        self.shared.check_claim().err().filter(|error| matches!(error, Error::Fenced { .. }))
    }

    /// Fails if another process has taken the log, or if the storage cannot tell. In the first case this log ends. Reads
    /// nothing on storage that only [one process](Capability::OneProcess) can open.
    pub fn check_owner(&self) -> Result<()> {
        if self.shared.files.capabilities().has(Capability::OneProcess) {
            return Ok(());
        }
        self.shared.check_claim()
    }

    /// Returns the folder or URL of the storage that has the log, without the log's own folder.
    pub fn place(&self) -> String {
        self.shared.files.place()
    }

    /// Returns the owner's name, for people.
    pub fn owner(&self) -> &str {
        &self.shared.claim.owner.name
    }

    /// Returns the name of the owner before this one; `None` if there was none, or if its record was damaged.
    pub fn previous_owner(&self) -> Option<&str> {
        self.shared.claim.previous.as_deref()
    }

    /// Returns the owner's epoch, which is larger than that of every earlier owner.
    pub fn epoch(&self) -> u64 {
        self.shared.claim.owner.epoch
    }

    /// Closes the log cleanly: all appended records become durable, and the file gets its end record.
    pub fn close(&self) -> Result<()> {
        let closed = {
            let rolling = self.shared.rolling.lock();
            if self.shared.is_worth_replacing() {
                // If this fails, the next start reads more, or the failure is found again below.
                let _logged = self.shared.roll(&rolling);
            }
            let mut back = self.shared.back();
            let closed = self.shared.drain(&mut back).and_then(|()| self.shared.finish_current(&mut back));
            // Set while the back is still locked. Waiters are woken when it is released; they find the error and do not
            // try to write.
            self.shared.front.lock().failure.get_or_insert(Error::Closed);
            closed
        };
        self.shared.fail(Error::Closed);
        self.stop();
        if closed.is_ok() {
            // Files that nobody needs are removed now, because the next start would read them.
            self.shared.remove_unneeded();
        }
        closed
    }

    fn stop(&self) {
        self.shared.front.lock().stopping = true;
        self.shared.disk_wanted.notify_all();
        let (syncer, remover) = (self.syncer.lock().take(), self.remover.lock().take());
        // The last owner of the log may be dropped by the log's own thread, when it wakes a waiter. The thread cannot
        // wait for itself; it ends soon.
        if *self.shared.thread.lock() == Some(env::this_thread()) {
            return;
        }
        for thread in [syncer, remover].into_iter().flatten() {
            let panicked = thread.join().is_err();
            debug_assert!(!panicked, "a thread of the log broke an invariant");
        }
    }
}

/// Returns the error `full` for a write that was not begun.
fn refusal(full: Option<&Error>) -> Result<()> {
    match full {
        Some(Error::Full { place, cause, .. }) => {
            Err(Error::Full { place: place.clone(), cause: cause.clone(), outcome: Outcome::DidNotHappen })
        }
        _ => Ok(()),
    }
}

/// Counters of the log since it was opened.
#[derive(Debug, Default)]
struct Counts {
    appends: Counter,
    writes: Counter,
    bytes: Counter,
    syncs: Histogram,
    slow_syncs: Counter,
    rolls: Counter,
    reused: Counter,
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
            ("file_reused_count", "Log files begun in the space of older ones.", &counts.reused),
            ("roll_failed_count", "Log files that could not be begun.", &counts.rolls_failed),
            ("disk_full_count", "Writes of the log that found no space.", &counts.full),
        ] {
            out.counter(&format!("hbase_wal_{name}"), help, &[], counter.value());
        }
        out.times("hbase_wal_sync_seconds", "Times of making the log durable.", &[], &counts.syncs);
        let (files, bytes) = self.size();
        out.gauge("hbase_wal_file_count", "Log files kept.", &[], files as f64);
        out.gauge("hbase_wal_file_size", "Bytes of log files kept.", &[], bytes as f64);
        let help =
            "Objects of log files kept in an object store, which a start reads; 0 for a log elsewhere.";
        out.gauge("bellows_wal_part_count", help, &[], self.parts() as f64);
        let (spares, held) = {
            let back = self.shared.back();
            let lowest = back.held_from.values().min().copied().unwrap_or(u64::MAX);
            (back.spares.len(), back.live.range(lowest..).count())
        };
        let help = "Log files that named holders such as backup or replication need.";
        out.gauge("hbase_wal_file_held_count", help, &[], held as f64);
        let help = "Spare log files, kept to be overwritten; not counted in hbase_wal_file_count.";
        out.gauge("hbase_wal_file_ready_count", help, &[], spares as f64);
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
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod holder_tests;
#[cfg(test)]
mod index_tests;
#[cfg(test)]
mod parts_tests;
#[cfg(test)]
mod reuse_tests;
#[cfg(test)]
mod seal_tests;
#[cfg(test)]
mod tail_tests;
#[cfg(test)]
mod tests;
