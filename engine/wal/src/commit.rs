//! Waiting for the log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::log::{Shared, WhenFull};
use crate::{Level, Result, Ticket};

/// Somebody who waits.
pub(crate) struct Waiter {
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
}

impl Durable {
    pub(crate) fn new(shared: Arc<Shared>, ticket: Ticket, level: Level) -> Durable {
        Durable { shared, ticket, level, patient: false }
    }

    /// Waits on while the disk is full: only the log's end is an error.
    pub fn patiently(self) -> Durable {
        Durable { patient: true, ..self }
    }

    /// The answer, if it is known already.
    fn known(&self) -> Option<Result<()>> {
        // In this order: what is acknowledged was so before any fence.
        if self.shared.reached(self.level) >= self.ticket.0 && !self.shared.is_fenced() {
            return Some(Ok(()));
        }
        let front = self.shared.front.lock();
        let full = front.full.as_ref().filter(|_| !self.patient);
        front.failure.as_ref().or(full).cloned().map(Err)
    }

    /// Writes for everybody, if nobody else is at it. Only the system's level is reached that way.
    fn lead(&self, when_full: WhenFull) {
        if self.level == Level::Os
            && let Some(mut back) = self.shared.back.try_lock()
        {
            // The caller looks for the failure that this may have left.
            let _seen = self.shared.drain(&mut back);
            if when_full == WhenFull::Ask {
                self.shared.ask_for_roll(&back);
            }
            drop(back);
            self.shared.wake_reached();
            if when_full == WhenFull::Roll {
                self.shared.roll_if_due();
            }
        }
    }

    fn advance(&self, context: &mut Context<'_>, when_full: WhenFull) -> Poll<Result<()>> {
        if let Some(known) = self.known() {
            return Poll::Ready(known);
        }
        self.lead(when_full);
        if let Some(known) = self.known() {
            return Poll::Ready(known);
        }
        {
            let mut front = self.shared.front.lock();
            front.waiters.push(Waiter {
                ticket: self.ticket,
                level: self.level,
                patient: self.patient,
                waker: context.waker().clone(),
            });
            if self.level == Level::Disk && front.disk_wanted < self.ticket.0 {
                front.disk_wanted = self.ticket.0;
                self.shared.disk_wanted.notify_one();
            }
        }
        // Who held the back when it was tried above may have woken the waiters before this one was among them. If the
        // back is still held now, its holder wakes us when done; if not, the act is ours.
        self.lead(when_full);
        match self.known() {
            Some(known) => Poll::Ready(known),
            None => Poll::Pending,
        }
    }

    /// Waits, holding the thread.
    pub fn wait(self) -> Result<()> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match self.advance(&mut context, WhenFull::Roll) {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        // A task's thread serves others too: it writes to the system, it never waits for the disk.
        self.advance(context, WhenFull::Ask)
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
