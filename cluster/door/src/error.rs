//! Why a root folder cannot be read or changed.

use storage::FileName;

/// The result of reading or changing a root.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a root folder cannot be read or changed. After a failed adoption, HBase can open the root, and the adoption can
/// be repeated. After a failed hand-back, the root is still this project's, and the hand-back can be repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder is not a root folder of HBase.
    #[error(
        "{0} has no hbase.version: it is no root folder of Apache HBase; name the folder that hbase.rootdir says"
    )]
    NoRoot(String),
    /// A file is missing that the root of every supported release has.
    #[error("{file} is missing: {remedy}")]
    Missing {
        /// The missing file or folder.
        file: FileName,
        /// What the operator should do.
        remedy: &'static str,
    },
    /// The layout of the root is that of another release.
    #[error(
        "{file} says layout version {found}, expected 8: start a release 2.x of HBase on this root once, and stop it"
    )]
    Version {
        /// The file with the layout version.
        file: FileName,
        /// The version that the file states.
        found: String,
    },
    /// A small file of the root cannot be understood.
    #[error("{file} cannot be read: {cause}; repair it with HBase's own tools first")]
    Damaged {
        /// The name of the file.
        file: String,
        /// What is wrong with the file.
        cause: Box<proto::Error>,
    },
    /// A row of a catalog table cannot be understood.
    #[error("row {row} of {table} cannot be read: {cause}; repair it with HBase's own tools first")]
    Row {
        /// The name of the table.
        table: &'static str,
        /// The key of the row, in printable form.
        row: String,
        /// What is wrong with the row.
        cause: Box<proto::Error>,
    },
    /// Files of a region cannot be read or written.
    #[error("{what}: {cause}")]
    Region {
        /// The name of the region or store.
        what: String,
        /// What is wrong with the files.
        cause: Box<region::Error>,
    },
    /// Two logs of HBase have different writes of a region with the same sequence ids.
    #[error(
        "write {sequence} of region {region} in {file} comes after later ones of another log: start HBase once more, and stop \
         it in order"
    )]
    Order {
        /// The log file.
        file: FileName,
        /// The region's encoded name.
        region: String,
        /// The sequence id of the write.
        sequence: u64,
    },
    /// Files of the root are missing or cannot be read.
    #[error(
        "{first}{}; nothing was changed: put the files back from a backup, or repair them, and repeat", other_things(*others)
    )]
    Blocked {
        /// The first finding.
        first: String,
        /// Number of further findings.
        others: usize,
    },
    /// A change is unfinished that only this project can finish.
    #[error("{what} is not finished: run bellows start on the root, wait until it is, and stop it in order")]
    Unfinished {
        /// The change that is under way.
        what: String,
    },
    /// A region has writes that are only in the log.
    #[error(
        "region {region} has writes that are in no store file: run bellows start on the root, and stop it in order"
    )]
    NotFlushed {
        /// The name of the region.
        region: String,
    },
    /// The owner of the log was killed, or still runs.
    #[error(
        "the server that wrote the log was not stopped in order: run bellows start on the root, and stop it in order"
    )]
    NotClosed,
    /// A log of HBase cannot be read.
    #[error(transparent)]
    HBaseLog(#[from] hbaselog::Error),
    /// A log cannot be opened.
    #[error(transparent)]
    Log(#[from] wal::Error),
    /// A descriptor cannot be read.
    #[error(transparent)]
    Descriptor(#[from] master::Error),
    /// Storage failed.
    #[error(transparent)]
    Storage(#[from] storage::Error),
}

/// Returns a clause that counts further findings, which `bellows fsck` lists in a root of this project.
fn other_things(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", and {count} more, which bellows fsck lists") }
}

impl Error {
    /// Adds the name of the region or store to an error.
    pub(crate) fn of_region(what: impl ToString) -> impl FnOnce(region::Error) -> Error {
        move |cause| Error::Region { what: what.to_string(), cause: Box::new(cause) }
    }
}
