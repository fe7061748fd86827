//! Splits of regions.

keys! {
    /// When a region is split: SteppingSplitPolicy, IncreasingToUpperBoundRegionSplitPolicy,
    /// ConstantSizeRegionSplitPolicy, KeyPrefixRegionSplitPolicy, DelimitedKeyPrefixRegionSplitPolicy or
    /// DisabledRegionSplitPolicy, with or without HBase's package. A table's SPLIT_POLICY overrides it.
    POLICY: SplitPolicyName = "hbase.regionserver.region.split.policy", "org.apache.hadoop.hbase.regionserver.SteppingSplitPolicy";
    /// Size of a store's files above which its region is split; some policies split at smaller sizes while a table has
    /// few regions. A table's MAX_FILESIZE overrides it.
    MAX_FILE_SIZE: Size = "hbase.hregion.max.filesize", "10737418240";
    /// Range, as a fraction of `hbase.hregion.max.filesize`, in which the split sizes of regions vary: half of it up
    /// and half of it down. So regions that grow alike are not split at the same time.
    MAX_FILE_SIZE_JITTER: Ratio = "hbase.hregion.max.filesize.jitter", "0.25";
    /// Whether the split size is compared with the files of all stores of a region together.
    ALL_STORES: Flag = "hbase.hregion.split.overallfiles", "false";
    /// Size above which the only region of a table on a server is split, unless the policy is
    /// ConstantSizeRegionSplitPolicy or DisabledRegionSplitPolicy. If unset, twice the flush size.
    INITIAL_SIZE: Size = "hbase.increasing.policy.initial.size", "268435456";
    /// Which rows a split keeps in one region, also one at a row that a client gives: None, KeyPrefix (rows that begin with the
    /// same bytes) or DelimitedKeyPrefix (rows that are equal up to a delimiter). A table's attribute of this name overrides it.
    RESTRICTION: SplitRestrictionKind = "hbase.regionserver.region.split_restriction.type", "None";
    /// Number of bytes at the beginning of a row, for KeyPrefix; 0 means no restriction. A table's attribute of this name
    /// overrides it.
    RESTRICTION_PREFIX: Count = "hbase.regionserver.region.split_restriction.prefix_length", "0";
    /// The delimiter, for DelimitedKeyPrefix; empty means no restriction. A table's attribute of this name overrides it.
    RESTRICTION_DELIMITER: Text = "hbase.regionserver.region.split_restriction.delimiter", "";
    /// Number of regions on a server above which it requests no splits.
    REGIONS_MAX: Count = "hbase.regionserver.regionSplitLimit", "1000";
}
