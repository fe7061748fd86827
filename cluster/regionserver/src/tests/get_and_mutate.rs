//! Tests of Get and Mutate.

use std::sync::Arc;

use bytes::Bytes;
use pb::mutation_proto::MutationType;
use prost::Message;
use proto::pb;
use rpc::Codec;

use super::bench::{Bench, class, equals, get, increment, mutation, shown, specifier};
use crate::{MovedTo, Options};

#[test]
fn puts_are_read_with_and_without_a_codec() {
    let mut bench = Bench::new();
    bench.put("r", "f:a", "1");
    bench.put("r", "g:b", "2");
    for codec in [Codec::KeyValue, Codec::KeyValueWithTags, Codec::None] {
        bench.codec = codec;
        assert_eq!(bench.row("r"), ["f:a=1", "g:b=2"], "{codec:?}");
        assert!(bench.row("other").is_empty());
    }
    // A client of unknown version expects cells in the message, even with a codec.
    (bench.codec, bench.version) = (Codec::KeyValue, None);
    assert_eq!(bench.row("r"), ["f:a=1", "g:b=2"]);
}

#[test]
fn existence_is_answered_without_cells() {
    let bench = Bench::new();
    bench.put("r", "f:a", "1");
    for (row, exists) in [("r", true), ("s", false)] {
        let get = pb::Get { existence_only: Some(true), ..get(row) };
        let request = pb::GetRequest { region: bench.region_of(row.as_bytes()), get };
        let reply = bench.client("Get", &request, Bytes::new()).expect("a get");
        assert!(reply.cells.is_empty());
        let result = pb::GetResponse::decode(reply.message).expect("the message").result.expect("a result");
        assert_eq!((result.exists, result.cell.len(), result.associated_cell_count), (Some(exists), 0, None));
    }
}

#[test]
fn regions_are_found_by_both_names_and_missing_ones_reported() {
    let bench = Bench::new();
    bench.put("r", "f:a", "1");
    let region = bench.server.regions().all().remove(0);
    let encoded = pb::RegionSpecifier {
        r#type: pb::region_specifier::RegionSpecifierType::EncodedRegionName as i32,
        value: Bytes::copy_from_slice(region.info().encoded_name().as_str().as_bytes()),
    };
    let get = |specifier: pb::RegionSpecifier| {
        bench.client("Get", &pb::GetRequest { region: specifier, get: get("r") }, Bytes::new())
    };
    get(encoded.clone()).expect("found by its encoded name");
    let elsewhere = proto::ServerName { host: "there".into(), port: 7, start_code: 9 };
    let moved = MovedTo { server: elsewhere, sequence: 5 };
    assert!(bench.server.close_region(region.info().encoded_name(), Some(moved)).expect("closes"));
    let told = get(specifier(region.info())).expect_err("not here");
    assert_eq!(told.moved_to, Some(("there".to_owned(), 7)));
    assert!(told.message.ends_with("startCode=9. As of locationSeqNum=5."));
    // Nonces are forgotten after two minutes.
    bench.world.advance(std::time::Duration::from_secs(120));
    assert_eq!(class(&get(encoded).expect_err("not here")), "NotServingRegionException");
    bench.server.regions().begin_opening(region.info().encoded_name().clone(), region.info().name().clone());
    assert_eq!(class(&get(specifier(region.info())).expect_err("not yet")), "RegionOpeningException");
}

#[test]
fn refusals_have_hbases_classes() {
    let bench = Bench::with(Options::default(), &[("", "m"), ("m", "")]);
    let wrong = pb::GetRequest { region: bench.region_of(b"a"), get: get("z") };
    assert_eq!(
        class(&bench.client("Get", &wrong, Bytes::new()).expect_err("outside")),
        "WrongRegionException"
    );
    let family = bench.mutate(mutation(MutationType::Put, "r", "nope:a", "1")).expect_err("no such family");
    assert_eq!(class(&family), "NoSuchColumnFamilyException");
    assert!(family.do_not_retry);
    let old = pb::Get { closest_row_before: Some(true), ..get("a") };
    let old = pb::GetRequest { region: bench.region_of(b"a"), get: old };
    assert_eq!(
        class(&bench.client("Get", &old, Bytes::new()).expect_err("removed")),
        "UnknownProtocolException"
    );
    let unknown = bench.client("MakeCoffee", &pb::EmptyMsg {}, Bytes::new()).expect_err("no such");
    assert!(unknown.message.contains("UnsupportedOperationException") && unknown.do_not_retry);
    let garbage = pb::ClusterId { cluster_id: "no region".to_owned() };
    assert!(bench.client("Get", &garbage, Bytes::new()).expect_err("no message").do_not_retry);
    bench.server.stop();
    let stopped = bench.client("Get", &wrong, Bytes::new()).expect_err("stopping");
    assert_eq!(class(&stopped), "RegionServerStoppedException");
}

#[test]
fn cells_beyond_the_limit_are_refused() {
    let bench = Bench::with(Options { cell_bytes_max: 100, ..Options::default() }, &[("", "")]);
    let long =
        bench.mutate(mutation(MutationType::Put, "r", "f:a", &"x".repeat(100))).expect_err("too large");
    assert!(long.message.contains("exceeds limit of 100 bytes"), "{long}");
    bench.put("r", "f:a", "short");
}

#[test]
fn increments_and_appends_return_the_new_values() {
    let bench = Bench::new();
    for expected in [5i64, 10] {
        let (response, cells) = bench.mutate_if(increment("r", "f:n", 5), None).expect("an increment");
        assert_eq!(response.processed, None);
        let value = shown(cells);
        assert_eq!(value, [format!("f:n={}", expected.to_be_bytes().escape_ascii())]);
    }
    let (response, cells) =
        bench.mutate_if(mutation(MutationType::Append, "r", "f:s", "ab"), None).expect("an append");
    assert_eq!(
        (response.result.expect("a result").associated_cell_count, shown(cells)),
        (Some(1), vec!["f:s=ab".into()])
    );
    let mut quiet = mutation(MutationType::Append, "r", "f:s", "cd");
    quiet.attribute.push(pb::NameBytesPair { name: "_rr_".into(), value: Some(Bytes::from_static(&[0])) });
    let (response, cells) = bench.mutate_if(quiet, None).expect("an append");
    assert_eq!((response.result.expect("empty").associated_cell_count, cells.len()), (Some(0), 0));
    // An increment makes a value newer than the previous one, even if that is newer than the clock.
    bench.world.advance(std::time::Duration::from_millis(10));
    bench.put("r", "f:n", "not eight bytes");
    let error = bench.mutate(increment("r", "f:n", 1)).expect_err("no long");
    assert_eq!(error.message, "Field is not a long, it's 15 bytes wide");
}

#[test]
fn a_repeated_increment_is_applied_once() {
    let bench = Bench::new();
    let again = pb::MutationProto { nonce: Some(9), ..increment("r", "f:n", 5) };
    for _ in 0..3 {
        let (_, cells) = bench.mutate_if(again.clone(), None).expect("an increment");
        assert_eq!(shown(cells), [format!("f:n={}", 5i64.to_be_bytes().escape_ascii())]);
    }
    let other = pb::MutationProto { nonce: Some(10), ..again };
    let (_, cells) = bench.mutate_if(other, None).expect("an increment");
    assert_eq!(shown(cells), [format!("f:n={}", 10i64.to_be_bytes().escape_ascii())]);
}

#[test]
fn a_repetition_gets_the_first_result() {
    let bench = Bench::new();
    let number = |number: i64| [format!("f:n={}", number.to_be_bytes().escape_ascii())];
    let add = |nonce, amount| {
        let add = pb::MutationProto { nonce: Some(nonce), ..increment("r", "f:n", amount) };
        shown(bench.mutate_if(add, None).expect("an increment").1)
    };
    assert_eq!(add(9, 5), number(5));
    assert_eq!(add(10, 1), number(6));
    assert_eq!(add(9, 5), number(5), "as it was after the first, not as it is now");
    // The flush drops the first version; the response is the present row.
    let region = bench.server.regions().all().remove(0);
    bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
    bench.server.background.request_compaction(&region, true, Vec::new());
    crate::background::Background::compact_next(&bench.server);
    assert_eq!(add(9, 5), number(6));
}

#[test]
fn a_repetition_after_a_crash_is_recognised_from_the_log() {
    let bench = Bench::new();
    let number = |number: i64| [format!("f:n={}", number.to_be_bytes().escape_ascii())];
    let add = |bench: &Bench, nonce| {
        let add = pb::MutationProto { nonce: Some(nonce), ..increment("r", "f:n", 5) };
        shown(bench.mutate_if(add, None).expect("an increment").1)
    };
    let append = pb::MutationProto { nonce: Some(11), ..mutation(MutationType::Append, "r", "f:a", "x") };
    assert_eq!(add(&bench, 9), number(5));
    bench.mutate(append.clone()).expect("an append");
    // Log records of writes that are already in files also restore their nonces.
    let region = bench.server.regions().all().remove(0);
    region.flush(region::FlushReason::Requested).expect("flushes");
    assert_eq!(add(&bench, 10), number(10));
    drop(region);
    let bench = bench.kill();
    assert_eq!(add(&bench, 9), number(5));
    assert_eq!(add(&bench, 10), number(10));
    bench.mutate(append).expect("an append");
    assert_eq!(bench.row("r"), ["f:a=x".to_owned(), number(10)[0].clone()]);
    assert_eq!(add(&bench, 12), number(15), "a new one is new");
}

#[test]
fn a_repetition_after_a_flush_and_an_orderly_stop_is_recognised_from_the_log() {
    let mut bench = Bench::new();
    let number = |number: i64| [format!("f:n={}", number.to_be_bytes().escape_ascii())];
    let add = |bench: &Bench, nonce| {
        let add = pb::MutationProto { nonce: Some(nonce), ..increment("r", "f:n", 5) };
        shown(bench.mutate_if(add, None).expect("an increment").1)
    };
    assert_eq!(add(&bench, 9), number(5));
    for life in 1..=3 {
        let log = Arc::clone(&bench.server.foundation().log);
        // The file with the nonce has ended, and no region needs it any more.
        log.roll().expect("a new file");
        bench.server.regions().all().remove(0).flush(region::FlushReason::Requested).expect("flushes");
        log.tidy();
        log.close().expect("sound");
        bench = bench.kill();
        assert_eq!(add(&bench, 9), number(5), "life {life}");
    }
    assert_eq!(add(&bench, 10), number(10), "a new one is new");
}

#[test]
fn a_repetition_whose_version_is_gone_is_answered_with_the_present_row_and_never_with_an_older_one() {
    let bench = Bench::new();
    let add = |nonce| {
        let add = pb::MutationProto { nonce: Some(nonce), ..increment("r", "f:n", 5) };
        shown(bench.mutate_if(add, None).expect("an increment").1)
    };
    let number = |number: i64| [format!("f:n={}", number.to_be_bytes().escape_ascii())];
    let flush = || {
        let region = bench.server.regions().all().remove(0);
        region.flush(region::FlushReason::Requested).expect("flushes");
    };
    assert_eq!(add(9), number(5));
    flush();
    assert_eq!(add(10), number(10));
    assert_eq!(add(11), number(15));
    // One version is kept. The one written with nonce 10 is gone, while the older file still has the one of nonce 9.
    flush();
    assert_eq!(add(10), number(15));
    assert_eq!(add(9), number(5), "it is still there");
}

#[test]
fn an_abandoned_increment_is_not_applied_again() {
    let bench = Bench::new();
    let add = pb::MutationProto { nonce: Some(9), ..increment("r", "f:n", 5) };
    let request = pb::MutateRequest {
        region: bench.region_of(b"r"),
        mutation: add.clone(),
        condition: None,
        nonce_group: Some(77),
    };
    bench.begin_and_abandon(bench.call("Mutate", &request, Bytes::new()));
    for _ in 0..3 {
        let (_, cells) = bench.mutate_if(add.clone(), None).expect("an increment");
        assert_eq!(shown(cells), [format!("f:n={}", 5i64.to_be_bytes().escape_ascii())]);
    }
}

#[test]
fn a_failed_condition_is_evaluated_again() {
    let bench = Bench::new();
    let add = pb::MutationProto { nonce: Some(9), ..increment("r", "f:n", 5) };
    let condition = || Some(equals("r", "f:a", "1"));
    let (refused, _) = bench.mutate_if(add.clone(), condition()).expect("an answer");
    assert_eq!(refused.processed, Some(false));
    bench.put("r", "f:a", "1");
    let (done, _) = bench.mutate_if(add.clone(), condition()).expect("an answer");
    assert_eq!(done.processed, Some(true));
    bench.put("r", "f:a", "2");
    let (again, cells) = bench.mutate_if(add, condition()).expect("an answer");
    assert_eq!(again.processed, Some(true), "it was done");
    assert_eq!(shown(cells), [format!("f:n={}", 5i64.to_be_bytes().escape_ascii())]);
}

#[test]
fn conditions_decide_and_are_reported() {
    let bench = Bench::new();
    let put = |value| mutation(MutationType::Put, "r", "f:a", value);
    let (first, _) = bench.mutate_if(put("1"), Some(equals("r", "f:a", ""))).expect("absent");
    assert_eq!(first.processed, Some(true));
    let (second, _) = bench.mutate_if(put("2"), Some(equals("r", "f:a", ""))).expect("present");
    assert_eq!(second.processed, Some(false));
    let (third, _) = bench.mutate_if(put("3"), Some(equals("r", "f:a", "1"))).expect("as expected");
    assert_eq!(third.processed, Some(true));
    assert_eq!(bench.row("r"), ["f:a=3"]);
    let counted = bench.server.counters().snapshot();
    assert_eq!((counted.checks_passed, counted.checks_failed), (2, 1));
}

#[test]
fn a_condition_must_be_on_the_written_row() {
    let bench = Bench::new();
    bench.put("r", "f:a", "1");
    let put = mutation(MutationType::Put, "s", "f:a", "2");
    let refused = bench.mutate_if(put.clone(), Some(equals("r", "f:a", "1"))).expect_err("another row");
    assert!(refused.do_not_retry, "{refused}");
    assert_eq!(refused.message, "The row of the action <s> doesn't match the original one <r>");
    let action = |mutation| pb::Action { mutation: Some(mutation), ..Default::default() };
    let multi = |actions: Vec<pb::Action>, condition| {
        let region_action = pb::RegionAction {
            region: bench.region_of(b"r"),
            atomic: Some(true),
            action: actions,
            condition,
        };
        let request =
            pb::MultiRequest { region_action: vec![region_action], nonce_group: None, condition: None };
        let reply = bench.send(bench.call("Multi", &request, Bytes::new())).expect("an answer");
        let response = pb::MultiResponse::decode(reply.message).expect("the message");
        response.region_action_result[0].exception.clone().expect("refused").name
    };
    let named = multi(vec![action(put.clone())], Some(equals("r", "f:a", "1")));
    assert_eq!(named, "org.apache.hadoop.hbase.DoNotRetryIOException");
    let mixed = multi(vec![action(mutation(MutationType::Put, "r", "f:a", "3")), action(put)], None);
    assert_eq!(mixed, "org.apache.hadoop.hbase.client.WrongRowIOException");
    assert_eq!(
        (bench.row("r"), bench.row("s")),
        (vec!["f:a=1".to_owned()], Vec::new()),
        "nothing is written"
    );
}

#[test]
fn a_marker_of_the_whole_family_has_no_column() {
    let bench = Bench::new();
    bench.put("r", "f:a", "1");
    bench.put("r", "f:z", "2");
    let mut delete = mutation(MutationType::Delete, "r", "f:m", "");
    delete.column_value[0].qualifier_value[0].delete_type =
        Some(pb::mutation_proto::DeleteType::DeleteFamily as i32);
    bench.mutate(delete).expect("a delete");
    assert_eq!(bench.row("r"), [""; 0]);
}

#[test]
fn an_abandoned_write_holds_up_nobody() {
    let bench = Bench::new();
    for row in ["a", "b", "c"] {
        let request = pb::MutateRequest {
            region: bench.region_of(row.as_bytes()),
            mutation: mutation(MutationType::Put, row, "f:x", "1"),
            condition: None,
            nonce_group: None,
        };
        bench.send_and_abandon(bench.call("Mutate", &request, Bytes::new()));
    }
    // This write waits for less than the earlier ones, but becomes visible after them.
    let mut last = mutation(MutationType::Put, "d", "f:x", "1");
    last.durability = Some(pb::mutation_proto::Durability::SkipWal as i32);
    bench.mutate(last).expect("a put");
    for row in ["a", "b", "c", "d"] {
        assert_eq!(bench.row(row), ["f:x=1"], "{row}");
    }
}

#[test]
fn deletes_remove_cells() {
    let bench = Bench::new();
    bench.put("r", "f:a", "1");
    bench.put("r", "g:b", "2");
    let reply = bench.mutate(mutation(MutationType::Delete, "r", "f:a", "")).expect("a delete");
    assert_eq!(reply.processed, Some(true));
    assert_eq!(bench.row("r"), ["g:b=2"]);
    let mut row = mutation(MutationType::Delete, "r", "f:a", "");
    row.column_value.clear();
    bench.mutate(row).expect("a delete of the row");
    assert!(bench.row("r").is_empty());
}
