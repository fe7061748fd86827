//! The block cache.

keys! {
    /// The share of half of the machine's memory that cached blocks take.
    SHARE: Ratio = "hfile.block.cache.size", "0.4";
    /// The share of the cache that blocks of in-memory families hold against all others.
    IN_MEMORY_SHARE: Ratio = "hbase.lru.blockcache.memory.percentage", "0.25";
    /// Whether data blocks are kept when they are read; a family's BLOCKCACHE may still say no.
    DATA_ON_READ: Flag = "hbase.block.data.cacheonread", "true";
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
    /// Whether a file takes its blocks along when it is closed, for every family.
    EVICT_ON_CLOSE: Flag = "hbase.rs.evictblocksonclose", "false";
    /// Whether files are read into the cache when they are opened, for every family.
    PREFETCH_ON_OPEN: Flag = "hbase.rs.prefetchblocksonopen", "false";
    /// How many files are read into the cache at the same time when they are opened.
    PREFETCH_THREADS: Count = "hbase.hfile.thread.prefetch", "4";
}
