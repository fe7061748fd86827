//! The block cache: decoded blocks, which it returns by reference.
//!
//! A block stays alive as long as a reference to it exists. Eviction only drops the cache's own reference, so
//! it never copies and never waits for readers. This crate does not know what is in a block or where it comes from: a
//! caller passes the function that reads a missing block.
//!
//! 1. A reader of a file has a [`File`] here. Files are identified by name, so a file that is closed and opened again
//!    finds its blocks. Deleting a file evicts them.
//! 2. [`File::block`] looks a block up in memory ([`memory`]: sharded, W-TinyLFU), and in the second tier, if there is
//!    one ([`bucket`]). The second tier is searched first for data blocks that it alone caches and can return without a
//!    system call. A hit in memory allocates nothing. A caller that needs few cells first asks for a part of the block
//!    ([`File::part`]), so that only this part is copied from a device.
//! 3. When several callers miss the same block at once, one reads it and the others wait ([`flight`]).
//! 4. Lookups are counted by table, block kind and tier ([`Counts`]).

mod bucket;
mod counts;
mod file;
mod flight;
mod memory;
mod persist;
mod prefetch;
mod words;

pub use bucket::{
    Bucket, BucketCounts, BucketOptions, DeviceCounts, HBASE_SLOT_SIZES, Part, SLOT_SIZES, SlotCounts,
};
pub use counts::{Counts, Lookups, TableCounts, Tier};
pub use file::{Ask, Caching, File, Kinds};
pub use persist::Persistence;
pub use words::Words;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use env::HashMap;
use env::sync::Mutex;

use crate::bucket::BlockLocation;
use crate::counts::Tally;
use crate::file::FileEntry;
use crate::flight::Flights;
use crate::memory::Memory;
use crate::persist::{SavedFile, Snapshot};
use crate::prefetch::Prefetch;

/// The id of a file, as long as the cache knows it. A process does not use an id twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u64);

/// Identifies a block: its file, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// The file that contains the block.
    pub file: FileId,
    /// The offset of the block in the file, in bytes.
    pub offset: u64,
}

/// The kind of a block's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// The block contains cells.
    Data,
    /// The block is a part of the index.
    Index,
    /// The block is a part of a Bloom filter.
    Bloom,
}

impl BlockKind {
    /// Every kind of block.
    pub const ALL: [BlockKind; 3] = [BlockKind::Data, BlockKind::Index, BlockKind::Bloom];
}

/// A block ready to be read: verified, decompressed, with the search structures that its reader needs. If the cache
/// trades time for memory, the block is verified but still [packed](Block::packed).
#[derive(Debug)]
pub struct Block {
    /// The kind of the block's content.
    pub kind: BlockKind,
    /// The content of the block, without header and checksums.
    pub bytes: Bytes,
    /// For data: the offset of each cell in `bytes`.
    pub offsets: Words,
    /// For data whose rows are sorted bytewise: four bytes of each cell's row, for searching; else empty.
    pub heads: Words,
    /// Number of leading bytes that all rows of the block share. `heads` are the four bytes after them.
    pub shared: u16,
    /// For data: one bit for each cell, 32 in a number, from the lowest bit on: whether the cell is the first of its
    /// row in the block.
    pub row_starts: Words,
    /// Length of the block on disk, in bytes, with header and checksums. The next block begins after it.
    pub disk_length: u32,
    /// Offset in the file of the previous block of the same kind.
    pub previous: Option<u64>,
    /// Whether `bytes` are as in the file, compressed, with the header, so that the reader must unpack them.
    pub packed: bool,
}

impl Block {
    /// Returns the size that the cache counts for the block, in bytes.
    pub fn weight(&self) -> usize {
        weight_of(self.bytes.len(), self.offsets.len(), self.heads.len())
    }
}

/// Computes [`Block::weight`] from the sizes of a block's parts.
fn weight_of(bytes: usize, offsets: usize, heads: usize) -> usize {
    // The block's own size: its reference counts, and about 8 bytes by which the allocator rounds up.
    let itself = size_of::<Block>() + 2 * size_of::<usize>() + 8;
    bytes + 4 * (offsets + heads + row_start_words(offsets)) + itself
}

/// Returns the number of words in [`Block::row_starts`] for this many cells.
fn row_start_words(cells: usize) -> usize {
    cells.div_ceil(u32::BITS as usize)
}

/// The result of a lookup for a caller that needs few cells of a block.
#[derive(Debug)]
pub enum Cells {
    /// The whole block was found.
    Whole(Arc<Block>),
    /// The wanted cells were found, and perhaps some others beside them.
    Part(Part),
}

/// The settings of a cache.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the memory tier in bytes (`hfile.block.cache.size`, a fraction of the machine's memory); 0 caches
    /// nothing.
    pub bytes_max: usize,
    /// Fraction of the memory tier in which blocks of in-memory families are not evicted for other blocks
    /// (`hbase.lru.blockcache.memory.percentage`).
    pub in_memory_share: f64,
    /// The server's switches, which apply to every family.
    pub switches: Switches,
    /// Number of files that are read into the cache at the same time after they were opened
    /// (`hbase.hfile.thread.prefetch`).
    pub prefetch_threads: usize,
    /// Maximum number of bytes that a scan reads ahead at once when its blocks are not cached; 0 reads block by block
    /// (`bellows.hfile.read.ahead.max`).
    pub read_ahead_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bytes_max: 64 << 20,
            in_memory_share: 0.25,
            switches: Switches::default(),
            prefetch_threads: 4,
            read_ahead_bytes_max: 1 << 20,
        }
    }
}

/// The server's switches, which apply to all families.
#[derive(Clone, Copy, Debug)]
pub struct Switches {
    /// Whether data blocks are cached when they are read (`hbase.block.data.cacheonread`). A family can still turn this
    /// off.
    pub data_on_read: bool,
    /// Whether data blocks are cached compressed and encoded as in the file, and unpacked at each lookup
    /// (`hbase.block.data.cachecompressed`).
    pub data_compressed: bool,
    /// Whether data blocks of flushed files are cached (`hbase.rs.cacheblocksonwrite`).
    pub data_on_write: bool,
    /// Whether index blocks of written files are cached (`hfile.block.index.cacheonwrite`).
    pub index_on_write: bool,
    /// Whether Bloom filter chunks of written files are cached (`hfile.block.bloom.cacheonwrite`).
    pub blooms_on_write: bool,
    /// Whether all blocks of files that a compaction writes are cached (`hbase.rs.cachecompactedblocksonwrite`).
    pub compacted_on_write: bool,
    /// Maximum total size of a compaction's input files, in bytes, at which all blocks of its output are cached
    /// (`hbase.rs.cachecompactedblocksonwrite.threshold`).
    pub compacted_bytes_max: u64,
    /// Whether blocks that replace cached ones are cached when they are written (`bellows.block.cache.stays.warm`).
    pub stays_warm: bool,
    /// Whether the blocks of a file are dropped when it is closed (`hbase.rs.evictblocksonclose`).
    pub evict_on_close: bool,
    /// Whether files are read into the cache when they are opened (`hbase.rs.prefetchblocksonopen`).
    pub prefetch_on_open: bool,
}

impl Default for Switches {
    fn default() -> Switches {
        Switches {
            data_on_read: true,
            data_compressed: false,
            data_on_write: false,
            index_on_write: false,
            blooms_on_write: false,
            compacted_on_write: false,
            compacted_bytes_max: u64::MAX,
            stays_warm: true,
            evict_on_close: false,
            prefetch_on_open: false,
        }
    }
}

/// The block cache: its tiers, and the files that it knows.
#[derive(Debug)]
pub struct Cache {
    options: Options,
    memory: Option<Memory>,
    bucket: Option<Bucket>,
    persistence: Option<Persistence>,
    flights: Flights,
    files: Mutex<HashMap<Box<str>, Arc<FileEntry>>>,
    /// Number of known files at which the cache next removes entries of files that are not open and have no cached
    /// block.
    sweep_at: AtomicU64,
    tables: Mutex<Vec<Arc<Tally>>>,
    prefetch: Prefetch,
    last_file: AtomicU64,
}

/// Number of known files at which the cache first removes entries of files that are not open and have no cached
/// block.
const FILES_UNSWEPT: u64 = 1024;

impl Cache {
    /// Creates a cache of at most `bytes_max` bytes in memory; 0 caches nothing.
    pub fn with_bytes(bytes_max: usize) -> Cache {
        Cache::new(Options { bytes_max, ..Options::default() })
    }

    /// Creates a cache with these options.
    pub fn new(options: Options) -> Cache {
        Cache {
            memory: (options.bytes_max > 0).then(|| Memory::new(options.bytes_max, options.in_memory_share)),
            bucket: None,
            persistence: None,
            flights: Flights::default(),
            files: Mutex::default(),
            sweep_at: AtomicU64::new(FILES_UNSWEPT),
            tables: Mutex::default(),
            prefetch: Prefetch::new(options.prefetch_threads),
            last_file: AtomicU64::new(0),
            options,
        }
    }

    /// Adds a second tier.
    pub fn with_bucket(self, bucket: Bucket) -> Cache {
        Cache { bucket: Some(bucket), ..self }
    }

    /// Saves the second tier's index for the next process, and restores the index that the last process left. Each
    /// restored block is verified when it is read. The second tier must have been [added](Cache::with_bucket) before.
    pub fn with_persistence(self, persistence: Persistence) -> Cache {
        let snapshot = persistence.load();
        let mut ids: HashMap<_, _> = HashMap::default();
        let mut files = self.files.lock();
        for file in snapshot.files {
            let id = FileId(self.last_file.fetch_add(1, Ordering::Relaxed) + 1);
            ids.insert(file.id, id.0);
            let known = FileEntry::new(id, &file.name, file.size);
            files.insert(file.name, Arc::new(known));
        }
        drop(files);
        let blocks = snapshot.blocks.into_iter();
        let found = blocks.filter_map(|block| Some(BlockLocation { file: *ids.get(&block.file)?, ..block }));
        if let Some(bucket) = &self.bucket {
            let blocks = bucket.restore(found);
            tracing::info!(blocks, files = ids.len(), "the bucket cache is warm");
        }
        Cache { persistence: Some(persistence), ..self }
    }

    /// Saves the second tier's index for the next process, if the cache was given a place for it.
    pub fn persist(&self) -> storage::Result<()> {
        let (Some(persistence), Some(bucket)) = (&self.persistence, &self.bucket) else { return Ok(()) };
        let blocks = bucket.placed();
        let files = self.files.lock();
        let wanted = files.iter().filter(|(_, known)| !known.is_gone() && bucket.has_blocks_of(known.id));
        let named =
            wanted.map(|(name, known)| SavedFile { id: known.id.0, size: known.size(), name: name.clone() });
        let files = named.collect();
        persistence.save(&Snapshot { files, blocks })
    }

    /// Returns the second tier, if there is one.
    pub fn bucket(&self) -> Option<&Bucket> {
        self.bucket.as_ref()
    }

    /// Returns the cache's options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Opens the file `name` of `size` bytes. Finds blocks that are still cached from an earlier opening, since a
    /// finished file never changes. A file with the same name and another size counts as another file. A writer opens the
    /// file with size 0, caches its blocks, and then states the size ([`File::finish`]).
    pub fn open_file(self: &Arc<Cache>, name: &str, size: u64, caching: Caching) -> File {
        let tally = self.tally(&caching.table);
        let mut files = self.files.lock();
        let known = match files.get(name) {
            Some(known) if known.size() == size && !known.is_gone() => Arc::clone(known),
            before => {
                if let Some(before) = before {
                    self.forget(before);
                }
                let id = FileId(self.last_file.fetch_add(1, Ordering::Relaxed) + 1);
                let known = Arc::new(FileEntry::new(id, name, size));
                files.insert(name.into(), Arc::clone(&known));
                known
            }
        };
        if files.len() as u64 > self.sweep_at.load(Ordering::Relaxed) {
            files.retain(|_, known| Arc::strong_count(known) > 1 || self.has_blocks_of(known.id));
            self.sweep_at.store(FILES_UNSWEPT.max(2 * files.len() as u64), Ordering::Relaxed);
        }
        File::new(Arc::clone(self), known, name.into(), caching, tally)
    }

    fn tally(&self, table: &str) -> Arc<Tally> {
        let mut tables = self.tables.lock();
        if let Some(tally) = tables.iter().find(|tally| tally.table() == table) {
            return Arc::clone(tally);
        }
        let tally = Arc::new(Tally::new(table));
        tables.push(Arc::clone(&tally));
        tally
    }

    /// Evicts the blocks of the deleted file `name`, and admits no more of them. Returns the number of evicted blocks; 0
    /// for a file that the cache does not know.
    pub fn remove_file(&self, name: &str) -> usize {
        let known = self.files.lock().remove(name);
        known.map_or(0, |known| self.forget(&known))
    }

    /// Evicts the blocks of a deleted file, and admits no more of them. Returns the number of evicted blocks.
    fn forget(&self, known: &FileEntry) -> usize {
        known.set_gone();
        self.evict_file(known)
    }

    fn evict_file(&self, known: &FileEntry) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.evict_file(known.id))
            + self.bucket.as_ref().map_or(0, |bucket| bucket.evict_file(known.id))
    }

    fn has_blocks_of(&self, file: FileId) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.has_blocks_of(file))
            || self.bucket.as_ref().is_some_and(|bucket| bucket.has_blocks_of(file))
    }

    /// Returns the number of bytes of a file in cached blocks that requests have read. A block may be in both tiers, so
    /// only the tier with more such bytes counts.
    fn read_bytes_of(&self, file: FileId) -> u64 {
        let in_memory = self.memory.as_ref().map_or(0, |memory| memory.read_bytes_of(file));
        in_memory.max(self.bucket.as_ref().map_or(0, |bucket| bucket.read_bytes_of(file)))
    }

    /// Returns the capacity of the memory tier, in bytes.
    pub fn bytes_max(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::bytes_max)
    }

    /// Queues `work`, a function that reads a file into the cache, for one of the cache's own threads.
    pub fn later(&self, work: impl FnOnce() + Send + 'static) {
        self.prefetch.add(Box::new(work));
    }

    /// Returns the statistics over all tables.
    pub fn counts(&self) -> Counts {
        let mut counts = self.memory.as_ref().map_or_else(Counts::default, Memory::counts);
        for tally in self.tables.lock().iter() {
            counts.lookups += tally.lookups();
        }
        counts
    }

    /// Returns the statistics of each table, sorted by name.
    pub fn tables(&self) -> Vec<TableCounts> {
        let mut tables: Vec<TableCounts> = self
            .tables
            .lock()
            .iter()
            .map(|tally| TableCounts { table: tally.table().to_owned(), lookups: tally.lookups() })
            .collect();
        tables.sort_by(|left, right| left.table.cmp(&right.table));
        tables
    }
}

#[cfg(test)]
mod tests;
