//! Tests that reads seek past unwanted cells: a read looks into no more data blocks than those with its cells, and one
//! or two more at a seek.

use filter::{ColumnRange, RowRange};

use super::*;

/// Size of a block in bytes, small enough for many blocks.
const BLOCK_BYTES: u32 = 512;

fn family(bloom: &str) -> FamilyDescriptor {
    FamilyDescriptor::new("f")
        .expect("a name")
        .with("BLOCKSIZE", BLOCK_BYTES)
        .with("BLOOMFILTER", bloom)
        .with("VERSIONS", 1_000)
}

fn column(number: usize) -> String {
    format!("f:c{number:04}")
}

/// Puts cells of one row, given as (column, timestamp).
fn put_all(bench: &Bench, row: &str, cells: &[(String, i64)]) {
    let value = [b'v'; 40];
    let cells: Vec<_> =
        cells.iter().map(|(column, at)| (&column[..], *at, CellType::Put, &value[..])).collect();
    bench.apply(mutation(MutationKind::Put, row, &cells));
}

/// Returns a region with rows r000 to r299 of ten columns each, in one file.
fn many_rows() -> Bench {
    let bench = Bench::with(family("ROW"));
    for row in 0..300 {
        let cells: Vec<_> = (0..10).map(|number| (column(number), 1)).collect();
        put_all(&bench, &format!("r{row:03}"), &cells);
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench
}

/// Returns a region with one row of 3,000 columns, in one file.
fn wide_row() -> Bench {
    let bench = Bench::with(family("ROW"));
    let cells: Vec<_> = (0..3_000).map(|number| (column(number), 1)).collect();
    put_all(&bench, "row", &cells);
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench
}

/// Returns the number of data blocks that a scan looks into, and the number of cells that it returns.
fn looked_into(bench: &Bench, scan: Scan) -> (u64, usize) {
    let before = hfile::data_bytes_of_thread();
    let mut shown = Shown::default();
    if !scan.start.is_empty() && scan.start == scan.stop {
        bench.region.get(&scan, ReadMode::Any, &mut shown).expect("read");
    } else {
        let mut scanner = bench.region.scanner(scan).expect("serving");
        while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    }
    let bytes = hfile::data_bytes_of_thread().wrapping_sub(before);
    // A block ends with the cell that fills it.
    (bytes.div_ceil(u64::from(BLOCK_BYTES)), shown.0.len())
}

fn check(bench: &Bench, what: &str, scan: Scan, cells: usize, blocks_max: u64) {
    let all = looked_into(bench, Scan { max_versions: 1_000, ..Scan::default() }).0;
    assert!(all >= 250, "{what}: all of it is {all} blocks");
    let (blocks, given) = looked_into(bench, scan);
    assert_eq!(given, cells, "{what}");
    assert!(
        blocks <= blocks_max,
        "{what}: {blocks} of {all} blocks for {given} cells, {blocks_max} are enough"
    );
}

fn filtered(filter: Filter) -> Scan {
    Scan { filter: Some(filter), ..Scan::default() }
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn asked(columns: &[usize]) -> Vec<FamilyQuery> {
    let name = |number: &usize| text(&column(*number)[2..]);
    let qualifiers = Some(columns.iter().map(name).collect());
    vec![FamilyQuery { family: text("f"), qualifiers, time_range: None }]
}

#[test]
fn filters_with_hints_seek_to_the_next_row() {
    let bench = many_rows();
    // A row takes two or three blocks.
    let fuzzy = Filter::fuzzy_row(vec![(text("r?00"), vec![true, false, true, true])]).expect("a mask");
    check(&bench, "fuzzy", filtered(fuzzy.clone()), 30, 30);
    check(&bench, "fuzzy, reversed", Scan { reversed: true, ..filtered(fuzzy) }, 30, 60);
    let range = |start: &str, stop: &str| RowRange {
        start: text(start),
        include_start: true,
        stop: text(stop),
        include_stop: true,
    };
    let ranges = Filter::multi_row_range(vec![range("r100", "r101"), range("r250", "r250")]).expect("ranges");
    check(&bench, "ranges", filtered(ranges.clone()), 30, 30);
    check(&bench, "ranges, reversed", Scan { reversed: true, ..filtered(ranges) }, 30, 60);
    check(&bench, "prefix", filtered(Filter::prefix(text("r29"))), 100, 60);
    check(
        &bench,
        "rows by their keys",
        Scan { start: text("r150"), stop: text("r151"), ..Scan::default() },
        10,
        8,
    );
    let stop = Filter::inclusive_stop(text("r001"));
    check(&bench, "stop", filtered(stop), 20, 15);
    let page = Filter::page(2);
    check(&bench, "page", filtered(page), 20, 15);
}

#[test]
fn unwanted_columns_are_not_read() {
    let bench = wide_row();
    check(&bench, "a column", Scan { families: asked(&[1_500]), ..Scan::default() }, 1, 6);
    check(&bench, "a column of a get", Scan { families: asked(&[1_500]), ..Scan::get(text("row")) }, 1, 6);
    check(&bench, "three columns", Scan { families: asked(&[1, 1_500, 2_999]), ..Scan::default() }, 3, 10);
    check(&bench, "a prefix", filtered(Filter::column_prefix(text("c150"))), 10, 10);
    let prefixes = Filter::multiple_column_prefix(vec![text("c150"), text("c290")]);
    check(&bench, "prefixes", filtered(prefixes), 20, 20);
    let range = ColumnRange {
        min: Some(text("c2000")),
        include_min: true,
        max: Some(text("c2004")),
        include_max: false,
    };
    check(&bench, "a range", filtered(Filter::column_range(range)), 4, 8);
    let page = Filter::column_pagination(5, 0, Some(text("c2900")));
    check(&bench, "a page from a column on", filtered(page), 5, 8);
    check(&bench, "the first cell", filtered(Filter::first_key_only()), 1, 4);
    let one = Filter::single_column_value(
        text("f"),
        text("c0000"),
        CompareOperator::Equal,
        Comparable::Binary(text("no")),
        true,
        true,
        false,
    );
    check(&bench, "a row that its first column drops", filtered(one), 0, 4);
    check(&bench, "a limit of the family", Scan { store_limit: Some(3), ..Scan::default() }, 3, 4);
}

#[test]
fn unwanted_versions_are_not_read() {
    let bench = Bench::with(family("ROW"));
    for number in 0..3 {
        let cells: Vec<_> = (0..1_000).map(|at| (column(number), 1 + at)).collect();
        put_all(&bench, "row", &cells);
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    check(&bench, "the newest of each column", Scan::default(), 3, 14);
    let (from, until) = (Timestamp(1), Timestamp(1_001));
    let old = Scan {
        time_range: TimeRange { from: Timestamp(990), until },
        max_versions: 1_000,
        ..Scan::default()
    };
    check(&bench, "those after a moment", old, 33, 24);
    let stamps = Filter::timestamps(vec![Timestamp(10), Timestamp(500)], true);
    check(&bench, "two timestamps", Scan { max_versions: 1_000, ..filtered(stamps) }, 6, 36);
    // Cells newer than the time range are passed one by one, as in HBase, because there may be markers among them.
    let past = Scan { time_range: TimeRange { from, until: Timestamp(2) }, ..Scan::default() };
    assert_eq!(looked_into(&bench, past).1, 3);
}

#[test]
fn files_without_wanted_rows_are_not_read() {
    for bloom in ["ROW", "ROWCOL"] {
        let bench = Bench::with(family(bloom));
        for file in 0..5i64 {
            // The key range of every file includes all of these keys, but the file has only its own rows and its own
            // column of the shared row.
            for row in 0..40 {
                put_all(&bench, &format!("r{file}{row:02}"), &[(column(1), 1 + file)]);
            }
            for number in 0..400 {
                put_all(&bench, "shared", &[(column(number * 5 + file as usize), 10 * (file + 1))]);
            }
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
        if bloom == "ROW" {
            check(&bench, "a row that is not there", Scan::get(text("r0xx")), 0, 0);
        }
        for row in ["a", "z"] {
            check(&bench, "a row beside all files", Scan::get(text(row)), 0, 0);
        }
        // A row-column filter cannot exclude rows; four files have this row in their range.
        check(&bench, "a row of one file", Scan::get(text("r300")), 1, if bloom == "ROW" { 3 } else { 10 });
        let recent = TimeRange { from: Timestamp(45), until: Timestamp::LATEST };
        check(&bench, "a range that one file has", Scan { time_range: recent, ..Scan::default() }, 400, 80);
        let later = TimeRange { from: Timestamp(60), until: Timestamp::LATEST };
        check(&bench, "a range that no file has", Scan { time_range: later, ..Scan::default() }, 0, 0);
        if bloom == "ROWCOL" {
            let get = |number| Scan { families: asked(&[number]), ..Scan::get(text("shared")) };
            check(&bench, "a column that is not there", get(9_999), 0, 0);
            check(&bench, "a column of one file", get(1_003), 1, 6);
        }
    }
}
