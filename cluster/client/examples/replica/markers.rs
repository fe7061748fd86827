//! Measures how long a replica needs to show a write after the primary has acknowledged it.

use std::time::Duration;

use client::{Cluster, Get, Put};
use env::World;
use proto::{FamilyDescriptor, TableDescriptor, TableName};

use crate::{Failure, until};

const TABLE: &str = "markers";
const ROW: &str = "marker";
/// Pause between two reads of a marker.
const LOOK: Duration = Duration::from_millis(2);
/// Maximum pause before the next marker, in ms. So the markers come at any time of the replica's polls.
const PAUSE_MAX_MS: u64 = 150;
/// Maximum time until a marker is seen.
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// Writes markers for `time`, each when the one before was seen. Returns the times from the acknowledgement of each until a
/// reader of the replica sees it, sorted.
pub(crate) async fn lags(
    primary: &Cluster,
    replica: &Cluster,
    time: Duration,
    random: &World,
) -> Result<Vec<Duration>, Failure> {
    let name: TableName = TABLE.parse()?;
    if !primary.admin().table_exists(&name).await? {
        let mut made = TableDescriptor::new(name.clone());
        made.set_family(FamilyDescriptor::new("f")?);
        primary.admin().create_table(&made, &[]).await?;
    }
    until("the replica has the table of markers", || async {
        replica.admin().table_exists(&name).await.unwrap_or(false)
    })
    .await?;
    let (writes, reads) = (primary.table(TABLE)?, replica.table(TABLE)?);
    let world = World::real();
    let (began, mut lags) = (world.moment(), Vec::new());
    while world.moment().since(began) < time {
        env::sleep(Duration::from_millis(random.random() % PAUSE_MAX_MS)).await;
        let marker = lags.len().to_string();
        writes.put(Put::row(ROW).set("f", "q", marker.clone())).await?;
        let acknowledged = world.moment();
        loop {
            let found = reads.get(Get::row(ROW)).await?;
            let lag = world.moment().since(acknowledged);
            if found.value("f", "q") == Some(marker.as_bytes()) {
                lags.push(lag);
                break;
            }
            if lag > SEEN_WITHIN {
                return Err(
                    format!("{lag:?} after its acknowledgement the replica lacks marker {marker}").into()
                );
            }
            env::sleep(LOOK).await;
        }
    }
    lags.sort();
    Ok(lags)
}
