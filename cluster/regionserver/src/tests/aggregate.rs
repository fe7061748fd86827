//! Tests of AggregateService.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use proto::{RegionId, RegionInfo, TableDescriptor, pb};
use rpc::Exception;

use super::bench::{Bench, class, mutation, specifier, table};
use pb::mutation_proto::MutationType;

const LONG: &str = "org.apache.hadoop.hbase.client.coprocessor.LongColumnInterpreter";
const DECIMAL: &str = "org.apache.hadoop.hbase.client.coprocessor.BigDecimalColumnInterpreter";
const DOUBLE: &str = "org.apache.hadoop.hbase.client.coprocessor.DoubleColumnInterpreter";

/// Returns the region of table `numbers`, which names the endpoint.
fn region(bench: &Bench) -> RegionInfo {
    let mut numbers = TableDescriptor::new("numbers".parse().expect("a name"));
    for family in table().families() {
        numbers.set_family(family.clone());
    }
    let value = format!("|{}|805306366|", "org.apache.hadoop.hbase.coprocessor.AggregateImplementation");
    numbers.attributes_mut().set("coprocessor$1".into(), value.into());
    let name = "numbers".parse().expect("a name");
    let info = RegionInfo::new(name, Bytes::new(), Bytes::new(), RegionId(1)).expect("a region");
    bench.server.open_region(info.clone(), Arc::new(numbers)).expect("opened");
    info
}

fn put(bench: &Bench, region: &RegionInfo, row: &'static str, column: &'static str, value: &[u8]) {
    let mut mutation = mutation(MutationType::Put, row, column, "");
    mutation.column_value[0].qualifier_value[0].value = Some(Bytes::copy_from_slice(value));
    let request = pb::MutateRequest { region: specifier(region), mutation, ..Default::default() };
    bench.client("Mutate", &request, Bytes::new()).expect("a put");
}

fn call(
    bench: &Bench,
    region: &RegionInfo,
    (method, interpreter): (&str, &str),
    qualifiers: &[&'static str],
) -> Result<(Vec<Bytes>, Option<Bytes>), Exception> {
    let qualifier = qualifiers.iter().map(|&name| name.into()).collect();
    let scan = pb::Scan { column: vec![pb::Column { family: "f".into(), qualifier }], ..Default::default() };
    let request =
        pb::AggregateRequest { interpreter_class_name: interpreter.to_owned(), scan, ..Default::default() };
    let call = pb::CoprocessorServiceCall {
        row: Bytes::new(),
        service_name: "AggregateService".to_owned(),
        method_name: method.to_owned(),
        request: request.encode_to_vec().into(),
    };
    let request = pb::CoprocessorServiceRequest { region: specifier(region), call };
    let reply = bench.client("ExecService", &request, Bytes::new())?;
    let value = pb::CoprocessorServiceResponse::decode(reply.message).expect("the message").value;
    let response = pb::AggregateResponse::decode(value.value.expect("bytes")).expect("its answer");
    Ok((response.first_part, response.second_part))
}

#[test]
fn numbers_of_a_column_are_aggregated() {
    let bench = Bench::new();
    let region = region(&bench);
    for (row, number) in [("a", 5i64), ("b", -3), ("c", 10)] {
        put(&bench, &region, row, "f:n", &number.to_be_bytes());
        put(&bench, &region, row, "f:d", &(number as f64 / 2.0).to_be_bytes());
    }
    put(&bench, &region, "d", "f:n", b"no number");
    put(&bench, &region, "e", "g:n", b"another family");
    let longs = |method| {
        let (first, second) = call(&bench, &region, (method, LONG), &["n"]).expect("an answer");
        let number = |part: Bytes| pb::LongMsg::decode(part).expect("a number").long_msg;
        let count = |part: Bytes| i64::from_be_bytes(part[..].try_into().expect("8 bytes"));
        (first.into_iter().map(number).collect::<Vec<_>>(), second.map(count))
    };
    assert_eq!(longs("GetMax"), (vec![10], None));
    assert_eq!(longs("GetMin"), (vec![-3], None));
    assert_eq!(longs("GetSum"), (vec![12], None));
    assert_eq!(longs("GetAvg"), (vec![12], Some(4)));
    assert_eq!(longs("GetStd"), (vec![12, 134], Some(4)));
    assert_eq!(longs("GetMedian"), (vec![12, i64::MIN], None));
    let rows = call(&bench, &region, ("GetRowNum", LONG), &[]).expect("an answer");
    assert_eq!(rows.0, [Bytes::copy_from_slice(&4i64.to_be_bytes())]);
    let sum = call(&bench, &region, ("GetSum", DOUBLE), &["d"]).expect("an answer");
    assert_eq!(pb::DoubleMsg::decode(sum.0[0].clone()).expect("a number").double_msg, 6.0);
    let none = call(&bench, &region, ("GetSum", LONG), &["x"]).expect("an answer");
    assert_eq!(none, (Vec::new(), None), "no number");
}

#[test]
fn big_decimals_are_aggregated_and_values_that_are_none_are_named() {
    let bench = Bench::new();
    let region = region(&bench);
    // 1.25, -0.5 and 10: a scale of four bytes, and the unscaled number.
    for (row, value) in [("a", &[0, 0, 0, 2, 125][..]), ("b", &[0, 0, 0, 1, 0xfb]), ("c", &[0, 0, 0, 0, 10])]
    {
        put(&bench, &region, row, "f:n", value);
    }
    let decimals = |method| {
        let (first, _) = call(&bench, &region, (method, DECIMAL), &["n"]).expect("an answer");
        let number = |part: Bytes| pb::BigDecimalMsg::decode(part).expect("a number").bigdecimal_msg.to_vec();
        first.into_iter().map(number).collect::<Vec<_>>()
    };
    assert_eq!(decimals("GetMax"), [[0, 0, 0, 2, 3, 0xe8]], "10.00");
    assert_eq!(decimals("GetMin"), [[0, 0, 0, 2, 0xce]], "-0.50");
    assert_eq!(decimals("GetSum"), [[0, 0, 0, 2, 4, 0x33]], "10.75");
    assert_eq!(decimals("GetStd")[1], [0, 0, 0, 2, 0x27, 0xc5], "100 + 0.25 + 1.56, half to even");
    assert_eq!(decimals("GetMedian")[1], [0, 0, 1, 0x45, 49], "Double.MIN_VALUE");
    put(&bench, &region, "d", "f:n", b"1234");
    let refused = call(&bench, &region, ("GetMax", DECIMAL), &["n"]).expect_err("too short");
    assert!(refused.do_not_retry && refused.message.contains("row d"), "{refused}");
    let rows = call(&bench, &region, ("GetRowNum", DECIMAL), &["n"]).expect("no number is read");
    assert_eq!(rows.0, [Bytes::copy_from_slice(&4i64.to_be_bytes())]);
}

#[test]
fn what_cannot_be_aggregated_is_refused() {
    let bench = Bench::new();
    let numbers = region(&bench);
    let refused = |region: &RegionInfo, method, interpreter| {
        class(&call(&bench, region, (method, interpreter), &["n"]).expect_err(method)).to_owned()
    };
    assert_eq!(refused(&numbers, "GetMode", LONG), "UnknownProtocolException");
    assert_eq!(refused(&numbers, "GetMax", "com.example.MyInterpreter"), "DoNotRetryIOException");
    let other = bench.server.regions().all();
    let other = other.iter().find(|region| region.info().table().qualifier() == "t").expect("table t");
    assert_eq!(
        refused(other.info(), "GetMax", LONG),
        "UnknownProtocolException",
        "its table does not name the class"
    );
}
