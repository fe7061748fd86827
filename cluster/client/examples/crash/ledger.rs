//! Records what was requested of the server, and what it acknowledged.
//!
//! The ledger has two contents of each row: the content after the last acknowledged change, and the content after a
//! change whose answer is missing. A row belongs to one writer, which has one change under way at a time. So after a
//! crash a row has exactly one of the two contents; if a reader has seen the second, it must be the second. Counters to
//! which several writers add have bounds instead: at least the sum of everything acknowledged, and at most that plus
//! everything under way.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use env::sync::Mutex;

/// Kinds of operations that change nothing.
const READS: [&str; 3] = ["get", "scan", "refused check"];

/// Columns by `family:qualifier`; an empty map is a row that does not exist.
pub(crate) type Columns = BTreeMap<String, Bytes>;

/// The content that a row must have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) now: Columns,
    /// The content after the change under way, which has no answer yet; `None` if no change is under way.
    pub(crate) next: Option<Columns>,
    /// Whether a reader has seen `next`, which must then stay.
    pub(crate) next_seen: bool,
}

/// A counter to which several writers add.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    /// The value at the last comparison between two loads.
    pub(crate) base: i64,
    pub(crate) acknowledged: i64,
    pub(crate) under_way: i64,
    /// Every value that a reply returned since that comparison.
    pub(crate) returned: HashSet<i64>,
    /// The largest value that was returned or read since that comparison.
    pub(crate) seen: i64,
}

/// The state of an administrator's own table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SideTable {
    #[default]
    Absent,
    Enabled {
        row: Option<Bytes>,
    },
    Disabled {
        row: Option<Bytes>,
    },
}

/// A state that may be one of several; the first is the acknowledged one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uncertain<T> {
    pub(crate) now: T,
    pub(crate) next: Option<T>,
}

/// What the test does to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The server lives: every operation must succeed.
    #[default]
    Lives,
    /// The server is about to be killed, or was killed.
    Dies,
    /// The server's disk is about to fail, and then the server is killed. While a disk fails, the system may report
    /// success for a sync that wrote nothing, if the sync began before. So answers from now on do not count.
    Breaks,
}

#[derive(Default)]
pub(crate) struct Content {
    pub(crate) rows: BTreeMap<String, Row>,
    pub(crate) counters: BTreeMap<String, Counter>,
    pub(crate) side_tables: BTreeMap<String, Uncertain<SideTable>>,
    /// The number of the last alteration, which the table has as an attribute.
    pub(crate) alteration: Uncertain<u64>,
    /// Whether the table was created.
    pub(crate) made: bool,
    fate: Fate,
    complaints: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
    tick: i64,
}

/// The ledger; all tasks write to it.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Content>);

impl Row {
    /// Returns the oldest content that a reader that begins now may see.
    pub(crate) fn least(&self) -> &Columns {
        self.next.as_ref().filter(|_| self.next_seen).unwrap_or(&self.now)
    }
}

impl Ledger {
    /// Returns a number that grows with every call, over all rounds. It is the timestamp of changes of rows that are
    /// also deleted: with the server's clock, two changes in one millisecond would hide each other.
    pub(crate) fn tick(&self) -> i64 {
        let mut content = self.0.lock();
        content.tick += 1;
        content.tick
    }

    /// Returns the acknowledged content of a row.
    pub(crate) fn row(&self, key: &str) -> Columns {
        self.0.lock().rows.get(key).map(|row| row.now.clone()).unwrap_or_default()
    }

    /// Returns the oldest content of a row that a reader may see.
    pub(crate) fn least(&self, key: &str) -> Columns {
        self.0.lock().rows.get(key).map(|row| row.least().clone()).unwrap_or_default()
    }

    /// Records that a change is about to be sent. `next` is the content of the row after it.
    pub(crate) fn begin(&self, key: &str, next: Columns) {
        let mut content = self.0.lock();
        let row = content.rows.entry(key.to_owned()).or_default();
        assert!(row.next.is_none(), "one change of {key} at a time");
        row.next = Some(next);
    }

    /// Records that the change was acknowledged.
    pub(crate) fn done(&self, key: &str, kind: &'static str) {
        let mut content = self.0.lock();
        if content.fate == Fate::Breaks {
            return;
        }
        let row = content.rows.get_mut(key).expect("begun before");
        row.now = row.next.take().expect("begun before");
        row.next_seen = false;
        *content.counts.entry(kind).or_default() += 1;
    }

    /// Counts another kind of acknowledged operation.
    pub(crate) fn count(&self, kind: &'static str) {
        *self.0.lock().counts.entry(kind).or_default() += 1;
    }

    /// Records that the table exists.
    pub(crate) fn made(&self) {
        let mut content = self.0.lock();
        content.made = content.fate != Fate::Breaks;
    }

    /// Records that a change of the administrator was acknowledged.
    pub(crate) fn settle<T>(
        &self,
        kind: &'static str,
        thing: impl FnOnce(&mut Content) -> &mut Uncertain<T>,
    ) {
        let mut content = self.0.lock();
        if content.fate != Fate::Breaks {
            let thing = thing(&mut content);
            thing.now = thing.next.take().expect("begun before");
            *content.counts.entry(kind).or_default() += 1;
        }
    }

    /// Records that an addition to a counter is about to be sent.
    pub(crate) fn begin_addition(&self, key: &str, amount: i64) {
        self.0.lock().counters.entry(key.to_owned()).or_default().under_way += amount;
    }

    /// Records that an addition was acknowledged with the new value `value`.
    pub(crate) fn done_addition(&self, key: &str, amount: i64, value: i64) {
        let mut content = self.0.lock();
        if content.fate == Fate::Breaks {
            return;
        }
        let counter = content.counters.get_mut(key).expect("begun before");
        counter.under_way -= amount;
        counter.acknowledged += amount;
        let (least, fresh) = (counter.base + amount, counter.returned.insert(value));
        counter.seen = counter.seen.max(value);
        *content.counts.entry("shared increment").or_default() += 1;
        drop(content);
        if !fresh {
            self.complain(format!("counter {key} gave {value} to two additions"));
        }
        if value < least {
            self.complain(format!("counter {key} gave {value}, less than {least}"));
        }
    }

    /// Records that a reader has seen the content after the change under way, so that this content must stay.
    pub(crate) fn saw_next(&self, key: &str, is_next: impl FnOnce(&Columns) -> bool) {
        let mut content = self.0.lock();
        if content.fate != Fate::Breaks
            && let Some(row) = content.rows.get_mut(key)
        {
            row.next_seen |= row.next.as_ref().is_some_and(is_next);
        }
    }

    /// Returns the minimum value of a counter that a reader must see.
    pub(crate) fn least_of_counter(&self, key: &str) -> i64 {
        self.0.lock().counters.get(key).map_or(0, |counter| counter.seen)
    }

    /// Records a value of a counter that a reader has read.
    pub(crate) fn saw_counter(&self, key: &str, least: i64, value: i64) {
        let mut content = self.0.lock();
        if content.fate == Fate::Breaks {
            return;
        }
        if let Some(counter) = content.counters.get_mut(key) {
            counter.seen = counter.seen.max(value);
        }
        drop(content);
        if value < least {
            self.complain(format!("counter {key} was read as {value}, after it had been {least}"));
        }
    }

    /// Calls `look` with the whole ledger, under its lock, and returns its result.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Content) -> T) -> T {
        look(&mut self.0.lock())
    }

    /// Sets the fate of the server from now on. Returns the complaints so far.
    pub(crate) fn seal(&self, fate: Fate) -> Vec<String> {
        let mut content = self.0.lock();
        content.fate = fate;
        content.complaints.clone()
    }

    /// Returns the fate of the server.
    pub(crate) fn fate(&self) -> Fate {
        self.0.lock().fate
    }

    /// Records that the server broke a promise.
    pub(crate) fn complain(&self, why: String) {
        self.0.lock().complaints.push(why);
    }

    /// Returns and clears the complaints so far.
    pub(crate) fn complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().complaints)
    }

    /// Returns the number of acknowledged changes; reads do not count.
    pub(crate) fn acknowledged(&self) -> u64 {
        let content = self.0.lock();
        content.counts.iter().filter(|(kind, _)| !READS.contains(kind)).map(|(_, count)| count).sum()
    }

    /// Returns every kind of operation and how often it was acknowledged.
    pub(crate) fn summary(&self) -> String {
        let content = self.0.lock();
        let parts: Vec<String> =
            content.counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        parts.join(", ")
    }
}
