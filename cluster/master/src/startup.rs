//! The start of a master: it creates a cluster in an empty root directory, or opens one that an earlier master has
//! left.
//!
//! 1. The files hbase.id and hbase.version are read or created ([`crate::root`]).
//! 2. Incomplete snapshots that a crash has left are deleted ([`crate::snapshots`]). hbase:meta is opened, which
//!    replays its log.
//! 3. Unfinished changes are finished ([`crate::intents`]).
//! 4. hbase:meta is read.
//! 5. hbase:namespace is opened or created. From now on clients may be served: a region that is not open yet is refused
//!    with an exception after which they ask again, and so is each call to the master. The regions of all tables that
//!    are not disabled are opened, several at a time.
//! 6. A table that was being enabled becomes enabled. A table that was being disabled is flushed, closed again, and
//!    disabled.
//! 7. The outcomes of interrupted procedures are decided ([`crate::interrupted`]).
//!
//! A region that cannot be opened is recorded as FAILED_OPEN in hbase:meta and reported in the server's log; all others
//! serve. The following problems are logged and left as they are: a table without a descriptor, a change that cannot be
//! finished, and a row of hbase:meta that cannot be read. While such a problem exists, records of the write-ahead log
//! are kept even if their region is unknown. Without hbase:meta or hbase:namespace the start fails. hbase:namespace is
//! created only if hbase:meta has no row of it and no change of it is unfinished.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use contract::{RegionServers, Tenure};
use env::World;
use env::sync::{Condvar, Mutex, RwLock};
use proto::catalog::{self, RegionRow, RegionState, TableState};
use proto::table_name::{DEFAULT_NAMESPACE, SYSTEM_NAMESPACE};
use proto::{EncodedName, RegionInfo, ServerName, TableDescriptor, TableName, pb};
use rpc::{Exception, class};
use storage::Files;

use crate::assignments::{Assignments, StampClock};
use crate::catalog::{Catalog, CatalogContent};
use crate::intents::{Intent, Intents};
use crate::owned_object::Ownership;
use crate::procedure::Procedures;
use crate::switches::Switches;
use crate::view::{CatalogView, TableEntry};
use crate::{Error, Master, Options, TableStateMirror, descriptors, root};

/// What [`Master::start`] leaves to [`Master::open_tables`].
#[must_use = "the tables are not open yet"]
#[derive(Debug)]
pub struct UnopenedTables {
    /// Whether all of hbase:meta and every descriptor was read.
    all_read: bool,
    /// The regions whose truncation the start has finished.
    truncated: BTreeSet<EncodedName>,
}

impl Master {
    /// Creates or opens the cluster in `files`, which this process owns for a `tenure`. When this succeeds, the regions of hbase:meta and hbase:namespace serve, and
    /// `mirror` has the state of each table that could be read. The caller may serve clients now, and then opens the other
    /// tables with [`Master::open_tables`].
    pub fn start(
        world: World,
        options: Options,
        files: Arc<dyn Files>,
        servers: Arc<dyn RegionServers>,
        tenure: Arc<dyn Tenure>,
        mirror: Arc<dyn TableStateMirror>,
        name: ServerName,
    ) -> Result<(Arc<Master>, UnopenedTables), Error> {
        options.check()?;
        let clock = Arc::new(StampClock::new(world.clone()));
        let ownership = Arc::new(Ownership::new(tenure));
        let regions = Arc::new(Assignments::new(servers, Arc::clone(&clock)));
        let master = Arc::new(Master {
            cluster_id: root::found(&*files, &world)?,
            catalog: Catalog::new(Arc::clone(&regions), Arc::clone(&clock)),
            intents: Intents::open(Arc::clone(&files), &world, Arc::clone(&ownership))?,
            procedures: Procedures::open(
                Arc::clone(&files),
                world.clone(),
                options.procedures.clone(),
                Arc::clone(&ownership),
            )?,
            switches: Switches::open(Arc::clone(&files), layout::switches(), &world, Arc::clone(&ownership))?,
            ownership,
            view: RwLock::new(CatalogView::default()),
            mirror,
            unreachable_tables: RwLock::default(),
            left_out: Mutex::default(),
            in_doubt: Mutex::default(),
            namespaces_in_doubt: Mutex::default(),
            doubtful_intents: Mutex::default(),
            running_snapshots: Mutex::default(),
            failed_openings: Mutex::default(),
            hbck_report: Mutex::default(),
            failed_creations: Mutex::default(),
            last_flushes: Mutex::default(),
            last_snapshots: Mutex::default(),
            snapshot_use: Mutex::default(),
            normalizer: Mutex::default(),
            stopping: Mutex::default(),
            stopped: Condvar::new(),
            are_tables_open: AtomicBool::new(false),
            is_mirror: AtomicBool::new(false),
            followed_primary: OnceLock::new(),
            primary_files: OnceLock::new(),
            world,
            options,
            files,
            regions,
            clock,
            name,
        });
        master.discard_incomplete_snapshots()?;
        master.open_meta()?;
        let (mut unfinished, mut truncated) = (BTreeSet::new(), BTreeSet::new());
        for intent in master.intents.all() {
            if let Err(cause) = master.finish(&intent) {
                let table = intent.table();
                if *table == TableName::namespaces() {
                    return Err(Error::Namespaces {
                        cause: format!("an unfinished change of it cannot be finished: {cause}"),
                    });
                }
                tracing::error!(
                    %table,
                    %cause,
                    "an unfinished change cannot be finished; the table is out of reach until that succeeds, which is \
                     tried again every ten seconds"
                );
                unfinished.insert(table.clone());
            } else if let Intent::TruncateRegion { region, .. } = &intent {
                truncated.insert(region.encoded_name().clone());
            }
        }
        let all_read = master.read_tables(&unfinished)? && unfinished.is_empty();
        *master.left_out.lock() = unfinished;
        master.open_namespaces()?;
        Ok((master, UnopenedTables { all_read, truncated }))
    }

    /// Does the rest of the start. When this succeeds, all regions serve that should be open and can be opened, and the
    /// master answers all calls.
    pub fn open_tables(&self, tables: UnopenedTables) -> Result<(), Error> {
        let UnopenedTables { all_read, truncated } = tables;
        self.open_all(all_read)?;
        self.decide_interrupted(&truncated);
        self.are_tables_open.store(true, Ordering::Release);
        Ok(())
    }

    /// Fails with HBase's `PleaseHoldException` until the start has opened all tables. Until then regions are opened beside
    /// each other without the locks that procedures have.
    pub(crate) fn check_started(&self) -> Result<(), Exception> {
        if self.are_tables_open.load(Ordering::Acquire) {
            return Ok(());
        }
        env::sometimes("master: a client was asked to wait until all tables are open");
        Err(Exception::new(class::PLEASE_HOLD, "Master is initializing: it opens the regions of all tables"))
    }

    fn open_meta(&self) -> Result<(), Error> {
        let name = TableName::meta();
        let table = match descriptors::read(&*self.files, &name)? {
            Some(table) => table,
            None => {
                let mut table = self.new_meta_descriptor();
                self.check_schema(&mut table).map_err(|cause| failed("making hbase:meta", cause))?;
                self.write_descriptor(&table)?;
                table
            }
        };
        let region = RegionInfo::meta();
        layout::keep_region_info(&*self.files, &layout::region_folder(&region), &region)?;
        let table = Arc::new(table);
        let opened =
            self.regions.open(&region, &table, None).map_err(|cause| failed("opening hbase:meta", cause))?;
        self.catalog
            .stamp_after(region.encoded_name())
            .map_err(|cause| failed("reading hbase:meta", cause))?;
        self.update_view(|view| {
            view.put_table(TableEntry::new(table, TableState::Enabled, vec![opened.row]))
        });
        Ok(())
    }

    fn new_meta_descriptor(&self) -> TableDescriptor {
        let mut table = catalog::meta_descriptor();
        for family in [catalog::INFO, catalog::TABLE] {
            let family = table.family(family).expect("hbase:meta has it").clone();
            table.set_family(family.with("VERSIONS", self.options.meta_versions));
        }
        let info = table.family(catalog::INFO).expect("hbase:meta has it").clone();
        table.set_family(info.with("BLOCKSIZE", self.options.meta_block_bytes));
        table
    }

    /// Reads all tables but `left_out` from hbase:meta. Returns whether every row and the descriptor of every table could be
    /// read.
    fn read_tables(&self, left_out: &BTreeSet<TableName>) -> Result<bool, Error> {
        let mut content = self.catalog.read()?;
        for error in &content.unreadable {
            tracing::error!(%error, "a cell of hbase:meta cannot be understood and is ignored: delete that row's column");
        }
        let mut all_read = content.unreadable.is_empty();
        for table in content.regions.keys().chain(content.states.keys()).cloned().collect::<Vec<_>>() {
            if !table.is_meta() && !left_out.contains(&table) {
                all_read &= self.read_table(table, &mut content)?;
            }
        }
        Ok(all_read)
    }

    /// Adds a table to the view as hbase:meta has it, unless the view has it already. Returns whether its descriptor could be
    /// read.
    fn read_table(&self, table: TableName, content: &mut CatalogContent) -> Result<bool, Error> {
        if self.read_view(|view| view.tables.contains_key(&table)) {
            // The view already has a table whose change was just finished, as ENABLING.
            return Ok(true);
        }
        let missing =
            || Error::NoDescriptor { table: table.to_string(), folder: layout::descriptors(&table) };
        let descriptor = match descriptors::read(&*self.files, &table) {
            Ok(Some(descriptor)) => descriptor,
            Err(error @ Error::Storage(_)) => return Err(error),
            unreadable => {
                let error = unreadable.err().unwrap_or_else(missing);
                tracing::error!(%table, %error, "the table is out of reach; its files are left as they are");
                self.unreachable_tables.write().insert(table, error.to_string());
                return Ok(false);
            }
        };
        // HBase counts a table without a state as enabled.
        let state = content.states.get(&table).copied().unwrap_or(TableState::Enabling);
        let rows = content.regions.remove(&table).unwrap_or_default();
        self.update_view(|view| view.put_table(TableEntry::new(Arc::new(descriptor), state, rows)));
        Ok(true)
    }

    /// Whether the start left the table out because a change of it could not be finished, and it still is out of reach.
    pub(crate) fn is_left_out(&self, name: &TableName) -> bool {
        self.left_out.lock().contains(name)
    }

    /// Does for one table what the start does for all, if the start left it out because a change of it could not be
    /// finished: finishes the change, reads the table and opens its regions. Returns whether the start left it out. The caller
    /// has the lock of the table.
    pub(crate) fn take_up(&self, name: &TableName) -> Result<bool, Exception> {
        if !self.is_left_out(name) {
            return Ok(false);
        }
        self.intents.of(name).iter().try_for_each(|intent| self.finish(intent))?;
        let of_start = |error: Error| Exception::io(error.to_string());
        let mut content = self.catalog.read().map_err(of_start)?;
        if content.regions.contains_key(name) || content.states.contains_key(name) {
            self.read_table(name.clone(), &mut content).map_err(of_start)?;
        }
        self.left_out.lock().remove(name);
        self.open_chosen(|table| table == name)?;
        tracing::info!(table = %name, "the change that the start could not finish is finished; the table is in reach");
        Ok(true)
    }

    /// Opens or creates hbase:namespace, and creates the two built-in namespaces if they are missing.
    fn open_namespaces(&self) -> Result<(), Error> {
        let name = TableName::namespaces();
        let wrap = |cause| failed("opening hbase:namespace", cause);
        if self.read_view(|view| view.tables.contains_key(&name)) {
            self.open_table(&name).map_err(wrap)?;
        } else {
            self.check_never_created(&name)?;
            let mut table = catalog::namespaces_descriptor();
            self.check_schema(&mut table).map_err(wrap)?;
            let region = RegionInfo::new(name, Default::default(), Default::default(), self.new_region_id());
            let region = region.map_err(|error| wrap(crate::error::of_proto(error)))?;
            self.create(&Arc::new(table), &[region]).map_err(wrap)?;
        }
        let region = self.namespace_region().map_err(wrap)?;
        self.catalog.stamp_after(&region).map_err(wrap)?;
        let mut known = self.catalog.namespaces(&region)?;
        for name in [DEFAULT_NAMESPACE, SYSTEM_NAMESPACE] {
            if known.iter().all(|namespace| namespace.name != name) {
                let namespace = pb::NamespaceDescriptor { name: name.into(), configuration: Vec::new() };
                self.catalog.put_namespace(&region, &namespace).map_err(wrap)?;
                known.push(namespace);
            }
        }
        self.update_view(|view| {
            let named = known.into_iter().map(|one| (String::from_utf8_lossy(&one.name).into_owned(), one));
            view.namespaces = named.collect();
        });
        Ok(())
    }

    /// Fails if hbase:meta has any row of hbase:namespace, `name`. A creation would delete that table, and all namespaces with
    /// it.
    fn check_never_created(&self, name: &TableName) -> Result<(), Error> {
        if let Some(cause) = self.unreachable_tables.read().get(name) {
            return Err(Error::Namespaces { cause: cause.clone() });
        }
        let content = self.catalog.read()?;
        let is_row_of = |error: &&Error| {
            let Error::Catalog { row, .. } = error else { return false };
            let rest = row.strip_prefix(&name.to_string());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
        };
        if let Some(cause) = content.unreadable.iter().find(is_row_of) {
            return Err(Error::Namespaces { cause: cause.to_string() });
        }
        if content.regions.contains_key(name) || content.states.contains_key(name) {
            return Err(Error::Namespaces { cause: "hbase:meta has rows of it".to_owned() });
        }
        Ok(())
    }

    /// Opens the tables, hbase:meta and hbase:namespace excepted.
    fn open_all(&self, all_read: bool) -> Result<(), Error> {
        let wrap = |cause| failed("opening the tables", cause);
        let namespaces = TableName::namespaces();
        let is_chosen = |name: &TableName| !name.is_meta() && *name != namespaces;
        let serving: Vec<EncodedName> = self.read_view(|view| {
            let tables = view
                .tables
                .iter()
                .filter(|(name, table)| is_chosen(name) && table.state != TableState::Disabled);
            let rows = tables.flat_map(|(_, table)| table.serving());
            rows.map(|row| row.region.encoded_name().clone()).collect()
        });
        let serving = serving.into_iter().chain(self.regions.open_regions().map_err(wrap)?).collect();
        self.regions.recover_nonces(&serving).map_err(wrap)?;
        self.open_chosen(is_chosen).map_err(wrap)?;
        let known = self.read_view(|view| {
            // All writes of a split parent are in store files, so its log records are not needed.
            let rows = view.tables.values().flat_map(|table| &table.regions);
            let rows = rows.filter(|row| !row.region.is_split());
            rows.map(|row| row.region.encoded_name().clone()).collect()
        });
        if all_read {
            self.regions.forget_others(&known).map_err(wrap)?;
        }
        Ok(())
    }

    /// Opens the regions of the chosen tables that are not disabled. They include tables that were being disabled, because
    /// the log may have records that only their regions can flush.
    fn open_chosen(&self, is_chosen: impl Fn(&TableName) -> bool) -> Result<(), Exception> {
        let (mut rows, mut enabling, mut disabling) = (Vec::new(), Vec::new(), Vec::new());
        self.read_view(|view| {
            let tables = view
                .tables
                .iter()
                .filter(|(name, table)| is_chosen(name) && table.state != TableState::Disabled);
            for (name, table) in tables {
                rows.extend(table.serving().cloned());
                match table.state {
                    TableState::Enabling => enabling.push(name.clone()),
                    TableState::Disabling => disabling.push(name.clone()),
                    TableState::Enabled | TableState::Disabled => {}
                }
            }
        });
        self.in_parallel(rows, |row| self.open_or_record(row))?;
        enabling.iter().try_for_each(|name| self.set_state(name, TableState::Enabled))?;
        for name in disabling {
            self.close_table(&name).and_then(|()| self.set_state(&name, TableState::Disabled))?;
        }
        Ok(())
    }

    pub(crate) fn open_or_record(&self, row: &RegionRow) -> Result<(), Exception> {
        let table: Option<Arc<TableDescriptor>> = self
            .read_view(|view| view.tables.get(row.region.table()).map(|table| Arc::clone(&table.descriptor)));
        let table = table.expect("the row was taken from the view");
        let last = row.server.as_ref().or(row.target.as_ref());
        match self.regions.open(&row.region, &table, last) {
            Ok(opened) => self.record_open(opened, &table),
            Err(cause) => {
                tracing::error!(region = %row.region, %cause, "the region could not be opened; its rows are out of reach");
                self.note_failed_opening(&row.region, &cause);
                self.record(RegionRow { state: RegionState::FailedOpen, ..row.clone() })
            }
        }
    }
}

fn failed(act: &str, cause: Exception) -> Error {
    Error::Region { act: act.to_owned(), cause: Box::new(cause) }
}
