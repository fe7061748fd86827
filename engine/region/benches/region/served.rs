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

/// Opens a region with one family, whose files and cached blocks are in memory.
pub(crate) fn open(world: &World, family: &'static str) -> Arc<Region> {
    let files: Arc<dyn Files> = Arc::new(Memory::new());
    let (log, recovered) =
        wal::Log::open(world.clone(), Arc::clone(&files), FileName::new("WALs"), wal::Options::default())
            .expect("a log");
    let mut table = TableDescriptor::new("t".parse().expect("a name"));
    table.set_family(FamilyDescriptor::new(family).expect("a name"));
    let info = RegionInfo::new("t".parse().expect("a name"), Bytes::new(), Bytes::new(), RegionId(1));
    Region::open(Opening {
        info: info.expect("a region"),
        table: Arc::new(table),
        files,
        folder: FileName::new("data/default/t/r"),
        log: Arc::new(log),
        cache: Arc::new(Cache::with_bytes(1 << 30)),
        world: world.clone(),
        options: RegionOptions::default(),
        recovered: Some(Arc::new(recovered)),
    })
    .expect("opened")
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
