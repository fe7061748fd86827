//! Tests of the endpoints of HBase's examples: RowCountService, BulkDeleteService, RefreshHFilesService.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use proto::{RegionId, RegionInfo, TableDescriptor, pb};
use rpc::Exception;

use super::bench::{Bench, class, mutation, specifier, table};
use pb::mutation_proto::MutationType;

/// Returns the region of table `t1`, which names the three endpoints.
fn region(bench: &Bench) -> RegionInfo {
    let mut named = TableDescriptor::new("t1".parse().expect("a name"));
    for family in table().families() {
        named.set_family(family.clone().with("VERSIONS", 3));
    }
    for (at, endpoint) in
        ["RowCountEndpoint", "BulkDeleteEndpoint", "RefreshHFilesEndpoint"].iter().enumerate()
    {
        let value = format!("|org.apache.hadoop.hbase.coprocessor.example.{endpoint}|805306366|");
        named.attributes_mut().set(format!("coprocessor${at}").into(), value.into());
    }
    let name = "t1".parse().expect("a name");
    let info = RegionInfo::new(name, Bytes::new(), Bytes::new(), RegionId(1)).expect("a region");
    bench.server.open_region(info.clone(), Arc::new(named)).expect("opened");
    info
}

fn put(bench: &Bench, region: &RegionInfo, row: &'static str, column: &'static str, timestamp: u64) {
    let mut mutation = mutation(MutationType::Put, row, column, "v");
    mutation.column_value[0].qualifier_value[0].timestamp = Some(timestamp);
    let request = pb::MutateRequest { region: specifier(region), mutation, ..Default::default() };
    bench.client("Mutate", &request, Bytes::new()).expect("a put");
}

fn call(
    bench: &Bench,
    region: &RegionInfo,
    service: &str,
    method: &str,
    request: Vec<u8>,
) -> Result<Bytes, Exception> {
    let call = pb::CoprocessorServiceCall {
        row: Bytes::new(),
        service_name: service.to_owned(),
        method_name: method.to_owned(),
        request: request.into(),
    };
    let request = pb::CoprocessorServiceRequest { region: specifier(region), call };
    let reply = bench.client("ExecService", &request, Bytes::new())?;
    let value = pb::CoprocessorServiceResponse::decode(reply.message).expect("the message").value;
    Ok(value.value.expect("bytes"))
}

/// Returns the numbers of rows and cells that RowCountService counts.
fn counts(bench: &Bench, region: &RegionInfo) -> (i64, i64) {
    let count = |method| {
        let answer = call(bench, region, "hbase.pb.RowCountService", method, Vec::new()).expect("an answer");
        pb::LongMsg::decode(answer).expect("a number").long_msg
    };
    (count("getRowCount"), count("getKeyValueCount"))
}

/// Returns a request in HBase's bytes: the scan, the type of deletion, a timestamp, and the number of rows in a batch.
fn delete(
    bench: &Bench,
    region: &RegionInfo,
    scan: pb::Scan,
    (kind, timestamp): (i32, Option<u64>),
) -> Result<(u64, Option<u64>), Exception> {
    #[derive(Clone, PartialEq, Message)]
    struct Request {
        #[prost(message, required, tag = "1")]
        scan: pb::Scan,
        #[prost(int32, required, tag = "2")]
        kind: i32,
        #[prost(uint64, optional, tag = "3")]
        timestamp: Option<u64>,
        #[prost(uint32, required, tag = "4")]
        rows: u32,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Response {
        #[prost(uint64, required, tag = "1")]
        rows: u64,
        #[prost(uint64, optional, tag = "2")]
        versions: Option<u64>,
    }
    let request = Request { scan, kind, timestamp, rows: 2 }.encode_to_vec();
    let answer = call(bench, region, "BulkDeleteService", "delete", request)?;
    let response = Response::decode(answer).expect("the message");
    Ok((response.rows, response.versions))
}

/// Writes five rows; each has `f:a` in two versions, and `g:b`.
fn filled(bench: &Bench) -> RegionInfo {
    let region = region(bench);
    for row in ["1", "2", "3", "4", "5"] {
        put(bench, &region, row, "f:a", 10);
        put(bench, &region, row, "f:a", 20);
        put(bench, &region, row, "g:b", 10);
    }
    region
}

fn scan_of(family: &'static str, qualifier: &'static str, versions: u32) -> pb::Scan {
    let column = pb::Column { family: family.into(), qualifier: vec![qualifier.into()] };
    pb::Scan { column: vec![column], max_versions: Some(versions), ..Default::default() }
}

#[test]
fn rows_and_cells_of_a_region_are_counted() {
    let bench = Bench::new();
    let region = filled(&bench);
    assert_eq!(counts(&bench, &region), (5, 10));
    let refused = call(&bench, &region, "RowCountService", "getNothing", Vec::new()).expect_err("no method");
    assert_eq!(class(&refused), "UnknownProtocolException");
}

#[test]
fn rows_that_a_scan_finds_are_deleted_in_batches() {
    let bench = Bench::new();
    let region = filled(&bench);
    let scan = pb::Scan { start_row: Some("2".into()), ..Default::default() };
    assert_eq!(delete(&bench, &region, scan, (0, None)), Ok((4, None)));
    assert_eq!(counts(&bench, &region), (1, 2));
    let refused = delete(&bench, &region, pb::Scan::default(), (4, None)).expect_err("no such type");
    assert!(refused.do_not_retry && refused.message.contains("0 to 3"), "{refused}");
}

#[test]
fn families_columns_and_versions_are_deleted() {
    let bench = Bench::new();
    let region = filled(&bench);
    // Deletes the newest version of each row's column. Then the older version can be seen.
    assert_eq!(delete(&bench, &region, scan_of("f", "a", 1), (3, None)), Ok((5, Some(5))));
    assert_eq!(counts(&bench, &region), (5, 10));
    assert_eq!(delete(&bench, &region, scan_of("f", "a", 9), (3, Some(10))), Ok((5, Some(5))));
    assert_eq!(counts(&bench, &region), (5, 5));
    assert_eq!(delete(&bench, &region, scan_of("g", "b", 1), (2, Some(9))), Ok((5, None)));
    assert_eq!(counts(&bench, &region), (5, 5), "the cells are newer");
    assert_eq!(delete(&bench, &region, scan_of("g", "b", 1), (1, None)), Ok((5, None)));
    assert_eq!(counts(&bench, &region), (0, 0));
    assert_eq!(delete(&bench, &region, scan_of("g", "b", 1), (1, None)), Ok((0, None)));
}

#[test]
fn refreshing_files_is_answered_where_the_table_names_it() {
    let bench = Bench::new();
    let region = region(&bench);
    let answer = call(&bench, &region, "RefreshHFilesService", "refreshHFiles", Vec::new());
    assert_eq!(answer, Ok(Bytes::new()));
}
