//! Waiting for the log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::log::{Shared, WhenFull};
use crate::{Level, Result, Ticket};

/// Somebody who waits.
pub(crate) struct Waiter {
    /// Of one [`Durable`] alone, for as long as it waits.
    pub(crate) seat: u64,
    pub(crate) ticket: Ticket,
    pub(crate) level: Level,
    /// Whether it waits on while the disk is full.
    pub(crate) patient: bool,
    pub(crate) waker: Waker,
}

/// Resolves when a ticket has reached its level, or never will.
#[must_use = "nothing is durable before this resolves"]
pub struct Durable {
    shared: Arc<Shared>,
    ticket: Ticket,
    level: Level,
    patient: bool,
    /// Where it waits, or has waited.
    seat: Option<u64>,
}

impl Durable {
    pub(crate) fn new(shared: Arc<Shared>, ticket: Ticket, level: Level) -> Durable {
        Durable { shared, ticket, level, patient: false, seat: None }
    }

    /// Waits on while the disk is full: only the log's end is an error.
    pub fn patiently(mut self) -> Durable {
        self.patient = true;
        self
    }

    /// The answer, if it is known already.
    fn known(&self) -> Option<Result<()>> {
        if self.shared.reached(self.level) >= self.ticket.0 {
            return Some(Ok(()));
        }
        let front = self.shared.front.lock();
        let full = front.full.as_ref().filter(|_| !self.patient);
        front.failure.as_ref().or(full).cloned().map(Err)
    }

    /// Writes for everybody, if nobody else is at it. Only the system's level is reached that way, and only while there is
    /// room.
    fn lead(&self, when_full: WhenFull) {
        if self.level == Level::Os
            && !self.shared.is_full()
            && let Some(mut back) = self.shared.try_back()
        {
            // The caller looks for the failure that this may have left.
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

    /// Waits among the others, to be woken once.
    fn take_seat(&mut self, context: &Context<'_>) {
        // It goes when the front is free: a waker may be the last of a task that waits here, too.
        let _known;
        let mut front = self.shared.front.lock();
        let known = self.seat.and_then(|seat| front.waiters.iter().position(|waiter| waiter.seat == seat));
        let seat = *self.seat.get_or_insert_with(|| {
            front.seats += 1;
            front.seats
        });
        let (ticket, level, patient) = (self.ticket, self.level, self.patient);
        let waiter = Waiter { seat, ticket, level, patient, waker: context.waker().clone() };
        match known {
            Some(at) => _known = std::mem::replace(&mut front.waiters[at], waiter),
            None => front.waiters.push(waiter),
        }
        if level == Level::Disk && front.disk_wanted < ticket.0 {
            front.disk_wanted = ticket.0;
            self.shared.disk_wanted.notify_one();
        }
    }

    fn advance(&mut self, context: &mut Context<'_>, when_full: WhenFull) -> Poll<Result<()>> {
        if let Some(known) = self.known() {
            return Poll::Ready(known);
        }
        self.lead(when_full);
        if let Some(known) = self.known() {
            return Poll::Ready(known);
        }
        self.take_seat(context);
        // Who held the back when it was tried above may have woken the waiters before this one was among them. If the
        // back is still held now, its holder wakes us when it lets go; if not, the act is ours.
        self.lead(when_full);
        match self.known() {
            Some(known) => Poll::Ready(known),
            None => Poll::Pending,
        }
    }

    /// Waits, holding the thread.
    pub fn wait(mut self) -> Result<()> {
        env::block_on(std::future::poll_fn(|context| self.advance(context, WhenFull::Roll)))
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        // A task's thread serves others too: it writes to the system, it never waits for the disk.
        self.advance(context, WhenFull::Ask)
    }
}

impl Drop for Durable {
    /// Nobody is to be woken who does not wait any more. One who was, to write for all, leaves that to another.
    fn drop(&mut self) {
        let Some(seat) = self.seat else { return };
        if self.shared.reached(self.level) >= self.ticket.0 {
            return;
        }
        let waiting = {
            let waiters = &mut self.shared.front.lock().waiters;
            let at = waiters.iter().position(|waiter| waiter.seat == seat);
            at.map(|at| waiters.swap_remove(at))
        };
        if waiting.is_none() {
            self.shared.wake_reached();
        }
    }
}
