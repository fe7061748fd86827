//! Presets: groups of settings that a command line fixes, so that a search for a planted bug spends no seeds on other
//! settings.

use std::time::Duration;

use region::{CompactionPolicy, Level};

use crate::disk::Profile;
use crate::random::Random;
use crate::server::Settings;
use crate::target::Target;

/// A group of settings that would otherwise follow from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// All files and the log are on a local disk.
    Disk,
    /// All files and the log are on HDFS.
    Hdfs,
    /// All files are in an object store. The seed decides where the log is.
    Store,
    /// All files and the log are in an object store.
    LogInStore,
    /// The janitor, and the master's collection of unneeded parents, run each second. Where unlisted files have a grace,
    /// it is as long.
    Janitor,
    /// Flushes by size retain as many rows in memory as they can, in families that keep one version and name no level
    /// of in-memory compaction. The workload `counters` takes turns.
    RetainedRows,
    /// No compactions, except of memstores.
    NoCompactions,
    /// No flushes while the server runs, and no workload asks for one. So the log has each write until an orderly stop.
    NoFlushes,
    /// Log files are small, so that the log often begins another one and deletes old ones. None is kept for its nonces.
    ShortLogs,
}

/// Period of the chores with [`Preset::Janitor`].
const CHORE_PERIOD: Duration = Duration::from_secs(1);
/// Maximum size of a log file with [`Preset::ShortLogs`], in bytes.
const LOG_FILE_BYTES_MAX: u64 = 8 << 10;
/// Maximum flush size with [`Preset::RetainedRows`], in bytes: a run reaches it often.
const FLUSH_SIZE_MAX: u64 = 16 << 10;
/// Flush size, and maximum size of a log file, with [`Preset::NoFlushes`], in bytes: more than a run writes.
const NEVER_REACHED: u64 = 32 << 20;

/// Number of log files above which regions are flushed, with [`Preset::NoFlushes`] and [`Preset::RetainedRows`]: more
/// than a run has.
const LOG_FILES: usize = 1_000;

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 9] = [
        Preset::Disk,
        Preset::Hdfs,
        Preset::Store,
        Preset::LogInStore,
        Preset::Janitor,
        Preset::RetainedRows,
        Preset::NoCompactions,
        Preset::NoFlushes,
        Preset::ShortLogs,
    ];

    /// Returns the preset with this name; `None` when there is none.
    pub fn of_name(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| format!("{preset:?}") == name)
    }

    /// Whether a run with this preset can have what a kind of fault needs to have an effect.
    pub(crate) fn allows(self, target: Target) -> bool {
        match self {
            Preset::Disk => matches!(target, Target::Server | Target::Disk),
            Preset::Hdfs => matches!(target, Target::Server | Target::Disk | Target::Shared),
            Preset::LogInStore => target != Target::Disk,
            _ => true,
        }
    }

    pub(crate) fn apply(self, settings: &mut Settings, random: &mut Random) {
        match self {
            Preset::Disk => settings.put_on_disk(Profile::Local),
            Preset::Hdfs => settings.put_on_disk(Profile::Hdfs),
            Preset::Store => settings.provide(Target::Store, random),
            Preset::LogInStore => settings.provide(Target::LogInStore, random),
            Preset::Janitor => {
                settings.server.unnamed_files_period = CHORE_PERIOD;
                settings.server.unnamed_files_grace = CHORE_PERIOD;
                settings.parents_period = CHORE_PERIOD;
            }
            Preset::RetainedRows => {
                let region = &mut settings.region;
                region.in_memory_compaction = Level::Adaptive;
                region.flush_size = region.flush_size.min(FLUSH_SIZE_MAX);
                region.flush_keeps = 1.0;
                region.flush_keeps_gain_min = 0.0;
                region.compaction_policy = CompactionPolicy::default();
                // The number of log files never causes a flush, because such a flush retains nothing.
                (settings.log.files_min, settings.log.files_max) = (LOG_FILES, LOG_FILES);
            }
            Preset::NoCompactions => {
                settings.server.compaction_enabled = false;
                // Without compactions a store gets many files. No flush may be delayed because of that.
                settings.region.blocking_files = usize::MAX;
            }
            Preset::NoFlushes => {
                settings.region.flush_size = NEVER_REACHED;
                settings.server.memstore_bytes_max = 2 * NEVER_REACHED;
                settings.log.file_bytes_max = NEVER_REACHED;
                // Each start begins another log file. Their number must not cause a flush.
                (settings.log.files_min, settings.log.files_max) = (LOG_FILES, LOG_FILES);
                settings.server.flush_period = Duration::ZERO;
                settings.server.log_roll_period = Duration::ZERO;
                settings.server.split.policy = "ConstantSizeRegionSplitPolicy".to_owned();
                settings.server.split.file_bytes_max = NEVER_REACHED;
            }
            Preset::ShortLogs => {
                settings.log.file_bytes_max = settings.log.file_bytes_max.min(LOG_FILE_BYTES_MAX);
                settings.log.keep_nonces = Duration::ZERO;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_fixes_its_settings_for_each_seed() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let drawn = Settings::draw(&mut random);
            let with = |presets: &[Preset]| {
                let (mut settings, mut random) = (drawn.clone(), Random::new(seed));
                presets.iter().for_each(|preset| preset.apply(&mut settings, &mut random));
                settings
            };
            let disk = with(&[Preset::Disk]);
            assert!(!disk.uses_store && !disk.log_in_store && disk.profile == Profile::Local);
            let hdfs = with(&[Preset::Hdfs]);
            assert!(!hdfs.uses_store && !hdfs.log_in_store && hdfs.profile == Profile::Hdfs);
            assert!(with(&[Preset::Store]).uses_store);
            let store = with(&[Preset::LogInStore]);
            assert!(store.uses_store && store.log_in_store);
            let both = with(&[Preset::Janitor, Preset::NoCompactions, Preset::NoFlushes]);
            assert_eq!(both.server.unnamed_files_period, CHORE_PERIOD);
            assert!(!both.server.compaction_enabled && both.region.flush_size == NEVER_REACHED);
            let retained = with(&[Preset::RetainedRows, Preset::ShortLogs]);
            assert!(retained.region.flush_keeps > 0.0 && retained.log.file_bytes_max <= LOG_FILE_BYTES_MAX);
        }
    }

    #[test]
    fn each_preset_has_a_name() {
        for preset in Preset::ALL {
            assert_eq!(Preset::of_name(&format!("{preset:?}")), Some(preset));
        }
        assert_eq!(Preset::of_name("disk"), None);
    }
}
