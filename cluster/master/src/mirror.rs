//! The master of a read replica. Its catalog is a copy of the primary's, in which every region is on the replica's own
//! server.
//!
//! It is an ordinary master, whose own files have only hbase:meta and hbase:namespace. [`Mirror::follow`] is called
//! periodically with the primary's catalog. It opens regions that are new in that catalog, closes those that are not in
//! it any more, and writes the replica's hbase:meta, in which clients find this server. Calls that would change
//! something are refused.
//!
//! A region that cannot be opened, for instance because the primary is dropping it, is FAILED_OPEN until a later call
//! of `follow` opens it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use contract::CatalogRow;
use env::sync::Mutex;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{RegionInfo, TableDescriptor, TableName};
use rpc::Exception;
use storage::{Files, Kind, Version};

use crate::catalog::{CatalogContent, namespaces_of};
use crate::intents::Intents;
use crate::procedure::locks::LockSet;
use crate::procedure::{ProcedureId, ProcedureKind, Submission};
use crate::view::TableEntry;
use crate::{Error, Master, descriptors};

/// The part of a read replica that follows the primary.
pub trait FollowedPrimary: Send + Sync {
    /// Waits until this replica shows everything that the primary had acknowledged before this call, in the tables that
    /// existed then. Fails with the cause if that takes too long.
    fn refresh(&self) -> Result<(), String>;

    /// Requests the promotion. The caller then stops this process, which starts again as the primary. Fails with the reason
    /// if it could not start so; it remains a replica then.
    fn promote(&self) -> Result<(), String>;
}

/// The primary's catalog, as read from its regions.
#[derive(Clone, Debug, Default)]
pub struct PrimaryCatalog {
    /// The rows of hbase:meta.
    pub meta: Vec<CatalogRow>,
    /// The rows of hbase:namespace.
    pub namespaces: Vec<CatalogRow>,
}

/// The result of [`Mirror::follow`]: what the next call must retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorOutcome {
    /// Number of regions that could not be opened.
    pub failed: usize,
    /// Number of tables without a descriptor, such as tables that are being created or dropped.
    pub without_descriptor: usize,
}

impl Master {
    /// Submits the procedure of `refresh_meta` or `refresh_hfiles`, which may be repeated. When it has ended, this
    /// server has everything that the primary had acknowledged before the call. Both commands bring tables and rows up
    /// to date, because one log has both. A server that is not a replica is always up to date.
    pub(crate) fn refresh(self: &Arc<Self>, kind: ProcedureKind) -> Result<ProcedureId, Exception> {
        let master = Arc::clone(self);
        let submission = Submission { kind, locks: LockSet::none(), nonce: None, target: None };
        self.procedures.submit(submission, move |_| {
            if let Some(primary) = master.followed_primary.get() {
                primary.refresh().map_err(Exception::io)?;
            }
            Ok(Bytes::new())
        })
    }
}

impl PrimaryCatalog {
    /// Returns the region of hbase:namespace, according to the rows `meta` of hbase:meta.
    pub fn namespace_region(meta: Vec<CatalogRow>) -> Option<RegionInfo> {
        let content = CatalogContent::of(meta);
        content.regions.get(&TableName::namespaces())?.first().map(|row| row.region.clone())
    }
}

/// Keeps the catalog of a read replica's master equal to the primary's.
pub struct Mirror {
    master: Arc<Master>,
    /// The primary's files.
    files: Arc<dyn Files>,
    /// The primary's tables at the last call of `follow`; a table that has not changed is skipped.
    last: BTreeMap<TableName, PrimaryTable>,
    /// The version of the primary's [intents](crate::intents) before all descriptors were last read. While it is the same, no
    /// change of a schema has ended since: each is noted there at its beginning and at its end.
    read_at: Option<Version>,
}

/// A table of the primary.
#[derive(Clone, Debug, PartialEq)]
struct PrimaryTable {
    state: TableState,
    rows: Vec<RegionRow>,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("tables", &self.last.len()).finish_non_exhaustive()
    }
}

impl Mirror {
    /// Creates a mirror of the primary whose descriptors are in `files`. From now on `master` refuses every change.
    /// When a client wants to see the latest state, it asks `primary`. Snapshots are listed from `files`.
    pub fn new(master: Arc<Master>, files: Arc<dyn Files>, primary: Arc<dyn FollowedPrimary>) -> Mirror {
        let is_second = master.primary_files.set(Arc::clone(&files)).is_err();
        if master.followed_primary.set(primary).is_err() || is_second {
            tracing::warn!("the master mirrors a primary already; another one is not asked");
        }
        master.is_mirror.store(true, Ordering::Release);
        Mirror { master, files, last: BTreeMap::new(), read_at: None }
    }

    /// Makes the served tables equal to the primary's. With `reread`, also reads the descriptors of tables whose
    /// regions have not changed, if one of them may have changed. That takes one request if none has.
    pub fn follow(&mut self, primary: &PrimaryCatalog, reread: bool) -> Result<MirrorOutcome, Error> {
        let noted = if reread { self.version_of_intents()? } else { None };
        let reread = reread && (noted.is_none() || noted != self.read_at);
        let mut content = CatalogContent::of(primary.meta.clone());
        let told = |cause| Error::Region { act: "mirroring the catalog".to_owned(), cause: Box::new(cause) };
        let master = &self.master;
        master.mirror_namespaces(primary).map_err(told)?;
        let mut tables: BTreeMap<TableName, PrimaryTable> = BTreeMap::new();
        for (table, state) in &content.states {
            tables.insert(table.clone(), PrimaryTable { state: *state, rows: Vec::new() });
        }
        for (table, rows) in std::mem::take(&mut content.regions) {
            // Like HBase, treats a table without a state as enabled.
            let unknown = || PrimaryTable { state: TableState::Enabled, rows: Vec::new() };
            tables.entry(table).or_insert_with(unknown).rows = rows;
        }
        let is_own = |table: &TableName| table.is_meta() || *table == TableName::namespaces();
        tables.retain(|table, _| !is_own(table));
        let known: BTreeMap<TableName, Arc<TableDescriptor>> = master.read_view(|view| {
            view.tables.iter().map(|(name, table)| (name.clone(), Arc::clone(&table.descriptor))).collect()
        });
        let mut mirrored = MirrorOutcome::default();
        for name in known.keys().filter(|name| !is_own(name) && !tables.contains_key(*name)) {
            self.last.remove(name);
            master.drop_mirrored(name).map_err(told)?;
        }
        for (name, table) in tables {
            if !reread && self.last.get(&name) == Some(&table) {
                continue;
            }
            let descriptor = match descriptors::read(&*self.files, &name) {
                Ok(Some(found)) => match known.get(&name) {
                    Some(same) if **same == found => Arc::clone(same),
                    _ => Arc::new(found),
                },
                Err(error @ Error::Storage(_)) => return Err(error),
                unreadable => {
                    if let Err(error) = unreadable {
                        tracing::error!(table = %name, %error, "the table is out of reach on this read replica");
                    }
                    mirrored.without_descriptor += 1;
                    continue;
                }
            };
            self.last.remove(&name);
            let failed =
                master.mirror_table(&name, &descriptor, table.state, table.rows.clone()).map_err(told)?;
            mirrored.failed += failed;
            if failed == 0 {
                self.last.insert(name, table);
            }
        }
        if reread {
            self.read_at = noted.filter(|_| mirrored == MirrorOutcome::default());
        }
        Ok(mirrored)
    }

    fn version_of_intents(&self) -> Result<Option<Version>, Error> {
        match self.files.load(&layout::unfinished(), Intents::SIZE_MAX) {
            Ok(object) => Ok(Some(object.version)),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Master {
    /// Opens and closes a table's regions as needed. Returns the number of regions that could not be opened.
    fn mirror_table(
        &self,
        name: &TableName,
        descriptor: &Arc<TableDescriptor>,
        state: TableState,
        rows: Vec<RegionRow>,
    ) -> Result<usize, Exception> {
        let known = self.read_view(|view| view.tables.get(name).cloned());
        let old_rows = known.as_ref().map(|known| known.regions.clone()).unwrap_or_default();
        let is_served = matches!(state, TableState::Enabled | TableState::Enabling);
        let state = if is_served { TableState::Enabled } else { TableState::Disabled };
        if known.as_ref().is_some_and(|known| known.descriptor != *descriptor) {
            // The schema has changed, so each region is closed, and then opened with the new one.
            self.in_parallel(old_rows.clone(), |row| self.regions.close(row.region.encoded_name()))?;
        }
        let serves = |row: &RegionRow| is_served && !row.region.is_offline() && !row.region.is_split();
        let is_open = |row: &RegionRow| self.regions.owner(row.region.encoded_name()).is_some();
        let to_open: Vec<RegionRow> =
            rows.iter().filter(|row| serves(row) && !is_open(row)).cloned().collect();
        let opened: Mutex<BTreeMap<Vec<u8>, RegionRow>> = Mutex::default();
        let failed = Mutex::new(0);
        self.in_parallel(to_open, |row| {
            let now = self.regions.open(&row.region, descriptor, None).map(|opened| opened.row);
            let now = now.unwrap_or_else(|cause| {
                tracing::warn!(region = %row.region, %cause, "the region cannot be opened on this read replica yet");
                self.note_failed_opening(&row.region, &cause);
                *failed.lock() += 1;
                RegionRow::new(row.region.clone(), RegionState::FailedOpen)
            });
            opened.lock().insert(row.region.name().to_vec(), now);
            Ok(())
        })?;
        let mut opened = opened.into_inner();
        let any_server = self.regions.live().into_iter().next();
        let row_of = |row: RegionRow| {
            let old = old_rows.iter().find(|old| old.region == row.region);
            match (opened.remove(&row.region.name()[..]), old) {
                (Some(opened), _) => RegionRow { merged_from: row.merged_from, ..opened },
                (None, Some(old)) if serves(&row) => old.clone(),
                _ if is_served => RegionRow { server: None, target: None, open_sequence: None, ..row },
                // A client asks the last server of a region before it asks whether its table is disabled.
                _ => RegionRow {
                    server: any_server.clone(),
                    ..RegionRow::new(row.region, RegionState::Closed)
                },
            }
        };
        let next: Vec<RegionRow> = rows.into_iter().map(row_of).collect();
        let changed: Vec<&RegionRow> = next.iter().filter(|row| !old_rows.contains(row)).collect();
        let is_there = |region: &RegionInfo| next.iter().any(|row| row.region.name() == region.name());
        let gone: Vec<RegionInfo> =
            old_rows.iter().map(|row| &row.region).filter(|region| !is_there(region)).cloned().collect();
        let same = known.as_ref().is_some_and(|known| {
            known.state == state && known.descriptor == *descriptor && changed.is_empty() && gone.is_empty()
        });
        if !same {
            self.catalog.replace_regions(changed, &gone)?;
            self.catalog.put_state(name, state)?;
            let entry = TableEntry::new(Arc::clone(descriptor), state, next.clone());
            self.update_view(|view| view.put_table(entry));
        }
        // After this write clients find the new regions.
        let mut over = next.iter().filter(|row| !serves(row)).map(|row| &row.region).chain(&gone);
        over.try_for_each(|region| self.regions.close(region.encoded_name()))?;
        Ok(failed.into_inner())
    }

    fn drop_mirrored(&self, name: &TableName) -> Result<(), Exception> {
        let rows = self
            .read_view(|view| view.tables.get(name).map(|table| table.regions.clone()).unwrap_or_default());
        self.catalog.remove(name)?;
        self.update_view(|view| view.remove_table(name));
        self.in_parallel(rows, |row| self.regions.close(row.region.encoded_name()))
    }

    fn mirror_namespaces(&self, primary: &PrimaryCatalog) -> Result<(), Exception> {
        let theirs = namespaces_of(primary.namespaces.clone());
        let own = self.read_view(|view| view.namespaces.clone());
        let name_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let region = self.namespace_region()?;
        for namespace in theirs.iter().filter(|one| own.get(&name_of(&one.name)) != Some(one)) {
            self.catalog.put_namespace(&region, namespace)?;
        }
        let is_gone = |name: &&String| !theirs.iter().any(|one| name_of(&one.name) == **name);
        // While the primary's namespaces are unknown, none is removed, so that the two built-in ones stay.
        for name in own.keys().filter(is_gone).filter(|_| !theirs.is_empty()) {
            self.catalog.remove_namespace(&region, name)?;
        }
        if !theirs.is_empty() {
            let named = theirs.into_iter().map(|one| (name_of(&one.name), one)).collect();
            self.update_view(|view| view.namespaces = named);
        }
        Ok(())
    }
}
