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

mod entry;
mod faults;
mod kept;
mod writers;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::{Priority, World};
use parking_lot::{Condvar, Mutex};
use storage::Device;

use super::allocator::{Allocator, bucket_size};
use super::buffer::Buffer;
use super::health::Health;
use super::record::{self, Mark, Part};
use super::{BucketCounts, BucketOptions};
use crate::memory::{Admission, Shelf, hash_of};
use crate::{Block, BlockKey, Cells, FileId};
use entry::{Entry, Slot};
use writers::Job;

const REMEDY_UNMAPPED: &str = "the file was cut or its disk cannot be read: it is read and not mapped from now on, which \
     is slower, and what it does not give is read from storage; put a sound file there and start the server again";

struct State {
    index: Shelf<Entry>,
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
    /// Bytes of the heads that are kept, and those that may be. They change where the index does, under its lock; whether
    /// there is room is asked without it.
    head_bytes: AtomicU64,
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
        let shared = Arc::new(Shared {
            devices,
            mapped,
            unmapped: AtomicBool::new(false),
            bucket_size: bucket,
            queue_max: options.queue_length.max(1).saturating_mul(writers),
            head_bytes: AtomicU64::new(0),
            head_bytes_max: if mapped { 0 } else { options.head_bytes_max },
            errors_tolerated: options.errors_tolerated,
            reads: Health::new(options.errors_tolerated),
            writes: Health::new(options.errors_tolerated),
            world,
            state: Mutex::new(State {
                index: Shelf::new(bytes_max, in_memory),
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
        self.0.free(&mut state, gone, true);
        if state.index.has(key) {
            state.queue.push_back(Job { key, mark, block: Arc::clone(block) });
            self.0.more.notify_one();
        }
    }

    pub(super) fn evict_file(&self, file: FileId) -> usize {
        let mut state = self.0.state.lock();
        let gone = state.index.remove_file(file);
        let count = gone.len();
        self.0.free(&mut state, gone, false);
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

impl Shared {
    /// Gives back the slots of entries that went.
    fn free(&self, state: &mut State, gone: Vec<Entry>, evicted: bool) {
        self.head_bytes.fetch_sub(gone.iter().map(Entry::head_bytes).sum(), Ordering::Relaxed);
        for slot in gone.iter().filter_map(Entry::slot) {
            if evicted {
                state.slots.note_evicted(slot.length as usize);
            }
            state.slots.free(slot.at, slot.length as usize);
        }
    }

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
}
