//! The second tier: HBase's bucket cache.
//!
//! In combined mode it holds data blocks, and the memory tier index and blooms; else both hold everything. Its engine is
//!
//! * memory of its own (`offheap`): blocks lie there as they are read, and are handed out by reference;
//! * one or more devices ([`store`]): blocks lie in [buckets](allocator) of slots, as [records](record) that are ready to
//!   be read. They are copied from there, whole or [in part](Part): by a call of the system (`file`, `files`), or out of a
//!   map (`mmap`).
//!
//! A device is never trusted: what it gives back is checked against sums, the first of which was kept here, and used only if it is the
//! block that is wanted. Whatever else it does costs a hit and nothing more: blocks are in storage, too.

mod allocator;
mod buffer;
mod health;
mod record;
mod store;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use env::World;
use storage::Device;

pub use allocator::{HBASE_SLOT_SIZES, SLOT_SIZES, SlotCounts};
pub use record::Part;
pub(crate) use record::{MAGIC as RECORD_MAGIC, Mark, checksum};

use crate::memory::{Admission, Memory};
use crate::{Block, BlockKey, Cells, FileId};
use store::Store;

/// What a bucket cache on devices is made with.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// Sizes of slots in bytes (`hbase.bucketcache.bucket.sizes`).
    pub slot_sizes: Vec<u32>,
    /// The share that blocks of in-memory families hold against all others (`hbase.bucketcache.memory.factor`).
    pub in_memory_share: f64,
    /// The share of its bytes that it fills before blocks compete (`hbase.bucketcache.acceptfactor`): slots of several
    /// sizes do not fit without a rest.
    pub fill: f64,
    /// Threads that write (`hbase.bucketcache.writer.threads`).
    pub writer_threads: usize,
    /// Blocks that wait for a writer, for each of them; more are not taken (`hbase.bucketcache.writer.queuelength`).
    pub queue_length: usize,
    /// How long reads of a device may fail without a success in between before it is used no more, and its writes before
    /// it is given nothing more (`hbase.bucketcache.ioengine.errors.tolerated.duration`).
    pub errors_tolerated: Duration,
    /// Bytes of memory for the heads of records that cost a call of the system to read: where few cells are wanted of a block,
    /// one call does then in the place of two (`bellows.bucketcache.heads.size`).
    pub head_bytes_max: u64,
}

impl Default for BucketOptions {
    fn default() -> BucketOptions {
        BucketOptions {
            slot_sizes: SLOT_SIZES.to_vec(),
            in_memory_share: 0.25,
            fill: 0.95,
            writer_threads: 3,
            queue_length: 64,
            errors_tolerated: Duration::from_secs(60),
            head_bytes_max: 16 << 20,
        }
    }
}

impl BucketOptions {
    /// The least bytes that one device must have: a bucket.
    pub fn bytes_min(&self) -> u64 {
        allocator::bucket_size(&self.slot_sizes)
    }
}

/// What is known of the bucket cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts {
    /// Bytes it may take; of devices that are given nothing more, those that are taken.
    pub bytes_max: u64,
    /// Bytes it takes; of slots, what is lost to rounding up included.
    pub bytes: u64,
    /// Blocks in it.
    pub blocks: u64,
    /// Bytes of memory that heads of records take.
    pub head_bytes: u64,
    /// Dropped to make room.
    pub evicted: u64,
    /// Not taken, because what was there was used more.
    pub refused: u64,
    /// Not taken, because too many waited to be written, or because no slot could be freed.
    pub dropped: u64,
    /// Given back by the device as something else than what was written.
    pub corrupt: u64,
    /// Said by the index of the last process to lie where something else does, for it was killed after it had kept that.
    pub stale: u64,
    /// Reads and writes that failed.
    pub failed: u64,
    /// Whether it is used no more, because its last device failed for too long.
    pub disabled: bool,
    /// Whether it takes in nothing more, because writes to each of its devices failed for too long. What is there is read.
    pub read_only: bool,
    /// Its devices; none for one in memory.
    pub devices: Vec<DeviceCounts>,
    /// Its slots by size; empty for one in memory.
    pub slots: Vec<SlotCounts>,
}

/// What is known of one of its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Where it is.
    pub place: String,
    /// Reads and writes that failed.
    pub failed: u64,
    /// Whether it is used no more, because it failed for too long.
    pub disabled: bool,
    /// Whether it is given nothing more, because writes failed for too long. What is there is read.
    pub read_only: bool,
}

/// Where a block lies on the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) file: u64,
    pub(crate) offset: u64,
    pub(crate) at: u64,
    pub(crate) length: u32,
    /// How much of it is the record's head, and the sum of that.
    pub(crate) head: u32,
    pub(crate) sum: u32,
    pub(crate) in_memory: bool,
}

/// See the file.
#[derive(Debug)]
pub struct Bucket {
    /// Whether data is here alone, and index and blooms are in the memory tier alone.
    pub(crate) combined: bool,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Memory(Memory),
    Devices(Store),
}

impl Bucket {
    /// One in memory of its own, of at most `bytes_max`.
    pub fn offheap(bytes_max: usize, options: &BucketOptions) -> Bucket {
        Bucket { combined: true, engine: Engine::Memory(Memory::new(bytes_max, options.in_memory_share)) }
    }

    /// One on devices, which are used up to the size of the smallest.
    pub fn on(devices: Vec<Arc<dyn Device>>, options: &BucketOptions, world: World) -> Bucket {
        Bucket { combined: true, engine: Engine::Devices(Store::new(devices, options, world)) }
    }

    /// Whether data is here alone, and index and blooms are in the memory tier alone
    /// (`hbase.bucketcache.combinedcache.enabled`). True unless said otherwise.
    pub fn with_combined(self, combined: bool) -> Bucket {
        Bucket { combined, ..self }
    }

    /// Whether its blocks cost no call of the system: they lie in memory, or are copied out of a map. Then memory, which
    /// is looked into beside it for every block that it has, keeps no data.
    pub(crate) fn is_near(&self) -> bool {
        match &self.engine {
            Engine::Memory(_) => true,
            Engine::Devices(store) => store.is_mapped(),
        }
    }

    /// Where its blocks lie, if that is in memory.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&Memory> {
        match &self.engine {
            Engine::Memory(memory) => Some(memory),
            Engine::Devices(_) => None,
        }
    }

    /// Whether a part of a block can be had of it.
    #[inline]
    pub(crate) fn has_parts(&self) -> bool {
        matches!(self.engine, Engine::Devices(_))
    }

    /// The block, unless somebody would have to wait for it.
    #[inline]
    pub(crate) fn get_now(&self, key: BlockKey, mark: Mark) -> Option<Arc<Block>> {
        match &self.engine {
            Engine::Memory(memory) => memory.get(key),
            Engine::Devices(store) => store.get(key, mark, true),
        }
    }

    /// The cells of a data block that `pick` chooses, unless somebody would have to wait for them. Only of one on devices:
    /// in memory blocks are handed out as they lie there.
    #[inline]
    pub(crate) fn part_now(
        &self,
        key: BlockKey,
        mark: Mark,
        pick: impl FnOnce(&Part) -> Range<usize>,
    ) -> Option<Cells> {
        match &self.engine {
            Engine::Memory(_) => None,
            Engine::Devices(store) => store.part(key, mark, pick),
        }
    }

    /// The block, though the device must be waited for.
    pub(crate) fn get(&self, key: BlockKey, mark: Mark) -> Option<Arc<Block>> {
        match &self.engine {
            Engine::Memory(memory) => memory.get(key),
            Engine::Devices(store) => store.get(key, mark, false),
        }
    }

    pub(crate) fn has(&self, key: BlockKey) -> bool {
        match &self.engine {
            Engine::Memory(memory) => memory.has(key),
            Engine::Devices(store) => store.has(key),
        }
    }

    /// Whether a block of this weight would be taken in with nothing going for it.
    pub(crate) fn has_room(&self, key: BlockKey, weight: usize, in_memory: bool) -> bool {
        match &self.engine {
            Engine::Memory(memory) => memory.has_room(key, weight, in_memory),
            Engine::Devices(store) => store.has_room(weight, in_memory),
        }
    }

    pub(crate) fn insert(&self, key: BlockKey, mark: Mark, block: &Arc<Block>, admission: Admission) {
        match &self.engine {
            Engine::Memory(memory) => memory.insert(key, block, admission),
            Engine::Devices(store) => store.insert(key, mark, block, admission),
        }
    }

    pub(crate) fn evict_file(&self, file: FileId) -> usize {
        match &self.engine {
            Engine::Memory(memory) => memory.evict_file(file),
            Engine::Devices(store) => store.evict_file(file),
        }
    }

    pub(crate) fn has_blocks_of(&self, file: FileId) -> bool {
        match &self.engine {
            Engine::Memory(memory) => memory.has_blocks_of(file),
            Engine::Devices(store) => store.has_blocks_of(file),
        }
    }

    /// Bytes of a file in blocks that requests have read.
    pub(crate) fn read_bytes_of(&self, file: FileId) -> u64 {
        match &self.engine {
            Engine::Memory(memory) => memory.read_bytes_of(file),
            Engine::Devices(store) => store.read_bytes_of(file),
        }
    }

    /// Its engine as it is configured: `offheap`, `file:PATH`, `files:PATH,PATH`, `mmap:PATH`.
    pub fn engine(&self) -> String {
        match &self.engine {
            Engine::Memory(_) => "offheap".to_owned(),
            Engine::Devices(store) => store.engine(),
        }
    }

    /// What is known of it.
    pub fn counts(&self) -> BucketCounts {
        match &self.engine {
            Engine::Memory(memory) => {
                let counts = memory.counts();
                BucketCounts {
                    bytes_max: memory.bytes_max() as u64,
                    bytes: counts.bytes,
                    blocks: counts.blocks,
                    evicted: counts.evicted,
                    refused: counts.refused,
                    ..BucketCounts::default()
                }
            }
            Engine::Devices(store) => store.counts(),
        }
    }

    /// Where all blocks lie that are written.
    pub(crate) fn placed(&self) -> Vec<Placed> {
        match &self.engine {
            Engine::Memory(_) => Vec::new(),
            Engine::Devices(store) => store.placed(),
        }
    }

    /// Takes blocks in that lie on the devices already. Says how many.
    pub(crate) fn restore(&self, blocks: impl Iterator<Item = Placed>) -> usize {
        match &self.engine {
            Engine::Memory(_) => 0,
            Engine::Devices(store) => store.restore(blocks),
        }
    }

    /// Waits until everything that was taken is written.
    pub fn settle(&self) {
        if let Engine::Devices(store) = &self.engine {
            store.settle();
        }
    }
}
