//! One caller: runs one operation after the other and checks the results.

use std::sync::Arc;

use bytes::Bytes;
use client::{Append, CheckAndMutate, Comparison, Delete, Filter, Get, Increment, Put, Scan, Scanner, Table};

use crate::Plan;
use crate::keys::Chooser;
use crate::mix::Growth;
use crate::random::{Random, spread};
use crate::recorder::Done;
use crate::rows::Rows;
use crate::workload::{QUEUE, SCAN_STEP, Workload};

/// The column in which increments count.
const NUMBER: Bytes = Bytes::from_static(b"n");
/// The column to which appends add.
const GROWN: Bytes = Bytes::from_static(b"a");
/// Number of bytes of one append.
const APPENDED: usize = 8;

/// One caller of a workload.
pub(crate) struct Worker {
    pub(crate) plan: Arc<Plan>,
    pub(crate) rows: Rows,
    pub(crate) table: Table,
    pub(crate) growth: Arc<Growth>,
    pub(crate) random: Random,
    chooser: Chooser,
    workload: Workload,
    /// The rows that the caller goes through in order: from the first (inclusive) to the second (exclusive).
    part: (u64, u64),
    /// The next row of `part`.
    next: u64,
    scanner: Option<Scanner>,
    /// The caller's index among the callers.
    index: u64,
    /// Number of operations that this caller has made on its queue.
    turn: u64,
}

impl Worker {
    /// Creates caller `index` of the plan's callers.
    pub(crate) fn new(
        plan: Arc<Plan>,
        rows: Rows,
        growth: Arc<Growth>,
        table: Table,
        workload: Workload,
        index: usize,
    ) -> Worker {
        let cut = |at: usize| (u128::from(rows.count()) * at as u128 / plan.threads as u128) as u64;
        let from = cut(index);
        let part = (from, cut(index + 1).max(from + 1).min(rows.count().max(from + 1)));
        let random = Random::new(plan.seed, index as u64);
        let chooser = Chooser::new(plan.keys.unwrap_or(workload.keys()), rows.count());
        Worker {
            random,
            chooser,
            part,
            next: from,
            scanner: None,
            index: index as u64,
            turn: 0,
            plan,
            rows,
            growth,
            table,
            workload,
        }
    }

    /// Runs one operation.
    pub(crate) async fn step(&mut self) -> client::Result<Done> {
        let done = |(rows, wrong)| Done { kind: 0, rows, wrong, written: 0 };
        let wrote = |rows: u64, wrong, written| Done { kind: 0, rows, wrong, written };
        Ok(match self.workload {
            Workload::SequentialWrite => {
                let number = self.in_order();
                self.put(number).await?
            }
            Workload::RandomWrite => {
                let number = self.any();
                self.put(number).await?
            }
            Workload::BatchWrite => {
                let numbers = self.any_batch();
                self.table.put_all(numbers.into_iter().map(|number| self.a_put(number))).await?;
                let rows = self.plan.batch as u64;
                wrote(rows, 0, rows * self.rows.row_size())
            }
            Workload::SequentialRead => {
                let number = self.in_order();
                done(self.get(number).await?)
            }
            Workload::RandomRead => {
                let number = self.any();
                done(self.get(number).await?)
            }
            Workload::MultiGet => done(self.multi_get().await?),
            Workload::Scan => done(self.scan_on().await?),
            Workload::ScanRange(rows) => done(self.scan_range(u64::from(rows)).await?),
            Workload::FilterScan => {
                // The compared value is as long as the existing ones and greater than all of them.
                let wanted = vec![0xff; self.rows.value_size().max(1)];
                let filter = Filter::column_value(self.family(), self.column(), Comparison::Equal, wanted);
                done(self.scan_filtered(Filter::all([filter]), 0).await?)
            }
            Workload::Filter0 => done(self.scan_filtered(below(0), 0).await?),
            Workload::Filter10 => done(self.scan_filtered(below(1), 1).await?),
            Workload::Increment => {
                let increment = Increment::row(self.any_key()).add(self.family(), NUMBER, 1);
                let row = self.table.increment(increment.durability(self.plan.durability)).await?;
                let wrong = u64::from(row.number(self.family(), NUMBER).is_none());
                wrote(1, wrong, (self.rows.key_size() + 8) as u64)
            }
            Workload::Append => {
                let number = self.any();
                let value = self.rows.value(number, 0);
                let value = value.slice(..APPENDED.min(value.len()));
                let written = (self.rows.key_size() + value.len()) as u64;
                let append = Append::row(self.rows.key(number)).add(self.family(), GROWN, value);
                // The new value is not requested, because each append makes it longer.
                let append = append.return_results(false).durability(self.plan.durability);
                self.table.append(append).await?;
                wrote(1, 0, written)
            }
            Workload::CheckAndPut => {
                let number = self.any();
                let (key, column) = (self.rows.key(number), self.column());
                let check = CheckAndMutate::column(key, self.family(), column);
                let check = check.equals(self.rows.value(number, 0)).then(self.a_put(number));
                let (held, _) = self.table.check_and_mutate(check).await?;
                wrote(1, u64::from(!held), self.rows.row_size())
            }
            Workload::Insert => {
                let number = self.growth.begin();
                let put = self.rows.put_at(self.rows.key(spread(number)), number);
                self.table.put(put.durability(self.plan.durability)).await?;
                self.growth.added(number);
                wrote(1, 0, self.rows.row_size())
            }
            Workload::Queue => self.queue_on().await?,
            Workload::Ycsb(ycsb) => self.mixed(ycsb.mix()).await?,
        })
    }

    /// Makes the next operation on this caller's queue. Of n callers each has a queue with every n-th row number.
    async fn queue_on(&mut self) -> client::Result<Done> {
        const ACTS: u64 = 3;
        let callers = self.plan.threads as u64;
        let row = |place: u64| self.rows.count() + place * callers + self.index;
        let (place, act) = (self.turn / ACTS, self.turn % ACTS);
        let oldest = place.checked_sub(QUEUE.div_ceil(callers)).map(row);
        let done = match (act, oldest) {
            (1, Some(oldest)) => {
                let (rows, wrong) = self.get(oldest).await?;
                Done { kind: 1, rows, wrong, written: 0 }
            }
            (2, Some(oldest)) => {
                let delete = Delete::row(self.rows.key(oldest)).durability(self.plan.durability);
                self.table.delete(delete).await?;
                Done { kind: 2, rows: 1, wrong: 0, written: self.rows.key_size() as u64 }
            }
            _ => self.put(row(place)).await?,
        };
        // Nothing is deleted until the queue has its full length.
        self.turn += if oldest.is_some() { 1 } else { ACTS };
        Ok(done)
    }

    /// Returns a row, chosen by the plan's or the workload's distribution.
    pub(crate) fn any(&mut self) -> u64 {
        self.chooser.pick(&mut self.random, self.growth.there())
    }

    fn any_key(&mut self) -> Bytes {
        let number = self.any();
        self.rows.key(number)
    }

    fn any_batch(&mut self) -> Vec<u64> {
        (0..self.plan.batch).map(|_| self.any()).collect()
    }

    fn in_order(&mut self) -> u64 {
        let number = self.next;
        self.next = if number + 1 < self.part.1 { number + 1 } else { self.part.0 };
        number
    }

    fn family(&self) -> Bytes {
        self.rows.layout().family()
    }

    /// Returns the first column, for workloads that use only one.
    fn column(&self) -> Bytes {
        self.rows.qualifiers()[0].clone()
    }

    fn a_put(&self, number: u64) -> Put {
        self.rows.put(number).durability(self.plan.durability)
    }

    async fn put(&self, number: u64) -> client::Result<Done> {
        self.table.put(self.a_put(number)).await?;
        Ok(Done { kind: 0, rows: 1, wrong: 0, written: self.rows.row_size() })
    }

    fn a_get(&self, number: u64) -> Get {
        Get::row(self.rows.key(number)).column(self.family(), self.column())
    }

    async fn get(&self, number: u64) -> client::Result<(u64, u64)> {
        let row = self.table.get(self.a_get(number)).await?;
        Ok((1, u64::from(!self.rows.is_right(number, &row))))
    }

    async fn multi_get(&mut self) -> client::Result<(u64, u64)> {
        let numbers = self.any_batch();
        let rows = self.table.get_all(numbers.iter().map(|number| self.a_get(*number))).await?;
        let wrong =
            numbers.iter().zip(&rows).filter(|(number, row)| !self.rows.is_right(**number, row)).count();
        Ok((numbers.len() as u64, wrong as u64))
    }

    fn a_scan(&self, from: u64, to: u64) -> Scan {
        let scan = Scan::new().from(self.rows.key(from)).to(self.rows.key(to));
        let scan = scan.column(self.family(), self.column());
        match self.plan.caching {
            Some(rows) => scan.caching(rows),
            None => scan,
        }
    }

    /// Reads the next part of this caller's share of the table, over and over.
    async fn scan_on(&mut self) -> client::Result<(u64, u64)> {
        let (mut rows, mut wrong) = (0, 0);
        while rows < SCAN_STEP {
            let (from, to) = self.part;
            let mut scanner = match self.scanner.take() {
                Some(scanner) => scanner,
                None => {
                    self.next = from;
                    self.table.scan(self.a_scan(from, to))
                }
            };
            let Some(row) = scanner.next().await? else {
                wrong += to - self.next;
                if self.next == from {
                    break; // A table without rows would be scanned for ever.
                }
                continue;
            };
            wrong += u64::from(self.next >= to || !self.rows.is_right(self.next, &row));
            self.next += 1;
            rows += 1;
            self.scanner = Some(scanner);
        }
        Ok((rows, wrong))
    }

    async fn scan_range(&mut self, rows: u64) -> client::Result<(u64, u64)> {
        let rows = rows.min(self.rows.count());
        let from = self.random.below(self.rows.count() - rows + 1);
        let mut scanner = self.table.scan(self.a_scan(from, from + rows).limit(rows));
        let (mut at, mut wrong) = (from, 0);
        while let Some(row) = scanner.next().await? {
            wrong += u64::from(!self.rows.is_right(at, &row));
            at += 1;
        }
        Ok((rows, wrong + (from + rows).abs_diff(at)))
    }

    /// Scans as many rows as the plan's range; of every ten rows `filter` accepts the first `tenths`.
    async fn scan_filtered(&mut self, filter: Filter, tenths: u8) -> client::Result<(u64, u64)> {
        let looked_at = self.plan.range;
        let from = self.random.below(self.rows.count() - looked_at + 1);
        let mut scanner = self.table.scan(self.a_scan(from, from + looked_at).filter(filter));
        let passes = |number: &u64| number % 10 < u64::from(tenths);
        let mut expected = (from..from + looked_at).filter(passes);
        let mut wrong = 0;
        while let Some(row) = scanner.next().await? {
            let right = expected.next().is_some_and(|number| self.rows.is_right(number, &row));
            wrong += u64::from(!right);
        }
        Ok((looked_at, wrong + expected.count() as u64))
    }
}

/// Returns a filter that accepts values beginning with one of the first `tenths` digits.
fn below(tenths: u8) -> Filter {
    Filter::value(Comparison::Less, vec![b'0' + tenths])
}
