//! The operations of YCSB's workloads, and the rows that they add.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use client::{Get, Put, Scan};
use parking_lot::Mutex;

use crate::recorder::Done;
use crate::worker::Worker;
use crate::workload::Mix;

/// Maximum number of rows in a scan.
const SCAN_MAX: u64 = 100;

/// The rows that callers add, and the number below which all rows exist.
#[derive(Debug)]
pub(crate) struct Growth {
    next: AtomicU64,
    there: AtomicU64,
    /// Existing rows above `there`.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Growth {
    /// Creates a state in which all rows below `count` exist.
    pub(crate) fn new(count: u64) -> Growth {
        Growth { next: AtomicU64::new(count), there: AtomicU64::new(count), ahead: Mutex::default() }
    }

    /// Returns the number of rows that exist without gaps, from the first.
    pub(crate) fn there(&self) -> u64 {
        self.there.load(Ordering::Acquire)
    }

    /// Returns the number for a new row.
    pub(crate) fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that a row was added.
    pub(crate) fn added(&self, number: u64) {
        let mut ahead = self.ahead.lock();
        ahead.insert(number);
        let mut there = self.there.load(Ordering::Acquire);
        while ahead.remove(&there) {
            there += 1;
        }
        self.there.store(there, Ordering::Release);
    }
}

/// Indices in [`Workload::kinds`](crate::Workload::kinds).
const READ: usize = 0;
const UPDATE: usize = 1;
const INSERT: usize = 2;
const SCAN: usize = 3;
const MODIFY: usize = 4;

impl Worker {
    /// Runs one operation of a mix.
    pub(crate) async fn mixed(&mut self, mix: Mix) -> client::Result<Done> {
        let mut dice = self.random.below(100) as u8;
        let mut falls_on = |part: u8| {
            let hit = dice < part;
            dice = dice.wrapping_sub(part);
            hit
        };
        if falls_on(mix.reads) {
            let wrong = self.read_row().await?.1;
            Ok(Done { kind: READ, rows: 1, wrong, written: 0 })
        } else if falls_on(mix.updates) {
            let number = self.any();
            let written = self.update(number).await?;
            Ok(Done { kind: UPDATE, rows: 1, wrong: 0, written })
        } else if falls_on(mix.inserts) {
            let number = self.growth.begin();
            self.table.put(self.rows.put(number).durability(self.plan.durability)).await?;
            self.growth.added(number);
            Ok(Done { kind: INSERT, rows: 1, wrong: 0, written: self.rows.row_size() })
        } else if falls_on(mix.scans) {
            self.scan_some().await
        } else {
            let (number, wrong) = self.read_row().await?;
            let written = self.update(number).await?;
            Ok(Done { kind: MODIFY, rows: 1, wrong, written })
        }
    }

    async fn read_row(&mut self) -> client::Result<(u64, u64)> {
        let number = self.any();
        let get = Get::row(self.rows.key(number)).family(self.rows.layout().family());
        let row = self.table.get(get).await?;
        Ok((number, u64::from(!self.rows.is_right(number, &row))))
    }

    async fn update(&mut self, number: u64) -> client::Result<u64> {
        let field = self.random.below(self.rows.qualifiers().len() as u64) as usize;
        let put = Put::row(self.rows.key(number)).set(
            self.rows.layout().family(),
            self.rows.qualifiers()[field].clone(),
            self.rows.value(number, field),
        );
        self.table.put(put.durability(self.plan.durability)).await?;
        Ok((self.rows.key_size() + self.rows.value_size()) as u64)
    }

    async fn scan_some(&mut self) -> client::Result<Done> {
        let from = self.any();
        let limit = 1 + self.random.below(SCAN_MAX);
        let there = self.growth.there();
        let scan = Scan::new().from(self.rows.key(from)).family(self.rows.layout().family()).limit(limit);
        let mut scanner = self.table.scan(scan);
        let (mut rows, mut wrong) = (0, 0);
        while let Some(row) = scanner.next().await? {
            // Below `there` all rows exist, so the number of the next row is known. Above it some may still be under
            // way, so the number is taken from the key.
            let number = if from + rows < there { Some(from + rows) } else { self.rows.number(row.key()) };
            wrong += u64::from(!number.is_some_and(|number| self.rows.is_right(number, &row)));
            rows += 1;
        }
        let missing = limit.min(there - from).saturating_sub(rows);
        Ok(Done { kind: SCAN, rows, wrong: wrong + missing, written: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_there_when_all_before_them_are() {
        let growth = Growth::new(10);
        let (first, second) = (growth.begin(), growth.begin());
        growth.added(second);
        assert_eq!(growth.there(), 10);
        growth.added(first);
        assert_eq!(growth.there(), 12);
    }
}
