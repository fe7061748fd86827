//! Reads the procedures that HBase's master had not finished when it ended. They are in the master's own region,
//! `master:store`.
//!
//! ```text
//! MasterData/data/master/store/<region>/proc    row: number of the procedure, 8 bytes · proc:d: Procedure
//! ```
//!
//! A procedure that has ended keeps its row for a while. An empty value marks a row that is to be deleted. Source:
//! HBase 2.6 `RegionProcedureStore`.

use std::sync::Arc;

use env::World;
use prost::Message;
use proto::catalog::CatalogRow;
use proto::pb;
use region::{FoundBy, FoundStore};
use storage::{FileName, Files};

use crate::found::{FoundRegion, Keeper, read_region_info};
use crate::peek::read_rows;
use crate::replay::{LogFile, MASTERS_LOGS, logs_of_servers, recovered};
use crate::{Error, Result};

const FAMILY: &[u8] = b"proc";
const REMEDY: &str = "the root is of a release before HBase 2.3, or was never started; start HBase 2.6 on it once, and stop it";

/// Reads the logs of the master's own region. HBase leaves them in place even after an orderly stop.
pub(crate) fn logs(log: &Arc<dyn Files>) -> Result<Vec<LogFile>> {
    let names = logs_of_servers(&**log, &FileName::new(MASTERS_LOGS))?;
    names.into_iter().map(|name| LogFile::scan(log, name)).collect()
}

/// Reads the rows of the master's own region, whose logs are `logs`.
pub(crate) fn rows(files: &Arc<dyn Files>, logs: &[LogFile], world: &World) -> Result<Vec<CatalogRow>> {
    let base = FileName::new("MasterData/data/master/store");
    let missing = || Error::Missing { file: base.clone(), remedy: REMEDY };
    let table = master::descriptors::read_in(&**files, &base.join(".tabledesc"))?.ok_or_else(missing)?;
    let entries = files.list(&base)?;
    let name = entries.iter().map(|entry| &entry.name).find(|name| name.last() == ".regioninfo");
    let folder = name.and_then(|name| name.parent()).ok_or_else(missing)?;
    let info = read_region_info(&**files, &folder)?;
    let families = table.families().iter();
    let stores = families.map(|family| {
        let by = Keeper::HBase.found_by(&table, family).unwrap_or(FoundBy::Folder);
        FoundStore::find(files, &folder, &info, family, by, world).map_err(Error::of_region(&folder))
    });
    let found = FoundRegion { stores: stores.collect::<Result<_>>()?, info, folder };
    let recovered = recovered(logs, found.info.encoded_name().as_str().as_bytes(), world)?;
    read_rows(files, world, &found, &table, recovered)
}

/// Returns the procedures that are not finished, as class and number.
///
/// A ServerCrashProcedure is left out. It divides the logs of a server that ended, and assigns the server's regions. An
/// adoption reads these logs itself, and a start opens all regions. At an orderly stop, HBase's master begins such a
/// procedure if its region server stops before the master does. The steps of a ServerCrashProcedure are procedures,
/// too, and are not left out.
pub(crate) fn unfinished(rows: &[CatalogRow]) -> Result<Vec<String>> {
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
            let class = procedure.class_name.rsplit('.').next().unwrap_or_default();
            if ![Success, Rolledback].contains(&procedure.state()) && class != "ServerCrashProcedure" {
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

#[cfg(test)]
mod tests {
    use proto::catalog::Column;

    use super::*;

    fn row(number: u8, class: &str, state: pb::ProcedureState) -> CatalogRow {
        let procedure = pb::Procedure {
            class_name: format!("org.apache.hadoop.hbase.master.procedure.{class}"),
            proc_id: u64::from(number),
            state: state.into(),
            ..Default::default()
        };
        let column =
            Column { family: FAMILY.into(), qualifier: "d".into(), value: procedure.encode_to_vec().into() };
        CatalogRow { key: vec![0, 0, 0, 0, 0, 0, 0, number].into(), columns: vec![column] }
    }

    #[test]
    fn procedures_that_only_hbase_can_finish_are_named() {
        use pb::ProcedureState::{Rolledback, Runnable, Success, Waiting};
        let mut rows = [
            row(1, "CreateTableProcedure", Success),
            row(2, "DisableTableProcedure", Runnable),
            row(3, "ServerCrashProcedure", Waiting),
            row(4, "SplitWALProcedure", Runnable),
            row(5, "EnableTableProcedure", Rolledback),
            row(6, "DeleteTableProcedure", Runnable),
        ];
        rows[5].columns[0].value.clear();
        let named = ["DisableTableProcedure (pid 2, RUNNABLE)", "SplitWALProcedure (pid 4, RUNNABLE)"];
        assert_eq!(unfinished(&rows).expect("readable"), named);
    }
}
