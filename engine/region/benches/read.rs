//! Measures the cost of reads inside the region, without RPC: `cargo bench -p region`.
//!
//! Estimate for a row in one file of cached blocks: a hash and a filter lookup (100 ns), two binary searches of about
//! ten keys in uncached memory (2 × 150 ns), the copy of 1 KB (50 ns). A row reader pays only this for each row; a get
//! also builds and drops its state (100 ns more). A scan of such rows pays the copy, and 20 ns to judge a cell.

use std::sync::Arc;

use bytes::Bytes;
use cell::{CellParts, CellType, Timestamp};
use env::World;
use filter::{Comparable, CompareOperator, Filter, Operator};
use micro::Sheet;
use region::{FamilyQuery, FlushReason, Mutation, ReadMode, Region, Scan};

#[path = "region/served.rs"]
mod served;

use served::{Answer, scan};

/// Number of gets in one round.
const GETS: u64 = 2_000;

fn row(number: u64) -> Bytes {
    format!("{number:026}").into()
}

fn put(number: u64, value: &[u8]) -> Mutation {
    let row = row(number);
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
    served::put(row, [&cell])
}

/// Returns a random row of `rows`.
fn any(number: u64, rows: u64) -> Bytes {
    row(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % rows)
}

fn reads(sheet: &Sheet, region: &Arc<Region>, rows: u64, place: &str, paper: f64) {
    let column = FamilyQuery {
        family: Bytes::from_static(b"info0"),
        qualifiers: Some(vec![Bytes::from_static(b"0")]),
        time_range: None,
    };
    let whole: Vec<Scan> = (0..GETS).map(|number| Scan::get(any(number, rows))).collect();
    let columns: Vec<Scan> =
        whole.iter().map(|get| Scan { families: vec![column.clone()], ..get.clone() }).collect();
    let mut answer = Answer::default();
    for (what, queries) in [("get", &whole), ("get of a column", &columns)] {
        sheet.time(
            &format!("{what}, {place}"),
            paper + 100.0,
            GETS,
            || (),
            |()| {
                for query in queries {
                    answer.bytes.clear();
                    let given = region.get(query, ReadMode::Any, &mut answer).expect("read");
                    assert_eq!(given, 1);
                }
            },
        );
    }
    sheet.time(
        &format!("a row after the other, {place}"),
        paper,
        GETS,
        || (),
        |()| {
            let mut reader = region.row_reader(columns[0].clone()).expect("serving");
            for query in &columns {
                answer.bytes.clear();
                assert_eq!(reader.read(&query.start, ReadMode::Any, &mut answer).expect("read"), 1);
            }
        },
    );
    sheet.time(
        &format!("scan, a row, {place}"),
        70.0,
        rows,
        || (),
        |()| {
            scan(region, Scan::default());
        },
    );
    sheet.time(
        &format!("scan that gives nothing, a row, {place}"),
        20.0,
        rows,
        || (),
        |()| {
            scan(region, Scan { filter: Some(Filter::all()), ..Scan::default() });
        },
    );
    // `never` compares with a value that no cell has, as PerformanceEvaluation's filterScan does.
    let never = || (CompareOperator::Equal, Comparable::Binary(Bytes::from_static(b"not here")));
    let ((operator, with), bytes) = (never(), Bytes::from_static);
    let column =
        Filter::single_column_value(bytes(b"info0"), bytes(b"0"), operator, with, false, true, false);
    let (operator, with) = never();
    let filters = [
        ("by a column's value", Filter::list(Operator::MustPassAll, vec![column])),
        ("by any value", Filter::value(operator, with)),
    ];
    for (what, filter) in filters {
        let stop = row(rows);
        sheet.time(
            &format!("scan, a row refused {what}, {place}"),
            50.0,
            rows,
            || (),
            |()| {
                scan(region, Scan { filter: Some(filter.clone()), stop: stop.clone(), ..Scan::default() });
            },
        );
    }
}

fn write(region: &Arc<Region>, numbers: impl Iterator<Item = u64>, value: &[u8]) {
    let batch: Vec<Mutation> = numbers.map(|number| put(number, value)).collect();
    region.apply(&batch, ReadMode::Any).expect("serving").pending.wait_blocking().expect("written");
}

/// Measures a scan over rows that alternate between files: every row moves the merge to another file.
fn merged(sheet: &Sheet, world: &World, rows: u64, files: u64, value: &[u8]) {
    let region = served::open(world, "info0");
    for file in 0..files {
        let mine: Vec<u64> = (0..rows).filter(|number| number % files == file).collect();
        for numbers in mine.chunks(100) {
            write(&region, numbers.iter().copied(), value);
        }
        region.flush(FlushReason::Requested).expect("written");
    }
    // A row from another file costs two more key comparisons, the first in uncached memory; with ten files all heads
    // are compared.
    let paper = [70.0, 110.0, 150.0][files.ilog(3) as usize];
    sheet.time(
        &format!("scan, a row, {files} files in turn"),
        paper,
        rows,
        || (),
        |()| {
            scan(&region, Scan::default());
        },
    );
}

/// Measures a scan over the rows of a file that were all overwritten in random order, some more than once, and whose
/// new versions are still in memory.
fn updated(sheet: &Sheet, world: &World, rows: u64, value: &[u8]) {
    let region = served::open(world, "info0");
    for first in (0..rows).step_by(100) {
        write(&region, first..first + 100, value);
    }
    region.flush(FlushReason::Requested).expect("written");
    for first in (0..2 * rows).step_by(100) {
        let any = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(17) % rows;
        write(&region, (first..first + 100).map(any), value);
        if region.asks_for_memory_compaction() {
            region.compact_memory(0.0);
        }
    }
    sheet.time(
        "scan, a row, updated in memory",
        400.0,
        rows,
        || (),
        |()| {
            scan(&region, Scan::default());
        },
    );
}

fn main() {
    let sheet = Sheet::new("region of 1 KB rows");
    let rows = if sheet.is_trial() { 1_000 } else { 50_000 };
    let world = World::real();
    let region = served::open(&world, "info0");
    let value = vec![7; 1000];
    let mut number = 0;
    // Estimate: copies into the edit and the memstore (2 × 60 ns), the insert (300 ns), row lock and checks (80 ns).
    sheet.time(
        "put in batches of 100, a row",
        500.0,
        1_000,
        || (),
        |()| {
            for _ in 0..10 {
                write(&region, (number..number + 100).map(|number| number * 7_919 % rows), &value);
                number += 100;
            }
        },
    );
    for first in (0..rows).step_by(100) {
        write(&region, first..first + 100, &value);
        // As a server's background thread does.
        if region.asks_for_memory_compaction() {
            region.compact_memory(0.0);
        }
    }
    reads(&sheet, &region, rows, "memory", 400.0);
    region.flush(FlushReason::Requested).expect("written");
    scan(&region, Scan::default());
    reads(&sheet, &region, rows, "file", 450.0);
    drop(region);
    for files in [1, 3, 10] {
        merged(&sheet, &world, rows, files, &value[..50]);
    }
    updated(&sheet, &world, rows, &value);
}
