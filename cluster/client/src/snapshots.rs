//! Administration of snapshots.

use proto::{TableName, pb};

use crate::{Admin, Result};

impl Admin {
    /// Takes a snapshot of a table, including the data in memory. Fails if a snapshot of this name exists.
    pub async fn snapshot(&self, name: &str, table: &TableName) -> Result<()> {
        self.take(description(name, Some(table))).await
    }

    /// Takes a snapshot of a table's files, without flushing the data in memory. Fails if a snapshot of this name
    /// exists.
    pub async fn snapshot_files(&self, name: &str, table: &TableName) -> Result<()> {
        let kind = Some(pb::snapshot_description::Type::Skipflush as i32);
        self.take(pb::SnapshotDescription { r#type: kind, ..description(name, Some(table)) }).await
    }

    async fn take(&self, snapshot: pb::SnapshotDescription) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::SnapshotRequest { snapshot, nonce_group, nonce };
        let answer: pb::SnapshotResponse = self.cluster.on_master("Snapshot", &request).await?;
        self.finished(answer.proc_id.map(|id| id as u64)).await
    }

    /// Lists all complete snapshots.
    pub async fn snapshots(&self) -> Result<Vec<pb::SnapshotDescription>> {
        let request = pb::GetCompletedSnapshotsRequest::default();
        let answer: pb::GetCompletedSnapshotsResponse =
            self.cluster.on_master("GetCompletedSnapshots", &request).await?;
        Ok(answer.snapshots)
    }

    /// Deletes a snapshot. The master does not recognize a retry. So if the answer of a successful attempt is lost, the
    /// next attempt fails because the snapshot does not exist.
    pub async fn delete_snapshot(&self, name: &str) -> Result<()> {
        let request = pb::DeleteSnapshotRequest { snapshot: description(name, None) };
        let _empty: pb::DeleteSnapshotResponse = self.cluster.on_master("DeleteSnapshot", &request).await?;
        Ok(())
    }

    /// Creates `table` with the content of a snapshot, without copying it. If a disabled table of this name exists, it
    /// is [restored](Admin::restore_snapshot) instead.
    pub async fn clone_snapshot(&self, name: &str, table: &TableName) -> Result<()> {
        self.restore(name, table).await
    }

    /// Gives a table the content that it had when the snapshot was taken. The table must be disabled. If it does not
    /// exist, it is [created](Admin::clone_snapshot).
    pub async fn restore_snapshot(&self, name: &str, table: &TableName) -> Result<()> {
        self.restore(name, table).await
    }

    /// Restores or clones a snapshot: the master clones it if the table does not exist, and restores the table
    /// otherwise.
    async fn restore(&self, name: &str, table: &TableName) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::RestoreSnapshotRequest {
            snapshot: description(name, Some(table)),
            nonce_group,
            nonce,
            ..pb::RestoreSnapshotRequest::default()
        };
        let answer: pb::RestoreSnapshotResponse = self.cluster.on_master("RestoreSnapshot", &request).await?;
        self.finished(Some(answer.proc_id)).await?;
        self.cluster.forget(table);
        Ok(())
    }
}

fn description(name: &str, table: Option<&TableName>) -> pb::SnapshotDescription {
    pb::SnapshotDescription {
        name: name.to_owned(),
        table: table.map(ToString::to_string),
        r#type: Some(pb::snapshot_description::Type::Flush as i32),
        ..pb::SnapshotDescription::default()
    }
}
