//! A snapshot that is deleted and taken again under its name, as a nightly script does it.

use client::Cluster;

const NAME: &str = "daily";

/// Takes the snapshot of `table` again. When this returns, it is there, and nobody may delete it.
pub(super) async fn take(cluster: &Cluster, table: &str) -> Result<(), client::Error> {
    let admin = cluster.admin();
    if is_there(cluster).await? {
        admin.delete_snapshot(NAME).await?;
    }
    let table = table.parse().map_err(|_| client::Error::Invalid(format!("{table} is no table")))?;
    admin.snapshot(NAME, &table).await
}

/// Deletes the snapshot.
pub(super) async fn delete(cluster: &Cluster) -> Result<(), client::Error> {
    cluster.admin().delete_snapshot(NAME).await
}

/// Whether the snapshot is there.
pub(super) async fn is_there(cluster: &Cluster) -> Result<bool, client::Error> {
    Ok(cluster.admin().snapshots().await?.iter().any(|snapshot| snapshot.name == NAME))
}
