//! The content of hbase:meta and hbase:namespace in memory: tables, their states and regions, and namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{EncodedName, TableDescriptor, TableName, pb};

/// What the master knows of a table.
#[derive(Debug, Clone)]
pub struct TableEntry {
    /// The schema of the table.
    pub descriptor: Arc<TableDescriptor>,
    /// The state of the table.
    pub state: TableState,
    /// The regions of the table by start key. A split parent comes after its first daughter.
    pub regions: Vec<RegionRow>,
    /// The regions that were open during the last change of the schema and were not brought to it yet.
    pub outdated: BTreeSet<EncodedName>,
}

impl TableEntry {
    /// Creates the entry of a table with these regions.
    pub fn new(
        descriptor: Arc<TableDescriptor>,
        state: TableState,
        mut regions: Vec<RegionRow>,
    ) -> TableEntry {
        sort(&mut regions);
        TableEntry { descriptor, state, regions, outdated: BTreeSet::new() }
    }

    /// Returns the table's name and state, as HBase's exceptions show them.
    pub fn state_words(&self) -> String {
        format!("tableName={}, state={}", self.descriptor.name(), self.state.as_str_name())
    }

    /// Returns the regions that serve rows: all but split parents and those that are offline.
    pub fn serving(&self) -> impl Iterator<Item = &RegionRow> {
        self.regions.iter().filter(|row| !row.region.is_offline() && !row.region.is_split())
    }

    /// Returns the open regions that have an earlier schema of the table.
    pub fn outdated(&self) -> impl Iterator<Item = &RegionRow> {
        self.serving().filter(|row| row.state == RegionState::Open && self.is_outdated(row))
    }

    fn is_outdated(&self, row: &RegionRow) -> bool {
        self.outdated.contains(row.region.encoded_name())
    }

    /// Returns the regions of an enabled table that do not serve with its schema yet.
    pub fn without_schema(&self) -> impl Iterator<Item = &RegionRow> {
        let is_enabled = self.state == TableState::Enabled;
        self.serving().filter(move |row| match row.state {
            RegionState::FailedOpen => is_enabled,
            RegionState::Open => self.is_outdated(row),
            _ => false,
        })
    }

    /// Replaces the row of a region, or adds it.
    ///
    /// A merged region keeps its parents if the new row lacks them, because hbase:meta keeps columns that a new row
    /// does not set.
    pub fn update(&mut self, mut row: RegionRow) {
        match self.regions.iter_mut().find(|known| known.region.name() == row.region.name()) {
            Some(known) => {
                if row.merged_from.is_empty() {
                    row.merged_from = std::mem::take(&mut known.merged_from);
                }
                *known = row;
            }
            None => self.regions.push(row),
        }
        // A split parent comes after the regions that serve.
        sort(&mut self.regions);
    }
}

/// Sorts regions in the order of [`TableEntry::regions`].
fn sort(regions: &mut [RegionRow]) {
    let key = |row: &RegionRow| (row.region.start_key().clone(), row.region.is_split(), row.region.id());
    regions.sort_by_key(key);
}

/// All tables and namespaces.
#[derive(Debug, Default)]
pub struct CatalogView {
    /// Tables by name, including hbase:meta. Only the methods below add and remove tables and change their states.
    pub tables: BTreeMap<TableName, TableEntry>,
    /// Namespaces by name.
    pub namespaces: BTreeMap<String, pb::NamespaceDescriptor>,
    /// Changes of table states that [`take_state_changes`](CatalogView::take_state_changes) has not returned yet, in
    /// order.
    state_changes: Vec<StateChange>,
}

/// A table's new state; `None` when the table was removed.
pub type StateChange = (TableName, Option<TableState>);

impl CatalogView {
    /// Adds a table, or replaces the one of its name.
    pub fn put_table(&mut self, table: TableEntry) {
        let name = table.descriptor.name().clone();
        self.state_changes.push((name.clone(), Some(table.state)));
        self.tables.insert(name, table);
    }

    /// Removes a table, if it exists.
    pub fn remove_table(&mut self, name: &TableName) {
        if self.tables.remove(name).is_some() {
            self.state_changes.push((name.clone(), None));
        }
    }

    /// Sets the state of a table, if it exists.
    pub fn set_state(&mut self, name: &TableName, state: TableState) {
        if let Some(table) = self.tables.get_mut(name) {
            table.state = state;
            self.state_changes.push((name.clone(), Some(state)));
        }
    }

    /// Returns the changes of table states since the last call, the oldest first.
    pub fn take_state_changes(&mut self) -> Vec<StateChange> {
        std::mem::take(&mut self.state_changes)
    }

    /// Returns the row of a region.
    pub fn region(&self, name: &EncodedName) -> Option<&RegionRow> {
        let mut all = self.tables.values().flat_map(|table| &table.regions);
        all.find(|row| row.region.encoded_name() == name)
    }

    /// Returns the number of tables of a namespace.
    pub fn count_in(&self, namespace: &str) -> usize {
        self.tables.keys().filter(|table| table.namespace() == namespace).count()
    }
}

/// Whether the regions, which must be in the order of their start keys, cover every row exactly once.
pub fn covers_all_rows<'a>(regions: impl Iterator<Item = &'a RegionRow>) -> bool {
    let mut next = Some(Bytes::new());
    for row in regions {
        if next.as_ref() != Some(row.region.start_key()) {
            return false;
        }
        next = Some(row.region.end_key().clone()).filter(|end| !end.is_empty());
    }
    next.is_none()
}

/// Whether clients count a region in this state as being in transition.
pub fn is_in_transition(state: RegionState) -> bool {
    !matches!(
        state,
        RegionState::Open
            | RegionState::Closed
            | RegionState::Offline
            | RegionState::Split
            | RegionState::Merged
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{RegionId, RegionInfo};

    fn row(start: &'static str, end: &'static str) -> RegionRow {
        let region = RegionInfo::new("t".parse().unwrap(), start.into(), end.into(), RegionId(1)).unwrap();
        RegionRow::new(region, RegionState::Open)
    }

    #[test]
    fn a_gap_an_overlap_or_an_end_too_soon_is_not_whole() {
        let whole = |rows: &[RegionRow]| covers_all_rows(rows.iter());
        assert!(whole(&[row("", "")]));
        assert!(whole(&[row("", "c"), row("c", "m"), row("m", "")]));
        assert!(!whole(&[]));
        assert!(!whole(&[row("", "c")]));
        assert!(!whole(&[row("a", "")]));
        assert!(!whole(&[row("", "c"), row("d", "")]));
        assert!(!whole(&[row("", "c"), row("b", "")]));
        assert!(!whole(&[row("", ""), row("b", "")]));
    }
}
