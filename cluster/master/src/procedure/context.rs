//! Access of a running procedure to its abort flag and its locks, and a future for the end of a procedure.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use bytes::Bytes;
use proto::RegionInfo;
use rpc::{Exception, class};

use super::{Abort, Outcome, ProcedureId, Procedures};
use crate::procedure::locks::{LockSet, Resource};

/// Lets a running procedure check for an abort, and exchange its locks.
#[derive(Debug)]
pub struct Context {
    pub(super) procedures: Arc<Procedures>,
    pub(super) id: ProcedureId,
}

impl Context {
    /// Fails if an abort was requested. Called between steps that can be undone.
    pub fn check_aborted(&self) -> Result<(), Exception> {
        let inner = self.procedures.inner.lock();
        match inner.known.get(&self.id).map(|entry| entry.abort) {
            Some(Abort::Requested) => Err(aborted()),
            _ => Ok(()),
        }
    }

    /// Like [`check_aborted`](Context::check_aborted). After success, the procedure can no longer be aborted.
    pub fn pass_point_of_no_return(&self) -> Result<(), Exception> {
        let mut inner = self.procedures.inner.lock();
        let entry = inner.known.get_mut(&self.id).expect("kept until it has ended");
        if entry.abort == Abort::Requested {
            return Err(aborted());
        }
        entry.abort = Abort::TooLate;
        Ok(())
    }

    /// Whether the procedure has this lock exclusively.
    pub fn excludes(&self, resource: &Resource) -> bool {
        let inner = self.procedures.inner.lock();
        inner.locks.held_by(self.id).is_some_and(|held| held.excludes(resource))
    }

    /// Whether another procedure has this lock exclusively.
    pub fn is_held_by_another(&self, resource: &Resource) -> bool {
        let inner = self.procedures.inner.lock();
        inner.locks.owner(resource).is_some_and(|owner| owner != self.id)
    }

    /// Takes the locks of regions that this procedure creates and that no other procedure knows yet.
    pub fn lock_new<'a>(&self, regions: impl IntoIterator<Item = &'a RegionInfo>) {
        self.procedures.inner.lock().locks.add_new(self.id, regions);
    }

    /// Releases all locks, and waits for `locks`. The caller must repeat every check that it made before.
    pub fn relock(&self, locks: LockSet) {
        let mut inner = self.procedures.inner.lock();
        inner.locks.release(self.id);
        inner.locks.request(self.id, locks);
        inner.relocking.insert(self.id);
        self.procedures.start_ready(&mut inner);
        while inner.relocking.contains(&self.id) {
            self.procedures.changed.wait(&mut inner);
        }
    }

    pub(super) fn ended(&self, result: Result<Bytes, Exception>) {
        // The outcome is stored before other procedures get the locks. So what a start finds shows how this one ended.
        let mut inner = self.procedures.end(self.id, result);
        inner.locks.release(self.id);
        inner.running -= 1;
        self.procedures.publish(&mut inner, self.id);
        self.procedures.start_ready(&mut inner);
    }
}

/// Returns the exception with which an aborted procedure ends.
pub(super) fn aborted() -> Exception {
    Exception::new(class::PROCEDURE_ABORTED, "abort requested")
}

/// A future that resolves when a procedure has ended. No thread waits for it. See [`Procedures::end_of`].
#[derive(Debug)]
pub struct ProcedureEnd {
    pub(super) procedures: Arc<Procedures>,
    pub(super) id: ProcedureId,
}

impl Future for ProcedureEnd {
    type Output = Option<Result<Bytes, Exception>>;

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
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
