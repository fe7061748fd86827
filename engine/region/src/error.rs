//! What can go wrong in a region. Which exception a client sees is decided by the region server, in one place.

/// The result of an act on a region.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the region could not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The row lies outside: the caller's picture of the regions is old.
    #[error(
        "Requested row out of range for {what} on HRegion {region}, startKey='{start}', getEndKey()='{end}', row='{row}'"
    )]
    WrongRegion {
        /// What was tried.
        what: &'static str,
        /// The region's name.
        region: String,
        /// Its first row.
        start: String,
        /// The first row after it.
        end: String,
        /// The row.
        row: String,
    },
    /// The table has no such family.
    #[error("Column family {family} does not exist in region {region} in table {table}")]
    NoSuchFamily {
        /// The family.
        family: String,
        /// The region's name.
        region: String,
        /// The table's name.
        table: String,
    },
    /// The memstore is over its limit, or a row is locked too long: try again.
    #[error("{0}")]
    TooBusy(String),
    /// The region is closed or closing.
    #[error("{0} is closed")]
    NotServing(String),
    /// The value that shall be incremented is not eight bytes long.
    #[error("Field is not a long, it's {0} bytes wide")]
    NotALong(usize),
    /// The cell is over the limit.
    #[error("Cell with size {size} exceeds limit of {limit} bytes")]
    CellTooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A filter cannot judge a cell.
    #[error(transparent)]
    Filter(filter::Failure),
    /// The whole row is too big to be read at once.
    #[error("Max row size allowed: {limit}, but the row is bigger than that: {row}")]
    RowTooBig {
        /// The limit in bytes.
        limit: u64,
        /// The row.
        row: String,
    },
    /// A request that can never succeed.
    #[error("{0}")]
    BadRequest(String),
    /// The table takes no writes.
    #[error("region is read only: {0}")]
    ReadOnly(String),
    /// A timestamp further in the future than is allowed.
    #[error("Timestamp for KV out of range {cell} (too.new={slop})")]
    BadTimestamp {
        /// The cell.
        cell: String,
        /// How far is allowed, in milliseconds.
        slop: i64,
    },
    /// The log failed or was fenced: this region acknowledges nothing any more.
    #[error("region aborted: {0}")]
    Aborted(String),
    /// Something that always holds did not, here or in a file: the act was given up, and changed nothing.
    #[error("an invariant is broken: {0}")]
    Broken(String),
    /// A block is not in memory, and the caller must not wait for it.
    #[error("a block must be read from storage")]
    WouldBlock,
    /// A block is not in memory, and can be awaited. Then the read is repeated.
    #[error("{} bytes at offset {} of {} must be read from storage", .0.length(), .0.offset(), .0.file())]
    Missing(hfile::MissingBlock),
    /// A store file is damaged or cannot be read or written.
    #[error(transparent)]
    File(hfile::Error),
    /// The log cannot be read or written.
    #[error(transparent)]
    Log(#[from] wal::Error),
    /// A file cannot be read or written.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// Writing a store's file list failed and may have happened. The store keeps all its files, and writes no list until
    /// its place can be read again.
    #[error(
        "cannot tell whether the file list {list} was written: {cause}; nothing is deleted from the store, and no flush \
         or compaction of it succeeds until its folder can be read and written again"
    )]
    InDoubt {
        /// The list.
        list: storage::FileName,
        /// Why its writing failed, or why it cannot be read.
        cause: storage::Error,
    },
    /// A file list or a region's own file is damaged.
    #[error("{file} is corrupt: {what}, expected {expected}, found {found}")]
    Corrupt {
        /// The file.
        file: String,
        /// What is wrong.
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
}

impl Error {
    /// Whether the call would succeed if it could wait: for a block, a row's lock or a processor.
    pub fn would_block(&self) -> bool {
        matches!(self, Error::WouldBlock | Error::Missing(_))
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
