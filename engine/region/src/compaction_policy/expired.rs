//! Finds files that are deleted as a whole because every cell in them has expired
//! (`hbase.store.delete.expired.storefile`).
//!
//! The newest file of a store always stays, because it records up to which sequence id the store's writes are in files.
//! In a store with stripes, the newest file of each stripe and of level 0 stays, because a stripe is known by its
//! files.

use super::{CompactionPolicy, FileFacts};
use crate::RegionOptions;
use crate::matcher::ScanInfo;
use crate::stripes::Stripes;

/// Returns the indices of the files whose newest timestamp has expired at `now`, in ms; none if the family has no time
/// to live, keeps a minimum of versions, or has NEW_VERSION_BEHAVIOR, and none if neither `delete_expired_files` nor
/// the FIFO policy is set.
pub(crate) fn expired_files(
    files: &[FileFacts],
    stripes: Option<&Stripes>,
    options: &RegionOptions,
    scan_info: &ScanInfo,
    now: i64,
) -> Vec<usize> {
    let is_asked = options.delete_expired_files || options.compaction_policy == CompactionPolicy::Fifo;
    // With NEW_VERSION_BEHAVIOR an expired marker still hides cells of other files, so no file is deleted.
    let keeps_none = scan_info.min_versions == 0 && !scan_info.new_versions;
    let Some(ttl) = scan_info.ttl.filter(|_| is_asked && keeps_none) else {
        return Vec::new();
    };
    let is_expired = |file: &FileFacts| file.newest().is_some_and(|newest| newest < now.saturating_sub(ttl));
    let mut older: Vec<usize> = match stripes {
        None => (0..files.len().saturating_sub(1)).collect(),
        Some(stripes) => {
            stripes.groups().flat_map(|group| &group[..group.len().saturating_sub(1)]).copied().collect()
        }
    };
    older.retain(|index| is_expired(&files[*index]));
    older
}
