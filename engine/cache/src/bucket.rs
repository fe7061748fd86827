//! The second cache tier: HBase's bucket cache.
//!
//! In combined mode this tier holds data blocks, and the memory tier holds indexes and Bloom filters. If reading from a
//! device needs a system call, the memory tier also holds data blocks that are requested often. Without combined mode
//! each tier holds every kind. The engine is one of two:
//!
//! * memory of its own (`offheap`): blocks are kept in the form in which they are read, and returned by reference;
//! * one or more devices ([`store`]): blocks are stored in the slots of [buckets](allocator), as [records](record) that
//!   can be read without decoding. A read copies them, wholly or [in part](Part), by a system call (`file`, `files`) or
//!   from a memory map (`mmap`).
//!
//! A device is never trusted. Its bytes are verified against checksums, the first of which is kept in memory, and are
//! used only if they are the requested block. A failure of a device only costs a cache hit, since storage has every
//! block too.

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

/// Settings of a bucket cache on devices.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// Slot sizes, in bytes (`hbase.bucketcache.bucket.sizes`).
    pub slot_sizes: Vec<u32>,
    /// The fraction of the cache in which blocks of in-memory families are not evicted for other blocks
    /// (`hbase.bucketcache.memory.factor`).
    pub in_memory_share: f64,
    /// The fraction of the cache that is filled before blocks are evicted (`hbase.bucketcache.acceptfactor`). It is
    /// below 1 because slots of several sizes leave gaps.
    pub fill: f64,
    /// Number of writer threads (`hbase.bucketcache.writer.threads`).
    pub writer_threads: usize,
    /// Maximum number of blocks in each writer's queue; further blocks are dropped
    /// (`hbase.bucketcache.writer.queuelength`).
    pub queue_length: usize,
    /// How long reads of a device may fail without a success before the device is no longer used, and how long its
    /// writes may fail before it receives no more blocks (`hbase.bucketcache.ioengine.errors.tolerated.duration`).
    pub errors_tolerated: Duration,
    /// Maximum memory for cached record heads (cell offsets and checksums) of `file:` and `files:` devices, in bytes.
    /// If the head is cached, a get that needs only a few cells of a block reads the device once instead of twice
    /// (`bellows.bucketcache.heads.size`).
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
    /// Returns the minimum size of a device, in bytes: one bucket.
    pub fn bytes_min(&self) -> u64 {
        allocator::bucket_size(&self.slot_sizes)
    }
}

/// Statistics of the bucket cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts {
    /// Capacity in bytes. A device that receives no more blocks counts only with its bytes in use.
    pub bytes_max: u64,
    /// Bytes in use; on devices this includes the bytes lost by rounding up to slot sizes.
    pub bytes: u64,
    /// Number of cached blocks.
    pub blocks: u64,
    /// Memory used by cached record heads, in bytes.
    pub head_bytes: u64,
    /// Number of blocks evicted to make room.
    pub evicted: u64,
    /// Number of blocks not admitted, because the blocks that they would have replaced were used more often.
    pub refused: u64,
    /// Number of blocks not admitted, because a writer's queue was full or no slot could be freed.
    pub dropped: u64,
    /// Number of reads that returned other bytes than were written.
    pub corrupt: u64,
    /// Number of blocks that the last process had saved in its index, although their slots now hold other blocks.
    /// This happens when that process was killed after it had saved the index.
    pub stale: u64,
    /// Number of reads and writes that failed.
    pub failed: u64,
    /// Whether the cache is disabled, because its last device failed for too long.
    pub disabled: bool,
    /// Whether the cache is read-only, because writes to every device failed for too long. Blocks on the devices are
    /// still read.
    pub read_only: bool,
    /// The statistics of each device; empty for the memory engine.
    pub devices: Vec<DeviceCounts>,
    /// The statistics of the slots, by size; empty for the memory engine.
    pub slots: Vec<SlotCounts>,
}

/// Statistics of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// The device's path.
    pub place: String,
    /// Number of reads and writes of the device that failed.
    pub failed: u64,
    /// Whether the device is disabled, because it failed for too long.
    pub disabled: bool,
    /// Whether the device is read-only, because writes failed for too long. Its blocks are still read.
    pub read_only: bool,
}

/// The location of a block on the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockLocation {
    pub(crate) file: u64,
    pub(crate) offset: u64,
    pub(crate) at: u64,
    pub(crate) length: u32,
    /// Length in bytes of the record's [head](record), which precedes the block's bytes.
    pub(crate) head: u32,
    /// Checksum of the record's head.
    pub(crate) sum: u32,
    pub(crate) in_memory: bool,
}

/// The bucket cache; see the module documentation.
#[derive(Debug)]
pub struct Bucket {
    /// Whether only data blocks are cached here, and index and Bloom blocks only in the memory tier.
    pub(crate) combined: bool,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Memory(Memory),
    Devices(Store),
}

impl Bucket {
    /// Creates a cache in its own memory of at most `bytes_max` bytes.
    pub fn offheap(bytes_max: usize, options: &BucketOptions) -> Bucket {
        Bucket { combined: true, engine: Engine::Memory(Memory::new(bytes_max, options.in_memory_share)) }
    }

    /// Creates a cache on devices. Each device is used up to the size of the smallest one.
    pub fn on(devices: Vec<Arc<dyn Device>>, options: &BucketOptions, world: World) -> Bucket {
        Bucket { combined: true, engine: Engine::Devices(Store::new(devices, options, world)) }
    }

    /// Sets whether only data blocks are cached here, and index and Bloom blocks only in the memory tier
    /// (`hbase.bucketcache.combinedcache.enabled`). Default true.
    pub fn with_combined(self, combined: bool) -> Bucket {
        Bucket { combined, ..self }
    }

    /// Whether reads need no system call, because blocks are in memory or in a memory map. If so, the memory tier keeps
    /// no data blocks: it would only be one more place to search.
    pub(crate) fn is_near(&self) -> bool {
        match &self.engine {
            Engine::Memory(_) => true,
            Engine::Devices(store) => store.is_mapped(),
        }
    }

    /// Returns the blocks of a cache in memory; `None` for a cache on devices.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&Memory> {
        match &self.engine {
            Engine::Memory(memory) => Some(memory),
            Engine::Devices(_) => None,
        }
    }

    /// Whether the engine can return a part of a block.
    #[inline]
    pub(crate) fn has_parts(&self) -> bool {
        matches!(self.engine, Engine::Devices(_))
    }

    /// Returns the block; `None` if it is not cached or cannot be read, or if reading it would wait for a device.
    #[inline]
    pub(crate) fn get_now(&self, key: BlockKey, mark: Mark) -> Option<Arc<Block>> {
        match &self.engine {
            Engine::Memory(memory) => memory.get(key),
            Engine::Devices(store) => store.get(key, mark, true),
        }
    }

    /// Returns the cells of a data block that `pick` chooses. Returns `None` if the block is not cached, is compressed
    /// or cannot be read, or if reading would wait; always `None` for the memory engine, which returns whole blocks by
    /// reference.
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

    /// Returns the block; waits for the device if necessary. `None` if the block is not cached or cannot be read.
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

    /// Whether a block of this weight would be admitted without an eviction.
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

    /// Returns the number of bytes of a file in cached blocks that requests have read.
    pub(crate) fn read_bytes_of(&self, file: FileId) -> u64 {
        match &self.engine {
            Engine::Memory(memory) => memory.read_bytes_of(file),
            Engine::Devices(store) => store.read_bytes_of(file),
        }
    }

    /// Returns the configured engine: `offheap`, `file:PATH`, `files:PATH,PATH` or `mmap:PATH`.
    pub fn engine(&self) -> String {
        match &self.engine {
            Engine::Memory(_) => "offheap".to_owned(),
            Engine::Devices(store) => store.engine(),
        }
    }

    /// Returns the statistics.
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

    /// Returns the location of every block on a device.
    pub(crate) fn placed(&self) -> Vec<BlockLocation> {
        match &self.engine {
            Engine::Memory(_) => Vec::new(),
            Engine::Devices(store) => store.placed(),
        }
    }

    /// Restores blocks that are on the devices already. Returns their number.
    pub(crate) fn restore(&self, blocks: impl Iterator<Item = BlockLocation>) -> usize {
        match &self.engine {
            Engine::Memory(_) => 0,
            Engine::Devices(store) => store.restore(blocks),
        }
    }

    /// Waits until every queued block is written.
    pub fn settle(&self) {
        if let Engine::Devices(store) = &self.engine {
            store.settle();
        }
    }
}
