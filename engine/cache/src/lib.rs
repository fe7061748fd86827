//! The block cache: decoded blocks, handed out by reference.
//!
//! A block stays alive as long as somebody holds it; eviction only drops the cache's own hold, so it never copies and
//! never waits for readers. What the crate does not know: what is in a block, and where it comes from: whoever misses
//! one brings a way to read it.
//!
//! 1. A reader of a file has a [`File`] here. Files are known by name, so that a file that is closed and opened again
//!    finds its blocks; a file that is gone takes them along.
//! 2. [`File::block`] looks into memory ([`memory`]: sharded, W-TinyLFU). A look that hits allocates nothing. Behind it
//!    there may be a second tier ([`bucket`]).
//!    Who wants few cells of a block asks for a part of it first ([`File::part`]), which is all that is copied out of a
//!    device.
//! 3. Of several that miss the same block at once, one reads it; the others wait for it ([`flight`]).
//! 4. Looks are counted by table, kind and tier ([`Counts`]).

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
pub use counts::{Counts, Looks, TableCounts, Tier};
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

/// A file, for as long as the cache knows it. Never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u64);

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// In which file.
    pub file: FileId,
    /// Where in it, in bytes.
    pub offset: u64,
}

/// The kind of a block's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Cells.
    Data,
    /// A part of the index.
    Index,
    /// A part of a bloom filter.
    Bloom,
}

impl BlockKind {
    /// All there are.
    pub const ALL: [BlockKind; 3] = [BlockKind::Data, BlockKind::Index, BlockKind::Bloom];
}

/// A block ready to be read: checked, decompressed, with what its reader needs beside it. Or, where memory is dearer than
/// time, checked and left packed.
#[derive(Debug)]
pub struct Block {
    /// The kind of its content.
    pub kind: BlockKind,
    /// The content, without header and checksums.
    pub bytes: Bytes,
    /// For data: where each cell begins, in bytes from the start of `bytes`.
    pub offsets: Words,
    /// For data in the plain order of rows: four bytes of each cell's row, to search in; else empty.
    pub heads: Words,
    /// How many bytes all these rows share; the heads are what follows.
    pub shared: u16,
    /// For data: a bit for each cell, 32 in a number, from the lowest on: whether it is the first of its row here.
    pub row_starts: Words,
    /// Length of the block on disk, header and checksums included: the next one begins there.
    pub disk_length: u32,
    /// Where the block of the same kind before it lies, in bytes from the start of the file.
    pub previous: Option<u64>,
    /// Whether `bytes` are as they lie in the file, header included, to be unpacked by whoever reads them.
    pub packed: bool,
}

impl Block {
    /// What the cache counts for it, in bytes.
    pub fn weight(&self) -> usize {
        weight_of(self.bytes.len(), self.offsets.len(), self.heads.len())
    }
}

/// See [`Block::weight`].
fn weight_of(bytes: usize, offsets: usize, heads: usize) -> usize {
    // With the counts of its owners, and what the allocator rounds up.
    let itself = size_of::<Block>() + 2 * size_of::<usize>() + 8;
    bytes + 4 * (offsets + heads + row_start_words(offsets)) + itself
}

/// How many numbers [`Block::row_starts`] has for so many cells.
fn row_start_words(cells: usize) -> usize {
    cells.div_ceil(u32::BITS as usize)
}

/// What is found for somebody who wants few cells of a block.
#[derive(Debug)]
pub enum Cells {
    /// All of it.
    Whole(Arc<Block>),
    /// Those and some beside them.
    Part(Part),
}

/// What a cache is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of blocks in memory (`hfile.block.cache.size`, a share of the machine's); 0 keeps nothing.
    pub bytes_max: usize,
    /// The share of those that blocks of in-memory families hold against all others
    /// (`hbase.lru.blockcache.memory.percentage`).
    pub in_memory_share: f64,
    /// What is true of every family, whatever it says itself.
    pub switches: Switches,
    /// How many files are read into the cache at the same time when they are opened (`hbase.hfile.thread.prefetch`).
    pub prefetch_threads: usize,
    /// How much of a file is read at once for a scan that walks over blocks which are not here, in bytes; 0 reads block by
    /// block (`bellows.hfile.read.ahead.max`).
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

/// The server's switches, for all families.
#[derive(Clone, Copy, Debug)]
pub struct Switches {
    /// Data blocks are kept when they are read (`hbase.block.data.cacheonread`); a family may still say no.
    pub data_on_read: bool,
    /// Data blocks are kept packed, as they lie in files that compress or encode them, and unpacked at each look
    /// (`hbase.block.data.cachecompressed`).
    pub data_compressed: bool,
    /// Data blocks of flushed files are kept (`hbase.rs.cacheblocksonwrite`).
    pub data_on_write: bool,
    /// Index blocks of written files are kept (`hfile.block.index.cacheonwrite`).
    pub index_on_write: bool,
    /// Bloom chunks of written files are kept (`hfile.block.bloom.cacheonwrite`).
    pub blooms_on_write: bool,
    /// All blocks of files that a compaction writes are cached (`hbase.rs.cachecompactedblocksonwrite`).
    pub compacted_on_write: bool,
    /// Largest total size in bytes of the compacted files with which their blocks are still cached
    /// (`hbase.rs.cachecompactedblocksonwrite.threshold`).
    pub compacted_bytes_max: u64,
    /// Blocks that replace cached ones are cached when they are written (`bellows.block.cache.stays.warm`).
    pub stays_warm: bool,
    /// Blocks of a file are dropped when it is closed (`hbase.rs.evictblocksonclose`).
    pub evict_on_close: bool,
    /// Files are read into the cache when they are opened (`hbase.rs.prefetchblocksonopen`).
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

/// All tiers, and the files they know.
#[derive(Debug)]
pub struct Cache {
    options: Options,
    memory: Option<Memory>,
    bucket: Option<Bucket>,
    persistence: Option<Persistence>,
    flights: Flights,
    files: Mutex<HashMap<Box<str>, Arc<FileEntry>>>,
    /// Files after which those are forgotten that nobody has open and of which no block is left.
    sweep_at: AtomicU64,
    tables: Mutex<Vec<Arc<Tally>>>,
    prefetch: Prefetch,
    last_file: AtomicU64,
}

/// Files that are known before the first sweep.
const FILES_UNSWEPT: u64 = 1024;

impl Cache {
    /// A cache of at most `bytes_max` bytes in memory; 0 keeps nothing.
    pub fn with_bytes(bytes_max: usize) -> Cache {
        Cache::new(Options { bytes_max, ..Options::default() })
    }

    /// A cache as `options` say.
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

    /// The same with a second tier behind the one in memory.
    pub fn with_bucket(self, bucket: Bucket) -> Cache {
        Cache { bucket: Some(bucket), ..self }
    }

    /// The same with an index of the second tier that the next process finds again; what the last one has left is taken
    /// over, and checked block by block when it is read.
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

    /// Keeps the second tier's index for the next process, if that is wanted.
    pub fn persist(&self) -> storage::Result<()> {
        let (Some(persistence), Some(bucket)) = (&self.persistence, &self.bucket) else { return Ok(()) };
        let blocks = bucket.placed();
        let files = self.files.lock();
        let wanted = files.iter().filter(|(_, known)| !known.is_gone() && bucket.has_blocks_of(known.id));
        let named =
            wanted.map(|(name, known)| SavedFile { id: known.id.0, size: known.size, name: name.clone() });
        let files = named.collect();
        persistence.save(&Snapshot { files, blocks })
    }

    /// The second tier, if there is one.
    pub fn bucket(&self) -> Option<&Bucket> {
        self.bucket.as_ref()
    }

    /// What it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The file `name` of `size` bytes, for somebody who reads it. Whoever opens it while its blocks are still here finds
    /// them: a finished file never changes, and one of another size is another.
    pub fn open_file(self: &Arc<Cache>, name: &str, size: u64, caching: Caching) -> File {
        let tally = self.tally(&caching.table);
        let mut files = self.files.lock();
        let known = match files.get(name) {
            Some(known) if known.size == size && !known.is_gone() => Arc::clone(known),
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

    /// Drops the blocks of a file that nobody shall find again.
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

    /// Bytes of a file in blocks that requests have read, in the tier that has more of them: a block may be in both.
    fn read_bytes_of(&self, file: FileId) -> u64 {
        let in_memory = self.memory.as_ref().map_or(0, |memory| memory.read_bytes_of(file));
        in_memory.max(self.bucket.as_ref().map_or(0, |bucket| bucket.read_bytes_of(file)))
    }

    /// How many bytes it holds in memory at most.
    pub fn bytes_max(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::bytes_max)
    }

    /// Does `work` on a thread of the cache's own, behind what waits there already. For reading files into the cache.
    pub fn later(&self, work: impl FnOnce() + Send + 'static) {
        self.prefetch.add(Box::new(work));
    }

    /// What was counted, over all tables.
    pub fn counts(&self) -> Counts {
        let mut counts = self.memory.as_ref().map_or_else(Counts::default, Memory::counts);
        for tally in self.tables.lock().iter() {
            counts.looks += tally.looks();
        }
        counts
    }

    /// What was counted of each table, in order of name.
    pub fn tables(&self) -> Vec<TableCounts> {
        let mut tables: Vec<TableCounts> = self
            .tables
            .lock()
            .iter()
            .map(|tally| TableCounts { table: tally.table().to_owned(), looks: tally.looks() })
            .collect();
        tables.sort_by(|left, right| left.table.cmp(&right.table));
        tables
    }
}

#[cfg(test)]
mod tests;
