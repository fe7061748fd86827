//! The administrator of the crash test. It creates the table, then flushes, compacts and alters it while the writers
//! write, and creates, disables, truncates and deletes tables of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Admin, Cluster, Error, Put};
use env::World;
use proto::{FamilyDescriptor, TableDescriptor, TableName};

use crate::ledger::{Fate, Ledger, SideTable};
use crate::writer::TABLE;

const SIDE_TABLES: u64 = 3;
/// The table's attribute that counts how often it was altered.
pub(crate) const ALTERATION: &str = "ALTERATION";
const COMPRESSIONS: [&str; 5] = ["NONE", "GZ", "SNAPPY", "LZ4", "ZSTD"];
const ENCODINGS: [&str; 2] = ["NONE", "ROW_INDEX_V1"];
const BLOOMS: [&str; 3] = ["ROW", "ROWCOL", "NONE"];

/// Works until an operation fails, or until answers no longer count.
pub(crate) async fn run(cluster: Cluster, ledger: Arc<Ledger>, random: World) -> Result<(), Error> {
    let admin = cluster.admin();
    let table: TableName = TABLE.parse()?;
    let below = |limit: u64| random.random() % limit;
    if !ledger.with(|content| content.made) {
        if !admin.table_exists(&table).await? {
            let cuts = [&b"4"[..], b"8", b"c"].map(Bytes::from_static);
            admin.create_table(&descriptor(&table, 0, &below)?, &cuts).await?;
        }
        ledger.made();
    }
    while ledger.fate() != Fate::Breaks {
        match below(10) {
            0..=2 => {
                admin.flush(&table).await?;
                ledger.count("flush");
            }
            3 | 4 => {
                let major = below(2) == 0;
                admin.compact(&table, major).await?;
                ledger.count(if major { "major compaction" } else { "minor compaction" });
            }
            5 => {
                let next = ledger.with(|content| {
                    let next = content.alteration.now + 1;
                    content.alteration.next = Some(next);
                    next
                });
                admin.modify_table(&descriptor(&table, next, &below)?).await?;
                ledger.settle("alter", |content| &mut content.alteration);
            }
            _ => side_table(&cluster, &admin, &ledger, &below).await?,
        }
        env::sleep(Duration::from_millis(below(60))).await;
    }
    Ok(())
}

/// Returns the table's descriptor; each family stores its files in another way.
fn descriptor(
    name: &TableName,
    alteration: u64,
    below: &impl Fn(u64) -> u64,
) -> Result<TableDescriptor, Error> {
    let mut table = TableDescriptor::new(name.clone());
    table.attributes_mut().set(ALTERATION.into(), alteration.to_string().into());
    for family in ["f", "g"] {
        let one_of = |choices: &[&'static str]| choices[below(choices.len() as u64) as usize];
        let family = FamilyDescriptor::new(family)?
            .with("VERSIONS", 1 + below(3))
            .with("COMPRESSION", one_of(&COMPRESSIONS))
            .with("DATA_BLOCK_ENCODING", one_of(&ENCODINGS))
            .with("BLOOMFILTER", one_of(&BLOOMS))
            .with("BLOCKSIZE", [1024, 8192, 65536][below(3) as usize]);
        table.set_family(family);
    }
    Ok(table)
}

/// Performs one random step in the life of an administrator's own table.
async fn side_table(
    cluster: &Cluster,
    admin: &Admin,
    ledger: &Ledger,
    below: &impl Fn(u64) -> u64,
) -> Result<(), Error> {
    let name = format!("side-{}", below(SIDE_TABLES));
    let table: TableName = name.parse()?;
    let now = ledger.with(|content| content.side_tables.entry(name.clone()).or_default().now.clone());
    let begin = |next: SideTable| {
        ledger
            .with(|content| content.side_tables.get_mut(&name).expect("looked at before").next = Some(next));
    };
    let kind = match now {
        SideTable::Absent => {
            begin(SideTable::Enabled { row: None });
            let mut made = TableDescriptor::new(table.clone());
            made.set_family(FamilyDescriptor::new("f")?);
            admin.create_table(&made, &[Bytes::from_static(b"m")]).await?;
            "create"
        }
        SideTable::Enabled { row } => {
            if below(3) > 0 {
                let value = Bytes::from(format!("{}:{name}", ledger.tick()));
                begin(SideTable::Enabled { row: Some(value.clone()) });
                cluster.table(&name)?.put(Put::row("row").set("f", "q", value)).await?;
                "put into a new table"
            } else {
                begin(SideTable::Disabled { row });
                admin.disable_table(&table).await?;
                "disable"
            }
        }
        SideTable::Disabled { row } => match below(3) {
            0 => {
                begin(SideTable::Enabled { row });
                admin.enable_table(&table).await?;
                "enable"
            }
            1 => {
                begin(SideTable::Enabled { row: None });
                admin.truncate_table(&table, true).await?;
                "truncate"
            }
            _ => {
                begin(SideTable::Absent);
                admin.delete_table(&table).await?;
                "drop"
            }
        },
    };
    ledger.settle(kind, |content| content.side_tables.get_mut(&name).expect("looked at before"));
    Ok(())
}
