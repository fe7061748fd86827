//! Waiting for the log: [`Durable`], a future that resolves when a record is written or synced. A waiter may write the
//! buffer itself, for all waiters.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::log::{Shared, WhenFull};
use crate::{Level, Result, Ticket};

/// A caller that waits for a ticket.
pub(crate) struct Waiter {
    /// Identifies the [`Durable`] to which this entry belongs.
    pub(crate) id: u64,
    pub(crate) ticket: Ticket,
    pub(crate) level: Level,
    pub(crate) patience: Patience,
    pub(crate) waker: Waker,
}

/// What a caller that waits for a ticket wants while the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// To get the error.
    None,
    /// That the log uses the reserve of the storage for the record, and the error if that has no room either.
    UsesReserve,
    /// To wait until there is room.
    Waits,
}

/// A future that resolves when a ticket has reached its level. It fails if the log fails before that, or with
/// [`Error::Full`](crate::Error::Full) while the disk is full, unless it waits [patiently](Durable::patiently) or may use the
/// [reserve](Durable::by_reserve).
#[must_use = "nothing is durable before this resolves"]
pub struct Durable {
    shared: Arc<Shared>,
    ticket: Ticket,
    level: Level,
    patience: Patience,
    /// The identifier of this future among the waiters; `None` before it was added to them.
    id: Option<u64>,
}

impl Durable {
    pub(crate) fn new(shared: Arc<Shared>, ticket: Ticket, level: Level) -> Durable {
        Durable { shared, ticket, level, patience: Patience::None, id: None }
    }

    /// Makes the future wait also while the disk is full. Then only the end of the log is an error.
    pub fn patiently(mut self) -> Durable {
        self.patience = Patience::Waits;
        self
    }

    /// Makes the log use the reserve of its storage if the disk is full, for this record and for those that wait before it.
    /// For records without which nobody could free room.
    pub fn by_reserve(mut self) -> Durable {
        self.patience = Patience::UsesReserve;
        self
    }

    /// Returns the outcome if it is known: success when the ticket has reached its level, or the error because of which
    /// it will not. `None` while neither is known.
    fn outcome(&self) -> Option<Result<()>> {
        if self.shared.reached(self.level) >= self.ticket.0 || env::planted(1) {
            return Some(Ok(()));
        }
        let front = self.shared.front.lock();
        let full = front.full.as_ref().filter(|_| front.gets_error(self.patience, self.ticket));
        front.failure.as_ref().or(full).cloned().map(Err)
    }

    /// Writes the buffer for all waiters, unless another thread is writing. This reaches [`Level::Os`] only, and does
    /// nothing while the disk is full.
    fn lead(&self, when_full: WhenFull) {
        if self.level == Level::Os
            && !self.shared.is_full()
            && let Some(mut back) = self.shared.try_back()
        {
            // An error of `drain` may be ignored here: it ends the log, and `outcome`, which the caller calls next,
            // returns it.
            let _seen = self.shared.drain(&mut back);
            if when_full == WhenFull::Ask {
                self.shared.ask_for_roll(&back);
            }
            drop(back);
            if when_full == WhenFull::Roll {
                self.shared.roll_if_due();
            }
        }
    }

    /// Adds this future to the waiters, or replaces its waker there.
    fn enqueue(&mut self, context: &Context<'_>) {
        // Dropped after the lock is released: the waker may be the last owner of a task that holds another `Durable`.
        let _replaced;
        let mut front = self.shared.front.lock();
        let known = self.id.and_then(|id| front.waiters.iter().position(|waiter| waiter.id == id));
        let id = *self.id.get_or_insert_with(|| {
            front.waiters_seen += 1;
            front.waiters_seen
        });
        let (ticket, level, patience) = (self.ticket, self.level, self.patience);
        let waiter = Waiter { id, ticket, level, patience, waker: context.waker().clone() };
        match known {
            Some(at) => _replaced = std::mem::replace(&mut front.waiters[at], waiter),
            None => front.waiters.push(waiter),
        }
        let mut is_news = false;
        if patience == Patience::UsesReserve && front.reserve_wanted < ticket.0 {
            front.reserve_wanted = ticket.0;
            // While the disk is full, only the log's thread writes.
            is_news = front.full.is_some();
        }
        if level == Level::Disk && front.disk_wanted < ticket.0 {
            front.disk_wanted = ticket.0;
            is_news = true;
        }
        if is_news {
            self.shared.disk_wanted.notify_one();
        }
    }

    fn advance(&mut self, context: &mut Context<'_>, when_full: WhenFull) -> Poll<Result<()>> {
        if let Some(outcome) = self.outcome() {
            return Poll::Ready(outcome);
        }
        self.lead(when_full);
        if let Some(outcome) = self.outcome() {
            return Poll::Ready(outcome);
        }
        self.enqueue(context);
        // Tries again, because the first attempt may have found another thread writing, and that thread may have woken
        // the waiters before this future was among them. If the other thread is still writing, it wakes this future
        // afterwards; if not, this caller writes now.
        self.lead(when_full);
        match self.outcome() {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }

    /// Blocks the thread until this future resolves, and returns its result. May roll the log.
    pub fn wait(mut self) -> Result<()> {
        env::block_on(std::future::poll_fn(|context| self.advance(context, WhenFull::Roll)))
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        // A thread that polls futures has other tasks, too. So it may write to the operating system, but not wait for
        // the disk.
        self.advance(context, WhenFull::Ask)
    }
}

impl Drop for Durable {
    /// Removes this future from the waiters. If it had been woken to write for all, another waiter is woken in its
    /// place.
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        if self.shared.reached(self.level) >= self.ticket.0 {
            return;
        }
        let waiting = {
            let waiters = &mut self.shared.front.lock().waiters;
            let at = waiters.iter().position(|waiter| waiter.id == id);
            at.map(|at| waiters.swap_remove(at))
        };
        if waiting.is_none() {
            self.shared.wake_reached();
        }
    }
}
