//! Store files and their compaction.

keys! {
    /// A store with this many files is compacted.
    COMPACTION_MIN: Count = "hbase.hstore.compaction.min", "3";
    /// How many files one minor compaction takes at most.
    COMPACTION_MAX: Count = "hbase.hstore.compaction.max", "10";
    /// A file is taken if it is smaller than the sum of the newer ones times this.
    COMPACTION_RATIO: Ratio = "hbase.hstore.compaction.ratio", "1.2";
    /// Files that measure less together are taken whatever the ratio; what a flush of the table measures unless it is said.
    COMPACTION_MIN_SIZE: Size = "hbase.hstore.compaction.min.size", "134217728";
    /// Files above this size are left out of minor compactions.
    COMPACTION_MAX_SIZE: Size = "hbase.hstore.compaction.max.size", "9223372036854775807";
    /// A store with more files than this takes no flush until it has been compacted.
    BLOCKING_STORE_FILES: Count = "hbase.hstore.blockingStoreFiles", "16";
    /// How long a flush waits for a store with too many files.
    BLOCKING_WAIT_TIME: Millis = "hbase.hstore.blockingWaitTime", "90000";
    /// How often every store is rewritten whole; 0 leaves that to people.
    MAJOR_COMPACTION_PERIOD: Millis = "hbase.hregion.majorcompaction", "604800000";
    /// The share of the period by which the moment of a major compaction varies.
    MAJOR_COMPACTION_JITTER: Ratio = "hbase.hregion.majorcompaction.jitter", "0.50";
    /// How long a major compaction keeps delete markers.
    PURGE_DELETES_AFTER: Millis = "hbase.hstore.time.to.purge.deletes", "0";
    /// Compactions of more bytes than this go to the threads for large ones.
    COMPACTION_THROTTLE: Size = "hbase.regionserver.thread.compaction.throttle", "2684354560";
    /// How the files of a store are known: DEFAULT lists the folder, FILE keeps a list.
    FILE_TRACKER: Text = "hbase.store.file-tracker.impl", "FILE";
    /// A region with a store of this size is split.
    MAX_FILE_SIZE: Size = "hbase.hregion.max.filesize", "10737418240";
}
