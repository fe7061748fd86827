//! Tests of the pipeline in memory: sealing, merging and dropping, invisible to readers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::file_life::Server;
use super::*;
use memstore::Pool;
use proto::TableName;

const LEVELS: [Level; 4] = [Level::None, Level::Basic, Level::Eager, Level::Adaptive];

/// Returns a region whose active segments are sealed at `bound` bytes.
fn bench(level: Level, bound: u64, family: FamilyDescriptor) -> Bench {
    bench_with(level, bound, family, RegionOptions::default())
}

fn bench_with(level: Level, bound: u64, family: FamilyDescriptor, options: RegionOptions) -> Bench {
    let options = RegionOptions {
        compaction_size_min: Some(0),
        in_memory_compaction: level,
        // There are two stores.
        in_memory_flush_factor: 2.0 * bound as f64 / RegionOptions::default().flush_size as f64,
        ..options
    };
    Bench::open_with(Memory::new(), World::simulated(1, WallTime(1_000_000)), table(family), options)
}

fn family() -> FamilyDescriptor {
    FamilyDescriptor::new("f").expect("a name")
}

impl Bench {
    fn memory(&self) -> MemoryLoad {
        let load = self.region.load();
        load.stores.into_iter().find(|store| store.family == "f").expect("there").memory
    }

    fn compact_memory(&self) {
        self.region.compact_memory(0.0);
        assert!(!self.region.needs_memory_compaction());
    }

    /// Puts `rows` rows repeatedly until the active segment is sealed.
    fn fill(&self, rows: u64, next: &mut i64) {
        let before = self.memory().counts.sealed;
        while self.memory().counts.sealed == before {
            *next += 1;
            self.put(&format!("r{:03}", *next as u64 % rows), "f:q", *next, &format!("value {next}"));
        }
    }
}

#[test]
fn each_level_compacts_memory_as_documented() {
    for level in LEVELS.into_iter().skip(1) {
        let bench = bench(level, 4_000, family());
        let mut next = 0;
        for _ in 0..5 {
            bench.fill(10, &mut next);
            bench.compact_memory();
        }
        let memory = bench.memory();
        let cells: u64 = memory.pipeline.iter().map(|segment| segment.cells).sum();
        assert!(memory.pipeline.iter().all(|segment| segment.flat), "{memory:?}");
        assert!(memory.pipeline.len() <= 2, "{memory:?}");
        match level {
            Level::Basic => {
                assert_eq!((cells + memory.active.cells, memory.counts.cells_dropped), (next as u64, 0))
            }
            _ => assert_eq!(cells, 10, "one version of ten rows: {memory:?}"),
        }
        let expected: Vec<String> = (0..10)
            .map(|row| {
                let last = (next - 9..=next).find(|n| n % 10 == row).expect("the last ten");
                format!("r{row:03}/f:q@{last}=value {last}")
            })
            .collect();
        assert_eq!(bench.all(), expected.join(" "));
        bench.region.flush(FlushReason::Requested).expect("flushed");
        let memory = bench.memory();
        assert_eq!((memory.active.cells, memory.pipeline.len(), memory.snapshot.len()), (0, 0, 0));
        assert_eq!(bench.all(), expected.join(" "), "after the flush");
        let bench = bench.kill();
        assert_eq!(bench.all(), expected.join(" "), "after a death");
    }
}

#[test]
fn an_adaptive_store_copies_only_when_it_pays() {
    let bench = bench(Level::Adaptive, 4_000, family());
    let mut next = 0;
    for _ in 0..3 {
        bench.fill(1_000_000, &mut next);
        bench.compact_memory();
    }
    let unique = bench.memory();
    assert_eq!(
        (unique.counts.compacted, unique.counts.flattened, unique.counts.merged),
        (0, 3, 1),
        "{unique:?}"
    );
    assert_eq!(unique.pipeline.len(), 1);
    // The last segment makes more than half of all cells redundant, and exceeds the segment limit.
    for _ in 0..4 {
        bench.fill(5, &mut next);
        bench.compact_memory();
    }
    let events = bench.region.memory_events(b"f").expect("there");
    let last = events.iter().rfind(|event| event.act == MemoryAct::Compacted).expect("it paid");
    let actual = 1.0 - last.cells_after as f64 / last.cells_before as f64;
    let expected = last.expected.expect("it was estimated");
    assert!((expected - actual).abs() < 0.2, "{expected} expected, {actual} came of it");
    assert!(bench.region.memory_events(b"h").is_err());
}

#[test]
fn a_scanner_reads_its_snapshot_across_memory_compactions() {
    for level in LEVELS {
        let bench = bench(level, 2_000, family());
        let mut next = 0;
        let mut open: Vec<(RegionScanner<'_>, String)> = Vec::new();
        for round in 0..6 {
            (0..30).for_each(|_| {
                next += 1;
                bench.put(&format!("r{}", next % 7), "f:q", next, &format!("value {next}"));
            });
            open.push((
                bench.region.scanner(Scan { max_versions: 10, ..Scan::default() }).expect("serving"),
                bench.all(),
            ));
            (0..30).for_each(|_| {
                next += 1;
                bench.put(&format!("r{}", next % 7), "f:q", next, "later");
            });
            bench.compact_memory();
            if round % 3 == 2 {
                bench.region.flush(FlushReason::Requested).expect("flushed");
                bench
                    .region
                    .compact(&CompactionRequest { major: true, families: vec![] })
                    .expect("compacted");
            }
        }
        for (mut scanner, expected) in open {
            let mut shown = Shown::default();
            while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
            assert_eq!(shown.0.join(" "), expected, "{level:?}");
        }
    }
}

#[test]
fn an_incomplete_write_hides_nothing() {
    let bench = bench(Level::Eager, 200, family());
    bench.put("a", "f:q", 1, "old");
    // Writes in memory that are not acknowledged, so no reader may see them yet.
    let unheard: Vec<_> = (2..10)
        .map(|n| {
            bench.region.apply(
                &[mutation(MutationKind::Put, "a", &[("f:q", n, CellType::Put, b"new")])],
                ReadMode::Any,
            )
        })
        .collect();
    bench.compact_memory();
    assert_eq!(bench.memory().counts.compacted, 1);
    assert_eq!(bench.all(), "a/f:q@1=old");
    for applied in unheard {
        applied.expect("serving").pending.wait_blocking().expect("durable");
    }
    assert_eq!(bench.all(), "a/f:q@9=new");
}

#[test]
fn a_reader_begins_at_the_horizon_or_later() {
    let bench = bench(Level::Eager, 200, family());
    bench.put("a", "f:q", 1, "old");
    // The horizon is set as if a version was dropped that readers before the next write need.
    let horizon = bench.region.read_point().next();
    for store in &bench.region.stores {
        store.change_view(|view| crate::view::View { horizon, ..view.clone() });
    }
    let begin = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            bench.put("a", "f:q", 2, "new");
        });
        begin.wait();
        let scanner = bench.region.scanner(Scan::default()).expect("serving");
        assert!(scanner.read_point() >= horizon);
    });
    assert_eq!(bench.scan(Scan::default()), "a/f:q@2=new");
}

#[test]
fn while_the_background_is_behind_the_active_segment_grows() {
    let bench = bench(Level::Basic, 500, family());
    (1..200).for_each(|n| bench.put("a", "f:q", n, "value"));
    let memory = bench.memory();
    assert_eq!(memory.pipeline.len(), 4, "the limit of two, and two that wait");
    assert!(memory.active.cells > 100, "{memory:?}");
    assert!(bench.region.needs_memory_compaction());
    assert!(bench.region.asks_for_memory_compaction());
    assert!(!bench.region.asks_for_memory_compaction(), "it asks once");
    bench.compact_memory();
    assert_eq!(bench.memory().pipeline.len(), 1);
}

/// Chunks are so small, and cells so large, that one segment cannot address all chunks.
#[test]
fn cells_in_too_many_chunks_go_to_several_segments() {
    const BATCH: usize = 10_000;
    for level in LEVELS {
        let options = RegionOptions { memory: Pool::new(4 << 10, 8), ..RegionOptions::default() };
        let bench = bench_with(level, 64 << 20, family(), options);
        // Each value has its own chunk.
        let value = "v".repeat(600);
        let row = |number: usize| format!("r{number:05}");
        let expected = |rows: usize| -> Vec<String> {
            (0..rows).map(|number| format!("{}/f:q@{number}={value}", row(number))).collect()
        };
        let put = |number: usize| {
            let cell = ("f:q", number as i64, CellType::Put, value.as_bytes());
            mutation(MutationKind::Put, &row(number), &[cell])
        };
        let batch: Vec<Mutation> = (0..BATCH).map(put).collect();
        let applied = bench.region.apply(&batch, ReadMode::Any).expect("serving");
        assert!(applied.outcomes.iter().all(Result::is_ok));
        applied.pending.wait_blocking().expect("durable");
        assert_eq!(bench.all(), expected(BATCH).join(" "), "{level:?}");
        let rows = 2 * BATCH;
        for number in BATCH..rows {
            bench.apply(put(number));
            if number % 3_000 == 0 {
                bench.compact_memory();
            }
        }
        let memory = bench.memory();
        assert!(memory.pipeline.len() >= 4, "{memory:?}");
        bench.compact_memory();
        let memory = bench.memory();
        assert!(memory.pipeline.iter().all(|segment| segment.flat), "{memory:?}");
        assert_eq!(bench.all(), expected(rows).join(" "), "{level:?}");
        bench.region.flush(FlushReason::MemstoreSize).expect("flushed");
        bench.compact_memory();
        assert_eq!(bench.all(), expected(rows).join(" "), "{level:?}, flushed");
        // The log is replayed into memory.
        let applied = bench.region.apply(&batch, ReadMode::Any).expect("serving");
        applied.pending.wait_blocking().expect("durable");
        let options = bench.region.options.clone();
        let bench = Bench::open_with(bench.files.kill(), bench.world.clone(), bench.table.clone(), options);
        assert!(bench.memory().counts.sealed > 0, "{level:?}: {:?}", bench.memory());
        assert_eq!(bench.scan(Scan::default()), expected(rows).join(" "), "{level:?}, after a death");
    }
}

#[test]
fn a_flush_takes_the_pipeline_and_returns_chunks_to_the_pool() {
    for level in LEVELS {
        let bench = bench(level, 1_000, family());
        let mut expected = String::new();
        for round in 0..4 {
            (0..50).for_each(|n| bench.put(&format!("r{n:02}"), "f:q", round * 100 + n, "value"));
            if round % 2 == 0 {
                bench.compact_memory();
            }
            expected = bench.all();
            bench.region.flush(FlushReason::Requested).expect("flushed");
            assert_eq!(bench.all(), expected);
        }
        let pool = Arc::clone(&bench.region.options.memory);
        // One chunk that the active segments share or fill.
        assert!(pool.usage().used <= 2, "{:?}", pool.usage());
        let bench = bench.crash(3);
        assert_eq!(bench.all(), expected);
    }
}

#[test]
fn a_flush_waits_for_a_running_memory_compaction() {
    let options = RegionOptions { flush_size: 40_000, ..RegionOptions::default() };
    let world = World::simulated(1, WallTime(1_000_000));
    let bench = Bench::open_with(Memory::new(), world, table(family()), options);
    let mut next = 0;
    let mut put_until = |bytes: u64| {
        while bench.region.memstore_bytes() < bytes {
            next += 1;
            bench.put("a", "f:q", next, "value");
        }
    };
    put_until(30_000);
    assert!(!bench.region.needs_flush(1.0) && !bench.region.awaits_memory_compaction(), "there is room");
    put_until(40_000);
    assert!(!bench.region.needs_flush(1.0), "it may not be needed");
    assert!(bench.region.awaits_memory_compaction(), "who compacts must know");
    assert!(bench.region.needs_flush(1.0), "nobody compacts");
    assert!(bench.region.asks_for_memory_compaction());
    assert!(!bench.region.needs_flush(1.0), "it may not be needed");
    put_until(50_000);
    assert!(bench.region.needs_flush(1.0), "a quarter more is enough");
    bench.region.compact_memory(0.0);
    assert!(!bench.region.awaits_memory_compaction());
    assert!(!bench.region.needs_flush(1.0), "all but a version is gone: {:?}", bench.memory());
    assert_eq!(bench.memory().pipeline[0].cells, 1);
}

/// Seals the active segment by one more write to a separate row, and compacts.
fn seal_and_compact(bench: &Bench) {
    let before = bench.memory().counts.sealed;
    bench.world.advance(Duration::from_secs(1));
    while bench.memory().counts.sealed == before {
        bench.put("z", "f:q", -1, "filling");
    }
    bench.compact_memory();
}

fn raw(bench: &Bench) -> String {
    let raw = bench.scan(Scan { raw: true, max_versions: 10, ..Scan::default() });
    raw.split(' ').filter(|cell| !cell.starts_with("z/")).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_queue_writes_nothing_to_files() {
    for (level, family_deletes) in [(Level::Eager, false), (Level::Adaptive, true)] {
        let bench = bench(level, 2_000, family());
        for number in 0..500 {
            let row = format!("r{number:03}");
            bench.put(&row, "f:q", -1, "work");
            bench.world.advance(Duration::from_millis(10));
            match family_deletes {
                true => bench.delete(&row, "f:", -1, CellType::DeleteFamily),
                false => bench.delete(&row, "f:q", -1, CellType::DeleteColumn),
            }
            bench.compact_memory();
        }
        seal_and_compact(&bench);
        assert_eq!(raw(&bench), "", "{level:?}");
        let flushed = bench.region.flush(FlushReason::Requested).expect("flushed");
        assert!(flushed.cells < 5, "{flushed:?}");
        assert_eq!(raw(&bench.kill()), "");
    }
}

#[test]
fn a_marker_stays_while_it_may_mask_something() {
    // The row is in a file, or the family has KEEP_DELETED_CELLS or NEW_VERSION_BEHAVIOR.
    let kept = [
        (family(), true),
        (family().with("KEEP_DELETED_CELLS", "TRUE"), false),
        (family().with("NEW_VERSION_BEHAVIOR", "true"), false),
        (family().with("BLOOMFILTER", "NONE"), true),
    ];
    for (family, is_flushed) in kept {
        let bench = bench(Level::Eager, 1_000, family);
        bench.put("a", "f:q", -1, "value");
        if is_flushed {
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
        bench.world.advance(Duration::from_secs(1));
        bench.delete("a", "f:q", -1, CellType::DeleteColumn);
        seal_and_compact(&bench);
        assert!(raw(&bench).contains("a/f:q@1001000!"), "{}", raw(&bench));
        assert!(!bench.all().contains("a/"), "{}", bench.all());
    }
    // A file whose Bloom filter excludes the row does not prevent the marker from being dropped.
    let bench = bench(Level::Eager, 1_000, family());
    bench.put("b", "f:q", -1, "value");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.put("a", "f:q", -1, "value");
    bench.delete("a", "f:q", -1, CellType::DeleteColumn);
    seal_and_compact(&bench);
    assert_eq!(raw(&bench), "b/f:q@1000000=value");
}

#[test]
fn a_marker_with_a_client_timestamp_masks_later_puts() {
    let bench = bench(Level::Eager, 1_000, family());
    for timestamp in [10, 999_999, 2_000_000] {
        bench.put("a", "f:q", timestamp, "value");
        bench.delete("a", "f:q", timestamp, CellType::DeleteColumn);
        seal_and_compact(&bench);
        bench.put("a", "f:q", timestamp - 1, "older");
        assert!(!bench.all().contains("a/"), "{}", bench.all());
    }
}

#[test]
fn markers_stay_where_dropping_is_not_allowed() {
    let options = RegionOptions { drop_markers: false, ..RegionOptions::default() };
    let bench = bench_with(Level::Eager, 1_000, family(), options);
    bench.put("a", "f:q", -1, "value");
    bench.world.advance(Duration::from_secs(1));
    bench.delete("a", "f:q", -1, CellType::DeleteColumn);
    seal_and_compact(&bench);
    assert_eq!(raw(&bench), "a/f:q@1001000!");
    bench.put("a", "f:q", 1_000_500, "older");
    assert!(!bench.all().contains("a/"), "{}", bench.all());
    assert!(!bench.kill().all().contains("a/"));
}

/// A put and its marker are dropped; after various events, an older put must stay hidden until a major compaction.
#[test]
fn dropped_markers_mask_later_puts_until_a_major_compaction() {
    let major = || CompactionRequest { major: true, families: vec![] };
    let flush = |bench: &Bench| {
        bench.region.flush(FlushReason::Requested).expect("flushed");
    };
    let kinds = [("f:q", CellType::DeleteColumn), ("f:", CellType::DeleteFamily), ("f:q", CellType::Delete)];
    for (column, kind) in kinds {
        // Events whose effect does not depend on the kind of marker are tested with one kind.
        for way in (0..6).filter(|way| kind == CellType::DeleteColumn || way % 3 == 0) {
            let mut bench = bench(Level::Eager, 1_000, family());
            bench.put("a", "f:q", -1, "value");
            bench.world.advance(Duration::from_secs(1));
            let at = if kind == CellType::Delete { 1_000_000 } else { 1_001_000 };
            bench.delete("a", column, at, kind);
            seal_and_compact(&bench);
            assert_eq!(raw(&bench), "", "{kind:?}: both went");
            match way {
                0 => {}
                1 => bench = bench.kill(),
                2 => flush(&bench),
                3 => {
                    flush(&bench);
                    bench = bench.kill();
                }
                4 => {
                    // Two of three files are compacted, and one of them lists the marker.
                    for _ in 0..2 {
                        flush(&bench);
                        bench.put("b", "f:q", -1, "other");
                    }
                    flush(&bench);
                    let options = RegionOptions { compaction_size_max: 0, ..bench.region.options.clone() };
                    bench.region.tune(&options);
                    assert_eq!(bench.region.compact(&CompactionRequest::default()).expect("compacted"), 0);
                }
                _ => {
                    flush(&bench);
                    bench.region.compact(&major()).expect("compacted");
                }
            }
            let shows = way == 5;
            bench.put("a", "f:q", 1_000_000, "older");
            assert_eq!(bench.all().contains("a/"), shows, "{kind:?}, {way}: {}", bench.all());
            seal_and_compact(&bench);
            assert_eq!(bench.all().contains("a/"), shows, "{kind:?}, {way}: compacted");
            bench = bench.kill();
            assert_eq!(bench.all().contains("a/"), shows, "{kind:?}, {way}: killed");
            flush(&bench);
            bench = bench.kill();
            assert_eq!(bench.all().contains("a/"), shows, "{kind:?}, {way}: flushed and killed");
            bench.put("a", "f:q", -1, "newer");
            assert!(bench.all().contains("a/"), "{kind:?}, {way}: {}", bench.all());
        }
    }
}

/// The file with the list has no row of the daughter.
#[test]
fn a_daughter_knows_the_markers_that_its_parent_has_dropped() {
    let mut server = Server::new();
    server.options.in_memory_compaction = Level::Eager;
    server.options.in_memory_flush_factor = 1_000.0 / server.options.flush_size as f64;
    let bench_of = |info: &RegionInfo| Bench {
        files: server.files.clone(),
        world: server.world.clone(),
        table: table(family()),
        region: server.open(info, family()),
        log: Arc::clone(&server.log),
    };
    let parent = bench_of(&Server::info("t", 1));
    parent.put("a", "f:q", -1, "value");
    parent.world.advance(Duration::from_secs(1));
    parent.delete("a", "f:q", -1, CellType::DeleteColumn);
    seal_and_compact(&parent);
    assert_eq!(raw(&parent), "");
    parent.region.flush(FlushReason::Requested).expect("flushed");
    parent.put("b", "f:q", -1, "value");
    parent.region.flush(FlushReason::Requested).expect("flushed");
    parent.region.close().expect("closed");
    let info = RegionInfo::new("t".parse().expect("a name"), Bytes::new(), "m".into(), RegionId(2));
    let info = info.expect("a region");
    Region::write_child(&info, &Server::folder(&info), &[Arc::clone(&parent.region)]).expect("written");
    let daughter = bench_of(&info);
    daughter.put("a", "f:q", 1_000_500, "older");
    assert_eq!(daughter.all(), "b/f:q@1002000=value");
}

/// All cells of a file have expired, but not a marker that was dropped before the file was written.
#[test]
fn a_file_stays_until_its_dropped_markers_have_expired() {
    let bench = bench(Level::Eager, 1_000, family().with("TTL", "60"));
    bench.put("a", "f:q", -1, "value");
    bench.world.advance(Duration::from_secs(1));
    bench.delete("a", "f:q", -1, CellType::DeleteColumn);
    bench.world.advance(Duration::from_secs(1));
    let before = bench.memory().counts.sealed;
    while bench.memory().counts.sealed == before {
        bench.put("b", "f:q", 950_000, "filling");
    }
    bench.compact_memory();
    assert!(!raw(&bench).contains("a/"), "{}", raw(&bench));
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.put("d", "f:q", -1, "value");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.world.advance(Duration::from_secs(20));
    let compact = || bench.region.compact(&CompactionRequest::default()).expect("compacted");
    assert_eq!(compact(), 0);
    bench.put("a", "f:q", 1_000_500, "older");
    assert!(!bench.all().contains("a/"), "{}", bench.all());
    bench.world.advance(Duration::from_secs(60));
    assert_eq!(compact(), 1, "the marker has expired");
}

#[test]
fn a_marker_stays_if_a_file_comes_while_memory_is_compacted() {
    let bench = bench(Level::Eager, 1_000, family());
    bench.put("a", "f:q", -1, "value");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.world.advance(Duration::from_secs(1));
    bench.delete("a", "f:q", -1, CellType::DeleteColumn);
    bench.world.advance(Duration::from_secs(1));
    let before = bench.memory().counts.sealed;
    while bench.memory().counts.sealed == before {
        bench.put("z", "f:q", -1, "filling");
    }
    // A bulk load lists the file after the compaction has begun with this view.
    let store = &bench.region.stores[0];
    let view = crate::view::View { files: Vec::new(), ..crate::view::View::clone(&store.view.load()) };
    bench.region.drop_redundant(store, &view, bench.region.read_point(), memstore::Cleaning::ALL, None);
    assert_eq!(raw(&bench), "a/f:q@1001000! a/f:q@1000000=value");
    assert!(!bench.all().contains("a/"), "{}", bench.all());
}

#[test]
fn a_marker_stays_while_an_older_put_is_elsewhere_in_memory() {
    let bench = bench(Level::Eager, 1_000, family());
    bench.put("a", "f:q", -1, "value");
    bench.world.advance(Duration::from_secs(1));
    bench.delete("a", "f:q", -1, CellType::DeleteColumn);
    bench.world.advance(Duration::from_secs(1));
    let before = bench.memory().counts.sealed;
    while bench.memory().counts.sealed == before {
        bench.put("z", "f:q", -1, "filling");
    }
    // These cells go into the next segment, before the first one is compacted.
    bench.put("a", "f:q", 1_000_500, "older");
    bench.compact_memory();
    assert!(raw(&bench).contains("a/f:q@1001000!"), "{}", raw(&bench));
    assert!(!bench.all().contains("a/"), "{}", bench.all());
}

/// Lists of dropped markers neither fill memory nor grow without limit in files.
#[test]
fn long_marker_lists_are_flushed_and_end_with_a_major_compaction() {
    let options = RegionOptions { flush_size: 100_000, ..RegionOptions::default() };
    let world = World::simulated(1, WallTime(1_000_000));
    let bench = Bench::open_with(Memory::new(), world, table(family()), options);
    let (mut flushes, mut cells, mut written) = (0, 0, 0);
    for number in 0..6_000 {
        let row = format!("r{number:06}");
        bench.put(&row, "f:q", -1, "work");
        bench.world.advance(Duration::from_millis(20));
        if let Some(done) = u32::checked_sub(number, 5) {
            bench.delete(&format!("r{done:06}"), "f:", -1, CellType::DeleteFamily);
        }
        written += 2;
        if bench.region.asks_for_memory_compaction() {
            bench.region.compact_memory(1.0);
        }
        if bench.region.needs_flush(1.0) {
            cells += bench.region.flush(FlushReason::Requested).expect("flushed").cells;
            flushes += 1;
            while bench.region.needs_compaction() {
                bench.region.compact(&CompactionRequest::default()).expect("compacted");
            }
        }
    }
    assert!(flushes > 8 && cells < written / 10, "{flushes} flushes of {cells} cells of {written}");
    bench.put("r000100", "f:q", 1_000_000, "older than all");
    let view = bench.region.store(b"f").expect("there").view.load();
    let of_files: usize = view.files.iter().map(|file| file.dropped_markers.len()).sum();
    assert!(of_files < 3_000, "{of_files} of 6,000 are remembered, after compactions of all files");
}

#[test]
fn overwritten_rows_are_compacted_in_memory_before_a_flush() {
    let holds = |stretch: f64, pressure: f64| {
        let options = RegionOptions { flush_size: 100_000, stretch, ..RegionOptions::default() };
        let world = World::simulated(1, WallTime(1_000_000));
        let bench = Bench::open_with(Memory::new(), world, table(family()), options);
        let mut most = 0;
        for number in 0.. {
            // Ten hot rows; between two writes of one, 250 other rows are written.
            let row = if number % 2 == 0 { number % 20 } else { 100_000 + number };
            bench.put(&format!("r{row:06}"), "f:q", number, "value of some bytes");
            most = most.max(bench.region.memstore_bytes());
            if bench.region.needs_flush(pressure) {
                return (number, most, bench.memory().counts);
            }
            if bench.region.asks_for_memory_compaction() {
                bench.region.compact_memory(pressure);
            }
        }
        unreachable!("memory is finite")
    };
    let (plain, most, counts) = holds(1.0, 0.0);
    assert!(most < 101_000 && counts.compacted > 1, "{most} {counts:?}");
    let (stretched, most, _) = holds(2.0, 0.0);
    assert!(stretched > plain * 3 / 2 && (180_000..201_000).contains(&most), "{stretched} {plain} {most}");
    let (no_room, most, _) = holds(2.0, 0.5);
    assert!((no_room - plain).abs() < plain / 10 && most < 101_000, "{no_room} {plain} {most}");
}

#[test]
fn a_hot_counter_takes_little_memory_and_one_cell_in_a_file() {
    const COUNTERS: u64 = 10;
    for level in LEVELS {
        let options = RegionOptions {
            flush_size: 100_000,
            in_memory_compaction: level,
            stretch: 1.0,
            ..RegionOptions::default()
        };
        let world = World::simulated(1, WallTime(1_000_000));
        let bench = Bench::open_with(Memory::new(), world, table(family()), options);
        let mut added = 0;
        while added < 30_000 && !bench.region.needs_flush(0.0) {
            let row = format!("r{}", added % COUNTERS);
            let one = [("f:n", -1, CellType::Put, &1i64.to_be_bytes()[..])];
            let changed = bench
                .region
                .increment(&mutation(MutationKind::Increment, &row, &one), ReadMode::Any)
                .expect("added");
            changed.pending.wait_blocking().expect("durable");
            added += 1;
            if bench.region.asks_for_memory_compaction() {
                bench.region.compact_memory(0.0);
            }
        }
        let drops = matches!(level, Level::Eager | Level::Adaptive);
        assert_eq!(added == 30_000, drops, "{level:?}: {added} before a flush");
        // A few segments remain, however many were sealed.
        assert!(bench.region.memstore_bytes() <= 100_000 + 1_000, "{level:?}");
        let flushed = bench.region.flush(FlushReason::Requested).expect("flushed");
        assert!(flushed.bytes < 6_000, "{level:?}: {} bytes for ten cells", flushed.bytes);
        let shown = bench.all();
        assert_eq!(shown.split(' ').count() as u64, COUNTERS, "{shown}");
    }
}

#[test]
fn each_byte_is_accounted_for() {
    let bench = bench(Level::Eager, 1_000, family());
    let balance = || bench.region.options.ledger.balances().remove(0).1;
    (0..100).for_each(|n| bench.put("a", "f:q", n, "value"));
    let written = balance();
    assert!(written.user > 100 * 30 && written.log > written.user, "{written:?}");
    assert_eq!((written.flushed, written.amplification()), (0, Some(0.0)));
    bench.compact_memory();
    let first = bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.put("a", "f:q", 100, "value");
    let second = bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.region.compact(&CompactionRequest { major: true, families: vec![] }).expect("compacted");
    let balance = balance();
    assert_eq!(balance.flushed, first.bytes + second.bytes);
    assert_eq!(balance.compacted, bench.region.load().file_bytes);
    assert_eq!(
        balance.amplification(),
        Some((balance.flushed + balance.compacted) as f64 / balance.user as f64)
    );
}

#[test]
fn the_level_comes_from_the_family_the_system_or_the_default() {
    let level = |name: &str, said: Option<&str>| {
        let mut family = family();
        if let Some(said) = said {
            family = family.with("IN_MEMORY_COMPACTION", said);
        }
        let mut table = TableDescriptor::new(name.parse::<TableName>().expect("a name"));
        table.set_family(family);
        let bench = Bench::open(Memory::new(), World::simulated(1, WallTime(1)), Arc::new(table));
        bench.memory().level
    };
    assert_eq!(level("t", None), Level::Adaptive);
    assert_eq!(level("t", Some("eager")), Level::Eager);
    assert_eq!(level("t", Some("NONE")), Level::None);
    assert_eq!(level("hbase:t", None), Level::None);
    assert_eq!(level("hbase:t", Some("EAGER")), Level::None);
}

#[test]
fn the_level_changes_while_the_region_is_open() {
    let bench = bench(Level::None, 1_000, family());
    let fill = || (0..100).for_each(|n| bench.put("a", "f:q", n, "value"));
    fill();
    assert_eq!(bench.memory().counts.sealed, 0);
    let options = RegionOptions { in_memory_compaction: Level::Eager, ..bench.region.options.clone() };
    bench.region.tune(&options);
    fill();
    bench.compact_memory();
    let memory = bench.memory();
    assert_eq!((memory.level, memory.pipeline[0].cells), (Level::Eager, 1), "{memory:?}");
    bench.region.tune(&RegionOptions { in_memory_compaction: Level::None, ..options });
    fill();
    bench.compact_memory();
    assert_eq!(bench.memory().counts.sealed, memory.counts.sealed);
    assert_eq!(bench.scan(Scan::default()), "a/f:q@99=value");
}

/// A row that was visible stays visible and never returns to an earlier version, whatever is dropped meanwhile.
#[test]
fn concurrent_readers_miss_nothing() {
    for level in LEVELS {
        let bench = bench(level, 3_000, family());
        let over = AtomicBool::new(false);
        for row in 0..4 {
            bench.put(&format!("r{row}"), "f:q", 1, "1");
        }
        std::thread::scope(|scope| {
            let bench = &bench;
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    scope.spawn(move || {
                        for n in 2..1_500 {
                            let row = format!("r{}", writer * 2 + n % 2);
                            bench.put(&row, "f:q", n, &n.to_string());
                        }
                    })
                })
                .collect();
            let over = &over;
            scope.spawn(move || {
                let mut round = 0;
                while !over.load(Ordering::Acquire) {
                    bench.region.compact_memory(1.0);
                    round += 1;
                    if round % 5 == 0 {
                        let reasons = [FlushReason::MemstoreSize, FlushReason::Requested];
                        bench.region.flush(reasons[usize::from(round % 15 == 0)]).expect("flushed");
                    }
                    if round % 20 == 0 {
                        let major = CompactionRequest { major: true, families: vec![] };
                        bench.region.compact(&major).expect("compacted");
                    }
                    std::thread::yield_now();
                }
            });
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    scope.spawn(move || {
                        let mut last = [0i64; 4];
                        while !over.load(Ordering::Acquire) {
                            let mut values = Values::default();
                            if reader == 0 {
                                let mut scanner = bench.region.scanner(Scan::default()).expect("serving");
                                while scanner
                                    .next_row(&Limits::NONE, &mut values, ReadMode::Any)
                                    .expect("read")
                                    .more
                                {}
                            } else {
                                for row in 0..4 {
                                    let get = Scan::get(Bytes::from(format!("r{row}")));
                                    bench.region.get(&get, ReadMode::Any, &mut values).expect("read");
                                }
                            }
                            assert_eq!(values.0.len(), 4, "{level:?}: {values:?} after {last:?}");
                            for (last, value) in last.iter_mut().zip(values.0) {
                                assert!(value >= *last, "{level:?}: {value} after {last}");
                                *last = value;
                            }
                        }
                    })
                })
                .collect();
            let written = writers.into_iter().map(|writer| writer.join()).collect::<Vec<_>>();
            over.store(true, Ordering::Release);
            written.into_iter().for_each(|writer| writer.expect("written"));
            readers.into_iter().for_each(|reader| reader.join().expect("saw what it should"));
        });
    }
}

#[derive(Debug, Default)]
struct Values(Vec<i64>);

impl CellSink for Values {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0.push(String::from_utf8_lossy(cell.value()).parse().expect("a number"));
    }
}
