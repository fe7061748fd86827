//! Snapshots: a table's schema, its regions, and the names of their files at one moment.
//!
//! A snapshot copies no data. The janitor of the region servers keeps the files that its manifest names, in the data
//! folder or in the archive, until the snapshot is deleted. The layout is HBase's (`base/layout/src/snapshots.rs`).
//!
//! 1. The master stores an object that says that the snapshot is being taken. From now on no file of the table is
//!    deleted. No other snapshot, also none of that name, ever uses the name of this object.
//! 2. Each region is flushed, if the client asked for that, and lists its files. As in HBase, the regions do this at
//!    different moments.
//! 3. The master writes the manifest, then `.snapshotinfo`. Now the snapshot exists.
//! 4. The master deletes the object of step 1. If the object is stored late, a chore deletes it
//!    ([`Master::discard_running_snapshots`]).
//!
//! A deletion begins with `.snapshotinfo`, so a snapshot that exists is always complete. A start deletes the remains of
//! snapshots whose taking or deletion a crash has interrupted ([`Master::discard_incomplete_snapshots`]).
//!
//! In storage that several processes reach, a master may hang at any step, and go on after another one has taken over and
//! acknowledged a snapshot of the same name. A request may also arrive after a later one. So that neither does harm there:
//!
//! - A deletion first records an [intent](crate::intents), with which the snapshot ceases to exist. A master that was replaced
//!   cannot record one, and the next master carries out every deletion that it finds, before it serves.
//! - `.snapshotinfo` and `data.manifest` are never deleted but replaced by a tombstone (`base/layout/src/snapshots.rs`), each
//!   by a swap. Before the swap the master reads the version that it expects, and *then* checks that it still owns the
//!   intents. So that version is older than the takeover, and a later one makes the swap fail.
//! - A new snapshot first replaces `.snapshotinfo` by another tombstone, and at last that tombstone by its description. So a
//!   swap of an earlier snapshot fails. No two of these objects have the same bytes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use contract::{SnapshotContent, SnapshotOrder};
use env::sync::Mutex;
use prost::Message;
use proto::catalog::TableState;
use proto::{RegionInfo, TableDescriptor, TableName, pb};
use rpc::{Exception, class};
use storage::{Capability, FileName, Files, Kind, Outcome as Certainty, Version, swap_confirmed};

use crate::Master;
use crate::error::{of_proto, of_storage};
use crate::procedure::locks::LockSet;
use crate::procedure::{Context, NonceKey, Outcome, ProcedureId, ProcedureKind, Submission};
use crate::switches::Switch;

/// Maximum size of a `.snapshotinfo` that is read, in bytes.
pub(crate) const INFO_BYTES_MAX: usize = 1 << 20;
/// Maximum size of a manifest that is read, in bytes.
pub(crate) const MANIFEST_BYTES_MAX: usize = 512 << 20;
/// HBase's version number of snapshots that have one manifest file for all regions.
pub(crate) const LAYOUT_VERSION: i32 = 2;
/// The number of a snapshot's making, a field that Bellows adds to `.snapshotinfo` and to the manifest, where HBase ignores it.
///
/// A snapshot that is deleted may be taken again with the same name, creation time and files. The janitor knows a manifest by
/// the bytes of the `.snapshotinfo` beside it, and stores know a version by its bytes, so these must differ.
#[derive(Clone, PartialEq, Message)]
struct Making {
    #[prost(uint64, required, tag = "20000")]
    number: u64,
}

/// The attribute with the size above which a region is split.
const MAX_FILESIZE: &str = "MAX_FILESIZE";

impl Master {
    /// Submits the procedure that takes a snapshot of a table, and returns its id. A call that repeats an earlier one
    /// with the same nonce returns the earlier id.
    pub(crate) fn snapshot(
        self: &Arc<Self>,
        request: pb::SnapshotDescription,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        self.check_snapshots_enabled()?;
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        check_name(&request.name)?;
        let table: TableName = match &request.table {
            Some(table) => table.parse().map_err(of_proto)?,
            None => return Err(illegal("Descriptor doesn't apply to a table, so we can't build it.")),
        };
        if table.is_system() {
            return Err(illegal("System table snapshots are not allowed"));
        }
        if self.snapshot_info(&request.name)?.is_some() {
            return Err(already_stored(&request.name));
        }
        let snapshot = self.described(request);
        self.check_is_there(&snapshot, &table)?;
        let mut last = self.last_snapshots.lock();
        last.retain(|_, id| self.procedures.outcome(*id).is_some());
        let running = last.get(&snapshot.name).and_then(|id| self.procedures.outcome(*id));
        if let Some(Outcome::Running { .. }) = running {
            return Err(Exception::new(
                class::SNAPSHOT_CREATION,
                format!(
                    "Rejected taking {} because we are already running another snapshot on the same table or with the \
                     same name",
                    words_of(&snapshot)
                ),
            ));
        }
        let name = snapshot.name.clone();
        let (kind, locks) = (ProcedureKind::Snapshot, LockSet::table_shared(&table));
        let submission = Submission { kind, locks, nonce, target: self.target(kind, &name, None) };
        let id = self.submit_with(&table.clone(), submission, move |master, context| {
            master.keep_regions(&table, context);
            let taken = master.take_snapshot(snapshot.clone(), &table, context);
            taken.map_err(|cause| match cause.class.as_ref() {
                class::SNAPSHOT_CREATION | class::SNAPSHOT_EXISTS | class::PROCEDURE_ABORTED => cause,
                _ => Exception::new(
                    class::SNAPSHOT_CREATION,
                    format!("{} was not taken: {cause}", words_of(&snapshot)),
                ),
            })
        })?;
        last.insert(name, id);
        Ok(id)
    }

    /// Whether a snapshot is complete; `false` while it is being taken. Also returns its description. Fails with the
    /// cause if the last attempt to take it failed, and with HBase's `UnknownSnapshotException` if it does not exist.
    pub(crate) fn is_snapshot_done(
        &self,
        snapshot: Option<pb::SnapshotDescription>,
    ) -> Result<(bool, pb::SnapshotDescription), Exception> {
        self.check_snapshots_enabled()?;
        let Some(snapshot) = snapshot else {
            return Err(Exception::new(
                class::UNKNOWN_SNAPSHOT,
                "No snapshot name passed in request, can't figure out which snapshot you want to check.",
            ));
        };
        let id = self.last_snapshots.lock().get(&snapshot.name).copied();
        match id.and_then(|id| self.procedures.outcome(id)) {
            Some(Outcome::Running { .. }) => return Ok((false, snapshot)),
            Some(Outcome::Finished { result: Err(cause), .. }) => return Err(cause),
            Some(Outcome::Finished { result: Ok(_), .. }) | None => {}
        }
        match self.snapshot_info(&snapshot.name)? {
            Some(info) => Ok((true, info)),
            None => Err(Exception::new(
                class::UNKNOWN_SNAPSHOT,
                format!(
                    "Snapshot {} is not currently running or one of the known completed snapshots.",
                    words_of(&snapshot)
                ),
            )),
        }
    }

    /// Returns the descriptions of all snapshots, by name. A snapshot whose description cannot be read is left out and
    /// logged.
    pub(crate) fn completed_snapshots(&self) -> Result<Vec<pb::SnapshotDescription>, Exception> {
        self.check_snapshots_enabled()?;
        let objects = layout::snapshot_objects(&**self.snapshot_files()).map_err(of_storage)?;
        let deleted = self.intents.deleted_snapshots().map_err(of_storage)?;
        let mut found = Vec::new();
        for name in objects.complete.into_iter().filter(|name| !deleted.contains(name)) {
            match self.read_snapshot_info(&name) {
                Ok(info) => found.extend(info),
                Err(cause) => tracing::error!(snapshot = name, %cause, "the snapshot is not listed"),
            }
        }
        Ok(found)
    }

    /// Deletes a snapshot. Files that only the snapshot needs are deleted by the janitor.
    pub(crate) fn delete_snapshot(&self, name: &str) -> Result<(), Exception> {
        self.check_snapshots_enabled()?;
        check_name(name)?;
        let _alone = self.snapshot_use.lock();
        // An earlier deletion of this snapshot may have failed after its first step.
        let has_begun = self.intents.deleted_snapshots().map_err(of_storage)?.contains(name);
        if !has_begun && self.snapshot_info(name)?.is_none() {
            return Err(does_not_exist(name));
        }
        self.check_unused(name)?;
        if self.is_shared() {
            self.intents.begin_snapshot_deletion(name).map_err(of_storage)?;
            self.finish_snapshot_deletion(name)
        } else {
            self.remove_snapshot(name)
        }
        .map_err(of_storage)
    }

    /// Carries out a deletion whose intent is stored.
    fn finish_snapshot_deletion(&self, name: &str) -> storage::Result<()> {
        self.remove_snapshot(name)?;
        self.intents.end_snapshot_deletion(name)
    }

    /// Whether other processes reach the storage.
    fn is_shared(&self) -> bool {
        !self.files.capabilities().has(Capability::OneProcess)
    }

    /// Deletes snapshots whose time to live is over, and returns their number. Does nothing if snapshots or their
    /// cleanup are switched off.
    pub(crate) fn delete_expired_snapshots(&self) -> Result<usize, Exception> {
        let mut count = 0;
        if !self.options.snapshots_enabled || !self.switches.is_on(Switch::SnapshotCleanup) {
            return Ok(count);
        }
        for snapshot in self.completed_snapshots()? {
            if !self.is_expired(&snapshot) {
                continue;
            }
            // The loop continues if a snapshot cannot be deleted: an unfinished clone or restore may still need it, or
            // a client may have deleted it meanwhile.
            match self.delete_snapshot(&snapshot.name) {
                Ok(()) => {
                    let ttl_s = snapshot.ttl();
                    tracing::info!(snapshot = snapshot.name, ttl_s, "deleted an expired snapshot");
                    count += 1;
                }
                Err(cause) => tracing::warn!(snapshot = snapshot.name, %cause,
                    "the expired snapshot was not deleted; it is tried again"),
            }
        }
        Ok(count)
    }

    /// Whether a snapshot has expired. A snapshot with a time to live of 0 does not expire.
    pub(crate) fn is_expired(&self, snapshot: &pb::SnapshotDescription) -> bool {
        let ttl_ms = snapshot.ttl().saturating_mul(1000);
        ttl_ms > 0 && snapshot.creation_time().saturating_add(ttl_ms) < self.world.now().0
    }

    /// Finishes deletions of snapshots that have begun, and deletes the remains of snapshots whose taking a crash has
    /// interrupted.
    pub(crate) fn discard_incomplete_snapshots(&self) -> storage::Result<()> {
        for name in self.intents.deleted_snapshots()? {
            tracing::info!(snapshot = name, "the deletion of a snapshot that was interrupted is finished");
            self.finish_snapshot_deletion(&name)?;
        }
        for name in layout::snapshot_objects(&*self.files)?.incomplete {
            tracing::info!(snapshot = name, "what was left of an incomplete snapshot is deleted");
            self.remove_snapshot(&name)?;
        }
        self.discard_running(|_| true)
    }

    /// Deletes each object that says that a master takes a snapshot, unless this process takes it. Such an object is left by
    /// a crash, or stored late by a master that was replaced, and no file of its table is deleted while it exists. Keeps what
    /// HBase's ExportSnapshot has in the same folder while it copies files.
    pub(crate) fn discard_running_snapshots(&self) -> storage::Result<()> {
        self.discard_running(layout::is_of_taken_snapshot)
    }

    /// Deletes the objects in the folder of running snapshots that `is_discarded` chooses and this process has not stored.
    fn discard_running(&self, is_discarded: impl Fn(&FileName) -> bool) -> storage::Result<()> {
        let found = self.files.list(&layout::running_snapshots())?;
        // An object of this process is noted before it is stored, so the list has none that is not noted.
        let own = self.running_snapshots.lock().clone();
        let names = found.into_iter().map(|entry| entry.name);
        let left: Vec<_> = names.filter(|name| is_discarded(name) && !own.contains(name)).collect();
        if left.is_empty() {
            return Ok(());
        }
        // A master that has taken over may be taking a snapshot, whose object would be in the list.
        self.intents.check_owner()?;
        left.iter().try_for_each(|name| self.files.delete(name))
    }

    /// Returns the description of a snapshot; `None` if there is no complete snapshot of that name.
    pub(crate) fn snapshot_info(&self, name: &str) -> Result<Option<pb::SnapshotDescription>, Exception> {
        let is_deleted = self.intents.deleted_snapshots().map_err(of_storage)?.contains(name);
        if is_deleted || !has_manifest(&**self.snapshot_files(), name).map_err(of_storage)? {
            return Ok(None);
        }
        self.read_snapshot_info(name)
    }

    /// Returns what a snapshot's `.snapshotinfo` says; `None` if there is none. The caller knows that the snapshot is complete.
    fn read_snapshot_info(&self, name: &str) -> Result<Option<pb::SnapshotDescription>, Exception> {
        let file = layout::snapshot_info(name);
        match self.snapshot_files().read(&file, INFO_BYTES_MAX) {
            Ok(content) if layout::is_tombstone(content.len() as u64) => Ok(None),
            Ok(content) => pb::SnapshotDescription::decode(&content[..]).map(Some).map_err(|error| {
                Exception::new(
                    class::CORRUPTED_SNAPSHOT,
                    format!("Couldn't read snapshot info from:{file}: {error}"),
                )
            }),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(of_storage(error)),
        }
    }

    /// Returns the files that have the snapshots. On a read replica these are the primary's.
    fn snapshot_files(&self) -> &Arc<dyn Files> {
        self.primary_files.get().unwrap_or(&self.files)
    }

    /// Refuses calls about snapshots if snapshots are switched off.
    pub(crate) fn check_snapshots_enabled(&self) -> Result<(), Exception> {
        if self.options.snapshots_enabled {
            return Ok(());
        }
        Err(Exception {
            do_not_retry: true,
            ..Exception::new(
                class::UNSUPPORTED_OPERATION,
                "To use snapshots, You must add to the hbase-site.xml of the HBase Master: 'hbase.snapshot.enabled' \
                 property with value 'true'.",
            )
        })
    }

    /// Returns the description of a new snapshot, with defaults for everything that the client did not set.
    fn described(&self, request: pb::SnapshotDescription) -> pb::SnapshotDescription {
        let created = Some(request.creation_time()).filter(|time| *time > 0);
        let ttl = Some(request.ttl()).filter(|ttl| (1..=i64::MAX / 1000).contains(ttl));
        pb::SnapshotDescription {
            creation_time: Some(created.unwrap_or(self.world.now().0)),
            ttl: Some(ttl.unwrap_or(self.options.snapshot_ttl)),
            version: Some(LAYOUT_VERSION),
            ..request
        }
    }

    fn check_is_there(&self, snapshot: &pb::SnapshotDescription, table: &TableName) -> Result<(), Exception> {
        if self.read_view(|view| view.tables.contains_key(table)) {
            return Ok(());
        }
        Err(Exception::new(
            class::SNAPSHOT_CREATION,
            format!("Table '{}' doesn't exist, can't take snapshot.", snapshot.table()),
        ))
    }

    /// Locks all regions of a table for a snapshot, so that none is split, merged or moved meanwhile.
    fn keep_regions(&self, name: &TableName, context: &Context) {
        loop {
            let locked = self.regions_of(name);
            let locks = LockSet::snapshot(name, &locked);
            context.relock(locks.clone());
            // A split may have ended before the locks were granted. Then the locks must include the new regions.
            if locks.has_regions(&self.regions_of(name)) {
                return;
            }
        }
    }

    fn regions_of(&self, name: &TableName) -> Vec<RegionInfo> {
        self.read_view(|view| {
            let rows = view.tables.get(name).map(|table| &table.regions[..]).unwrap_or_default();
            rows.iter().map(|row| row.region.clone()).collect()
        })
    }

    /// Fails if a failed change of the table is not finished. The caller has the locks of all its regions, so no change is
    /// under way: one that came between the two times at which the snapshot took its locks has failed. It may have
    /// deleted files.
    fn check_settled(&self, name: &TableName) -> Result<(), Exception> {
        if self.intents.of(name).is_empty() && !self.is_in_doubt(name) {
            return Ok(());
        }
        Err(Exception::io(format!(
            "a change of table {name} is not finished, which is tried every ten seconds: take the snapshot again"
        )))
    }

    /// Takes a snapshot. The caller has locks, so no other procedure changes the table or its regions meanwhile, or
    /// takes another snapshot of this name. The snapshot can be aborted until the manifest is written.
    pub(crate) fn take_snapshot(
        &self,
        mut snapshot: pb::SnapshotDescription,
        name: &TableName,
        context: &Context,
    ) -> Result<(), Exception> {
        use pb::snapshot_description::Type;
        self.check_settled(name)?;
        let found = self.read_view(|view| {
            let table = view.tables.get(name)?;
            Some((Arc::clone(&table.descriptor), table.regions.clone(), table.state))
        });
        let Some((table, rows, state)) = found else {
            return self.check_is_there(&snapshot, name);
        };
        let content = match (state, snapshot.r#type()) {
            (TableState::Disabled, _) => {
                snapshot.set_type(Type::Disabled);
                SnapshotContent::Closed
            }
            (TableState::Enabled, Type::Skipflush) => SnapshotContent::Files,
            (TableState::Enabled, Type::Flush | Type::Disabled) => SnapshotContent::Flushed,
            (TableState::Enabling | TableState::Disabling, _) => {
                let cause = "org.apache.hadoop.hbase.snapshot.TablePartiallyOpenException";
                return Err(Exception::new(
                    class::SNAPSHOT_CREATION,
                    format!("Table is not entirely open or closed: {cause}: {name} isn't fully open."),
                ));
            }
        };
        if self.snapshot_info(&snapshot.name)?.is_some() {
            return Err(already_stored(&snapshot.name));
        }
        let places = self.clear_places(&snapshot.name).map_err(of_storage)?;
        let running = layout::taken_snapshot(&snapshot.name, self.world.random());
        self.running_snapshots.lock().insert(running.clone());
        let marked =
            swap_confirmed(&*self.files, &running, None, &snapshot.encode_to_vec()).map_err(of_storage);
        let listed: Result<Vec<_>, Exception> = marked.and_then(|_| {
            let manifests = Mutex::new(BTreeMap::new());
            self.in_parallel(rows.clone(), |row| {
                context.check_aborted()?;
                let content = match content {
                    _ if row.region.is_split() => SnapshotContent::Closed,
                    // HBCK2 may have set the state of the table without closing its regions.
                    SnapshotContent::Closed if self.regions.owner(row.region.encoded_name()).is_some() => {
                        SnapshotContent::Flushed
                    }
                    content => content,
                };
                let order = SnapshotOrder { region: row.region.clone(), table: Arc::clone(&table), content };
                let listed = self.regions.snapshot(order)?;
                listed.into_iter().try_for_each(|listed| add_listed(&mut manifests.lock(), listed))
            })?;
            context.pass_point_of_no_return()?;
            Ok(manifests.into_inner().into_values().collect())
        });
        let listed = listed.map_err(|cause| (cause, Certainty::DidNotHappen));
        let written = listed.and_then(|regions| self.write_snapshot(&snapshot, &table, regions, places));
        match &written {
            Err((cause, Certainty::MayHaveHappened)) => tracing::error!(
                snapshot = snapshot.name, %cause,
                "it is unknown whether the snapshot is complete; the next start decides, and the table's files are kept until then"
            ),
            _ => {
                let remains = if written.is_ok() { Ok(()) } else { self.remove_snapshot(&snapshot.name) };
                // Also a master that was replaced deletes this object, which only its snapshot uses.
                let marker = self.files.delete(&running);
                self.running_snapshots.lock().remove(&running);
                if let Err(cause) = remains.and(marker) {
                    tracing::warn!(snapshot = snapshot.name, %cause,
                        "what is left of taking the snapshot is deleted later, by the next start at the latest; files of the table stay until then");
                }
            }
        }
        written.map_err(|(cause, _)| cause)
    }

    /// Writes the manifest, and then `.snapshotinfo`, with which the snapshot exists. As in HBase, the snapshot has the
    /// MAX_FILESIZE that the client asks for if the table has none.
    fn write_snapshot(
        &self,
        snapshot: &pb::SnapshotDescription,
        table: &TableDescriptor,
        region_manifests: Vec<pb::SnapshotRegionManifest>,
        places: Places,
    ) -> Result<(), (Exception, Certainty)> {
        let mut table = table.clone();
        if let Some(bytes) = snapshot.max_file_size.filter(|bytes| *bytes > 0)
            && table.attributes().text(MAX_FILESIZE).is_none()
        {
            table.attributes_mut().set(MAX_FILESIZE.into(), bytes.to_string().into());
        }
        let manifest = pb::SnapshotDataManifest { table_schema: (&table).into(), region_manifests };
        let making = Making { number: self.world.random() }.encode_to_vec();
        let place = layout::snapshot_manifest(&snapshot.name);
        let manifest = [manifest.encode_to_vec(), making.clone()].concat();
        swap_confirmed(&*self.files, &place, places.manifest.as_ref(), &manifest)
            .map_err(|error| (of_storage(error), Certainty::DidNotHappen))?;
        // A master that takes over replaces the manifests of incomplete snapshots. So a snapshot counts only with both objects,
        // and both may only exist if the manifest was there before the other master came.
        self.intents.check_owner().map_err(|error| (of_storage(error), Certainty::DidNotHappen))?;
        let place = layout::snapshot_info(&snapshot.name);
        let info = [snapshot.encode_to_vec(), making].concat();
        swap_confirmed(&*self.files, &place, places.info.as_ref(), &info)
            .map(drop)
            .map_err(|error| (of_storage(error.clone()), error.outcome()))
    }

    /// Deletes what is left of an incomplete snapshot, and returns what a new one of that name replaces.
    fn clear_places(&self, name: &str) -> storage::Result<Places> {
        if !self.is_shared() {
            self.remove_snapshot(name)?;
            return Ok(Places::default());
        }
        // Waits for the end of a deletion of this name, or finishes one that has failed.
        let _alone = self.snapshot_use.lock();
        if self.intents.deleted_snapshots()?.contains(name) {
            self.finish_snapshot_deletion(name)?;
        }
        self.bury(name, true)
    }

    /// Deletes a snapshot, if it exists.
    fn remove_snapshot(&self, name: &str) -> storage::Result<()> {
        if self.is_shared() {
            return self.bury(name, false).map(drop);
        }
        let objects = self.files.list(&layout::snapshot(name))?;
        if objects.is_empty() {
            return Ok(());
        }
        // Once the deletion of `.snapshotinfo` is durable, the other objects are garbage.
        self.files.delete(&layout::snapshot_info(name))?;
        let deleted = layout::deleted_snapshot(name);
        storage::make_deletions_durable(&*self.files, &deleted)?;
        for entry in objects.iter().filter(|entry| entry.name != deleted) {
            self.files.delete(&entry.name)?;
        }
        self.files.delete(&deleted)
    }

    /// Replaces the objects of a snapshot by tombstones, first `.snapshotinfo`, and returns their versions. With `again`, replaces
    /// a `.snapshotinfo` that is a tombstone or does not exist, too.
    fn bury(&self, name: &str, again: bool) -> storage::Result<Places> {
        let (info, manifest) = (layout::snapshot_info(name), layout::snapshot_manifest(name));
        let found = (Found::load(&*self.files, &info)?, Found::load(&*self.files, &manifest)?);
        // Only HBase writes other objects there, so no later snapshot has any of these names.
        let others = self.files.list(&layout::snapshot(name))?;
        let others = others.iter().filter(|entry| entry.name != info && entry.name != manifest);
        self.intents.check_owner()?;
        let tombstone = |name: &FileName, version: Option<&Version>| {
            let bytes: [u8; layout::TOMBSTONE_BYTES] = self.world.random().to_be_bytes();
            swap_confirmed(&*self.files, name, version, &bytes).map(Some)
        };
        let mut places = Places { info: found.0.version, manifest: found.1.version };
        // A master that was replaced may have written the manifest, and may be about to write the `.snapshotinfo`.
        if again || found.0.counts || found.1.counts {
            places.info = tombstone(&info, places.info.as_ref())?;
        }
        if found.1.counts {
            places.manifest = tombstone(&manifest, places.manifest.as_ref())?;
        }
        for entry in others {
            self.files.delete(&entry.name)?;
        }
        Ok(places)
    }
}

/// The versions of the objects that a new snapshot replaces; `None` if there is no object.
#[derive(Default)]
struct Places {
    info: Option<Version>,
    manifest: Option<Version>,
}

/// An object of a snapshot.
struct Found {
    /// `None` if there is no object.
    version: Option<Version>,
    /// Whether there is an object that is no tombstone.
    counts: bool,
}

impl Found {
    fn load(files: &dyn Files, name: &FileName) -> storage::Result<Found> {
        match files.load(name, MANIFEST_BYTES_MAX) {
            Ok(object) => {
                let counts = !layout::is_tombstone(object.content.len() as u64);
                Ok(Found { version: Some(object.version), counts })
            }
            Err(error) if error.kind() == Kind::NotFound => Ok(Found { version: None, counts: false }),
            Err(error) => Err(error),
        }
    }
}

/// Whether a snapshot has its manifest, or need not be asked: a manifest that is gone is damage, and one that never was is that
/// of an older format of HBase. Both are reported when the manifest is read. See [`layout::SnapshotObjects::incomplete`].
fn has_manifest(files: &dyn Files, name: &str) -> storage::Result<bool> {
    if files.capabilities().has(Capability::OneProcess) {
        return Ok(true);
    }
    match files.read(&layout::snapshot_manifest(name), layout::TOMBSTONE_BYTES) {
        Ok(content) if layout::is_tombstone(content.len() as u64) => return Ok(false),
        Ok(_) => return Ok(true),
        Err(error) if error.kind() == Kind::TooLarge => return Ok(true),
        Err(error) if error.kind() == Kind::NotFound => {}
        Err(error) => return Err(error),
    }
    let folder = layout::snapshot(name);
    let objects = files.list(&folder)?;
    Ok(objects.iter().any(|entry| entry.name.below(&folder).is_some_and(layout::is_of_old_snapshot)))
}

/// Adds the files of a region to the regions of a manifest, by their names. All regions of a table list their MOB files as
/// files of the same region, which then has each file once.
fn add_listed(
    manifests: &mut BTreeMap<Bytes, pb::SnapshotRegionManifest>,
    listed: pb::SnapshotRegionManifest,
) -> Result<(), Exception> {
    let region = RegionInfo::try_from(&listed.region_info).map_err(of_proto)?;
    match manifests.entry(region.name().clone()) {
        Entry::Vacant(entry) => {
            entry.insert(listed);
        }
        Entry::Occupied(mut entry) => {
            let known = &mut entry.get_mut().family_files;
            for family in listed.family_files {
                match known.iter_mut().find(|known| known.family_name == family.family_name) {
                    Some(known) => {
                        known.store_files.extend(family.store_files);
                        known.store_files.sort_by(|one, other| one.name.cmp(&other.name));
                        known.store_files.dedup_by(|one, other| one.name == other.name);
                    }
                    None => known.push(family),
                }
            }
        }
    }
    Ok(())
}

/// Refuses a name that HBase refuses: it must be a valid table name.
pub(crate) fn check_name(name: &str) -> Result<(), Exception> {
    TableName::new("default", name).map(drop).map_err(of_proto)
}

pub(crate) fn does_not_exist(name: &str) -> Exception {
    Exception::new(
        class::SNAPSHOT_DOES_NOT_EXIST,
        format!("Snapshot '{name}' doesn't exist on the filesystem"),
    )
}

fn already_stored(name: &str) -> Exception {
    Exception::new(class::SNAPSHOT_EXISTS, format!("Snapshot '{name}' already stored on the filesystem."))
}

fn illegal(words: &str) -> Exception {
    Exception::do_not_retry(format!("{}: {words}", class::ILLEGAL_ARGUMENT))
}

/// Returns a description of a snapshot in HBase's format.
pub(crate) fn words_of(snapshot: &pb::SnapshotDescription) -> String {
    format!(
        "{{ ss={} table={} type={} ttl={} }}",
        snapshot.name,
        snapshot.table(),
        snapshot.r#type().as_str_name(),
        snapshot.ttl()
    )
}
