//! Where cells go that are read.

use crate::Cell;

/// Takes cells one after the other.
pub trait CellSink {
    /// Takes one cell; its bytes are only lent.
    fn cell(&mut self, cell: Cell<'_>);

    /// The cells since the last row that ended, or since the read began, are all that is given of their row. Told of by a read
    /// that may give several rows at once.
    fn row_ends(&mut self) {}
}
