//! Decides which cells of a row a reader gets, by deletes, versions, time to live, columns, time ranges and filters.
//!
//! Cells are judged in HBase's order (`UserScanQueryMatcher`), because clients can see it. A filter sees versions
//! beyond the scan's own limit, except with NEW_VERSION_BEHAVIOR. Only in a raw scan it sees versions beyond the
//! family's limit.

use bytes::Bytes;
use cell::{Cell, CellType, TagType, Timestamp};
use filter::{Filter, ReturnCode};
use proto::FamilyOptions;
use proto::descriptor::KeepDeletedCells;
use smallvec::SmallVec;

use crate::TimeRange;
use crate::new_versions::NewVersions;

/// A family's retention rules, from its descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanInfo {
    pub(crate) max_versions: u32,
    pub(crate) min_versions: u32,
    /// The family's time to live in ms; `None` if its cells never expire.
    pub(crate) ttl: Option<i64>,
    pub(crate) keep_deleted: KeepDeletedCells,
    /// Whether the later write wins, whatever its timestamp (NEW_VERSION_BEHAVIOR).
    pub(crate) new_versions: bool,
}

impl ScanInfo {
    pub(crate) fn of(options: &FamilyOptions) -> ScanInfo {
        ScanInfo {
            max_versions: options.versions_max.max(1),
            min_versions: options.versions_min,
            ttl: options.ttl_ms().map(|ttl| i64::try_from(ttl).unwrap_or(i64::MAX)),
            keep_deleted: options.keep_deleted_cells,
            new_versions: options.new_version_behavior,
        }
    }

    /// Whether a cell of this timestamp has outlived the family's time to live at `now`, in ms.
    pub(crate) fn is_expired(&self, timestamp: Timestamp, now: i64) -> bool {
        self.ttl.is_some_and(|ttl| timestamp.0 < now.saturating_sub(ttl))
    }

    /// Returns the oldest timestamp that has not expired at `now`, in ms. A read needs no segment or file whose cells are
    /// all older. `None` if old cells may be needed, because they never expire or a minimum number of versions is kept.
    pub(crate) fn oldest_unexpired(&self, now: i64) -> Option<Timestamp> {
        let ttl = self.ttl.filter(|_| self.min_versions == 0)?;
        Some(Timestamp(now.saturating_sub(ttl)))
    }
}

/// Whether the cell's own time to live (its tag) is over at `now`, in ms.
pub(crate) fn is_cell_expired(cell: Cell<'_>, now: i64) -> bool {
    let tags = cell.tags();
    if tags.is_empty() {
        return false;
    }
    let Some(tag) = tags.find(TagType::Ttl) else { return false };
    let Ok(ttl) = <[u8; 8]>::try_from(tag.value) else { return false };
    cell.timestamp().0.saturating_add(i64::from_be_bytes(ttl)) < now
}

/// The delete markers seen so far in a row and family. Markers sort before the cells that they mask, so one pass is
/// enough.
#[derive(Debug, Default)]
pub(crate) struct Deletes {
    /// Whether the row and family have a marker. Most have none, and then no cell needs a test.
    any: bool,
    family: Option<Timestamp>,
    /// Newest first, as they come.
    family_versions: Vec<Timestamp>,
    column: Option<Timestamp>,
    /// The last marker of one version of the column. It comes after all newer cells, and right before the version that it
    /// masks, so earlier ones mask nothing more.
    version: Option<Timestamp>,
    /// Used instead of the fields above with `NEW_VERSION_BEHAVIOR`, where a marker masks only cells written before it.
    by_write: Option<Box<NewVersions>>,
}

/// How much of a column the markers hide, from one cell on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaskedBy {
    No,
    /// The markers hide this cell.
    Version,
    /// The markers hide this cell and all older ones of its column.
    Rest,
}

impl Deletes {
    pub(crate) fn of(scan_info: &ScanInfo) -> Deletes {
        let by_write = scan_info.new_versions.then(|| Box::new(NewVersions::new(scan_info.max_versions)));
        Deletes { by_write, ..Deletes::default() }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        if let Some(by_write) = &mut self.by_write {
            by_write.clear();
        }
        if !self.any {
            return;
        }
        self.family = None;
        self.family_versions.clear();
        self.column = None;
        self.version = None;
        self.any = false;
    }

    #[inline]
    pub(crate) fn clear_column(&mut self) {
        if let Some(by_write) = &mut self.by_write {
            by_write.clear_column();
        }
        // Family markers are kept, because they mask cells of all columns.
        if !self.any {
            return;
        }
        self.column = None;
        self.version = None;
    }

    pub(crate) fn add(&mut self, marker: Cell<'_>) {
        if let Some(by_write) = &mut self.by_write {
            return by_write.add(marker);
        }
        self.any = true;
        let timestamp = marker.timestamp();
        match marker.cell_type() {
            Some(CellType::DeleteFamily) => self.family = self.family.max(Some(timestamp)),
            Some(CellType::DeleteFamilyVersion) => self.family_versions.push(timestamp),
            Some(CellType::DeleteColumn) => self.column = self.column.max(Some(timestamp)),
            Some(CellType::Delete) => self.version = Some(timestamp),
            _ => {}
        }
    }

    /// Returns whether the markers hide `cell`, which is no marker, and whether they hide the rest of its column too.
    /// Each cell of a column must be passed once, in order.
    #[inline]
    pub(crate) fn masks(&mut self, cell: Cell<'_>) -> MaskedBy {
        if let Some(by_write) = &mut self.by_write {
            return if by_write.masks(cell) { MaskedBy::Version } else { MaskedBy::No };
        }
        if !self.any {
            return MaskedBy::No;
        }
        let timestamp = cell.timestamp();
        let up_to = |marker: Option<Timestamp>| marker.is_some_and(|marker| timestamp <= marker);
        // The order of these tests is part of the result: it decides whether the rest of the column, in which there may
        // be markers, is read.
        if up_to(self.family) {
            MaskedBy::Rest
        } else if self.family_versions.binary_search_by(|marker| timestamp.cmp(marker)).is_ok() {
            MaskedBy::Version
        } else if up_to(self.column) {
            MaskedBy::Rest
        } else if self.version == Some(timestamp) {
            MaskedBy::Version
        } else {
            MaskedBy::No
        }
    }
}

/// Whether the reader gets a cell, and where to move after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchCode {
    /// The reader gets the cell.
    Include(Next),
    /// The reader does not get the cell.
    Skip(Next),
}

/// Where to move after a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// To the next cell.
    Cell,
    /// To the next wanted column; to the next column if all are wanted.
    Column,
    /// To the next version that the scan returns. The versions between were not requested.
    Version,
    /// Out of this row.
    Row,
    /// To the filter's hint.
    Hint,
}

/// The columns that a reader wants, in order; `None` for all.
pub(crate) type Wanted<'a> = Option<&'a [Bytes]>;

/// Judges the cells of one family, row by row.
#[derive(Debug)]
pub(crate) struct Matcher {
    scan_info: ScanInfo,
    range: TimeRange,
    scan_versions: u32,
    raw: bool,
    now: i64,
    deletes: Deletes,
    /// Index of the next wanted column.
    next_wanted: usize,
    column: SmallVec<[u8; 32]>,
    in_column: bool,
    /// Number of versions of the column that count.
    versions: u32,
    /// Number of versions of the column that the reader got.
    included: u32,
    last: Option<(Timestamp, CellType)>,
}

impl Matcher {
    pub(crate) fn new(
        scan_info: ScanInfo,
        range: TimeRange,
        scan_versions: u32,
        raw: bool,
        now: i64,
    ) -> Matcher {
        Matcher {
            scan_info,
            range,
            scan_versions,
            raw,
            now,
            deletes: Deletes::of(&scan_info),
            next_wanted: 0,
            column: SmallVec::new(),
            in_column: false,
            versions: 0,
            included: 0,
            last: None,
        }
    }

    /// Begins a row.
    pub(crate) fn begin_row(&mut self) {
        self.deletes.clear();
        self.next_wanted = 0;
        self.in_column = false;
    }

    /// Returns the qualifier of the last judged cell.
    pub(crate) fn column(&self) -> &[u8] {
        &self.column
    }

    /// Returns the next wanted column; `None` when all columns are wanted, or when none is left.
    pub(crate) fn next_wanted<'w>(&self, wanted: Wanted<'w>) -> Option<&'w [u8]> {
        wanted?.get(self.next_wanted).map(|qualifier| &qualifier[..])
    }

    fn column_done(&mut self, wanted: Wanted<'_>) -> Next {
        match wanted {
            Some(wanted) => {
                if wanted.get(self.next_wanted).is_some_and(|qualifier| qualifier[..] == self.column[..]) {
                    self.next_wanted += 1;
                }
                if self.next_wanted < wanted.len() { Next::Column } else { Next::Row }
            }
            None => Next::Column,
        }
    }

    /// Returns where to move after the last version of a column that the scan can return. The result differs from
    /// `Next::Column` if older versions may exist: when a response is cut there, its `partial` flag tells the client
    /// so.
    fn last_version(&mut self, wanted: Wanted<'_>) -> Next {
        if wanted.is_some() || self.scan_info.new_versions { self.column_done(wanted) } else { Next::Version }
    }

    /// Judges the next cell of the row. `wanted` must be the same for all cells of a row.
    pub(crate) fn judge(
        &mut self,
        cell: Cell<'_>,
        wanted: Wanted<'_>,
        filter: &mut Option<Filter>,
    ) -> MatchCode {
        let key = cell.key();
        let (timestamp, qualifier) = (key.timestamp(), key.qualifier());
        let kind = key.cell_type().unwrap_or(CellType::Put);
        if !self.in_column || self.column[..] != *qualifier {
            self.in_column = true;
            self.column.clear();
            self.column.extend_from_slice(qualifier);
            self.deletes.clear_column();
            self.versions = 0;
            self.included = 0;
            self.last = None;
        }
        if !self.raw
            && self.scan_info.min_versions == 0
            // With NEW_VERSION_BEHAVIOR expired markers still mask cells, so they are judged.
            && !self.scan_info.new_versions
            && !kind.is_family_delete()
            && self.scan_info.is_expired(timestamp, self.now)
        {
            // Versions come newest first, so the rest of the column has expired, too.
            return MatchCode::Skip(self.column_done_unless_early(qualifier, wanted));
        }
        if is_cell_expired(cell, self.now) {
            return MatchCode::Skip(Next::Cell);
        }
        if !self.raw {
            if kind.is_delete() {
                // With KEEP_DELETED_CELLS a scan of a past time range returns what existed then. So markers outside the
                // range mask nothing.
                let counts = if self.scan_info.keep_deleted == KeepDeletedCells::False {
                    !self.range.is_after(timestamp)
                } else {
                    !self.range.is_after(timestamp) && !self.range.is_before(timestamp)
                };
                if counts {
                    self.deletes.add(cell);
                }
                return MatchCode::Skip(Next::Cell);
            }
            match self.deletes.masks(cell) {
                MaskedBy::No => {}
                MaskedBy::Version => return MatchCode::Skip(Next::Cell),
                MaskedBy::Rest => return MatchCode::Skip(self.column_done_unless_early(qualifier, wanted)),
            }
        }
        if self.range.is_before(timestamp) {
            return MatchCode::Skip(Next::Cell);
        }
        if self.range.is_after(timestamp) {
            return MatchCode::Skip(self.column_done_unless_early(qualifier, wanted));
        }
        if let Some(next) = self.step_to_wanted(qualifier, wanted) {
            return MatchCode::Skip(next);
        }
        // Two writes with one timestamp are one version; the later write, which comes first, is returned.
        if self.last == Some((timestamp, kind)) {
            return MatchCode::Skip(Next::Cell);
        }
        let Some(is_last) = self.count(timestamp, kind, wanted.is_some(), filter.is_some()) else {
            return MatchCode::Skip(self.column_done(wanted));
        };
        self.last = Some((timestamp, kind));
        match filter {
            Some(filter) => self.judge_by_filter(cell, is_last, wanted, filter),
            None if is_last => MatchCode::Include(self.last_version(wanted)),
            None => MatchCode::Include(Next::Cell),
        }
    }

    /// Counts a version. Returns `None` if it must be skipped because it exceeds the limit on versions, or has expired
    /// and MIN_VERSIONS does not keep it. Otherwise returns whether all later versions of the column must be skipped. For
    /// a wanted column it returns `None` only with NEW_VERSION_BEHAVIOR.
    ///
    /// A filter sees every version that the family keeps, not only those that the scan asks for, except with
    /// NEW_VERSION_BEHAVIOR. Markers reach this point only in a raw scan, and are not counted.
    fn count(&mut self, timestamp: Timestamp, kind: CellType, wanted: bool, filtered: bool) -> Option<bool> {
        let limit = match (self.raw, filtered) {
            (true, true) => u32::MAX,
            (true, false) => self.scan_versions,
            // With NEW_VERSION_BEHAVIOR HBase applies the scan's own limit of versions before the filter.
            (false, true) if !self.scan_info.new_versions => self.scan_info.max_versions,
            (false, _) => self.scan_info.max_versions.min(self.scan_versions),
        };
        if !kind.is_delete() {
            self.versions = self.versions.saturating_add(1);
        }
        let is_expired = !self.raw && self.scan_info.is_expired(timestamp, self.now);
        if wanted && !self.scan_info.new_versions {
            // For a wanted column HBase returns one expired version if no more than MIN_VERSIONS came before it.
            return Some(
                self.versions >= limit || (is_expired && self.versions >= self.scan_info.min_versions),
            );
        }
        let is_kept = self.versions <= limit && (!is_expired || self.versions <= self.scan_info.min_versions);
        let is_last = self.versions == limit
            || (self.scan_info.new_versions && is_expired && self.versions == self.scan_info.min_versions);
        // In a raw scan markers may follow the last version, so the column is read on.
        is_kept.then_some(!self.raw && is_last)
    }

    /// Returns where to move when the rest of the column is hidden. A column before the next wanted one is not wanted
    /// itself, so it does not count as a finished wanted column.
    fn column_done_unless_early(&mut self, qualifier: &[u8], wanted: Wanted<'_>) -> Next {
        match self.step_to_wanted(qualifier, wanted) {
            Some(next) => next,
            None => self.column_done(wanted),
        }
    }

    /// Compares `qualifier` with the next wanted column. Returns `None` if it is wanted, and otherwise where to move.
    fn step_to_wanted(&mut self, qualifier: &[u8], wanted: Wanted<'_>) -> Option<Next> {
        let wanted = wanted?;
        while let Some(next) = wanted.get(self.next_wanted) {
            match qualifier.cmp(next) {
                std::cmp::Ordering::Less => return Some(Next::Column),
                std::cmp::Ordering::Equal => return None,
                std::cmp::Ordering::Greater => self.next_wanted += 1,
            }
        }
        Some(Next::Row)
    }

    fn judge_by_filter(
        &mut self,
        cell: Cell<'_>,
        is_last: bool,
        wanted: Wanted<'_>,
        filter: &mut Filter,
    ) -> MatchCode {
        let code = filter.filter_cell(cell);
        let scan_limit =
            if self.raw { self.scan_versions } else { self.scan_versions.min(self.scan_info.max_versions) };
        match code {
            ReturnCode::Skip if is_last => MatchCode::Skip(self.column_done(wanted)),
            ReturnCode::Skip => MatchCode::Skip(Next::Cell),
            ReturnCode::NextColumn => MatchCode::Skip(self.column_done(wanted)),
            ReturnCode::NextRow => MatchCode::Skip(Next::Row),
            ReturnCode::SeekNextUsingHint => {
                if is_last {
                    // The column counts as finished even if the filter's hint points into it.
                    self.column_done(wanted);
                }
                MatchCode::Skip(Next::Hint)
            }
            ReturnCode::Include | ReturnCode::IncludeAndNextColumn | ReturnCode::IncludeAndSeekNextRow => {
                self.included += 1;
                let is_too_many = self.included > scan_limit;
                match code {
                    ReturnCode::IncludeAndSeekNextRow if is_too_many => MatchCode::Skip(Next::Row),
                    ReturnCode::IncludeAndSeekNextRow => MatchCode::Include(Next::Row),
                    _ if is_too_many => MatchCode::Skip(self.column_done(wanted)),
                    ReturnCode::IncludeAndNextColumn if !is_last => {
                        // The call finishes the column. Its result is not needed: if no wanted column is left, the row
                        // ends at the first cell after this column.
                        self.column_done(wanted);
                        MatchCode::Include(Next::Column)
                    }
                    ReturnCode::IncludeAndNextColumn => MatchCode::Include(self.column_done(wanted)),
                    _ if is_last => MatchCode::Include(self.last_version(wanted)),
                    _ => MatchCode::Include(Next::Cell),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cell::{CellParts, SequenceId};

    use super::*;

    /// Passes cells of these timestamps and types to `deletes`; returns the timestamps of the values that are not masked.
    fn unmasked(deletes: &mut Deletes, cells: impl IntoIterator<Item = (i64, CellType)>) -> Vec<i64> {
        let mut seen = Vec::new();
        for (timestamp, cell_type) in cells {
            let qualifier: &[u8] = if cell_type.is_family_delete() { b"" } else { b"q" };
            let parts = CellParts {
                row: b"r",
                family: b"f",
                qualifier,
                timestamp: Timestamp(timestamp),
                cell_type,
                value: b"",
                tags: b"",
            };
            let bytes = parts.to_vec().expect("within limits");
            let cell = Cell::trusted(&bytes, SequenceId(1));
            match cell_type.is_delete() {
                true => deletes.add(cell),
                false if deletes.masks(cell) == MaskedBy::No => seen.push(timestamp),
                false => {}
            }
        }
        seen
    }

    #[test]
    fn markers_of_one_version_mask_that_version() {
        use CellType::{Delete, DeleteFamilyVersion, Put};
        let mut deletes = Deletes::default();
        let of_family = [9, 7, 7, 3].map(|timestamp| (timestamp, DeleteFamilyVersion));
        let column = [(10, Delete), (9, Put), (8, Delete), (8, Put), (8, Put), (7, Put), (6, Put), (3, Put)];
        assert_eq!(unmasked(&mut deletes, of_family.into_iter().chain(column)), [6]);
        deletes.clear_column();
        assert_eq!(unmasked(&mut deletes, [(10, Put), (9, Put), (8, Put), (3, Put), (2, Put)]), [10, 8, 2]);
        deletes.clear();
        assert_eq!(unmasked(&mut deletes, [(9, Put), (3, Put)]), [9, 3]);
    }

    /// With a search through all markers for each value, this would take minutes.
    #[test]
    fn many_markers_of_versions_take_time_that_grows_with_their_number() {
        const CELLS: i64 = 600_000;
        let clock = env::World::real();
        let before = clock.moment();
        let mut deletes = Deletes::default();
        let markers = (0..CELLS).rev().map(|number| (2 * number, CellType::DeleteFamilyVersion));
        let values = (0..CELLS).rev().map(|number| (2 * number + number % 2, CellType::Put));
        assert_eq!(unmasked(&mut deletes, markers.chain(values)).len() as i64, CELLS / 2);
        let pairs = |number: i64| [(2 * number, CellType::Delete), (2 * number - 1, CellType::Put)];
        deletes.clear();
        assert_eq!(unmasked(&mut deletes, (0..CELLS).rev().flat_map(pairs)).len() as i64, CELLS);
        let took = clock.moment().since(before);
        assert!(took < Duration::from_secs(60), "{took:?}");
    }
}
