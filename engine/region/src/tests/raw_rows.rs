//! Tests that rows copied as raw rows equal rows that the matcher judges.

use std::time::Duration;

use cell::TagType;

use super::skipped_rows::{Random, lived, of_f};
use super::*;

/// The cells of a step, and whether the next step may return more cells of the same row.
type Given = (Vec<String>, bool);

/// A sink that records cells, and their number at the end of each row.
#[derive(Default)]
struct Rows {
    cells: Shown,
    ends: Vec<usize>,
}

impl CellSink for Rows {
    fn cell(&mut self, cell: Cell<'_>) {
        self.cells.cell(cell);
    }

    fn row_ends(&mut self) {
        self.ends.push(self.cells.0.len());
    }
}

/// Reads a scan in steps; returns the cells with the number of rows, and the number of steps.
fn read(bench: &Bench, scan: Scan, limits: &Limits) -> ((Vec<Given>, u64), usize) {
    let mut scanner = bench.region.scanner(scan).expect("serving");
    let (mut given, mut scanned, mut steps) = (Vec::new(), 0, 0);
    loop {
        let mut rows = Rows::default();
        let step = scanner.next_row(limits, &mut rows, ReadMode::Any).expect("read");
        (scanned, steps) = (scanned + step.rows_scanned, steps + 1);
        assert!(rows.ends.len() <= limits.rows, "{} rows in a step", rows.ends.len());
        if rows.ends.is_empty() && !rows.cells.0.is_empty() {
            rows.row_ends();
        }
        assert_eq!(
            rows.ends.last().copied().unwrap_or(0),
            rows.cells.0.len(),
            "all cells are of rows that ended"
        );
        let mut from = 0;
        for end in rows.ends {
            given.push((rows.cells.0[from..end].to_vec(), step.partial));
            from = end;
        }
        if !step.more {
            return ((given, scanned), steps);
        }
    }
}

fn all_of_f() -> Scan {
    Scan { families: vec![of_f(None)], ..Scan::default() }
}

/// Returns the same scan with a limit that never applies. Because of it every cell is judged.
fn judged(scan: Scan) -> Scan {
    Scan { batch: Some(u32::MAX), ..scan }
}

#[test]
fn copying_raw_rows_returns_what_judging_does() {
    let (mut saved, mut compared) = (0, 0);
    for seed in 0..80 {
        let mut random = Random(seed);
        let mut family =
            FamilyDescriptor::new("f").expect("a name").with("BLOCKSIZE", 150 + random.below(900));
        family = family.with("VERSIONS", 1 + random.below(3));
        match random.below(6) {
            // Cells older than 5 expire in five milliseconds.
            0 => family = family.with("TTL", 1_000),
            1 => family = family.with("NEW_VERSION_BEHAVIOR", "TRUE"),
            _ => {}
        }
        if random.below(3) == 0 {
            family = family.with("KEEP_DELETED_CELLS", "TRUE");
        }
        let (bench, read_point) = lived(family, &mut random);
        for families in [None, Some(&["a"][..]), Some(&["b", "c"][..]), Some(&["a", "b", "c"][..])] {
            for (start, stop, include_stop) in
                [("", "", false), ("row-05", "row-20", false), ("row-1", "row-17", true)]
            {
                let way = random.below(10);
                let reversed = way == 1 && start.is_empty();
                let range = TimeRange { from: Timestamp(3), until: Timestamp(7) };
                let scan = || Scan {
                    raw: way == 0,
                    reversed,
                    store_limit: (way == 2).then_some(1),
                    store_offset: u32::from(way == 3),
                    time_range: if way == 4 { range } else { TimeRange::ALL },
                    families: vec![FamilyQuery { time_range: (way == 5).then_some(range), ..of_f(families) }],
                    start: start.into(),
                    stop: stop.into(),
                    include_stop,
                    max_versions: 1 + (seed % 2) as u32,
                    read_point: (seed % 3 == 0).then_some(read_point),
                    ..Scan::default()
                };
                let about = format!("seed {seed}, {families:?} {start}..{stop}, way {way}");
                let (expected, slow_steps) = read(&bench, judged(scan()), &Limits::NONE);
                let several = Limits { rows: 1 + random.below(8) as usize, ..Limits::NONE };
                let (found, steps) = read(&bench, scan(), &several);
                assert_eq!(found, expected, "{about}, {several:?}");
                (saved, compared) = (saved + slow_steps - steps, compared + 1);
                // The place where a row is cut does not depend on how it is read.
                let small = Limits { bytes: 1 + random.below(400), allow_partial: true, ..Limits::NONE };
                let (cut, _) = read(&bench, judged(scan()), &small);
                assert_eq!(read(&bench, scan(), &small).0, cut, "{about}, {small:?}");
            }
        }
    }
    assert!(saved > compared / 10, "{saved} steps were saved in {compared} scans");
}

#[test]
fn raw_rows_of_a_block_are_copied_in_one_step_up_to_a_limit() {
    let bench = Bench::new();
    for row in 0..100 {
        bench.put(&format!("row-{row:03}"), "f:a", 1, "x");
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let steps = |limits: Limits| {
        let ((given, scanned), steps) = read(&bench, all_of_f(), &limits);
        assert_eq!((given.len(), scanned), (100, 100), "{limits:?}");
        steps
    };
    assert_eq!(
        steps(Limits { rows: 1_000, ..Limits::NONE }),
        2,
        "the last one's end is for the next block to say"
    );
    assert_eq!(steps(Limits { rows: 10, ..Limits::NONE }), 11);
    // A cell of a file counts 38 bytes and its own size, here 68 together.
    let (below, at) = (5 * 68 + 1, 5 * 68);
    assert_eq!(steps(Limits { rows: 10, bytes: below, allow_partial: true, ..Limits::NONE }), 21);
    assert_eq!(steps(Limits { rows: 10, bytes: at, allow_partial: true, ..Limits::NONE }), 26);
}

#[test]
fn a_batch_cuts_raw_rows_too() {
    let bench = Bench::new();
    for row in 0..20 {
        for column in ["f:a", "f:b", "f:c"] {
            bench.put(&format!("row-{row:02}"), column, 1, "x");
        }
    }
    let parts = || read(&bench, Scan { batch: Some(2), ..all_of_f() }, &Limits { rows: 8, ..Limits::NONE }).0;
    let in_memory = parts();
    let sizes: Vec<_> = in_memory.0.iter().map(|(cells, goes_on)| (cells.len(), *goes_on)).collect();
    assert_eq!(sizes, [(2, true), (1, false)].repeat(20));
    bench.region.flush(FlushReason::Requested).expect("flushed");
    assert_eq!(parts(), in_memory);
}

#[test]
fn a_row_that_is_too_big_is_not_copied() {
    let options = RegionOptions { row_size_max: 150, ..RegionOptions::default() };
    let table = table(FamilyDescriptor::new("f").expect("a name"));
    let bench = Bench::open_with(Memory::new(), World::simulated(1, WallTime(1_000_000)), table, options);
    bench.put("row-1", "f:a", 1, "x");
    for column in ["f:a", "f:b", "f:c"] {
        bench.put("row-2", column, 1, "x");
    }
    bench.put("row-3", "f:a", 1, "x");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let mut scanner = bench.region.scanner(all_of_f()).expect("serving");
    let (limits, mut shown) = (Limits { rows: 10, ..Limits::NONE }, Shown::default());
    let step = scanner.next_row(&limits, &mut shown, ReadMode::Any).expect("small");
    assert_eq!((step.rows_scanned, shown.0.len()), (1, 1));
    let error = scanner.next_row(&limits, &mut shown, ReadMode::Any).expect_err("three cells of 88 bytes");
    assert!(matches!(&error, Error::RowTooBig { limit: 150, row } if row == "row-2"), "{error}");
}

#[test]
fn cells_with_times_to_live_of_their_own_are_judged() {
    let bench = Bench::new();
    for (row, ttl) in [("row-1", None), ("row-2", Some(5u64)), ("row-3", None)] {
        let tags =
            ttl.map_or(Vec::new(), |ttl| [&[0, 9, TagType::Ttl as u8], &ttl.to_be_bytes()[..]].concat());
        let cell = CellParts {
            row: row.as_bytes(),
            family: b"f",
            qualifier: b"a",
            timestamp: Timestamp(bench.world.now().0),
            cell_type: CellType::Put,
            value: b"x",
            tags: &tags,
        };
        let (mut block, bytes) = (Vec::new(), cell.to_vec().expect("within limits"));
        cell::block::write_with_tags(&mut block, Cell::trusted(&bytes, cell::SequenceId::ZERO));
        let cells = CellBlock::parse(block.into()).expect("whole");
        bench.apply(Mutation { cells, ..mutation(MutationKind::Put, row, &[]) });
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let several = Limits { rows: 10, ..Limits::NONE };
    let rows = || read(&bench, all_of_f(), &several).0.0.len();
    assert_eq!(rows(), 3);
    bench.world.advance(Duration::from_millis(6));
    assert_eq!(rows(), 2, "the time of one is over");
}
