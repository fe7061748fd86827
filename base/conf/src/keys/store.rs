//! Store files and their compaction.

keys! {
    /// Minimum number of files in a minor compaction.
    COMPACTION_MIN: Count = "hbase.hstore.compaction.min", "3";
    /// Older name of `hbase.hstore.compaction.min`; it is used only if the new name is not set.
    COMPACTION_THRESHOLD: Count = "hbase.hstore.compactionThreshold", "3";
    /// Maximum number of files in one minor compaction.
    COMPACTION_MAX: Count = "hbase.hstore.compaction.max", "10";
    /// No file of a minor compaction is larger than its other files together times this ratio; with
    /// RatioBasedCompactionPolicy, than its newer files together times this ratio.
    COMPACTION_RATIO: Ratio = "hbase.hstore.compaction.ratio", "1.2";
    /// Size of a minor compaction below which the ratio does not count; with RatioBasedCompactionPolicy, size of a
    /// file. If unset, the flush size of the table.
    COMPACTION_MIN_SIZE: Size = "hbase.hstore.compaction.min.size", "134217728";
    /// Size above which a file is left out of minor compactions.
    COMPACTION_MAX_SIZE: Size = "hbase.hstore.compaction.max.size", "9223372036854775807";
    /// `hbase.hstore.compaction.ratio` in quiet hours, for one compaction at a time.
    COMPACTION_RATIO_OFF_PEAK: Ratio = "hbase.hstore.compaction.ratio.offpeak", "5.0";
    /// `hbase.hstore.compaction.max.size` in quiet hours. If unset, the same as at other times.
    COMPACTION_MAX_SIZE_OFF_PEAK: Size = "hbase.hstore.compaction.max.size.offpeak", "9223372036854775807";
    /// How the files of a compaction are chosen: DefaultStoreEngine uses the policy in
    /// `hbase.hstore.defaultengine.compactionpolicy.class`, DateTieredStoreEngine compacts files of one window of time,
    /// StripeStoreEngine files of one range of rows (a stripe). PersistedStoreEngine, of Amazon EMR, has the effect of
    /// DefaultStoreEngine.
    ENGINE: StoreEngineName = "hbase.hstore.engine.class", "org.apache.hadoop.hbase.regionserver.DefaultStoreEngine";
    /// How DefaultStoreEngine chooses: ExploringCompactionPolicy, RatioBasedCompactionPolicy, FIFOCompactionPolicy
    /// (deletes files whose cells have all expired) or DateTieredCompactionPolicy.
    COMPACTION_POLICY: CompactionPolicyName = "hbase.hstore.defaultengine.compactionpolicy.class",
        "org.apache.hadoop.hbase.regionserver.compactions.ExploringCompactionPolicy";
    /// Date-tiered: minor compactions leave out a file whose cells, and those of all earlier files, are older than
    /// this.
    TIERED_MAX_AGE: Millis = "hbase.hstore.compaction.date.tiered.max.storefile.age.millis", "9223372036854775807";
    /// Date-tiered: number of files at which the newest window is compacted.
    TIERED_INCOMING_MIN: Count = "hbase.hstore.compaction.date.tiered.incoming.window.min", "6";
    /// Date-tiered: length of the newest windows.
    TIERED_BASE_WINDOW: Millis = "hbase.hstore.compaction.date.tiered.base.window.millis", "21600000";
    /// Date-tiered: number of windows of one length, after which older windows are this many times longer.
    TIERED_WINDOWS: Count = "hbase.hstore.compaction.date.tiered.windows.per.tier", "4";
    /// Date-tiered: age above which windows become no longer. If unset, the age above which only major compactions take
    /// files.
    TIERED_MAX_TIER_AGE: Millis = "hbase.hstore.compaction.date.tiered.max.tier.age.millis", "9223372036854775807";
    /// Date-tiered: whether a minor compaction always writes one file.
    TIERED_SINGLE_OUTPUT: Flag = "hbase.hstore.compaction.date.tiered.single.output.for.minor.compaction", "true";
    /// Date-tiered: the policy within a window, ExploringCompactionPolicy or RatioBasedCompactionPolicy.
    TIERED_WINDOW_POLICY: CompactionPolicyName = "hbase.hstore.compaction.date.tiered.window.policy.class",
        "org.apache.hadoop.hbase.regionserver.compactions.ExploringCompactionPolicy";
    /// Stripes: number of stripes that a store gets at first.
    STRIPE_INITIAL_COUNT: Count = "hbase.store.stripe.initialStripeCount", "1";
    /// Stripes: size from which a stripe is split. If unset, the product of the table's flush size,
    /// `hbase.store.stripe.compaction.minFilesL0`, 4 and `hbase.store.stripe.splitPartCount`.
    STRIPE_SPLIT_SIZE: Size = "hbase.store.stripe.sizeToSplit", "4294967296";
    /// Stripes: number of stripes into which a stripe of `hbase.store.stripe.sizeToSplit` is split. A larger stripe is
    /// split into more.
    STRIPE_SPLIT_PARTS: Ratio = "hbase.store.stripe.splitPartCount", "2.0";
    /// Stripes: whether flushes write one file to level 0, instead of one to each stripe.
    STRIPE_FLUSH_TO_LEVEL0: Flag = "hbase.store.stripe.compaction.flushToL0", "false";
    /// Stripes: number of files at which level 0 is compacted into the stripes.
    STRIPE_LEVEL0_MIN: Count = "hbase.store.stripe.compaction.minFilesL0", "4";
    /// Stripes: number of files at which a stripe is compacted, at least 2. If unset, the number for other stores, but
    /// at least 4, or 3 if flushes write to level 0.
    STRIPE_MIN: Count = "hbase.store.stripe.compaction.minFiles", "4";
    /// Stripes: maximum number of files in one compaction of a stripe. If unset, the maximum for other stores.
    STRIPE_MAX: Count = "hbase.store.stripe.compaction.maxFiles", "10";
    /// Stripes: a region is split between two stripes if neither side is this many times as large as the other.
    STRIPE_SPLIT_IMBALANCE: Ratio = "hbase.store.stripe.region.split.max.imbalance", "1.5";
    /// Whether a file is deleted unread when all its cells have expired.
    DELETE_EXPIRED_FILES: Flag = "hbase.store.delete.expired.storefile", "true";
    /// First quiet hour of the day, 0 to 23 in UTC; -1 for none.
    OFF_PEAK_START: Number = "hbase.offpeak.start.hour", "-1";
    /// First hour after the quiet ones, 0 to 23 in UTC; -1 for none.
    OFF_PEAK_END: Number = "hbase.offpeak.end.hour", "-1";
    /// Whether the bytes that compactions write are limited: PressureAwareCompactionThroughputController, or
    /// NoLimitThroughputController.
    THROUGHPUT_CONTROLLER: ThroughputControllerName = "hbase.regionserver.throughput.controller",
        "org.apache.hadoop.hbase.regionserver.throttle.PressureAwareCompactionThroughputController";
    /// Maximum number of bytes a second that all compactions write while no store has more files than a minor
    /// compaction needs.
    THROUGHPUT_LOWER: Size = "hbase.hstore.compaction.throughput.lower.bound", "52428800";
    /// Maximum number of bytes a second that all compactions write just before flushes have to wait for them. Once
    /// flushes wait, there is no limit.
    THROUGHPUT_HIGHER: Size = "hbase.hstore.compaction.throughput.higher.bound", "104857600";
    /// Maximum number of bytes a second that all compactions write in quiet hours.
    THROUGHPUT_OFF_PEAK: Size = "hbase.hstore.compaction.throughput.offpeak", "9223372036854775807";
    /// Whether the bytes that flushes write are limited: PressureAwareFlushThroughputController, or
    /// NoLimitThroughputController.
    FLUSH_THROUGHPUT_CONTROLLER: FlushThroughputControllerName = "hbase.regionserver.flush.throughput.controller",
        "org.apache.hadoop.hbase.regionserver.throttle.NoLimitThroughputController";
    /// Maximum number of bytes a second that all flushes write while memstores are nearly empty.
    FLUSH_THROUGHPUT_LOWER: Size = "hbase.hstore.flush.throughput.lower.bound", "104857600";
    /// Maximum number of bytes a second that all flushes write just before regions are flushed to free memory. Above
    /// that point there is no limit.
    FLUSH_THROUGHPUT_UPPER: Size = "hbase.hstore.flush.throughput.upper.bound", "209715200";
    /// Number of files of a store above which a full region waits for a compaction before it is flushed, at most
    /// `hbase.hstore.blockingWaitTime`. Flushes that free the server's memory, and those of hbase:meta, do not wait.
    BLOCKING_STORE_FILES: Count = "hbase.hstore.blockingStoreFiles", "16";
    /// Maximum time that a flush waits for a store with more than `hbase.hstore.blockingStoreFiles` files.
    BLOCKING_WAIT_TIME: Millis = "hbase.hstore.blockingWaitTime", "90000";
    /// Period of automatic major compactions of a store. 0: only when a client asks.
    MAJOR_COMPACTION_PERIOD: Millis = "hbase.hregion.majorcompaction", "604800000";
    /// Fraction of the period by which the time of a major compaction varies.
    MAJOR_COMPACTION_JITTER: Ratio = "hbase.hregion.majorcompaction.jitter", "0.50";
    /// Age of a delete marker up to which major compactions keep it. 0: they keep none.
    PURGE_DELETES_AFTER: Millis = "hbase.hstore.time.to.purge.deletes", "0";
    /// Number of MOB files that stay open between reads.
    MOB_FILE_CACHE_SIZE: Count = "hbase.mob.file.cache.size", "1000";
    /// What a requested major compaction does with the values in MOB files: `full` writes all values of a region's
    /// family to one new MOB file; `optimized` leaves values in MOB files of the maximum size, and writes the others to
    /// files of about that size.
    MOB_COMPACTION_TYPE: Text = "hbase.mob.compaction.type", "full";
    /// Maximum size of a MOB file that an optimized compaction writes, in bytes. It is exceeded by one value.
    MOB_FILE_SIZE_MAX: Size = "hbase.mob.compactions.max.file.size", "1073741824";
    /// How often the master requests a major compaction of each MOB family, the first time after one period: it removes
    /// values that nobody refers to from MOB files. 0: never. Automatic major compactions leave MOB files as they are.
    /// Has no effect in an object store, where MOB files are not deleted.
    MOB_COMPACTION_CHORE_PERIOD: Seconds = "hbase.mob.compaction.chore.period", "604800";
    /// The store file tracker that new tables name: FILE or DEFAULT. It says how HBase finds a store's files after
    /// `bellows hand-back`; every store has a file list here.
    FILE_TRACKER: Text = "hbase.store.file-tracker.impl", "FILE";
}
