//! Hands a root back to HBase.
//!
//! In a root that was closed in order, folders, store files, lists, descriptors and hbase:meta are as HBase has them.
//! HBase's master also needs to know which server had hbase:meta open last, and which servers there were. It then
//! assigns all regions again, as after a restart. Both facts are in the master's own region, which this module writes.
//!
//! 1. Check that everything is in store files that can be read, and nothing is unfinished; otherwise change nothing.
//! 2. In stores of families that do not name the tracker FILE, move files that the list does not name to the archive:
//!    HBase counts all files in the folder there.
//! 3. Link MOB files of other tables, which the store files of clones name: HBase's cleaners know them by their links.
//! 4. Write `MasterData` again.
//! 5. Delete this project's log and its own small objects, also the tombstones of deleted snapshots.
//! 6. The caller deletes the version file of this project. From then on the root is HBase's.
//!
//! After a crash before the last step the root is still this project's, and all steps may be repeated.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cache::Cache;
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp, block};
use env::World;
use master::intents::Intents;
use proto::catalog::{Column, RegionRow};
use proto::descriptor::tracker::{TRACKER, TrackerKind};
use proto::{FamilyDescriptor, RegionId, RegionInfo, ServerName, TableDescriptor, TableName};
use region::{Durability, Mutation, MutationKind, Opening, ReadMode, Region, RegionOptions};
use storage::{FileName, Files, Memory};
use wal::LogReader;

use crate::found::{OnDisk, choice};
use crate::inventory::{Inventory, inventory};
use crate::peek::open_region;
use crate::replay::{LOGS, archive_logs, delete_own_logs};
use crate::{Error, Result};

/// The folder of HBase's master.
const MASTER: &str = "MasterData";

/// Converts a root that this project has closed in order to one that HBase can open. Only the version file of this
/// project is left, which the caller deletes.
pub fn hand_back(files: &Arc<dyn Files>, log: &Arc<dyn Files>, world: &World) -> Result<()> {
    let inventory = inventory(files, world)?;
    let notes = check_finished(files)?;
    check_flushed(&inventory, files, log, world)?;
    inventory.check_blockers()?;
    prepare_stores(&inventory, files)?;
    let servers = servers(&inventory, world);
    write_master_data(files, &servers, world)?;
    // While this object says that the log is open, a repeated call would refuse a root whose log was deleted.
    files.delete(&FileName::new("bellows.wal.state"))?;
    delete_own_logs(&**log)?;
    archive_logs(&**files, &**log)?;
    delete_folder(&**files, "bellows")?;
    for name in notes.into_iter().chain(layout::tombstones(&**files)?) {
        files.delete(&name)?;
    }
    files.delete(&FileName::new("bellows.wal"))?;
    Ok(log.delete(&FileName::new("bellows.wal.of"))?)
}

/// Moves files that a store's list does not name to the archive, if HBase finds the store's files without a list, or may
/// find them so after a migration. Links MOB files of other tables.
fn prepare_stores(inventory: &Inventory, files: &Arc<dyn Files>) -> Result<()> {
    for table in &inventory.tables {
        for region in &table.regions {
            let failed = |cause| Error::of_region(&region.folder)(cause);
            for (store, family) in region.stores.iter().zip(table.descriptor.families()) {
                if TrackerKind::parse(choice(&table.descriptor, family).tracker) != Some(TrackerKind::File) {
                    store.make_folder_exact(files, &region.folder, family).map_err(failed)?;
                }
                store.link_mob_files(files, &region.folder, family).map_err(failed)?;
            }
        }
    }
    Ok(())
}

fn delete_folder(files: &dyn Files, name: &str) -> Result<()> {
    for entry in files.list(&FileName::new(name))? {
        files.delete(&entry.name)?;
    }
    Ok(())
}

/// Refuses a root with changes that only this project can finish. Returns the objects in which regions have recorded
/// bulk loads that ended.
fn check_finished(files: &Arc<dyn Files>) -> Result<Vec<FileName>> {
    if let Some(intent) = Intents::left_in(&**files)?.first() {
        let what = format!("a change of table {}", intent.table());
        return Err(Error::Unfinished { what });
    }
    if let Some(snapshot) = Intents::deletions_left_in(&**files)?.first() {
        return Err(Error::Unfinished { what: format!("the deletion of snapshot {snapshot}") });
    }
    let notes = OnDisk::list(&**files)?.bulk_loads;
    for note in &notes {
        if region::is_bulk_load_unfinished(&**files, note).map_err(Error::of_region(note))? {
            return Err(Error::Unfinished { what: format!("a bulk load ({note})") });
        }
    }
    Ok(notes)
}

/// Fails unless the root in `files` can do without its log in `log`: the log's owner has closed it, and every write in it
/// is in store files. Writes nothing.
pub fn check_log_is_flushed(files: &Arc<dyn Files>, log: &Arc<dyn Files>, world: &World) -> Result<()> {
    let reader = LogReader::open(log, &FileName::new(LOGS))?;
    if !reader.was_closed() {
        return Err(Error::NotClosed);
    }
    if reader.regions().iter().all(|region| reader.sequences(region).is_none()) {
        return Ok(());
    }
    let inventory = inventory(files, world)?;
    // A table that cannot be read may have writes in the log.
    inventory.check_blockers()?;
    check_flushed(&inventory, files, log, world)
}

/// Refuses a root whose log has writes that are in no store file.
fn check_flushed(
    inventory: &Inventory,
    files: &Arc<dyn Files>,
    log: &Arc<dyn Files>,
    world: &World,
) -> Result<()> {
    let reader = Arc::new(LogReader::open(log, &FileName::new(LOGS))?);
    for table in &inventory.tables {
        for found in &table.regions {
            if reader.sequences(found.info.encoded_name().as_str().as_bytes()).is_none() {
                continue;
            }
            let recovered = Some(Arc::clone(&reader));
            let region = open_region(files, world, found, &table.descriptor, recovered)?;
            if region.replayed() > 0 {
                return Err(Error::NotFlushed { region: found.info.to_string() });
            }
        }
    }
    Ok(())
}

/// Returns the servers that hbase:meta names. HBase assigns their regions again. If it names none, returns one server
/// on `localhost`, because HBase needs one.
fn servers(inventory: &Inventory, world: &World) -> Vec<ServerName> {
    let named = inventory.rows.iter().flat_map(|row| [&row.server, &row.target]).flatten();
    let servers: BTreeSet<String> = named.map(ToString::to_string).collect();
    let servers: Vec<ServerName> = servers.iter().filter_map(|name| name.parse().ok()).collect();
    if servers.is_empty() {
        let now = world.now().0;
        return format!("localhost,16020,{now}").parse().into_iter().collect();
    }
    servers
}

/// Returns the descriptor of the table of the master's own region, as HBase describes it.
fn master_table() -> TableDescriptor {
    let family = |name: &'static str| FamilyDescriptor::new(name).expect("a lawful name").with("VERSIONS", 1);
    let mut table = TableDescriptor::new(TableName::new("master", "store").expect("a lawful name"));
    table.attributes_mut().set("IS_META".into(), "false".into());
    table.attributes_mut().set(TRACKER.into(), TrackerKind::Default.as_str().into());
    table.set_family(
        family("info")
            .with("VERSIONS", 3)
            .with("IN_MEMORY", true)
            .with("BLOCKSIZE", 8192)
            .with("DATA_BLOCK_ENCODING", "ROW_INDEX_V1")
            .with("BLOOMFILTER", "ROWCOL"),
    );
    for name in ["proc", "rs", "state"] {
        table.set_family(family(name));
    }
    table
}

/// Writes the region of HBase's master. The region says that hbase:meta was open on the first of `servers`, and that
/// all of them were online.
fn write_master_data(files: &Arc<dyn Files>, servers: &[ServerName], world: &World) -> Result<()> {
    delete_folder(&**files, MASTER)?;
    let table = master_table();
    let base = FileName::new(MASTER).join("data/master/store");
    let info = RegionInfo::new(table.name().clone(), Bytes::new(), Bytes::new(), RegionId(1));
    let info = info.expect("the whole range of keys");
    let folder = base.join(info.encoded_name().as_str());
    let log_files: Arc<dyn Files> = Arc::new(Memory::new());
    let (log, _) = wal::Log::open(world.clone(), log_files, FileName::new(LOGS), wal::Options::default())?;
    let failed = |cause| Error::of_region(&folder)(cause);
    let region = Region::open(Opening {
        info,
        table: Arc::new(table.clone()),
        files: Arc::clone(files),
        folder: folder.clone(),
        log: Arc::new(log),
        cache: Arc::new(Cache::with_bytes(0)),
        world: world.clone(),
        options: RegionOptions::default(),
        recovered: None,
    })
    .map_err(failed)?;
    let now = Timestamp(world.now().0);
    let mut rows = Vec::new();
    for server in servers {
        let column = Column { family: "rs".into(), qualifier: "state".into(), value: "ONLINE".into() };
        rows.push(put(Bytes::from(server.to_string()), &[column], now)?);
    }
    if let Some(server) = servers.first() {
        let row = RegionRow::open(RegionInfo::meta(), server.clone(), 1);
        rows.push(put(row.key(), &row.columns(), now)?);
    }
    for outcome in region.apply(&rows, ReadMode::Any).map_err(failed)?.outcomes {
        outcome.map_err(failed)?;
    }
    region.close().map_err(failed)?;
    // With HBase's DEFAULT tracker all files in the folder count as files of the store.
    for entry in files.list(&folder)? {
        if entry.name.parent().is_some_and(|parent| parent.last() == ".filelist") {
            files.delete(&entry.name)?;
        }
    }
    Ok(master::descriptors::write_in(&**files, &base.join(".tabledesc"), &table, world.now())?)
}

fn put(row: Bytes, columns: &[Column], timestamp: Timestamp) -> Result<Mutation> {
    let mut cells = Vec::new();
    for column in columns {
        let Column { family, qualifier, value } = column;
        let parts =
            CellParts { row: &row, family, qualifier, timestamp, cell_type: CellType::Put, value, tags: b"" };
        let bytes = parts.to_vec().expect("names and values are short");
        block::write_with_tags(&mut cells, Cell::trusted(&bytes, SequenceId::ZERO));
    }
    Ok(Mutation {
        kind: MutationKind::Put,
        row,
        cells: CellBlock::parse(cells.into()).expect("whole cells"),
        durability: Durability::Sync,
        time_range: None,
        return_results: false,
        nonce: None,
    })
}
