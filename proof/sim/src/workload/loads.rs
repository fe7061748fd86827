//! Bulk loads of files of two families, which a job writes beside the server. Either all rows of a load are there with
//! both families, or none is. The server refuses files whose rows belong to several regions. A load that is repeated because its answer was lost adds nothing. In the end
//! AggregateService must return the count and sum of a scan.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cell::{Cell, CellParts, CellType, SequenceId, Timestamp};
use client::{Row, Scan, Table};
use hfile::{StoreFileInfo, Writer, WriterOptions};
use parking_lot::Mutex;
use prost::Message;
use proto::{TableDescriptor, pb};
use storage::{FileName, Files};

use super::{Complaint, Job, Scene, Verdict, Workload, splits, stir, table};
use crate::random::Random;
use crate::scheduler::scheduler;

const TABLE: &str = "loads";
const FAMILIES: [&str; 2] = ["f", "g"];
const AGGREGATION: &str = "org.apache.hadoop.hbase.coprocessor.AggregateImplementation";
const INTERPRETER: &str = "org.apache.hadoop.hbase.client.coprocessor.LongColumnInterpreter";

/// First letters of rows, sorted. Split keys lie between them.
const LETTERS: [&str; 5] = ["1", "6", "b", "k", "v"];

/// The expected state of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedState {
    Loaded,
    /// The load was refused: its rows belong to several regions. An earlier call of the client, whose answer was lost, may
    /// have loaded them before the region was split, as with HBase. So all rows are there, or none.
    Refused,
    /// The state is unknown, because no answer came.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    rows: usize,
    known: ExpectedState,
}

/// The workload; see the module documentation.
pub(super) struct Loads {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    clients: u64,
    rows_max: u64,
    /// The loads, by number.
    loads: Mutex<BTreeMap<u64, Load>>,
}

impl Loads {
    pub(super) fn new(random: &mut Random) -> Loads {
        let mut table = table(TABLE, &FAMILIES, random);
        table.attributes_mut().set("coprocessor$1".into(), format!("|{AGGREGATION}|536870911|").into());
        Loads {
            table,
            splits: splits(random),
            clients: 1 + random.below(2),
            rows_max: random.spread(1, 60),
            loads: Mutex::default(),
        }
    }

    async fn loader(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(20)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let number = scene.turn();
            let rows = 1 + random.below(self.rows_max) as usize;
            let letter = random.below(LETTERS.len() as u64) as usize;
            // The rows of a load that begin with two letters may belong to two regions.
            let last = if random.one_in(4) { LETTERS.len() - 1 } else { letter };
            let keys = keys([LETTERS[letter], LETTERS[last]], number, rows);
            let mut files = Vec::new();
            for family in FAMILIES {
                let name = FileName::new(format!("job/{number}-{family}"));
                if write_file(&*scene.files(), &name, family, &keys, number).is_ok() {
                    files.push((family, format!("file:{}/{name}", scene.place())));
                }
            }
            if files.len() == FAMILIES.len() {
                self.loads.lock().insert(number, Load { rows, known: ExpectedState::Unknown });
                let paths: Vec<(&str, &str)> =
                    files.iter().map(|(family, path)| (*family, &**path)).collect();
                let known = match table.bulk_load(keys[0].clone(), &paths, &format!("token-{number}")).await {
                    Ok(true) => ExpectedState::Loaded,
                    Ok(false) => ExpectedState::Refused,
                    Err(_) => ExpectedState::Unknown,
                };
                env::sometimes(match known {
                    ExpectedState::Loaded => "loads: files were loaded",
                    ExpectedState::Refused => "loads: files did not fit",
                    ExpectedState::Unknown => "loads: a load without an answer",
                });
                self.loads.lock().insert(number, Load { rows, known });
            }
            scene.pause(&mut random, 3_000).await;
        }
    }

    async fn reader(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(20)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let (before, read) = (self.loads.lock().clone(), scene.begin_read());
            if let Ok(rows) = table.scan(Scan::new().caching(1 + random.below(50) as u32)).collect().await
                && let Err(words) = check(&rows, &before, false)
                && !scene.may_be_stale(read)
            {
                scene.fail(format!("loads: a scan: {words}"));
            }
            scene.pause(&mut random, 3_000).await;
        }
    }
}

/// Checks that each row and each load is whole; while loads run, only acknowledged ones must be.
fn check(rows: &[Row], loads: &BTreeMap<u64, Load>, is_end: bool) -> Result<(), String> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for row in rows {
        let key = row.key().escape_ascii();
        match (row.number("f", "q"), row.number("g", "q")) {
            (Some(one), Some(other)) if one == other => *counts.entry(one as u64).or_default() += 1,
            both => return Err(format!("row {key} has {both:?} in its two families")),
        }
    }
    for (number, load) in loads {
        let found = counts.get(number).copied().unwrap_or(0);
        let is_right = match load.known {
            ExpectedState::Loaded => found == load.rows,
            ExpectedState::Refused => found == 0 || found == load.rows,
            ExpectedState::Unknown => !is_end || found == 0 || found == load.rows,
        };
        if !is_right {
            return Err(format!("load {number} has {found} of {} rows and is {:?}", load.rows, load.known));
        }
    }
    Ok(())
}

/// Returns the sorted keys of the rows of a load. The first half begins with the first letter, the second half with the
/// second one.
fn keys(letters: [&str; 2], number: u64, rows: usize) -> Vec<String> {
    (0..rows).map(|row| format!("{}{number:08}.{row:04}", letters[row * 2 / rows])).collect()
}

/// Writes a file as a job does.
fn write_file(
    files: &dyn Files,
    name: &FileName,
    family: &str,
    keys: &[String],
    number: u64,
) -> Result<(), String> {
    scheduler().without_interruption(|| {
        let file = files.create(name).map_err(|error| error.to_string())?;
        let mut writer = Writer::create(file, name.clone(), WriterOptions::default());
        for row in keys {
            let cell = CellParts {
                row: row.as_bytes(),
                family: family.as_bytes(),
                qualifier: b"q",
                timestamp: Timestamp(1_000),
                cell_type: CellType::Put,
                value: &number.to_be_bytes(),
                tags: b"",
            };
            let cell = cell.to_vec().map_err(|error| error.to_string())?;
            writer.append(Cell::trusted(&cell, SequenceId::ZERO)).map_err(|error| error.to_string())?;
        }
        writer.finish(StoreFileInfo::default()).map(drop).map_err(|error| error.to_string())
    })
}

/// Calls a method of AggregateService in the region that has `row`, over column `f:q`.
async fn aggregate(table: &Table, row: Bytes, method: &str) -> client::Result<pb::AggregateResponse> {
    let column = vec![pb::Column { family: "f".into(), qualifier: vec!["q".into()] }];
    let request = pb::AggregateRequest {
        interpreter_class_name: INTERPRETER.to_owned(),
        scan: pb::Scan { column, ..pb::Scan::default() },
        ..pb::AggregateRequest::default()
    };
    let answer = table.call_endpoint(row, "AggregateService", method, request.encode_to_vec()).await?;
    Ok(pb::AggregateResponse::decode(answer).expect("the server's own message"))
}

impl Workload for Loads {
    fn name(&self) -> &'static str {
        "loads"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        vec![(self.table.clone(), self.splits.clone())]
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let mut all: Vec<Job<()>> =
            (0..self.clients).map(|_| Box::pin(Arc::clone(&self).loader(scene.clone())) as Job<()>).collect();
        all.push(Box::pin(Arc::clone(&self).reader(scene.clone())));
        all.push(stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name")));
        all
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let unreadable = |error: client::Error| {
                Complaint::Unreadable(format!("loads: the table cannot be read: {error}"))
            };
            let cluster = scene.client(Duration::from_secs(120));
            let table = cluster.table(TABLE).expect("a name");
            let rows = table.scan(Scan::new()).collect().await.map_err(unreadable)?;
            let loads = self.loads.lock().clone();
            check(&rows, &loads, true).map_err(|words| Complaint::Wrong(format!("loads: {words}")))?;
            // If a region is split meanwhile, its rows may be counted twice or not at all. So the counts are compared
            // only if the regions are the same before and after.
            let regions = cluster.admin().regions(table.name()).await.map_err(unreadable)?;
            let (mut count, mut sum) = (0, 0);
            for location in &regions {
                let start = location.region.start_key().clone();
                let counted = aggregate(&table, start.clone(), "GetRowNum").await.map_err(unreadable)?;
                let part = counted.first_part.first().and_then(|part| part[..].try_into().ok());
                count += part.map_or(0, i64::from_be_bytes);
                let summed = aggregate(&table, start, "GetSum").await.map_err(unreadable)?;
                sum += summed.first_part.first().map_or(0, |part| {
                    pb::LongMsg::decode(part.clone()).expect("the server's own message").long_msg
                });
            }
            let after = cluster.admin().regions(table.name()).await.map_err(unreadable)?;
            let names =
                |of: &[client::Location]| of.iter().map(|at| at.region.name().clone()).collect::<Vec<_>>();
            if names(&regions) != names(&after) {
                return Ok(());
            }
            let expected: i64 = rows.iter().filter_map(|row| row.number("f", "q")).sum();
            env::sometimes("loads: aggregates compared with a scan");
            if (count, sum) != (rows.len() as i64, expected) {
                return Err(Complaint::Wrong(format!(
                    "loads: AggregateService counts {count} rows with the sum {sum}, a scan {} with {expected}",
                    rows.len()
                )));
            }
            Ok(())
        })
    }
}
