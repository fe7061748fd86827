//! What lies in a root folder of HBase: tables, regions, the files of every store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use env::World;
use proto::catalog::TableState;
use proto::{EncodedName, FamilyDescriptor, RegionInfo, TableDescriptor, TableName, pb, pbuf};
use region::{FoundBy, FoundStore};
use storage::{FileName, Files, Kind};

use crate::catalog::Catalog;
use crate::losses::{self, Report};
use crate::peek::read_rows;
use crate::procedures::{self, MasterStore};
use crate::{Error, Result};

/// The attribute that names the tracker of a table or family.
pub(crate) const TRACKER: &str = "hbase.store.file-tracker.impl";
/// The layout of HBase 2.x.
const LAYOUT: &str = "8";
const SMALL: usize = 64 << 10;

/// What lies in a root folder of HBase, as far as an adoption rests on it.
#[derive(Debug)]
pub struct Inventory {
    /// The tables, also hbase:meta and the other system tables.
    pub tables: Vec<FoundTable>,
    /// What was found out about the adoption.
    pub report: Report,
}

/// A table.
#[derive(Debug)]
pub struct FoundTable {
    /// Its newest descriptor.
    pub descriptor: TableDescriptor,
    /// Its state.
    pub state: TableState,
    /// Its regions: all that hbase:meta or a folder names.
    pub regions: Vec<FoundRegion>,
}

/// A region.
#[derive(Debug)]
pub struct FoundRegion {
    /// The region.
    pub info: RegionInfo,
    /// Its folder.
    pub folder: FileName,
    /// Its stores, in the order of the table's families.
    pub stores: Vec<FoundStore>,
}

/// Reads what an adoption rests on. `files` is the root folder, `log` the place that has the folder `WALs`. Nothing is
/// written.
pub fn look(files: &Arc<dyn Files>, log: &dyn Files, world: &World) -> Result<Inventory> {
    check_version(&**files)?;
    let mut report = Report::default();
    let store = MasterStore::find(&**files)?;
    for procedure in procedures::unfinished(&store.rows(files, world)?)? {
        report.blocks(format!(
            "HBase's master has not finished {procedure}: start HBase once more, wait until list_procedures shows it no \
             more, and stop it"
        ));
    }
    losses::of_logs(log, &mut report)?;
    let disk = OnDisk::list(&**files)?;
    for file in &disk.unreplayed {
        report.blocks(format!(
            "{file} has writes that HBase has not replayed: start HBase once more, and stop it when all regions are open"
        ));
    }
    let meta = read_meta(files, world)?;
    let region = &meta.regions[0];
    let rows = read_rows(files, world, &region.folder, &region.info, &meta.descriptor, &region.stores)?;
    let mut content = Catalog::of_rows(&rows)?;
    let mut names: BTreeSet<TableName> = disk.regions.keys().cloned().collect();
    names.extend(content.regions.keys().chain(content.states.keys()).cloned());
    names.remove(&TableName::meta());
    let mut tables = vec![meta];
    for name in names {
        let rows = content.regions.remove(&name).unwrap_or_default();
        let state = content.states.get(&name).copied();
        if rows.is_empty() && state.is_none() {
            report.notes(format!(
                "{} has files of a table that is not in hbase:meta: nobody serves it, and it is left as it is",
                layout::table(&name)
            ));
            continue;
        }
        let Some(descriptor) = master::descriptors::read(&**files, &name)? else {
            report.blocks(format!(
                "table {name} is in hbase:meta and has no .tableinfo in {}: restore that file, or remove the table's rows",
                layout::descriptors(&name)
            ));
            continue;
        };
        losses::of_table(&descriptor, &mut report);
        let folders = disk.regions.get(&name).cloned().unwrap_or_default();
        // HBase counts a table without a state as enabled.
        let mut table =
            FoundTable { descriptor, state: state.unwrap_or(TableState::Enabled), regions: Vec::new() };
        for info in rows.into_iter().map(|row| row.region) {
            if !folders.contains(info.encoded_name()) {
                report.blocks(format!(
                    "region {info} is in hbase:meta and has no folder {}: repair the table with HBCK2 first",
                    layout::region_folder(&info)
                ));
                continue;
            }
            table.add(files, world, info, &mut report)?;
        }
        for folder in folders {
            // Regions that were merged, and what HBase's janitor had not come to.
            if table.regions.iter().any(|region| *region.info.encoded_name() == folder) {
                continue;
            }
            let folder = layout::region(&name, &folder);
            match read_region_info(&**files, &folder) {
                Ok(info) => table.add(files, world, info, &mut report)?,
                Err(error) => report.notes(format!("{folder} is left as it is: {error}")),
            }
        }
        tables.push(table);
    }
    losses::of_root(&**files, &tables, &mut report)?;
    Ok(Inventory { tables, report })
}

impl FoundTable {
    /// Adds a region with the files of its stores.
    fn add(
        &mut self,
        files: &Arc<dyn Files>,
        world: &World,
        info: RegionInfo,
        report: &mut Report,
    ) -> Result<()> {
        let folder = layout::region_folder(&info);
        let mut stores = Vec::new();
        for family in self.descriptor.families() {
            let by = found_by(&self.descriptor, family).unwrap_or(FoundBy::Folder);
            let found = match FoundStore::find(files, &folder, &info, family, by, world) {
                Ok(found) => found,
                Err(cause) => {
                    let family = family.name().escape_ascii();
                    report.blocks(format!("family {family} of region {info}: {cause}"));
                    FoundStore::default()
                }
            };
            for file in &found.ignored {
                report.notes(format!("{file} is passed over, as HBase does, and removed later"));
            }
            report.files += found.len();
            report.bytes += found.bytes;
            stores.push(found);
        }
        report.regions += 1;
        self.regions.push(FoundRegion { info, folder, stores });
        Ok(())
    }
}

/// The tracker of a family; `None` for one that is neither DEFAULT nor FILE.
pub(crate) fn found_by(table: &TableDescriptor, family: &FamilyDescriptor) -> Option<FoundBy> {
    let own = family.configured(TRACKER).or_else(|| family.attributes().text(TRACKER));
    match own.or_else(|| table.attributes().text(TRACKER)) {
        None => Some(FoundBy::Folder),
        Some(name) if name.eq_ignore_ascii_case("DEFAULT") => Some(FoundBy::Folder),
        Some(name) if name.eq_ignore_ascii_case("FILE") => Some(FoundBy::List),
        Some(_) => None,
    }
}

/// Reads the `.regioninfo` of a region's folder.
pub(crate) fn read_region_info(files: &dyn Files, folder: &FileName) -> Result<RegionInfo> {
    let name = folder.join(".regioninfo");
    let content = Bytes::from(files.read(&name, 2 * SMALL)?);
    RegionInfo::from_file(&content)
        .map_err(|cause| Error::Damaged { file: name.to_string(), cause: Box::new(cause) })
}

fn check_version(files: &dyn Files) -> Result<()> {
    let file = layout::version();
    let content = match files.read(&file, SMALL) {
        Ok(content) => Bytes::from(content),
        Err(error) if error.kind() == Kind::NotFound => return Err(Error::NoRoot(files.place())),
        Err(error) => return Err(error.into()),
    };
    let content: pb::HBaseVersionFileContent = pbuf::decode("hbase.version", &content)
        .map_err(|cause| Error::Damaged { file: file.to_string(), cause: Box::new(cause) })?;
    if content.version == LAYOUT { Ok(()) } else { Err(Error::Version { file, found: content.version }) }
}

/// Finds the files of hbase:meta.
fn read_meta(files: &Arc<dyn Files>, world: &World) -> Result<FoundTable> {
    let name = TableName::meta();
    let descriptor = master::descriptors::read(&**files, &name)?.ok_or_else(|| Error::Missing {
        file: layout::descriptors(&name),
        remedy: "the root was never started; start HBase on it once, and stop it",
    })?;
    let info = RegionInfo::meta();
    let folder = layout::region_folder(&info);
    let mut stores = Vec::new();
    for family in descriptor.families() {
        let by = found_by(&descriptor, family).unwrap_or(FoundBy::Folder);
        let found = FoundStore::find(files, &folder, &info, family, by, world);
        stores.push(found.map_err(Error::of_region("hbase:meta"))?);
    }
    let regions = vec![FoundRegion { info, folder, stores }];
    Ok(FoundTable { descriptor, state: TableState::Enabled, regions })
}

/// What the folders below `data` say.
#[derive(Default)]
struct OnDisk {
    regions: BTreeMap<TableName, BTreeSet<EncodedName>>,
    /// Files of `recovered.edits` that hold writes.
    unreplayed: Vec<FileName>,
}

impl OnDisk {
    fn list(files: &dyn Files) -> Result<OnDisk> {
        let mut found = OnDisk::default();
        let data = FileName::new("data");
        for entry in files.list(&data)? {
            let parts: Vec<&str> = entry.name.below(&data).unwrap_or_default().split('/').collect();
            let [namespace, table, rest @ ..] = &parts[..] else { continue };
            let Ok(name) = TableName::new(namespace, table) else { continue };
            let regions = found.regions.entry(name).or_default();
            if let [region, _, ..] = rest
                && let Ok(region) = EncodedName::parse(region)
            {
                regions.insert(region);
            }
            if let [_, "recovered.edits", file] = rest
                && entry.size > 0
                && file.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit())
            {
                found.unreplayed.push(entry.name);
            }
        }
        Ok(found)
    }
}
