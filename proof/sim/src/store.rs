//! A simulated object store: files that appear whole, swaps whose replies are lost, and stale listings.
//!
//! It replaces `objectstore` at the level of [`Files`]: it has none of the optional capabilities, a call takes tens of
//! milliseconds, and its content survives every process and loss of power. Its faults are those that a client of a
//! store cannot distinguish:
//!
//! - a call fails and changes nothing;
//! - a call happens, and its reply is lost;
//! - a change whose reply is lost happens seconds later: a swap if the object still has the expected version, a new
//!   file if there is none with its name, a deletion in any case;
//! - a change arrives once more up to a minute later, with the same condition;
//! - a listing is as old as one of the last few. Folders in which the server finds small objects (file lists, schemas,
//!   links, snapshots) are exempt: there listings are up to date, as S3 promises and the probe at the start checks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use storage::{
    AwaitedRead, Capabilities, Entry, Error, FileName, FileReader, FileWriter, Files, Kind, Memory, Object,
    Outcome, Result, Settled, Version,
};
use tokio::sync::Semaphore;

use crate::scheduler::scheduler;

/// The present behaviour of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreConduct {
    /// Duration of a call, in µs: the minimum, and the maximum random addition.
    pub call_us: (u64, u64),
    /// Number of failing calls in 10,000.
    pub failing_of_10_000: u64,
    /// Number of stale listings in 10.
    pub stale_of_10: u64,
    /// Number of changes in 10,000 that arrive twice.
    pub twice_of_10_000: u64,
}

impl Default for StoreConduct {
    fn default() -> StoreConduct {
        StoreConduct { call_us: (2_000, 30_000), failing_of_10_000: 0, stale_of_10: 0, twice_of_10_000: 0 }
    }
}

/// Number of failing calls in 10 that happen, and whose reply is lost.
const LOST_OF_10: u64 = 5;
/// Number of changes in 10 with a lost reply that happen later.
const LATE_OF_10: u64 = 5;
/// Maximum age of a stale listing, in listings.
const OLD_LISTINGS: usize = 4;
/// Maximum delay of a late change, in ns.
const LATE_MAX: u64 = 5_000_000_000;
/// Maximum delay of a change that arrives a second time, in ns.
const TWICE_MAX: u64 = 60_000_000_000;

/// A request that changes an object.
enum Change {
    /// Replaces the object if it has this version, or creates it if it is expected not to exist.
    Swap { expected: Option<Version>, new: Vec<u8> },
    /// Deletes the object.
    Delete,
}

/// A change that happens later.
struct LateChange {
    at: u64,
    name: FileName,
    change: Change,
    /// Whether the same change has arrived before.
    is_repeated: bool,
}

#[derive(Default)]
struct State {
    conduct: StoreConduct,
    late: Vec<LateChange>,
    /// The last listings of each folder, the newest last.
    listed: BTreeMap<FileName, VecDeque<Vec<Entry>>>,
}

/// A simulated object store; see the module documentation. Clones share it.
#[derive(Clone)]
pub struct Store {
    content: Memory,
    state: Arc<Mutex<State>>,
    /// Maximum number of awaited reads at once; `None` if reads block.
    awaited: Option<Arc<Semaphore>>,
    awaited_max: Option<usize>,
}

/// The effect of a failing call.
enum Failure {
    /// The call happens, and this error is the answer.
    After(Error),
    /// The call happens later, and this error is the answer now.
    Later(Error),
}

impl Store {
    /// Creates an empty store. With `awaited_max` its reads can be awaited, and at most that many run at once.
    pub fn new(awaited_max: Option<usize>) -> Store {
        let awaited = awaited_max.map(|most| Arc::new(Semaphore::new(most)));
        Store { content: Memory::with(Capabilities::NONE), state: Arc::default(), awaited, awaited_max }
    }

    /// Returns the store for a new process, without running reads. Reads of a killed process never end.
    #[must_use]
    pub fn for_process(&self) -> Store {
        Store { awaited: self.awaited_max.map(|most| Arc::new(Semaphore::new(most))), ..self.clone() }
    }

    /// Returns the content of the store.
    pub fn content(&self) -> Memory {
        self.content.clone()
    }

    /// Changes the behaviour of the store.
    pub fn set_conduct(&self, conduct: StoreConduct) {
        self.state.lock().conduct = conduct;
    }

    /// Whether calls fail now.
    pub fn is_failing(&self) -> bool {
        self.state.lock().conduct.failing_of_10_000 > 0
    }

    /// Waits for the duration of a call, and returns its failure: `Err` if it does not happen.
    fn call(&self, act: &'static str, name: &FileName) -> Result<Option<Failure>> {
        env::simulation::suspend(self.begin_call(act, name));
        self.end_call(act, name)
    }

    /// Returns the duration of a call that begins now.
    fn begin_call(&self, act: &'static str, name: &FileName) -> Duration {
        let conduct = self.state.lock().conduct;
        let scheduler = scheduler();
        let us = conduct.call_us.0 + scheduler.below(conduct.call_us.1 + 1);
        scheduler.note(|| format!("store  {act} {name}"));
        Duration::from_micros(us)
    }

    fn end_call(&self, act: &'static str, name: &FileName) -> Result<Option<Failure>> {
        let conduct = self.state.lock().conduct;
        let scheduler = scheduler();
        self.let_late_changes_happen();
        if scheduler.below(10_000) >= conduct.failing_of_10_000 {
            return Ok(None);
        }
        let changes = matches!(act, "finish" | "delete" | "swap" | "settle");
        let is_lost = changes && scheduler.below(10) < LOST_OF_10;
        let is_late = is_lost && act != "settle" && scheduler.below(10) < LATE_OF_10;
        let outcome = if is_lost { Outcome::MayHaveHappened } else { Outcome::DidNotHappen };
        scheduler.count(match (is_lost, is_late) {
            (_, true) => "fault: a change of the store takes place late",
            (true, _) => "fault: a reply of the store is lost",
            _ => "fault: a call of the store fails",
        });
        scheduler.note(|| format!("fault  store {act} {name} fails, {outcome:?}, late: {is_late}"));
        let error = Error::new(Kind::Failed, outcome, name, act).because("the simulated store failed");
        match (is_lost, is_late) {
            (_, true) => Ok(Some(Failure::Later(error))),
            (true, _) => Ok(Some(Failure::After(error))),
            _ => Err(error),
        }
    }

    fn let_late_changes_happen(&self) {
        let scheduler = scheduler();
        let now = scheduler.now();
        let due: Vec<LateChange> = self.state.lock().late.extract_if(.., |late| late.at <= now).collect();
        for LateChange { name, change, is_repeated, .. } in due {
            let has_changed = scheduler.without_interruption(|| match &change {
                Change::Swap { expected, new } => self.content.swap(&name, expected.as_ref(), new).is_ok(),
                Change::Delete => {
                    let was_there = self.content.open(&name).is_ok();
                    was_there && self.content.delete(&name).is_ok()
                }
            });
            let what = if matches!(change, Change::Delete) { "deletion" } else { "write" };
            scheduler.note(|| {
                format!(
                    "fault  store late {what} of {name}, repeated: {is_repeated}, takes effect: {has_changed}"
                )
            });
            match (has_changed, is_repeated) {
                (true, true) => env::sometimes("store: a change that arrived twice took effect twice"),
                (true, false) => env::sometimes("store: a late change took place"),
                (false, _) => {}
            }
        }
    }

    fn add_late(&self, name: &FileName, change: Change, delay_max: u64, is_repeated: bool) {
        let at = scheduler().now() + scheduler().below(delay_max);
        self.state.lock().late.push(LateChange { at, name: name.clone(), change, is_repeated });
    }

    /// Lets some changes arrive a second time. `change` is one that the store has now carried out or refused.
    fn perhaps_repeat(&self, name: &FileName, change: Change) {
        let twice_of_10_000 = self.state.lock().conduct.twice_of_10_000;
        if scheduler().below(10_000) < twice_of_10_000 {
            scheduler().count("fault: a change of the store arrives twice");
            self.add_late(name, change, TWICE_MAX, true);
        }
    }

    /// Runs a call that changes an object: now, later or twice.
    fn change(&self, act: &'static str, name: &FileName, change: Change) -> Result<Option<Version>> {
        let failure = self.call(act, name)?;
        if let Some(Failure::Later(error)) = failure {
            self.add_late(name, change, LATE_MAX, false);
            return Err(error);
        }
        let done = scheduler().without_interruption(|| match &change {
            Change::Swap { expected, new } => self.content.swap(name, expected.as_ref(), new).map(Some),
            Change::Delete => self.content.delete(name).map(|()| None),
        });
        self.perhaps_repeat(name, change);
        match failure {
            Some(Failure::After(error) | Failure::Later(error)) => done.and(Err(error)),
            None => done,
        }
    }

    /// Runs a call that cannot happen later.
    fn act<T>(&self, act: &'static str, name: &FileName, done: impl FnOnce() -> Result<T>) -> Result<T> {
        let failure = self.call(act, name)?;
        let done = scheduler().without_interruption(done)?;
        match failure {
            None => Ok(done),
            Some(Failure::After(error) | Failure::Later(error)) => Err(error),
        }
    }
}

impl Files for Store {
    fn capabilities(&self) -> Capabilities {
        self.content.capabilities()
    }

    /// Begins a file. Nothing is sent before the file is finished.
    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        let inner = scheduler().without_interruption(|| self.content.create(name))?;
        Ok(Box::new(Writer { inner, store: self.clone(), name: name.clone() }))
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        let inner = self.act("open", name, || self.content.open(name))?;
        Ok(Arc::new(Reader { inner, store: self.clone(), name: name.clone() }))
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let found = self.act("list", folder, || self.content.list(folder))?;
        let mut state = self.state.lock();
        let stale_of_10 = state.conduct.stale_of_10;
        let known = state.listed.entry(folder.clone()).or_default();
        if known.len() > OLD_LISTINGS {
            known.pop_front();
        }
        known.push_back(found.clone());
        if finds_small_objects(folder) || known.len() == 1 || scheduler().below(10) >= stale_of_10 {
            return Ok(found);
        }
        scheduler().count("fault: a stale listing of the store");
        Ok(known[scheduler().below(known.len() as u64 - 1) as usize].clone())
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        self.change("delete", name, Change::Delete).map(drop)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        self.act("load", name, || self.content.load(name, bytes_max))
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        let change = Change::Swap { expected: expected.cloned(), new: new.to_vec() };
        self.change("swap", name, change).map(|version| version.expect("a swap gives a version"))
    }

    /// Sends the swap again. After that an earlier request cannot happen any more, because the version has changed.
    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        let settled = self.act("settle", name, || {
            if let Ok(version) = self.content.swap(name, expected, new) {
                return Ok(Settled::Happened(version));
            }
            match self.content.load(name, usize::MAX) {
                Ok(found) if found.content == new => Ok(Settled::Happened(found.version)),
                _ => Ok(Settled::Replaced),
            }
        });
        self.perhaps_repeat(name, Change::Swap { expected: expected.cloned(), new: new.to_vec() });
        settled
    }

    fn place(&self) -> String {
        "simulated store".to_owned()
    }
}

/// Whether the server finds small objects by listing this folder; see [`Files::list`]. The lists of all regions of a
/// table are found in the table's folder.
fn finds_small_objects(folder: &FileName) -> bool {
    let parts: Vec<&str> = folder.as_str().split('/').collect();
    match parts[..] {
        [".hbase-snapshot", ..] | ["data", _, _] => true,
        [.., last] => matches!(last, ".filelist" | ".tabledesc") || last.starts_with(".links-"),
        [] => false,
    }
}

struct Writer {
    inner: Box<dyn FileWriter>,
    store: Store,
    name: FileName,
}

impl FileWriter for Writer {
    fn name(&self) -> &FileName {
        &self.name
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        scheduler().without_interruption(|| self.inner.write(bytes))
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        let Writer { inner, store, name } = *self;
        let failure = store.call("finish", &name)?;
        let is_late = matches!(failure, Some(Failure::Later(_)));
        let (size, new) = scheduler().without_interruption(|| {
            let size = inner.finish()?;
            let new = store.content.load(&name, usize::MAX)?.content;
            if is_late {
                store.content.delete(&name)?;
            }
            Ok((size, new))
        })?;
        let change = Change::Swap { expected: None, new };
        match failure {
            Some(Failure::Later(error)) => {
                store.add_late(&name, change, LATE_MAX, false);
                Err(error)
            }
            Some(Failure::After(error)) => Err(error),
            None => {
                store.perhaps_repeat(&name, change);
                Ok(size)
            }
        }
    }

    fn abandon(self: Box<Self>) {
        scheduler().without_interruption(|| self.inner.abandon());
    }
}

struct Reader {
    inner: Arc<dyn FileReader>,
    store: Store,
    name: FileName,
}

impl FileReader for Reader {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.store.act("read", &self.name, || self.inner.read_at(offset, buffer))
    }

    fn read_awaited(&self, offset: u64, length: usize) -> Option<AwaitedRead> {
        let (limit, store) = (Arc::clone(self.store.awaited.as_ref()?), self.store.clone());
        let (inner, name) = (Arc::clone(&self.inner), self.name.clone());
        Some(Box::pin(async move {
            let _permit = limit.acquire().await.expect("the semaphore is never closed");
            env::sleep(store.begin_call("read", &name)).await;
            // A read that fails changes nothing, so it need not be carried out.
            store.end_call("read", &name)?;
            env::sometimes("store: an awaited read");
            let mut bytes = vec![0; length];
            scheduler().without_interruption(|| inner.read_at(offset, &mut bytes))?;
            Ok(Bytes::from(bytes))
        }))
    }
}
