//! HBase's older policy (`RatioBasedCompactionPolicy`): it takes the oldest file that is in ratio, and all newer files.
//!
//! A file is in ratio if it is not larger than the newer files together, times a ratio. Only as many newer files count
//! as one compaction can take. A file that is not larger than the minimum size is in ratio.

use std::ops::Range;

use super::{FileFacts, Measure};

/// Returns all files from the first one that is in ratio on. There may be fewer of them than a compaction needs, unless
/// flushes may be delayed: then the newest files are returned, as many as a compaction needs.
pub(super) fn run(files: &[FileFacts], measure: Measure) -> Range<usize> {
    let count = files.len();
    let newer = |start: usize| -> u64 {
        let end = count.min(start.saturating_add(measure.files_max - 1));
        files[start + 1..end.max(start + 1)].iter().map(|file| file.size).sum()
    };
    let is_in_ratio = |start: usize| {
        files[start].size <= measure.size_min.max((newer(start) as f64 * measure.ratio) as u64)
    };
    let mut start = 0;
    while count - start >= measure.files_min && !is_in_ratio(start) {
        start += 1;
    }
    // There are too few files for a compaction, but so many in the store that flushes are delayed. So the newest files
    // are taken although none is in ratio.
    if count - start < measure.files_min && measure.may_be_stuck {
        start = count.saturating_sub(measure.files_min);
    }
    start..count
}
