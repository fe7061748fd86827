//! The memory budget of large requests and large answers, which wait until it has room for them.
//!
//! A value of 100 MB is in memory several times while it is written or read: in the request, in the log's buffer and in
//! the memstore, or in a block and in the answer. A few clients that do this together would take gigabytes. So a large
//! request ([`LargeBudget::is_large`]) waits until the budget has room, before the connection reads more of it than
//! fits in its buffer. A service waits in the same way before it reads a large value from storage.
//!
//! 1. [`LargeBudget::acquire`] waits in a queue, and permits are granted in the order of the queue. A permit for more
//!    bytes than the whole budget is granted when no other permit exists.
//! 2. The [`LargePermit`] moves with the request, and with everything that the service makes of it. When the last clone
//!    of the permit is dropped, its bytes return to the budget.
//! 3. The holder of a permit never waits for another permit ([`LargeBudget::take`] counts without waiting), and the
//!    connection limits the time in which the rest of a request must arrive. So no request waits forever.
//! 4. An allocator may keep freed memory. So if a [`Reclaim`] is set, the bytes of a permit return when the process has
//!    given the memory back to the system.
//!
//! The size of some answers becomes known only when they are in memory. They are then counted without waiting
//! ([`LargeBudget::take`]).
//!
//! Small requests do not use the budget. Each large request takes the budget's lock a few times.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use env::sync::Mutex;
use tokio::sync::oneshot;

/// Gives freed memory back to the system, and then calls the passed function. A `Reclaim` must not block.
pub type Reclaim = Arc<dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync>;

/// The memory budget of one server's large requests and answers. Clones share it.
#[derive(Clone, Debug)]
pub struct LargeBudget(Arc<Budget>);

struct Budget {
    /// Requests and answers of at most this many bytes are not counted.
    small_max: u64,
    /// Maximum number of bytes for which permits are granted at the same time. Only a single permit may have more.
    max: u64,
    reclaim: Option<Reclaim>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("max", &self.max).field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    taken: u64,
    /// The requests and answers that wait, the oldest first.
    queue: VecDeque<Waiter>,
    waiters_seen: u64,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    bytes: u64,
    waker: Waker,
}

/// The right to use memory for a large request or answer. The bytes return when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct LargePermit(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    of: LargeBudget,
    bytes: u64,
}

/// A place in the queue for a permit; a future that returns the permit. Dropping it leaves the queue.
#[derive(Debug)]
#[must_use = "a place in the queue that is not polled holds up all others"]
pub struct LargeWait {
    of: LargeBudget,
    bytes: u64,
    /// The identifier of this place in the queue; `None` before the future has waited.
    id: Option<u64>,
}

impl LargeBudget {
    /// Creates a budget of `max` bytes for requests and answers of more than `small_max` bytes.
    pub fn new(small_max: u64, max: u64) -> LargeBudget {
        LargeBudget::reclaiming(small_max, max, None)
    }

    /// Creates a budget to which the bytes of a permit return after `reclaim`, if it is set.
    pub fn reclaiming(small_max: u64, max: u64, reclaim: Option<Reclaim>) -> LargeBudget {
        LargeBudget(Arc::new(Budget { small_max, max, reclaim, state: Mutex::default() }))
    }

    /// Creates a budget that counts nothing, so that nothing waits.
    pub fn unlimited() -> LargeBudget {
        LargeBudget::new(u64::MAX, u64::MAX)
    }

    /// Whether a request or answer of `bytes` bytes needs a permit.
    #[inline]
    pub fn is_large(&self, bytes: u64) -> bool {
        bytes > self.0.small_max
    }

    /// Returns the size up to which no permit is needed, in bytes.
    pub fn small_max(&self) -> u64 {
        self.0.small_max
    }

    /// Returns a future that waits until there is room for `bytes` bytes, and then returns the permit. The caller must
    /// not have a permit already.
    pub fn acquire(&self, bytes: u64) -> LargeWait {
        LargeWait { of: self.clone(), bytes, id: None }
    }

    /// Returns a permit for `bytes` bytes that are already in memory, without waiting.
    pub fn take(&self, bytes: u64) -> LargePermit {
        self.0.state.lock().taken += bytes;
        self.permit(bytes)
    }

    /// Returns the number of bytes in use.
    pub fn taken(&self) -> u64 {
        self.0.state.lock().taken
    }

    /// Returns the number of requests and answers that wait.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().queue.len()
    }

    fn permit(&self, bytes: u64) -> LargePermit {
        LargePermit(Arc::new(Taken { of: self.clone(), bytes }))
    }

    fn give_back(&self, bytes: u64) {
        let next = {
            let mut state = self.0.state.lock();
            state.taken -= bytes;
            self.next(&state)
        };
        next.into_iter().for_each(Waker::wake);
    }

    fn admits(&self, state: &State, bytes: u64) -> bool {
        state.taken == 0 || state.taken.saturating_add(bytes) <= self.0.max
    }

    /// Returns the waker of the first waiter in the queue, if there is room for it.
    fn next(&self, state: &State) -> Option<Waker> {
        let first = state.queue.front()?;
        self.admits(state, first.bytes).then(|| first.waker.clone())
    }
}

impl LargePermit {
    /// Waits until memory that the holder of this permit has freed is back with the system. Returns at once if the
    /// budget has no [`Reclaim`]. Called between two steps that each need as much memory as the request has, because
    /// the allocator may not reuse the memory of the first step for the second.
    pub async fn reclaim(&self) {
        let Some(reclaim) = &self.0.of.0.reclaim else { return };
        let (done, is_done) = oneshot::channel();
        // The send fails if the request that waits for it was dropped.
        reclaim(Box::new(move || {
            let _is_gone = done.send(());
        }));
        // The wait fails only when the process ends.
        let _ended = is_done.await;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let (of, bytes) = (self.of.clone(), self.bytes);
        match &self.of.0.reclaim {
            Some(reclaim) => reclaim(Box::new(move || of.give_back(bytes))),
            None => of.give_back(bytes),
        }
    }
}

impl Future for LargeWait {
    type Output = LargePermit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LargePermit> {
        // A replaced waker may be the last owner of a task, so it is dropped after the lock is released.
        let _replaced;
        let next = {
            let mut state = self.of.0.state.lock();
            let is_first = state.queue.front().is_none_or(|first| Some(first.id) == self.id);
            if !is_first || !self.of.admits(&state, self.bytes) {
                let waker = context.waker().clone();
                let place = state.queue.iter().position(|waiter| Some(waiter.id) == self.id);
                match place {
                    Some(at) => _replaced = std::mem::replace(&mut state.queue[at].waker, waker),
                    None => {
                        state.waiters_seen += 1;
                        let (id, bytes) = (state.waiters_seen, self.bytes);
                        state.queue.push_back(Waiter { id, bytes, waker });
                        drop(state);
                        self.id = Some(id);
                    }
                }
                return Poll::Pending;
            }
            if self.id.is_some() {
                state.queue.pop_front();
            }
            state.taken += self.bytes;
            self.of.next(&state)
        };
        self.id = None;
        next.into_iter().for_each(Waker::wake);
        Poll::Ready(self.of.permit(self.bytes))
    }
}

impl Drop for LargeWait {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let (_gone, next) = {
            let mut state = self.of.0.state.lock();
            let at = state.queue.iter().position(|waiter| waiter.id == id);
            let gone = at.and_then(|at| state.queue.remove(at));
            (gone, self.of.next(&state))
        };
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(wait: &mut LargeWait, count: &Arc<Count>) -> Option<LargePermit> {
        let waker = Waker::from(Arc::clone(count));
        match Pin::new(wait).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn permits_are_granted_in_order_and_return_with_their_last_clone() {
        let (budget, count) = (LargeBudget::new(10, 100), Arc::new(Count::default()));
        assert!(!budget.is_large(10) && budget.is_large(11));
        let first = poll(&mut budget.acquire(60), &count).expect("there is room");
        let mut second = budget.acquire(60);
        assert!(poll(&mut second, &count).is_none());
        let mut small = budget.acquire(20);
        assert!(poll(&mut small, &count).is_none(), "nobody overtakes, though there is room");
        assert_eq!((budget.taken(), budget.waiting()), (60, 2));
        let clone = first.clone();
        drop(first);
        assert_eq!((budget.taken(), count.0.load(Ordering::SeqCst)), (60, 0), "a clone has it");
        drop(clone);
        assert_eq!(
            (budget.taken(), count.0.load(Ordering::SeqCst)),
            (0, 1),
            "the first in the queue is woken"
        );
        let _second = poll(&mut second, &count).expect("there is room");
        assert_eq!(count.0.load(Ordering::SeqCst), 2, "there is room for the next, too");
        let _small = poll(&mut small, &count).expect("there is room");
        assert_eq!((budget.taken(), budget.waiting()), (80, 0));
    }

    #[test]
    fn a_request_larger_than_the_budget_is_admitted_alone() {
        let (budget, count) = (LargeBudget::new(10, 100), Arc::new(Count::default()));
        let small = poll(&mut budget.acquire(11), &count).expect("there is room");
        let mut huge = budget.acquire(1_000);
        assert!(poll(&mut huge, &count).is_none());
        drop(small);
        let huge = poll(&mut huge, &count).expect("nothing else is there");
        assert!(poll(&mut budget.acquire(11), &count).is_none());
        drop(huge);
        assert_eq!((budget.taken(), budget.waiting()), (0, 0), "a wait that is dropped leaves the queue");
    }

    #[test]
    fn a_permit_returns_when_its_memory_was_reclaimed() {
        let waiting = Arc::new(Mutex::new(Vec::new()));
        let queue = Arc::clone(&waiting);
        let reclaim: Reclaim = Arc::new(move |done| queue.lock().push(done));
        let budget = LargeBudget::reclaiming(10, 100, Some(reclaim));
        drop(budget.take(50));
        assert_eq!(budget.taken(), 50);
        let done = waiting.lock().pop().expect("it was asked for");
        done();
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_waiter_that_gives_up_wakes_the_next() {
        let (budget, count) = (LargeBudget::new(10, 100), Arc::new(Count::default()));
        let _taken = budget.take(50);
        let (mut first, mut second) = (budget.acquire(90), budget.acquire(50));
        assert!(poll(&mut first, &count).is_none() && poll(&mut second, &count).is_none());
        drop(first);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(poll(&mut second, &count).is_some());
    }
}
