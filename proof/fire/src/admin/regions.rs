//! Flushes, compacts, splits and merges the table that clients write.

use client::Location;

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
        one(&admin, operation).await;
    }
}

async fn one(admin: &Administrator, operation: AdminOperation) {
    let (shared, table) = (&admin.shared, &admin.table);
    let cluster = admin.cluster.admin();
    // Failures are judged and counted by `administrate`.
    let _judged = match operation {
        AdminOperation::Flush => shared.administrate(operation, cluster.flush(table)).await,
        AdminOperation::MinorCompaction => {
            shared.administrate(operation, cluster.compact(table, false)).await
        }
        AdminOperation::MajorCompaction => shared.administrate(operation, cluster.compact(table, true)).await,
        AdminOperation::Split => return split(admin).await,
        _ => return merge(admin).await,
    };
}

/// Returns the regions of the table; `None` if they cannot be read. This client repeats for 3 s only, so it may fail
/// while the server is killed and recovers.
async fn regions(admin: &Administrator) -> Option<Vec<Location>> {
    admin.known("the list of regions", admin.cluster.admin().regions(&admin.table)).await
}

async fn split(admin: &Administrator) {
    let Some(regions) = regions(admin).await else { return };
    if regions.len() >= REGIONS_MAX {
        return;
    }
    let row = format!("{:04x}", admin.below(0x1_0000));
    let Some(at) = regions.iter().find(|at| at.region.contains_row(row.as_bytes())) else { return };
    let cluster = admin.cluster.admin();
    let split = cluster.split_region(&at.region, Some(row.into()));
    let _judged = admin.shared.administrate(AdminOperation::Split, split).await;
}

async fn merge(admin: &Administrator) {
    let Some(regions) = regions(admin).await else { return };
    if regions.len() <= REGIONS_MIN {
        return;
    }
    let first = admin.below(regions.len() as u64 - 1) as usize;
    let two = [regions[first].region.clone(), regions[first + 1].region.clone()];
    let cluster = admin.cluster.admin();
    let merge = cluster.merge_regions(&two, false);
    let _judged = admin.shared.administrate(AdminOperation::Merge, merge).await;
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the test removes its file")]

    use std::sync::Arc;

    use client::{Cluster, Options, Registry};
    use env::{Runtime, WallTime, World};

    use super::*;
    use crate::clients::TABLE;
    use crate::expected::Expected;
    use crate::shared::Shared;

    #[test]
    fn a_list_of_regions_may_fail_only_while_the_server_is_disturbed() {
        let path = std::env::temp_dir().join(format!("fire-regions-{}", std::process::id()));
        let shared = Arc::new(Shared::new(Expected::open(&path, 1, 1, 1).unwrap()));
        // No server listens at this port.
        let options = Options { retries: 0, ..Options::new(Registry::rpc(["127.0.0.1:1"])) };
        let admin = Administrator {
            shared: Arc::clone(&shared),
            cluster: Cluster::connect(World::real(), options),
            table: TABLE.parse().unwrap(),
            random: World::simulated(1, WallTime(0)),
        };
        let runtime = Runtime::start("test", 1).unwrap();
        for operation in [AdminOperation::Split, AdminOperation::Merge] {
            shared.disturbed.set(true);
            runtime.handle().block_on(one(&admin, operation));
            shared.disturbed.set(false);
            assert_eq!(shared.expected.complaint(), None);
        }
        runtime.handle().block_on(one(&admin, AdminOperation::Split));
        let why = shared.expected.complaint().unwrap();
        assert!(why.contains("the list of regions cannot be read"), "{why}");
        std::fs::remove_file(path).unwrap();
    }
}
