//! What a filter adds to a scan: `cargo bench -p region --bench filters`.
//!
//! The same rows of fifty cells are read from cached blocks with each filter and without one. Nearly all of them let every
//! cell through, so that nothing is saved by what is not given; those that cannot are the cheaper. On paper a filter adds what judging a cell costs by itself (`cargo bench -p filter`), a call, and for a
//! filter that judges whole rows the copy of the cell into the row that waits. Whatever a filter does, it may add 50 ns to
//! a cell.

#![allow(clippy::print_stdout, reason = "a line below the sheet")]

use std::sync::Arc;

use bytes::Bytes;
use cache::Cache;
use cell::{Cell, CellBlock, SequenceId};
use env::World;
use filter::Filter;
use micro::Sheet;
use proto::{FamilyDescriptor, RegionId, RegionInfo, TableDescriptor};
use region::{
    CellSink, Durability, FlushReason, Limits, Mutation, MutationKind, Opening, ReadMode, Region,
    RegionOptions, Scan,
};
use storage::{FileName, Files, Memory};

#[path = "../../filter/benches/every/filters.rs"]
mod every;

/// The server's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a filter may add to a cell, in ns.
const ADDED_MAX: f64 = 50.0;

/// Copies what it is given, as an answer does.
#[derive(Default)]
struct Answer(Vec<u8>, usize);

impl CellSink for Answer {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0.extend_from_slice(cell.bytes());
        self.1 += 1;
    }
}

fn open() -> Arc<Region> {
    let files: Arc<dyn Files> = Arc::new(Memory::new());
    let (log, recovered) =
        wal::Log::open(Arc::clone(&files), FileName::new("WALs"), wal::Options::default()).expect("a log");
    let mut table = TableDescriptor::new("t".parse().expect("a name"));
    table.set_family(FamilyDescriptor::new("f").expect("a name"));
    let info = RegionInfo::new("t".parse().expect("a name"), Bytes::new(), Bytes::new(), RegionId(1));
    Region::open(Opening {
        info: info.expect("a region"),
        table: Arc::new(table),
        files,
        folder: FileName::new("data/default/t/r"),
        log: Arc::new(log),
        cache: Arc::new(Cache::with_bytes(1 << 30)),
        world: World::real(),
        options: RegionOptions::default(),
        recovered: Some(Arc::new(recovered)),
    })
    .expect("opened")
}

fn write(region: &Arc<Region>, cells: &[Vec<u8>]) {
    let of_row = |cells: &[Vec<u8>]| {
        let row = Cell::trusted(&cells[0], SequenceId::ZERO).row().to_vec().into();
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
    };
    let rows: Vec<Mutation> = cells.chunks(every::COLUMNS).map(of_row).collect();
    region.apply(&rows, ReadMode::Any).expect("serving").pending.wait_blocking().expect("written");
    region.flush(FlushReason::Requested).expect("written");
}

/// Reads all rows. Says how many cells were given.
fn scan(region: &Arc<Region>, filter: Option<Filter>) -> usize {
    let mut scanner = region.scanner(Scan { filter, ..Scan::default() }).expect("serving");
    let mut answer = Answer::default();
    while scanner.next_row(&Limits::NONE, &mut answer, ReadMode::Any).expect("read").more {
        answer.0.clear();
    }
    answer.1
}

fn main() {
    let sheet = Sheet::new("a cell of a scan");
    let region = open();
    let cells = every::cells();
    write(&region, &cells);
    let times = if sheet.is_trial() { 1 } else { 20 };
    let cost = |name: &str, on_paper: f64, filter: Option<Filter>| {
        let work = |(): &mut ()| {
            for _ in 0..times {
                assert!(scan(&region, filter.clone()) > 0, "{name} lets something through");
            }
        };
        sheet.time(name, on_paper, times * cells.len() as u64, || (), work)
    };
    let Some(plain) = cost("without a filter", 50.0, None) else { return };
    let mut dearest = ("none", 0.0_f64);
    for (name, on_paper, filter) in every::filters() {
        if let Some(with) = cost(name, 50.0 + on_paper, Some(filter)) {
            let added = with.middle - plain.middle;
            if added > dearest.1 {
                dearest = (name, added);
            }
        }
    }
    println!("{} adds {:.1} ns to a cell, the most; {ADDED_MAX} are allowed", dearest.0, dearest.1);
}
