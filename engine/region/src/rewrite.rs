//! What a flush or a compaction keeps.
//!
//! Whatever happens, versions beyond the family's, cells past their time and masked cells that nobody can ask for again
//! need not be written. Markers stay unless every file takes part (a major compaction), for only then is it certain
//! that nothing older is left for them to mask. Where what was written later wins (`NEW_VERSION_BEHAVIOR`) everything stays
//! until then: a version that is masked itself may be what has pushed out an older one that lies in another file. HBase
//! does the same (`IncludeAllCompactionQueryMatcher`).

use cell::{Cell, CellType, Timestamp};
use proto::descriptor::KeepDeletedCells;

use crate::matcher::{Deletes, Keeping, Masked, is_cell_expired};

/// Judges the cells of one family on their way into a new file.
#[derive(Debug)]
pub(crate) struct Rewrite {
    keeping: Keeping,
    kind: RewriteKind,
    now: i64,
    row: Vec<u8>,
    any: bool,
    deletes: Deletes,
    column: Vec<u8>,
    versions: u32,
    last: Option<(Timestamp, CellType)>,
    /// Whether nothing of the rest of the column is kept, markers included.
    column_is_done: bool,
}

/// Which files take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RewriteKind {
    /// Some, or none but memory.
    Some,
    /// All, so that markers may go.
    All {
        /// How long markers stay nevertheless, in ms.
        purge_deletes_after: i64,
        /// The oldest put of them; a marker from before masks nothing.
        earliest_put: Timestamp,
    },
}

impl Rewrite {
    pub(crate) fn new(keeping: Keeping, kind: RewriteKind, now: i64) -> Rewrite {
        Rewrite {
            keeping,
            kind,
            now,
            row: Vec::new(),
            any: false,
            deletes: Deletes::of(&keeping),
            column: Vec::new(),
            versions: 0,
            last: None,
            column_is_done: false,
        }
    }

    /// Whether the cell goes into the new file.
    pub(crate) fn keeps(&mut self, cell: Cell<'_>) -> bool {
        if self.keeping.new_versions && self.kind == RewriteKind::Some {
            return true;
        }
        let key = cell.key();
        let new_row = !self.any || self.row != key.row();
        if new_row {
            self.any = true;
            self.row.clear();
            self.row.extend_from_slice(key.row());
            self.deletes.clear();
        }
        if new_row || self.column != key.qualifier() {
            self.column.clear();
            self.column.extend_from_slice(key.qualifier());
            self.deletes.clear_column();
            self.versions = 0;
            self.last = None;
            self.column_is_done = false;
        }
        if self.column_is_done {
            return false;
        }
        let timestamp = key.timestamp();
        let kind = key.cell_type().unwrap_or(CellType::Put);
        let is_expired = self.keeping.is_expired(timestamp, self.now);
        // Where what was written later wins, also markers that have expired are known.
        if is_expired && self.keeping.min_versions == 0 && !self.keeping.new_versions {
            return self.end_column();
        }
        if is_cell_expired(cell, self.now) {
            return false;
        }
        if kind.is_delete() {
            // Whoever keeps deleted cells keeps them until their markers expire, if these do.
            let masks = match self.keeping.keep_deleted {
                KeepDeletedCells::False => true,
                KeepDeletedCells::True => false,
                KeepDeletedCells::Ttl => is_expired,
            };
            if masks {
                self.deletes.add(cell);
            }
            let RewriteKind::All { purge_deletes_after, earliest_put } = self.kind else { return true };
            if purge_deletes_after > 0 && self.now.saturating_sub(timestamp.0) <= purge_deletes_after {
                return true;
            }
            if masks {
                return false;
            }
            if timestamp < earliest_put {
                return self.end_column();
            }
        } else {
            match self.deletes.masks(cell) {
                Masked::No => {}
                Masked::Version => return false,
                Masked::Rest => return self.end_column(),
            }
        }
        // Of two writes with one timestamp the older can be seen by nobody: readers that may want it hold the old files.
        if self.last == Some((timestamp, kind)) {
            return false;
        }
        if !kind.is_delete() {
            self.versions += 1;
        }
        if self.versions > self.keeping.max_versions
            || (is_expired && self.versions > self.keeping.min_versions)
        {
            return self.end_column();
        }
        self.last = Some((timestamp, kind));
        true
    }

    /// Nothing that comes later in this column can be seen, as HBase has it: its markers go with the rest. Among the
    /// versions of the column without a name there may be markers of the whole family, so that it is looked at to its end.
    fn end_column(&mut self) -> bool {
        self.column_is_done = !self.column.is_empty();
        false
    }
}
