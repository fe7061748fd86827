//! A table of the server that is read from its read replica. Each row has one writer, which writes or deletes the row
//! again and again, under growing numbers. What the replica answers
//!
//! - is a whole row, with one number in both families;
//! - has a number that was written, and none less than any answer before it had;
//! - has after a refresh at least the number that had been acknowledged before the refresh.
//!
//! In the end the replica has the rows that the server has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Admin, Delete, Get, Put, Row, Scan, Table};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, splits, stir, table};
use crate::random::Random;

const TABLE: &str = "followed";
const FAMILIES: [&str; 2] = ["a", "b"];
/// The column with the number.
const NUMBER: &str = "n";
/// Each write with a number that is divisible by this deletes its row.
const DELETED_EACH: u64 = 7;
/// Time within which the judge finds the same rows on the replica and on the server.
const EQUAL_WITHIN: Duration = Duration::from_secs(900);

/// The writes of a row, and what the replica must have of them.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// The number of the last write that was begun; 0 before the first.
    begun: u64,
    /// The number of the last acknowledged write.
    acknowledged: u64,
    /// The number that each answer must have at least.
    due: u64,
}

/// The workload; see the module documentation.
pub(super) struct Followed {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    rows: Vec<String>,
    writers: usize,
    readers: usize,
    load_max: u64,
    written: Mutex<Vec<Written>>,
}

impl Followed {
    pub(super) fn new(random: &mut Random) -> Followed {
        let rows: Vec<String> = (0..random.spread(2, 60))
            .map(|at| format!("{}{at:03}", random.choose(&["1", "5", "a", "h", "p", "x"])))
            .collect();
        Followed {
            table: table(TABLE, &FAMILIES, random),
            splits: splits(random),
            writers: 1 + random.below(3) as usize,
            readers: 1 + random.below(3) as usize,
            load_max: random.spread(1, 4 << 10),
            written: Mutex::new(vec![Written::default(); rows.len()]),
            rows,
        }
    }

    /// Writes the rows whose number modulo the number of writers is `index`.
    async fn writer(self: Arc<Self>, index: usize, scene: Scene) {
        let table = scene.client(Duration::from_secs(5)).table(TABLE).expect("a name");
        let mut random = scene.random();
        let own: Vec<usize> = (index..self.rows.len()).step_by(self.writers).collect();
        while !scene.is_over() && !own.is_empty() {
            let at = random.choose(&own);
            let number = {
                let mut written = self.written.lock();
                written[at].begun += 1;
                written[at].begun
            };
            let load = vec![b'x'; random.below(self.load_max) as usize];
            // The number is the timestamp, too, so that the order of the writes does not depend on the clock, and a write
            // can be repeated.
            let (row, stamp) = (self.rows[at].clone(), number as i64);
            while !scene.is_over() {
                let done = if number.is_multiple_of(DELETED_EACH) {
                    table.delete(Delete::row(row.clone()).up_to(stamp)).await
                } else {
                    let bytes = number.to_be_bytes().to_vec();
                    let put = Put::row(row.clone())
                        .set_at(FAMILIES[0], NUMBER, stamp, bytes.clone())
                        .set_at(FAMILIES[0], "load", stamp, load.clone())
                        .set_at(FAMILIES[1], NUMBER, stamp, bytes);
                    table.put(put).await
                };
                if done.is_ok() {
                    self.written.lock()[at].acknowledged = number;
                    break;
                }
                scene.pause(&mut random, 300).await;
            }
            scene.pause(&mut random, 150).await;
        }
    }

    async fn reader(self: Arc<Self>, scene: Scene) {
        let cluster = scene.replica_client(Duration::from_secs(20));
        let (table, admin) = (cluster.table(TABLE).expect("a name"), cluster.admin());
        let mut random = scene.random();
        while !scene.is_over() {
            match random.below(4) {
                0 => {
                    if self.refresh(&admin, &mut random).await.is_ok() {
                        env::sometimes("replica: refreshed beside writers");
                    }
                }
                1 => {
                    if let Err(words) = self.scan(&table, &mut random).await.unwrap_or(Ok(())) {
                        scene.fail(words);
                    }
                }
                _ => {
                    let at = random.below(self.rows.len() as u64) as usize;
                    let due = self.due(at);
                    if let Ok(found) = table.get(Get::row(self.rows[at].clone())).await
                        && let Err(words) = self.check(at, due, Some(found).filter(|row| !row.is_empty()))
                    {
                        scene.fail(words);
                    }
                }
            }
            scene.pause(&mut random, 400).await;
        }
    }

    /// Refreshes the replica. After that each answer has at least the writes that are acknowledged now.
    async fn refresh(&self, admin: &Admin, random: &mut Random) -> client::Result<()> {
        let acknowledged: Vec<u64> = self.written.lock().iter().map(|row| row.acknowledged).collect();
        match random.one_in(2) {
            true => admin.refresh_meta().await?,
            false => admin.refresh_hfiles().await?,
        }
        for (row, acknowledged) in self.written.lock().iter_mut().zip(acknowledged) {
            row.due = row.due.max(acknowledged);
        }
        Ok(())
    }

    /// Scans the replica's table, and checks each row.
    async fn scan(&self, table: &Table, random: &mut Random) -> client::Result<Result<(), String>> {
        let due: Vec<u64> = self.written.lock().iter().map(|row| row.due).collect();
        let mut scan = Scan::new().caching(1 + random.below(20) as u32);
        let is_reversed = random.one_in(4);
        if is_reversed {
            scan = scan.reversed();
        }
        let mut rows = table.scan(scan).collect().await?;
        if is_reversed {
            rows.reverse();
        }
        env::sometimes("replica: a scan came to its end");
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].key() >= pair[1].key()) {
            return Ok(Err(format!("followed: {:?} comes after {:?}", pair[1].key(), pair[0].key())));
        }
        let mut found: BTreeMap<Vec<u8>, Row> =
            rows.into_iter().map(|row| (row.key().to_vec(), row)).collect();
        for (at, due) in due.into_iter().enumerate() {
            if let Err(words) = self.check(at, due, found.remove(self.rows[at].as_bytes())) {
                return Ok(Err(words));
            }
        }
        Ok(found.into_keys().next().map_or(Ok(()), |row| Err(format!("followed: nobody wrote {row:?}"))))
    }

    /// Refreshes the replica, judges its rows, and compares them with the server's. Returns why they are not equal.
    async fn compare(
        &self,
        scene: &Scene,
        admin: &Admin,
        table: &Table,
        random: &mut Random,
    ) -> Result<Option<String>, Complaint> {
        if let Err(error) = self.refresh(admin, random).await {
            return Ok(Some(format!("the replica cannot be refreshed: {error}")));
        }
        let rows = match self.scan(table, random).await {
            Ok(judged) => {
                judged?;
                table.scan(Scan::new()).collect().await
            }
            Err(error) => Err(error),
        };
        let of_server = scene.client(Duration::from_secs(120)).table(TABLE).expect("a name");
        Ok(match (rows, of_server.scan(Scan::new()).collect().await) {
            (Ok(rows), Ok(theirs)) if rows == theirs => None,
            (Ok(rows), Ok(theirs)) => {
                let different = rows.iter().zip(&theirs).find(|(own, theirs)| own != theirs);
                let counts = (rows.len(), theirs.len());
                Some(format!(
                    "the numbers of rows of the replica and the server are {counts:?}; the first that differ: {different:?}"
                ))
            }
            (Err(error), _) => Some(format!("the replica cannot be read: {error}")),
            (_, Err(error)) => Some(format!("the server cannot be read: {error}")),
        })
    }

    fn due(&self, at: usize) -> u64 {
        self.written.lock()[at].due
    }

    /// Judges an answer to a request that began when `due` was the least number that it may have.
    fn check(&self, at: usize, due: u64, found: Option<Row>) -> Result<(), String> {
        let row = &self.rows[at];
        let mut written = self.written.lock();
        let begun = written[at].begun;
        let Some(found) = found else {
            // The row is absent before its first write, and after each that deletes it.
            let number = due.next_multiple_of(DELETED_EACH);
            if number > begun {
                return Err(format!(
                    "followed: row {row} is not there; write {due} or a later one up to {begun} was due"
                ));
            }
            written[at].due = written[at].due.max(number);
            return Ok(());
        };
        let numbers = FAMILIES.map(|family| found.value(family, NUMBER).map(<[u8]>::to_vec));
        let number = match &numbers {
            [Some(first), Some(second)] if first == second => {
                <[u8; 8]>::try_from(&first[..]).map(u64::from_be_bytes).ok()
            }
            _ => None,
        };
        let Some(number) = number else {
            return Err(format!("followed: row {row} is not whole: {numbers:?}, write {due} was due"));
        };
        if number < due || number > begun || number.is_multiple_of(DELETED_EACH) {
            return Err(format!(
                "followed: row {row} has write {number}; write {due} or a later one up to {begun} was due"
            ));
        }
        written[at].due = written[at].due.max(number);
        Ok(())
    }
}

impl Workload for Followed {
    fn name(&self) -> &'static str {
        "followed"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        vec![(self.table.clone(), self.splits.clone())]
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let mut all: Vec<Job<()>> = Vec::new();
        for index in 0..self.writers {
            all.push(Box::pin(Arc::clone(&self).writer(index, scene.clone())));
        }
        for _ in 0..self.readers {
            all.push(Box::pin(Arc::clone(&self).reader(scene.clone())));
        }
        all.push(stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name")));
        all
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let cluster = scene.replica_client(Duration::from_secs(120));
            let (table, admin) = (cluster.table(TABLE).expect("a name"), cluster.admin());
            let mut random = scene.random();
            let began = scene.now();
            // A write whose client has given up may still be carried out, so the rows are compared again if they differ.
            loop {
                let failure = match self.compare(&scene, &admin, &table, &mut random).await? {
                    None => break,
                    Some(failure) => failure,
                };
                if scene.now().since(began) > EQUAL_WITHIN {
                    return Err(Complaint::Wrong(format!("followed: {failure}")));
                }
                scene.pause(&mut random, 1_000).await;
            }
            env::sometimes("replica: it has the rows of the server in the end");
            Ok(())
        })
    }
}
