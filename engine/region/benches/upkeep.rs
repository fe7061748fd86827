//! Measures what a region's upkeep costs: `cargo bench -p region --bench upkeep`.
//!
//! * A major compaction, compared with a plain loop that reads the same files, merges them and writes the cells to one
//!   file. Files and log are in memory, so both are bound by the processor. The loop does not treat versions or
//!   markers.
//! * The opening of a region with its own files, compared with one that has references to halves of them, as after a
//!   split.
//! * The writing of the reference files of a split, which moves no data.
//!
//! Ends with status 1 if a figure misses its limit, and says which. A trial (without `--bench`) is too short to be
//! judged.
//!
//! ```text
//! compaction (MB/s of CPU time)     expected: the loop's reading, merging and writing, and a matcher that looks at
//!                                   each cell once (10 ns of about 100)
//! opening                           expected: a reference is one more small file to read
//! ```

#![allow(clippy::print_stdout, reason = "it is a program that prints")]

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::process::ExitCode;
use std::sync::Arc;

use cache::{Cache, Caching};
use cell::{Cell, CellParts, CellType, Comparator, Timestamp};
use env::World;
use hfile::{Cursor, ReadOptions, Reader, StoreFileInfo, Writer, WriterOptions};
use region::{CompactionRequest, FlushReason, Mutation, ReadMode, Region};
use rustix::time::{ClockId, clock_gettime};
use storage::FileName;

#[allow(dead_code, reason = "the reading of cells is for other benchmarks")]
#[path = "region/served.rs"]
mod served;

use served::Place;

const FAMILY: &str = "f";
/// Number of files that are compacted or opened.
const FILES: u64 = 6;
/// Minimum speed of a compaction, relative to the plain loop.
const COMPACTION_MIN: f64 = 0.6;
/// Maximum time of opening a region with references, relative to one without.
const OPENING_MAX: f64 = 1.1;
/// Maximum time of writing the references of a split, in milliseconds.
const SPLIT_MAX: f64 = 50.0;

fn main() -> ExitCode {
    let is_trial = !std::env::args().any(|word| word == "--bench");
    println!(
        "compaction of {FILES} files, MB/s of CPU time    compaction   plain loop   ratio (at least {COMPACTION_MIN})"
    );
    let mut missed = Vec::new();
    for value in [100, 1_000] {
        let rows = if is_trial { 500 } else { 60_000_000 / (value + 60) };
        compaction(value as usize, rows, if is_trial { 1 } else { 5 }, &mut missed);
    }
    println!("opening and splitting, ms of CPU time");
    opening(if is_trial { 1_000 } else { 100_000 }, if is_trial { 1 } else { 200 }, &mut missed);
    if !missed.is_empty() && !is_trial {
        println!("missed: {}", missed.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Returns the CPU time of this process so far, in seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Writes the files of a region. The rows of all files interleave.
fn write(region: &Arc<Region>, rows: u64, value: &[u8]) {
    for file in 0..FILES {
        let mutations: Vec<Mutation> = (0..rows / FILES)
            .map(|number| {
                let row = format!("user{:016x}", (number * FILES + file).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let parts = CellParts {
                    row: row.as_bytes(),
                    family: FAMILY.as_bytes(),
                    qualifier: b"q",
                    timestamp: Timestamp(1),
                    cell_type: CellType::Put,
                    value,
                    tags: b"",
                };
                served::put(row.clone().into(), [&parts.to_vec().expect("within limits")])
            })
            .collect();
        for batch in mutations.chunks(1_000) {
            let applied = region.apply(batch, ReadMode::Any).expect("serving");
            applied.pending.wait_blocking().expect("written");
        }
        region.flush(FlushReason::Requested).expect("written");
    }
}

/// Compares compactions with the plain loop; the two run alternately.
fn compaction(value: usize, rows: u64, rounds: usize, missed: &mut Vec<String>) {
    let value = vec![b'v'; value];
    let (mut compactions, mut loops) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let place = Place::new(&World::real());
        let region = place.open(served::info("", "", 1), FAMILY);
        write(&region, rows, &value);
        let names = store_files(&place);
        assert_eq!(names.len() as u64, FILES);
        let readers: Vec<_> = names.iter().map(|(name, _)| reader(&place, name)).collect();
        let bytes: u64 = names.iter().map(|(_, size)| size).sum();
        let speed = |seconds: f64| bytes as f64 / 1e6 / seconds;

        let began = cpu();
        let merged = merge(&place, &readers);
        loops.push(speed(cpu() - began));
        assert_eq!(merged, rows / FILES * FILES);

        let began = cpu();
        let replaced =
            region.compact(&CompactionRequest { major: true, families: vec![] }).expect("compacted");
        compactions.push(speed(cpu() - began));
        assert_eq!(replaced as u64, FILES);
    }
    let (compaction, plain) = (median(&mut compactions), median(&mut loops));
    let ratio = compaction / plain;
    let name = format!("values of {} bytes", value.len());
    let verdict = judge(&format!("compaction of {name}"), ratio >= COMPACTION_MIN, missed);
    println!("{name:45} {compaction:10.0} {plain:12.0} {ratio:7.2}{verdict}");
}

/// Compares the opening of two daughter regions: one has rewritten its half of the parent's files, the other one has
/// only references.
fn opening(rows: u64, rounds: usize, missed: &mut Vec<String>) {
    let place = Place::new(&World::real());
    let parent = place.open(served::info("", "", 1), FAMILY);
    write(&parent, rows, &[b'v'; 100]);
    parent.close().expect("closed");
    let mut writing = Vec::new();
    let daughter = |number| served::info("", "user8", number);
    for number in 2..2 + rounds as u64 {
        let infos = [daughter(number), served::info("user8", "", number)];
        let began = cpu();
        for info in &infos {
            Region::write_child(info, &served::folder(info), &[Arc::clone(&parent)]).expect("written");
        }
        writing.push((cpu() - began) * 1e3);
    }
    // As many files in the daughter as in the parent, each with the daughter's rows.
    let own = served::info("user8", "", 1);
    let with_files = place.open(own.clone(), FAMILY);
    write_half(&with_files, rows);
    with_files.close().expect("closed");
    let (mut of_own, mut of_references) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (info, times) in [(&own, &mut of_own), (&daughter(2), &mut of_references)] {
            let began = cpu();
            let region = place.open(info.clone(), FAMILY);
            times.push((cpu() - began) * 1e3);
            region.close().expect("closed");
        }
    }
    let (own, references, split) = (median(&mut of_own), median(&mut of_references), median(&mut writing));
    let ratio = references / own;
    println!("open {FILES} files {own:45.3}");
    let verdict = judge("opening with references", ratio <= OPENING_MAX, missed);
    println!("open {FILES} references {references:40.3}   ratio {ratio:.2}{verdict}");
    let verdict = judge("writing of references", split <= SPLIT_MAX, missed);
    println!("write both daughters' references {split:26.3}{verdict}");
}

/// Writes as many files as the parent has, half as large.
fn write_half(region: &Arc<Region>, rows: u64) {
    write(region, rows / 2, &[b'v'; 100]);
}

/// Returns names and sizes of the store's files, oldest first.
fn store_files(place: &Place) -> Vec<(FileName, u64)> {
    let folder = served::folder(&served::info("", "", 1)).join(FAMILY);
    let entries = place.files.list(&folder).expect("listed");
    let is_own = |name: &FileName| {
        name.below(&folder).is_some_and(|rest| !rest.contains('/') && !rest.starts_with('.'))
    };
    entries.into_iter().filter(|entry| is_own(&entry.name)).map(|entry| (entry.name, entry.size)).collect()
}

fn reader(place: &Place, name: &FileName) -> Arc<Reader> {
    let file = place.files.open(name).expect("it is there");
    let cache = Arc::new(Cache::with_bytes(1 << 20));
    Arc::new(Reader::open(file, name.clone(), cache, Caching::default()).expect("whole"))
}

/// A file that is being merged; the greatest is the one with the lowest key.
struct Merged(Cursor);

impl Merged {
    fn cell(&self) -> Cell<'_> {
        self.0.peek().expect("a cursor at its end is removed")
    }
}

impl Ord for Merged {
    fn cmp(&self, other: &Merged) -> Ordering {
        Comparator::Table.compare_keys(other.cell().key(), self.cell().key())
    }
}

impl PartialOrd for Merged {
    fn partial_cmp(&self, other: &Merged) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Merged {
    fn eq(&self, other: &Merged) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Merged {}

/// Reads the files, merges them, and writes one file. Returns the number of cells.
fn merge(place: &Place, readers: &[Arc<Reader>]) -> u64 {
    let options = ReadOptions { cache_blocks: false, ..ReadOptions::default() };
    let name = FileName::new("merged");
    let file = place.files.create(&name).expect("a file");
    let mut writer = Writer::create(file, name, WriterOptions::default());
    let mut heap: BinaryHeap<Merged> = readers
        .iter()
        .map(|reader| {
            let mut cursor = reader.cursor(options);
            cursor.seek_first().expect("read");
            Merged(cursor)
        })
        .collect();
    while let Some(mut least) = heap.peek_mut() {
        writer.append(least.cell()).expect("in order");
        least.0.advance().expect("read");
        if least.0.peek().is_none() {
            std::collections::binary_heap::PeekMut::pop(least);
        }
    }
    writer.finish(StoreFileInfo::default()).expect("written").entries
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Returns the text after a figure. Adds `name` to `missed` if the figure is not good.
fn judge(name: &str, good: bool, missed: &mut Vec<String>) -> &'static str {
    if good {
        return "";
    }
    missed.push(name.to_owned());
    "   SHORT"
}
