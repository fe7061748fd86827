//! The memory tier: blocks in the form in which they are read. It is divided into shards, each with a lock and a
//! [`Shelf`].

mod shelf;
mod sketch;

#[cfg(test)]
mod traces;

use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;

use env::sync::Mutex;
use smallvec::SmallVec;

pub(crate) use shelf::{Admission, Cause, Shelf};

use crate::{Block, BlockKey, Counts, FileId};

/// Maximum number of shards: more than cores that use the cache at the same time.
const SHARDS_MAX: usize = 16;
/// Minimum size of a shard, in bytes. A smaller shard has too few blocks for a good choice of victims.
const SHARD_BYTES_MIN: usize = 8 << 20;

/// Size of a cache line of the processor, in bytes.
const LINE: usize = 64;
/// Usual maximum number of lookups that a caller makes together.
pub(crate) const PEEKED: usize = 16;

/// The memory tier; see the module documentation.
#[derive(Debug)]
pub(crate) struct Memory {
    shards: Box<[Mutex<Shelf<Arc<Block>>>]>,
    bytes_max: usize,
}

impl Memory {
    pub(crate) fn new(bytes_max: usize, in_memory_share: f64) -> Memory {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shards = 1 << shards.ilog2();
        let each = bytes_max / shards;
        let shard = |_| Mutex::new(Shelf::new(each, (each as f64 * in_memory_share) as usize));
        Memory { shards: (0..shards).map(shard).collect(), bytes_max }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shelf<Arc<Block>>> {
        // The shard is chosen by the middle bits of the hash: the hash table uses both ends, and the sketch the lower
        // half.
        &self.shards[(hash >> 40) as usize & (self.shards.len() - 1)]
    }

    #[inline]
    pub(crate) fn get(&self, key: BlockKey) -> Option<Arc<Block>> {
        let hash = hash_of(key);
        self.shard(hash).lock().get(key, hash).map(Arc::clone)
    }

    /// Returns the cached blocks among those that `keys` name, in the order of the keys, without counting lookups. Each
    /// step is made for all keys, and prefetches the memory of the next step. A cached block may be missed in the rare
    /// case that another key has nearly the same hash.
    pub(crate) fn peek(
        &self,
        keys: impl Iterator<Item = BlockKey>,
    ) -> SmallVec<[Option<Arc<Block>>; PEEKED]> {
        let spot = |key| {
            let hash = hash_of(key);
            let shard = self.shard(hash);
            let spot = shard.lock().spot(hash);
            (key, shard, spot)
        };
        let spots: SmallVec<[_; PEEKED]> = keys.map(spot).collect();
        for (key, shard, spot) in &spots {
            if let Some(block) = spot.and_then(|spot| shard.lock().at(spot, *key).map(Arc::as_ptr)) {
                // The two reference counts of an `Arc` are stored before its value.
                let counts = 2 * size_of::<usize>();
                let start: *const u8 = block.cast::<u8>().wrapping_sub(counts);
                let lines = (0..counts + size_of::<Block>()).step_by(LINE);
                lines.for_each(|at| cell::fetch_line(start.wrapping_add(at)));
            }
        }
        spots.into_iter().map(|(key, shard, spot)| shard.lock().at(spot?, key).map(Arc::clone)).collect()
    }

    pub(crate) fn has(&self, key: BlockKey) -> bool {
        self.shard(hash_of(key)).lock().has(key)
    }

    pub(crate) fn insert(&self, key: BlockKey, block: &Arc<Block>, admission: Admission) {
        let hash = hash_of(key);
        // The evicted blocks are dropped after the lock is released, because freeing them takes time.
        let mut gone = Vec::new();
        self.shard(hash).lock().insert(key, hash, Arc::clone(block), admission, &mut gone);
    }

    /// Whether a block of this weight would be admitted without an eviction.
    pub(crate) fn has_room(&self, key: BlockKey, weight: usize, in_memory: bool) -> bool {
        self.shard(hash_of(key)).lock().has_room(weight, in_memory)
    }

    /// Admits a block that the other tier has too, if it is worth the space.
    pub(crate) fn offer(&self, key: BlockKey, block: &Arc<Block>, admission: Admission) {
        let hash = hash_of(key);
        let mut gone = Vec::new();
        self.shard(hash).lock().offer(key, hash, || Arc::clone(block), admission, &mut gone);
    }

    /// Whether [`offer`](Self::offer) would admit the block. A refusal counts as a lookup.
    pub(crate) fn wants(&self, key: BlockKey, admission: Admission) -> bool {
        let hash = hash_of(key);
        self.shard(hash).lock().wants(hash, admission)
    }

    pub(crate) fn evict_file(&self, file: FileId) -> usize {
        let gone: Vec<_> = self.shards.iter().flat_map(|shard| shard.lock().remove_file(file)).collect();
        gone.len()
    }

    pub(crate) fn has_blocks_of(&self, file: FileId) -> bool {
        self.shards.iter().any(|shard| shard.lock().has_file(file))
    }

    /// Returns the size on disk, in bytes, of those cached blocks of a file that requests have read. Counts only the
    /// newest blocks in each shard, so a large file may have more.
    pub(crate) fn read_bytes_of(&self, file: FileId) -> u64 {
        let length = |block: &Arc<Block>| u64::from(block.disk_length);
        self.shards.iter().map(|shard| shard.lock().read_of(file).map(length).sum::<u64>()).sum()
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for shard in &self.shards {
            let shard = shard.lock();
            counts.blocks += shard.len() as u64;
            counts.bytes += shard.bytes() as u64;
            counts.evicted += shard.evicted;
            counts.refused += shard.refused;
            for block in shard.values() {
                counts.blocks_of[block.kind as usize] += 1;
            }
        }
        counts
    }
}

/// Hashes the two numbers of a block's key. Clients choose neither of them, so nobody can choose keys that collide.
#[derive(Debug, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let wide = u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

#[inline]
pub(crate) fn hash_of(key: BlockKey) -> u64 {
    BuildHasherDefault::<Mix>::default().hash_one(key)
}
