//! The bucket cache's blocks on devices.
//!
//! 1. The index, a [`Shelf`] like that of the memory tier, decides whether a block is admitted. An admitted block waits
//!    in memory for a writer; readers find it there.
//! 2. A writer allocates a slot, writes the record, and stores the location and the checksum of the record's head in
//!    the index. When no slot of the size is free it evicts blocks, and finally empties the least filled bucket.
//! 3. A read takes the location and checksum from the index, reads without a lock, and verifies. If the slot was given
//!    to another block meanwhile, the check fails and the read is a miss; so no writer waits for readers. A reader of a
//!    few cells reads the head of the record, and then the bytes that contain those cells. Where reading a head costs a
//!    system call, the index keeps heads in memory while there is room. A kept head is removed with its record, but
//!    never to make room for another head: where many heads are wanted, each would be evicted before its next use.
//! 4. A device whose reads fail without a success for longer than tolerated is no longer used. A device whose writes
//!    fail for that long, such as a full disk, receives no more blocks, but its blocks are still read. Each device is
//!    judged alone, and the others continue with their own capacity. When the last one fails, the cache is disabled.
//! 5. Where a device is memory-mapped ([`Device::is_mapped`]), reads that must not wait copy from the map; the
//!    checksums cost more time than the copy. When the mapped file is truncated or its disk fails, reads use the file
//!    instead.

mod disk;
mod entry;
mod faults;
mod kept;
#[cfg(test)]
mod soak;
mod writers;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::sync::{Condvar, Mutex};
use env::{Priority, World};
use storage::Device;

use super::allocator::{Allocator, bucket_size};
use super::buffer::Buffer;
use super::record::{self, Mark, Part};
use super::{BucketCounts, BucketOptions};
use crate::memory::{Admission, Shelf, hash_of};
use crate::{Block, BlockKey, Cells, FileId};
use disk::Disk;
use entry::{Entry, Slot};
use writers::Job;

const REMEDY_UNMAPPED: &str = "the file was truncated or its disk cannot be read; from now on it is read by system calls, \
     which is slower, and blocks that it lacks are read from storage; replace the file and restart the server";

struct State {
    index: Shelf<Entry>,
    slots: Allocator,
    queue: VecDeque<Job>,
    writing: usize,
    stopped: bool,
}

struct Shared {
    disks: Vec<Disk>,
    /// Whether all devices were memory-mapped at the start.
    mapped: bool,
    /// Whether the loss of a map was reported.
    unmapped: AtomicBool,
    /// Size of a bucket, in bytes. Buckets are distributed over the devices round robin, so that all devices are used.
    bucket_size: u64,
    queue_max: usize,
    /// Number of bytes of kept heads. It is changed only under the lock of the index, but read without it to see
    /// whether there is room.
    head_bytes: AtomicU64,
    /// Maximum of `head_bytes`.
    head_bytes_max: u64,
    errors_tolerated: Duration,
    /// The fraction of the slots' bytes that may be used.
    fill: f64,
    /// The fraction of the usable bytes that is for in-memory families.
    in_memory_share: f64,
    world: World,
    state: Mutex<State>,
    more: Condvar,
    idle: Condvar,
    /// Whether no device is used any more.
    disabled: AtomicBool,
    /// Whether no device receives blocks any more.
    read_only: AtomicBool,
    dropped: AtomicU64,
    corrupt: AtomicU64,
    stale: AtomicU64,
}

/// The store; see the module documentation. Dropping it stops its writers.
pub(super) struct Store(Arc<Shared>);

impl Store {
    pub(super) fn new(devices: Vec<Arc<dyn Device>>, options: &BucketOptions, world: World) -> Store {
        let bucket = bucket_size(&options.slot_sizes).max(1);
        let least = devices.iter().map(|device| device.size()).min().unwrap_or(0);
        let slots = Allocator::over(devices.len(), least, &options.slot_sizes);
        let (fill, in_memory_share) = (options.fill.clamp(0.0, 1.0), options.in_memory_share);
        let (bytes_max, in_memory) = limits(&slots, fill, in_memory_share);
        let writers = options.writer_threads.max(1);
        let mapped = !devices.is_empty() && devices.iter().all(|device| device.is_mapped());
        let disks = devices.into_iter().map(|device| Disk::new(device, options.errors_tolerated)).collect();
        let shared = Arc::new(Shared {
            disks,
            mapped,
            unmapped: AtomicBool::new(false),
            bucket_size: bucket,
            queue_max: options.queue_length.max(1).saturating_mul(writers),
            head_bytes: AtomicU64::new(0),
            head_bytes_max: if mapped { 0 } else { options.head_bytes_max },
            errors_tolerated: options.errors_tolerated,
            fill,
            in_memory_share,
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
        });
        let mut started = 0;
        for _ in 0..writers {
            let writer = Arc::clone(&shared);
            if env::spawn_thread("cache-writer", Priority::Background, move || writer.write_all()).is_ok() {
                started += 1;
            }
        }
        if started == 0 {
            shared.disable("cannot start a thread that writes");
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
        // The buffer is allocated for the block alone, because the memory tier may keep the block, and with it the
        // whole buffer.
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

    /// Returns the cells of a data block that `pick` chooses. `None` if the block is not in the index, is compressed or
    /// cannot be read, or if reading would wait.
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
        let kind = match (self.0.mapped, self.0.disks.len()) {
            (true, _) => "mmap",
            (false, 1) => "file",
            (false, _) => "files",
        };
        format!("{kind}:{}", self.0.places())
    }

    /// Whether blocks are copied from memory maps.
    pub(super) fn is_mapped(&self) -> bool {
        self.0.mapped && !self.0.unmapped.load(Ordering::Relaxed) && !self.is_disabled()
    }

    pub(super) fn has(&self, key: BlockKey) -> bool {
        self.0.state.lock().index.has(key)
    }

    pub(super) fn has_blocks_of(&self, file: FileId) -> bool {
        self.0.state.lock().index.has_file(file)
    }

    /// Returns the number of bytes of a file in cached blocks that requests have read, including the heads of their
    /// records.
    pub(super) fn read_bytes_of(&self, file: FileId) -> u64 {
        self.0.state.lock().index.read_of(file).map(|entry| u64::from(entry.length())).sum()
    }

    /// Whether a block of this approximate weight fits without an eviction. It may still be dropped when all free slots
    /// have other sizes or the writers' queues are full.
    pub(super) fn has_room(&self, weight: usize, in_memory: bool) -> bool {
        let state = self.0.state.lock();
        let class = state.slots.class_of(weight).filter(|_| !self.is_disabled());
        class.is_some_and(|class| state.index.has_room(state.slots.slot_size(class) as usize, in_memory))
    }

    pub(super) fn insert(&self, key: BlockKey, mark: Mark, block: &Arc<Block>, admission: Admission) {
        let mut state = self.0.state.lock();
        // Checked under the lock: after the writers have stopped, no block may be queued, and no other block may be
        // evicted to make room.
        if self.is_disabled() || self.0.read_only.load(Ordering::Relaxed) || state.index.has(key) {
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
            bytes_max: state.slots.bytes_open() + state.slots.bytes_closed(),
            bytes: state.index.bytes() as u64,
            blocks: state.index.len() as u64,
            head_bytes: shared.head_bytes.load(Ordering::Relaxed),
            evicted: state.index.evicted,
            refused: state.index.refused,
            dropped: shared.dropped.load(Ordering::Relaxed),
            corrupt: shared.corrupt.load(Ordering::Relaxed),
            stale: shared.stale.load(Ordering::Relaxed),
            failed: shared.disks.iter().map(Disk::failed).sum(),
            disabled: self.is_disabled(),
            read_only: shared.read_only.load(Ordering::Relaxed) && !self.is_disabled(),
            devices: shared.disks.iter().map(Disk::counts).collect(),
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

/// Returns the capacity of the index, and how much of it is for in-memory families. The blocks on devices that receive
/// no more blocks are added to both, so that they need not be evicted.
fn limits(slots: &Allocator, fill: f64, in_memory_share: f64) -> (usize, usize) {
    let (open, closed) = ((slots.bytes_open() as f64 * fill) as usize, slots.bytes_closed() as usize);
    (open + closed, (open as f64 * in_memory_share) as usize + closed)
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
    /// Frees the slots of removed entries.
    fn free(&self, state: &mut State, gone: Vec<Entry>, evicted: bool) {
        self.give_back(state, gone, evicted);
        if state.slots.has_closed() {
            self.fit(state);
        }
    }

    fn give_back(&self, state: &mut State, gone: Vec<Entry>, evicted: bool) {
        self.head_bytes.fetch_sub(gone.iter().map(Entry::head_bytes).sum(), Ordering::Relaxed);
        for slot in gone.iter().filter_map(Entry::slot) {
            if evicted {
                state.slots.note_evicted(slot.length as usize);
            }
            state.slots.free(slot.at, slot.length as usize);
        }
    }

    /// Lowers the index's capacity after a device has stopped receiving blocks, because slots freed on that device are
    /// not used again.
    fn fit(&self, state: &mut State) {
        loop {
            let (bytes_max, in_memory_max) = limits(&state.slots, self.fill, self.in_memory_share);
            let mut gone = Vec::new();
            state.index.limit(bytes_max, in_memory_max, &mut gone);
            if gone.is_empty() {
                return;
            }
            self.give_back(state, gone, true);
        }
    }

    /// Returns the device that contains the byte `at`, and the byte's offset on that device.
    fn lane_of(&self, at: u64) -> (usize, u64) {
        Allocator::device_of(self.bucket_size, self.disks.len(), at)
    }

    fn disk_of(&self, at: u64) -> &Disk {
        &self.disks[self.lane_of(at).0]
    }

    fn places(&self) -> String {
        let places: Vec<String> = self.disks.iter().map(|disk| disk.device.place()).collect();
        places.join(",")
    }

    fn read(&self, at: u64, bytes: &mut [u8], now: bool) -> storage::Result<bool> {
        let (lane, offset) = self.lane_of(at);
        let disk = &self.disks[lane];
        let device = &disk.device;
        if !now {
            return device.read_at(offset, bytes).map(|()| true);
        }
        let read = device.read_now(offset, bytes);
        if self.mapped && !device.is_mapped() && !self.unmapped.swap(true, Ordering::Relaxed) {
            disk.note_failed();
            tracing::warn!(device = %device.place(), remedy = REMEDY_UNMAPPED,
                "a page of the file that the bucket cache has mapped is missing");
        }
        read
    }

    /// Fills `bytes` from `offset` of a record. Returns `false` when it would have to wait and `now` forbids that. Also
    /// returns `false` when the read fails; then the record is removed from the index.
    fn fill(&self, key: BlockKey, slot: Slot, offset: u64, bytes: &mut [u8], now: bool) -> bool {
        self.read(slot.at + offset, bytes, now).unwrap_or_else(|error| {
            self.drop_slot(key, slot);
            self.note_read_failure(slot.at, &error);
            false
        })
    }

    /// Keeps the head of a record, if there is room and the index still has the record.
    fn keep_head(&self, key: BlockKey, slot: Slot, part: &Part) {
        let has_room = || {
            self.head_bytes.load(Ordering::Relaxed).saturating_add(u64::from(slot.head))
                <= self.head_bytes_max
        };
        // First checked without the lock, because every get tries to keep a head, even when there is no more room for
        // heads.
        if !has_room() {
            return;
        }
        let Some(head) = part.head_to_keep() else { return };
        let mut state = self.state.lock();
        // Another reader may have kept the head meanwhile, or the slot may have another record by now.
        let lacks_it = matches!(state.index.peek(key), Some(Entry::Written(there, None)) if *there == slot);
        if lacks_it && has_room() {
            self.head_bytes.fetch_add(head.weight(), Ordering::Relaxed);
            state.index.replace(key, Entry::Written(slot, Some(head)));
        }
    }
}
