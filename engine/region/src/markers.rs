//! What the log is told of a region beside its writes: opens, closes, flushes, compactions.
//!
//! Markers are for those that follow the log, such as a read replica. Recovery does without them, because the lists of
//! store files are the truth. So nobody waits for a marker, and a log that takes none any more fails nothing here: the next
//! write or flush finds that out.

use std::sync::Arc;

use cell::SequenceId;
use wal::{Kind, Marker, StoreChange};

use crate::open::Access;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::StoreFile;

impl Region {
    /// Appends a marker to the log. A region that is open for reading only changes nothing, and tells nothing.
    pub(crate) fn mark(&self, kind: Kind, sequence: SequenceId, stores: Vec<StoreChange>) {
        if self.access == Access::Reader {
            return;
        }
        let (region, table) = (self.info.encoded_name().as_str().as_bytes(), self.table.name().as_bytes());
        let _refused = self.log.mark(region, table, sequence, &Marker { kind, stores });
    }

    /// All stores with all their files, as if they had just come.
    pub(crate) fn all_files(&self) -> Vec<StoreChange> {
        self.stores.iter().map(|store| change(store, &store.view.load().files, &[])).collect()
    }
}

/// Which files of a store come and go.
pub(crate) fn change(store: &Store, added: &[Arc<StoreFile>], removed: &[Arc<StoreFile>]) -> StoreChange {
    let names =
        |files: &[Arc<StoreFile>]| files.iter().map(|file| file.listed.name.as_str().into()).collect();
    StoreChange { family: store.family[..].into(), added: names(added), removed: names(removed) }
}
