//! What a read costs inside the region, without the wire: `cargo bench -p region`.
//!
//! On paper, for a row that lies in one file of cached blocks: a hash and a look into the filter (100 ns), two binary
//! searches of some ten keys that are in no cache line yet (2 × 150 ns), the copy of a kilobyte (50 ns). A scan of such
//! rows pays the copy, and 20 ns to judge a cell. Prints nanoseconds
//! of this thread's CPU, the least and the middle of some runs: others may use the machine meanwhile.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it is a program that prints, and asks Linux"
)]

use std::sync::Arc;

use bytes::Bytes;
use cache::Cache;
use cell::{Cell, CellBlock, CellParts, CellType, Timestamp};
use env::World;
use filter::Filter;
use proto::{FamilyDescriptor, RegionId, RegionInfo, TableDescriptor};
use region::{
    CellSink, Durability, FamilyQuery, FlushReason, Limits, Mutation, MutationKind, Opening, ReadMode,
    Region, RegionOptions, Scan,
};
use storage::{FileName, Files, Memory};

/// The server's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: u64 = 50_000;
const RUNS: usize = 7;

/// Copies what it is given, as an answer does.
#[derive(Default)]
struct Answer(Vec<u8>);

impl CellSink for Answer {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0.extend_from_slice(cell.bytes());
    }
}

fn row(number: u64) -> Bytes {
    format!("{number:026}").into()
}

fn put(number: u64, value: &[u8]) -> Mutation {
    let row = row(number);
    let mut block = Vec::new();
    let cell = CellParts {
        row: &row,
        family: b"info0",
        qualifier: b"0",
        timestamp: Timestamp::LATEST,
        cell_type: CellType::Put,
        value,
        tags: b"",
    }
    .to_vec()
    .expect("within limits");
    block.extend_from_slice(&(cell.len() as u32).to_be_bytes());
    block.extend_from_slice(&cell);
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

fn open(world: &World) -> Arc<Region> {
    let files: Arc<dyn Files> = Arc::new(Memory::new());
    let (log, recovered) =
        wal::Log::open(Arc::clone(&files), FileName::new("WALs"), wal::Options::default()).expect("a log");
    let mut table = TableDescriptor::new("t".parse().expect("a name"));
    table.set_family(FamilyDescriptor::new("info0").expect("a name"));
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

/// What this thread has run, in nanoseconds. The kernel brings the figure up to date at its ticks and when it switches.
fn cpu() -> u64 {
    std::thread::yield_now();
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    figures.split(' ').next().and_then(|figure| figure.parse().ok()).expect("a number")
}

/// Times `work`, which does `times` things.
fn time(what: &str, times: u64, mut work: impl FnMut()) {
    work();
    let mut costs: Vec<u64> = (0..RUNS)
        .map(|_| {
            let began = cpu();
            work();
            (cpu() - began) / times
        })
        .collect();
    costs.sort_unstable();
    println!("{what:40} {:7} ns {:7} ns", costs[0], costs[RUNS / 2]);
}

fn scan(region: &Arc<Region>, scan: Scan) {
    let mut scanner = region.scanner(scan).expect("serving");
    let mut answer = Answer::default();
    while scanner.next_row(&Limits::NONE, &mut answer, ReadMode::Any).expect("read").more {
        answer.0.clear();
    }
}

fn reads(region: &Arc<Region>, place: &str) {
    let gets: Vec<Scan> = (0..10_000u64)
        .map(|number| Scan::get(row(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ROWS)))
        .collect();
    let columns: Vec<Scan> = gets
        .iter()
        .map(|get| Scan {
            families: vec![FamilyQuery {
                family: Bytes::from_static(b"info0"),
                qualifiers: Some(vec![Bytes::from_static(b"0")]),
                time_range: None,
            }],
            ..get.clone()
        })
        .collect();
    let mut answer = Answer::default();
    for (what, queries) in [("get", &gets), ("get of a column", &columns)] {
        time(&format!("{what}, {place}"), queries.len() as u64, || {
            for query in queries {
                answer.0.clear();
                let given = region.get(query, ReadMode::Any, &mut answer).expect("read");
                assert_eq!(given, 1);
            }
        });
    }
    time(&format!("scan, a row, {place}"), ROWS, || scan(region, Scan::default()));
    time(&format!("scan that gives nothing, a row, {place}"), ROWS, || {
        scan(region, Scan { filter: Some(Filter::all()), ..Scan::default() });
    });
}

/// A scan over rows that lie in several files in turn, none in two: every row moves the merge to another file.
fn merged(world: &World, files: u64, value: &[u8]) {
    let region = open(world);
    for file in 0..files {
        let mine: Vec<u64> = (0..ROWS).filter(|number| number % files == file).collect();
        for numbers in mine.chunks(100) {
            let batch: Vec<Mutation> = numbers.iter().map(|number| put(*number, value)).collect();
            region.apply(&batch, ReadMode::Any).expect("serving").pending.wait_blocking().expect("written");
        }
        region.flush(FlushReason::Requested).expect("written");
    }
    time(&format!("scan, a row, {files} files in turn"), ROWS, || scan(&region, Scan::default()));
}

fn main() {
    let world = World::real();
    let region = open(&world);
    let value = vec![7; 1000];
    let mut number = 0;
    time("put in batches of 100, a row", 10_000, || {
        for _ in 0..100 {
            let batch: Vec<Mutation> =
                (0..100).map(|offset| put((number + offset) * 7_919 % ROWS, &value)).collect();
            number += 100;
            region.apply(&batch, ReadMode::Any).expect("serving").pending.wait_blocking().expect("written");
        }
    });
    for first in (0..ROWS).step_by(100) {
        let batch: Vec<Mutation> = (first..first + 100).map(|number| put(number, &value)).collect();
        region.apply(&batch, ReadMode::Any).expect("serving").pending.wait_blocking().expect("written");
        // As a server's thread does.
        if region.asks_for_memory_compaction() {
            region.compact_memory(0.0);
        }
    }
    reads(&region, "memory");
    region.flush(FlushReason::Requested).expect("written");
    scan(&region, Scan::default());
    reads(&region, "file");
    drop(region);
    // On paper: a row from another file is two comparisons of keys more, of which the first is in no cache line yet (40 ns);
    // with ten files the tree of winners is four levels high.
    for files in [1, 3, 10] {
        merged(&world, files, &value[..50]);
    }
}
