//! The tier in memory: blocks as they are read, in shards, each with its own lock and its own [`Shelf`].

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

/// More shards than cores that ask at the same time.
const SHARDS_MAX: usize = 16;
/// A shard smaller than this holds too few blocks to choose among.
const SHARD_BYTES_MIN: usize = 8 << 20;

/// Bytes that memory gives at a time.
const LINE: usize = 64;
/// So many are mostly looked for together.
pub(crate) const PEEKED: usize = 16;

/// See the file.
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
        // The maps inside look at both ends of the hash, the sketch at the lower half; these bits are from between.
        &self.shards[(hash >> 40) as usize & (self.shards.len() - 1)]
    }

    #[inline]
    pub(crate) fn get(&self, key: BlockKey) -> Option<Arc<Block>> {
        let hash = hash_of(key);
        self.shard(hash).lock().get(key, hash).map(Arc::clone)
    }

    /// The blocks that are here, in the order of their keys; nobody counts that they were looked for. Each step is done for all
    /// of them, and asks the memory for what the next one looks at. Of a few that are here nothing is found: where another's hash
    /// is much like theirs.
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
                // The counts of an `Arc` stand before its value.
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
        // Blocks that go are freed behind the lock.
        let mut gone = Vec::new();
        self.shard(hash).lock().insert(key, hash, Arc::clone(block), admission, &mut gone);
    }

    /// Whether a block of this weight would be taken in with nothing going for it.
    pub(crate) fn has_room(&self, key: BlockKey, weight: usize, in_memory: bool) -> bool {
        self.shard(hash_of(key)).lock().has_room(weight, in_memory)
    }

    /// Takes in a block that is at hand elsewhere, too, if it is worth a place.
    pub(crate) fn offer(&self, key: BlockKey, block: &Arc<Block>, admission: Admission) {
        let hash = hash_of(key);
        let mut gone = Vec::new();
        self.shard(hash).lock().offer(key, hash, || Arc::clone(block), admission, &mut gone);
    }

    /// Whether an offer of the block would be taken. A no counts as a look.
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

    /// Bytes of a file, as it lies on disk, in blocks that requests have read.
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

/// Hashes two numbers of our own making: ids count up and offsets lie apart, so there is nobody to guard against.
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
