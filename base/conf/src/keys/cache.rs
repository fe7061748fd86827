//! The block cache.

keys! {
    /// The share of half of the machine's memory that cached blocks take.
    SHARE: Ratio = "hfile.block.cache.size", "0.4";
    /// The share of the cache that blocks of in-memory families hold against all others.
    IN_MEMORY_SHARE: Ratio = "hbase.lru.blockcache.memory.percentage", "0.25";
    /// Whether data blocks are kept when they are read; a family's BLOCKCACHE may still say no.
    DATA_ON_READ: Flag = "hbase.block.data.cacheonread", "true";
    /// Whether data blocks are kept packed, as they lie in files that compress or encode them, and unpacked at each look.
    DATA_COMPRESSED: Flag = "hbase.block.data.cachecompressed", "false";
    /// How much of a file is read at once for a scan that walks over blocks which are not cached; 0 reads block by block.
    READ_AHEAD_MAX: Size = "bellows.hfile.read.ahead.max", "1m";
    /// Whether all blocks of flushed files are kept, for every family.
    DATA_ON_WRITE: Flag = "hbase.rs.cacheblocksonwrite", "false";
    /// Whether index blocks of written files are kept, for every family.
    INDEX_ON_WRITE: Flag = "hfile.block.index.cacheonwrite", "false";
    /// Whether chunks of the bloom filters of written files are kept, for every family.
    BLOOMS_ON_WRITE: Flag = "hfile.block.bloom.cacheonwrite", "false";
    /// Whether all blocks of compacted files are kept, for every family.
    COMPACTED_ON_WRITE: Flag = "hbase.rs.cachecompactedblocksonwrite", "false";
    /// Above so much that was compacted into one file its data blocks are not kept after all.
    COMPACTED_ON_WRITE_MAX: Size = "hbase.rs.cachecompactedblocksonwrite.threshold", "9223372036854775807";
    /// Whether blocks of a compacted file take the places of those that were cached of the files it was made of, and blocks of
    /// flushed files are kept while there is room and the file that was flushed before is being read.
    STAYS_WARM: Flag = "bellows.block.cache.stays.warm", "true";
    /// Whether a file takes its blocks along when it is closed, for every family.
    EVICT_ON_CLOSE: Flag = "hbase.rs.evictblocksonclose", "false";
    /// Whether files are read into the cache when they are opened, for every family, as far as there is room.
    PREFETCH_ON_OPEN: Flag = "hbase.rs.prefetchblocksonopen", "false";
    /// How many files are read into the cache at the same time when they are opened.
    PREFETCH_THREADS: Count = "hbase.hfile.thread.prefetch", "4";
    /// The second tier: empty for none, `offheap` (memory of its own), `file:PATH`, `files:PATH,PATH…`, or `mmap:PATH`
    /// (a file that is read in place; `pmem:PATH` is the same).
    BUCKET_ENGINE: Text = "hbase.bucketcache.ioengine", "";
    /// The size of the second tier in megabytes; below 1 a share of half of the machine's memory.
    BUCKET_SIZE: Ratio = "hbase.bucketcache.size", "0";
    /// Sizes of slots in bytes, multiples of 256. Empty: from 4 KB to 513 KB, each by less than 7 % above the one before.
    BUCKET_SLOT_SIZES: List = "hbase.bucketcache.bucket.sizes", "";
    /// Whether data blocks are in the second tier alone, and index and blooms in the first; else both hold all.
    BUCKET_COMBINED: Flag = "hbase.bucketcache.combinedcache.enabled", "true";
    /// How many threads write to the second tier's device.
    BUCKET_WRITERS: Count = "hbase.bucketcache.writer.threads", "3";
    /// How many blocks wait for each of them; more are not taken.
    BUCKET_QUEUE: Count = "hbase.bucketcache.writer.queuelength", "64";
    /// The share of the second tier that is filled before blocks compete for places.
    BUCKET_FILL: Ratio = "hbase.bucketcache.acceptfactor", "0.95";
    /// The share of the second tier that blocks of in-memory families hold against all others.
    BUCKET_IN_MEMORY: Ratio = "hbase.bucketcache.memory.factor", "0.25";
    /// How long a device of the second tier may fail, without a success in between, before it is used no more, or, if it is
    /// writes that fail, is given nothing more. The others go on.
    BUCKET_ERRORS_TOLERATED: Millis = "hbase.bucketcache.ioengine.errors.tolerated.duration", "60000";
    /// Memory, in megabytes, for what tells where the cells of blocks of `file` and `files` lie: gets of those blocks read
    /// the device once and not twice. A block of 16 KB takes 1.7 KB where cells are of 80 bytes, 0.2 where of 1,000.
    BUCKET_HEADS: Ratio = "bellows.bucketcache.heads.size", "16";
    /// The file that keeps the second tier's index for the next start; empty for none. `file:` before it is passed over.
    BUCKET_PERSISTENT: Text = "hbase.bucketcache.persistent.path", "";
    /// How often the second tier's index is kept.
    BUCKET_PERSIST_INTERVAL: Millis = "hbase.bucketcache.persist.intervalinmillis", "1000";
}
