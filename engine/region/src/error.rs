//! Errors of a region. The region server maps them to exceptions, in one place.

mod refusals;

pub use refusals::{BulkLoadRefusal, Busy, HeirRefusal};

/// The result of an operation on a region.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a region failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The row is outside the region: the caller's knowledge of region locations is out of date.
    #[error(
        "Requested row out of range for {what} on HRegion {region}, startKey='{start}', getEndKey()='{end}', row='{row}'"
    )]
    WrongRegion {
        /// The name of the operation.
        what: &'static str,
        /// The region's name.
        region: String,
        /// The region's first row.
        start: String,
        /// The row after the region's last one.
        end: String,
        /// The requested row.
        row: String,
    },
    /// The table has no such family.
    #[error("Column family {family} does not exist in region {region} in table {table}")]
    NoSuchFamily {
        /// The name of the family.
        family: String,
        /// The region's name.
        region: String,
        /// The table's name.
        table: String,
    },
    /// The family is about to be deleted, so it takes no puts.
    #[error("Column family {family} in region {region} in table {table} is being deleted and takes no puts")]
    FamilyIsDeleted {
        /// The name of the family.
        family: String,
        /// The region's name.
        region: String,
        /// The table's name.
        table: String,
    },
    /// The call would wait too long: the caller may retry.
    #[error(transparent)]
    TooBusy(#[from] Busy),
    /// The region is closed or closing.
    #[error("{0} is closed")]
    NotServing(String),
    /// The compaction of this store was ended, because compactions were switched off or another operation needs the
    /// store.
    #[error("the compaction of {0} was interrupted")]
    Interrupted(String),
    /// The value to increment is not 8 bytes long.
    #[error("Field is not a long, it's {0} bytes wide")]
    NotALong(usize),
    /// The cell is larger than the limit.
    #[error("Cell with size {size} exceeds limit of {limit} bytes")]
    CellTooLarge {
        /// Size of the cell in bytes.
        size: usize,
        /// Maximum size of a cell in bytes.
        limit: usize,
    },
    /// A filter cannot judge a cell.
    #[error(transparent)]
    Filter(filter::Failure),
    /// The row is larger than a read may return at once.
    #[error("Max row size allowed: {limit}, but the row is bigger than that: {row}")]
    RowTooBig {
        /// Maximum size of a row in bytes.
        limit: u64,
        /// The row that is too large.
        row: String,
    },
    /// Files cannot be bulk-loaded.
    #[error(transparent)]
    BulkLoad(#[from] BulkLoadRefusal),
    /// A new region cannot take over files.
    #[error(transparent)]
    Heir(#[from] HeirRefusal),
    /// The cell that an increment or append would write is longer than a cell can be.
    #[error(
        "the new cell of column {column} in row {row} cannot be written: {cause}; replace the column by a put of a \
         shorter value"
    )]
    NewCellTooLong {
        /// Family and qualifier of the column.
        column: String,
        /// The row of the cell.
        row: String,
        /// Which part of the cell is too long.
        cause: cell::Malformed,
    },
    /// A row key is empty.
    #[error("Row length can't be 0")]
    EmptyRow,
    /// A row key has this many bytes, which is too long for a cell.
    #[error("Row length {0} is > {max}", max = cell::ROW_LENGTH_MAX)]
    RowTooLong(usize),
    /// A mutation of one row has a cell of another row.
    #[error("a cell of row {cell_row} is in a mutation of row {row}")]
    CellOfOtherRow {
        /// The row of the cell.
        cell_row: String,
        /// The row of the mutation.
        row: String,
    },
    /// A cell has this negative timestamp, in ms.
    #[error("Timestamp cannot be negative. ts={0}")]
    NegativeTimestamp(i64),
    /// A reversed scan has families that are loaded on demand.
    #[error("Reverse scan with loading CFs on demand is not supported")]
    ReversedOnDemand,
    /// A filter that judges whole rows is used by a scan that returns parts of rows.
    #[error(
        "Filter whose hasFilterRow() returns true is incompatible with scans that must stop mid-row because of a limit: \
         ask without a batch"
    )]
    FilterNeedsWholeRows,
    /// The attributes of the table or of a family are invalid.
    #[error(transparent)]
    Schema(proto::Error),
    /// The table takes no writes.
    #[error("region is read only: {0}")]
    ReadOnly(String),
    /// A timestamp is further in the future than allowed.
    #[error("Timestamp for KV out of range {cell} (too.new={slop})")]
    BadTimestamp {
        /// The cell with the timestamp.
        cell: String,
        /// How far in the future a timestamp may be, in ms.
        slop: i64,
    },
    /// The region was aborted, because the log failed or another process has taken it. The region acknowledges nothing
    /// any more.
    #[error("region aborted: {0}")]
    Aborted(String),
    /// An invariant is violated, in memory or in a file: the operation was abandoned and changed nothing.
    #[error("an invariant is broken: {0}")]
    Broken(String),
    /// A block is not in memory, a row lock is taken, or the call has used up its time on this thread, and the caller
    /// must not wait. The caller repeats the call on a thread that may block.
    #[error("a block must be read from storage")]
    WouldBlock,
    /// A MOB value must be read from storage, and the caller must not wait for it; or the value is longer than the
    /// caller allows. The caller repeats the read after it has waited for memory, on a thread that may block.
    #[error("a value of {bytes} bytes must be read from storage, or needs memory that must be waited for")]
    MobValue {
        /// Length of the value, as the reference cell states it.
        bytes: u64,
    },
    /// A block is not in memory, and can be awaited. Afterwards the read is repeated.
    #[error("{} bytes at offset {} of {} must be read from storage", .0.length(), .0.offset(), .0.file())]
    Missing(hfile::MissingBlock),
    /// A store file is damaged or cannot be read or written.
    #[error(transparent)]
    File(hfile::Error),
    /// The value of a reference cell is not in its MOB file, or the file does not exist.
    #[error(
        "the value of {cell} is not in the MOB file {file}; a scan with the attribute hbase.mob.scan.raw shows the references, \
         and one with empty.value.on.mobcell.miss returns an empty value"
    )]
    NoMobValue {
        /// The key of the cell.
        cell: String,
        /// The name of the MOB file.
        file: String,
    },
    /// The log cannot be read or written.
    #[error(transparent)]
    Log(#[from] wal::Error),
    /// A file cannot be read or written.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// Another server has taken the store. This server must not change the store's files any more.
    #[error("the file list {list} was taken by {by}: this server no longer owns the store, and must end")]
    Fenced {
        /// The store's file list.
        list: storage::FileName,
        /// The server that has taken the store.
        by: String,
    },
    /// Writing a store's file list failed and may have happened. The store keeps all its files, and writes no list
    /// until it has read its folder again.
    #[error(
        "cannot tell whether the file list {list} was written: {cause}; nothing is deleted from the store, and no flush \
         or compaction of it succeeds until its folder can be read and written again"
    )]
    InDoubt {
        /// The store's file list.
        list: storage::FileName,
        /// Why the list could not be written or read.
        cause: storage::Error,
    },
    /// A file list or a region's own file is damaged.
    #[error("{file} is corrupt: {what}, expected {expected}, found {found}")]
    Corrupt {
        /// The name of the file.
        file: String,
        /// What is wrong with the file.
        what: &'static str,
        /// The content that is expected.
        expected: String,
        /// The content that the file has.
        found: String,
    },
}

impl Error {
    /// Returns the length of the MOB value that must be read from storage; 0 for other errors.
    pub fn mob_bytes(&self) -> u64 {
        match self {
            Error::MobValue { bytes } => *bytes,
            _ => 0,
        }
    }

    /// Whether the call failed only because it may not block: for a block, a MOB value, a row lock or processor time.
    pub fn would_block(&self) -> bool {
        matches!(self, Error::WouldBlock | Error::Missing(_) | Error::MobValue { .. })
    }

    /// Whether the call failed only because the disk of the files or of the log is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Error::Storage(error) => error.kind() == storage::Kind::Full,
            Error::Log(error) => matches!(error, wal::Error::Full { .. }),
            _ => false,
        }
    }
}

impl From<hfile::Error> for Error {
    fn from(error: hfile::Error) -> Error {
        match error {
            hfile::Error::NotCached => Error::WouldBlock,
            hfile::Error::Missing(block) => Error::Missing(block),
            hfile::Error::Storage(error) => Error::Storage(error),
            error => Error::File(error),
        }
    }
}
