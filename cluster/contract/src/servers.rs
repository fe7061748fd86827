//! The region servers of a cluster, as their master sees them.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use proto::{EncodedName, RegionInfo, ServerName, TableDescriptor, pb};
use rpc::Exception;
use storage::FileName;

use crate::{CatalogEdit, CatalogRow, OpenSequence, Stamp, Term};

/// The future of a server's answer to an order.
pub type ServerFuture<T> = Pin<Box<dyn Future<Output = Result<T, Exception>> + Send>>;

/// The order to open a region.
#[derive(Debug, Clone)]
pub struct OpenOrder {
    /// The region to open, whose folder exists.
    pub region: RegionInfo,
    /// The schema with which the region is opened.
    pub table: Arc<TableDescriptor>,
    /// The term of the opening.
    pub term: Term,
}

/// The order to write the folder of a region that takes over rows of closed regions.
#[derive(Debug, Clone)]
pub struct InheritOrder {
    /// The new region, which was never open.
    pub child: RegionInfo,
    /// The closed regions whose rows the child takes: either all rows of each region, or the rows on one side of a
    /// split row of a single region.
    pub parents: Vec<RegionInfo>,
    /// The schema of the table.
    pub table: Arc<TableDescriptor>,
}

/// The order to list the files of a region for a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotOrder {
    /// The region whose files are listed.
    pub region: RegionInfo,
    /// The schema of the region's table.
    pub table: Arc<TableDescriptor>,
    /// What the list must contain.
    pub content: SnapshotContent,
}

/// What a server does with a region that is to be closed, if the disk has no room for its flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFullDisk {
    /// The region serves on, and the order fails.
    ServesOn,
    /// The region is closed, and the server keeps its memory until there is room, or until the region is
    /// [forgotten](RegionServers::forget). For regions that stay closed: nobody reads their folders meanwhile. Every other order
    /// for the region first flushes it, and fails if that fails.
    KeepsMemory,
}

/// What the list of a region's files for a snapshot must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotContent {
    /// The region is open. The list must contain every write that was acknowledged, so the region is flushed first.
    Flushed,
    /// The region is open. The list contains its files, without what is in memory.
    Files,
    /// The region is closed. The list contains its files.
    Closed,
}

/// The order to write the folder of a new region with links to the files of a snapshot.
#[derive(Debug, Clone)]
pub struct CloneOrder {
    /// The new region, which was never open.
    pub region: RegionInfo,
    /// The snapshot's files of the region from which the new region is cloned.
    pub source: pb::SnapshotRegionManifest,
}

/// The facts that decide whether a region can be split or merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionShape {
    /// Whether the region refers to files of a parent. Such a region can be neither split nor merged before it is
    /// compacted.
    pub has_references: bool,
    /// Whether the split policy of the table permits any split.
    pub can_split: bool,
    /// The row at which to split; `None` if the region has too little data, or if no row was requested.
    pub split_row: Option<Bytes>,
}

/// The row that a [shape](RegionServers::shape) should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitRow {
    /// None.
    None,
    /// The row that divides the region's data best. The region may be flushed to find it.
    Best,
    /// This row, as the table's split restriction shortens it.
    Given(Bytes),
}

/// What a server reports of a region that it has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionReport {
    /// The encoded name of the region.
    pub region: EncodedName,
    /// The term under which the region was opened.
    pub term: Term,
}

/// The region servers of a cluster. No call blocks: the returned future waits for the answer. An order for a server
/// that is not live fails.
pub trait RegionServers: fmt::Debug + Send + Sync + 'static {
    /// Returns the live servers, on which regions can be opened.
    fn live(&self) -> Vec<ServerName>;

    /// Opens a region and replays the records that the server's log has of it. When the future ends, the region is
    /// ready for reads and writes.
    fn open(&self, server: &ServerName, order: OpenOrder) -> ServerFuture<OpenSequence>;

    /// Applies a new schema to a region that is open under the order's term. Returns `false` and changes nothing if the
    /// region must be closed and opened instead.
    fn alter(&self, server: &ServerName, order: OpenOrder) -> ServerFuture<bool>;

    /// Makes a region that is open under this term refuse puts, increments and appends to `families`, which are about to be
    /// deleted, and accept them for all others. Deletes are accepted, because the delete of a row names all families. Writes
    /// that have begun are completed. Ends when the region is opened again.
    fn refuse_puts(
        &self,
        server: &ServerName,
        region: &EncodedName,
        term: Term,
        families: Vec<Bytes>,
    ) -> ServerFuture<()>;

    /// Flushes and closes a region. From then on calls to it get `NotServingRegionException`. Closing a region that is
    /// not open succeeds. If the region cannot be flushed, it serves on under its term, unless `on_full_disk` says otherwise.
    fn close(
        &self,
        server: &ServerName,
        region: &EncodedName,
        term: Term,
        on_full_disk: OnFullDisk,
    ) -> ServerFuture<()>;

    /// Removes every row of a closed region, including rows that are only in the log. Can be repeated: a crash may
    /// leave some families empty and others not.
    fn truncate(&self, server: &ServerName, order: OpenOrder) -> ServerFuture<()>;

    /// Writes the files of a region that takes rows of closed regions, as references to their files. No data is copied.
    /// Can be repeated until the new region was opened.
    fn inherit(&self, server: &ServerName, order: InheritOrder) -> ServerFuture<()>;

    /// Lists the files of a region at one moment. If they refer to MOB files, these follow as files of the table's region
    /// of MOB files. The caller has recorded that a snapshot is being taken, so that no listed file is deleted.
    fn snapshot(
        &self,
        server: &ServerName,
        order: SnapshotOrder,
    ) -> ServerFuture<Vec<pb::SnapshotRegionManifest>>;

    /// Writes the folder of a new region with links to the files of a snapshot. The snapshot must not be deleted
    /// meanwhile. Can be repeated until the new region was opened.
    fn write_clone(&self, server: &ServerName, order: CloneOrder) -> ServerFuture<()>;

    /// Whether files in the folder of a closed region are still needed by regions that took its rows, by links or by
    /// readers. Snapshots do not count: they find their files in the archive.
    fn is_needed(&self, server: &ServerName, folder: FileName) -> ServerFuture<bool>;

    /// Returns the shape of an open region, with the split row that is asked for, unless the region has none.
    fn shape(&self, server: &ServerName, region: &EncodedName, row: SplitRow) -> ServerFuture<RegionShape>;

    /// Removes the folder of a table, region or family that is not in the catalog any more and whose regions are
    /// closed. Files that a link, a snapshot or a reader still needs are moved to the archive; all others are deleted.
    /// Can be repeated. Fails if a region that is open on the server has files in the folder.
    fn drop_folder(&self, server: &ServerName, folder: FileName) -> ServerFuture<()>;

    /// Returns the regions that the server has open, with their terms.
    fn report(&self, server: &ServerName) -> ServerFuture<Vec<RegionReport>>;

    /// Discards the log records of a closed region that was removed.
    fn forget(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<()>;

    /// Records the nonces that the server's log has of regions that no longer exist, because a client may repeat a call
    /// to a region that was split or merged meanwhile. `serving` names the regions that exist. Called before the
    /// regions of a starting cluster open.
    fn recover_nonces(&self, server: &ServerName, serving: BTreeSet<EncodedName>) -> ServerFuture<()>;

    /// Discards the records that the server's log has from earlier runs, except those of the regions in `known`.
    fn forget_others(&self, server: &ServerName, known: BTreeSet<EncodedName>) -> ServerFuture<()>;

    /// Flushes an open region: the families in `families`, or all when none is named.
    fn flush(&self, server: &ServerName, region: &EncodedName, families: Vec<Bytes>) -> ServerFuture<()>;

    /// Requests a major compaction of an open region's families. The future ends when the compaction is in the server's
    /// queue.
    fn compact(&self, server: &ServerName, region: &EncodedName, families: Vec<Bytes>) -> ServerFuture<()>;

    /// Returns the creation time of the oldest file of the region that a major compaction has written, in ms since
    /// 1970; 0 if there is none.
    fn last_major_compaction(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<i64>;

    /// Returns the load of the server and of each region that it has open.
    fn load(&self, server: &ServerName) -> ServerFuture<pb::ServerLoad>;

    /// Returns all rows of an open region, in order.
    fn rows(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<Vec<CatalogRow>>;

    /// Returns the newest timestamp of any cell or delete marker in an open region; zero when the region is empty.
    fn newest(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<Stamp>;

    /// Applies edits to an open region, all of them or none, even if the server crashes. They are durable when the
    /// future ends.
    fn write(
        &self,
        server: &ServerName,
        region: &EncodedName,
        stamp: Stamp,
        edits: Vec<CatalogEdit>,
    ) -> ServerFuture<()>;

    /// Tells the server to flush and close everything and to end. The server does so after this call has returned.
    fn stop(&self, server: &ServerName);
}

/// What a region server asks its master to do.
pub trait MasterRequests: Send + Sync + 'static {
    /// Asks the master to split a region that has grown too large at `row`. The call returns without waiting for the
    /// split. The master decides whether it splits the region; if it does not, the server may ask again.
    fn split(&self, region: &RegionInfo, row: Bytes);
}
