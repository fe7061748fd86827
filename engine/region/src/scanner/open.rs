//! Opens reads of a region: gets, readers of single rows, and scanners.

use std::borrow::Cow;
use std::sync::Arc;

use cell::CellSink;

use super::{RegionScanner, RowReader};
use crate::query::{ReadMode, Scan};
use crate::region::{Region, check_row_length};
use crate::{Error, Result};

impl Region {
    /// Reads one row. Returns the number of cells passed to `sink`.
    pub fn get(self: &Arc<Self>, scan: &Scan, mode: ReadMode, sink: &mut dyn CellSink) -> Result<usize> {
        self.check_get(&scan.start)?;
        RegionScanner::open_get(Arc::clone(self), scan)?.read_only_row(mode, sink)
    }

    /// Creates a reader of single rows with the query `scan`. It sees the writes that are complete now.
    ///
    /// # Panics
    /// If `scan` is not a get, or has a filter.
    pub fn row_reader(self: &Arc<Self>, scan: Scan) -> Result<RowReader> {
        RowReader::open(Arc::clone(self), scan)
    }

    /// Refuses an empty row, or one outside the region.
    pub(crate) fn check_get(&self, row: &[u8]) -> Result<()> {
        if row.is_empty() {
            return Err(Error::EmptyRow);
        }
        self.check_row(row, "get")
    }

    /// Opens a scanner. It sees the writes that are complete now, unless the scan sets another isolation or an earlier
    /// read point.
    ///
    /// The scan's range may extend outside the region, as in HBase: the scanner returns the rows of the range that the
    /// region has.
    pub fn scanner(self: &Arc<Self>, scan: Scan) -> Result<RegionScanner<'static>> {
        self.check_serving()?;
        check_row_length(&scan.start)?;
        check_row_length(&scan.stop)?;
        RegionScanner::open(Arc::clone(self), Cow::Owned(scan))
    }
}
