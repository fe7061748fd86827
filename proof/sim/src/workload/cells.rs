//! A workload of the simulation: clients send random mutations of all kinds and random reads, and compare the result of
//! each read with what the model (`model::reference`) returns for the same mutations.
//!
//! Each row is written by one client, which therefore knows the order of the row's mutations. The client chooses their
//! timestamps, and sends each mutation once. If no answer arrives, the mutation may have happened, or may still happen.
//! Then the client never writes to the row again, and a reader may see the row with the mutation or without it.
//!
//! The result of a read must not depend on whether a compaction has already dropped cells that nobody can see. So each
//! put is newer than every delete marker of its column. In a family that keeps few versions a delete marker hides all
//! versions of a column, and reads have no time range.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cell::CellType;
use client::{
    Append, CheckAndMutate, Delete, Get, Increment, Put, Row, RowMutations, Scan, Table, TimeRange,
};
use model::reference::{Given, Place, Reference, Stored};
use model::stream::{Family, FamilyRequest, Keep, Query};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, splits, stir, table};
use crate::random::Random;

const TABLE: &str = "cells";
const FAMILIES: [&str; 2] = ["f", "g"];
const QUALIFIERS: [&str; 4] = ["a", "b", "bb", "c"];
/// The column that is only incremented.
const COUNTER: &str = "i";
/// The column that is only appended to.
const TEXT: &str = "t";
/// A number of versions that no column reaches.
const MANY: u32 = 1_000;
/// Number of rows that a client writes to at a time.
const ROWS: usize = 3;
/// Maximum number of mutations of a row.
const MUTATIONS_MAX: u64 = 60;
/// The prefix of the rows' names. The model needs row names with a static lifetime, so each row leaks its name.
const ROW: &str = "row";

/// A cell that a client wrote.
#[derive(Clone, Debug)]
struct Written {
    family: usize,
    qualifier: &'static str,
    timestamp: i64,
    kind: CellType,
    value: Vec<u8>,
}

/// The history of a row.
#[derive(Clone)]
struct RowHistory {
    name: String,
    /// All cells of the row, in the order of writing.
    cells: Vec<Written>,
    /// The cells of a mutation that may have happened; `None` if there is no such mutation.
    doubtful: Option<Vec<Written>>,
    mutations: u64,
}

/// A cell as a reader sees it: family, qualifier, timestamp, value.
type Seen = (Vec<u8>, Vec<u8>, i64, Vec<u8>);

impl RowHistory {
    fn new(name: String) -> RowHistory {
        RowHistory { name, cells: Vec::new(), doubtful: None, mutations: 0 }
    }

    fn is_over(&self) -> bool {
        self.doubtful.is_some() || self.mutations >= MUTATIONS_MAX
    }

    /// Returns the first timestamp at which a put of the column is newer than every marker.
    fn floor(&self, family: usize, qualifier: &str) -> i64 {
        let concerns = |cell: &&Written| {
            let is_of_column = cell.kind.is_family_delete() || cell.qualifier == qualifier;
            cell.kind.is_delete() && cell.family == family && is_of_column
        };
        self.cells.iter().filter(concerns).map(|marker| marker.timestamp).max().map_or(1, |last| last + 1)
    }

    /// Returns the greatest timestamp that a client has chosen in the family. Timestamps that the server chose are far
    /// greater and are left out.
    fn top(&self, family: usize) -> i64 {
        let is_chosen = |cell: &&Written| cell.family == family && QUALIFIERS.contains(&cell.qualifier);
        self.cells.iter().filter(is_chosen).map(|cell| cell.timestamp).max().unwrap_or(1)
    }

    /// Returns the two results that a reader may see: with the mutation in doubt, and without it.
    fn expected(&self, families: &[Family], query: &Query) -> Vec<Vec<Seen>> {
        let seen = |more: &[Written]| {
            let mut reference = Reference::new(families.to_vec());
            for (at, cell) in self.cells.iter().chain(more).enumerate() {
                let stored = Stored {
                    qualifier: cell.qualifier,
                    timestamp: cell.timestamp,
                    kind: cell.kind,
                    sequence: at as u64 + 1,
                    value: cell.value.as_slice().into(),
                    tags: [].into(),
                    ttl: None,
                    logged: true,
                    place: Place::Memory,
                };
                reference.insert(ROW, cell.family, stored);
            }
            let seen = |cell: Given| (cell.family, cell.qualifier, cell.timestamp, cell.value);
            reference.get(ROW, query, 0).into_iter().map(seen).collect()
        };
        let mut all = vec![seen(&[])];
        all.extend(self.doubtful.iter().map(|more| seen(more)));
        all
    }

    /// Returns the newest certain value of a column.
    fn value(&self, families: &[Family], family: usize, qualifier: &'static str) -> Option<Vec<u8>> {
        let asked =
            FamilyRequest { family: FAMILIES[family], qualifiers: Some(vec![qualifier]), range: None };
        let query = Query { families: vec![asked], ..Query::all() };
        self.expected(families, &query)[0].first().map(|(.., value)| value.clone())
    }

    fn check(&self, families: &[Family], query: &Query, row: &Row) -> Result<(), String> {
        let found: Vec<Seen> = row
            .cells()
            .iter()
            .map(|cell| {
                let (family, qualifier) = (cell.family().to_vec(), cell.qualifier().to_vec());
                (family, qualifier, cell.timestamp(), cell.value().to_vec())
            })
            .collect();
        let expected = self.expected(families, query);
        if expected.contains(&found) {
            return Ok(());
        }
        let show = |cells: &[Seen]| {
            let show = |(family, qualifier, timestamp, value): &Seen| {
                let begin = value[..value.len().min(12)].escape_ascii();
                let (family, qualifier) = (family.escape_ascii(), qualifier.escape_ascii());
                format!("{family}:{qualifier}@{timestamp}={begin}({})", value.len())
            };
            cells.iter().map(show).collect::<Vec<_>>().join(" ")
        };
        let other = expected.get(1).map(|other| format!(" or [{}]", show(other))).unwrap_or_default();
        Err(format!(
            "row {} has [{}], [{}]{other} expected of {query:?}; written: {:?}",
            self.name,
            show(&found),
            show(&expected[0]),
            self.cells
                .iter()
                .map(|cell| (cell.family, cell.qualifier, cell.timestamp, cell.kind))
                .collect::<Vec<_>>(),
        ))
    }
}

/// The workload; see the module documentation.
pub(super) struct Cells {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    families: Vec<Family>,
    clients: u64,
    value_max: u64,
    /// The rows of all clients by name.
    rows: Mutex<BTreeMap<String, RowHistory>>,
}

impl Cells {
    pub(super) fn new(random: &mut Random) -> Cells {
        let mut descriptor = table(TABLE, &FAMILIES, random);
        let mut families = Vec::new();
        for name in FAMILIES {
            let versions = random.choose(&[1, 2, 3, MANY, MANY, MANY]);
            let keep = versions == MANY && random.one_in(3);
            let family = descriptor.family(name.as_bytes()).expect("it was made").clone();
            descriptor.set_family(
                family
                    .with("VERSIONS", versions)
                    .with("KEEP_DELETED_CELLS", if keep { "TRUE" } else { "FALSE" }),
            );
            let keep = if keep { Keep::Deleted } else { Keep::Nothing };
            families.push(Family { versions, keep, ..Family::plain(name) });
        }
        Cells {
            table: descriptor,
            splits: splits(random),
            families,
            clients: 1 + random.below(3),
            value_max: random.spread(8, 4 << 10),
            rows: Mutex::default(),
        }
    }

    /// Whether the family keeps so many versions that only cells hidden by delete markers are ever dropped.
    fn keeps_all(&self, family: usize) -> bool {
        self.families[family].versions == MANY
    }

    async fn client(self: Arc<Self>, scene: Scene, client: u64) {
        let writing = scene.client(Duration::ZERO).table(TABLE).expect("a name");
        let reading = scene.client(Duration::from_secs(20)).table(TABLE).expect("a name");
        let mut random = scene.random();
        let mut names: Vec<String> = Vec::new();
        let mut next = 0;
        while !scene.is_over() {
            while names.len() < ROWS {
                let name = format!("{}{client}.{next:04}", random.choose(&["1", "5", "a", "h", "p", "x"]));
                self.rows.lock().insert(name.clone(), RowHistory::new(name.clone()));
                names.push(name);
                next += 1;
            }
            let at = random.below(ROWS as u64) as usize;
            let mut row = self.rows.lock()[&names[at]].clone();
            let read = scene.begin_read();
            let checked = match random.below(10) {
                0..=5 => self.mutate(&mut row, &writing, &mut random).await,
                6..=8 => self.read(&row, &reading, &mut random).await,
                _ => self.scan(&reading, &mut random).await,
            };
            if let Err(words) = checked
                && !scene.may_be_stale(read)
            {
                scene.fail(format!("cells: {words}"));
            }
            if row.is_over() {
                names.remove(at);
            }
            scene.pause(&mut random, 300).await;
        }
    }

    fn draw_put(&self, row: &RowHistory, random: &mut Random) -> Written {
        let family = random.below(2) as usize;
        let qualifier = random.choose(&QUALIFIERS);
        let timestamp = row.floor(family, qualifier) + random.below(8) as i64;
        let begin = random.bits().to_be_bytes();
        let length = random.below(self.value_max) as usize;
        let value = begin.iter().copied().chain(std::iter::repeat(b'v')).take(length).collect();
        Written { family, qualifier, timestamp, kind: CellType::Put, value }
    }

    fn draw_marker(&self, row: &RowHistory, random: &mut Random) -> Written {
        let family = random.below(2) as usize;
        let kinds: &[CellType] = match self.keeps_all(family) {
            true => &[
                CellType::Delete,
                CellType::DeleteColumn,
                CellType::DeleteFamily,
                CellType::DeleteFamilyVersion,
            ],
            false => &[CellType::DeleteColumn, CellType::DeleteFamily],
        };
        let kind = random.choose(kinds);
        let top = row.top(family);
        // In a family that keeps few versions, a version that becomes visible again may have been dropped already. So
        // the marker hides everything.
        let timestamp = if self.keeps_all(family) { (top - random.below(6) as i64).max(1) } else { top };
        let qualifier = if kind.is_family_delete() { "" } else { random.choose(&QUALIFIERS) };
        Written { family, qualifier, timestamp, kind, value: Vec::new() }
    }

    /// Sends one mutation, once.
    async fn mutate(&self, row: &mut RowHistory, table: &Table, random: &mut Random) -> Result<(), String> {
        let name = row.name.clone();
        row.mutations += 1;
        let mut writes = Vec::new();
        let answered = match random.below(12) {
            0..=3 => {
                writes.extend((0..1 + random.below(3)).map(|_| self.draw_put(row, random)));
                writes.sort_by_key(|cell: &Written| (cell.family, cell.qualifier));
                writes.dedup_by_key(|cell| (cell.family, cell.qualifier));
                self.begin(row, &writes);
                table.put(put_of(&name, &writes)).await.map(|()| true)
            }
            4 | 5 => {
                writes.push(self.draw_marker(row, random));
                self.begin(row, &writes);
                table.delete(delete_of(&name, &writes)).await.map(|()| true)
            }
            6 | 7 => {
                let put = self.draw_put(row, random);
                // The marker is in the other family, because all cells of one mutation have the same sequence id.
                let marker = self.draw_marker(row, random);
                let marker = (marker.family != put.family).then_some(marker);
                let mut both =
                    RowMutations::row(name.clone()).with(put_of(&name, std::slice::from_ref(&put)));
                if let Some(marker) = &marker {
                    both = both.with(delete_of(&name, std::slice::from_ref(marker)));
                }
                writes.push(put);
                writes.extend(marker);
                self.begin(row, &writes);
                table.mutate_row(both).await.map(|_| true)
            }
            8 | 9 => {
                let (family, qualifier) = (random.below(2) as usize, random.choose(&QUALIFIERS));
                let value = row.value(&self.families, family, qualifier);
                let passes = random.one_in(2);
                let check = CheckAndMutate::column(name.clone(), FAMILIES[family], qualifier);
                let check = match value.filter(|_| passes) {
                    Some(value) => check.equals(value),
                    None if passes => check,
                    None => check.equals("of no cell"),
                };
                writes.push(self.draw_put(row, random));
                self.begin(row, if passes { &writes } else { &[] });
                match table.check_and_mutate(check.then(put_of(&name, &writes))).await {
                    Ok((passed, _)) if passed != passes => {
                        return Err(format!("a check of row {name} says {passed}, {passes} expected"));
                    }
                    Ok(_) if passes => Ok(true),
                    Ok(_) => Ok(false),
                    Err(error) => Err(error),
                }
            }
            adds => return self.add(row, table, random, adds == 10).await,
        };
        self.end(row, writes, answered);
        Ok(())
    }

    /// Increments a column or appends to it. The server chooses the timestamp and returns it.
    async fn add(
        &self,
        row: &mut RowHistory,
        table: &Table,
        random: &mut Random,
        increments: bool,
    ) -> Result<(), String> {
        let (name, family) = (row.name.clone(), random.below(2) as usize);
        let qualifier = if increments { COUNTER } else { TEXT };
        let before = row.value(&self.families, family, qualifier);
        let by = 1 + random.below(100) as i64;
        let (f, expected) = (FAMILIES[family], {
            let before = before.unwrap_or_default();
            if increments {
                let before = before.try_into().map_or(0, i64::from_be_bytes);
                (before + by).to_be_bytes().to_vec()
            } else {
                [before, format!("{by} ").into_bytes()].concat()
            }
        });
        // Without an answer nobody knows the timestamp. So the row is not judged any more.
        self.rows.lock().remove(&name);
        let answered = match increments {
            true => table.increment(Increment::row(name.clone()).add(f, qualifier, by)).await,
            false => table.append(Append::row(name.clone()).add(f, qualifier, format!("{by} "))).await,
        };
        let Ok(answer) = answered else {
            row.doubtful = Some(Vec::new());
            return Ok(());
        };
        let cell = answer
            .cell(f, qualifier)
            .ok_or_else(|| format!("row {name}: no {f}:{qualifier} in the answer"))?;
        if cell.value() != expected {
            return Err(format!(
                "row {name}: {f}:{qualifier} is {} after adding {by}, {} expected",
                cell.value().escape_ascii(),
                expected.escape_ascii()
            ));
        }
        let timestamp = cell.timestamp();
        row.cells.push(Written { family, qualifier, timestamp, kind: CellType::Put, value: expected });
        self.rows.lock().insert(name, row.clone());
        env::sometimes("cells: an increment or append");
        Ok(())
    }

    /// Begins a mutation: from now on a reader may see it.
    fn begin(&self, row: &RowHistory, writes: &[Written]) {
        let begun = RowHistory { doubtful: Some(writes.to_vec()), ..row.clone() };
        self.rows.lock().insert(row.name.clone(), begun);
    }

    /// Ends a mutation, with an answer that says whether it happened, or without one.
    fn end(&self, row: &mut RowHistory, writes: Vec<Written>, answered: client::Result<bool>) {
        match answered {
            Ok(true) => row.cells.extend(writes),
            Ok(false) => {}
            Err(_) => row.doubtful = Some(writes),
        }
        self.rows.lock().insert(row.name.clone(), row.clone());
    }

    fn draw_query(&self, random: &mut Random) -> Query {
        let mut families = Vec::new();
        if random.one_in(2) {
            for (index, family) in FAMILIES.into_iter().enumerate() {
                if random.one_in(2) {
                    continue;
                }
                let qualifiers = random.one_in(2).then(|| {
                    let of = [QUALIFIERS[index], QUALIFIERS[index + 2], COUNTER, TEXT];
                    let left = random.below(16);
                    of.into_iter()
                        .enumerate()
                        .filter(|(at, _)| left >> at & 1 == 1)
                        .map(|(_, of)| of)
                        .collect::<Vec<_>>()
                });
                families.push(FamilyRequest {
                    family,
                    qualifiers: qualifiers.filter(|of| !of.is_empty()),
                    range: None,
                });
            }
        }
        let may_range = (0..FAMILIES.len()).all(|family| self.keeps_all(family));
        let range = (may_range && random.one_in(3)).then(|| {
            let from = random.below(30) as i64;
            (from, from + 1 + random.below(30) as i64)
        });
        Query { families, range, versions: random.choose(&[1, 1, 2, 5, MANY]), ..Query::all() }
    }

    async fn read(&self, row: &RowHistory, table: &Table, random: &mut Random) -> Result<(), String> {
        let query = self.draw_query(random);
        let mut get = Get::row(row.name.clone()).versions(query.versions);
        for asked in &query.families {
            get = match &asked.qualifiers {
                None => get.family(asked.family),
                Some(of) => of.iter().fold(get, |get, qualifier| get.column(asked.family, *qualifier)),
            };
        }
        if let Some((from, to)) = query.range {
            get = get.time_range(TimeRange { from, to });
        }
        let Ok(found) = table.get(get).await else { return Ok(()) };
        env::sometimes("cells: a get compared with the model");
        row.check(&self.families, &query, &found).map_err(|words| format!("a get: {words}"))
    }

    /// Scans the table. Compares only rows that did not change meanwhile.
    async fn scan(&self, table: &Table, random: &mut Random) -> Result<(), String> {
        let query = self.draw_query(random);
        let reversed = random.one_in(3);
        let mut scan = Scan::new().caching(1 + random.below(30) as u32).versions(query.versions);
        if reversed {
            scan = scan.reversed();
        }
        for asked in &query.families {
            scan = match &asked.qualifiers {
                None => scan.family(asked.family),
                Some(of) => of.iter().fold(scan, |scan, qualifier| scan.column(asked.family, *qualifier)),
            };
        }
        if let Some((from, to)) = query.range {
            scan = scan.time_range(TimeRange { from, to });
        }
        let before = self.rows.lock().clone();
        let Ok(found) = table.scan(scan).collect().await else { return Ok(()) };
        env::sometimes("cells: a scan compared with the model");
        let after = self.rows.lock().clone();
        let has_changed = |row: &RowHistory| {
            let after = after.get(&row.name);
            after.is_none_or(|after| {
                after.mutations != row.mutations || after.doubtful.is_some() != row.doubtful.is_some()
            })
        };
        let still = before.values().filter(|row| !has_changed(row));
        self.compare(still, &query, &found).map_err(|words| format!("a scan, reversed {reversed}: {words}"))
    }

    fn compare<'r>(
        &self,
        rows: impl Iterator<Item = &'r RowHistory>,
        query: &Query,
        found: &[Row],
    ) -> Result<(), String> {
        let by_key: BTreeMap<&[u8], &Row> = found.iter().map(|row| (row.key(), row)).collect();
        if by_key.len() != found.len() {
            return Err(format!("{} rows, of which {} are different", found.len(), by_key.len()));
        }
        let nothing = Row::default();
        for row in rows {
            row.check(&self.families, query, by_key.get(row.name.as_bytes()).unwrap_or(&&nothing))?;
        }
        Ok(())
    }
}

fn put_of(row: &str, writes: &[Written]) -> Put {
    writes.iter().fold(Put::row(row.to_owned()), |put, cell| {
        put.set_at(FAMILIES[cell.family], cell.qualifier, cell.timestamp, cell.value.clone())
    })
}

fn delete_of(row: &str, markers: &[Written]) -> Delete {
    markers.iter().fold(Delete::row(row.to_owned()), |delete, marker| {
        let (family, at) = (FAMILIES[marker.family], marker.timestamp);
        match marker.kind {
            CellType::Delete => delete.version(family, marker.qualifier, at),
            CellType::DeleteColumn => delete.column_up_to(family, marker.qualifier, at),
            CellType::DeleteFamilyVersion => delete.family_at(family, at),
            _ => delete.family_up_to(family, at),
        }
    })
}

impl Workload for Cells {
    fn name(&self) -> &'static str {
        "cells"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        vec![(self.table.clone(), self.splits.clone())]
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let mut all: Vec<Job<()>> = (0..self.clients)
            .map(|client| Box::pin(Arc::clone(&self).client(scene.clone(), client)) as Job<()>)
            .collect();
        all.push(stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name")));
        all
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let table = scene.client(Duration::from_secs(120)).table(TABLE).expect("a name");
            let query = Query { versions: MANY, ..Query::all() };
            let found = table.scan(Scan::new().versions(MANY)).collect().await;
            let found = found.map_err(|error| {
                Complaint::Unreadable(format!("cells: the table cannot be read: {error}"))
            })?;
            let rows = self.rows.lock().clone();
            if rows.len() > 20 {
                env::sometimes("cells: more than 20 rows");
            }
            self.compare(rows.values(), &query, &found)
                .map_err(|words| Complaint::Wrong(format!("cells: {words}")))
        })
    }
}
