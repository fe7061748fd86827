//! Checks a root of this project that no server has open: hbase:meta, the folders of regions, and every store's file
//! list with the files that it names. The MOB files that the store files name must exist; they are not read.
//!
//! Nothing is written. Writes to hbase:meta that are only in the log are read, too, so a root whose server was killed
//! can be checked. A change that the next start will finish, such as a split, is a note, and its table is not compared
//! further. A running server has more to compare and checks itself (`master::Inconsistency`).

use std::collections::BTreeSet;
use std::sync::Arc;

use env::World;
use master::Inconsistency;
use master::intents::Intents;
use proto::catalog::RegionRow;
use proto::region_info::META_ENCODED_NAME;
use proto::{FamilyDescriptor, RegionInfo, TableDescriptor, TableName};
use region::{FoundBy, FoundStore};
use storage::{FileName, Files};
use wal::LogReader;

use crate::catalog::Catalog;
use crate::found::{Keeper, OnDisk, read_region_info};
use crate::inventory::{check_version, read_meta};
use crate::peek::read_rows;
use crate::replay::LOGS;
use crate::{Error, Result};

/// The result of checking a root.
#[derive(Debug, Default)]
pub struct FsckReport {
    /// Number of tables in hbase:meta, including hbase:meta.
    pub tables: usize,
    /// Number of regions whose files were checked.
    pub regions: usize,
    /// Number of store files that were opened.
    pub files: usize,
    /// Size in bytes of the store files that were opened.
    pub bytes: u64,
    /// The inconsistencies, each with what to do.
    pub inconsistencies: Vec<String>,
    /// Findings that are no inconsistencies, but worth knowing.
    pub notes: Vec<String>,
}

/// Checks the root in `files`, whose log is in the folder `WALs` of `log`.
///
/// Fails if the version file, the unfinished changes, the log or hbase:meta itself cannot be read.
pub fn fsck(files: &Arc<dyn Files>, log: &Arc<dyn Files>, world: &World) -> Result<FsckReport> {
    check_version(&**files)?;
    let mut checkup = FsckReport::default();
    let changing: BTreeSet<TableName> =
        Intents::left_in(&**files)?.iter().map(|intent| intent.table().clone()).collect();
    let meta = read_meta(files, world, Keeper::Bellows)?;
    checkup.tables += 1;
    checkup.regions += 1;
    checkup.add(&meta.regions[0].stores);
    let reader = Arc::new(LogReader::open(log, &FileName::new(LOGS))?);
    let recovered = reader.sequences(META_ENCODED_NAME.as_bytes()).map(|_| Arc::clone(&reader));
    let rows = read_rows(files, world, &meta.regions[0], &meta.descriptor, recovered)?;
    let mut content = Catalog::of_rows(&rows)?;
    let mut disk = OnDisk::list(&**files)?;
    disk.regions.remove(&TableName::meta());
    let mut names: BTreeSet<TableName> =
        content.regions.keys().chain(content.states.keys()).cloned().collect();
    names.extend(disk.regions.keys().cloned());
    for name in names {
        if changing.contains(&name) {
            checkup
                .notes
                .push(format!("a change of table {name} is not finished; the next start finishes it"));
            continue;
        }
        let rows = content.regions.remove(&name).unwrap_or_default();
        let folders = disk.regions.remove(&name).unwrap_or_default();
        let named = rows.iter().flat_map(|row| row.merged_from.iter().chain([&row.region]));
        let named: BTreeSet<_> = named.map(RegionInfo::encoded_name).collect();
        for (folder, content) in folders.iter().filter(|(folder, _)| !named.contains(folder)) {
            let folder = layout::region(&name, folder);
            // A folder without a `.regioninfo` is not counted as a region's: it may hold files that snapshots need.
            if read_region_info(&**files, &folder).is_err() {
                continue;
            }
            if content.may_have_rows() {
                checkup.finds(Inconsistency::OrphanFolder { table: name.clone(), folder });
            } else {
                checkup.notes.push(format!(
                    "{folder} is left of a region that was deleted; it has no rows, and may be deleted"
                ));
            }
        }
        if !content.states.contains_key(&name) && rows.is_empty() {
            continue;
        }
        checkup.tables += 1;
        match master::descriptors::read(&**files, &name) {
            Ok(Some(table)) => checkup.check_table(files, world, &table, &rows)?,
            Ok(None) => checkup.inconsistencies.push(format!(
                "table {name} has no descriptor in {}; put the file back from a backup",
                layout::descriptors(&name)
            )),
            Err(error) => checkup.inconsistencies.push(format!("table {name}: {error}")),
        }
    }
    Ok(checkup)
}

/// What a region is in its table.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// The region has rows of its own.
    Serving,
    /// The region was split or merged. The master deletes its folder first and its entry in hbase:meta second, so a
    /// crash may leave only the entry. If a child still needs a file of the parent, fsck reports that file with the
    /// child.
    Parent,
}

impl FsckReport {
    /// Adds a note about a parent whose deletion a crash has interrupted.
    fn half_deleted(&mut self, parent: &RegionInfo) {
        self.notes.push(format!(
            "the deletion of region {parent}, which was split or merged, is not finished; the server does it"
        ));
    }

    fn finds(&mut self, inconsistency: Inconsistency) {
        self.inconsistencies.push(inconsistency.to_string());
    }

    fn add(&mut self, stores: &[FoundStore]) {
        for store in stores {
            self.files += store.len();
            self.bytes += store.bytes;
        }
    }

    /// Checks the rows that hbase:meta has of a table, and the files of its regions.
    fn check_table(
        &mut self,
        files: &Arc<dyn Files>,
        world: &World,
        table: &TableDescriptor,
        rows: &[RegionRow],
    ) -> Result<()> {
        let serving = rows.iter().filter(|row| !row.region.is_offline() && !row.region.is_split());
        let mut serving: Vec<&RegionRow> = serving.collect();
        serving.sort_by_key(|row| (row.region.start_key().clone(), row.region.id()));
        master::gaps(table.name(), &serving).into_iter().for_each(|gap| self.finds(gap));
        for row in rows {
            let is_row = |parent: &&RegionInfo| rows.iter().any(|row| row.region.name() == parent.name());
            for parent in row.merged_from.iter().filter(is_row) {
                self.finds(Inconsistency::MergedParent {
                    parent: Box::new(parent.clone()),
                    child: Box::new(row.region.clone()),
                });
            }
            for parent in &row.merged_from {
                self.check_region(files, world, table, parent, Role::Parent)?;
            }
            let role = if row.region.is_split() { Role::Parent } else { Role::Serving };
            self.check_region(files, world, table, &row.region, role)?;
        }
        Ok(())
    }

    /// Checks that the `.regioninfo` in the folder of `region` is that of the region, and that every file in the
    /// region's file lists can be opened.
    fn check_region(
        &mut self,
        files: &Arc<dyn Files>,
        world: &World,
        table: &TableDescriptor,
        region: &RegionInfo,
        role: Role,
    ) -> Result<()> {
        self.regions += 1;
        let folder = layout::region_folder(region);
        match read_region_info(&**files, &folder) {
            Ok(found) if found.name() == region.name() => {}
            Ok(found) => self.inconsistencies.push(format!(
                "{folder} says that it is region {found}, expected {region}; put its .regioninfo back from a backup"
            )),
            Err(Error::Storage(error)) if error.kind() == storage::Kind::NotFound => {
                if role == Role::Parent {
                    self.half_deleted(region);
                    return Ok(());
                }
                self.finds(Inconsistency::NoFolder(Box::new(region.clone())));
                return Ok(());
            }
            Err(error) => self.inconsistencies.push(error.to_string()),
        }
        for family in table.families() {
            match FoundStore::find(files, &folder, region, family, FoundBy::List, world) {
                Ok(store) => {
                    // A child of a parent reports the MOB files of the parent's files that it needs.
                    if role == Role::Serving {
                        self.check_mob_files(region, family, &store);
                    }
                    self.add(&[store]);
                }
                Err(_) if role == Role::Parent => {
                    self.half_deleted(region);
                    return Ok(());
                }
                Err(cause) => {
                    let family = family.name().escape_ascii();
                    self.inconsistencies.push(format!(
                        "family {family} of region {region}: {cause}; put the file back from a backup, or restore \
                         the table from an exported snapshot: a snapshot in this data directory may name the same file"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Reports the MOB files that a store's files name and that do not exist.
    fn check_mob_files(&mut self, region: &RegionInfo, family: &FamilyDescriptor, store: &FoundStore) {
        let (table, family) = (region.table(), family.name().escape_ascii());
        for missing in &store.missing_mob_files {
            self.inconsistencies.push(format!(
                "family {family} of table {table}: {missing}; its values cannot be read until you put it back from a \
                 backup"
            ));
        }
        if store.without_mob_list > 0 {
            self.notes.push(format!(
                "family {family} of region {region}: {} store files do not say which MOB files they need, so these are \
                 not checked; a major compaction writes the names",
                store.without_mob_list
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp};
    use proto::RegionId;
    use proto::catalog::RegionState;
    use region::{Durability, FlushReason, Mutation, MutationKind, Opening, ReadMode, Region, RegionOptions};
    use storage::Memory;

    use super::*;

    fn region(number: u64) -> RegionInfo {
        let table = "t".parse().expect("a name");
        RegionInfo::new(table, Default::default(), Default::default(), RegionId(number)).expect("a region")
    }

    /// Writes a value to a MOB file of the region, and returns the MOB file's name.
    fn write_mob_file(files: &Memory, info: &RegionInfo, table: &TableDescriptor) -> FileName {
        let world = World::real();
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let log = wal::Log::open(world.clone(), Arc::clone(&shared), FileName::new(LOGS), Default::default());
        let region = Region::open(Opening {
            info: info.clone(),
            table: Arc::new(table.clone()),
            files: shared,
            folder: layout::region_folder(info),
            log: Arc::new(log.expect("a log").0),
            cache: Arc::new(cache::Cache::with_bytes(1 << 20)),
            world,
            options: RegionOptions::default(),
            recovered: None,
        })
        .expect("opened");
        let parts = CellParts {
            row: b"r",
            family: b"f",
            qualifier: b"q",
            timestamp: Timestamp(1),
            cell_type: CellType::Put,
            value: b"a value above the threshold",
            tags: b"",
        };
        let bytes = parts.to_vec().expect("within limits");
        let mut block = Vec::new();
        cell::block::write_with_tags(&mut block, Cell::trusted(&bytes, SequenceId::ZERO));
        let put = Mutation {
            kind: MutationKind::Put,
            row: "r".into(),
            cells: CellBlock::parse(block.into()).expect("whole"),
            durability: Durability::UseDefault,
            time_range: None,
            return_results: false,
            nonce: None,
        };
        let applied = region.apply(&[put], ReadMode::Any).expect("serving");
        applied.pending.wait_blocking().expect("durable");
        region.flush(FlushReason::Requested).expect("flushed");
        region.close().expect("closed");
        let mut written = files.list(&FileName::new("mobdir")).expect("listed");
        assert_eq!(written.len(), 1);
        written.remove(0).name
    }

    fn write(files: &Memory, name: &FileName, bytes: &[u8]) {
        let mut file = files.create(name).expect("created");
        file.write(bytes).expect("written");
        file.finish().expect("finished");
    }

    #[test]
    fn a_mob_file_that_is_neither_among_mob_files_nor_in_the_archive_is_an_inconsistency() {
        let memory = Memory::new();
        let mut table = TableDescriptor::new("t".parse().expect("a name"));
        let family = FamilyDescriptor::new("f").expect("a name");
        table.set_family(family.with("IS_MOB", "true").with("MOB_THRESHOLD", 10));
        let region = region(1);
        let mob_file = write_mob_file(&memory, &region, &table);
        let files: Arc<dyn Files> = Arc::new(memory.clone());
        let row = RegionRow::new(region, RegionState::Open);
        let check = || {
            let mut report = FsckReport::default();
            let rows = std::slice::from_ref(&row);
            report.check_table(&files, &World::real(), &table, rows).expect("nothing fails");
            assert_eq!((report.files, report.notes.len()), (1, 0));
            report.inconsistencies
        };
        assert_eq!(check(), [""; 0]);
        let bytes = files.read(&mob_file, 1 << 20).expect("read");
        files.delete(&mob_file).expect("deleted");
        let found = check();
        assert_eq!(found.len(), 1, "{found:?}");
        for part in
            ["family f of table t: data/default/t/", &format!("the MOB file {mob_file}, which is missing")]
        {
            assert!(found[0].contains(part), "{found:?}");
        }
        let in_archive = mob_file.below(&FileName::new("mobdir")).expect("below");
        write(&memory, &FileName::new("archive").join(in_archive), &bytes);
        assert_eq!(check(), [""; 0]);
    }

    #[test]
    fn a_parent_whose_folder_is_deleted_already_is_a_note_and_a_serving_region_without_one_is_not() {
        let files: Arc<dyn Files> = Arc::new(Memory::new());
        let mut table = TableDescriptor::new("t".parse().expect("a name"));
        table.set_family(FamilyDescriptor::new("f").expect("a name"));
        let mut row = RegionRow::new(region(3), RegionState::Open);
        row.merged_from = vec![region(1), region(2)];
        let mut report = FsckReport::default();
        report.check_table(&files, &World::real(), &table, &[row]).expect("nothing fails");
        let child = Inconsistency::NoFolder(Box::new(region(3)));
        assert_eq!(report.inconsistencies, [child.to_string()]);
        assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
        assert!(report.notes[0].contains("is not finished"), "{:?}", report.notes);
    }
}
