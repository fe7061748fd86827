//! Waiting for a write to its end.
//!
//! A write becomes visible when somebody who waits for it sees that it is durable. When a client goes away its calls are
//! dropped where they wait; if the waiting ended with them, writes behind this one that ask for less could wait for long.

use std::pin::Pin;
use std::task::{Context, Poll};

use region::Pending;

/// A write that is waited for by the call, and after the call by a task of its own.
#[derive(Debug)]
pub(super) struct Settling(Option<Pending>);

impl Settling {
    pub(super) fn new(pending: Pending) -> Settling {
        Settling(Some(pending))
    }

    /// Waits, holding the thread.
    pub(super) fn wait_blocking(mut self) -> Result<(), region::Error> {
        self.0.take().map_or(Ok(()), Pending::wait_blocking)
    }
}

impl Future for Settling {
    type Output = Result<(), region::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(pending) = &mut self.0 else { return Poll::Ready(Ok(())) };
        let outcome = std::task::ready!(Pin::new(pending).poll(context));
        self.0 = None;
        Poll::Ready(outcome)
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        if let Some(pending) = self.0.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            // Nobody is left to be told; a log that failed has aborted the region.
            env::spawn(async move { drop(pending.await) });
        }
    }
}
