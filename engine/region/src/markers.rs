//! Markers in the log about a region: opens, closes, flushes, compactions.
//!
//! Markers are for followers of the log, such as read replicas. Recovery does not use them, because the lists of store
//! files are authoritative. So nobody waits for a marker, except a bulk load, whose rows a follower has from nowhere else. If the
//! log refuses one, no error is reported here; if the log still fails, the next write or flush reports it.

use std::sync::Arc;

use cell::SequenceId;
use wal::{Kind, Marker, StoreChange, Ticket};

use crate::options::Access;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::StoreFile;

impl Region {
    /// Appends a marker to the log, and returns its ticket; `None` if the log refuses it. A region opened for reading appends
    /// none.
    pub(crate) fn mark(&self, kind: Kind, sequence: SequenceId, stores: Vec<StoreChange>) -> Option<Ticket> {
        if self.access == Access::Reader {
            return None;
        }
        let (region, table) = (self.info.encoded_name().as_str().as_bytes(), self.info.table().as_bytes());
        self.log.mark(region, table, sequence, &Marker { kind, stores }).ok()
    }

    /// Returns all stores, with all their files as additions.
    pub(crate) fn all_files(&self) -> Vec<StoreChange> {
        let all = |store: &Store| {
            let tracker = store.tracker.lock();
            let files = &store.view.load().files;
            StoreChange { list: tracker.state(files), ..change(store, files, &[]) }
        };
        self.stores.iter().map(all).collect()
    }
}

/// Returns the change of a store's files in the form of a marker, without the state of the list, which the caller adds.
pub(crate) fn change(store: &Store, added: &[Arc<StoreFile>], removed: &[Arc<StoreFile>]) -> StoreChange {
    let names =
        |files: &[Arc<StoreFile>]| files.iter().map(|file| file.listed.name.as_str().into()).collect();
    StoreChange { family: store.family[..].into(), added: names(added), removed: names(removed), list: None }
}
