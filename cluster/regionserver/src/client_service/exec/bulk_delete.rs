//! BulkDeleteService: deletes the rows or cells that a scan finds in a region. For tables that name the endpoint
//! `org.apache.hadoop.hbase.coprocessor.example.BulkDeleteEndpoint` of HBase's examples.
//!
//! | type | deletes of each row that the scan finds |
//! |---|---|
//! | ROW | the whole row |
//! | FAMILY | the families of the cells found |
//! | COLUMN | all versions of the columns found |
//! | VERSION | the versions found; with a timestamp, that version of the columns found |
//!
//! Rows are deleted in batches. Each batch is one write of the region, and has all deletes of its rows. One scanner
//! reads all batches. So filters count over all of them, and the scan does not find rows that are written meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cell::Cell;
use prost::Message;
use proto::pb;
use proto::pb::mutation_proto::{ColumnValue, DeleteType, MutationType};
use region::{CellSink, Limits, ReadMode, Region, RegionScanner};
use rpc::Exception;

use super::unknown_method;
use crate::RegionServer;
use crate::request::{self, RequestCells};

/// The Java class that a table names to have this endpoint.
pub(super) const CLASS: &str = "org.apache.hadoop.hbase.coprocessor.example.BulkDeleteEndpoint";

/// Maximum number of rows in a batch, whatever the client asks for, because all deletes of a batch are in memory.
const ROWS_MAX: usize = 10_000;

/// The fields of HBase's `BulkDeleteRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BulkDelete {
    #[prost(message, required, tag = "1")]
    pub(super) scan: pb::Scan,
    /// The type of deletion: ROW 0, FAMILY 1, COLUMN 2, VERSION 3.
    #[prost(int32, required, tag = "2")]
    pub(super) kind: i32,
    #[prost(uint64, optional, tag = "3")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, required, tag = "4")]
    pub(super) rows_of_batch: u32,
}

/// The fields of HBase's `BulkDeleteResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BulkDeleteResponse {
    #[prost(uint64, required, tag = "1")]
    pub(super) rows: u64,
    #[prost(uint64, optional, tag = "2")]
    pub(super) versions: Option<u64>,
}

/// The part of a row that is deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Row,
    Family,
    Column,
    Version,
}

/// A column's family and qualifier, and the timestamp if only one version is deleted.
type Target = (Bytes, Bytes, Option<u64>);

/// The deletes of one batch of rows.
struct Batch {
    kind: Kind,
    timestamp: Option<u64>,
    row: Option<Bytes>,
    targets: BTreeSet<Target>,
    deletes: Vec<pb::MutationProto>,
    versions: u64,
}

impl CellSink for Batch {
    fn cell(&mut self, cell: Cell<'_>) {
        if self.row.is_none() {
            self.row = Some(Bytes::copy_from_slice(cell.row()));
        }
        let family = Bytes::copy_from_slice(cell.family());
        let qualifier = || Bytes::copy_from_slice(cell.qualifier());
        self.targets.insert(match self.kind {
            Kind::Row => return,
            Kind::Family => (family, Bytes::new(), self.timestamp),
            Kind::Column => (family, qualifier(), self.timestamp),
            Kind::Version => {
                let found = u64::try_from(cell.timestamp().0).unwrap_or(0);
                (family, qualifier(), Some(self.timestamp.unwrap_or(found)))
            }
        });
    }
}

impl Batch {
    fn end_row(&mut self) {
        let Some(row) = self.row.take() else { return };
        let targets = std::mem::take(&mut self.targets);
        if self.kind == Kind::Version {
            self.versions += targets.len() as u64;
        }
        let delete_type = match self.kind {
            Kind::Row | Kind::Family => DeleteType::DeleteFamily,
            Kind::Column => DeleteType::DeleteMultipleVersions,
            Kind::Version => DeleteType::DeleteOneVersion,
        };
        let column = |(family, qualifier, timestamp): Target| ColumnValue {
            family,
            qualifier_value: vec![pb::mutation_proto::column_value::QualifierValue {
                qualifier: Some(qualifier),
                timestamp,
                delete_type: Some(delete_type as i32),
                ..Default::default()
            }],
        };
        self.deletes.push(pb::MutationProto {
            row: Some(row),
            mutate_type: Some(MutationType::Delete as i32),
            column_value: targets.into_iter().map(column).collect(),
            timestamp: self.timestamp,
            ..Default::default()
        });
    }
}

/// Answers a method of the service. Blocks until everything is deleted and durable.
pub(super) fn answer(
    server: &RegionServer,
    region: &Arc<Region>,
    method: &str,
    request: &BulkDelete,
) -> Result<BulkDeleteResponse, Exception> {
    if method != "delete" {
        return Err(unknown_method("BulkDeleteService", method, region));
    }
    let kind = match request.kind {
        0 => Kind::Row,
        1 => Kind::Family,
        2 => Kind::Column,
        3 => Kind::Version,
        other => {
            return Err(Exception::do_not_retry(format!("the type of deletion is {other}, expected 0 to 3")));
        }
    };
    let rows_max = usize::try_from(request.rows_of_batch).unwrap_or(ROWS_MAX).clamp(1, ROWS_MAX);
    let options = server.options();
    let scan = request::scan(&region.table(), &request.scan, &server.foundation().world)?;
    let mut scanner = region.scanner(scan).map_err(|error| server.exception(&error))?;
    let mut deleted = BulkDeleteResponse { rows: 0, versions: (kind == Kind::Version).then_some(0) };
    loop {
        let timestamp = request.timestamp;
        let (row, targets, deletes) = (None, BTreeSet::new(), Vec::new());
        let mut batch = Batch { kind, timestamp, row, targets, deletes, versions: 0 };
        let more = read(&mut scanner, &mut batch, rows_max).map_err(|error| server.exception(&error))?;
        if !batch.deletes.is_empty() {
            server.check_memory(&options, region)?;
            let mut no_cells = RequestCells::new(Bytes::new());
            let mutations = batch.deletes.iter().map(|delete| {
                let table = region.table();
                let limit = options.cell_bytes_max;
                Ok(request::mutation(&table, delete.row.clone(), delete, &mut no_cells, limit)?.mutation)
            });
            let mutations: Vec<region::Mutation> = mutations.collect::<Result<_, Exception>>()?;
            let applied =
                region.apply(&mutations, ReadMode::Any).map_err(|error| server.exception(&error))?;
            server.written(region);
            applied.pending.wait_blocking().map_err(|error| server.exception(&error))?;
            for outcome in applied.outcomes {
                outcome.map_err(|error| server.exception(&error))?;
            }
            deleted.rows += batch.deletes.len() as u64;
            deleted.versions = deleted.versions.map(|versions| versions + batch.versions);
        }
        if !more {
            return Ok(deleted);
        }
    }
}

/// Reads up to `rows_max` rows with cells. Returns whether there may be more.
fn read(scanner: &mut RegionScanner<'_>, batch: &mut Batch, rows_max: usize) -> region::Result<bool> {
    loop {
        let step = scanner.next_row(&Limits::NONE, batch, ReadMode::Any)?;
        if !step.partial || !step.more {
            batch.end_row();
        }
        if !step.more {
            return Ok(false);
        }
        if batch.deletes.len() >= rows_max {
            return Ok(true);
        }
    }
}
