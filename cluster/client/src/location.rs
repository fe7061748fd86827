//! The cache of region locations.
//!
//! For each table the cache holds its regions by start key. A lookup in hbase:meta is a reversed scan that begins at
//! the largest possible name of a region with the row; the first row that it finds is the region. The scan reads a few
//! more rows, so neighbouring regions are cached, too. When a server rejects a call because an entry is stale, the
//! entry is removed.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use env::HashMap;
use env::sync::Mutex;
use proto::{RegionInfo, ServerName, TableName};

/// A region and the server that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The region.
    pub region: RegionInfo,
    /// The server that serves the region.
    pub server: ServerName,
}

/// Which region a lookup by row returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupMode {
    /// The region that contains the row.
    Of,
    /// The region before the row: it ends at or contains the greatest key less than the row. For an empty row it is the
    /// table's last region.
    Before,
}

#[derive(Default)]
pub(crate) struct Cache {
    tables: Mutex<HashMap<TableName, BTreeMap<Bytes, Arc<Location>>>>,
}

impl Cache {
    pub(crate) fn find(&self, table: &TableName, row: &[u8], which: LookupMode) -> Option<Arc<Location>> {
        let tables = self.tables.lock();
        let regions = tables.get(table)?;
        let location = match which {
            LookupMode::Of => {
                regions.range::<[u8], _>((Bound::Unbounded, Bound::Included(row))).next_back()?.1
            }
            LookupMode::Before if row.is_empty() => regions.last_key_value()?.1,
            LookupMode::Before => {
                regions.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(row))).next_back()?.1
            }
        };
        let region = &location.region;
        let end = region.end_key();
        let holds = match which {
            LookupMode::Of => region.contains_row(row),
            LookupMode::Before if row.is_empty() => end.is_empty(),
            LookupMode::Before => end.is_empty() || &end[..] >= row,
        };
        holds.then(|| Arc::clone(location))
    }

    pub(crate) fn insert(&self, location: Location) {
        let mut tables = self.tables.lock();
        let regions = tables.entry(location.region.table().clone()).or_default();
        // Known regions that overlap the new one were split or merged since, so they are removed.
        regions.retain(|_, known| !known.region.overlaps(&location.region));
        regions.insert(location.region.start_key().clone(), Arc::new(location));
    }

    /// Removes a location, unless a newer location of the region has replaced it.
    pub(crate) fn remove(&self, location: &Location) {
        let mut tables = self.tables.lock();
        if let Some(regions) = tables.get_mut(location.region.table())
            && regions.get(location.region.start_key()).is_some_and(|known| **known == *location)
        {
            regions.remove(location.region.start_key());
        }
    }

    pub(crate) fn remove_server(&self, server: &ServerName) {
        for regions in self.tables.lock().values_mut() {
            regions.retain(|_, location| location.server != *server);
        }
    }

    pub(crate) fn remove_table(&self, table: &TableName) {
        self.tables.lock().remove(table);
    }
}

/// Returns the start row of the reversed scan of hbase:meta for a lookup.
pub(crate) fn meta_start(table: &TableName, row: &[u8], which: LookupMode) -> Bytes {
    let mut key = table.as_bytes().to_vec();
    match which {
        LookupMode::Before if row.is_empty() => key.push(0),
        LookupMode::Before => {
            key.push(b',');
            key.extend_from_slice(row);
            key.extend_from_slice(b",00000000000000");
        }
        LookupMode::Of => {
            key.push(b',');
            key.extend_from_slice(row);
            key.extend_from_slice(b",99999999999999");
        }
    }
    key.into()
}

/// Returns the stop row of the reversed scan of hbase:meta for a lookup: the smallest possible name of a region of the
/// table.
pub(crate) fn meta_stop(table: &TableName) -> Bytes {
    let mut key = table.as_bytes().to_vec();
    key.extend_from_slice(b",,");
    key.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::RegionId;

    fn location(start: &'static str, end: &'static str, port: u16) -> Location {
        let table = "t".parse().expect("a name");
        let region = RegionInfo::new(table, start.into(), end.into(), RegionId(1)).expect("a region");
        Location { region, server: ServerName { host: "h".to_owned(), port, start_code: 1 } }
    }

    #[test]
    fn a_row_is_found_in_its_region_and_before_it() {
        let cache = Cache::default();
        let table: TableName = "t".parse().expect("a name");
        assert_eq!(cache.find(&table, b"x", LookupMode::Of), None);
        for known in [location("", "c", 1), location("c", "m", 2), location("p", "", 3)] {
            cache.insert(known);
        }
        let port =
            |row: &str, which| cache.find(&table, row.as_bytes(), which).map(|found| found.server.port);
        assert_eq!(port("", LookupMode::Of), Some(1));
        assert_eq!(port("c", LookupMode::Of), Some(2));
        assert_eq!(port("m", LookupMode::Of), None, "a gap is not guessed");
        assert_eq!(port("z", LookupMode::Of), Some(3));
        assert_eq!(port("c", LookupMode::Before), Some(1));
        assert_eq!(port("d", LookupMode::Before), Some(2));
        assert_eq!(port("p", LookupMode::Before), None);
        assert_eq!(port("", LookupMode::Before), Some(3), "the last one");
    }

    #[test]
    fn a_newer_location_replaces_those_that_it_overlaps() {
        let cache = Cache::default();
        let table: TableName = "t".parse().expect("a name");
        cache.insert(location("", "", 1));
        cache.insert(location("a", "k", 2));
        assert_eq!(cache.find(&table, b"", LookupMode::Of), None);
        assert_eq!(cache.find(&table, b"b", LookupMode::Of), Some(Arc::new(location("a", "k", 2))));
        cache.remove(&location("a", "k", 1));
        assert!(cache.find(&table, b"b", LookupMode::Of).is_some(), "only the very one is forgotten");
        cache.remove_server(&location("", "", 2).server);
        assert_eq!(cache.find(&table, b"b", LookupMode::Of), None);
    }
}
