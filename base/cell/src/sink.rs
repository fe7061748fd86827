//! Consumers of cells that a read returns.

use crate::Cell;

/// Consumes cells in order.
pub trait CellSink {
    /// Consumes one cell, whose bytes are borrowed for the call.
    fn cell(&mut self, cell: Cell<'_>);

    /// Marks the end of a row: the cells since the previous end, or since the start, are complete. Called by reads that
    /// may return several rows at once.
    fn row_ends(&mut self) {}
}
