//! What was asked of the server, and what it acknowledged.
//!
//! Of each row the ledger has the content that the last acknowledged change left, and the content that a change without
//! an answer would leave. A row belongs to one writer, which has one change under way at a time, so after a crash a row is
//! exactly one of the two; when somebody has read the second already, it is that one. Counters that several writers add
//! to have bounds instead: at least everything acknowledged, at most that and everything under way.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use env::sync::Mutex;

/// Kinds that change nothing.
const READS: [&str; 3] = ["get", "scan", "refused check"];

/// Columns by `family:qualifier`; none of them is a row that is not there.
pub(crate) type Columns = BTreeMap<String, Bytes>;

/// A row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) now: Columns,
    /// What it is when the change without an answer happened.
    pub(crate) next: Option<Columns>,
    /// Somebody read `next`: it can't go away any more.
    pub(crate) next_seen: bool,
}

/// A counter that several writers add to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    /// What it was when it was last looked at between two loads.
    pub(crate) base: i64,
    pub(crate) acknowledged: i64,
    pub(crate) under_way: i64,
    /// Every value that was given back since then.
    pub(crate) returned: HashSet<i64>,
    /// The most that was given back or read since then.
    pub(crate) seen: i64,
}

/// How a table of the administrator's own is.
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

/// A thing that is in one of the states possible now, the first of which is the acknowledged one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uncertain<T> {
    pub(crate) now: T,
    pub(crate) next: Option<T>,
}

/// What the server does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Every operation succeeds.
    #[default]
    Lives,
    /// It is killed at any moment, or was.
    Dies,
    /// Its disk goes down, then it is killed. A system that is about to lose its disk calls a sync good that began
    /// before and kept nothing; without power it would say nothing any more. So what is answered from now on counts as
    /// not answered.
    Breaks,
}

#[derive(Default)]
pub(crate) struct Content {
    pub(crate) rows: BTreeMap<String, Row>,
    pub(crate) counters: BTreeMap<String, Counter>,
    pub(crate) side_tables: BTreeMap<String, Uncertain<SideTable>>,
    /// The number of the last alteration, which the table carries as an attribute.
    pub(crate) alteration: Uncertain<u64>,
    /// Whether the table was made.
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
    /// What a reader that begins now must see at least.
    pub(crate) fn least(&self) -> &Columns {
        self.next.as_ref().filter(|_| self.next_seen).unwrap_or(&self.now)
    }
}

impl Ledger {
    /// A number that grows with every call, over all rounds: timestamps of rows that are also deleted, where two changes
    /// in one millisecond of the server's clock would hide one another.
    pub(crate) fn tick(&self) -> i64 {
        let mut content = self.0.lock();
        content.tick += 1;
        content.tick
    }

    /// What is acknowledged of a row.
    pub(crate) fn row(&self, key: &str) -> Columns {
        self.0.lock().rows.get(key).map(|row| row.now.clone()).unwrap_or_default()
    }

    /// What a reader of a row must see at least.
    pub(crate) fn least(&self, key: &str) -> Columns {
        self.0.lock().rows.get(key).map(|row| row.least().clone()).unwrap_or_default()
    }

    /// A change that leaves a row so is about to be sent.
    pub(crate) fn begin(&self, key: &str, next: Columns) {
        let mut content = self.0.lock();
        let row = content.rows.entry(key.to_owned()).or_default();
        assert!(row.next.is_none(), "one change of {key} at a time");
        row.next = Some(next);
    }

    /// It was acknowledged.
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

    /// Counts something else that was acknowledged.
    pub(crate) fn count(&self, kind: &'static str) {
        *self.0.lock().counts.entry(kind).or_default() += 1;
    }

    /// The table is there.
    pub(crate) fn made(&self) {
        let mut content = self.0.lock();
        content.made = content.fate != Fate::Breaks;
    }

    /// A change of the administrator's was acknowledged.
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

    /// An addition is about to be sent.
    pub(crate) fn begin_addition(&self, key: &str, amount: i64) {
        self.0.lock().counters.entry(key.to_owned()).or_default().under_way += amount;
    }

    /// It was acknowledged, with this new value.
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

    /// A row was read with the content that its change under way leaves: it can't go away any more.
    pub(crate) fn saw_next(&self, key: &str, is_next: impl FnOnce(&Columns) -> bool) {
        let mut content = self.0.lock();
        if content.fate != Fate::Breaks
            && let Some(row) = content.rows.get_mut(key)
        {
            row.next_seen |= row.next.as_ref().is_some_and(is_next);
        }
    }

    /// What a reader of a counter must see at least.
    pub(crate) fn least_of_counter(&self, key: &str) -> i64 {
        self.0.lock().counters.get(key).map_or(0, |counter| counter.seen)
    }

    /// It was read.
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

    /// Looks at and changes everything at once.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Content) -> T) -> T {
        look(&mut self.0.lock())
    }

    /// What the server does from here on. Gives the complaints so far.
    pub(crate) fn seal(&self, fate: Fate) -> Vec<String> {
        let mut content = self.0.lock();
        content.fate = fate;
        content.complaints.clone()
    }

    /// What the server does.
    pub(crate) fn fate(&self) -> Fate {
        self.0.lock().fate
    }

    /// Something that must not be.
    pub(crate) fn complain(&self, why: String) {
        self.0.lock().complaints.push(why);
    }

    /// Complaints so far; they are heard once.
    pub(crate) fn complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().complaints)
    }

    /// Changes acknowledged so far; reads are none.
    pub(crate) fn acknowledged(&self) -> u64 {
        let content = self.0.lock();
        content.counts.iter().filter(|(kind, _)| !READS.contains(kind)).map(|(_, count)| count).sum()
    }

    /// Every kind and how often it was acknowledged.
    pub(crate) fn summary(&self) -> String {
        let content = self.0.lock();
        let parts: Vec<String> =
            content.counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        parts.join(", ")
    }
}
