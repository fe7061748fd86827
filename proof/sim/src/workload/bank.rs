//! A bank: accounts are columns of a few rows, in two families. A transfer changes two accounts of a row at once, if
//! the row's number of transfers is still the one that the client has read. Every get or scan of a row sees the same
//! sum. At the end each row has at least the greatest number of transfers that was acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{CheckAndMutate, Get, Put, Row, Scan};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, splits, stir, table};
use crate::random::Random;

const TABLE: &str = "bank";
const ROWS: [&str; 4] = ["a", "h", "p", "x"];
const FAMILIES: [&str; 2] = ["f", "g"];

/// The workload; see the module documentation.
pub(super) struct Bank {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    clients: u64,
    accounts: u64,
    /// The greatest acknowledged number of transfers of each row; 0 if only the row's creation was acknowledged.
    acknowledged: Mutex<BTreeMap<&'static str, i64>>,
}

impl Bank {
    pub(super) fn new(random: &mut Random) -> Bank {
        Bank {
            table: table(TABLE, &FAMILIES, random),
            splits: splits(random),
            clients: 1 + random.below(4),
            accounts: 2 + random.below(6),
            acknowledged: Mutex::default(),
        }
    }

    fn acknowledge(&self, row: &'static str, turn: i64) {
        let mut acknowledged = self.acknowledged.lock();
        let greatest = acknowledged.entry(row).or_insert(turn);
        *greatest = turn.max(*greatest);
    }

    fn sum(&self) -> i64 {
        self.accounts as i64 * 100
    }

    fn first(&self, row: &str) -> Put {
        let accounts = (0..self.accounts).fold(Put::row(row.to_owned()), |put, account| {
            put.set(FAMILIES[account as usize % 2], format!("a{account}"), 100i64.to_be_bytes().to_vec())
        });
        accounts.set("f", "turn", 0i64.to_be_bytes().to_vec())
    }

    /// Returns the balances of a row; none if the row does not exist yet.
    fn balances(&self, row: &Row) -> Result<Vec<i64>, String> {
        if row.is_empty() {
            return Ok(Vec::new());
        }
        let name = row.key().escape_ascii();
        let balances: Vec<Option<i64>> = (0..self.accounts)
            .map(|account| row.number(FAMILIES[account as usize % 2], format!("a{account}")))
            .collect();
        let balances: Option<Vec<i64>> = balances.into_iter().collect();
        let balances = balances.ok_or_else(|| format!("row {name} lacks accounts"))?;
        match balances.iter().sum::<i64>() {
            sum if sum == self.sum() => Ok(balances),
            sum => Err(format!("row {name} has {sum} in all, {} expected: {balances:?}", self.sum())),
        }
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(15)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let row = random.choose(&ROWS);
            let Ok(read) = table.get(Get::row(row)).await else { continue };
            let balances = match self.balances(&read) {
                Ok(balances) => balances,
                Err(words) => return scene.fail(format!("bank: a get: {words}")),
            };
            let condition = CheckAndMutate::column(row, "f", "turn");
            if balances.is_empty() {
                if let Ok((true, _)) = table.check_and_mutate(condition.then(self.first(row))).await {
                    self.acknowledge(row, 0);
                }
                continue;
            }
            let turn = read.number("f", "turn").unwrap_or(0);
            let (from, to) = (random.below(self.accounts), random.below(self.accounts));
            let amount = random.below(50) as i64;
            if from != to {
                let of = |account: u64| (FAMILIES[account as usize % 2], format!("a{account}"));
                let ((from_family, from_name), (to_family, to_name)) = (of(from), of(to));
                let put = Put::row(row)
                    .set(from_family, from_name, (balances[from as usize] - amount).to_be_bytes().to_vec())
                    .set(to_family, to_name, (balances[to as usize] + amount).to_be_bytes().to_vec())
                    .set("f", "turn", (turn + 1).to_be_bytes().to_vec());
                let condition = condition.equals(turn.to_be_bytes().to_vec());
                if let Ok((true, _)) = table.check_and_mutate(condition.then(put)).await {
                    self.acknowledge(row, turn + 1);
                    env::sometimes("bank: a transfer");
                }
            }
            scene.pause(&mut random, 200).await;
        }
    }

    async fn auditor(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(15)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let batch = 1 + random.below(5) as u32;
            if let Ok(rows) = table.scan(Scan::new().caching(batch)).collect().await {
                for row in &rows {
                    if let Err(words) = self.balances(row) {
                        return scene.fail(format!("bank: a scan: {words}"));
                    }
                }
            }
            scene.pause(&mut random, 1_000).await;
        }
    }
}

impl Workload for Bank {
    fn name(&self) -> &'static str {
        "bank"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        vec![(self.table.clone(), self.splits.clone())]
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let mut all: Vec<Job<()>> =
            (0..self.clients).map(|_| Box::pin(Arc::clone(&self).client(scene.clone())) as Job<()>).collect();
        all.push(Box::pin(Arc::clone(&self).auditor(scene.clone())));
        all.push(stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name")));
        all
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let table = scene.client(Duration::from_secs(120)).table(TABLE).expect("a name");
            let rows = table.scan(Scan::new()).collect().await;
            let rows =
                rows.map_err(|error| Complaint::Unreadable(format!("bank: it cannot be read: {error}")))?;
            for row in &rows {
                self.balances(row).map_err(|words| Complaint::Wrong(format!("bank: {words}")))?;
            }
            for (name, acknowledged) in &*self.acknowledged.lock() {
                let row = rows.iter().find(|row| row.key() == name.as_bytes());
                let turn = row.and_then(|row| row.number("f", "turn"));
                if turn.is_none_or(|turn| turn < *acknowledged) {
                    let words =
                        format!("bank: row {name} has turn {turn:?}, {acknowledged} was acknowledged");
                    return Err(words.into());
                }
            }
            Ok(())
        })
    }
}
