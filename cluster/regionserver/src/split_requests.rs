//! Asks the master to split regions that have grown too large.
//!
//! The server checks a region after each of its flushes and compactions. The policy decides by the sizes of the
//! region's stores ([`crate::split_policy`]). A region is not split while it refers to files of its parent, or while it
//! has so many files that it needs a compaction first.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::MasterRequests;
use env::sync::Mutex;
use env::{HashMap, Moment};
use proto::{EncodedName, TableName};
use region::Region;

use crate::RegionServer;
use crate::split_policy::SplitPolicy;

/// Time after a request in which the same region is not requested again.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// The master, and the splits that were recently requested from it.
#[derive(Default)]
pub(crate) struct SplitRequests {
    master: Mutex<Option<Arc<dyn MasterRequests>>>,
    asked: Mutex<HashMap<EncodedName, Moment>>,
}

impl SplitRequests {
    /// Forgets a region that is no longer on this server.
    pub(crate) fn forget(&self, region: &EncodedName) {
        self.asked.lock().remove(region);
    }
}

impl RegionServer {
    /// Sets the master from which splits are requested. Without a master no split is requested.
    pub fn set_master(&self, master: Arc<dyn MasterRequests>) {
        *self.split_requests.master.lock() = Some(master);
    }

    /// Returns the row at which to split a region; `None` if the region has too little data, or if its policy keeps all
    /// rows together. A middle row can only be found in files, so a region without files is flushed first, as in HBase.
    /// Blocks on storage.
    pub fn find_split_row(&self, region: &Arc<Region>) -> Result<Option<Bytes>, region::Error> {
        if region.load().files == 0 && region.memstore_bytes() > 0 {
            self.flush(region, region::FlushReason::Requested)?;
        }
        let policy = self.split_policy(region);
        Ok(region.best_split_row()?.and_then(|row| policy.split_row(&row, region.info())))
    }

    pub(crate) fn split_policy(&self, region: &Region) -> SplitPolicy {
        SplitPolicy::of_region(&self.options().split, &region.table(), region.info(), region.flush_size())
    }

    /// Asks the master to split a region, if that is open and too large by its table's split policy. Does nothing for
    /// hbase:meta and hbase:namespace, for a region with references or too many files, for a region that was requested
    /// within [`REPEAT_AFTER`], if the server has too many regions, or if there is no row to split at. Blocks on
    /// storage.
    pub(crate) fn consider_split(&self, region: &Arc<Region>) {
        let Some(master) = self.split_requests.master.lock().clone() else { return };
        let info = region.info();
        let has_one_region = info.is_meta() || *info.table() == TableName::namespaces();
        if has_one_region || region.has_references() || region.has_too_many_files() {
            return;
        }
        let (of_table, all) = (self.regions().of_table(info.table()).len(), self.regions().count());
        let sizes = region.load().stores.into_iter().map(|store| store.file_bytes);
        if !self.split_policy(region).is_too_large(sizes, of_table as u64) || !self.regions().is_open(region)
        {
            return;
        }
        let now = self.foundation().world.moment();
        {
            let mut asked = self.split_requests.asked.lock();
            if asked.get(info.encoded_name()).is_some_and(|before| now.since(*before) < REPEAT_AFTER) {
                return;
            }
            asked.insert(info.encoded_name().clone(), now);
        }
        if all as u64 >= self.options().split.regions_max {
            tracing::warn!(region = %info, regions = all,
                "the region is too large and is not split: this server has too many regions (hbase.regionserver.regionSplitLimit)");
            return;
        }
        match self.find_split_row(region) {
            Ok(Some(row)) => master.split(info, row),
            Ok(None) => {
                tracing::debug!(region = %info, "the region is too large and has no row to split it at");
            }
            Err(error) => {
                tracing::warn!(region = %info, %error, "the region is too large, and its middle cannot be read")
            }
        }
    }
}
