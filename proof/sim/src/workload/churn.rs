//! Tables are created, written to, disabled, truncated and deleted. Acknowledged rows stay until the next deletion or
//! truncation begins; a table that was created again has no rows of the previous one. A table whose regions were
//! truncated has only later rows, and those whose puts were not acknowledged: they may arrive late.
//!
//! One client changes the table, reads and puts. Another one puts rows at any time, so also while the table is disabled,
//! truncated or deleted. A row that is acknowledged after such a change began may be there later or not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::{Admin, Cluster, Put, Scan, Table};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, enable, remove_interrupted, splits, table};
use crate::random::Random;

/// Maximum time for which a table stays disabled, in ms.
const DISABLED_MS_MAX: u64 = 20_000;
/// The number of the act that puts a row.
const PUT: u64 = 9;
/// One of this many turns deletes a table that is only known to be readable.
const TURNS_READABLE: u64 = 30;

/// The expected state of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ExpectedState {
    /// The table does not exist.
    Absent,
    /// The table exists with at least the acknowledged rows, and with none whose number is at most `from`.
    Present { from: u64 },
    /// The table was disabled, and enabling it has not succeeded yet. It must be possible, and then the table has what it
    /// had before.
    Disabled { from: u64 },
    /// The table exists and can be read, but its rows are unknown, because a truncation of its regions has failed.
    Readable,
    /// The state is unknown, because a change has failed.
    Unknown,
}

/// The workload; see the module documentation.
pub(super) struct Churn {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    known: Mutex<ExpectedState>,
    /// The numbers of rows whose puts were not acknowledged, or met a change that removes rows.
    late: Mutex<BTreeSet<u64>>,
    /// The numbers of rows that were put since the last change that removes rows, and acknowledged.
    rows: Mutex<BTreeSet<u64>>,
    /// Number of beginnings and ends of changes that remove rows. It is odd while such a change is under way, and after
    /// one that failed.
    removals: AtomicU64,
    /// The number of the row that was put last.
    last: AtomicU64,
    /// Whether the table lasts: it is neither deleted nor truncated, so its regions have many files.
    lasts: bool,
    seed: u64,
}

impl Churn {
    pub(super) fn new(random: &mut Random) -> Churn {
        Churn {
            table: table("churn", &["f"], random),
            splits: splits(random),
            known: Mutex::new(ExpectedState::Absent),
            late: Mutex::default(),
            rows: Mutex::default(),
            removals: AtomicU64::new(0),
            last: AtomicU64::new(0),
            lasts: random.one_in(3),
            seed: random.bits(),
        }
    }

    /// Expects that all rows disappear at some time from now on.
    fn begin_removal(&self, known: ExpectedState) {
        let removals = self.removals.load(Ordering::Acquire);
        self.removals.store((removals + 1) | 1, Ordering::Release);
        self.rows.lock().clear();
        *self.known.lock() = known;
    }

    /// Expects a table that was made or emptied. It may only have rows whose puts began before now.
    fn end_removal(&self) {
        self.removals.fetch_add(1, Ordering::AcqRel);
        *self.known.lock() = ExpectedState::Present { from: self.last.load(Ordering::Acquire) };
    }

    /// Puts a new row. Puts are not repeated by `puts`. An earlier attempt could otherwise arrive after its region was
    /// truncated, although the put was acknowledged.
    async fn put(&self, puts: &Table, random: &mut Random) {
        let number = self.last.fetch_add(1, Ordering::AcqRel) + 1;
        let removals = self.removals.load(Ordering::Acquire);
        let key = format!("{}{number}", random.choose(&["1", "6", "b", "k", "v"]));
        self.late.lock().insert(number);
        let is_done = puts.put(Put::row(key).set("f", "q", number.to_be_bytes().to_vec())).await.is_ok();
        if is_done && removals.is_multiple_of(2) && self.removals.load(Ordering::Acquire) == removals {
            if matches!(*self.known.lock(), ExpectedState::Unknown) {
                env::sometimes("churn: a row was written while its table was being disabled");
            }
            self.late.lock().remove(&number);
            self.rows.lock().insert(number);
        }
    }

    /// Puts rows while the other client changes the table.
    async fn writer(self: Arc<Self>, scene: Scene) {
        let puts = scene.client(Duration::ZERO).table("churn").expect("a name");
        let mut random = Random::new(!self.seed);
        while !scene.is_over() {
            scene.pause(&mut random, 1_000).await;
            self.put(&puts, &mut random).await;
        }
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let cluster = scene.client(Duration::from_secs(20));
        let (admin, rows) = (cluster.admin(), cluster.table("churn").expect("a name"));
        let puts = scene.client(Duration::ZERO).table("churn").expect("a name");
        let name = self.table.name().clone();
        let mut random = Random::new(self.seed);
        while !scene.is_over() {
            scene.pause(&mut random, 2_000).await;
            let known = self.known.lock().clone();
            match known {
                ExpectedState::Unknown => {
                    // After an interruption the client continues from the state in which it finds the table.
                    match admin.table_exists(&name).await {
                        Ok(true) => {
                            let _either = admin.disable_table(&name).await;
                            self.begin_removal(ExpectedState::Unknown);
                            if admin.delete_table(&name).await.is_ok() {
                                *self.known.lock() = ExpectedState::Absent;
                            }
                        }
                        // The failed change may still be under way. Only a later change that succeeds proves that it is
                        // not.
                        Ok(false) => {
                            self.begin_removal(ExpectedState::Unknown);
                            if admin.create_table(&self.table, &self.splits).await.is_ok() {
                                self.end_removal();
                            }
                        }
                        Err(_) => {}
                    }
                }
                ExpectedState::Disabled { from } => {
                    if enable(&scene, &admin, &name).await {
                        env::sometimes("churn: a table was disabled and enabled");
                        *self.known.lock() = ExpectedState::Present { from };
                    }
                }
                ExpectedState::Readable => {
                    if random.one_in(TURNS_READABLE) {
                        *self.known.lock() = ExpectedState::Unknown;
                    }
                }
                ExpectedState::Absent => {
                    self.begin_removal(ExpectedState::Unknown);
                    if admin.create_table(&self.table, &self.splits).await.is_ok() {
                        env::sometimes("churn: a table was made");
                        self.end_removal();
                    }
                }
                ExpectedState::Present { from } => match self.draw_act(&mut random) {
                    0 => {
                        self.begin_removal(ExpectedState::Unknown);
                        if admin.disable_table(&name).await.is_ok() && admin.delete_table(&name).await.is_ok()
                        {
                            env::sometimes("churn: a table was deleted");
                            *self.known.lock() = ExpectedState::Absent;
                        }
                    }
                    1 => {
                        self.begin_removal(ExpectedState::Unknown);
                        if admin.disable_table(&name).await.is_ok()
                            && admin.truncate_table(&name, true).await.is_ok()
                        {
                            env::sometimes("churn: a table was truncated");
                            self.end_removal();
                        }
                    }
                    2 => {
                        *self.known.lock() = ExpectedState::Unknown;
                        if admin.disable_table(&name).await.is_ok() {
                            *self.known.lock() = ExpectedState::Disabled { from };
                            if random.one_in(2) {
                                env::sleep(Duration::from_millis(random.below(DISABLED_MS_MAX))).await;
                            }
                        }
                    }
                    3 | 4 => {
                        self.begin_removal(ExpectedState::Readable);
                        if self.truncate_regions(&admin).await {
                            env::sometimes("churn: all regions of a table were truncated");
                            self.end_removal();
                        } else {
                            env::sometimes("churn: a truncation of regions failed");
                        }
                    }
                    5 => {
                        let read = scene.begin_read();
                        let there = self.rows.lock().clone();
                        if let Ok(found) = rows.scan(Scan::new()).collect().await
                            && let Err(words) = self.check(&found, &there, from)
                            && !scene.may_be_stale(read)
                        {
                            scene.fail(format!("churn: {words}"));
                        }
                    }
                    _ => self.put(&puts, &mut random).await,
                },
            }
        }
    }

    /// Deletes a table whose last change has no known outcome, and makes it again. Both must succeed, and the new table has
    /// no rows of the old one.
    async fn judge_interrupted(&self, scene: &Scene, cluster: &Cluster) -> Result<(), Complaint> {
        let (admin, name) = (cluster.admin(), self.table.name());
        self.begin_removal(ExpectedState::Unknown);
        remove_interrupted(scene, &admin, name).await?;
        admin.create_table(&self.table, &self.splits).await.map_err(|error| {
            Complaint::Unreadable(format!("churn: the table cannot be made again: {error}"))
        })?;
        self.end_removal();
        let found = cluster.table("churn").expect("a name").scan(Scan::new()).collect().await;
        let found = found.map_err(|error| {
            Complaint::Unreadable(format!("churn: the table that was made again cannot be read: {error}"))
        })?;
        env::sometimes("churn: a table without a known outcome was made again");
        let from = self.last.load(Ordering::Acquire);
        self.check(&found, &BTreeSet::new(), from)
            .map_err(|words| Complaint::Wrong(format!("churn: {words}")))
    }

    /// Draws what is done next with a table that is there.
    fn draw_act(&self, random: &mut Random) -> u64 {
        match random.below(10) {
            0 | 1 | 3 | 4 if self.lasts => PUT,
            act => act,
        }
    }

    /// Truncates all regions of the table. Returns false if some may not be truncated.
    async fn truncate_regions(&self, admin: &Admin) -> bool {
        let Ok(mut regions) = admin.regions(self.table.name()).await else { return false };
        regions.sort_by(|left, right| left.region.start_key().cmp(right.region.start_key()));
        // A region may have been split or merged while the list was read. Then the regions in the list do not follow
        // each other.
        let mut next = Some(Bytes::new());
        for location in &regions {
            if next.as_ref() != Some(location.region.start_key()) {
                return false;
            }
            next = Some(location.region.end_key().clone()).filter(|end| !end.is_empty());
        }
        for location in &regions {
            if admin.truncate_region(&location.region).await.is_err() {
                return false;
            }
        }
        next.is_none()
    }

    fn check(&self, found: &[client::Row], there: &BTreeSet<u64>, from: u64) -> Result<(), String> {
        let found: Vec<u64> =
            found.iter().filter_map(|row| row.number("f", "q")).map(|number| number as u64).collect();
        if let Some(old) = found.iter().find(|number| **number <= from && !self.late.lock().contains(number))
        {
            return Err(format!("row {old} is from before the table was made again, after {from}"));
        }
        match there.iter().find(|number| !found.contains(number)) {
            Some(lost) => Err(format!("row {lost} was acknowledged and is missing")),
            None => Ok(()),
        }
    }
}

impl Workload for Churn {
    fn name(&self) -> &'static str {
        "churn"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        Vec::new()
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let client = Arc::clone(&self).client(scene.clone());
        vec![Box::pin(client), Box::pin(self.writer(scene.clone()))]
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let cluster = scene.client(Duration::from_secs(120));
            let known = self.known.lock().clone();
            if let ExpectedState::Unknown = known {
                return self.judge_interrupted(&scene, &cluster).await;
            }
            let exists = cluster.admin().table_exists(self.table.name()).await;
            let exists = exists.map_err(|error| {
                Complaint::Unreadable(format!("churn: nobody says whether the table is there: {error}"))
            })?;
            match &known {
                ExpectedState::Unknown => unreachable!("it has a judge of its own"),
                ExpectedState::Absent if exists => {
                    Err(Complaint::Wrong("churn: a table is there that was deleted".to_owned()))
                }
                ExpectedState::Absent => Ok(()),
                ExpectedState::Present { .. } | ExpectedState::Disabled { .. } | ExpectedState::Readable
                    if !exists =>
                {
                    Err(Complaint::Wrong("churn: a table is gone that was made".to_owned()))
                }
                ExpectedState::Present { .. } | ExpectedState::Disabled { .. } | ExpectedState::Readable => {
                    if let ExpectedState::Disabled { .. } = known {
                        // If enabling fails, reading the table fails, too, and is reported.
                        let _either = cluster.admin().enable_table(self.table.name()).await;
                    }
                    let table = cluster.table("churn").expect("a name");
                    let found = table.scan(Scan::new()).collect().await;
                    let found = found.map_err(|error| {
                        Complaint::Unreadable(format!("churn: the table cannot be read: {error}"))
                    })?;
                    let (ExpectedState::Present { from } | ExpectedState::Disabled { from }) = known else {
                        return Ok(());
                    };
                    let rows = self.rows.lock().clone();
                    self.check(&found, &rows, from)
                        .map_err(|words| Complaint::Wrong(format!("churn: {words}")))
                }
            }
        })
    }
}
