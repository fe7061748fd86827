//! What a flush or a compaction keeps.
//!
//! Whatever happens, versions beyond the family's, cells past their time and masked cells that nobody can ask for again
//! need not be written. Markers stay unless every file takes part (a major compaction), for only then is it certain
//! that nothing older is left for them to mask.

use cell::{Cell, CellType, Timestamp};
use proto::descriptor::KeepDeletedCells;

use crate::matcher::{Deletes, Keeping, Masked, is_cell_expired};

/// Judges the cells of one family on their way into a new file.
#[derive(Debug)]
pub(crate) struct Rewrite {
    keeping: Keeping,
    /// Whether every file of the store takes part.
    major: bool,
    now: i64,
    /// Markers newer than this stay, in ms since 1970.
    purge_before: i64,
    row: Vec<u8>,
    any: bool,
    deletes: Deletes,
    column: Vec<u8>,
    versions: u32,
    last_timestamp: Option<Timestamp>,
}

impl Rewrite {
    pub(crate) fn new(keeping: Keeping, major: bool, now: i64, purge_deletes_after: i64) -> Rewrite {
        Rewrite {
            keeping,
            major,
            now,
            purge_before: now.saturating_sub(purge_deletes_after),
            row: Vec::new(),
            any: false,
            deletes: Deletes::default(),
            column: Vec::new(),
            versions: 0,
            last_timestamp: None,
        }
    }

    /// Whether the cell goes into the new file.
    pub(crate) fn keeps(&mut self, cell: Cell<'_>) -> bool {
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
            self.last_timestamp = None;
        }
        let timestamp = key.timestamp();
        let kind = key.cell_type().unwrap_or(CellType::Put);
        if kind.is_delete() {
            self.deletes.add(cell);
            return self.keeps_marker(timestamp);
        }
        if is_cell_expired(cell, self.now) {
            return false;
        }
        let masked = self.deletes.masks(timestamp) != Masked::No;
        if masked && self.keeping.keep_deleted == KeepDeletedCells::False {
            return false;
        }
        // Of two writes with one timestamp the older can be seen by nobody: readers that may want it hold the old files.
        if self.last_timestamp == Some(timestamp) {
            return false;
        }
        self.last_timestamp = Some(timestamp);
        self.versions += 1;
        if self.versions > self.keeping.max_versions {
            return false;
        }
        !self.keeping.is_expired(timestamp, self.now) || self.versions <= self.keeping.min_versions
    }

    fn keeps_marker(&self, timestamp: Timestamp) -> bool {
        if !self.major {
            return true;
        }
        match self.keeping.keep_deleted {
            KeepDeletedCells::False => timestamp.0 > self.purge_before,
            KeepDeletedCells::True => true,
            KeepDeletedCells::Ttl => !self.keeping.is_expired(timestamp, self.now),
        }
    }
}
