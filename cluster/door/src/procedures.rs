//! The procedures that HBase's master had not finished when it ended. They lie in a region of its own, `master:store`.
//!
//! ```text
//! MasterData/data/master/store/<region>/proc    row: number of the procedure, 8 bytes · proc:d: Procedure
//! ```
//!
//! A procedure that ended keeps its row for a while; an empty value says that the row is to be deleted. Source: HBase 2.6
//! `RegionProcedureStore`.

use std::sync::Arc;

use env::World;
use prost::Message;
use proto::{RegionInfo, TableDescriptor, pb};
use region::{FoundBy, FoundStore};
use storage::{FileName, Files};

use crate::inventory::{found_by, read_region_info};
use crate::peek::{Row, read_rows};
use crate::{Error, Result};

const FAMILY: &[u8] = b"proc";
const REMEDY: &str = "the root is of a release before HBase 2.3, or was never started; start HBase 2.6 on it once, and stop it";

/// The master's own region.
pub(crate) struct MasterStore {
    pub(crate) folder: FileName,
    pub(crate) info: RegionInfo,
    pub(crate) table: TableDescriptor,
}

impl MasterStore {
    /// Finds the region below `MasterData`.
    pub(crate) fn find(files: &dyn Files) -> Result<MasterStore> {
        let folder = FileName::new("MasterData/data/master/store");
        let missing = || Error::Missing { file: folder.clone(), remedy: REMEDY };
        let table = master::descriptors::read_in(files, &folder.join(".tabledesc"))?.ok_or_else(missing)?;
        let entries = files.list(&folder)?;
        let name = entries.iter().map(|entry| &entry.name).find(|name| name.last() == ".regioninfo");
        let folder = name.and_then(|name| name.parent()).ok_or_else(missing)?;
        let info = read_region_info(files, &folder)?;
        Ok(MasterStore { folder, info, table })
    }

    /// Reads all rows.
    pub(crate) fn rows(&self, files: &Arc<dyn Files>, world: &World) -> Result<Vec<Row>> {
        let families = self.table.families().iter();
        let stores = families.map(|family| {
            let by = found_by(&self.table, family).unwrap_or(FoundBy::Folder);
            FoundStore::find(files, &self.folder, &self.info, family, by, world)
                .map_err(Error::of_region(&self.folder))
        });
        let stores = stores.collect::<Result<Vec<_>>>()?;
        read_rows(files, world, &self.folder, &self.info, &self.table, &stores)
    }
}

/// The procedures that are not finished: number and class.
pub(crate) fn unfinished(rows: &[Row]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for row in rows {
        for column in row.columns.iter().filter(|column| column.family == FAMILY) {
            if column.value.is_empty() {
                continue;
            }
            let procedure = pb::Procedure::decode(column.value.clone()).map_err(|cause| Error::Row {
                table: "master:store",
                row: row.key.escape_ascii().to_string(),
                cause: Box::new(proto::Error::Decode { what: "a procedure", cause }),
            })?;
            use pb::ProcedureState::{Rolledback, Success};
            if ![Success, Rolledback].contains(&procedure.state()) {
                let class = procedure.class_name.rsplit('.').next().unwrap_or_default();
                found.push(format!(
                    "{class} (pid {}, {})",
                    procedure.proc_id,
                    procedure.state().as_str_name()
                ));
            }
        }
    }
    Ok(found)
}
