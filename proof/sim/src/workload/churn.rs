//! Tables are created, written to, disabled, truncated and deleted. Acknowledged rows stay until the next change
//! begins; a table that was created again has no rows of the previous one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Put, Scan};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, splits, table};
use crate::random::Random;

/// The expected state of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ExpectedState {
    /// The table does not exist.
    Absent,
    /// The table exists with at least these rows, and with none whose number is less than `from`.
    Present { rows: Vec<u64>, from: u64 },
    /// The state is unknown, because a change has failed.
    Unknown,
}

/// The workload; see the module documentation.
pub(super) struct Churn {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    known: Mutex<ExpectedState>,
    seed: u64,
}

impl Churn {
    pub(super) fn new(random: &mut Random) -> Churn {
        Churn {
            table: table("churn", &["f"], random),
            splits: splits(random),
            known: Mutex::new(ExpectedState::Absent),
            seed: random.bits(),
        }
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let cluster = scene.client(Duration::from_secs(20));
        let (admin, rows) = (cluster.admin(), cluster.table("churn").expect("a name"));
        let name = self.table.name().clone();
        let mut random = Random::new(self.seed);
        let mut next = 0;
        while !scene.is_over() {
            scene.pause(&mut random, 2_000).await;
            let known = self.known.lock().clone();
            match known {
                ExpectedState::Unknown => {
                    // The client continues from the state that it finds.
                    match admin.table_exists(&name).await {
                        Ok(true) => {
                            let _either = admin.disable_table(&name).await;
                            if admin.delete_table(&name).await.is_ok() {
                                *self.known.lock() = ExpectedState::Absent;
                            }
                        }
                        // The failed change may still be under way; only a later one that succeeds proves that it is
                        // not.
                        Ok(false) if admin.create_table(&self.table, &self.splits).await.is_ok() => {
                            *self.known.lock() = ExpectedState::Present { rows: Vec::new(), from: next };
                        }
                        Ok(false) | Err(_) => {}
                    }
                }
                ExpectedState::Absent => {
                    *self.known.lock() = ExpectedState::Unknown;
                    if admin.create_table(&self.table, &self.splits).await.is_ok() {
                        env::sometimes("churn: a table was made");
                        *self.known.lock() = ExpectedState::Present { rows: Vec::new(), from: next };
                    }
                }
                ExpectedState::Present { rows: mut there, from } => match random.below(8) {
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
                        if admin.disable_table(&name).await.is_ok() && admin.enable_table(&name).await.is_ok()
                        {
                            env::sometimes("churn: a table was disabled and enabled");
                            *self.known.lock() = ExpectedState::Present { rows: there, from };
                        }
                    }
                    3 => {
                        if let Ok(found) = rows.scan(Scan::new()).collect().await
                            && let Err(words) = Churn::check(&found, &there, from)
                        {
                            scene.fail(format!("churn: {words}"));
                        }
                    }
                    _ => {
                        next += 1;
                        let key = format!("{}{next}", random.choose(&["1", "6", "b", "k", "v"]));
                        if rows.put(Put::row(key).set("f", "q", next.to_be_bytes().to_vec())).await.is_ok() {
                            there.push(next);
                            *self.known.lock() = ExpectedState::Present { rows: there, from };
                        }
                    }
                },
            }
        }
    }

    fn check(found: &[client::Row], there: &[u64], from: u64) -> Result<(), String> {
        let found: Vec<u64> =
            found.iter().filter_map(|row| row.number("f", "q")).map(|number| number as u64).collect();
        if let Some(old) = found.iter().find(|number| **number <= from) {
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
            match known {
                ExpectedState::Unknown => Ok(()),
                ExpectedState::Absent if exists => {
                    Err(Complaint::Wrong("churn: a table is there that was deleted".to_owned()))
                }
                ExpectedState::Absent => Ok(()),
                ExpectedState::Present { .. } if !exists => {
                    Err(Complaint::Wrong("churn: a table is gone that was made".to_owned()))
                }
                ExpectedState::Present { rows, from } => {
                    let table = cluster.table("churn").expect("a name");
                    let found = table.scan(Scan::new()).collect().await;
                    let found = found.map_err(|error| {
                        Complaint::Unreadable(format!("churn: the table cannot be read: {error}"))
                    })?;
                    Churn::check(&found, &rows, from)
                        .map_err(|words| Complaint::Wrong(format!("churn: {words}")))
                }
            }
        })
    }
}
