//! A writer: makes one change after the other, of every kind, to rows of its own.
//!
//! It records each change in the ledger before it is sent and after it was acknowledged, with the whole content of the
//! row. It compares what an operation returns with the expected result.

use std::sync::Arc;

use bytes::Bytes;
use client::{
    Action, Append, CheckAndMutate, Cluster, Delete, Durability, Error, Increment, Put, RowMutations, Table,
};
use env::World;

use crate::WRITERS;
use crate::ledger::{Columns, Fate, Ledger};

/// The name of the table.
pub(crate) const TABLE: &str = "crash";
/// Number of counters to which all writers add.
pub(crate) const SHARED: u64 = 3;
/// Number of rows of each kind that a writer has.
const ROWS: u64 = 12;
/// Number of rows of each kind whose columns a writer always changes together.
pub(crate) const ATOMIC: u64 = 6;
/// Size of an appended value, in bytes, above which the writer replaces it by a new one.
const APPENDED_MAX: usize = 4_000;

type Done = Result<(), Error>;

/// The writer and its rows.
pub(crate) struct Writer {
    number: u64,
    table: Table,
    ledger: Arc<Ledger>,
    random: World,
}

enum Change {
    Put(Put),
    Delete(Delete),
}

/// Returns the key of a row. The table is split into regions by the first digit of its keys, so rows are in all
/// regions.
pub(crate) fn key(writer: u64, kind: &str, number: u64) -> String {
    let digit = (writer * 7 + number * 11 + kind.len() as u64 * 5) % 16;
    format!("{digit:x}-{kind}-{writer}-{number:02}")
}

fn number_of(columns: &Columns, column: &str) -> i64 {
    columns.get(column).and_then(|value| value[..].try_into().ok()).map_or(0, i64::from_be_bytes)
}

fn bytes_of(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

impl Writer {
    pub(crate) fn new(number: u64, cluster: &Cluster, ledger: &Arc<Ledger>, random: World) -> Writer {
        let table = cluster.table(TABLE).expect("a good name");
        Writer { number, table, ledger: Arc::clone(ledger), random }
    }

    fn below(&self, limit: u64) -> u64 {
        self.random.random() % limit
    }

    /// Returns a text that begins with `tick` and is long enough to fill memstores, so that they are flushed.
    fn value(&self, tick: i64) -> Bytes {
        let length = match self.below(100) {
            0 => 100_000 + self.below(300_000),
            1..=9 => 5_000 + self.below(10_000),
            _ => 20 + self.below(1_500),
        };
        let mut value = format!("{tick}:").into_bytes();
        while value.len() < length as usize {
            value.extend_from_slice(&self.random.random().to_le_bytes());
        }
        value.into()
    }

    /// Writes until an operation fails, or until answers no longer count.
    pub(crate) async fn run(self) -> Done {
        while !self.ledger.with(|content| content.made) {
            env::sleep(std::time::Duration::from_millis(2)).await;
        }
        while self.ledger.fate() != Fate::Breaks {
            match self.below(9) {
                0 | 1 => self.put_or_delete().await?,
                2 => self.batch().await?,
                3 => self.increment().await?,
                4 => self.add_to_shared().await?,
                5 => self.append().await?,
                6 => self.check_and_put().await?,
                7 => self.refused_check().await?,
                _ => self.several_at_once().await?,
            }
        }
        Ok(())
    }

    /// Returns a random change of a row, with an explicit timestamp: a put of some columns, or a delete of some kind.
    fn change(&self, kind: &str, number: u64) -> (String, Columns, Change) {
        let (row, tick) = (key(self.number, kind, number), self.ledger.tick());
        let mut columns = self.ledger.row(&row);
        let change = match self.below(8) {
            0 => {
                columns.clear();
                Change::Delete(Delete::row(row.clone()).up_to(tick))
            }
            1 => {
                columns.retain(|column, _| !column.starts_with("g:"));
                Change::Delete(Delete::row(row.clone()).family_up_to("g", tick))
            }
            2 => {
                columns.remove("f:a");
                Change::Delete(Delete::row(row.clone()).column_up_to("f", "a", tick))
            }
            _ => {
                let mut put = Put::row(row.clone());
                if self.below(20) == 0 {
                    put = put.durability(Durability::FsyncWal);
                }
                for (family, qualifier) in [("f", "a"), ("f", "b"), ("g", "a"), ("g", "b")] {
                    if self.below(2) == 0 || (family, qualifier) == ("f", "b") {
                        let value = self.value(tick);
                        columns.insert(format!("{family}:{qualifier}"), value.clone());
                        put = put.set_at(family, qualifier, tick, value);
                    }
                }
                Change::Put(put)
            }
        };
        (row, columns, change)
    }

    /// Sends a change of one row in one call.
    async fn put_or_delete(&self) -> Done {
        let (row, columns, change) = self.change("put", self.below(ROWS));
        self.ledger.begin(&row, columns);
        match change {
            Change::Put(put) => {
                self.table.put(put).await?;
                self.ledger.done(&row, "put");
            }
            Change::Delete(delete) => {
                self.table.delete(delete).await?;
                self.ledger.done(&row, "delete");
            }
        }
        Ok(())
    }

    /// Sends changes of rows in all regions in one call. Each change is acknowledged separately.
    async fn batch(&self) -> Done {
        let (mut rows, mut actions) = (Vec::new(), Vec::new());
        for number in 0..ROWS * 2 {
            if self.below(2) == 0 {
                let (row, columns, change) = self.change("batch", number);
                self.ledger.begin(&row, columns);
                rows.push(row);
                actions.push(match change {
                    Change::Put(put) => Action::from(put),
                    Change::Delete(delete) => Action::from(delete),
                });
            }
        }
        let row = key(self.number, "tally", 0);
        let (increment, next, _) = self.addition(&row);
        self.ledger.begin(&row, next);
        rows.push(row);
        actions.push(increment.into());
        let mut failed = None;
        for (row, outcome) in rows.iter().zip(self.table.batch(actions).await) {
            match outcome {
                Ok(_) => self.ledger.done(row, "row of a batch"),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns an increment of two columns of a row, the resulting row, and the new value of the first column.
    fn addition(&self, row: &str) -> (Increment, Columns, i64) {
        let mut columns = self.ledger.row(row);
        let amount = self.below(100) as i64 - 20;
        let (left, right) = (number_of(&columns, "f:n") + amount, number_of(&columns, "g:n") + 1);
        columns.insert("f:n".to_owned(), bytes_of(left));
        columns.insert("g:n".to_owned(), bytes_of(right));
        (Increment::row(row.to_owned()).add("f", "n", amount).add("g", "n", 1), columns, left)
    }

    async fn increment(&self) -> Done {
        let row = key(self.number, "sum", self.below(4));
        let (increment, next, expected) = self.addition(&row);
        self.ledger.begin(&row, next);
        let given = self.table.increment(increment).await?;
        self.ledger.done(&row, "increment");
        if given.number("f", "n") != Some(expected) {
            self.ledger.complain(format!("{row}: the increment gave {given:?}, not {expected}"));
        }
        Ok(())
    }

    async fn add_to_shared(&self) -> Done {
        let row = key(WRITERS, "shared", self.below(SHARED));
        let amount = 1 + self.below(9) as i64;
        self.ledger.begin_addition(&row, amount);
        let given = self.table.increment(Increment::row(row.clone()).add("f", "n", amount)).await?;
        match given.number("f", "n") {
            Some(value) => self.ledger.done_addition(&row, amount, value),
            None => self.ledger.complain(format!("{row}: the increment gave {given:?}")),
        }
        Ok(())
    }

    async fn append(&self) -> Done {
        let row = key(self.number, "log", self.below(4));
        let mut columns = self.ledger.row(&row);
        let before = columns.get("f:log").cloned().unwrap_or_default();
        if before.len() > APPENDED_MAX {
            let value = Bytes::from("begun anew;");
            columns.insert("f:log".to_owned(), value.clone());
            self.ledger.begin(&row, columns);
            self.table.put(Put::row(row.clone()).set("f", "log", value)).await?;
            self.ledger.done(&row, "put");
            return Ok(());
        }
        let word = format!("{}-{:x};", self.ledger.tick(), self.random.random());
        let after = Bytes::from([&before[..], word.as_bytes()].concat());
        columns.insert("f:log".to_owned(), after.clone());
        self.ledger.begin(&row, columns);
        let given = self.table.append(Append::row(row.clone()).add("f", "log", word)).await?;
        self.ledger.done(&row, "append");
        if given.value("f", "log") != Some(&after[..]) {
            self.ledger.complain(format!("{row}: the append gave {given:?}, not {after:?}"));
        }
        Ok(())
    }

    /// Sends a check whose condition holds, with one put or with two changes, at the server's timestamp.
    async fn check_and_put(&self) -> Done {
        let row = key(self.number, "check", self.below(ROWS));
        let mut columns = self.ledger.row(&row);
        let check = CheckAndMutate::column(row.clone(), "f", "v");
        let check = match columns.get("f:v") {
            Some(value) => check.equals(value.clone()),
            None => check,
        };
        let (first, second) = (self.value(self.ledger.tick()), self.value(self.ledger.tick()));
        columns.insert("f:v".to_owned(), first.clone());
        let check = if self.below(2) == 0 {
            columns.insert("g:w".to_owned(), second.clone());
            let put = Put::row(row.clone()).set("g", "w", second);
            check.then(Put::row(row.clone()).set("f", "v", first)).then(put)
        } else {
            check.then(Put::row(row.clone()).set("f", "v", first))
        };
        self.ledger.begin(&row, columns);
        let (held, _) = self.table.check_and_mutate(check).await?;
        if held {
            self.ledger.done(&row, "check and put");
        } else {
            self.ledger.complain(format!("{row}: a condition that holds was refused"));
        }
        Ok(())
    }

    /// Sends a check whose condition does not hold. It must change nothing.
    async fn refused_check(&self) -> Done {
        let row = key(self.number, "check", self.below(ROWS));
        let check = CheckAndMutate::column(row.clone(), "f", "v")
            .equals("never written")
            .then(Put::row(row.clone()).set("f", "v", "must not appear"));
        let (held, _) = self.table.check_and_mutate(check).await?;
        if held {
            self.ledger.complain(format!("{row}: a condition that does not hold was met"));
        }
        self.ledger.count("refused check");
        Ok(())
    }

    /// Sends three puts and a delete that are applied atomically, so that a reader sees the same number in all columns.
    async fn several_at_once(&self) -> Done {
        let row = key(self.number, "atomic", self.below(ATOMIC));
        let tick = self.ledger.tick();
        let mut columns = Columns::new();
        let mut mutations = RowMutations::row(row.clone());
        for (family, qualifier) in [("f", "a"), ("f", "c"), ("g", "b")] {
            let value = self.value(tick);
            columns.insert(format!("{family}:{qualifier}"), value.clone());
            mutations = mutations.with(Put::row(row.clone()).set_at(family, qualifier, tick, value));
        }
        let (old, new) = if tick % 2 == 0 { ("odd", "even") } else { ("even", "odd") };
        let value = self.value(tick);
        columns.insert(format!("g:{new}"), value.clone());
        mutations = mutations
            .with(Put::row(row.clone()).set_at("g", new, tick, value))
            .with(Delete::row(row.clone()).column_up_to("g", old, tick));
        self.ledger.begin(&row, columns);
        self.table.mutate_row(mutations).await?;
        self.ledger.done(&row, "row mutations");
        Ok(())
    }
}
