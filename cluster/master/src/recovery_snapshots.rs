//! Recovery snapshots: snapshots that the master takes before a change that destroys rows, as HBase does since 2.6.4.
//!
//! If `hbase.snapshot.before.destructive.action.enabled` is true, the deletion and the truncation of a table, the truncation of a
//! region and the deletion of families first take a snapshot of the table. If that fails, the change fails, and nothing is
//! destroyed. The snapshot expires. It stays if the change fails later; HBase tries to delete it then.

use proto::{TableDescriptor, TableName, pb};
use rpc::Exception;

use crate::procedure::Context;
use crate::procedure::locks::LockSet;
use crate::snapshots::LAYOUT_VERSION;
use crate::{Master, table_not_found};

/// The attribute of a table with the time to live of its recovery snapshots, in seconds.
const RECOVERY_SNAPSHOT_TTL: &str = "RECOVERY_SNAPSHOT_TTL";

impl Master {
    /// Whether recovery snapshots are taken.
    fn has_recovery_snapshots(&self) -> bool {
        self.options.recovery_snapshots && self.options.snapshots_enabled
    }

    /// Exchanges the locks of a procedure on regions for that of the whole table, if its recovery snapshot needs that. The caller
    /// must repeat every check that it made before.
    pub(crate) fn lock_for_recovery_snapshot(&self, name: &TableName, context: &Context) {
        if self.has_recovery_snapshots() {
            context.relock(LockSet::table(name));
        }
    }

    /// Takes a recovery snapshot of a table, unless they are switched off. The caller has the table's lock exclusively, and has
    /// checked that the change is allowed.
    pub(crate) fn take_recovery_snapshot(
        &self,
        name: &TableName,
        context: &Context,
    ) -> Result<(), Exception> {
        if !self.has_recovery_snapshots() {
            return Ok(());
        }
        let table = self.read_view(|view| view.tables.get(name).map(|table| table.descriptor.clone()));
        let table = table.ok_or_else(|| table_not_found(name))?;
        // HBase names the snapshot after the table with its namespace, fails at the colon, and refuses the change.
        let shown = name.to_string().replace(':', "_");
        let snapshot = pb::SnapshotDescription {
            name: format!("auto_{shown}_{}", self.clock.next().0),
            table: Some(name.to_string()),
            creation_time: Some(self.world.now().0),
            ttl: Some(self.recovery_ttl(&table)),
            version: Some(LAYOUT_VERSION),
            ..Default::default()
        };
        let shown = snapshot.name.clone();
        self.take_snapshot(snapshot, name, context).map_err(|cause| Exception {
            message: format!(
                "nothing was changed, because the recovery snapshot {shown} of table {name} was not taken: {}",
                cause.message
            ),
            ..cause
        })?;
        tracing::info!(table = %name, snapshot = shown, "took a recovery snapshot");
        Ok(())
    }

    /// Returns the time to live of the recovery snapshots of a table, in seconds; without end if it is not positive.
    fn recovery_ttl(&self, table: &TableDescriptor) -> i64 {
        let Some(text) = table.attributes().text(RECOVERY_SNAPSHOT_TTL) else {
            return self.options.recovery_snapshot_ttl;
        };
        text.parse().unwrap_or_else(|_| {
            tracing::warn!(table = %table.name(), value = text,
                "RECOVERY_SNAPSHOT_TTL is not a number of seconds; the default of the site counts");
            self.options.recovery_snapshot_ttl
        })
    }
}
