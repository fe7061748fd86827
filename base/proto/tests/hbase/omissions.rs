//! The parts of HBase's schemas that we leave out, with the reasons.

/// Fields that a later HBase has and the compared release lacks: type and field. A decoder of that release skips them.
pub(crate) const LATER: &[(&str, &str)] = &[
    // HBase 3 also writes the content of reference files into the list of store files.
    ("hbase.pb.StoreFileEntry", "reference"),
];

/// Fields that only we have, under numbers that HBase does not use. HBase's readers skip them.
pub(crate) const OURS: &[(&str, &str)] = &[
    // The writer of a store's file list, so that only one of two servers changes it.
    ("hbase.pb.StoreFileList", "owner"),
    ("hbase.pb.StoreFileList", "opening"),
    ("hbase.pb.StoreFileList", "commit"),
    ("hbase.pb.StoreFileList", "epoch"),
];

/// Types that HBase 2.6 lacks: first those of a later HBase, then our own, whose names no HBase uses.
pub(crate) const TYPES_BESIDE: &[&str] = &[
    // The calls of `refresh_meta` and `refresh_hfiles` in HBase 3's shell.
    "hbase.pb.RefreshMetaRequest",
    "hbase.pb.RefreshMetaResponse",
    "hbase.pb.RefreshHFilesRequest",
    "hbase.pb.RefreshHFilesResponse",
    // The call of `bellows promote`.
    "hbase.pb.PromoteReplicaRequest",
    "hbase.pb.PromoteReplicaResponse",
];

/// Schema files of HBase that we leave out whole, with the reasons.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("Backup.proto", "the state that the backup tool keeps for itself"),
    ("BucketCacheEntry.proto", "HBase's private snapshot of its bucket cache's index"),
    ("Encryption.proto", "wrapped keys of encrypted families, which are not served"),
    ("MasterProcedure.proto", "the state of HBase's procedures in its own procedure store"),
    ("RegionNormalizer.proto", "HBase's private form of a switch in ZooKeeper"),
    ("RegionServerStatus.proto", "what HBase's region servers and master tell each other"),
];

/// Types of HBase that we leave out together with the types nested in them, with the reasons.
pub(crate) const TYPES: &[(&str, &str)] = &[
    ("hbase.pb.TableSnapshotRegionSplit", "passes between the two halves of a MapReduce job"),
    ("hbase.pb.SequentialProcedureData", "HBase's own procedure store"),
    ("hbase.pb.StateMachineProcedureData", "HBase's own procedure store"),
    ("hbase.pb.ProcedureWALHeader", "HBase's own procedure store, of old"),
    ("hbase.pb.ProcedureWALTrailer", "HBase's own procedure store, of old"),
    ("hbase.pb.ProcedureStoreTracker", "HBase's own procedure store, of old"),
    ("hbase.pb.ProcedureWALEntry", "HBase's own procedure store, of old"),
    ("hbase.pb.ReplicationHLogPosition", "HBase's private form of a queue in ZooKeeper"),
    ("hbase.pb.SnapshotFileInfo", "names of files in exports, which HBase's tool writes itself"),
    ("hbase.pb.SplitLogTask", "HBase's old way of splitting logs, through ZooKeeper"),
    ("hbase.pb.MultiRowMutationProcessorRequest", "empty, and no client sends it"),
    ("hbase.pb.MultiRowMutationProcessorResponse", "empty, and no client reads it"),
];

/// Returns the reason why we leave out the type `name` of HBase's schema `file`; `None` if no reason is listed.
pub(crate) fn reason(name: &str, file: &str) -> Option<&'static str> {
    let by_file = FILES.iter().find(|(pattern, _)| *pattern == file);
    by_file.or_else(|| TYPES.iter().find(|(pattern, _)| is_within(name, pattern))).map(|(_, reason)| *reason)
}

/// Whether `name` is `outer` or nested in it.
pub(crate) fn is_within(name: &str, outer: &str) -> bool {
    name.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
