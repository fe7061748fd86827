//! When a region is split, and at which row: HBase's split policies.
//!
//! | policy | a store is too large above |
//! |---|---|
//! | Stepping (default) | twice the flush size for the table's only region on the server, else `MAX_FILESIZE` |
//! | IncreasingToUpperBound | twice the flush size × (regions of the table on the server)³, at most `MAX_FILESIZE` |
//! | ConstantSize | `MAX_FILESIZE` |
//! | KeyPrefix, DelimitedKeyPrefix | as for IncreasingToUpperBound; rows with a common prefix stay together |
//! | Disabled | never |
//!
//! Twice the flush size is the default; `hbase.increasing.policy.initial.size` replaces it. `MAX_FILESIZE` differs by a
//! random fraction from region to region (`hbase.hregion.max.filesize.jitter`).
//!
//! The decision is a pure function of sizes. The server checks a region after each flush and compaction, and asks the
//! master for the split. Source: HBase 2.6 `RegionSplitPolicy` and its subclasses.

use bytes::Bytes;
use proto::{RegionInfo, TableDescriptor};

/// The package of HBase's policies.
const PACKAGE: &str = "org.apache.hadoop.hbase.regionserver.";
/// Number of regions above which IncreasingToUpperBound uses `MAX_FILESIZE`.
const REGIONS_CUBED_MAX: u64 = 100;

/// The site's settings for splits, which a table can override.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitOptions {
    /// The class of the policy (`hbase.regionserver.region.split.policy`).
    pub policy: String,
    /// Size of a store's files in bytes above which a region is split (`hbase.hregion.max.filesize`).
    pub file_bytes_max: u64,
    /// Fraction by which `file_bytes_max` differs between regions (`hbase.hregion.max.filesize.jitter`).
    pub jitter: f64,
    /// Whether the sizes of all stores of a region are added up (`hbase.hregion.split.overallfiles`).
    pub all_stores: bool,
    /// The first size, in bytes, of policies whose size grows; twice the flush size if unset
    /// (`hbase.increasing.policy.initial.size`).
    pub initial_bytes: Option<u64>,
    /// Number of regions on the server from which on the server requests no split
    /// (`hbase.regionserver.regionSplitLimit`).
    pub regions_max: u64,
    /// Which rows stay together, with every policy.
    pub restriction: SplitRestriction,
}

/// The site's split restriction; its values are those of a table's attributes of the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitRestriction {
    /// `None`, `KeyPrefix` or `DelimitedKeyPrefix` (`hbase.regionserver.region.split_restriction.type`).
    pub kind: String,
    /// Number of bytes at the beginning of a row, for `KeyPrefix`; 0 for none
    /// (`hbase.regionserver.region.split_restriction.prefix_length`).
    pub prefix_length: u64,
    /// The bytes before which a row is cut, for `DelimitedKeyPrefix`; empty for none
    /// (`hbase.regionserver.region.split_restriction.delimiter`).
    pub delimiter: String,
}

/// How the size limit of a region grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Stepping,
    IncreasingToUpperBound,
    ConstantSize,
    Disabled,
}

/// Which rows stay together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Prefix {
    None,
    /// Rows whose first bytes are equal; the number says how many bytes.
    Length(usize),
    /// Rows that are equal up to the first occurrence of these bytes.
    Delimiter(Bytes),
}

/// The policy of one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitPolicy {
    growth: Growth,
    /// The rows that the policy keeps together.
    prefix: Prefix,
    /// The rows that the split restriction keeps together.
    restriction: Prefix,
    file_bytes_max: u64,
    initial_bytes: u64,
    all_stores: bool,
}

impl SplitPolicy {
    /// Creates the policy of a region with this flush size in bytes.
    pub(crate) fn of_region(
        options: &SplitOptions,
        table: &TableDescriptor,
        region: &RegionInfo,
        flush_bytes: u64,
    ) -> SplitPolicy {
        let said = |key: &str| table.attributes().text(key).filter(|text| !text.is_empty());
        let class = said("SPLIT_POLICY").unwrap_or(&options.policy);
        let growth = match class.strip_prefix(PACKAGE).unwrap_or(class) {
            "IncreasingToUpperBoundRegionSplitPolicy"
            | "KeyPrefixRegionSplitPolicy"
            | "DelimitedKeyPrefixRegionSplitPolicy" => Growth::IncreasingToUpperBound,
            "ConstantSizeRegionSplitPolicy" => Growth::ConstantSize,
            "DisabledRegionSplitPolicy" => Growth::Disabled,
            _ => Growth::Stepping,
        };
        let length = |key: &str| said(key).and_then(|text| text.parse().ok()).filter(|length| *length > 0);
        let delimiter = |key: &str| said(key).map(|text| Bytes::copy_from_slice(text.as_bytes()));
        let of_policy = match class.strip_prefix(PACKAGE).unwrap_or(class) {
            "KeyPrefixRegionSplitPolicy" => length("KeyPrefixRegionSplitPolicy.prefix_length")
                .or_else(|| length("prefix_split_key_policy.prefix_length"))
                .map(Prefix::Length),
            "DelimitedKeyPrefixRegionSplitPolicy" => {
                delimiter("DelimitedKeyPrefixRegionSplitPolicy.delimiter").map(Prefix::Delimiter)
            }
            _ => None,
        };
        let key = |name: &str| format!("hbase.regionserver.region.split_restriction.{name}");
        let site = &options.restriction;
        let of_site = usize::try_from(site.prefix_length).ok().filter(|length| *length > 0);
        let delimiter_of_site = Bytes::copy_from_slice(site.delimiter.as_bytes());
        let restriction = match said(&key("type")).unwrap_or(&site.kind) {
            "KeyPrefix" => length(&key("prefix_length")).or(of_site).map(Prefix::Length),
            "DelimitedKeyPrefix" => delimiter(&key("delimiter"))
                .or_else(|| (!delimiter_of_site.is_empty()).then_some(delimiter_of_site))
                .map(Prefix::Delimiter),
            _ => None,
        };
        let of_table = table.options().ok().and_then(|options| options.max_file_bytes);
        let bytes = of_table.filter(|bytes| *bytes > 0).unwrap_or(options.file_bytes_max);
        SplitPolicy {
            growth,
            prefix: of_policy.unwrap_or(Prefix::None),
            restriction: restriction.unwrap_or(Prefix::None),
            file_bytes_max: with_jitter(bytes, options.jitter, region),
            initial_bytes: options.initial_bytes.unwrap_or(flush_bytes.saturating_mul(2)),
            all_stores: options.all_stores,
        }
    }

    /// Whether a region with stores of these sizes in bytes is too large, on a server with this number of regions of
    /// its table.
    pub(crate) fn is_too_large(&self, stores: impl Iterator<Item = u64>, regions: u64) -> bool {
        let most = match self.growth {
            Growth::Disabled => return false,
            Growth::ConstantSize => self.file_bytes_max,
            Growth::Stepping if regions == 1 => self.initial_bytes,
            Growth::Stepping => self.file_bytes_max,
            Growth::IncreasingToUpperBound if regions == 0 || regions > REGIONS_CUBED_MAX => {
                self.file_bytes_max
            }
            Growth::IncreasingToUpperBound => {
                self.file_bytes_max.min(self.initial_bytes.saturating_mul(regions.pow(3)))
            }
        };
        let size = if self.all_stores { stores.sum() } else { stores.max().unwrap_or(0) };
        size > most
    }

    /// Whether the policy permits any split.
    pub(crate) fn can_split(&self) -> bool {
        self.growth != Growth::Disabled
    }

    /// Returns the row at which to split, instead of a row that a client gave: its prefix, if the table or the site
    /// restricts splits.
    pub(crate) fn restricted(&self, row: &Bytes) -> Bytes {
        self.restriction.of(row)
    }

    /// Returns the row at which to split, instead of the middle `row`: the prefix of `row`, if rows with a common
    /// prefix stay together. `None` if the result is not inside the region.
    pub(crate) fn split_row(&self, row: &Bytes, region: &RegionInfo) -> Option<Bytes> {
        let row = self.prefix.of(&self.restriction.of(row));
        (row > *region.start_key() && region.contains_row(&row)).then_some(row)
    }
}

impl Prefix {
    /// Returns what is equal in all rows that stay together with `row`.
    fn of(&self, row: &Bytes) -> Bytes {
        let end = match self {
            Prefix::None => row.len(),
            Prefix::Length(length) => row.len().min(*length),
            Prefix::Delimiter(delimiter) => {
                row.windows(delimiter.len()).position(|at| at == delimiter).unwrap_or(row.len())
            }
        };
        row.slice(..end)
    }
}

/// Returns `bytes`, changed by up to half of the fraction `jitter`. The result depends only on the region.
fn with_jitter(bytes: u64, jitter: f64, region: &RegionInfo) -> u64 {
    let name = region.encoded_name().as_str();
    let number = u32::from_str_radix(name.get(..8).unwrap_or_default(), 16).unwrap_or(u32::MAX / 2);
    let share = (f64::from(number) / f64::from(u32::MAX) - 0.5) * jitter;
    // Above 2^53 the product is not exact, but no file is that large.
    (bytes as f64 * (1.0 + share)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::RegionId;

    const FLUSH: u64 = 100;

    fn options(policy: &str) -> SplitOptions {
        SplitOptions {
            policy: policy.to_owned(),
            file_bytes_max: 10_000,
            jitter: 0.0,
            all_stores: false,
            initial_bytes: None,
            regions_max: 1000,
            restriction: SplitRestriction::default(),
        }
    }

    fn region(start: &'static str, end: &'static str) -> RegionInfo {
        RegionInfo::new("t".parse().unwrap(), start.into(), end.into(), RegionId(1)).unwrap()
    }

    fn policy(options: &SplitOptions, attributes: &[(&'static str, &'static str)]) -> SplitPolicy {
        let mut table = TableDescriptor::new("t".parse().unwrap());
        for (key, value) in attributes {
            table.attributes_mut().set((*key).into(), (*value).into());
        }
        SplitPolicy::of_region(options, &table, &region("", ""), FLUSH)
    }

    /// Returns the largest size of one store that is not split, with 1, 2, 3 and 101 regions.
    fn limits(policy: &SplitPolicy) -> [u64; 4] {
        [1, 2, 3, 101].map(|regions| {
            let is_too_large = |size: u64| policy.is_too_large([size, 0].into_iter(), regions);
            (0..20_000).find(|size| is_too_large(*size + 1)).unwrap_or(u64::MAX)
        })
    }

    #[test]
    fn each_policy_has_its_sizes() {
        let of_class = |class: &str| limits(&policy(&options(class), &[]));
        let with_package = format!("{PACKAGE}SteppingSplitPolicy");
        assert_eq!(of_class(&with_package), [200, 10_000, 10_000, 10_000]);
        assert_eq!(of_class("IncreasingToUpperBoundRegionSplitPolicy"), [200, 1_600, 5_400, 10_000]);
        assert_eq!(of_class("KeyPrefixRegionSplitPolicy"), [200, 1_600, 5_400, 10_000]);
        assert_eq!(of_class("ConstantSizeRegionSplitPolicy"), [10_000; 4]);
        assert_eq!(of_class("DisabledRegionSplitPolicy"), [u64::MAX; 4]);
    }

    #[test]
    fn a_table_overrides_the_site() {
        let stepping = options("SteppingSplitPolicy");
        let constant = [
            ("SPLIT_POLICY", "org.apache.hadoop.hbase.regionserver.ConstantSizeRegionSplitPolicy"),
            ("MAX_FILESIZE", "700"),
        ];
        assert_eq!(limits(&policy(&stepping, &constant)), [700; 4]);
        let initial = SplitOptions { initial_bytes: Some(50), ..options("SteppingSplitPolicy") };
        assert_eq!(limits(&policy(&initial, &[]))[..2], [50, 10_000]);
        let together = SplitOptions { all_stores: true, ..options("ConstantSizeRegionSplitPolicy") };
        assert!(policy(&together, &[]).is_too_large([6_000, 6_000].into_iter(), 1));
        assert!(!policy(&stepping, &constant[..1]).is_too_large([6_000, 6_000].into_iter(), 1));
    }

    #[test]
    fn rows_with_a_common_prefix_stay_together() {
        let by = |class: &'static str, key: &'static str, value: &'static str| {
            policy(&options(class), &[(key, value)])
        };
        let row = |policy: &SplitPolicy, row: &'static str| policy.split_row(&row.into(), &region("b", "x"));
        let length = by("KeyPrefixRegionSplitPolicy", "KeyPrefixRegionSplitPolicy.prefix_length", "3");
        assert_eq!(row(&length, "mnopq"), Some("mno".into()));
        assert_eq!(row(&length, "m"), Some("m".into()));
        let delimiter =
            by("DelimitedKeyPrefixRegionSplitPolicy", "DelimitedKeyPrefixRegionSplitPolicy.delimiter", "__");
        assert_eq!(row(&delimiter, "user_1__a__b"), Some("user_1".into()));
        assert_eq!(row(&delimiter, "nothing"), Some("nothing".into()));
        // The prefix is not inside the region: it is the start key, or before it. So the region is not split.
        assert_eq!(row(&delimiter, "b__7"), None);
        assert_eq!(
            row(&by("KeyPrefixRegionSplitPolicy", "prefix_split_key_policy.prefix_length", "1"), "bc"),
            None
        );
        let restricted = policy(
            &options("ConstantSizeRegionSplitPolicy"),
            &[
                ("hbase.regionserver.region.split_restriction.type", "KeyPrefix"),
                ("hbase.regionserver.region.split_restriction.prefix_length", "2"),
            ],
        );
        assert_eq!(row(&restricted, "mnopq"), Some("mn".into()));
        assert_eq!(restricted.restricted(&"mnopq".into()), "mn");
        assert_eq!(delimiter.restricted(&"user_1__a".into()), "user_1__a", "a policy is no restriction");
    }

    #[test]
    fn the_site_can_restrict_splits_and_a_table_overrides_it() {
        let restriction = |kind: &str| SplitRestriction {
            kind: kind.to_owned(),
            prefix_length: 3,
            delimiter: "/".to_owned(),
        };
        let restricted = |kind: &str, attributes: &[(&'static str, &'static str)]| {
            let options = SplitOptions { restriction: restriction(kind), ..options("SteppingSplitPolicy") };
            policy(&options, attributes).restricted(&"ab/cdef".into())
        };
        let key = "hbase.regionserver.region.split_restriction.type";
        assert_eq!(restricted("KeyPrefix", &[]), "ab/");
        assert_eq!(restricted("DelimitedKeyPrefix", &[]), "ab");
        assert_eq!(restricted("None", &[]), "ab/cdef");
        assert_eq!(restricted("KeyPrefix", &[(key, "None")]), "ab/cdef");
        assert_eq!(restricted("None", &[(key, "KeyPrefix")]), "ab/");
    }

    #[test]
    fn only_the_disabled_policy_forbids_every_split() {
        assert!(!policy(&options("DisabledRegionSplitPolicy"), &[]).can_split());
        assert!(policy(&options("ConstantSizeRegionSplitPolicy"), &[]).can_split());
    }

    #[test]
    fn jitter_is_bounded_and_the_same_every_time() {
        for start in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let region = region(start, "");
            let bytes = with_jitter(1_000_000, 0.25, &region);
            assert!((875_000..=1_125_000).contains(&bytes), "{bytes}");
            assert_eq!(bytes, with_jitter(1_000_000, 0.25, &region));
        }
        assert!(with_jitter(u64::MAX, 0.25, &region("", "")) > u64::MAX / 2);
    }
}
