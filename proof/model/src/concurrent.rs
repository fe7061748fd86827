//! Concurrent clients on anything that serves rows.
//!
//! - [`record`]: clients read and change a few rows, and each call and return is recorded for [`linear::check`]. Each
//!   row has its value in two columns that are always changed together. A torn row therefore shows a value that nobody
//!   wrote.
//! - [`acid`]: HBase's AcidGuarantees. Writers set all columns of all families of a row to one value, and no get or
//!   scan may see two values in a row.
//!
//! There are three kinds of rows, by the first letter of their names: `r` is put and deleted, `c` incremented, `t`
//! appended to. They are not mixed. An increment or append is never older than the cell that it replaces, so several
//! within a millisecond run ahead of the clock. They would hide a later put with the clock's time, in HBase as here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use env::sync::Mutex;

use crate::linear::{self, Answer, Entry, Operation};
use crate::random::Random;

/// The possible effect of a call without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The call had no effect and will have none.
    DidNotHappen,
    /// The call may have taken effect, or may still do so.
    MayHaveHappened,
}

/// The values of all cells of a row, as [`acid`] sees it.
pub type Values = Vec<Vec<u8>>;

/// A region or server that serves rows.
pub trait Target: Sync {
    /// Runs one operation on both columns of a row, and returns the answer.
    fn act(&self, row: &str, operation: &Operation) -> Result<Answer, Unanswered>;
    /// Sets every column of every family of a row to one value.
    fn write(&self, row: &str, value: &[u8]) -> Result<(), Unanswered>;
    /// Returns the values of a row that [`Target::write`] sets.
    fn read(&self, row: &str) -> Result<Values, Unanswered>;
    /// Returns the values of all such rows.
    fn scan(&self) -> Result<BTreeMap<Vec<u8>, Values>, Unanswered>;
    /// Returns the number of columns that [`Target::write`] sets.
    fn width(&self) -> usize;
}

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Seed of the operations, but not of their interleaving.
    pub seed: u64,
    /// Number of concurrent clients.
    pub clients: u64,
    /// Operations of each client.
    pub operations: u64,
}

/// The rows of a recording.
const ROWS: [&str; 6] = ["r0", "r1", "c0", "c1", "t0", "t1"];

/// The result of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recorded {
    /// Operations that were answered.
    pub answered: u64,
    /// Operations that were not answered and may have happened.
    pub open: u64,
}

/// Lets clients work on new rows, whose names end in `round`, and repeats `meanwhile` until they have ended. Then
/// checks the history of each row. Returns the number of operations, or the history that no order of operations
/// explains.
pub fn record(
    target: &dyn Target,
    load: Load,
    round: u64,
    meanwhile: &mut dyn FnMut(),
) -> Result<Recorded, Box<linear::Refused>> {
    let histories: Vec<Mutex<Vec<Entry>>> = ROWS.iter().map(|_| Mutex::default()).collect();
    let time = AtomicU64::new(1);
    let tick = || time.fetch_add(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..load.clients)
            .map(|client| {
                let (histories, tick) = (&histories, &tick);
                scope.spawn(move || {
                    let mut random = Random(load.seed ^ (round << 32) ^ client);
                    // The last value that this client saw in each row, for choosing checks.
                    let mut seen: Vec<linear::State> = vec![None; ROWS.len()];
                    for number in 0..load.operations {
                        let index = random.below(ROWS.len() as u64) as usize;
                        let fresh = (number * load.clients + client) as i64;
                        let operation = draw(&mut random, ROWS[index], fresh, &seen[index]);
                        let row = format!("{}-{round}", ROWS[index]);
                        let called = tick();
                        let outcome = target.act(&row, &operation);
                        let returned = tick();
                        let entry = match outcome {
                            Ok(answer) => {
                                if let Answer::Value(value) = &answer {
                                    seen[index].clone_from(value);
                                }
                                Entry { called, returned: Some((returned, answer)), operation }
                            }
                            Err(Unanswered::MayHaveHappened) if operation != Operation::Get => {
                                Entry { called, returned: None, operation }
                            }
                            Err(_) => continue,
                        };
                        histories[index].lock().push(entry);
                    }
                })
            })
            .collect();
        while clients.iter().any(|client| !client.is_finished()) {
            meanwhile();
        }
    });
    let mut recorded = Recorded::default();
    for history in histories {
        let history = history.into_inner();
        let open = history.iter().filter(|entry| entry.returned.is_none()).count() as u64;
        recorded.open += open;
        recorded.answered += history.len() as u64 - open;
        linear::check(&history)?;
    }
    Ok(recorded)
}

fn draw(random: &mut Random, row: &str, fresh: i64, seen: &linear::State) -> Operation {
    let number = fresh.to_be_bytes().to_vec();
    let letter = vec![b'a' + (fresh % 26) as u8];
    let value = if row.starts_with('t') { letter.clone() } else { number.clone() };
    match random.below(8) {
        0..=2 => Operation::Get,
        3 | 4 if row.starts_with('r') => Operation::Put(value),
        3 | 4 if row.starts_with('c') => Operation::Increment(1 + fresh % 3),
        3 | 4 => Operation::Append(letter),
        5 if random.once_in(2) => Operation::Delete,
        _ => Operation::CheckAndPut(seen.clone(), value),
    }
}

/// A torn row: two values in one.
#[derive(Debug, thiserror::Error)]
#[error("row {row} is torn: {values:?} where {width} times the same should be")]
pub struct Torn {
    /// The row.
    pub row: String,
    /// The distinct values of the row, and the number of cells with each.
    pub values: BTreeMap<Vec<u8>, usize>,
    /// The number of columns.
    pub width: usize,
}

fn whole(row: &[u8], values: &Values, width: usize) -> Result<(), Box<Torn>> {
    // Before its first write a row is empty.
    if values.is_empty() || (values.len() == width && values.iter().all(|value| *value == values[0])) {
        return Ok(());
    }
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value.clone()).or_default() += 1;
    }
    Err(Box::new(Torn { row: row.escape_ascii().to_string(), values: counts, width }))
}

/// The result of an [`acid`] run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acid {
    /// Rows written.
    pub written: u64,
    /// Complete rows returned by gets.
    pub got: u64,
    /// Complete rows returned by scans.
    pub scanned: u64,
}

const ACID_ROWS: u64 = 8;

/// Runs writers, one getter for each writer, and one scanner at the same time, and repeats `meanwhile`, until each
/// writer has done its operations. Returns how many rows were written and read, or the first torn row.
pub fn acid(target: &dyn Target, load: Load, meanwhile: &mut dyn FnMut()) -> Result<Acid, Box<Torn>> {
    let done = AtomicBool::new(false);
    let (done, width) = (&done, target.width());
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..load.clients)
            .map(|client| {
                scope.spawn(move || {
                    let mut random = Random(load.seed ^ client);
                    let mut written = 0;
                    for number in 0..load.operations {
                        let row = format!("row{}", random.below(ACID_ROWS));
                        let value = format!("{client}-{number}");
                        written += u64::from(target.write(&row, value.as_bytes()).is_ok());
                    }
                    written
                })
            })
            .collect();
        let getters: Vec<_> = (0..load.clients)
            .map(|client| {
                scope.spawn(move || {
                    let mut random = Random(!load.seed ^ client);
                    let mut got = 0;
                    while !done.load(Ordering::Acquire) {
                        let row = format!("row{}", random.below(ACID_ROWS));
                        if let Ok(values) = target.read(&row) {
                            whole(row.as_bytes(), &values, width)?;
                            got += u64::from(!values.is_empty());
                        }
                    }
                    Ok::<u64, Box<Torn>>(got)
                })
            })
            .collect();
        let scanner = scope.spawn(move || {
            let mut scanned = 0;
            while !done.load(Ordering::Acquire) {
                for (row, values) in target.scan().unwrap_or_default() {
                    whole(&row, &values, width)?;
                    scanned += 1;
                }
            }
            Ok::<u64, Box<Torn>>(scanned)
        });
        while writers.iter().any(|writer| !writer.is_finished()) {
            meanwhile();
        }
        done.store(true, Ordering::Release);
        let mut acid = Acid::default();
        for writer in writers {
            acid.written += writer.join().expect("no panic");
        }
        for getter in getters {
            acid.got += getter.join().expect("no panic")?;
        }
        acid.scanned = scanner.join().expect("no panic")?;
        Ok(acid)
    })
}
