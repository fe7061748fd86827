//! Creates, truncates and deletes a table that nobody else uses.

use bytes::Bytes;
use client::{Put, Scan};
use proto::catalog::TableState;
use proto::{FamilyDescriptor, TableDescriptor, TableName};

use super::Administrator;
use crate::activity::AdminOperation;

const NAME: &str = "fire-side";
const FAMILY: &str = "f";
/// Number of rows, which are spread over all regions.
const ROWS: u64 = 64;

const KINDS: [AdminOperation; 5] = [
    AdminOperation::Create,
    AdminOperation::Disable,
    AdminOperation::Enable,
    AdminOperation::Truncate,
    AdminOperation::Delete,
];

/// Works until the end of the test.
pub(super) async fn work(admin: Administrator) {
    let table: TableName = NAME.parse().expect("a good name");
    // Numbers of rows that the table may have: two after a change that may or may not have happened.
    let mut may_have = vec![0];
    // The operation that the runner wants. Others may have to come first, such as a disable before a truncate.
    let mut goal = None;
    while admin.goes_on().await {
        goal = admin.shared.activity.take_wanted(&KINDS).or(goal);
        let Some(state) = admin.state_of(&table).await else { continue };
        let random = match state {
            None => AdminOperation::Create,
            Some(TableState::Disabled) => match admin.below(3) {
                0 => AdminOperation::Enable,
                1 => AdminOperation::Truncate,
                _ => AdminOperation::Delete,
            },
            Some(TableState::Enabled) => AdminOperation::Disable,
            // Another operation changes the state; the loop waits for its end.
            Some(_) => continue,
        };
        let is_disabled = state == Some(TableState::Disabled);
        let operation = match goal {
            Some(AdminOperation::Enable | AdminOperation::Truncate | AdminOperation::Delete)
                if is_disabled =>
            {
                goal.take().unwrap_or(random)
            }
            Some(AdminOperation::Disable | AdminOperation::Create) if is_disabled => match goal {
                Some(AdminOperation::Disable) => AdminOperation::Enable,
                _ => AdminOperation::Delete,
            },
            _ => random,
        };
        if goal == Some(operation) {
            goal = None;
        }
        if operation == AdminOperation::Disable {
            check(&admin, &table, &mut may_have).await;
        }
        change(&admin, &table, operation, &mut may_have).await;
    }
}

async fn change(
    admin: &Administrator,
    table: &TableName,
    operation: AdminOperation,
    may_have: &mut Vec<u64>,
) {
    let (shared, cluster) = (&admin.shared, admin.cluster.admin());
    match operation {
        AdminOperation::Create => {
            let mut descriptor = TableDescriptor::new(table.clone());
            descriptor.set_family(FamilyDescriptor::new(FAMILY).expect("a good name"));
            let splits = [&b"4"[..], b"8", b"c"].map(Bytes::from_static);
            *may_have = vec![0];
            let _judged = shared.administrate(operation, cluster.create_table(&descriptor, &splits)).await;
        }
        AdminOperation::Disable => {
            let _judged = shared.administrate(operation, cluster.disable_table(table)).await;
        }
        AdminOperation::Enable => {
            let _judged = shared.administrate(operation, cluster.enable_table(table)).await;
        }
        AdminOperation::Truncate => {
            let truncate = cluster.truncate_table(table, admin.below(2) == 0);
            match shared.administrate(operation, truncate).await {
                Ok(()) => *may_have = vec![0],
                Err(_) => may_have.push(0),
            }
        }
        _ => {
            if shared.administrate(operation, cluster.delete_table(table)).await.is_ok() {
                *may_have = vec![0];
            }
        }
    }
}

/// Complains unless the table has a number of rows that it may have. Then fills it.
async fn check(admin: &Administrator, table: &TableName, may_have: &mut Vec<u64>) {
    let Ok(side) = admin.cluster.table(table.as_str()) else { return };
    let count = async {
        let mut scanner = side.scan(Scan::new());
        let mut count = 0;
        while scanner.next().await?.is_some() {
            count += 1;
        }
        Ok(count)
    };
    let Some(count) = admin.known("the side table", count).await else { return };
    if !may_have.contains(&count) {
        admin.shared.expected.complain(format!("{table} has {count} rows, expected one of {may_have:?}"));
    }
    for row in 0..ROWS {
        let put = Put::row(format!("{:02x}", row * 4)).set(FAMILY, "v", "a value");
        if admin.known("the side table", side.put(put)).await.is_none() {
            *may_have = (0..=ROWS).collect();
            return;
        }
    }
    *may_have = vec![ROWS];
}
