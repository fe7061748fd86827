//! Requests major compactions of MOB families, as HBase's MobFileCompactionChore does.
//!
//! Periodic major compactions rewrite store files and leave MOB files as they are. Only a requested major compaction
//! rewrites MOB files, and drops the values to which no cell refers any more. As in HBase, the compactions of all
//! regions of a table are requested at once. Each server runs them one after the other.

use bytes::Bytes;
use proto::EncodedName;
use proto::catalog::{RegionState, TableState};

use crate::Master;
use crate::view::TableEntry;

impl Master {
    /// Requests a major compaction of each MOB family of each enabled table. If a region cannot be asked, the next
    /// period asks it.
    pub(crate) fn compact_mob_families(&self) {
        let mut wanted: Vec<(EncodedName, Vec<Bytes>)> = Vec::new();
        self.read_view(|view| {
            for table in view.tables.values().filter(|table| table.state == TableState::Enabled) {
                let families = mob_families(table);
                if families.is_empty() {
                    continue;
                }
                let open = table.serving().filter(|row| row.state == RegionState::Open);
                wanted.extend(open.map(|row| (row.region.encoded_name().clone(), families.clone())));
            }
        });
        for (region, families) in wanted {
            if let Err(cause) = self.regions.compact(&region, &families) {
                tracing::warn!(%region, %cause, "MOB files of a region are not compacted in this period");
            }
        }
    }
}

/// Returns the names of a table's MOB families, without families whose options cannot be read.
fn mob_families(table: &TableEntry) -> Vec<Bytes> {
    let all = table.descriptor.families().iter();
    let mob = all.filter(|family| family.options().is_ok_and(|options| options.is_mob));
    mob.map(|family| family.name().clone()).collect()
}
