//! The master: tables, their regions, and the procedures that change them.
//!
//! ```text
//!   MasterService ── reads ──────────────▶ CatalogView (memory)
//!        │                                    ▲
//!        └── submits ─▶ Procedures ─▶ tables ─┤  writes hbase:meta first, then the view
//!                                      │      │
//!                                      ▼      │
//!                     intents · descriptors · catalog ─▶ Assignments ─▶ contract::RegionServers
//! ```
//!
//! What it promises:
//!
//! * **hbase:meta is authoritative**, and the [`view`] is its copy in memory. A client that polls a procedure to its
//!   end finds hbase:meta as the procedure left it.
//! * **A change happens completely or not at all**, through a crash at any step. The master writes an intent first
//!   ([`intents`]). It creates folders and descriptors before catalog rows, and deletes them after. A start carries out
//!   the intents that it finds ([`startup`]).
//! * **A table has one change at a time**, and so has a region. Changes of different tables, and of different regions
//!   of a table, run at the same time ([`procedure`], [`procedure::locks`]).
//!
//! This crate does not know sockets, logs, cells, or where the region servers run. It calls region servers through the
//! `contract` crate; [`assignments`] knows on which server each region is.

mod absent;
mod alter;
mod assignments;
mod catalog;
mod chores;
mod clones;
pub mod descriptors;
mod doubt;
mod error;
mod hbck;
pub mod intents;
mod interrupted;
mod merge;
mod mirror;
mod mob_compactions;
mod namespaces;
mod normalizer;
mod options;
mod owned_object;
mod parents;
mod placement;
pub mod procedure;
mod recovery_snapshots;
mod reopen;
mod replace;
pub mod root;
mod selection;
mod service;
mod snapshots;
mod split;
mod startup;
mod status;
pub mod switches;
mod tables;
mod trackers;
pub mod view;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use env::World;
use env::sync::{Condvar, Mutex, RwLock};
use proto::catalog::{RegionRow, TableState};
use proto::{EncodedName, ServerName, TableName};
use rpc::{Exception, class};
use storage::{FileName, Files};

pub use error::Error;
pub use hbck::{HbckReport, HbckService, Inconsistency, gaps};
pub use mirror::{FollowedPrimary, Mirror, MirrorOutcome, PrimaryCatalog};
pub use normalizer::plans::NormalizerSettings;
pub use options::Options;
pub use selection::Selection;
pub use service::MasterService;
pub use startup::UnopenedTables;

use assignments::{Assignments, StampClock};
use catalog::Catalog;
use intents::Intents;
use normalizer::NormalizerQueue;
use owned_object::Ownership;
use procedure::{ProcedureId, Procedures};
use switches::{Switch, Switches};
use view::CatalogView;

/// A copy of the tables' states for clients that do not ask the master. HBase 1 clients read it in ZooKeeper.
pub trait TableStateMirror: Send + Sync + 'static {
    /// Sets the state of a table, or removes the table when `state` is `None`. Changes are passed in order; the call
    /// must not wait.
    fn set(&self, table: &TableName, state: Option<TableState>);
}

/// The master of a cluster.
pub struct Master {
    world: World,
    options: Options,
    files: Arc<dyn Files>,
    regions: Arc<Assignments>,
    clock: Arc<StampClock>,
    catalog: Catalog,
    intents: Intents,
    procedures: Arc<Procedures>,
    ownership: Arc<Ownership>,
    switches: Switches,
    view: RwLock<CatalogView>,
    mirror: Arc<dyn TableStateMirror>,
    /// Tables that have files but cannot be read, with the reasons. No table of these names can be created.
    unreachable_tables: RwLock<BTreeMap<TableName, String>>,
    /// Tables that the start left out because an unfinished change of them could not be finished yet.
    left_out: Mutex<BTreeSet<TableName>>,
    /// Tables of which a write to hbase:meta failed, so that their rows may differ from the view.
    in_doubt: Mutex<BTreeSet<TableName>>,
    /// Namespaces whose last write to hbase:namespace failed, and may take place later.
    namespaces_in_doubt: Mutex<BTreeSet<String>>,
    /// Intents that may be stored although their writes failed. Their tables are in doubt.
    doubtful_intents: Mutex<BTreeSet<intents::IntentKey>>,
    /// Objects that say that this process takes a snapshot, or that it does not know whether it has taken one.
    running_snapshots: Mutex<BTreeSet<FileName>>,
    /// Why the last attempt to open a region failed, for regions whose opening failed in this process.
    failed_openings: Mutex<BTreeMap<EncodedName, String>>,
    /// The report of the last check of the catalog; `None` before the first check.
    hbck_report: Mutex<Option<HbckReport>>,
    /// Tables whose creation failed, and whose remains could not be deleted yet. The clients have got the failure.
    failed_creations: Mutex<BTreeSet<TableName>>,
    /// The last `flush-table-proc` of each table, for clients that ask whether it is done.
    last_flushes: Mutex<BTreeMap<TableName, ProcedureId>>,
    /// The last procedure that took a snapshot of each name, for clients that ask for the snapshot.
    last_snapshots: Mutex<BTreeMap<String, ProcedureId>>,
    /// Held while a snapshot is deleted, or a change that needs it begins.
    snapshot_use: Mutex<()>,
    /// The tables and plans that wait for the normalizer.
    normalizer: Mutex<NormalizerQueue>,
    /// Whether the process is ending. The chores' thread checks it under this lock before it waits.
    stopping: Mutex<bool>,
    /// Wakes the chores' thread when the process ends or the normalizer's queue gets tables. Used with `stopping`.
    stopped: Condvar,
    /// Whether the start has opened the regions of all tables.
    are_tables_open: AtomicBool,
    /// Whether this is the master of a read replica, which refuses every change.
    is_mirror: AtomicBool,
    /// The part of a read replica that follows the primary. The master asks it to catch up with the primary.
    followed_primary: OnceLock<Arc<dyn mirror::FollowedPrimary>>,
    /// The primary's files, if this is the master of a read replica.
    primary_files: OnceLock<Arc<dyn Files>>,
    cluster_id: String,
    /// Host, port and start time of this master, by which clients distinguish it from earlier masters.
    name: ServerName,
}

impl Master {
    /// Returns the cluster's id.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Waits until another process has taken over the files, and returns a sentence that says so. Then the server must
    /// end. Clients get no answer about procedures that have not ended before, because only the other process knows
    /// their outcome.
    pub fn replaced(&self) -> impl Future<Output = String> + Send + use<> {
        self.ownership.replaced.happened()
    }

    /// Returns the master's name: its host, its port, and its start time.
    pub fn name(&self) -> &ServerName {
        &self.name
    }

    /// Returns the location of hbase:meta.
    pub fn meta_location(&self) -> RegionRow {
        let row = self.read_view(|view| {
            view.tables.get(&TableName::meta()).and_then(|meta| meta.regions.first().cloned())
        });
        row.expect("a master that has started has opened hbase:meta")
    }

    /// Ends the chores' thread and waits until no procedure runs. The process calls this before it ends.
    pub fn wait_idle(&self) {
        *self.stopping.lock() = true;
        self.stopped.notify_all();
        self.procedures.wait_idle();
    }

    /// Sets a switch. Returns its previous value.
    fn switch(&self, switch: Switch, on: bool) -> Result<bool, Exception> {
        self.switches.set(switch, on).map_err(error::of_storage)
    }

    /// Reads the view.
    fn read_view<T>(&self, read: impl FnOnce(&CatalogView) -> T) -> T {
        read(&self.view.read())
    }

    /// Changes the view, and the mirror of table states with it. The caller has already changed hbase:meta.
    fn update_view<T>(&self, change: impl FnOnce(&mut CatalogView) -> T) -> T {
        let mut view = self.view.write();
        let result = change(&mut view);
        // The mirror is changed under the lock of the view. So it gets the changes in the same order.
        for (table, state) in view.take_state_changes() {
            self.mirror.set(&table, state);
        }
        result
    }
}

impl std::fmt::Debug for Master {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Master")
            .field("name", &self.name)
            .field("procedures", &self.procedures)
            .finish_non_exhaustive()
    }
}

fn table_not_found(table: &TableName) -> Exception {
    Exception::new(class::TABLE_NOT_FOUND, table.to_string())
}
