//! Regions by hand: moving, assigning, unassigning; and flushing a table.
//!
//! There is one server, so a region has nowhere else to go. A move succeeds and leaves it where it is, as in an HBase of
//! one server, also when the destination is none that lives.

use std::sync::Arc;

use bytes::Bytes;
use proto::catalog::{RegionRow, TableState};
use proto::{EncodedName, ServerName, TableName, pb};
use rpc::{Exception, class};

use crate::error::of_proto;
use crate::procedure::{NonceKey, ProcedureId};
use crate::{Master, table_not_found};

impl Master {
    /// Moves a region to a server, or to any.
    pub(crate) fn move_region(
        self: &Arc<Self>,
        region: &pb::RegionSpecifier,
        destination: Option<&pb::ServerName>,
    ) -> Result<(), Exception> {
        let row = self.find(region)?;
        if let Some(destination) = destination {
            let destination = ServerName::try_from(destination).map_err(of_proto)?;
            tracing::info!(region = %row.region, %destination, "the region stays: there is one server");
        }
        Ok(())
    }

    /// Opens a region of an enabled table.
    pub(crate) fn assign_region(self: &Arc<Self>, region: &pb::RegionSpecifier) -> Result<(), Exception> {
        let row = self.find(region)?;
        self.await_on(&row.region.table().clone(), "assign", move |master| {
            let name = row.region.table();
            let table = master.see(|picture| {
                picture.tables.get(name).map(|table| (Arc::clone(&table.descriptor), table.state))
            });
            match table {
                Some((descriptor, TableState::Enabled)) => master.open(&row.region, &descriptor),
                Some(_) => Err(Exception::new(class::TABLE_NOT_ENABLED, name.to_string())),
                None => Err(table_not_found(name)),
            }
        })
    }

    /// Closes a region, which stays closed until it is assigned or the table is enabled anew.
    pub(crate) fn unassign_region(self: &Arc<Self>, region: &pb::RegionSpecifier) -> Result<(), Exception> {
        let row = self.find(region)?;
        if row.region.is_meta() {
            return Err(Exception::do_not_retry("the region of hbase:meta cannot be unassigned"));
        }
        self.await_on(&row.region.table().clone(), "unassign", move |master| master.close(&row.region))
    }

    /// Submits the flush of a table's regions: these families, or all.
    pub(crate) fn flush_table(
        self: &Arc<Self>,
        table: &pb::TableName,
        families: &[Bytes],
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        let families = families.to_vec();
        self.submit("flush", &name.clone(), nonce, move |master| {
            master.check_flush(&name, &families)?;
            master.flush_all(&name, &families)
        })
    }

    /// Runs a procedure of the older kind, named by its signature, to its end.
    pub(crate) fn execute(self: &Arc<Self>, procedure: &pb::ProcedureDescription) -> Result<(), Exception> {
        if procedure.signature != "flush-table-proc" {
            let words = format!("The procedure is not registered: {}", procedure.signature);
            return Err(Exception::do_not_retry(words));
        }
        let name: TableName = procedure.instance().parse().map_err(of_proto)?;
        // Clients of 2.x name families here, all in one value.
        let named = procedure.configuration.iter().filter(|pair| pair.name == "families");
        let families: Vec<Bytes> = named
            .flat_map(|pair| {
                pair.value.split(',').map(|family| Bytes::copy_from_slice(family.trim().as_bytes()))
            })
            .filter(|family| !family.is_empty())
            .collect();
        self.check_flush(&name, &families)?;
        self.await_on(&name.clone(), "flush", move |master| master.flush_all(&name, &families))
    }

    /// When the oldest file of a table was written by a major compaction, ms since 1970; 0 if there is none.
    pub(crate) fn last_major_compaction(&self, table: &pb::TableName) -> Result<i64, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        let rows = self.serving(&name).unwrap_or_default();
        let mut oldest = 0;
        for row in rows.iter().filter(|row| self.regions.is_open(row.region.encoded_name())) {
            let moment = self.regions.last_major_compaction(row.region.encoded_name())?;
            oldest = if oldest == 0 { moment } else { oldest.min(moment) };
        }
        Ok(oldest)
    }

    /// The same of one region.
    pub(crate) fn last_major_compaction_of_region(
        &self,
        region: &pb::RegionSpecifier,
    ) -> Result<i64, Exception> {
        let row = self.find(region)?;
        self.regions.last_major_compaction(row.region.encoded_name())
    }

    /// The region a client names, fully or by its short name.
    fn find(&self, region: &pb::RegionSpecifier) -> Result<RegionRow, Exception> {
        use pb::region_specifier::RegionSpecifierType as By;
        let unknown = || Exception::new(class::UNKNOWN_REGION, region.value.escape_ascii().to_string());
        let name = match region.r#type() {
            By::RegionName => EncodedName::of_region_name(&region.value),
            By::EncodedRegionName => EncodedName::parse(&String::from_utf8_lossy(&region.value)),
        };
        let name = name.map_err(|_| unknown())?;
        self.see(|picture| picture.region(&name).cloned()).ok_or_else(unknown)
    }

    fn serving(&self, table: &TableName) -> Option<Vec<RegionRow>> {
        self.see(|picture| picture.tables.get(table).map(|table| table.serving().cloned().collect()))
    }

    fn check_flush(&self, name: &TableName, families: &[Bytes]) -> Result<(), Exception> {
        self.see(|picture| {
            let table = picture.tables.get(name).ok_or_else(|| table_not_found(name))?;
            if table.state != TableState::Enabled {
                return Err(Exception::new(class::TABLE_NOT_ENABLED, name.to_string()));
            }
            let unknown = families.iter().filter(|family| table.descriptor.family(family).is_none());
            let unknown: Vec<String> = unknown.map(|family| family.escape_ascii().to_string()).collect();
            if unknown.is_empty() {
                return Ok(());
            }
            let words = format!("Column families [{}] don't exist in table {name}", unknown.join(", "));
            Err(Exception::new(class::NO_SUCH_COLUMN_FAMILY, words))
        })
    }

    fn flush_all(&self, table: &TableName, families: &[Bytes]) -> Result<(), Exception> {
        let rows = self.serving(table).unwrap_or_default();
        let open = |row: &RegionRow| self.regions.is_open(row.region.encoded_name());
        let rows = rows.into_iter().filter(open).collect();
        self.in_parallel(rows, |row| self.regions.flush(row.region.encoded_name(), families))
    }

    /// Submits work on a table and waits for its end.
    fn await_on(
        self: &Arc<Self>,
        table: &TableName,
        kind: &str,
        work: impl FnOnce(&Master) -> Result<(), Exception> + Send + 'static,
    ) -> Result<(), Exception> {
        let id = self.submit(kind, table, None, work)?;
        match self.procedures.wait(id) {
            Some(outcome) => outcome.map(|_result| ()),
            None => Err(Exception::io(format!("procedure {} was forgotten before its end was told", id.0))),
        }
    }
}
