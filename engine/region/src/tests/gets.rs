//! Tests that gets and row readers return what scans return, after random writes, flushes, compactions and evictions.

use std::collections::BTreeMap;

use super::*;

const COLUMNS: [&str; 4] = ["", "a", "b", "c"];
/// Number of rows. Odd rows are never written, so that checking Bloom filters pays at some times and not at others.
const ROWS: u64 = 120;
const STEPS: u64 = 400;

fn row(number: u64) -> String {
    format!("r{number:03}")
}

/// The cells of each row, as the sink shows them.
type Rows = BTreeMap<String, String>;

/// The query of a row reader, and the rows as they were when the reader was created.
struct Reader {
    reader: RowReader,
    expected: Rows,
    made: u64,
}

fn families(prefix: u64) -> Vec<FamilyDescriptor> {
    let family =
        || FamilyDescriptor::new("f").expect("a name").with("VERSIONS", 3).with("BLOCKSIZE", 512 * prefix);
    vec![
        family().with("BLOOMFILTER", "ROW"),
        family().with("BLOOMFILTER", "ROWCOL"),
        family().with("BLOOMFILTER", "NONE").with("DATA_BLOCK_ENCODING", "FAST_DIFF"),
        family().with("BLOOMFILTER", "ROWPREFIX_FIXED_LENGTH").with("RowPrefixBloomFilter.prefix_length", 3),
        family().with("BLOOMFILTER", "ROW").with("KEEP_DELETED_CELLS", "TRUE"),
        family().with("BLOOMFILTER", "ROW").with("NEW_VERSION_BEHAVIOR", "true"),
        family().with("BLOOMFILTER", "ROW").with("TTL", 3).with("MIN_VERSIONS", 1),
        family().with("BLOOMFILTER", "ROWCOL").with("TTL", 3),
    ]
}

/// Makes one random step: a write, a marker, a flush, a compaction, or an eviction.
fn act(bench: &Bench, any: &impl Fn(u64) -> u64, step: u64) {
    // Many writes go to few rows.
    let row = row(2 * if any(2) == 0 { any(4) } else { any(ROWS / 2) });
    let column = format!("f:{}", COLUMNS[any(4) as usize]);
    let timestamp = match any(4) {
        0 => 996_000 + 500 * any(10) as i64,
        _ => 996_000 + 10 * step as i64,
    };
    let request = |major| CompactionRequest { major, families: Vec::new() };
    match any(48) {
        0 | 1 => bench.delete(&row, "f:", timestamp, CellType::DeleteFamily),
        2 | 3 => bench.delete(&row, &column, timestamp, CellType::DeleteColumn),
        4 | 5 => bench.delete(&row, &column, timestamp, CellType::Delete),
        6 | 7 => bench.delete(&row, "f:", timestamp, CellType::DeleteFamilyVersion),
        8 => drop(bench.region.flush(FlushReason::Requested).expect("flushed")),
        9 => bench.region.compact_memory(any(2) as f64),
        10 if any(3) == 0 => drop(bench.region.compact(&request(any(2) == 0)).expect("compacted")),
        11 | 12 => drop(bench.region.evict_blocks()),
        _ => bench.put(&row, &column, timestamp, &format!("{step}{}", "-".repeat(any(40) as usize))),
    }
}

/// Returns the rows of a scan over everything.
fn scanned(bench: &Bench, scan: &Scan) -> Rows {
    let mut scanner =
        bench.region.scanner(Scan { start: Bytes::new(), stop: Bytes::new(), ..scan.clone() }).expect("open");
    let mut rows = Rows::new();
    loop {
        let mut shown = Shown::default();
        let step = scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read");
        if let Some((row, _)) = shown.0.first().and_then(|cell| cell.split_once('/')) {
            rows.insert(row.to_owned(), shown.0.join(" "));
        }
        if !step.more {
            return rows;
        }
    }
}

/// Reads in memory. If that would block, repeats the read in a mode that may block.
fn read(counts: &mut [u64; 2], mut look: impl FnMut(ReadMode, &mut Shown) -> Result<usize>) -> String {
    let mut shown = Shown::default();
    let outcome = look(ReadMode::MemoryOnly, &mut shown);
    counts[usize::from(outcome.is_err())] += 1;
    match outcome {
        Err(Error::WouldBlock) => {
            shown.0.clear();
            look(ReadMode::Any, &mut shown).expect("read");
        }
        outcome => drop(outcome.expect("read")),
    }
    shown.0.join(" ")
}

fn scan_of(any: &impl Fn(u64) -> u64) -> Scan {
    let wanted: Option<&[&str]> =
        [None, Some(&["a"][..]), Some(&["", "b"]), Some(&["a", "b", "c"]), Some(&["c"])][any(5) as usize];
    let qualifiers =
        wanted.map(|wanted| wanted.iter().map(|name| Bytes::copy_from_slice(name.as_bytes())).collect());
    let time_range = match any(4) {
        0 => TimeRange { from: Timestamp(996_900), until: Timestamp(998_500) },
        _ => TimeRange::ALL,
    };
    Scan {
        families: vec![FamilyQuery { family: "f".into(), qualifiers, time_range: None }],
        max_versions: 1 + any(3) as u32,
        time_range,
        cache_blocks: any(8) != 0,
        ..Scan::get("any".into())
    }
}

fn filters(any: &impl Fn(u64) -> u64) -> Option<Filter> {
    let value =
        Filter::value(CompareOperator::GreaterOrEqual, Comparable::Binary(any(300).to_string().into()));
    match any(6) {
        0 => Some(value),
        1 => Some(Filter::skip(value)),
        2 => Some(Filter::column_prefix("b".into())),
        _ => None,
    }
}

#[test]
fn gets_and_row_readers_return_what_scans_return() {
    let world = World::simulated(17, WallTime(0));
    let any = |below: u64| world.random() % below;
    // The numbers of reads that succeed at once, and of those that succeed after a wait.
    let mut counts = [0, 0];
    let mut late = 0;
    for (number, family) in families(1 + any(4)).into_iter().enumerate() {
        for level in [memstore::Level::None, memstore::Level::Basic, memstore::Level::Eager] {
            let options = RegionOptions {
                compaction_size_min: Some(0),
                in_memory_compaction: level,
                pipeline_segments_max: 1 + any(4) as usize,
                in_memory_flush_factor: 2.0 * [1.0, 900.0][any(2) as usize]
                    / RegionOptions::default().flush_size as f64,
                ..RegionOptions::default()
            };
            let bench = Bench::open_with(
                Memory::new(),
                World::simulated(1, WallTime(1_000_000)),
                table(family.clone()),
                options,
            );
            let mut readers: Vec<Reader> = Vec::new();
            for step in 0..STEPS {
                act(&bench, &any, step);
                let scan = scan_of(&any);
                if any(6) == 0 {
                    // The reader stays open during writes, flushes and compactions.
                    let expected = scanned(&bench, &scan);
                    let reader = bench.region.row_reader(scan.clone()).expect("serving");
                    readers.push(Reader { reader, expected, made: step });
                }
                if readers.len() > 5 {
                    readers.remove(any(5) as usize);
                }
                let what = |row: &str| format!("family {number}, {level:?}, step {step}, {row}, {scan:?}");
                // Mostly present rows, mostly absent rows, one row again and again, and alternating rows.
                let (kind, hot) = (any(4), any(ROWS));
                let pick = |at: u64| match kind {
                    0 => 2 * any(ROWS / 2),
                    1 => 1 + 2 * any(ROWS / 2),
                    2 => hot,
                    _ => 2 * any(ROWS / 2) + at % 2,
                };
                let expected = scanned(&bench, &scan);
                for at in 0..6 {
                    let row = row(pick(at));
                    let get = Scan { start: row.clone().into(), stop: row.clone().into(), ..scan.clone() };
                    let found = read(&mut counts, |mode, shown| bench.region.get(&get, mode, shown));
                    assert_eq!(found, expected.get(&row).cloned().unwrap_or_default(), "{}", what(&row));
                    let filter = filters(&any);
                    if filter.is_some() {
                        let get = Scan { filter, ..get };
                        let alone =
                            Scan { stop: format!("{row}\0").into(), include_stop: false, ..get.clone() };
                        let found = read(&mut counts, |mode, shown| bench.region.get(&get, mode, shown));
                        assert_eq!(found, bench.scan(alone), "{}, {:?}", what(&row), get.filter);
                    }
                }
                // Enough reads for files to decide whether their filters pay.
                let lookups = if any(40) == 0 { 1_000 } else { 8 };
                for Reader { reader, expected, made } in &mut readers {
                    for at in 0..lookups {
                        let row = row(pick(at));
                        let key = Bytes::from(row.clone());
                        let found = read(&mut counts, |mode, shown| reader.read(&key, mode, shown));
                        let expected = expected.get(&row).cloned().unwrap_or_default();
                        assert_eq!(found, expected, "made at {made}, {}", what(&row));
                        late += u64::from(step - *made > 20);
                    }
                }
            }
        }
    }
    assert!(counts[0] > 10_000 && counts[1] > 500 && late > 1_000, "{counts:?}, {late} late");
}
