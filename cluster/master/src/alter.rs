//! Changes the schema of a table and brings the table's regions to the new schema.
//!
//! The master writes the new descriptor, under an intent, then goes from region to region. An open region applies most
//! changes while it serves, and scans continue. For other changes the region is closed and opened again; clients that
//! call it meanwhile retry. If one region fails, the others get the schema all the same, and the chore goes on with what is
//! left ([`crate::reopen`]). The files of a deleted family are deleted as well, because a later family of the same name
//! must not find them. An intent completes this deletion after a crash. Before it is stored, all regions refuse puts to
//! the family.
//!
//! A client may ask that no region is reopened. Then the master only writes the descriptor, and a region has the new schema
//! once it is opened again, for instance when it is unassigned and assigned.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cell::{StringBinary, string_binary};
use proto::catalog::RegionRow;
use proto::{FamilyDescriptor, RegionInfo, TableDescriptor, TableName, pb};
use rpc::{Exception, class};
use storage::Outcome;

use crate::error::{is_unchecked, of_proto, of_storage};
use crate::intents::{Intent, IntentKey};
use crate::interrupted::schema_state;
use crate::procedure::{NonceKey, Parameters, ProcedureId, ProcedureKind};
use crate::{Master, descriptors, table_not_found};

/// Attributes of a table that a change may not touch unless it reopens regions.
const APPLIED_BY_REOPENING: [&str; 3] =
    ["REGION_REPLICATION", "REGION_MEMSTORE_REPLICATION", "hbase.rsgroup.name"];

/// Number of regions that may fail before one has succeeded, until a change of a schema leaves the others as they are.
const FAILURES_MAX: usize = 2;

/// When the open regions of a table get its new schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Application {
    /// Before the procedure ends.
    AtOnce,
    /// When they are opened again.
    WhenOpened,
}

impl Master {
    /// Submits the procedure that gives a table a whole new schema, and returns its id.
    pub(crate) fn modify_table(
        self: &Arc<Self>,
        table: &pb::TableName,
        schema: &pb::TableSchema,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        self.replace_schema(table, schema, Application::AtOnce, nonce)
    }

    /// Like [`modify_table`](Master::modify_table), but open regions keep the old schema until they are opened again.
    /// Refuses, as HBase, changes that the regions and the master must make together.
    pub(crate) fn modify_table_without_reopening(
        self: &Arc<Self>,
        table: &pb::TableName,
        schema: &pb::TableSchema,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        self.replace_schema(table, schema, Application::WhenOpened, nonce)
    }

    fn replace_schema(
        self: &Arc<Self>,
        table: &pb::TableName,
        schema: &pb::TableSchema,
        application: Application,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        let wanted = TableDescriptor::try_from(schema.clone()).map_err(of_proto)?;
        if *wanted.name() != name {
            return Err(Exception::do_not_retry(format!(
                "the schema for table {name} names table {}: a table cannot be renamed",
                wanted.name()
            )));
        }
        self.alter(name, nonce, application, move |old| {
            if application == Application::WhenOpened {
                check_needs_no_reopening(old, &wanted)?;
            }
            Ok(wanted.clone())
        })
    }

    /// Submits the procedure that adds a family to a table, and returns its id.
    pub(crate) fn add_family(
        self: &Arc<Self>,
        table: &pb::TableName,
        family: &pb::ColumnFamilySchema,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        self.set_family(table, family, nonce, |table, family, is_there| {
            let words =
                || format!("Column family '{family}' in table '{table}' already exists so cannot be added");
            if is_there { Err(invalid(words())) } else { Ok(()) }
        })
    }

    /// Submits the procedure that changes a family of a table, and returns its id.
    pub(crate) fn modify_family(
        self: &Arc<Self>,
        table: &pb::TableName,
        family: &pb::ColumnFamilySchema,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        self.set_family(table, family, nonce, |_, family, is_there| {
            let words = || format!("Family '{family}' does not exist, so it cannot be modified");
            if is_there { Ok(()) } else { Err(invalid(words())) }
        })
    }

    /// Submits a procedure that sets a family. `check` gets the table, the family, and whether the table already has
    /// the family.
    fn set_family(
        self: &Arc<Self>,
        table: &pb::TableName,
        family: &pb::ColumnFamilySchema,
        nonce: Option<NonceKey>,
        check: fn(&TableName, StringBinary<'_>, bool) -> Result<(), Exception>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        let family = FamilyDescriptor::try_from(family.clone()).map_err(of_proto)?;
        self.alter(name, nonce, Application::AtOnce, move |table| {
            let mut table = table.clone();
            let is_there = table.set_family(family.clone()).is_some();
            check(table.name(), string_binary(family.name()), is_there)?;
            Ok(table)
        })
    }

    /// Submits the procedure that removes a family with all its cells, and returns its id.
    pub(crate) fn delete_family(
        self: &Arc<Self>,
        table: &pb::TableName,
        family: &Bytes,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        let family = family.clone();
        self.alter(name, nonce, Application::AtOnce, move |table| {
            let mut table = table.clone();
            let shown = string_binary(&family);
            if table.remove_family(&family).is_none() {
                return Err(invalid(format!("Family '{shown}' does not exist, so it cannot be deleted")));
            }
            if table.families().is_empty() {
                return Err(invalid(format!(
                    "Family '{shown}' is the only column family in the table, so it cannot be deleted"
                )));
            }
            Ok(table)
        })
    }

    /// Returns two numbers: of the table's regions that do not have the newest schema yet, and of all its regions.
    pub(crate) fn alter_status(&self, table: &pb::TableName) -> Result<(u32, u32), Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.read_view(|view| {
            let table = view.tables.get(&name).ok_or_else(|| table_not_found(&name))?;
            Ok((count(table.without_schema().count()), count(table.serving().count())))
        })
    }

    /// Submits a change of a schema. `change` makes the new schema from the old one. It is called before the procedure
    /// is submitted, so that a bad request is refused at once, and again when the procedure runs.
    fn alter(
        self: &Arc<Self>,
        name: TableName,
        nonce: Option<NonceKey>,
        application: Application,
        change: impl Fn(&TableDescriptor) -> Result<TableDescriptor, Exception> + Send + 'static,
    ) -> Result<ProcedureId, Exception> {
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        let (parameters, after) = match self.changed(&name, &change) {
            Ok((old, new)) => (Some(Parameters::alter(&old, &new)), Some(schema_state(&new))),
            Err(refusal) if is_unchecked(&refusal) => (None, None),
            Err(refusal) => return Err(refusal),
        };
        let id =
            self.submit_to(ProcedureKind::Alter, &name.clone(), nonce, after, move |master, context| {
                let (old, new) = master.changed(&name, &change)?;
                let gone = |family: &&FamilyDescriptor| new.family(family.name()).is_none();
                let families: Vec<Bytes> =
                    old.families().iter().filter(gone).map(|family| family.name().clone()).collect();
                if name.is_meta()
                    && let Some(family) = families.first()
                {
                    let words = format!("Delete of hbase:meta column family {}", string_binary(family));
                    return Err(Exception::new(class::HBASE_IO, words));
                }
                match application {
                    Application::WhenOpened => master.change_schema_without_reopening(&new),
                    Application::AtOnce if families.is_empty() => master.change_schema(&new),
                    Application::AtOnce => {
                        master.take_recovery_snapshot(&name, context)?;
                        master.delete_families(new, families)
                    }
                }
            })?;
        if let Some(parameters) = parameters {
            self.procedures.describe(id, parameters);
        }
        Ok(id)
    }

    fn changed(
        &self,
        name: &TableName,
        change: &impl Fn(&TableDescriptor) -> Result<TableDescriptor, Exception>,
    ) -> Result<(Arc<TableDescriptor>, Arc<TableDescriptor>), Exception> {
        let old = self
            .read_view(|view| view.tables.get(name).map(|table| Arc::clone(&table.descriptor)))
            .ok_or_else(|| table_not_found(name))?;
        let mut new = change(&old)?;
        self.check_schema(&mut new)?;
        self.check_trackers_of_change(&old, &new)?;
        Ok((old, Arc::new(new)))
    }

    /// Gives a table a new schema that has all of its families.
    pub(crate) fn change_schema(&self, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        self.store_schema(table)?;
        self.reopen(table).map(drop)
    }

    /// Gives a table a new schema, which its open regions get when they are opened again. If the descriptor cannot be
    /// written, whoever carries out the intent later brings the regions to the new schema, too.
    fn change_schema_without_reopening(&self, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        self.store_schema(table)?;
        self.update_view(|view| {
            if let Some(known) = view.tables.get_mut(table.name()) {
                known.descriptor = Arc::clone(table);
            }
        });
        Ok(())
    }

    /// Makes `table` the schema that the next start finds. The intent makes a successor of this master write the
    /// descriptor, too. Otherwise a descriptor that reaches the store late would change the schema under the successor.
    fn store_schema(&self, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        let intent = Intent::Alter { table: Arc::clone(table) };
        self.begin_change(&intent)?;
        let written = self.write_descriptor(table);
        if written.as_ref().is_err_and(|error| error.outcome() == Outcome::MayHaveHappened) {
            // The next change of the table or the next start carries out the intent.
            return written.map_err(of_storage);
        }
        let ended = self.intents.end(&intent.key());
        written.and(ended).map_err(of_storage)
    }

    /// Deletes families of a table with their files. `table` is the schema without them. Before the intent is stored, every
    /// open region refuses puts to these families. Otherwise a region that serves on after a failure would acknowledge
    /// writes which the intent deletes later.
    fn delete_families(&self, table: Arc<TableDescriptor>, families: Vec<Bytes>) -> Result<(), Exception> {
        let name = table.name().clone();
        let refused = self.refuse_puts(&name, &families);
        let intent = Intent::DeleteFamilies { table, families };
        let done = refused.and_then(|()| self.begin_change(&intent)).and_then(|()| self.finish(&intent));
        let Err(cause) = done else { return Ok(()) };
        let key = intent.key();
        if self.is_doubtful(&key) || self.intents.of(&name).iter().any(|left| left.key() == key) {
            let message = format!(
                "table {name} refuses puts to these families until their deletion is carried out or withdrawn, which is \
                 tried every ten seconds: {}",
                cause.message
            );
            return Err(self.note_doubt(&name, Exception { message, ..cause }));
        }
        if let Err(also) = self.accept_puts(&name) {
            let also = self.note_doubt(&name, also);
            tracing::warn!(table = %name, cause = %also, "writes to families are still refused; it is tried again");
        }
        Err(cause)
    }

    /// Makes every open region of a table accept puts to all of its families.
    pub(crate) fn accept_puts(&self, name: &TableName) -> Result<(), Exception> {
        self.refuse_puts(name, &[])
    }

    /// Makes every open region of a table refuse puts to these families, and accept puts to all others.
    fn refuse_puts(&self, name: &TableName, families: &[Bytes]) -> Result<(), Exception> {
        let rows: Vec<RegionRow> = self.read_view(|view| {
            view.tables.get(name).map(|table| table.serving().cloned().collect()).unwrap_or_default()
        });
        rows.iter().try_for_each(|row| self.regions.refuse_puts(row.region.encoded_name(), families))
    }

    /// Carries out the intent of a change of a schema.
    pub(crate) fn finish_alteration(&self, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        self.write_descriptor(table).map_err(of_storage)?;
        self.intents.end(&IntentKey::of_table(table.name())).map_err(of_storage)?;
        self.reopen(table).map(drop)
    }

    /// Writes the newest descriptor of a table. Fails with [`Kind::Conflict`](storage::Kind::Conflict) if another
    /// process has taken over the files before.
    pub(crate) fn write_descriptor(&self, table: &TableDescriptor) -> storage::Result<()> {
        let folder = layout::descriptors(table.name());
        let reserve = |number_min| self.intents.reserve_descriptor(number_min);
        descriptors::write_numbered(&*self.files, &folder, table, self.world.now(), reserve)
    }

    /// Writes the schema without the families, reopens the regions and deletes the families' files. May be repeated.
    pub(crate) fn finish_families(
        &self,
        table: &Arc<TableDescriptor>,
        families: &[Bytes],
    ) -> Result<(), Exception> {
        self.write_descriptor(table).map_err(of_storage)?;
        let rows = self.reopen(table)?;
        self.in_parallel(rows, |row| self.remove_families(&row.region, families))
    }

    /// Brings every open region of the table to the new schema, one after the other. A region that cannot apply it while it
    /// serves is closed and opened. If some regions fail, returns the first error once all others have the schema. Returns the
    /// rows of all regions of the table.
    pub(crate) fn reopen(&self, table: &Arc<TableDescriptor>) -> Result<Vec<RegionRow>, Exception> {
        let name = table.name();
        if name.is_meta() {
            return self.reopen_meta(table).map(|()| Vec::new());
        }
        // The regions are read from hbase:meta and not from the view, because a start calls this before the view was
        // read.
        let mut content = self.catalog.read().map_err(|error| Exception::io(error.to_string()))?;
        let rows: Vec<RegionRow> = content.regions.remove(name).unwrap_or_default().into_iter().collect();
        let reported = self.regions.open_regions()?;
        let open: Vec<&RegionInfo> = rows
            .iter()
            .map(|row| &row.region)
            .filter(|region| reported.contains(region.encoded_name()))
            .collect();
        self.update_view(|view| {
            if let Some(known) = view.tables.get_mut(name) {
                known.descriptor = Arc::clone(table);
                known.outdated = open.iter().map(|region| region.encoded_name().clone()).collect();
            }
        });
        self.bring_to_schema(&open, table)?;
        Ok(rows)
    }

    /// Brings open regions of a table to its schema, one after the other. After [`FAILURES_MAX`] failures without a success the
    /// schema itself is likely to be the cause. Then the regions that are left keep serving with the old one.
    pub(crate) fn bring_to_schema(
        &self,
        regions: &[&RegionInfo],
        table: &Arc<TableDescriptor>,
    ) -> Result<(), Exception> {
        let (mut done, mut failures) = (0, Vec::new());
        for region in regions {
            if done == 0 && failures.len() == FAILURES_MAX {
                break;
            }
            match self.apply_schema(region, table) {
                Ok(()) => done += 1,
                Err(cause) => {
                    tracing::error!(%region, table = %table.name(), %cause,
                        "the region did not get the new schema of its table; it is tried again");
                    failures.push((region, cause));
                }
            }
        }
        let Some((region, cause)) = failures.into_iter().next() else { return Ok(()) };
        let message = format!(
            "the new schema of table {} is stored, and {} of its {} open regions do not have it yet. The first is {region}: {}. The \
             server tries again every minute while all regions of the table can be opened; remove the cause, or alter the table \
             again",
            table.name(),
            regions.len() - done,
            regions.len(),
            cause.message
        );
        Err(Exception { message, ..cause })
    }

    fn apply_schema(&self, region: &RegionInfo, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        if self.regions.alter(region, table)? {
            self.has_schema(region, table);
            return Ok(());
        }
        // The region is flushed while it serves. So its closing, during which it does not serve, has little to flush.
        self.regions.flush(region.encoded_name(), &[])?;
        self.regions.close(region.encoded_name())?;
        self.open(region, table)
    }

    /// Notes that an open region has this schema.
    pub(crate) fn has_schema(&self, region: &RegionInfo, table: &TableDescriptor) {
        self.update_view(|view| {
            if let Some(known) = view.tables.get_mut(region.table())
                && *known.descriptor == *table
            {
                known.outdated.remove(region.encoded_name());
            }
        });
    }

    /// Reopens hbase:meta. Clients that read it retry while it is closed. If it cannot be opened with the new schema, it
    /// is opened with the old one, since nothing works without it. If that fails, too, the chore tries again.
    fn reopen_meta(&self, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        let region = RegionInfo::meta();
        let known =
            self.read_view(|view| view.tables.get(table.name()).map(|known| Arc::clone(&known.descriptor)));
        let old = known.ok_or_else(|| table_not_found(table.name()))?;
        let closed = self.regions.close(region.encoded_name());
        let Err(cause) = closed.and_then(|()| self.open(&region, table)) else {
            self.update_view(|view| {
                if let Some(known) = view.tables.get_mut(table.name()) {
                    known.descriptor = Arc::clone(table);
                }
            });
            return Ok(());
        };
        if let Err(also) = self.store_schema(&old) {
            tracing::error!(cause = %also, "the earlier schema of hbase:meta could not be stored again: the next start may \
                open hbase:meta with the new one; alter hbase:meta again before");
        }
        // The old schema is served even if it could not be stored.
        if let Err(also) = self.open(&region, &old) {
            tracing::error!(cause = %also, "hbase:meta could not be opened with its earlier schema; it is tried again");
        }
        Err(cause)
    }

    fn remove_families(&self, region: &RegionInfo, gone: &[Bytes]) -> Result<(), Exception> {
        for family in gone {
            // Names of folders are UTF-8, so a family with another name has no folder.
            let Ok(family) = std::str::from_utf8(family) else { continue };
            self.regions.drop_folder(layout::region_folder(region).join(family))?;
        }
        Ok(())
    }
}

/// Refuses a change that cannot be made unless regions are reopened, with HBase's messages. HBase only counts the families.
/// Here their names are compared, because the files of a family that is replaced by another one must be deleted.
fn check_needs_no_reopening(old: &TableDescriptor, new: &TableDescriptor) -> Result<(), Exception> {
    let refusal = |words: String| Err(Exception::new(class::HBASE_IO, words));
    let has_all_of = |one: &TableDescriptor, other: &TableDescriptor| {
        other.families().iter().all(|family| one.family(family.name()).is_some())
    };
    if !has_all_of(old, new) || !has_all_of(new, old) {
        return refusal(
            "Cannot add or remove column families when this modification won't reopen regions.".into(),
        );
    }
    let coprocessors = |table: &TableDescriptor| {
        let named = table.attributes().iter();
        let named = named.filter(|(key, _)| key.to_ascii_lowercase().starts_with(b"coprocessor$"));
        named.map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>()
    };
    if coprocessors(old) != coprocessors(new) {
        return refusal("Can not modify Coprocessor when table modification won't reopen regions".into());
    }
    let mut keys = APPLIED_BY_REOPENING.into_iter();
    match keys.find(|key| old.attributes().text(key) != new.attributes().text(key)) {
        Some(key) => {
            refusal(format!("Can not modify {key} of a table when modification won't reopen regions"))
        }
        None => Ok(()),
    }
}

fn invalid(words: String) -> Exception {
    Exception::new(class::INVALID_FAMILY_OPERATION, words)
}
