//! Implements `fixMeta`: writes rows and states that hbase:meta lacks, and creates regions for rows that no region
//! covers.

use std::sync::Arc;

use bytes::Bytes;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{RegionInfo, TableName};
use rpc::Exception;

use super::check::{HbckReport, Inconsistency, gaps};
use crate::Master;
use crate::error::{of_proto, of_storage};
use crate::procedure::ProcedureKind;

impl Master {
    /// Repairs those inconsistencies of the last check for which there is only one remedy: rows and states that
    /// hbase:meta lacks or has wrong, and holes. Returns the report of a second check, with the remaining
    /// inconsistencies. Ends at the first repair that fails. If overlaps remain, fails with an exception that names the
    /// first.
    pub(crate) fn fix_meta(self: &Arc<Self>) -> Result<HbckReport, Exception> {
        for inconsistency in self.run_hbck()?.inconsistencies {
            let Some(table) = inconsistency.table().cloned() else { continue };
            let id = self
                .submit(ProcedureKind::FixMeta, &table, None, move |master, _| master.mend(&inconsistency))?;
            if let Some(outcome) = self.procedures.wait(id) {
                outcome?;
            }
        }
        let left = self.run_hbck()?;
        match left.inconsistencies.iter().find(|found| matches!(found, Inconsistency::Overlap(..))) {
            Some(overlap) => Err(Exception::do_not_retry(format!(
                "not repaired, because only you can decide whose rows count: {overlap}"
            ))),
            None => Ok(left),
        }
    }

    /// Repairs one inconsistency, unless something else has repaired it since the check. The caller has the lock of the table.
    pub(crate) fn mend(&self, inconsistency: &Inconsistency) -> Result<(), Exception> {
        match inconsistency {
            Inconsistency::TableState { table, .. } => {
                match self.read_view(|view| view.tables.get(table).map(|table| table.state)) {
                    Some(state) => self.catalog.put_state(table, state),
                    None => Ok(()),
                }
            }
            Inconsistency::NoRow(region) | Inconsistency::Row { region, .. } => {
                match self.read_view(|view| view.region(region.encoded_name()).cloned()) {
                    Some(row) => self.catalog.put_regions([&row]),
                    None => Ok(()),
                }
            }
            Inconsistency::Hole { table, start, end } => self.fill(table, start, end),
            // For these inconsistencies an operator must decide: to assign or unassign a region, or to delete a row or
            // a folder.
            Inconsistency::Unreadable(_)
            | Inconsistency::Unknown(_)
            | Inconsistency::Overlap(..)
            | Inconsistency::NotOpen { .. }
            | Inconsistency::FailedOpen { .. }
            | Inconsistency::EarlierSchema(_)
            | Inconsistency::UnknownServer { .. }
            | Inconsistency::OpenParent(_)
            | Inconsistency::MergedParent { .. }
            | Inconsistency::Stray(_)
            | Inconsistency::NoFolder(_)
            | Inconsistency::OrphanFolder { .. }
            | Inconsistency::Open(_) => Ok(()),
        }
    }

    /// Creates an empty region for rows that no region covers. Creates none if the table has no such hole any more: another
    /// call may have filled it, or the table was dropped, restored or made anew since the check.
    fn fill(&self, table: &TableName, start: &Bytes, end: &Bytes) -> Result<(), Exception> {
        let known = self.read_view(|view| {
            let entry = view.tables.get(table)?;
            let hole = Inconsistency::Hole { table: table.clone(), start: start.clone(), end: end.clone() };
            let is_there = gaps(table, &entry.serving().collect::<Vec<_>>()).contains(&hole);
            Some((Arc::clone(&entry.descriptor), entry.state, is_there))
        });
        let Some((descriptor, state, true)) = known else { return Ok(()) };
        let region = RegionInfo::new(table.clone(), start.clone(), end.clone(), self.new_region_id());
        let region = region.map_err(of_proto)?;
        layout::keep_region_info(&*self.files, &layout::region_folder(&region), &region)
            .map_err(of_storage)?;
        self.record(RegionRow::new(region.clone(), RegionState::Closed))?;
        tracing::warn!(region = %region, "hbck made an empty region for rows that had none");
        if state == TableState::Enabled { self.open(&region, &descriptor) } else { Ok(()) }
    }
}
