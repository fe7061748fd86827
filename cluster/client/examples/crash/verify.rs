//! Verifies that everything acknowledged is there, and nothing that was never requested.
//!
//! The content that is found counts as read, so it must stay in later rounds.

use std::collections::BTreeMap;

use bytes::Bytes;
use client::{Cluster, Get, Row, Scan};
use proto::TableName;
use proto::catalog::TableState;

use crate::admin::ALTERATION;
use crate::ledger::{Columns, Content, Ledger, SideTable};
use crate::writer::TABLE;

/// One of so many rows that are found is also read by its key.
const READ_BY_KEY: usize = 9;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Returns the newest values of a row.
pub(crate) fn columns_of(row: &Row) -> Columns {
    let name = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
    let mut columns = Columns::new();
    for cell in row.cells() {
        columns
            .entry(format!("{}:{}", name(cell.family()), name(cell.qualifier())))
            .or_insert_with(|| Bytes::copy_from_slice(cell.value()));
    }
    columns
}

/// Compares the server's whole content with the ledger, and returns the number of rows.
pub(crate) async fn everything(cluster: &Cluster, ledger: &Ledger) -> Result<usize, Failure> {
    if let Some(first) = ledger.complaints().first() {
        return Err(first.clone().into());
    }
    let rows = written_rows(cluster, ledger).await?;
    for name in ledger.with(|content| content.side_tables.keys().cloned().collect::<Vec<_>>()) {
        side_table(cluster, ledger, &name).await?;
    }
    Ok(rows)
}

async fn written_rows(cluster: &Cluster, ledger: &Ledger) -> Result<usize, Failure> {
    let name: TableName = TABLE.parse()?;
    let Some(described) = cluster.admin().describe_table(&name).await? else {
        return match ledger.with(|content| content.made) {
            true => Err("the table is gone".into()),
            false => Ok(0),
        };
    };
    let table = cluster.table(TABLE)?;
    let mut found = BTreeMap::new();
    let mut scanner = table.scan(Scan::new());
    while let Some(row) = scanner.next().await? {
        let key = String::from_utf8_lossy(row.key()).into_owned();
        if found.insert(key.clone(), columns_of(&row)).is_some() {
            return Err(format!("row {key} came twice").into());
        }
    }
    for (key, columns) in found.iter().step_by(READ_BY_KEY) {
        if columns_of(&table.get(Get::row(key.clone())).await?) != *columns {
            return Err(format!("row {key} is another by its key than in a scan").into());
        }
    }
    let count = found.len();
    let alteration = described.attributes().text(ALTERATION).and_then(|text| text.parse().ok());
    ledger.with(|content| {
        content.made = true;
        settle_alteration(content, alteration)?;
        settle_rows(content, found)
    })?;
    Ok(count)
}

fn settle_alteration(content: &mut Content, found: Option<u64>) -> Result<(), Failure> {
    let known = &mut content.alteration;
    if found != Some(known.now) && (found.is_none() || found != known.next) {
        return Err(format!("the table says alteration {found:?}, it was {known:?}").into());
    }
    known.now = found.expect("compared above");
    known.next = None;
    Ok(())
}

fn settle_rows(content: &mut Content, mut found: BTreeMap<String, Columns>) -> Result<(), Failure> {
    for (key, row) in &mut content.rows {
        let columns = found.remove(key).unwrap_or_default();
        let as_acknowledged = columns == row.now && !row.next_seen;
        if !as_acknowledged && row.next.as_ref() != Some(&columns) {
            return Err(format!(
                "row {key} is {}, acknowledged is {}, under way was {}{}",
                shown(&columns),
                shown(&row.now),
                row.next.as_ref().map_or_else(|| "nothing".to_owned(), shown),
                if row.next_seen { ", which was read already" } else { "" }
            )
            .into());
        }
        row.now = columns;
        row.next = None;
        row.next_seen = false;
    }
    for (key, counter) in &mut content.counters {
        let columns = found.remove(key).unwrap_or_default();
        let value =
            columns.get("f:n").and_then(|value| value[..].try_into().ok()).map_or(0, i64::from_be_bytes);
        let least = counter.base + counter.acknowledged;
        let most = least + counter.under_way;
        let seen = counter.seen;
        if !(least.max(seen)..=most).contains(&value) {
            return Err(format!(
                "counter {key} is {value}: {least} is acknowledged, {seen} was seen, {most} asked for"
            )
            .into());
        }
        *counter = crate::ledger::Counter { base: value, seen: value, ..Default::default() };
    }
    match found.first_key_value() {
        Some((key, columns)) => Err(format!("row {key} was never written: {}", shown(columns)).into()),
        None => Ok(()),
    }
}

/// Formats columns, each by its first bytes and its length.
fn shown(columns: &Columns) -> String {
    let parts: Vec<String> = columns
        .iter()
        .map(|(column, value)| {
            format!("{column}={}…{}", value[..value.len().min(12)].escape_ascii(), value.len())
        })
        .collect();
    format!("[{}]", parts.join(" "))
}

async fn side_table(cluster: &Cluster, ledger: &Ledger, name: &str) -> Result<(), Failure> {
    let table: TableName = name.parse()?;
    let known = ledger.with(|content| content.side_tables[name].clone());
    let found = match cluster.admin().table_state(&table).await? {
        None => SideTable::Absent,
        Some(TableState::Disabled) => match (&known.now, &known.next) {
            // The content of a disabled table cannot be read; it is checked when the table is enabled.
            (SideTable::Disabled { row }, _) | (_, Some(SideTable::Disabled { row })) => {
                SideTable::Disabled { row: row.clone() }
            }
            _ => SideTable::Disabled { row: None },
        },
        Some(TableState::Enabled) => {
            let row = cluster.table(name)?.get(Get::row("row")).await?;
            SideTable::Enabled { row: row.value("f", "q").map(Bytes::copy_from_slice) }
        }
        Some(state) => return Err(format!("table {name} stands at {state:?}, it was {known:?}").into()),
    };
    if found != known.now && known.next.as_ref() != Some(&found) {
        return Err(format!("table {name} is {found:?}, it was {known:?}").into());
    }
    ledger.with(|content| {
        let state = content.side_tables.get_mut(name).expect("it is known");
        state.now = found;
        state.next = None;
    });
    Ok(())
}
