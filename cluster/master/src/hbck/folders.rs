//! Finds the folders of regions below the root directory.

use std::collections::BTreeSet;

use proto::{EncodedName, RegionInfo, TableName};
use storage::{FileName, Files};

/// The regions that have a folder. A folder counts if its `.regioninfo` says to which region it belongs. A folder
/// without this file may hold store files that snapshots or readers still need.
#[derive(Debug, Default)]
pub(super) struct RegionFolders {
    pub(super) regions: BTreeSet<(TableName, EncodedName)>,
}

impl RegionFolders {
    /// Lists the folders of all tables.
    pub(super) fn list(files: &dyn Files) -> storage::Result<RegionFolders> {
        let data = FileName::new("data");
        let mut regions = BTreeSet::new();
        for entry in files.list(&data)? {
            let parts: Vec<&str> = entry.name.below(&data).unwrap_or_default().split('/').collect();
            let [namespace, table, region, _] = &parts[..] else { continue };
            let (Ok(table), Ok(region)) = (TableName::new(namespace, table), EncodedName::parse(region))
            else {
                continue;
            };
            if layout::region_info(&table, &region) == entry.name {
                regions.insert((table, region));
            }
        }
        Ok(RegionFolders { regions })
    }

    /// Whether a region has its folder.
    pub(super) fn has(&self, region: &RegionInfo) -> bool {
        self.regions.contains(&(region.table().clone(), region.encoded_name().clone()))
    }
}
