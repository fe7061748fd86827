//! Finds the folders of regions below the root directory.

use std::collections::BTreeMap;

use layout::RegionContent;
use proto::{EncodedName, RegionInfo, TableName};
use storage::{FileName, Files};

/// The regions that have a folder, with what is in it. A folder counts if it has a `.regioninfo`. A folder without this
/// file may hold store files that snapshots or readers still need.
#[derive(Debug, Default)]
pub(super) struct RegionFolders {
    pub(super) regions: BTreeMap<(TableName, EncodedName), RegionContent>,
}

impl RegionFolders {
    /// Lists the folders of all tables.
    pub(super) fn list(files: &dyn Files) -> storage::Result<RegionFolders> {
        let data = FileName::new("data");
        let mut regions: BTreeMap<_, RegionContent> = BTreeMap::new();
        for entry in files.list(&data)? {
            let parts: Vec<&str> = entry.name.below(&data).unwrap_or_default().split('/').collect();
            let [namespace, table, region, within @ ..] = &parts[..] else { continue };
            let (Ok(table), Ok(region)) = (TableName::new(namespace, table), EncodedName::parse(region))
            else {
                continue;
            };
            regions.entry((table, region)).or_default().add(within);
        }
        regions.retain(|_, content| content.has_info);
        Ok(RegionFolders { regions })
    }

    /// Whether a region has its folder.
    pub(super) fn has(&self, region: &RegionInfo) -> bool {
        self.regions.contains_key(&(region.table().clone(), region.encoded_name().clone()))
    }
}
