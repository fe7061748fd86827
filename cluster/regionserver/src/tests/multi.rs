//! Tests of Multi.

use bytes::Bytes;
use pb::mutation_proto::MutationType;
use prost::Message;
use proto::pb;

use super::bench::{Bench, cells, class, equals, get, increment, mutation, shown, shown_message, specifier};
use crate::Options;

fn put(index: u32, row: &'static str, count: i32) -> pb::Action {
    let mutation = pb::MutationProto {
        row: Some(row.into()),
        mutate_type: Some(MutationType::Put as i32),
        associated_cell_count: Some(count),
        ..Default::default()
    };
    pb::Action { index: Some(index), mutation: Some(mutation), ..Default::default() }
}

fn read(index: u32, row: &'static str) -> pb::Action {
    pb::Action { index: Some(index), get: Some(get(row)), ..Default::default() }
}

fn one(index: u32, mutation: pb::MutationProto) -> pb::Action {
    pb::Action { index: Some(index), mutation: Some(mutation), ..Default::default() }
}

impl Bench {
    fn multi(&self, region_action: Vec<pb::RegionAction>, cells: Bytes) -> (pb::MultiResponse, Bytes) {
        let request = pb::MultiRequest { region_action, nonce_group: Some(5), condition: None };
        let reply = self.client("Multi", &request, cells).expect("an answer");
        (pb::MultiResponse::decode(reply.message).expect("the message"), reply.cells)
    }

    fn on(&self, row: &'static str, action: Vec<pb::Action>) -> pb::RegionAction {
        pb::RegionAction { region: self.region_of(row.as_bytes()), action, atomic: None, condition: None }
    }
}

fn indexes(result: &pb::RegionActionResult) -> Vec<u32> {
    result.result_or_exception.iter().map(|entry| entry.index.expect("an index")).collect()
}

#[test]
fn puts_consume_cells_in_order_and_each_has_a_result() {
    let bench = Bench::with(Options::default(), &[("", "m"), ("m", "")]);
    let actions =
        vec![bench.on("a", vec![put(1, "a", 2), put(3, "b", 1)]), bench.on("z", vec![put(2, "z", 1)])];
    let block = cells(&[("a", "f:x", "1"), ("a", "f:y", "2"), ("b", "f:x", "3"), ("z", "g:x", "4")]);
    let (response, reply) = bench.multi(actions, block);
    assert!(reply.is_empty() && response.processed.is_none());
    assert_eq!(response.region_action_result.len(), 2);
    assert_eq!(indexes(&response.region_action_result[0]), [1, 3], "indexes are echoed as they came");
    for result in &response.region_action_result {
        assert_eq!((result.processed, &result.exception), (None, &None));
        for entry in &result.result_or_exception {
            assert_eq!((&entry.result, &entry.exception), (&Some(pb::Result::default()), &None));
        }
    }
    assert_eq!(bench.row("a"), ["f:x=1", "f:y=2"]);
    assert_eq!((bench.row("b"), bench.row("z")), (vec!["f:x=3".into()], vec!["g:x=4".into()]));
}

#[test]
fn a_failed_region_action_consumes_its_cells() {
    let bench = Bench::new();
    let mut lost = bench.on("a", vec![put(0, "a", 1), put(1, "b", 1)]);
    lost.region.value = "t,,1.00000000000000000000000000000000.".into();
    let actions = vec![lost, bench.on("c", vec![put(2, "c", 1), put(3, "d", 1), put(4, "e", 1)])];
    // One row of the second region has an unknown family.
    let block = cells(&[
        ("a", "f:x", "1"),
        ("b", "f:x", "2"),
        ("c", "f:x", "3"),
        ("d", "no:x", "4"),
        ("e", "f:x", "5"),
    ]);
    let (response, _) = bench.multi(actions, block);
    let [lost, mixed] = &response.region_action_result[..] else { panic!("two results") };
    assert!(lost.result_or_exception.is_empty());
    let exception = lost.exception.as_ref().expect("an exception");
    assert!(exception.name.ends_with("NotServingRegionException"));
    assert!(exception.value.as_ref().expect("a text").starts_with(exception.name.as_bytes()));
    let outcome: Vec<_> = mixed.result_or_exception.iter().map(|entry| entry.exception.is_some()).collect();
    assert_eq!(outcome, [false, true, false]);
    assert!(mixed.result_or_exception[1].result.is_none());
    assert_eq!((bench.row("c"), bench.row("e")), (vec!["f:x=3".into()], vec!["f:x=5".into()]));
    assert!(bench.row("a").is_empty() && bench.row("d").is_empty());
}

#[test]
fn a_malformed_put_fails_all_puts_of_its_region_action() {
    let bench = Bench::new();
    let actions = vec![bench.on("a", vec![put(0, "a", 1), put(1, "b", 2), put(2, "c", 1)])];
    let (response, _) = bench.multi(actions, cells(&[("a", "f:x", "1"), ("b", "f:x", "2")]));
    let outcome: Vec<_> = response.region_action_result[0]
        .result_or_exception
        .iter()
        .map(|entry| entry.exception.is_some())
        .collect();
    // HBase decodes all actions on a region before it applies the first.
    assert_eq!(outcome, [true, true, true]);
    assert!(bench.row("a").is_empty());
}

#[test]
fn cells_are_returned_in_the_order_of_the_entries() {
    let bench = Bench::new();
    bench.put("a", "f:x", "1");
    bench.put("b", "f:x", "2");
    let exists = pb::Get { existence_only: Some(true), ..get("b") };
    let actions = vec![bench.on(
        "a",
        vec![
            read(0, "b"),
            one(1, increment("n", "f:n", 1)),
            read(2, "none"),
            pb::Action { index: Some(3), get: Some(exists), ..Default::default() },
            read(4, "a"),
        ],
    )];
    let (response, reply) = bench.multi(actions, Bytes::new());
    let entries = &response.region_action_result[0].result_or_exception;
    let counts: Vec<_> =
        entries.iter().map(|e| e.result.as_ref().expect("a result").associated_cell_count).collect();
    assert_eq!(counts, [Some(1), Some(1), Some(0), None, Some(1)]);
    assert_eq!(entries[3].result.as_ref().expect("a result").exists, Some(true));
    let one = format!("f:n={}", 1i64.to_be_bytes().escape_ascii());
    assert_eq!(shown(reply), ["f:x=2".to_owned(), one, "f:x=1".to_owned()]);
}

#[test]
fn a_get_sees_earlier_writes_of_its_call() {
    let bench = Bench::new();
    let actions = vec![
        bench.on("a", vec![put(0, "a", 1)]),
        bench.on("a", vec![read(1, "a"), one(2, mutation(MutationType::Append, "a", "f:x", "+"))]),
    ];
    let (response, reply) = bench.multi(actions, cells(&[("a", "f:x", "1")]));
    assert_eq!(response.region_action_result.len(), 2);
    assert_eq!(shown(reply), ["f:x=1", "f:x=1+"]);
}

#[test]
fn atomic_actions_set_processed_and_return_cells_in_the_message() {
    let bench = Bench::new();
    let mut atomic = bench.on("a", vec![put(0, "a", 1), one(0, increment("a", "f:n", 4))]);
    atomic.atomic = Some(true);
    let (response, reply) = bench.multi(vec![atomic], cells(&[("a", "f:x", "1")]));
    assert!(reply.is_empty());
    assert_eq!(response.processed, Some(true));
    let result = &response.region_action_result[0];
    assert_eq!((result.processed, indexes(result)), (Some(true), vec![0, 1]));
    let merged = &result.result_or_exception[0].result.as_ref().expect("a result").cell;
    assert_eq!(merged.iter().map(shown_message).collect::<Vec<_>>().len(), 1);
    assert_eq!(result.result_or_exception[1].result, Some(pb::Result::default()));
    let mut bad = bench.on("a", vec![put(0, "a", 1), read(0, "a")]);
    bad.atomic = Some(true);
    let (response, _) = bench.multi(vec![bad], cells(&[("a", "f:y", "1")]));
    let result = &response.region_action_result[0];
    assert!(
        result.exception.is_some() && result.result_or_exception.is_empty() && result.processed.is_none()
    );
    assert_eq!(bench.row("a").len(), 2, "nothing of it was written");
}

#[test]
fn conditional_actions_report_whether_they_were_applied() {
    let bench = Bench::new();
    bench.put("a", "f:x", "1");
    for (expected, held) in [("2", false), ("1", true)] {
        let mut action = bench.on("a", vec![put(0, "a", 1), put(0, "a", 1)]);
        action.atomic = Some(true);
        action.condition = Some(equals("a", "f:x", expected));
        let (response, _) = bench.multi(vec![action], cells(&[("a", "f:y", "1"), ("a", "f:z", "1")]));
        let result = &response.region_action_result[0];
        assert_eq!((result.processed, result.result_or_exception.len()), (Some(held), 2));
    }
    assert_eq!(bench.row("a"), ["f:x=1", "f:y=1", "f:z=1"]);
    // The request has the form that older clients send.
    let request = pb::MultiRequest {
        region_action: vec![pb::RegionAction { atomic: Some(true), ..bench.on("a", vec![put(0, "a", 1)]) }],
        nonce_group: None,
        condition: Some(equals("a", "f:x", "1")),
    };
    let reply = bench.client("Multi", &request, cells(&[("a", "f:old", "1")])).expect("an answer");
    let response = pb::MultiResponse::decode(reply.message).expect("the message");
    assert_eq!((response.processed, response.region_action_result[0].processed), (Some(true), None));
    assert_eq!(bench.row("a").len(), 4);
}

#[test]
fn a_reply_at_its_limit_refuses_the_remaining_actions() {
    let mut bench = Bench::with(Options { result_bytes_max: 100, ..Options::default() }, &[("", "")]);
    bench.put("a", "f:x", &"v".repeat(80));
    let actions = || vec![bench.on("a", vec![read(0, "a"), read(1, "a"), put(2, "p", 1)])];
    let (response, reply) = bench.multi(actions(), cells(&[("p", "f:x", "1")]));
    assert_eq!(shown(reply).len(), 1);
    let entries = &response.region_action_result[0].result_or_exception;
    for entry in &entries[1..] {
        assert!(entry.exception.as_ref().expect("too large").name.ends_with("MultiActionResultTooLarge"));
    }
    assert!(bench.row("p").is_empty());
    let actions = actions();
    bench.version = Some((1, 1));
    let (_, reply) = bench.multi(actions, cells(&[("p", "f:x", "1")]));
    assert_eq!(shown(reply).len(), 2, "an old client would not understand");
}

#[test]
fn a_reply_is_small_while_response_memory_is_short() {
    let mut bench = Bench::new();
    bench.put("a", "f:x", &"v".repeat(80 << 10));
    bench.answers = rpc::Answers::new(1 << 20);
    let mut others = bench.answers.share();
    assert!(others.admits(1 << 20));
    let (response, reply) = bench.multi(vec![bench.on("a", vec![read(0, "a"), read(1, "a")])], Bytes::new());
    assert_eq!(shown(reply).len(), 1);
    let refused = &response.region_action_result[0].result_or_exception[1].exception;
    assert!(refused.as_ref().expect("too large").name.ends_with("MultiActionResultTooLarge"));
    drop(others);
    let (_, reply) = bench.multi(vec![bench.on("a", vec![read(0, "a"), read(1, "a")])], Bytes::new());
    assert_eq!(shown(reply).len(), 2);
    assert_eq!(bench.answers.taken(), 0);
}

#[test]
fn a_full_reply_stays_full_until_its_end() {
    let mut bench = Bench::with(Options::default(), &[("", "m"), ("m", "")]);
    bench.put("a", "f:x", &"v".repeat(80 << 10));
    bench.answers = rpc::Answers::new(1 << 20);
    let mut others = bench.answers.share();
    assert!(others.admits(1 << 20));
    let append = |index, value| one(index, mutation(MutationType::Append, "a", "f:log", value));
    let actions = vec![
        bench.on("a", vec![read(0, "a"), read(1, "a"), read(2, "a"), append(3, "a"), append(4, "b")]),
        bench.on("p", vec![put(5, "p", 1), put(6, "p", 1)]),
    ];
    let (response, reply) = bench.multi(actions, cells(&[("p", "f:x", "1"), ("p", "f:x", "2")]));
    assert_eq!(shown(reply).len(), 1);
    let [first, second] = &response.region_action_result[..] else { panic!("two results") };
    for entry in first.result_or_exception[1..].iter().chain(&second.result_or_exception) {
        let refused = entry.exception.as_ref().expect("too large");
        assert!(refused.name.ends_with("MultiActionResultTooLarge"), "{refused:?}");
    }
    assert!(bench.row("p").is_empty() && bench.row("a").len() == 1, "a write after a refused one is refused");
}

/// The call of an endpoint waits for its own write, which is visible only after the increment.
#[test]
fn an_endpoint_does_not_wait_for_an_earlier_write_of_its_call() {
    let bench = Bench::new();
    let put = pb::MutationProto {
        durability: Some(pb::mutation_proto::Durability::AsyncWal as i32),
        ..mutation(MutationType::Put, "a", "f:x", "1")
    };
    let request = pb::MutateRowsRequest { mutation_request: vec![put], ..Default::default() };
    let call = pb::CoprocessorServiceCall {
        row: "a".into(),
        service_name: "MultiRowMutationService".to_owned(),
        method_name: "MutateRows".to_owned(),
        request: request.encode_to_vec().into(),
    };
    let call = pb::Action { index: Some(1), service_call: Some(call), ..Default::default() };
    let (response, _) =
        bench.multi(vec![bench.on("a", vec![one(0, increment("a", "f:n", 1)), call])], Bytes::new());
    let entries = &response.region_action_result[0].result_or_exception;
    assert!(entries.iter().all(|entry| entry.exception.is_none()), "{entries:?}");
    assert_eq!(bench.row("a").len(), 2);
}

#[test]
fn a_batch_of_many_rows_may_be_refused() {
    let options = Options { batch_rows_warning: 2, batch_rows_reject: true, ..Options::default() };
    let bench = Bench::with(options, &[("", "")]);
    let action = bench.on("a", vec![read(0, "a"), read(1, "a"), read(2, "a")]);
    let request = pb::MultiRequest { region_action: vec![action], nonce_group: None, condition: None };
    let refused = bench.client("Multi", &request, Bytes::new()).expect_err("three rows");
    assert!(refused.message.starts_with("Rejecting large batch operation"), "{refused}");
}

#[test]
fn multi_row_mutations_are_atomic() {
    let bench = Bench::with(Options::default(), &[("", "m"), ("m", "")]);
    let call = |rows: &[&'static str], service: &str, condition: Vec<pb::Condition>| {
        let request = pb::MutateRowsRequest {
            mutation_request: rows.iter().map(|row| mutation(MutationType::Put, row, "f:x", "1")).collect(),
            condition,
            ..Default::default()
        };
        let call = pb::CoprocessorServiceCall {
            row: rows[0].into(),
            service_name: service.to_owned(),
            method_name: "MutateRows".to_owned(),
            request: request.encode_to_vec().into(),
        };
        let region = bench.server.regions().all()[0].info().clone();
        let request = pb::CoprocessorServiceRequest { region: specifier(&region), call };
        let reply = bench.client("ExecService", &request, Bytes::new())?;
        let value = pb::CoprocessorServiceResponse::decode(reply.message).expect("the message").value;
        Ok::<_, rpc::Exception>(
            pb::MutateRowsResponse::decode(value.value.expect("bytes")).expect("its answer").processed,
        )
    };
    assert_eq!(call(&["a", "b"], "MultiRowMutationService", vec![]).expect("done"), Some(true));
    assert_eq!((bench.row("a").len(), bench.row("b").len()), (1, 1));
    let not = vec![equals("a", "f:x", "2")];
    assert_eq!(call(&["c"], "hbase.pb.MultiRowMutationService", not).expect("not done"), Some(false));
    assert!(bench.row("c").is_empty());
    assert_eq!(
        class(&call(&["z"], "MultiRowMutationService", vec![]).expect_err("elsewhere")),
        "WrongRegionException"
    );
    let torn = call(&["a", "z"], "MultiRowMutationService", vec![]).expect_err("two regions");
    assert_eq!(class(&torn), "DoNotRetryIOException");
    // A million mutations of two bytes.
    let call_of = |request: Vec<u8>| pb::CoprocessorServiceRequest {
        region: specifier(bench.server.regions().all()[0].info()),
        call: pb::CoprocessorServiceCall {
            row: "a".into(),
            service_name: "MultiRowMutationService".to_owned(),
            method_name: "MutateRows".to_owned(),
            request: request.into(),
        },
    };
    let refused = bench.client("ExecService", &call_of(b"\x0a\x00".repeat(1_000_000)), Bytes::new());
    let refused = refused.expect_err("they would take a hundred times as much memory");
    assert!(refused.do_not_retry && refused.message.starts_with("MutateRows is refused"), "{refused}");
    let unknown = call(&["a"], "AggregateService", vec![]).expect_err("not loaded");
    assert_eq!(class(&unknown), "UnknownProtocolException");
    let unknown = bench
        .client("ExecRegionServerService", &pb::CoprocessorServiceRequest::default(), Bytes::new())
        .expect_err("a server has no services of its own");
    assert_eq!((class(&unknown), unknown.do_not_retry), ("UnknownProtocolException", true));
}
