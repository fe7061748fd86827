//! The implementation of the contract between master and region servers within one process.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp, block};
use contract::{
    CatalogEdit, CatalogRow, CloneOrder, InheritOrder, OnFullDisk, OpenOrder, OpenSequence, RegionReport,
    RegionServers, RegionShape, ServerFuture, SnapshotContent, SnapshotOrder, SplitRow, StaleTerm, Stamp,
    Tenure, Term, TermLedger,
};
use env::Runtime;
use env::sync::Mutex;
use proto::{EncodedName, ServerName, TableDescriptor, pb};
use region::{CellSink, Durability, Limits, Mutation, MutationKind, ReadMode, RecoveredNonce, Region, Scan};
use rpc::Exception;
use storage::FileName;

use crate::RegionServer;

/// Maximum number of the master's orders that run at the same time; more orders wait.
const ORDERS_MAX: usize = 32;

/// A cluster with one region server, in this process. Orders run on threads of their own, because they block on
/// storage.
#[derive(Debug)]
pub struct LocalServers {
    inner: Arc<Inner>,
    runtime: Runtime,
}

#[derive(Debug)]
struct Inner {
    server: Arc<RegionServer>,
    terms: Mutex<TermLedger>,
}

impl LocalServers {
    /// Creates a cluster that consists of `server`.
    pub fn new(server: Arc<RegionServer>) -> std::io::Result<LocalServers> {
        let inner = Arc::new(Inner { server, terms: Mutex::default() });
        Ok(LocalServers { inner, runtime: Runtime::start("orders", ORDERS_MAX)? })
    }

    /// Runs an order for `server`, which must be the server of this process.
    fn order<T: Send + 'static>(
        &self,
        server: &ServerName,
        act: impl FnOnce(&Inner) -> Result<T, Exception> + Send + 'static,
    ) -> ServerFuture<T> {
        let own = self.inner.server.name();
        if server != own {
            let words = format!("the order is for server {server}, and this is {own}");
            return Box::pin(std::future::ready(Err(Exception::io(words))));
        }
        let inner = Arc::clone(&self.inner);
        let task = self.runtime.spawn(env::blocking(move || act(&inner)));
        Box::pin(async move {
            task.await.unwrap_or_else(|failure| {
                Err(Exception::io(format!("the order broke an invariant or the server ended: {failure}")))
            })
        })
    }
}

impl Inner {
    fn find(&self, region: &EncodedName) -> Result<Arc<Region>, Exception> {
        self.server.regions().by_encoded_name(region).ok_or_else(|| {
            Exception::not_serving_region(format!("{region} is not online on {}", self.server.name()))
        })
    }

    /// Returns a region that is open under this term.
    fn find_under(&self, region: &EncodedName, term: Term) -> Result<Arc<Region>, Exception> {
        let known = self.terms.lock().open_term(region);
        if known != Some(term) {
            let known = known.unwrap_or(term);
            return Err(StaleTerm { region: region.clone(), ordered: term, known }.exception());
        }
        self.find(region)
    }

    fn told<T>(&self, outcome: Result<T, region::Error>) -> Result<T, Exception> {
        outcome.map_err(|error| self.server.exception(&error))
    }

    fn forget_others(&self, known: &BTreeSet<EncodedName>) {
        let Some(recovered) = &self.server.foundation().recovered else { return };
        for name in recovered.regions() {
            let known =
                EncodedName::parse(&String::from_utf8_lossy(&name)).is_ok_and(|name| known.contains(&name));
            if !known {
                self.forget_records(&name);
            }
        }
    }

    /// Lets the log forget the records of a region that no longer exists.
    fn forget_records(&self, region: &[u8]) {
        let foundation = self.server.foundation();
        foundation.log.forget_region(region);
        if let Some(recovered) = &foundation.recovered {
            recovered.taken(region);
        }
    }

    fn recover_nonces(&self, serving: &BTreeSet<EncodedName>) -> Result<(), Exception> {
        let Some(recovered) = &self.server.foundation().recovered else { return Ok(()) };
        for name in recovered.regions() {
            if EncodedName::parse(&String::from_utf8_lossy(&name)).is_ok_and(|name| serving.contains(&name)) {
                continue;
            }
            let mut found = Vec::new();
            self.told(recovered.replay::<region::Error>(&name, |record| {
                if let Some((group, nonce)) = record.nonce {
                    let (time, sequence) = (record.time, record.sequence);
                    found.push(RecoveredNonce { group, nonce, time, sequence });
                }
                Ok(())
            }))?;
            self.server.nonces.recover(&found);
        }
        Ok(())
    }

    fn rows(&self, region: &EncodedName) -> Result<Vec<CatalogRow>, Exception> {
        self.told(region::catalog_rows(&self.find(region)?))
    }

    fn newest(&self, region: &EncodedName) -> Result<Stamp, Exception> {
        let mut newest = Newest::default();
        let everything = Scan { raw: true, max_versions: u32::MAX, ..Scan::default() };
        self.told(self.find(region)?.scanner(everything).and_then(|mut scanner| {
            while scanner.next_row(&Limits::NONE, &mut newest, ReadMode::Any)?.more {}
            Ok(())
        }))?;
        Ok(Stamp(u64::try_from(newest.0).unwrap_or(0)))
    }

    fn write(&self, region: &EncodedName, stamp: Stamp, edits: &[CatalogEdit]) -> Result<(), Exception> {
        let region = self.find(region)?;
        let mutations: Vec<_> =
            edits.iter().map(|edit| mutation(&region.table(), stamp, edit)).collect::<Result<_, _>>()?;
        let pending = self.told(region.apply_together(&mutations, ReadMode::Any))?;
        self.server.written(&region);
        self.told(pending.wait_blocking())
    }
}

/// The process owns the files of the cluster as long as it owns its log.
impl Tenure for LocalServers {
    fn epoch(&self) -> u64 {
        self.inner.server.foundation().log.epoch()
    }

    fn confirm(&self) -> Result<(), Exception> {
        self.inner.server.foundation().log.check_owner().map_err(|cause| Exception::io(cause.to_string()))
    }
}

impl RegionServers for LocalServers {
    fn live(&self) -> Vec<ServerName> {
        vec![self.inner.server.name().clone()]
    }

    fn open(&self, server: &ServerName, order: OpenOrder) -> ServerFuture<OpenSequence> {
        self.order(server, move |inner| {
            let OpenOrder { region, table, term } = order;
            inner.terms.lock().admit_open(region.encoded_name(), term).map_err(StaleTerm::exception)?;
            let name = region.encoded_name().clone();
            let opened = inner.told(inner.server.open_region(region, table));
            if opened.is_err() {
                // The master will be told that the region is not open. So an opening that is still under way must not
                // be served afterwards.
                inner.terms.lock().admit_close(&name, term).map_err(StaleTerm::exception)?;
            }
            Ok(OpenSequence(opened?.open_sequence().0))
        })
    }

    fn alter(&self, server: &ServerName, order: OpenOrder) -> ServerFuture<bool> {
        self.order(server, move |inner| {
            let OpenOrder { region, table, term } = order;
            let found = inner.find_under(region.encoded_name(), term)?;
            inner.told(inner.server.alter_region(&found, &table))
        })
    }

    fn refuse_puts(
        &self,
        server: &ServerName,
        region: &EncodedName,
        term: Term,
        families: Vec<Bytes>,
    ) -> ServerFuture<()> {
        let region = region.clone();
        self.order(server, move |inner| {
            inner.find_under(&region, term)?.refuse_puts(&families);
            Ok(())
        })
    }

    fn close(
        &self,
        server: &ServerName,
        region: &EncodedName,
        term: Term,
        on_full_disk: OnFullDisk,
    ) -> ServerFuture<()> {
        let region = region.clone();
        self.order(server, move |inner| {
            inner.terms.lock().admit_close(&region, term).map_err(StaleTerm::exception)?;
            let closed = inner.told(inner.server.close_region_as(&region, None, on_full_disk)).map(drop);
            if closed.is_err() && inner.server.regions().by_encoded_name(&region).is_some() {
                // The region serves on, so reports must name it. A master that took it for closed would delete its files.
                inner.terms.lock().stays_open(&region, term);
            }
            closed
        })
    }

    fn truncate(&self, server: &ServerName, order: OpenOrder) -> ServerFuture<()> {
        self.order(server, move |inner| {
            let OpenOrder { region, table, term } = order;
            // From now on an order to open the region under an earlier term is refused.
            inner.terms.lock().admit_close(region.encoded_name(), term).map_err(StaleTerm::exception)?;
            inner.told(inner.server.truncate_region(region, table))
        })
    }

    fn inherit(&self, server: &ServerName, order: InheritOrder) -> ServerFuture<()> {
        self.order(server, move |inner| {
            let InheritOrder { child, parents, table } = order;
            inner.told(inner.server.write_child(&child, parents, &table))
        })
    }

    fn snapshot(
        &self,
        server: &ServerName,
        order: SnapshotOrder,
    ) -> ServerFuture<Vec<pb::SnapshotRegionManifest>> {
        self.order(server, move |inner| {
            let SnapshotOrder { region, table, content } = order;
            let is_flushed = match content {
                SnapshotContent::Closed => {
                    return inner.told(inner.server.snapshot_of_closed(&region, &table));
                }
                SnapshotContent::Flushed => true,
                SnapshotContent::Files => false,
            };
            inner.told(inner.server.snapshot(&inner.find(region.encoded_name())?, is_flushed))
        })
    }

    fn write_clone(&self, server: &ServerName, order: CloneOrder) -> ServerFuture<()> {
        self.order(server, move |inner| inner.told(inner.server.write_clone(&order.region, &order.source)))
    }

    fn is_needed(&self, server: &ServerName, folder: FileName) -> ServerFuture<bool> {
        self.order(server, move |inner| inner.told(inner.server.janitor.is_needed_elsewhere(&folder)))
    }

    fn shape(&self, server: &ServerName, region: &EncodedName, row: SplitRow) -> ServerFuture<RegionShape> {
        let region = region.clone();
        self.order(server, move |inner| {
            let region = inner.find(&region)?;
            let policy = inner.server.split_policy(&region);
            let split_row = match row {
                SplitRow::None => None,
                SplitRow::Best => inner.told(inner.server.find_split_row(&region))?,
                SplitRow::Given(row) => Some(policy.restricted(&row)),
            };
            let (has_references, can_split) = (region.has_references(), policy.can_split());
            Ok(RegionShape { has_references, can_split, split_row })
        })
    }

    fn drop_folder(&self, server: &ServerName, folder: FileName) -> ServerFuture<()> {
        self.order(server, move |inner| inner.told(inner.server.drop_folder(&folder)))
    }

    fn report(&self, server: &ServerName) -> ServerFuture<Vec<RegionReport>> {
        self.order(server, |inner| {
            let terms = inner.terms.lock();
            let report = |region: &Arc<Region>| {
                let region = region.info().encoded_name().clone();
                terms.open_term(&region).map(|term| RegionReport { region, term })
            };
            Ok(inner.server.regions().all().iter().filter_map(report).collect())
        })
    }

    fn forget(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<()> {
        let region = region.clone();
        self.order(server, move |inner| {
            inner.terms.lock().forget(&region);
            inner.server.forget_unflushed(&region);
            inner.forget_records(region.as_str().as_bytes());
            Ok(())
        })
    }

    fn recover_nonces(&self, server: &ServerName, serving: BTreeSet<EncodedName>) -> ServerFuture<()> {
        self.order(server, move |inner| inner.recover_nonces(&serving))
    }

    fn forget_others(&self, server: &ServerName, known: BTreeSet<EncodedName>) -> ServerFuture<()> {
        self.order(server, move |inner| {
            inner.forget_others(&known);
            Ok(())
        })
    }

    fn flush(&self, server: &ServerName, region: &EncodedName, families: Vec<Bytes>) -> ServerFuture<()> {
        let region = region.clone();
        self.order(server, move |inner| {
            inner.told(inner.server.flush_families(&inner.find(&region)?, &families)).map(drop)
        })
    }

    fn compact(&self, server: &ServerName, region: &EncodedName, families: Vec<Bytes>) -> ServerFuture<()> {
        let region = region.clone();
        self.order(server, move |inner| {
            inner.server.background.request_compaction(&inner.find(&region)?, true, families);
            Ok(())
        })
    }

    fn last_major_compaction(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<i64> {
        let region = region.clone();
        self.order(server, move |inner| {
            Ok(inner.find(&region)?.load().last_major_compaction.map_or(0, |time| time.0))
        })
    }

    fn load(&self, server: &ServerName) -> ServerFuture<pb::ServerLoad> {
        self.order(server, |inner| Ok(inner.server.server_load()))
    }

    fn rows(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<Vec<CatalogRow>> {
        let region = region.clone();
        self.order(server, move |inner| inner.rows(&region))
    }

    fn newest(&self, server: &ServerName, region: &EncodedName) -> ServerFuture<Stamp> {
        let region = region.clone();
        self.order(server, move |inner| inner.newest(&region))
    }

    fn write(
        &self,
        server: &ServerName,
        region: &EncodedName,
        stamp: Stamp,
        edits: Vec<CatalogEdit>,
    ) -> ServerFuture<()> {
        let region = region.clone();
        self.order(server, move |inner| inner.write(&region, stamp, &edits))
    }

    fn stop(&self, server: &ServerName) {
        if server == self.inner.server.name() {
            self.inner.server.stop();
        }
    }
}

/// A sink that records the newest timestamp of the cells.
#[derive(Default)]
struct Newest(i64);

impl CellSink for Newest {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0 = self.0.max(cell.timestamp().0);
    }
}

fn mutation(table: &TableDescriptor, stamp: Stamp, edit: &CatalogEdit) -> Result<Mutation, Exception> {
    let mut cells = Vec::new();
    let mut cell = |row: &[u8], family: &[u8], qualifier: &[u8], cell_type, value: &[u8]| {
        let timestamp = Timestamp(i64::try_from(stamp.0).unwrap_or(i64::MAX));
        let parts = CellParts { row, family, qualifier, timestamp, cell_type, value, tags: b"" };
        let bytes = parts.to_vec().map_err(|error| Exception::do_not_retry(error.to_string()))?;
        block::write_with_tags(&mut cells, Cell::trusted(&bytes, SequenceId::ZERO));
        Ok::<(), Exception>(())
    };
    let (kind, row) = match edit {
        CatalogEdit::Put(row) => {
            for column in &row.columns {
                cell(&row.key, &column.family, &column.qualifier, CellType::Put, &column.value)?;
            }
            (MutationKind::Put, row.key.clone())
        }
        CatalogEdit::Delete(row) => {
            for family in table.families() {
                cell(row, family.name(), b"", CellType::DeleteFamily, b"")?;
            }
            (MutationKind::Delete, row.clone())
        }
        CatalogEdit::DeleteColumns(row, columns) => {
            for (family, qualifier) in columns {
                cell(row, family, qualifier, CellType::DeleteColumn, b"")?;
            }
            (MutationKind::Delete, row.clone())
        }
    };
    Ok(Mutation {
        kind,
        row,
        cells: CellBlock::parse(cells.into()).map_err(|error| Exception::do_not_retry(error.to_string()))?,
        durability: Durability::Sync,
        time_range: None,
        return_results: false,
        nonce: None,
    })
}
