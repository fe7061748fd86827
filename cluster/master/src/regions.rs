//! The seam to the region server that lives in the same process.
//!
//! The master decides which regions are open and what hbase:meta says; whoever implements [`Regions`] opens, closes and
//! reads them. All calls block and are made from threads that may wait.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use proto::catalog::Column;
use proto::{EncodedName, RegionInfo, ServerName, TableDescriptor, pb};
use rpc::Exception;

/// A row as the catalog's tables hold them: the newest version of each column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The row's key.
    pub key: Bytes,
    /// Its columns, in order.
    pub columns: Vec<Column>,
}

/// A change of one row of a catalog table. Durable, with all others of its batch, when the call returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Sets columns.
    Put(Row),
    /// Deletes the row in all families of the table, up to the edit's timestamp.
    Delete(Bytes),
}

/// The timestamp of an edit, ms since 1970. The master gives each batch a greater one than the batch before, so that a
/// row written anew is never hidden by its own earlier deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

/// The sequence id that a region was opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenSequence(pub u64);

/// The regions of this process.
pub trait Regions: fmt::Debug + Send + Sync + 'static {
    /// The server that clients find them on.
    fn server(&self) -> ServerName;

    /// Opens a region, whose folder is there, and replays what the log has for it. Ready for reads and writes when this
    /// returns. Opening an open region gives its sequence id again.
    fn open(&self, region: &RegionInfo, table: &Arc<TableDescriptor>) -> Result<OpenSequence, Exception>;

    /// Flushes and closes a region. From now on calls to it get `NotServingRegionException`. Closing a region that is
    /// not open succeeds.
    fn close(&self, region: &EncodedName) -> Result<(), Exception>;

    /// Removes every row of a region that is closed, also from what the log has of it. Can be repeated: a crash may leave
    /// some families without rows and others with theirs.
    fn truncate(&self, region: &RegionInfo, table: &Arc<TableDescriptor>) -> Result<(), Exception>;

    /// The region is gone for good: nothing that the log has of it will be asked for. It is closed.
    fn discard(&self, region: &EncodedName);

    /// Tells, once all is open after a start, which regions there are: what the log has of others is discarded. A region
    /// that could not be opened is among them and keeps its records.
    fn keep_only(&self, known: &BTreeSet<EncodedName>);

    /// Whether the region is open.
    fn is_open(&self, region: &EncodedName) -> bool;

    /// Flushes an open region: these families, or all when none is named.
    fn flush(&self, region: &EncodedName, families: &[Bytes]) -> Result<(), Exception>;

    /// When the oldest of the region's files was written by a major compaction, ms since 1970; 0 if there is none.
    fn last_major_compaction(&self, region: &EncodedName) -> Result<i64, Exception>;

    /// The load of the server and of every open region.
    fn load(&self) -> pb::ServerLoad;

    /// All rows of an open region, in order.
    fn rows(&self, region: &EncodedName) -> Result<Vec<Row>, Exception>;

    /// The newest timestamp of anything that an open region holds, markers of deletion included; zero when it is empty.
    fn newest(&self, region: &EncodedName) -> Result<Stamp, Exception>;

    /// Has the process end in order: everything is flushed and closed after this has returned.
    fn stop(&self);

    /// Applies edits to an open region, each row atomically, in order.
    fn write(&self, region: &EncodedName, stamp: Stamp, edits: Vec<Edit>) -> Result<(), Exception>;
}
