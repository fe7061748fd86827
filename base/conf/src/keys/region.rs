//! Writing: the memstore, the log, rows and their locks.

keys! {
    /// The size of a region's memstore that starts a flush.
    MEMSTORE_FLUSH_SIZE: Size = "hbase.hregion.memstore.flush.size", "134217728";
    /// A memstore of this many flush sizes takes no more until it has been flushed.
    MEMSTORE_BLOCK_MULTIPLIER: Count = "hbase.hregion.memstore.block.multiplier", "4";
    /// Bytes of a chunk, into which memstores copy cells: 4 KB to 2 MB, beyond them the nearer of both.
    MEMSTORE_CHUNK_SIZE: Size = "hbase.hregion.memstore.mslab.chunksize", "2097152";
    /// Of the memory that memstores may take, the part whose chunks are kept for later when memstores are flushed.
    CHUNK_POOL_SHARE: Ratio = "hbase.hregion.memstore.chunkpool.maxsize", "1.0";
    /// How long an edit stays in memory before its region is flushed; 0 means for ever.
    PERIODIC_FLUSH_INTERVAL: Millis = "hbase.regionserver.optionalcacheflushinterval", "3600000";
    /// How long a write waits for the lock of its row.
    ROW_LOCK_WAIT: Millis = "hbase.rowlock.wait.duration", "30000";
    /// How far in the future a cell's timestamp may lie; HBase's default, the largest number, takes any.
    TIMESTAMP_SLOP: Millis = "hbase.hregion.keyvalue.timestamp.slop.millisecs", "9223372036854775807";
    /// The largest row that a read gives back whole.
    MAX_ROW_SIZE: Size = "hbase.table.max.rowsize", "1073741824";
    /// Whether an acknowledged write is on the disk (true) or handed to the operating system (false). HBase's default
    /// is false; ours keeps what was acknowledged.
    WAL_HSYNC: Flag = "hbase.wal.hsync", "true";
    /// The size of a log file that starts the next one. HBase makes it of the file system's block size.
    WAL_ROLL_SIZE: Size = "bellows.wal.roll.size", "67108864";
    /// How many log files may be kept by unflushed edits before the regions that hold them back are flushed. Where no
    /// number is said it is at least as many as hold twice the memory of all memstores, as in HBase.
    MAX_LOGS: Count = "hbase.regionserver.maxlogs", "32";
    /// How long a write that nobody waits for may stay out of the log (ASYNC_WAL).
    LOG_IDLE_WRITE: Millis = "hbase.regionserver.optionallogflushinterval", "1000";
    /// When a log file is closed however small it is.
    LOG_ROLL_PERIOD: Millis = "hbase.regionserver.logroll.period", "3600000";
    /// A sync of the log that takes longer is told in the server's own log.
    SLOW_SYNC: Millis = "hbase.regionserver.wal.slowsync.ms", "100";
    /// Whether log files begin in the space of those that nobody needs any more. Better off on file systems that copy on write.
    LOG_REUSE: Flag = "bellows.wal.reuse", "true";
    /// How long to wait before a write of the log that found the disk full is tried again.
    LOG_FULL_RETRY: Millis = "bellows.wal.full.retry", "1000";
    /// How memstores compact in memory where a family does not say: NONE, BASIC, EAGER or ADAPTIVE. HBase's default is
    /// NONE, because it may cost writes; here it costs them next to nothing.
    IN_MEMORY_COMPACTION: MemoryCompaction = "hbase.hregion.compacting.memstore.type", "ADAPTIVE";
    /// How memstores of the system's tables compact in memory, whatever their families say.
    SYSTEM_IN_MEMORY_COMPACTION: MemoryCompaction = "hbase.systemtables.compacting.memstore.type", "NONE";
    /// At which part of the flush size, shared by a region's families, what was written is sealed in memory; 0 stands for
    /// a quarter.
    IN_MEMORY_FLUSH_FACTOR: Ratio = "hbase.memstore.inmemoryflush.threshold.factor", "0.0";
    /// How many sealed segments a read visits before their indexes are merged.
    PIPELINE_SEGMENTS: Count = "hbase.hregion.compacting.pipeline.segments.limit", "2";
    /// At ADAPTIVE, the share of cells that must stay at most for dropping the others to pay.
    ADAPTIVE_COMPACTION_THRESHOLD: Ratio = "hbase.memstore.adaptive.compaction.threshold", "0.5";
    /// How many flush sizes a region may hold in memory that compacts there, while the server's memstores have room.
    MEMSTORE_STRETCH: Ratio = "bellows.memstore.stretch", "2.0";
    /// At ADAPTIVE, which part of a memstore a flush may leave in memory that is for the sake of memory: rows that were
    /// written again since the last flush, and will be soon; 0 for nothing, as in HBase.
    MEMSTORE_FLUSH_KEEP: Ratio = "bellows.memstore.flush.keep", "0.5";
    /// Which share of what a flush leaves in memory must be expected to be replaced before the next one.
    MEMSTORE_FLUSH_KEEP_GAIN: Ratio = "bellows.memstore.flush.keep.gain.min", "0.25";
    /// Whether what compacts in memory drops delete markers, too, with what they mask, where no file can have the row. They
    /// are remembered, and come back for a put with an older timestamp.
    MEMSTORE_DROP_MARKERS: Flag = "bellows.memstore.drop.markers", "true";
    /// How long the answer to a write is held back at most while memory fills: at the mark where writes are refused.
    MEMSTORE_SLOWING: Millis = "bellows.memstore.slowing.max", "100";
    /// How many threads compact in memory, at most one for each core.
    IN_MEMORY_COMPACTION_THREADS: Count = "hbase.regionserver.inmemory.compaction.pool.size", "10";
}
