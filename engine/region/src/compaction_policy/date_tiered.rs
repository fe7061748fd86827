//! HBase's date-tiered policy (`DateTieredCompactionPolicy`): files of one window of time become one.
//!
//! For time series: recent windows are short and old ones long. So a scan of a time range opens few files, and a cell
//! is rewritten about once for each length of windows.
//!
//! 1. The files are taken from the newest to the oldest. The timestamp of a file is the newest timestamp of it and of
//!    all older files, so that the files of one window are neighbours.
//! 2. The first window with enough files is compacted. Within it the configured policy chooses, which is the exploring
//!    one by default. While flushes may be delayed, all files of the window are taken.
//! 3. If the choice includes all files of the window, and minor compactions are not configured to write a single file,
//!    the compaction may write two files: one for cells that are older than the window, and one for the rest. A major
//!    compaction writes one file for each window.

use std::cmp::Ordering;
use std::ops::Range;

use super::windows::Window;
use super::{DateTieredOptions, FileFacts, Measure, run_by};

/// Returns the run of files of a minor compaction, which is empty if no window has enough files. Also returns the
/// timestamps at which the new files begin; none if there is to be one file.
pub(super) fn select(
    files: &[FileFacts],
    options: &DateTieredOptions,
    measure: Measure,
    now: i64,
) -> (Range<usize>, Vec<i64>) {
    let oldest = now.checked_sub(options.age_max_ms).unwrap_or(i64::MIN);
    let mut seen = i64::MIN;
    let newest: Vec<i64> = files
        .iter()
        .map(|file| {
            seen = seen.max(file.newest().unwrap_or(i64::MIN));
            seen
        })
        .collect();
    let mut window = Window::incoming(options, now);
    let mut files_min = options.incoming_files_min;
    // Files from this index on are already in a window.
    let mut end = files.len();
    while end > 0 && window.compare(oldest) != Ordering::Less {
        if window.compare(newest[end - 1]) == Ordering::Greater {
            window = window.earlier();
            files_min = measure.files_min;
            continue;
        }
        // A timestamp in the future counts as now, and so belongs to the newest window.
        let start = newest[..end]
            .iter()
            .rposition(|newest| window.compare(*newest) == Ordering::Greater)
            .map_or(0, |index| index + 1);
        if end - start >= files_min {
            let in_window = &files[start..end];
            let run = match measure.may_be_stuck {
                true => 0..in_window.len(),
                false => {
                    let measure = Measure { files_min, may_be_stuck: false, ..measure };
                    run_by(options.window_policy, in_window, measure)
                }
            };
            if !run.is_empty() {
                let is_one = options.single_output || run.len() < in_window.len();
                let boundaries = if is_one { Vec::new() } else { vec![i64::MIN, window.start()] };
                return (start + run.start..start + run.end, boundaries);
            }
        }
        end = start;
    }
    (0..0, Vec::new())
}

/// Returns the timestamps at which the files of a major compaction begin: `i64::MIN`, then one for each window from the
/// oldest cell to now.
pub(super) fn boundaries_of_major(files: &[FileFacts], options: &DateTieredOptions, now: i64) -> Vec<i64> {
    let oldest = files.iter().filter_map(FileFacts::oldest).min().unwrap_or(i64::MAX);
    let mut boundaries = Vec::new();
    let mut window = Window::incoming(options, now);
    while window.compare(oldest) == Ordering::Greater {
        boundaries.push(window.start());
        window = window.earlier();
    }
    boundaries.push(i64::MIN);
    boundaries.reverse();
    boundaries
}

/// Whether no file spans two windows, and no window has two files.
pub(super) fn is_one_file_per_window(files: &[FileFacts], options: &DateTieredOptions, now: i64) -> bool {
    let boundaries = boundaries_of_major(files, options, now);
    let window = |timestamp: Option<i64>| {
        boundaries.partition_point(|begin| *begin <= timestamp.unwrap_or(i64::MAX)).saturating_sub(1)
    };
    let mut is_taken = vec![false; boundaries.len()];
    files.iter().all(|file| {
        let (first, last) = (window(file.oldest()), window(file.newest()));
        first == last && !std::mem::replace(&mut is_taken[last], true)
    })
}
