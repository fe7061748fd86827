//! Reasons why a region refuses a request. Each variant names the thing that is wrong, and most texts say what to do.

use cell::SequenceId;
use proto::{EncodedName, RegionInfo, TableName};
use storage::FileName;

/// Why files cannot be bulk-loaded. The same call fails again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BulkLoadRefusal {
    /// The table has no such family.
    #[error("No such column family {family}")]
    NoSuchFamily {
        /// The family.
        family: String,
    },
    /// A file has no cells, so its key range is unknown.
    #[error("bulk load file {path} has no cells; leave it out")]
    NoCells {
        /// The file, as the client named it.
        path: String,
    },
    /// The cells of a file are in the order of another kind of table.
    #[error("bulk load file {path} has the order of another kind of table; write it for table {table}")]
    OtherOrder {
        /// The file, as the client named it.
        path: String,
        /// The table into which the file should be loaded.
        table: TableName,
    },
    /// The cells of a file belong to another family than the one into which the file should be loaded.
    #[error(
        "bulk load file {path} is for column family {family}, and its cells are of {found}; move it to the folder of its \
         family"
    )]
    OtherFamily {
        /// The file, as the client named it.
        path: String,
        /// The family that the file should be loaded into.
        family: String,
        /// The family of the file's cells.
        found: String,
    },
}

/// Why a new region cannot take over the files of another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeirRefusal {
    /// The new region has no parent.
    #[error("region {child} has no parent to take rows from")]
    NoParent {
        /// The new region.
        child: Box<RegionInfo>,
    },
    /// The parent has writes that are in no file yet.
    #[error("region {parent} has writes that are in no file; close it before region {child} takes its rows")]
    UnflushedWrites {
        /// The region with the writes.
        parent: Box<RegionInfo>,
        /// The new region.
        child: Box<RegionInfo>,
    },
    /// A file is half of another one already.
    #[error(
        "file {file} of region {region} is half of another; compact the region before it is split or merged"
    )]
    HalfFile {
        /// The file's name in its store.
        file: String,
        /// The region that lists the file.
        region: EncodedName,
    },
    /// The rows of the new region are not those on one side of a row.
    #[error("region {child} takes neither all rows of region {parent} nor those on one side of a row")]
    NotOneSide {
        /// The new region.
        child: Box<RegionInfo>,
        /// The region whose files it is to take over.
        parent: Box<RegionInfo>,
    },
}

/// Why a call would have to wait longer than it may. The caller retries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Busy {
    /// Another write holds the lock of the row.
    #[error("Failed to obtain the lock of row {row} within {waited_ms} ms (hbase.rowlock.wait.duration)")]
    RowLocked {
        /// The locked row.
        row: String,
        /// How long the call waited, in ms.
        waited_ms: u128,
    },
    /// The region's memory is over its limit.
    #[error("Over memstore limit={limit}, regionName={region}, memstoreSize={size}; wait for a flush")]
    MemstoreFull {
        /// The limit of the region's memory in bytes.
        limit: u64,
        /// The region whose memory is over its limit.
        region: EncodedName,
        /// The size of the region's memory in bytes.
        size: u64,
    },
    /// A bulk load copied its files for so long that the region's writes have reached the sequence id that it had chosen.
    #[error(
        "writes reached sequence id {written} while the files were copied, and the load had chosen {sequence}; load again"
    )]
    LoadOvertaken {
        /// The sequence id that the load had chosen.
        sequence: SequenceId,
        /// The sequence id of the last write.
        written: SequenceId,
    },
    /// The janitor is deleting the file that the call would write.
    #[error("the janitor is deleting {file}, left by an earlier load; load again")]
    FileCondemned {
        /// The file.
        file: FileName,
    },
}
