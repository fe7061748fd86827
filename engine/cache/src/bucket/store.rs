//! Blocks on devices.
//!
//! 1. A block that is taken waits in memory for a writer, and is found there. Whether it is taken is decided before it
//!    is written: the index is a [`Shelf`] of its own.
//! 2. A writer takes a slot, writes the record, and puts the place and the sum of the record's head into the index. Where no
//!    slot of the size is free it evicts, and at last empties the bucket that holds least.
//! 3. A read takes place and sum out of the index, reads without any lock, and checks. A slot that was given to another
//!    block meanwhile fails the check and is a miss: nobody waits for readers. Who wants few cells has the head of the
//!    record read, and then what of its bytes has those cells. A head that costs a call to read stays in memory, in the
//!    index, while there is room for it: it goes with its record, and never for another, for where many are wanted each
//!    would go before it is looked at again.
//! 4. A device whose reads fail without a success in between for longer than is tolerated is used no more. One whose writes
//!    do, as those of a full disk, is given nothing more, and what is there is read on while there is something.
//! 5. Where a device is mapped ([`Device::is_mapped`]), reads that need no wait are copies out of the map, in the time that
//!    the check alone would take. A map whose file is cut or whose disk fails is read no more, but its file is.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::{Priority, World};
use parking_lot::{Condvar, Mutex, MutexGuard};
use storage::Device;

use super::allocator::{Allocator, bucket_size};
use super::buffer::Buffer;
use super::health::Health;
use super::record::{self, KeptHead, Mark, Part};
use super::{BucketCounts, BucketOptions, Placed};
use crate::memory::{Admission, Shelf, hash_of};
use crate::{Block, BlockKey, Cells, FileId};

/// Places of the index that are looked through before others have the lock.
const SLICE: usize = 1_024;

/// Evictions for one slot before a whole bucket is emptied.
const EVICTIONS_MAX: usize = 8;

const REMEDY: &str =
    "blocks are read from storage instead; put a sound device there and start the server again";

const REMEDY_FULL: &str = "what is there is still read, and everything else from storage; make room where the device lies, \
     or put one there that can be written, and start the server again";

const REMEDY_UNMAPPED: &str = "the file was cut or its disk cannot be read: it is read and not mapped from now on, which \
     is slower, and what it does not give is read from storage; put a sound file there and start the server again";

/// Where a record lies.
#[derive(Clone, Copy, Debug)]
struct Slot {
    at: u64,
    length: u32,
    /// How much of it is its head, and the sum of that.
    head: u32,
    sum: u32,
    /// Whether an index said so that another process had kept, and nobody has found it there since. What that process wrote
    /// after it had kept the index may lie there: that is no fault of the device.
    is_hearsay: bool,
}

/// The same record, whatever is known of it.
impl PartialEq for Slot {
    fn eq(&self, other: &Slot) -> bool {
        let all = |slot: &Slot| (slot.at, slot.length, slot.head, slot.sum);
        all(self) == all(other)
    }
}

/// What the index has of a block.
#[derive(Debug)]
enum Entry {
    Waiting(Arc<Block>),
    /// With its head, if that is kept.
    Written(Slot, Option<KeptHead>),
}

impl Entry {
    fn waits_as(&self, block: &Arc<Block>) -> bool {
        matches!(self, Entry::Waiting(waiting) if Arc::ptr_eq(waiting, block))
    }

    /// Where it lies, when it is written.
    fn slot(&self) -> Option<Slot> {
        match self {
            Entry::Waiting(_) => None,
            Entry::Written(slot, _) => Some(*slot),
        }
    }

    /// Bytes of the head that is kept.
    fn head_bytes(&self) -> u64 {
        match self {
            Entry::Written(_, Some(head)) => head.weight(),
            Entry::Written(_, None) | Entry::Waiting(_) => 0,
        }
    }
}

struct Job {
    key: BlockKey,
    mark: Mark,
    block: Arc<Block>,
}

struct State {
    index: Shelf<Entry>,
    /// Changed under the lock, and read by those who do without it: [`Shared::head_bytes`].
    head_bytes: Arc<AtomicU64>,
    slots: Allocator,
    queue: VecDeque<Job>,
    writing: usize,
    stopped: bool,
}

struct Shared {
    devices: Vec<Arc<dyn Device>>,
    /// Whether all of them were mapped, and whether it was told that one is so no more.
    mapped: bool,
    unmapped: AtomicBool,
    /// Bytes of a bucket. Buckets are dealt to the devices in turn, so that all of them work.
    bucket_size: u64,
    queue_max: usize,
    /// Bytes of the heads that are kept, and those that may be.
    head_bytes: Arc<AtomicU64>,
    head_bytes_max: u64,
    errors_tolerated: Duration,
    reads: Health,
    writes: Health,
    world: World,
    state: Mutex<State>,
    more: Condvar,
    idle: Condvar,
    disabled: AtomicBool,
    /// Whether nothing more is taken in.
    read_only: AtomicBool,
    dropped: AtomicU64,
    corrupt: AtomicU64,
    stale: AtomicU64,
    failed: AtomicU64,
}

/// See the file. Its writers end with it.
pub(super) struct Store(Arc<Shared>);

impl Store {
    pub(super) fn new(devices: Vec<Arc<dyn Device>>, options: &BucketOptions, world: World) -> Store {
        let bucket = bucket_size(&options.slot_sizes).max(1);
        let least = devices.iter().map(|device| device.size()).min().unwrap_or(0);
        let device_bytes = least / bucket * bucket;
        let slots = Allocator::new(device_bytes * devices.len() as u64, &options.slot_sizes);
        let bytes_max = (slots.bytes_max() as f64 * options.fill.clamp(0.0, 1.0)) as usize;
        let in_memory = (bytes_max as f64 * options.in_memory_share) as usize;
        let writers = options.writer_threads.max(1);
        let mapped = !devices.is_empty() && devices.iter().all(|device| device.is_mapped());
        let head_bytes = Arc::new(AtomicU64::new(0));
        let shared = Arc::new(Shared {
            devices,
            mapped,
            unmapped: AtomicBool::new(false),
            bucket_size: bucket,
            queue_max: options.queue_length.max(1).saturating_mul(writers),
            head_bytes: Arc::clone(&head_bytes),
            head_bytes_max: if mapped { 0 } else { options.head_bytes_max },
            errors_tolerated: options.errors_tolerated,
            reads: Health::new(options.errors_tolerated),
            writes: Health::new(options.errors_tolerated),
            world,
            state: Mutex::new(State {
                index: Shelf::new(bytes_max, in_memory),
                head_bytes,
                slots,
                queue: VecDeque::new(),
                writing: 0,
                stopped: false,
            }),
            more: Condvar::new(),
            idle: Condvar::new(),
            disabled: AtomicBool::new(false),
            read_only: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let mut started = 0;
        for _ in 0..writers {
            let writer = Arc::clone(&shared);
            if env::spawn_thread("cache-writer", Priority::Background, move || writer.write_all()).is_ok() {
                started += 1;
            }
        }
        if started == 0 {
            shared.disable("no thread could be started that writes");
        }
        Store(shared)
    }

    fn is_disabled(&self) -> bool {
        self.0.disabled.load(Ordering::Relaxed)
    }

    pub(super) fn get(&self, key: BlockKey, mark: Mark, now: bool) -> Option<Arc<Block>> {
        if self.is_disabled() {
            return None;
        }
        let slot = match self.0.state.lock().index.get(key, hash_of(key))? {
            Entry::Waiting(block) => return Some(Arc::clone(block)),
            Entry::Written(slot, _) => *slot,
        };
        // The block may be kept in memory, with all of the buffer.
        let mut buffer = Buffer::to_keep(slot.length as usize);
        if !self.0.fill(key, slot, 0, buffer.bytes_mut(), now) {
            return None;
        }
        let block = record::read(&buffer.freeze(), slot.head as usize, slot.sum, mark);
        match &block {
            Some(_) => self.0.note_sound(key, slot),
            None => self.0.note_unsound(key, slot),
        }
        block.map(Arc::new)
    }

    /// The cells that `pick` chooses of a data block, if nobody has to wait for them.
    pub(super) fn part(
        &self,
        key: BlockKey,
        mark: Mark,
        pick: impl FnOnce(&Part) -> Range<usize>,
    ) -> Option<Cells> {
        if self.is_disabled() {
            return None;
        }
        let (slot, kept) = match self.0.state.lock().index.get(key, hash_of(key))? {
            Entry::Waiting(block) => return Some(Cells::Whole(Arc::clone(block))),
            Entry::Written(slot, kept) => (*slot, kept.clone()),
        };
        let mut buffer = Buffer::of(slot.length as usize);
        let part = match kept {
            Some(kept) => Part::of_kept(buffer, kept, mark),
            None => {
                let head_length = slot.head as usize;
                if !self.0.fill(key, slot, 0, &mut buffer.bytes_mut()[..head_length], true) {
                    return None;
                }
                let part = Part::of_head(buffer, head_length, slot.sum, mark);
                if let Some(part) = part.as_ref().filter(|part| part.has_cells()) {
                    self.0.keep_head(key, slot, part);
                }
                part
            }
        };
        let Some(mut part) = part else {
            self.0.note_unsound(key, slot);
            return None;
        };
        if !part.has_cells() {
            return None;
        }
        let wanted = pick(&part);
        let (offset, room) = part.room_for(wanted);
        if !self.0.fill(key, slot, offset as u64, room, true) {
            return None;
        }
        if !part.is_sound() {
            self.0.note_unsound(key, slot);
            return None;
        }
        self.0.note_sound(key, slot);
        Some(Cells::Part(part))
    }

    pub(super) fn engine(&self) -> String {
        let kind = match (self.0.mapped, self.0.devices.len()) {
            (true, _) => "mmap",
            (false, 1) => "file",
            (false, _) => "files",
        };
        format!("{kind}:{}", self.0.places())
    }

    /// Whether blocks are copied out of maps.
    pub(super) fn is_mapped(&self) -> bool {
        self.0.mapped && !self.0.unmapped.load(Ordering::Relaxed) && !self.is_disabled()
    }

    pub(super) fn has(&self, key: BlockKey) -> bool {
        self.0.state.lock().index.has(key)
    }

    pub(super) fn has_blocks_of(&self, file: FileId) -> bool {
        self.0.state.lock().index.has_file(file)
    }

    pub(super) fn insert(&self, key: BlockKey, mark: Mark, block: &Arc<Block>, admission: Admission) {
        if self.is_disabled() || self.0.read_only.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.0.state.lock();
        if state.index.has(key) {
            return;
        }
        let class = state.slots.class_of(record::lengths_of(block).0);
        let Some(class) = class.filter(|_| state.queue.len() < self.0.queue_max) else {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let admission = Admission { weight: state.slots.slot_size(class) as usize, ..admission };
        let mut gone = Vec::new();
        state.index.insert(key, hash_of(key), Entry::Waiting(Arc::clone(block)), admission, &mut gone);
        state.free(gone, true);
        if state.index.has(key) {
            state.queue.push_back(Job { key, mark, block: Arc::clone(block) });
            self.0.more.notify_one();
        }
    }

    pub(super) fn evict_file(&self, file: FileId) -> usize {
        let mut state = self.0.state.lock();
        let gone = state.index.remove_file(file);
        let count = gone.len();
        state.free(gone, false);
        count
    }

    pub(super) fn counts(&self) -> BucketCounts {
        let shared = &self.0;
        let state = shared.state.lock();
        BucketCounts {
            bytes_max: state.slots.bytes_max(),
            bytes: state.index.bytes() as u64,
            blocks: state.index.len() as u64,
            head_bytes: shared.head_bytes.load(Ordering::Relaxed),
            evicted: state.index.evicted,
            refused: state.index.refused,
            dropped: shared.dropped.load(Ordering::Relaxed),
            corrupt: shared.corrupt.load(Ordering::Relaxed),
            stale: shared.stale.load(Ordering::Relaxed),
            failed: shared.failed.load(Ordering::Relaxed),
            disabled: self.is_disabled(),
            read_only: shared.read_only.load(Ordering::Relaxed) && !self.is_disabled(),
            slots: state.slots.counts().to_vec(),
        }
    }

    /// Where all blocks lie that are written, a slice of the index after the other: others get and write between two.
    ///
    /// So it is no picture of one moment. A block that comes meanwhile may be missing, or be there twice, of which the first
    /// is taken when it is restored; and one that goes is there where another lies then. All of this happens to an index
    /// that is read a moment after it was kept, too: what does not lie where it should fails its check when it is read.
    pub(super) fn placed(&self) -> Vec<Placed> {
        let mut placed = Vec::with_capacity(self.0.state.lock().index.len());
        // What waits for the lock does not wait for memory.
        let mut slice = Vec::with_capacity(SLICE);
        let mut places = 0..SLICE;
        loop {
            let state = self.0.state.lock();
            let written = state.index.entries(places.clone()).filter_map(|(key, entry, in_memory)| {
                let Slot { at, length, head, sum, .. } = entry.slot()?;
                Some(Placed { file: key.file.0, offset: key.offset, at, length, head, sum, in_memory })
            });
            slice.extend(written);
            let is_done = places.end >= state.index.places();
            // Else those who wait would be woken to find it taken again.
            MutexGuard::unlock_fair(state);
            placed.append(&mut slice);
            if is_done {
                return placed;
            }
            places = places.end..places.end + SLICE;
        }
    }

    pub(super) fn restore(&self, blocks: impl Iterator<Item = Placed>) -> usize {
        let mut state = self.0.state.lock();
        for Placed { file, offset, at, length, head, sum, in_memory } in blocks {
            let key = BlockKey { file: FileId(file), offset };
            let class = state.slots.class_of(length as usize);
            let Some(class) = class.filter(|_| !state.index.has(key)) else { continue };
            let is_head = (record::HEADER_LENGTH as u32..=length).contains(&head);
            if !is_head || !state.slots.take(key, at, length as usize) {
                continue;
            }
            let weight = state.slots.slot_size(class) as usize;
            let admission = Admission { weight, in_memory, asked_for: false };
            let mut gone = Vec::new();
            let slot = Slot { at, length, head, sum, is_hearsay: true };
            let entry = Entry::Written(slot, None);
            state.index.insert(key, hash_of(key), entry, admission, &mut gone);
            state.free(gone, false);
        }
        debug_assert!(state.is_whole(), "index and buckets say the same");
        state.index.len()
    }

    pub(super) fn settle(&self) {
        let mut state = self.0.state.lock();
        while !state.queue.is_empty() || state.writing > 0 {
            self.0.idle.wait(&mut state);
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.stopped = true;
        state.queue.clear();
        self.0.more.notify_all();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl State {
    /// Gives back the slots of entries that went.
    fn free(&mut self, gone: Vec<Entry>, evicted: bool) {
        self.head_bytes.fetch_sub(gone.iter().map(Entry::head_bytes).sum(), Ordering::Relaxed);
        for slot in gone.iter().filter_map(Entry::slot) {
            if evicted {
                self.slots.note_evicted(slot.length as usize);
            }
            self.slots.free(slot.at, slot.length as usize);
        }
    }

    /// A slot, though others must go for it.
    fn make_slot(&mut self, block: BlockKey, length: usize) -> Option<u64> {
        for _ in 0..EVICTIONS_MAX {
            if let Some(at) = self.slots.allocate(block, length) {
                return Some(at);
            }
            let gone = self.index.pop()?;
            self.free(vec![gone], true);
        }
        if let Some(bucket) = self.slots.emptiest() {
            let there: Vec<BlockKey> = self.written_in(bucket).collect();
            let gone: Vec<Entry> =
                there.into_iter().filter_map(|block| self.index.remove_key(block)).collect();
            self.index.evicted += gone.len() as u64;
            self.free(gone, true);
        }
        self.slots.allocate(block, length)
    }

    /// The blocks that lie in a bucket. In a slot that is being written none lies yet.
    fn written_in(&self, bucket: usize) -> impl Iterator<Item = BlockKey> {
        let lies_at = |at, block| self.index.peek(block)?.slot().filter(|slot| slot.at == at);
        self.slots
            .blocks_in(bucket)
            .filter(move |&(at, block)| lies_at(at, block).is_some())
            .map(|(_, block)| block)
    }

    /// Whether each block of the index is the one that its slot is said to be of.
    fn is_whole(&self) -> bool {
        let lies_there = |key, slot: Slot| self.slots.block_at(slot.at) == Some(key);
        let mut entries = self.index.entries(0..self.index.places());
        entries.all(|(key, entry, _)| entry.slot().is_none_or(|slot| lies_there(key, slot)))
    }
}

impl Shared {
    /// The device that has the byte `at`, and where.
    fn device_of(&self, at: u64) -> (&Arc<dyn Device>, u64) {
        let (bucket, within) = (at / self.bucket_size, at % self.bucket_size);
        let devices = self.devices.len() as u64;
        (&self.devices[(bucket % devices) as usize], bucket / devices * self.bucket_size + within)
    }

    fn places(&self) -> String {
        let places: Vec<String> = self.devices.iter().map(|device| device.place()).collect();
        places.join(",")
    }

    fn place_of(&self, at: u64) -> String {
        self.device_of(at).0.place()
    }

    fn read(&self, at: u64, bytes: &mut [u8], now: bool) -> storage::Result<bool> {
        let (device, offset) = self.device_of(at);
        if !now {
            return device.read_at(offset, bytes).map(|()| true);
        }
        let read = device.read_now(offset, bytes);
        if self.mapped && !device.is_mapped() && !self.unmapped.swap(true, Ordering::Relaxed) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(device = %device.place(), remedy = REMEDY_UNMAPPED,
                "a page is gone of the file that the bucket cache has mapped");
        }
        read
    }

    /// Fills `bytes` from `offset` of a record. `false` when that cannot be: `now`, or, and then the record is forgotten,
    /// at all.
    fn fill(&self, key: BlockKey, slot: Slot, offset: u64, bytes: &mut [u8], now: bool) -> bool {
        self.read(slot.at + offset, bytes, now).unwrap_or_else(|error| {
            self.drop_slot(key, slot);
            self.note_read_failure(&error);
            false
        })
    }

    /// Keeps the head of a record if there is room for it and the index has not forgotten the record.
    fn keep_head(&self, key: BlockKey, slot: Slot, part: &Part) {
        let has_room = || {
            self.head_bytes.load(Ordering::Relaxed).saturating_add(u64::from(slot.head))
                <= self.head_bytes_max
        };
        // Asked without the lock: once there is none, it is so at each get.
        if !has_room() {
            return;
        }
        let Some(head) = part.head_to_keep() else { return };
        let mut state = self.state.lock();
        // Somebody else may have kept it meanwhile, or another record lies there.
        let lacks_it = matches!(state.index.peek(key), Some(Entry::Written(there, None)) if *there == slot);
        if lacks_it && has_room() {
            self.head_bytes.fetch_add(head.weight(), Ordering::Relaxed);
            state.index.replace(key, Entry::Written(slot, Some(head)));
        }
    }

    /// Writes what waits, until the store is gone.
    fn write_all(&self) {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return;
            }
            match state.queue.pop_front() {
                Some(job) => {
                    state.writing += 1;
                    drop(state);
                    self.write(job);
                    state = self.state.lock();
                    state.writing -= 1;
                    if state.queue.is_empty() && state.writing == 0 {
                        self.idle.notify_all();
                    }
                }
                None => self.more.wait(&mut state),
            }
        }
    }

    fn write(&self, Job { key, mark, block }: Job) {
        let (record, sum) = record::write(mark, &block);
        let (_, head) = record::lengths_of(&block);
        let at = {
            let mut state = self.state.lock();
            if !state.index.peek(key).is_some_and(|entry| entry.waits_as(&block)) {
                return;
            }
            match state.make_slot(key, record.len()) {
                Some(at) => at,
                None => {
                    state.index.remove_key(key);
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        };
        let (device, offset) = self.device_of(at);
        let written = device.write_at(offset, &record);
        let mut state = self.state.lock();
        let waits = state.index.peek(key).is_some_and(|entry| entry.waits_as(&block));
        match (&written, waits) {
            (Ok(()), true) => {
                let (length, head) = (record.len() as u32, head as u32);
                let slot = Slot { at, length, head, sum, is_hearsay: false };
                state.index.replace(key, Entry::Written(slot, None));
            }
            (_, waits) => {
                state.slots.free(at, record.len());
                if waits {
                    state.index.remove_key(key);
                }
            }
        }
        drop(state);
        match written {
            Ok(()) => self.writes.note_success(),
            Err(error) => self.note_write_failure(&error),
        }
    }

    /// Forgets a record that cannot be had. `false` when the index has forgotten it already.
    fn drop_slot(&self, key: BlockKey, slot: Slot) -> bool {
        let mut state = self.state.lock();
        let same = state.index.peek(key).is_some_and(|entry| entry.slot() == Some(slot));
        if same {
            let gone = state.index.remove_key(key);
            state.free(gone.into_iter().collect(), false);
        }
        same
    }

    /// What was read of a record is as it was written.
    #[inline]
    fn note_sound(&self, key: BlockKey, slot: Slot) {
        self.reads.note_success();
        if slot.is_hearsay {
            self.note_found(key, slot);
        }
    }

    #[cold]
    fn note_found(&self, key: BlockKey, slot: Slot) {
        let mut state = self.state.lock();
        let found = match state.index.peek(key) {
            Some(Entry::Written(there, head)) if *there == slot => {
                Entry::Written(Slot { is_hearsay: false, ..slot }, head.clone())
            }
            _ => return,
        };
        state.index.replace(key, found);
    }

    /// Forgets a record that is not what was written, unless its slot has become another block's meanwhile.
    fn note_unsound(&self, key: BlockKey, slot: Slot) {
        if !self.drop_slot(key, slot) {
            return;
        }
        if slot.is_hearsay {
            self.stale.fetch_add(1, Ordering::Relaxed);
        } else if self.corrupt.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(device = %self.place_of(slot.at), offset = slot.at,
                "the bucket cache's device gave back something else than what was written; it is read from storage \
                 instead, here and whenever it happens again (bellows_bucket_cache_corrupt_total)");
        }
    }

    fn note_read_failure(&self, error: &storage::Error) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let verdict = self.reads.note_failure(self.world.moment());
        if verdict.is_told {
            tracing::warn!(%error, tolerated = ?self.errors_tolerated,
                "cannot read from the bucket cache's device; blocks are read from storage instead");
        }
        if verdict.is_given_up {
            self.disable(&error.to_string());
        }
        self.disable_if_useless(error);
    }

    fn note_write_failure(&self, error: &storage::Error) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let verdict = self.writes.note_failure(self.world.moment());
        if verdict.is_told {
            tracing::warn!(%error, tolerated = ?self.errors_tolerated,
                "cannot write to the bucket cache's device; blocks are read from storage instead");
        }
        if verdict.is_given_up {
            self.take_nothing_more(error);
            self.disable_if_useless(error);
        }
    }

    /// A device that takes no write, and of whose blocks the last one is gone: there is nothing left whose read could fail
    /// for too long.
    fn disable_if_useless(&self, cause: &storage::Error) {
        if self.read_only.load(Ordering::Relaxed) && self.state.lock().index.len() == 0 {
            self.disable(&cause.to_string());
        }
    }

    fn take_nothing_more(&self, cause: &storage::Error) {
        if self.read_only.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(devices = self.places(), %cause, remedy = REMEDY_FULL, tolerated = ?self.errors_tolerated,
            "the bucket cache takes in nothing more: its device took no write for longer than is tolerated");
        let mut state = self.state.lock();
        for job in std::mem::take(&mut state.queue) {
            if state.index.peek(job.key).is_some_and(|entry| entry.waits_as(&job.block)) {
                state.index.remove_key(job.key);
            }
        }
        if state.writing == 0 {
            self.idle.notify_all();
        }
    }

    fn disable(&self, cause: &str) {
        if self.disabled.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(devices = self.places(), cause, remedy = REMEDY, "the bucket cache is used no more");
        let mut state = self.state.lock();
        state.queue.clear();
        let gone = state.index.remove_where(|_| true);
        state.free(gone, false);
        if state.writing == 0 {
            self.idle.notify_all();
        }
    }
}
