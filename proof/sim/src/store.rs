//! An object store: files that appear when they are whole, swaps whose replies get lost, and listings of yesterday.
//!
//! It stands in for `objectstore`, at the level of [`Files`]: none of the optional capabilities, tens of milliseconds for a
//! call, and what is there outlives every process and loss of power. Its faults are those that a client of a store cannot
//! tell from one another:
//!
//! - a call fails and changed nothing;
//! - a call took place, and its reply is lost;
//! - a swap whose reply is lost takes place seconds later, if the object still is as it expects;
//! - a listing is as old as one of the few before it. Not of the folders in which a store's list or a table's schema is found by
//!   its number: there the listing must be up to date, as S3 promises.

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

/// How a store is now.
#[derive(Clone, Copy, Debug)]
pub struct StoreConduct {
    /// How long a call takes, in µs: at least, and on top at random.
    pub call_us: (u64, u64),
    /// Calls that fail, of 10,000.
    pub failing_of_10_000: u64,
    /// Listings that are as old as one before, of 10.
    pub stale_of_10: u64,
}

impl Default for StoreConduct {
    fn default() -> StoreConduct {
        StoreConduct { call_us: (2_000, 30_000), failing_of_10_000: 0, stale_of_10: 0 }
    }
}

/// Of the calls that fail, those whose reply is lost, of 10.
const LOST_OF_10: u64 = 5;
/// Of the swaps whose reply is lost, those that take place later, of 10.
const LATE_OF_10: u64 = 5;
/// How many listings before the last one a listing may be as old as.
const OLD_LISTINGS: usize = 4;
/// How much later a swap takes place at most, in ns.
const LATE_MAX: u64 = 5_000_000_000;

/// A swap that takes place later.
struct LateSwap {
    at: u64,
    name: FileName,
    expected: Option<Version>,
    new: Vec<u8>,
}

#[derive(Default)]
struct State {
    conduct: StoreConduct,
    late: Vec<LateSwap>,
    /// What the last listings of a folder had, the newest last.
    listed: BTreeMap<FileName, VecDeque<Vec<Entry>>>,
}

/// See the file. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    content: Memory,
    state: Arc<Mutex<State>>,
    /// How many awaited reads run at once; `None` where threads wait for reads.
    awaited: Option<Arc<Semaphore>>,
    awaited_max: Option<usize>,
}

/// What becomes of a call that fails.
enum Failure {
    /// It takes place, then this is the answer.
    After(Error),
    /// It takes place later.
    Later(Error),
}

impl Store {
    /// An empty store. With `awaited_max` its reads can be awaited, and so many run at once.
    pub fn new(awaited_max: Option<usize>) -> Store {
        let awaited = awaited_max.map(|most| Arc::new(Semaphore::new(most)));
        Store { content: Memory::with(Capabilities::NONE), state: Arc::default(), awaited, awaited_max }
    }

    /// The same store for a new process, none of whose reads run yet. Those of a process that was killed never end.
    #[must_use]
    pub fn for_process(&self) -> Store {
        Store { awaited: self.awaited_max.map(|most| Arc::new(Semaphore::new(most))), ..self.clone() }
    }

    /// What is in it.
    pub fn content(&self) -> Memory {
        self.content.clone()
    }

    /// Changes how the store is.
    pub fn set_conduct(&self, conduct: StoreConduct) {
        self.state.lock().conduct = conduct;
    }

    /// Whether calls fail now.
    pub fn is_failing(&self) -> bool {
        self.state.lock().conduct.failing_of_10_000 > 0
    }

    /// Takes the time of a call, and says what becomes of it: `Err` if it does not take place.
    fn call(&self, act: &'static str, name: &FileName) -> Result<Option<Failure>> {
        env::simulation::hold(self.begin_call(act, name));
        self.end_call(act, name)
    }

    /// How long a call takes that begins now.
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
        self.let_late_swaps_happen();
        if scheduler.below(10_000) >= conduct.failing_of_10_000 {
            return Ok(None);
        }
        let changes = matches!(act, "finish" | "delete" | "swap" | "settle");
        let is_lost = changes && scheduler.below(10) < LOST_OF_10;
        let is_late = is_lost && act == "swap" && scheduler.below(10) < LATE_OF_10;
        let outcome = if is_lost { Outcome::MayHaveHappened } else { Outcome::DidNotHappen };
        scheduler.count(match (is_lost, is_late) {
            (_, true) => "fault: a swap of the store takes place late",
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

    fn let_late_swaps_happen(&self) {
        let scheduler = scheduler();
        let now = scheduler.now();
        let due: Vec<LateSwap> = self.state.lock().late.extract_if(.., |swap| swap.at <= now).collect();
        for LateSwap { name, expected, new, .. } in due {
            let outcome =
                scheduler.without_interruption(|| self.content.swap(&name, expected.as_ref(), &new));
            scheduler.note(|| format!("fault  store late swap {name}: {}", outcome.is_ok()));
            if outcome.is_ok() {
                env::sometimes("store: a late swap took place");
            }
        }
    }

    /// A call that cannot take place later.
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

    /// Nothing is sent before the file is finished.
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
        if decides(folder) || known.len() == 1 || scheduler().below(10) >= stale_of_10 {
            return Ok(found);
        }
        scheduler().count("fault: a stale listing of the store");
        Ok(known[scheduler().below(known.len() as u64 - 1) as usize].clone())
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        self.act("delete", name, || self.content.delete(name))
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        self.act("load", name, || self.content.load(name, bytes_max))
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        let failure = self.call("swap", name)?;
        if let Some(Failure::Later(error)) = failure {
            let at = scheduler().now() + scheduler().below(LATE_MAX);
            let swap = LateSwap { at, name: name.clone(), expected: expected.cloned(), new: new.to_vec() };
            self.state.lock().late.push(swap);
            return Err(error);
        }
        let version = scheduler().without_interruption(|| self.content.swap(name, expected, new))?;
        match failure {
            Some(Failure::After(error) | Failure::Later(error)) => Err(error),
            None => Ok(version),
        }
    }

    /// Sends the swap again, after which an earlier one cannot take place any more: the object is not as it expects.
    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        self.act("settle", name, || {
            if let Ok(version) = self.content.swap(name, expected, new) {
                return Ok(Settled::Happened(version));
            }
            match self.content.load(name, usize::MAX) {
                Ok(found) if found.content == new => Ok(Settled::Happened(found.version)),
                _ => Ok(Settled::Replaced),
            }
        })
    }

    fn place(&self) -> String {
        "simulated store".to_owned()
    }
}

/// Whether the newest file in a folder counts.
fn decides(folder: &FileName) -> bool {
    matches!(folder.last(), ".filelist" | ".tabledesc")
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
        store.act("finish", &name, || inner.finish())
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
            // A read that fails changed nothing.
            store.end_call("read", &name)?;
            env::sometimes("store: an awaited read");
            let mut bytes = vec![0; length];
            scheduler().without_interruption(|| inner.read_at(offset, &mut bytes))?;
            Ok(Bytes::from(bytes))
        }))
    }
}
