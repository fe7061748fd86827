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
    /// The region.
    pub info: RegionInfo,
    /// Its table.
    pub table: Arc<TableDescriptor>,
    /// The storage that holds its files.
    pub files: Arc<dyn Files>,
    /// Its folder in that storage.
    pub folder: FileName,
    /// The server's log.
    pub log: Arc<wal::Log>,
    /// The cache for its blocks.
    pub cache: Arc<Cache>,
    /// Clock and random numbers.
    pub world: World,
    /// Its options.
    pub options: RegionOptions,
    /// The log of earlier runs; `None` if there was none.
    pub recovered: Option<Arc<wal::LogReader>>,
}
