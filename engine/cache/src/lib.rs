//! The block cache: decoded blocks in memory, handed out by reference.
//!
//! A block stays alive as long as somebody holds it; eviction only drops the cache's own hold, so it never copies and
//! never waits for readers. The cache is sharded by key; each shard is a clock: a hit sets a mark, eviction passes over
//! marked blocks once. Blocks of in-memory families get a second pass.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

/// A file, for as long as the process lives. Never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u64);

impl FileId {
    /// The next free id.
    pub fn next() -> FileId {
        static LAST: AtomicU64 = AtomicU64::new(0);
        FileId(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// In which file.
    pub file: FileId,
    /// Where in it, in bytes.
    pub offset: u64,
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Cells.
    Data,
    /// A part of the index.
    Index,
    /// A part of a bloom filter.
    Bloom,
}

/// A block ready to be read: checked, decompressed, with what its reader needs beside it.
#[derive(Debug)]
pub struct Block {
    /// What it holds.
    pub kind: BlockKind,
    /// The content, without header and checksums.
    pub bytes: Bytes,
    /// For data: where each cell begins, in bytes from the start of `bytes`.
    pub offsets: Box<[u32]>,
    /// For data in the plain order of rows: four bytes of each cell's row, to search in; else empty.
    pub heads: Box<[u32]>,
    /// How many bytes all these rows share; the heads are what follows.
    pub shared: u16,
    /// Length of the block on disk, header and checksums included: the next one begins there.
    pub disk_length: u32,
    /// Where the block of the same kind before it lies, in bytes from the start of the file.
    pub previous: Option<u64>,
}

impl Block {
    /// What the cache counts for it, in bytes.
    pub fn weight(&self) -> usize {
        self.bytes.len() + 4 * (self.offsets.len() + self.heads.len()) + 144
    }
}

/// Hits and misses since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Found.
    pub hits: u64,
    /// Not found.
    pub misses: u64,
    /// Dropped to make room.
    pub evicted: u64,
    /// Blocks held now.
    pub blocks: u64,
    /// Bytes held now.
    pub bytes: u64,
}

/// The cache in one of its furnishings.
#[derive(Debug)]
pub enum Cache {
    /// Keeps nothing.
    Never,
    /// Keeps what was used lately.
    Clock(Box<Clock>),
}

impl Cache {
    /// A cache of at most `bytes_max` bytes; 0 keeps nothing.
    pub fn with_bytes(bytes_max: usize) -> Cache {
        if bytes_max == 0 { Cache::Never } else { Cache::Clock(Box::new(Clock::new(bytes_max))) }
    }

    /// The block, if it is here.
    pub fn get(&self, key: BlockKey) -> Option<Arc<Block>> {
        match self {
            Cache::Never => None,
            Cache::Clock(clock) => clock.get(key),
        }
    }

    /// Keeps `block`. `in_memory` blocks outlive others.
    pub fn insert(&self, key: BlockKey, block: &Arc<Block>, in_memory: bool) {
        if let Cache::Clock(clock) = self {
            clock.insert(key, block, in_memory);
        }
    }

    /// Drops every block of a file that is gone. Returns how many there were.
    pub fn evict_file(&self, file: FileId) -> usize {
        match self {
            Cache::Never => 0,
            Cache::Clock(clock) => clock.evict_file(file),
        }
    }

    /// How many bytes it holds at most.
    pub fn bytes_max(&self) -> usize {
        match self {
            Cache::Never => 0,
            Cache::Clock(clock) => clock.shard_bytes_max * SHARDS,
        }
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        match self {
            Cache::Never => Counts::default(),
            Cache::Clock(clock) => clock.counts(),
        }
    }
}

const SHARDS: usize = 16;

/// See [the crate](crate).
#[derive(Debug)]
pub struct Clock {
    shards: [Mutex<Shard>; SHARDS],
    shard_bytes_max: usize,
    hits: AtomicU64,
    misses: AtomicU64,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    slots: HashMap<BlockKey, Slot, BuildHasherDefault<Mix>>,
    /// Keys in the order of the hand; some may be gone already.
    ring: std::collections::VecDeque<BlockKey>,
    bytes: usize,
}

/// Hashes two numbers of our own making: ids count up and offsets lie apart, so there is nobody to guard against.
#[derive(Debug, Default)]
struct Mix(u64);

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

#[derive(Debug)]
struct Slot {
    block: Arc<Block>,
    used: AtomicBool,
    in_memory: bool,
}

impl Clock {
    fn new(bytes_max: usize) -> Clock {
        Clock {
            shards: std::array::from_fn(|_| Mutex::default()),
            shard_bytes_max: bytes_max.div_ceil(SHARDS),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: BlockKey) -> &Mutex<Shard> {
        // The maps inside look at both ends of the hash; these bits are from between.
        let hash = BuildHasherDefault::<Mix>::default().hash_one(key);
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    fn get(&self, key: BlockKey) -> Option<Arc<Block>> {
        let shard = self.shard(key).lock();
        let found = shard.slots.get(&key).map(|slot| {
            slot.used.store(true, Ordering::Relaxed);
            Arc::clone(&slot.block)
        });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    fn insert(&self, key: BlockKey, block: &Arc<Block>, in_memory: bool) {
        let weight = block.weight();
        if weight > self.shard_bytes_max {
            return;
        }
        let mut shard = self.shard(key).lock();
        let slot = Slot { block: Arc::clone(block), used: AtomicBool::new(in_memory), in_memory };
        match shard.slots.insert(key, slot) {
            Some(old) => shard.bytes -= old.block.weight(),
            None => shard.ring.push_back(key),
        }
        shard.bytes += weight;
        let mut second_chances = shard.ring.len() * 2;
        while shard.bytes > self.shard_bytes_max {
            let Some(key) = shard.ring.pop_front() else { break };
            let Some(slot) = shard.slots.get(&key) else { continue };
            let spare = slot.used.swap(false, Ordering::Relaxed) || (slot.in_memory && second_chances > 0);
            if spare && second_chances > 0 {
                second_chances -= 1;
                shard.ring.push_back(key);
                continue;
            }
            let slot = shard.slots.remove(&key).expect("found above");
            shard.bytes -= slot.block.weight();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn evict_file(&self, file: FileId) -> usize {
        let mut dropped = 0;
        for shard in &self.shards {
            let mut shard = shard.lock();
            let Shard { slots, bytes, ring } = &mut *shard;
            slots.retain(|key, slot| {
                let keep = key.file != file;
                if !keep {
                    *bytes -= slot.block.weight();
                    dropped += 1;
                }
                keep
            });
            ring.retain(|key| key.file != file);
        }
        dropped
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
            ..Counts::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            counts.blocks += shard.slots.len() as u64;
            counts.bytes += shard.bytes as u64;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: usize) -> Arc<Block> {
        Arc::new(Block {
            kind: BlockKind::Data,
            bytes: vec![0; size].into(),
            offsets: [].into(),
            heads: [].into(),
            shared: 0,
            disk_length: 0,
            previous: None,
        })
    }

    #[test]
    fn what_was_kept_is_found_until_its_file_is_gone() {
        let cache = Cache::with_bytes(1 << 20);
        let (file, other) = (FileId::next(), FileId::next());
        for offset in 0..10 {
            cache.insert(BlockKey { file, offset }, &block(100), false);
        }
        cache.insert(BlockKey { file: other, offset: 0 }, &block(100), false);
        assert!((0..10).all(|offset| cache.get(BlockKey { file, offset }).is_some()));
        assert_eq!(cache.evict_file(file), 10);
        assert!(cache.get(BlockKey { file, offset: 3 }).is_none());
        assert!(cache.get(BlockKey { file: other, offset: 0 }).is_some());
        let counts = cache.counts();
        assert_eq!((counts.blocks, counts.hits, counts.misses), (1, 11, 1));
    }

    #[test]
    fn the_limit_is_kept_and_what_is_used_stays() {
        let cache = Cache::with_bytes(SHARDS * 10_000);
        let file = FileId::next();
        let hot = BlockKey { file, offset: 0 };
        cache.insert(hot, &block(856), false);
        for offset in 1..2_000 {
            cache.insert(BlockKey { file, offset }, &block(856), false);
            assert!(cache.get(hot).is_some(), "the block in use went at {offset}");
            assert!(cache.counts().bytes <= SHARDS as u64 * 10_000);
        }
        assert!(cache.counts().evicted > 1_000);
        assert!(Cache::with_bytes(0).get(hot).is_none());
    }
}
