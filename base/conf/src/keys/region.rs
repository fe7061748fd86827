//! Writes: the memstore, the write-ahead log, rows and their locks.

keys! {
    /// Size of a region's memstore at which it is flushed; with in-memory compaction up to `bellows.memstore.stretch`
    /// times this size.
    MEMSTORE_FLUSH_SIZE: Size = "hbase.hregion.memstore.flush.size", "134217728";
    /// Number of flush sizes above which a region refuses writes until a flush has freed memory.
    MEMSTORE_BLOCK_MULTIPLIER: Count = "hbase.hregion.memstore.block.multiplier", "4";
    /// Size of the chunks into which memstores copy cells: 4 KB to 2 MB; a value outside of this range is replaced by
    /// the nearer bound.
    MEMSTORE_CHUNK_SIZE: Size = "hbase.hregion.memstore.mslab.chunksize", "2097152";
    /// Fraction of the memory of all memstores whose chunks are kept for reuse after a flush.
    CHUNK_POOL_SHARE: Ratio = "hbase.hregion.memstore.chunkpool.maxsize", "1.0";
    /// Longest time that an edit stays in memory before its region is flushed. 0 means no limit.
    PERIODIC_FLUSH_INTERVAL: Millis = "hbase.regionserver.optionalcacheflushinterval", "3600000";
    /// How long a write waits for the lock of its row.
    ROW_LOCK_WAIT: Millis = "hbase.rowlock.wait.duration", "30000";
    /// Whether a put without a timestamp waits for the next millisecond if its row had a delete in the current one.
    /// Puts and deletes then also take the timestamp of a counter of their row that is ahead of the clock. If false,
    /// the earlier delete or counter hides the later write, as in HBase. A table's CONFIGURATION may set it.
    PUT_WAITS_FOR_DELETE: Flag = "bellows.put.waits.for.delete", "true";
    /// How far in the future a cell's timestamp may lie. The default, the largest number, allows any timestamp.
    TIMESTAMP_SLOP: Millis = "hbase.hregion.keyvalue.timestamp.slop.millisecs", "9223372036854775807";
    /// Maximum size of a row that a read returns whole. A larger row is a RowTooBigException; scans with partial
    /// results can read it.
    MAX_ROW_SIZE: Size = "hbase.table.max.rowsize", "1073741824";
    /// Whether a write with SYNC_WAL is on the disk when it is acknowledged (true), or only handed to the operating
    /// system (false, HBase's default). A log in an object store or HDFS is always durable then.
    WAL_HSYNC: Flag = "hbase.wal.hsync", "true";
    /// Size of a log file at which the log begins its next file. HBase derives it from the block size of the file
    /// system.
    WAL_ROLL_SIZE: Size = "bellows.wal.roll.size", "67108864";
    /// Number of log files with unflushed edits above which the regions with the oldest edits are flushed. If unset, 32
    /// or, if that is more, as many as hold twice the memory of all memstores, as in HBase.
    MAX_LOGS: Count = "hbase.regionserver.maxlogs", "32";
    /// How long a write that no client waits for (ASYNC_WAL) may stay out of the log.
    LOG_IDLE_WRITE: Millis = "hbase.regionserver.optionallogflushinterval", "1000";
    /// Age at which a log file is closed, whatever its size, if it has a record. 0: no limit.
    LOG_ROLL_PERIOD: Millis = "hbase.regionserver.logroll.period", "3600000";
    /// Duration above which a sync of the write-ahead log is reported in the server's log.
    SLOW_SYNC: Millis = "hbase.regionserver.wal.slowsync.ms", "100";
    /// Whether a new log file overwrites an old one that nobody needs any more. Turn it off on file systems that copy
    /// on write.
    LOG_REUSE: Flag = "bellows.wal.reuse", "true";
    /// How long the log waits before it repeats a write that found the disk full.
    LOG_FULL_RETRY: Millis = "bellows.wal.full.retry", "1000";
    /// In-memory compaction of families that do not set it: NONE, BASIC, EAGER or ADAPTIVE. HBase's default is NONE.
    IN_MEMORY_COMPACTION: MemoryCompaction = "hbase.hregion.compacting.memstore.type", "ADAPTIVE";
    /// In-memory compaction of system tables, whatever their families set.
    SYSTEM_IN_MEMORY_COMPACTION: MemoryCompaction = "hbase.systemtables.compacting.memstore.type", "NONE";
    /// Fraction of the flush size, shared by a region's families, at which a segment is sealed in memory. 0 means a
    /// quarter.
    IN_MEMORY_FLUSH_FACTOR: Ratio = "hbase.memstore.inmemoryflush.threshold.factor", "0.0";
    /// Number of sealed segments above which their indexes are merged.
    PIPELINE_SEGMENTS: Count = "hbase.hregion.compacting.pipeline.segments.limit", "2";
    /// ADAPTIVE in-memory compaction drops versions if it expects to keep at most this fraction of the cells.
    ADAPTIVE_COMPACTION_THRESHOLD: Ratio = "hbase.memstore.adaptive.compaction.threshold", "0.5";
    /// Number of flush sizes that a region with in-memory compaction may hold while the server's memstores have room.
    MEMSTORE_STRETCH: Ratio = "bellows.memstore.stretch", "2.0";
    /// Maximum fraction of a memstore that a flush to free memory may leave there with ADAPTIVE: rows that were written
    /// again since the last flush. 0 for none, as in HBase.
    MEMSTORE_FLUSH_KEEP: Ratio = "bellows.memstore.flush.keep", "0.5";
    /// A flush leaves rows in memory only if at least this fraction of them is expected to be overwritten before the
    /// next flush.
    MEMSTORE_FLUSH_KEEP_GAIN: Ratio = "bellows.memstore.flush.keep.gain.min", "0.25";
    /// Whether in-memory compaction also drops delete markers and the cells that they hide, where no file can hold the
    /// row. The region remembers the markers, and restores them for a put with an older timestamp.
    MEMSTORE_DROP_MARKERS: Flag = "bellows.memstore.drop.markers", "true";
    /// Maximum delay of the answer to a write while the memory of memstores fills. It is reached at the point where
    /// writes are refused.
    MEMSTORE_SLOWING: Millis = "bellows.memstore.slowing.max", "100";
    /// Number of threads for in-memory compaction, at most one for each core.
    IN_MEMORY_COMPACTION_THREADS: Count = "hbase.regionserver.inmemory.compaction.pool.size", "10";
}
