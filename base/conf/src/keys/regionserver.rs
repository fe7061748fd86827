//! The region server: addresses, scanners, limits of a request, background work.

keys! {
    /// Port of the region server's services.
    PORT: Port = "hbase.regionserver.port", "16020";
    /// Address to listen at.
    ADDRESS: Text = "hbase.regionserver.ipc.address", "127.0.0.1";
    /// Port of the region server's web pages; -1 for none. In one process with a master `hbase.master.info.port` counts.
    INFO_PORT: Number = "hbase.regionserver.info.port", "16030";
    /// Host name under which clients reach this server. Empty: `localhost`, the machine's name, or the address, by what it
    /// listens at.
    HOSTNAME: Text = "hbase.regionserver.hostname", "";
    /// How long a scanner without calls is kept. One call may take half of it.
    SCANNER_TIMEOUT: Millis = "hbase.client.scanner.timeout.period", "60000";
    /// Shortest time that one call of a scanner may take, however little the client allows.
    SCAN_TIME_LIMIT_MIN: Millis = "hbase.region.server.rpc.minimum.scan.time.limit.delta", "10";
    /// Most bytes of cells in one answer of a scan or batch. The client may ask for less.
    MAX_RESULT_SIZE: Size = "hbase.server.scanner.max.result.size", "104857600";
    /// Scans with a smaller `maxResultSize` get an empty heartbeat first where they go on at the edge of a region. HBase's
    /// asynchronous client can lose them when cells come at once. 0 turns it off.
    SCANNER_EDGE_HEARTBEAT: Size = "bellows.scanner.edge.heartbeat.below", "65536";
    /// Whether slow calls and large answers are kept for `get_slowlog_responses`. HBase's default is false.
    SLOW_LOG_ENABLED: Flag = "hbase.regionserver.slowlog.buffer.enabled", "true";
    /// Number of slow calls and large answers that are kept.
    SLOW_LOG_SIZE: Count = "hbase.regionserver.slowlog.ringbuffer.size", "256";
    /// Largest cell that a write may contain. 0 means no limit.
    MAX_CELL_SIZE: Size = "hbase.server.keyvalue.maxsize", "10485760";
    /// Number of rows above which a batch is reported in the log.
    ROWS_WARNING_THRESHOLD: Count = "hbase.rpc.rows.warning.threshold", "5000";
    /// Whether a batch above that number of rows is refused.
    ROWS_THRESHOLD_REJECT: Flag = "hbase.rpc.rows.size.threshold.reject", "false";
    /// How long the nonce of an increment or append is remembered, so that a repeated call is applied once.
    NONCE_GRACE_PERIOD: Millis = "hbase.server.hashNonce.gracePeriod", "1800000";
    /// Whether nonces are used.
    NONCES_ENABLED: Flag = "hbase.regionserver.nonces.enabled", "true";
    /// How often the server checks which regions to flush or compact.
    WAKE_FREQUENCY: Millis = "hbase.server.thread.wakefrequency", "10000";
    /// Fraction of half of the machine's memory that all memstores together may take. Above it writes are refused.
    GLOBAL_MEMSTORE_SHARE: Ratio = "hbase.regionserver.global.memstore.size", "0.4";
    /// Fraction of that limit from which on the regions with the largest memstores are flushed.
    GLOBAL_MEMSTORE_LOWER: Ratio = "hbase.regionserver.global.memstore.size.lower.limit", "0.95";
    /// Number of flushes that run at the same time.
    FLUSHERS: Count = "hbase.hstore.flusher.count", "2";
    /// Number of threads for compactions below the throttle point.
    SMALL_COMPACTION_THREADS: Count = "hbase.regionserver.thread.compaction.small", "1";
    /// Number of threads for compactions above it. They take smaller ones when they have nothing else to do.
    LARGE_COMPACTION_THREADS: Count = "hbase.regionserver.thread.compaction.large", "1";
    /// The throttle point: bytes above which a compaction is a large one. If unset, twice the flush sizes of the most files of
    /// a minor compaction.
    COMPACTION_THROTTLE: Size = "hbase.regionserver.thread.compaction.throttle", "2684354560";
    /// How long a flush or compaction that failed waits before it is tried again. Each further failure doubles the wait.
    BACKGROUND_RETRY_MIN: Millis = "bellows.background.retry.min", "1000";
    /// Longest wait of a flush or compaction that failed.
    BACKGROUND_RETRY_MAX: Millis = "bellows.background.retry.max", "60000";
    /// Nice level of flushes and compactions, 0 to 19, while memory and files allow it; else they run like serving threads.
    /// Above 10 it needs the right to raise priorities again (`CAP_SYS_NICE`, or a `RLIMIT_NICE` of 21).
    BACKGROUND_NICE: Count = "bellows.background.nice", "19";
    /// Whether the system may use pages of 2 MB for the server's memory. The first touch of one can take 6 ms.
    HUGE_PAGES: Flag = "bellows.memory.huge.pages", "false";
    /// Duration of a flush or compaction above which background work runs like serving threads.
    BACKGROUND_PATIENCE: Millis = "bellows.background.patience", "10000";
    /// Whether this server compacts. The shell's `compaction_switch` changes it while the server runs.
    COMPACTION_ENABLED: Flag = "hbase.regionserver.compaction.enabled", "true";
    /// Number of regions that are opened or closed at the same time. 16 unless set where the root is not on a disk, because
    /// opening one is some ten requests that wait.
    OPEN_REGION_THREADS: Count = "hbase.regionserver.executor.openregion.threads", "3";
}
