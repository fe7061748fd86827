//! The master.

keys! {
    /// The port of the master's services. In one process with a region server all services answer on both ports.
    PORT: Port = "hbase.master.port", "16000";
    /// The port of the master's web pages; HBase writes -1 for none.
    INFO_PORT: Number = "hbase.master.info.port", "16010";
    /// The name under which clients reach the master. Empty: the machine's own.
    HOSTNAME: Text = "hbase.master.hostname", "";
    /// How many versions of each cell hbase:meta keeps.
    META_VERSIONS: Count = "hbase.meta.versions", "3";
    /// The block size of hbase:meta.
    META_BLOCK_SIZE: Size = "hbase.meta.blocksize", "8192";
    /// Whether descriptors are checked for sense when a table is made or changed.
    TABLE_SANITY_CHECKS: Flag = "hbase.table.sanity.checks", "true";
    /// How long the result of a procedure is kept for a client that comes back for it.
    PROCEDURE_RESULT_TTL: Millis = "hbase.procedure.cleaner.evict.ttl", "900000";
    /// How old a log that nobody needs becomes before it is deleted.
    LOG_CLEANER_TTL: Millis = "hbase.master.logcleaner.ttl", "600000";
    /// How often store files are looked for, and deleted, that no list of files names; 0 looks when a region is opened.
    HFILE_CLEANER_TTL: Millis = "hbase.master.hfilecleaner.ttl", "300000";
}
