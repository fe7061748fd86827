//! Operations on single regions: move, assign, unassign and truncate; and the flush of a table.
//!
//! The truncation of a region has these steps:
//!
//! 1. close the region. If that fails, the truncation ends, and the region serves as before;
//! 2. store the intent. If that fails, the intent may be stored all the same. Only once it certainly is not, the region
//!    is opened again ([`crate::doubt`]);
//! 3. delete the region's rows and remove the intent. If this fails, the region stays closed, and the next change of the
//!    table, the next chore or the next start repeats it;
//! 4. open the region.
//!
//! So while an intent is stored, its region is closed: no row is acknowledged that the intent would delete later.

use std::sync::Arc;

use bytes::Bytes;
use cell::string_binary;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{EncodedName, RegionInfo, ServerName, TableDescriptor, TableName, pb};
use rpc::{Exception, class};

use crate::error::of_proto;
use crate::intents::Intent;
use crate::procedure::locks::LockSet;
use crate::procedure::{Context, NonceKey, Outcome, ProcedureId, ProcedureKind, Submission};
use crate::{Master, table_not_found};

impl Master {
    /// Submits the move of an open region, and returns the procedure's id. The region moves to the given server or,
    /// without one, to any other. It stays where it is if the given server is not live, or if there is no other server.
    /// A closed region stays closed.
    pub(crate) fn move_region(
        self: &Arc<Self>,
        region: &pb::RegionSpecifier,
        destination: Option<&pb::ServerName>,
    ) -> Result<ProcedureId, Exception> {
        let row = self.find(region)?;
        let destination = destination.map(ServerName::try_from).transpose().map_err(of_proto)?;
        let name = row.region.table().clone();
        let region = row.region.clone();
        self.submit_on_regions(ProcedureKind::Move, [&region], None, move |master, context| {
            context.pass_point_of_no_return()?;
            let Some(owner) = master.regions.owner(row.region.encoded_name()) else { return Ok(()) };
            let live = master.regions.live();
            let destination = match destination {
                Some(named) => live.into_iter().find(|server| *server == named),
                None => live.into_iter().find(|server| *server != owner.server),
            };
            let Some(destination) = destination.filter(|server| *server != owner.server) else {
                tracing::info!(region = %row.region, server = %owner.server, "the region stays where it is");
                return Ok(());
            };
            let table =
                master.read_view(|view| view.tables.get(&name).map(|table| Arc::clone(&table.descriptor)));
            let table = table.ok_or_else(|| table_not_found(&name))?;
            if row.region.is_meta() {
                return Err(Exception::do_not_retry("the region of hbase:meta cannot be moved"));
            }
            master.close(&row.region)?;
            master.open_on(&row.region, &table, Some(&destination))
        })
    }

    /// Submits the opening of a region of an enabled table, and returns the procedure's id.
    pub(crate) fn assign_region(
        self: &Arc<Self>,
        region: &pb::RegionSpecifier,
    ) -> Result<ProcedureId, Exception> {
        let row = self.find(region)?;
        let region = row.region.clone();
        self.submit_on_regions(ProcedureKind::Assign, [&region], None, move |master, context| {
            context.pass_point_of_no_return()?;
            let name = row.region.table();
            let region = master.check_serves(&row.region)?;
            let table = master.read_view(|view| {
                view.tables.get(name).map(|table| (Arc::clone(&table.descriptor), table.state))
            });
            match table {
                Some((descriptor, TableState::Enabled)) => master.open(&region, &descriptor),
                Some(_) => Err(Exception::new(class::TABLE_NOT_ENABLED, name.to_string())),
                None => Err(table_not_found(name)),
            }
        })
    }

    /// Submits the closing of a region, and returns the procedure's id. The region stays closed until it is assigned or
    /// the table is enabled again.
    pub(crate) fn unassign_region(
        self: &Arc<Self>,
        region: &pb::RegionSpecifier,
    ) -> Result<ProcedureId, Exception> {
        let row = self.find(region)?;
        if row.region.is_meta() {
            return Err(Exception::do_not_retry("the region of hbase:meta cannot be unassigned"));
        }
        let region = row.region.clone();
        self.submit_on_regions(ProcedureKind::Unassign, [&region], None, move |master, context| {
            context.pass_point_of_no_return()?;
            let region = master.check_serves(&row.region)?;
            master.close(&region)
        })
    }

    /// Refuses, as HBase does, to assign a region that is open, or to unassign one that is closed. If a region's row
    /// says that it is open but no server has it open, it may be assigned, which repairs this state.
    pub(crate) fn check_transition(
        &self,
        region: &pb::RegionSpecifier,
        unexpected: RegionState,
    ) -> Result<(), Exception> {
        let row = self.find(region)?;
        let is_open = self.regions.open_regions()?.contains(row.region.encoded_name());
        if row.state != unexpected || is_open != (unexpected == RegionState::Open) {
            return Ok(());
        }
        let location = row.server.as_ref().filter(|_| is_open).map_or("null".to_owned(), ToString::to_string);
        Err(Exception {
            do_not_retry: true,
            ..Exception::new(
                "org.apache.hadoop.hbase.client.DoNotRetryRegionException",
                format!(
                    "Unexpected state for state={}, location={location}, table={}, region={}",
                    row.state.as_str_name(),
                    row.region.table(),
                    row.region.encoded_name()
                ),
            )
        })
    }

    /// Submits the flush of all regions of a table, and returns the procedure's id. Only the families in the list are
    /// flushed, or all if the list is empty.
    pub(crate) fn flush_table(
        self: &Arc<Self>,
        table: &pb::TableName,
        families: &[Bytes],
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        let families = families.to_vec();
        let (kind, locks) = (ProcedureKind::Flush, LockSet::table_shared(&name));
        let submission = Submission { kind, locks, nonce, target: None };
        self.submit_with(&name.clone(), submission, move |master, context| {
            master.check_flush(&name, &families)?;
            master.flush_all(&name, &families, context)
        })
    }

    /// Submits a procedure of HBase's older kind, which its signature names. The only such procedure here is the flush
    /// of the table that `instance` names. As in HBase, the flush of a missing table does nothing, and missing families
    /// are skipped.
    pub(crate) fn execute(
        self: &Arc<Self>,
        procedure: &pb::ProcedureDescription,
    ) -> Result<ProcedureId, Exception> {
        if !is_flush(procedure) {
            return Err(Exception::do_not_retry(not_registered(procedure)));
        }
        let name: TableName = procedure.instance().parse().map_err(of_proto)?;
        // HBase 2.x clients name all families in one value of the configuration.
        let named = procedure.configuration.iter().filter(|pair| pair.name == "families");
        let named: Vec<Bytes> = named
            .flat_map(|pair| {
                pair.value.split(',').map(|family| Bytes::copy_from_slice(family.trim().as_bytes()))
            })
            .filter(|family| !family.is_empty())
            .collect();
        let flushed = name.clone();
        // No client gets the id of this procedure.
        let (kind, locks) = (ProcedureKind::Flush, LockSet::table_shared(&name));
        let submission = Submission { kind, locks, nonce: None, target: None };
        let id = self.submit_with(&name, submission, move |master, context| {
            let has = |family: &Bytes| {
                master.read_view(|view| {
                    let table = view.tables.get(&flushed);
                    table.is_some_and(|table| table.descriptor.family(family).is_some())
                })
            };
            let families: Vec<Bytes> = named.iter().filter(|family| has(family)).cloned().collect();
            if families.is_empty() && !named.is_empty() {
                return Ok(());
            }
            master.flush_all(&flushed, &families, context)
        })?;
        // Only tables that exist are recorded. Otherwise clients could fill the memory with names.
        let mut last = self.last_flushes.lock();
        last.retain(|table, _| self.read_view(|view| view.tables.contains_key(table)));
        last.insert(name, id);
        Ok(id)
    }

    /// Whether the last procedure with this signature and instance has ended. Fails with the procedure's exception if
    /// it failed. If none is known, only the flush of a table that does not exist counts as ended.
    pub(crate) fn is_done(&self, procedure: &pb::ProcedureDescription) -> Result<bool, Exception> {
        if !is_flush(procedure) {
            return Err(Exception::io(not_registered(procedure)));
        }
        let name: TableName = procedure.instance().parse().map_err(of_proto)?;
        let Some(id) = self.last_flushes.lock().get(&name).copied() else {
            // No such procedure was begun. If the table does not exist, there is nothing to do, so the call counts as
            // done.
            return Ok(self.read_view(|view| !view.tables.contains_key(&name)));
        };
        match self.procedures.outcome(id) {
            Some(Outcome::Running { .. }) => Ok(false),
            Some(Outcome::Finished { result, .. }) => result.map(|_| true),
            // The procedure has ended so long ago that its outcome is no longer known.
            None => Ok(true),
        }
    }

    /// Submits the removal of all rows of a region, and returns the procedure's id. The region keeps its name.
    pub(crate) fn truncate_region(
        self: &Arc<Self>,
        region: &pb::RegionInfo,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let region = RegionInfo::try_from(region).map_err(of_proto)?;
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        if region.is_meta() {
            return Err(Exception::do_not_retry("the region of hbase:meta cannot be truncated"));
        }
        let name = region.table().clone();
        self.check_enabled(&name)?;
        let region = self.check_serves(&region)?;
        self.submit_on_regions(
            ProcedureKind::TruncateRegion,
            [&region.clone()],
            nonce,
            move |master, context| {
                context.pass_point_of_no_return()?;
                master.lock_for_recovery_snapshot(&name, context);
                let table = master.check_enabled(&name)?;
                let region = master.check_serves(&region)?;
                master.take_recovery_snapshot(&name, context)?;
                master.close_to_truncate(&region, &table)?;
                let intent = master.begin_truncation(&region, &table)?;
                master.finish(&intent)?;
                let table = master.check_enabled(&name)?;
                master.open(&region, &table)
            },
        )
    }

    /// Closes a region that is to be truncated. If that fails, the region serves afterwards, unless it cannot be opened
    /// again.
    fn close_to_truncate(&self, region: &RegionInfo, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        let name = region.encoded_name();
        self.regions.close(name).inspect_err(|_| {
            // A region whose flush fails stays open on its server.
            if !self.regions.open_regions().is_ok_and(|open| open.contains(name)) {
                self.reopen_untruncated(region, table);
            }
        })
    }

    /// Stores the intent of the truncation of a closed region, and returns it. If that fails, the region is open again, or it waits
    /// until it is certain that the intent is not stored.
    fn begin_truncation(
        &self,
        region: &RegionInfo,
        table: &Arc<TableDescriptor>,
    ) -> Result<Intent, Exception> {
        let intent = Intent::TruncateRegion { table: Arc::clone(table), region: region.clone() };
        let Err(cause) = self.begin_change(&intent) else { return Ok(intent) };
        if !self.is_doubtful(&intent.key()) {
            self.reopen_untruncated(region, table);
            return Err(cause);
        }
        let message = format!(
            "region {region} stays closed until the order to truncate it can be withdrawn: {}",
            cause.message
        );
        let cause = Exception { message, ..cause };
        self.note_failed_opening(region, &cause);
        self.record_failed_open(region);
        Err(cause)
    }

    /// Opens a region whose truncation was not begun. A failure is logged, and the chore tries again.
    fn reopen_untruncated(&self, region: &RegionInfo, table: &Arc<TableDescriptor>) {
        if let Err(cause) = self.open(region, table) {
            tracing::error!(%region, %cause, "the region was not truncated and could not be opened; it is tried again");
        }
    }

    /// Returns the schema of a table. Fails if the table is not enabled.
    pub(crate) fn check_enabled(&self, name: &TableName) -> Result<Arc<TableDescriptor>, Exception> {
        self.read_view(|view| match view.tables.get(name) {
            None => Err(table_not_found(name)),
            Some(table) if table.state == TableState::Enabled => Ok(Arc::clone(&table.descriptor)),
            Some(_) => Err(Exception::new(class::TABLE_NOT_ENABLED, name.to_string())),
        })
    }

    /// Returns the region as hbase:meta has it. Only the name of `region` counts: a client may leave out its end key, and set
    /// marks. Refuses a region that does not serve rows of its table, such as a parent of a split.
    pub(crate) fn check_serves(&self, region: &RegionInfo) -> Result<RegionInfo, Exception> {
        let known = self.read_view(|view| {
            let mut serving = view.tables.get(region.table())?.serving();
            serving.find(|row| row.region.name() == region.name()).map(|row| row.region.clone())
        });
        let unknown = || Exception::new(class::UNKNOWN_REGION, string_binary(region.name()).to_string());
        known.ok_or_else(unknown)
    }

    /// Returns the creation time of the table's oldest file that a major compaction has written, in ms since 1970. As
    /// in HBase, returns 0 if some open region has no such file. Also returns 0 if no region is open.
    pub(crate) fn last_major_compaction(&self, table: &pb::TableName) -> Result<i64, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        let rows = self.serving(&name).unwrap_or_default();
        let open = self.regions.open_regions()?;
        let names = rows.iter().map(|row| row.region.encoded_name()).filter(|name| open.contains(*name));
        let times: Vec<i64> =
            names.map(|name| self.regions.last_major_compaction(name)).collect::<Result<_, _>>()?;
        Ok(times.into_iter().min().unwrap_or(0))
    }

    /// Like [`last_major_compaction`](Master::last_major_compaction), for one region. As in HBase, returns 0 if the region does
    /// not exist or is not open.
    pub(crate) fn last_major_compaction_of_region(
        &self,
        region: &pb::RegionSpecifier,
    ) -> Result<i64, Exception> {
        let open = self.regions.open_regions()?;
        match self.find(region) {
            Ok(row) if open.contains(row.region.encoded_name()) => {
                self.regions.last_major_compaction(row.region.encoded_name())
            }
            _ => Ok(0),
        }
    }

    /// Returns the region that a client names by its full or encoded name. Fails with HBase's `UnknownRegionException`
    /// if there is none.
    pub(crate) fn find(&self, region: &pb::RegionSpecifier) -> Result<RegionRow, Exception> {
        use pb::region_specifier::RegionSpecifierType as By;
        let unknown = || Exception::new(class::UNKNOWN_REGION, string_binary(&region.value).to_string());
        let name = match region.r#type() {
            By::RegionName => EncodedName::of_region_name(&region.value),
            By::EncodedRegionName => EncodedName::parse(&String::from_utf8_lossy(&region.value)),
        };
        let name = name.map_err(|_| unknown())?;
        self.read_view(|view| view.region(&name).cloned()).ok_or_else(unknown)
    }

    fn serving(&self, table: &TableName) -> Option<Vec<RegionRow>> {
        self.read_view(|view| view.tables.get(table).map(|table| table.serving().cloned().collect()))
    }

    fn check_flush(&self, name: &TableName, families: &[Bytes]) -> Result<(), Exception> {
        self.read_view(|view| {
            let table = view.tables.get(name).ok_or_else(|| table_not_found(name))?;
            if table.state != TableState::Enabled {
                return Err(Exception::new(class::TABLE_NOT_ENABLED, name.to_string()));
            }
            let unknown = families.iter().filter(|family| table.descriptor.family(family).is_none());
            let unknown: Vec<String> = unknown.map(|family| string_binary(family).to_string()).collect();
            if unknown.is_empty() {
                return Ok(());
            }
            let words = format!("Column families [{}] don't exist in table {name}", unknown.join(", "));
            Err(Exception::new(class::NO_SUCH_COLUMN_FAMILY, words))
        })
    }

    fn flush_all(&self, table: &TableName, families: &[Bytes], context: &Context) -> Result<(), Exception> {
        let rows = self.serving(table).unwrap_or_default();
        let open = self.regions.open_regions()?;
        let rows = rows.into_iter().filter(|row| open.contains(row.region.encoded_name())).collect();
        self.in_parallel(rows, |row| {
            context.check_aborted()?;
            match self.regions.flush(row.region.encoded_name(), families) {
                // The region was closed for a split or a merge, and closing flushes everything.
                Err(cause) if cause.class == class::NOT_SERVING_REGION => Ok(()),
                done => done,
            }
        })?;
        context.pass_point_of_no_return()
    }
}

/// Whether a procedure of HBase's older kind is the flush of a table.
fn is_flush(procedure: &pb::ProcedureDescription) -> bool {
    procedure.signature == "flush-table-proc"
}

fn not_registered(procedure: &pb::ProcedureDescription) -> String {
    format!("The procedure is not registered: {}", procedure.signature)
}
