//! A file in the block cache, and the lookup of one of its blocks.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use env::HashMap;
use smallvec::SmallVec;

use crate::bucket::Mark;
use crate::counts::{Tally, Tier};
use crate::flight::Role;
use crate::memory::{Admission, Cause, PEEKED};
use crate::{Block, BlockKey, BlockKind, Bucket, Cache, Cells, FileId, Part};

/// The caching options of a family. They apply together with the server's [switches](crate::Switches).
#[derive(Clone, Debug)]
pub struct Caching {
    /// The table under which lookups are counted.
    pub table: Arc<str>,
    /// BLOCKCACHE: whether data blocks are cached when they are read, and the server's switches for data blocks apply.
    pub data_on_read: bool,
    /// IN_MEMORY: whether the family's blocks are preferred, up to a share of the memory.
    pub in_memory: bool,
    /// CACHE_DATA_ON_WRITE: whether data blocks of flushed files are cached, and index and Bloom blocks with them.
    pub data_on_write: bool,
    /// CACHE_INDEX_ON_WRITE: whether index blocks are cached when they are written.
    pub index_on_write: bool,
    /// CACHE_BLOOMS_ON_WRITE: whether Bloom filter chunks are cached when they are written.
    pub blooms_on_write: bool,
    /// EVICT_BLOCKS_ON_CLOSE: whether the blocks of a file are evicted when it is closed.
    pub evict_on_close: bool,
    /// PREFETCH_BLOCKS_ON_OPEN: whether a file is read into the cache when it is opened.
    pub prefetch_on_open: bool,
}

impl Default for Caching {
    fn default() -> Caching {
        Caching {
            table: "".into(),
            data_on_read: true,
            in_memory: false,
            data_on_write: false,
            index_on_write: false,
            blooms_on_write: false,
            evict_on_close: false,
            prefetch_on_open: false,
        }
    }
}

/// A set of block kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Whether the set contains data blocks, which hold cells.
    pub data: bool,
    /// Whether the set contains index blocks.
    pub index: bool,
    /// Whether the set contains chunks of Bloom filters.
    pub blooms: bool,
}

impl Kinds {
    /// The set of every kind.
    pub const ALL: Kinds = Kinds { data: true, index: true, blooms: true };

    /// Whether the set is not empty.
    pub fn any(self) -> bool {
        self.data || self.index || self.blooms
    }

    /// Whether the set contains `kind`.
    pub fn has(self, kind: BlockKind) -> bool {
        match kind {
            BlockKind::Data => self.data,
            BlockKind::Index => self.index,
            BlockKind::Bloom => self.blooms,
        }
    }
}

/// The way in which a request wants a block to be read and cached.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Whether the cache keeps a data block that is read. Index and Bloom blocks are kept in any case.
    pub keep: bool,
    /// Whether the caller must not wait for a device.
    pub memory_only: bool,
}

/// The cache's state of a file, shared by all that have it open.
#[derive(Debug)]
pub(crate) struct FileEntry {
    pub(crate) id: FileId,
    /// The file's size in bytes; 0 while it is being written.
    size: AtomicU64,
    /// The hash of the file's name.
    tag: u64,
    gone: AtomicBool,
}

impl FileEntry {
    pub(crate) fn new(id: FileId, name: &str, size: u64) -> FileEntry {
        // FNV-1a, because every process must compute the same tag.
        let tag = name.bytes().fold(0xcbf2_9ce4_8422_2325, |tag: u64, byte| {
            (tag ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        FileEntry { id, size: AtomicU64::new(size), tag, gone: AtomicBool::new(false) }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }
}

/// A file counts as [being read](File::is_being_read) when requests have read at least one in this many of its bytes.
const READ_PART: u64 = 4;

/// A file that is read through the cache.
#[derive(Debug)]
pub struct File {
    cache: Arc<Cache>,
    known: Arc<FileEntry>,
    name: Box<str>,
    caching: Caching,
    tally: Arc<Tally>,
}

impl File {
    pub(crate) fn new(
        cache: Arc<Cache>,
        known: Arc<FileEntry>,
        name: Box<str>,
        caching: Caching,
        tally: Arc<Tally>,
    ) -> File {
        File { cache, known, name, caching, tally }
    }

    /// Returns the file's id in the cache.
    pub fn id(&self) -> FileId {
        self.known.id
    }

    /// Records the size of a file that was [opened](Cache::open_file) with size 0 before it was written. Who opens it with
    /// this size finds the blocks that its writer has cached.
    pub fn finish(&self, size: u64) {
        self.known.size.store(size, Ordering::Relaxed);
    }

    fn key(&self, offset: u64) -> BlockKey {
        BlockKey { file: self.known.id, offset }
    }

    /// Returns the block at `offset`, from the cache or by calling `read`. If several callers miss the block at the
    /// same time, one of them calls `read`; if that fails, the next one calls it. Returns `None` when the block can
    /// only be had by a wait, and `ask` forbids that. A miss is counted under the kind `expected`.
    #[inline]
    pub fn block<E>(
        &self,
        offset: u64,
        expected: BlockKind,
        ask: Ask,
        read: impl FnOnce() -> Result<Block, E>,
    ) -> Result<Option<Arc<Block>>, E> {
        if let Some((block, tier)) = self.look(offset, expected) {
            self.tally.hit(block.kind, tier, ask.keep);
            return Ok(Some(block));
        }
        if ask.memory_only {
            // The lookup is not counted. A caller that may wait looks the block up again, and that lookup counts.
            return Ok(None);
        }
        self.fetch(offset, expected, ask, read).map(Some)
    }

    /// Returns the cells of the data block at `offset` that `pick` chooses, for a caller that needs few of them. If the
    /// block is on a device, and no wait is needed, only these cells are copied. If it is in memory, the whole block is
    /// returned. Returns `None` otherwise, and also when the second tier is not on devices, or when the memory tier
    /// would cache the block; then the caller should ask for [the block](File::block). `keep` is [`Ask::keep`].
    #[inline]
    pub fn part(&self, offset: u64, keep: bool, pick: impl FnOnce(&Part) -> Range<usize>) -> Option<Cells> {
        let bucket = self.cache.bucket.as_ref().filter(|bucket| bucket.has_parts())?;
        let key = self.key(offset);
        // If the bucket cache can be read without a system call, data blocks are never in the memory tier, which is
        // then not searched.
        let memory = self.cache.memory.as_ref().filter(|_| !(bucket.combined && bucket.is_near()));
        if let Some(block) = memory.and_then(|memory| memory.get(key)) {
            self.tally.hit(block.kind, Tier::Memory, keep);
            return Some(Cells::Whole(block));
        }
        let cells = bucket.part_now(key, self.mark(offset), pick)?;
        if let (Cells::Part(part), Some(memory)) = (&cells, memory)
            && !bucket.is_near()
            && memory.wants(key, self.admission(part.block_weight(), Cause::Request))
        {
            return None;
        }
        self.tally.hit(BlockKind::Data, Tier::Bucket, keep);
        Some(cells)
    }

    /// Returns, for each of `offsets`, the block if it is in memory, in the order of the offsets. Returns an empty list
    /// if no tier has blocks of this kind in memory. Used to prepare later lookups, so it does not count as a lookup.
    pub fn peek(
        &self,
        expected: BlockKind,
        offsets: impl Iterator<Item = u64>,
    ) -> SmallVec<[Option<Arc<Block>>; PEEKED]> {
        let bucket =
            self.cache.bucket.as_ref().filter(|bucket| bucket.combined && expected == BlockKind::Data);
        let memory = match bucket {
            Some(bucket) => bucket.memory(),
            None => self.cache.memory.as_ref(),
        };
        memory.map(|memory| memory.peek(offsets.map(|offset| self.key(offset)))).unwrap_or_default()
    }

    /// Whether [`peek`](File::peek) can find data blocks.
    #[inline]
    pub fn has_data_in_memory(&self) -> bool {
        match self.cache.bucket.as_ref().filter(|bucket| bucket.combined) {
            Some(bucket) => bucket.memory().is_some(),
            None => self.cache.memory.is_some(),
        }
    }

    fn mark(&self, offset: u64) -> Mark {
        Mark { tag: self.known.tag, offset }
    }

    /// Returns the block from either tier, if that needs no wait.
    #[inline]
    fn look(&self, offset: u64, expected: BlockKind) -> Option<(Arc<Block>, Tier)> {
        let key = self.key(offset);
        let memory = || Some((self.cache.memory.as_ref()?.get(key)?, Tier::Memory));
        let Some(bucket) = &self.cache.bucket else { return memory() };
        let in_bucket = || {
            let block = bucket.get_now(key, self.mark(offset))?;
            self.promote(key, &block);
            Some((block, Tier::Bucket))
        };
        if expected == BlockKind::Data && bucket.combined && bucket.is_near() {
            in_bucket().or_else(memory)
        } else {
            memory().or_else(in_bucket)
        }
    }

    /// Offers a block that was read from a device to the memory tier.
    fn promote(&self, key: BlockKey, block: &Arc<Block>) {
        if self.cache.bucket.as_ref().is_some_and(|bucket| !bucket.is_near())
            && let Some(memory) = &self.cache.memory
        {
            memory.offer(key, block, self.admission(block.weight(), Cause::Request));
        }
    }

    fn admission(&self, weight: usize, cause: Cause) -> Admission {
        Admission { weight, in_memory: self.caching.in_memory, cause }
    }

    #[cold]
    fn fetch<E>(
        &self,
        offset: u64,
        expected: BlockKind,
        ask: Ask,
        read: impl FnOnce() -> Result<Block, E>,
    ) -> Result<Arc<Block>, E> {
        let key = self.key(offset);
        let leader = loop {
            match self.cache.flights.join(key) {
                Role::Leader(leader) => break leader,
                Role::Follower(flight) => {
                    if let Some((block, kept)) = flight.wait() {
                        self.tally.miss(expected, ask.keep);
                        if !kept {
                            self.keep(key, &block, ask);
                        }
                        return Ok(block);
                    }
                }
            }
        };
        // Another request may have cached the block after this one had missed it.
        if let Some(block) = self.cache.memory.as_ref().and_then(|memory| memory.get(key)) {
            self.tally.hit(block.kind, Tier::Memory, ask.keep);
            leader.land(&block, true);
            return Ok(block);
        }
        let bucket = self.cache.bucket.as_ref();
        if let Some(block) = bucket.and_then(|bucket| bucket.get(key, self.mark(offset))) {
            self.tally.hit(block.kind, Tier::Bucket, ask.keep);
            self.promote(key, &block);
            leader.land(&block, true);
            return Ok(block);
        }
        self.tally.miss(expected, ask.keep);
        let block = Arc::new(read()?);
        let kept = self.keep(key, &block, ask);
        leader.land(&block, kept);
        Ok(block)
    }

    /// Adds a block that the caller missed in memory and then read without [`block`](File::block). It counts as a miss,
    /// and is cached as `ask` says.
    pub fn bring(&self, offset: u64, expected: BlockKind, ask: Ask, block: Block) -> Arc<Block> {
        self.tally.miss(expected, ask.keep);
        let block = Arc::new(block);
        self.keep(self.key(offset), &block, ask);
        block
    }

    /// Caches a block that was read, if its kind and `ask` allow it. Returns whether they do.
    fn keep(&self, key: BlockKey, block: &Arc<Block>, ask: Ask) -> bool {
        let wanted = block.kind != BlockKind::Data || (ask.keep && self.keeps_data());
        if wanted {
            self.insert(key, block, Cause::Request);
        }
        wanted
    }

    /// Whether data blocks are cached when they are read.
    fn keeps_data(&self) -> bool {
        let switches = &self.cache.options.switches;
        (self.caching.data_on_read && switches.data_on_read) || self.prefetches()
    }

    fn insert(&self, key: BlockKey, block: &Arc<Block>, cause: Cause) {
        if self.known.is_gone() {
            return;
        }
        let admission = self.admission(block.weight(), cause);
        let is_data = block.kind == BlockKind::Data;
        let bucket = self.cache.bucket.as_ref();
        if let Some(bucket) = self.bucket_for(block.kind) {
            bucket.insert(key, self.mark(key.offset), block, admission);
        }
        // If reads of the bucket cache need a system call, memory also caches blocks that are requested often.
        let alone = bucket.is_some_and(|bucket| is_data && bucket.combined && bucket.is_near());
        if let Some(memory) = self.cache.memory.as_ref().filter(|_| !alone) {
            memory.insert(key, block, admission);
        }
        if self.known.is_gone() {
            // The file was deleted while this block was read, so its eviction may have missed the block. It is evicted
            // again.
            self.cache.evict_file(&self.known);
        }
    }

    /// Whether some tier has the block at `offset`. The call is not counted as a lookup.
    pub fn has(&self, offset: u64) -> bool {
        let key = self.key(offset);
        self.cache.memory.as_ref().is_some_and(|memory| memory.has(key))
            || self.cache.bucket.as_ref().is_some_and(|bucket| bucket.has(key))
    }

    /// Returns the bucket cache, if blocks of this kind are cached there.
    fn bucket_for(&self, kind: BlockKind) -> Option<&Bucket> {
        self.cache.bucket.as_ref().filter(|bucket| kind == BlockKind::Data || !bucket.combined)
    }

    /// Whether a block of about this [weight](Block::weight) could be cached without an eviction. If not, reading it
    /// ahead is a waste.
    pub fn has_room(&self, offset: u64, kind: BlockKind, bytes: usize) -> bool {
        let (key, in_memory) = (self.key(offset), self.admission(bytes, Cause::Ahead).in_memory);
        match (self.bucket_for(kind), &self.cache.memory) {
            (Some(bucket), _) => bucket.has_room(key, bytes, in_memory),
            (None, Some(memory)) => memory.has_room(key, bytes, in_memory),
            (None, None) => false,
        }
    }

    /// Caches a block that no request has read, of a file that was just written or opened. Set `asked_for` if the
    /// family's settings want the block cached, or if it replaces a cached block. The block may then evict blocks that
    /// were requested only once; otherwise it may only use free space. Returns whether there was space or `asked_for`
    /// is set.
    pub fn put(&self, offset: u64, block: Block, asked_for: bool) -> bool {
        let cause = if asked_for { Cause::Wanted } else { Cause::Ahead };
        let has_room = asked_for || self.has_room(offset, block.kind, block.weight());
        self.insert(self.key(offset), &Arc::new(block), cause);
        has_room
    }

    /// Returns the kinds of blocks that a flush caches. If data blocks are cached, so are index and Bloom blocks, which
    /// every lookup needs. The server's switch does not apply to data blocks of a family with BLOCKCACHE=false.
    pub fn kept_of_flush(&self) -> Kinds {
        let switches = &self.cache.options.switches;
        if self.caching.data_on_write || (switches.data_on_write && self.caching.data_on_read) {
            return Kinds::ALL;
        }
        Kinds { data: false, ..self.index_and_blooms() }
    }

    /// Returns the kinds of blocks that a compaction caches if its input files have `bytes` bytes in total.
    pub fn kept_of_compaction(&self, bytes: u64) -> Kinds {
        let switches = &self.cache.options.switches;
        let is_small = bytes <= switches.compacted_bytes_max;
        if switches.compacted_on_write && is_small && self.caching.data_on_read {
            return Kinds::ALL;
        }
        Kinds { data: false, ..self.index_and_blooms() }
    }

    fn index_and_blooms(&self) -> Kinds {
        let switches = &self.cache.options.switches;
        Kinds {
            data: false,
            index: self.caching.index_on_write || switches.index_on_write,
            blooms: self.caching.blooms_on_write || switches.blooms_on_write,
        }
    }

    /// Whether the blocks of a file that replaces this one are cached if they replace cached blocks. If so, a
    /// compaction leaves the cache as warm as it was.
    pub fn stays_warm(&self) -> bool {
        self.cache.options.switches.stays_warm && self.keeps_data()
    }

    /// Whether requests read so much of the file that they will probably also read the next flushed file: a quarter of
    /// this file's bytes are in cached blocks that were requested. Reading a block ahead costs a fourth of the time for
    /// which a request would wait for it.
    pub fn is_being_read(&self) -> bool {
        self.stays_warm() && self.cache.read_bytes_of(self.known.id) >= (self.known.size() / READ_PART).max(1)
    }

    /// Whether the file is read into the cache when it is opened.
    pub fn prefetches(&self) -> bool {
        let switch = self.cache.options.switches.prefetch_on_open;
        self.caching.prefetch_on_open || (switch && self.caching.data_on_read)
    }

    /// Whether the file was deleted, so that none of its blocks is in the cache, and none is admitted any more.
    pub fn is_gone(&self) -> bool {
        self.known.is_gone()
    }

    /// Closes the file, which may be opened again. Its blocks stay, unless EVICT_BLOCKS_ON_CLOSE is set.
    pub fn close(&self) {
        if self.caching.evict_on_close || self.cache.options.switches.evict_on_close {
            self.evict();
        }
    }

    /// Evicts the file's blocks. Returns their number.
    pub fn evict(&self) -> usize {
        self.cache.evict_file(&self.known)
    }

    /// Removes a deleted file: evicts its blocks, and admits none from now on. Returns the number of evicted blocks.
    pub fn remove(&self) -> usize {
        let mut files = self.cache.files.lock();
        if self.is_in(&files) {
            files.remove(&self.name);
        }
        drop(files);
        self.cache.forget(&self.known)
    }

    /// Like [`remove`](File::remove), for a file that one of its users needs no more. If others have the file open, its
    /// blocks are evicted, and these users may cache them again.
    pub fn remove_unless_shared(&self) -> usize {
        let mut files = self.cache.files.lock();
        let is_listed = self.is_in(&files);
        // Nobody can open the file while the list is locked. The list has one of these references, and `self` another.
        if Arc::strong_count(&self.known) > 1 + usize::from(is_listed) {
            drop(files);
            return self.evict();
        }
        if is_listed {
            files.remove(&self.name);
        }
        drop(files);
        self.cache.forget(&self.known)
    }

    /// Whether `files`, the cache's list of files, has this file under its name.
    fn is_in(&self, files: &HashMap<Box<str>, Arc<FileEntry>>) -> bool {
        files.get(&self.name).is_some_and(|known| Arc::ptr_eq(known, &self.known))
    }

    /// Returns the cache that the file is read through.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
}
