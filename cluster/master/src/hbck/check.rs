//! Compares hbase:meta, the master's view and the open regions, and reports where they contradict each other.

use std::collections::BTreeSet;

use bytes::Bytes;
use env::WallTime;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{EncodedName, RegionInfo, TableName};
use rpc::Exception;

use crate::Master;
use crate::catalog::CatalogContent;

/// The result of a check.
#[derive(Clone, Debug)]
pub struct HbckReport {
    /// When the check began.
    pub began: WallTime,
    /// When it ended.
    pub ended: WallTime,
    /// The inconsistencies, table by table.
    pub inconsistencies: Vec<Inconsistency>,
}

/// A contradiction in the catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// A row of hbase:meta cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// hbase:meta has no state of a table, or another than the master.
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
    /// Rows of a table that no region covers.
    #[error("table {table} has no region for the rows from {start:?} until {end:?}; fixMeta makes one")]
    Hole {
        /// The table.
        table: TableName,
        /// The first row.
        start: Bytes,
        /// The row after the last one; empty for the end of the table.
        end: Bytes,
    },
    /// Two regions cover the same rows.
    #[error("regions {0} and {1} cover the same rows; merge them")]
    Overlap(Box<RegionInfo>, Box<RegionInfo>),
    /// A region of an enabled table is not open.
    #[error("region {region} of an enabled table is {state}; assign it")]
    NotOpen {
        /// The region.
        region: Box<RegionInfo>,
        /// Its state.
        state: &'static str,
    },
    /// A region is open that should not be.
    #[error("region {0} of a disabled table is open; unassign it")]
    Open(Box<RegionInfo>),
}

impl Master {
    /// Checks the catalog, logs what is wrong, and keeps the report for [`hbck_report`](Master::hbck_report).
    pub(crate) fn run_hbck(&self) -> Result<HbckReport, Exception> {
        let began = self.world.now();
        let mut inconsistencies = Vec::new();
        // Tables that change while they are looked at are left out: what is half done is no inconsistency.
        let busy = self.busy_tables();
        let content = self.catalog.read().map_err(|error| Exception::io(error.to_string()))?;
        let unreadable = content.unreadable.iter().map(|error| Inconsistency::Unreadable(error.to_string()));
        inconsistencies.extend(unreadable);
        let tables = self.read_view(|view| view.tables.clone());
        let open = self.regions.open_regions()?;
        let unknown = content.regions.iter().filter(|(table, _)| !tables.contains_key(table));
        let unknown = unknown.flat_map(|(_, rows)| rows);
        inconsistencies.extend(unknown.map(|row| Inconsistency::Unknown(Box::new(row.region.clone()))));
        for (name, table) in tables.iter().filter(|(name, _)| !name.is_meta()) {
            check_table(name, table, &content, &open, &mut inconsistencies);
        }
        let busy: BTreeSet<TableName> = busy.into_iter().chain(self.busy_tables()).collect();
        inconsistencies.retain(|found| found.table().is_none_or(|table| !busy.contains(table)));
        let report = HbckReport { began, ended: self.world.now(), inconsistencies };
        for inconsistency in &report.inconsistencies {
            tracing::warn!(%inconsistency, "hbck found an inconsistency");
        }
        tracing::info!(tables = tables.len(), inconsistencies = report.inconsistencies.len(), "hbck has run");
        *self.hbck_report.lock() = Some(report.clone());
        Ok(report)
    }

    /// Returns the report of the last check; `None` before the first.
    pub fn hbck_report(&self) -> Option<HbckReport> {
        self.hbck_report.lock().clone()
    }

    fn busy_tables(&self) -> BTreeSet<TableName> {
        let tables: Vec<TableName> = self.read_view(|view| view.tables.keys().cloned().collect());
        let is_busy =
            |table: &TableName| self.procedures.is_busy(table) || !self.intents.of(table).is_empty();
        tables.into_iter().filter(is_busy).collect()
    }
}

/// Compares the rows that hbase:meta has of a table with the view and the `open` regions.
fn check_table(
    name: &TableName,
    table: &crate::view::TableEntry,
    content: &CatalogContent,
    open: &BTreeSet<EncodedName>,
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
    let is_among = |row: &RegionRow, rows: &[RegionRow]| {
        rows.iter().any(|other| other.region.name() == row.region.name())
    };
    let lost = table.regions.iter().filter(|row| !is_among(row, rows));
    found.extend(lost.map(|row| Inconsistency::NoRow(boxed(row))));
    let unknown = rows.iter().filter(|row| !is_among(row, &table.regions));
    found.extend(unknown.map(|row| Inconsistency::Unknown(boxed(row))));
    found.extend(gaps(name, &table.serving().collect::<Vec<_>>()));
    for row in table.serving() {
        let is_open = open.contains(row.region.encoded_name());
        match table.state {
            TableState::Enabled if !is_open || row.state != RegionState::Open => {
                let state = if is_open { row.state.as_str_name() } else { "not open" };
                found.push(Inconsistency::NotOpen { region: boxed(row), state });
            }
            TableState::Disabled if is_open => found.push(Inconsistency::Open(boxed(row))),
            _ => {}
        }
    }
}

/// Holes and overlaps between the regions of a table, which are in the order of their start keys.
pub(super) fn gaps(table: &TableName, rows: &[&RegionRow]) -> Vec<Inconsistency> {
    let mut found = Vec::new();
    let mut hole = |start: &Bytes, end: &Bytes| {
        found.push(Inconsistency::Hole { table: table.clone(), start: start.clone(), end: end.clone() });
    };
    // The region that reaches farthest so far; `None` at the beginning.
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
    /// The table concerned, if known.
    pub fn table(&self) -> Option<&TableName> {
        match self {
            Inconsistency::Unreadable(_) => None,
            Inconsistency::TableState { table, .. } | Inconsistency::Hole { table, .. } => Some(table),
            Inconsistency::NoRow(region)
            | Inconsistency::Unknown(region)
            | Inconsistency::Overlap(region, _)
            | Inconsistency::NotOpen { region, .. }
            | Inconsistency::Open(region) => Some(region.table()),
        }
    }
}
