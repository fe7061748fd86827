//! The expected state of every key, kept in a file, and the judge of what is read.
//!
//! The versions of a key are 1, 2, 3 and so on, in the order in which its one writer sends them. The state of a key is
//! the greatest version that was acknowledged and the greatest that was sent. A read that begins when version `a` is
//! acknowledged and ends when version `s` was sent must show one of `a..=s`: less is a lost write or a value that came
//! back, more was never written. A later read must not show an older version, so a read raises the acknowledged
//! version.
//!
//! Counters have the same two bounds, as sums. The minimum of a counter is a value that a read showed, plus the
//! acknowledged additions that began after that read had ended ([`Minimum`]).
//!
//! A state is written to the file before its write is sent. So the clients can be killed, too, and the next ones go on
//! with the same file. The file does not survive a loss of power of the machine that runs the test.
//!
//! ```text
//! magic "BFIRE\0\0\1" | seed | number of keys | number of counters      8 bytes each, little endian
//! acknowledged | sent                                                    for each key
//! acknowledged | sent                                                    for each counter
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::FileExt;
use std::path::Path;

use env::sync::Mutex;

use crate::content::{Content, Kind};

const MAGIC: [u8; 8] = *b"BFIRE\0\0\x01";
const HEADER_BYTES: u64 = 32;
const STATE_BYTES: u64 = 16;
/// Maximum number of recent events that are kept to explain a complaint.
const EVENTS_MAX: usize = 200_000;

/// The complaint about an operation that cannot have happened.
const IMPOSSIBLE: &str = "a write that began after the disk had lost its power was acknowledged";

/// Bounds of a key's version, or of a counter's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The minimum that a read that begins now must show.
    pub(crate) acknowledged: u64,
    /// The maximum that a read that ends now may show.
    pub(crate) sent: u64,
}

/// A key or a counter, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Key(usize),
    Counter(usize),
}

/// An operation under way. Its answer is ignored if another era began before the answer arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartedOperation {
    era: u64,
    /// The number of the addition; 0 for other operations.
    addition: u64,
}

/// A lower bound of a counter's value.
#[derive(Clone, Copy, Debug)]
struct Bound {
    value: u64,
    /// The number of the first addition that began after the read that showed this value. Only such additions may be
    /// added to the value, because the read may have shown the earlier ones.
    from: u64,
}

/// The minimum value of a counter: the greatest of several bounds.
///
/// Each read begins a new bound, so that additions whose answers were ignored or failed, and which happened all the
/// same, count as soon as a read shows them. Otherwise the minimum would stay less than the value by their sum, and as
/// many acknowledged additions could be lost unnoticed. An old bound is kept while it may become the greatest one again:
/// while additions are under way that began before the read.
#[derive(Debug)]
struct Minimum {
    /// Sorted by `from`.
    bounds: Vec<Bound>,
    /// The amounts of the additions under way, by their numbers.
    under_way: BTreeMap<u64, u64>,
}

impl Minimum {
    fn new(value: u64) -> Minimum {
        Minimum { bounds: vec![Bound { value, from: 0 }], under_way: BTreeMap::new() }
    }

    fn value(&self) -> u64 {
        self.bounds.iter().map(|bound| bound.value).max().unwrap_or(0)
    }

    fn begin(&mut self, addition: u64, amount: u64) {
        self.under_way.insert(addition, amount);
    }

    /// Records that an addition has ended.
    fn end(&mut self, addition: u64, is_acknowledged: bool) {
        let Some(amount) = self.under_way.remove(&addition) else { return };
        if is_acknowledged {
            for bound in self.bounds.iter_mut().filter(|bound| bound.from <= addition) {
                bound.value += amount;
            }
        }
        self.drop_useless();
    }

    /// Records that a read has shown this value. `next` is the number of the next addition.
    fn read(&mut self, value: u64, next: u64) {
        self.bounds.push(Bound { value, from: next });
        self.drop_useless();
    }

    /// Drops each bound that cannot become greater than another one.
    fn drop_useless(&mut self) {
        let (all, under_way) = (self.bounds.clone(), &self.under_way);
        let mut kept: Vec<Bound> = Vec::new();
        for (index, bound) in all.iter().enumerate() {
            // An older bound counts at least the additions that this one counts.
            let is_below_older = kept.iter().any(|older| older.value >= bound.value);
            let is_below_newer = all[index + 1..].iter().any(|newer| {
                let more: u64 = under_way.range(bound.from..newer.from).map(|(_, amount)| amount).sum();
                bound.value + more <= newer.value
            });
            if !is_below_older && !is_below_newer {
                kept.push(*bound);
            }
        }
        self.bounds = kept;
    }
}

struct Event {
    moment_ms: u64,
    item: Item,
    what: &'static str,
    number: u64,
}

struct Inner {
    #[expect(clippy::disallowed_types, reason = "the judge's own file, on the disk of the test")]
    file: std::fs::File,
    keys: Vec<State>,
    counters: Vec<State>,
    /// The minimum of each counter.
    minima: Vec<Minimum>,
    /// Number of additions that were begun, those to all counters together.
    additions: u64,
    /// The number of the era, incremented when the disk is about to break, and when it is whole again.
    era: u64,
    /// Whether answers are ignored, because the disk is about to break.
    breaking: bool,
    /// Whether every write to the disk fails, so that nothing which begins now may be acknowledged.
    down: bool,
    events: VecDeque<Event>,
    complaints: Vec<String>,
}

/// The expected state; all tasks share it.
pub(crate) struct Expected {
    pub(crate) content: Content,
    world: env::World,
    began: env::Moment,
    inner: Mutex<Inner>,
}

/// Judges what a read showed: `seen` is a version, or `None` for no row. Returns the version that must stay from now
/// on.
pub(crate) fn judge(
    content: Content,
    key: usize,
    least: u64,
    sent: u64,
    seen: Option<u64>,
) -> Result<u64, String> {
    let deleted = |version: &u64| content.kind(key, *version) == Kind::Delete;
    match seen {
        Some(version) if version < least && deleted(&least) => Err(format!(
            "version {version} is there again, although version {least} deleted it and was acknowledged or read"
        )),
        Some(version) if version < least => Err(format!(
            "version {version} is there, although version {least} was acknowledged or read: a write is lost"
        )),
        Some(version) if version > sent => {
            Err(format!("version {version} is there, and the last one that was sent is {sent}"))
        }
        Some(version) if deleted(&version) => {
            Err(format!("version {version} is there, which was a delete"))
        }
        Some(version) => Ok(version),
        None => (least..=sent).find(deleted).ok_or_else(|| {
            format!(
                "there is no row, although version {least} was acknowledged or read, and none up to {sent} is a delete"
            )
        }),
    }
}

/// Judges the value of a counter. Returns the value that it must have at least from now on, or a complaint if the value
/// is less than `least` or greater than `sent`.
pub(crate) fn judge_sum(least: u64, sent: u64, seen: u64) -> Result<u64, String> {
    if seen < least {
        return Err(format!(
            "the sum is {seen}, although {least} was acknowledged or read: an addition is lost"
        ));
    }
    if seen > sent {
        return Err(format!(
            "the sum is {seen}, and all additions that were sent make {sent}: one was applied twice"
        ));
    }
    Ok(seen)
}

impl Expected {
    /// Opens the file of an earlier run with the same seed, or creates it.
    #[expect(clippy::disallowed_types, reason = "the judge's own file, on the disk of the test")]
    pub(crate) fn open(path: &Path, seed: u64, keys: usize, counters: usize) -> Result<Expected, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        let mut header = MAGIC.to_vec();
        for word in [seed, keys as u64, counters as u64] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        let size = HEADER_BYTES + STATE_BYTES * (keys + counters) as u64;
        let mut states = vec![State::default(); keys + counters];
        if file.metadata().map_err(failed)?.len() == 0 {
            file.set_len(size).and_then(|()| file.write_all_at(&header, 0)).map_err(failed)?;
        } else {
            let mut bytes = vec![0; size as usize];
            file.read_exact_at(&mut bytes, 0).map_err(failed)?;
            if bytes[..HEADER_BYTES as usize] != header {
                return Err(format!(
                    "{} belongs to another run: expected seed {seed}, {keys} keys and {counters} counters; remove it",
                    path.display()
                ));
            }
            let words = bytes[HEADER_BYTES as usize..].chunks_exact(8);
            let words: Vec<u64> =
                words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect();
            for (state, words) in states.iter_mut().zip(words.chunks_exact(2)) {
                *state = State { acknowledged: words[0], sent: words[1] };
            }
        }
        let counters = states.split_off(keys);
        let world = env::World::real();
        let inner = Inner {
            file,
            keys: states,
            // Additions of an earlier process are never answered to this one.
            minima: counters.iter().map(|counter| Minimum::new(counter.acknowledged)).collect(),
            additions: 0,
            counters,
            era: 0,
            breaking: false,
            down: false,
            events: VecDeque::new(),
            complaints: Vec::new(),
        };
        Ok(Expected { content: Content { seed }, began: world.moment(), world, inner: Mutex::new(inner) })
    }

    /// Returns the number of keys.
    pub(crate) fn keys(&self) -> usize {
        self.inner.lock().keys.len()
    }

    /// Returns the number of counters.
    pub(crate) fn counters(&self) -> usize {
        self.inner.lock().counters.len()
    }

    /// Begins a write of a key. Returns the version to send.
    pub(crate) fn begin_write(&self, key: usize) -> (StartedOperation, u64) {
        let mut inner = self.inner.lock();
        let version = self.send(&mut inner, Item::Key(key), 1, "sent");
        (inner.begin(), version)
    }

    /// Begins an addition to a counter.
    pub(crate) fn begin_addition(&self, counter: usize, amount: u64) -> StartedOperation {
        let mut inner = self.inner.lock();
        self.send(&mut inner, Item::Counter(counter), amount, "sent up to");
        inner.additions += 1;
        let addition = inner.additions;
        inner.minima[counter].begin(addition, amount);
        StartedOperation { addition, ..inner.begin() }
    }

    /// Records that more was sent of an item. Returns all that was sent of it.
    fn send(&self, inner: &mut Inner, item: Item, amount: u64, what: &'static str) -> u64 {
        let state = inner.state(item);
        state.sent += amount;
        let sent = state.sent;
        inner.store(item);
        self.note(inner, item, what, sent);
        sent
    }

    /// Records that a version was acknowledged.
    pub(crate) fn acknowledge(&self, operation: StartedOperation, key: usize, version: u64) {
        if self.inner.lock().is_impossible(operation) {
            self.complain_about(Item::Key(key), &format!("key {key}: {IMPOSSIBLE}"));
        }
        self.raise(operation, Item::Key(key), version, "acknowledged");
    }

    /// Records that an addition was acknowledged.
    pub(crate) fn acknowledge_addition(&self, operation: StartedOperation, counter: usize) {
        let mut inner = self.inner.lock();
        let is_impossible = inner.is_impossible(operation);
        let counts = !inner.breaking && inner.era == operation.era;
        inner.minima[counter].end(operation.addition, counts);
        let minimum = inner.minima[counter].value();
        drop(inner);
        if is_impossible {
            self.complain_about(Item::Counter(counter), &format!("counter {counter}: {IMPOSSIBLE}"));
        }
        self.raise(operation, Item::Counter(counter), minimum, "acknowledged up to");
    }

    /// Records that an addition was answered by an error: it may have happened.
    pub(crate) fn failed_addition(&self, operation: StartedOperation, counter: usize) {
        self.inner.lock().minima[counter].end(operation.addition, false);
    }

    fn raise(&self, operation: StartedOperation, item: Item, value: u64, what: &'static str) {
        let mut inner = self.inner.lock();
        if inner.breaking || inner.era != operation.era {
            self.note(&mut inner, item, "answered, which does not count,", 0);
            return;
        }
        let state = inner.state(item);
        if value > state.acknowledged {
            state.acknowledged = value;
            inner.store(item);
            self.note(&mut inner, item, what, value);
        }
    }

    /// Records that a write was answered by an error: it may have happened.
    pub(crate) fn failed(&self, key: usize, version: u64) {
        self.note(&mut self.inner.lock(), Item::Key(key), "failed", version);
    }

    /// Begins a read. Returns the minimum version that it must show.
    pub(crate) fn begin_read(&self, key: usize) -> (StartedOperation, u64) {
        let inner = self.inner.lock();
        (inner.begin(), inner.keys[key].acknowledged)
    }

    /// Begins a scan. Returns the minimum version that it must show of each key.
    pub(crate) fn begin_scan(&self) -> (StartedOperation, Vec<u64>) {
        let inner = self.inner.lock();
        (inner.begin(), inner.keys.iter().map(|state| state.acknowledged).collect())
    }

    /// Returns the greatest version of each key that was sent, and each counter's sum of all additions that were sent.
    pub(crate) fn sent(&self) -> (Vec<u64>, Vec<u64>) {
        let inner = self.inner.lock();
        let sent = |states: &[State]| states.iter().map(|state| state.sent).collect();
        (sent(&inner.keys), sent(&inner.counters))
    }

    /// Returns the minimum version of each key, and the minimum sum of each counter, that a read that begins now must
    /// show.
    pub(crate) fn least(&self) -> (Vec<u64>, Vec<u64>) {
        let inner = self.inner.lock();
        let least = |states: &[State]| states.iter().map(|state| state.acknowledged).collect();
        (least(&inner.keys), least(&inner.counters))
    }

    /// Begins a read of a counter.
    pub(crate) fn begin_sum(&self, counter: usize) -> (StartedOperation, u64) {
        let inner = self.inner.lock();
        (inner.begin(), inner.counters[counter].acknowledged)
    }

    /// Judges the version that a read showed, and complains if it is wrong. `seen` is an error if the row itself is
    /// wrong.
    pub(crate) fn saw(
        &self,
        operation: StartedOperation,
        key: usize,
        least: u64,
        seen: Result<Option<u64>, String>,
        how: &str,
    ) {
        let sent = self.inner.lock().keys[key].sent;
        match seen.and_then(|seen| judge(self.content, key, least, sent, seen)) {
            Ok(version) => self.raise(operation, Item::Key(key), version, "read"),
            Err(why) => self.complain_about(Item::Key(key), &format!("key {key} by {how}: {why}")),
        }
    }

    /// Judges the value that a read of a counter showed, and complains if it is wrong.
    pub(crate) fn saw_sum(&self, operation: StartedOperation, counter: usize, least: u64, seen: u64) {
        let sent = self.inner.lock().counters[counter].sent;
        match judge_sum(least, sent, seen) {
            Ok(value) => {
                let mut inner = self.inner.lock();
                if !inner.breaking && inner.era == operation.era {
                    let next = inner.additions + 1;
                    inner.minima[counter].read(value, next);
                }
                drop(inner);
                self.raise(operation, Item::Counter(counter), value, "read");
            }
            Err(why) => self.complain_about(Item::Counter(counter), &format!("counter {counter}: {why}")),
        }
    }

    /// Records that the disk is about to break (`true`), or that it works again (`false`). Answers to operations that
    /// began before are ignored.
    ///
    /// Linux reports success for a sync that began before a loss of power and wrote nothing.
    pub(crate) fn set_breaking(&self, breaking: bool) {
        let mut inner = self.inner.lock();
        inner.breaking = breaking;
        inner.down = false;
        inner.era += 1;
    }

    /// Records that every write to the disk fails from now on, until the next [`set_breaking`](Expected::set_breaking).
    /// A write that begins from now on and is acknowledged before then is a complaint.
    pub(crate) fn set_down(&self) {
        let mut inner = self.inner.lock();
        inner.down = true;
        inner.era += 1;
    }

    fn complain_about(&self, item: Item, why: &str) {
        let mut inner = self.inner.lock();
        let events: Vec<String> = inner
            .events
            .iter()
            .rev()
            .filter(|event| event.item == item)
            .take(16)
            .map(|event| format!("{} ms {} {}", event.moment_ms, event.what, event.number))
            .collect();
        let now = self.moment_ms();
        inner.complaints.push(format!("{why} (now {now} ms; newest first: {})", events.join("; ")));
    }

    /// Records a complaint.
    pub(crate) fn complain(&self, why: String) {
        self.inner.lock().complaints.push(why);
    }

    /// Returns the first complaint; `None` if there is none.
    pub(crate) fn complaint(&self) -> Option<String> {
        self.inner.lock().complaints.first().cloned()
    }

    fn moment_ms(&self) -> u64 {
        self.world.moment().since(self.began).as_millis() as u64
    }

    fn note(&self, inner: &mut Inner, item: Item, what: &'static str, number: u64) {
        if inner.events.len() == EVENTS_MAX {
            inner.events.pop_front();
        }
        inner.events.push_back(Event { moment_ms: self.moment_ms(), item, what, number });
    }
}

impl Inner {
    fn begin(&self) -> StartedOperation {
        StartedOperation { era: self.era, addition: 0 }
    }

    /// Returns whether nobody can have done this operation, which began when the disk was down and is acknowledged
    /// while it still is.
    fn is_impossible(&self, operation: StartedOperation) -> bool {
        self.down && self.era == operation.era
    }

    fn state(&mut self, item: Item) -> &mut State {
        match item {
            Item::Key(key) => &mut self.keys[key],
            Item::Counter(counter) => &mut self.counters[counter],
        }
    }

    fn store(&mut self, item: Item) {
        let index = match item {
            Item::Key(key) => key,
            Item::Counter(counter) => self.keys.len() + counter,
        };
        let state = *self.state(item);
        let bytes = [state.acknowledged.to_le_bytes(), state.sent.to_le_bytes()].concat();
        if let Err(error) = self.file.write_all_at(&bytes, HEADER_BYTES + STATE_BYTES * index as u64) {
            self.complaints.push(format!("the file of the expected state cannot be written: {error}"));
        }
    }
}

#[cfg(test)]
mod tests;
