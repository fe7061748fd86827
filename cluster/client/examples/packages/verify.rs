//! Compares the table with its source: by a full scan, by key, by prefix and by filter.

use std::collections::BTreeMap;

use bytes::Bytes;
use client::{Comparison, Filter, Get, Row, Scan, Table};

use crate::source::{Index, Stanza};
use crate::{FAMILY, Failure};

/// One of so many packages is read by its key.
const BY_KEY: usize = 50;

/// A cell: qualifier, timestamp, value.
type Cell<'a> = (&'a [u8], i64, &'a [u8]);

/// Reads the table in each way, and prints a line for each; fails at the first difference.
pub(crate) async fn verify(table: &Table, index: &Index) -> Result<Vec<String>, Failure> {
    Ok(vec![
        whole(table, index).await?,
        by_key(table, index).await?,
        by_prefix(table, index).await?,
        by_filter(table, index).await?,
    ])
}

async fn whole(table: &Table, index: &Index) -> Result<String, Failure> {
    let mut rows = table.scan(Scan::new().versions(u32::MAX));
    let (mut count, mut cells) = (0u64, 0usize);
    for (name, versions) in &index.packages {
        let row =
            rows.next().await?.ok_or_else(|| format!("{} is missing, and all after it", shown(name)))?;
        same(name, versions, &row)?;
        count += 1;
        cells += row.cells().len();
    }
    match rows.next().await? {
        Some(row) => Err(format!("{} is not in the lists", shown(row.key())).into()),
        None => Ok(format!("whole: {count} rows, {cells} cells, each as in the lists")),
    }
}

fn same(name: &[u8], versions: &[Stanza], row: &Row) -> Result<(), Failure> {
    if row.key() != name {
        return Err(format!("{} was expected, {} came", shown(name), shown(row.key())).into());
    }
    let mut expected: Vec<Cell<'_>> = versions
        .iter()
        .zip(1i64..)
        .flat_map(|(stanza, timestamp)| stanza.fields.iter().map(move |(f, v)| (&f[..], timestamp, &v[..])))
        .collect();
    expected.sort_by(|one, other| one.0.cmp(other.0).then(other.1.cmp(&one.1)));
    let mut found = row.cells().iter().map(|cell| (cell.qualifier(), cell.timestamp(), cell.value()));
    for cell in expected {
        let other = found.next();
        if other != Some(cell) {
            return Err(
                format!("{}: {} was expected, {} came", shown(name), told(Some(cell)), told(other)).into()
            );
        }
    }
    match found.next() {
        None => Ok(()),
        more => Err(format!("{}: {} is not in the lists", shown(name), told(more)).into()),
    }
}

fn told(cell: Option<Cell<'_>>) -> String {
    cell.map_or("nothing".to_owned(), |(field, timestamp, value)| {
        format!("{}@{timestamp}={}", shown(field), shown(value))
    })
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

async fn by_key(table: &Table, index: &Index) -> Result<String, Failure> {
    let some: Vec<_> = index.packages.iter().step_by(BY_KEY).collect();
    let gets = some.iter().map(|(name, _)| Get::row((*name).clone()).versions(u32::MAX));
    let rows = table.get_all(gets).await?;
    for ((name, versions), row) in some.iter().zip(&rows) {
        same(name, versions, row)?;
    }
    // No name of a package has a blank.
    let nobody = table.get(Get::row("no package")).await?;
    if !nobody.is_empty() {
        return Err(format!("a row that nobody wrote: {nobody:?}").into());
    }
    Ok(format!("by key: {} rows", rows.len()))
}

/// Scans by every first byte, so that the scans together return every row, and by the most common prefix of six bytes.
async fn by_prefix(table: &Table, index: &Index) -> Result<String, Failure> {
    let mut initials: Vec<u8> = index.packages.keys().filter_map(|name| name.first().copied()).collect();
    initials.dedup();
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    for name in index.packages.keys() {
        *counts.entry(&name[..name.len().min(6)]).or_default() += 1;
    }
    let commonest = counts.iter().max_by_key(|(_, count)| **count).map(|(prefix, _)| prefix.to_vec());
    let prefixes: Vec<Vec<u8>> = initials.iter().map(|initial| vec![*initial]).chain(commonest).collect();
    for prefix in &prefixes {
        let keys = Filter::all([Filter::first_key_only(), Filter::key_only()]);
        let rows = table.scan(Scan::new().prefix(prefix.clone()).filter(keys)).collect().await?;
        let expected = index.packages.keys().filter(|name| name.starts_with(prefix));
        compare(&format!("packages that begin with {}", shown(prefix)), expected, &rows)?;
    }
    Ok(format!("by prefix: {} scans", prefixes.len()))
}

/// Scans by the newest value of a field: the most common section and the rarest one.
async fn by_filter(table: &Table, index: &Index) -> Result<String, Failure> {
    const FIELD: &str = "Section";
    let newest = |versions: &[Stanza]| versions.iter().rev().find_map(|stanza| stanza.value(FIELD)).cloned();
    let mut sections: BTreeMap<Bytes, usize> = BTreeMap::new();
    for section in index.packages.values().filter_map(|versions| newest(versions)) {
        *sections.entry(section).or_default() += 1;
    }
    let mut by_count: Vec<_> = sections.into_iter().collect();
    by_count.sort_by_key(|(_, count)| *count);
    let mut said = Vec::new();
    for (section, _) in [by_count.first(), by_count.last()].into_iter().flatten() {
        let filter = Filter::column_value(FAMILY, FIELD, Comparison::Equal, section.clone());
        let rows = table.scan(Scan::new().filter(filter)).collect().await?;
        let in_section = |(_, versions): &(&Bytes, &Vec<Stanza>)| newest(versions).as_ref() == Some(section);
        let expected = index.packages.iter().filter(in_section).map(|(name, _)| name);
        compare(&format!("packages of the section {}", shown(section)), expected, &rows)?;
        said.push(format!("{} of {}", rows.len(), shown(section)));
    }
    Ok(format!("by filter: {}", said.join(", ")))
}

fn compare<'a>(what: &str, expected: impl Iterator<Item = &'a Bytes>, rows: &[Row]) -> Result<(), Failure> {
    let expected: Vec<&[u8]> = expected.map(|name| &name[..]).collect();
    let found: Vec<&[u8]> = rows.iter().map(Row::key).collect();
    if expected == found {
        return Ok(());
    }
    let at = expected.iter().zip(&found).take_while(|(one, other)| one == other).count();
    let name = |names: &[&[u8]]| names.get(at).map_or("no more".to_owned(), |name| shown(name));
    Err(format!(
        "{what}: {} in the lists, {} in the table; the first difference: {} against {}",
        expected.len(),
        found.len(),
        name(&expected),
        name(&found)
    )
    .into())
}
