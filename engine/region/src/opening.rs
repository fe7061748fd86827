//! The inputs of opening a region.

use std::sync::Arc;

use cache::Cache;
use env::World;
use proto::{RegionInfo, TableDescriptor};
use storage::{FileName, Files};

use crate::RegionOptions;

/// The inputs of opening a region.
#[derive(Clone)]
pub struct Opening {
    /// The region to open.
    pub info: RegionInfo,
    /// The descriptor of the region's table.
    pub table: Arc<TableDescriptor>,
    /// The storage that holds the region's files.
    pub files: Arc<dyn Files>,
    /// The region's folder in that storage.
    pub folder: FileName,
    /// The server's log.
    pub log: Arc<wal::Log>,
    /// The cache for the region's blocks.
    pub cache: Arc<Cache>,
    /// The clock and random numbers.
    pub world: World,
    /// The options of the region.
    pub options: RegionOptions,
    /// The log that earlier processes have left; `None` if there was none. An opening leaves its records in place.
    pub recovered: Option<Arc<wal::LogReader>>,
}
