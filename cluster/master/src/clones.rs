//! Tables made from snapshots: clones under a new name, and restorations of existing tables.
//!
//! In both cases the regions are new, and their files are links to the snapshot's files; no data is copied. A snapshot
//! cannot be deleted while an intent names it.
//!
//! A clone is a creation (see [`crate::tables`]) whose regions get their links before their rows. A restoration needs a
//! disabled table, which stays disabled. A region of it that is open all the same, because HBCK2 has only set the state of
//! the table, is closed before each of the steps 2 to 6: no write may be acknowledged by a region that is about to go.
//!
//! 1. Store the intent: schema, new regions, and the snapshot.
//! 2. Write the new regions' folders, with links.
//! 3. Store in the intent that hbase:meta may change. If this step or an earlier one fails, the restoration ends, and
//!    the table is unchanged.
//! 4. In one mutation, replace the old regions in hbase:meta by the new ones.
//! 5. Write the snapshot's schema as the table's, and delete the old regions' folders. Files that the snapshot or a
//!    link needs move to the archive.
//! 6. Remove the intent.
//!
//! After a crash or a failure, the intent is carried out from step 2, or from step 4 if step 3 was done. From then on a
//! restoration is never undone: the mutation may have failed and take place later, on a full disk once there is room,
//! and a read of hbase:meta does not show it until then. If the master only remembered that it has tried, a restart
//! would have to trust such a read.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use contract::{CloneOrder, OnFullDisk};
use prost::Message;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{EncodedName, RegionInfo, TableDescriptor, TableName, pb};
use rpc::{Exception, class};
use storage::Kind;

use crate::error::{is_unchecked, of_proto, of_storage};
use crate::intents::{Intent, IntentKey};
use crate::procedure::{NonceKey, ProcedureId, ProcedureKind};
use crate::snapshots::{INFO_BYTES_MAX, MANIFEST_BYTES_MAX, check_name, does_not_exist};
use crate::view::TableEntry;
use crate::{Master, trackers};

/// The change that makes a table from a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotCopy {
    /// The name of the snapshot.
    pub snapshot: String,
    /// Whether the copy is a clone or a restoration.
    pub kind: CopyKind,
    /// The schema of the table.
    pub table: Arc<TableDescriptor>,
    /// The new regions of the table.
    pub regions: Vec<RegionInfo>,
}

/// The content of `.snapshotinfo`, which no two snapshots have in common.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SnapshotVersion(Vec<u8>);

/// The kind of a copy of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyKind {
    /// A clone: the table is new.
    Clone,
    /// A restoration: the table existed.
    Restoration(RestorationStep),
}

/// The stored step of a restoration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestorationStep {
    /// Write the new regions' folders.
    Fill,
    /// Delete these folders again. They are never filled again: a deletion whose outcome is unknown may still arrive.
    Undo,
    /// Replace the regions in hbase:meta. From this step on the restoration cannot be undone.
    Record,
}

/// The outcome of a restoration.
pub(crate) enum RestoreOutcome {
    /// The table has the content of the snapshot.
    Done,
    /// The table is as it was before the restoration.
    Undone(Exception),
}

impl Master {
    /// Submits the restoration of a disabled table or, if no table has the name, a clone. Returns the procedure's id.
    /// The snapshot's permissions are ignored.
    pub(crate) fn restore_snapshot(
        self: &Arc<Self>,
        request: &pb::RestoreSnapshotRequest,
    ) -> Result<ProcedureId, Exception> {
        self.check_snapshots_enabled()?;
        let nonce = NonceKey::of(request.nonce_group, request.nonce);
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        let snapshot = request.snapshot.name.clone();
        check_name(&snapshot)?;
        let table: TableName = request.snapshot.table().parse().map_err(of_proto)?;
        self.check_usable(&snapshot)?;
        if let Some(cause) = self.unreachable_tables.read().get(&table) {
            return Err(Exception::do_not_retry(format!(
                "a table of this name exists and cannot be served, so none is created in its place: {cause}"
            )));
        }
        let kind = match self.read_view(|view| view.tables.get(&table).map(|table| table.state)) {
            None => CopyKind::Clone,
            Some(TableState::Disabled) => CopyKind::Restoration(RestorationStep::Fill),
            Some(_) => {
                return Err(Exception {
                    do_not_retry: true,
                    ..Exception::new(
                        class::UNSUPPORTED_OPERATION,
                        format!("Table '{table}' must be disabled in order to perform a restore operation."),
                    )
                });
            }
        };
        if kind == CopyKind::Clone {
            self.check_namespace_is_there(&table)?;
        }
        let tracker =
            request.custom_sft.clone().filter(|tracker| !tracker.is_empty() && kind == CopyKind::Clone);
        // The request is checked before a procedure is submitted. An error of the procedure would be less precise for
        // clients.
        if let Err(refusal) = self.plan(&snapshot, &table, kind, tracker.as_deref())
            && !is_unchecked(&refusal)
        {
            return Err(refusal);
        }
        let name = table.clone();
        let procedure = match kind {
            CopyKind::Clone => ProcedureKind::Clone,
            CopyKind::Restoration(_) => ProcedureKind::Restore,
        };
        self.submit(procedure, &name, nonce, move |master, _| {
            let (copy, version) = master.plan(&snapshot, &table, kind, tracker.as_deref())?;
            let told = |cause: Exception| match cause.class.starts_with("org.apache.hadoop.hbase.") {
                true => cause,
                false => Exception::new(
                    class::RESTORE_SNAPSHOT,
                    format!("table {table} could not be made from snapshot {snapshot}: {}", cause.message),
                ),
            };
            match kind {
                CopyKind::Clone => master.clone_table(&copy, &version).map_err(told),
                CopyKind::Restoration(_) => {
                    master.check_modifiable(&table)?;
                    master.begin_copy(&copy, &version)?;
                    match master.restore(&copy).map_err(told)? {
                        RestoreOutcome::Done => Ok(()),
                        RestoreOutcome::Undone(cause) => Err(told(cause)),
                    }
                }
            }
        })
    }

    /// Refuses the deletion of a snapshot that an unfinished change needs. The caller holds `snapshot_use`.
    pub(crate) fn check_unused(&self, snapshot: &str) -> Result<(), Exception> {
        for intent in self.intents.all() {
            if let Intent::Copy(copy) = intent
                && copy.snapshot == snapshot
            {
                return Err(Exception::new(
                    class::SNAPSHOT,
                    format!(
                        "snapshot '{snapshot}' is needed until table {} is made from it; delete it afterwards",
                        copy.table.name()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Refuses a snapshot that does not exist or has expired.
    fn check_usable(&self, snapshot: &str) -> Result<(), Exception> {
        let info = self.snapshot_info(snapshot)?.ok_or_else(|| does_not_exist(snapshot))?;
        if self.is_expired(&info) {
            return Err(Exception::new(
                class::SNAPSHOT_TTL_EXPIRED,
                format!("TTL for snapshot '{snapshot}' has already expired."),
            ));
        }
        Ok(())
    }

    /// Determines the schema and the regions of a table made from a snapshot. Returns them with the version of the snapshot from
    /// which they are. `tracker` is the store file tracker that the client chose for a clone.
    pub(crate) fn plan(
        &self,
        snapshot: &str,
        name: &TableName,
        kind: CopyKind,
        tracker: Option<&str>,
    ) -> Result<(SnapshotCopy, SnapshotVersion), Exception> {
        // Read before the manifest. So if the snapshot is replaced meanwhile, the version is not the newest.
        let version = self.snapshot_version(snapshot)?;
        let manifest = self.snapshot_manifest(snapshot)?;
        let source = TableDescriptor::try_from(manifest.table_schema.clone()).map_err(of_proto)?;
        if kind != CopyKind::Clone && source.name() != name {
            return Err(Exception::new(
                class::RESTORE_SNAPSHOT,
                format!(
                    "snapshot '{snapshot}' is of table {}; table {name} cannot be restored from it",
                    source.name()
                ),
            ));
        }
        let mut schema = manifest.table_schema.clone();
        schema.table_name = Some(name.into());
        let mut table = TableDescriptor::try_from(schema).map_err(of_proto)?;
        if let Some(tracker) = tracker {
            trackers::choose_for_clone(&mut table, tracker);
        }
        match kind {
            CopyKind::Clone => {
                self.check_schema(&mut table)?;
                self.check_trackers_of_new(&table)?;
            }
            CopyKind::Restoration(_) => {
                let present =
                    self.read_view(|view| view.tables.get(name).map(|table| Arc::clone(&table.descriptor)));
                if let Some(present) = &present {
                    trackers::inherit(&mut table, present);
                    self.check_trackers_of_restoration(present, &table)?;
                }
                self.check_schema(&mut table)?;
            }
        }
        let id = self.new_region_id();
        let regions = sources(snapshot, &manifest)?.into_values().map(|(region, _)| {
            RegionInfo::new(name.clone(), region.start_key().clone(), region.end_key().clone(), id)
        });
        let regions = regions.collect::<Result<_, _>>().map_err(of_proto)?;
        let copy = SnapshotCopy { snapshot: snapshot.to_owned(), kind, table: Arc::new(table), regions };
        Ok((copy, version))
    }

    fn snapshot_version(&self, snapshot: &str) -> Result<SnapshotVersion, Exception> {
        match self.files.read(&layout::snapshot_info(snapshot), INFO_BYTES_MAX) {
            Ok(content) => Ok(SnapshotVersion(content)),
            Err(error) if error.kind() == Kind::NotFound => Err(does_not_exist(snapshot)),
            Err(error) => Err(of_storage(error)),
        }
    }

    /// Stores the intent of a copy. From then on the snapshot cannot be deleted. Fails if the snapshot was deleted since the copy
    /// was planned, also if one of the same name was taken since.
    pub(crate) fn begin_copy(&self, copy: &SnapshotCopy, version: &SnapshotVersion) -> Result<(), Exception> {
        let _alone = self.snapshot_use.lock();
        self.check_usable(&copy.snapshot)?;
        if self.snapshot_version(&copy.snapshot)? != *version {
            return Err(Exception::new(
                class::RESTORE_SNAPSHOT,
                format!(
                    "snapshot '{}' was deleted and another one of this name taken while it was read, so table {} was not made from \
                     it; call again for the newer one",
                    copy.snapshot,
                    copy.table.name()
                ),
            ));
        }
        let intent = Intent::Copy(copy.clone());
        match copy.kind {
            CopyKind::Clone => self.intents.begin(intent).map_err(of_storage),
            CopyKind::Restoration(_) => self.begin_change(&intent),
        }
    }

    /// Writes the folders of the copy's regions, with links. Can be repeated until a region was opened.
    pub(crate) fn write_copies(&self, copy: &SnapshotCopy) -> Result<(), Exception> {
        let manifest = self.snapshot_manifest(&copy.snapshot)?;
        let mut sources = sources(&copy.snapshot, &manifest)?;
        let rows = copy.regions.iter().map(|region| RegionRow::new(region.clone(), RegionState::Closed));
        let orders: Result<BTreeMap<Bytes, CloneOrder>, Exception> = copy
            .regions
            .iter()
            .map(|region| match sources.remove(region.start_key()) {
                Some((_, source)) => {
                    Ok((region.name().clone(), CloneOrder { region: region.clone(), source: source.clone() }))
                }
                None => Err(corrupted(&copy.snapshot, &format!("it has no region that begins as {region}"))),
            })
            .collect();
        let orders = orders?;
        self.in_parallel(rows.collect(), |row| {
            let order = orders[row.region.name()].clone();
            layout::keep_region_info(&*self.files, &layout::region_folder(&row.region), &row.region)
                .map_err(of_storage)?;
            self.regions.write_clone(order)
        })
    }

    /// Carries out a restoration from its second step on, and removes its intent when the restoration is done or
    /// undone. If a later step fails, returns the error and leaves the intent, so that the restoration continues later.
    pub(crate) fn restore(&self, copy: &SnapshotCopy) -> Result<RestoreOutcome, Exception> {
        let name = copy.table.name();
        if copy.kind == CopyKind::Restoration(RestorationStep::Undo) {
            self.undo_restoration(copy)?;
            return Ok(RestoreOutcome::Undone(Exception::io("it had failed before, and the log says why")));
        }
        let content = self.catalog.read().map_err(|error| Exception::io(error.to_string()))?;
        let found = content.regions.get(name).cloned().unwrap_or_default();
        let is_new = |region: &RegionInfo| copy.regions.iter().any(|new| new.name() == region.name());
        let old: Vec<RegionInfo> =
            found.iter().map(|row| row.region.clone()).filter(|region| !is_new(region)).collect();
        // Releases that did not store the step have left intents whose regions are recorded.
        let is_recorded = found.iter().any(|row| is_new(&row.region));
        if copy.kind == CopyKind::Restoration(RestorationStep::Record) || is_recorded {
            self.close_left_open(&old)?;
        } else if let Err(cause) = self
            .close_left_open(&old)
            .and_then(|()| self.write_copies(copy))
            .and_then(|()| self.store_step(copy, RestorationStep::Record))
        {
            if let Err(also) = self.undo_restoration(copy) {
                tracing::warn!(table = %name, %cause, %also, "the restoration has failed, and is undone later");
                return Err(also);
            }
            return Ok(RestoreOutcome::Undone(cause));
        }
        let row = |region: &RegionInfo| RegionRow::new(region.clone(), RegionState::Closed);
        let rows: Vec<RegionRow> = copy.regions.iter().map(row).collect();
        self.catalog.replace_regions(&rows, &old)?;
        self.catalog.put_state(name, TableState::Disabled)?;
        self.write_descriptor(&copy.table).map_err(of_storage)?;
        self.update_view(|view| {
            view.put_table(TableEntry::new(Arc::clone(&copy.table), TableState::Disabled, rows));
        });
        self.drop_other_regions(copy)?;
        self.intents.end(&IntentKey::of_table(name)).map_err(of_storage)?;
        Ok(RestoreOutcome::Done)
    }

    /// Closes those of the regions of a disabled table that are open, and records that.
    fn close_left_open(&self, regions: &[RegionInfo]) -> Result<(), Exception> {
        let is_open = |region: &&RegionInfo| self.regions.owner(region.encoded_name()).is_some();
        for region in regions.iter().filter(is_open) {
            tracing::warn!(%region, table = %region.table(), "a region of a disabled table is open and is closed");
            self.close_to_disable(region)?;
        }
        Ok(())
    }

    fn store_step(&self, copy: &SnapshotCopy, step: RestorationStep) -> Result<(), Exception> {
        let copy = SnapshotCopy { kind: CopyKind::Restoration(step), ..copy.clone() };
        self.intents.begin(Intent::Copy(copy)).map_err(of_storage)
    }

    /// Deletes the folders of the copy's regions and removes the intent.
    fn undo_restoration(&self, copy: &SnapshotCopy) -> Result<(), Exception> {
        // The step `Record` may be stored although its write failed. A start would then record regions without folders.
        self.store_step(copy, RestorationStep::Undo)?;
        let mut folders = copy.regions.iter().map(layout::region_folder);
        folders.try_for_each(|folder| self.regions.drop_folder(folder))?;
        self.intents.end(&IntentKey::of_table(copy.table.name())).map_err(of_storage)
    }

    /// Deletes the folders of all regions of the table except the copy's.
    fn drop_other_regions(&self, copy: &SnapshotCopy) -> Result<(), Exception> {
        let folder = layout::table(copy.table.name());
        let mut others = std::collections::BTreeSet::new();
        for entry in self.files.list(&folder).map_err(of_storage)? {
            let first =
                entry.name.below(&folder).and_then(|below| below.split('/').next()).map(EncodedName::parse);
            others.extend(first.and_then(Result::ok));
        }
        for region in &copy.regions {
            others.remove(region.encoded_name());
        }
        for region in others {
            // hbase:meta does not have the region any more, but a server may. What it kept in memory is forgotten first: a
            // full disk may have no room for it, and room comes from the folders.
            self.regions.close_as(&region, OnFullDisk::KeepsMemory)?;
            self.regions.forget(&region)?;
            self.regions.drop_folder(layout::region(copy.table.name(), &region))?;
        }
        Ok(())
    }

    /// Returns the manifest of a complete snapshot. If the manifest is missing or damaged, fails with HBase's
    /// `CorruptedSnapshotException`.
    pub(crate) fn snapshot_manifest(&self, name: &str) -> Result<pb::SnapshotDataManifest, Exception> {
        let file = layout::snapshot_manifest(name);
        let corrupt = |found: String| {
            Exception::new(
                class::CORRUPTED_SNAPSHOT,
                format!("snapshot {name} cannot be used, its manifest {file} cannot be read: {found}"),
            )
        };
        match self.files.read(&file, MANIFEST_BYTES_MAX) {
            Ok(content) if layout::is_tombstone(content.len() as u64) => Err(does_not_exist(name)),
            Ok(content) => {
                pb::SnapshotDataManifest::decode(&content[..]).map_err(|error| corrupt(error.to_string()))
            }
            Err(error) if error.kind() == Kind::NotFound => Err(corrupt(error.to_string())),
            Err(error) => Err(of_storage(error)),
        }
    }
}

/// Returns the regions of a snapshot by their first row. Leaves out split parents, whose files the daughters name, and
/// the region of MOB files.
fn sources<'a>(
    snapshot: &str,
    manifest: &'a pb::SnapshotDataManifest,
) -> Result<BTreeMap<Bytes, (RegionInfo, &'a pb::SnapshotRegionManifest)>, Exception> {
    let mut found = BTreeMap::new();
    for source in &manifest.region_manifests {
        let region = RegionInfo::try_from(&source.region_info)
            .map_err(|error| corrupted(snapshot, &error.to_string()))?;
        // In HBase's snapshots the MOB files of a table belong to a region that no server opens. It is left out: a
        // clone finds these files by the name of their table.
        let is_of_mob_files = *region.encoded_name() == layout::mob_region(region.table());
        if !region.is_split() && region.replica().0 == 0 && !is_of_mob_files {
            found.insert(region.start_key().clone(), (region, source));
        }
    }
    Ok(found)
}

fn corrupted(snapshot: &str, found: &str) -> Exception {
    Exception::new(class::CORRUPTED_SNAPSHOT, format!("snapshot {snapshot} cannot be used: {found}"))
}
