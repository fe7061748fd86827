//! Compares hbase:meta, the master's view, the open regions and the folders of regions, and reports where they
//! contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use env::WallTime;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{EncodedName, RegionInfo, ServerName, TableName};
use rpc::Exception;
use storage::{Capability, FileName};

use super::folders::RegionFolders;
use crate::Master;
use crate::catalog::CatalogContent;
use crate::error::of_storage;
use crate::view::TableEntry;

/// The result of a check of the catalog.
#[derive(Clone, Debug)]
pub struct HbckReport {
    /// When the check began.
    pub began: WallTime,
    /// When the check ended.
    pub ended: WallTime,
    /// The inconsistencies, table by table.
    pub inconsistencies: Vec<Inconsistency>,
}

/// A contradiction between hbase:meta, the master's view, the open regions and the folders.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// A row of hbase:meta cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// hbase:meta has no state of a table, or a state other than the master's.
    #[error("hbase:meta has the state {found} of table {table}, expected {expected}; fixMeta writes it")]
    TableState {
        /// The table.
        table: TableName,
        /// The state that hbase:meta has.
        found: &'static str,
        /// The state that the master has.
        expected: &'static str,
    },
    /// hbase:meta has no row of a region that the master knows.
    #[error("hbase:meta has no row of region {0}; fixMeta writes it")]
    NoRow(Box<RegionInfo>),
    /// hbase:meta has a row of a region that the master does not know.
    #[error(
        "hbase:meta has region {0}, which this master does not serve; restart the server, or delete the row"
    )]
    Unknown(Box<RegionInfo>),
    /// No region covers some rows of a table.
    #[error("table {table} has no region for the rows from {start:?} until {end:?}; fixMeta makes one")]
    Hole {
        /// The table with the hole.
        table: TableName,
        /// The first row of the hole.
        start: Bytes,
        /// The row after the last one of the hole; empty for the end of the table.
        end: Bytes,
    },
    /// Two regions cover the same rows.
    #[error("{}", overlap_words(.0, .1))]
    Overlap(Box<RegionInfo>, Box<RegionInfo>),
    /// A region of an enabled table is not open.
    #[error("region {region} of an enabled table is {state}; assign it")]
    NotOpen {
        /// The region.
        region: Box<RegionInfo>,
        /// The state of the region.
        state: &'static str,
    },
    /// The opening of a region of an enabled table failed, so its rows are out of reach.
    #[error(
        "region {region} could not be opened: {cause}; the server tries again every minute: remove the cause, or put the file \
         that it names back from a backup"
    )]
    FailedOpen {
        /// The region.
        region: Box<RegionInfo>,
        /// Why the last attempt failed.
        cause: String,
    },
    /// A region serves with an earlier schema, because the last change of the schema failed there.
    #[error(
        "region {0} serves with an earlier schema of its table, because an alter failed there, as the log of the server says; it \
         is tried again every minute while all regions of the table can be opened: unassign and assign the region, or alter the table again"
    )]
    EarlierSchema(Box<RegionInfo>),
    /// A region is open that should not be.
    #[error("region {0} of a disabled table is open; unassign it")]
    Open(Box<RegionInfo>),
    /// The row of a region in hbase:meta has another state or server than the master.
    #[error("hbase:meta has region {region} as {found}, expected {expected}; fixMeta writes it")]
    Row {
        /// The region.
        region: Box<RegionInfo>,
        /// State and server in hbase:meta.
        found: String,
        /// The region's state and server according to the master.
        expected: String,
    },
    /// A region is open on a server that is not live.
    #[error("region {region} is open on {server}, which is not live; assign it")]
    UnknownServer {
        /// The region that is open.
        region: Box<RegionInfo>,
        /// The server that is not live.
        server: ServerName,
    },
    /// A region that was split is open.
    #[error("region {0} was split and is open; restart the server, which opens only its daughters")]
    OpenParent(Box<RegionInfo>),
    /// A region that was merged has a row of its own.
    #[error("region {parent} was merged into {child} and has a row in hbase:meta; delete that row")]
    MergedParent {
        /// The region that was merged.
        parent: Box<RegionInfo>,
        /// The region that has its rows.
        child: Box<RegionInfo>,
    },
    /// An open region belongs to no table.
    #[error("region {0} is open and in no table; restart the server, which opens only what hbase:meta has")]
    Stray(EncodedName),
    /// A region of hbase:meta has no folder.
    #[error("region {0} has no folder; stop the server and put the folder back, or truncate the region")]
    NoFolder(Box<RegionInfo>),
    /// There is a folder of a region that hbase:meta does not have, and it may have rows.
    #[error(
        "{folder} is the folder of a region that is not in hbase:meta; its rows are not served: load its files with \
         BulkLoadHFilesTool, or delete it unless other regions refer to its files"
    )]
    OrphanFolder {
        /// The table in whose folder the folder is.
        table: TableName,
        /// The folder of the region.
        folder: FileName,
    },
}

impl Master {
    /// Checks the catalog, logs the inconsistencies, and keeps the report for [`hbck_report`](Master::hbck_report).
    ///
    /// Reads hbase:meta once and lists the folder of all tables once. Tables that a procedure is changing or settling
    /// are left out, because they may be in any state between the steps of the change; only regions whose opening failed are reported
    /// then, too.
    pub(crate) fn run_hbck(&self) -> Result<HbckReport, Exception> {
        let began = self.world.now();
        let mut inconsistencies = Vec::new();
        let busy = self.busy_tables();
        let before = self.read_view(|view| view.tables.clone());
        let content = self.catalog.read().map_err(|error| Exception::io(error.to_string()))?;
        let unreadable = content.unreadable.iter().map(|error| Inconsistency::Unreadable(error.to_string()));
        inconsistencies.extend(unreadable);
        let (open, live) = (self.regions.open_regions()?, self.regions.live());
        let unknown = content.regions.iter().filter(|(table, _)| !before.contains_key(table));
        let unknown = unknown.flat_map(|(_, rows)| rows);
        inconsistencies.extend(unknown.map(|row| Inconsistency::Unknown(Box::new(row.region.clone()))));
        for (name, table) in before.iter().filter(|(name, _)| !name.is_meta()) {
            check_table(name, table, &content, (&open, &live), &mut inconsistencies);
        }
        inconsistencies.extend(self.strays(&before, &open)?);
        self.check_folders(&before, &content, &mut inconsistencies)?;
        let after = self.read_view(|view| view.tables.clone());
        inconsistencies.retain(|found| {
            found.table().is_none_or(|table| {
                let states = [&before, &after]
                    .map(|tables| tables.get(table).map(|entry| (entry.state, &entry.regions)));
                !busy.contains(table) && !self.is_busy(table) && states[0] == states[1]
            })
        });
        // A failed opening is no step of a change, so it is also reported while the table is being changed. Otherwise a change
        // that such a region keeps from ending would hide it.
        inconsistencies.extend(self.failed_regions());
        let report = HbckReport { began, ended: self.world.now(), inconsistencies };
        for inconsistency in &report.inconsistencies {
            tracing::warn!(%inconsistency, "hbck found an inconsistency");
        }
        let count = report.inconsistencies.len();
        tracing::info!(tables = before.len(), inconsistencies = count, "hbck has run");
        *self.hbck_report.lock() = Some(report.clone());
        Ok(report)
    }

    /// Returns the report of the last check; `None` before the first check.
    pub fn hbck_report(&self) -> Option<HbckReport> {
        self.hbck_report.lock().clone()
    }

    /// Returns those of the `open` regions that belong to no table. `before` is the view before they were listed.
    fn strays(
        &self,
        before: &BTreeMap<TableName, TableEntry>,
        open: &BTreeSet<EncodedName>,
    ) -> Result<Vec<Inconsistency>, Exception> {
        let mut strays = open.clone();
        let mut retain_unnamed = |tables: &BTreeMap<TableName, TableEntry>| {
            for row in tables.values().flat_map(|table| &table.regions) {
                strays.remove(row.region.encoded_name());
            }
            strays.is_empty()
        };
        // The regions of a table that is being created are open before the view has the table, and those of a creation that
        // failed until it is undone.
        let is_changing = || {
            self.procedures.unfinished() > 0
                || !self.intents.all().is_empty()
                || !self.failed_creations.lock().is_empty()
        };
        if retain_unnamed(before) || is_changing() || self.read_view(|view| retain_unnamed(&view.tables)) {
            return Ok(Vec::new());
        }
        // A creation that began and failed since then has closed its regions.
        let open = self.regions.open_regions()?;
        Ok(strays.intersection(&open).cloned().map(Inconsistency::Stray).collect())
    }

    /// Whether a procedure is changing a table, or is about to: a table that is [in doubt](Master::note_doubt) is settled
    /// within ten seconds, and a creation that failed is undone.
    fn is_busy(&self, table: &TableName) -> bool {
        self.procedures.is_busy(table)
            || !self.intents.of(table).is_empty()
            || self.is_in_doubt(table)
            || self.failed_creations.lock().contains(table)
    }

    fn busy_tables(&self) -> BTreeSet<TableName> {
        let tables: Vec<TableName> = self.read_view(|view| view.tables.keys().cloned().collect());
        let with_intents = self.intents.all().into_iter().map(|intent| intent.table().clone());
        tables.into_iter().filter(|table| self.is_busy(table)).chain(with_intents).collect()
    }

    /// Compares the folders of regions with the rows of hbase:meta. Compares nothing on storage whose listings may be
    /// stale.
    fn check_folders(
        &self,
        tables: &BTreeMap<TableName, TableEntry>,
        content: &CatalogContent,
        found: &mut Vec<Inconsistency>,
    ) -> Result<(), Exception> {
        if !self.files.capabilities().has(Capability::ListsAll) {
            return Ok(());
        }
        let folders = RegionFolders::list(&*self.files).map_err(of_storage)?;
        let rows = || tables.values().flat_map(|table| &table.regions);
        let in_meta = content.regions.values().flatten();
        let named: BTreeSet<(&TableName, &EncodedName)> = rows()
            .chain(in_meta)
            .flat_map(|row| row.merged_from.iter().chain([&row.region]))
            .map(|region| (region.table(), region.encoded_name()))
            .collect();
        for ((table, region), content) in &folders.regions {
            if !named.contains(&(table, region)) && !table.is_meta() && content.may_have_rows() {
                let folder = layout::region(table, region);
                found.push(Inconsistency::OrphanFolder { table: table.clone(), folder });
            }
        }
        let serving =
            tables.iter().filter(|(name, _)| !name.is_meta()).flat_map(|(_, table)| table.serving());
        let without = serving.filter(|row| !folders.has(&row.region));
        found.extend(without.map(|row| Inconsistency::NoFolder(Box::new(row.region.clone()))));
        Ok(())
    }
}

/// Compares the rows that hbase:meta has of a table with the view, the `open` regions and the `live` servers.
fn check_table(
    name: &TableName,
    table: &TableEntry,
    content: &CatalogContent,
    (open, live): (&BTreeSet<EncodedName>, &[ServerName]),
    found: &mut Vec<Inconsistency>,
) {
    let state = content.states.get(name);
    if state != Some(&table.state) {
        found.push(Inconsistency::TableState {
            table: name.clone(),
            found: state.map_or("none", TableState::as_str_name),
            expected: table.state.as_str_name(),
        });
    }
    let rows: &[RegionRow] = content.regions.get(name).map_or(&[], Vec::as_slice);
    let boxed = |row: &RegionRow| Box::new(row.region.clone());
    let known: BTreeMap<&Bytes, &RegionRow> =
        table.regions.iter().map(|row| (row.region.name(), row)).collect();
    let in_meta: BTreeMap<&Bytes, &RegionRow> = rows.iter().map(|row| (row.region.name(), row)).collect();
    for row in &table.regions {
        match in_meta.get(row.region.name()) {
            None => found.push(Inconsistency::NoRow(boxed(row))),
            // As in HBase, a row without a server keeps its columns with the last server, so these are not compared.
            Some(meta) if meta.state != row.state || (row.server.is_some() && meta.server != row.server) => {
                found.push(Inconsistency::Row {
                    region: boxed(row),
                    found: place(meta),
                    expected: place(row),
                });
            }
            Some(_) => {}
        }
        let merged = row.merged_from.iter().filter(|parent| known.contains_key(parent.name()));
        found.extend(merged.map(|parent| Inconsistency::MergedParent {
            parent: Box::new(parent.clone()),
            child: boxed(row),
        }));
    }
    let unknown = rows.iter().filter(|row| !known.contains_key(row.region.name()));
    found.extend(unknown.map(|row| Inconsistency::Unknown(boxed(row))));
    found.extend(gaps(name, &table.serving().collect::<Vec<_>>()));
    let is_open = |row: &RegionRow| open.contains(row.region.encoded_name());
    for row in table.serving() {
        let dead =
            row.server.as_ref().filter(|server| row.state == RegionState::Open && !live.contains(server));
        match (table.state, dead) {
            (TableState::Enabled, Some(server)) => {
                found.push(Inconsistency::UnknownServer { region: boxed(row), server: server.clone() });
            }
            // `Master::failed_regions` reports these, with the cause.
            (TableState::Enabled, None) if row.state == RegionState::FailedOpen && !is_open(row) => {}
            (TableState::Enabled, None) if !is_open(row) || row.state != RegionState::Open => {
                let state = if is_open(row) { row.state.as_str_name() } else { "not open" };
                found.push(Inconsistency::NotOpen { region: boxed(row), state });
            }
            (TableState::Disabled, _) if is_open(row) => found.push(Inconsistency::Open(boxed(row))),
            _ => {}
        }
    }
    let outdated = table.outdated().filter(|row| is_open(row));
    found.extend(outdated.map(|row| Inconsistency::EarlierSchema(boxed(row))));
    let parents = table.regions.iter().filter(|row| row.region.is_split() && is_open(row));
    found.extend(parents.map(|row| Inconsistency::OpenParent(boxed(row))));
}

/// Formats the state and the server of a row for people.
fn place(row: &RegionRow) -> String {
    let server = row.server.as_ref().map_or_else(|| "no server".to_owned(), ToString::to_string);
    format!("{} on {server}", row.state.as_str_name())
}

/// Describes an overlap and its remedy. A merge takes the files of both regions, so it brings back what was deleted from the
/// newer region after that had taken the rows of the older one.
fn overlap_words(one: &RegionInfo, other: &RegionInfo) -> String {
    let (older, newer) = if one.id() <= other.id() { (one, other) } else { (other, one) };
    format!(
        "regions {older} and {newer} cover the same rows; if the first was split or merged into the second, unassign the first, \
         delete its row from hbase:meta and restart the server, because a merge would bring deleted rows back; otherwise merge \
         them"
    )
}

/// Returns the holes and overlaps between regions of a table, which are in the order of their start keys.
pub fn gaps(table: &TableName, rows: &[&RegionRow]) -> Vec<Inconsistency> {
    let mut found = Vec::new();
    let mut hole = |start: &Bytes, end: &Bytes| {
        found.push(Inconsistency::Hole { table: table.clone(), start: start.clone(), end: end.clone() });
    };
    // Of the regions so far, the one with the greatest end key.
    let mut last: Option<&RegionInfo> = None;
    let mut overlaps = Vec::new();
    for RegionRow { region, .. } in rows {
        match last {
            None if !region.start_key().is_empty() => hole(&Bytes::new(), region.start_key()),
            None => {}
            Some(before) if before.end_key().is_empty() || before.end_key() > region.start_key() => {
                overlaps.push(Inconsistency::Overlap(Box::new(before.clone()), Box::new(region.clone())));
            }
            Some(before) if before.end_key() < region.start_key() => {
                hole(before.end_key(), region.start_key())
            }
            Some(_) => {}
        }
        let reaches_farther = last.is_none_or(|before| {
            !before.end_key().is_empty()
                && (region.end_key().is_empty() || region.end_key() > before.end_key())
        });
        if reaches_farther {
            last = Some(region);
        }
    }
    match last {
        None => hole(&Bytes::new(), &Bytes::new()),
        Some(last) if !last.end_key().is_empty() => hole(last.end_key(), &Bytes::new()),
        Some(_) => {}
    }
    found.extend(overlaps);
    found
}

impl Inconsistency {
    /// Returns the table that the inconsistency is about, if it is known.
    pub fn table(&self) -> Option<&TableName> {
        match self {
            Inconsistency::Unreadable(_) | Inconsistency::Stray(_) => None,
            Inconsistency::TableState { table, .. }
            | Inconsistency::Hole { table, .. }
            | Inconsistency::OrphanFolder { table, .. } => Some(table),
            Inconsistency::NoRow(region)
            | Inconsistency::Unknown(region)
            | Inconsistency::Overlap(region, _)
            | Inconsistency::NotOpen { region, .. }
            | Inconsistency::FailedOpen { region, .. }
            | Inconsistency::Row { region, .. }
            | Inconsistency::UnknownServer { region, .. }
            | Inconsistency::OpenParent(region)
            | Inconsistency::MergedParent { parent: region, .. }
            | Inconsistency::NoFolder(region)
            | Inconsistency::EarlierSchema(region)
            | Inconsistency::Open(region) => Some(region.table()),
        }
    }
}
