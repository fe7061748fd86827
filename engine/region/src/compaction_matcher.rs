//! Decides which cells a flush or a compaction keeps.
//!
//! It drops versions beyond the family's limit, expired cells, and masked cells that no reader can ask for. Unless all
//! files take part (a major compaction), a delete marker stays until it expires, or until it comes after the last
//! version that its column keeps. Only when all files take part, no older cell is left for a marker to mask. With
//! NEW_VERSION_BEHAVIOR all cells stay until a major compaction, because a masked version may have displaced an older
//! one in another file. HBase does the same (`IncludeAllCompactionQueryMatcher`).
//!
//! In a store with stripes, all files may take part for some rows and only some files for others
//! (`DropDeletesCompactionScanQueryMatcher`).

use cell::{Cell, CellType, Timestamp};
use proto::descriptor::KeepDeletedCells;

use crate::matcher::{Deletes, MaskedBy, ScanInfo, is_cell_expired};
use crate::stripes::StripeRange;

/// Judges the cells of one family on their way into a new file.
#[derive(Debug)]
pub(crate) struct CompactionMatcher {
    scan_info: ScanInfo,
    /// The scope in the current row.
    kind: CompactionScope,
    /// The rows in which all files take part, and the scope there. In all other rows only some files do.
    within: Option<(StripeRange, CompactionScope)>,
    now: i64,
    row: Vec<u8>,
    any: bool,
    deletes: Deletes,
    column: Vec<u8>,
    versions: u32,
    last: Option<(Timestamp, CellType)>,
    /// Whether the rest of the current column is dropped, including its markers.
    column_is_done: bool,
}

/// Whether a compaction reads some or all of a store's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactionScope {
    /// Some files, or only memory.
    Some,
    /// All files, so that markers may be dropped.
    All {
        /// Time in ms for which delete markers stay although all files are rewritten.
        purge_deletes_after: i64,
        /// The oldest timestamp of a put in the files; a marker with an older timestamp masks nothing.
        earliest_put: Timestamp,
    },
}

impl CompactionMatcher {
    pub(crate) fn new(scan_info: ScanInfo, kind: CompactionScope, now: i64) -> CompactionMatcher {
        CompactionMatcher {
            scan_info,
            kind,
            within: None,
            now,
            row: Vec::new(),
            any: false,
            deletes: Deletes::of(&scan_info),
            column: Vec::new(),
            versions: 0,
            last: None,
            column_is_done: false,
        }
    }

    /// Returns a matcher with the scope `kind` for `rows`, and the scope [`CompactionScope::Some`] for all other rows.
    pub(crate) fn within(
        scan_info: ScanInfo,
        rows: StripeRange,
        kind: CompactionScope,
        now: i64,
    ) -> CompactionMatcher {
        CompactionMatcher {
            within: Some((rows, kind)),
            ..CompactionMatcher::new(scan_info, CompactionScope::Some, now)
        }
    }

    /// Returns the smallest timestamp from which on a value is certainly kept if it has no tags and is the only cell of
    /// its row. Such cells need not be passed to [`CompactionMatcher::keeps`], since no state carries over to the next
    /// row.
    pub(crate) fn lone_since(&self) -> Timestamp {
        match self.scan_info.ttl {
            // With MIN_VERSIONS an expired cell may be kept, too, so no timestamp is too old.
            Some(ttl) if self.scan_info.min_versions == 0 => Timestamp(self.now.saturating_sub(ttl)),
            _ => Timestamp::OLDEST,
        }
    }

    /// Returns whether the cell is written to the new file. Cells must be passed in order.
    pub(crate) fn keeps(&mut self, cell: Cell<'_>) -> bool {
        if self.scan_info.new_versions && self.kind == CompactionScope::Some && self.within.is_none() {
            return true;
        }
        let key = cell.key();
        let new_row = !self.any || self.row != key.row();
        if let Some((rows, kind)) = self.within.as_ref().filter(|_| new_row) {
            self.kind = if rows.has_row(key.row()) { *kind } else { CompactionScope::Some };
        }
        if new_row {
            self.any = true;
            self.row.clear();
            self.row.extend_from_slice(key.row());
            self.deletes.clear();
        }
        if self.scan_info.new_versions && self.kind == CompactionScope::Some {
            return true;
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
        let is_expired = self.scan_info.is_expired(timestamp, self.now);
        // With NEW_VERSION_BEHAVIOR expired markers still mask cells, so they are kept.
        if is_expired && self.scan_info.min_versions == 0 && !self.scan_info.new_versions {
            return self.end_column();
        }
        if is_cell_expired(cell, self.now) {
            return false;
        }
        if kind.is_delete() {
            // With KEEP_DELETED_CELLS a marker masks nothing here; with its value TTL, it masks once it has expired.
            let masks = match self.scan_info.keep_deleted {
                KeepDeletedCells::False => true,
                KeepDeletedCells::True => false,
                KeepDeletedCells::Ttl => is_expired,
            };
            if masks {
                self.deletes.add(cell);
            }
            let CompactionScope::All { purge_deletes_after, earliest_put } = self.kind else { return true };
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
                MaskedBy::No => {}
                MaskedBy::Version => return false,
                MaskedBy::Rest => return self.end_column(),
            }
        }
        // An earlier cell of this loop had the same timestamp and type, and was written later. New readers see only
        // that one, and open scanners keep reading the old files.
        if self.last == Some((timestamp, kind)) {
            return false;
        }
        if !kind.is_delete() {
            self.versions += 1;
        }
        if self.versions > self.scan_info.max_versions
            || (is_expired && self.versions > self.scan_info.min_versions)
        {
            return self.end_column();
        }
        self.last = Some((timestamp, kind));
        true
    }

    /// Drops the rest of the column, including its markers, as HBase does. The column with the empty name is read to
    /// its end instead, because family markers are sorted among its versions.
    fn end_column(&mut self) -> bool {
        self.column_is_done = !self.column.is_empty();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::{CellParts, SequenceId};

    const NOW: i64 = 1_000;

    fn cell(row: u32, timestamp: i64, cell_type: CellType) -> Vec<u8> {
        let row = format!("row{row:04}");
        let (timestamp, value) = (Timestamp(timestamp), &b"v"[..]);
        let parts = CellParts {
            row: row.as_bytes(),
            family: b"f",
            qualifier: if cell_type.is_family_delete() { b"" } else { b"q" },
            timestamp,
            cell_type,
            value: if cell_type == CellType::Put { value } else { b"" },
            tags: b"",
        };
        parts.to_vec().expect("within limits")
    }

    /// Tests [`CompactionMatcher::lone_since`]: the matcher keeps such a value, and decides about other cells in the
    /// same way whether or not it gets the value.
    #[test]
    fn lone_values_can_be_skipped() {
        let plain = ScanInfo {
            max_versions: 1,
            min_versions: 0,
            ttl: None,
            keep_deleted: KeepDeletedCells::False,
            new_versions: false,
        };
        let keepings = [
            plain,
            ScanInfo { ttl: Some(300), ..plain },
            ScanInfo { ttl: Some(300), min_versions: 1, max_versions: 2, ..plain },
            ScanInfo { ttl: Some(i64::MAX), keep_deleted: KeepDeletedCells::Ttl, ..plain },
            ScanInfo { ttl: Some(300), keep_deleted: KeepDeletedCells::True, max_versions: 2, ..plain },
            ScanInfo { ttl: Some(300), new_versions: true, ..plain },
        ];
        let shapes: [&[(i64, CellType)]; 8] = [
            &[(900, CellType::Put)],
            &[(700, CellType::Put)],
            &[(699, CellType::Put)],
            &[(900, CellType::DeleteFamily)],
            &[(900, CellType::DeleteColumn)],
            &[(900, CellType::DeleteFamily), (900, CellType::Put), (699, CellType::Put)],
            &[(900, CellType::Put), (800, CellType::DeleteColumn), (700, CellType::Put)],
            &[(900, CellType::Put), (900, CellType::Put), (500, CellType::Put), (400, CellType::Put)],
        ];
        for scan_info in keepings {
            let new = || CompactionMatcher::new(scan_info, CompactionScope::Some, NOW);
            let (mut all, mut some, mut word, mut unseen) = (new(), new(), 1u64, 0);
            for row in 0..2_000 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let shape = shapes[(word >> 33) as usize % shapes.len()];
                let is_unseen = match shape {
                    [(timestamp, CellType::Put)] => *timestamp >= all.lone_since().0,
                    _ => false,
                };
                for (&(timestamp, cell_type), sequence) in shape.iter().zip((1..10).rev()) {
                    let bytes = cell(row, timestamp, cell_type);
                    let cell = Cell::trusted(&bytes, SequenceId(sequence));
                    let kept = all.keeps(cell);
                    unseen += u32::from(is_unseen);
                    let same = if is_unseen { kept } else { kept == some.keeps(cell) };
                    assert!(same, "{scan_info:?}: {:?}, kept: {kept}", cell.key());
                }
            }
            assert!(unseen > 200, "{scan_info:?}: {unseen}");
        }
    }
}
