//! The normalizer.

keys! {
    /// How often the master looks for regions to split or merge in the tables that are normalized. 0: only when a
    /// client asks.
    PERIOD: Millis = "hbase.normalizer.period", "300000";
    /// Whether the master normalizes tables that do not set NORMALIZATION_ENABLED.
    ENABLED_BY_DEFAULT: Flag = "hbase.table.normalization.enabled", "false";
    /// Whether the normalizer splits regions that are larger than twice the average of their table, or than twice its
    /// target size. A table's attribute of this name overrides it.
    SPLIT_ENABLED: Flag = "hbase.normalizer.split.enabled", "true";
    /// Whether the normalizer merges neighbouring regions that together are not larger than the average of their table,
    /// or than its target size. A table's attribute of this name overrides it.
    MERGE_ENABLED: Flag = "hbase.normalizer.merge.enabled", "true";
    /// Minimum number of regions that a table has before the normalizer merges any. A table's attribute of this name
    /// overrides it.
    MERGE_MIN_REGION_COUNT: Count = "hbase.normalizer.merge.min.region.count", "3";
    /// Minimum age of a region that the normalizer merges, in days. A table's attribute of this name overrides it.
    MERGE_MIN_REGION_AGE: Count = "hbase.normalizer.merge.min_region_age.days", "3";
    /// Minimum size of a region that the normalizer merges, in MB; 0 merges empty regions, too. A table's attribute of
    /// this name overrides it.
    MERGE_MIN_REGION_SIZE: Count = "hbase.normalizer.merge.min_region_size.mb", "1";
    /// Maximum number of regions that the normalizer merges into one.
    MERGE_MAX_REGIONS: Count = "hbase.normalizer.merge.merge_request_max_number_of_regions", "100";
    /// Maximum total size of the regions of a table that one run of the normalizer changes, in MB. The default, the
    /// largest number, is no limit.
    PLANS_SIZE_LIMIT: Count = "hbase.normalizer.plans_size_limit.mb", "9223372036854775807";
    /// Maximum total size of the regions that the normalizer splits and merges in a second. 0: no limit.
    THROUGHPUT: Size = "hbase.normalizer.throughput.max_bytes_per_sec", "0";
}
