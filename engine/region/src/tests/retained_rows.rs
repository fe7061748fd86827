//! Tests of rows that a flush retains in memory: readers see no difference, and crashes lose nothing.

use std::collections::BTreeMap;

use cell::SequenceId;

use super::*;

fn family() -> FamilyDescriptor {
    FamilyDescriptor::new("f").expect("a name")
}

/// Returns a region in which a flush that frees memory retains all rewritten rows.
fn bench(level: Level, family: FamilyDescriptor) -> Bench {
    let options = RegionOptions {
        compaction_size_min: Some(0),
        in_memory_compaction: level,
        in_memory_flush_factor: 2.0 * 2_000.0 / RegionOptions::default().flush_size as f64,
        flush_keeps: 1.0,
        flush_keeps_gain_min: 0.0,
        ..RegionOptions::default()
    };
    Bench::open_with(Memory::new(), World::simulated(1, WallTime(1_000_000)), table(family), options)
}

impl Bench {
    fn relieve(&self) -> Flushed {
        self.region.flush(FlushReason::MemstoreSize).expect("flushed")
    }

    /// Updates ten rows repeatedly, and writes as many other rows once. Returns the next number.
    fn update(&self, from: i64) -> i64 {
        for number in from..from + 100 {
            self.put(&format!("hot{}", number % 10), "f:q", number, &format!("value {number}"));
            self.put(&format!("cold{number:04}"), "f:q", number, "value");
        }
        self.region.compact_memory(1.0);
        from + 100
    }

    /// Returns, for each cell of `f`, how often it is in memory and in files.
    fn places(&self) -> BTreeMap<(String, SequenceId), (usize, usize)> {
        let mut places = BTreeMap::new();
        let mut visit = |place: CellPlace<'_>, cell: Cell<'_>| {
            let row = String::from_utf8_lossy(cell.row()).into_owned();
            let found: &mut (usize, usize) = places.entry((row, cell.sequence())).or_default();
            match place {
                CellPlace::File(_) => found.1 += 1,
                CellPlace::Active | CellPlace::Sealed => found.0 += 1,
            }
        };
        self.region.visit_stored(b"f", &mut visit).expect("read");
        places
    }

    fn rows_in_memory(&self) -> Vec<String> {
        let places = self.places().into_iter().filter(|(_, (memory, _))| *memory > 0);
        places.map(|((row, _), _)| row).collect()
    }

    fn memory_counts(&self) -> MemoryCounts {
        self.region.load().stores[0].memory.counts
    }

    fn flushed_sequence(&self) -> SequenceId {
        self.region.load().stores[0].flushed_sequence
    }
}

fn hot() -> Vec<String> {
    (0..10).map(|row| format!("hot{row}")).collect()
}

#[test]
fn rewritten_rows_are_retained_once_unless_written_again() {
    let bench = bench(Level::Adaptive, family());
    let next = bench.update(0);
    let expected = bench.all();
    let flushed = bench.relieve();
    assert_eq!((bench.rows_in_memory(), flushed.cells), (hot(), 100), "{flushed:?}");
    assert!(
        flushed.retained_bytes > 0 && bench.region.memstore_bytes() > flushed.retained_bytes / 2,
        "{flushed:?}"
    );
    assert_eq!(bench.all(), expected);
    // Half of the retained rows are written again.
    for number in 0..5 {
        bench.put(&format!("hot{number}"), "f:q", next + number, "again");
    }
    bench.update(next + 10);
    let before = bench.memory_counts();
    assert_eq!((before.kept, before.bytes_kept, before.bytes_spared), (1, flushed.retained_bytes, 0));
    let expected = bench.all();
    let second = bench.relieve();
    assert_eq!((bench.rows_in_memory(), second.cells), (hot(), 100), "all were replaced");
    let counts = bench.memory_counts();
    assert_eq!((counts.kept, counts.bytes_spared), (2, before.bytes_kept));
    // Without new writes, retained rows are flushed although they were rewritten before.
    let third = bench.relieve();
    assert_eq!((bench.rows_in_memory(), third.cells, third.retained_bytes), (vec![], 10, 0));
    assert_eq!(bench.memory_counts().bytes_spared, counts.bytes_spared);
    assert_eq!(bench.all(), expected);
    let events = bench.region.memory_events(b"f").expect("there");
    let kept = events.iter().rfind(|event| event.act == MemoryAct::Kept).expect("told");
    assert!(kept.cells_after == 10 && kept.bytes_after.abs_diff(second.retained_bytes) < 100, "{kept:?}");
    assert!(kept.expected.is_some_and(|share| share > 0.5), "{kept:?}");
}

#[test]
fn after_a_kill_retained_cells_come_from_the_log_exactly_once() {
    for power in [false, true] {
        let mut bench = bench(Level::Adaptive, family());
        let next = bench.update(0);
        let flushed = bench.relieve();
        assert_eq!(bench.flushed_sequence(), flushed.sequence);
        assert!(flushed.sequence < bench.region.read_point());
        for number in 0..5 {
            bench.put(&format!("hot{number}"), "f:q", next + number, "again");
        }
        let (expected, open) = (bench.all(), bench.region.read_point());
        for round in 0..3 {
            bench = if power { bench.crash(round) } else { bench.kill() };
            assert_eq!(bench.all(), expected, "death {round}");
            assert!(bench.region.open_sequence() > open);
            for (cell, (memory, files)) in bench.places() {
                assert_eq!(memory + files, 1, "{cell:?}");
                // After round 1 a major compaction has flushed the rows that came from the log.
                assert_eq!(files == 1, round == 2 || cell.0.starts_with("cold"), "{cell:?}");
            }
            if round == 1 {
                bench
                    .region
                    .compact(&CompactionRequest { major: true, families: vec![] })
                    .expect("compacted");
            }
        }
        bench.region.flush(FlushReason::Requested).expect("flushed");
        let bench = bench.kill();
        assert_eq!((bench.all(), bench.rows_in_memory()), (expected, vec![]));
    }
}

#[test]
fn rows_are_retained_only_to_free_memory_and_with_one_version() {
    let stays = |level, family, reason| {
        let bench = bench(level, family);
        bench.update(0);
        let expected = bench.all();
        let flushed = bench.region.flush(reason).expect("flushed");
        assert_eq!(bench.all(), expected);
        assert_eq!(flushed.retained_bytes > 0, !bench.rows_in_memory().is_empty());
        flushed.retained_bytes > 0
    };
    use FlushReason::{Closing, MemoryShort, MemstoreSize, Periodic, Requested};
    assert!(stays(Level::Adaptive, family(), MemstoreSize));
    for reason in [Closing, MemoryShort, Periodic, Requested] {
        assert!(!stays(Level::Adaptive, family(), reason), "{reason:?}");
    }
    for level in [Level::None, Level::Basic, Level::Eager] {
        assert!(!stays(level, family(), MemstoreSize), "{level:?}");
    }
    for family in [family().with("VERSIONS", "2"), family().with("NEW_VERSION_BEHAVIOR", "true")] {
        assert!(!stays(Level::Adaptive, family, MemstoreSize));
    }
    let bench = bench(Level::Adaptive, family());
    bench.update(0);
    assert!(bench.relieve().retained_bytes > 0);
    bench.region.close().expect("closed");
    assert_eq!(bench.region.memstore_bytes(), 0);
}

#[test]
fn unlogged_writes_and_earlier_ones_are_not_retained() {
    let bench = bench(Level::Adaptive, family());
    // A row is written to the log, and then replaced by a write without a log record.
    bench.update(0);
    let mut unlogged = mutation(MutationKind::Put, "hot1", &[("f:q", 1_000, CellType::Put, b"unlogged")]);
    unlogged.durability = Durability::Skip;
    bench.apply(unlogged);
    (2..10).for_each(|row| bench.put(&format!("hot{row}"), "f:q", 2_000, "later"));
    bench.region.compact_memory(1.0);
    let expected = bench.all();
    let flushed = bench.relieve();
    assert_eq!(bench.rows_in_memory(), hot()[2..], "{flushed:?}");
    assert_eq!(bench.kill().all(), expected);
}

#[test]
fn at_most_the_allowance_of_newest_cells_is_retained() {
    let bench = bench(Level::Adaptive, family());
    let options = RegionOptions { flush_keeps: 0.05, ..bench.region.options.clone() };
    bench.region.tune(&options);
    bench.update(0);
    let (expected, bytes) = (bench.all(), bench.region.memstore_bytes());
    let flushed = bench.relieve();
    let stayed = bench.rows_in_memory();
    assert!(!stayed.is_empty() && stayed.len() < 10, "{stayed:?}");
    assert_eq!(stayed, hot()[10 - stayed.len()..], "the last rows of the last round");
    assert!(flushed.retained_bytes <= bytes / 20 + 200, "{flushed:?} of {bytes}");
    assert_eq!(bench.kill().all(), expected);
    let nothing = RegionOptions { flush_keeps: 0.0, ..options };
    let bench = self::bench(Level::Adaptive, family());
    bench.region.tune(&nothing);
    bench.update(0);
    assert_eq!(bench.relieve().retained_bytes, 0);
}

#[test]
fn retaining_stops_when_it_does_not_pay_and_is_tried_again() {
    let bench = bench(Level::Adaptive, family());
    let options = RegionOptions { flush_keeps_gain_min: 0.25, ..bench.region.options.clone() };
    bench.region.tune(&options);
    let mut kept = Vec::new();
    for round in 0..40 {
        // In each round other rows are written, each twice, and no retained row is written again.
        for number in 0..200 {
            bench.put(&format!("r{round}-{:02}", number % 100), "f:q", number, "value");
        }
        bench.region.compact_memory(1.0);
        kept.push(bench.relieve().retained_bytes > 0);
    }
    let tries = kept.iter().filter(|kept| **kept).count();
    assert!(kept[0] && (2..20).contains(&tries), "{kept:?}");
    // If no row was rewritten, the snapshot is not examined.
    let bench = self::bench(Level::Adaptive, family());
    for round in 0..3 {
        (0..200).for_each(|number| bench.put(&format!("r{round}-{number:03}"), "f:q", number, "value"));
        bench.region.compact_memory(1.0);
        assert_eq!(bench.relieve().retained_bytes, 0);
    }
}

#[test]
fn a_scanner_reads_its_snapshot_across_a_retaining_flush() {
    let bench = bench(Level::Adaptive, family());
    let mut next = 0;
    let mut open = Vec::new();
    for _ in 0..4 {
        next = bench.update(next);
        open.push((bench.region.scanner(Scan::default()).expect("serving"), bench.scan(Scan::default())));
        (0..10).for_each(|row| bench.put(&format!("hot{row}"), "f:q", next + row, "later"));
        assert!(bench.relieve().retained_bytes > 0);
        bench.region.compact_memory(1.0);
        let reversed = bench.scan(Scan { reversed: true, ..Scan::default() });
        let mut forward: Vec<_> = reversed.split(' ').collect();
        forward.reverse();
        // The text of each value contains one space.
        assert_eq!(forward.len(), bench.scan(Scan::default()).split(' ').count());
        next += 10;
    }
    for (mut scanner, expected) in open {
        let mut shown = Shown::default();
        while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
        assert_eq!(shown.0.join(" "), expected);
    }
}

#[test]
fn a_failed_flush_is_repeated_by_the_next() {
    let bench = bench(Level::Adaptive, family());
    let next = bench.update(0);
    assert!(bench.relieve().retained_bytes > 0);
    bench.update(next);
    let expected = bench.all();
    // The log has reserved its space; the store file gets none.
    bench.files.set_bytes_max(Some(0));
    bench.region.flush(FlushReason::MemstoreSize).expect_err("no room");
    assert_eq!(bench.all(), expected);
    bench.region.flush(FlushReason::MemstoreSize).expect_err("no room");
    bench.files.set_bytes_max(None);
    bench.put("hot0", "f:q", 5_000, "after");
    let expected = bench.all();
    let flushed = bench.relieve();
    assert!(flushed.retained_bytes > 0 && bench.rows_in_memory() == hot(), "{flushed:?}");
    assert_eq!(bench.all(), expected);
    assert_eq!(bench.kill().all(), expected);
}

#[test]
fn replay_restores_a_dropped_put_with_its_marker() {
    let bench = bench(Level::Adaptive, family());
    // The marker is written first, and the put is not late, because both have this moment's timestamp.
    bench.delete("a", "f:q", 1_000_000, CellType::DeleteColumn);
    for number in 0..10 {
        bench.put(&format!("hot{number}"), "f:q", number, "first");
    }
    // The marker is dropped while rows are retained. Its log record comes after that of the first retained row.
    for number in 0..10 {
        bench.put(&format!("hot{number}"), "f:q", 100 + number, "second");
    }
    bench.put("a", "f:q", 1_000_000, "masked");
    bench.world.advance(std::time::Duration::from_secs(1));
    let mut sealed = bench.memory_counts().sealed;
    while sealed == bench.memory_counts().sealed {
        bench.put("z", "f:q", -1, "filling");
    }
    bench.region.compact_memory(1.0);
    sealed = bench.memory_counts().sealed;
    assert!(sealed > 0 && !bench.places().keys().any(|(row, _)| row == "a"), "both are gone");
    let flushed = bench.relieve();
    assert!(flushed.retained_bytes > 0 && bench.rows_in_memory().starts_with(&hot()), "{flushed:?}");
    assert!(!bench.all().contains("a/"));
    let bench = bench.kill();
    assert!(!bench.all().contains("a/"), "{}", bench.all());
    bench.relieve();
    assert!(!bench.kill().all().contains("a/"));
}

#[test]
fn while_rows_are_retained_only_requested_compactions_drop_markers() {
    let bench = bench(Level::Adaptive, family().with("BLOOMFILTER", "NONE"));
    let mut next = 0;
    for _ in 0..3 {
        bench.delete("cold0000", "f:q", 5_000, CellType::DeleteColumn);
        next = bench.update(next);
        assert!(bench.relieve().retained_bytes > 0);
    }
    let has_marker = |bench: &Bench| {
        bench.scan(Scan { raw: true, max_versions: 10, ..Scan::default() }).contains("cold0000/f:q@5000!")
    };
    assert_eq!(bench.region.compact(&CompactionRequest::default()).expect("compacted"), 3, "all files");
    assert!(has_marker(&bench), "what it masks may be in the log");
    let major = CompactionRequest { major: true, families: vec![] };
    bench.region.compact(&major).expect("compacted");
    assert!(!has_marker(&bench));
    assert_eq!((bench.rows_in_memory(), bench.region.load().stores[0].files), (vec![], 1));
}

#[test]
fn the_oldest_edit_is_right_for_retained_rows() {
    let bench = bench(Level::Adaptive, family());
    let oldest = |bench: &Bench| bench.region.load().oldest_edit.map(|time| time.0);
    let mut next = 0;
    for round in 0..3 {
        bench.world.advance(std::time::Duration::from_secs(10));
        next = bench.update(next);
        bench.world.advance(std::time::Duration::from_secs(10));
        assert!(bench.relieve().retained_bytes > 0);
        // The oldest retained cell was written after the previous flush.
        assert_eq!(oldest(&bench), Some(1_000_000 + round * 20_000));
    }
    bench.region.flush(FlushReason::Periodic).expect("flushed");
    assert_eq!(oldest(&bench), None);
}

#[test]
fn a_flush_during_replay_covers_only_replayed_records() {
    let bench = bench(Level::Adaptive, family());
    let rows = |bench: &Bench| bench.all().split(' ').count();
    for number in 0..40 {
        // Writes of several rows, each with a log record of its own, under one sequence id.
        let put = |row: i64| {
            let cells: &[(&str, i64, CellType, &[u8])] =
                &[("f:q", number, CellType::Put, b"value"), ("g:q", number, CellType::Put, b"value")];
            mutation(MutationKind::Put, &format!("r{number:02}-{row}"), cells)
        };
        let puts: Vec<Mutation> = (0..7).map(put).collect();
        let applied = bench.region.apply(&puts, ReadMode::Any).expect("serving");
        applied.pending.wait_blocking().expect("durable");
    }
    let expected = bench.all();
    // One family is in files up to the last write, the other is not.
    bench.region.flush_families(&[Bytes::from_static(b"f")]).expect("flushed");
    let mut bench = bench;
    for death in 0..3 {
        let options = RegionOptions { flush_size: 3_000 + 500 * death, ..RegionOptions::default() };
        let (files, world, table) = (bench.files.kill(), bench.world.clone(), Arc::clone(&bench.table));
        bench = Bench::open_with(files, world, table, options);
        assert_eq!((rows(&bench), bench.all()), (40 * 7 * 2, expected.clone()), "death {death}");
        assert!(death > 0 || bench.region.load().stores[1].files > 1, "it was flushed on the way");
        for (cell, (memory, files)) in bench.places() {
            assert_eq!(memory + files, 1, "{cell:?}");
        }
    }
}

/// Returns a region in which a flush has dropped the put of row `a` and written its marker, while rows that were
/// written before both are retained.
fn bench_with_a_dropped_put() -> Bench {
    let bench = bench(Level::Adaptive, family().with("BLOOMFILTER", "NONE"));
    for row in ["other1", "other2"] {
        bench.put(row, "f:q", 1, "value");
        bench.region.flush(FlushReason::Requested).expect("flushed");
    }
    for value in ["first", "second"] {
        (0..10).for_each(|number| bench.put(&format!("hot{number}"), "f:q", number, value));
    }
    bench.put("a", "f:q", 5, "masked");
    bench.delete("a", "f:q", 5, CellType::DeleteColumn);
    let sealed = bench.memory_counts().sealed;
    while sealed == bench.memory_counts().sealed {
        bench.put("z", "f:q", -1, "filling");
    }
    bench.region.compact_memory(1.0);
    let flushed = bench.relieve();
    assert!(flushed.retained_bytes > 0 && bench.rows_in_memory().starts_with(&hot()), "{flushed:?}");
    assert!(!bench.all().contains("a/"));
    bench
}

#[test]
fn a_compaction_after_a_kill_brings_no_deleted_cell_back() {
    for major in [false, true] {
        let mut bench = bench_with_a_dropped_put().kill();
        assert!(
            bench.rows_in_memory().contains(&"a".to_owned()),
            "the put is in memory, its marker in a file"
        );
        let request = CompactionRequest { major, families: vec![] };
        // A major compaction flushes first.
        assert_eq!(bench.region.compact(&request).expect("compacted"), if major { 4 } else { 3 });
        for _ in 0..2 {
            assert!(!bench.all().contains("a/"), "major {major}: {}", bench.all());
            bench.region.flush(FlushReason::Requested).expect("flushed");
            bench = bench.kill();
        }
    }
}

#[test]
fn a_compaction_after_a_flush_during_replay_brings_no_deleted_cell_back() {
    let bench = bench(Level::None, family().with("BLOOMFILTER", "NONE"));
    bench.put("other", "f:q", 1, "value");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.delete("a", "f:q", 5, CellType::DeleteColumn);
    // These have one sequence id, and a log record each. While they are replayed, memory is flushed at the second one, and
    // the file covers only the marker.
    let large = vec![b'v'; 10_000];
    let batch = [
        mutation(MutationKind::Put, "a", &[("f:q", 5, CellType::Put, b"masked")]),
        mutation(MutationKind::Put, "b", &[("f:q", 5, CellType::Put, &large)]),
    ];
    bench.region.apply(&batch, ReadMode::Any).expect("serving").pending.wait_blocking().expect("durable");
    // Because of this write the log keeps the records after the flush.
    bench.put("c", "g:q", 1, "value");
    let options = RegionOptions { flush_size: 5_000, ..bench.region.options.clone() };
    let (files, world, table) = (bench.files.kill(), bench.world.clone(), Arc::clone(&bench.table));
    let mut bench = Bench::open_with(files, world, table, options);
    assert_eq!((bench.rows_in_memory(), bench.region.load().stores[0].files), (vec![], 2));
    bench.region.compact(&CompactionRequest { major: true, families: vec![] }).expect("compacted");
    assert_eq!(bench.region.load().stores[0].files, 1);
    for _ in 0..2 {
        assert!(!bench.all().contains("a/"), "{}", bench.all());
        bench = bench.kill();
    }
}
