//! The administrator of the fire test: flushes, compacts, splits and merges while everything else happens.

use std::sync::Arc;
use std::time::Duration;

use client::{Cluster, Error};
use env::World;
use proto::TableName;

use crate::clients::{Shared, TABLE};

/// Number of regions from which on the administrator merges; below it, it splits.
const REGIONS_MAX: usize = 10;
const REGIONS_MIN: usize = 3;

/// Works until the process ends. The server may refuse an operation, because regions move meanwhile.
pub(crate) async fn work(shared: Arc<Shared>, cluster: Cluster, random: World) {
    let table: TableName = TABLE.parse().expect("a good name");
    loop {
        let (kind, done) = one(&cluster, &table, &random).await;
        match done {
            Ok(true) => shared.tally.count(kind),
            Ok(false) => {}
            Err(_) => shared.tally.count("refused to the administrator"),
        }
        env::sleep(Duration::from_millis(random.random() % 400)).await;
    }
}

/// Makes one random operation. Returns its kind, and whether there was something to do.
async fn one(cluster: &Cluster, table: &TableName, random: &World) -> (&'static str, Result<bool, Error>) {
    let admin = cluster.admin();
    match random.random() % 10 {
        0..=4 => ("flushes", admin.flush(table).await.map(|()| true)),
        5 => ("minor compactions", admin.compact(table, false).await.map(|()| true)),
        6 => ("major compactions", admin.compact(table, true).await.map(|()| true)),
        7 | 8 => ("splits", split(cluster, table, random).await),
        _ => ("merges", merge(cluster, table, random).await),
    }
}

async fn split(cluster: &Cluster, table: &TableName, random: &World) -> Result<bool, Error> {
    let regions = cluster.admin().regions(table).await?;
    if regions.len() >= REGIONS_MAX {
        return Ok(false);
    }
    let row = format!("{:04x}", random.random() % 0x1_0000);
    let Some(at) = regions.iter().find(|at| at.region.contains_row(row.as_bytes())) else { return Ok(false) };
    cluster.admin().split_region(&at.region, Some(row.into())).await.map(|()| true)
}

async fn merge(cluster: &Cluster, table: &TableName, random: &World) -> Result<bool, Error> {
    let regions = cluster.admin().regions(table).await?;
    if regions.len() <= REGIONS_MIN {
        return Ok(false);
    }
    let first = (random.random() % (regions.len() as u64 - 1)) as usize;
    let two = [regions[first].region.clone(), regions[first + 1].region.clone()];
    cluster.admin().merge_regions(&two, false).await.map(|()| true)
}
