//! Closed regions whose memory could not be flushed, because the disk was full.
//!
//! An operator makes room by disabling and dropping tables, and there is no room for the flush that a disabling needs. So the
//! server takes such a region out of service and keeps its memory. The log keeps the records, too: a process that starts later
//! replays them when it opens the region, or forgets them when the table is dropped. Within this process the region must be
//! flushed before anything else is done with its folder, because an opening replays only what earlier processes have logged.
//!
//! The chore flushes these regions once there is room.

use std::sync::Arc;

use env::HashMap;
use env::sync::Mutex;
use proto::EncodedName;
use region::Region;
use storage::ReserveState;

use crate::RegionServer;

/// The regions by name. Locked while one of them is flushed, so that a region that is dropped gets no file afterwards.
#[derive(Debug, Default)]
pub(super) struct UnflushedRegions(Mutex<HashMap<EncodedName, Arc<Region>>>);

impl RegionServer {
    /// Takes a region out of service, and keeps its memory. Returns `false` if the region does not serve.
    pub(crate) fn keep_unflushed(&self, region: &Arc<Region>, cause: &region::Error) -> bool {
        if !region.close_unflushed() {
            return false;
        }
        let info = region.info();
        tracing::warn!(region = %info, table = %info.table(), bytes = region.memstore_bytes(), %cause,
            "region closed without a flush, because the disk is full: its last writes stay in memory and in the log, and are \
             flushed when there is room, unless the table is dropped before");
        env::sometimes("server: a region was closed without a flush on a full disk");
        self.background.unflushed.0.lock().insert(info.encoded_name().clone(), Arc::clone(region));
        true
    }

    /// Discards what is kept of a region that no longer exists.
    pub(crate) fn forget_unflushed(&self, region: &EncodedName) {
        if let Some(region) = self.background.unflushed.0.lock().remove(region) {
            self.background.disregard(&region);
        }
    }

    /// Flushes a closed region whose memory is kept. Does nothing for any other region.
    pub(crate) fn settle_unflushed(&self, region: &EncodedName) -> Result<(), region::Error> {
        let mut unflushed = self.background.unflushed.0.lock();
        let Some(region) = unflushed.get(region).cloned() else { return Ok(()) };
        let flushed = region.close();
        self.background.account(&region);
        let flushed = flushed?;
        unflushed.remove(region.info().encoded_name());
        tracing::info!(region = %region.info(), table = %region.info().table(), files = flushed.files,
            bytes = flushed.bytes, "flushed a region that was closed on the full disk");
        Ok(())
    }

    /// Flushes the closed regions for which `is_chosen`. Tries all of them, and then returns the first error.
    pub(crate) fn settle_unflushed_if(
        &self,
        is_chosen: impl Fn(&Region) -> bool,
    ) -> Result<(), region::Error> {
        let mut chosen: Vec<EncodedName> = {
            let unflushed = self.background.unflushed.0.lock();
            let chosen = unflushed.iter().filter(|(_, region)| is_chosen(region));
            chosen.map(|(name, _)| name.clone()).collect()
        };
        // The order must not depend on that of the map.
        chosen.sort();
        let mut outcome = Ok(());
        for name in &chosen {
            outcome = outcome.and(self.settle_unflushed(name));
        }
        outcome
    }

    /// Flushes all closed regions whose memory is kept.
    pub(crate) fn settle_all_unflushed(&self) -> Result<(), region::Error> {
        self.settle_unflushed_if(|_| true)
    }

    /// Keeps the reserve of the data's storage again as soon as there is room, and flushes the closed regions.
    ///
    /// While the reserve is spent, regions with little in memory are flushed, so that the log needs fewer files. Otherwise the
    /// table with the last rows would keep the space of all files that were written since.
    pub(crate) fn use_new_room(&self) {
        let files = &self.foundation().files;
        let mut reserve = files.reserve_state();
        if reserve != ReserveState::Kept {
            match files.keep_reserve() {
                Ok(state) => reserve = state,
                Err(error) if reserve == ReserveState::Spent => {
                    tracing::warn!(%error, "the reserve of the disk cannot be kept again");
                }
                // The start has logged why there is none.
                Err(_) => {}
            }
        }
        let unflushed: u64 =
            self.background.unflushed.0.lock().values().map(|region| region.memstore_bytes()).sum();
        let is_short = reserve == ReserveState::Spent || self.foundation().log.admits().is_err();
        if !is_short && unflushed == 0 {
            return;
        }
        let mut room = files.bytes_free().unwrap_or(if is_short { 0 } else { u64::MAX });
        if is_short {
            let mut regions = self.regions().all();
            regions.retain(|region| region.memstore_bytes() > 0);
            regions.sort_by_key(|region| region.memstore_bytes());
            for region in regions {
                // A file is hardly larger than the memory from which it is written.
                let Some(left) = room.checked_sub(region.memstore_bytes()) else { break };
                room = left;
                self.background.request_flush(&region);
            }
        }
        if unflushed <= room
            && let Err(error) = self.settle_all_unflushed()
        {
            tracing::warn!(%error, "regions that were closed on the full disk cannot be flushed yet; it is tried again");
        }
    }
}
