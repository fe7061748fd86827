//! Tables are created, written to, disabled, truncated and deleted. Acknowledged rows stay until the next change
//! begins; a table that was created again has no rows of the previous one. A table whose regions were truncated has only
//! later rows, and those whose puts were not acknowledged: they may arrive late.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Admin, Put, Scan};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, enable, splits, table};
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
    /// The table exists with at least these rows, and with none whose number is less than `from`.
    Present { rows: Vec<u64>, from: u64 },
    /// The table was disabled, and enabling it has not succeeded yet. It must be possible, and then the table has what it
    /// had before.
    Disabled { rows: Vec<u64>, from: u64 },
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
    /// The numbers of rows whose puts were not acknowledged.
    late: Mutex<BTreeSet<u64>>,
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
            lasts: random.one_in(3),
            seed: random.bits(),
        }
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let cluster = scene.client(Duration::from_secs(20));
        let (admin, rows) = (cluster.admin(), cluster.table("churn").expect("a name"));
        // Puts are not repeated. An earlier attempt could otherwise arrive after its region was truncated, although the
        // put was acknowledged.
        let puts = scene.client(Duration::ZERO).table("churn").expect("a name");
        let name = self.table.name().clone();
        let mut random = Random::new(self.seed);
        let mut next = 0;
        while !scene.is_over() {
            scene.pause(&mut random, 2_000).await;
            let known = self.known.lock().clone();
            match known {
                ExpectedState::Unknown => {
                    // After an interruption the client continues from the state in which it finds the table.
                    match admin.table_exists(&name).await {
                        Ok(true) => {
                            let _either = admin.disable_table(&name).await;
                            if admin.delete_table(&name).await.is_ok() {
                                *self.known.lock() = ExpectedState::Absent;
                            }
                        }
                        // The failed change may still be under way. Only a later change that succeeds proves that it is
                        // not.
                        Ok(false) if admin.create_table(&self.table, &self.splits).await.is_ok() => {
                            *self.known.lock() = ExpectedState::Present { rows: Vec::new(), from: next };
                        }
                        Ok(false) | Err(_) => {}
                    }
                }
                ExpectedState::Disabled { rows, from } => {
                    if enable(&scene, &admin, &name).await {
                        env::sometimes("churn: a table was disabled and enabled");
                        *self.known.lock() = ExpectedState::Present { rows, from };
                    }
                }
                ExpectedState::Readable => {
                    if random.one_in(TURNS_READABLE) {
                        *self.known.lock() = ExpectedState::Unknown;
                    }
                }
                ExpectedState::Absent => {
                    *self.known.lock() = ExpectedState::Unknown;
                    if admin.create_table(&self.table, &self.splits).await.is_ok() {
                        env::sometimes("churn: a table was made");
                        *self.known.lock() = ExpectedState::Present { rows: Vec::new(), from: next };
                    }
                }
                ExpectedState::Present { rows: mut there, from } => match self.draw_act(&mut random) {
                    0 => {
                        *self.known.lock() = ExpectedState::Unknown;
                        if admin.disable_table(&name).await.is_ok() && admin.delete_table(&name).await.is_ok()
                        {
                            env::sometimes("churn: a table was deleted");
                            *self.known.lock() = ExpectedState::Absent;
                        }
                    }
                    1 => {
                        *self.known.lock() = ExpectedState::Unknown;
                        if admin.disable_table(&name).await.is_ok()
                            && admin.truncate_table(&name, true).await.is_ok()
                        {
                            env::sometimes("churn: a table was truncated");
                            *self.known.lock() = ExpectedState::Present { rows: Vec::new(), from: next };
                        }
                    }
                    2 => {
                        *self.known.lock() = ExpectedState::Unknown;
                        if admin.disable_table(&name).await.is_ok() {
                            *self.known.lock() = ExpectedState::Disabled { rows: there, from };
                            if random.one_in(2) {
                                env::sleep(Duration::from_millis(random.below(DISABLED_MS_MAX))).await;
                            }
                        }
                    }
                    3 | 4 => {
                        *self.known.lock() = ExpectedState::Readable;
                        if self.truncate_regions(&admin).await {
                            env::sometimes("churn: all regions of a table were truncated");
                            *self.known.lock() = ExpectedState::Present { rows: Vec::new(), from: next };
                        } else {
                            env::sometimes("churn: a truncation of regions failed");
                        }
                    }
                    5 => {
                        let read = scene.begin_read();
                        if let Ok(found) = rows.scan(Scan::new()).collect().await
                            && let Err(words) = self.check(&found, &there, from)
                            && !scene.may_be_stale(read)
                        {
                            scene.fail(format!("churn: {words}"));
                        }
                    }
                    _ => {
                        next += 1;
                        let key = format!("{}{next}", random.choose(&["1", "6", "b", "k", "v"]));
                        self.late.lock().insert(next);
                        if puts.put(Put::row(key).set("f", "q", next.to_be_bytes().to_vec())).await.is_ok() {
                            self.late.lock().remove(&next);
                            there.push(next);
                            *self.known.lock() = ExpectedState::Present { rows: there, from };
                        }
                    }
                },
            }
        }
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

    fn check(&self, found: &[client::Row], there: &[u64], from: u64) -> Result<(), String> {
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
        vec![Box::pin(Arc::clone(&self).client(scene.clone()))]
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let cluster = scene.client(Duration::from_secs(120));
            let known = self.known.lock().clone();
            let exists = cluster.admin().table_exists(self.table.name()).await;
            let exists = exists.map_err(|error| {
                Complaint::Unreadable(format!("churn: nobody says whether the table is there: {error}"))
            })?;
            match &known {
                ExpectedState::Unknown => Ok(()),
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
                    let (ExpectedState::Present { rows, from } | ExpectedState::Disabled { rows, from }) =
                        known
                    else {
                        return Ok(());
                    };
                    self.check(&found, &rows, from)
                        .map_err(|words| Complaint::Wrong(format!("churn: {words}")))
                }
            }
        })
    }
}
