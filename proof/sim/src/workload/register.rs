//! Registers: rows with one value, which concurrent clients read, set, compare and set, increment, append to and
//! delete. The judge looks for an order that explains all answers (`model::linear`).
//!
//! Clients do not retry, because an operation that takes effect twice has no single moment. An operation without an
//! answer may have happened, or happen later.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Append, CheckAndMutate, Delete, Get, Increment, Put, Table};
use model::linear::{self, Answer, Entry, Operation, State};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, splits, stir, table};
use crate::random::Random;

const TABLE: &str = "registers";
/// Maximum number of operations on a row; then its clients go on with a new row. More make the judge slow.
const OPERATIONS_MAX: usize = 120;
/// Maximum number of operations without an answer on a row. Each may have happened at any later time, so the judge's
/// work grows exponentially with them.
const UNKNOWN_MAX: usize = 8;

/// The workload; see the module documentation.
pub(super) struct Registers {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    clients: u64,
    /// The histories of the rows that follow each other in one place; the last one is written to.
    places: Vec<Mutex<Vec<History>>>,
}

/// The operations on a row.
#[derive(Clone)]
struct History {
    row: String,
    entries: Vec<Entry>,
}

impl History {
    fn is_full(&self) -> bool {
        let unknown = self.entries.iter().filter(|entry| entry.returned.is_none()).count();
        self.entries.len() >= OPERATIONS_MAX || unknown >= UNKNOWN_MAX
    }
}

impl Registers {
    pub(super) fn new(random: &mut Random) -> Registers {
        let rows: Vec<String> = (0..1 + random.below(6))
            .map(|row| format!("{}{row}", random.choose(&["a", "g", "m", "t"])))
            .collect();
        let mut table = table(TABLE, &["f"], random);
        // With NEW_VERSION_BEHAVIOR the later of two writes wins, even within one millisecond.
        let family = table.family(b"f").expect("it was made").clone();
        table.set_family(family.with("NEW_VERSION_BEHAVIOR", true));
        Registers {
            table,
            splits: splits(random),
            clients: 2 + random.below(4),
            places: rows
                .into_iter()
                .map(|row| Mutex::new(vec![History { row, entries: Vec::new() }]))
                .collect(),
        }
    }

    async fn act(table: &Table, row: &str, operation: &Operation) -> client::Result<Answer> {
        let (row, f, q) = (row.to_owned(), "f", "q");
        let value = |row: &client::Row| row.value(f, q).map(<[u8]>::to_vec);
        Ok(match operation {
            Operation::Put(new) => {
                table.put(Put::row(row).set(f, q, new.clone())).await?;
                Answer::Done
            }
            Operation::Delete => {
                table.delete(Delete::row(row).family(f)).await?;
                Answer::Done
            }
            Operation::Get => Answer::Value(value(&table.get(Get::row(row)).await?)),
            Operation::Increment(by) => {
                Answer::Value(value(&table.increment(Increment::row(row).add(f, q, *by)).await?))
            }
            Operation::Append(more) => {
                Answer::Value(value(&table.append(Append::row(row).add(f, q, more.clone())).await?))
            }
            Operation::CheckAndPut(expected, new) => {
                let check = CheckAndMutate::column(row.clone(), f, q);
                let check = match expected {
                    Some(expected) => check.equals(expected.clone()),
                    None => check,
                };
                let (passed, _) =
                    table.check_and_mutate(check.then(Put::row(row).set(f, q, new.clone()))).await?;
                Answer::Passed(passed)
            }
        })
    }

    /// Returns the number and the name of the row that is written to in a place.
    fn current(&self, at: usize) -> (usize, String) {
        let mut histories = self.places[at].lock();
        if histories.last().is_some_and(History::is_full) {
            env::sometimes("registers: a full history was followed by another row");
            let row = format!("{}.{}", histories[0].row, histories.len());
            histories.push(History { row, entries: Vec::new() });
        }
        let last = histories.len() - 1;
        (last, histories[last].row.clone())
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::ZERO).table(TABLE).expect("a name");
        let mut random = scene.random();
        let mut known: Vec<(usize, State)> = vec![(0, None); self.places.len()];
        while !scene.is_over() {
            let at = random.below(self.places.len() as u64) as usize;
            let (generation, row) = self.current(at);
            if known[at].0 != generation {
                known[at] = (generation, None);
            }
            // All values are numbers of eight bytes, so that every operation is valid in every state.
            let number = (random.bits() >> 1).to_be_bytes().to_vec();
            let draw = match random.below(12) {
                // A put or delete whose timestamp is older than that of the value would change nothing. So another
                // operation is made.
                0..=2 | 11 if scene.clock_steps_back() => 6,
                draw => draw,
            };
            let operation = match draw {
                0..=2 => Operation::Put(number),
                3..=5 => Operation::Get,
                6..=8 => Operation::CheckAndPut(known[at].1.clone(), number),
                9..=10 => Operation::Increment(1 + random.below(9) as i64),
                _ => Operation::Delete,
            };
            let index = {
                let mut histories = self.places[at].lock();
                let entries = &mut histories[generation].entries;
                entries.push(Entry { called: scene.turn(), returned: None, operation: operation.clone() });
                entries.len() - 1
            };
            let read = scene.begin_read();
            match Registers::act(&table, &row, &operation).await {
                // Nothing was written, so the answer may be old.
                Ok(Answer::Value(_)) if operation == Operation::Get && scene.may_be_stale(read) => {}
                Ok(Answer::Passed(false)) if scene.may_be_stale(read) => {}
                Ok(answer) => {
                    known[at].1 = match (&operation, &answer) {
                        (Operation::Put(new), _) => Some(new.clone()),
                        (Operation::CheckAndPut(_, new), Answer::Passed(true)) => Some(new.clone()),
                        (_, Answer::Value(value)) => value.clone(),
                        (Operation::Delete, _) => None,
                        _ => known[at].1.clone(),
                    };
                    let mut histories = self.places[at].lock();
                    histories[generation].entries[index].returned = Some((scene.turn(), answer));
                }
                // The operation may have happened. Some errors say that it did not; the judge could use that and would
                // be stricter.
                Err(_) => scene.pause(&mut random, 500).await,
            }
            scene.pause(&mut random, 200).await;
        }
    }
}

impl Workload for Registers {
    fn name(&self) -> &'static str {
        "registers"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        vec![(self.table.clone(), self.splits.clone())]
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
            let histories: Vec<History> = self.places.iter().flat_map(|place| place.lock().clone()).collect();
            for History { row, entries: mut history } in histories {
                let called = scene.turn();
                let last = Registers::act(&table, &row, &Operation::Get).await;
                let last = last.map_err(|error| {
                    Complaint::Unreadable(format!("registers: row {row} cannot be read: {error}"))
                })?;
                history.push(Entry {
                    called,
                    returned: Some((scene.turn(), last)),
                    operation: Operation::Get,
                });
                if history.iter().filter(|entry| entry.returned.is_some()).count() > 20 {
                    env::sometimes("registers: a history of more than 20 answers");
                }
                linear::check(&history)
                    .map_err(|refused| Complaint::Wrong(format!("registers: row {row}: {refused}")))?;
            }
            Ok(())
        })
    }
}
