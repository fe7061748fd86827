//! Tests of whole regions: written cells are read, through flushes, compactions, kills and crashes.

use std::sync::Arc;

use bytes::Bytes;
use cache::Cache;
use cell::{Cell, CellBlock, CellParts, CellType, Timestamp};
use env::{WallTime, World};
use filter::{Comparable, CompareOperator, Filter};
use proto::{FamilyDescriptor, RegionId, RegionInfo, TableDescriptor};
use storage::{FileName, Files, Memory};

use crate::*;

mod alter;
mod atomic_rows;
mod bulk_load;
mod compaction_policies;
mod deferred_sources;
mod file_life;
mod follow;
mod gets;
mod halves;
mod heap_sizes;
mod held_blocks;
mod large_puts;
mod markers;
mod memory;
mod merged;
mod mob;
mod outcomes;
mod partial_rows;
mod parts;
mod raw_rows;
mod read_only;
mod refusals;
mod retained_rows;
mod seeks;
mod shared_mob;
mod skipped_rows;
mod snapshots;
mod stripes;
mod truncation;
mod visibility;
mod warm_cache;
mod write_times;

/// A region over files in memory, with everything that is needed to open it again.
struct Bench {
    files: Memory,
    world: World,
    table: Arc<TableDescriptor>,
    region: Arc<Region>,
    log: Arc<wal::Log>,
}

fn table(family: FamilyDescriptor) -> Arc<TableDescriptor> {
    let mut table = TableDescriptor::new("t".parse().expect("a name"));
    table.set_family(family);
    table.set_family(FamilyDescriptor::new("g").expect("a name"));
    Arc::new(table)
}

impl Bench {
    fn new() -> Bench {
        Bench::with(FamilyDescriptor::new("f").expect("a name"))
    }

    fn with(family: FamilyDescriptor) -> Bench {
        Bench::open(Memory::new(), World::simulated(1, WallTime(1_000_000)), table(family))
    }

    fn open(files: Memory, world: World, table: Arc<TableDescriptor>) -> Bench {
        let options = RegionOptions { compaction_size_min: Some(0), ..RegionOptions::default() };
        Bench::open_with(files, world, table, options)
    }

    fn open_with(files: Memory, world: World, table: Arc<TableDescriptor>, options: RegionOptions) -> Bench {
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let (log, recovered) = wal::Log::open(
            world.clone(),
            Arc::clone(&shared),
            FileName::new("WALs"),
            wal::Options::default(),
        )
        .expect("a log");
        let log = Arc::new(log);
        let info = RegionInfo::new("t".parse().expect("a name"), Bytes::new(), Bytes::new(), RegionId(1));
        let region = Region::open(Opening {
            info: info.expect("a region"),
            table: Arc::clone(&table),
            files: shared,
            folder: FileName::new("data/default/t/r"),
            log: Arc::clone(&log),
            cache: Arc::new(Cache::with_bytes(1 << 20)),
            world: world.clone(),
            options,
            recovered: Some(Arc::new(recovered)),
        })
        .expect("opened");
        Bench { files, world, table, region, log }
    }

    /// Opens a region with the same name, but without files, over another log.
    fn reopen_over(&self, log: Arc<wal::Log>) -> Arc<Region> {
        Region::open(Opening {
            info: self.region.info().clone(),
            table: Arc::clone(&self.table),
            files: Arc::new(Memory::new()),
            folder: FileName::new("data/default/t/r"),
            log,
            cache: Arc::new(Cache::with_bytes(1 << 20)),
            world: self.world.clone(),
            options: RegionOptions::default(),
            recovered: None,
        })
        .expect("opened")
    }

    /// Kills the process and opens the region again.
    fn kill(self) -> Bench {
        let files = self.files.kill();
        Bench::open(files, self.world.clone(), Arc::clone(&self.table))
    }

    /// Fails the power, and opens the region again; `seed` decides which unsynced bytes survive.
    fn crash(self, seed: u64) -> Bench {
        let files = self.files.crash(seed);
        Bench::open(files, self.world.clone(), Arc::clone(&self.table))
    }

    fn apply(&self, mutation: Mutation) {
        let applied = self.region.apply(&[mutation], ReadMode::Any).expect("serving");
        applied.outcomes.into_iter().for_each(|outcome| outcome.expect("good"));
        applied.pending.wait_blocking().expect("durable");
    }

    fn put(&self, row: &str, column: &str, timestamp: i64, value: &str) {
        self.apply(mutation(MutationKind::Put, row, &[(column, timestamp, CellType::Put, value.as_bytes())]));
    }

    fn delete(&self, row: &str, column: &str, timestamp: i64, kind: CellType) {
        self.apply(mutation(MutationKind::Delete, row, &[(column, timestamp, kind, b"")]));
    }

    fn scan(&self, scan: Scan) -> String {
        let mut scanner = self.region.scanner(scan).expect("serving");
        let mut shown = Shown::default();
        while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
        shown.0.join(" ")
    }

    fn all(&self) -> String {
        self.scan(Scan { max_versions: 10, ..Scan::default() })
    }
}

/// Lets a janitor search the region's folders.
fn clean(region: &Region) -> Result<usize> {
    let janitor = Janitor::new(region.files.clone(), Arc::clone(&region.options.open_files));
    region.clean(&janitor, Search::Folders)
}

/// A sink that shows cells as `row/family:qualifier@timestamp=value`.
#[derive(Default)]
struct Shown(Vec<String>);

impl CellSink for Shown {
    fn cell(&mut self, cell: Cell<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mark = if cell.cell_type() == Some(CellType::Put) { "=" } else { "!" };
        self.0.push(format!(
            "{}/{}:{}@{}{mark}{}",
            text(cell.row()),
            text(cell.family()),
            text(cell.qualifier()),
            cell.timestamp().0,
            text(cell.value())
        ));
    }
}

/// Returns a put of one cell with a TTL tag: the cell expires `ttl_ms` ms after its timestamp. `column` is
/// `family:qualifier`, and a timestamp of -1 stands for the latest.
fn expiring_put(row: &str, column: &str, timestamp: i64, value: &[u8], ttl_ms: u64) -> Mutation {
    let (family, qualifier) = column.split_once(':').expect("family:qualifier");
    let bytes = CellParts {
        row: row.as_bytes(),
        family: family.as_bytes(),
        qualifier: qualifier.as_bytes(),
        timestamp: Timestamp(timestamp),
        cell_type: CellType::Put,
        value,
        tags: &[&[0, 9, cell::TagType::Ttl as u8][..], &ttl_ms.to_be_bytes()].concat(),
    }
    .to_vec()
    .expect("within limits");
    let mut block = Vec::new();
    cell::block::write_with_tags(&mut block, Cell::trusted(&bytes, cell::SequenceId::ZERO));
    let cells = CellBlock::parse(block.into()).expect("whole");
    Mutation { cells, ..mutation(MutationKind::Put, row, &[]) }
}

fn mutation(kind: MutationKind, row: &str, cells: &[(&str, i64, CellType, &[u8])]) -> Mutation {
    let mut block = Vec::new();
    for (column, timestamp, cell_type, value) in cells {
        let (family, qualifier) = column.split_once(':').expect("family:qualifier");
        let bytes = CellParts {
            row: row.as_bytes(),
            family: family.as_bytes(),
            qualifier: qualifier.as_bytes(),
            timestamp: if *timestamp == -1 { Timestamp::LATEST } else { Timestamp(*timestamp) },
            cell_type: *cell_type,
            value,
            tags: b"",
        }
        .to_vec()
        .expect("within limits");
        cell::block::write_with_tags(&mut block, Cell::trusted(&bytes, cell::SequenceId::ZERO));
    }
    Mutation {
        kind,
        row: Bytes::copy_from_slice(row.as_bytes()),
        cells: CellBlock::parse(block.into()).expect("whole"),
        durability: Durability::UseDefault,
        time_range: None,
        return_results: true,
        nonce: None,
    }
}

#[test]
fn the_last_of_two_values_of_a_column_in_one_write_wins() {
    let bench = Bench::with(FamilyDescriptor::new("f").expect("a name").with("VERSIONS", 5));
    let twice = |kind, row, one: &[u8], two: &[u8]| {
        mutation(kind, row, &[("f:q", -1, CellType::Put, one), ("f:q", -1, CellType::Put, two)])
    };
    let atomic = |mutations: &[Mutation]| {
        bench
            .region
            .mutate_row(mutations, ReadMode::Any)
            .expect("good")
            .pending
            .wait_blocking()
            .expect("durable");
    };
    bench.apply(twice(MutationKind::Put, "a", b"one", b"two"));
    // Both parts are appended to the value that the cell had before the write.
    atomic(&[twice(MutationKind::Append, "b", b"one", b"two")]);
    atomic(&[twice(MutationKind::Increment, "c", &1u64.to_be_bytes(), &0x41u64.to_be_bytes())]);
    let put = |value: &[u8]| mutation(MutationKind::Put, "d", &[("f:q", 7, CellType::Put, value)]);
    atomic(&[put(b"one"), put(b"two")]);
    let expected = "a/f:q@1000000=two b/f:q@1000000=two c/f:q@1000000=\0\0\0\0\0\0\0A d/f:q@7=two";
    assert_eq!(bench.all(), expected);
    let bench = bench.kill();
    assert_eq!(bench.all(), expected);
    bench.region.flush(FlushReason::Requested).expect("flushed");
    assert_eq!(bench.all(), expected);
}

#[test]
fn writes_survive_flushes_kills_and_crashes() {
    let bench = Bench::new();
    bench.put("a", "f:x", 1, "one");
    bench.put("b", "g:y", 2, "two");
    let expected = "a/f:x@1=one b/g:y@2=two";
    assert_eq!(bench.all(), expected);
    let flushed = bench.region.flush(FlushReason::Requested).expect("flushed");
    assert_eq!(flushed.files, 2);
    assert_eq!(bench.all(), expected);
    bench.put("c", "f:x", 3, "three");
    let expected = format!("{expected} c/f:x@3=three");
    assert_eq!(bench.all(), expected);
    let bench = bench.kill();
    assert_eq!(bench.all(), expected);
    let bench = bench.crash(7);
    assert_eq!(bench.all(), expected);
    bench.region.close().expect("closed");
    assert!(matches!(bench.region.scanner(Scan::default()), Err(Error::NotServing(_))));
    let bench = bench.kill();
    assert_eq!(bench.all(), expected);
    assert!(bench.region.load().memstore_bytes == 0, "all was flushed before the end");
}

#[test]
fn acknowledged_writes_survive_a_power_failure_at_any_moment() {
    for seed in 0..60 {
        let mut bench = Bench::new();
        let mut expected = Vec::new();
        for round in 0..4 {
            for n in 0..(seed + round) % 7 + 1 {
                let row = format!("r{round}-{n}");
                bench.put(&row, "f:x", 1, "v");
                expected.push(format!("{row}/f:x@1=v"));
            }
            if (seed + round) % 2 == 0 {
                bench.region.flush(FlushReason::Requested).expect("flushed");
            }
            if (seed + round) % 3 == 0 {
                bench
                    .region
                    .compact(&CompactionRequest { major: true, families: Vec::new() })
                    .expect("compacted");
            }
            // This write is not acknowledged.
            let unheard = bench.region.apply(
                &[mutation(MutationKind::Put, "r9", &[("f:z", 1, CellType::Put, b"")])],
                ReadMode::Any,
            );
            drop(unheard.expect("serving"));
            bench = bench.crash(seed * 31 + round);
        }
        let found = bench.scan(Scan { stop: Bytes::from_static(b"r9"), ..Scan::default() });
        assert_eq!(found, expected.join(" "), "seed {seed}");
    }
}

#[test]
fn each_delete_type_masks_its_cells() {
    for flush in [false, true] {
        let bench = Bench::with(FamilyDescriptor::new("f").expect("a name").with("VERSIONS", 5));
        for timestamp in 1..=4 {
            bench.put("a", "f:x", timestamp, "v");
            bench.put("a", "f:y", timestamp, "v");
        }
        if flush {
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
        bench.delete("a", "f:x", 3, CellType::Delete);
        assert_eq!(bench.all(), "a/f:x@4=v a/f:x@2=v a/f:x@1=v a/f:y@4=v a/f:y@3=v a/f:y@2=v a/f:y@1=v");
        bench.delete("a", "f:x", 2, CellType::DeleteColumn);
        bench.delete("a", "f:", 1, CellType::DeleteFamilyVersion);
        assert_eq!(bench.all(), "a/f:x@4=v a/f:y@4=v a/f:y@3=v a/f:y@2=v");
        bench.delete("a", "f:", 3, CellType::DeleteFamily);
        assert_eq!(bench.all(), "a/f:x@4=v a/f:y@4=v");
        // A put under an existing marker stays hidden until the marker is dropped.
        bench.put("a", "f:x", 2, "late");
        assert_eq!(bench.all(), "a/f:x@4=v a/f:y@4=v");
        let raw = bench.scan(Scan { raw: true, max_versions: 10, ..Scan::default() });
        assert!(raw.contains("a/f:x@2=late") && raw.contains("a/f:@3!"), "{raw}");
        bench.region.flush(FlushReason::Requested).expect("flushed");
        bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
        assert_eq!(bench.all(), "a/f:x@4=v a/f:y@4=v");
        let raw = bench.scan(Scan { raw: true, max_versions: 10, ..Scan::default() });
        assert!(!raw.contains('!'), "markers are gone for good: {raw}");
        bench.delete("a", "f:x", -1, CellType::Delete);
        assert_eq!(bench.all(), "a/f:y@4=v", "the newest version was requested");
    }
}

#[test]
fn surplus_and_expired_versions_are_dropped() {
    let family = FamilyDescriptor::new("f").expect("a name").with("VERSIONS", 2).with("TTL", 100);
    let bench = Bench::with(family);
    let now = bench.world.now().0;
    for age in [0, 50_000, 99_000, 150_000] {
        bench.put("a", "f:x", now - age, "v");
    }
    bench.put("b", "f:x", now - 150_000, "old");
    let expected = format!("a/f:x@{now}=v a/f:x@{}=v", now - 50_000);
    assert_eq!(bench.all(), expected);
    bench.region.flush(FlushReason::Requested).expect("flushed");
    assert_eq!(bench.all(), expected);
    bench.world.advance(std::time::Duration::from_secs(60));
    assert_eq!(bench.all(), format!("a/f:x@{now}=v"));
}

#[test]
fn scans_keep_their_bounds_directions_and_limits() {
    let bench = Bench::new();
    for (index, row) in ["a", "b", "c", "d"].into_iter().enumerate() {
        bench.put(row, "f:x", 1, "1");
        bench.put(row, "g:y", 1, "2");
        if index == 1 {
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
    }
    let rows = |scan: Scan| -> String {
        let scan = Scan {
            families: vec![FamilyQuery { family: "f".into(), qualifiers: None, time_range: None }],
            ..scan
        };
        bench
            .scan(scan)
            .split(' ')
            .map(|cell| cell.split('/').next().unwrap_or("").to_owned())
            .collect::<Vec<_>>()
            .join("")
    };
    let bounds = |start: &'static str, stop: &'static str| Scan {
        start: start.into(),
        stop: stop.into(),
        ..Scan::default()
    };
    assert_eq!(rows(Scan::default()), "abcd");
    assert_eq!(rows(bounds("b", "d")), "bc");
    assert_eq!(rows(Scan { include_start: false, include_stop: true, ..bounds("b", "d") }), "cd");
    assert_eq!(rows(Scan { reversed: true, ..Scan::default() }), "dcba");
    assert_eq!(rows(Scan { reversed: true, ..bounds("c", "a") }), "cb");
    assert_eq!(
        rows(Scan { reversed: true, include_start: false, include_stop: true, ..bounds("c", "a") }),
        "ba"
    );
    assert_eq!(rows(Scan { reversed: true, ..bounds("bb", "") }), "ba");
    // Clients look up hbase:meta with rows of the greatest length.
    for (longest, before) in [(b'b', "ba"), (b'c', "cba"), (0xff, "dcba")] {
        let mut start = vec![longest; cell::ROW_LENGTH_MAX];
        start[0] = longest.min(b'd');
        assert_eq!(rows(Scan { reversed: true, start: start.into(), ..Scan::default() }), before);
    }
    let start = vec![0xff; cell::ROW_LENGTH_MAX].into();
    assert_eq!(rows(Scan { reversed: true, start, ..Scan::default() }), "dcba");
    let filter = Filter::row(CompareOperator::Greater, Comparable::Binary("b".into()));
    assert_eq!(rows(Scan { filter: Some(filter), ..Scan::default() }), "cd");
    assert_eq!(rows(Scan { filter: Some(Filter::page(2)), ..Scan::default() }), "ab");
    assert_eq!(rows(Scan { filter: Some(Filter::page(2)), reversed: true, ..Scan::default() }), "dc");

    // One cell per step, by batch and by size.
    for scan in [Scan { batch: Some(1), ..Scan::default() }, Scan::default()] {
        let mut scanner = bench.region.scanner(scan).expect("serving");
        let limits = Limits { rows: 1, bytes: 1, deadline: None, allow_partial: true };
        let mut shown = Shown::default();
        let mut partial = 0;
        loop {
            let step = scanner.next_row(&limits, &mut shown, ReadMode::Any).expect("read");
            partial += usize::from(step.partial);
            if !step.more {
                break;
            }
        }
        assert_eq!(shown.0.join(" "), bench.all());
        assert_eq!(partial, 4, "each row was cut once");
    }
}

#[test]
fn a_scanner_reads_at_its_read_point_across_flushes_and_compactions() {
    let bench = Bench::new();
    for row in ["a", "b", "c"] {
        bench.put(row, "f:x", 1, "old");
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.put("c", "f:y", 1, "old");
    let mut scanner = bench.region.scanner(Scan::default()).expect("serving");
    let mut shown = Shown::default();
    scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read");
    bench.put("b", "f:x", 2, "new");
    bench.delete("c", "f:x", 5, CellType::DeleteColumn);
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    assert_eq!(shown.0.join(" "), "a/f:x@1=old b/f:x@1=old c/f:x@1=old c/f:y@1=old");
    assert_eq!(bench.scan(Scan::default()), "a/f:x@1=old b/f:x@2=new c/f:y@1=old");
}

#[test]
fn a_read_that_would_block_can_be_repeated() {
    let bench = Bench::new();
    bench.put("a", "f:x", 1, "v");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let bench = bench.kill();
    let mut scanner = bench.region.scanner(Scan::default()).expect("serving");
    let mut lost = Shown::default();
    let refused = scanner.next_row(&Limits::NONE, &mut lost, ReadMode::MemoryOnly);
    assert!(matches!(refused, Err(Error::WouldBlock)));
    let mut shown = Shown::default();
    scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read");
    assert_eq!(shown.0, ["a/f:x@1=v"]);
    bench.region.get(&Scan::get("a".into()), ReadMode::Any, &mut shown).expect("the filter's chunk, too");
    let again =
        bench.region.get(&Scan::get("a".into()), ReadMode::MemoryOnly, &mut shown).expect("cached now");
    assert_eq!(again, 1);
}

#[test]
fn families_are_opened_together_after_one_would_block() {
    let mut table = TableDescriptor::new("t".parse().expect("a name"));
    table.set_family(FamilyDescriptor::new("f").expect("a name"));
    // The filter is checked when a scan of rows with a common prefix is opened.
    let waits = FamilyDescriptor::new("g").expect("a name").with("BLOOMFILTER", "ROWPREFIX_FIXED_LENGTH");
    table.set_family(waits.with("RowPrefixBloomFilter.prefix_length", 3));
    let bench = Bench::open(Memory::new(), World::simulated(1, WallTime(1_000_000)), Arc::new(table));
    for (row, column) in [("row1", "f:x"), ("row1", "g:x"), ("row2", "f:x"), ("row2", "g:x")] {
        bench.put(row, column, 1, "v");
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let bench = bench.kill();
    let scan = Scan { start: "row1".into(), stop: "row3".into(), ..Scan::default() };
    let mut scanner = bench.region.scanner(scan).expect("serving");
    let refused = scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::MemoryOnly);
    assert!(matches!(refused, Err(Error::WouldBlock)));
    let mut shown = Shown::default();
    while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    assert_eq!(shown.0, ["row1/f:x@1=v", "row1/g:x@1=v", "row2/f:x@1=v", "row2/g:x@1=v"]);
}

#[test]
fn a_returned_row_is_not_judged_again_when_the_next_would_block() {
    let bench = Bench::new();
    // One block for each row.
    for row in ["a", "b", "c", "d"] {
        bench.put(row, "f:x", 1, &"v".repeat(70_000));
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let bench = bench.kill();
    let mut scanner =
        bench.region.scanner(Scan { filter: Some(Filter::page(3)), ..Scan::default() }).expect("serving");
    let (mut rows, mut refused) = (Vec::new(), 0);
    loop {
        let mut shown = Shown::default();
        let step = match scanner.next_row(&Limits::NONE, &mut shown, ReadMode::MemoryOnly) {
            Err(Error::WouldBlock) => {
                refused += 1;
                shown.0.clear();
                scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read")
            }
            step => step.expect("read"),
        };
        rows.extend(shown.0.iter().map(|cell| cell[..1].to_owned()));
        if !step.more {
            break;
        }
    }
    assert_eq!((rows.concat(), refused > 0), ("abc".to_owned(), true));
}

#[test]
fn the_step_with_the_last_row_reports_the_end() {
    let bench = Bench::new();
    for row in ["a", "b", "c"] {
        bench.put(row, "f:x", 1, "v");
    }
    let rows = |scan: Scan| {
        let mut scanner = bench.region.scanner(scan).expect("serving");
        let mut steps = 1;
        while scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::Any).expect("read").more {
            steps += 1;
        }
        steps
    };
    assert_eq!(rows(Scan::default()), 3);
    assert_eq!(rows(Scan { reversed: true, ..Scan::default() }), 3);
    assert_eq!(rows(Scan { stop: "c".into(), ..Scan::default() }), 2);
    assert_eq!(rows(Scan::get("b".into())), 1);
}

#[test]
fn family_markers_among_versions_of_the_empty_qualifier_are_seen() {
    let bench = Bench::new();
    bench.put("a", "f:", 9, "newest");
    bench.put("a", "f:", 3, "old");
    bench.delete("a", "f:", 8, CellType::DeleteFamily);
    bench.put("a", "f:x", 7, "masked");
    bench.put("a", "f:x", 8, "masked");
    bench.put("a", "f:y", 10, "newer");
    assert_eq!(bench.scan(Scan::default()), "a/f:@9=newest a/f:y@10=newer");
    let families = vec![FamilyQuery {
        family: "f".into(),
        qualifiers: Some(vec!["".into(), "x".into(), "y".into()]),
        time_range: None,
    }];
    assert_eq!(bench.scan(Scan { families, ..Scan::default() }), "a/f:@9=newest a/f:y@10=newer");
}

#[test]
fn filters_of_whole_rows_refuse_partial_rows() {
    let bench = Bench::new();
    bench.put("a", "f:x", 1, "v");
    bench.put("a", "f:y", 1, "v");
    let scan = Scan { filter: Some(Filter::page(9)), batch: Some(1), ..Scan::default() };
    let mut scanner = bench.region.scanner(scan).expect("serving");
    let refused = scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::Any);
    assert!(matches!(refused, Err(Error::FilterNeedsWholeRows)));
}

#[test]
fn a_write_that_would_block_changes_nothing() {
    let bench = Bench::new();
    bench.put("a", "f:n", 1, "\0\0\0\0\0\0\0\x05");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let bench = bench.kill();
    let before = bench.region.read_point();
    let add = mutation(MutationKind::Increment, "a", &[("f:n", -1, CellType::Put, &1i64.to_be_bytes())]);
    let newest = mutation(MutationKind::Delete, "a", &[("f:n", -1, CellType::Delete, b"")]);
    let would_block = |error: Option<Error>| assert!(matches!(error, Some(Error::WouldBlock)), "{error:?}");
    would_block(bench.region.increment(&add, ReadMode::MemoryOnly).err());
    would_block(bench.region.apply(std::slice::from_ref(&newest), ReadMode::MemoryOnly).err());
    let check = Check { row: "a".into(), test: Test::Filter(Filter::page(1)), time_range: None };
    would_block(
        bench.region.check_and_mutate(&check, std::slice::from_ref(&newest), ReadMode::MemoryOnly).err(),
    );
    assert_eq!((bench.region.read_point(), bench.region.memstore_bytes()), (before, 0));
    let changed = bench.region.increment(&add, ReadMode::Any).expect("from the file");
    changed.pending.wait_blocking().expect("durable");
    let again = bench.region.increment(&add, ReadMode::MemoryOnly).expect("all is in memory now");
    again.pending.wait_blocking().expect("durable");
    assert_eq!(again.cells.cells().next().expect("given back").value(), 7i64.to_be_bytes());
}

#[test]
fn increments_appends_and_checks_are_exact() {
    let bench = Bench::new();
    let add = |amount: i64| {
        mutation(MutationKind::Increment, "a", &[("f:n", -1, CellType::Put, &amount.to_be_bytes())])
    };
    for expected in [5i64, 10, 15] {
        let changed = bench.region.increment(&add(5), ReadMode::Any).expect("serving");
        changed.pending.wait_blocking().expect("durable");
        let cell = changed.cells.cells().next().map(|cell| cell.value().to_vec());
        assert_eq!(cell, Some(expected.to_be_bytes().to_vec()));
    }
    bench.put("a", "f:s", 1, "seven");
    let wrong = mutation(MutationKind::Increment, "a", &[("f:s", -1, CellType::Put, &1i64.to_be_bytes())]);
    assert!(matches!(bench.region.increment(&wrong, ReadMode::Any), Err(Error::NotALong(5))));
    let append = mutation(MutationKind::Append, "a", &[("f:s", -1, CellType::Put, b"-eight")]);
    let changed = bench.region.append(&append, ReadMode::Any).expect("serving");
    changed.pending.wait_blocking().expect("durable");
    assert!(bench.all().contains("=seven-eight"));

    let check = |operator, expected: &'static str| Check {
        row: "a".into(),
        test: Test::Value {
            family: "f".into(),
            qualifier: "s".into(),
            operator,
            comparable: Comparable::Binary(expected.into()),
        },
        time_range: None,
    };
    let put = mutation(MutationKind::Put, "a", &[("f:s", -1, CellType::Put, b"nine")]);
    for (check, passes) in [
        (check(CompareOperator::Equal, "wrong"), false),
        (check(CompareOperator::NotEqual, ""), true),
        (check(CompareOperator::Equal, ""), false),
        // *Expected op value*: "a" is less than "nine".
        (check(CompareOperator::Less, "a"), true),
        (check(CompareOperator::Greater, "a"), false),
        (check(CompareOperator::Equal, "nine"), true),
    ] {
        let checked = bench
            .region
            .check_and_mutate(&check, std::slice::from_ref(&put), ReadMode::Any)
            .expect("serving");
        assert_eq!(checked.passed, passes, "{check:?}");
        checked.pending.wait_blocking().expect("durable");
    }
    let bench = bench.kill();
    assert!(bench.all().contains("a/f:n@") && bench.all().contains("=nine"));
}

#[test]
fn minor_compactions_bound_the_number_of_files_and_keep_all_cells() {
    let bench = Bench::new();
    let mut expected = Vec::new();
    for n in 0..12 {
        bench.put(&format!("r{n:02}"), "f:x", 1, "v");
        expected.push(format!("r{n:02}/f:x@1=v"));
        bench.region.flush(FlushReason::Requested).expect("flushed");
        while bench.region.needs_compaction() {
            bench.region.compact(&CompactionRequest::default()).expect("compacted");
        }
    }
    clean(&bench.region).expect("removed");
    assert!(bench.region.load().files < 6, "{} files", bench.region.load().files);
    assert_eq!(bench.all(), expected.join(" "));
    let files = bench.files.list(&FileName::new("data/default/t/r/f")).expect("listed");
    let stored = files.iter().filter(|entry| !entry.name.as_str().contains(".filelist")).count();
    assert_eq!(stored, bench.region.load().files, "what was compacted is removed");
}

#[test]
fn invalid_requests_are_refused_without_effect() {
    let bench = Bench::new();
    let put = |row: &str, column: &str, timestamp| {
        mutation(MutationKind::Put, row, &[(column, timestamp, CellType::Put, b"v")])
    };
    let outcomes = bench
        .region
        .apply(&[put("a", "no:x", 1), put("b", "f:x", -2), put("c", "f:x", 1)], ReadMode::Any)
        .expect("serving");
    assert!(matches!(outcomes.outcomes[0], Err(Error::NoSuchFamily { .. })));
    assert!(matches!(outcomes.outcomes[1], Err(Error::NegativeTimestamp(-2))));
    assert!(outcomes.outcomes[2].is_ok());
    outcomes.pending.wait_blocking().expect("durable");
    assert_eq!(bench.all(), "c/f:x@1=v");
    let large = mutation(MutationKind::Put, "a", &[("f:x", 1, CellType::Put, &vec![0; 11 << 20])]);
    let refused = bench.region.apply(&[large], ReadMode::Any).expect("serving");
    assert!(matches!(refused.outcomes[0], Err(Error::CellTooLarge { .. })));
}

#[test]
fn a_failed_log_aborts_the_region() {
    let bench = Bench::new();
    bench.put("a", "f:x", 1, "v");
    let files: Arc<dyn Files> = Arc::new(bench.files.clone());
    wal::seal(&bench.world, &files, &FileName::new("WALs"), "another server").expect("sealed");
    let put = || {
        let mutation = mutation(MutationKind::Put, "b", &[("f:x", 1, CellType::Put, b"")]);
        bench.region.apply(&[mutation], ReadMode::Any)
    };
    let told = put().and_then(|applied| applied.pending.wait_blocking());
    let error = told.expect_err("another has the log").to_string();
    assert!(error.contains("taken over by another server"), "{error}");
    assert!(matches!(put(), Err(Error::Aborted(_))));
    assert!(matches!(bench.region.scanner(Scan::default()), Err(Error::Aborted(_))));
}

#[test]
fn a_compaction_overtaken_by_a_close_changes_nothing() {
    for round in 0..10 {
        let mut bench = Bench::new();
        // Enough cells that the region can be closed during the compaction.
        let columns: Vec<String> = (0..1000).map(|column| format!("f:{column:04}")).collect();
        let cells: Vec<_> =
            columns.iter().map(|column| (&**column, 1, CellType::Put, &b"value"[..])).collect();
        for row in ["a", "b", "c"] {
            bench.apply(mutation(MutationKind::Put, row, &cells));
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
        let before = bench.all();
        let region = Arc::clone(&bench.region);
        let compaction = env::spawn_thread("compaction", env::Priority::Background, move || {
            region.compact(&CompactionRequest { major: true, families: Vec::new() })
        })
        .expect("a thread");
        while bench.region.load().compacting_cells == 0 {
            std::thread::yield_now();
        }
        let reopen = |bench: &Bench| {
            bench.region.close().expect("closed");
            let opening = Opening {
                info: bench.region.info().clone(),
                table: Arc::clone(&bench.table),
                files: Arc::new(bench.files.clone()),
                folder: FileName::new("data/default/t/r"),
                log: Arc::clone(&bench.log),
                cache: Arc::new(Cache::with_bytes(0)),
                world: bench.world.clone(),
                options: RegionOptions::default(),
                recovered: None,
            };
            Region::open(opening).unwrap_or_else(|error| panic!("round {round}: {error}"))
        };
        // The next opening changes the list of files while the compaction may still run.
        bench.region = reopen(&bench);
        bench.put("d", "f:q", 1, "new");
        bench.region.flush(FlushReason::Requested).expect("flushed");
        let outcome = compaction.join().expect("no panic");
        assert!(matches!(outcome, Ok(_) | Err(Error::NotServing(_))), "round {round}: {outcome:?}");
        bench.region = reopen(&bench);
        assert!(bench.all() == format!("{before} d/f:q@1=new"), "round {round}: something is lost");
    }
}

#[test]
fn delete_markers_of_a_row_do_not_mask_the_next_row() {
    use CellType::{Delete, DeleteColumn, DeleteFamily, DeleteFamilyVersion};
    for marker in [Delete, DeleteColumn, DeleteFamily, DeleteFamilyVersion] {
        let bench = Bench::new();
        let column = if marker.is_family_delete() { "f:" } else { "f:x" };
        bench.put("a", "f:x", 5, "gone");
        bench.delete("a", column, 5, marker);
        bench.put("b", "f:x", 5, "here");
        assert_eq!(bench.all(), "b/f:x@5=here", "{marker:?}, in memory");
        bench.region.flush(FlushReason::Requested).expect("flushed");
        assert_eq!(bench.all(), "b/f:x@5=here", "{marker:?}, in a file");
        bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
        assert_eq!(bench.all(), "b/f:x@5=here", "{marker:?}, compacted");
    }
}

#[test]
fn a_filter_that_is_done_at_the_last_row_ends_the_scan() {
    let bench = Bench::new();
    bench.put("a", "f:x", 1, "5");
    let is_done_after = |value: &'static [u8]| {
        let equal = Filter::value(CompareOperator::Equal, Comparable::Binary(value.into()));
        let scan = Scan { filter: Some(Filter::while_match(equal)), ..Scan::default() };
        let mut scanner = bench.region.scanner(scan).expect("serving");
        let step = scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::Any).expect("read");
        assert!(!step.more);
        scanner.is_filter_done()
    };
    assert!(is_done_after(b"2"), "the only row is not let through");
    assert!(!is_done_after(b"5"), "a further region may go on");
}

#[test]
fn files_flushed_during_the_choice_wait_for_the_next_compaction() {
    let bench = Bench::new();
    let region = Arc::clone(&bench.region);
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let taken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (seen, counted) = (Arc::clone(&done), Arc::clone(&taken));
    let compactions = env::spawn_thread("compactions", env::Priority::Background, move || {
        while !seen.load(std::sync::atomic::Ordering::Acquire) {
            let files = region.compact(&CompactionRequest::default()).expect("compacted");
            counted.fetch_add(files, std::sync::atomic::Ordering::AcqRel);
        }
    })
    .expect("a thread");
    let rows: Vec<String> = (0..400).map(|row| format!("{row:03}")).collect();
    for row in &rows {
        bench.put(row, "f:q", 1, "v");
        bench.region.flush(FlushReason::Requested).expect("flushed");
    }
    // On a busy machine the other thread may begin only now.
    while taken.load(std::sync::atomic::Ordering::Acquire) == 0 && !compactions.is_finished() {
        std::thread::yield_now();
    }
    done.store(true, std::sync::atomic::Ordering::Release);
    compactions.join().expect("no panic");
    let expected: Vec<String> = rows.iter().map(|row| format!("{row}/f:q@1=v")).collect();
    assert_eq!(bench.all(), expected.join(" "));
}

/// A compaction monitor that closes the region when a compaction reports its progress.
struct Closing<'a>(&'a Region);

impl CompactionMonitor for Closing<'_> {
    fn advance(&self, _cells: u64, _bytes: u64) -> std::ops::ControlFlow<()> {
        self.0.close().expect("closed");
        std::ops::ControlFlow::Continue(())
    }
}

#[test]
fn a_compaction_ending_after_the_close_keeps_list_and_files() {
    let bench = Bench::new();
    for row in ["a", "b", "c"] {
        bench.put(row, "f:q", 1, row);
        bench.region.flush(FlushReason::Requested).expect("flushed");
    }
    let names = || {
        let folder = FileName::new("data/default/t/r/f");
        let mut names: Vec<_> =
            bench.files.list(&folder).expect("listed").into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    };
    let before = names();
    let store = bench.region.store(b"f").expect("the family");
    let request =
        StoreCompaction { family: store.family.clone(), major: true, is_user: true, off_peak: false };
    // Closes the region when all cells were written.
    let outcome = bench.region.compact_store(store, &request, &Closing(&bench.region));
    assert!(matches!(outcome, Err(Error::NotServing(_))), "{outcome:?}");
    assert!(before.iter().all(|name| names().contains(name)));
    // A compaction that is interrupted while it writes leaves no file.
    let written = names();
    let outcome = bench.region.compact_store(store, &request, &());
    assert!(matches!(outcome, Err(Error::NotServing(_))), "{outcome:?}");
    assert_eq!(names(), written);
    // The next opening of the region deletes the files that this compaction wrote.
    let after = Bench::open(bench.files.clone(), bench.world.clone(), Arc::clone(&bench.table));
    assert_eq!(clean(&after.region).expect("removed"), 1);
    assert_eq!(names(), before);
}

#[test]
fn a_full_disk_refuses_puts_until_space_is_freed() {
    let bench = Bench::new();
    bench.put("before", "f:q", 1, "there");
    let used: u64 = bench.files.list(&FileName::root()).expect("there").iter().map(|entry| entry.size).sum();
    bench.files.set_bytes_max(Some(used + 1_200));
    let large = "x".repeat(400);
    let mut written = Vec::new();
    let failure = loop {
        let row = format!("row{:03}", written.len());
        let put = mutation(MutationKind::Put, &row, &[("f:q", 1, CellType::Put, large.as_bytes())]);
        let applied =
            bench.region.apply(&[put], ReadMode::Any).expect("the disk has room, as far as is known");
        match applied.pending.wait_blocking() {
            Ok(()) => written.push(row),
            Err(error) => break error,
        }
    };
    let remedy = "free some space there: writes are accepted again without a restart";
    assert!(failure.to_string().contains(remedy), "{failure}");
    // Writes are refused before anything is done, also those that read first.
    let put = || mutation(MutationKind::Put, "late", &[("f:q", 1, CellType::Put, b"v")]);
    let refused = bench.region.apply(&[put()], ReadMode::Any).expect_err("no room");
    assert!(matches!(refused, Error::Log(wal::Error::Full { .. })) && refused.to_string().contains(remedy));
    assert!(bench.region.mutate_row(&[put()], ReadMode::Any).is_err());
    // Reads continue, and see acknowledged writes only.
    let rows = |bench: &Bench| bench.all().split_whitespace().count();
    assert_eq!(rows(&bench), written.len() + 1);
    // A flush finds no space either: its cells stay in memory, and the flush can be repeated.
    assert!(bench.region.flush(FlushReason::Requested).is_err());
    assert_eq!(rows(&bench), written.len() + 1);
    bench.files.set_bytes_max(None);
    // The writes that the log has kept become durable and visible without another write.
    bench.region.settled().wait_blocking().unwrap_or_else(|_| {
        // The log retries within a second.
        while bench.log.admits().is_err() {
            std::thread::yield_now();
        }
        bench.region.settled().wait_blocking().expect("room");
    });
    assert_eq!(rows(&bench), written.len() + 2, "with the write that was answered by an error");
    bench.apply(put());
    bench.region.flush(FlushReason::Requested).expect("room");
    let bench = bench.crash(7);
    assert_eq!(rows(&bench), written.len() + 3);
}

#[test]
fn an_abandoned_write_does_not_hold_up_later_writes() {
    let bench = Bench::new();
    let put = mutation(MutationKind::Put, "r", &[("f:q", 1, CellType::Put, b"v")]);
    let applied = bench.region.apply(&[put], ReadMode::Any).expect("serving");
    let sequence = applied.pending.sequence().expect("written");
    drop(applied);
    // Nobody writes or flushes, so the log must wake the abandoned write. A later write without a log record, which
    // waits for that write, must become visible.
    let mut skipped = mutation(MutationKind::Put, "s", &[("f:q", 1, CellType::Put, b"v")]);
    skipped.durability = Durability::Skip;
    let applied = bench.region.apply(&[skipped], ReadMode::Any).expect("serving");
    applied.pending.wait_blocking().expect("its turn comes");
    assert!(bench.region.read_point() > sequence);
}

#[test]
fn an_oversized_record_refuses_the_whole_batch() {
    let bench = Bench::new();
    let mut skipped = mutation(MutationKind::Put, "a", &[("f:q", 1, CellType::Put, b"v")]);
    skipped.durability = Durability::Skip;
    let limit = 1 << 20;
    let (log, _) = wal::Log::open(
        env::World::real(),
        Arc::new(Memory::new()),
        FileName::new("WALs"),
        wal::Options { record_bytes_max: limit, ..wal::Options::default() },
    )
    .expect("a log");
    let region = bench.reopen_over(Arc::new(log));
    let large = vec![1; limit];
    let over = mutation(MutationKind::Put, "b", &[("f:q", 1, CellType::Put, &large)]);
    let before = region.read_point();
    let refused = region.apply(&[skipped, over], ReadMode::Any).expect_err("over the limit of the log");
    assert!(matches!(refused, Error::Log(wal::Error::TooLarge { .. })), "{refused}");
    let good = mutation(MutationKind::Put, "c", &[("f:q", 1, CellType::Put, b"v")]);
    region
        .apply(&[good], ReadMode::Any)
        .expect("serving")
        .pending
        .wait_blocking()
        .expect("nothing holds the read point");
    assert_eq!(region.read_point(), before.next());
}

#[test]
fn flushing_one_family_keeps_the_log_of_the_others() {
    let bench = Bench::new();
    bench.put("r", "f:q", 1, "in a file");
    bench.put("r", "g:q", 1, "in memory");
    let flushed = bench.region.flush_families(&[Bytes::from("f")]).expect("flushed");
    assert_eq!(flushed.files, 1);
    let load = bench.region.load();
    assert_eq!(load.stores.iter().map(|store| store.files).collect::<Vec<_>>(), [1, 0]);
    assert_eq!((load.stores[0].memstore_bytes, load.stores[1].memstore_bytes > 0), (0, true));
    assert!(bench.region.flush_families(&[Bytes::from("none")]).is_err());
    let all = bench.all();
    bench.log.roll().expect("rolled");
    let bench = bench.kill();
    assert_eq!(bench.all(), all);
    assert_eq!(bench.region.replayed(), 1, "the other family's cell was in a file");
}

#[test]
fn replay_flushes_when_memory_is_full() {
    let bench = Bench::new();
    for row in 0..50 {
        bench.put(&format!("r{row:02}"), "f:q", 1, &"v".repeat(1_000));
    }
    let all = bench.all();
    let (files, world) = (bench.files.kill(), bench.world.clone());
    let mut small = TableDescriptor::clone(&bench.table);
    small.attributes_mut().set(Bytes::from("MEMSTORE_FLUSHSIZE"), Bytes::from("10000"));
    let bench = Bench::open(files, world, Arc::new(small));
    let load = bench.region.load();
    assert!(load.files >= 4, "{} files", load.files);
    assert!(load.memstore_bytes < 2 * 10_000, "{} bytes in memory", load.memstore_bytes);
    assert_eq!(bench.all(), all);
    let bench = bench.crash(5);
    assert_eq!(bench.all(), all, "and what went to files is not needed from the log again");
}

#[test]
fn replay_on_a_full_disk_takes_what_was_in_memory() {
    let bench = Bench::new();
    for row in 0..30 {
        bench.put(&format!("r{row:02}"), "f:q", 1, &"v".repeat(1_000));
    }
    let all = bench.all();
    let (files, world) = (bench.files.kill(), bench.world.clone());
    let mut small = TableDescriptor::clone(&bench.table);
    small.attributes_mut().set(Bytes::from("MEMSTORE_FLUSHSIZE"), Bytes::from("10000"));
    files.set_bytes_max(Some(files.bytes() + 5_000));
    let bench = Bench::open(files, world, Arc::new(small));
    let load = bench.region.load();
    assert!(load.files == 0 && load.memstore_bytes > 30_000, "{} files", load.files);
    assert_eq!(bench.all(), all);
    bench.files.set_bytes_max(None);
    bench.region.flush(FlushReason::Requested).expect("there is room");
    assert_eq!(bench.kill().all(), all);
}

#[test]
fn a_region_that_is_closed_without_a_flush_is_flushed_by_the_next_closing() {
    let bench = Bench::new();
    bench.put("r", "f:q", 1, "value");
    bench.files.set_bytes_max(Some(0));
    let full = bench.region.close().expect_err("no room");
    assert!(full.is_disk_full(), "{full}");
    assert!(!bench.all().is_empty(), "it serves on");
    assert!(bench.region.close_unflushed());
    assert!(!bench.region.close_unflushed(), "it is closed");
    let put = mutation(MutationKind::Put, "s", &[("f:q", 1, CellType::Put, b"v")]);
    bench.region.apply(&[put], ReadMode::Any).expect_err("it is closed");
    bench.region.close().expect_err("no room yet");
    assert!(bench.region.memstore_bytes() > 0);
    bench.files.set_bytes_max(None);
    assert_eq!(bench.region.close().expect("there is room").files, 1);
    assert_eq!(bench.region.memstore_bytes(), 0);
    assert_eq!(bench.region.close().expect("it is closed").files, 0);
    let bench = bench.kill();
    assert_eq!((bench.region.replayed(), bench.region.load().files), (0, 1));
}

#[test]
fn unlisted_files_are_deleted_while_the_region_serves() {
    let bench = Bench::new();
    bench.put("r", "f:q", 1, "v");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let folder = FileName::new("data/default/t/r/f");
    let left = bench.files.create(&folder.join("0123456789abcdef0123456789abcdef")).expect("new");
    left.finish().expect("durable");
    assert_eq!(clean(&bench.region).expect("removed"), 1);
    assert_eq!(clean(&bench.region).expect("nothing is left"), 0);
    assert_eq!(bench.all(), "r/f:q@1=v");
    let bench = bench.kill();
    assert_eq!(bench.all(), "r/f:q@1=v");
}

#[test]
fn new_version_behavior_holds_through_flush_and_compaction() {
    let family = || FamilyDescriptor::new("f").expect("a name").with("VERSIONS", 3);
    let new = (family().with("NEW_VERSION_BEHAVIOR", true), "a/f:q@3=3 a/f:q@2=2 b/f:q@5=again");
    // Without NEW_VERSION_BEHAVIOR the marker masks later writes, and the first version comes back, unless a flush has
    // dropped it because there were enough newer versions.
    let old = (family(), "a/f:q@3=3 a/f:q@2=2 a/f:q@1=1");
    for ((family, expected), flush_between) in [(new.clone(), false), (new, true), (old, false)] {
        let bench = Bench::with(family);
        for version in 1..=4 {
            bench.put("a", "f:q", version, &version.to_string());
        }
        bench.put("b", "f:q", 5, "first");
        if flush_between {
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
        bench.delete("a", "f:q", 4, CellType::Delete);
        bench.delete("b", "f:q", 9, CellType::DeleteColumn);
        bench.put("b", "f:q", 5, "again");
        assert_eq!(bench.all(), expected, "in memory");
        bench.region.flush(FlushReason::Requested).expect("flushed");
        assert_eq!(bench.all(), expected, "after a flush");
        for major in [false, true] {
            let request = CompactionRequest { major, families: Vec::new() };
            bench.region.compact(&request).expect("compacted");
            assert_eq!(bench.all(), expected, "after a compaction, major: {major}");
        }
    }
}

#[test]
fn cache_on_write_families_are_cached_without_a_read() {
    let in_memory = |attributes: &[(&'static str, &str)], act: &dyn Fn(&Bench)| {
        let family = FamilyDescriptor::new("f").expect("a name");
        let family = attributes.iter().fold(family, |family, &(name, value)| family.with(name, value));
        let bench = Bench::with(family);
        bench.put("a", "f:x", 1, "v");
        bench.region.flush(FlushReason::Requested).expect("flushed");
        act(&bench);
        let mut shown = Shown::default();
        let found = bench.region.get(&Scan::get("a".into()), ReadMode::MemoryOnly, &mut shown);
        assert!(matches!(found, Ok(1) | Err(Error::WouldBlock)), "{found:?}");
        let blocks = bench.region.cache.counts().blocks;
        assert_eq!(bench.scan(Scan::default()), "a/f:x@1=v");
        (found.is_ok(), blocks)
    };
    let nothing = |_: &Bench| {};
    assert_eq!(in_memory(&[], &nothing), (false, 0));
    assert_eq!(in_memory(&[("CACHE_DATA_ON_WRITE", "true")], &nothing), (true, 2));
    assert_eq!(in_memory(&[("CACHE_BLOOMS_ON_WRITE", "true")], &nothing), (false, 1));
    let read = |bench: &Bench| assert_eq!(bench.scan(Scan::default()), "a/f:x@1=v");
    assert_eq!(in_memory(&[], &read).1, 1, "a scan asks no filter");
    assert_eq!(in_memory(&[("BLOCKCACHE", "false")], &read).1, 0);
    let unkept = |bench: &Bench| {
        assert_eq!(bench.scan(Scan { cache_blocks: false, ..Scan::default() }), "a/f:x@1=v");
    };
    assert_eq!(in_memory(&[], &unkept).1, 0, "nor does a request that does not want it");
    let compact = |bench: &Bench| {
        bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    };
    assert_eq!(in_memory(&[("CACHE_BLOOMS_ON_WRITE", "true")], &compact).1, 1);
    assert_eq!(
        in_memory(&[("CACHE_DATA_ON_WRITE", "true")], &compact),
        (true, 2),
        "it takes the place of one that was"
    );
}

#[test]
fn a_reopened_region_finds_its_cached_blocks_unless_evicted_on_close() {
    for (attribute, kept) in [("BLOCKCACHE", true), ("EVICT_BLOCKS_ON_CLOSE", false)] {
        let bench = Bench::with(FamilyDescriptor::new("f").expect("a name").with(attribute, "true"));
        bench.put("a", "f:x", 1, "v");
        bench.region.flush(FlushReason::Requested).expect("flushed");
        assert_eq!(bench.scan(Scan::default()), "a/f:x@1=v");
        bench.region.close().expect("closed");
        let cache = Arc::clone(&bench.region.cache);
        assert_eq!(cache.counts().blocks, u64::from(kept));
        let opening = Opening {
            info: bench.region.info().clone(),
            table: Arc::clone(&bench.table),
            files: Arc::new(bench.files.clone()),
            folder: FileName::new("data/default/t/r"),
            log: Arc::clone(&bench.log),
            cache: Arc::clone(&cache),
            world: bench.world.clone(),
            options: RegionOptions::default(),
            recovered: None,
        };
        let region = Region::open(opening).expect("opened");
        let mut scanner = region.scanner(Scan::default()).expect("serving");
        let step = scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::MemoryOnly);
        assert_eq!(step.is_ok(), kept);
    }
}

#[test]
fn prefetched_families_are_cached_soon_after_opening() {
    let family = FamilyDescriptor::new("f").expect("a name").with("PREFETCH_BLOCKS_ON_OPEN", "true");
    let bench = Bench::with(family);
    bench.put("a", "f:x", 1, "v");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let bench = bench.kill();
    while bench.region.cache.counts().blocks < 2 {
        std::thread::yield_now();
    }
    let found = bench.region.get(&Scan::get("a".into()), ReadMode::MemoryOnly, &mut Shown::default());
    assert_eq!(found.expect("in memory"), 1);
}
