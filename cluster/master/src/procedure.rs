//! Procedures: changes that take time. A client starts a procedure, and then asks until it has ended.
//!
//! Each procedure runs on a thread of its own, as soon as it has its locks ([`locks`]), up to a limit of threads. The
//! outcome is kept for a while for clients that ask for it. A submission with the nonce of an earlier one returns the
//! id of the earlier procedure.
//!
//! A procedure that waits for its locks can be aborted. A running one can be aborted until it has passed its point of
//! no return ([`Context::pass_point_of_no_return`]); it checks for an abort at the steps that it can undo.
//!
//! The steps of procedures are not stored, but their intents are ([`crate::intents`]), and so are the ids, nonces and
//! outcomes of the procedures that clients submit ([`records`]). The steps are ordered so that after a crash the
//! catalog alone shows whether the table exists (see [`crate::tables`]). A start decides from that state how the
//! procedures ended that the crash interrupted ([`crate::interrupted`]).
//!
//! The answer to a client that asks for a procedure without a record has an exception ([`unknown`]). Without the
//! exception HBase's asynchronous client would report success.

mod context;
mod kind;
pub mod locks;
mod parameters;
pub mod records;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use env::sync::{Condvar, Mutex, MutexGuard};
use env::{HashMap, Moment, Priority, WallTime, World};
use proto::TableName;
use rpc::Exception;
use storage::{Files, Kind};

pub use context::{Context, ProcedureEnd};
pub use kind::ProcedureKind;
pub use parameters::Parameters;

use crate::Error;
use crate::error::of_storage;
use crate::owned_object::{OwnedObject, Ownership};
use crate::procedure::locks::{LockSet, LockStatus, Locks, Resource};
use context::aborted;
use records::{ENDED_MAX, ProcedureRecord, ProcedureRecords, ProcedureTarget, RecordedEnd};

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
    /// Maximum number of procedures that run at the same time (`hbase.master.procedure.threads`). One more may run while
    /// all of them wait for other locks.
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
    /// What the procedure changes. Work that has it gets a stored record if a client submits it.
    pub target: Option<ProcedureTarget>,
}

/// A procedure that a crash interrupted.
#[derive(Clone, Debug)]
pub(crate) struct InterruptedProcedure {
    /// The id of the procedure.
    pub(crate) id: ProcedureId,
    /// What the procedure does.
    pub(crate) kind: ProcedureKind,
    /// What the procedure changes.
    pub(crate) target: ProcedureTarget,
    /// Whether no other procedure with the same target ended after this one was submitted.
    pub(crate) is_alone: bool,
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

/// Returns the outcome of a procedure that a crash interrupted before its change.
fn interrupted(id: ProcedureId) -> Exception {
    Exception::do_not_retry(format!(
        "procedure {} was interrupted by the end of the server before its change was made: repeat it",
        id.0
    ))
}

/// Returns the exception for a submission whose record could not be stored. Clients retry it, except on a full disk.
fn not_recorded(cause: storage::Error) -> Exception {
    let (is_full, cause) = (cause.kind() == Kind::Full, of_storage(cause));
    let message = format!("the procedure was not begun, its record could not be stored: {}", cause.message);
    if is_full { Exception::do_not_retry(message) } else { Exception { message, ..cause } }
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
    /// The end of the procedure. It is set before clients can read it as the outcome, so that it is stored first.
    end: Option<RecordedEnd>,
    abort: Abort,
    /// When the outcome is deleted; `None` until the procedure has ended.
    deleted: Option<Moment>,
    nonce: Option<NonceKey>,
    parameters: Option<Arc<Parameters>>,
    /// Whether the procedure has a stored record.
    is_recorded: bool,
    /// Whether the record is being stored for the first time. Until then no client gets the id.
    is_new: bool,
    /// What the procedure changes; empty if the procedure has no record.
    target: ProcedureTarget,
}

impl Entry {
    /// Whether an earlier master submitted the procedure, and a crash interrupted it before its change.
    fn is_interrupted(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.is_interrupted)
    }

    fn record(&self, id: ProcedureId) -> ProcedureRecord {
        let (Outcome::Running { submitted } | Outcome::Finished { submitted, .. }) = self.outcome;
        ProcedureRecord {
            id,
            kind: self.kind,
            target: match &self.end {
                Some(_) => ProcedureTarget { name: self.target.name.clone(), ..ProcedureTarget::default() },
                None => self.target.clone(),
            },
            owner: self.owner.clone(),
            nonce: self.nonce,
            submitted,
            end: self.end.clone(),
        }
    }
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
    /// Number of procedures whose first record is being stored.
    recording: usize,
    /// Number of changes of the records. A write stores all changes until its beginning.
    changes: u64,
}

/// All procedures of a master.
pub struct Procedures {
    world: World,
    options: Options,
    /// Records that another process has taken over the files. From then on no client gets the outcome of a procedure,
    /// because only the other process knows it.
    ownership: Arc<Ownership>,
    /// The records of procedures.
    records: OwnedObject<ProcedureRecords>,
    /// Which of the changes of the records are stored. Locked while the records are written, and never while `inner` is
    /// locked.
    stored: Mutex<u64>,
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
    /// Reads the records that earlier masters have left, and prevents those masters from writing others. Ids start at
    /// the wall clock's milliseconds, or after the highest recorded id if that is greater.
    ///
    /// Procedures whose records have no outcome count as running until [`decide`](Procedures::decide).
    pub(crate) fn open(
        files: Arc<dyn Files>,
        world: World,
        options: Options,
        ownership: Arc<Ownership>,
    ) -> Result<Arc<Procedures>, Error> {
        let records = OwnedObject::open(files, layout::procedures(), &world, Arc::clone(&ownership))?;
        let found: ProcedureRecords = records.look(Clone::clone);
        let now = u64::try_from(world.now().0).unwrap_or(0);
        let mut inner = Inner { last: found.last.max(now), ..Inner::default() };
        for record in found.procedures {
            let id = record.id;
            let age = |ended: WallTime| {
                Duration::from_millis(u64::try_from(world.now().0.saturating_sub(ended.0)).unwrap_or(0))
            };
            let left = record.end.as_ref().map(|end| options.outcome_kept.saturating_sub(age(end.ended)));
            if left.is_some_and(|left| left.is_zero()) {
                continue;
            }
            if let Some(nonce) = record.nonce {
                inner.by_nonce.insert(nonce, id);
            }
            inner.last = inner.last.max(id.0);
            let submitted = record.submitted;
            let outcome = match &record.end {
                None => Outcome::Running { submitted },
                Some(end) => Outcome::Finished { submitted, ended: end.ended, result: end.result.clone() },
            };
            let entry = Entry {
                kind: record.kind,
                owner: record.owner,
                updated: record.end.as_ref().map_or(submitted, |end| end.ended),
                outcome,
                end: record.end,
                abort: Abort::TooLate,
                deleted: left.map(|left| world.moment().plus(left)),
                nonce: record.nonce,
                parameters: None,
                is_recorded: true,
                is_new: false,
                target: record.target,
            };
            inner.known.insert(id, entry);
        }
        Ok(Arc::new(Procedures {
            world,
            options,
            ownership,
            records,
            stored: Mutex::default(),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        }))
    }

    /// Returns the procedures that a crash interrupted, by id. A start calls this before it serves clients.
    pub(crate) fn interrupted(&self) -> Vec<InterruptedProcedure> {
        let inner = self.inner.lock();
        let records: Vec<ProcedureRecord> = inner.known.iter().map(|(id, entry)| entry.record(*id)).collect();
        let found = records.iter().filter(|record| record.end.is_none()).map(|record| {
            let is_met_by = |other: &ProcedureRecord| {
                let ended_before = other.end.as_ref().is_some_and(|end| end.ended < record.submitted);
                other.id != record.id && other.target.name == record.target.name && !ended_before
            };
            let is_alone = !records.iter().any(is_met_by);
            InterruptedProcedure { id: record.id, kind: record.kind, target: record.target.clone(), is_alone }
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|procedure| procedure.id);
        found
    }

    /// Sets the outcomes of procedures that a crash interrupted, and stores them with one write. A procedure that is
    /// `None` here has not made its change: its outcome is an exception that says so, and a submission with its nonce
    /// begins it again, with the same id.
    pub(crate) fn decide(&self, outcomes: Vec<(ProcedureId, Option<Result<Bytes, Exception>>)>) {
        if outcomes.is_empty() {
            return;
        }
        let mut inner = self.inner.lock();
        for (id, result) in &outcomes {
            let Some(entry) = inner.known.get_mut(id) else { continue };
            let is_interrupted = result.is_none();
            let result = result.clone().unwrap_or_else(|| Err(interrupted(*id)));
            entry.end = Some(RecordedEnd { ended: self.world.now(), result, is_interrupted });
        }
        inner.changes += 1;
        let change = inner.changes;
        drop(inner);
        if let Err(cause) = self.store(change) {
            tracing::warn!(%cause, "the outcomes of interrupted procedures are not stored; the next write stores them");
        }
        let mut inner = self.inner.lock();
        outcomes.iter().for_each(|(id, _)| self.publish(&mut inner, *id));
    }

    /// Submits `work`, which begins when the procedure has its locks. If the nonce is that of an earlier submission,
    /// the id of the earlier procedure is returned, and `work` is dropped.
    pub fn submit(
        self: &Arc<Self>,
        submission: Submission,
        work: impl FnOnce(&Context) -> Result<Bytes, Exception> + Send + 'static,
    ) -> Result<ProcedureId, Exception> {
        let Submission { kind, locks, nonce, target } = submission;
        let mut inner = self.inner.lock();
        self.forget_old(&mut inner);
        if let Some(known) = self.submitted_with(&mut inner, nonce) {
            return Ok(known);
        }
        if inner.waiting.len() + inner.recording >= self.options.waiting_max {
            return Err(Exception::io(format!(
                "{} procedures wait already, the limit: try again when some have ended",
                inner.waiting.len()
            )));
        }
        // A procedure that a crash interrupted before its change begins again with its old id.
        let again = nonce.and_then(|nonce| inner.by_nonce.get(&nonce)).copied();
        let id = again.unwrap_or_else(|| {
            inner.last += 1;
            ProcedureId(inner.last)
        });
        let (owner, submitted) = (USER.with_borrow(Clone::clone), self.world.now());
        let is_recorded = kind.is_recorded() && target.is_some() && (owner.is_some() || nonce.is_some());
        let entry = Entry {
            kind,
            owner,
            updated: submitted,
            outcome: Outcome::Running { submitted },
            end: None,
            abort: Abort::Possible,
            deleted: None,
            nonce,
            parameters: None,
            is_recorded,
            is_new: is_recorded,
            target: target.unwrap_or_default(),
        };
        let before = inner.known.insert(id, entry);
        if let Some(nonce) = nonce {
            inner.by_nonce.insert(nonce, id);
        }
        if is_recorded {
            inner.recording += 1;
            inner.changes += 1;
            let change = inner.changes;
            drop(inner);
            let stored = self.store(change);
            inner = self.inner.lock();
            inner.recording -= 1;
            self.changed.notify_all();
            if let Err(cause) = stored {
                if let Some(before) = before {
                    inner.known.insert(id, before);
                } else {
                    inner.known.remove(&id);
                    nonce.and_then(|nonce| inner.by_nonce.remove(&nonce));
                }
                return Err(not_recorded(cause));
            }
            inner.known.get_mut(&id).expect("kept until it has ended").is_new = false;
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
        self.submitted_with(&mut self.inner.lock(), nonce)
    }

    /// Returns the procedure that was submitted with this nonce. `None` if there is none, or if a crash interrupted it
    /// before its change. Waits while the record of the procedure is being stored.
    fn submitted_with(
        &self,
        inner: &mut MutexGuard<'_, Inner>,
        nonce: Option<NonceKey>,
    ) -> Option<ProcedureId> {
        let nonce = nonce?;
        loop {
            let id = *inner.by_nonce.get(&nonce)?;
            let entry = inner.known.get(&id).expect("its nonce is known");
            if !entry.is_new {
                return (!entry.is_interrupted()).then_some(id);
            }
            self.changed.wait(inner);
        }
    }

    /// Stores the records up to this change of them. One write stores the changes of all procedures until it begins.
    fn store(&self, change: u64) -> storage::Result<()> {
        let mut stored = self.stored.lock();
        if *stored >= change {
            return Ok(());
        }
        let inner = self.inner.lock();
        let changes = inner.changes;
        let recorded = inner.known.iter().filter(|(_, entry)| entry.is_recorded);
        let mut procedures: Vec<ProcedureRecord> = recorded.map(|(id, entry)| entry.record(*id)).collect();
        let last = inner.last;
        drop(inner);
        procedures.sort_by_key(|record| record.id);
        let ended = procedures.iter().filter(|record| record.end.is_some()).count();
        let mut surplus = ended.saturating_sub(ENDED_MAX);
        procedures.retain(|record| {
            let is_kept = record.end.is_none() || surplus == 0;
            surplus -= usize::from(!is_kept);
            is_kept
        });
        self.records
            .change(|records| *records = ProcedureRecords { last, procedures: procedures.clone() })?;
        *stored = changes;
        Ok(())
    }

    /// Returns the state of `id`; `None` if this master never used the id, or used it long ago.
    pub fn outcome(&self, id: ProcedureId) -> Option<Outcome> {
        let mut inner = self.inner.lock();
        self.forget_old(&mut inner);
        inner.known.get(&id).map(|entry| entry.outcome.clone())
    }

    /// Records that a client has read the outcome of `id`, which is then kept for a shorter time.
    pub fn note_read(&self, id: ProcedureId) {
        let deleted = self.world.moment().plus(self.options.read_outcome_kept);
        if let Some(before) = self.inner.lock().known.get_mut(&id).and_then(|entry| entry.deleted.as_mut()) {
            *before = deleted.min(*before);
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
            // Counts as running until the outcome is stored, so that the process does not end before.
            inner.running += 1;
            drop(inner);
            inner = self.end(id, Err(aborted()));
            inner.running -= 1;
            self.publish(&mut inner, id);
            self.start_ready(&mut inner);
            return true;
        }
        let Some(entry) = inner.known.get_mut(&id).filter(|entry| entry.end.is_none()) else {
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
        while inner.running > 0 || inner.recording > 0 || !inner.waiting.is_empty() {
            self.changed.wait(&mut inner);
        }
    }

    /// Returns the number of waiting and running procedures.
    pub fn unfinished(&self) -> usize {
        let inner = self.inner.lock();
        inner.running + inner.recording + inner.waiting.len()
    }

    /// Grants every lock that is free, and starts the procedures that waited for it.
    fn start_ready(self: &Arc<Self>, inner: &mut Inner) {
        loop {
            let Inner { locks, relocking, running, .. } = &mut *inner;
            // If every procedure that has begun waits for locks, one more may begin: they may wait for its turn.
            let has_thread = *running < self.options.threads_max || *running == relocking.len();
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
                // Nothing was changed, so a start would decide the same. The next write stores the outcome.
                self.set_end(inner, id, Err(failure));
                self.publish(inner, id);
            }
        }
    }

    /// Records the end of a procedure, and stores it if the procedure has a record. Clients cannot read the outcome
    /// before [`publish`](Procedures::publish).
    fn end(&self, id: ProcedureId, result: Result<Bytes, Exception>) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock();
        self.set_end(&mut inner, id, result);
        if inner.known.get(&id).is_some_and(|entry| entry.is_recorded) {
            let change = inner.changes;
            drop(inner);
            if let Err(cause) = self.store(change) {
                tracing::warn!(pid = id.0, %cause, "the procedure's outcome is not stored; the next write stores it");
            }
            inner = self.inner.lock();
        }
        inner
    }

    fn set_end(&self, inner: &mut Inner, id: ProcedureId, result: Result<Bytes, Exception>) {
        let entry = inner.known.get_mut(&id).expect("kept until it has ended");
        entry.end = Some(RecordedEnd { ended: self.world.now(), result, is_interrupted: false });
        inner.changes += 1;
    }

    /// Lets clients read the outcome of a procedure that has ended.
    fn publish(&self, inner: &mut Inner, id: ProcedureId) {
        if self.ownership.replaced.has_happened() {
            self.changed.notify_all();
            return;
        }
        let entry = inner.known.get_mut(&id).expect("kept until it has ended");
        let Some(RecordedEnd { ended, result, .. }) = entry.end.clone() else { return };
        let (Outcome::Running { submitted } | Outcome::Finished { submitted, .. }) = entry.outcome;
        entry.updated = ended;
        entry.outcome = Outcome::Finished { submitted, ended, result };
        entry.deleted = Some(self.world.moment().plus(self.options.outcome_kept));
        self.changed.notify_all();
        inner.wakers.remove(&id).into_iter().flatten().for_each(Waker::wake);
    }

    fn forget_old(&self, inner: &mut Inner) {
        let now = self.world.moment();
        let by_nonce = &mut inner.by_nonce;
        inner.known.retain(|_, entry| {
            let keep = entry.deleted.is_none_or(|deleted| now < deleted);
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
