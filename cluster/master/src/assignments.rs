//! The assignment of regions to servers: the master's side of the contract with the region servers.
//!
//! A region is opened on one server, under a term greater than all its earlier terms, and is closed there. All other
//! orders about the region go to this server, its owner. Calls of this module wait for the answers of servers, so they
//! are made from threads that may block.
//!
//! The owners are kept in memory. hbase:meta names them, too, for clients and for the next start of the master. But no
//! region is open when a process starts. So a start assigns each region again, to its last server if that server is
//! live.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use contract::{
    CatalogEdit, CatalogRow, CloneOrder, InheritOrder, OnFullDisk, OpenOrder, OpenSequence, RegionServers,
    RegionShape, ServerFuture, SnapshotContent, SnapshotOrder, SplitRow, Stamp, Term,
};
use env::World;
use env::sync::Mutex;
use proto::catalog::RegionRow;
use proto::{EncodedName, RegionInfo, ServerName, TableDescriptor, pb};
use rpc::Exception;
use storage::FileName;

/// Where a region is open: the server, and the term of the assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) server: ServerName,
    pub(crate) term: Term,
    /// Whether the master has ordered the server to close the region, and does not know that the server has refused.
    pub(crate) is_closing: bool,
}

/// A region that is open, because it was opened or because it was open already.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The region's row for hbase:meta.
    pub(crate) row: RegionRow,
    /// Whether the region had an owner before. Then it was perhaps open, and has the schema with which it was opened.
    pub(crate) had_owner: bool,
}

/// Timestamps that never occur twice: the present time or, if that is not greater than the last timestamp, one more
/// than that. Used for catalog edits, terms and region ids.
#[derive(Debug)]
pub(crate) struct StampClock {
    world: World,
    last: Mutex<u64>,
}

impl StampClock {
    pub(crate) fn new(world: World) -> StampClock {
        StampClock { world, last: Mutex::new(0) }
    }

    pub(crate) fn next(&self) -> Stamp {
        let mut last = self.last.lock();
        *last = u64::try_from(self.world.now().0).unwrap_or(0).max(*last + 1);
        Stamp(*last)
    }

    /// Makes all later timestamps greater than `newest`.
    pub(crate) fn stamp_after(&self, newest: Stamp) {
        let mut last = self.last.lock();
        *last = newest.0.max(*last);
    }
}

/// The owners of all regions.
#[derive(Debug)]
pub(crate) struct Assignments {
    servers: Arc<dyn RegionServers>,
    clock: Arc<StampClock>,
    owners: Mutex<BTreeMap<EncodedName, Assignment>>,
}

impl Assignments {
    pub(crate) fn new(servers: Arc<dyn RegionServers>, clock: Arc<StampClock>) -> Assignments {
        Assignments { servers, clock, owners: Mutex::default() }
    }

    /// Returns the live servers.
    pub(crate) fn live(&self) -> Vec<ServerName> {
        self.servers.live()
    }

    /// Returns the owner of a region; `None` when the region is closed.
    pub(crate) fn owner(&self, region: &EncodedName) -> Option<Assignment> {
        self.owners.lock().get(region).cloned()
    }

    /// Opens a region and returns its new row. A region that is open stays where it is. A closed region goes to the
    /// server that `last` names if that server is live, or else to the server with the fewest regions.
    pub(crate) fn open(
        &self,
        region: &RegionInfo,
        table: &Arc<TableDescriptor>,
        last: Option<&ServerName>,
    ) -> Result<Opened, Exception> {
        let name = region.encoded_name();
        // The region may still be closing. That must end before the region is opened under a new term.
        if self.owner(name).is_some_and(|owner| owner.is_closing) {
            self.close(name)?;
        }
        let (owner, had_owner) = {
            let mut owners = self.owners.lock();
            match owners.get(name) {
                Some(owner) => (owner.clone(), true),
                None => {
                    let server = choose(&self.servers.live(), &owners, last)?;
                    let owner = Assignment { server, term: Term(self.clock.next().0), is_closing: false };
                    // The owner is recorded before the order is sent. So a close that comes meanwhile knows the server.
                    owners.insert(name.clone(), owner.clone());
                    (owner, false)
                }
            }
        };
        let order = OpenOrder { region: region.clone(), table: Arc::clone(table), term: owner.term };
        match env::block_on(self.servers.open(&owner.server, order)) {
            Ok(OpenSequence(sequence)) => {
                Ok(Opened { row: RegionRow::open(region.clone(), owner.server, sequence), had_owner })
            }
            Err(cause) => {
                // If the answer is an error, the region is not open on the server.
                let mut owners = self.owners.lock();
                if owners.get(name) == Some(&owner) {
                    owners.remove(name);
                }
                Err(cause)
            }
        }
    }

    /// Applies a new schema to an open region. Returns `false` if the region must be reopened instead; see
    /// [`RegionServers::alter`].
    pub(crate) fn alter(&self, region: &RegionInfo, table: &Arc<TableDescriptor>) -> Result<bool, Exception> {
        let owner = self.owners.lock().get(region.encoded_name()).cloned();
        let Some(owner) = owner.filter(|owner| !owner.is_closing) else { return Ok(false) };
        let order = OpenOrder { region: region.clone(), table: Arc::clone(table), term: owner.term };
        env::block_on(self.servers.alter(&owner.server, order))
    }

    /// Makes an open region refuse puts to these families. Does nothing if the region is open nowhere. See
    /// [`RegionServers::refuse_puts`].
    pub(crate) fn refuse_puts(&self, region: &EncodedName, families: &[Bytes]) -> Result<(), Exception> {
        let owner = self.owners.lock().get(region).cloned();
        let Some(owner) = owner.filter(|owner| !owner.is_closing) else { return Ok(()) };
        env::block_on(self.servers.refuse_puts(&owner.server, region, owner.term, families.to_vec()))
    }

    /// Closes a region where it is open. Does nothing if it is open nowhere. If the disk has no room for its flush, the region
    /// serves on.
    pub(crate) fn close(&self, region: &EncodedName) -> Result<(), Exception> {
        self.close_as(region, OnFullDisk::ServesOn)
    }

    /// Like [`close`](Assignments::close). If the disk has no room for the flush, `on_full_disk` says what follows.
    pub(crate) fn close_as(&self, region: &EncodedName, on_full_disk: OnFullDisk) -> Result<(), Exception> {
        let owner = {
            let mut owners = self.owners.lock();
            let Some(owner) = owners.get_mut(region) else { return Ok(()) };
            owner.is_closing = true;
            owner.clone()
        };
        let closed = env::block_on(self.servers.close(&owner.server, region, owner.term, on_full_disk));
        // A region whose flush fails serves on, and the server reports it.
        let serves_on = closed.is_err()
            && env::block_on(self.servers.report(&owner.server)).is_ok_and(|reports| {
                reports.iter().any(|report| report.region == *region && report.term == owner.term)
            });
        let mut owners = self.owners.lock();
        if let Some(known) = owners.get_mut(region).filter(|known| **known == owner) {
            if closed.is_ok() {
                owners.remove(region);
            } else if serves_on {
                known.is_closing = false;
            }
        }
        closed
    }

    /// Removes every row of a region that is closed.
    pub(crate) fn truncate(
        &self,
        region: &RegionInfo,
        table: &Arc<TableDescriptor>,
        last: Option<&ServerName>,
    ) -> Result<(), Exception> {
        let server = choose(&self.servers.live(), &self.owners.lock(), last)?;
        let term = Term(self.clock.next().0);
        let order = OpenOrder { region: region.clone(), table: Arc::clone(table), term };
        env::block_on(self.servers.truncate(&server, order))
    }

    /// Writes the files of a new region. See [`RegionServers::inherit`].
    pub(crate) fn inherit(
        &self,
        child: &RegionInfo,
        parents: &[RegionInfo],
        table: &Arc<TableDescriptor>,
        last: Option<&ServerName>,
    ) -> Result<(), Exception> {
        let server = choose(&self.servers.live(), &self.owners.lock(), last)?;
        let order =
            InheritOrder { child: child.clone(), parents: parents.to_vec(), table: Arc::clone(table) };
        env::block_on(self.servers.inherit(&server, order))
    }

    /// Lists the files of a region for a snapshot. See [`RegionServers::snapshot`].
    pub(crate) fn snapshot(
        &self,
        order: SnapshotOrder,
    ) -> Result<Vec<pb::SnapshotRegionManifest>, Exception> {
        if order.content == SnapshotContent::Closed {
            let server = choose(&self.servers.live(), &self.owners.lock(), None)?;
            return env::block_on(self.servers.snapshot(&server, order));
        }
        let region = order.region.encoded_name().clone();
        self.ask(&region, |server| self.servers.snapshot(server, order))
    }

    /// Writes the files of a region that is cloned from a snapshot. See [`RegionServers::write_clone`].
    pub(crate) fn write_clone(&self, order: CloneOrder) -> Result<(), Exception> {
        let server = choose(&self.servers.live(), &self.owners.lock(), None)?;
        env::block_on(self.servers.write_clone(&server, order))
    }

    /// Whether files of a folder are still needed, by anything but the folder's closed region. See
    /// [`RegionServers::is_needed`].
    pub(crate) fn is_needed(&self, folder: FileName) -> Result<bool, Exception> {
        let server = choose(&self.servers.live(), &self.owners.lock(), None)?;
        env::block_on(self.servers.is_needed(&server, folder))
    }

    /// Returns the shape of an open region. See [`RegionServers::shape`].
    pub(crate) fn shape(&self, region: &EncodedName, row: &SplitRow) -> Result<RegionShape, Exception> {
        self.ask(region, |server| self.servers.shape(server, region, row.clone()))
    }

    /// Deletes the folder of a table, region or family that is no longer in the catalog. See
    /// [`RegionServers::drop_folder`].
    pub(crate) fn drop_folder(&self, folder: FileName) -> Result<(), Exception> {
        let server = choose(&self.servers.live(), &self.owners.lock(), None)?;
        env::block_on(self.servers.drop_folder(&server, folder))
    }

    /// Returns the regions that their owners report as open.
    pub(crate) fn open_regions(&self) -> Result<BTreeSet<EncodedName>, Exception> {
        let mut open = BTreeSet::new();
        for server in self.servers.live() {
            let reports = env::block_on(self.servers.report(&server))?;
            let owners = self.owners.lock();
            // A report from another server than the owner, or for an earlier term, is ignored.
            let confirmed = reports.into_iter().filter(|report| {
                let owner = owners.get(&report.region);
                owner.is_some_and(|owner| owner.server == server && owner.term == report.term)
            });
            open.extend(confirmed.map(|report| report.region));
        }
        Ok(open)
    }

    /// Discards the log records of a region that was removed. The order goes to every server, because any of them may
    /// have had the region.
    pub(crate) fn forget(&self, region: &EncodedName) -> Result<(), Exception> {
        for server in self.servers.live() {
            env::block_on(self.servers.forget(&server, region))?;
        }
        Ok(())
    }

    /// Records the nonces of regions that no longer exist. See [`RegionServers::recover_nonces`].
    pub(crate) fn recover_nonces(&self, serving: &BTreeSet<EncodedName>) -> Result<(), Exception> {
        for server in self.servers.live() {
            env::block_on(self.servers.recover_nonces(&server, serving.clone()))?;
        }
        Ok(())
    }

    /// Discards the log records from earlier runs, except those of the regions in `known`.
    pub(crate) fn forget_others(&self, known: &BTreeSet<EncodedName>) -> Result<(), Exception> {
        for server in self.servers.live() {
            env::block_on(self.servers.forget_others(&server, known.clone()))?;
        }
        Ok(())
    }

    /// Flushes a region: the families in `families`, or all when none is named.
    pub(crate) fn flush(&self, region: &EncodedName, families: &[Bytes]) -> Result<(), Exception> {
        self.ask(region, |server| self.servers.flush(server, region, families.to_vec()))
    }

    /// Requests a major compaction of a region's families. See [`RegionServers::compact`].
    pub(crate) fn compact(&self, region: &EncodedName, families: &[Bytes]) -> Result<(), Exception> {
        self.ask(region, |server| self.servers.compact(server, region, families.to_vec()))
    }

    /// Returns the creation time of the region's oldest file that a major compaction has written. See
    /// [`RegionServers::last_major_compaction`].
    pub(crate) fn last_major_compaction(&self, region: &EncodedName) -> Result<i64, Exception> {
        self.ask(region, |server| self.servers.last_major_compaction(server, region))
    }

    /// Returns the load of each server that answers.
    pub(crate) fn loads(&self) -> Vec<(ServerName, pb::ServerLoad)> {
        let load = |server: ServerName| match env::block_on(self.servers.load(&server)) {
            Ok(load) => Some((server, load)),
            Err(cause) => {
                tracing::warn!(%server, %cause, "a region server does not report its load");
                None
            }
        };
        self.servers.live().into_iter().filter_map(load).collect()
    }

    /// Returns all rows of an open region.
    pub(crate) fn rows(&self, region: &EncodedName) -> Result<Vec<CatalogRow>, Exception> {
        self.ask(region, |server| self.servers.rows(server, region))
    }

    /// Returns the newest timestamp of any cell in an open region.
    pub(crate) fn newest(&self, region: &EncodedName) -> Result<Stamp, Exception> {
        self.ask(region, |server| self.servers.newest(server, region))
    }

    /// Applies edits to an open region, all of them or none.
    pub(crate) fn write(
        &self,
        region: &EncodedName,
        stamp: Stamp,
        edits: Vec<CatalogEdit>,
    ) -> Result<(), Exception> {
        self.ask(region, |server| self.servers.write(server, region, stamp, edits))
    }

    /// Tells every server to flush and close everything and to end.
    pub(crate) fn stop(&self) {
        for server in self.servers.live() {
            self.servers.stop(&server);
        }
    }

    fn ask<T>(
        &self,
        region: &EncodedName,
        question: impl FnOnce(&ServerName) -> ServerFuture<T>,
    ) -> Result<T, Exception> {
        let owner = self
            .owner(region)
            .ok_or_else(|| Exception::not_serving_region(format!("{region} is open on no server")))?;
        env::block_on(question(&owner.server))
    }
}

/// Chooses the server for a region: its last server, whatever the start code, if that server is live; or else the
/// server with the fewest regions. Fails if no server is live.
fn choose(
    live: &[ServerName],
    owners: &BTreeMap<EncodedName, Assignment>,
    last: Option<&ServerName>,
) -> Result<ServerName, Exception> {
    if let [only] = live {
        return Ok(only.clone());
    }
    let is_last =
        |server: &&ServerName| last.is_some_and(|last| last.host == server.host && last.port == server.port);
    if let Some(server) = live.iter().find(is_last) {
        return Ok(server.clone());
    }
    let count = |server: &&ServerName| owners.values().filter(|owner| owner.server == **server).count();
    live.iter()
        .min_by_key(count)
        .cloned()
        .ok_or_else(|| Exception::io("no region server lives: start one, the region stays closed until then"))
}
