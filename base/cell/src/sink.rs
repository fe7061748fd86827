//! The receiver of the cells that a read returns.

use crate::Cell;

/// Receives cells in sort order.
pub trait CellSink {
    /// Consumes one cell, whose bytes are borrowed for the call.
    fn cell(&mut self, cell: Cell<'_>);

    /// Consumes one cell and the size that HBase counts for it in size limits, in bytes. The size depends on where the
    /// cell was read ([`Cell::heap_size`]). Sinks that count sizes override this method.
    fn sized_cell(&mut self, cell: Cell<'_>, _heap_size: usize) {
        self.cell(cell);
    }

    /// Marks the end of a row: the cells since the previous end, or since the start, are complete. Called by reads that
    /// may return several rows at once.
    fn row_ends(&mut self) {}
}
