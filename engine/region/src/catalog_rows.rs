//! Reads all rows of a small table, such as those of the catalog.

use std::sync::Arc;

use bytes::Bytes;
use cell::Cell;
use proto::catalog::{CatalogRow, Column};

use crate::{CellSink, Limits, ReadMode, Region, Result, Scan};

/// Returns all rows of a region at once. For small tables, such as hbase:meta.
pub fn catalog_rows(region: &Arc<Region>) -> Result<Vec<CatalogRow>> {
    let mut rows = Rows::default();
    let mut scanner = region.scanner(Scan::default())?;
    while scanner.next_row(&Limits::NONE, &mut rows, ReadMode::Any)?.more {}
    Ok(rows.0)
}

/// A sink that groups cells into rows.
#[derive(Default)]
struct Rows(Vec<CatalogRow>);

impl CellSink for Rows {
    fn cell(&mut self, cell: Cell<'_>) {
        let part = Bytes::copy_from_slice;
        let column = Column {
            family: part(cell.family()),
            qualifier: part(cell.qualifier()),
            value: part(cell.value()),
        };
        match self.0.last_mut() {
            Some(row) if row.key == cell.row() => row.columns.push(column),
            _ => self.0.push(CatalogRow { key: part(cell.row()), columns: vec![column] }),
        }
    }
}
