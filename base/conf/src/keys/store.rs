//! Store files and their compaction.

keys! {
    /// Number of files at which a store is compacted.
    COMPACTION_MIN: Count = "hbase.hstore.compaction.min", "3";
    /// Older name of the key before, which wins.
    COMPACTION_THRESHOLD: Count = "hbase.hstore.compactionThreshold", "3";
    /// Most files of one minor compaction.
    COMPACTION_MAX: Count = "hbase.hstore.compaction.max", "10";
    /// A file is selected if it is smaller than the sum of the newer files times this.
    COMPACTION_RATIO: Ratio = "hbase.hstore.compaction.ratio", "1.2";
    /// Files that are smaller together are selected whatever the ratio. If unset, the flush size of the table.
    COMPACTION_MIN_SIZE: Size = "hbase.hstore.compaction.min.size", "134217728";
    /// Size above which a file is left out of minor compactions.
    COMPACTION_MAX_SIZE: Size = "hbase.hstore.compaction.max.size", "9223372036854775807";
    /// Number of files above which a store is not flushed until it was compacted.
    BLOCKING_STORE_FILES: Count = "hbase.hstore.blockingStoreFiles", "16";
    /// Longest time that a flush waits for a store with too many files.
    BLOCKING_WAIT_TIME: Millis = "hbase.hstore.blockingWaitTime", "90000";
    /// Period of major compactions. 0 turns them off.
    MAJOR_COMPACTION_PERIOD: Millis = "hbase.hregion.majorcompaction", "604800000";
    /// Fraction of the period by which the time of a major compaction varies.
    MAJOR_COMPACTION_JITTER: Ratio = "hbase.hregion.majorcompaction.jitter", "0.50";
    /// How long major compactions keep delete markers.
    PURGE_DELETES_AFTER: Millis = "hbase.hstore.time.to.purge.deletes", "0";
    /// How a store knows its files: FILE, a list in each store. DEFAULT, HBase's listing of the folder, is not served.
    FILE_TRACKER: Text = "hbase.store.file-tracker.impl", "FILE";
}
