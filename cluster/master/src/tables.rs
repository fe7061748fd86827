//! Creates, enables, disables, truncates and deletes tables.
//!
//! A creation has these steps, and so has the truncation of a disabled table:
//!
//! 1. store the intent: the complete schema and regions;
//! 2. delete what has the table's name: catalog rows first, then files;
//! 3. write the descriptor's file, and each region's `.regioninfo`;
//! 4. write the regions' rows to hbase:meta, as CLOSED, then the table's state, as ENABLING;
//! 5. remove the intent: from here on the catalog alone shows what is left to do;
//! 6. open the regions and set each row to OPEN, then the table's state to ENABLED.
//!
//! After a crash before step 5 the next start begins at step 2 with the same regions. After a later crash it continues
//! at step 6. If a creation fails without a crash, for instance because the disk is full, the master replaces the
//! intent by one that deletes the table, and carries it out at once. If a truncation fails, its intent stays; the next
//! change of the table or the next start carries it out.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use contract::OnFullDisk;
use env::sync::Mutex;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::descriptor::sanity;
use proto::region_info::regions_between;
use proto::{RegionId, RegionInfo, ServerName, TableDescriptor, TableName, pb};
use rpc::{Exception, class};

use crate::assignments::Opened;
use crate::clones::{CopyKind, RestoreOutcome, SnapshotCopy, SnapshotVersion};
use crate::error::{is_unchecked, of_proto, of_storage};
use crate::intents::{Intent, IntentKey};
use crate::procedure::locks::{LockSet, Resource};
use crate::procedure::{Context, NonceKey, Parameters, ProcedureId, ProcedureKind, Submission};
use crate::reopen::CAUSE_IS_LOGGED;
use crate::replace::{Phase, Replacement, Step};
use crate::view::TableEntry;
use crate::{Master, table_not_found};

impl Master {
    /// Checks a new table, and submits its creation.
    pub(crate) fn create_table(
        self: &Arc<Self>,
        schema: &pb::TableSchema,
        split_keys: &[Bytes],
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        let mut table = TableDescriptor::try_from(schema.clone()).map_err(of_proto)?;
        self.check_namespace_is_there(table.name())?;
        if let Some(cause) = self.unreachable_tables.read().get(table.name()) {
            return Err(Exception::do_not_retry(format!(
                "a table of this name exists and cannot be served, so none is created in its place: {cause}"
            )));
        }
        self.check_schema(&mut table)?;
        let regions = regions_between(table.name(), split_keys, self.new_region_id()).map_err(of_proto)?;
        let table = Arc::new(table);
        let name = table.name().clone();
        // A deletion that a failure has interrupted is carried out before the creation. As in HBase, the creation waits for one
        // that runs.
        let is_deleted = |intent: &Intent| matches!(intent, Intent::Delete { .. });
        if self.read_view(|view| view.tables.contains_key(&name))
            && !self.intents.of(&name).iter().any(is_deleted)
        {
            return Err(Exception::new(class::TABLE_EXISTS, name.to_string()));
        }
        let refusal = self.check_trackers_of_new(&table).err();
        if let Some(refusal) = refusal.as_ref().filter(|refusal| !is_unchecked(refusal)) {
            return Err(refusal.clone());
        }
        let parameters = Parameters::create(&table, &regions);
        let first = regions.first().map(|region| region.encoded_name().as_str().to_owned().into());
        let id =
            self.submit_to(ProcedureKind::Create, &name, nonce, first, move |master, _| match refusal {
                Some(refusal) => Err(refusal),
                None => master.create(&table, &regions),
            })?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Submits the deletion of a disabled table.
    pub(crate) fn delete_table(
        self: &Arc<Self>,
        table: &pb::TableName,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        if !name.is_meta() {
            self.check_modifiable(&name)?;
        }
        let parameters = Parameters::delete(&name);
        let id = self.submit(ProcedureKind::Delete, &name.clone(), nonce, move |master, context| {
            master.check_modifiable(&name)?;
            master.take_recovery_snapshot(&name, context)?;
            let intent = Intent::Delete { table: name };
            master.begin_change(&intent)?;
            master.finish(&intent)
        })?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Submits the enabling of a disabled table.
    pub(crate) fn enable_table(
        self: &Arc<Self>,
        table: &pb::TableName,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        let parameters = Parameters::enable(&name);
        let id = self.submit(ProcedureKind::Enable, &name.clone(), nonce, move |master, _| {
            master.read_view(|view| match view.tables.get(&name) {
                None => Err(table_not_found(&name)),
                // No other procedure of the table runs now, so the table is ENABLING because an earlier procedure
                // could not write to hbase:meta.
                Some(table) if matches!(table.state, TableState::Disabled | TableState::Enabling) => Ok(()),
                Some(table) => Err(Exception::new(class::TABLE_NOT_DISABLED, table.state_words())),
            })?;
            master.set_state(&name, TableState::Enabling)?;
            master.open_what_opens(&name)
        })?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Submits the disabling of an enabled table.
    pub(crate) fn disable_table(
        self: &Arc<Self>,
        table: &pb::TableName,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        // HBase allows this. But without hbase:namespace all namespaces would be unavailable.
        if name.is_meta() || name == TableName::namespaces() {
            return Err(Exception::new(class::CONSTRAINT, format!("Cannot disable {name}")));
        }
        self.check_is_there_and_not(&name, TableState::Disabled, class::TABLE_NOT_ENABLED)?;
        let parameters = Parameters::disable(&name);
        let id = self.submit(ProcedureKind::Disable, &name.clone(), nonce, move |master, _| {
            master.read_view(|view| match view.tables.get(&name) {
                None => Err(table_not_found(&name)),
                Some(table) if table.state != TableState::Disabled => Ok(()),
                Some(table) => Err(Exception::new(class::TABLE_NOT_ENABLED, table.state_words())),
            })?;
            master.set_state(&name, TableState::Disabling)?;
            master.close_table(&name)?;
            master.set_state(&name, TableState::Disabled)
        })?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Submits the truncation of a disabled table, which is enabled afterwards. Returns the procedure; for a nonce that
    /// was used before, the earlier procedure.
    pub(crate) fn truncate_table(
        self: &Arc<Self>,
        table: &pb::TableName,
        preserve_splits: bool,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        self.check_is_there_and_not(&name, TableState::Enabled, class::TABLE_NOT_DISABLED)?;
        let parameters = Parameters::truncate(&name, preserve_splits);
        let id = self.submit(ProcedureKind::Truncate, &name.clone(), nonce, move |master, context| {
            master.check_modifiable(&name)?;
            master.take_recovery_snapshot(&name, context)?;
            let (table, keys) = master.read_view(|view| {
                let table = view.tables.get(&name).ok_or_else(|| table_not_found(&name))?;
                let starts = table.serving().map(|row| row.region.start_key().clone());
                Ok((Arc::clone(&table.descriptor), starts.filter(|key| !key.is_empty()).collect::<Vec<_>>()))
            })?;
            let keys = if preserve_splits { keys } else { Vec::new() };
            let regions = regions_between(&name, &keys, master.new_region_id()).map_err(of_proto)?;
            let intent = Intent::Create { table, regions };
            master.begin_change(&intent)?;
            master.finish(&intent)?;
            master.open_what_opens(&name)
        })?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Returns the state of a table.
    pub(crate) fn table_state(&self, table: &pb::TableName) -> Result<TableState, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        self.read_view(|view| view.tables.get(&name).map(|table| table.state))
            .ok_or_else(|| table_not_found(&name))
    }

    /// Submits `work` that changes a whole table and has the table's lock exclusively. See
    /// [`submit_with`](Master::submit_with).
    pub(crate) fn submit(
        self: &Arc<Self>,
        kind: ProcedureKind,
        table: &TableName,
        nonce: Option<NonceKey>,
        work: impl FnOnce(&Master, &Context) -> Result<(), Exception> + Send + 'static,
    ) -> Result<ProcedureId, Exception> {
        self.submit_to(kind, table, nonce, None, work)
    }

    /// Like [`submit`](Master::submit), for work after which the table has the state `after`, as
    /// [`target`](Master::target) describes it.
    pub(crate) fn submit_to(
        self: &Arc<Self>,
        kind: ProcedureKind,
        table: &TableName,
        nonce: Option<NonceKey>,
        after: Option<Bytes>,
        work: impl FnOnce(&Master, &Context) -> Result<(), Exception> + Send + 'static,
    ) -> Result<ProcedureId, Exception> {
        let target = self.target(kind, &table.to_string(), after);
        let submission = Submission { kind, locks: LockSet::table(table), nonce, target };
        self.submit_with(table, submission, move |master, context| {
            context.pass_point_of_no_return()?;
            work(master, context)
        })
    }

    /// Submits `work` that changes these regions of a table and has their locks exclusively.
    pub(crate) fn submit_on_regions<'a>(
        self: &Arc<Self>,
        kind: ProcedureKind,
        regions: impl IntoIterator<Item = &'a RegionInfo, IntoIter: Clone>,
        nonce: Option<NonceKey>,
        work: impl FnOnce(&Master, &Context) -> Result<(), Exception> + Send + 'static,
    ) -> Result<ProcedureId, Exception> {
        let regions = regions.into_iter();
        let first = regions.clone().next().expect("a change of regions names one");
        let table = first.table().clone();
        let target = self.target(kind, first.encoded_name().as_str(), None);
        let submission = Submission { kind, locks: LockSet::regions(&table, regions), nonce, target };
        self.submit_with(&table, submission, work)
    }

    /// Submits `work` on a table. Before `work` runs, intents of this table that an earlier failure has left are
    /// carried out. Failed creations of other tables are undone, too: a disk that was full may have space by now.
    ///
    /// The procedure can be aborted until `work` calls [`Context::pass_point_of_no_return`], which all work must do.
    pub(crate) fn submit_with(
        self: &Arc<Self>,
        table: &TableName,
        submission: Submission,
        work: impl FnOnce(&Master, &Context) -> Result<(), Exception> + Send + 'static,
    ) -> Result<ProcedureId, Exception> {
        self.take_back_failed()?;
        let (master, name) = (Arc::clone(self), table.clone());
        self.procedures.submit(submission, move |context| {
            master.resume_for(&name, context)?;
            work(&master, context)?;
            Ok(Bytes::new())
        })
    }

    /// Submits the undoing of each creation that failed and could not be undone at once.
    pub(crate) fn take_back_failed(self: &Arc<Self>) -> Result<(), Exception> {
        let mut names = std::mem::take(&mut *self.failed_creations.lock());
        while let Some(name) = names.pop_first() {
            let (master, failed) = (Arc::clone(self), name.clone());
            let undoing = Submission {
                kind: ProcedureKind::TakeBack,
                locks: LockSet::table(&name),
                nonce: None,
                target: None,
            };
            let submitted = self.procedures.submit(undoing, move |context| {
                context.pass_point_of_no_return()?;
                master.take_back(&failed).inspect_err(|_| {
                    master.failed_creations.lock().insert(failed.clone());
                })?;
                Ok(Bytes::new())
            });
            if let Err(cause) = submitted {
                names.insert(name);
                self.failed_creations.lock().append(&mut names);
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Removes everything of a table whose creation failed, unless it was created again. An intent need not be left: a
    /// creation whose regions could not be opened has none.
    fn take_back(&self, name: &TableName) -> Result<(), Exception> {
        if self.read_view(|view| view.tables.contains_key(name)) {
            return Ok(());
        }
        let delete = Intent::Delete { table: name.clone() };
        self.intents.begin(delete.clone()).map_err(of_storage)?;
        self.finish(&delete)
    }

    /// Carries out intents of a table that earlier failures have left, before a procedure works on the table. Takes the
    /// lock of the whole table for that.
    fn resume_for(&self, name: &TableName, context: &Context) -> Result<(), Exception> {
        if context.excludes(&Resource::Table(name.clone())) {
            return self.resume(name);
        }
        // A procedure holds the locks of its regions as long as its intent exists. So if the regions of an intent are
        // not locked, an earlier failure has left the intent.
        let is_left = |intent: &Intent| {
            let regions = intent.regions().unwrap_or_default();
            let mut names = regions.iter().map(|region| region.encoded_name().clone());
            !names.any(|region| context.is_held_by_another(&Resource::Region(region)))
        };
        if self.is_left_out(name) || self.is_in_doubt(name) || self.intents.of(name).iter().any(is_left) {
            context.relock(LockSet::table(name));
            return self.resume(name);
        }
        Ok(())
    }

    /// Carries out intents of a table that earlier failures have left. No other procedure of the table runs meanwhile.
    fn resume(&self, name: &TableName) -> Result<(), Exception> {
        if self.take_up(name)? {
            return Ok(());
        }
        self.end_doubtful_intents(name)?;
        self.intents.of(name).into_iter().try_for_each(|intent| self.resume_intent(name, intent))?;
        self.settle_doubt(name)
    }

    fn resume_intent(&self, name: &TableName, intent: Intent) -> Result<(), Exception> {
        match intent {
            Intent::Create { .. } | Intent::Copy(SnapshotCopy { kind: CopyKind::Clone, .. })
                if !self.read_view(|view| view.tables.contains_key(name)) =>
            {
                // The creation failed and could not be undone. Its client got the failure as answer.
                let delete = Intent::Delete { table: name.clone() };
                self.intents.begin(delete.clone()).map_err(of_storage)?;
                self.finish(&delete)
            }
            Intent::Copy(copy) if copy.kind != CopyKind::Clone => {
                if let RestoreOutcome::Undone(cause) = self.restore(&copy)? {
                    tracing::warn!(table = %name, %cause, "the restoration was ended; the table is as before");
                }
                Ok(())
            }
            Intent::Replace(replacement) => {
                let key = Intent::Replace(replacement.clone()).key();
                self.carry_on(&replacement, Phase::Service).or_else(|cause| {
                    let left = self.intents.of(name).into_iter().find(|left| left.key() == key);
                    match left {
                        // A table whose regions cannot be opened must still be possible to disable and delete.
                        Some(Intent::Replace(Replacement { step: Step::Open, .. })) => Ok(()),
                        _ => Err(cause),
                    }
                })
            }
            Intent::TruncateRegion { ref region, .. } => {
                self.finish(&intent)?;
                // A table whose region cannot be opened must still be possible to disable and delete.
                if let Ok(table) = self.check_enabled(name)
                    && let Err(cause) = self.open(region, &table)
                {
                    tracing::error!(%region, %cause, "the truncated region could not be opened; it is tried again");
                }
                Ok(())
            }
            intent => {
                self.finish(&intent)?;
                if matches!(intent, Intent::Create { .. } | Intent::Copy(_)) {
                    self.open_what_opens(name)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Creates a table.
    pub(crate) fn create(
        &self,
        table: &Arc<TableDescriptor>,
        regions: &[RegionInfo],
    ) -> Result<(), Exception> {
        self.announce(table)?;
        self.build(table, regions)
            .and_then(|()| self.open_table(table.name()))
            .map_err(|failure| self.undo_creation(table.name(), failure))
    }

    /// Creates a table whose regions have the files of a snapshot.
    pub(crate) fn clone_table(
        &self,
        copy: &SnapshotCopy,
        version: &SnapshotVersion,
    ) -> Result<(), Exception> {
        self.announce(&copy.table)?;
        self.begin_copy(copy, version)
            .and_then(|()| self.finish(&Intent::Copy(copy.clone())))
            .and_then(|()| self.open_table(copy.table.name()))
            .map_err(|failure| self.undo_creation(copy.table.name(), failure))
    }

    /// Adds a new table to the view.
    fn announce(&self, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        let name = table.name();
        self.settle_namespace(name.namespace())?;
        // The namespace is checked and the table added under one lock. So either a deletion of the namespace sees the
        // table, or this check sees that the namespace is deleted.
        self.update_view(|view| {
            if view.tables.contains_key(name) {
                return Err(Exception::new(class::TABLE_EXISTS, name.to_string()));
            }
            if !view.namespaces.contains_key(name.namespace()) && !name.is_system() {
                return Err(Exception::new(class::NAMESPACE_NOT_FOUND, name.namespace()));
            }
            view.put_table(TableEntry::new(Arc::clone(table), TableState::Enabling, Vec::new()));
            Ok(())
        })
    }

    /// Carries out steps 1 to 5 of a creation.
    fn build(&self, table: &Arc<TableDescriptor>, regions: &[RegionInfo]) -> Result<(), Exception> {
        let intent = Intent::Create { table: Arc::clone(table), regions: regions.to_vec() };
        self.intents.begin(intent.clone()).map_err(of_storage)?;
        self.finish(&intent)
    }

    /// Carries out an intent from its first step, or a split or merge from its current step. Then removes the intent.
    pub(crate) fn finish(&self, intent: &Intent) -> Result<(), Exception> {
        match intent {
            Intent::Create { table, regions } => self.make(table, regions, &[], || {
                regions.iter().try_for_each(|region| {
                    layout::keep_region_info(&*self.files, &layout::region_folder(region), region)
                        .map_err(of_storage)
                })
            })?,
            Intent::Copy(copy) => match copy.kind {
                // A deletion of a link whose outcome is unknown may arrive after the link was written again. So links stay, and
                // are written again only if they are missing.
                CopyKind::Clone => {
                    self.make(&copy.table, &copy.regions, &copy.regions, || self.write_copies(copy))?;
                }
                CopyKind::Restoration(_) => {
                    if let RestoreOutcome::Undone(cause) = self.restore(copy)? {
                        let table = copy.table.name();
                        tracing::warn!(%table, %cause, "the restoration was ended; the table is as before");
                    }
                    return Ok(());
                }
            },
            Intent::Alter { table } => return self.finish_alteration(table),
            Intent::Delete { table } => {
                self.erase(table, &[])?;
                self.update_view(|view| view.remove_table(table));
            }
            Intent::DeleteFamilies { table, families } => self.finish_families(table, families)?,
            Intent::TruncateRegion { table, region } => {
                self.regions.close(region.encoded_name())?;
                self.regions.truncate(region, table, self.last_server(region).as_ref())?;
            }
            Intent::Replace(replacement) => return self.carry_on(replacement, Phase::Start),
        }
        self.intents.end(&intent.key()).map_err(of_storage)
    }

    /// Carries out steps 2 to 4 of a creation. `fill` writes the regions' folders; those of the regions `kept` may be there.
    fn make(
        &self,
        table: &Arc<TableDescriptor>,
        regions: &[RegionInfo],
        kept: &[RegionInfo],
        fill: impl FnOnce() -> Result<(), Exception>,
    ) -> Result<(), Exception> {
        self.erase(table.name(), kept)?;
        self.write_descriptor(table).map_err(of_storage)?;
        fill()?;
        let rows: Vec<_> =
            regions.iter().map(|region| RegionRow::new(region.clone(), RegionState::Closed)).collect();
        self.catalog.put_regions(&rows)?;
        self.catalog.put_state(table.name(), TableState::Enabling)?;
        self.update_view(|view| {
            view.put_table(TableEntry::new(Arc::clone(table), TableState::Enabling, rows));
        });
        Ok(())
    }

    /// Undoes a creation that failed. Returns the failure. If the creation cannot be undone, the message says so, and
    /// the next change of any table, or the next [chore](Master::start_chores), tries again.
    fn undo_creation(&self, table: &TableName, failure: Exception) -> Exception {
        let undone = self
            .intents
            .begin(Intent::Delete { table: table.clone() })
            .map_err(of_storage)
            .and_then(|()| self.erase(table, &[]))
            .and_then(|()| self.intents.end(&IntentKey::of_table(table)).map_err(of_storage));
        self.update_view(|view| view.remove_table(table));
        match undone {
            Ok(()) => failure,
            Err(also) => {
                self.failed_creations.lock().insert(table.clone());
                let message = format!("{}; and what was made could not be removed: {also}", failure.message);
                Exception { message, ..failure }
            }
        }
    }

    /// Closes the regions of a table and deletes its catalog rows and files, except the folders of the regions `kept`.
    fn erase(&self, table: &TableName, kept: &[RegionInfo]) -> Result<(), Exception> {
        // Rows of a creation that failed may be on their way. They would appear after this deletion.
        self.catalog.confirm_writes(table)?;
        let content = self.catalog.read().map_err(|error| Exception::io(error.to_string()))?;
        for row in content.regions.get(table).into_iter().flatten() {
            // What is in memory is deleted with the table.
            self.regions.close_as(row.region.encoded_name(), OnFullDisk::KeepsMemory)?;
        }
        self.catalog.remove(table)?;
        for row in content.regions.get(table).into_iter().flatten() {
            self.regions.forget(row.region.encoded_name())?;
        }
        let folder = layout::table(table);
        if kept.is_empty() {
            return self.regions.drop_folder(folder);
        }
        let is_kept = |part: &&str| kept.iter().any(|region| region.encoded_name().as_str() == *part);
        let entries = self.files.list(&folder).map_err(of_storage)?;
        let first = |entry: &storage::Entry| {
            let below = entry.name.below(&folder)?;
            below.split('/').next().filter(|part| !is_kept(part)).map(str::to_owned)
        };
        let parts: std::collections::BTreeSet<String> = entries.iter().filter_map(first).collect();
        parts.iter().try_for_each(|part| self.regions.drop_folder(folder.join(part)))
    }

    /// Carries out step 6 of a creation: opens all regions of a table and sets its state to ENABLED.
    pub(crate) fn open_table(&self, table: &TableName) -> Result<(), Exception> {
        let Some((descriptor, rows)) = self.read_view(|view| {
            let table = view.tables.get(table)?;
            Some((Arc::clone(&table.descriptor), table.serving().cloned().collect::<Vec<_>>()))
        }) else {
            return Err(table_not_found(table));
        };
        self.in_parallel(rows, |row| self.open(&row.region, &descriptor))?;
        self.set_state(table, TableState::Enabled)
    }

    /// Opens the regions of a table, and sets its state to ENABLED also if some cannot be opened: these are FAILED_OPEN, and
    /// are tried again. So no table stays ENABLING, a state in which it can be neither disabled nor deleted. The error names
    /// the first region that failed.
    pub(crate) fn open_what_opens(&self, table: &TableName) -> Result<(), Exception> {
        let rows: Option<Vec<RegionRow>> =
            self.read_view(|view| Some(view.tables.get(table)?.serving().cloned().collect()));
        self.in_parallel(rows.ok_or_else(|| table_not_found(table))?, |row| self.open_or_record(row))?;
        self.set_state(table, TableState::Enabled)?;
        let failed = self.read_view(|view| {
            let mut rows = view.tables.get(table)?.serving();
            rows.find(|row| row.state == RegionState::FailedOpen).map(|row| row.region.clone())
        });
        let Some(region) = failed else { return Ok(()) };
        let cause = self.failed_openings.lock().get(region.encoded_name()).cloned();
        let cause = cause.unwrap_or_else(|| CAUSE_IS_LOGGED.to_owned());
        Err(Exception::io(format!(
            "table {table} is enabled, but its region {region} could not be opened; it is tried again, and needs no further \
             call: {cause}"
        )))
    }

    /// Closes all regions of a table that is being disabled. So an operator can drop it when the disk is full.
    pub(crate) fn close_table(&self, table: &TableName) -> Result<(), Exception> {
        let rows = self.read_view(|view| {
            view.tables
                .get(table)
                .map(|table| table.serving().cloned().collect::<Vec<_>>())
                .unwrap_or_default()
        });
        self.in_parallel(rows, |row| self.close_to_disable(&row.region))
    }

    /// Opens a region and records it in hbase:meta. If the opening fails, records the region as FAILED_OPEN and returns
    /// the error.
    pub(crate) fn open(&self, region: &RegionInfo, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        self.open_on(region, table, self.last_server(region).as_ref())
    }

    /// Like [`open`](Master::open), on the server `wanted` if it is live.
    pub(crate) fn open_on(
        &self,
        region: &RegionInfo,
        table: &Arc<TableDescriptor>,
        wanted: Option<&ServerName>,
    ) -> Result<(), Exception> {
        match self.regions.open(region, table, wanted) {
            Ok(opened) => self.record_open(opened, table),
            Err(cause) => {
                if !env::planted(25) {
                    self.note_failed_opening(region, &cause);
                    self.record_failed_open(region);
                }
                Err(cause)
            }
        }
    }

    /// Records that a region is open; with this schema, unless it was open before.
    pub(crate) fn record_open(&self, opened: Opened, table: &TableDescriptor) -> Result<(), Exception> {
        let Opened { row, had_owner } = opened;
        let region = row.region.clone();
        self.record(row)?;
        if !had_owner {
            self.has_schema(&region, table);
        }
        Ok(())
    }

    /// Records that the opening of a region failed. If hbase:meta cannot be written now, only the view records it. This
    /// process retries the opening, and the next process opens the region anyway.
    pub(crate) fn record_failed_open(&self, region: &RegionInfo) {
        let row = RegionRow::new(region.clone(), RegionState::FailedOpen);
        if let Err(cause) = self.put_row(&row) {
            let cause = self.note_doubt(region.table(), cause);
            tracing::warn!(%region, %cause, "hbase:meta does not say that the region could not be opened");
        }
        self.update_view(|view| view.tables.get_mut(region.table()).map(|table| table.update(row)));
    }

    /// Writes a region's row to hbase:meta. That region itself has no row: only the view knows where it is.
    fn put_row(&self, row: &RegionRow) -> Result<(), Exception> {
        if row.region.is_meta() { Ok(()) } else { self.catalog.put_regions([row]) }
    }

    /// Returns the last server of a region, according to the view of hbase:meta; `None` if that does not have the
    /// region, or names no server.
    pub(crate) fn last_server(&self, region: &RegionInfo) -> Option<ServerName> {
        self.read_view(|view| {
            let table = view.tables.get(region.table())?;
            let row = table.regions.iter().find(|row| row.region.name() == region.name())?;
            row.server.clone().or_else(|| row.target.clone())
        })
    }

    /// Closes a region of a table that is being disabled or is disabled, and records it in hbase:meta.
    pub(crate) fn close_to_disable(&self, region: &RegionInfo) -> Result<(), Exception> {
        self.regions.close_as(region.encoded_name(), OnFullDisk::KeepsMemory)?;
        self.record(RegionRow::new(region.clone(), RegionState::Closed))
    }

    /// Closes a region and records it in hbase:meta.
    pub(crate) fn close(&self, region: &RegionInfo) -> Result<(), Exception> {
        self.regions.close(region.encoded_name())?;
        self.record(RegionRow::new(region.clone(), RegionState::Closed))
    }

    /// Writes a region's row to hbase:meta, then to the view.
    pub(crate) fn record(&self, row: RegionRow) -> Result<(), Exception> {
        let table = row.region.table().clone();
        self.put_row(&row).map_err(|cause| self.note_doubt(&table, cause))?;
        self.update_view(|view| {
            if let Some(table) = view.tables.get_mut(&table) {
                table.update(row);
            }
        });
        Ok(())
    }

    /// Writes a table's state to hbase:meta, then to the view.
    pub(crate) fn set_state(&self, table: &TableName, state: TableState) -> Result<(), Exception> {
        self.catalog.put_state(table, state).map_err(|cause| self.note_doubt(table, cause))?;
        self.update_view(|view| view.set_state(table, state));
        Ok(())
    }

    /// Returns a new region id. As in HBase it is the time, but no id is returned twice: a table that is created again
    /// at once must not get the log records of its predecessor.
    pub(crate) fn new_region_id(&self) -> RegionId {
        RegionId(self.clock.next().0)
    }

    /// Refuses a schema that cannot be served, and adds the attributes that HBase adds to every new schema.
    pub(crate) fn check_schema(&self, table: &mut TableDescriptor) -> Result<(), Exception> {
        self.name_tracker(table);
        sanity::check(table, &self.options.sanity).map_err(of_proto)
    }

    pub(crate) fn check_namespace_is_there(&self, table: &TableName) -> Result<(), Exception> {
        if self.read_view(|view| view.namespaces.contains_key(table.namespace())) {
            return Ok(());
        }
        Err(Exception::new(class::NAMESPACE_NOT_FOUND, table.namespace()))
    }

    /// Checks, before a submission, that the table exists and is not in `state`. As in HBase, the message of the
    /// exception is only the table's name.
    fn check_is_there_and_not(
        &self,
        table: &TableName,
        state: TableState,
        refusal: &'static str,
    ) -> Result<(), Exception> {
        self.read_view(|view| match view.tables.get(table) {
            None => Err(table_not_found(table)),
            Some(known) if known.state == state => Err(Exception::new(refusal, table.to_string())),
            Some(_) => Ok(()),
        })
    }

    /// Refuses a table that does not exist or is not disabled.
    pub(crate) fn check_modifiable(&self, table: &TableName) -> Result<(), Exception> {
        if table.is_meta() {
            return Err(Exception::io("Can't modify catalog tables"));
        }
        self.read_view(|view| match view.tables.get(table) {
            None => Err(table_not_found(table)),
            Some(table) if table.state != TableState::Disabled => Err(Exception::new(
                class::TABLE_NOT_DISABLED,
                format!("Not DISABLED; {}", table.state_words()),
            )),
            Some(_) => Ok(()),
        })
    }

    /// Calls `act` for every row, several at a time. Returns the first failure. Rows for which `act` was not called by
    /// then are skipped.
    pub(crate) fn in_parallel(
        &self,
        rows: Vec<RegionRow>,
        act: impl Fn(&RegionRow) -> Result<(), Exception> + Sync,
    ) -> Result<(), Exception> {
        let threads = self.options.open_threads.min(rows.len());
        let queue = Mutex::new(VecDeque::from(rows));
        let failure = Mutex::new(None);
        let work = || {
            while failure.lock().is_none() {
                let Some(row) = queue.lock().pop_front() else { break };
                if let Err(exception) = act(&row) {
                    failure.lock().get_or_insert(exception);
                }
            }
        };
        env::together("regions", threads, work);
        failure.into_inner().map_or(Ok(()), Err)
    }
}
