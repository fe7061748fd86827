//! Tells the server that a region was aborted, so that it can end.
//!
//! A region aborts when it cannot know whether a change happened; its next opening finds out. Only a start of the
//! server opens it again with the log's records, so a server with an aborted region ends for its supervisor, as HBase's
//! does.

use std::sync::Arc;
use std::task::{Poll, Waker};

use env::sync::Mutex;

/// The first abort of a region, shared by all regions of a server.
#[derive(Debug, Default)]
pub struct FirstAbort {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cause: Option<String>,
    watchers: Vec<Waker>,
}

impl FirstAbort {
    /// Records an abort, unless there was one before.
    pub(crate) fn record(&self, region: &str, cause: &str) {
        let mut state = self.state.lock();
        if state.cause.is_none() {
            state.cause = Some(format!("region {region} was aborted: {cause}"));
            state.watchers.drain(..).for_each(Waker::wake);
        }
    }

    /// Waits for an abort. Returns the region's name and the cause, in one sentence.
    pub fn happened(self: &Arc<Self>) -> impl Future<Output = String> + Send + use<> {
        let this = Arc::clone(self);
        std::future::poll_fn(move |context| {
            let mut state = this.state.lock();
            if let Some(cause) = &state.cause {
                return Poll::Ready(cause.clone());
            }
            if !state.watchers.iter().any(|watcher| watcher.will_wake(context.waker())) {
                state.watchers.push(context.waker().clone());
            }
            Poll::Pending
        })
    }
}
