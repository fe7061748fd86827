//! Takes snapshots of the table that clients write, keeps them for a while, clones and restores them, and judges what
//! the clones have.
//!
//! A snapshot that flushes must have every write that was acknowledged before it began, and none that was sent after it
//! ended. So its clone has the same bounds for ever, whatever was compacted, split, merged or altered meanwhile. A
//! snapshot without a flush may lack anything that was in memory; its values must be right.

use client::{Error, Scan};
use proto::TableName;
use proto::catalog::TableState;

use super::Administrator;
use crate::activity::AdminOperation;
use crate::clients::{SIDE_ROW, SUM, row_of_counter};
use crate::content::{FAMILIES, key_of};
use crate::expected::{judge, judge_sum};

/// Maximum number of snapshots that are kept.
const SNAPSHOTS_MAX: usize = 3;

const KINDS: [AdminOperation; 5] = [
    AdminOperation::Snapshot,
    AdminOperation::SnapshotOfFiles,
    AdminOperation::Clone,
    AdminOperation::Restore,
    AdminOperation::DeleteSnapshot,
];

/// A snapshot, and the bounds of what it has.
struct Taken {
    name: String,
    /// Minimum version of each key, and minimum sum of each counter; `None` if the memstores were left out.
    least: Option<(Vec<u64>, Vec<u64>)>,
    sent: (Vec<u64>, Vec<u64>),
}

/// Works until the end of the test.
pub(super) async fn work(admin: Administrator) {
    let mut taken: Vec<Taken> = Vec::new();
    let mut count = 0;
    while admin.goes_on().await {
        let random = match admin.below(8) {
            _ if taken.is_empty() => AdminOperation::Snapshot,
            0 | 1 => AdminOperation::Snapshot,
            2 => AdminOperation::SnapshotOfFiles,
            3 | 4 => AdminOperation::Clone,
            5 => AdminOperation::Restore,
            _ => AdminOperation::DeleteSnapshot,
        };
        let operation = match admin.next(&KINDS, random) {
            AdminOperation::Snapshot | AdminOperation::SnapshotOfFiles if taken.len() >= SNAPSHOTS_MAX => {
                delete(&admin, &mut taken).await;
                random
            }
            AdminOperation::Clone | AdminOperation::Restore | AdminOperation::DeleteSnapshot
                if taken.is_empty() =>
            {
                AdminOperation::Snapshot
            }
            operation => operation,
        };
        count += 1;
        match operation {
            AdminOperation::Snapshot | AdminOperation::SnapshotOfFiles => {
                taken.extend(take(&admin, format!("fire-{count}"), operation).await);
            }
            AdminOperation::Clone | AdminOperation::Restore if !taken.is_empty() => {
                let from = &taken[admin.below(taken.len() as u64) as usize];
                let is_restored = operation == AdminOperation::Restore;
                clone(&admin, format!("fire-clone-{count}"), from, is_restored).await;
            }
            _ => delete(&admin, &mut taken).await,
        }
    }
}

/// Takes a snapshot. Returns it if it exists afterwards, whatever the answer was.
async fn take(admin: &Administrator, name: String, operation: AdminOperation) -> Option<Taken> {
    let (shared, cluster) = (&admin.shared, admin.cluster.admin());
    let least = (operation == AdminOperation::Snapshot).then(|| shared.expected.least());
    let done = match operation {
        AdminOperation::Snapshot => {
            shared.administrate(operation, cluster.snapshot(&name, &admin.table)).await
        }
        _ => shared.administrate(operation, cluster.snapshot_files(&name, &admin.table)).await,
    };
    if done.is_err() {
        let all = admin.known("the snapshots", cluster.snapshots()).await?;
        if !all.iter().any(|snapshot| snapshot.name == name) {
            return None;
        }
        shared.tally.count("snapshots finished in spite of an error");
    }
    Some(Taken { name, least, sent: shared.expected.sent() })
}

async fn delete(admin: &Administrator, taken: &mut Vec<Taken>) {
    if taken.is_empty() {
        return;
    }
    let snapshot = taken.swap_remove(admin.below(taken.len() as u64) as usize);
    let delete = admin.cluster.admin();
    let delete = delete.delete_snapshot(&snapshot.name);
    // If the deletion fails because of a fault, the end of the test deletes the snapshot.
    let _judged = admin.shared.administrate(AdminOperation::DeleteSnapshot, delete).await;
}

/// Clones a snapshot, judges the clone, and deletes it; before that it may be emptied and restored.
async fn clone(admin: &Administrator, name: String, from: &Taken, is_restored: bool) {
    let (shared, cluster) = (&admin.shared, admin.cluster.admin());
    let Ok(table) = name.parse::<TableName>() else { return };
    let done = shared.administrate(AdminOperation::Clone, cluster.clone_snapshot(&from.name, &table)).await;
    match admin.state_of(&table).await {
        Some(Some(TableState::Enabled)) => {
            if done.is_err() {
                shared.tally.count("clones finished in spite of an error");
            }
            check(admin, &table, from).await;
        }
        Some(None) if done.is_err() => return,
        Some(state) if done.is_ok() => {
            shared.expected.complain(format!("the clone {table} is {state:?}, expected ENABLED"));
        }
        _ => {}
    }
    if is_restored {
        restore(admin, &table, from).await;
    }
    admin.delete(&table).await;
}

/// Takes a snapshot of a clone, removes all rows, and restores the snapshot. The clone must be as before.
async fn restore(admin: &Administrator, table: &TableName, from: &Taken) {
    let (shared, cluster) = (&admin.shared, admin.cluster.admin());
    let name = format!("of-{table}");
    if shared.administrate(AdminOperation::Snapshot, cluster.snapshot(&name, table)).await.is_err() {
        return;
    }
    let may_go_on = shared.administrate(AdminOperation::Disable, cluster.disable_table(table)).await.is_ok()
        && shared.administrate(AdminOperation::Truncate, cluster.truncate_table(table, false)).await.is_ok()
        && shared.administrate(AdminOperation::Disable, cluster.disable_table(table)).await.is_ok();
    if may_go_on {
        let restore = cluster.restore_snapshot(&name, table);
        let restored = shared.administrate(AdminOperation::Restore, restore).await;
        let enable = cluster.enable_table(table);
        let is_enabled = shared.administrate(AdminOperation::Enable, enable).await.is_ok();
        match restored {
            Ok(()) if is_enabled => check(admin, table, from).await,
            Err(_) if is_enabled => check_restored_or_empty(admin, table, from).await,
            _ => {}
        }
    }
    // If the deletion fails because of a fault, the end of the test deletes the snapshot.
    let delete = cluster.delete_snapshot(&name);
    let _judged = shared.administrate(AdminOperation::DeleteSnapshot, delete).await;
}

/// Judges a clone, and complains if it is wrong.
async fn check(admin: &Administrator, table: &TableName, snapshot: &Taken) {
    if let Some(found) = read(admin, table).await {
        match found.judge(admin, snapshot) {
            Ok(()) => admin.shared.tally.count("clones judged"),
            Err(why) => {
                admin.shared.expected.complain(format!("snapshot {} as {table}: {why}", snapshot.name));
            }
        }
    }
}

/// Complains if a restore that failed has restored a part.
async fn check_restored_or_empty(admin: &Administrator, table: &TableName, snapshot: &Taken) {
    let Some(found) = read(admin, table).await else { return };
    if let Err(why) = found.judge(admin, snapshot)
        && !found.0.is_empty()
    {
        admin.shared.expected.complain(format!("{table} is restored in part: {why}"));
    }
}

/// The rows of a clone.
struct Rows(Vec<client::Row>);

async fn read(admin: &Administrator, table: &TableName) -> Option<Rows> {
    let name = table.as_str();
    let read = async {
        let mut scanner = admin.cluster.table(name)?.scan(Scan::new().caching(200));
        let mut rows = Vec::new();
        while let Some(row) = scanner.next().await? {
            rows.push(row);
        }
        Ok::<_, Error>(rows)
    };
    admin.known("a clone", read).await.map(Rows)
}

impl Rows {
    fn judge(&self, admin: &Administrator, snapshot: &Taken) -> Result<(), String> {
        let content = admin.shared.expected.content;
        let (keys_sent, sums_sent) = &snapshot.sent;
        let counters: Vec<_> = (0..sums_sent.len()).map(row_of_counter).collect();
        let mut seen: Vec<Option<u64>> = vec![None; keys_sent.len()];
        let mut sums = vec![0; sums_sent.len()];
        let mut last: &[u8] = b"";
        for row in &self.0 {
            let shown = row.key().escape_ascii();
            if row.key() <= last {
                return Err(format!("row {shown} comes after row {}", last.escape_ascii()));
            }
            last = row.key();
            if let Some(counter) = counters.iter().position(|counter| counter == row.key()) {
                sums[counter] = row.number(SUM.0, SUM.1).unwrap_or(0) as u64;
            } else if let Some(key) = key_of(row.key()).filter(|key| *key < seen.len()) {
                seen[key] = match snapshot.least {
                    Some(_) => content.version_of(key, row).map_err(|why| format!("key {key}: {why}"))?,
                    None => newest_of(admin, key, row).map_err(|why| format!("key {key}: {why}"))?,
                };
            } else if !row.key().ends_with(SIDE_ROW.as_bytes()) {
                return Err(format!("row {shown} is there, which nobody wrote"));
            }
        }
        let Some((keys, counts)) = &snapshot.least else {
            let key = (0..seen.len()).find(|key| seen[*key].is_some_and(|version| version > keys_sent[*key]));
            let counter = (0..sums.len()).find(|counter| sums[*counter] > sums_sent[*counter]);
            return match (key, counter) {
                (None, None) => Ok(()),
                _ => Err(format!("key {key:?} or counter {counter:?} is newer than the snapshot")),
            };
        };
        for (key, seen) in seen.into_iter().enumerate() {
            judge(content, key, keys[key], keys_sent[key], seen)
                .map_err(|why| format!("key {key}: {why}"))?;
        }
        for (counter, sum) in sums.into_iter().enumerate() {
            judge_sum(counts[counter], sums_sent[counter], sum)
                .map_err(|why| format!("counter {counter}: {why}"))?;
        }
        Ok(())
    }
}

/// Returns the newest version that a row shows whose families may be of different times.
fn newest_of(admin: &Administrator, key: usize, row: &client::Row) -> Result<Option<u64>, String> {
    let content = admin.shared.expected.content;
    let mut newest = None;
    for cell in row.cells() {
        let family = FAMILIES.iter().position(|family| family.as_bytes() == cell.family());
        let family = family.ok_or_else(|| format!("a cell of family {}", cell.family().escape_ascii()))?;
        let version = cell.timestamp() as u64;
        content.check_value(key, version, family, cell.value())?;
        newest = newest.max(Some(version));
    }
    Ok(newest)
}
