//! Procedures: changes that take time. Clients start them and poll for their end.
//!
//! Each procedure runs on a thread of its own. Procedures on the same table or namespace run one after the other, in
//! the order of their submission; others run at the same time, up to a limit. The outcome is kept for a while for
//! clients that poll. A submission with the nonce of an earlier one returns the id of that one.
//!
//! Procedures are not durable; their intents are ([`crate::intents`]). The steps are ordered so that the catalog alone
//! shows, after a crash, whether the table exists (see [`crate::tables`]). The id of a procedure of an earlier master
//! is answered "not found", upon which clients look at the table itself.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use env::sync::{Condvar, Mutex};
use env::{HashMap, Moment, Priority, WallTime, World};
use rpc::Exception;

/// The id by which clients poll a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcedureId(pub u64);

/// Two numbers by which a client marks a repeated submission. A nonce of zero marks nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NonceKey {
    /// The number of the client.
    pub group: u64,
    /// The number of the submission.
    pub nonce: u64,
}

impl NonceKey {
    /// The nonce of a request, if it has one that is not zero.
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
    /// Procedures that run at the same time (`hbase.master.procedure.threads`).
    pub threads_max: usize,
    /// Procedures that may wait; further submissions are refused.
    pub waiting_max: usize,
    /// Repetitions of an act of a split or merge that failed and cannot be undone.
    pub retries_max: u32,
    /// Time for which an outcome is kept (`hbase.procedure.cleaner.evict.ttl`, 15 minutes).
    pub outcome_kept: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads_max: 16,
            waiting_max: 10_000,
            retries_max: 5,
            outcome_kept: Duration::from_secs(15 * 60),
        }
    }
}

/// The state of a procedure.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It waits or runs.
    Running {
        /// When it was submitted.
        submitted: WallTime,
    },
    /// It ended.
    Finished {
        /// When it was submitted.
        submitted: WallTime,
        /// When it ended.
        ended: WallTime,
        /// Its result, or why it failed.
        result: Result<Bytes, Exception>,
    },
}

type Work = Box<dyn FnOnce() -> Result<Bytes, Exception> + Send>;

struct Entry {
    outcome: Outcome,
    ended: Option<Moment>,
    nonce: Option<NonceKey>,
}

struct Waiting {
    id: ProcedureId,
    lock: String,
    work: Work,
}

#[derive(Default)]
struct Inner {
    last: u64,
    known: HashMap<ProcedureId, Entry>,
    by_nonce: HashMap<NonceKey, ProcedureId>,
    /// Tasks that wait for the end of a procedure.
    wakers: HashMap<ProcedureId, Vec<Waker>>,
    waiting: VecDeque<Waiting>,
    /// The locks of the running procedures.
    locked: Vec<String>,
    running: usize,
}

/// All procedures of a master.
pub struct Procedures {
    world: World,
    options: Options,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Procedures {
    /// Ids start at the wall clock's milliseconds, so that no id of an earlier master is used again.
    pub fn new(world: World, options: Options) -> Arc<Procedures> {
        let last = u64::try_from(world.now().0).unwrap_or(0);
        Arc::new(Procedures {
            world,
            options,
            inner: Mutex::new(Inner { last, ..Inner::default() }),
            changed: Condvar::new(),
        })
    }

    /// Submits `work`. No other procedure with the same `lock`, the name of a table or namespace, runs at the same
    /// time.
    ///
    /// `kind` names the thread. If the nonce is that of an earlier submission its id is returned, and `work` is
    /// dropped.
    pub fn submit(
        self: &Arc<Self>,
        kind: &str,
        lock: &str,
        nonce: Option<NonceKey>,
        work: impl FnOnce() -> Result<Bytes, Exception> + Send + 'static,
    ) -> Result<ProcedureId, Exception> {
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
        let id = ProcedureId(inner.last);
        let outcome = Outcome::Running { submitted: self.world.now() };
        inner.known.insert(id, Entry { outcome, ended: None, nonce });
        if let Some(nonce) = nonce {
            inner.by_nonce.insert(nonce, id);
        }
        inner.waiting.push_back(Waiting { id, lock: lock.to_owned(), work: Box::new(work) });
        self.start_ready(&mut inner, kind);
        Ok(id)
    }

    /// Returns the procedure that was submitted with this nonce. A repeated submission needs no check.
    pub fn repeated(&self, nonce: Option<NonceKey>) -> Option<ProcedureId> {
        nonce.and_then(|nonce| self.inner.lock().by_nonce.get(&nonce).copied())
    }

    /// Returns the state of `id`; `None` if this master never used the id, or used it long ago.
    pub fn outcome(&self, id: ProcedureId) -> Option<Outcome> {
        let mut inner = self.inner.lock();
        self.forget_old(&mut inner);
        inner.known.get(&id).map(|entry| entry.outcome.clone())
    }

    /// Waits until `id` has ended; `None` when it is not known.
    pub fn wait(&self, id: ProcedureId) -> Option<Result<Bytes, Exception>> {
        let mut inner = self.inner.lock();
        loop {
            match &inner.known.get(&id)?.outcome {
                Outcome::Finished { result, .. } => return Some(result.clone()),
                Outcome::Running { .. } => self.changed.wait(&mut inner),
            }
        }
    }

    /// The end of `id`, for a task to wait for; `None` when the procedure is not known.
    pub fn end_of(self: &Arc<Self>, id: ProcedureId) -> ProcedureEnd {
        ProcedureEnd { procedures: Arc::clone(self), id }
    }

    /// Whether a procedure with this lock runs or waits.
    pub fn is_busy(&self, lock: &str) -> bool {
        let inner = self.inner.lock();
        inner.locked.iter().any(|held| held == lock) || inner.waiting.iter().any(|next| next.lock == lock)
    }

    /// Waits until nothing runs or waits.
    pub fn wait_idle(&self) {
        let mut inner = self.inner.lock();
        while inner.running > 0 || !inner.waiting.is_empty() {
            self.changed.wait(&mut inner);
        }
    }

    /// Returns the number of procedures that wait or run.
    pub fn unfinished(&self) -> usize {
        let inner = self.inner.lock();
        inner.running + inner.waiting.len()
    }

    /// Starts every waiting procedure whose lock is free, unless an earlier one waits for the same lock.
    fn start_ready(self: &Arc<Self>, inner: &mut Inner, kind: &str) {
        let mut at = 0;
        while at < inner.waiting.len() && inner.running < self.options.threads_max {
            let lock = &inner.waiting[at].lock;
            let taken = inner.locked.contains(lock)
                || inner.waiting.iter().take(at).any(|earlier| earlier.lock == *lock);
            if taken {
                at += 1;
                continue;
            }
            let Some(Waiting { id, lock, work }) = inner.waiting.remove(at) else { break };
            inner.locked.push(lock.clone());
            inner.running += 1;
            let procedures = Arc::clone(self);
            let started =
                env::spawn_thread(&format!("pid-{}-{kind}", id.0), Priority::Foreground, move || {
                    let result = env::caught(work).unwrap_or_else(|words| {
                        Err(Exception::io(format!("the procedure broke an invariant: {words}")))
                    });
                    procedures.ended(id, &lock, result);
                });
            if let Err(error) = started {
                let lock = inner.locked.pop();
                inner.running -= 1;
                let failure = Exception::io(format!("no thread could be started for the procedure: {error}"));
                self.record(inner, id, Err(failure));
                debug_assert!(lock.is_some(), "it was pushed above");
            }
        }
    }

    fn ended(self: &Arc<Self>, id: ProcedureId, lock: &str, result: Result<Bytes, Exception>) {
        let mut inner = self.inner.lock();
        let held = inner.locked.iter().position(|held| held == lock);
        inner.locked.swap_remove(held.expect("a running procedure holds its lock"));
        inner.running -= 1;
        self.record(&mut inner, id, result);
        self.start_ready(&mut inner, "next");
    }

    fn record(&self, inner: &mut Inner, id: ProcedureId, result: Result<Bytes, Exception>) {
        let entry = inner.known.get_mut(&id).expect("kept until it has ended");
        let (Outcome::Running { submitted } | Outcome::Finished { submitted, .. }) = entry.outcome;
        entry.outcome = Outcome::Finished { submitted, ended: self.world.now(), result };
        entry.ended = Some(self.world.moment());
        self.changed.notify_all();
        inner.wakers.remove(&id).into_iter().flatten().for_each(Waker::wake);
    }

    fn forget_old(&self, inner: &mut Inner) {
        let (now, kept) = (self.world.moment(), self.options.outcome_kept);
        let by_nonce = &mut inner.by_nonce;
        inner.known.retain(|_, entry| {
            let keep = entry.ended.is_none_or(|ended| now.since(ended) < kept);
            if let (false, Some(nonce)) = (keep, entry.nonce) {
                by_nonce.remove(&nonce);
            }
            keep
        });
    }
}

/// Resolves when a procedure has ended, without a thread that waits for it. See [`Procedures::end_of`].
#[derive(Debug)]
pub struct ProcedureEnd {
    procedures: Arc<Procedures>,
    id: ProcedureId,
}

impl Future for ProcedureEnd {
    type Output = Option<Result<Bytes, Exception>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.procedures.inner.lock();
        match inner.known.get(&self.id).map(|entry| &entry.outcome) {
            None => Poll::Ready(None),
            Some(Outcome::Finished { result, .. }) => Poll::Ready(Some(result.clone())),
            Some(Outcome::Running { .. }) => {
                let wakers = inner.wakers.entry(self.id).or_default();
                if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl std::fmt::Debug for Procedures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Procedures").field("unfinished", &self.unfinished()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn procedures(options: Options) -> (World, Arc<Procedures>) {
        let world = World::simulated(1, WallTime(1_000));
        (world.clone(), Procedures::new(world, options))
    }

    #[test]
    fn the_same_lock_runs_in_order_and_another_runs_beside_it() {
        let (_, procedures) = procedures(Options::default());
        let (go, wait) = mpsc::channel::<()>();
        let (say, heard) = mpsc::channel();
        let said = say.clone();
        procedures
            .submit("a", "t", None, move || {
                wait.recv().expect("told");
                said.send(1).expect("heard");
                Ok(Bytes::new())
            })
            .expect("accepted");
        let said = say.clone();
        let second = procedures
            .submit("b", "t", None, move || {
                said.send(2).expect("heard");
                Ok(Bytes::from_static(b"two"))
            })
            .expect("accepted");
        let beside = procedures
            .submit("c", "u", None, move || {
                say.send(3).expect("heard");
                Ok(Bytes::new())
            })
            .expect("accepted");
        assert!(procedures.wait(beside).expect("known").is_ok(), "another table does not wait");
        assert!(matches!(procedures.outcome(second), Some(Outcome::Running { .. })));
        go.send(()).expect("first waits");
        assert_eq!(procedures.wait(second).expect("known").expect("good"), "two");
        assert_eq!(heard.iter().take(3).collect::<Vec<_>>(), [3, 1, 2]);
    }

    #[test]
    fn a_repeated_nonce_is_the_same_procedure_until_it_is_forgotten() {
        let (world, procedures) = procedures(Options::default());
        let nonce = NonceKey::of(Some(1), Some(2));
        assert_eq!(procedures.repeated(nonce), None);
        let first = procedures.submit("a", "t", nonce, || Ok(Bytes::new())).expect("accepted");
        procedures.wait_idle();
        assert_eq!(procedures.repeated(nonce), Some(first));
        assert_eq!(procedures.submit("a", "t", nonce, || panic!("must not run")).expect("accepted"), first);
        world.advance(Options::default().outcome_kept);
        assert!(procedures.outcome(first).is_none());
        assert_ne!(procedures.submit("a", "t", nonce, || Ok(Bytes::new())).expect("accepted"), first);
        assert!(NonceKey::of(Some(5), None).is_none() && NonceKey::of(None, Some(0)).is_none());
    }

    #[test]
    fn a_panic_is_a_failure_and_frees_the_lock() {
        let (_, procedures) = procedures(Options::default());
        let broken = procedures.submit("a", "t", None, || panic!("seven is not eight")).expect("accepted");
        let failure = procedures.wait(broken).expect("known").expect_err("failed");
        assert!(failure.message.contains("seven is not eight"), "{failure:?}");
        let after = procedures.submit("a", "t", None, || Ok(Bytes::new())).expect("accepted");
        assert!(procedures.wait(after).expect("known").is_ok());
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        let (_, procedures) = procedures(Options { threads_max: 1, waiting_max: 1, ..Options::default() });
        let (go, wait) = mpsc::channel::<()>();
        procedures
            .submit("a", "t", None, move || {
                wait.recv().expect("told");
                Ok(Bytes::new())
            })
            .expect("runs");
        procedures.submit("a", "u", None, || Ok(Bytes::new())).expect("waits");
        let refused = procedures.submit("a", "v", None, || Ok(Bytes::new())).expect_err("refused");
        assert!(refused.message.contains("the limit"), "{refused:?}");
        go.send(()).expect("first waits");
        procedures.wait_idle();
    }
}
