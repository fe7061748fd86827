//! Reads the content of a root folder of HBase: tables, regions, and the files of every store.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use env::World;
use proto::catalog::{RegionRow, TableState};
use proto::region_info::META_ENCODED_NAME;
use proto::{EncodedName, FamilyDescriptor, RegionInfo, TableDescriptor, TableName, pb, pbuf};
use region::{FoundBy, FoundStore, NamedStore, side_by_side};
use storage::{FileName, Files, Kind};

use crate::catalog::Catalog;
use crate::file_table::FileTable;
use crate::found::{
    FoundRegion, FoundTable, Keeper, LogEnds, OnDisk, STORES_AT_ONCE, Shutdown, is_file_table,
    read_region_info,
};
use crate::losses::{self, Report};
use crate::peek::read_rows;
use crate::procedures;
use crate::replay::{LOGS, LogFile, logs_of_servers, recovered};
use crate::{Error, Result, snapshots};

/// The layout version of HBase 2.x.
const LAYOUT: &str = "8";
const SMALL: usize = 64 << 10;

/// The content of a root folder of HBase, as far as an adoption depends on it.
#[derive(Debug)]
pub struct Inventory {
    /// The tables, including hbase:meta and the other system tables.
    pub tables: Vec<FoundTable>,
    /// The regions' rows in hbase:meta.
    pub(crate) rows: Vec<RegionRow>,
    /// HBase's logs whose writes are not all in store files.
    pub(crate) logs: Vec<LogFile>,
    /// The findings about an adoption: what prevents it, what it loses, and what the operator should know.
    pub report: Report,
}

/// Reads everything on which an adoption depends, and writes nothing. `files` is the root folder, and `log` is the
/// storage with HBase's folder `WALs`, which shows the end of open files as `ends` says.
pub fn look(
    files: &Arc<dyn Files>,
    log: &Arc<dyn Files>,
    ends: LogEnds,
    world: &World,
    ended: Shutdown,
) -> Result<Inventory> {
    check_version(&**files)?;
    let mut report = Report::default();
    let masters_logs = procedures::logs(log)?;
    losses::of_masters_logs(&masters_logs, ends, ended, &mut report);
    for procedure in procedures::unfinished(&procedures::rows(files, &masters_logs, world)?)? {
        report.blocks(format!(
            "HBase's master has not finished {procedure}: start HBase once more, wait until list_procedures shows it no \
             more, and stop it"
        ));
    }
    let mut logs = Vec::new();
    for name in OnDisk::list(&**files)?.unreplayed {
        logs.push(LogFile::scan(files, name)?);
    }
    for name in logs_of_servers(&**log, &FileName::new(LOGS))? {
        logs.push(LogFile::scan(log, name)?);
    }
    losses::of_logs(&logs, ends, ended, &mut report);
    let mut inventory = Inventory { tables: Vec::new(), rows: Vec::new(), logs, report };
    inventory.read_tables(&Source { files, world, keeper: Keeper::HBase, ends })?;
    losses::of_root(&**files, &inventory.tables, &mut inventory.report)?;
    snapshots::check(&**files, &mut inventory.report)?;
    Ok(inventory)
}

/// Reads a root of this project. The report's blockers name what is missing or cannot be read, so that it is not among
/// the tables.
pub(crate) fn inventory(files: &Arc<dyn Files>, world: &World) -> Result<Inventory> {
    let mut inventory =
        Inventory { tables: Vec::new(), rows: Vec::new(), logs: Vec::new(), report: Report::default() };
    inventory.read_tables(&Source { files, world, keeper: Keeper::Bellows, ends: LogEnds::Shown })?;
    Ok(inventory)
}

/// The root that is read, and how its files are found.
struct Source<'a> {
    files: &'a Arc<dyn Files>,
    world: &'a World,
    keeper: Keeper,
    ends: LogEnds,
}

impl Source<'_> {
    /// Finds the files of a family in a region. If the family's tracker is DEFAULT, and `file_table` names files of the
    /// store, these count instead of all in the folder. Fails with a sentence.
    fn find(
        &self,
        table: &TableDescriptor,
        family: &FamilyDescriptor,
        region: &RegionInfo,
        file_table: Option<&FileTable<'_>>,
    ) -> std::result::Result<NamedStore, String> {
        let folder = layout::region_folder(region);
        let by = self.keeper.found_by(table, family).unwrap_or(FoundBy::Folder);
        let file_table = file_table.filter(|_| by == FoundBy::Folder);
        let names = file_table.and_then(|table| table.names(region, family.name()));
        let found = match names.transpose()? {
            Some(names) => NamedStore::find(self.files, &folder, region, family, &names),
            None => {
                FoundStore::find(self.files, &folder, region, family, by, self.world).map(NamedStore::from)
            }
        };
        found.map_err(|cause| cause.to_string())
    }
}

impl Inventory {
    /// Fails if the report names anything that prevents a change of the root.
    pub(crate) fn check_blockers(&self) -> Result<()> {
        match &self.report.blockers[..] {
            [] => Ok(()),
            [first, others @ ..] => Err(Error::Blocked { first: first.clone(), others: others.len() }),
        }
    }

    fn read_tables(&mut self, source: &Source<'_>) -> Result<()> {
        let &Source { files, world, keeper, ends } = source;
        let disk = OnDisk::list(&**files)?;
        let meta = read_meta(files, world, keeper)?;
        let recovered = recovered(&self.logs, META_ENCODED_NAME.as_bytes(), world)?;
        let rows = read_rows(files, world, &meta.regions[0], &meta.descriptor, recovered)?;
        let mut content = Catalog::of_rows(&rows)?;
        let mut names: BTreeSet<TableName> = disk.regions.keys().cloned().collect();
        names.extend(content.regions.keys().chain(content.states.keys()).cloned());
        names.remove(&TableName::meta());
        self.tables.push(meta);
        // The table that names the files of all others is read first.
        let (first, others): (Vec<_>, Vec<_>) = names.into_iter().partition(is_file_table);
        let mut file_table = None;
        for name in first.into_iter().chain(others) {
            let rows = content.regions.remove(&name).unwrap_or_default();
            let state = content.states.get(&name).copied();
            if rows.is_empty() && state.is_none() {
                self.report.notes(format!(
                    "{} has files of a table that is not in hbase:meta: nobody serves it, and it is left as it is",
                    layout::table(&name)
                ));
                continue;
            }
            let Some(descriptor) = master::descriptors::read(&**files, &name)? else {
                self.report.blocks(format!(
                    "table {name} is in hbase:meta and has no .tableinfo in {}: restore that file, or remove the table's \
                     rows",
                    layout::descriptors(&name)
                ));
                continue;
            };
            if keeper == Keeper::HBase {
                losses::of_table(&descriptor, &mut self.report);
            }
            // Like HBase, treats a table without a state as enabled.
            let state = state.unwrap_or(TableState::Enabled);
            let mut table = FoundTable { descriptor, state, regions: Vec::new() };
            let folders =
                disk.regions.get(&name).into_iter().flatten().map(|(folder, _)| folder.clone()).collect();
            table.add_all(source, &rows, folders, file_table.as_ref(), &mut self.report)?;
            if keeper == Keeper::HBase && is_file_table(&name) {
                let may_be_old = ends == LogEnds::Hidden && self.logs.iter().any(|log| !log.is_closed);
                let (regions, logs) = ((&table, &serving(&rows)), (&self.logs[..], may_be_old));
                file_table = Some(FileTable::read(files, world, regions, logs, &mut self.report)?);
            }
            self.rows.extend(rows);
            self.tables.push(table);
        }
        Ok(())
    }
}

impl FoundTable {
    /// Adds the regions that hbase:meta or a folder names. `file_table` names the files of stores.
    fn add_all(
        &mut self,
        source: &Source<'_>,
        rows: &[RegionRow],
        mut folders: BTreeSet<EncodedName>,
        file_table: Option<&FileTable<'_>>,
        report: &mut Report,
    ) -> Result<()> {
        let keeper = source.keeper;
        let mut infos = Vec::new();
        for info in rows.iter().map(|row| &row.region) {
            if folders.remove(info.encoded_name()) {
                infos.push(info.clone());
                continue;
            }
            let what =
                format!("region {info} is in hbase:meta and has no folder {}", layout::region_folder(info));
            match keeper {
                Keeper::HBase => report.blocks(format!("{what}: repair the table with HBCK2 first")),
                // The deletion of the parent of a split was interrupted: the folder is deleted first.
                Keeper::Bellows if info.is_split() => report.notes(what),
                Keeper::Bellows => report.blocks(what),
            }
        }
        // In a root of this project only regions that serve rows must be whole. If a child still needs a file of its
        // parent, the child cannot be opened without it.
        let serving = serving(rows);
        let must_be_whole =
            |info: &RegionInfo| keeper == Keeper::HBase || serving.contains(info.encoded_name());
        // Folders without a row in hbase:meta remain: those of merged regions, and those that HBase's CatalogJanitor
        // has not deleted yet.
        for folder in folders {
            let folder = layout::region(self.descriptor.name(), &folder);
            match read_region_info(&**source.files, &folder) {
                Ok(info) => infos.push(info),
                Err(error) => report.notes(format!("{folder} is left as it is: {error}")),
            }
        }
        // A parent may have lost its names or some of its files already. Its children name the files that they need.
        let file_table_of = |info: &RegionInfo| file_table.filter(|_| serving.contains(info.encoded_name()));
        let families = self.descriptor.families();
        let stores: Vec<_> =
            infos.iter().flat_map(|info| families.iter().map(move |family| (info, family))).collect();
        let found = side_by_side("adopt", STORES_AT_ONCE, &stores, |(info, family)| {
            Ok::<_, Error>(source.find(&self.descriptor, family, info, file_table_of(info)))
        })?;
        let mut found = found.into_iter();
        for info in infos {
            let (must_be_whole, file_table) = (must_be_whole(&info), file_table_of(&info));
            self.add(info, must_be_whole, &mut found, file_table, report);
        }
        if let Some(file_table) = file_table {
            file_table.report_listed_folders(self, &serving, report);
        }
        Ok(())
    }

    /// Adds a region with the next stores of `found`, one for each family. A region with a store that cannot be read is
    /// not added, because its files are not known: it is reported, as a blocker if it `must_be_whole`.
    fn add(
        &mut self,
        info: RegionInfo,
        must_be_whole: bool,
        found: &mut impl Iterator<Item = std::result::Result<NamedStore, String>>,
        file_table: Option<&FileTable<'_>>,
        report: &mut Report,
    ) {
        let folder = layout::region_folder(&info);
        let (mut stores, mut is_whole) = (Vec::new(), true);
        for (family, found) in self.descriptor.families().iter().zip(found) {
            let found = match found {
                Ok(found) => found,
                Err(cause) => {
                    let what = format!("family {} of region {info}: {cause}", family.name().escape_ascii());
                    if must_be_whole {
                        report.blocks(what)
                    } else {
                        report.notes(what)
                    }
                    is_whole = false;
                    continue;
                }
            };
            if let Some(file_table) = file_table {
                is_whole &= file_table.report_store(&info, family.name(), &found, report);
            }
            let found = found.store;
            for file in &found.ignored {
                report.notes(format!("{file} is passed over, as HBase does, and removed later"));
            }
            let shown = family.name().escape_ascii();
            for missing in &found.missing_mob_files {
                report
                    .notes(format!("family {shown} of region {info}: {missing}; its values cannot be read"));
            }
            report.files += found.len();
            report.bytes += found.bytes;
            stores.push(found);
        }
        report.regions += 1;
        if is_whole {
            self.regions.push(FoundRegion { info, folder, stores });
        }
    }
}

/// Returns the regions that serve rows, of those that hbase:meta names.
fn serving(rows: &[RegionRow]) -> BTreeSet<EncodedName> {
    let regions = rows.iter().map(|row| &row.region).filter(|info| !info.is_split());
    regions.map(|info| info.encoded_name().clone()).collect()
}

pub(crate) fn check_version(files: &dyn Files) -> Result<()> {
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
pub(crate) fn read_meta(files: &Arc<dyn Files>, world: &World, keeper: Keeper) -> Result<FoundTable> {
    let name = TableName::meta();
    let descriptor = master::descriptors::read(&**files, &name)?.ok_or_else(|| Error::Missing {
        file: layout::descriptors(&name),
        remedy: "the root was never started; start HBase on it once, and stop it",
    })?;
    let info = RegionInfo::meta();
    let folder = layout::region_folder(&info);
    let mut stores = Vec::new();
    for family in descriptor.families() {
        let by = keeper.found_by(&descriptor, family).unwrap_or(FoundBy::Folder);
        let found = FoundStore::find(files, &folder, &info, family, by, world);
        stores.push(found.map_err(Error::of_region("hbase:meta"))?);
    }
    let regions = vec![FoundRegion { info, folder, stores }];
    Ok(FoundTable { descriptor, state: TableState::Enabled, regions })
}
