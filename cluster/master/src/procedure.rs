//! Procedures: changes that take time. A client starts a procedure, and then asks until it has ended.
//!
//! Each procedure runs on a thread of its own, as soon as it has its locks ([`locks`]), up to a limit of threads. The
//! outcome is kept for a while for clients that ask for it. A submission with the nonce of an earlier one returns the
//! id of the earlier procedure.
//!
//! A procedure that waits for its locks can be aborted. A running one can be aborted until it has passed its point of
//! no return ([`Context::pass_point_of_no_return`]); it checks for an abort at the steps that it can undo.
//!
//! Procedures are not stored, but their intents are ([`crate::intents`]). The steps are ordered so that after a crash
//! the catalog alone shows whether the table exists (see [`crate::tables`]). A procedure of an earlier master may have
//! been forgotten before its intent was stored, so the answer to a client that asks for it has an exception
//! ([`unknown`]). Without the exception HBase's asynchronous client would report success.

mod context;
mod kind;
pub mod locks;
mod parameters;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use env::sync::{Condvar, Mutex};
use env::{FirstFailure, HashMap, Moment, Priority, WallTime, World};
use proto::TableName;
use rpc::Exception;

pub use context::{Context, ProcedureEnd};
pub use kind::ProcedureKind;
pub use parameters::Parameters;

use crate::procedure::locks::{LockSet, LockStatus, Locks, Resource};
use context::aborted;

/// The id by which clients ask for a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcedureId(pub u64);

/// A nonce group and a nonce, by which the master recognizes a repeated submission. A nonce of zero is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NonceKey {
    /// The client's nonce group.
    pub group: u64,
    /// The submission's nonce.
    pub nonce: u64,
}

impl NonceKey {
    /// Returns the nonce of a request, if it has one that is not zero.
    pub fn of(group: Option<u64>, nonce: Option<u64>) -> Option<NonceKey> {
        match (group.unwrap_or(0), nonce.unwrap_or(0)) {
            (_, 0) => None,
            (group, nonce) => Some(NonceKey { group, nonce }),
        }
    }
}

/// Limits of the master's procedures.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum number of procedures that run at the same time (`hbase.master.procedure.threads`).
    pub threads_max: usize,
    /// Maximum number of waiting procedures; further submissions are refused.
    pub waiting_max: usize,
    /// Maximum number of retries of a failed step of a split or merge that cannot be undone.
    pub retries_max: u32,
    /// How long an outcome is kept (`hbase.procedure.cleaner.evict.ttl`). Default 15 minutes.
    pub outcome_kept: Duration,
    /// How long an outcome is kept after a client has read it (`hbase.procedure.cleaner.acked.evict.ttl`). Default 5
    /// minutes.
    pub read_outcome_kept: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads_max: 16,
            waiting_max: 10_000,
            retries_max: 5,
            outcome_kept: Duration::from_secs(15 * 60),
            read_outcome_kept: Duration::from_secs(5 * 60),
        }
    }
}

/// The state of a procedure.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The procedure waits or runs.
    Running {
        /// When the procedure was submitted.
        submitted: WallTime,
    },
    /// The procedure has ended.
    Finished {
        /// When the procedure was submitted.
        submitted: WallTime,
        /// When the procedure ended.
        ended: WallTime,
        /// The result of the procedure, or why it failed.
        result: Result<Bytes, Exception>,
    },
}

/// The description of a new procedure.
#[derive(Clone, Debug)]
pub struct Submission {
    /// What the procedure does.
    pub kind: ProcedureKind,
    /// The locks that the procedure needs.
    pub locks: LockSet,
    /// The nonce by which a repeated submission is recognized.
    pub nonce: Option<NonceKey>,
}

/// A procedure as lists show it.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The id of the procedure.
    pub id: ProcedureId,
    /// What the procedure does.
    pub kind: ProcedureKind,
    /// The user who submitted it; `None` for the master itself.
    pub owner: Option<Arc<str>>,
    /// When the last state began: when the procedure was submitted, began to run, or ended.
    pub updated: WallTime,
    /// The nonce by which a repeated submission is recognized.
    pub nonce: Option<NonceKey>,
    /// Whether the procedure has its locks.
    pub is_locked: bool,
    /// The state of the procedure.
    pub outcome: Outcome,
    /// The parameters of the procedure, if they were set by [`Procedures::describe`].
    pub parameters: Option<Arc<Parameters>>,
}

/// Returns the exception for a client that asks for the outcome of a procedure that this master does not know. The
/// change may have been made.
pub fn unknown(id: ProcedureId) -> Exception {
    Exception::do_not_retry(format!(
        "the outcome of procedure {} is unknown: the master was started after the procedure was submitted, or keeps its \
         outcome no longer; look whether the change was made, and repeat it if not",
        id.0
    ))
}

type Work = Box<dyn FnOnce(&Context) -> Result<Bytes, Exception> + Send>;

/// The answer to a request to abort a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Abort {
    /// The procedure can be aborted.
    Possible,
    /// An abort was requested, and the procedure will end by it.
    Requested,
    /// The procedure has passed its point of no return.
    TooLate,
}

struct Entry {
    kind: ProcedureKind,
    owner: Option<Arc<str>>,
    updated: WallTime,
    outcome: Outcome,
    abort: Abort,
    ended: Option<Moment>,
    /// When a client first read the outcome; `None` if no client has.
    read: Option<Moment>,
    nonce: Option<NonceKey>,
    parameters: Option<Arc<Parameters>>,
}

#[derive(Default)]
struct Inner {
    last: u64,
    known: HashMap<ProcedureId, Entry>,
    by_nonce: HashMap<NonceKey, ProcedureId>,
    /// Tasks that wait for the end of a procedure.
    wakers: HashMap<ProcedureId, Vec<Waker>>,
    locks: Locks,
    /// The work of procedures that wait for their locks.
    waiting: HashMap<ProcedureId, Work>,
    /// Procedures that have begun and wait for other locks. Their threads are blocked.
    relocking: BTreeSet<ProcedureId>,
    running: usize,
}

/// All procedures of a master.
pub struct Procedures {
    world: World,
    options: Options,
    /// Records that another process has taken over the files. From then on no client gets the outcome of a procedure,
    /// because only the other process knows it.
    replaced: Arc<FirstFailure>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

thread_local! {
    static USER: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Calls `act`, whose submissions belong to `user`. Everything from a request to its submission runs in one call on one
/// thread.
pub fn acting_for<T>(user: Option<Arc<str>>, act: impl FnOnce() -> T) -> T {
    let before = USER.replace(user);
    let result = act();
    USER.set(before);
    result
}

impl Procedures {
    /// Creates the procedures of a master. Ids start at the wall clock's milliseconds, so that ids of earlier masters
    /// are not used again, unless the clock was set back.
    pub fn new(world: World, options: Options, replaced: Arc<FirstFailure>) -> Arc<Procedures> {
        let last = u64::try_from(world.now().0).unwrap_or(0);
        Arc::new(Procedures {
            world,
            options,
            replaced,
            inner: Mutex::new(Inner { last, ..Inner::default() }),
            changed: Condvar::new(),
        })
    }

    /// Submits `work`, which begins when the procedure has its locks. If the nonce is that of an earlier submission,
    /// the id of the earlier procedure is returned, and `work` is dropped.
    pub fn submit(
        self: &Arc<Self>,
        submission: Submission,
        work: impl FnOnce(&Context) -> Result<Bytes, Exception> + Send + 'static,
    ) -> Result<ProcedureId, Exception> {
        let Submission { kind, locks, nonce } = submission;
        let mut inner = self.inner.lock();
        self.forget_old(&mut inner);
        if let Some(&known) = nonce.and_then(|nonce| inner.by_nonce.get(&nonce)) {
            return Ok(known);
        }
        if inner.waiting.len() >= self.options.waiting_max {
            return Err(Exception::io(format!(
                "{} procedures wait already, the limit: try again when some have ended",
                inner.waiting.len()
            )));
        }
        inner.last += 1;
        let (id, submitted) = (ProcedureId(inner.last), self.world.now());
        let entry = Entry {
            kind,
            owner: USER.with_borrow(Clone::clone),
            updated: submitted,
            outcome: Outcome::Running { submitted },
            abort: Abort::Possible,
            ended: None,
            read: None,
            nonce,
            parameters: None,
        };
        inner.known.insert(id, entry);
        if let Some(nonce) = nonce {
            inner.by_nonce.insert(nonce, id);
        }
        inner.waiting.insert(id, Box::new(work));
        inner.locks.request(id, locks);
        self.start_ready(&mut inner);
        Ok(id)
    }

    /// Sets the parameters that lists show of a procedure.
    pub fn describe(&self, id: ProcedureId, parameters: Parameters) {
        if let Some(entry) = self.inner.lock().known.get_mut(&id) {
            entry.parameters = Some(Arc::new(parameters));
        }
    }

    /// Returns the procedure that was submitted with this nonce, so that a repeated submission skips the checks. `None`
    /// if there is no nonce, or no known procedure with it.
    pub fn repeated(&self, nonce: Option<NonceKey>) -> Option<ProcedureId> {
        nonce.and_then(|nonce| self.inner.lock().by_nonce.get(&nonce).copied())
    }

    /// Returns the state of `id`; `None` if this master never used the id, or used it long ago.
    pub fn outcome(&self, id: ProcedureId) -> Option<Outcome> {
        let mut inner = self.inner.lock();
        self.forget_old(&mut inner);
        inner.known.get(&id).map(|entry| entry.outcome.clone())
    }

    /// Records that a client has read the outcome of `id`, which is then kept for a shorter time.
    pub fn note_read(&self, id: ProcedureId) {
        let now = self.world.moment();
        if let Some(entry) = self.inner.lock().known.get_mut(&id)
            && entry.ended.is_some()
        {
            entry.read.get_or_insert(now);
        }
    }

    /// Returns all known procedures, by id: waiting, running, and recently ended ones.
    pub fn list(&self) -> Vec<Summary> {
        let mut inner = self.inner.lock();
        self.forget_old(&mut inner);
        let summary = |(id, entry): (&ProcedureId, &Entry)| Summary {
            id: *id,
            kind: entry.kind,
            owner: entry.owner.clone(),
            updated: entry.updated,
            nonce: entry.nonce,
            is_locked: inner.locks.held_by(*id).is_some(),
            outcome: entry.outcome.clone(),
            parameters: entry.parameters.clone(),
        };
        let mut all: Vec<Summary> = inner.known.iter().map(summary).collect();
        all.sort_by_key(|summary| summary.id);
        all
    }

    /// Returns every lock that a procedure holds or waits for.
    pub fn locks(&self) -> Vec<LockStatus> {
        self.inner.lock().locks.status()
    }

    /// Aborts a procedure. Returns whether the procedure will end without its change. A waiting procedure ends at once.
    /// A running procedure is aborted only if `may_interrupt` is set and it has not passed its point of no return.
    pub fn abort(self: &Arc<Self>, id: ProcedureId, may_interrupt: bool) -> bool {
        let mut inner = self.inner.lock();
        if inner.waiting.remove(&id).is_some() {
            inner.locks.release(id);
            self.record(&mut inner, id, Err(aborted()));
            self.start_ready(&mut inner);
            return true;
        }
        let Some(entry) = inner.known.get_mut(&id).filter(|entry| entry.ended.is_none()) else {
            return false;
        };
        if !may_interrupt || entry.abort == Abort::TooLate {
            return false;
        }
        entry.abort = Abort::Requested;
        true
    }

    /// Waits until the procedure `id` has ended, and returns its result; `None` for an unknown procedure. If another
    /// process takes over the files before the end, this does not return.
    pub fn wait(&self, id: ProcedureId) -> Option<Result<Bytes, Exception>> {
        let mut inner = self.inner.lock();
        loop {
            match &inner.known.get(&id)?.outcome {
                Outcome::Finished { result, .. } => return Some(result.clone()),
                Outcome::Running { .. } => self.changed.wait(&mut inner),
            }
        }
    }

    /// Returns a future that resolves when the procedure `id` has ended. For an unknown procedure it resolves to
    /// `None`. If another process takes over the files before the end, it does not resolve.
    pub fn end_of(self: &Arc<Self>, id: ProcedureId) -> ProcedureEnd {
        ProcedureEnd { procedures: Arc::clone(self), id }
    }

    /// Whether a procedure on this table waits or runs.
    pub fn is_busy(&self, table: &TableName) -> bool {
        self.inner.lock().locks.is_busy(&Resource::Table(table.clone()))
    }

    /// Waits until no procedure waits or runs.
    pub fn wait_idle(&self) {
        let mut inner = self.inner.lock();
        while inner.running > 0 || !inner.waiting.is_empty() {
            self.changed.wait(&mut inner);
        }
    }

    /// Returns the number of waiting and running procedures.
    pub fn unfinished(&self) -> usize {
        let inner = self.inner.lock();
        inner.running + inner.waiting.len()
    }

    /// Grants every lock that is free, and starts the procedures that waited for it.
    fn start_ready(self: &Arc<Self>, inner: &mut Inner) {
        loop {
            let Inner { locks, relocking, running, .. } = &mut *inner;
            let has_thread = *running < self.options.threads_max;
            let Some(id) = locks.grant(|id| has_thread || relocking.contains(&id)) else { return };
            if inner.relocking.remove(&id) {
                self.changed.notify_all();
                continue;
            }
            let Some(work) = inner.waiting.remove(&id) else { continue };
            inner.running += 1;
            let entry = inner.known.get_mut(&id).expect("kept until it has ended");
            entry.updated = self.world.now();
            let context = Context { procedures: Arc::clone(self), id };
            let name = format!("pid-{}-{}", id.0, entry.kind.label());
            let started = env::spawn_thread(&name, Priority::Foreground, move || {
                let result = env::caught(|| work(&context)).unwrap_or_else(|words| {
                    Err(Exception::io(format!("the procedure broke an invariant: {words}")))
                });
                context.ended(result);
            });
            if let Err(error) = started {
                inner.locks.release(id);
                inner.running -= 1;
                let failure = Exception::io(format!("no thread could be started for the procedure: {error}"));
                self.record(inner, id, Err(failure));
            }
        }
    }

    fn record(&self, inner: &mut Inner, id: ProcedureId, result: Result<Bytes, Exception>) {
        if self.replaced.has_happened() {
            self.changed.notify_all();
            return;
        }
        let entry = inner.known.get_mut(&id).expect("kept until it has ended");
        let (Outcome::Running { submitted } | Outcome::Finished { submitted, .. }) = entry.outcome;
        entry.updated = self.world.now();
        entry.outcome = Outcome::Finished { submitted, ended: entry.updated, result };
        entry.ended = Some(self.world.moment());
        self.changed.notify_all();
        inner.wakers.remove(&id).into_iter().flatten().for_each(Waker::wake);
    }

    fn forget_old(&self, inner: &mut Inner) {
        let now = self.world.moment();
        let (kept, read_kept) = (self.options.outcome_kept, self.options.read_outcome_kept);
        let by_nonce = &mut inner.by_nonce;
        inner.known.retain(|_, entry| {
            let keep = entry.ended.is_none_or(|ended| now.since(ended) < kept)
                && entry.read.is_none_or(|read| now.since(read) < read_kept);
            if let (false, Some(nonce)) = (keep, entry.nonce) {
                by_nonce.remove(&nonce);
            }
            keep
        });
    }
}

impl std::fmt::Debug for Procedures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Procedures").field("unfinished", &self.unfinished()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
