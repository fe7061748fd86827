//! Settings of the master.

use std::time::Duration;

use conf::Conf;
use conf::keys::master as key;
use proto::descriptor::sanity;
use proto::descriptor::tracker::TrackerKind;

use crate::normalizer::plans::{NormalizerSettings, days};
use crate::{Error, procedure};

/// The settings of a master.
#[derive(Debug, Clone)]
pub struct Options {
    /// `hbase.regionserver.executor.openregion.threads`: number of regions that are opened or closed at the same time.
    /// Default 3.
    pub open_threads: usize,
    /// The limits against which schemas are checked. `hbase.table.sanity.checks` switches most checks off.
    pub sanity: sanity::Limits,
    /// `hbase.store.file-tracker.impl`: the store file tracker of tables that name none. Default FILE.
    pub tracker: TrackerKind,
    /// Limits of procedures. `hbase.procedure.cleaner.evict.ttl`: how long an outcome is kept.
    pub procedures: procedure::Options,
    /// `hbase.catalogjanitor.interval`: time between two collections of unneeded parents of splits and merges; zero for
    /// never. Default 5 minutes.
    pub parents_period: Duration,
    /// `hbase.master.hbck.chore.interval`: time between two checks of the catalog; zero for never. Default 5 minutes.
    pub check_period: Duration,
    /// Settings of the normalizer.
    pub normalizer: NormalizerSettings,
    /// `hbase.snapshot.enabled`: whether snapshots can be taken. Default true.
    pub snapshots_enabled: bool,
    /// `hbase.master.snapshot.ttl`: default time to live of a snapshot, in seconds; 0 for ever. Default 0.
    pub snapshot_ttl: i64,
    /// `hbase.master.cleaner.snapshot.interval`: time between two deletions of expired snapshots; zero for never.
    /// Default 30 minutes.
    pub snapshot_cleaner_period: Duration,
    /// `hbase.snapshot.before.destructive.action.enabled`: whether a snapshot is taken before rows are destroyed. Default false.
    pub recovery_snapshots: bool,
    /// `hbase.snapshot.before.destructive.action.ttl`: time to live of these snapshots, in seconds; 0 for ever. Default a day.
    pub recovery_snapshot_ttl: i64,
    /// `hbase.mob.compaction.chore.period`: time between two requests of major compactions of MOB families; zero for
    /// never. Default a week.
    pub mob_compaction_period: Duration,
    /// `hbase.meta.versions`: number of versions that a new hbase:meta keeps. Default 3.
    pub meta_versions: u32,
    /// `hbase.meta.blocksize`: block size of a new hbase:meta, in bytes. Default 8192.
    pub meta_block_bytes: u64,
    /// `hbase.master.info.port`: the port of the web page that clients are told; -1 for none. Default 16010.
    pub info_port: i32,
    /// The release of HBase that is reported to clients.
    pub hbase_version: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            open_threads: 3,
            sanity: sanity::Limits::default(),
            tracker: TrackerKind::File,
            procedures: procedure::Options::default(),
            parents_period: Duration::from_secs(300),
            check_period: Duration::from_secs(300),
            normalizer: NormalizerSettings::default(),
            snapshots_enabled: true,
            snapshot_ttl: 0,
            snapshot_cleaner_period: Duration::from_secs(1800),
            recovery_snapshots: false,
            recovery_snapshot_ttl: 24 * 3600,
            mob_compaction_period: Duration::from_secs(7 * 24 * 3600),
            meta_versions: 3,
            meta_block_bytes: 8192,
            info_port: 16010,
            hbase_version: "2.6.4".into(),
        }
    }
}

impl Options {
    /// Reads the settings from the configuration.
    pub fn from_conf(conf: &Conf) -> conf::Result<Options> {
        let defaults = Options::default();
        let outcome_kept: Duration = conf.value(&key::PROCEDURE_RESULT_TTL)?;
        let read_outcome_kept: Duration = conf.value(&key::PROCEDURE_READ_RESULT_TTL)?;
        let open_threads = conf.value(&conf::keys::regionserver::OPEN_REGION_THREADS)?;
        Ok(Options {
            open_threads: usize::try_from(open_threads).unwrap_or(usize::MAX),
            sanity: sanity::Limits {
                enabled: conf.value(&key::TABLE_SANITY_CHECKS)?,
                blocking_files: conf.value(&conf::keys::store::BLOCKING_STORE_FILES)?,
                ..defaults.sanity
            },
            tracker: TrackerKind::parse(&conf.value(&conf::keys::store::FILE_TRACKER)?)
                .unwrap_or(defaults.tracker),
            procedures: procedure::Options { outcome_kept, read_outcome_kept, ..defaults.procedures },
            parents_period: conf.value(&key::CATALOG_JANITOR_INTERVAL)?,
            check_period: conf.value(&key::HBCK_CHORE_INTERVAL)?,
            normalizer: normalizer(conf)?,
            snapshots_enabled: conf.value(&key::SNAPSHOT_ENABLED)?,
            snapshot_ttl: conf.value(&key::SNAPSHOT_TTL)?,
            snapshot_cleaner_period: conf.value(&key::SNAPSHOT_CLEANER_INTERVAL)?,
            recovery_snapshots: conf.value(&key::RECOVERY_SNAPSHOTS)?,
            recovery_snapshot_ttl: conf.value(&key::RECOVERY_SNAPSHOT_TTL)?,
            mob_compaction_period: conf.value(&conf::keys::store::MOB_COMPACTION_CHORE_PERIOD)?,
            meta_versions: conf.value(&key::META_VERSIONS)?.try_into().unwrap_or(u32::MAX),
            meta_block_bytes: conf.value(&key::META_BLOCK_SIZE)?,
            info_port: conf.value(&key::INFO_PORT)?.try_into().unwrap_or(-1),
            ..defaults
        })
    }

    /// Checks that the settings can work. The error names the key that does not.
    pub fn check(&self) -> Result<(), Error> {
        for (key, value) in [
            ("hbase.regionserver.executor.openregion.threads", self.open_threads),
            ("hbase.master.procedure.threads", self.procedures.threads_max),
            ("hbase.meta.versions", self.meta_versions as usize),
        ] {
            if value == 0 {
                return Err(Error::Option { key, value });
            }
        }
        Ok(())
    }
}

/// Reads the settings of the normalizer.
fn normalizer(conf: &Conf) -> conf::Result<NormalizerSettings> {
    use conf::keys::normalizer as key;
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(NormalizerSettings {
        period: conf.value(&key::PERIOD)?,
        enabled_by_default: conf.value(&key::ENABLED_BY_DEFAULT)?,
        splits: conf.value(&key::SPLIT_ENABLED)?,
        merges: conf.value(&key::MERGE_ENABLED)?,
        merge_count_min: count(conf.value(&key::MERGE_MIN_REGION_COUNT)?).max(1),
        merge_age_min: days(conf.value(&key::MERGE_MIN_REGION_AGE)?),
        merge_megabytes_min: conf.value(&key::MERGE_MIN_REGION_SIZE)?,
        merge_regions_max: count(conf.value(&key::MERGE_MAX_REGIONS)?),
        plans_megabytes_max: conf.value(&key::PLANS_SIZE_LIMIT)?,
        bytes_per_second: conf.value(&key::THROUGHPUT)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_configurations_and_what_is_said_counts() {
        let (ours, theirs) =
            (Options::default(), Options::from_conf(&Conf::new()).expect("defaults are good"));
        assert_eq!(ours.meta_versions, theirs.meta_versions);
        assert_eq!(ours.parents_period, theirs.parents_period);
        assert_eq!(ours.check_period, theirs.check_period);
        assert_eq!(
            (ours.snapshots_enabled, ours.snapshot_ttl),
            (theirs.snapshots_enabled, theirs.snapshot_ttl)
        );
        assert_eq!(ours.snapshot_cleaner_period, theirs.snapshot_cleaner_period);
        assert_eq!(
            (ours.recovery_snapshots, ours.recovery_snapshot_ttl),
            (theirs.recovery_snapshots, theirs.recovery_snapshot_ttl)
        );
        assert_eq!(ours.mob_compaction_period, theirs.mob_compaction_period);
        assert_eq!((ours.meta_block_bytes, ours.info_port), (theirs.meta_block_bytes, theirs.info_port));
        assert_eq!(ours.procedures.outcome_kept, theirs.procedures.outcome_kept);
        assert_eq!(ours.procedures.read_outcome_kept, theirs.procedures.read_outcome_kept);
        assert_eq!(ours.sanity, theirs.sanity);
        assert_eq!(ours.normalizer, theirs.normalizer);
        let conf = Conf::new().with(&key::TABLE_SANITY_CHECKS, "false").with(&key::META_VERSIONS, "0");
        let options = Options::from_conf(&conf).expect("good values");
        assert!(!options.sanity.enabled);
        assert_eq!(options.check().unwrap_err().to_string(), "hbase.meta.versions is 0, expected at least 1");
    }
}
