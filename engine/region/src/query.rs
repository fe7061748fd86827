//! Queries: scans, gets and the limits of one step.

use bytes::Bytes;
use cell::{SequenceId, Timestamp};
use env::Moment;
use filter::Filter;
use hfile::ReadType;

/// Timestamps from `from` (inclusive) to `until` (exclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first timestamp in the range; 0 or less for no lower bound.
    pub from: Timestamp,
    /// The first timestamp after the range; [`Timestamp::LATEST`] for no upper bound.
    pub until: Timestamp,
}

impl TimeRange {
    /// The range of all timestamps.
    pub const ALL: TimeRange = TimeRange { from: Timestamp(0), until: Timestamp::LATEST };

    /// Whether the range includes every timestamp.
    pub fn is_all(self) -> bool {
        self.from.0 <= 0 && self.until == Timestamp::LATEST
    }

    pub(crate) fn is_before(self, timestamp: Timestamp) -> bool {
        self.until != Timestamp::LATEST && timestamp >= self.until
    }

    pub(crate) fn is_after(self, timestamp: Timestamp) -> bool {
        timestamp < self.from && self.from.0 > 0
    }
}

/// One family of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyQuery {
    /// The family's name.
    pub family: Bytes,
    /// The columns, sorted and without duplicates; `None` for all.
    pub qualifiers: Option<Vec<Bytes>>,
    /// The time range for this family, if it differs from the scan's.
    pub time_range: Option<TimeRange>,
}

/// Which writes a reader sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// The reader sees writes that were complete when it began.
    #[default]
    ReadCommitted,
    /// The reader sees all writes, including incomplete ones.
    ReadUncommitted,
}

/// Whether a read may block its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// The read may not block. It fails with an error that [would block](crate::Error::would_block) when a block or a
    /// MOB value is not in memory, when a row lock is taken, when reading a row takes long, when many cells newer than the
    /// read point come before the next row, or when the filter may take long for a single cell.
    MemoryOnly,
    /// The read may block.
    Any,
}

/// How a read treats references to MOB files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MobRead {
    /// Whether references are returned instead of values (`hbase.mob.scan.raw`).
    pub raw: bool,
    /// Whether only cells whose values are in MOB files are returned (`hbase.mob.scan.ref.only`).
    pub references_only: bool,
    /// Whether a value that is missing is returned as an empty one (`empty.value.on.mobcell.miss`).
    pub empty_if_missing: bool,
    /// Whether blocks of MOB files are kept in the cache (`hbase.mob.cache.blocks`).
    pub cache_blocks: bool,
    /// Maximum length in bytes of a MOB value that is read, even if the read may block. A longer value fails with
    /// [`Error::MobValue`](crate::Error::MobValue), so that the caller can first wait for memory. `None` for any
    /// length.
    pub value_bytes_max: Option<u64>,
}

/// A query over a range of rows; a get is a query of one row.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The first row; empty for the beginning of the region, or its end if `reversed`.
    pub start: Bytes,
    /// Whether the first row is included.
    pub include_start: bool,
    /// The last row; empty for the end of the region, or its beginning if `reversed`.
    pub stop: Bytes,
    /// Whether the last row is included.
    pub include_stop: bool,
    /// Whether rows are returned in descending order.
    pub reversed: bool,
    /// The families to read; empty for all.
    pub families: Vec<FamilyQuery>,
    /// The filter that judges the cells.
    pub filter: Option<Filter>,
    /// Only cells with these timestamps are read.
    pub time_range: TimeRange,
    /// Maximum number of versions of a column; 0 counts as 1.
    pub max_versions: u32,
    /// Maximum number of cells in a result; `None` for any number.
    pub batch: Option<u32>,
    /// Maximum number of cells of one row and family; `None` for any number, and 0 counts as 1.
    pub store_limit: Option<u32>,
    /// Number of cells of each row and family that are skipped.
    pub store_offset: u32,
    /// Whether markers, and the cells that they mask, are returned.
    pub raw: bool,
    /// Which writes the scan sees.
    pub isolation: Isolation,
    /// The read point of an earlier scanner whose scan this one continues. If versions that this read point needs were
    /// dropped, a scan reads at the present read point instead; a get returns the versions that are left.
    pub read_point: Option<SequenceId>,
    /// Whether blocks that the scan reads are kept in the cache.
    pub cache_blocks: bool,
    /// Whether families that the filter does not need are read only for rows that the filter accepts; `None` means yes.
    pub load_families_on_demand: Option<bool>,
    /// Whether files are read block by block or with read-ahead. The results are the same.
    pub read_type: ReadType,
    /// How values in MOB files are read.
    pub mob: MobRead,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan {
            start: Bytes::new(),
            include_start: true,
            stop: Bytes::new(),
            include_stop: false,
            reversed: false,
            families: Vec::new(),
            filter: None,
            time_range: TimeRange::ALL,
            max_versions: 1,
            batch: None,
            store_limit: None,
            store_offset: 0,
            raw: false,
            isolation: Isolation::default(),
            read_point: None,
            cache_blocks: true,
            load_families_on_demand: None,
            read_type: ReadType::Default,
            mob: MobRead::default(),
        }
    }
}

impl Scan {
    /// Returns the query for a whole row.
    pub fn get(row: Bytes) -> Scan {
        Scan { start: row.clone(), stop: row, include_stop: true, ..Scan::default() }
    }

    /// For a forward scan, returns the row that ends the range, exclusive: all rows between an included row and this
    /// one are included. `None` for the region's end.
    pub(crate) fn rows_end(&self) -> Option<&[u8]> {
        Some(&self.stop[..]).filter(|stop| !stop.is_empty())
    }

    /// Whether the range can include only one row.
    pub fn is_one_row(&self) -> bool {
        !self.start.is_empty() && self.start == self.stop
    }
}

/// The limits of one step of a scanner.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of rows. A step that returns several rows reports [where each ends](cell::CellSink::row_ends),
    /// and returns only whole rows.
    pub rows: usize,
    /// Heap size of the returned cells, in bytes as HBase counts them, after which a row may be cut.
    pub bytes: u64,
    /// The time at which a row is cut, if that is allowed. Rows that the filter judges as a whole are not cut.
    pub deadline: Option<Moment>,
    /// Whether a row may be cut, so that the step returns a part of it.
    pub allow_partial: bool,
}

impl Limits {
    /// The limits of a step that returns one whole row.
    pub const NONE: Limits = Limits { rows: 1, bytes: u64::MAX, deadline: None, allow_partial: false };
}
