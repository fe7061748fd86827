//! Measures what in-memory compaction gains: `cargo bench -p region --bench accordion`.
//!
//! Each stream of requests is written at each level into its own region, over files in memory, with the same seed and a
//! clock that the benchmark advances. Background work is done between two writes, so bytes and cells are reproducible
//! on a busy machine. CPU time is that of the whole process: log, memory, flushes and compactions. Reads are timed one
//! by one, also in CPU time.
//!
//! ```text
//! cargo bench -p region --bench accordion -- zipf-100 NONE ADAPTIVE      some streams, some levels
//! cargo bench -p region --bench accordion -- memory=8 data=20 writes=40  MB of memstore; keys and writes in memstores
//! cargo bench -p region --bench accordion -- room=2                      the server has room for two flush sizes
//! ```
//!
//! | stream | |
//! |---|---|
//! | `zipf-100`, `zipf-1k` | updates of existing rows, Zipfian 0.99; values of 100 bytes and 1 KB |
//! | `uniform-100`, `uniform-1k` | updates of existing rows, each equally likely |
//! | `unique-1k` | puts of new rows only |
//! | `mixed-100` | half reads and half updates, Zipfian |
//! | `queue-100` | a queue of a thousand rows: each row is put, read and deleted |
//!
//! Estimate for Zipfian updates of a data set of 20 memstores. At `NONE`, 45 % of the cells in a full memstore are the
//! newest of their row; a flush writes only these. If overwritten cells are dropped in memory, 2.6 times as many writes
//! fit before a flush, so flushes write 38 % of the cells. Flushes then write 15 % less, the smaller index saves about
//! 10 %, and compactions save because there are half as many files of twice the size.

#![allow(clippy::print_stdout, reason = "it is a program that prints")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cache::Cache;
use cell::{Cell, CellBlock, CellParts, CellType, Timestamp};
use env::{WallTime, World};
use memstore::{Level, Pool};
use proto::{FamilyDescriptor, RegionId, RegionInfo, TableDescriptor};
use region::{
    Balance, CellSink, CompactionRequest, Durability, FlushReason, Mutation, MutationKind, Opening, ReadMode,
    Region, RegionOptions, Scan,
};
use rustix::time::{ClockId, clock_gettime};
use storage::{FileName, Files, Memory};

/// The allocator that the server uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STREAMS: [&str; 7] =
    ["zipf-100", "zipf-1k", "uniform-100", "uniform-1k", "unique-1k", "mixed-100", "queue-100"];
const LEVELS: [Level; 4] = [Level::None, Level::Basic, Level::Eager, Level::Adaptive];
/// Approximate size of a cell without its value, in bytes.
const KEY_BYTES: u64 = 60;
/// Number of rows in a queue.
const QUEUE: u64 = 1_000;

/// The parameters of a run.
struct Plan {
    streams: Vec<&'static str>,
    levels: Vec<Level>,
    /// Size of a memstore's memory in bytes.
    memory: u64,
    /// Size of the data, as a multiple of the memstore size.
    data: u64,
    /// Size of the writes, as a multiple of the memstore size.
    writes: u64,
    /// Size of the server's memory, as a multiple of the flush size.
    room: f64,
    /// The maximum fraction of memory that a flush may retain.
    keeps: f64,
    /// Value of [`RegionOptions::flush_keeps_gain_min`].
    gain: f64,
}

impl Plan {
    fn of_arguments() -> Plan {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let number = |name: &str, default: f64| {
            let said = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            said.map_or(default, |said| said.parse().expect("a number"))
        };
        // Cargo passes `--bench` for benchmarks and nothing for tests.
        let trial = !words.iter().any(|word| word == "--bench");
        let asked = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
        let mut streams: Vec<_> = STREAMS.into_iter().filter(|name| asked(name)).collect();
        let mut levels: Vec<_> = LEVELS.into_iter().filter(|level| asked(level.name())).collect();
        if streams.is_empty() {
            streams = STREAMS.to_vec();
        }
        if levels.is_empty() {
            levels = LEVELS.to_vec();
        }
        Plan {
            streams,
            levels,
            memory: (number("memory", if trial { 0.25 } else { 8.0 }) * f64::from(1 << 20)) as u64,
            data: number("data", if trial { 2.0 } else { 20.0 }) as u64,
            writes: number("writes", if trial { 3.0 } else { 40.0 }) as u64,
            room: number("room", 1.0),
            keeps: number("keeps", RegionOptions::default().flush_keeps),
            gain: number("gain", RegionOptions::default().flush_keeps_gain_min),
        }
    }
}

/// Random numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Ranks with a Zipfian distribution: Gray's generator, as in YCSB.
struct Zipf {
    count: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    const THETA: f64 = 0.99;

    fn new(count: u64) -> Zipf {
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-Zipf::THETA)).sum();
        let two = 1.0 + 0.5f64.powf(Zipf::THETA);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - Zipf::THETA)) / (1.0 - two / zeta);
        Zipf { count: count as f64, zeta, eta }
    }

    fn rank(&self, random: &mut Random) -> u64 {
        let part = random.part();
        let at = part * self.zeta;
        if at < 1.0 {
            return 0;
        }
        if at < 1.0 + 0.5f64.powf(Zipf::THETA) {
            return 1;
        }
        let rank = self.count * (self.eta * part - self.eta + 1.0).powf(1.0 / (1.0 - Zipf::THETA));
        (rank as u64).min(self.count as u64 - 1)
    }
}

/// A sink that counts the bytes of its cells, so that they are read.
#[derive(Default)]
struct Answer(Vec<u8>);

impl CellSink for Answer {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0.extend_from_slice(cell.bytes());
    }
}

/// Returns the CPU time of the process or of this thread so far, in ns.
fn cpu(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the row key for a number. Keys are in random order and do not contain their number.
fn row(number: u64) -> Bytes {
    format!("user{:016}", mixed(number) % 10_000_000_000_000_000).into()
}

fn mutation(kind: MutationKind, number: u64, value: &[u8]) -> Mutation {
    let row = row(number);
    let is_put = kind == MutationKind::Put;
    let cell = CellParts {
        row: &row,
        family: b"f",
        qualifier: if is_put { b"field0" } else { b"" },
        timestamp: Timestamp::LATEST,
        cell_type: if is_put { CellType::Put } else { CellType::DeleteFamily },
        value,
        tags: b"",
    }
    .to_vec()
    .expect("within limits");
    let mut block = Vec::with_capacity(cell.len() + 4);
    block.extend_from_slice(&(cell.len() as u32).to_be_bytes());
    block.extend_from_slice(&cell);
    Mutation {
        kind,
        row,
        cells: CellBlock::parse(block.into()).expect("whole"),
        durability: Durability::Sync,
        time_range: None,
        return_results: false,
        nonce: None,
    }
}

/// A region and its measurements.
struct Bench<'a> {
    plan: &'a Plan,
    world: World,
    options: RegionOptions,
    region: Arc<Region>,
    value: Vec<u8>,
    written: u64,
    flushed_cells: u64,
    flushes: u64,
    compactions: u64,
    peak: u64,
    /// Bytes of the index and of the cells in the active segment.
    active: (u64, u64),
    /// Bytes of the index and of the cells in flat segments.
    flat: (u64, u64),
    reads: Vec<u64>,
}

impl<'a> Bench<'a> {
    fn open(plan: &'a Plan, level: Level, value: usize, data: u64) -> Bench<'a> {
        let world = World::simulated(1, WallTime(1_700_000_000_000));
        let files: Arc<dyn Files> = Arc::new(Memory::new());
        let (log, recovered) =
            wal::Log::open(world.clone(), Arc::clone(&files), FileName::new("WALs"), wal::Options::default())
                .expect("a log");
        let mut table = TableDescriptor::new("t".parse().expect("a name"));
        table.set_family(FamilyDescriptor::new("f").expect("a name"));
        let info = RegionInfo::new("t".parse().expect("a name"), Bytes::new(), Bytes::new(), RegionId(1));
        let options = RegionOptions {
            flush_size: plan.memory,
            in_memory_compaction: level,
            memory: Pool::new((plan.memory / 16) as usize, 64),
            flush_keeps: plan.keeps,
            flush_keeps_gain_min: plan.gain,
            sync_to_disk: false,
            ..RegionOptions::default()
        };
        let region = Region::open(Opening {
            info: info.expect("a region"),
            table: Arc::new(table),
            files,
            folder: FileName::new("data/default/t/r"),
            log: Arc::new(log),
            // As on a machine with more data than memory, the cache holds only a fraction of the data.
            cache: Arc::new(Cache::with_bytes((data / 4).max(1 << 20) as usize)),
            world: world.clone(),
            options: options.clone(),
            recovered: Some(Arc::new(recovered)),
        })
        .expect("opened");
        let mut random = Random(7);
        Bench {
            plan,
            world,
            options,
            region,
            value: (0..value).map(|_| random.next() as u8).collect(),
            written: 0,
            flushed_cells: 0,
            flushes: 0,
            compactions: 0,
            peak: 0,
            active: (0, 0),
            flat: (0, 0),
            reads: Vec::new(),
        }
    }

    fn write(&mut self, kind: MutationKind, number: u64) {
        let value: &[u8] = if kind == MutationKind::Put { &self.value } else { b"" };
        let mutation = mutation(kind, number, value);
        self.world.advance(Duration::from_micros(20));
        let applied = self.region.apply(std::slice::from_ref(&mutation), ReadMode::Any).expect("serving");
        applied.pending.wait_blocking().expect("written");
        self.written += 1;
        self.work();
    }

    fn read(&mut self, number: u64, answer: &mut Answer) {
        let get = Scan::get(row(number));
        answer.0.clear();
        let began = cpu(ClockId::ThreadCPUTime);
        self.region.get(&get, ReadMode::Any, answer).expect("read");
        self.reads.push(cpu(ClockId::ThreadCPUTime) - began);
    }

    /// Does the work of the server's background threads.
    fn work(&mut self) {
        if self.region.asks_for_memory_compaction() {
            self.compact_memory();
        }
        if !self.region.needs_flush(self.pressure()) {
            if self.region.asks_for_memory_compaction() {
                self.compact_memory();
            }
            return;
        }
        self.look();
        let flushed = self.region.flush(FlushReason::MemstoreSize).expect("written");
        self.flushes += flushed.files as u64;
        self.flushed_cells += flushed.cells;
        while self.region.needs_compaction() {
            self.region.compact(&CompactionRequest::default()).expect("compacted");
            self.compactions += 1;
        }
    }

    fn compact_memory(&mut self) {
        self.look();
        self.region.compact_memory(self.pressure());
        self.look();
    }

    fn pressure(&self) -> f64 {
        self.region.memstore_bytes() as f64 / (self.plan.memory as f64 * self.plan.room)
    }

    fn look(&mut self) {
        let memory = self.region.load().stores.swap_remove(0).memory;
        let segments = || std::iter::once(&memory.active).chain(&memory.pipeline);
        self.peak = self.peak.max(segments().map(|segment| segment.bytes).sum());
        for segment in segments().filter(|segment| segment.cells > 1_000) {
            let of_kind = if segment.flat { &mut self.flat } else { &mut self.active };
            *of_kind = (of_kind.0 + segment.index_bytes, of_kind.1 + segment.cells);
        }
    }

    fn balance(&self) -> Balance {
        self.options.ledger.balances().into_iter().map(|(_, balance)| balance).next().unwrap_or_default()
    }
}

/// The result of a stream at one level.
struct Outcome {
    bytes: u64,
    cpu_per_write: f64,
    read: Option<(u64, u64)>,
}

fn run(plan: &Plan, stream: &str, level: Level, none: Option<&Outcome>) -> Outcome {
    let (kind, size) = stream.split_once('-').expect("kind and size");
    let value = if size == "1k" { 1_000 } else { 100 };
    let cell = value as u64 + KEY_BYTES;
    let keys = (plan.memory * plan.data / cell).max(1);
    let writes = plan.memory * plan.writes / cell;
    let mut bench = Bench::open(plan, level, value, plan.memory * plan.data);
    let is_update = matches!(kind, "zipf" | "uniform" | "mixed");
    let (zipf, mut random) = (Zipf::new(keys), Random(3));
    if is_update {
        for number in 0..keys {
            bench.write(MutationKind::Put, number);
        }
        bench.region.flush(FlushReason::Requested).expect("written");
        bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    }
    let before = bench.balance();
    (bench.written, bench.flushed_cells, bench.flushes, bench.compactions, bench.peak) = (0, 0, 0, 0, 0);
    let mut answer = Answer::default();
    let mut reading = 0;
    let began = cpu(ClockId::ProcessCPUTime);
    match kind {
        "zipf" => (0..writes).for_each(|_| bench.write(MutationKind::Put, zipf.rank(&mut random))),
        "uniform" => (0..writes).for_each(|_| bench.write(MutationKind::Put, random.next() % keys)),
        "unique" => (0..writes).for_each(|number| bench.write(MutationKind::Put, number)),
        "mixed" => (0..writes).for_each(|_| {
            bench.write(MutationKind::Put, zipf.rank(&mut random));
            let started = cpu(ClockId::ProcessCPUTime);
            bench.read(zipf.rank(&mut random), &mut answer);
            reading += cpu(ClockId::ProcessCPUTime) - started;
        }),
        "queue" => (0..writes / 2).for_each(|number| {
            bench.write(MutationKind::Put, number);
            if let Some(oldest) = number.checked_sub(QUEUE) {
                let started = cpu(ClockId::ProcessCPUTime);
                bench.read(oldest, &mut answer);
                reading += cpu(ClockId::ProcessCPUTime) - started;
                bench.write(MutationKind::Delete, oldest);
            }
        }),
        _ => panic!("no such stream: {stream}"),
    }
    let took = cpu(ClockId::ProcessCPUTime) - began - reading;
    // The content of memory is not on disk yet, at any level.
    let after = bench.balance();
    let (flushed, compacted) = (after.flushed - before.flushed, after.compacted - before.compacted);
    bench.reads.sort_unstable();
    let at = |part: f64| bench.reads.get((bench.reads.len() as f64 * part) as usize).copied();
    let outcome = Outcome {
        bytes: flushed + compacted,
        cpu_per_write: took as f64 / bench.written as f64 / 1e3,
        read: at(0.5).zip(at(0.99)),
    };
    let mb = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let ratio = |mine: f64, theirs: f64| if theirs > 0.0 { mine / theirs } else { 1.0 };
    let per_cell = |(bytes, cells): (u64, u64)| bytes as f64 / cells.max(1) as f64;
    let none_or = |figure: fn(&Outcome) -> f64| figure(none.unwrap_or(&outcome));
    let read = outcome.read.map_or_else(String::new, |(middle, high)| {
        let theirs = none.and_then(|none| none.read).map_or(high, |(_, high)| high);
        format!(
            "  read {:.2} {:.2} ({:.2})",
            middle as f64 / 1e3,
            high as f64 / 1e3,
            high as f64 / theirs as f64
        )
    });
    println!(
        "{stream:12} {:9} {:7.1} {:7.1} {:7.1} {:8.1} {:6.3} {:7.3} {:7.2} {:6.2} {:8.0} {:6.2} {:6.1} {:5.1} {:6.1} {:4} {:4}{read}",
        level.name(),
        mb(after.user - before.user),
        mb(after.log - before.log),
        mb(flushed),
        mb(compacted),
        ratio((flushed + compacted) as f64, none_or(|none| none.bytes as f64)),
        bench.flushed_cells as f64 / bench.written as f64,
        outcome.cpu_per_write,
        ratio(none_or(|none| none.cpu_per_write), outcome.cpu_per_write),
        1e6 / outcome.cpu_per_write,
        ratio((flushed + compacted) as f64, (after.user - before.user) as f64),
        per_cell(bench.active),
        per_cell(bench.flat),
        mb(bench.peak),
        bench.flushes,
        bench.compactions,
    );
    outcome
}

fn main() {
    let plan = Plan::of_arguments();
    println!(
        "memstore {:.1} MB, rows of {} and writes of {} memstores, room for {} flush sizes",
        plan.memory as f64 / f64::from(1 << 20),
        plan.data,
        plan.writes,
        plan.room
    );
    println!(
        "MB; ÷ NONE; cells flushed ÷ written; CPU µs a write; speed ÷ NONE; writes of one CPU second; bytes ÷ user;"
    );
    println!("index bytes a cell; most MB in memory; reads: µs in the middle and at 99 % (÷ NONE)");
    println!(
        "{:12} {:9} {:>7} {:>7} {:>7} {:>8} {:>6} {:>7} {:>7} {:>6} {:>8} {:>6} {:>6} {:>5} {:>6} {:>4} {:>4}",
        "stream",
        "level",
        "user",
        "log",
        "flushed",
        "compact.",
        "÷",
        "cells",
        "cpu",
        "speed",
        "per s",
        "ampl.",
        "active",
        "flat",
        "peak",
        "fl.",
        "co."
    );
    for stream in &plan.streams {
        let mut none = None;
        for level in &plan.levels {
            let outcome = run(&plan, stream, *level, none.as_ref());
            if *level == Level::None {
                none = Some(outcome);
            }
        }
    }
}
