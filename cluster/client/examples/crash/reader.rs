//! A reader of the crash test. Each row that it sees must be complete, must not be older than the last acknowledged
//! change, and must stay.

use std::sync::Arc;

use client::{Cluster, Error, Get, Row, Scan};
use env::World;

use crate::WRITERS;
use crate::ledger::{Columns, Ledger};
use crate::verify::columns_of;
use crate::writer::{ATOMIC, SHARED, TABLE, key};

/// Reads rows whose columns are always changed together, until an operation fails.
pub(crate) async fn run(cluster: Cluster, ledger: Arc<Ledger>, random: World) -> Result<(), Error> {
    while !ledger.with(|content| content.made) {
        env::sleep(std::time::Duration::from_millis(2)).await;
    }
    let table = cluster.table(TABLE)?;
    loop {
        if random.random().is_multiple_of(8) {
            let before = ledger.with(|content| {
                let rows = content.rows.iter().filter(|(key, _)| key.contains("-atomic-"));
                rows.map(|(key, row)| (key.clone(), row.least().clone())).collect::<Vec<_>>()
            });
            let mut scanner = table.scan(Scan::new());
            let mut found = std::collections::BTreeMap::new();
            while let Some(row) = scanner.next().await? {
                found.insert(String::from_utf8_lossy(row.key()).into_owned(), row);
            }
            for (key, least) in before {
                look(&ledger, &key, &least, found.get(&key).unwrap_or(&Row::default()));
            }
            ledger.count("scan");
        } else if random.random().is_multiple_of(8) {
            let key = key(WRITERS, "shared", random.random() % SHARED);
            let least = ledger.least_of_counter(&key);
            let row = table.get(Get::row(key.clone())).await?;
            ledger.saw_counter(&key, least, row.number("f", "n").unwrap_or(0));
            ledger.count("get");
        } else {
            let key = key(random.random() % WRITERS, "atomic", random.random() % ATOMIC);
            let least = ledger.least(&key);
            let row = table.get(Get::row(key.clone())).await?;
            look(&ledger, &key, &least, &row);
            ledger.count("get");
        }
        // Without a pause the reader would take the processor from the writers.
        env::sleep(std::time::Duration::from_millis(random.random() % 4)).await;
    }
}

/// Returns the number with which a value begins.
fn tick(value: &[u8]) -> Option<i64> {
    let digits = value.split(|byte| *byte == b':').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the number that all columns of a row have in common; zero for a row that does not exist, and `None` if the
/// columns differ or one has no number.
fn common_tick(columns: &Columns) -> Option<i64> {
    let mut ticks = columns.values().map(|value| tick(value));
    let Some(first) = ticks.next() else { return Some(0) };
    let first = first?;
    ticks.all(|other| other == Some(first)).then_some(first)
}

/// Compares a row with what had been acknowledged or read when the read began.
fn look(ledger: &Ledger, key: &str, least: &Columns, row: &Row) {
    let found = columns_of(row);
    let Some(seen) = common_tick(&found) else {
        let ticks: Vec<_> = found.iter().map(|(column, value)| (column, tick(value))).collect();
        return ledger.complain(format!("{key} was seen half changed: {ticks:?}"));
    };
    let least = common_tick(least).expect("written as a whole");
    if seen < least {
        return ledger
            .complain(format!("{key} was seen at {seen} after {least} had been acknowledged or seen"));
    }
    ledger.saw_next(key, |next| common_tick(next) == Some(seen));
}
