//! Clients increment counters and retry with the same nonce: each increment counts once, even if its answers are lost.
//! In the end a counter is at least the acknowledged sum, and at most the sum of all increments that may have happened.
//! In a run whose faults let the server forget nonces, an increment may count once for each process during its call.
//!
//! Some runs take *turns*: for a while the counters are incremented, and in-memory compaction keeps them small. Then the
//! counters rest, and other rows fill the memstore, so the region is flushed by size and may retain the counters in
//! memory. Their last increments must survive a crash that comes before the next flush.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::{Action, Get, Increment, Put, Row};
use proto::{FamilyDescriptor, TableDescriptor};

use super::{Complaint, Job, Scene, Verdict, Workload, stir, table};
use crate::random::Random;

const TABLE: &str = "counters";
/// Number of counters in a run with turns: they are more than a sixteenth of a small memstore.
const COUNTERS_WITH_TURNS: u64 = 24;
/// Maximum number of rows in a turn.
const TURN_ROWS_MAX: u64 = 100;
/// Maximum time of the counters' turn, and of the rest after the turn of other rows, in ms.
const TURN_MS_MAX: u64 = 4_000;
/// Number of different rows that turns write.
const TURN_KEYS: u64 = 10_000;

#[derive(Default)]
struct Sum {
    acknowledged: AtomicI64,
    unknown: AtomicI64,
    /// The greatest value in an answer. A counter only grows.
    seen: AtomicI64,
}

impl Sum {
    fn least(&self) -> i64 {
        self.acknowledged.load(Ordering::Acquire).max(self.seen.load(Ordering::Acquire))
    }
}

/// The workload; see the module documentation.
pub(super) struct Counters {
    table: TableDescriptor,
    clients: u64,
    sums: Vec<Sum>,
    has_turns: bool,
    /// Whether the counters rest, because it is the turn of other rows.
    is_resting: AtomicBool,
}

/// An increment that is sent.
struct Drawn {
    /// The counter.
    at: usize,
    by: i64,
    /// The least value that the counter had before.
    least: i64,
}

impl Counters {
    /// Draws the options; `has_turns` says that the run has turns in any case.
    pub(super) fn new(random: &mut Random, has_turns: bool) -> Counters {
        let mut table = table(TABLE, &["f"], random);
        let clients = 1 + random.below(4);
        let counters = 1 + random.below(8);
        let has_turns = random.one_in(3) || has_turns;
        if has_turns {
            // Only a family that keeps one version retains rows in memory.
            let family = FamilyDescriptor::new("f".to_owned()).expect("a name");
            table.set_family(family.with("VERSIONS", 1));
        }
        let (clients, counters) =
            if has_turns { (2 + clients, COUNTERS_WITH_TURNS) } else { (clients, counters) };
        let sums = (0..counters).map(|_| Sum::default()).collect();
        Counters { table, clients, sums, has_turns, is_resting: AtomicBool::new(false) }
    }

    /// Writes the rows of turns.
    async fn fill(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::ZERO).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            self.is_resting.store(false, Ordering::Release);
            env::sleep(Duration::from_millis(random.below(TURN_MS_MAX))).await;
            self.is_resting.store(true, Ordering::Release);
            for _ in 0..random.below(TURN_ROWS_MAX) {
                let value = vec![b'x'; random.spread(10, 1_000) as usize];
                let row = format!("x{}", random.below(TURN_KEYS));
                if table.put(Put::row(row).set("f", "q", value)).await.is_err() {
                    break;
                }
            }
            env::sometimes("counters: a turn of other rows was written");
            env::sleep(Duration::from_millis(random.below(TURN_MS_MAX))).await;
        }
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(15)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            scene.pause(&mut random, 200).await;
            if self.is_resting.load(Ordering::Acquire) {
                continue;
            }
            let first = random.below(self.sums.len() as u64) as usize;
            // A request with several increments claims its nonces elsewhere than one with a single increment does.
            let is_batch = random.one_in(4);
            let wanted = if is_batch { 1 + random.below(3) as usize } else { 1 };
            let drawn: Vec<Drawn> = (0..wanted.min(self.sums.len()))
                .map(|next| {
                    let at = (first + next) % self.sums.len();
                    Drawn { at, by: 1 + random.below(1_000) as i64, least: self.sums[at].least() }
                })
                .collect();
            let increments =
                drawn.iter().map(|Drawn { at, by, .. }| Increment::row(format!("c{at}")).add("f", "q", *by));
            let life = scene.life();
            let answers: Vec<client::Result<Row>> = if is_batch {
                let answers = table.batch(increments.map(Action::from).collect()).await;
                answers.into_iter().map(|answer| answer.map(|outcome| outcome.row)).collect()
            } else {
                let mut answers = Vec::new();
                for increment in increments {
                    answers.push(table.increment(increment).await);
                }
                answers
            };
            let repeats = (scene.life() - life) as i64;
            for (drawn, answer) in drawn.iter().zip(answers) {
                if is_batch && answer.is_ok() {
                    env::sometimes("counters: an increment of a batch");
                }
                self.note(&scene, drawn, repeats, answer);
            }
        }
    }

    /// Records the answer to an increment, during which `repeats` processes of the server ended.
    fn note(&self, scene: &Scene, drawn: &Drawn, repeats: i64, answer: client::Result<Row>) {
        let Drawn { at, by, least } = *drawn;
        let sum = &self.sums[at];
        if repeats > 0 && !scene.keeps_nonces() {
            env::sometimes("counters: an increment that lasted longer than a process of the server");
            sum.unknown.fetch_add(repeats * by, Ordering::AcqRel);
        }
        match answer {
            Ok(row) => {
                sum.acknowledged.fetch_add(by, Ordering::AcqRel);
                match row.number("f", "q") {
                    Some(now) if now >= least + by => drop(sum.seen.fetch_max(now, Ordering::AcqRel)),
                    now => scene.fail(format!(
                        "counters: c{at} answers {now:?} to an increment by {by}, where {least} was acknowledged before"
                    )),
                }
            }
            Err(_) => {
                env::sometimes("counters: an increment whose outcome nobody knows");
                sum.unknown.fetch_add(by, Ordering::AcqRel);
            }
        }
    }
}

impl Workload for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        vec![(self.table.clone(), Vec::new())]
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let mut all: Vec<Job<()>> =
            (0..self.clients).map(|_| Box::pin(Arc::clone(&self).client(scene.clone())) as Job<()>).collect();
        // In a run with turns no flush is requested, because a requested flush retains nothing in memory.
        all.push(match self.has_turns {
            true => Box::pin(Arc::clone(&self).fill(scene.clone())),
            false => stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name")),
        });
        all
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let table = scene.client(Duration::from_secs(120)).table(TABLE).expect("a name");
            for (at, sum) in self.sums.iter().enumerate() {
                let row = table.get(Get::row(format!("c{at}"))).await;
                let row = row.map_err(|error| {
                    Complaint::Unreadable(format!("counters: c{at} cannot be read: {error}"))
                })?;
                let found = row.number("f", "q").unwrap_or(0);
                let least = sum.least();
                let most = sum.acknowledged.load(Ordering::Acquire) + sum.unknown.load(Ordering::Acquire);
                if !(least..=most).contains(&found) {
                    return Err(
                        format!("counters: c{at} is {found}, between {least} and {most} expected").into()
                    );
                }
            }
            Ok(())
        })
    }
}
