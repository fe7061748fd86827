//! Tests of Scan.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use proto::pb;
use proto::pb::mutation_proto::MutationType;
use rpc::{Codec, Exception};

use super::bench::{Bench, class, mutation, rows};
use crate::Options;

impl Bench {
    fn fill(&self) {
        for row in ["a", "b", "c", "d"] {
            self.put(row, "f:x", "1");
            self.put(row, "f:y", "2");
        }
    }

    fn open(&self, scan: pb::Scan, change: impl FnOnce(&mut pb::ScanRequest)) -> (pb::ScanResponse, Bytes) {
        let mut request = pb::ScanRequest {
            region: Some(self.region_of(b"a")),
            scan: Some(scan),
            number_of_rows: Some(i32::MAX as u32),
            close_scanner: Some(false),
            client_handles_partials: Some(true),
            client_handles_heartbeats: Some(true),
            ..Default::default()
        };
        change(&mut request);
        self.scan(request).expect("opens")
    }

    fn next(&self, id: u64, rows: u32, call: Option<u64>) -> Result<(pb::ScanResponse, Bytes), Exception> {
        self.scan(pb::ScanRequest {
            scanner_id: Some(id),
            number_of_rows: Some(rows),
            next_call_seq: call,
            client_handles_partials: Some(true),
            client_handles_heartbeats: Some(true),
            ..Default::default()
        })
    }

    fn scan(&self, request: pb::ScanRequest) -> Result<(pb::ScanResponse, Bytes), Exception> {
        let reply = self.client("Scan", &request, Bytes::new())?;
        Ok((pb::ScanResponse::decode(reply.message).expect("the message"), reply.cells))
    }
}

#[test]
fn a_small_region_takes_one_call_and_closes_its_scanner() {
    let bench = Bench::new();
    bench.fill();
    let (response, cells) = bench.open(pb::Scan::default(), |_| {});
    assert_eq!(rows(cells), ["a", "a", "b", "b", "c", "c", "d", "d"]);
    assert_eq!(response.cells_per_result, [2, 2, 2, 2]);
    assert_eq!(response.partial_flag_per_result, [false; 4]);
    assert_eq!((response.more_results, response.more_results_in_region), (Some(true), Some(false)));
    assert_eq!((response.heartbeat_message, response.ttl, response.stale), (None, Some(60_000), Some(false)));
    assert!(response.mvcc_read_point.expect("a read point") > 0);
    assert_eq!(bench.server.open_scanners(), 0);
    // After the scanner was closed, a further close and a further call find an exhausted scanner.
    let id = response.scanner_id.expect("an id");
    let (again, cells) = bench.next(id, 0, None).expect("known");
    assert!(cells.is_empty() && again.cells_per_result.is_empty());
    bench.next(id, 10, Some(1)).expect("known");
    for call in [0, 5] {
        let refused = bench.next(id, 10, Some(call)).expect_err("not the one that HBase waits for");
        assert_eq!(class(&refused), "OutOfOrderScannerNextException");
        assert!(refused.message.starts_with("Expected nextCallSeq for closed request: 1 But"), "{refused}");
    }
    bench.world.advance(Duration::from_secs(60));
    assert_eq!(class(&bench.next(id, 0, None).expect_err("forgotten")), "UnknownScannerException");
}

#[test]
fn a_scan_reply_is_cut_while_response_memory_is_short() {
    let mut bench = Bench::new();
    for row in ["a", "b", "c"] {
        bench.put(row, "f:x", &"v".repeat(80 << 10));
    }
    bench.answers = rpc::Answers::new(1 << 20);
    let mut others = bench.answers.share();
    assert!(others.admits(1 << 20));
    let (first, cells) = bench.open(pb::Scan::default(), |_| {});
    assert_eq!((rows(cells), first.more_results_in_region), (vec!["a".to_owned()], Some(true)));
    drop(others);
    let (rest, cells) = bench.next(first.scanner_id.expect("an id"), 10, None).expect("the next");
    assert_eq!((rows(cells), rest.more_results_in_region), (vec!["b".into(), "c".into()], Some(false)));
    assert_eq!(bench.answers.taken(), 0);
}

#[test]
fn a_reply_counts_as_response_memory_until_sent() {
    let mut bench = Bench::new();
    for row in ["a", "b", "c"] {
        bench.put(row, "f:x", &"v".repeat(80 << 10));
    }
    bench.answers = rpc::Answers::new(64 << 20);
    let scan = pb::ScanRequest {
        region: Some(bench.region_of(b"")),
        scan: Some(pb::Scan::default()),
        number_of_rows: Some(10),
        ..Default::default()
    };
    let scanned = bench.client("Scan", &scan, Bytes::new()).expect("a scan");
    let bytes = (scanned.message.len() + scanned.cells.len()) as u64;
    // The answer has all three rows, because the size limit is checked only before a row.
    assert!(bytes > 240 << 10);
    assert_eq!(bench.answers.taken(), bytes);
    drop(scanned);
    assert_eq!(bench.answers.taken(), 0);
}

#[test]
fn without_a_codec_results_are_messages() {
    let mut bench = Bench::new();
    bench.fill();
    bench.codec = Codec::None;
    let (response, cells) = bench.open(pb::Scan::default(), |_| {});
    assert!(cells.is_empty() && response.cells_per_result.is_empty());
    assert_eq!(response.results.len(), 4);
    assert!(response.results.iter().all(|result| result.cell.len() == 2 && result.partial == Some(false)));
}

#[test]
fn calls_must_be_numbered_in_sequence() {
    let bench = Bench::new();
    bench.fill();
    let (first, cells) = bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(1));
    let id = first.scanner_id.expect("an id");
    assert_eq!((rows(cells), first.more_results_in_region), (vec!["a".into(), "a".into()], Some(true)));
    let (second, cells) = bench.next(id, 2, Some(0)).expect("the next");
    assert_eq!((rows(cells), second.scanner_id), (["b", "b", "c", "c"].map(String::from).to_vec(), Some(id)));
    let late = bench.next(id, 2, Some(0)).expect_err("the same again");
    assert_eq!(class(&late), "OutOfOrderScannerNextException");
    let renew = pb::ScanRequest {
        scanner_id: Some(id),
        number_of_rows: Some(0),
        renew: Some(true),
        next_call_seq: Some(1),
        ..Default::default()
    };
    let (renewed, cells) = bench.scan(renew).expect("renewed");
    assert!(cells.is_empty() && renewed.more_results.is_none());
    let (last, cells) = bench.next(id, 10, Some(2)).expect("the next");
    assert_eq!((rows(cells), last.more_results_in_region), (vec!["d".into(), "d".into()], Some(false)));
    assert_eq!(bench.server.open_scanners(), 0);
}

#[test]
fn a_call_for_no_rows_keeps_the_scanner() {
    let bench = Bench::new();
    bench.fill();
    let (first, cells) = bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(0));
    assert!(cells.is_empty() && first.more_results_in_region == Some(true));
    let id = first.scanner_id.expect("an id");
    let (second, cells) = bench.next(id, 0, Some(0)).expect("none again");
    assert!(cells.is_empty() && second.more_results_in_region == Some(true));
    let (_, cells) = bench.next(id, 2, Some(1)).expect("the first two");
    assert_eq!(rows(cells), ["a", "a", "b", "b"]);
}

#[test]
fn a_client_may_close_early() {
    let bench = Bench::new();
    bench.fill();
    let (first, _) = bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(1));
    assert_eq!(bench.server.open_scanners(), 1);
    let close = pb::ScanRequest {
        scanner_id: first.scanner_id,
        number_of_rows: Some(0),
        close_scanner: Some(true),
        ..Default::default()
    };
    let (closed, cells) = bench.scan(close).expect("closes");
    assert!(cells.is_empty() && closed.more_results_in_region == Some(false));
    assert_eq!(bench.server.open_scanners(), 0);
    let (one, cells) = bench.open(pb::Scan::default(), |request| {
        (request.number_of_rows, request.close_scanner) = (Some(2), Some(true));
    });
    assert_eq!((rows(cells).len(), one.cells_per_result.len(), bench.server.open_scanners()), (4, 2, 0));
}

#[test]
fn replies_are_equal_for_copied_and_judged_rows() {
    for codec in [Codec::KeyValue, Codec::None] {
        let mut bench = Bench::new();
        bench.codec = codec;
        are_the_same_out_of_a_file(&bench);
    }
}

fn are_the_same_out_of_a_file(bench: &Bench) {
    const ROWS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for at in 0..ROWS.len() {
        bench.put(&ROWS[at..=at], "f:x", "1");
        if at % 7 == 0 {
            bench.put(&ROWS[at..=at], "f:y", &"2".repeat(at));
        }
    }
    // A limit of cells in a family, even one that is never reached, makes the server send each cell through the
    // matcher.
    let replies = |number: u32, limit: Option<u32>, size: Option<u64>, store_limit: Option<u32>| {
        let column = pb::Column { family: b"f".as_slice().into(), qualifier: Vec::new() };
        let scan =
            pb::Scan { column: vec![column], max_result_size: size, store_limit, ..Default::default() };
        let (mut response, cells) = bench.open(scan, |request| {
            (request.number_of_rows, request.limit_of_rows) = (Some(number), limit);
        });
        let (id, mut all) = (response.scanner_id.expect("an id"), Vec::new());
        let mut cells = Some(cells);
        loop {
            let more = response.more_results() && response.more_results_in_region();
            (response.scanner_id, response.mvcc_read_point) = (None, None);
            all.push((rows(cells.take().expect("those of the reply")), response.clone()));
            if !more {
                return all;
            }
            let call = Some(all.len() as u64 - 1);
            let (next, of_next) = bench.next(id, number, call).expect("goes on");
            (response, cells) = (next, Some(of_next));
        }
    };
    let ways: Vec<_> = [1, 7, 16, 30, 1_000]
        .into_iter()
        .flat_map(|number| [None, Some(1), Some(20)].map(|limit| (number, limit)))
        .flat_map(|(number, limit)| [None, Some(1), Some(1_000)].map(|size| (number, limit, size)))
        .collect();
    let in_memory: Vec<_> = ways.iter().map(|way| replies(way.0, way.1, way.2, None)).collect();
    let region = bench.server.regions().all().remove(0);
    bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
    let major = region::CompactionRequest { major: true, families: Vec::new() };
    region.compact(&major).expect("compacts");
    for (way, in_memory) in ways.iter().zip(in_memory) {
        let about = format!("{:?}, rows, limit of rows and size {way:?}", bench.codec);
        let copied = replies(way.0, way.1, way.2, None);
        assert_eq!(copied, replies(way.0, way.1, way.2, Some(u32::MAX)), "{about}");
        // The counted sizes of cells differ between memory and files, which shows where sizes of several cells are
        // added up.
        if way.2 != Some(1_000) {
            assert_eq!(copied, in_memory, "{about}");
        }
    }
}

/// A row was cut at a marker that masks the rest of the row, so only the next row shows that it is complete. From then
/// on it counts, and only the remaining number of rows is copied from a file.
#[test]
fn a_row_found_complete_counts_before_rows_are_copied() {
    let bench = Bench::new();
    bench.put("a", "f:x", &"1".repeat(1_000));
    bench.mutate(mutation(MutationType::Delete, "a", "f:y", "")).expect("a delete");
    for row in ["b", "c", "d", "e", "f", "g"] {
        bench.put(row, "f:x", "1");
    }
    let region = bench.server.regions().all().remove(0);
    bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
    let scan = || pb::Scan {
        column: vec![pb::Column { family: b"f".as_slice().into(), qualifier: Vec::new() }],
        max_result_size: Some(900),
        ..Default::default()
    };
    let (cut, cells) = bench.open(scan(), |request| request.limit_of_rows = Some(4));
    assert_eq!((rows(cells), cut.partial_flag_per_result), (vec!["a".into()], vec![true]));
    let request = pb::ScanRequest {
        scanner_id: cut.scanner_id,
        number_of_rows: Some(100),
        next_call_seq: Some(0),
        limit_of_rows: Some(4),
        client_handles_partials: Some(true),
        client_handles_heartbeats: Some(true),
        ..Default::default()
    };
    let (rest, cells) = bench.scan(request).expect("the rest");
    assert_eq!((rows(cells), rest.more_results), (["b", "c", "d"].map(String::from).to_vec(), Some(false)));
}

#[test]
fn a_limit_of_rows_ends_the_whole_scan() {
    let bench = Bench::new();
    bench.fill();
    let (response, cells) = bench.open(pb::Scan::default(), |request| request.limit_of_rows = Some(2));
    assert_eq!(rows(cells), ["a", "a", "b", "b"]);
    assert_eq!((response.more_results, response.more_results_in_region), (Some(false), Some(true)));
    assert_eq!(bench.server.open_scanners(), 0);
    // A row in two parts counts as one, even if only the next row shows its end.
    let (response, cells) = bench.open(pb::Scan { batch_size: Some(1), ..Default::default() }, |request| {
        request.limit_of_rows = Some(1);
    });
    assert_eq!((rows(cells), response.more_results), (vec!["a".into(), "a".into()], Some(false)));
}

#[test]
fn rows_are_cut_only_for_clients_of_partial_results() {
    let bench = Bench::new();
    bench.fill();
    let (batches, cells) = bench.open(pb::Scan { batch_size: Some(1), ..Default::default() }, |request| {
        request.number_of_rows = Some(3);
    });
    assert_eq!(
        (batches.cells_per_result, batches.partial_flag_per_result),
        (vec![1, 1, 1], vec![true, false, true])
    );
    assert_eq!(rows(cells), ["a", "a", "b"]);
    let small = || pb::Scan { max_result_size: Some(1), ..Default::default() };
    let (cut, cells) = bench.open(small(), |_| {});
    assert_eq!((rows(cells).len(), cut.partial_flag_per_result), (1, vec![true]));
    assert_eq!((cut.more_results_in_region, cut.heartbeat_message), (Some(true), None));
    let (rest, cells) = bench.next(cut.scanner_id.expect("an id"), 10, Some(0)).expect("the rest of the row");
    assert_eq!((rows(cells), rest.partial_flag_per_result), (vec!["a".into()], vec![false]));
    let (whole, cells) = bench.open(small(), |request| request.client_handles_partials = Some(false));
    assert_eq!((rows(cells).len(), whole.partial_flag_per_result), (2, vec![false]));
}

/// Expects the result of Apache HBase 2.6.4 for a scan from `n` in a region with the rows `n`, `p` and `z`.
#[test]
fn a_scan_beyond_the_region_returns_the_regions_rows() {
    let bench = Bench::with(Options::default(), &[("", "n"), ("n", "")]);
    for row in ["a", "c", "n", "p", "z"] {
        bench.put(row, "f:x", "1");
    }
    let read = |start: &'static str, stop: &'static str, change: &dyn Fn(&mut pb::Scan)| {
        let mut scan =
            pb::Scan { start_row: Some(start.into()), stop_row: Some(stop.into()), ..Default::default() };
        change(&mut scan);
        let region = Some(bench.region_of(b"n"));
        let (response, cells) = bench.open(scan, |request| request.region = region);
        assert_eq!((response.more_results, response.more_results_in_region), (Some(true), Some(false)));
        rows(cells).concat()
    };
    let plain = |_: &mut pb::Scan| {};
    let exclusive = |scan: &mut pb::Scan| scan.include_start_row = Some(false);
    let one = |scan: &mut pb::Scan| scan.include_stop_row = Some(true);
    assert_eq!(read("a", "", &plain), "npz");
    assert_eq!(read("a", "", &exclusive), "npz");
    assert_eq!(read("a", "i", &plain), "");
    assert_eq!(read("", "a", &plain), "");
    assert_eq!(read("h", "z", &plain), "np");
    assert_eq!(read("a", "a", &one), "");
    assert_eq!(read("p", "p", &one), "p");
    let reversed = |scan: &mut pb::Scan| scan.reversed = Some(true);
    let reversed_exclusive = |scan: &mut pb::Scan| {
        (scan.reversed, scan.include_start_row) = (Some(true), Some(false));
    };
    assert_eq!(read("z", "a", &reversed), "zpn");
    assert_eq!(read("n", "", &reversed), "n");
    assert_eq!(read("n", "", &reversed_exclusive), "");
    assert_eq!(read("g", "", &reversed), "");
    // In the previous region, a reversed scan with a start row after the region's end.
    let scan = pb::Scan { start_row: Some("z".into()), reversed: Some(true), ..Default::default() };
    assert_eq!(rows(bench.open(scan, |_| {}).1), ["c", "a"]);
    // The row of a Get must be in the region.
    let get = pb::GetRequest {
        region: bench.region_of(b"n"),
        get: pb::Get { row: "a".into(), ..Default::default() },
    };
    let refused = bench.client("Get", &get, Bytes::new()).expect_err("outside");
    assert_eq!(class(&refused), "WrongRegionException");
}

/// Expects the largest `maxResultSize` with which Apache HBase 2.6.4 returns this number of cells from memory.
#[test]
fn as_many_cells_fit_into_a_result_size_as_with_hbase() {
    let bench = Bench::new();
    let value = "v".repeat(1_024);
    for column in 0..55 {
        bench.put("row", format!("f:q{column:02}").leak(), &value);
    }
    for row in 0..20 {
        bench.put(format!("r{row:02}").leak(), "f:q", &value);
    }
    let fit = |start: &'static str, stop: &'static str, size: u64| {
        let scan = pb::Scan {
            start_row: Some(start.into()),
            stop_row: Some(stop.into()),
            max_result_size: Some(size),
            ..Default::default()
        };
        rows(bench.open(scan, |_| {}).1).len()
    };
    for (cells, size) in [(1, 1_088), (2, 2_176), (3, 3_264), (7, 7_616), (20, 21_760), (50, 54_400)] {
        let found = [fit("row", "rox", size), fit("row", "rox", size + 1)];
        assert_eq!(found, [cells, cells + 1], "cells of one row within {size} bytes");
    }
    for (rows, size) in [(1, 1_088), (2, 2_176), (3, 3_264), (7, 7_616), (15, 16_320)] {
        let found = [fit("r00", "r99", size), fit("r00", "r99", size + 1)];
        assert_eq!(found, [rows, rows + 1], "rows within {size} bytes");
    }
    // A client counts 32 bytes and the size for each cell, and expects as many cells as fit.
    for cells in 1..50 {
        assert_eq!(fit("row", "rox", cells * (32 + 1_051)), cells as usize, "{cells} cells");
    }
}

/// Tests the heartbeat that `client_service::scan::edge` describes.
#[test]
fn a_small_scan_at_a_region_edge_gets_a_heartbeat_first() {
    let bench = Bench::with(Options::default(), &[("", "n"), ("n", "")]);
    for row in ["a", "c", "n", "p"] {
        bench.put(row, "f:x", "1");
    }
    let open_as =
        |region: &'static [u8], scan: &dyn Fn(&mut pb::Scan), change: &dyn Fn(&mut pb::ScanRequest)| {
            let mut of_scan = pb::Scan { max_result_size: Some(1), ..Default::default() };
            scan(&mut of_scan);
            let (response, cells) = bench.open(of_scan, |request| {
                request.region = Some(bench.region_of(region));
                change(request);
            });
            let rows = rows(cells).concat();
            assert_ne!(response.heartbeat_message == Some(true), !rows.is_empty());
            (rows, response)
        };
    let from = |start: &'static str| move |scan: &mut pb::Scan| scan.start_row = Some(start.into());
    let plain = |_: &mut pb::ScanRequest| {};
    let (rows_at_once, heartbeat) = open_as(b"n", &from("n"), &plain);
    assert_eq!(rows_at_once, "");
    assert_eq!((heartbeat.more_results, heartbeat.more_results_in_region), (Some(true), Some(true)));
    assert!(heartbeat.mvcc_read_point.is_some() && heartbeat.ttl.is_some() && heartbeat.cursor.is_none());
    let (next, cells) = bench.next(heartbeat.scanner_id.expect("an id"), 10, Some(0)).expect("its rows");
    assert_eq!((rows(cells), next.heartbeat_message), (vec!["n".to_owned()], None));
    // In reverse the edge is the first row of the next region, which is excluded.
    let backwards = |include| {
        move |scan: &mut pb::Scan| {
            (scan.start_row, scan.include_start_row) = (Some("n".into()), Some(include));
            scan.reversed = Some(true);
        }
    };
    assert_eq!(open_as(b"", &backwards(false), &plain).0, "");
    assert_eq!(open_as(b"", &backwards(true), &plain).0, "c");
    // The first call of a scan, larger scans, clients without heartbeats, and single calls get their rows at once.
    assert_eq!(open_as(b"", &from(""), &plain).0, "a");
    assert_eq!(open_as(b"n", &from("nn"), &plain).0, "p");
    let of_size =
        |size| move |scan: &mut pb::Scan| (scan.start_row, scan.max_result_size) = (Some("n".into()), size);
    assert_eq!(open_as(b"n", &of_size(Some(64 << 10)), &plain).0, "np");
    assert_eq!(open_as(b"n", &of_size(None), &plain).0, "np");
    assert_eq!(open_as(b"n", &of_size(Some((64 << 10) - 1)), &plain).0, "");
    assert_eq!(open_as(b"n", &from("n"), &|request| request.client_handles_heartbeats = None).0, "n");
    assert_eq!(open_as(b"n", &from("n"), &|request| request.close_scanner = Some(true)).0, "n");
    let options = Options { edge_heartbeat_below: 0, ..Options::default() };
    let without = Bench::with(options, &[("", "n"), ("n", "")]);
    without.put("n", "f:x", "1");
    let scan = pb::Scan { start_row: Some("n".into()), max_result_size: Some(1), ..Default::default() };
    let region = Some(without.region_of(b"n"));
    assert_eq!(rows(without.open(scan, |request| request.region = region).1), ["n"]);
}

#[test]
fn leases_expire_unless_renewed() {
    let bench =
        Bench::with(Options { scanner_timeout: Duration::from_secs(10), ..Options::default() }, &[("", "")]);
    bench.fill();
    let open = || bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(1)).0;
    let (lost, kept) = (open(), open());
    assert_eq!(lost.ttl, Some(10_000));
    assert_ne!(lost.scanner_id, kept.scanner_id);
    bench.world.advance(Duration::from_secs(9));
    let renew = pb::ScanRequest { scanner_id: kept.scanner_id, renew: Some(true), ..Default::default() };
    bench.scan(renew).expect("renewed");
    bench.world.advance(Duration::from_secs(9));
    let id = |response: &pb::ScanResponse| response.scanner_id.expect("an id");
    assert_eq!(class(&bench.next(id(&lost), 1, Some(0)).expect_err("run out")), "UnknownScannerException");
    bench.next(id(&kept), 1, Some(0)).expect("kept");
    assert_eq!(bench.server.open_scanners(), 1);
    bench.world.advance(Duration::from_secs(10));
    bench.server.run_chore();
    assert_eq!(bench.server.open_scanners(), 0);
    assert_eq!(bench.server.counters().snapshot().scanner_leases_expired, 1);
}

#[test]
fn a_client_is_told_once_that_its_region_closed() {
    for opened_again in [false, true] {
        let bench = Bench::new();
        bench.fill();
        let (first, _) = bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(1));
        let id = first.scanner_id.expect("an id");
        let region = bench.server.regions().all().remove(0);
        bench.server.close_region(region.info().encoded_name(), None).expect("closes");
        assert_eq!(bench.server.open_scanners(), 0);
        if opened_again {
            bench.server.open_region(region.info().clone(), region.table().clone()).expect("opens");
        }
        let gone = bench.next(id, 1, Some(0)).expect_err("gone");
        assert_eq!(class(&gone), "NotServingRegionException");
        assert!(gone.message.starts_with("Region has changed on the scanner"), "{gone}");
        let unknown = bench.next(id, 1, Some(0)).expect_err("forgotten");
        assert_eq!(class(&unknown), "UnknownScannerException");
    }
}

#[test]
fn scanners_of_closed_regions_are_forgotten_after_a_lease() {
    let bench = Bench::new();
    bench.fill();
    let (first, _) = bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(1));
    let region = bench.server.regions().all().remove(0);
    bench.server.close_region(region.info().encoded_name(), None).expect("closes");
    bench.world.advance(Duration::from_secs(60));
    bench.server.run_chore();
    let unknown = bench.next(first.scanner_id.expect("an id"), 1, Some(0)).expect_err("forgotten");
    assert_eq!(class(&unknown), "UnknownScannerException");
}

#[test]
fn a_scan_continues_across_flushes_and_compactions() {
    let bench = Bench::new();
    bench.fill();
    let region = bench.server.regions().all().remove(0);
    let (first, cells) = bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(1));
    assert_eq!(rows(cells), ["a", "a"]);
    let id = first.scanner_id.expect("an id");
    let major = region::CompactionRequest { major: true, families: Vec::new() };
    let mut seen = Vec::new();
    for call in 0..3 {
        // This is written after the scan began, so the scan does not see it.
        bench.put("c", "f:z", "later");
        bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
        region.compact_memory(1.0);
        region.compact(&major).expect("compacts");
        let (_, cells) = bench.next(id, 1, Some(call)).expect("goes on");
        seen.extend(rows(cells));
    }
    assert_eq!(seen, ["b", "b", "c", "c", "d", "d"]);
    let (_, cells) = bench.open(pb::Scan::default(), |_| {});
    assert_eq!(rows(cells).len(), 9, "a new scan sees what came");
}

#[test]
fn an_expired_scanner_holds_no_files() {
    let bench = Bench::new();
    bench.fill();
    let region = bench.server.regions().all().remove(0);
    bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
    let free = std::sync::Arc::strong_count(&region);
    for _ in 0..10 {
        bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(1));
    }
    assert_eq!(bench.server.open_scanners(), 10);
    assert!(std::sync::Arc::strong_count(&region) > free, "they hold what they read");
    bench.world.advance(Duration::from_secs(59));
    bench.server.run_chore();
    assert_eq!(bench.server.open_scanners(), 10);
    bench.world.advance(Duration::from_secs(1));
    bench.server.run_chore();
    assert_eq!((bench.server.open_scanners(), std::sync::Arc::strong_count(&region)), (0, free));
}

#[test]
fn a_request_that_names_nothing_is_refused() {
    let bench = Bench::new();
    let nothing = bench.scan(pb::ScanRequest::default()).expect_err("nothing");
    assert_eq!(nothing.message, "Missing required input: scannerId or scan");
    let unknown = bench.next(12, 1, None).expect_err("unknown");
    assert!(unknown.message.starts_with("Unknown scanner '12'."));
    let nowhere = pb::ScanRequest { scan: Some(pb::Scan::default()), ..Default::default() };
    assert_eq!(class(&bench.scan(nowhere).expect_err("no region")), "NotServingRegionException");
}

#[test]
fn a_negative_number_of_rows_is_refused_and_keeps_the_scanner() {
    let bench = Bench::new();
    bench.fill();
    let (first, _) = bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(1));
    let id = first.scanner_id.expect("an id");
    let refused = bench.next(id, u32::MAX, Some(0)).expect_err("-1");
    assert_eq!((class(&refused), &refused.message[..]), ("IOException", "Illegal Capacity: -1"));
    let (_, cells) = bench.next(id, 1, Some(1)).expect("goes on");
    assert_eq!(rows(cells), ["b", "b"]);
}

#[test]
fn an_expired_client_deadline_closes_the_scanner() {
    let mut bench = Bench::new();
    bench.fill();
    bench.timeout = Some(Duration::from_secs(1));
    for (version, expected) in [((2, 6), "ScannerResetException"), ((1, 3), "UnknownScannerException")] {
        bench.version = Some(version);
        let (first, _) = bench.open(pb::Scan::default(), |request| request.number_of_rows = Some(1));
        let next = pb::ScanRequest {
            scanner_id: first.scanner_id,
            number_of_rows: Some(1),
            next_call_seq: Some(0),
            ..Default::default()
        };
        let call = bench.call("Scan", &next, Bytes::new());
        bench.world.advance(Duration::from_secs(2));
        let late = bench.send(call).expect_err("nobody listens");
        assert_eq!(class(&late), expected);
        assert!(late.message.contains("Client deadline exceeded"), "{late}");
        assert_eq!(bench.server.open_scanners(), 0);
    }
}

/// A slow pattern is evaluated on a thread for which no other client waits. The clock is read after the first cell.
#[test]
fn a_fruitless_scan_sends_heartbeats_within_a_row() {
    let options = Options { scan_time_min: Duration::ZERO, ..Options::default() };
    let mut bench = Bench::with(options, &[("", "")]);
    bench.fill();
    bench.timeout = Some(Duration::ZERO);
    let comparator = pb::RegexStringComparator {
        pattern: "none".to_owned(),
        charset: "UTF-8".to_owned(),
        ..pb::RegexStringComparator::default()
    };
    let compare_filter = pb::CompareFilter {
        compare_op: pb::CompareType::Equal as i32,
        comparator: Some(pb::Comparator {
            name: "org.apache.hadoop.hbase.filter.RegexStringComparator".to_owned(),
            serialized_comparator: Some(comparator.encode_to_vec().into()),
        }),
    };
    let filter = pb::Filter {
        name: "org.apache.hadoop.hbase.filter.QualifierFilter".to_owned(),
        serialized_filter: Some(pb::QualifierFilter { compare_filter }.encode_to_vec().into()),
    };
    let scan = pb::Scan { filter: Some(filter), need_cursor_result: Some(true), ..Default::default() };
    let (mut response, cells) = bench.open(scan, |_| {});
    assert!(cells.is_empty());
    let id = response.scanner_id.expect("an id");
    let mut cursors = Vec::new();
    while response.more_results_in_region() {
        assert!(response.heartbeat_message() && response.cells_per_result.is_empty());
        cursors.push(response.cursor.take().and_then(|cursor| cursor.row).expect("a cursor"));
        response = bench.next(id, 10, None).expect("goes on").0;
    }
    // Each row has two cells; the next call continues after the first of them.
    assert!(cursors.len() > 4, "{cursors:?}");
    assert_eq!((&cursors[0][..], &cursors[1][..]), (&b"a"[..], &b"a"[..]));
    // A client that cannot handle partial results waits for the end.
    let (whole, _) = bench.open(pb::Scan { filter: None, ..Default::default() }, |request| {
        request.client_handles_partials = Some(false)
    });
    assert_eq!((whole.heartbeat_message, whole.more_results_in_region), (None, Some(false)));
}

#[test]
fn scan_metrics_are_returned_on_request() {
    let bench = Bench::new();
    bench.fill();
    let (response, _) = bench.open(pb::Scan::default(), |request| request.track_scan_metrics = Some(true));
    let metrics = response.scan_metrics.expect("metrics").metrics;
    let value = |name: &str| metrics.iter().find(|pair| pair.name() == name).map(|pair| pair.value());
    assert_eq!((value("ROWS_SCANNED"), value("ROWS_FILTERED")), (Some(4), Some(0)));
    assert_eq!(value("BLOCK_BYTES_SCANNED"), Some(0), "all is in memory");
    let region = bench.server.regions().all().remove(0);
    bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
    let (response, _) = bench.open(pb::Scan::default(), |request| request.track_scan_metrics = Some(true));
    let metrics = response.scan_metrics.expect("metrics").metrics;
    let bytes = metrics.iter().find(|pair| pair.name() == "BLOCK_BYTES_SCANNED").map(|pair| pair.value());
    let uncompressed = region.load().sizes.uncompressed as i64;
    assert!(bytes.is_some_and(|bytes| bytes > 0 && bytes <= uncompressed), "{bytes:?} of {uncompressed}");
}
