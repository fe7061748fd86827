//! A region in memory, and a sink for its cells, for benchmarks of reads.

use std::sync::Arc;

use bytes::Bytes;
use cache::Cache;
use cell::{Cell, CellBlock};
use env::World;
use proto::{FamilyDescriptor, RegionId, RegionInfo, TableDescriptor};
use region::{
    CellSink, Durability, Limits, Mutation, MutationKind, Opening, ReadMode, Region, RegionOptions, Scan,
};
use storage::{FileName, Files, Memory};

/// The allocator that the server uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A sink that copies and counts cells, as an answer does.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cells: usize,
}

impl CellSink for Answer {
    fn cell(&mut self, cell: Cell<'_>) {
        self.bytes.extend_from_slice(cell.bytes());
        self.cells += 1;
    }
}

/// A server's part of a region: its log, its files and its cached blocks, all in memory.
pub(crate) struct Place {
    pub(crate) files: Arc<dyn Files>,
    world: World,
    log: Arc<wal::Log>,
    recovered: Arc<wal::LogReader>,
    cache: Arc<Cache>,
}

impl Place {
    pub(crate) fn new(world: &World) -> Place {
        let files: Arc<dyn Files> = Arc::new(Memory::new());
        let log_files = Arc::clone(&files);
        let (log, recovered) =
            wal::Log::open(world.clone(), log_files, FileName::new("WALs"), wal::Options::default())
                .expect("a log");
        let (log, recovered) = (Arc::new(log), Arc::new(recovered));
        Place { files, world: world.clone(), log, recovered, cache: Arc::new(Cache::with_bytes(1 << 30)) }
    }

    /// Opens a region, whose table has one family.
    pub(crate) fn open(&self, info: RegionInfo, family: &'static str) -> Arc<Region> {
        let mut table = TableDescriptor::new(info.table().clone());
        table.set_family(FamilyDescriptor::new(family).expect("a name"));
        Region::open(Opening {
            folder: folder(&info),
            info,
            table: Arc::new(table),
            files: Arc::clone(&self.files),
            log: Arc::clone(&self.log),
            cache: Arc::clone(&self.cache),
            world: self.world.clone(),
            options: RegionOptions::default(),
            recovered: Some(Arc::clone(&self.recovered)),
        })
        .expect("opened")
    }
}

/// Returns a region of table `t`. `number` distinguishes regions with the same rows.
pub(crate) fn info(start: &'static str, stop: &'static str, number: u64) -> RegionInfo {
    let (start, stop) = (Bytes::from_static(start.as_bytes()), Bytes::from_static(stop.as_bytes()));
    RegionInfo::new("t".parse().expect("a name"), start, stop, RegionId(number)).expect("a region")
}

/// Returns the region's folder.
pub(crate) fn folder(info: &RegionInfo) -> FileName {
    FileName::new("data/default/t").join(info.encoded_name().as_str())
}

/// Opens a region of all rows with one family, whose files and cached blocks are in memory.
pub(crate) fn open(world: &World, family: &'static str) -> Arc<Region> {
    Place::new(world).open(info("", "", 1), family)
}

/// Returns a put of `cells`, all of one row, without a log record.
pub(crate) fn put<'a>(row: Bytes, cells: impl IntoIterator<Item = &'a Vec<u8>>) -> Mutation {
    let mut block = Vec::new();
    for cell in cells {
        block.extend_from_slice(&(cell.len() as u32).to_be_bytes());
        block.extend_from_slice(cell);
    }
    Mutation {
        kind: MutationKind::Put,
        row,
        cells: CellBlock::parse(block.into()).expect("whole"),
        durability: Durability::Skip,
        time_range: None,
        return_results: false,
        nonce: None,
    }
}

/// Reads all rows of `scan`, and returns the number of cells.
pub(crate) fn scan(region: &Arc<Region>, scan: Scan) -> usize {
    let mut scanner = region.scanner(scan).expect("serving");
    let mut answer = Answer::default();
    while scanner.next_row(&Limits::NONE, &mut answer, ReadMode::Any).expect("read").more {
        answer.bytes.clear();
    }
    answer.cells
}
