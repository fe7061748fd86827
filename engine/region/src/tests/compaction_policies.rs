//! Tests of policies on a whole region: which files are written and deleted, and what readers see.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;

fn tiered() -> RegionOptions {
    RegionOptions {
        compaction_policy: CompactionPolicy::DateTiered,
        date_tiered: DateTieredOptions { base_window_ms: 1_000, ..DateTieredOptions::default() },
        ..RegionOptions::default()
    }
}

fn bench(family: FamilyDescriptor, options: RegionOptions) -> Bench {
    Bench::open_with(Memory::new(), World::simulated(1, WallTime(1_000_000)), table(family), options)
}

fn family() -> FamilyDescriptor {
    FamilyDescriptor::new("f").expect("a name")
}

fn write_file(bench: &Bench, cells: &[(&str, i64)]) {
    for (row, timestamp) in cells {
        bench.put(row, "f:q", *timestamp, &timestamp.to_string());
    }
    bench.region.flush(FlushReason::Requested).expect("flushed");
}

fn request(major: bool) -> StoreCompaction {
    StoreCompaction { family: "f".into(), major, is_user: true, off_peak: false }
}

fn files(bench: &Bench) -> usize {
    bench.region.load().stores[0].files
}

#[test]
fn a_tiered_major_compaction_writes_a_file_for_each_window() {
    let bench = bench(family(), tiered());
    // The present time is 1,000,000. The newest windows have a length of one second and begin at multiples of it.
    write_file(&bench, &[("a", 999_500), ("b", 998_500), ("c", 900_000)]);
    write_file(&bench, &[("a", 998_600), ("b", 998_400), ("d", 1_000_000)]);
    let before = bench.all();
    assert_eq!(bench.region.compact_family(&request(true), &()).expect("compacted"), 2);
    assert!(files(&bench) > 2, "one for each window that has cells, of {}", files(&bench));
    assert_eq!(bench.all(), before);
    assert_eq!(bench.region.plan_compaction(&request(false)), None, "there is one file for each window");
    let names = bench.region.file_names(&["f".into()]).expect("named");
    let bench = Bench::open_with(bench.files.clone(), bench.world.clone(), bench.table.clone(), tiered());
    assert_eq!(bench.region.file_names(&["f".into()]).expect("named"), names, "in the same order");
    assert_eq!(bench.all(), before);
    bench.put("a", "f:q", 1_000_001, "new");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.region.compact_family(&request(true), &()).expect("compacted");
    assert_ne!(bench.all(), before);
}

#[test]
fn files_go_unread_when_all_their_cells_have_expired() {
    let bench = bench(family().with("TTL", 100), RegionOptions::default());
    for row in ["a", "b", "c"] {
        write_file(&bench, &[(row, bench.world.now().0)]);
        bench.world.advance(Duration::from_secs(40));
    }
    assert_eq!(bench.region.plan_compaction(&request(false)).map(|plan| plan.files), Some(0));
    assert_eq!(bench.region.compact_family(&request(false), &()).expect("compacted"), 1, "of row a");
    assert_eq!(files(&bench), 2);
    assert_eq!(bench.region.load().compacting_cells, 0);
    bench.world.advance(Duration::from_secs(1_000));
    assert_eq!(bench.region.compact_family(&request(false), &()).expect("compacted"), 1);
    assert_eq!(files(&bench), 1, "the newest file records which writes are in files");
    assert_eq!(bench.region.plan_compaction(&request(false)), None);
    let sequence = bench.region.read_point();
    let bench = Bench::open(bench.files.clone(), bench.world.clone(), bench.table.clone());
    assert!(bench.region.open_sequence() > sequence, "sequence ids go on");
    assert!(bench.all().is_empty());
}

/// A monitor that ends a compaction at its first report.
#[derive(Default)]
struct Stop(AtomicU64);

impl CompactionMonitor for Stop {
    fn begin(&self, cells: u64, _bytes: u64) {
        self.0.store(cells, Ordering::Relaxed);
    }

    fn advance(&self, _cells: u64, _bytes: u64) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

#[test]
fn a_compaction_that_is_ended_has_changed_nothing() {
    let bench = bench(family(), tiered());
    write_file(&bench, &[("a", 999_500), ("b", 998_500)]);
    write_file(&bench, &[("a", 900_000)]);
    let listed = || bench.files.list(&FileName::new("data/default/t/r/f")).expect("listed").len();
    let (before, on_disk) = (bench.all(), listed());
    let stop = Stop::default();
    let outcome = bench.region.compact_family(&request(true), &stop);
    assert!(matches!(outcome, Err(Error::Interrupted(_))), "{outcome:?}");
    assert_eq!(stop.0.load(Ordering::Relaxed), 3);
    assert_eq!((files(&bench), listed()), (2, on_disk), "and left nothing");
    assert_eq!(bench.all(), before);
    let load = bench.region.load();
    assert_eq!((load.compacting_cells, load.compacted_cells), (0, 0));
    assert_eq!(bench.region.compact_family(&request(true), &()).expect("compacted"), 2);
    assert_eq!(bench.all(), before);
}

/// A monitor that, at the first report, waits until the region was told that it closes soon.
struct ClosesSoon<'a> {
    region: &'a Region,
    has_begun: AtomicBool,
}

impl CompactionMonitor for ClosesSoon<'_> {
    fn begin(&self, _cells: u64, _bytes: u64) {
        self.has_begun.store(true, Ordering::Release);
    }

    fn advance(&self, _cells: u64, _bytes: u64) -> ControlFlow<()> {
        while !self.region.closes_soon() {
            std::thread::yield_now();
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn before_its_region_closes_a_small_compaction_completes_and_a_large_one_ends() {
    for (values, completes) in [(4, true), (30, false)] {
        let bench = bench(family(), RegionOptions::default());
        for row in ["a", "b"] {
            for value in 0..values {
                bench.put(&format!("{row}{value}"), "f:q", 1, &"v".repeat(512 << 10));
            }
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
        let before = bench.all();
        let region: &Region = &bench.region;
        let monitor = ClosesSoon { region, has_begun: AtomicBool::new(false) };
        let outcome = std::thread::scope(|scope| {
            let compaction = scope.spawn(|| region.compact_family(&request(true), &monitor));
            while !monitor.has_begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            region.end_compactions();
            assert_eq!(files(&bench), if completes { 1 } else { 2 }, "it has ended");
            let again = region.compact_family(&request(true), &());
            assert!(matches!(again, Err(Error::NotServing(_))), "none begins: {again:?}");
            region.close().expect("closed");
            compaction.join().expect("no panic")
        });
        match outcome {
            Ok(2) if completes => {}
            Err(Error::NotServing(_)) if !completes => {}
            other => panic!("{other:?} of {values} values"),
        }
        let bench = Bench::open(bench.files.clone(), bench.world.clone(), bench.table.clone());
        assert_eq!(bench.all(), before);
        assert_eq!(files(&bench), if completes { 1 } else { 2 });
    }
}
