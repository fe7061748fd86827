//! The store file trackers that a table may name, and how they change.
//!
//! Every store has a file list, whatever tracker its table names, and only the list says which files count. The named
//! tracker says how HBase finds the files after a hand-back (`cluster/door/src/hand_back.rs` prepares the folders). So
//! a change of the tracker changes the descriptor, and no files are migrated. The accepted names, the transitions
//! between them, and the messages of refusals are HBase's.
//!
//! For an unknown name, the same unchecked exception as in HBase fails the procedure, and not the call that submits it.
//!
//! Source: HBase 2.6 `StoreFileTrackerValidationUtils`, `ModifyStoreFileTrackerProcedure`.

use std::sync::Arc;

use bytes::Bytes;
use cell::string_binary;
use proto::catalog::TableState;
use proto::descriptor::tracker::{MIGRATION_SOURCE, MIGRATION_TARGET, TRACKER, TrackerChoice, TrackerKind};
use proto::{FamilyDescriptor, TableDescriptor, TableName, pb};
use rpc::{Exception, class};

use crate::Master;
use crate::error::of_proto;
use crate::procedure::{NonceKey, ProcedureId, ProcedureKind};

/// The exception class with which HBase fails when it cannot load a class by its name.
const RUNTIME: &str = "java.lang.RuntimeException";

impl Master {
    /// Submits the change of the tracker of a table, or of one of its families. If the table or family has this tracker
    /// already, nothing changes, not even the spelling.
    pub(crate) fn change_tracker(
        self: &Arc<Self>,
        table: &pb::TableName,
        family: Option<&Bytes>,
        tracker: &str,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = TableName::try_from(table).map_err(of_proto)?;
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        let wanted = TrackerKind::parse(tracker)
            .ok_or_else(|| Exception::io(format!("java.lang.ClassNotFoundException: {tracker}")))?;
        if wanted == TrackerKind::Migration {
            return Err(Exception::do_not_retry(format!("Do not need to transfer to {tracker}")));
        }
        self.check_enabled(&name)?;
        let kind = match family {
            None => ProcedureKind::ModifyTracker,
            Some(_) => ProcedureKind::ModifyFamilyTracker,
        };
        let (family, tracker) = (family.cloned(), tracker.to_owned());
        self.submit(kind, &name.clone(), nonce, move |master, _| {
            let old = master.check_enabled(&name)?;
            let new = match &family {
                None => master.with_tracker(&old, wanted, &tracker),
                Some(family) => master.with_family_tracker(&old, family, wanted, &tracker)?,
            };
            let Some(new) = new else { return Ok(()) };
            master.change_schema(&Arc::new(new))
        })
    }

    /// Returns the table with the tracker `wanted`, which the user wrote as `spelling`; `None` if the table has this
    /// tracker already.
    fn with_tracker(
        &self,
        table: &TableDescriptor,
        wanted: TrackerKind,
        spelling: &str,
    ) -> Option<TableDescriptor> {
        let site = self.options.tracker.as_str();
        if TrackerKind::parse(TrackerChoice::of_table(table, site).tracker) == Some(wanted) {
            return None;
        }
        let mut table = table.clone();
        table.attributes_mut().set(TRACKER.into(), spelling.to_owned().into());
        for key in [MIGRATION_SOURCE, MIGRATION_TARGET] {
            table.attributes_mut().remove(key.as_bytes());
        }
        Some(table)
    }

    /// Like [`with_tracker`](Self::with_tracker), for one family.
    fn with_family_tracker(
        &self,
        table: &TableDescriptor,
        family: &Bytes,
        wanted: TrackerKind,
        spelling: &str,
    ) -> Result<Option<TableDescriptor>, Exception> {
        let Some(known) = table.family(family) else {
            let words = format!("{} does not exist for table {}", string_binary(family), table.name());
            return Err(Exception::new(class::NO_SUCH_COLUMN_FAMILY, words));
        };
        let site = self.options.tracker.as_str();
        if TrackerKind::parse(TrackerChoice::of_family(table, known, site).tracker) == Some(wanted) {
            return Ok(None);
        }
        let mut family = known.clone();
        family.configure(TRACKER, spelling);
        for key in [TRACKER, MIGRATION_SOURCE, MIGRATION_TARGET] {
            family.attributes_mut().remove(key.as_bytes());
        }
        family.unconfigure(MIGRATION_SOURCE);
        family.unconfigure(MIGRATION_TARGET);
        let mut table = table.clone();
        table.set_family(family);
        Ok(Some(table))
    }

    /// If a descriptor names no tracker, sets the site's tracker in it, as HBase does when a table is created.
    pub(crate) fn name_tracker(&self, table: &mut TableDescriptor) {
        if table.attributes().text(TRACKER).is_none_or(str::is_empty) {
            let name = self.options.tracker.as_str();
            table.attributes_mut().set(TRACKER.into(), name.into());
        }
    }

    /// Refuses trackers that a new table may not name.
    pub(crate) fn check_trackers_of_new(&self, table: &TableDescriptor) -> Result<(), Exception> {
        let site = self.options.tracker.as_str();
        load(TrackerChoice::of_table(table, site).tracker)?;
        table.families().iter().try_for_each(|family| check_new_family(table, family, site))
    }

    /// Fails if a table with the schema `old` may not change to the trackers of `new`.
    pub(crate) fn check_trackers_of_change(
        &self,
        old: &TableDescriptor,
        new: &TableDescriptor,
    ) -> Result<(), Exception> {
        let site = self.options.tracker.as_str();
        let state = self.read_view(|view| view.tables.get(new.name()).map(|table| table.state));
        let is_disabled = state == Some(TableState::Disabled);
        new.families().iter().try_for_each(|family| match old.family(family.name()) {
            None => check_new_family(new, family, site),
            Some(before) => {
                let before = TrackerChoice::of_family(old, before, site);
                let after = TrackerChoice::of_family(new, family, site);
                let shown = format!("family {} of table {}", string_binary(family.name()), new.name());
                check_change(before, after, &shown, new.name(), is_disabled)
            }
        })
    }

    /// Refuses a restoration that would change trackers. `snapshot` is the schema of the snapshot.
    pub(crate) fn check_trackers_of_restoration(
        &self,
        table: &TableDescriptor,
        snapshot: &TableDescriptor,
    ) -> Result<(), Exception> {
        let site = self.options.tracker.as_str();
        for family in table.families() {
            let Some(restored) = snapshot.family(family.name()) else { continue };
            let now = load(TrackerChoice::of_family(table, family, site).tracker)?;
            let then = load(TrackerChoice::of_family(snapshot, restored, site).tracker)?;
            if now != then {
                return Err(Exception::new(
                    class::RESTORE_SNAPSHOT,
                    format!(
                        "Restoring Snapshot is not possible because  the config for column family {} has incompatible \
                         configuration. Current SFT: class {} SFT from snapshot: class {}",
                        string_binary(family.name()),
                        now.class_name(),
                        then.class_name()
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// Sets the tracker that the client chose for a clone, in the table and in all its families.
pub(crate) fn choose_for_clone(table: &mut TableDescriptor, tracker: &str) {
    table.attributes_mut().set(TRACKER.into(), tracker.to_owned().into());
    for family in table.families().to_vec() {
        let mut family = family;
        family.attributes_mut().remove(TRACKER.as_bytes());
        family.unconfigure(TRACKER);
        table.set_family(family);
    }
}

/// If a snapshot's schema names no tracker, sets the table's tracker in it. HBase before 2.5 named none, and `bellows
/// adopt` sets DEFAULT in the tables that it takes over.
pub(crate) fn inherit(snapshot: &mut TableDescriptor, table: &TableDescriptor) {
    if let (None, Some(tracker)) = (snapshot.attributes().text(TRACKER), table.attributes().text(TRACKER)) {
        snapshot.attributes_mut().set(TRACKER.into(), tracker.to_owned().into());
    }
}

fn check_new_family(table: &TableDescriptor, family: &FamilyDescriptor, site: &str) -> Result<(), Exception> {
    match load(TrackerChoice::of_family(table, family, site).tracker)? {
        TrackerKind::Migration => Err(Exception::do_not_retry(format!(
            "Should not use MIGRATION as store file tracker for new family {} of table {}",
            string_binary(family.name()),
            table.name()
        ))),
        TrackerKind::Default | TrackerKind::File => Ok(()),
    }
}

/// Refuses a change from one choice of trackers to another. `shown` names the family and its table in messages.
fn check_change(
    before: TrackerChoice<'_>,
    after: TrackerChoice<'_>,
    shown: &str,
    table: &TableName,
    is_disabled: bool,
) -> Result<(), Exception> {
    let refused = |words: String| Err(Exception::do_not_retry(format!("{words} for {shown}")));
    let (old, new) = (load(before.tracker)?, load(after.tracker)?);
    let name = TrackerKind::as_str;
    match (old, new) {
        (TrackerKind::Migration, TrackerKind::Migration) => {
            let (old, new) = (end(MIGRATION_SOURCE, before.source)?, end(MIGRATION_SOURCE, after.source)?);
            if old != new {
                return refused(format!(
                    "The src tracker has been changed from {} to {}",
                    name(old),
                    name(new)
                ));
            }
            let (old, new) = (end(MIGRATION_TARGET, before.target)?, end(MIGRATION_TARGET, after.target)?);
            if old != new {
                return refused(format!(
                    "The dst tracker has been changed from {} to {}",
                    name(old),
                    name(new)
                ));
            }
        }
        (TrackerKind::Migration, _) => {
            if is_disabled {
                return Err(Exception::new(
                    class::TABLE_NOT_ENABLED,
                    format!(
                        "Should not change store file tracker implementation from MIGRATION while table {table} is disabled"
                    ),
                ));
            }
            let target = end(MIGRATION_TARGET, before.target)?;
            if new != target {
                return refused(format!("Should migrate tracker to {} but got {}", name(target), name(new)));
            }
        }
        (_, TrackerKind::Migration) => {
            let source = end(MIGRATION_SOURCE, after.source)?;
            if source != old {
                return refused(format!(
                    "Should use src tracker {} first but got {} when migrating from {}",
                    name(old),
                    name(source),
                    name(old)
                ));
            }
            if end(MIGRATION_TARGET, after.target)? == source {
                return refused(format!("The src tracker and dst tracker are both {}", name(source)));
            }
        }
        (old, new) if old != new => {
            return refused(format!("Should change to MIGRATION first when migrating from {}", name(old)));
        }
        _ => {}
    }
    Ok(())
}

/// Returns the tracker of this name.
fn load(name: &str) -> Result<TrackerKind, Exception> {
    TrackerKind::parse(name).ok_or_else(|| {
        let words =
            format!("java.lang.RuntimeException: java.lang.ClassNotFoundException: Class {name} not found");
        Exception::new(RUNTIME, words)
    })
}

/// Returns the tracker at one end of a migration. Refuses MIGRATION: HBase accepts it there, and then opens no region
/// of the table.
fn end(key: &str, name: Option<&str>) -> Result<TrackerKind, Exception> {
    let Some(name) = name else {
        return Err(Exception::new("java.lang.NullPointerException", format!("config {key} is not set")));
    };
    match TrackerKind::parse(name) {
        Some(TrackerKind::Migration) => Err(Exception::new(
            class::ILLEGAL_ARGUMENT,
            format!("Should not specify {key} as MIGRATION because it can not be nested"),
        )),
        Some(tracker) => Ok(tracker),
        None => Err(Exception::new(RUNTIME, format!("java.lang.ClassNotFoundException: {name}"))),
    }
}
