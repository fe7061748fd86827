//! What can be asked of a region.

use bytes::Bytes;
use cell::{SequenceId, Timestamp};
use env::Moment;
use filter::Filter;
use hfile::ReadType;

/// Timestamps from `from` (inclusive) to `until` (exclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The oldest that belongs.
    pub from: Timestamp,
    /// The oldest that is too new.
    pub until: Timestamp,
}

impl TimeRange {
    /// Everything.
    pub const ALL: TimeRange = TimeRange { from: Timestamp(0), until: Timestamp::LATEST };

    /// Whether nothing is left out.
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
    /// Its name.
    pub family: Bytes,
    /// The columns, in order and each once; `None` for all.
    pub qualifiers: Option<Vec<Bytes>>,
    /// A time range of its own, in the place of the scan's.
    pub time_range: Option<TimeRange>,
}

/// Which writes a reader sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Those that were complete when it began.
    #[default]
    ReadCommitted,
    /// All.
    ReadUncommitted,
}

/// Whether a read may take its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// It may not, for others wait for its thread: [`Error::WouldBlock`](crate::Error::WouldBlock) when a block is not
    /// in memory, when a row takes long, and when the filter is one that may think for long about a single cell.
    MemoryOnly,
    /// It may.
    Any,
}

/// A query over rows; a get is one over a single row.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The first row; empty for the region's end on that side.
    pub start: Bytes,
    /// Whether the first row belongs.
    pub include_start: bool,
    /// The last row; empty for the region's end on that side.
    pub stop: Bytes,
    /// Whether the last row belongs.
    pub include_stop: bool,
    /// From great to small.
    pub reversed: bool,
    /// The families; none stands for all.
    pub families: Vec<FamilyQuery>,
    /// What judges the cells.
    pub filter: Option<Filter>,
    /// The timestamps that belong.
    pub time_range: TimeRange,
    /// Versions of a column, at most.
    pub max_versions: u32,
    /// Cells of a result, at most.
    pub batch: Option<u32>,
    /// Cells of a row and family, at most.
    pub store_limit: Option<u32>,
    /// Cells of a row and family that are passed over.
    pub store_offset: u32,
    /// With markers and what they mask.
    pub raw: bool,
    /// Which writes are seen.
    pub isolation: Isolation,
    /// An earlier scanner's read point, to go on where it was.
    pub read_point: Option<SequenceId>,
    /// Whether blocks that are read are kept.
    pub cache_blocks: bool,
    /// Whether families that the filter does not look at are read only for rows that pass. Results are the same.
    pub load_families_on_demand: Option<bool>,
    /// Whether files are read block by block or ahead. Results are the same.
    pub read_type: ReadType,
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
        }
    }
}

impl Scan {
    /// Everything of one row.
    pub fn get(row: Bytes) -> Scan {
        Scan { start: row.clone(), stop: row, include_stop: true, ..Scan::default() }
    }

    /// Up to where all rows belong that follow one that does; `None` for the region's end. Of a scan from small to great.
    pub(crate) fn rows_end(&self) -> Option<&[u8]> {
        Some(&self.stop[..]).filter(|stop| !stop.is_empty())
    }

    /// Whether no second row can belong.
    pub fn is_one_row(&self) -> bool {
        !self.start.is_empty() && self.start == self.stop
    }
}

/// How much one step of a scanner may give.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows. Where a step gives more than one, it is told [where each ends](cell::CellSink::row_ends), and none is cut.
    pub rows: usize,
    /// Heap size of cells after which a row may be cut, in HBase's counting.
    pub bytes: u64,
    /// When a row is cut, if it may be, for whoever waits. Rows that the filter judges as a whole are not.
    pub deadline: Option<Moment>,
    /// Whether a row may be cut at all.
    pub allow_partial: bool,
}

impl Limits {
    /// A row, whatever it takes.
    pub const NONE: Limits = Limits { rows: 1, bytes: u64::MAX, deadline: None, allow_partial: false };
}
