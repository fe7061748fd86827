//! The block cache.

keys! {
    /// Fraction of half of the memory of the machine, or of its container's limit, that the block cache may take.
    SHARE: Ratio = "hfile.block.cache.size", "0.4";
    /// Fraction of the block cache in which blocks of IN_MEMORY families are not evicted for other blocks.
    IN_MEMORY_SHARE: Ratio = "hbase.lru.blockcache.memory.percentage", "0.25";
    /// Whether data blocks are cached when they are read. A family's BLOCKCACHE=false still turns it off.
    DATA_ON_READ: Flag = "hbase.block.data.cacheonread", "true";
    /// Whether the cache keeps data blocks compressed or encoded, as in the file, and decodes them at each lookup.
    DATA_COMPRESSED: Flag = "hbase.block.data.cachecompressed", "false";
    /// Maximum number of bytes that a scan reads ahead at once from a file whose blocks are not cached. 0 reads block
    /// by block.
    READ_AHEAD_MAX: Size = "bellows.hfile.read.ahead.max", "1m";
    /// Whether flushes cache all blocks that they write, for every family. If the key is not
    /// set, it is true for files in an object store or HDFS.
    DATA_ON_WRITE: Flag = "hbase.rs.cacheblocksonwrite", "false";
    /// Whether index blocks are cached when a file is written, for every family. If the key is
    /// not set, it is true for files in an object store or HDFS.
    INDEX_ON_WRITE: Flag = "hfile.block.index.cacheonwrite", "false";
    /// Whether Bloom filter chunks are cached when a file is written, for every family. If the key is
    /// not set, it is true for files in an object store or HDFS.
    BLOOMS_ON_WRITE: Flag = "hfile.block.bloom.cacheonwrite", "false";
    /// Whether compactions cache all blocks that they write, for every family. If the key is not set, it is true for files
    /// in an object store or HDFS if there is a bucket cache.
    COMPACTED_ON_WRITE: Flag = "hbase.rs.cachecompactedblocksonwrite", "false";
    /// Size of a compacted file above which the server does not cache its data blocks, even if compactions cache the
    /// blocks that they write. If the key is not set, it is the size of the bucket cache for files in an object
    /// store or HDFS, if there is one.
    COMPACTED_ON_WRITE_MAX: Size = "hbase.rs.cachecompactedblocksonwrite.threshold", "9223372036854775807";
    /// Whether a compaction caches the new blocks that replace cached ones. A flush then also caches its blocks while
    /// the cache has room and the store's previous file is being read.
    STAYS_WARM: Flag = "bellows.block.cache.stays.warm", "true";
    /// Whether a file's blocks are evicted when the file is closed, for every family.
    EVICT_ON_CLOSE: Flag = "hbase.rs.evictblocksonclose", "false";
    /// Whether files are read into the cache when they are opened, for every family, as far as the cache has room. If the
    /// key is not set, it is true for files in an object store or HDFS if there is a bucket cache.
    PREFETCH_ON_OPEN: Flag = "hbase.rs.prefetchblocksonopen", "false";
    /// Number of files that are read into the cache at the same time after they were opened.
    PREFETCH_THREADS: Count = "hbase.hfile.thread.prefetch", "4";
    /// Second tier of the cache: empty for none, `offheap` (memory), `file:PATH`, `files:PATH,PATH…`, or `mmap:PATH` (a
    /// mapped file; `pmem:PATH` is the same).
    BUCKET_ENGINE: Text = "hbase.bucketcache.ioengine", "";
    /// Size of the second tier in megabytes. A value below 1 is a fraction of half of the memory of the machine, or of
    /// its container's limit.
    BUCKET_SIZE: Ratio = "hbase.bucketcache.size", "0";
    /// Sizes of the second tier's slots in bytes, each a multiple of 256. Empty: from 4 KB to 513 KB, each less than 7
    /// % larger than the one before.
    BUCKET_SLOT_SIZES: List = "hbase.bucketcache.bucket.sizes", "";
    /// Whether the second tier takes data blocks only, and the first tier index and Bloom blocks; with `file` and
    /// `files` the first tier also keeps data blocks that are read often. If false, both tiers hold all kinds.
    BUCKET_COMBINED: Flag = "hbase.bucketcache.combinedcache.enabled", "true";
    /// Number of threads that write to the second tier's device.
    BUCKET_WRITERS: Count = "hbase.bucketcache.writer.threads", "3";
    /// Number of blocks that may wait for each writer thread of the second tier. Further blocks are not cached.
    BUCKET_QUEUE: Count = "hbase.bucketcache.writer.queuelength", "64";
    /// Fraction of the second tier that is filled before blocks are evicted.
    BUCKET_FILL: Ratio = "hbase.bucketcache.acceptfactor", "0.95";
    /// Fraction of the second tier that is reserved for blocks of IN_MEMORY families.
    BUCKET_IN_MEMORY: Ratio = "hbase.bucketcache.memory.factor", "0.25";
    /// How long a device of the second tier may fail without any success before it is no longer read, or, if writes
    /// fail, no longer written. Other devices stay in use.
    BUCKET_ERRORS_TOLERATED: Millis = "hbase.bucketcache.ioengine.errors.tolerated.duration", "60000";
    /// Memory in megabytes for the cell offsets of blocks in `file` and `files` tiers, so that a get needs one read of
    /// the device instead of two. A block of 16 KB takes 1.7 KB with cells of 80 bytes, and 0.2 KB with cells of 1,000.
    BUCKET_HEADS: Ratio = "bellows.bucketcache.heads.size", "16";
    /// File that keeps the second tier's index for the next start. Empty for none. A leading `file:` is ignored.
    BUCKET_PERSISTENT: Text = "hbase.bucketcache.persistent.path", "";
    /// How often the server writes the second tier's index to `hbase.bucketcache.persistent.path`.
    BUCKET_PERSIST_INTERVAL: Millis = "hbase.bucketcache.persist.intervalinmillis", "1000";
}
