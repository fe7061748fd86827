//! The region server: its address, its scanners, its limits for one request.

keys! {
    /// The port of the region server's services.
    PORT: Port = "hbase.regionserver.port", "16020";
    /// The address to listen at.
    ADDRESS: Text = "hbase.regionserver.ipc.address", "127.0.0.1";
    /// The port of the region server's web pages; HBase writes -1 for none.
    INFO_PORT: Number = "hbase.regionserver.info.port", "16030";
    /// The name under which clients reach this server. Empty: the machine's own.
    HOSTNAME: Text = "hbase.regionserver.hostname", "";
    /// How long a scanner is kept that nobody calls. Half of it bounds the time of one call.
    SCANNER_TIMEOUT: Millis = "hbase.client.scanner.timeout.period", "60000";
    /// The shortest time that a call of a scanner gets, however little the client has left.
    SCAN_TIME_LIMIT_MIN: Millis = "hbase.region.server.rpc.minimum.scan.time.limit.delta", "10";
    /// How many bytes of cells one reply holds at most; the client may ask for less.
    MAX_RESULT_SIZE: Size = "hbase.server.scanner.max.result.size", "104857600";
    /// The largest cell that is taken; 0 takes any.
    MAX_CELL_SIZE: Size = "hbase.server.keyvalue.maxsize", "10485760";
    /// A batch of more rows than this is told in the log.
    ROWS_WARNING_THRESHOLD: Count = "hbase.rpc.rows.warning.threshold", "5000";
    /// Whether a batch of more rows than the warning threshold is refused.
    ROWS_THRESHOLD_REJECT: Flag = "hbase.rpc.rows.size.threshold.reject", "false";
    /// How long the nonce of an increment or append is remembered, so that a repeated one is not done twice.
    NONCE_GRACE_PERIOD: Millis = "hbase.server.hashNonce.gracePeriod", "1800000";
    /// Whether nonces are looked at.
    NONCES_ENABLED: Flag = "hbase.regionserver.nonces.enabled", "true";
    /// How often the server looks which regions must be flushed or compacted.
    WAKE_FREQUENCY: Millis = "hbase.server.thread.wakefrequency", "10000";
    /// The share of half of the machine's memory that all memstores together may take.
    GLOBAL_MEMSTORE_SHARE: Ratio = "hbase.regionserver.global.memstore.size", "0.4";
    /// The share of that share from which on the fullest regions are flushed; at the whole of it writes are refused.
    GLOBAL_MEMSTORE_LOWER: Ratio = "hbase.regionserver.global.memstore.size.lower.limit", "0.95";
    /// How many flushes run at the same time.
    FLUSHERS: Count = "hbase.hstore.flusher.count", "2";
    /// How many compactions of little data run at the same time.
    SMALL_COMPACTION_THREADS: Count = "hbase.regionserver.thread.compaction.small", "1";
    /// How many compactions of much data run at the same time.
    LARGE_COMPACTION_THREADS: Count = "hbase.regionserver.thread.compaction.large", "1";
    /// How long a flush or compaction that failed waits before it is tried again; each further failure doubles it.
    BACKGROUND_RETRY_MIN: Millis = "bellows.background.retry.min", "1000";
    /// The longest that a flush or compaction that failed waits.
    BACKGROUND_RETRY_MAX: Millis = "bellows.background.retry.max", "60000";
    /// How little flushes and compactions weigh beside what serves: a nice level, 0 to 19. They weigh the same while memory
    /// or files press. Above 10 it counts only where the system lets this process raise its threads again
    /// (`CAP_SYS_NICE`, or a `RLIMIT_NICE` of 21); else it is 10.
    BACKGROUND_NICE: Count = "bellows.background.nice", "19";
    /// Whether the system may give the server memory in pages of 2 MB. One that it needs first takes up to 6 ms, in which the
    /// thread serves nobody.
    HUGE_PAGES: Flag = "bellows.memory.huge.pages", "false";
    /// A flush or compaction that takes longer weighs the same as what serves, until none takes so long.
    BACKGROUND_PATIENCE: Millis = "bellows.background.patience", "10000";
    /// Whether this server compacts at all; changed while it runs by the shell's `compaction_switch`.
    COMPACTION_ENABLED: Flag = "hbase.regionserver.compaction.enabled", "true";
}
