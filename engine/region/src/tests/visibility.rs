//! Tests that no reader sees a write before it is as durable as its client requested.

use super::*;
use storage::memory::Fault;
use storage::{Kind, Outcome};

/// Returns a region that acknowledges writes in the operating system's buffers, as without `hbase.wal.hsync`.
fn bench() -> Bench {
    let options = RegionOptions { sync_to_disk: false, ..RegionOptions::default() };
    let table = table(FamilyDescriptor::new("f").expect("a name"));
    Bench::open_with(Memory::new(), World::simulated(1, WallTime(1_000_000)), table, options)
}

/// Makes a put that is complete only when it is on the disk, and whose future is dropped.
fn put_for_the_disk(bench: &Bench) -> BatchOutcome {
    let put = mutation(MutationKind::Put, "row", &[("f:q", 1, CellType::Put, b"v")]);
    let put = Mutation { durability: Durability::Fsync, ..put };
    bench.region.apply(&[put], ReadMode::Any).expect("serving")
}

/// Checks that what a reader has seen survives a power failure, whatever the disk did with unsynced bytes.
fn assert_durable(bench: &Bench) {
    // A region whose log has failed returns nothing any more.
    let seen = if bench.region.scanner(Scan::default()).is_ok() { bench.all() } else { String::new() };
    for seed in 0..20 {
        let files = bench.files.crash(seed);
        let after = Bench::open(files, bench.world.clone(), Arc::clone(&bench.table));
        assert!(
            seen.is_empty() || after.all() == seen,
            "seed {seed}: {seen:?} was seen, {:?} is there",
            after.all()
        );
    }
}

#[test]
fn a_write_awaiting_the_disk_is_invisible_until_durable() {
    // Each storage operation of a flush fails in turn. The first of these operations are made by the log.
    for act in 1..8 {
        let bench = bench();
        let _applied = put_for_the_disk(&bench);
        assert_eq!(bench.all(), "");
        let act = bench.files.acts() + act;
        let outcome = Outcome::DidNotHappen;
        bench.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
        let flushed = bench.region.flush(FlushReason::Requested);
        assert!(flushed.is_err() || bench.all() == "row/f:q@1=v");
        assert_durable(&bench);
    }
}

#[test]
fn waiting_for_a_read_does_not_reveal_undurable_writes() {
    let bench = bench();
    let _applied = put_for_the_disk(&bench);
    assert_eq!(bench.all(), "");
    bench.region.settled().wait_blocking().expect("durable");
    assert_eq!(bench.all(), "row/f:q@1=v");
    assert_durable(&bench);
}

/// Whether the future resolves; a test that would wait for ever must fail.
fn resolves(pending: Pending) -> bool {
    let (done, resolved) = std::sync::mpsc::channel();
    let wait = move || done.send(pending.wait_blocking().is_ok());
    let _thread = env::spawn_thread("waiter", env::Priority::Foreground, wait).expect("a thread");
    resolved.recv_timeout(std::time::Duration::from_secs(60)) == Ok(true)
}

#[test]
fn later_writes_do_not_wait_for_the_caller_of_an_entrusted_one() {
    let bench = Bench::new();
    let put = |row, durability| {
        let put = mutation(MutationKind::Put, row, &[("f:q", 1, CellType::Put, b"v")]);
        bench.region.apply(&[Mutation { durability, ..put }], ReadMode::Any).expect("serving").pending
    };
    let (mut first, mut second) = (put("a", Durability::Sync), put("b", Durability::Async));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(
        std::pin::Pin::new(&mut second).poll(&mut context).is_pending(),
        "the first write is not complete"
    );
    env::block_on(second.logged()).expect("it need not be in the log");
    first.entrust();
    assert!(resolves(second));
    assert_eq!(bench.all(), "a/f:q@1=v b/f:q@1=v");
    assert!(resolves(first));
}

#[test]
fn an_entrusted_write_fails_like_any_other() {
    let bench = Bench::new();
    let mut first = bench
        .region
        .apply(&[mutation(MutationKind::Put, "a", &[("f:q", 1, CellType::Put, b"v")])], ReadMode::Any)
        .expect("serving")
        .pending;
    let (act, outcome) = (bench.files.acts() + 1, Outcome::DidNotHappen);
    bench.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
    first.entrust();
    assert!(!resolves(first));
    assert!(bench.region.scanner(Scan::default()).is_err(), "the region is aborted");
}

/// A client that lost its scanner resumes at the read point of the first one. Meanwhile the row was overwritten and one
/// of its families compacted, so not all of the old row exists.
#[test]
fn a_scan_that_resumes_sees_whole_rows() {
    let row = |value: &'static [u8], timestamp| {
        let cells = [("f:q", timestamp, CellType::Put, value), ("g:q", timestamp, CellType::Put, value)];
        mutation(MutationKind::Put, "a", &cells)
    };
    let bench = Bench::new();
    bench.apply(row(b"old", 1));
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let read_point = bench.region.read_point();
    let resumed = || Scan { read_point: Some(read_point), ..Scan::default() };
    bench.apply(row(b"new", 2));
    assert_eq!(bench.scan(resumed()), "a/f:q@1=old a/g:q@1=old");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let request = CompactionRequest { major: true, families: vec!["g".into()] };
    bench.region.compact(&request).expect("compacted");
    assert_eq!(bench.scan(resumed()), "a/f:q@2=new a/g:q@2=new");
    // Another server opens the region, and does not know which versions were dropped.
    let bench = bench.kill();
    assert_eq!(bench.scan(resumed()), "a/f:q@2=new a/g:q@2=new");
}

/// Cells newer than the read point cost time, although no reader sees them.
#[test]
fn a_read_in_memory_ends_at_a_long_run_of_newer_cells() {
    for (row, reversed) in [("z", false), ("a", true)] {
        let bench = Bench::new();
        bench.put(row, "f:q", 1, "v");
        let open = || bench.region.scanner(Scan { reversed, ..Scan::default() }).expect("serving");
        let (mut few, mut many) = (open(), open());
        let next = |scanner: &mut RegionScanner<'static>, mode| {
            let mut shown = Shown::default();
            scanner.next_row(&Limits::NONE, &mut shown, mode).map(|_| shown.0.concat())
        };
        let put = |rows: std::ops::Range<u32>| {
            let put =
                |row| mutation(MutationKind::Put, &format!("m{row:05}"), &[("f:q", 1, CellType::Put, b"w")]);
            let applied = bench.region.apply(&rows.map(put).collect::<Vec<_>>(), ReadMode::Any);
            applied.expect("serving").pending.wait_blocking().expect("durable");
        };
        let expected = format!("{row}/f:q@1=v");
        put(0..100);
        assert_eq!(next(&mut few, ReadMode::MemoryOnly).expect("a short run"), expected);
        put(100..5_000);
        assert!(matches!(next(&mut many, ReadMode::MemoryOnly), Err(Error::WouldBlock)), "{reversed}");
        assert_eq!(next(&mut many, ReadMode::Any).expect("read"), expected);
    }
}
