//! Alters the table that clients write, in ways that change nothing of what they read. Adds a family that they do not
//! write, and deletes it with its data.

use bytes::Bytes;
use client::{Error, Get, Put};
use proto::{FamilyDescriptor, TableDescriptor};

use super::Administrator;
use crate::activity::AdminOperation;
use crate::clients::SIDE_ROW;
use crate::content::FAMILIES;

/// Attributes of a family, and their values.
const FAMILY_ATTRIBUTES: [(&str, &[&str]); 9] = [
    ("COMPRESSION", &["NONE", "SNAPPY", "GZ", "LZ4", "ZSTD"]),
    ("DATA_BLOCK_ENCODING", &["NONE", "PREFIX", "DIFF", "FAST_DIFF", "ROW_INDEX_V1"]),
    ("BLOOMFILTER", &["NONE", "ROW", "ROWCOL"]),
    ("BLOCKSIZE", &["4096", "8192", "65536"]),
    ("VERSIONS", &["1", "2", "5"]),
    ("IN_MEMORY_COMPACTION", &["NONE", "BASIC", "EAGER", "ADAPTIVE"]),
    ("KEEP_DELETED_CELLS", &["FALSE", "TRUE"]),
    ("CACHE_DATA_ON_WRITE", &["true", "false"]),
    ("BLOCKCACHE", &["true", "false"]),
];
/// Keys of a family's configuration, and their values.
const FAMILY_KEYS: [(&str, &[&str]); 2] = [
    (
        "hbase.hstore.engine.class",
        &[
            "org.apache.hadoop.hbase.regionserver.DefaultStoreEngine",
            "org.apache.hadoop.hbase.regionserver.StripeStoreEngine",
        ],
    ),
    (
        "hbase.hstore.defaultengine.compactionpolicy.class",
        &[
            "org.apache.hadoop.hbase.regionserver.compactions.ExploringCompactionPolicy",
            "org.apache.hadoop.hbase.regionserver.compactions.RatioBasedCompactionPolicy",
        ],
    ),
];
/// Attributes of a table, and their values.
const TABLE_ATTRIBUTES: [(&str, &[&str]); 5] = [
    (
        "SPLIT_POLICY",
        &[
            "org.apache.hadoop.hbase.regionserver.SteppingSplitPolicy",
            "org.apache.hadoop.hbase.regionserver.ConstantSizeRegionSplitPolicy",
            "org.apache.hadoop.hbase.regionserver.DisabledRegionSplitPolicy",
        ],
    ),
    ("MEMSTORE_FLUSHSIZE", &["1048576", "2097152", "4194304"]),
    ("MAX_FILESIZE", &["4194304", "10737418240"]),
    ("DURABILITY", &["USE_DEFAULT", "SYNC_WAL", "FSYNC_WAL"]),
    ("NORMALIZATION_ENABLED", &["true", "false"]),
];
/// The family that comes and goes.
const SIDE_FAMILY: &str = "x";

const KINDS: [AdminOperation; 4] = [
    AdminOperation::AlterFamily,
    AdminOperation::AlterTable,
    AdminOperation::AddFamily,
    AdminOperation::DeleteFamily,
];

/// Works until the end of the test.
pub(super) async fn work(admin: Administrator) {
    while admin.goes_on().await {
        let random = match admin.below(8) {
            0..=3 => AdminOperation::AlterFamily,
            4 | 5 => AdminOperation::AlterTable,
            6 => AdminOperation::AddFamily,
            _ => AdminOperation::DeleteFamily,
        };
        let operation = admin.next(&KINDS, random);
        let describe = admin.cluster.admin();
        let describe = describe.describe_table(&admin.table);
        let Some(Some(table)) = admin.known("a descriptor", describe).await else { continue };
        match (operation, table.family(SIDE_FAMILY.as_bytes())) {
            (AdminOperation::AlterFamily, _) => alter_family(&admin, &table).await,
            (AdminOperation::AlterTable, _) => alter_table(&admin, table).await,
            (_, None) => add_family(&admin).await,
            (_, Some(_)) => delete_family(&admin).await,
        }
    }
}

async fn alter_family(admin: &Administrator, table: &TableDescriptor) {
    let name = admin.one_of(&FAMILIES);
    let Some(family) = table.family(name.as_bytes()) else {
        return admin.shared.expected.complain(format!("family {name} is no longer in the descriptor"));
    };
    let mut family = family.clone();
    for _ in 0..1 + admin.below(3) {
        let choice = admin.below((FAMILY_ATTRIBUTES.len() + FAMILY_KEYS.len()) as u64) as usize;
        match FAMILY_ATTRIBUTES.get(choice) {
            Some((key, values)) => {
                let value = Bytes::from_static(admin.one_of(values).as_bytes());
                family.attributes_mut().set(Bytes::from_static(key.as_bytes()), value);
            }
            None => {
                let (key, values) = FAMILY_KEYS[choice - FAMILY_ATTRIBUTES.len()];
                family.configure(key, admin.one_of(values));
            }
        }
    }
    let modify = admin.cluster.admin();
    let modify = modify.modify_family(&admin.table, &family);
    let done = admin.shared.administrate(AdminOperation::AlterFamily, modify).await;
    let mut new = table.clone();
    new.set_family(family);
    check(admin, table, &new, done).await;
}

async fn alter_table(admin: &Administrator, table: TableDescriptor) {
    let mut new = table.clone();
    let (key, values) = TABLE_ATTRIBUTES[admin.below(TABLE_ATTRIBUTES.len() as u64) as usize];
    let value = Bytes::from_static(admin.one_of(values).as_bytes());
    new.attributes_mut().set(Bytes::from_static(key.as_bytes()), value);
    let modify = admin.cluster.admin();
    let done = admin.shared.administrate(AdminOperation::AlterTable, modify.modify_table(&new)).await;
    check(admin, &table, &new, done).await;
}

/// Complains unless the table has the new descriptor; or the old one, if the change failed.
async fn check(admin: &Administrator, old: &TableDescriptor, new: &TableDescriptor, done: Result<(), Error>) {
    let describe = admin.cluster.admin();
    let found = admin.known("a descriptor", describe.describe_table(&admin.table)).await;
    let is_good = match &found {
        None => return,
        Some(None) => false,
        Some(Some(found)) => has(found, new) || done.is_err() && has(found, old),
    };
    if !is_good {
        admin.shared.expected.complain(format!(
            "after an alter that ended with {done:?} the table is {found:?}, expected {new:?}, before it was {old:?}"
        ));
    }
}

/// Returns whether a table has everything that is expected. The server adds attributes of its own, such as the store
/// file tracker.
fn has(found: &TableDescriptor, expected: &TableDescriptor) -> bool {
    let mut attributes = expected.attributes().iter();
    let mut families = expected.families().iter();
    attributes.all(|(key, value)| found.attributes().value(key) == Some(value))
        && families.all(|family| {
            found.family(family.name()).is_some_and(|found| {
                family.attributes().iter().all(|(key, value)| found.attributes().value(key) == Some(value))
                    && family.configuration().iter().all(|(key, value)| found.configured(key) == Some(value))
            })
        })
}

async fn add_family(admin: &Administrator) {
    let family = FamilyDescriptor::new(SIDE_FAMILY).expect("a good name");
    let add = admin.cluster.admin();
    let add = add.add_family(&admin.table, &family);
    if admin.shared.administrate(AdminOperation::AddFamily, add).await.is_err() {
        return;
    }
    let Ok(table) = admin.cluster.table(admin.table.as_str()) else { return };
    for digit in 0..16 {
        let put = Put::row(format!("{digit:x}{SIDE_ROW}")).set(
            SIDE_FAMILY,
            "v",
            "a value of a family that comes and goes",
        );
        if admin.known("an added family", table.put(put)).await.is_none() {
            return;
        }
    }
}

async fn delete_family(admin: &Administrator) {
    let delete = admin.cluster.admin();
    let delete = delete.delete_family(&admin.table, SIDE_FAMILY);
    if admin.shared.administrate(AdminOperation::DeleteFamily, delete).await.is_err() {
        return;
    }
    let Ok(table) = admin.cluster.table(admin.table.as_str()) else { return };
    for digit in 0..16 {
        let get = Get::row(format!("{digit:x}{SIDE_ROW}"));
        match admin.known("a row without its family", table.get(get)).await {
            Some(row) if !row.is_empty() => {
                admin
                    .shared
                    .expected
                    .complain(format!("family {SIDE_FAMILY} was deleted, and its rows are there"));
            }
            Some(_) => {}
            None => return,
        }
    }
}
