//! Creates and fills the tables of the workloads, unless they exist.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::{Admin, Cluster, Get, Table};
use proto::{FamilyDescriptor, TableDescriptor, TableName};

use crate::rows::{Layout, Rows};
use crate::{Plan, Result};

/// Number of bytes of values in one request while a table is filled.
const REQUEST: usize = 512 << 10;
/// Maximum number of requests under way at the same time while a table is filled.
const LOADERS: usize = 2;

/// Pause between two checks whether a table is compacted.
const LOOK: Duration = Duration::from_millis(250);
/// Maximum number of checks whether a table is compacted: a minute in total.
const LOOKS: u32 = 240;

/// The result of preparing a table.
pub(crate) struct Prepared {
    /// Whether the table was filled.
    pub(crate) filled: bool,
    /// Whether a requested compaction has not ended.
    pub(crate) in_pieces: bool,
}

/// Makes sure that a table of `plan` exists with all its rows.
///
/// A table counts as full if its first and its last row have their values.
pub(crate) async fn prepare(plan: &Plan, layout: Layout, cluster: &Cluster) -> Result<Prepared> {
    let rows = plan.rows(layout);
    let name = plan.table(layout);
    let admin = cluster.admin();
    if !admin.table_exists(name).await? {
        let mut table = TableDescriptor::new(name.clone());
        let family = FamilyDescriptor::new(layout.family()).map_err(client::Error::from)?;
        table.set_family(match plan.block_size {
            Some(size) => family.with("BLOCKSIZE", size),
            None => family,
        });
        if let Some(size) = plan.flush_size {
            table.attributes_mut().set("MEMSTORE_FLUSHSIZE".into(), size.to_string().into());
        }
        admin.create_table(&table, &rows.split_keys(plan.regions)).await?;
    }
    let table = cluster.table(&name.to_string())?;
    let was_full = is_full(&table, &rows).await?;
    if !was_full {
        fill(&table, &rows).await?;
        if plan.flush {
            admin.flush(name).await?;
        }
    }
    let in_pieces = plan.compact && !compact(&admin, name).await?;
    Ok(Prepared { filled: !was_full, in_pieces })
}

/// Compacts each family of each region into one file. Returns whether the compactions ended within a minute. The
/// server may still rewrite a single file afterwards; each workload waits until the server is idle.
async fn compact(admin: &Admin, name: &TableName) -> Result<bool> {
    admin.flush(name).await?;
    admin.compact(name, true).await?;
    for _ in 0..LOOKS {
        env::sleep(LOOK).await;
        if admin.region_loads(name).await?.iter().all(|load| load.storefiles() <= load.stores().max(1)) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn is_full(table: &Table, rows: &Rows) -> Result<bool> {
    for number in [0, rows.count() - 1] {
        let columns = rows.qualifiers().iter();
        let get = columns.fold(Get::row(rows.key(number)), |get, qualifier| {
            get.column(rows.layout().family(), qualifier.clone())
        });
        if !rows.is_right(number, &table.get(get).await?) {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn fill(table: &Table, rows: &Rows) -> Result<()> {
    let together = (REQUEST as u64 / rows.row_size()).clamp(1, 1_000);
    let next = Arc::new(AtomicU64::new(0));
    let loaders: Vec<_> = (0..LOADERS)
        .map(|_| {
            let (table, rows, next) = (table.clone(), rows.clone(), Arc::clone(&next));
            env::spawn(async move {
                loop {
                    let from = next.fetch_add(together, Ordering::Relaxed);
                    if from >= rows.count() {
                        return Ok(());
                    }
                    let numbers = from..(from + together).min(rows.count());
                    table.put_all(numbers.map(|number| rows.put(number))).await?;
                }
            })
        })
        .collect();
    for loader in loaders {
        let ended: client::Result<()> = loader.await.expect("a loader does not panic");
        ended?;
    }
    Ok(())
}
