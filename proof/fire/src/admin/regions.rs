//! Flushes, compacts, splits and merges the table that clients write.

use client::{Error, Location};

use super::Administrator;
use crate::activity::AdminOperation;

/// Number of regions from which on the administrator merges; below it, it splits.
const REGIONS_MAX: usize = 10;
const REGIONS_MIN: usize = 3;

const KINDS: [AdminOperation; 5] = [
    AdminOperation::Flush,
    AdminOperation::MinorCompaction,
    AdminOperation::MajorCompaction,
    AdminOperation::Split,
    AdminOperation::Merge,
];

/// Works until the end of the test.
pub(super) async fn work(admin: Administrator) {
    while admin.goes_on().await {
        let random = match admin.below(10) {
            0..=3 => AdminOperation::Flush,
            4 => AdminOperation::MinorCompaction,
            5 => AdminOperation::MajorCompaction,
            6 | 7 => AdminOperation::Split,
            _ => AdminOperation::Merge,
        };
        let operation = admin.next(&KINDS, random);
        // The failure of an operation is judged and counted already.
        let _judged = one(&admin, operation).await;
    }
}

async fn one(admin: &Administrator, operation: AdminOperation) -> Result<(), Error> {
    let (shared, table) = (&admin.shared, &admin.table);
    let cluster = admin.cluster.admin();
    match operation {
        AdminOperation::Flush => shared.administrate(operation, cluster.flush(table)).await,
        AdminOperation::MinorCompaction => {
            shared.administrate(operation, cluster.compact(table, false)).await
        }
        AdminOperation::MajorCompaction => shared.administrate(operation, cluster.compact(table, true)).await,
        AdminOperation::Split => split(admin).await,
        _ => merge(admin).await,
    }
}

async fn regions(admin: &Administrator) -> Result<Vec<Location>, Error> {
    let start = admin.shared.start();
    let regions = admin.cluster.admin().regions(&admin.table).await;
    regions.inspect_err(|error| admin.shared.failed(start, "the list of regions", error))
}

async fn split(admin: &Administrator) -> Result<(), Error> {
    let regions = regions(admin).await?;
    if regions.len() >= REGIONS_MAX {
        return Ok(());
    }
    let row = format!("{:04x}", admin.below(0x1_0000));
    let Some(at) = regions.iter().find(|at| at.region.contains_row(row.as_bytes())) else { return Ok(()) };
    let split = admin.cluster.admin();
    admin.shared.administrate(AdminOperation::Split, split.split_region(&at.region, Some(row.into()))).await
}

async fn merge(admin: &Administrator) -> Result<(), Error> {
    let regions = regions(admin).await?;
    if regions.len() <= REGIONS_MIN {
        return Ok(());
    }
    let first = admin.below(regions.len() as u64 - 1) as usize;
    let two = [regions[first].region.clone(), regions[first + 1].region.clone()];
    let merge = admin.cluster.admin();
    admin.shared.administrate(AdminOperation::Merge, merge.merge_regions(&two, false)).await
}
