//! A table whose families change while it is written and read: one family comes and goes, another gets other
//! attributes. Rows of the family that stays are never lost. A family that was added again has no rows of the previous
//! one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::{Admin, Put, Row, Scan};
use parking_lot::Mutex;
use proto::{FamilyDescriptor, TableDescriptor};

use super::{Complaint, DELETIONS_MAX, Job, Scene, Verdict, Workload, splits, stir, table};
use crate::random::Random;

const TABLE: &str = "families";
/// The family that stays.
const KEPT: &str = "f";
/// The family that comes and goes.
const PASSING: &str = "x";

/// The expected state of the family that comes and goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Passing {
    Absent,
    /// It has at least these rows, and none whose number is less than `from`.
    Present {
        rows: Vec<u64>,
        from: u64,
    },
    /// A change has failed.
    Unknown,
}

/// What the client knows of the table.
#[derive(Clone, Debug)]
struct Known {
    /// The numbers of the rows that the other family has at least.
    kept: Vec<u64>,
    passing: Passing,
}

/// The workload; see the module documentation.
pub(super) struct Families {
    /// The table with both families.
    table: TableDescriptor,
    splits: Vec<Bytes>,
    known: Mutex<Known>,
    /// The numbers of rows whose puts into the passing family were not acknowledged: they may arrive late.
    late: Mutex<BTreeSet<u64>>,
    /// The number of the last row.
    last: AtomicU64,
    /// Counts the beginnings and ends of changes of the passing family. It is odd during a change.
    changes: AtomicU64,
    seed: u64,
}

impl Families {
    pub(super) fn new(random: &mut Random) -> Families {
        Families {
            table: table(TABLE, &[KEPT, PASSING], random),
            splits: splits(random),
            known: Mutex::new(Known {
                kept: Vec::new(),
                passing: Passing::Present { rows: Vec::new(), from: 0 },
            }),
            late: Mutex::default(),
            last: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            seed: random.bits(),
        }
    }

    fn family(&self, name: &str) -> FamilyDescriptor {
        self.table.family(name.as_bytes()).expect("it was made").clone()
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let cluster = scene.client(Duration::from_secs(20));
        let (admin, rows) = (cluster.admin(), cluster.table(TABLE).expect("a name"));
        // Puts into the passing family are not repeated. An earlier attempt could otherwise arrive after the family was
        // added again, although the put was acknowledged.
        let once = scene.client(Duration::ZERO).table(TABLE).expect("a name");
        let mut random = Random::new(self.seed);
        while !scene.is_over() {
            scene.pause(&mut random, 1_000).await;
            match random.below(12) {
                0 => {
                    self.changes.fetch_add(1, Ordering::AcqRel);
                    self.change(&admin).await;
                    self.changes.fetch_add(1, Ordering::AcqRel);
                }
                1 => {
                    let sizes = [1 << 10, 4 << 10, 16 << 10];
                    let family = self
                        .family(KEPT)
                        .with("BLOCKSIZE", random.choose(&sizes))
                        .with("DATA_BLOCK_ENCODING", random.choose(&["NONE", "DIFF", "ROW_INDEX_V1"]))
                        .with("IN_MEMORY_COMPACTION", random.choose(&["NONE", "BASIC", "ADAPTIVE"]));
                    if admin.modify_family(self.table.name(), &family).await.is_ok() {
                        env::sometimes("families: a family was changed");
                    }
                }
                2 | 3 => {
                    let (known, read) = (self.known.lock().clone(), scene.begin_read());
                    if let Ok(found) = rows.scan(Scan::new()).collect().await
                        && let Err(words) = self.check(&found, &known)
                        && !scene.may_be_stale(read)
                    {
                        scene.fail(format!("families: {words}"));
                    }
                }
                act => {
                    let next = self.last.fetch_add(1, Ordering::AcqRel) + 1;
                    let put = |family| {
                        let key = format!("{}{next}", ["1", "6", "b", "k", "v"][next as usize % 5]);
                        Put::row(key).set(family, "q", next.to_be_bytes().to_vec())
                    };
                    if act < 8 {
                        if rows.put(put(KEPT)).await.is_ok() {
                            self.known.lock().kept.push(next);
                        }
                    } else {
                        self.late.lock().insert(next);
                        if once.put(put(PASSING)).await.is_ok() {
                            self.late.lock().remove(&next);
                            if let Passing::Present { rows, .. } = &mut self.known.lock().passing {
                                rows.push(next);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Writes rows of the passing family while the other client changes it. Such a row may be in the family before a
    /// change or in the one after it, if the change began or ended meanwhile.
    async fn writer(self: Arc<Self>, scene: Scene) {
        let once = scene.client(Duration::ZERO).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            scene.pause(&mut random, 300).await;
            let changes = self.changes.load(Ordering::Acquire);
            let number = self.last.fetch_add(1, Ordering::AcqRel) + 1;
            self.late.lock().insert(number);
            let key = format!("{}{number}", ["1", "6", "b", "k", "v"][number as usize % 5]);
            let put = Put::row(key).set(PASSING, "q", number.to_be_bytes().to_vec());
            if once.put(put).await.is_err() {
                continue;
            }
            if self.changes.load(Ordering::Acquire) != changes || changes % 2 == 1 {
                env::sometimes("families: a row was written during a change of its family");
                continue;
            }
            self.late.lock().remove(&number);
            if let Passing::Present { rows, .. } = &mut self.known.lock().passing {
                rows.push(number);
            }
        }
    }

    /// Removes the passing family, or adds it again.
    async fn change(&self, admin: &Admin) {
        let name = self.table.name();
        let known = std::mem::replace(&mut self.known.lock().passing, Passing::Unknown);
        let is_there = match known {
            Passing::Absent => false,
            Passing::Present { .. } => true,
            // The failed change may still be under way. Only a later change that succeeds proves that it is not.
            Passing::Unknown => match admin.describe_table(name).await {
                Ok(Some(table)) => table.family(PASSING.as_bytes()).is_some(),
                Ok(None) | Err(_) => return,
            },
        };
        let passing = if is_there {
            if admin.delete_family(name, PASSING).await.is_err() {
                return;
            }
            env::sometimes("families: a family was removed");
            Passing::Absent
        } else {
            if admin.add_family(name, &self.family(PASSING)).await.is_err() {
                return;
            }
            env::sometimes("families: a family was added");
            // Each later row has a greater number. An earlier one that may arrive now is among the late ones.
            Passing::Present { rows: Vec::new(), from: self.last.load(Ordering::Acquire) }
        };
        self.known.lock().passing = passing;
    }

    fn check(&self, found: &[Row], known: &Known) -> Result<(), String> {
        let numbers = |family: &str| -> BTreeSet<u64> {
            found.iter().filter_map(|row| row.number(family, "q")).map(|number| number as u64).collect()
        };
        let kept = numbers(KEPT);
        if let Some(lost) = known.kept.iter().find(|number| !kept.contains(number)) {
            return Err(format!("row {lost} of the family that stays was acknowledged and is missing"));
        }
        let passing = numbers(PASSING);
        match &known.passing {
            Passing::Unknown => Ok(()),
            Passing::Absent => match passing.first() {
                Some(number) => Err(format!("row {number} is in a family that was removed")),
                None => Ok(()),
            },
            Passing::Present { rows, from } => {
                let late = self.late.lock();
                if let Some(old) = passing.iter().find(|number| **number <= *from && !late.contains(number)) {
                    return Err(format!("row {old} is from before the family was added, after {from}"));
                }
                match rows.iter().find(|number| !passing.contains(number)) {
                    Some(lost) => Err(format!("row {lost} was acknowledged and is missing")),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Workload for Families {
    fn name(&self) -> &'static str {
        "families"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        vec![(self.table.clone(), self.splits.clone())]
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let stirring = stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name"));
        let writer = Box::pin(Arc::clone(&self).writer(scene.clone()));
        vec![Box::pin(Arc::clone(&self).client(scene.clone())), writer, stirring]
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let table = scene.client(Duration::from_secs(120)).table(TABLE).expect("a name");
            let found = table.scan(Scan::new()).collect().await.map_err(|error| {
                Complaint::Unreadable(format!("families: the table cannot be read: {error}"))
            })?;
            let known = self.known.lock().clone();
            self.check(&found, &known).map_err(|words| Complaint::Wrong(format!("families: {words}")))?;
            if !matches!(known.passing, Passing::Unknown) {
                return Ok(());
            }
            // The change without an outcome ends without help, and then the next one succeeds.
            let admin = scene.client(Duration::from_secs(120)).admin();
            for _ in 0..DELETIONS_MAX {
                self.change(&admin).await;
                if !matches!(self.known.lock().passing, Passing::Unknown) {
                    env::sometimes("families: a change followed one without an outcome");
                    return Ok(());
                }
                env::sleep(Duration::from_secs(5)).await;
            }
            let state = admin.table_state(self.table.name()).await;
            Err(Complaint::Unreadable(format!(
                "families: the table cannot be changed any more: state {state:?}"
            )))
        })
    }
}
