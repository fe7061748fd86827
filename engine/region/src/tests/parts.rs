//! Tests that a scan returns the same cells however it is read: row by row; in parts by count, size and time; in memory
//! with repeated steps; and in any mixture. Regions, scans and filters are random.
//!
//! `PARTS_SEEDS=2000 cargo test -p region parts` runs more seeds.

use std::time::Duration;

use filter::{ColumnRange, Operator, Pattern, RowRange};

use super::*;

/// Random numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn of(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..4).for_each(|_| {
            random.word();
        });
        random
    }
}

impl Random {
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }
    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

const ROWS: [&str; 4] = ["a", "ab", "b", "c"];
const COLUMNS: [&str; 5] = ["c0", "c1", "c2", "d0", "d1"];

fn one_of(random: &mut Random, words: &[&'static str]) -> &'static str {
    words[random.below(words.len() as u64) as usize]
}

fn column(random: &mut Random) -> &'static str {
    one_of(random, &COLUMNS)
}

fn family(random: &mut Random) -> &'static str {
    one_of(random, &["f", "g"])
}

fn row(random: &mut Random) -> &'static str {
    one_of(random, &ROWS)
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn operator(random: &mut Random) -> CompareOperator {
    use CompareOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    [Less, LessOrEqual, Equal, NotEqual, GreaterOrEqual, Greater][random.below(6) as usize]
}

fn comparable(random: &mut Random, text: &str) -> Comparable {
    match random.below(6) {
        0 => Comparable::Regex(Pattern::new(&format!("{text}$"), 0).expect("a pattern")),
        1 => Comparable::substring(text),
        2 => Comparable::BinaryPrefix(bytes(&text[..1])),
        _ => Comparable::Binary(bytes(text)),
    }
}

/// Returns a random filter, nested at most `depth` levels.
fn any_filter(random: &mut Random, depth: u64) -> Filter {
    let value = |random: &mut Random| format!("v{}", random.below(4));
    match random.below(if depth > 0 { 28 } else { 22 }) {
        0 => Filter::prefix(bytes(row(random))),
        1 => Filter::page(random.below(4)),
        2 => Filter::key_only(random.one_in(2)),
        3 => Filter::first_key_only(),
        4 => Filter::first_key_value_matching_qualifiers(vec![bytes(column(random)), bytes(column(random))]),
        5 => Filter::column_prefix(bytes(&column(random)[..1 + random.below(2) as usize])),
        6 => Filter::multiple_column_prefix(vec![bytes(column(random)), bytes(column(random))]),
        7 => Filter::column_range(ColumnRange {
            min: if random.one_in(4) { None } else { Some(bytes(column(random))) },
            include_min: random.one_in(2),
            max: if random.one_in(4) { None } else { Some(bytes(column(random))) },
            include_max: random.one_in(2),
        }),
        8 => Filter::column_pagination(random.below(4) as u32, random.below(3) as u32, None),
        9 => Filter::column_pagination(random.below(4) as u32, 0, Some(bytes(column(random)))),
        10 => Filter::column_count_get(random.below(6) as u32),
        11 => Filter::inclusive_stop(bytes(row(random))),
        12 => {
            let text = row(random);
            Filter::row(operator(random), comparable(random, text))
        }
        13 => {
            let text = family(random);
            Filter::family(operator(random), comparable(random, text))
        }
        14 => {
            let text = column(random);
            Filter::qualifier(operator(random), comparable(random, text))
        }
        15 => {
            let text = value(random);
            Filter::value(operator(random), comparable(random, &text))
        }
        16 => {
            let text = value(random);
            let compare = random.one_in(2).then(|| (operator(random), comparable(random, &text)));
            Filter::dependent_column(bytes(family(random)), bytes(column(random)), random.one_in(2), compare)
        }
        17 => {
            let text = value(random);
            let with = comparable(random, &text);
            Filter::single_column_value(
                bytes(family(random)),
                bytes(column(random)),
                operator(random),
                with,
                random.one_in(2),
                random.one_in(2),
                random.one_in(2),
            )
        }
        18 => {
            let text = value(random);
            let with = comparable(random, &text);
            Filter::column_value(bytes(family(random)), bytes(column(random)), operator(random), with)
        }
        19 => Filter::timestamps(
            vec![Timestamp(random.below(5) as i64), Timestamp(random.below(5) as i64)],
            random.one_in(2),
        ),
        20 => {
            let mut key = || {
                (
                    bytes(["a?", "?b", "b?", "c?"][random.below(4) as usize]),
                    vec![random.one_in(2), random.one_in(2)],
                )
            };
            let keys = vec![key(), key()];
            Filter::fuzzy_row(keys).expect("good")
        }
        21 => {
            let range = |random: &mut Random| {
                let (mut one, mut two) = (row(random), row(random));
                if one > two {
                    std::mem::swap(&mut one, &mut two);
                }
                RowRange {
                    start: bytes(one),
                    include_start: random.one_in(2) || one == two,
                    stop: bytes(two),
                    include_stop: true,
                }
            };
            let ranges = vec![range(random), range(random)];
            Filter::multi_row_range(ranges).expect("good")
        }
        22 => Filter::skip(any_filter(random, depth - 1)),
        23 => Filter::while_match(any_filter(random, depth - 1)),
        _ => {
            let operator = if random.one_in(2) { Operator::MustPassAll } else { Operator::MustPassOne };
            let count = 1 + random.below(3);
            Filter::list(operator, (0..count).map(|_| any_filter(random, depth - 1)).collect())
        }
    }
}

/// Returns a region of two families after `acts` random acts.
fn make(random: &mut Random, acts: u64) -> Bench {
    let mut family_of =
        FamilyDescriptor::new("f").expect("a name").with("BLOCKSIZE", [1, 64, 200][random.below(3) as usize]);
    family_of = family_of.with("VERSIONS", 1 + random.below(4));
    match random.below(6) {
        0 => family_of = family_of.with("KEEP_DELETED_CELLS", "TRUE"),
        1 => family_of = family_of.with("NEW_VERSION_BEHAVIOR", "true"),
        2 => family_of = family_of.with("KEEP_DELETED_CELLS", "TTL").with("TTL", 500).with("MIN_VERSIONS", 1),
        3 => family_of = family_of.with("TTL", 500),
        _ => {}
    }
    if random.one_in(3) {
        family_of = family_of.with("BLOOMFILTER", "ROWCOL");
    }
    let bench = Bench::with(family_of);
    let now = bench.world.now().0;
    for _ in 0..acts {
        let (row, family, at) = (row(random), family(random), random.below(5) as i64);
        // Some old and some new cells, so that times to live matter.
        let at = if random.one_in(2) { at } else { now - 100 + at };
        let name = if random.one_in(12) { "" } else { column(random) };
        let name = format!("{family}:{name}");
        match random.below(20) {
            0 => bench.delete(row, &name, at, CellType::Delete),
            1 => bench.delete(row, &name, at, CellType::DeleteColumn),
            2 => bench.delete(row, &format!("{family}:"), at, CellType::DeleteFamily),
            3 => bench.delete(row, &format!("{family}:"), at, CellType::DeleteFamilyVersion),
            4 => {
                bench.region.flush(FlushReason::Requested).expect("flushed");
            }
            5 if random.one_in(3) => {
                let major = random.one_in(2);
                bench.region.compact(&CompactionRequest { major, families: Vec::new() }).expect("compacted");
            }
            _ => bench.put(row, &name, at, &format!("v{}", random.below(4))),
        }
    }
    if random.one_in(2) {
        bench.region.flush(FlushReason::Requested).expect("flushed");
    }
    bench
}

/// A sink that, when slow, takes time for every second cell.
struct Slow<'a> {
    shown: Shown,
    world: &'a World,
    random: Random,
    is_slow: bool,
}

impl CellSink for Slow<'_> {
    fn cell(&mut self, cell: Cell<'_>) {
        if self.is_slow && self.random.one_in(2) {
            self.world.advance(Duration::from_micros(200));
        }
        self.shown.cell(cell);
    }
}

/// How a scan is read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Whole,
    Batch(u32),
    Bytes,
    Deadline,
    Memory,
    Mixed,
}

fn read(bench: &Bench, mut scan: Scan, way: Way, seed: u64) -> std::result::Result<Vec<String>, String> {
    let mut random = Random::of(seed);
    let judges_rows = scan.filter.as_ref().is_some_and(Filter::has_filter_row);
    match way {
        Way::Batch(batch) => scan.batch = Some(batch),
        Way::Mixed if random.one_in(2) && !judges_rows => scan.batch = Some(1 + random.below(3) as u32),
        _ => {}
    }
    let allow_partial = matches!(way, Way::Bytes | Way::Deadline | Way::Mixed);
    let mut scanner = bench.region.scanner(scan).map_err(|error| error.to_string())?;
    let is_slow = matches!(way, Way::Memory | Way::Mixed);
    let mut sink =
        Slow { shown: Shown::default(), world: &bench.world, random: Random::of(seed + 1), is_slow };
    for _ in 0..10_000 {
        let may = |random: &mut Random, of: Way| way == of || way == Way::Mixed && random.one_in(2);
        let bytes = if may(&mut random, Way::Bytes) { 1 + random.below(400) } else { u64::MAX };
        let deadline = may(&mut random, Way::Deadline).then(|| bench.world.moment());
        let limits = Limits { rows: 1, bytes, deadline, allow_partial };
        let mode = if may(&mut random, Way::Memory) { ReadMode::MemoryOnly } else { ReadMode::Any };
        let mark = sink.shown.0.len();
        let step = match scanner.next_row(&limits, &mut sink, mode) {
            Err(Error::WouldBlock) => {
                sink.shown.0.truncate(mark);
                scanner.next_row(&limits, &mut sink, ReadMode::Any)
            }
            step => step,
        };
        if !step.map_err(|error| error.to_string())?.more {
            return Ok(sink.shown.0);
        }
    }
    panic!("the scan does not end");
}

fn any_scan(random: &mut Random) -> Scan {
    let depth = random.below(3);
    let filter = (!random.one_in(12)).then(|| any_filter(random, depth));
    let mut scan = Scan {
        filter,
        max_versions: 1 + random.below(4) as u32,
        reversed: random.one_in(4),
        raw: random.one_in(10),
        ..Scan::default()
    };
    if random.one_in(4) {
        scan.store_offset = random.below(3) as u32;
    }
    if random.one_in(4) {
        scan.store_limit = Some(random.below(4) as u32);
    }
    if random.one_in(4) {
        let (from, until) = (random.below(4) as i64, 4 + random.below(3) as i64);
        scan.time_range = TimeRange { from: Timestamp(from), until: Timestamp(until) };
    }
    if random.one_in(3) {
        for family in ["f", "g"] {
            if random.one_in(4) {
                continue;
            }
            let mut names: Vec<Bytes> = (0..3).map(|_| bytes(column(random))).collect();
            names.sort();
            names.dedup();
            let qualifiers = Some(names).filter(|_| random.one_in(2) && !scan.raw);
            scan.families.push(FamilyQuery { family: bytes(family), qualifiers, time_range: None });
        }
    }
    if random.one_in(4) {
        scan.load_families_on_demand = Some(false);
    }
    if random.one_in(6) {
        let row = bytes(row(random));
        scan = Scan { start: row.clone(), stop: row, include_stop: true, reversed: false, ..scan };
    }
    scan
}

/// Kills the process and opens the region with a partly filled cache.
fn cool(bench: Bench, random: &mut Random) -> Bench {
    let bench = bench.kill();
    for _ in 0..random.below(4) {
        let mut get = Scan::get(bytes(row(random)));
        let (family, column) = (bytes(family(random)), bytes(column(random)));
        get.families = vec![FamilyQuery { family, qualifiers: Some(vec![column]), time_range: None }];
        bench.region.get(&get, ReadMode::Any, &mut Shown::default()).expect("read");
    }
    bench
}

#[test]
fn all_ways_to_read_a_scan_return_the_same_cells() {
    let seeds = std::env::var("PARTS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(100);
    for seed in 0..seeds {
        let mut random = Random::of(seed);
        let acts = 2 + random.below(24);
        let mut bench = make(&mut random, acts);
        for _ in 0..20 {
            let scan = any_scan(&mut random);
            let whole = read(&bench, scan.clone(), Way::Whole, 1);
            let mut ways = vec![Way::Memory, Way::Mixed, Way::Mixed];
            if !scan.filter.as_ref().is_some_and(Filter::has_filter_row) {
                ways.extend([
                    Way::Batch(1),
                    Way::Batch(2),
                    Way::Batch(3),
                    Way::Bytes,
                    Way::Deadline,
                    Way::Memory,
                ]);
            }
            for way in ways {
                if matches!(way, Way::Memory | Way::Mixed) {
                    bench = cool(bench, &mut random);
                }
                let found = read(&bench, scan.clone(), way, random.word());
                assert_eq!(found, whole, "seed {seed}, {way:?}: {scan:?}");
            }
        }
    }
}

/// Reads a scan: each step first in memory, then where it may block.
fn patiently(bench: &Bench, scan: Scan) -> String {
    read(bench, scan, Way::Memory, 1).expect("read").join(" ")
}

fn one_to_a_block(rows: &[(&str, &[&str])]) -> Bench {
    let bench = Bench::with(FamilyDescriptor::new("f").expect("a name").with("BLOCKSIZE", 1));
    for (row, columns) in rows {
        columns.iter().for_each(|column| bench.put(row, column, 1, "v"));
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench
}

#[test]
fn a_row_begun_anew_is_not_cut_before_its_old_position() {
    let bench = Bench::new();
    (0..400).for_each(|number| bench.put("r", &format!("f:c{number:03}"), 1, "v"));
    let mut scanner = bench.region.scanner(Scan { batch: Some(200), ..Scan::default() }).expect("serving");
    let random = Random::of(1);
    let mut sink = Slow { shown: Shown::default(), world: &bench.world, random, is_slow: false };
    scanner.next_row(&Limits::NONE, &mut sink, ReadMode::Any).expect("the first part");
    sink.is_slow = true;
    let refused = scanner.next_row(&Limits::NONE, &mut sink, ReadMode::MemoryOnly);
    assert!(matches!(refused, Err(Error::WouldBlock)));
    sink.shown.0.truncate(200);
    let limits =
        Limits { rows: 1, bytes: u64::MAX, deadline: Some(bench.world.moment()), allow_partial: true };
    while scanner.next_row(&limits, &mut sink, ReadMode::Any).expect("read").more {}
    assert_eq!(sink.shown.0.join(" "), bench.all());
}

#[test]
fn a_repeated_step_restores_the_filters_state() {
    let row: &[(&str, &[&str])] = &[("r", &["f:c0", "f:c1", "f:c2", "f:c3", "f:c4"])];
    let less = Filter::qualifier(CompareOperator::Less, Comparable::Binary("c2".into()));
    let fuzzy = Filter::fuzzy_row(vec![("a".into(), vec![true])]).expect("a mask");
    let with = Comparable::Binary("w".into());
    let value =
        Filter::single_column_value("f".into(), "c2".into(), CompareOperator::Equal, with, true, true, false);
    let either = Filter::list(Operator::MustPassOne, vec![fuzzy, value]);
    for (filter, expected) in [(Filter::while_match(less), "r/f:c0@1=v r/f:c1@1=v"), (either, "")] {
        let scan = Scan { filter: Some(filter), ..Scan::default() };
        let bench = one_to_a_block(row);
        assert_eq!(bench.scan(scan.clone()), expected);
        let bench = bench.kill();
        for column in ["c0", "c1"] {
            let qualifiers = Some(vec![bytes(column)]);
            let families = vec![FamilyQuery { family: "f".into(), qualifiers, time_range: None }];
            let get = Scan { families, ..Scan::get("r".into()) };
            bench.region.get(&get, ReadMode::Any, &mut Shown::default()).expect("read");
        }
        assert_eq!(patiently(&bench, scan), expected);
    }
}

#[test]
fn a_filters_hint_survives_a_row_begun_anew() {
    let rows: &[(&str, &[&str])] =
        &[("a", &["f:x"]), ("ab", &["g:x"]), ("b", &["f:x", "f:y", "g:x"]), ("c", &["f:x"])];
    let bench = one_to_a_block(rows);
    let fuzzy = Filter::fuzzy_row(vec![("x?".into(), vec![false, true])]).expect("a mask");
    let scan = Scan { filter: Some(fuzzy), ..Scan::default() };
    let whole = bench.scan(scan.clone());
    assert_eq!(patiently(&bench.kill(), scan), whole);

    let bench = one_to_a_block(&[("ab", &["f:x", "f:y", "g:x"]), ("c", &["f:x", "f:y", "g:x"])]);
    let scan = Scan { reversed: true, filter: Some(Filter::prefix("ab".into())), ..Scan::default() };
    let whole = bench.scan(scan.clone());
    let bench = bench.kill();
    // Only the last row of both families is in memory.
    let last = Scan { start: "c".into(), ..Scan::default() };
    bench.scan(last);
    assert_eq!(patiently(&bench, scan), whole);
}

#[test]
fn a_filter_that_cannot_judge_fails_before_cells_are_returned() {
    let bench = Bench::new();
    for (column, value) in [("f:a", "12345678"), ("f:b", "short"), ("f:c", "12345678")] {
        bench.put("r", column, 1, value);
    }
    let failed = |filter: Filter, batch| {
        let scan = Scan { filter: Some(filter), batch, ..Scan::default() };
        let mut scanner = bench.region.scanner(scan).expect("serving");
        let mut given = Shown::default();
        loop {
            let mark = given.0.len();
            match scanner.next_row(&Limits::NONE, &mut given, ReadMode::Any) {
                Ok(step) => assert!(step.more, "it does not fail"),
                Err(Error::Filter(_)) => return mark,
                Err(error) => panic!("{error}"),
            }
        }
    };
    let equal = CompareOperator::Equal;
    for with in [Comparable::Long(5), Comparable::Missing, Comparable::BigDecimal("".into())] {
        assert_eq!(failed(Filter::row(equal, with), None), 0);
    }
    let long = || Filter::value(equal, Comparable::Long(5));
    assert_eq!(failed(long(), None), 0);
    // With parts: the parts before the one that cannot be judged are returned.
    let either = Filter::list(Operator::MustPassOne, vec![long(), Filter::column_prefix("".into())]);
    assert_eq!(failed(either, Some(1)), 1);
}
