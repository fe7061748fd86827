//! Two region servers in memory, which implement the contract for tests. Their catalog rows are kept with the disk, so
//! a new master sees what the previous one wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use contract::{
    CatalogEdit, CatalogRow, CloneOrder, InheritOrder, OnFullDisk, OpenOrder, OpenSequence, RegionReport,
    RegionServers, RegionShape, ServerFuture, SnapshotContent, SnapshotOrder, SplitRow, StaleTerm, Stamp,
    Tenure, Term, TermLedger,
};
use env::sync::{Condvar, Mutex};
use env::{WallTime, World};
use proto::catalog::{Column, TableState};
use proto::{EncodedName, RegionInfo, ServerName, TableDescriptor, TableName, pb};
use rpc::Exception;
use storage::memory::Fault;
use storage::{FileName, Files, Kind, Memory, Outcome};

use crate::procedure::{self, ProcedureId};
use crate::{Error, Master, Options, TableStateMirror, UnopenedTables};

type Cells = BTreeMap<Bytes, BTreeMap<(Bytes, Bytes), (u64, Bytes)>>;

/// The content that survives the process: catalog rows, which are durable as soon as they are written.
#[derive(Debug, Clone, Default)]
pub(super) struct Durable {
    rows: Arc<Mutex<BTreeMap<EncodedName, Cells>>>,
    deleted: Arc<Mutex<BTreeMap<(EncodedName, Bytes), u64>>>,
    lives: Arc<Mutex<i64>>,
}

/// Two region servers on one disk. They check every promise of the contract: no region is open twice, every order goes
/// to the server that has the region, and terms only grow.
pub(super) struct FakeServers {
    files: Memory,
    durable: Durable,
    live: Mutex<Vec<ServerName>>,
    terms: Mutex<BTreeMap<ServerName, TermLedger>>,
    open: Mutex<BTreeMap<EncodedName, (ServerName, Term)>>,
    last_terms: Mutex<BTreeMap<EncodedName, Term>>,
    refused: Mutex<Option<Bytes>>,
    /// Whether no region can be opened.
    refuses_all: AtomicBool,
    /// Number of the next closings that report failure although the region is closed.
    failing_closes: Mutex<usize>,
    /// Number of the next closings that fail and leave the region open.
    refused_closes: Mutex<usize>,
    /// What each closing asks of a server with a full disk, in order.
    pub(super) on_full_disk: Mutex<Vec<OnFullDisk>>,
    /// Whether the disk is full after the next closing.
    fills_at_close: AtomicBool,
    /// Whether calls that would fail panic instead.
    panics: Mutex<bool>,
    /// While this is set, orders to open a region or to take a snapshot of it wait.
    paused: Mutex<bool>,
    resumed: Condvar,
    writes_left: Mutex<Option<u64>>,
    /// Whether catalog writes that fail take place.
    fails_late: Mutex<bool>,
    /// Whether catalog writes that fail wait for a later call, as for room on a full disk.
    sticks: AtomicBool,
    /// The catalog writes that wait, in order.
    stuck: Mutex<Vec<(EncodedName, Stamp, Vec<CatalogEdit>)>>,
    /// Whether the disk fails, too, from the first write on that finds no `writes_left`.
    kills: Mutex<bool>,
    flushed: Mutex<Vec<EncodedName>>,
    /// The regions and families whose major compaction was requested, in order.
    pub(super) compacted: Mutex<Vec<(EncodedName, Vec<Bytes>)>>,
    /// Number of the next flushes that find the region closed.
    late_flushes: Mutex<usize>,
    discarded: Mutex<BTreeSet<EncodedName>>,
    /// The regions whose log records are kept. `None` until a call has named them: then all records are kept.
    known: Mutex<Option<BTreeSet<EncodedName>>>,
    stopped: Mutex<BTreeSet<ServerName>>,
    /// The row that every region reports as the best one for a split.
    pub(super) split_row: Mutex<Option<Bytes>>,
    /// Whether the split policy of every table forbids splits.
    pub(super) forbids_splits: AtomicBool,
    /// Every region that was opened.
    infos: Mutex<BTreeMap<EncodedName, RegionInfo>>,
    /// Every schema that a region was opened with.
    schemas: Mutex<Vec<(EncodedName, Arc<TableDescriptor>)>>,
    /// The sizes that regions report, in MB, by start key; 0 for all others.
    pub(super) sizes: Mutex<BTreeMap<Bytes, u32>>,
    /// Whether open regions apply new schemas.
    takes_over: Mutex<bool>,
    /// The families to which open regions refuse puts.
    refused_families: Mutex<BTreeMap<EncodedName, Vec<Bytes>>>,
}

/// The names of the two servers.
pub(super) const SERVERS: [&str; 2] = ["one,16020,1", "two,16020,1"];

impl FakeServers {
    pub(super) fn new(files: Memory, durable: Durable) -> Arc<FakeServers> {
        Arc::new(FakeServers {
            files,
            durable,
            live: Mutex::new(SERVERS.map(server).to_vec()),
            terms: Mutex::default(),
            open: Mutex::default(),
            last_terms: Mutex::default(),
            refused: Mutex::default(),
            refuses_all: AtomicBool::default(),
            failing_closes: Mutex::default(),
            refused_closes: Mutex::default(),
            on_full_disk: Mutex::default(),
            fills_at_close: AtomicBool::default(),
            panics: Mutex::default(),
            paused: Mutex::default(),
            resumed: Condvar::new(),
            writes_left: Mutex::default(),
            fails_late: Mutex::default(),
            sticks: AtomicBool::default(),
            stuck: Mutex::default(),
            kills: Mutex::default(),
            flushed: Mutex::default(),
            compacted: Mutex::default(),
            late_flushes: Mutex::default(),
            discarded: Mutex::default(),
            known: Mutex::default(),
            stopped: Mutex::default(),
            split_row: Mutex::default(),
            forbids_splits: AtomicBool::default(),
            infos: Mutex::default(),
            schemas: Mutex::default(),
            sizes: Mutex::default(),
            takes_over: Mutex::default(),
            refused_families: Mutex::default(),
        })
    }

    /// From now on open regions apply new schemas.
    pub(super) fn take_over(&self) {
        *self.takes_over.lock() = true;
    }

    /// Returns the term under which a region was last opened.
    pub(super) fn term_of(&self, region: &EncodedName) -> Term {
        self.last_terms.lock()[region]
    }

    /// From now on regions that begin at this key cannot be opened.
    pub(super) fn refuse(&self, start_key: Option<&'static str>) {
        *self.refused.lock() = start_key.map(Bytes::from);
    }

    /// From now on no region can be opened, or else each can.
    pub(super) fn refuse_all(&self, refuses: bool) {
        self.refuses_all.store(refuses, Ordering::Relaxed);
    }

    /// Makes the next `count` closings fail although the region is closed then.
    pub(super) fn fail_closes(&self, count: usize) {
        *self.failing_closes.lock() = count;
    }

    /// Makes the disk full after the next closing.
    pub(super) fn fill_at_close(&self) {
        self.fills_at_close.store(true, Ordering::Relaxed);
    }

    /// Makes the next `count` closings fail; the region serves on, as when its flush finds the disk full.
    pub(super) fn refuse_closes(&self, count: usize) {
        *self.refused_closes.lock() = count;
    }

    /// Makes the next `count` flushes find their region closed, as if a split had been faster.
    pub(super) fn close_before_flushes(&self, count: usize) {
        *self.late_flushes.lock() = count;
    }

    /// From now on, orders that this server refuses or fails panic if `panics` is set, or else return errors again.
    pub(super) fn panic_instead(&self, panics: bool) {
        *self.panics.lock() = panics;
    }

    /// While `paused` is set, orders to open a region wait.
    pub(super) fn pause(&self, paused: bool) {
        *self.paused.lock() = paused;
        self.resumed.notify_all();
    }

    /// After this number of further catalog writes, every write fails, as if the process had died.
    pub(super) fn die_after(&self, writes: Option<u64>) {
        *self.writes_left.lock() = writes;
    }

    /// From now on a catalog write that fails takes place all the same, as one that waits for room on a full disk.
    pub(super) fn fail_late(&self, late: bool) {
        *self.fails_late.lock() = late;
    }

    /// From now on a catalog write that fails takes place before the next one that succeeds, or when it is
    /// [released](FakeServers::release_stuck).
    pub(super) fn stick(&self) {
        self.sticks.store(true, Ordering::Relaxed);
    }

    /// Lets the catalog writes that wait take place.
    pub(super) fn release_stuck(&self) {
        let stuck = std::mem::take(&mut *self.stuck.lock());
        stuck.into_iter().for_each(|(region, stamp, edits)| self.apply(&region, stamp, edits));
    }

    /// Like [`die_after`](FakeServers::die_after). When a write fails, every later change of the disk fails, too.
    pub(super) fn kill_after(&self, writes: u64) {
        *self.kills.lock() = true;
        self.die_after(Some(writes));
    }

    /// From now on only these servers are live.
    pub(super) fn set_live(&self, live: &[&str]) {
        *self.live.lock() = live.iter().copied().map(server).collect();
    }

    pub(super) fn open_count(&self) -> usize {
        self.open.lock().len()
    }

    /// Returns the server that has a region open.
    pub(super) fn server_of(&self, region: &EncodedName) -> Option<ServerName> {
        self.open.lock().get(region).map(|(server, _)| server.clone())
    }

    pub(super) fn was_discarded(&self, region: &EncodedName) -> bool {
        self.discarded.lock().contains(region)
    }

    pub(super) fn was_kept(&self, region: &EncodedName) -> bool {
        self.known.lock().as_ref().is_none_or(|known| known.contains(region))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.lock().len() == SERVERS.len()
    }

    /// Returns the schema with which a region was last opened.
    pub(super) fn schema_of(&self, region: &EncodedName) -> Arc<TableDescriptor> {
        let schemas = self.schemas.lock();
        let (_, schema) = schemas.iter().rev().find(|(name, _)| name == region).expect("it was opened");
        Arc::clone(schema)
    }

    /// Whether a region is open and takes puts to a family.
    pub(super) fn takes_puts(&self, region: &EncodedName, family: &[u8]) -> bool {
        let is_refused = self
            .refused_families
            .lock()
            .get(region)
            .is_some_and(|refused| refused.iter().any(|name| name == family));
        self.server_of(region).is_some() && self.schema_of(region).family(family).is_some() && !is_refused
    }

    pub(super) fn flushed(&self) -> usize {
        self.flushed.lock().len()
    }

    /// Writes to a region as any client may.
    pub(super) fn write(
        &self,
        region: &EncodedName,
        stamp: Stamp,
        edits: Vec<CatalogEdit>,
    ) -> Result<(), Exception> {
        // The process dies before the batch or after it, so all of its edits are written or none.
        let mut failure = None;
        if let Some(left) = self.writes_left.lock().as_mut() {
            if *left == 0 {
                if *self.kills.lock() {
                    let (act, outcome) = (self.files.acts() + 1, Outcome::DidNotHappen);
                    self.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: true }));
                }
                failure = Some(Exception::io("the process was killed by the test"));
            } else {
                *left -= 1;
            }
        }
        if let Some(failure) = failure.take_if(|_| !*self.fails_late.lock()) {
            if self.sticks.load(Ordering::Relaxed) {
                self.stuck.lock().push((region.clone(), stamp, edits));
            }
            return Err(failure);
        }
        self.release_stuck();
        self.apply(region, stamp, edits);
        failure.map_or(Ok(()), Err)
    }

    fn apply(&self, region: &EncodedName, stamp: Stamp, edits: Vec<CatalogEdit>) {
        let mut rows = self.durable.rows.lock();
        let mut deleted = self.durable.deleted.lock();
        let rows = rows.entry(region.clone()).or_default();
        for edit in edits {
            match edit {
                CatalogEdit::Put(row) => {
                    // As in a region, a deletion hides rows with its timestamp or an older one.
                    let hidden =
                        deleted.get(&(region.clone(), row.key.clone())).is_some_and(|&at| at >= stamp.0);
                    assert!(!hidden, "row {} is hidden by its own deletion", row.key.escape_ascii());
                    let cells = rows.entry(row.key).or_default();
                    for column in row.columns {
                        cells.insert((column.family, column.qualifier), (stamp.0, column.value));
                    }
                }
                CatalogEdit::Delete(key) => {
                    rows.remove(&key);
                    deleted.insert((region.clone(), key), stamp.0);
                }
                CatalogEdit::DeleteColumns(key, columns) => {
                    let cells = rows.entry(key).or_default();
                    columns.iter().for_each(|column| drop(cells.remove(column)));
                }
            }
        }
    }

    /// Checks that an order goes to the server that has the region open.
    fn assert_owner(&self, server: &ServerName, region: &EncodedName) {
        assert_eq!(self.server_of(region).as_ref(), Some(server), "an order for {region} went astray");
    }

    fn open_here(&self, server: &ServerName, order: OpenOrder) -> Result<OpenSequence, Exception> {
        let OpenOrder { region, table, term } = order;
        assert_eq!(region.table(), table.name());
        let name = layout::region_info(region.table(), region.encoded_name());
        let content = self.files.read(&name, 4096).map_err(|error| Exception::io(error.to_string()))?;
        let found =
            RegionInfo::from_file(&content.into()).map_err(|error| Exception::io(error.to_string()))?;
        assert_eq!(found, region, "the folder is another region's");
        let mut paused = self.paused.lock();
        while *paused {
            self.resumed.wait(&mut paused);
        }
        drop(paused);
        let is_refused = self.refused.lock().as_ref() == Some(region.start_key());
        if is_refused || self.refuses_all.load(Ordering::Relaxed) {
            assert!(!*self.panics.lock(), "the test wants a panic");
            return Err(Exception::io("the region is refused by the test"));
        }
        let name = region.encoded_name().clone();
        self.terms
            .lock()
            .entry(server.clone())
            .or_default()
            .admit_open(&name, term)
            .map_err(StaleTerm::exception)?;
        let last = self.last_terms.lock().insert(name.clone(), term);
        assert!(last.is_none_or(|last| last <= term), "{name}: term {term} after {last:?}");
        self.infos.lock().insert(name.clone(), region);
        let before = self.open.lock().insert(name.clone(), (server.clone(), term));
        let was_open = before.is_some();
        assert!(before.is_none_or(|before| before == (server.clone(), term)), "{name} is open twice");
        self.refused_families.lock().remove(&name);
        // A region that is open already keeps its schema.
        if !was_open {
            self.schemas.lock().push((name, table));
        }
        Ok(OpenSequence(2))
    }

    fn alter_here(&self, order: &OpenOrder) -> Result<bool, Exception> {
        let name = order.region.encoded_name();
        assert_eq!(self.last_terms.lock().get(name), Some(&order.term), "{name}");
        let families = |table: &TableDescriptor| {
            table.families().iter().map(|family| family.name().clone()).collect::<Vec<_>>()
        };
        let has_all = families(&self.schema_of(name)) == families(&order.table);
        let takes_over = *self.takes_over.lock() && has_all;
        if takes_over {
            self.schemas.lock().push((name.clone(), Arc::clone(&order.table)));
        }
        Ok(takes_over)
    }

    fn close_here(&self, server: &ServerName, region: &EncodedName, term: Term) -> Result<(), Exception> {
        self.terms
            .lock()
            .entry(server.clone())
            .or_default()
            .admit_close(region, term)
            .map_err(StaleTerm::exception)?;
        if self.fills_at_close.swap(false, Ordering::Relaxed) {
            self.files.set_bytes_max(Some(0));
        }
        let mut refused = self.refused_closes.lock();
        if *refused > 0 {
            *refused -= 1;
            self.terms.lock().entry(server.clone()).or_default().stays_open(region, term);
            return Err(Exception::io("the closing is refused by the test"));
        }
        let closed = self.open.lock().remove(region);
        assert!(closed.is_none_or(|(owner, _)| owner == *server), "{region} was closed by another server");
        let mut failing = self.failing_closes.lock();
        if *failing > 0 {
            *failing -= 1;
            assert!(!*self.panics.lock(), "the test wants a panic");
            return Err(Exception::io("the closing is failed by the test"));
        }
        Ok(())
    }

    fn truncate_here(&self, order: &OpenOrder) -> Result<(), Exception> {
        let region = &order.region;
        let name = region.encoded_name();
        assert!(!self.open.lock().contains_key(name), "{name} is truncated and open");
        let folder = layout::region_folder(region);
        let failed = |error: storage::Error| Exception::io(error.to_string());
        let mut families = BTreeSet::new();
        for entry in self.files.list(&folder).map_err(failed)? {
            if entry.name.last() != ".regioninfo" {
                self.files.delete(&entry.name).map_err(failed)?;
                families.extend(entry.name.parent());
            }
        }
        for family in families {
            // A durable write to the folder, as of a region's file list, makes earlier deletions in it durable.
            self.files.swap(&family.join(".list"), None, b"").map_err(failed)?;
        }
        Ok(())
    }

    /// Writes one file that names the parents, as a reference does.
    fn inherit_here(&self, order: &InheritOrder) -> Result<(), Exception> {
        let failed = |error: storage::Error| Exception::io(error.to_string());
        for region in order.parents.iter().chain([&order.child]) {
            let name = region.encoded_name();
            assert!(!self.open.lock().contains_key(name), "{name} is open while rows change their region");
        }
        let file = layout::region_folder(&order.child).join("f").join("0123.refers");
        let names = order.parents.iter().map(|parent| parent.encoded_name().to_string());
        let names: Vec<String> = names.collect();
        self.files.delete(&file).map_err(failed)?;
        let mut writer = self.files.create(&file).map_err(failed)?;
        writer.write(names.join(" ").as_bytes()).map_err(failed)?;
        writer.finish().map_err(failed)?;
        Ok(())
    }

    /// Lists one file for each family, which has the region's name.
    fn snapshot_here(&self, order: &SnapshotOrder) -> Result<Vec<pb::SnapshotRegionManifest>, Exception> {
        let objects = layout::snapshot_objects(&self.files).expect("the disk works");
        assert!(!objects.running.is_empty(), "a region lists its files although no snapshot is being taken");
        let mut paused = self.paused.lock();
        while *paused {
            self.resumed.wait(&mut paused);
        }
        drop(paused);
        if self.refused.lock().as_ref() == Some(order.region.start_key()) {
            return Err(Exception::io("the list is refused by the test"));
        }
        let file = pb::snapshot_region_manifest::StoreFile {
            name: order.region.encoded_name().to_string(),
            reference: None,
            file_size: Some(1),
        };
        let family = |family: &proto::FamilyDescriptor| pb::snapshot_region_manifest::FamilyFiles {
            family_name: family.name().clone(),
            store_files: vec![file.clone()],
        };
        let manifest = |region: &RegionInfo| pb::SnapshotRegionManifest {
            version: Some(0),
            region_info: region.into(),
            family_files: order.table.families().iter().map(family).collect(),
        };
        // The MOB files of a region belong to a region that all of the table share.
        let of_mob_files = layout::mob_region_info(order.region.table());
        Ok(vec![manifest(&order.region), manifest(&of_mob_files)])
    }

    /// Writes one file for each family, which names the file of the source.
    fn write_clone_here(&self, order: &CloneOrder) -> Result<(), Exception> {
        let failed = |error: storage::Error| Exception::io(error.to_string());
        let name = order.region.encoded_name();
        assert!(!self.open.lock().contains_key(name), "{name} is open while its files are written");
        if self.refused.lock().as_ref() == Some(order.region.start_key()) {
            return Err(Exception::io("the links are refused by the test"));
        }
        for family in &order.source.family_files {
            let folder =
                layout::region_folder(&order.region).join(&String::from_utf8_lossy(&family.family_name));
            let file = folder.join("0123.links");
            self.files.delete(&file).map_err(failed)?;
            let names: Vec<&str> = family.store_files.iter().map(|file| file.name.as_str()).collect();
            self.files.swap(&file, None, names.join(" ").as_bytes()).map_err(failed)?;
        }
        Ok(())
    }

    /// Returns the regions of a table to whose files other regions refer, by their encoded names.
    fn referred_to(&self, table: &FileName) -> Result<BTreeSet<String>, storage::Error> {
        let mut named = BTreeSet::new();
        for entry in self.files.list(table)? {
            if entry.name.last() == "0123.refers" {
                let names = String::from_utf8(self.files.read(&entry.name, 4096)?).expect("names");
                named.extend(names.split(' ').map(str::to_owned));
            }
        }
        Ok(named)
    }

    /// Returns the number of families of a region that have links to a snapshot's files.
    pub(super) fn links(&self, region: &RegionInfo) -> usize {
        let entries = self.files.list(&layout::region_folder(region)).expect("the disk works");
        entries.iter().filter(|entry| entry.name.last() == "0123.links").count()
    }

    /// Replaces the references of an open region by a file of its own, as a compaction does.
    pub(super) fn compact(&self, region: &RegionInfo) {
        let file = layout::region_folder(region).join("f").join("0123.refers");
        self.files.delete(&file).expect("the disk works");
        // A durable write to the folder, as of the new file list, makes earlier deletions in it durable.
        let list = file.parent().expect("a family").join(".compacted");
        self.files.swap(&list, None, b"").expect("the disk works");
    }

    fn shape_here(&self, region: &EncodedName) -> RegionShape {
        let schemas = self.infos.lock();
        let info = schemas.get(region).expect("it was opened");
        let refers = self.files.open(&layout::region_folder(info).join("f").join("0123.refers")).is_ok();
        RegionShape {
            has_references: refers,
            can_split: !self.forbids_splits.load(Ordering::Relaxed),
            split_row: self.split_row.lock().clone(),
        }
    }

    fn drop_here(&self, folder: &FileName) -> Result<(), Exception> {
        for region in self.open.lock().keys() {
            let of_region = layout::region_folder(&self.infos.lock()[region]);
            if of_region == *folder || of_region.below(folder).is_some() {
                return Err(Exception::io(format!(
                    "folder {folder} is to be deleted, but region {region} is open"
                )));
            }
        }
        let failed = |error: storage::Error| Exception::io(error.to_string());
        let mut folders = BTreeSet::new();
        for entry in self.files.list(folder).map_err(failed)? {
            self.files.delete(&entry.name).map_err(failed)?;
            folders.extend(entry.name.parent());
        }
        // A durable write to the family's folder makes earlier deletions in it durable.
        for folder in folders.iter().filter(|folder| folder.as_str().split('/').count() >= 5) {
            let last = folder.join(".emptied");
            self.files.swap(&last, None, b"").map_err(failed)?;
            self.files.delete(&last).map_err(failed)?;
        }
        Ok(())
    }

    /// Returns the rows of a region of the catalog.
    pub(super) fn rows_of(&self, region: &EncodedName) -> Vec<CatalogRow> {
        let rows = self.durable.rows.lock();
        let column = |((family, qualifier), (_, value)): (&(Bytes, Bytes), &(u64, Bytes))| Column {
            family: family.clone(),
            qualifier: qualifier.clone(),
            value: value.clone(),
        };
        let cells = rows.get(region).into_iter().flatten();
        cells
            .map(|(key, cells)| CatalogRow { key: key.clone(), columns: cells.iter().map(column).collect() })
            .collect()
    }

    fn newest_of(&self, region: &EncodedName) -> Stamp {
        let rows = self.durable.rows.lock();
        let cells = rows.get(region).into_iter().flatten().flat_map(|(_, cells)| cells.values());
        let deleted = self.durable.deleted.lock();
        let markers = deleted.iter().filter(|((of, _), _)| of == region).map(|(_, at)| *at);
        Stamp(cells.map(|(at, _)| *at).chain(markers).max().unwrap_or(0))
    }
}

impl std::fmt::Debug for FakeServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeServers").field("open", &self.open).finish_non_exhaustive()
    }
}

fn server(name: &str) -> ServerName {
    name.parse().expect("a server's name")
}

/// Returns an answer that is available at once.
fn answered<T: Send + 'static>(answer: Result<T, Exception>) -> ServerFuture<T> {
    Box::pin(std::future::ready(answer))
}

impl Tenure for FakeServers {
    fn epoch(&self) -> u64 {
        1
    }

    fn confirm(&self) -> Result<(), Exception> {
        Ok(())
    }
}

impl RegionServers for FakeServers {
    fn live(&self) -> Vec<ServerName> {
        self.live.lock().clone()
    }

    fn open(&self, server: &ServerName, order: OpenOrder) -> ServerFuture<OpenSequence> {
        answered(self.open_here(server, order))
    }

    fn alter(&self, server: &ServerName, order: OpenOrder) -> ServerFuture<bool> {
        self.assert_owner(server, order.region.encoded_name());
        answered(self.alter_here(&order))
    }

    fn refuse_puts(
        &self,
        server: &ServerName,
        region: &EncodedName,
        term: Term,
        families: Vec<Bytes>,
    ) -> ServerFuture<()> {
        self.assert_owner(server, region);
        assert_eq!(self.last_terms.lock().get(region), Some(&term), "{region}");
        self.refused_families.lock().insert(region.clone(), families);
        answered(Ok(()))
    }

    fn close(
        &self,
        server: &ServerName,
        region: &EncodedName,
        term: Term,
        on_full_disk: OnFullDisk,
    ) -> ServerFuture<()> {
        self.on_full_disk.lock().push(on_full_disk);
        answered(self.close_here(server, region, term))
    }

    fn truncate(&self, _server: &ServerName, order: OpenOrder) -> ServerFuture<()> {
        answered(self.truncate_here(&order))
    }

    fn inherit(&self, _server: &ServerName, order: InheritOrder) -> ServerFuture<()> {
        answered(self.inherit_here(&order))
    }

    fn snapshot(
        &self,
        server: &ServerName,
        order: SnapshotOrder,
    ) -> ServerFuture<Vec<pb::SnapshotRegionManifest>> {
        match order.content {
            SnapshotContent::Closed => assert_eq!(self.server_of(order.region.encoded_name()), None),
            SnapshotContent::Flushed | SnapshotContent::Files => {
                self.assert_owner(server, order.region.encoded_name());
            }
        }
        if order.content == SnapshotContent::Flushed {
            self.flushed.lock().push(order.region.encoded_name().clone());
        }
        answered(self.snapshot_here(&order))
    }

    fn write_clone(&self, _server: &ServerName, order: CloneOrder) -> ServerFuture<()> {
        answered(self.write_clone_here(&order))
    }

    fn is_needed(&self, _server: &ServerName, folder: FileName) -> ServerFuture<bool> {
        let table = folder.parent().expect("a region is below a table");
        let named = self.referred_to(&table).map_err(|error| Exception::io(error.to_string()));
        answered(named.map(|named| named.contains(folder.last())))
    }

    fn shape(&self, server: &ServerName, region: &EncodedName, row: SplitRow) -> ServerFuture<RegionShape> {
        self.assert_owner(server, region);
        let shape = self.shape_here(region);
        answered(Ok(match row {
            SplitRow::None => RegionShape { split_row: None, ..shape },
            SplitRow::Best => shape,
            SplitRow::Given(row) => RegionShape { split_row: Some(row), ..shape },
        }))
    }

    fn drop_folder(&self, _server: &ServerName, folder: FileName) -> ServerFuture<()> {
        answered(self.drop_here(&folder))
    }

    fn report(&self, server: &ServerName) -> ServerFuture<Vec<RegionReport>> {
        let open = self.open.lock();
        let here = open.iter().filter(|(_, (owner, _))| owner == server);
        let report = |(region, (_, term)): (&EncodedName, &(ServerName, Term))| RegionReport {
            region: region.clone(),
            term: *term,
        };
        answered(Ok(here.map(report).collect()))
    }

    fn forget(&self, _server: &ServerName, region: &EncodedName) -> ServerFuture<()> {
        assert!(!self.open.lock().contains_key(region), "{region} is discarded and open");
        self.discarded.lock().insert(region.clone());
        answered(Ok(()))
    }

    fn recover_nonces(&self, _server: &ServerName, serving: BTreeSet<EncodedName>) -> ServerFuture<()> {
        let open = self.open.lock();
        assert!(open.keys().all(|region| serving.contains(region)), "open regions serve");
        answered(Ok(()))
    }

    fn forget_others(&self, _server: &ServerName, known: BTreeSet<EncodedName>) -> ServerFuture<()> {
        *self.known.lock() = Some(known);
        answered(Ok(()))
    }

    fn flush(&self, server: &ServerName, region: &EncodedName, _families: Vec<Bytes>) -> ServerFuture<()> {
        let mut late = self.late_flushes.lock();
        if *late > 0 {
            *late -= 1;
            return answered(Err(Exception::not_serving_region(format!("{region} is not online"))));
        }
        self.assert_owner(server, region);
        self.flushed.lock().push(region.clone());
        answered(Ok(()))
    }

    fn compact(&self, server: &ServerName, region: &EncodedName, families: Vec<Bytes>) -> ServerFuture<()> {
        self.assert_owner(server, region);
        self.compacted.lock().push((region.clone(), families));
        answered(Ok(()))
    }

    fn last_major_compaction(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<i64> {
        self.assert_owner(server, region);
        answered(Ok(7))
    }

    fn load(&self, server: &ServerName) -> ServerFuture<pb::ServerLoad> {
        let (open, infos, sizes) = (self.open.lock(), self.infos.lock(), self.sizes.lock());
        let here = open.iter().filter(|(_, (owner, _))| owner == server);
        let load = |region: &EncodedName| pb::RegionLoad {
            region_specifier: pb::RegionSpecifier { r#type: 1, value: infos[region].name().clone() },
            storefile_size_mb: sizes.get(infos[region].start_key()).copied(),
            ..Default::default()
        };
        let region_loads = here.map(|(region, _)| load(region)).collect();
        answered(Ok(pb::ServerLoad { number_of_requests: Some(3), region_loads, ..Default::default() }))
    }

    fn rows(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<Vec<CatalogRow>> {
        self.assert_owner(server, region);
        answered(Ok(self.rows_of(region)))
    }

    fn newest(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<Stamp> {
        self.assert_owner(server, region);
        answered(Ok(self.newest_of(region)))
    }

    fn write(
        &self,
        server: &ServerName,
        region: &EncodedName,
        stamp: Stamp,
        edits: Vec<CatalogEdit>,
    ) -> ServerFuture<()> {
        self.assert_owner(server, region);
        answered(FakeServers::write(self, region, stamp, edits))
    }

    fn stop(&self, server: &ServerName) {
        self.stopped.lock().insert(server.clone());
    }
}

/// Records the table states that a master passes to its mirror.
#[derive(Default)]
pub(super) struct MirroredStates(Mutex<BTreeMap<TableName, TableState>>);

impl MirroredStates {
    pub(super) fn of(&self, table: &str) -> Option<TableState> {
        self.0.lock().get(&name(table)).copied()
    }

    pub(super) fn tables(&self) -> Vec<String> {
        self.0.lock().keys().map(ToString::to_string).collect()
    }
}

impl TableStateMirror for MirroredStates {
    fn set(&self, table: &TableName, state: Option<TableState>) {
        match state {
            Some(state) => self.0.lock().insert(table.clone(), state),
            None => self.0.lock().remove(table),
        };
    }
}

/// A master with its storage and its region servers.
pub(super) struct Life {
    pub(super) files: Memory,
    pub(super) durable: Durable,
    pub(super) servers: Arc<FakeServers>,
    pub(super) mirrored: Arc<MirroredStates>,
    pub(super) master: Arc<Master>,
}

impl Life {
    /// Starts the first master, in an empty root directory.
    pub(super) fn first() -> Life {
        Life::on(Memory::new(), Durable::default()).expect("an empty root directory is founded")
    }

    /// Like [`first`](Life::first), with other options.
    pub(super) fn first_with(change: impl FnOnce(&mut Options)) -> Life {
        Life::begin(Memory::new(), Durable::default(), 1_700_000_000_000, change)
            .expect("an empty root directory is founded")
    }

    pub(super) fn on(files: Memory, durable: Durable) -> Result<Life, Error> {
        // Between two masters time passes.
        let life = {
            let mut lives = durable.lives.lock();
            *lives += 1;
            *lives
        };
        Life::at(files, durable, 1_700_000_000_000 + life * 60_000)
    }

    /// Starts a master at a time of the test's choice, in ms since 1970.
    pub(super) fn at(files: Memory, durable: Durable, time: i64) -> Result<Life, Error> {
        Life::begin(files, durable, time, |_| {})
    }

    fn begin(
        files: Memory,
        durable: Durable,
        time: i64,
        change: impl FnOnce(&mut Options),
    ) -> Result<Life, Error> {
        let below = Arc::new(files.clone());
        Life::over(files, below, durable, time, change)
    }

    /// Starts a master whose calls go to `below`, which stands for `files`.
    pub(super) fn over(
        files: Memory,
        below: Arc<dyn Files>,
        durable: Durable,
        time: i64,
        change: impl FnOnce(&mut Options),
    ) -> Result<Life, Error> {
        let (life, tables) = Life::unopened(files, below, durable, time, change)?;
        life.master.open_tables(tables)?;
        Ok(life)
    }

    /// Starts a master that has not opened the tables.
    pub(super) fn unopened(
        files: Memory,
        below: Arc<dyn Files>,
        durable: Durable,
        time: i64,
        change: impl FnOnce(&mut Options),
    ) -> Result<(Life, UnopenedTables), Error> {
        let servers = FakeServers::new(files.clone(), durable.clone());
        let name = "localhost,16000,1".parse().expect("a server's name");
        // No two masters draw the same numbers.
        let world = World::simulated(time.unsigned_abs(), WallTime(time));
        let mirrored = Arc::new(MirroredStates::default());
        // Failed steps are not retried, so that a failure that a test injects stays visible.
        let mut options = Options {
            procedures: procedure::Options { retries_max: 0, ..procedure::Options::default() },
            ..Options::default()
        };
        change(&mut options);
        let (master, tables) = Master::start(
            world,
            options,
            below,
            Arc::clone(&servers) as Arc<_>,
            Arc::clone(&servers) as Arc<_>,
            Arc::clone(&mirrored) as Arc<_>,
            name,
        )?;
        Ok((Life { files, durable, servers, mirrored, master }, tables))
    }

    /// Starts the next master, after the process was killed.
    pub(super) fn next(&self) -> Life {
        Life::on(self.files.kill(), self.durable.clone()).expect("a killed master starts again")
    }

    /// Starts the next master, after the machine lost its power. The seed decides which unsynced changes survive.
    pub(super) fn after_power_loss(&self, seed: u64) -> Life {
        Life::on(self.files.crash(seed), self.durable.clone())
            .expect("a master starts again after a loss of power")
    }

    /// Waits for a submitted change, and returns its result.
    pub(super) fn done(&self, id: Result<ProcedureId, Exception>) -> Result<(), Exception> {
        self.master.procedures.wait(id?).expect("a procedure just submitted is known").map(|_result| ())
    }

    pub(super) fn create(
        &self,
        table: &str,
        families: &[&str],
        splits: &[&'static str],
    ) -> Result<(), Exception> {
        let splits: Vec<Bytes> = splits.iter().map(|key| Bytes::from(*key)).collect();
        self.done(self.master.create_table(&schema(table, families), &splits, None))
    }

    /// Returns the files under a table's folder.
    pub(super) fn files_of(&self, table: &str) -> Vec<FileName> {
        let folder = layout::table(&name(table));
        self.files.list(&folder).expect("the disk works").into_iter().map(|entry| entry.name).collect()
    }

    /// Writes a file in the place where a region keeps the files of a family.
    pub(super) fn put_store_file(&self, table: &str, family: &str) -> FileName {
        let region = self.master.read_view(|view| view.tables[&name(table)].regions[0].region.clone());
        self.put_store_file_of(&region, family)
    }

    pub(super) fn put_store_file_of(&self, region: &RegionInfo, family: &str) -> FileName {
        let folder = layout::region(region.table(), region.encoded_name());
        let file = folder.join(family).join("0123");
        self.files.create(&file).and_then(|writer| writer.finish()).expect("the disk works");
        file
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.master.read_view(|view| view.tables.contains_key(&name(table)))
    }

    pub(super) fn state(&self, table: &str) -> pb::table_state::State {
        self.master.table_state(&pb_name(table)).expect("the table is there")
    }
}

pub(super) fn name(table: &str) -> TableName {
    table.parse().expect("a lawful name")
}

pub(super) fn pb_name(table: &str) -> pb::TableName {
    (&name(table)).into()
}

pub(super) fn schema(table: &str, families: &[&str]) -> pb::TableSchema {
    let family = |family: &&str| pb::ColumnFamilySchema {
        name: Bytes::copy_from_slice(family.as_bytes()),
        ..Default::default()
    };
    pb::TableSchema {
        table_name: Some(pb_name(table)),
        column_families: families.iter().map(family).collect(),
        ..Default::default()
    }
}
