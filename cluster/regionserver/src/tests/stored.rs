//! Tests of reads from storage, which begin on the serving thread and continue on another thread.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use proto::pb;
use region::RegionOptions;
use storage::memory::ReadDelay;

use super::bench::{Bench, get, increment, mutation, rows, shown};
use crate::Options;

use pb::mutation_proto::MutationType;

/// Returns a bench with an empty cache, whose earlier puts are in files.
fn bench() -> Bench {
    let bench = Bench::of(Options::default(), RegionOptions::default(), 0, &[("", "")]);
    for row in ["a", "b", "c"] {
        bench.put(row, "f:x", row);
    }
    let region = bench.server.regions().all().remove(0);
    bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
    bench
}

/// Like [`bench`], over storage whose reads wait until the test completes them.
fn delayed(rows: &[&'static str], value: &str) -> Bench {
    let bench = Bench::with_delayed_reads(ReadDelay::UntilCompleted, 8);
    rows.iter().for_each(|row| bench.put(row, "f:x", value));
    let region = bench.server.regions().all().remove(0);
    bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
    bench
}

#[test]
fn gets_await_a_block_together_and_hold_no_thread() {
    let bench = delayed(&["a", "b", "c"], "v");
    let request = |row| pb::GetRequest { region: bench.region_of(b"a"), get: get(row) };
    let mut gets: Vec<_> = ["a", "b", "c"]
        .iter()
        .cycle()
        .take(30)
        .map(|row| match bench.begin(bench.call("Get", &request(row), Bytes::new())) {
            rpc::Answer::Later(answer) => answer,
            rpc::Answer::Now(_) => panic!("nothing is cached"),
        })
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut replies = Vec::new();
    while !gets.is_empty() {
        gets.retain_mut(|get| match get.as_mut().poll(&mut context) {
            Poll::Ready(reply) => {
                replies.push(shown(reply.expect("a row").cells));
                false
            }
            Poll::Pending => true,
        });
        // All gets wait for the same block, and none of them occupies a thread of the pool.
        let counts = bench.place.read_counts();
        assert!(gets.is_empty() || (gets.len(), counts.running) == (30, 1), "{counts:?}");
        bench.place.complete_reads(1);
    }
    assert!(bench.place.read_counts().begun <= 2, "the filter's chunk and the block");
    assert_eq!((replies.len(), &replies[7]), (30, &vec!["f:x=v".to_owned()]));
}

#[test]
fn a_scan_awaits_one_block_after_the_other() {
    let rows = ["a", "b", "c", "d", "e", "f"];
    let bench = Bench::with_delayed_reads(ReadDelay::For(Duration::from_millis(1)), 8);
    // Each row has a block of its own.
    rows.iter().for_each(|row| bench.put(row, "f:x", &row.repeat(70_000)));
    let region = bench.server.regions().all().remove(0);
    bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
    let request = pb::ScanRequest {
        region: Some(bench.region_of(b"a")),
        scan: Some(pb::Scan::default()),
        number_of_rows: Some(10),
        ..Default::default()
    };
    let reply = bench.client("Scan", &request, Bytes::new()).expect("a reply");
    assert_eq!(self::rows(reply.cells), rows);
    let reads = bench.place.read_counts().begun;
    // The size of the block is unknown, so the bytes after it may be read twice.
    assert!((2..=8).contains(&reads), "{reads} reads");
}

#[test]
fn a_scan_returns_the_rows_that_it_read_before_its_region_closed() {
    let all = ["a", "b", "c", "d", "e", "f"];
    // Each row has a block of its own.
    let bench = delayed(&all, &"v".repeat(70_000));
    let scan = pb::ScanRequest {
        region: Some(bench.region_of(b"a")),
        scan: Some(pb::Scan::default()),
        number_of_rows: Some(10),
        client_handles_partials: Some(true),
        client_handles_heartbeats: Some(true),
        ..Default::default()
    };
    let rpc::Answer::Later(mut answer) = bench.begin(bench.call("Scan", &scan, Bytes::new())) else {
        panic!("nothing is cached");
    };
    let mut context = Context::from_waker(Waker::noop());
    // A block takes at most two reads, so the first rows have been read when the scan awaits its sixth read.
    while bench.place.read_counts().begun < 6 {
        bench.place.complete_reads(usize::from(bench.place.read_counts().running > 0));
        assert!(answer.as_mut().poll(&mut context).is_pending());
    }
    let region = bench.server.regions().all().remove(0);
    bench.server.close_region(region.info().encoded_name(), None).expect("closes");
    bench.server.open_region(region.info().clone(), region.table().clone()).expect("opens");
    bench.place.complete_reads(1_000);
    let reply = bench.end(rpc::Answer::Later(answer)).expect("the rows so far");
    let response = pb::ScanResponse::decode(reply.message).expect("the message");
    let read = rows(reply.cells);
    assert!((1..all.len()).contains(&read.len()) && read == all[..read.len()], "{read:?}");
    assert_eq!((response.more_results, response.more_results_in_region), (Some(true), Some(true)));
    let id = response.scanner_id.expect("an id");
    let next = pb::ScanRequest { scanner_id: Some(id), next_call_seq: Some(0), ..Default::default() };
    let changed = bench.client("Scan", &next, Bytes::new()).expect_err("the region has changed");
    assert!(changed.message.starts_with("Region has changed on the scanner"), "{changed}");
    assert_eq!(bench.server.open_scanners(), 0);
}

fn from_disk(bench: &Bench) -> u64 {
    bench.server.counters().snapshot().reads_from_disk
}

#[test]
fn a_get_reads_the_disk_only_if_needed() {
    let bench = bench();
    assert_eq!(bench.row("b"), ["f:x=b"]);
    assert_eq!(from_disk(&bench), 1);
    let exists = pb::Get { existence_only: Some(true), ..get("a") };
    let request = pb::GetRequest { region: bench.region_of(b"a"), get: exists };
    let reply = bench.client("Get", &request, Bytes::new()).expect("a get");
    let result = pb::GetResponse::decode(reply.message).expect("the message").result.expect("a result");
    assert_eq!((result.exists, from_disk(&bench)), (Some(true), 2));
    let warm = Bench::new();
    warm.put("b", "f:x", "b");
    assert_eq!((warm.row("b"), from_disk(&warm)), (vec!["f:x=b".to_owned()], 0));
}

#[test]
fn a_multi_continues_where_it_paused() {
    let bench = bench();
    bench.put("m", "f:x", "in memory");
    let read = |index, row| pb::Action { index: Some(index), get: Some(get(row)), ..Default::default() };
    let put = pb::Action {
        index: Some(2),
        mutation: Some(mutation(MutationType::Put, "n", "f:x", "new")),
        ..Default::default()
    };
    let add = pb::Action { index: Some(4), mutation: Some(increment("z", "f:n", 2)), ..Default::default() };
    let action = vec![read(1, "a"), put, read(3, "c"), add, read(5, "m"), read(6, "n")];
    let actions = pb::RegionAction { region: bench.region_of(b"a"), action, atomic: None, condition: None };
    let request = pb::MultiRequest { region_action: vec![actions], nonce_group: None, condition: None };
    let reply = bench.client("Multi", &request, Bytes::new()).expect("an answer");
    let response = pb::MultiResponse::decode(reply.message).expect("the message");
    let entries = &response.region_action_result[0].result_or_exception;
    assert_eq!(entries.iter().map(|entry| entry.index()).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert!(entries.iter().all(|entry| entry.exception.is_none()));
    let two = format!("f:n={}", 2i64.to_be_bytes().escape_ascii());
    // The put was applied before the increment, so the later get sees it.
    assert_eq!(shown(reply.cells), ["f:x=a", "f:x=c", &two, "f:x=in memory", "f:x=new"]);
}

#[test]
fn a_call_that_waits_for_a_thread_does_not_have_its_nonce_yet() {
    let mut bench = bench();
    bench.runtime = env::Runtime::start("one thread", 1).expect("a runtime");
    // The pool's only thread is occupied until both calls are in its queue, the batch first.
    let (release, released) = std::sync::mpsc::channel::<()>();
    let occupied = rpc::Answer::later(async move {
        env::blocking(move || released.recv()).await.expect("released");
        Ok(rpc::Reply::default())
    });
    let add = || pb::MutationProto { nonce: Some(9), ..increment("a", "f:n", 5) };
    let action = pb::Action { index: Some(0), mutation: Some(add()), ..Default::default() };
    let action =
        pb::RegionAction { region: bench.region_of(b"a"), action: vec![action], ..Default::default() };
    let multi = pb::MultiRequest { region_action: vec![action], nonce_group: Some(77), condition: None };
    let mutate = pb::MutateRequest {
        region: bench.region_of(b"a"),
        mutation: add(),
        condition: None,
        nonce_group: Some(77),
    };
    let mut answers = vec![
        occupied,
        bench.begin(bench.call("Multi", &multi, Bytes::new())),
        bench.begin(bench.call("Mutate", &mutate, Bytes::new())),
    ];
    for answer in &mut answers {
        let rpc::Answer::Later(answer) = answer else { panic!("the row must be read from a file") };
        let _entered = bench.runtime.handle().enter();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(answer.as_mut().poll(&mut context).is_pending());
    }
    release.send(()).expect("the thread waits");
    for answer in answers {
        bench.end(answer).expect("an answer");
    }
    assert_eq!(bench.row("a"), [format!("f:n={}", 5i64.to_be_bytes().escape_ascii()), "f:x=a".into()]);
}

#[test]
fn a_large_multi_leaves_the_serving_thread() {
    let bench = Bench::new();
    let count = 1000;
    let action = (0..count)
        .map(|index| pb::Action {
            index: Some(index),
            mutation: Some(mutation(MutationType::Put, "r", "f:x", &index.to_string())),
            ..Default::default()
        })
        .collect();
    let actions = pb::RegionAction { region: bench.region_of(b"r"), action, atomic: None, condition: None };
    let request = pb::MultiRequest { region_action: vec![actions], nonce_group: None, condition: None };
    let reply = bench.client("Multi", &request, Bytes::new()).expect("an answer");
    let response = pb::MultiResponse::decode(reply.message).expect("the message");
    assert_eq!(response.region_action_result[0].result_or_exception.len(), count as usize);
    assert_eq!(bench.row("r"), ["f:x=999"]);
}

#[test]
fn a_scan_reads_stored_and_cached_rows() {
    let bench = bench();
    bench.put("bb", "f:x", "bb");
    let scan = |scan: pb::Scan| {
        let request = pb::ScanRequest {
            region: Some(bench.region_of(b"a")),
            scan: Some(scan),
            number_of_rows: Some(100),
            client_handles_partials: Some(true),
            client_handles_heartbeats: Some(true),
            ..Default::default()
        };
        rows(bench.client("Scan", &request, Bytes::new()).expect("a scan").cells)
    };
    assert_eq!(scan(pb::Scan::default()), ["a", "b", "bb", "c"]);
    assert_eq!(scan(pb::Scan { reversed: Some(true), ..Default::default() }), ["c", "bb", "b", "a"]);
    let part = pb::Scan {
        start_row: Some("b".into()),
        include_start_row: Some(false),
        stop_row: Some("c".into()),
        include_stop_row: Some(true),
        ..Default::default()
    };
    assert_eq!(scan(part), ["bb", "c"]);
    let prefix = pb::PrefixFilter { prefix: Some("b".into()) };
    let filter = pb::Filter {
        name: "org.apache.hadoop.hbase.filter.PrefixFilter".to_owned(),
        serialized_filter: Some(prefix.encode_to_vec().into()),
    };
    assert_eq!(scan(pb::Scan { filter: Some(filter), ..Default::default() }), ["b", "bb"]);
    assert_eq!(bench.server.open_scanners(), 0);
}

#[test]
fn read_modify_writes_read_stored_cells() {
    let bench = bench();
    let response = bench.mutate(mutation(MutationType::Append, "a", "f:x", "+")).expect("an append");
    assert_eq!(response.result.expect("a result").associated_cell_count, Some(1));
    assert_eq!(bench.row("a"), ["f:x=a+"]);
    let condition = super::bench::equals("b", "f:x", "b");
    let (checked, _) =
        bench.mutate_if(mutation(MutationType::Delete, "b", "f:x", ""), Some(condition)).expect("a check");
    assert_eq!((checked.processed, bench.row("b").len()), (Some(true), 0));
}
