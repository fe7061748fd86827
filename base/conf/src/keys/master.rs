//! The master.

keys! {
    /// Port of the master's services. In one process with a region server all services answer on both ports.
    PORT: Port = "hbase.master.port", "16000";
    /// Port of the web pages, `/healthz` and `/metrics`. -1 takes any free port.
    INFO_PORT: Number = "hbase.master.info.port", "16010";
    /// Host name under which clients reach the master. Empty: that of the region server in the same process.
    HOSTNAME: Text = "hbase.master.hostname", "";
    /// Number of versions of each cell that hbase:meta keeps.
    META_VERSIONS: Count = "hbase.meta.versions", "3";
    /// Block size of hbase:meta.
    META_BLOCK_SIZE: Size = "hbase.meta.blocksize", "8192";
    /// Whether table descriptors are checked when a table is created or changed.
    TABLE_SANITY_CHECKS: Flag = "hbase.table.sanity.checks", "true";
    /// How often the master deletes parents of splits and merges to whose files no region refers any more. 0: never.
    CATALOG_JANITOR_INTERVAL: Millis = "hbase.catalogjanitor.interval", "300000";
    /// How often the master compares hbase:meta, the open regions and their folders, and reports contradictions.
    /// HBase's default is 3600000 ms; here a check is one read of hbase:meta and one listing. 0: only when a client
    /// asks.
    HBCK_CHORE_INTERVAL: Millis = "hbase.master.hbck.chore.interval", "300000";
    /// Whether tables can have snapshots. If false, the master refuses the calls about snapshots.
    SNAPSHOT_ENABLED: Flag = "hbase.snapshot.enabled", "true";
    /// Time to live of a snapshot that is taken without one, in seconds. 0: the snapshot stays until a client deletes
    /// it.
    SNAPSHOT_TTL: Number = "hbase.master.snapshot.ttl", "0";
    /// How often the master deletes snapshots whose time to live is over, and what is left of taking snapshots, the first time
    /// after one period. 0: never.
    SNAPSHOT_CLEANER_INTERVAL: Millis = "hbase.master.cleaner.snapshot.interval", "1800000";
    /// Whether the master takes a snapshot of a table before it deletes or truncates the table, truncates a region of it or
    /// deletes a family. The snapshot is named `auto_TABLE_TIME`. If it cannot be taken, the change is refused.
    RECOVERY_SNAPSHOTS: Flag = "hbase.snapshot.before.destructive.action.enabled", "false";
    /// Time to live of these snapshots, in seconds. 0: they stay until a client deletes them. The attribute
    /// RECOVERY_SNAPSHOT_TTL of a table overrides it.
    RECOVERY_SNAPSHOT_TTL: Number = "hbase.snapshot.before.destructive.action.ttl", "86400";
    /// How long the result of a procedure is kept for clients that ask for it.
    PROCEDURE_RESULT_TTL: Millis = "hbase.procedure.cleaner.evict.ttl", "900000";
    /// How long the result of a procedure is kept after a client has read it.
    PROCEDURE_READ_RESULT_TTL: Millis = "hbase.procedure.cleaner.acked.evict.ttl", "300000";
    /// How long a file of the write-ahead log is kept after nobody needs it any more. HBase's default is 600000 ms;
    /// here it is 0, because the log reuses the space of such files.
    LOG_CLEANER_TTL: Millis = "hbase.master.logcleaner.ttl", "0";
    /// How long a store file is kept after nobody needs it any more, where other processes can read it, as in an object
    /// store. It must be longer than the delay of read replicas behind their primary. A folder on a disk has one
    /// process, which deletes such files soon.
    HFILE_CLEANER_TTL: Millis = "hbase.master.hfilecleaner.ttl", "300000";
    /// How often the server searches its folders and the archive for store files that nobody holds, and deletes them.
    /// 0: never. If the key is not set, a server with its files in an object store or HDFS searches once a day, because
    /// each search lists many folders.
    CLEANER_INTERVAL: Millis = "hbase.master.cleaner.interval", "600000";
}
