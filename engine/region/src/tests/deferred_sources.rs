//! Tests of deferred sources: files and segments that a read of some columns opens late or never.

use hfile::ReadOptions;

use super::*;
use crate::heap::RowTarget;

/// Returns the number of bytes of data blocks that a get of `columns` reads, and the result of the get.
fn get(bench: &Bench, row: &str, columns: &[&str], versions: u32) -> (u64, String) {
    let scan =
        Scan { families: vec![query(columns)], max_versions: versions, ..Scan::get(row.to_owned().into()) };
    let before = hfile::data_bytes_of_thread();
    let mut shown = Shown::default();
    bench.region.get(&scan, ReadMode::Any, &mut shown).expect("serving");
    (hfile::data_bytes_of_thread() - before, shown.0.join(" "))
}

fn query(columns: &[&str]) -> FamilyQuery {
    let qualifiers = columns.iter().map(|column| Bytes::copy_from_slice(column.as_bytes())).collect();
    FamilyQuery { family: "f".into(), qualifiers: Some(qualifiers), time_range: None }
}

/// Returns the result of a scan over a range of rows, which opens every source.
fn scan(bench: &Bench, row: &str, columns: &[&str], versions: u32) -> String {
    let (start, stop) = (Bytes::from(row.to_owned()), Bytes::from(format!("{row}\0")));
    bench.scan(Scan {
        families: vec![query(columns)],
        max_versions: versions,
        start,
        stop,
        ..Scan::default()
    })
}

#[test]
fn a_file_older_than_the_found_cell_is_not_opened() {
    let bench = Bench::new();
    bench.put("a", "f:x", 5, "old");
    bench.put("a", "f:y", 5, "old");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    assert!(get(&bench, "a", &["x"], 1).0 > 0);
    bench.put("a", "f:x", 6, "new");
    assert_eq!(get(&bench, "a", &["x"], 1), (0, "a/f:x@6=new".to_owned()));
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let one_file = get(&bench, "a", &["x"], 1);
    assert_eq!(one_file.1, "a/f:x@6=new");
    let (both, found) = get(&bench, "a", &["x", "y"], 1);
    assert_eq!(found, "a/f:x@6=new a/f:y@5=old");
    assert!(both > one_file.0, "the older one has the second column: {both}");
    bench.put("a", "f:x", 6, "newer, of the same time");
    assert_eq!(get(&bench, "a", &["x"], 1).1, "a/f:x@6=newer, of the same time");
    bench.delete("a", "f:x", 6, CellType::Delete);
    assert_eq!(get(&bench, "a", &["x"], 1).1, "a/f:x@5=old", "what is masked is no version");
}

#[test]
fn deferred_files_are_opened_when_needed() {
    let world = World::simulated(7, WallTime(0));
    let any = |below: u64| world.random() % below;
    for bloom in ["ROW", "ROWCOL", "NONE"] {
        let family =
            FamilyDescriptor::new("f").expect("a name").with("VERSIONS", 3).with("BLOOMFILTER", bloom);
        let bench = Bench::with(family);
        let columns = ["", "a", "b", "c"];
        for step in 0..400 {
            let row = ["r", "s"][any(2) as usize];
            let column = format!("f:{}", columns[any(4) as usize]);
            let timestamp = 1 + any(12) as i64;
            match any(12) {
                0 => bench.delete(row, "f:", timestamp, CellType::DeleteFamily),
                1 => bench.delete(row, &column, timestamp, CellType::DeleteColumn),
                2 => bench.delete(row, &column, timestamp, CellType::Delete),
                3 => bench.delete(row, "f:", timestamp, CellType::DeleteFamilyVersion),
                4 => drop(bench.region.flush(FlushReason::Requested).expect("flushed")),
                5 if any(6) == 0 => {
                    let request = CompactionRequest { major: any(2) == 0, families: Vec::new() };
                    bench.region.compact(&request).expect("compacted");
                }
                _ => bench.put(row, &column, timestamp, &step.to_string()),
            }
            for wanted in [&["a"][..], &["", "b"], &["a", "b", "c"]] {
                for versions in [1, 2] {
                    let found = get(&bench, row, wanted, versions).1;
                    assert_eq!(
                        found,
                        scan(&bench, row, wanted, versions),
                        "{bloom}, step {step}, {wanted:?}"
                    );
                }
            }
        }
    }
}

/// Returns a region that seals its active segment at `bound` bytes and has a long pipeline.
fn sealing(family: FamilyDescriptor, level: Level, bound: u64, segments_max: usize) -> Bench {
    let options = RegionOptions {
        compaction_size_min: Some(0),
        in_memory_compaction: level,
        pipeline_segments_max: segments_max,
        in_memory_flush_factor: 2.0 * bound as f64 / RegionOptions::default().flush_size as f64,
        ..RegionOptions::default()
    };
    Bench::open_with(Memory::new(), World::simulated(1, WallTime(1_000_000)), table(family), options)
}

/// Returns the number of a get's sources, the number of those that are deferred when the get is at its first cell, and
/// the timestamp of that cell.
fn sources_of(bench: &Bench, row: &str, columns: &[&str]) -> (usize, usize, Option<i64>) {
    let store = bench.region.store(b"f").expect("there");
    let scan = Scan::get(row.to_owned().into());
    let view = store.view.load_full();
    let mut heap = store
        .heap(&view, &scan, (TimeRange::ALL, 0), cell::SequenceId::MAX, ReadOptions::default())
        .expect("sources");
    let qualifiers = query(columns).qualifiers;
    let qualifiers = qualifiers.as_deref();
    let aim = RowTarget { row: row.as_bytes(), family: b"f", qualifiers, newest_counts: true, is_get: true };
    heap.seek_row(&aim).expect("read");
    let found = heap.peek().filter(|cell| cell.row() == row.as_bytes());
    (heap.sources(), heap.deferred(), found.map(|cell| cell.timestamp().0))
}

#[test]
fn a_segment_older_than_the_found_cell_is_not_opened() {
    let bench = sealing(FamilyDescriptor::new("f").expect("a name"), Level::Basic, 1, 20);
    for timestamp in [2, 4, 6] {
        bench.put("a", "f:x", timestamp, "v");
        bench.put("b", "f:x", timestamp + 1, "v");
    }
    for flat in [false, true] {
        if flat {
            bench.region.compact_memory(0.0);
        }
        assert_eq!(sources_of(&bench, "b", &["x"]), (6, 5, Some(7)), "flat: {flat}");
        // The newest segment does not have the column, which is known only after it was opened.
        assert_eq!(sources_of(&bench, "a", &["x"]), (6, 4, Some(6)), "flat: {flat}");
        assert_eq!(sources_of(&bench, "a", &["y"]), (6, 0, None), "flat: {flat}");
        assert_eq!(sources_of(&bench, "c", &["x"]), (6, 0, None), "flat: {flat}");
    }
    // A put with an old timestamp, written last: now an older write has a newer timestamp.
    bench.put("a", "f:x", 4, "written last");
    assert_eq!(sources_of(&bench, "a", &["x"]), (7, 4, Some(6)));
    assert_eq!(get(&bench, "a", &["x"], 3).1, "a/f:x@6=v");
    // A source with an equal timestamp must be opened, because it may have a marker.
    bench.put("a", "f:x", 6, "written last");
    assert_eq!(sources_of(&bench, "a", &["x"]), (8, 5, Some(6)), "not that of 7, and that of 6");
    assert_eq!(get(&bench, "a", &["x"], 3).1, "a/f:x@6=written last");
    // A family marker sorts before all columns, so no stand-in key is at its place.
    bench.delete("a", "f:", 9, CellType::DeleteFamily);
    bench.put("a", "f:x", 8, "masked");
    bench.put("a", "f:x", 10, "new");
    assert_eq!(sources_of(&bench, "a", &["x"]), (11, 9, Some(9)), "all but the newest and the marker");
    assert_eq!(get(&bench, "a", &["x"], 3).1, "a/f:x@10=new");
    bench.delete("a", "f:x", 10, CellType::Delete);
    assert_eq!(get(&bench, "a", &["x"], 3).1, "");
}

#[test]
fn a_scan_of_one_row_counts_a_row_without_the_columns() {
    let bench = Bench::new();
    bench.put("a", "f:w", 1, "v");
    for columns in [&["w"][..], &["x"]] {
        let scan = Scan { families: vec![query(columns)], ..Scan::get("a".into()) };
        let mut scanner = bench.region.scanner(scan).expect("serving");
        let step = scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::Any).expect("read");
        assert_eq!(step.rows_scanned, 1, "{columns:?}");
    }
}

#[test]
fn deferred_segments_are_opened_when_needed() {
    let world = World::simulated(11, WallTime(0));
    let any = |below: u64| world.random() % below;
    let family = || FamilyDescriptor::new("f").expect("a name").with("VERSIONS", 3);
    let families = [
        family(),
        family().with("KEEP_DELETED_CELLS", "TRUE"),
        family().with("NEW_VERSION_BEHAVIOR", "true"),
        family().with("TTL", 3),
        family().with("TTL", 3).with("MIN_VERSIONS", 1),
    ];
    let mut waited = 0;
    for (number, family) in families.into_iter().enumerate() {
        for level in [Level::None, Level::Basic, Level::Eager, Level::Adaptive] {
            // Segments of one or two cells, or of several.
            let (bound, segments_max) = ([1, 300][any(2) as usize], 1 + any(6) as usize);
            let bench = sealing(family.clone(), level, bound, segments_max);
            let (rows, columns) = (["r", "s", "t"], ["", "a", "b", "c"]);
            for step in 0..150 {
                let row = rows[any(3) as usize];
                let column = format!("f:{}", columns[any(4) as usize]);
                // Most timestamps are in order, as with a server's clock; some are not.
                let timestamp = match any(4) {
                    0 => 996_000 + 500 * any(10) as i64,
                    _ => 996_000 + 30 * step,
                };
                match any(20) {
                    0 => bench.delete(row, "f:", timestamp, CellType::DeleteFamily),
                    1 => bench.delete(row, &column, timestamp, CellType::DeleteColumn),
                    2 => bench.delete(row, &column, timestamp, CellType::Delete),
                    3 => bench.delete(row, "f:", timestamp, CellType::DeleteFamilyVersion),
                    4 => drop(bench.region.flush(FlushReason::Requested).expect("flushed")),
                    5 | 6 => bench.region.compact_memory(any(2) as f64),
                    _ => bench.put(row, &column, timestamp, &step.to_string()),
                }
                for wanted in [&["a"][..], &["", "b"], &["a", "b", "c"]] {
                    let what = format!("family {number}, {level:?}, step {step}, {row} {wanted:?}");
                    waited += sources_of(&bench, row, wanted).1;
                    for versions in [1, 2] {
                        let found = get(&bench, row, wanted, versions).1;
                        assert_eq!(found, scan(&bench, row, wanted, versions), "{what}");
                    }
                    let scan_of = |row: &str| Scan {
                        families: vec![query(wanted)],
                        ..Scan::get(row.to_owned().into())
                    };
                    // One reader for rows in which sources are deferred by different timestamps.
                    let mut reader = bench.region.row_reader(scan_of("r")).expect("serving");
                    for row in rows {
                        let mut shown = Shown::default();
                        reader.read(&row.into(), ReadMode::Any, &mut shown).expect("serving");
                        assert_eq!(shown.0.join(" "), scan(&bench, row, wanted, 1), "{what}: {row}");
                    }
                    let range = TimeRange { from: Timestamp(996_900), until: Timestamp(998_500) };
                    let (mut by_get, get) = (Shown::default(), Scan { time_range: range, ..scan_of(row) });
                    bench.region.get(&get, ReadMode::Any, &mut by_get).expect("serving");
                    let all = Scan { stop: Bytes::from(format!("{row}\0")), include_stop: false, ..get };
                    assert_eq!(by_get.0.join(" "), bench.scan(all), "{what}, {range:?}");
                }
            }
        }
    }
    assert!(waited > 1_000, "nothing is tested if nothing is deferred: {waited}");
}

#[test]
fn a_row_reader_returns_what_gets_return() {
    let bench = Bench::new();
    for (row, timestamp) in [("a", 1), ("b", 2), ("d", 3), ("b", 4), ("e", 5)] {
        bench.put(row, "f:x", timestamp, "v");
        if timestamp == 3 {
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
    }
    for families in [vec![], vec![query(&["x"])]] {
        let scan = |row: &str| Scan { families: families.clone(), ..Scan::get(row.to_owned().into()) };
        let mut reader = bench.region.row_reader(scan("any")).expect("serving");
        for row in ["b", "a", "c", "e", "b", "d", "0", "zz"] {
            let (mut by_reader, mut by_get) = (Shown::default(), Shown::default());
            let row = Bytes::from(row);
            let count = reader.read(&row, ReadMode::Any, &mut by_reader).expect("serving");
            let scan = Scan { start: row.clone(), stop: row.clone(), ..scan("any") };
            assert_eq!(bench.region.get(&scan, ReadMode::Any, &mut by_get).expect("serving"), count);
            assert_eq!(by_reader.0, by_get.0, "{row:?}");
        }
        assert!(reader.read(&Bytes::new(), ReadMode::Any, &mut Shown::default()).is_err());
    }
}
