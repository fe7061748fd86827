//! Facts about a set of cells that are known without reading them.

use cell::{Cell, CellType, Timestamp};

/// Facts about some cells: the oldest and the newest timestamp, whether one of them is a marker that deletes a whole
/// family of its row, and whether all are values without tags. The facts may also cover cells that were dropped since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) oldest: i64,
    pub(crate) newest: i64,
    pub(crate) deletes_families: bool,
    pub(crate) is_plain: bool,
}

impl Default for Span {
    fn default() -> Span {
        Span { oldest: i64::MAX, newest: i64::MIN, deletes_families: false, is_plain: true }
    }
}

impl Span {
    #[inline]
    pub(crate) fn take(&mut self, cell: Cell<'_>) {
        let timestamp = cell.timestamp();
        (self.oldest, self.newest) = (self.oldest.min(timestamp.0), self.newest.max(timestamp.0));
        let cell_type = cell.cell_type();
        self.deletes_families |= cell_type.is_some_and(CellType::is_family_delete);
        self.is_plain &= cell_type == Some(CellType::Put) && cell.tags().is_empty();
    }

    /// Extends the span by another one.
    pub(crate) fn join(&mut self, other: Span) {
        (self.oldest, self.newest) = (self.oldest.min(other.oldest), self.newest.max(other.newest));
        self.deletes_families |= other.deletes_families;
        self.is_plain &= other.is_plain;
    }

    /// Returns the oldest and the newest timestamp; `None` if there are no cells.
    pub(crate) fn ends(self) -> Option<(Timestamp, Timestamp)> {
        (self.oldest <= self.newest).then_some((Timestamp(self.oldest), Timestamp(self.newest)))
    }
}
