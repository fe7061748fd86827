//! Tests that skipping rows that a filter refuses gives the same result as judging their cells.

use std::time::Duration;

use filter::Operator;

use super::*;

/// Reads a scan in steps; returns the rows with the numbers of scanned and filtered rows, and the number of steps.
fn read(bench: &Bench, scan: Scan) -> ((Vec<String>, u64, u64), usize) {
    let mut scanner = bench.region.scanner(scan).expect("serving");
    let (mut shown, mut scanned, mut filtered, mut steps) = (Shown::default(), 0, 0, 0);
    loop {
        let step = scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read");
        (scanned, filtered, steps) = (scanned + step.rows_scanned, filtered + step.rows_filtered, steps + 1);
        if !step.more {
            return ((shown.0, scanned, filtered), steps);
        }
    }
}

fn value_is(operator: CompareOperator, value: &'static str) -> Filter {
    Filter::value(operator, Comparable::Binary(value.into()))
}

fn column_is(column: &'static str, value: &'static str, if_missing: bool, exclude: bool) -> Filter {
    let with = Comparable::Binary(value.into());
    Filter::single_column_value(
        "f".into(),
        column.into(),
        CompareOperator::Equal,
        with,
        if_missing,
        true,
        exclude,
    )
}

/// Returns the same filter in a list with a filter that keeps everything, because of which cells are judged one by one.
fn slow(filter: &Filter) -> Filter {
    let everything = value_is(CompareOperator::NotEqual, "no value");
    Filter::list(Operator::MustPassAll, vec![filter.clone(), everything])
}

pub(super) fn of_f(qualifiers: Option<&[&'static str]>) -> FamilyQuery {
    let qualifiers = qualifiers.map(|all| all.iter().map(|qualifier| Bytes::from(*qualifier)).collect());
    FamilyQuery { family: "f".into(), qualifiers, time_range: None }
}

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Returns the TTL in ms of a cell whose timestamp is 1 to 9: it expires at once, or not during any test.
pub(super) fn some_ttl(random: &mut Random) -> u64 {
    [1_000, 1_000_000_000][random.below(2) as usize]
}

/// Writes random cells in few rows, so that a row has several versions, markers and files. If `tagged`, some cells
/// expire.
fn write(bench: &Bench, tagged: bool, random: &mut Random) {
    for _ in 0..60 {
        let row = format!("row-{:02}", random.below(30));
        let column = ["f:a", "f:b", "f:c"][random.below(3) as usize];
        let timestamp = 1 + random.below(9) as i64;
        match random.below(12) {
            0 => bench.delete(&row, column, timestamp, CellType::Delete),
            1 => bench.delete(&row, column, timestamp, CellType::DeleteColumn),
            2 => bench.delete(&row, "f:", timestamp, CellType::DeleteFamily),
            3..6 if tagged => bench.apply(expiring_put(&row, column, timestamp, b"x", some_ttl(random))),
            _ => bench.put(&row, column, timestamp, ["x", "y", "z"][random.below(3) as usize]),
        }
    }
}

/// Returns a region after random writes, in files and perhaps in memory, and the read point of a scanner that was
/// opened before the last writes.
pub(super) fn lived(family: FamilyDescriptor, random: &mut Random) -> (Bench, cell::SequenceId) {
    let bench = Bench::with(family);
    // Most regions have no tags, because rows are copied raw only from files without tags.
    let draws_tags = random.below(6) == 0;
    let tagged = |random: &mut Random| draws_tags && random.below(2) == 0;
    for _ in 0..1 + random.below(3) {
        write(&bench, tagged(random), random);
        bench.region.flush(FlushReason::Requested).expect("flushed");
    }
    if random.below(3) > 0 {
        let request = CompactionRequest { major: random.below(4) > 0, families: Vec::new() };
        bench.region.compact(&request).expect("compacted");
    }
    bench.world.advance(Duration::from_millis(5));
    let read_point = bench.region.scanner(Scan::default()).expect("serving").read_point();
    if random.below(2) == 0 {
        write(&bench, tagged(random), random);
        if random.below(2) == 0 {
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
    }
    (bench, read_point)
}

/// Each skipped cell is searched among the wanted columns, on a thread on which other calls wait.
#[test]
fn rows_of_many_wanted_columns_are_judged_one_by_one() {
    let bench = Bench::new();
    for row in 0..50 {
        bench.put(&format!("row-{row:02}"), "f:c", 1, "v");
        bench.put(&format!("row-{row:02}"), "f:q01", 1, "v");
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let steps = |columns: usize| {
        let names = (0..columns - 1).map(|column| format!("q{column:05}"));
        let qualifiers = std::iter::once("c".to_owned()).chain(names).map(Bytes::from).collect();
        let families =
            vec![FamilyQuery { family: "f".into(), qualifiers: Some(qualifiers), time_range: None }];
        let filter = Some(column_is("c", "w", false, false));
        let ((rows, scanned, filtered), steps) = read(&bench, Scan { families, filter, ..Scan::default() });
        assert_eq!((rows.len(), scanned, filtered), (0, 50, 50));
        steps
    };
    assert!(steps(10) < 10, "{} steps", steps(10));
    assert!(steps(10_000) >= 50, "{} steps", steps(10_000));
}

#[test]
fn rows_are_skipped_again_after_an_accepted_row() {
    let bench = Bench::new();
    for row in 0..200 {
        bench.put(&format!("row-{row:03}"), "f:a", 1, if row % 10 == 0 { "x" } else { "y" });
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let filter = Some(value_is(CompareOperator::Equal, "x"));
    let scan = Scan { filter, families: vec![of_f(None)], ..Scan::default() };
    let ((shown, scanned, filtered), steps) = read(&bench, scan);
    assert_eq!((shown.len(), scanned, filtered), (20, 200, 180));
    assert!(
        steps <= 42,
        "{steps} steps: one for each row that is let through, and one for those between two"
    );
}

#[test]
fn skipping_rows_returns_and_counts_what_judging_does() {
    let (mut passed, mut compared) = (0, 0);
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut family =
            FamilyDescriptor::new("f").expect("a name").with("BLOCKSIZE", 150 + random.below(600));
        family = family.with("VERSIONS", 1 + random.below(3));
        if random.below(3) == 0 {
            family = family.with("KEEP_DELETED_CELLS", "TRUE");
        }
        let (bench, read_point) = lived(family, &mut random);
        let filters = [
            value_is(CompareOperator::Equal, "x"),
            value_is(CompareOperator::Less, "a"),
            column_is("a", "x", false, false),
            column_is("a", "x", true, false),
            column_is("b", "nothing", true, false),
            column_is("c", "x", true, false),
            column_is("c", "y", false, true),
            column_is("a", "y", false, true),
            // This filter may be satisfied by another version.
            Filter::single_column_value(
                "f".into(),
                "a".into(),
                CompareOperator::Equal,
                Comparable::Binary("z".into()),
                true,
                false,
                false,
            ),
            Filter::list(Operator::MustPassOne, vec![column_is("a", "z", true, false)]),
        ];
        for filter in filters {
            for families in [None, Some(&["a"][..]), Some(&["b", "c"][..])] {
                for (start, stop, include_stop) in
                    [("", "", false), ("row-05", "row-20", false), ("row-1", "row-17", true)]
                {
                    let scan = |filter: Filter| Scan {
                        families: vec![of_f(families)],
                        start: start.into(),
                        stop: stop.into(),
                        include_stop,
                        max_versions: 2,
                        read_point: (seed % 2 == 0).then_some(read_point),
                        filter: Some(filter),
                        ..Scan::default()
                    };
                    let (expected, slow_steps) = read(&bench, scan(slow(&filter)));
                    let (found, steps) = read(&bench, scan(filter.clone()));
                    assert_eq!(found, expected, "seed {seed}, {filter:?} of {families:?} {start}..{stop}");
                    passed += slow_steps - steps;
                    compared += 1;
                }
            }
        }
    }
    assert!(passed > compared / 4, "{passed} rows were passed in {compared} scans");
}

#[test]
fn rows_of_a_block_are_skipped_in_one_step() {
    let bench = Bench::new();
    for row in 0..100 {
        bench.put(&format!("row-{row:03}"), "f:a", 1, "x");
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let filter = column_is("a", "y", true, false);
    let scan = || Scan { families: vec![of_f(None)], filter: Some(filter.clone()), ..Scan::default() };
    assert_eq!(
        read(&bench, scan()),
        ((vec![], 100, 100), 2),
        "the last one's end is for the next block to say"
    );
    bench.put("row-050", "f:a", 2, "y");
    assert_eq!(read(&bench, scan()).0, (vec!["row-050/f:a@2=y".to_owned()], 100, 99));
}

#[test]
fn a_row_that_cannot_be_judged_is_not_skipped() {
    let bench = Bench::new();
    for (row, value) in [("row-1", "12345678"), ("row-2", "short"), ("row-3", "12345678")] {
        bench.put(row, "f:a", 1, value);
    }
    // The end of the block's last row is in the next block, so that row is always judged.
    bench.put("row-4", "f:b", 1, "12345678");
    let fails = |filter: Filter| {
        let scan = Scan { families: vec![of_f(None)], filter: Some(filter), ..Scan::default() };
        let mut scanner = bench.region.scanner(scan).expect("serving");
        loop {
            match scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::Any) {
                Ok(step) if step.more => {}
                outcome => return matches!(outcome, Err(Error::Filter(_))),
            }
        }
    };
    let (equal, long) = (CompareOperator::Equal, || Comparable::Long(5));
    let of_column = |operator, with| {
        Filter::single_column_value("f".into(), "a".into(), operator, with, true, true, false)
    };
    let filters = [
        Filter::value(equal, long()),
        of_column(equal, long()),
        of_column(CompareOperator::NoOp, Comparable::Binary("12345678".into())),
    ];
    assert!(filters.iter().cloned().all(fails), "in memory");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    filters.into_iter().for_each(|filter| assert!(fails(filter.clone()), "in a file, {filter:?}"));
}

#[test]
fn a_row_that_is_too_big_is_not_skipped() {
    let table = table(FamilyDescriptor::new("f").expect("a name"));
    let options = RegionOptions { row_size_max: 150, ..RegionOptions::default() };
    let bench = Bench::open_with(Memory::new(), World::simulated(1, WallTime(1_000_000)), table, options);
    for column in ["f:a", "f:b", "f:c", "f:d"] {
        bench.put("row-1", column, 1, "x");
    }
    bench.put("row-2", "f:d", 1, "x");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let scan = Scan {
        families: vec![of_f(None)],
        filter: Some(column_is("d", "y", true, false)),
        ..Scan::default()
    };
    let mut scanner = bench.region.scanner(scan).expect("serving");
    let error = scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::Any);
    assert!(matches!(&error, Err(Error::RowTooBig { limit: 150, .. })), "{error:?}");
}
