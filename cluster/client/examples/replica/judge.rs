//! Records which writes were made, when each was acknowledged, and which of them readers of the replica have seen.

use std::time::Duration;

use client::Row;
use env::sync::Mutex;
use env::{Moment, World};

/// Number of rows of the test. They are written again and again.
pub(crate) const ROWS: u64 = 400;
/// One of so many writes of a row deletes the row.
const DELETED_EACH: u64 = 10;

/// Returns the name of a row.
pub(crate) fn row_name(row: u64) -> String {
    format!("row-{row:04}")
}

/// The writes of one row.
#[derive(Default)]
struct Written {
    /// The number of the last write that was begun; 0 before the first.
    begun: u64,
    /// When each write was acknowledged, in order.
    acknowledged: Vec<Moment>,
    /// The number of the newest write that a reader of the replica has seen.
    seen: u64,
}

/// Judges whether the content that a reader finds is allowed; see the module documentation.
pub(crate) struct Judge {
    world: World,
    rows: Vec<Mutex<Written>>,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    gets: u64,
    scans: u64,
    refreshed: u64,
    lags: Vec<Duration>,
    equal_after: Duration,
}

impl Judge {
    pub(crate) fn new(world: World) -> Judge {
        Judge { world, rows: (0..ROWS).map(|_| Mutex::default()).collect(), tally: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Moment {
        self.world.moment()
    }

    /// Whether the write with this number deletes its row.
    pub(crate) fn deletes(number: u64) -> bool {
        number.is_multiple_of(DELETED_EACH)
    }

    /// Begins a write and returns its number.
    pub(crate) fn begin(&self, row: u64) -> u64 {
        let mut written = self.rows[row as usize].lock();
        written.begun += 1;
        written.begun
    }

    pub(crate) fn acknowledged(&self, row: u64, number: u64) {
        let now = self.now();
        let mut written = self.rows[row as usize].lock();
        assert_eq!(written.acknowledged.len() as u64 + 1, number, "a row has one writer");
        written.acknowledged.push(now);
    }

    /// Returns the number of the last acknowledged write of a row.
    pub(crate) fn last_acknowledged(&self, row: u64) -> u64 {
        self.rows[row as usize].lock().acknowledged.len() as u64
    }

    /// Requires that from now on a reader sees write `number` of the row, or a later one.
    pub(crate) fn must_have(&self, row: u64, number: u64) {
        let mut written = self.rows[row as usize].lock();
        written.seen = written.seen.max(number);
    }

    /// Counts a refresh of the replica.
    pub(crate) fn refreshed(&self) {
        self.tally.lock().refreshed += 1;
    }

    pub(crate) fn seen(&self, row: u64) -> u64 {
        self.rows[row as usize].lock().seen
    }

    pub(crate) fn all_seen(&self) -> Vec<u64> {
        (0..ROWS).map(|row| self.seen(row)).collect()
    }

    pub(crate) fn got(
        &self,
        row: u64,
        found: Option<&Row>,
        asked: Moment,
        before: u64,
    ) -> Result<(), String> {
        self.tally.lock().gets += 1;
        self.check(row, found, asked, before)
    }

    pub(crate) fn scanned(
        &self,
        row: u64,
        found: Option<&Row>,
        asked: Moment,
        before: u64,
    ) -> Result<(), String> {
        self.tally.lock().scans += u64::from(row == 0);
        self.check(row, found, asked, before)
    }

    /// Judges the content that a reader has found. Its request began at `asked`, when some reader had already seen the
    /// write `before` or a later one.
    fn check(&self, row: u64, found: Option<&Row>, asked: Moment, before: u64) -> Result<(), String> {
        let mut written = self.rows[row as usize].lock();
        let name = row_name(row);
        let number = match found {
            Some(found) => number_of(found).map_err(|why| format!("{name}: {why}"))?,
            // The earliest deletion that explains the missing row.
            None => match (before..=written.begun).find(|number| Judge::deletes(*number)) {
                Some(number) => number,
                None => {
                    return Err(format!(
                        "{name} is not there, although a reader has seen write {before}, and none of up to {} deletes it",
                        written.begun
                    ));
                }
            },
        };
        if found.is_some() && (number > written.begun || Judge::deletes(number)) {
            return Err(format!("{name} has write {number}, and {} were begun", written.begun));
        }
        if number < before {
            return Err(format!("{name} has write {number}, and a reader has seen write {before} before"));
        }
        written.seen = written.seen.max(number);
        // The first write that the reader should have seen was acknowledged before the request. The lag is the time
        // since then.
        let missed = written.acknowledged.get(number as usize).filter(|at| **at < asked);
        let lag = missed.map_or(Duration::ZERO, |at| asked.since(*at));
        drop(written);
        self.tally.lock().lags.push(lag);
        Ok(())
    }

    pub(crate) fn equal_after(&self, time: Duration) {
        self.tally.lock().equal_after = time;
    }

    /// Describes what the readers have seen since the last call.
    pub(crate) fn figures(&self) -> String {
        let Tally { gets, scans, refreshed, mut lags, equal_after } = std::mem::take(&mut *self.tally.lock());
        lags.sort();
        let at = |share: f64| lags.get((lags.len() as f64 * share) as usize).copied().unwrap_or_default();
        let acknowledged: usize = self.rows.iter().map(|row| row.lock().acknowledged.len()).sum();
        format!(
            "{acknowledged} writes acknowledged, {gets} gets, {scans} scans and {refreshed} refreshes of the replica; lag p50 {} ms, p99 {} ms, max {} \
             ms; equal {} ms after the last write",
            at(0.5).as_millis(),
            at(0.99).as_millis(),
            lags.last().copied().unwrap_or_default().as_millis(),
            equal_after.as_millis()
        )
    }
}

/// Returns the number of the write whose content a row has.
fn number_of(row: &Row) -> Result<u64, String> {
    let number = |family: &str| {
        let value = row.value(family, "q").ok_or_else(|| format!("family {family} is missing"))?;
        let text = String::from_utf8_lossy(value);
        let first = text.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        first.ok_or_else(|| format!("family {family} has no number: {text:?}"))
    };
    let (f, g) = (number("f")?, number("g")?);
    if f == g { Ok(f) } else { Err(format!("half of write {f} and half of write {g}")) }
}
