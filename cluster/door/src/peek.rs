//! Reads a region of HBase without changing its folder.
//!
//! The engine finds a store's files in a file list. HBase's DEFAULT tracker writes none, so this module keeps such
//! lists in memory, in storage that passes all other calls to the root's files.

use std::sync::Arc;

use cache::Cache;
use env::World;
use proto::TableDescriptor;
use proto::catalog::CatalogRow;
use region::{Opening, Region, RegionOptions};
use storage::{Entry, FileName, FileReader, Files, Memory, Object, Overlay};

use crate::found::FoundRegion;
use crate::{Error, Result};

/// Size of the block cache while a region is read, in bytes.
const CACHE_BYTES: usize = 32 << 20;

/// Storage with the lists of some stores in memory instead of on disk.
struct WithLists {
    below: Arc<dyn Files>,
    lists: Memory,
}

/// Whether the name is that of a store's list, or of the folder of lists.
fn is_list(name: &FileName) -> bool {
    name.last() == ".filelist" || name.parent().is_some_and(|folder| folder.last() == ".filelist")
}

impl Overlay for WithLists {
    fn below(&self) -> &dyn Files {
        &*self.below
    }

    fn list(&self, folder: &FileName) -> storage::Result<Vec<Entry>> {
        if is_list(folder) { self.lists.list(folder) } else { self.below.list(folder) }
    }

    fn open(&self, name: &FileName) -> storage::Result<Arc<dyn FileReader>> {
        if is_list(name) { self.lists.open(name) } else { self.below.open(name) }
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<Object> {
        if is_list(name) { self.lists.load(name, bytes_max) } else { self.below.load(name, bytes_max) }
    }
}

/// Opens a region for reading, with the writes that are only in its log.
pub(crate) fn open_region(
    files: &Arc<dyn Files>,
    world: &World,
    found: &FoundRegion,
    table: &TableDescriptor,
    recovered: Option<Arc<wal::LogReader>>,
) -> Result<Arc<Region>> {
    let failed = |cause| Error::of_region(&found.folder)(cause);
    let lists = Memory::new();
    let in_memory: Arc<dyn Files> = Arc::new(lists.clone());
    for (store, family) in found.stores.iter().zip(table.families()) {
        store.write_list(&in_memory, &found.folder, family, world).map_err(failed)?;
    }
    let log_files: Arc<dyn Files> = Arc::new(Memory::new());
    let (log, _) = wal::Log::open(world.clone(), log_files, FileName::new("WALs"), wal::Options::default())?;
    Region::open_for_reading(Opening {
        info: found.info.clone(),
        table: Arc::new(table.clone()),
        files: Arc::new(WithLists { below: Arc::clone(files), lists }),
        folder: found.folder.clone(),
        log: Arc::new(log),
        cache: Arc::new(Cache::with_bytes(CACHE_BYTES)),
        world: world.clone(),
        options: RegionOptions::default(),
        recovered,
    })
    .map_err(failed)
}

/// Reads all rows of a region, including writes that are only in its log.
pub(crate) fn read_rows(
    files: &Arc<dyn Files>,
    world: &World,
    found: &FoundRegion,
    table: &TableDescriptor,
    recovered: Option<Arc<wal::LogReader>>,
) -> Result<Vec<CatalogRow>> {
    let region = open_region(files, world, found, table, recovered)?;
    region::catalog_rows(&region).map_err(Error::of_region(&found.folder))
}
