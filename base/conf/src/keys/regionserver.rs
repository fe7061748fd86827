//! The region server: addresses, scanners, limits of a request, background work.

keys! {
    /// Port of the region server's services.
    PORT: Port = "hbase.regionserver.port", "16020";
    /// Address at which the server listens.
    ADDRESS: Text = "hbase.regionserver.ipc.address", "127.0.0.1";
    /// HBase's port of the region server's web pages; -1 for none. Master and region server are one process here, so
    /// `hbase.master.info.port` is used instead.
    INFO_PORT: Number = "hbase.regionserver.info.port", "16030";
    /// Host name under which clients reach this server. Empty: `localhost`, the machine's name, or the address,
    /// depending on the address at which the server listens.
    HOSTNAME: Text = "hbase.regionserver.hostname", "";
    /// How long an open scanner is kept without a call. One call may take half of it, if the client understands
    /// heartbeats.
    SCANNER_TIMEOUT: Millis = "hbase.client.scanner.timeout.period", "60000";
    /// Minimum time that one call of a scanner may take, even if the client allows less.
    SCAN_TIME_LIMIT_MIN: Millis = "hbase.region.server.rpc.minimum.scan.time.limit.delta", "10";
    /// Maximum number of bytes of cells in one answer to a scan or batch. The client may ask for less.
    MAX_RESULT_SIZE: Size = "hbase.server.scanner.max.result.size", "104857600";
    /// A scan whose `maxResultSize` is smaller gets an empty heartbeat as its first answer when it continues at the
    /// boundary of a region. Otherwise HBase's asynchronous client can lose the scan, because cells come too early. 0
    /// turns it off.
    SCANNER_EDGE_HEARTBEAT: Size = "bellows.scanner.edge.heartbeat.below", "65536";
    /// Whether slow calls and large answers are kept for `get_slowlog_responses`. HBase's default is false.
    SLOW_LOG_ENABLED: Flag = "hbase.regionserver.slowlog.buffer.enabled", "true";
    /// Number of slow calls and large answers that are kept.
    SLOW_LOG_SIZE: Count = "hbase.regionserver.slowlog.ringbuffer.size", "256";
    /// Largest cell that a write may contain. 0 means no limit.
    MAX_CELL_SIZE: Size = "hbase.server.keyvalue.maxsize", "10485760";
    /// Number of rows above which a batch is reported in the log.
    ROWS_WARNING_THRESHOLD: Count = "hbase.rpc.rows.warning.threshold", "5000";
    /// Whether a batch with more rows than `hbase.rpc.rows.warning.threshold` is refused.
    ROWS_THRESHOLD_REJECT: Flag = "hbase.rpc.rows.size.threshold.reject", "false";
    /// How long the nonce of an increment or append is remembered, so that a repeated call is applied once. After a
    /// restart the nonces of at least the last five minutes are known, with limits that docs/compat/requests.md states.
    NONCE_GRACE_PERIOD: Millis = "hbase.server.hashNonce.gracePeriod", "1800000";
    /// Whether increments and appends are recognized by their nonces when a client repeats them.
    NONCES_ENABLED: Flag = "hbase.regionserver.nonces.enabled", "true";
    /// How often the server checks which regions to flush or compact and, if its log is in an object store or HDFS,
    /// whether another server has taken it over.
    WAKE_FREQUENCY: Millis = "hbase.server.thread.wakefrequency", "10000";
    /// Fraction of half of the memory of the machine, or of its container's limit, that all memstores together may
    /// take. Above this limit writes are refused.
    GLOBAL_MEMSTORE_SHARE: Ratio = "hbase.regionserver.global.memstore.size", "0.4";
    /// Fraction of the limit of all memstores above which regions are flushed to free memory: first those whose flush
    /// frees the most.
    GLOBAL_MEMSTORE_LOWER: Ratio = "hbase.regionserver.global.memstore.size.lower.limit", "0.95";
    /// Number of flushes that run at the same time.
    FLUSHERS: Count = "hbase.hstore.flusher.count", "2";
    /// Number of threads for compactions below the throttle point.
    SMALL_COMPACTION_THREADS: Count = "hbase.regionserver.thread.compaction.small", "1";
    /// Number of threads for compactions above the throttle point. They also take smaller compactions when there are no
    /// large ones.
    LARGE_COMPACTION_THREADS: Count = "hbase.regionserver.thread.compaction.large", "1";
    /// The throttle point: bytes above which a compaction is a large one. If unset, twice the maximum number of files
    /// of a minor compaction times the flush size.
    COMPACTION_THROTTLE: Size = "hbase.regionserver.thread.compaction.throttle", "2684354560";
    /// Pause before a failed flush or compaction is tried again. Each further failure doubles the wait.
    BACKGROUND_RETRY_MIN: Millis = "bellows.background.retry.min", "1000";
    /// Maximum pause before a failed flush or compaction is tried again.
    BACKGROUND_RETRY_MAX: Millis = "bellows.background.retry.max", "60000";
    /// Nice level of flushes and compactions, 0 to 19, while memory and files allow it; otherwise they have the
    /// priority of serving threads. A level above 10 needs the right to raise priorities again (`CAP_SYS_NICE`, or a
    /// `RLIMIT_NICE` of 21).
    BACKGROUND_NICE: Count = "bellows.background.nice", "19";
    /// Whether the system may use pages of 2 MB for the server's memory. The first access to such a page can take 6 ms.
    HUGE_PAGES: Flag = "bellows.memory.huge.pages", "false";
    /// Duration of a flush or compaction above which flushes and compactions get the priority of serving threads.
    BACKGROUND_PATIENCE: Millis = "bellows.background.patience", "10000";
    /// Whether this server compacts. The shell's `compaction_switch` changes it until the server ends.
    COMPACTION_ENABLED: Flag = "hbase.regionserver.compaction.enabled", "true";
    /// Number of regions that are opened or closed at the same time. If unset, 32 where the root is not on a disk,
    /// because opening a region then takes some ten requests over the network.
    OPEN_REGION_THREADS: Count = "hbase.regionserver.executor.openregion.threads", "3";
}
