//! A bank: accounts are columns of pairs of rows, in two families. A transfer changes two accounts at once, if the
//! number of transfers of their rows is still the one that the client has read. The accounts are in one row, or one is
//! in each row of a pair; then the first row owes the second what it received, or the other way round.
//!
//! Every get or scan of a row sees that its sum is what it began with and what it owes. A scan of a pair that one
//! region answers sees the same number of transfers between the rows in both, and that one row owes what the other
//! has lent. At the end each row has at least the greatest number of transfers that was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{CheckAndMutate, Get, Put, Row, Scan};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, splits, stir, table};
use crate::random::Random;

const TABLE: &str = "bank";
const SPLIT_POLICY: &str = "org.apache.hadoop.hbase.regionserver.KeyPrefixRegionSplitPolicy";
/// Rows whose keys have the same first byte are a pair. The split policy keeps them in one region.
const PAIRS: [[&str; 2]; 4] = [["a1", "a2"], ["h1", "h2"], ["p1", "p2"], ["x1", "x2"]];
const FAMILIES: [&str; 2] = ["f", "g"];

/// The workload; see the module documentation.
pub(super) struct Bank {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    clients: u64,
    accounts: u64,
    /// The greatest acknowledged number of transfers of each row; 0 if only the row's creation was acknowledged.
    acknowledged: Mutex<BTreeMap<&'static str, i64>>,
    /// The numbers of the acknowledged transfers of each row.
    turns: Mutex<BTreeSet<(&'static str, i64)>>,
}

/// What a row has.
#[derive(Debug)]
struct Accounts {
    balances: Vec<i64>,
    /// Number of transfers that changed the row.
    turn: i64,
    /// Number of those that changed the other row of the pair, too.
    between: i64,
    /// What the row has received from the other row, less what it has given.
    owed: i64,
}

impl Accounts {
    /// The condition that the row is still as it was read.
    fn unchanged(&self, row: &'static str) -> CheckAndMutate {
        CheckAndMutate::column(row, "f", "turn").equals(number(self.turn))
    }

    /// Returns a put that adds each amount to an account of the row.
    fn changed(&self, row: &'static str, amounts: &[(u64, i64)]) -> Put {
        let put = Put::row(row).set("f", "turn", number(self.turn + 1));
        amounts.iter().fold(put, |put, (account, amount)| {
            let (family, name) = column(*account);
            put.set(family, name, number(self.balances[*account as usize] + amount))
        })
    }

    /// Returns a put that adds to an account what the other row of the pair gives.
    fn lent(&self, row: &'static str, account: u64, amount: i64) -> Put {
        self.changed(row, &[(account, amount)]).set("g", "between", number(self.between + 1)).set(
            "f",
            "owed",
            number(self.owed + amount),
        )
    }
}

fn column(account: u64) -> (&'static str, String) {
    (FAMILIES[account as usize % 2], format!("a{account}"))
}

fn number(number: i64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

impl Bank {
    pub(super) fn new(random: &mut Random) -> Bank {
        let mut table = table(TABLE, &FAMILIES, random);
        let attributes = table.attributes_mut();
        attributes.set("SPLIT_POLICY".into(), SPLIT_POLICY.into());
        attributes.set("KeyPrefixRegionSplitPolicy.prefix_length".into(), "1".into());
        Bank {
            table,
            splits: splits(random),
            clients: 1 + random.below(4),
            accounts: 2 + random.below(6),
            acknowledged: Mutex::default(),
            turns: Mutex::default(),
        }
    }

    /// Records an acknowledged transfer, which no other one can have as its number.
    fn acknowledge(&self, scene: &Scene, row: &'static str, turn: i64) {
        if !self.turns.lock().insert((row, turn)) {
            scene.fail(format!("bank: two transfers of row {row} have the number {turn}, so one is lost"));
        }
        let mut acknowledged = self.acknowledged.lock();
        let greatest = acknowledged.entry(row).or_insert(turn);
        *greatest = turn.max(*greatest);
    }

    /// Checks that a read shows what was acknowledged before it began.
    fn check_age(
        &self,
        row: &str,
        turn: Option<i64>,
        before: &BTreeMap<&'static str, i64>,
    ) -> Result<(), String> {
        match before.get(row) {
            Some(least) if turn.is_none_or(|turn| turn < *least) => {
                Err(format!("row {row} has turn {turn:?}, {least} was acknowledged before"))
            }
            _ => Ok(()),
        }
    }

    fn first(&self, row: &str) -> Put {
        let accounts = (0..self.accounts).fold(Put::row(row.to_owned()), |put, account| {
            let (family, name) = column(account);
            put.set(family, name, number(100))
        });
        accounts.set("f", "turn", number(0)).set("g", "between", number(0)).set("f", "owed", number(0))
    }

    /// Returns what a row has; none if the row does not exist yet.
    fn accounts(&self, row: &Row) -> Result<Option<Accounts>, String> {
        if row.is_empty() {
            return Ok(None);
        }
        let name = row.key().escape_ascii();
        let balances = (0..self.accounts).map(|account| {
            let (family, name) = column(account);
            row.number(family, name)
        });
        let accounts = balances.collect::<Option<Vec<i64>>>().and_then(|balances| {
            let (turn, between) = (row.number("f", "turn")?, row.number("g", "between")?);
            Some(Accounts { balances, turn, between, owed: row.number("f", "owed")? })
        });
        let accounts = accounts.ok_or_else(|| format!("row {name} lacks columns"))?;
        let expected = self.accounts as i64 * 100 + accounts.owed;
        match accounts.balances.iter().sum::<i64>() {
            sum if sum == expected => Ok(Some(accounts)),
            sum => Err(format!("row {name} has {sum} in all, {expected} expected: {accounts:?}")),
        }
    }

    /// Checks the rows of one read of a whole pair.
    fn check_pair(&self, rows: &[Row]) -> Result<(), String> {
        let mut pair = Vec::new();
        for row in rows {
            pair.extend(self.accounts(row)?);
        }
        match &pair[..] {
            [one, other] if one.between != other.between || one.owed + other.owed != 0 => {
                let name = rows[0].key().escape_ascii();
                Err(format!("rows {name} and the next do not agree: {one:?} and {other:?}"))
            }
            // A row is created before the first transfer to it.
            [only] if only.between != 0 => Err(format!("a row lacks its other: {only:?}")),
            _ => Ok(()),
        }
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(15)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let pair = random.choose(&PAIRS);
            let (here, there) = if random.one_in(2) { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
            let between = random.one_in(3);
            let mut read = Vec::new();
            for row in [here, there].into_iter().take(if between { 2 } else { 1 }) {
                let (before, begun) = (self.acknowledged.lock().clone(), scene.begin_read());
                let Ok(found) = table.get(Get::row(row)).await else { break };
                if let Err(words) = self.check_age(row, found.number("f", "turn"), &before)
                    && !scene.may_be_stale(begun)
                {
                    return scene.fail(format!("bank: a get: {words}"));
                }
                match self.accounts(&found) {
                    Err(words) => return scene.fail(format!("bank: a get: {words}")),
                    Ok(Some(accounts)) => read.push((row, accounts)),
                    Ok(None) => {
                        let absent = CheckAndMutate::column(row, "f", "turn");
                        if let Ok((true, _)) = table.check_and_mutate(absent.then(self.first(row))).await {
                            self.acknowledge(&scene, row, 0);
                        }
                        break;
                    }
                }
            }
            let (from, to) = (random.below(self.accounts), random.below(self.accounts));
            let amount = random.below(50) as i64;
            match &read[..] {
                [(row, accounts)] if !between && from != to => {
                    let put = accounts.changed(row, &[(from, -amount), (to, amount)]);
                    if let Ok((true, _)) = table.check_and_mutate(accounts.unchanged(row).then(put)).await {
                        self.acknowledge(&scene, row, accounts.turn + 1);
                        env::sometimes("bank: a transfer");
                    }
                }
                [(payer, one), (payee, other)] => {
                    let changes = [
                        one.unchanged(payer).then(one.lent(payer, from, -amount)),
                        other.unchanged(payee).then(other.lent(payee, to, amount)),
                    ];
                    if let Ok(true) = table.mutate_rows(&changes).await {
                        self.acknowledge(&scene, payer, one.turn + 1);
                        self.acknowledge(&scene, payee, other.turn + 1);
                        env::sometimes("bank: a transfer between rows");
                    }
                }
                _ => (),
            }
            scene.pause(&mut random, 200).await;
        }
    }

    /// Scans pairs of rows. The client never retries, so that one scanner of one region returns both rows.
    async fn auditor_of_pairs(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::ZERO).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let pair = random.choose(&PAIRS);
            let batch = 1 + random.below(3) as u32;
            let scan = Scan::new().from(pair[0]).through(pair[1]).caching(batch);
            if let Ok(rows) = table.scan(scan).collect().await {
                if let Err(words) = self.check_pair(&rows) {
                    return scene.fail(format!("bank: a scan of a pair: {words}"));
                }
                if rows.len() == 2 {
                    env::sometimes("bank: a pair was read");
                }
            }
            scene.pause(&mut random, 500).await;
        }
    }

    async fn auditor(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(15)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let batch = 1 + random.below(5) as u32;
            let (before, begun) = (self.acknowledged.lock().clone(), scene.begin_read());
            if let Ok(rows) = table.scan(Scan::new().caching(batch)).collect().await {
                for row in &rows {
                    if let Err(words) = self.accounts(row) {
                        return scene.fail(format!("bank: a scan: {words}"));
                    }
                }
                for name in before.keys() {
                    let row = rows.iter().find(|row| row.key() == name.as_bytes());
                    let turn = row.and_then(|row| row.number("f", "turn"));
                    if let Err(words) = self.check_age(name, turn, &before)
                        && !scene.may_be_stale(begun)
                    {
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
        all.push(Box::pin(Arc::clone(&self).auditor_of_pairs(scene.clone())));
        all.push(stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name")));
        all
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let table = scene.client(Duration::from_secs(120)).table(TABLE).expect("a name");
            let rows = table.scan(Scan::new()).collect().await;
            let rows =
                rows.map_err(|error| Complaint::Unreadable(format!("bank: it cannot be read: {error}")))?;
            for pair in rows.chunk_by(|row, next| row.key().first() == next.key().first()) {
                self.check_pair(pair).map_err(|words| Complaint::Wrong(format!("bank: {words}")))?;
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
