//! Waits until a write is durable and visible.
//!
//! The waiter of a write moves the read point when it learns that the write is durable; only then is the write visible.
//! If the waiter is dropped, or gets an error because the disk is full while the log keeps the write for later, an
//! [`Orphan`] waits instead. The log wakes it and it moves the read point, so that no later write waits for an
//! abandoned one. A caller that must wait for something else first [entrusts](Pending::entrust) its write to an
//! `Orphan`, for the same reason.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use cell::SequenceId;
use env::sync::Mutex;

use crate::mvcc::Awaits;
use crate::region::Region;
use crate::{Error, Result};

/// An applied write that is not acknowledged yet.
///
/// This future resolves when the write is as durable as requested, and every new reader sees it; at once if nothing was
/// written. An error means that the write may or may not have happened. Dropping the future ends the wait, but does not
/// undo the write.
#[must_use = "a write may be acknowledged only after this has resolved"]
pub struct Pending {
    region: Arc<Region>,
    /// The last sequence id to wait for; `None` if nothing was written.
    sequence: Option<SequenceId>,
    awaits: Awaits,
    durable: Option<wal::Durable>,
    /// The log record for which an [`Orphan`] must wait if this value is dropped, and the level that it must reach.
    own: Option<(wal::Ticket, wal::Level)>,
}

impl Pending {
    /// Returns a future for the write `sequence`, which is as durable as requested when its log record has reached the
    /// level. `None` is a write that does not wait for the log.
    pub(crate) fn for_writing(
        region: &Arc<Region>,
        sequence: SequenceId,
        awaits: Awaits,
        own: Option<(wal::Ticket, wal::Level)>,
    ) -> Pending {
        let durable = own.map(|own| reaching(region, own));
        Pending { region: Arc::clone(region), sequence: Some(sequence), awaits, durable, own }
    }

    /// Returns a future that resolves when all earlier writes are complete, for a read that saw incomplete ones.
    pub(crate) fn for_reading(region: &Arc<Region>) -> Pending {
        let (sequence, ticket, level) = {
            let state = region.write.lock();
            (state.last_sequence, state.last_ticket, region.level_awaited(&state))
        };
        Pending {
            region: Arc::clone(region),
            sequence: Some(sequence),
            awaits: Awaits::Log(level),
            durable: ticket.map(|ticket| region.log.sync(ticket, level)),
            own: None,
        }
    }

    pub(crate) fn nothing(region: &Arc<Region>) -> Pending {
        let region = Arc::clone(region);
        Pending { region, sequence: None, awaits: Awaits::Nothing, durable: None, own: None }
    }

    /// Returns the sequence id of the last write, which can be used as a read point; `None` if nothing was written.
    pub fn sequence(&self) -> Option<SequenceId> {
        self.sequence
    }

    /// Waits like the future, and blocks the calling thread meanwhile.
    pub fn wait_blocking(self) -> Result<()> {
        env::block_on(self)
    }

    /// Makes the log's threads complete the write, even while nobody polls this future, which resolves as before. A
    /// caller that has not polled it must call this before it waits for anything else: later writes of the region are
    /// visible only after this one, and the log may not even be asked to write it.
    pub fn entrust(&mut self) {
        if let Some((ticket, level)) = self.own
            && self.durable.is_some()
        {
            self.leave();
            self.durable = Some(reaching(&self.region, (ticket, level)));
        }
    }

    /// Waits until the write is as durable as requested, but not until earlier writes of the region are. A caller with
    /// several writes first waits for each in this way. Otherwise two callers with writes to the same two regions could
    /// wait for each other. Fails like the future, which must not be polled after a failure.
    pub async fn logged(&mut self) -> Result<()> {
        std::future::poll_fn(|context| self.poll_logged(context)).await
    }

    fn poll_logged(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let (Some(sequence), Some(durable)) = (self.sequence, &mut self.durable) else {
            return Poll::Ready(Ok(()));
        };
        Poll::Ready(match std::task::ready!(Pin::new(durable).poll(context)) {
            Ok(()) => {
                self.durable = None;
                self.region.mvcc.complete_through(sequence, self.awaits);
                Ok(())
            }
            Err(error) if error.passes() => {
                self.leave();
                Err(error.into())
            }
            Err(error) => {
                self.durable = None;
                Err(self.region.abort(error.to_string()))
            }
        })
    }

    /// Creates an [`Orphan`], so that the log's threads complete the write.
    fn leave(&mut self) {
        if let (Some(_), Some(sequence), Some(durable)) =
            (self.own.take(), self.sequence, self.durable.take())
        {
            let orphan = Arc::new(Orphan {
                region: Arc::downgrade(&self.region),
                sequence,
                awaits: self.awaits,
                state: Mutex::new(State::Waiting(durable.patiently())),
            });
            orphan.look();
        }
    }
}

/// Returns a future that resolves when the log record of a write of `region` has reached its level.
fn reaching(region: &Region, (ticket, level): (wal::Ticket, wal::Level)) -> wal::Durable {
    let durable = region.log.sync(ticket, level);
    if region.uses_reserve { durable.by_reserve() } else { durable }
}

impl Future for Pending {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(sequence) = self.sequence else { return Poll::Ready(Ok(())) };
        std::task::ready!(self.poll_logged(context))?;
        if self.region.mvcc.reached(sequence, context.waker()) {
            return Poll::Ready(Ok(()));
        }
        match self.region.lifecycle.aborted.get().cloned() {
            Some(cause) => Poll::Ready(Err(Error::Aborted(cause))),
            None => Poll::Pending,
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.leave();
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// A write whose caller no longer waits for it.
struct Orphan {
    region: Weak<Region>,
    sequence: SequenceId,
    awaits: Awaits,
    state: Mutex<State>,
}

enum State {
    Waiting(wal::Durable),
    /// A thread polls the log; `true` if it must poll once more.
    Looking(bool),
    Done,
}

impl Orphan {
    /// Polls the log. The poll may call this function again, because the log then writes for all waiters, and wakes
    /// this one.
    fn look(self: &Arc<Orphan>) {
        let waker = Waker::from(Arc::clone(self));
        let mut durable = match &mut *self.state.lock() {
            State::Looking(again) => {
                *again = true;
                return;
            }
            State::Done => return,
            state => match std::mem::replace(state, State::Looking(false)) {
                State::Waiting(durable) => durable,
                State::Looking(_) | State::Done => unreachable!("the outer match has excluded these states"),
            },
        };
        loop {
            match Pin::new(&mut durable).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => {
                    *self.state.lock() = State::Done;
                    // If the region was dropped, nobody reads it, and nothing is left to do.
                    let Some(region) = self.region.upgrade() else { return };
                    match outcome {
                        Ok(()) => region.mvcc.complete_through(self.sequence, self.awaits),
                        Err(error) => drop(region.abort(error.to_string())),
                    }
                    return;
                }
                Poll::Pending => {
                    let mut state = self.state.lock();
                    if !matches!(*state, State::Looking(true)) {
                        *state = State::Waiting(durable);
                        return;
                    }
                    *state = State::Looking(false);
                }
            }
        }
    }
}

impl Wake for Orphan {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}
