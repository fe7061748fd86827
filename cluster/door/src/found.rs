//! The types that describe the content of a root folder.

use std::collections::BTreeMap;

use bytes::Bytes;
use layout::RegionContent;
use proto::catalog::TableState;
use proto::descriptor::tracker::{TrackerChoice, TrackerKind};
use proto::{EncodedName, FamilyDescriptor, RegionInfo, TableDescriptor, TableName};
use region::{FoundBy, FoundStore};
use storage::{FileName, Files};

use crate::{Error, Result};

/// Maximum size of a `.regioninfo` that is read, in bytes.
const REGION_INFO_MAX: usize = 128 << 10;

/// Maximum number of stores that are read or changed at the same time. Each takes several requests, one after the other.
pub(crate) const STORES_AT_ONCE: usize = 16;

/// A table of the root.
#[derive(Debug)]
pub struct FoundTable {
    /// The newest descriptor of the table.
    pub descriptor: TableDescriptor,
    /// The state of the table.
    pub state: TableState,
    /// The regions of the table: all regions that hbase:meta or a folder names, without those that the report says
    /// cannot be read.
    pub regions: Vec<FoundRegion>,
}

/// A region of the root.
#[derive(Debug)]
pub struct FoundRegion {
    /// The name, keys and id of the region.
    pub info: RegionInfo,
    /// The folder of the region.
    pub folder: FileName,
    /// The stores of the region, in the order of the table's families.
    pub stores: Vec<FoundStore>,
}

/// How HBase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// HBase was stopped in order: there are no logs.
    Clean,
    /// HBase may have been killed. The caller has made sure that none of its processes runs.
    MaybeKilled,
}

/// How much of a log file can be read that HBase has left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnds {
    /// All of it.
    Shown,
    /// Not its end, as in HDFS, unless [`close_logs`](crate::close_logs) was called since.
    Hidden,
}

/// The program to which a root belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// Apache HBase: the tracker that a family names decides where the names of its files are recorded.
    HBase,
    /// This project: every store has a file list, whatever tracker its family names.
    Bellows,
}

impl Keeper {
    /// Returns where the files of a family's stores are recorded; `None` if the family names a tracker that HBase 2.6
    /// does not have.
    pub(crate) fn found_by(self, table: &TableDescriptor, family: &FamilyDescriptor) -> Option<FoundBy> {
        if self == Keeper::Bellows {
            return Some(FoundBy::List);
        }
        match choice(table, family).reads_by()? {
            TrackerKind::File => Some(FoundBy::List),
            _ => Some(FoundBy::Folder),
        }
    }
}

/// Returns the trackers that HBase uses for a family. If the table names no tracker, it was created by a release that
/// had only DEFAULT.
pub(crate) fn choice<'a>(table: &'a TableDescriptor, family: &'a FamilyDescriptor) -> TrackerChoice<'a> {
    TrackerChoice::of_family(table, family, TrackerKind::Default.as_str())
}

/// Whether this is the table in which the HBase of Amazon EMR keeps the names of store files.
pub(crate) fn is_file_table(table: &TableName) -> bool {
    table.as_str() == "hbase:storefile"
}

/// Reads the `.regioninfo` of a region's folder.
pub(crate) fn read_region_info(files: &dyn Files, folder: &FileName) -> Result<RegionInfo> {
    let name = folder.join(".regioninfo");
    let content = Bytes::from(files.read(&name, REGION_INFO_MAX)?);
    RegionInfo::from_file(&content)
        .map_err(|cause| Error::Damaged { file: name.to_string(), cause: Box::new(cause) })
}

/// The content of the folders below `data`.
#[derive(Default)]
pub(crate) struct OnDisk {
    /// The folders of regions and what is in them, by table.
    pub(crate) regions: BTreeMap<TableName, BTreeMap<EncodedName, RegionContent>>,
    /// Files of `recovered.edits` that have writes, by region and number.
    pub(crate) unreplayed: Vec<FileName>,
    /// The objects in which this project's regions record their last bulk loads.
    pub(crate) bulk_loads: Vec<FileName>,
}

impl OnDisk {
    pub(crate) fn list(files: &dyn Files) -> Result<OnDisk> {
        let mut found = OnDisk::default();
        let data = FileName::new("data");
        for entry in files.list(&data)? {
            let parts: Vec<&str> = entry.name.below(&data).unwrap_or_default().split('/').collect();
            let [namespace, table, rest @ ..] = &parts[..] else { continue };
            let Ok(name) = TableName::new(namespace, table) else { continue };
            let regions = found.regions.entry(name).or_default();
            if let [region, within @ ..] = rest
                && !within.is_empty()
                && let Ok(region) = EncodedName::parse(region)
            {
                regions.entry(region).or_default().add(within);
            }
            if let [_, "recovered.edits", file] = rest
                && entry.size > 0
                && file.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit())
            {
                found.unreplayed.push(entry.name);
            } else if let [_, file] = rest
                && *file == region::BULK_LOAD_NOTE
            {
                found.bulk_loads.push(entry.name);
            }
        }
        Ok(found)
    }
}
