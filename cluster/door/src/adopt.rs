//! Makes the changes of an adoption.

use std::sync::Arc;

use env::World;
use proto::TableDescriptor;
use region::FoundBy;
use storage::Files;

use crate::found::{TRACKER, found_by};
use crate::inventory::Inventory;
use crate::replay::write_log;
use crate::{Error, Result};

/// Writes the file lists of all stores and the descriptors that name the FILE tracker, and copies to `log` the writes
/// that are only in HBase's logs. After a failure or a crash it may be repeated, following another
/// [`look`](crate::look). Afterwards the caller writes the version file of this project, and [archives HBase's
/// logs](crate::archive_logs).
///
/// The caller has checked the report: this function refuses nothing.
pub fn adopt(
    inventory: &Inventory,
    files: &Arc<dyn Files>,
    log: &Arc<dyn Files>,
    world: &World,
) -> Result<()> {
    for table in &inventory.tables {
        let families = table.descriptor.families();
        for region in &table.regions {
            for (store, family) in region.stores.iter().zip(families) {
                if found_by(&table.descriptor, family) == Some(FoundBy::List) {
                    continue;
                }
                store
                    .write_list(files, &region.folder, family, world)
                    .map_err(Error::of_region(&region.folder))?;
            }
        }
        let described = with_file_tracker(&table.descriptor);
        if described != table.descriptor {
            master::descriptors::write(&**files, &described)?;
        }
    }
    write_log(&inventory.logs, log, world)
}

/// Returns the descriptor with the FILE tracker for the table and all its families.
fn with_file_tracker(table: &TableDescriptor) -> TableDescriptor {
    let mut described = table.clone();
    described.attributes_mut().set(TRACKER.into(), "FILE".into());
    for family in table.families() {
        let mut family = family.clone();
        if family.attributes().text(TRACKER).is_some() {
            family.attributes_mut().set(TRACKER.into(), "FILE".into());
        }
        if family.configured(TRACKER).is_some() {
            family.configure(TRACKER, "FILE");
        }
        described.set_family(family);
    }
    described
}
