//! RowCountService: counts the rows and cells of a region, for tables that name the endpoint
//! `org.apache.hadoop.hbase.coprocessor.example.RowCountEndpoint` of HBase's examples.
//!
//! The request is empty, and the answer is one number, in the bytes of HBase's `LongMsg`.

use std::sync::Arc;

use cell::Cell;
use proto::pb;
use region::{CellSink, Limits, ReadMode, Region, Scan};
use rpc::Exception;

use super::unknown_method;
use crate::RegionServer;

/// The Java class that a table names to have this endpoint.
pub(super) const CLASS: &str = "org.apache.hadoop.hbase.coprocessor.example.RowCountEndpoint";

/// Counts over the rows read so far.
#[derive(Default)]
struct Counts {
    rows: i64,
    cells: i64,
    row_has_cells: bool,
}

impl CellSink for Counts {
    fn cell(&mut self, _: Cell<'_>) {
        self.cells += 1;
        self.row_has_cells = true;
    }
}

impl Counts {
    fn end_row(&mut self) {
        self.rows += i64::from(std::mem::take(&mut self.row_has_cells));
    }
}

/// Answers a method of the service. Blocks until the rows are read.
pub(super) fn answer(
    server: &RegionServer,
    region: &Arc<Region>,
    method: &str,
) -> Result<pb::LongMsg, Exception> {
    let is_of_rows = match method {
        "getRowCount" => true,
        "getKeyValueCount" => false,
        _ => return Err(unknown_method("RowCountService", method, region)),
    };
    // If only rows are counted, it is enough to read one cell of each family.
    let scan = Scan { store_limit: is_of_rows.then_some(1), ..Scan::default() };
    let mut counts = Counts::default();
    let count = || {
        let mut scanner = region.scanner(scan)?;
        loop {
            let step = scanner.next_row(&Limits::NONE, &mut counts, ReadMode::Any)?;
            if !step.partial || !step.more {
                counts.end_row();
            }
            if !step.more {
                return Ok(());
            }
        }
    };
    count().map_err(|error: region::Error| server.exception(&error))?;
    Ok(pb::LongMsg { long_msg: if is_of_rows { counts.rows } else { counts.cells } })
}
