//! Decides which regions of a table are too large or too small compared with the others, by the rules of HBase's
//! `SimpleRegionNormalizer`.
//!
//! All sizes are whole megabytes, as regions report them: at least 1 for any data, 0 for none. The *measure* is the
//! size that regions should have. It is the table's target size or, without one, the table's size divided by its target
//! number of regions or, without that, by the present number.
//!
//! 1. A region larger than twice the measure is split.
//! 2. Neighbours that together are not larger than the measure are merged, if each of them is old and large enough.
//!
//! Everything here is a function of numbers. [`super`] asks for the sizes and submits the plans.

use std::time::Duration;

use proto::{RegionInfo, TableDescriptor};

/// Settings of the normalizer; a table's attributes of the same name override most of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NormalizerSettings {
    /// `hbase.normalizer.period`: time between two runs over all tables; zero for never. Default 5 minutes.
    pub period: Duration,
    /// `hbase.table.normalization.enabled`: whether tables without NORMALIZATION_ENABLED are normalized. Default false.
    pub enabled_by_default: bool,
    /// `hbase.normalizer.split.enabled`: whether large regions are split. Default true.
    pub splits: bool,
    /// `hbase.normalizer.merge.enabled`: whether small regions are merged. Default true.
    pub merges: bool,
    /// `hbase.normalizer.merge.min.region.count`: tables with fewer regions are not merged. Default 3.
    pub merge_count_min: usize,
    /// `hbase.normalizer.merge.min_region_age.days`: minimum age of a region that is merged. Default 3 days.
    pub merge_age_min: Duration,
    /// `hbase.normalizer.merge.min_region_size.mb`: minimum size of a region that is merged, in MB. Default 1.
    pub merge_megabytes_min: u64,
    /// `hbase.normalizer.merge.merge_request_max_number_of_regions`: maximum number of regions in one merge. Default
    /// 100.
    pub merge_regions_max: usize,
    /// `hbase.normalizer.plans_size_limit.mb`: maximum total size of the regions that one run over a table changes, in
    /// MB. Default: no limit.
    pub plans_megabytes_max: u64,
    /// `hbase.normalizer.throughput.max_bytes_per_sec`: maximum size of the regions that are changed in a second, in
    /// bytes; zero for no limit. Default 0.
    pub bytes_per_second: u64,
}

impl Default for NormalizerSettings {
    fn default() -> Self {
        NormalizerSettings {
            period: Duration::from_secs(300),
            enabled_by_default: false,
            splits: true,
            merges: true,
            merge_count_min: 3,
            merge_age_min: days(3),
            merge_megabytes_min: 1,
            merge_regions_max: 100,
            plans_megabytes_max: i64::MAX as u64,
            bytes_per_second: 0,
        }
    }
}

/// Returns a duration of whole days.
pub(crate) const fn days(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(86_400))
}

/// A region with its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SizedRegion {
    pub(crate) info: RegionInfo,
    /// The size of the region's store files, in MB.
    pub(crate) megabytes: u64,
    /// Whether the region is open. Other regions are counted, but not changed.
    pub(crate) is_open: bool,
}

/// A split or a merge that brings the sizes of regions nearer to the measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    Split(SizedRegion),
    /// The merge of two or more neighbours.
    Merge(Vec<SizedRegion>),
}

impl Plan {
    /// Returns the size of all regions that the plan changes, in MB.
    pub(crate) fn megabytes(&self) -> u64 {
        match self {
            Plan::Split(region) => region.megabytes,
            Plan::Merge(regions) => regions.iter().map(|region| region.megabytes).sum(),
        }
    }
}

/// The normalizer's settings for one table: its attributes, or else the site's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableRules {
    settings: NormalizerSettings,
    /// NORMALIZER_TARGET_REGION_SIZE_MB: the size that regions should have, in MB.
    target_megabytes: Option<u64>,
    /// NORMALIZER_TARGET_REGION_COUNT: the number of regions that the table should have.
    target_count: Option<u64>,
}

impl TableRules {
    /// Returns the rules for a table; `None` if it is not normalized. A value that is not a number counts as absent.
    pub(crate) fn of(table: &TableDescriptor, settings: &NormalizerSettings) -> Option<TableRules> {
        let text = |key: &str| table.attributes().text(key);
        let flag = |key: &str, default: bool| {
            // Like Java's `Boolean.parseBoolean`, takes every word except "true" as false.
            text(key).map_or(default, |word| word.eq_ignore_ascii_case("true"))
        };
        let number = |key: &str| text(key)?.parse::<u64>().ok();
        let positive = |key: &str| number(key).filter(|number| *number > 0);
        if table.name().is_system() || !flag("NORMALIZATION_ENABLED", settings.enabled_by_default) {
            return None;
        }
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let merge_count_min = positive("hbase.normalizer.merge.min.region.count")
            .or_else(|| positive("hbase.normalizer.min.region.count"));
        Some(TableRules {
            settings: NormalizerSettings {
                splits: flag("hbase.normalizer.split.enabled", settings.splits),
                merges: flag("hbase.normalizer.merge.enabled", settings.merges),
                merge_count_min: merge_count_min.map_or(settings.merge_count_min, count),
                merge_age_min: number("hbase.normalizer.merge.min_region_age.days")
                    .map_or(settings.merge_age_min, days),
                merge_megabytes_min: number("hbase.normalizer.merge.min_region_size.mb")
                    .unwrap_or(settings.merge_megabytes_min),
                ..settings.clone()
            },
            target_megabytes: positive("NORMALIZER_TARGET_REGION_SIZE_MB")
                .or_else(|| positive("NORMALIZER_TARGET_REGION_SIZE")),
            target_count: positive("NORMALIZER_TARGET_REGION_COUNT"),
        })
    }

    /// Forbids splits or merges if the cluster's switch for them is off.
    pub(crate) fn restrict(&mut self, splits: bool, merges: bool) {
        self.settings.splits &= splits;
        self.settings.merges &= merges;
    }

    /// Returns the plans for a table whose serving regions are `regions`, in the order of their start keys. `now` is in
    /// ms since 1970. Splits come first. Plans beyond the limit of sizes are left for a later run.
    pub(crate) fn plan(&self, regions: &[SizedRegion], now: u64) -> Vec<Plan> {
        if regions.is_empty() {
            return Vec::new();
        }
        let measure = self.measure(regions);
        let mut plans = Vec::new();
        if self.settings.splits {
            let large =
                regions.iter().filter(|region| region.is_open && region.megabytes as f64 > 2.0 * measure);
            plans.extend(large.cloned().map(Plan::Split));
        }
        if self.settings.merges {
            plans.extend(self.merges(regions, measure as u64, now));
        }
        let mut total = 0_u64;
        plans.retain(|plan| {
            total = total.saturating_add(plan.megabytes());
            total <= self.settings.plans_megabytes_max
        });
        plans
    }

    /// Returns the measure: the size that regions should have, in MB.
    fn measure(&self, regions: &[SizedRegion]) -> f64 {
        if let Some(target) = self.target_megabytes {
            return target as f64;
        }
        let total: u64 = regions.iter().map(|region| region.megabytes).sum();
        total as f64 / self.target_count.map_or(regions.len() as f64, |count| count as f64)
    }

    /// Returns the merges: runs of neighbours that together have at most `measure` MB. A run may have more if all but
    /// one of its regions are empty. Regions that are not open, too young or too small take no part.
    fn merges(&self, regions: &[SizedRegion], measure: u64, now: u64) -> Vec<Plan> {
        let settings = &self.settings;
        if regions.len() < settings.merge_count_min || measure < settings.merge_megabytes_min {
            return Vec::new();
        }
        let age_ms = u64::try_from(settings.merge_age_min.as_millis()).unwrap_or(u64::MAX);
        let may_merge = |region: &SizedRegion| {
            let is_old = now > region.info.id().0.saturating_add(age_ms);
            region.is_open && is_old && region.megabytes >= settings.merge_megabytes_min
        };
        let mut plans = Vec::new();
        let (mut run, mut total): (Vec<SizedRegion>, u64) = (Vec::new(), 0);
        let mut end = |run: &mut Vec<SizedRegion>| {
            let run = std::mem::take(run);
            if run.len() > 1 {
                plans.push(Plan::Merge(run));
            }
        };
        for region in regions {
            if !may_merge(region) {
                end(&mut run);
                continue;
            }
            let begins = run.is_empty() || (run.len() == 1 && total == 0);
            let has_room = run.len() < settings.merge_regions_max
                && (region.megabytes == 0 || total.saturating_add(region.megabytes) <= measure);
            if !begins && !has_room {
                end(&mut run);
            }
            if run.is_empty() {
                total = 0;
            }
            total = total.saturating_add(region.megabytes);
            run.push(region.clone());
        }
        end(&mut run);
        plans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proto::{RegionId, TableName};

    const DAY_MS: u64 = 86_400_000;
    const NOW: u64 = 100 * DAY_MS;

    fn table(attributes: &[(&'static str, &'static str)]) -> TableDescriptor {
        let name: TableName = "t".parse().expect("a lawful name");
        let mut table = TableDescriptor::new(name);
        table.attributes_mut().set("NORMALIZATION_ENABLED".into(), "true".into());
        for (key, value) in attributes {
            table.attributes_mut().set((*key).into(), (*value).into());
        }
        table
    }

    /// Returns regions of these sizes in MB, 10 days old, with the start keys "", "001", "002" and so on.
    fn regions(sizes: &[u64]) -> Vec<SizedRegion> {
        let key = |at: usize| {
            if at.is_multiple_of(sizes.len()) { Bytes::new() } else { Bytes::from(format!("{at:03}")) }
        };
        let region = |(at, megabytes): (usize, &u64)| SizedRegion {
            info: RegionInfo::new(
                "t".parse().expect("a lawful name"),
                key(at),
                key(at + 1),
                RegionId(90 * DAY_MS),
            )
            .expect("a lawful region"),
            megabytes: *megabytes,
            is_open: true,
        };
        sizes.iter().enumerate().map(region).collect()
    }

    /// Returns the plans as text: `split 3` or `merge 1+2`, by the numbers of the regions.
    fn words(attributes: &[(&'static str, &'static str)], regions: &[SizedRegion]) -> String {
        let rules =
            TableRules::of(&table(attributes), &NormalizerSettings::default()).expect("it is normalized");
        let number = |region: &SizedRegion| {
            let at = regions.iter().position(|known| known.info == region.info);
            at.expect("a region of the table").to_string()
        };
        let word = |plan: Plan| match plan {
            Plan::Split(region) => format!("split {}", number(&region)),
            Plan::Merge(run) => format!("merge {}", run.iter().map(number).collect::<Vec<_>>().join("+")),
        };
        rules.plan(regions, NOW).into_iter().map(word).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_region_beyond_twice_the_average_is_split_and_small_neighbours_are_merged() {
        assert_eq!(words(&[], &regions(&[10, 10, 10, 10])), "");
        assert_eq!(words(&[], &regions(&[10, 10, 10, 90])), "split 3, merge 0+1+2");
        // The average is 20 MB: a region of exactly twice the average is not split.
        assert_eq!(words(&[], &regions(&[40, 15, 15, 10])), "");
        assert_eq!(words(&[], &regions(&[41, 15, 14, 10])), "split 0");
        // The regions of 15 and 5 MB together are as large as the average.
        assert_eq!(words(&[], &regions(&[25, 15, 5, 35])), "merge 1+2");
    }

    #[test]
    fn a_target_size_or_count_is_the_measure() {
        let sizes = regions(&[10, 10, 10, 10]);
        assert_eq!(words(&[("NORMALIZER_TARGET_REGION_SIZE_MB", "20")], &sizes), "merge 0+1, merge 2+3");
        assert_eq!(
            words(&[("NORMALIZER_TARGET_REGION_SIZE", "4")], &sizes),
            "split 0, split 1, split 2, split 3"
        );
        assert_eq!(words(&[("NORMALIZER_TARGET_REGION_COUNT", "2")], &sizes), "merge 0+1, merge 2+3");
        // For HBase, -1 means that there is no target.
        assert_eq!(words(&[("NORMALIZER_TARGET_REGION_COUNT", "-1")], &sizes), "");
    }

    #[test]
    fn young_empty_and_closed_regions_and_those_of_small_tables_are_not_merged() {
        let sized = |sizes: &[u64]| regions(sizes);
        let target = ("NORMALIZER_TARGET_REGION_SIZE_MB", "20");
        assert_eq!(words(&[target], &sized(&[10, 10])), "", "a table of two regions");
        assert_eq!(
            words(&[target, ("hbase.normalizer.merge.min.region.count", "2")], &sized(&[10, 10])),
            "merge 0+1"
        );
        assert_eq!(
            words(&[target, ("hbase.normalizer.min.region.count", "2")], &sized(&[10, 10])),
            "merge 0+1"
        );
        assert_eq!(words(&[target], &sized(&[10, 0, 10, 10])), "merge 2+3", "an empty region");
        assert_eq!(
            words(&[target, ("hbase.normalizer.merge.min_region_size.mb", "0")], &sized(&[10, 0, 10, 10])),
            "merge 0+1+2"
        );
        let mut some = sized(&[10, 10, 10, 10]);
        some[1].is_open = false;
        assert_eq!(words(&[target], &some), "merge 2+3", "a closed region");
        assert_eq!(words(&[target, ("hbase.normalizer.merge.min_region_age.days", "11")], &some), "");
        assert_eq!(words(&[("NORMALIZER_TARGET_REGION_SIZE_MB", "4")], &some), "split 0, split 2, split 3");
    }

    #[test]
    fn an_empty_region_joins_a_run_of_any_size_and_a_run_has_a_longest_length() {
        let zero = ("hbase.normalizer.merge.min_region_size.mb", "0");
        assert_eq!(words(&[zero], &regions(&[0, 30, 0, 30])), "merge 0+1+2");
        let many = vec![0; 203];
        let rules = TableRules::of(&table(&[zero]), &NormalizerSettings::default()).expect("normalized");
        let lengths: Vec<usize> = rules
            .plan(&regions(&many), NOW)
            .iter()
            .map(|plan| match plan {
                Plan::Merge(run) => run.len(),
                Plan::Split(_) => 0,
            })
            .collect();
        assert_eq!(lengths, [100, 100, 3]);
    }

    #[test]
    fn switches_and_the_limit_of_sizes_leave_plans_out() {
        let sizes = regions(&[10, 10, 10, 90]);
        assert_eq!(words(&[("hbase.normalizer.split.enabled", "false")], &sizes), "merge 0+1+2");
        assert_eq!(words(&[("hbase.normalizer.merge.enabled", "false")], &sizes), "split 3");
        let limited = NormalizerSettings { plans_megabytes_max: 100, ..NormalizerSettings::default() };
        let mut rules = TableRules::of(&table(&[]), &limited).expect("normalized");
        assert_eq!(rules.plan(&sizes, NOW).len(), 1, "90 MB fit, 30 more do not");
        rules.restrict(false, true);
        assert!(matches!(rules.plan(&sizes, NOW)[..], [Plan::Merge(_)]));
        rules.restrict(true, false);
        assert_eq!(rules.plan(&sizes, NOW), [], "what was forbidden stays so");
    }

    #[test]
    fn a_table_that_does_not_ask_for_it_is_not_normalized() {
        let settings = NormalizerSettings::default();
        assert!(TableRules::of(&table(&[("NORMALIZATION_ENABLED", "false")]), &settings).is_none());
        let silent = TableDescriptor::new("t".parse().expect("a lawful name"));
        assert!(TableRules::of(&silent, &settings).is_none());
        let by_default = NormalizerSettings { enabled_by_default: true, ..settings };
        assert!(TableRules::of(&silent, &by_default).is_some());
        assert!(TableRules::of(&TableDescriptor::new(TableName::namespaces()), &by_default).is_none());
    }
}
