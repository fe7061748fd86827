//! Makes the changes of an adoption.

use std::sync::Arc;

use env::World;
use proto::descriptor::tracker::{TRACKER, TrackerKind};
use region::{FoundBy, side_by_side};
use storage::Files;

use crate::found::{Keeper, STORES_AT_ONCE};
use crate::inventory::Inventory;
use crate::replay::{delete_own_logs, write_log};
use crate::{Error, Result};

/// Where an adoption writes its log.
pub struct OwnLog {
    /// The storage in which the next start looks for the log. Its files can grow.
    pub place: Arc<dyn Files>,
    /// Other storage, in which an interrupted adoption may have left a log. That log is deleted.
    pub abandoned: Option<Arc<dyn Files>>,
}

/// Writes the file lists of all stores, names the tracker DEFAULT in descriptors that name none, and copies the writes
/// that are only in HBase's logs to `log`. After a failure or a crash it may be repeated, after another
/// [`look`](crate::look). Afterwards the caller writes the version file of this project, and [archives HBase's
/// logs](crate::archive_logs).
///
/// Fails, and changes nothing, if the report has a blocker. Whether something may be left behind is the caller's decision.
pub fn adopt(inventory: &Inventory, files: &Arc<dyn Files>, log: &OwnLog, world: &World) -> Result<()> {
    inventory.check_blockers()?;
    let mut stores = Vec::new();
    for table in &inventory.tables {
        for region in &table.regions {
            let with_families = region.stores.iter().zip(table.descriptor.families());
            let without_list = with_families.filter(|(_, family)| {
                Keeper::HBase.found_by(&table.descriptor, family) != Some(FoundBy::List)
            });
            stores.extend(without_list.map(|(store, family)| (&region.folder, store, family)));
        }
    }
    side_by_side("adopt", STORES_AT_ONCE, &stores, |(folder, store, family)| {
        store.write_list(files, folder, family, world).map_err(Error::of_region(folder))
    })?;
    for table in &inventory.tables {
        if table.descriptor.attributes().text(TRACKER).is_none_or(str::is_empty) {
            let mut described = table.descriptor.clone();
            described.attributes_mut().set(TRACKER.into(), TrackerKind::Default.as_str().into());
            master::descriptors::write(&**files, &described, world.now())?;
        }
    }
    if let Some(abandoned) = &log.abandoned {
        delete_own_logs(&**abandoned)?;
    }
    write_log(&inventory.logs, &log.place, world)
}
