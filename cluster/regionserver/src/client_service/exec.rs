//! ExecService: calls of the coprocessor endpoints that this server has.
//!
//! As in HBase, MultiRowMutationService is in every region. AggregateService is in regions whose table names its class.
//! So are RowCountService, BulkDeleteService and RefreshHFilesService of HBase's examples. RefreshHFilesService is also
//! in every region of a read replica, because HBase 2 has no other call for that. The code of users cannot be loaded.
//! The service may be named with or without its package.

mod aggregate;
mod bulk_delete;
mod decimal;
mod row_count;

use std::sync::Arc;

use bytes::Bytes;
use cell::string_binary;
use prost::Message;
use proto::pb;
use region::{Check, Mutation, ReadMode, Region};
use rpc::{Answer, Call, Exception, Reply, class};

use super::blocking_on_region;
use crate::RegionServer;
use crate::request::{self, RequestCells, size_limit};

/// Answers a call of an endpoint.
pub(super) fn answer(server: &Arc<RegionServer>, call: &Call) -> Answer {
    let region_of: fn(&pb::CoprocessorServiceRequest) -> &pb::RegionSpecifier = |request| &request.region;
    blocking_on_region(server, call, region_of, |server, region, request| {
        let value = run_blocking(server, region, &request.call)?;
        let specifier = pb::RegionSpecifier {
            r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
            value: region.info().name().clone(),
        };
        Ok(Reply::of(&pb::CoprocessorServiceResponse { region: specifier, value }))
    })
}

/// Runs an endpoint until its writes are durable. Returns the class and bytes of the response.
pub(super) fn run_blocking(
    server: &RegionServer,
    region: &Arc<Region>,
    call: &pb::CoprocessorServiceCall,
) -> Result<pb::NameBytesPair, Exception> {
    let service = call.service_name.strip_prefix("hbase.pb.").unwrap_or(&call.service_name);
    match (service, &*call.method_name) {
        ("MultiRowMutationService", "MutateRows") => {
            // Each mutation exists as a message and in the form in which it is applied.
            let each = size_of::<pb::MutationProto>() + size_of::<Mutation>();
            size_limit::check_list(&call.request, 1, each)
                .map_err(|error| Exception::do_not_retry(format!("MutateRows is refused: {error}")))?;
            let request = pb::MutateRowsRequest::decode(call.request.clone()).map_err(|error| {
                Exception::do_not_retry(format!("unable to read MutateRowsRequest: {error}"))
            })?;
            let response = mutate_rows(server, region, &request)?;
            Ok(pb::NameBytesPair {
                name: "org.apache.hadoop.hbase.shaded.protobuf.generated.MultiRowMutationProtos$MutateRowsResponse"
                    .to_owned(),
                value: Some(response.encode_to_vec().into()),
            })
        }
        ("AggregateService", method) if names_class(region, aggregate::CLASS) => {
            let request = pb::AggregateRequest::decode(call.request.clone()).map_err(|error| {
                Exception::do_not_retry(format!("unable to read AggregateRequest: {error}"))
            })?;
            let response = aggregate::answer(server, region, method, &request)?;
            Ok(pb::NameBytesPair {
                name: "org.apache.hadoop.hbase.shaded.protobuf.generated.AggregateProtos$AggregateResponse"
                    .to_owned(),
                value: Some(response.encode_to_vec().into()),
            })
        }
        ("RowCountService", method) if names_class(region, row_count::CLASS) => {
            let response = row_count::answer(server, region, method)?;
            Ok(pb::NameBytesPair {
                name: format!("{EXAMPLES}ExampleProtos$CountResponse"),
                value: Some(response.encode_to_vec().into()),
            })
        }
        ("BulkDeleteService", method) if names_class(region, bulk_delete::CLASS) => {
            let request = bulk_delete::BulkDelete::decode(call.request.clone()).map_err(|error| {
                Exception::do_not_retry(format!("unable to read BulkDeleteRequest: {error}"))
            })?;
            let response = bulk_delete::answer(server, region, method, &request)?;
            Ok(pb::NameBytesPair {
                name: format!("{EXAMPLES}BulkDeleteProtos$BulkDeleteResponse"),
                value: Some(response.encode_to_vec().into()),
            })
        }
        ("RefreshHFilesService", "refreshHFiles")
            if server.replica().is_some() || names_class(region, REFRESH_CLASS) =>
        {
            refresh(server)?;
            Ok(pb::NameBytesPair {
                name: format!("{EXAMPLES}RefreshHFilesProtos$RefreshHFilesResponse"),
                value: Some(Bytes::new()),
            })
        }
        ("MultiRowMutationService", method) => Err(unknown_method(service, method, region)),
        _ => Err(Exception::new(
            class::UNKNOWN_PROTOCOL,
            format!(
                "No registered coprocessor service found for {} in region {}",
                call.service_name,
                region.info()
            ),
        )),
    }
}

/// Answers a call of an endpoint of the server itself, of which there are none.
pub(super) fn answer_of_server(call: &Call) -> Answer {
    let refusal = call.decode().map_or_else(
        |malformed| malformed,
        |request: pb::CoprocessorServiceRequest| {
            let service = request.call.service_name;
            let words = format!("No registered coprocessor service found for {service} on this server");
            Exception::new(class::UNKNOWN_PROTOCOL, words)
        },
    );
    refusal.into()
}

/// Waits, on a read replica, until everything that the primary had acknowledged is visible. On any other server this
/// does nothing: only the open region changes its file lists, so it knows all files.
fn refresh(server: &RegionServer) -> Result<(), Exception> {
    let Some(replica) = server.replica() else { return Ok(()) };
    replica.refresh().map_err(Exception::io)
}

/// The Java package of the messages of HBase's examples.
const EXAMPLES: &str = "org.apache.hadoop.hbase.shaded.coprocessor.example.generated.";
/// The Java class that a table names so that its regions have RefreshHFilesService.
const REFRESH_CLASS: &str = "org.apache.hadoop.hbase.coprocessor.example.RefreshHFilesEndpoint";

fn unknown_method(service: &str, method: &str, region: &Region) -> Exception {
    Exception::new(
        class::UNKNOWN_PROTOCOL,
        format!("Unknown method {method} called on service {service} in region {}", region.info()),
    )
}

/// Whether the region's table names the Java class of an endpoint: `coprocessor$1 => 'PATH|CLASS|PRIORITY|ARGUMENTS'`.
fn names_class(region: &Region, class: &str) -> bool {
    region.table().attributes().iter().any(|(key, value)| {
        key.to_ascii_lowercase().starts_with(b"coprocessor$")
            && value
                .split(|byte| *byte == b'|')
                .nth(1)
                .is_some_and(|named| named.trim_ascii() == class.as_bytes())
    })
}

/// Applies mutations of several rows of one region atomically.
fn mutate_rows(
    server: &RegionServer,
    region: &Arc<Region>,
    request: &pb::MutateRowsRequest,
) -> Result<pb::MutateRowsResponse, Exception> {
    let mut mutations: Vec<Mutation> = Vec::with_capacity(request.mutation_request.len());
    let mut no_cells = RequestCells::new(Bytes::new());
    let options = server.options();
    for proto in &request.mutation_request {
        let asked = request::mutation(
            &region.table(),
            proto.row.clone(),
            proto,
            &mut no_cells,
            options.cell_bytes_max,
        )?;
        if !region.info().contains_row(&asked.mutation.row) {
            let message = format!("Requested row out of range '{}'", string_binary(&asked.mutation.row));
            // If no mutation is before it, this is the first row: the region has moved, and the client looks it up
            // again. If a later row is outside the region, the rows are in several regions, which is an error.
            return Err(match mutations.is_empty() {
                true => Exception::new(class::WRONG_REGION, message),
                false => Exception::do_not_retry(message),
            });
        }
        mutations.push(asked.mutation);
    }
    server.check_memory(&options, region)?;
    let checks: Vec<Check> = request
        .condition
        .iter()
        .map(|condition| request::condition(condition, &server.foundation().world))
        .collect::<Result<_, _>>()?;
    let checked =
        region.mutate_rows(&checks, &mutations, ReadMode::Any).map_err(|error| server.exception(&error))?;
    server.written(region);
    checked.pending.wait_blocking().map_err(|error| server.exception(&error))?;
    Ok(pb::MutateRowsResponse { processed: Some(checked.passed) })
}
