//! HBase's exploring policy (`ExploringCompactionPolicy`): it considers every run of neighbours.
//!
//! A run is *in ratio* if no file of it is larger than its other files together, times a ratio. A run below a minimum
//! size counts as in ratio. A run above a maximum size is not considered. Of these runs the one with the most files
//! wins, and among equals the one with the fewest bytes. If the store has so many files that flushes wait, the run that
//! removes the most files for its bytes wins; if no run is in ratio then, the smallest run wins.

use std::ops::Range;

use super::{FileFacts, Measure};

/// While flushes may be delayed, a later run is chosen only if it is better by this factor.
const BETTER_BY: f64 = 1.05;

/// Returns the best run of `files`; empty if no run qualifies.
pub(super) fn run(files: &[FileFacts], measure: Measure) -> Range<usize> {
    let mut best: Option<(Range<usize>, u64)> = None;
    let mut smallest: Option<(Range<usize>, u64)> = None;
    for start in 0..files.len() {
        for end in start + measure.files_min..=files.len().min(start.saturating_add(measure.files_max)) {
            let candidate = &files[start..end];
            let bytes = candidate.iter().map(|file| file.size).sum();
            if measure.may_be_stuck && smallest.as_ref().is_none_or(|(_, least)| bytes < *least) {
                smallest = Some((start..end, bytes));
            }
            if bytes > measure.size_max
                || (bytes >= measure.size_min && !is_in_ratio(candidate, bytes, measure.ratio))
            {
                continue;
            }
            let is_better = best
                .as_ref()
                .is_none_or(|known| is_better(candidate.len(), bytes, known, measure.may_be_stuck));
            if is_better {
                best = Some((start..end, bytes));
            }
        }
    }
    best.or(smallest).map_or(0..0, |(run, _)| run)
}

fn is_in_ratio(files: &[FileFacts], bytes: u64, ratio: f64) -> bool {
    files.iter().all(|file| file.size as f64 <= (bytes - file.size) as f64 * ratio)
}

fn is_better(files: usize, bytes: u64, (best, best_bytes): &(Range<usize>, u64), may_be_stuck: bool) -> bool {
    if may_be_stuck && *best_bytes > 0 && bytes > 0 {
        let quality = |files: usize, bytes: u64| files as f64 / bytes as f64;
        return quality(best.len(), *best_bytes) * BETTER_BY < quality(files, bytes);
    }
    files > best.len() || (files == best.len() && bytes < *best_bytes)
}
