//! Tests of rows read in parts: no cell is read twice, no read occupies a shared thread for long, and a client that
//! accepts parts does not wait for the whole row.

use std::time::Duration;

use filter::Pattern;

use super::*;

const COLUMNS: usize = 3_000;

/// Returns a region with one row in two families, in memory and in a file, in blocks of a few cells.
fn wide_row() -> Bench {
    let family = FamilyDescriptor::new("f").expect("a name").with("BLOCKSIZE", 512);
    let bench = Bench::with(family);
    for kept in [1, 0] {
        let of_family = |family: &str| -> Vec<String> {
            let numbers = (0..COLUMNS).filter(|number| number % 2 == kept);
            numbers.map(|number| format!("{family}:c{number:04}")).collect()
        };
        let columns = [of_family("f"), of_family("g")].concat();
        let cells: Vec<_> = columns.iter().map(|column| (&column[..], 1, CellType::Put, &b"v"[..])).collect();
        bench.apply(mutation(MutationKind::Put, "row", &cells));
        if kept == 1 {
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
    }
    bench
}

fn partly(batch: u32) -> Scan {
    Scan { batch: Some(batch), ..Scan::default() }
}

/// A sink that takes time for each cell.
struct Slow<'a> {
    shown: Shown,
    world: &'a World,
    each: Duration,
}

impl CellSink for Slow<'_> {
    fn cell(&mut self, cell: Cell<'_>) {
        self.world.advance(self.each);
        self.shown.cell(cell);
    }
}

#[test]
fn a_row_in_parts_is_read_once() {
    let bench = wide_row();
    let whole = bench.all();
    let read = |scan: Scan| {
        let before = hfile::data_bytes_of_thread();
        let shown = bench.scan(scan);
        (hfile::data_bytes_of_thread() - before, shown)
    };
    let (bytes, shown) = read(Scan::default());
    assert!(shown == whole && bytes > 50_000, "{bytes}");
    for batch in [1, 7, 1_000] {
        let (in_parts, shown) = read(partly(batch));
        assert!(shown == whole, "in parts of {batch}");
        assert_eq!(in_parts, bytes, "in parts of {batch}");
    }
}

#[test]
fn a_part_read_in_memory_continues_where_the_last_ended() {
    let bench = wide_row();
    let whole = bench.all();
    for batch in [1, 7, 100] {
        // Nothing is cached, so that blocks are missing.
        let bench = wide_row().kill();
        let mut scanner = bench.region.scanner(partly(batch)).expect("serving");
        let (mut shown, mut refused, mut at_once) = (Shown::default(), 0, 0);
        loop {
            let mark = shown.0.len();
            let step = match scanner.next_row(&Limits::NONE, &mut shown, ReadMode::MemoryOnly) {
                Err(Error::WouldBlock) => {
                    refused += 1;
                    shown.0.truncate(mark);
                    scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read")
                }
                step => {
                    at_once += 1;
                    step.expect("read")
                }
            };
            if !step.more {
                break;
            }
        }
        assert!(shown.0.join(" ") == whole, "in parts of {batch}");
        assert!(refused > 0 && (at_once > 0 || batch == 100), "{refused} refused, {at_once} not");
    }
}

#[test]
fn a_slow_row_leaves_the_serving_thread() {
    let bench = wide_row();
    let world = &bench.world;
    let slow = |each| Slow { shown: Shown::default(), world, each };
    let get = Scan::get("row".into());
    bench.region.get(&get, ReadMode::Any, &mut Shown::default()).expect("cached from here on");
    let mut sink = slow(Duration::from_micros(1));
    let refused = bench.region.get(&get, ReadMode::MemoryOnly, &mut sink);
    assert!(matches!(refused, Err(Error::WouldBlock)));
    let given = sink.shown.0.len();
    assert!((300..600).contains(&given), "{given} cells of 1 µs each");
    let mut sink = slow(Duration::from_nanos(10));
    let given = bench.region.get(&get, ReadMode::MemoryOnly, &mut sink).expect("cheap enough");
    assert_eq!(given, 2 * COLUMNS);
    let mut sink = slow(Duration::from_millis(1));
    let given = bench.region.get(&get, ReadMode::Any, &mut sink).expect("may take as long as it takes");
    assert_eq!(given, 2 * COLUMNS);
}

#[test]
fn large_cells_shorten_the_clock_interval() {
    let bench = Bench::new();
    let value = vec![b'v'; 100_000];
    let columns: Vec<String> = (0..20).map(|number| format!("f:c{number:02}")).collect();
    let cells: Vec<_> = columns.iter().map(|column| (&column[..], 1, CellType::Put, &value[..])).collect();
    bench.apply(mutation(MutationKind::Put, "row", &cells));
    let mut sink = Slow { shown: Shown::default(), world: &bench.world, each: Duration::from_micros(100) };
    let refused = bench.region.get(&Scan::get("row".into()), ReadMode::MemoryOnly, &mut sink);
    assert!(matches!(refused, Err(Error::WouldBlock)));
    assert_eq!(sink.shown.0.len(), 4);
}

#[test]
fn a_client_of_partial_results_does_not_wait_for_a_row() {
    let bench = wide_row();
    let whole = bench.all();
    let mut scanner = bench.region.scanner(Scan::default()).expect("serving");
    let mut sink = Slow { shown: Shown::default(), world: &bench.world, each: Duration::from_micros(10) };
    let mut cut = 0;
    loop {
        let began = bench.world.moment();
        let deadline = Some(began.plus(Duration::from_millis(5)));
        let limits = Limits { rows: 1, bytes: u64::MAX, deadline, allow_partial: true };
        let step = scanner.next_row(&limits, &mut sink, ReadMode::Any).expect("read");
        assert!(bench.world.moment().since(began) < Duration::from_millis(6));
        assert_eq!(step.time_limit, step.partial);
        cut += usize::from(step.partial);
        if !step.more {
            break;
        }
    }
    assert!(sink.shown.0.join(" ") == whole);
    assert!((10..13).contains(&cut), "cut {cut} times");
    // For a client that accepts only whole rows, the step waits.
    let limits =
        Limits { rows: 1, bytes: u64::MAX, deadline: Some(bench.world.moment()), allow_partial: false };
    let mut scanner = bench.region.scanner(Scan::default()).expect("serving");
    let step = scanner.next_row(&limits, &mut sink, ReadMode::Any).expect("read");
    assert!(!step.partial && !step.time_limit);
}

#[test]
fn a_costly_filter_does_not_run_on_the_serving_thread() {
    let bench = wide_row();
    let dear = || Comparable::Regex(Pattern::new("c.*5$", 0).expect("a pattern"));
    let equal = CompareOperator::Equal;
    let filters = [
        Filter::qualifier(equal, dear()),
        Filter::skip(Filter::qualifier(CompareOperator::NotEqual, dear())),
        Filter::list(filter::Operator::MustPassAll, vec![Filter::page(7), Filter::value(equal, dear())]),
        Filter::single_column_value("f".into(), "c0001".into(), equal, dear(), true, true, false),
    ];
    for filter in filters {
        let mut shown = Shown::default();
        let mut scanner =
            bench.region.scanner(Scan { filter: Some(filter), ..Scan::default() }).expect("serving");
        let refused = scanner.next_row(&Limits::NONE, &mut shown, ReadMode::MemoryOnly);
        assert!(matches!(refused, Err(Error::WouldBlock)));
        scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read");
    }
    // With a slow filter the clock is read after each cell, even if the filter accepts none.
    let none = Filter::qualifier(equal, Comparable::Regex(Pattern::new("none", 0).expect("a pattern")));
    let mut scanner = bench.region.scanner(Scan { filter: Some(none), ..Scan::default() }).expect("serving");
    let limits =
        Limits { rows: 1, bytes: u64::MAX, deadline: Some(bench.world.moment()), allow_partial: true };
    let mut steps = 0;
    loop {
        let mut shown = Shown::default();
        let step = scanner.next_row(&limits, &mut shown, ReadMode::Any).expect("read");
        assert!(shown.0.is_empty());
        steps += 1;
        if !step.more {
            break;
        }
    }
    assert_eq!(steps, 2 * COLUMNS + 1, "a step for each cell, and one for the end of the row");
}

#[test]
fn rows_are_counted_at_their_end() {
    let bench = Bench::new();
    for row in ["a", "b", "c", "d"] {
        for column in ["f:x", "f:y", "g:x"] {
            bench.put(row, column, 1, "v");
        }
    }
    let counted = |scan: Scan| {
        let mut scanner = bench.region.scanner(scan).expect("serving");
        let (mut scanned, mut filtered) = (0, 0);
        loop {
            let step = scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::Any).expect("read");
            scanned += step.rows_scanned;
            filtered += step.rows_filtered;
            if !step.more {
                return (scanned, filtered);
            }
        }
    };
    let by = |filter| Scan { filter: Some(filter), ..Scan::default() };
    let value = |exclude| {
        let with = Comparable::Binary("v".into());
        Filter::single_column_value("f".into(), "x".into(), CompareOperator::Equal, with, true, true, exclude)
    };
    assert_eq!(counted(Scan::default()), (4, 0));
    assert_eq!(counted(partly(1)), (4, 0));
    // As HBase counts: the row at which a filter ends the scan is filtered and not scanned.
    assert_eq!(counted(by(Filter::inclusive_stop("b".into()))), (2, 1));
    assert_eq!(counted(by(Filter::page(0))), (0, 1));
    assert_eq!(counted(by(Filter::row(CompareOperator::Equal, Comparable::Binary("b".into())))), (4, 3));
    // After a row that the filter dropped as a whole, the next row does not count as scanned either.
    let of_a_column_that_is_not_there = {
        let with = Comparable::Binary("v".into());
        Filter::single_column_value("f".into(), "z".into(), CompareOperator::Equal, with, true, true, false)
    };
    assert_eq!(counted(by(Filter::while_match(of_a_column_that_is_not_there))), (1, 2));
    // Families read on demand count the row again.
    assert_eq!(counted(by(value(false))), (8, 0));
    assert_eq!(counted(Scan { load_families_on_demand: Some(false), ..by(value(false)) }), (4, 0));
    assert_eq!(counted(Scan { store_offset: 9, ..Scan::default() }), (4, 4));
}

/// Apache HBase 2.6.4 leaves out segments and files with expired cells only, so such a cell does not make the result
/// before it partial. It does if the same source has a cell that has not expired.
#[test]
fn a_source_with_expired_cells_only_makes_no_result_partial() {
    for (is_flushed, has_other) in [(false, false), (false, true), (true, false), (true, true)] {
        let bench = Bench::with(FamilyDescriptor::new("h").expect("a name").with("TTL", 100));
        let now = bench.world.now().0;
        bench.put("row", "g:x", now, "v");
        bench.put("row", "h:x", now - 60_000, "v");
        if has_other {
            bench.put("sow", "h:x", now, "v");
        }
        if is_flushed {
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
        bench.world.advance(Duration::from_secs(50));
        let mut scanner = bench.region.scanner(partly(1)).expect("serving");
        let limits = Limits { allow_partial: true, ..Limits::NONE };
        let step = scanner.next_row(&limits, &mut Shown::default(), ReadMode::Any).expect("read");
        assert_eq!(step.partial, has_other, "flushed: {is_flushed}");
    }
}
