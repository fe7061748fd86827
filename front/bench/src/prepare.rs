//! The table that the workloads work on: made and filled when it is not there already.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::{Cluster, Get, Put, Table};
use proto::{FamilyDescriptor, TableDescriptor};

use crate::rows::Rows;
use crate::worker::{FAMILY, VALUE};
use crate::{Plan, Result};

/// Bytes of the values of one request while the table is filled.
const REQUEST: usize = 512 << 10;
/// Requests under way meanwhile.
const LOADERS: usize = 2;

/// Makes sure that the table of `plan` is there with all its rows; says whether it had to be filled.
///
/// A table is taken to be full when its first and its last row have their values.
pub async fn prepare(plan: &Plan, cluster: &Cluster) -> Result<bool> {
    let rows = Rows::new(plan.rows, plan.value_size);
    let admin = cluster.admin();
    if !admin.table_exists(&plan.table).await? {
        let mut table = TableDescriptor::new(plan.table.clone());
        table.set_family(FamilyDescriptor::new(FAMILY).map_err(client::Error::from)?);
        admin.create_table(&table, &rows.split_keys(plan.regions)).await?;
    }
    let table = cluster.table(&plan.table.to_string())?;
    if is_full(&table, &rows).await? {
        return Ok(false);
    }
    fill(&table, &rows, plan).await?;
    if plan.flush {
        admin.flush(&plan.table).await?;
    }
    Ok(true)
}

async fn is_full(table: &Table, rows: &Rows) -> Result<bool> {
    for number in [0, rows.count() - 1] {
        let row = table.get(Get::row(Rows::key(number)).column(FAMILY, VALUE)).await?;
        if row.value(FAMILY, VALUE) != Some(&rows.value(number)[..]) {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn fill(table: &Table, rows: &Rows, plan: &Plan) -> Result<()> {
    let together = (REQUEST / plan.value_size).clamp(1, 1_000) as u64;
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
                    let put = |number| Put::row(Rows::key(number)).set(FAMILY, VALUE, rows.value(number));
                    table.put_all(numbers.map(put)).await?;
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
