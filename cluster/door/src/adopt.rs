//! Makes the changes of an adoption.

use std::sync::Arc;

use env::World;
use proto::descriptor::tracker::{TRACKER, TrackerKind};
use region::FoundBy;
use storage::Files;

use crate::found::Keeper;
use crate::inventory::Inventory;
use crate::replay::{delete_own_logs, write_log};
use crate::{Error, Result};

/// Writes the file lists of all stores, names the tracker DEFAULT in descriptors that name none, and copies the writes
/// that are only in HBase's logs to a log in `log`. After a failure or a crash it may be repeated, after another
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
                if Keeper::HBase.found_by(&table.descriptor, family) == Some(FoundBy::List) {
                    continue;
                }
                store
                    .write_list(files, &region.folder, family, world)
                    .map_err(Error::of_region(&region.folder))?;
            }
        }
        if table.descriptor.attributes().text(TRACKER).is_none_or(str::is_empty) {
            let mut described = table.descriptor.clone();
            described.attributes_mut().set(TRACKER.into(), TrackerKind::Default.as_str().into());
            master::descriptors::write(&**files, &described, world.now())?;
        }
    }
    if !Arc::ptr_eq(files, log) {
        // An interrupted adoption that looked for the logs in the root may have left a log there.
        delete_own_logs(&**files)?;
    }
    write_log(&inventory.logs, log, world)
}
