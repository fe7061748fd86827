//! Decides when a store is due for a major compaction that nobody requested: when its oldest file is older than the
//! period.
//!
//! A single file that a major compaction wrote is left alone, unless a cell in it may have expired. With the
//! date-tiered policy, one such file in each window is left alone.

use super::{CompactionPolicy, FileFacts, SelectionRequest, date_tiered, major_period};
use crate::RegionOptions;

/// Whether the period of major compactions is over for these files.
pub(super) fn is_due(
    files: &[FileFacts],
    policy: CompactionPolicy,
    options: &RegionOptions,
    request: &SelectionRequest,
) -> bool {
    let oldest = files.iter().filter_map(|file| file.written_at).min();
    let (Some(oldest), Some(period)) = (oldest, major_period(options, request.jitter)) else { return false };
    if request.now.saturating_sub(oldest) < period {
        return false;
    }
    let has_expired = |file: &FileFacts| match (request.ttl, file.oldest()) {
        (Some(ttl), Some(oldest)) => request.now.saturating_sub(oldest) >= ttl,
        _ => false,
    };
    let is_done = |file: &FileFacts| file.is_major && !file.is_bulk_loaded && !has_expired(file);
    match files {
        [only] if policy != CompactionPolicy::DateTiered => !only.is_major || has_expired(only),
        _ if policy != CompactionPolicy::DateTiered => true,
        _ => {
            !files.iter().all(is_done)
                || !date_tiered::is_one_file_per_window(files, &options.date_tiered, request.now)
        }
    }
}
