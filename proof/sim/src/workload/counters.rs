//! Clients increment counters and retry with the same nonce: each increment counts once, even if its answers are lost.
//! In the end a counter is at least the acknowledged sum, and at most the sum of all increments that may have happened.
//! An increment may count once for each process of the server during its call.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::{Get, Increment};
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, stir, table};
use crate::random::Random;

const TABLE: &str = "counters";

#[derive(Default)]
struct Sum {
    acknowledged: AtomicI64,
    unknown: AtomicI64,
}

/// The workload; see the module documentation.
pub(super) struct Counters {
    table: TableDescriptor,
    clients: u64,
    sums: Vec<Sum>,
}

impl Counters {
    pub(super) fn new(random: &mut Random) -> Counters {
        Counters {
            table: table(TABLE, &["f"], random),
            clients: 1 + random.below(4),
            sums: (0..1 + random.below(8)).map(|_| Sum::default()).collect(),
        }
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(15)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let at = random.below(self.sums.len() as u64) as usize;
            let by = 1 + random.below(1_000) as i64;
            let sum = &self.sums[at];
            let least = sum.acknowledged.load(Ordering::Acquire);
            let life = scene.life();
            let answer = table.increment(Increment::row(format!("c{at}")).add("f", "q", by)).await;
            let repeats = (scene.life() - life) as i64;
            if repeats > 0 {
                env::sometimes("counters: an increment that lasted longer than a process of the server");
                sum.unknown.fetch_add(repeats * by, Ordering::AcqRel);
            }
            match answer {
                Ok(row) => {
                    sum.acknowledged.fetch_add(by, Ordering::AcqRel);
                    match row.number("f", "q") {
                        Some(now) if now >= least + by => {}
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
            scene.pause(&mut random, 200).await;
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
        all.push(stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name")));
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
                let least = sum.acknowledged.load(Ordering::Acquire);
                let most = least + sum.unknown.load(Ordering::Acquire);
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
