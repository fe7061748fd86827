//! Selects the files of a store that its next compaction takes.
//!
//! The functions are pure: they take facts about files and numbers, and return a [`Selection`]. The facts are ordered
//! from the oldest file to the newest, and a selection is a run of neighbours. So the new file can take the place of
//! the old ones, and no version overtakes another. A store with [stripes](stripe) may leave out files between the
//! selected ones: they have other rows, or the sequence ids of the cells say which is newer.
//!
//! 1. Files above the maximum size that are older than all others are left alone, unless a major compaction is asked
//!    for or they are references.
//! 2. The selection is a major compaction if a client asks for one, or if one is [due](major) and the store has few
//!    files.
//! 3. Otherwise, if a file is a reference, all files are taken, because a reference keeps a file of a parent region
//!    from being deleted. Otherwise the policy chooses a run.
//! 4. Of a run with too many files only the oldest ones are taken, unless a client asks for a major compaction.
//!
//! Policies, names and defaults are HBase's (`SortedCompactionPolicy` and the classes below it).

mod date_tiered;
mod expired;
mod exploring;
mod major;
mod ratio;
pub(crate) mod stripe;
mod windows;

use std::ops::Range;
use std::time::Duration;

use hfile::TimeSpan;

use crate::RegionOptions;
use crate::stripes::StripeRange;

pub use stripe::StripeOptions;

pub(crate) use expired::expired_files;

/// How the files of a minor compaction are chosen (`hbase.hstore.defaultengine.compactionpolicy.class`,
/// `hbase.hstore.engine.class`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionPolicy {
    /// Takes the run of files with the best ratio; see `exploring`.
    #[default]
    Exploring,
    /// Takes all files from the first one in ratio on; see `ratio`.
    RatioBased,
    /// Compacts nothing, except while the store has references: files are deleted when all of their cells have expired.
    Fifo,
    /// Takes the files of one window of time; see `date_tiered`.
    DateTiered,
    /// Takes the files of one range of rows; see `stripe`.
    Stripe,
}

impl CompactionPolicy {
    /// Returns the policy of a class of HBase, with or without its package; `None` for another class.
    pub fn of_class(name: &str) -> Option<CompactionPolicy> {
        Some(match class(name) {
            "ExploringCompactionPolicy" => CompactionPolicy::Exploring,
            "RatioBasedCompactionPolicy" => CompactionPolicy::RatioBased,
            "FIFOCompactionPolicy" => CompactionPolicy::Fifo,
            "DateTieredCompactionPolicy" => CompactionPolicy::DateTiered,
            _ => return None,
        })
    }

    /// Returns the policy that follows from the class of HBase's store engine; `None` for another class. `Some(None)`
    /// stands for the engine that leaves the choice to the policy's own key.
    pub fn of_engine(name: &str) -> Option<Option<CompactionPolicy>> {
        match class(name) {
            // Amazon EMR's engine compacts like the default one; it only keeps the names of files elsewhere.
            "DefaultStoreEngine" | "PersistedStoreEngine" => Some(None),
            "DateTieredStoreEngine" => Some(Some(CompactionPolicy::DateTiered)),
            "StripeStoreEngine" => Some(Some(CompactionPolicy::Stripe)),
            _ => None,
        }
    }
}

fn class(name: &str) -> &str {
    const PACKAGES: [&str; 2] =
        ["org.apache.hadoop.hbase.regionserver.compactions.", "org.apache.hadoop.hbase.regionserver."];
    PACKAGES.iter().find_map(|package| name.strip_prefix(package)).unwrap_or(name)
}

/// The settings of the date-tiered policy (`hbase.hstore.compaction.date.tiered.*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateTieredOptions {
    /// Age in ms above which windows are left to major compactions (`…max.storefile.age.millis`).
    pub age_max_ms: i64,
    /// Number of files at which the window of the present is compacted (`…incoming.window.min`).
    pub incoming_files_min: usize,
    /// Length of the newest windows, in ms (`…base.window.millis`).
    pub base_window_ms: i64,
    /// Number of windows of one length, after which older windows are longer by this factor (`…windows.per.tier`).
    pub windows_per_tier: i64,
    /// Age in ms above which windows do not get longer (`…max.tier.age.millis`); `None` for `age_max_ms`.
    pub tier_age_max_ms: Option<i64>,
    /// Whether a minor compaction always writes one file (`…single.output.for.minor.compaction`).
    pub single_output: bool,
    /// The policy within a window: exploring or ratio based (`…window.policy.class`).
    pub window_policy: CompactionPolicy,
}

impl Default for DateTieredOptions {
    fn default() -> DateTieredOptions {
        DateTieredOptions {
            age_max_ms: i64::MAX,
            incoming_files_min: 6,
            base_window_ms: 6 * 3_600_000,
            windows_per_tier: 4,
            tier_age_max_ms: None,
            single_output: true,
            window_policy: CompactionPolicy::Exploring,
        }
    }
}

/// The facts about a file on which a selection depends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileFacts {
    /// Size of the file in bytes.
    pub(crate) size: u64,
    /// Number of cells in the file.
    pub(crate) entries: u64,
    /// When the file was written, in ms since 1970; `None` if unknown.
    pub(crate) written_at: Option<i64>,
    /// The oldest and the newest timestamp in the file; `None` if unknown.
    pub(crate) span: Option<TimeSpan>,
    /// Whether the file is a reference: half of another region's file.
    pub(crate) is_reference: bool,
    /// Whether a compaction of all files wrote the file.
    pub(crate) is_major: bool,
    /// Whether a bulk load brought the file.
    pub(crate) is_bulk_loaded: bool,
}

impl FileFacts {
    fn oldest(&self) -> Option<i64> {
        self.span.map(|span| span.oldest.0)
    }

    fn newest(&self) -> Option<i64> {
        self.span.map(|span| span.newest.0)
    }
}

/// The facts about a request for a compaction: its origin, its kind and its time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SelectionRequest {
    /// The time of the request, in ms since 1970.
    pub(crate) now: i64,
    /// Whether a client requests the compaction.
    pub(crate) is_user: bool,
    /// Whether all files of the store should become one.
    pub(crate) major: bool,
    /// Whether the settings for off-peak hours apply.
    pub(crate) off_peak: bool,
    /// The region's flush size, in bytes.
    pub(crate) flush_size: u64,
    /// Age in ms at which all cells of the family expire; `None` if they do not expire, or if the family keeps a
    /// minimum number of versions.
    pub(crate) ttl: Option<i64>,
    /// A number from 0 to 1 that varies the period of major compactions from store to store.
    pub(crate) jitter: f64,
}

/// How a flush or compaction spreads cells over new files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutputLayout {
    /// One file.
    #[default]
    One,
    /// A file for each window of time: the timestamps at which they begin, in ms and ascending. Older cells are in the
    /// first file.
    Windows(Vec<i64>),
    /// A file for each of these stripes, which cover all rows in their order.
    Stripes(Vec<StripeRange>),
    /// New stripes in the place of one.
    Split {
        /// The rows that the new stripes divide.
        range: StripeRange,
        /// The largest number of stripes.
        count_max: usize,
        /// Number of cells read after which the next stripe begins, with the next row.
        cells: u64,
    },
}

/// The files that a compaction reads, and how it writes its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The indices of the selected files, ascending.
    pub(crate) files: Vec<usize>,
    /// Whether the compaction is a major one.
    pub(crate) major: bool,
    /// How the new files are written.
    pub(crate) output: OutputLayout,
    /// The rows of which all files take part, in a store with stripes; `None` for none.
    pub(crate) purges: Option<StripeRange>,
}

impl Selection {
    /// Whether there is nothing to compact.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// The limits by which a run of files is judged.
#[derive(Clone, Copy, Debug)]
struct Measure {
    files_min: usize,
    files_max: usize,
    /// Size in bytes below which a run qualifies at any ratio.
    size_min: u64,
    size_max: u64,
    ratio: f64,
    /// Whether the store may have so many files that flushes are delayed. Then a compaction should remove as many as
    /// possible.
    may_be_stuck: bool,
}

impl Measure {
    fn of(options: &RegionOptions, request: &SelectionRequest, may_be_stuck: bool) -> Measure {
        let size_max = match options.compaction_size_max_off_peak {
            Some(size) if request.off_peak => size,
            _ => options.compaction_size_max,
        };
        Measure {
            files_min: options.compaction_files_min.max(2),
            files_max: options.compaction_files_max.max(2),
            size_min: options.compaction_size_min.unwrap_or(request.flush_size),
            size_max,
            ratio: if request.off_peak {
                options.compaction_ratio_off_peak
            } else {
                options.compaction_ratio
            },
            may_be_stuck,
        }
    }
}

/// Returns the run of `files`, oldest first, that the next compaction of a store without stripes takes; empty if there
/// is nothing to do.
pub(crate) fn select(files: &[FileFacts], options: &RegionOptions, request: &SelectionRequest) -> Selection {
    let has_references = files.iter().any(|file| file.is_reference);
    let policy = match options.compaction_policy {
        CompactionPolicy::Fifo if has_references => CompactionPolicy::Exploring,
        CompactionPolicy::Fifo => return Selection::default(),
        policy => policy,
    };
    let measure = Measure::of(options, request, files.len() >= options.blocking_files);
    let first = if request.major { 0 } else { large_files(files, measure.size_max) };
    let candidates = &files[first..];
    let is_forced = request.major && first == 0;
    let tries_major = (is_forced && request.is_user)
        || ((is_forced || major::is_due(candidates, policy, options, request))
            && candidates.len() < measure.files_max);
    let takes_all = tries_major || candidates.iter().any(|file| file.is_reference);
    let (mut run, windows) = match (policy, takes_all) {
        (CompactionPolicy::DateTiered, true) => (
            0..candidates.len(),
            date_tiered::boundaries_of_major(candidates, &options.date_tiered, request.now),
        ),
        (CompactionPolicy::DateTiered, false) => {
            date_tiered::select(candidates, &options.date_tiered, measure, request.now)
        }
        (_, true) => (0..candidates.len(), Vec::new()),
        (_, false) => {
            let run = run_by(policy, candidates, measure);
            (if run.len() < measure.files_min { 0..0 } else { run }, Vec::new())
        }
    };
    if run.len() > measure.files_max && !(tries_major && request.is_user) {
        run.end = run.start + measure.files_max;
    }
    if run.is_empty() {
        return Selection::default();
    }
    let major = tries_major && run.len() == files.len();
    let output = if windows.is_empty() { OutputLayout::One } else { OutputLayout::Windows(windows) };
    Selection { files: (run.start + first..run.end + first).collect(), major, output, purges: None }
}

/// Returns the run that the exploring or the ratio-based policy takes.
fn run_by(policy: CompactionPolicy, files: &[FileFacts], measure: Measure) -> Range<usize> {
    match policy {
        CompactionPolicy::RatioBased => ratio::run(files, measure),
        _ => exploring::run(files, measure),
    }
}

/// Returns the number of oldest files that are larger than `size_max` and are not references.
fn large_files(files: &[FileFacts], size_max: u64) -> usize {
    files.iter().take_while(|file| !file.is_reference && file.size > size_max).count()
}

/// Returns the number of bytes above which a compaction is a large one, with threads of its own
/// (`hbase.regionserver.thread.compaction.throttle`).
pub(crate) fn throttle_point(options: &RegionOptions, flush_size: u64) -> u64 {
    let files = 2 * options.compaction_files_max as u64;
    options.compaction_throttle.unwrap_or_else(|| flush_size.saturating_mul(files))
}

/// Returns the period of major compactions of a store, in ms, varied by `jitter`; `None` if there are none.
fn major_period(options: &RegionOptions, jitter: f64) -> Option<i64> {
    let ms = |period: Duration| period.as_millis() as f64;
    let period = ms(options.major_period);
    let spread = (period * options.major_jitter).round();
    (period > 0.0).then_some((period - spread + 2.0 * spread * jitter) as i64)
}

#[cfg(test)]
mod tests;
