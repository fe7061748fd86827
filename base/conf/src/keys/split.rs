//! Splits of regions.

keys! {
    /// When a region is split: SteppingSplitPolicy, IncreasingToUpperBoundRegionSplitPolicy, ConstantSizeRegionSplitPolicy,
    /// KeyPrefixRegionSplitPolicy, DelimitedKeyPrefixRegionSplitPolicy or DisabledRegionSplitPolicy, with HBase's package or
    /// without. SPLIT_POLICY of a table overrides it.
    POLICY: SplitPolicyName = "hbase.regionserver.region.split.policy", "org.apache.hadoop.hbase.regionserver.SteppingSplitPolicy";
    /// Size of a store's files at which its region is split. MAX_FILESIZE of a table overrides it.
    MAX_FILE_SIZE: Size = "hbase.hregion.max.filesize", "10737418240";
    /// Share of that size by which the sizes of regions differ, half of it up and half of it down, so that regions that grow
    /// alike are not split together.
    MAX_FILE_SIZE_JITTER: Ratio = "hbase.hregion.max.filesize.jitter", "0.25";
    /// Whether the size is that of all stores of a region together.
    ALL_STORES: Flag = "hbase.hregion.split.overallfiles", "false";
    /// Size at which the only region of a table on a server is split. If unset, twice the flush size.
    INITIAL_SIZE: Size = "hbase.increasing.policy.initial.size", "268435456";
    /// Number of regions on a server above which it asks for no split.
    REGIONS_MAX: Count = "hbase.regionserver.regionSplitLimit", "1000";
}
