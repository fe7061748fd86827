//! Records why a process must end, for the code that ends it.

use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::sync::Mutex;

/// The first failure after which the process must end, so that its supervisor starts it again. Code that detects such
/// failures shares this value with the code that waits for one.
#[derive(Debug, Default)]
pub struct FirstFailure {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cause: Option<String>,
    watchers: Vec<Waker>,
}

impl FirstFailure {
    /// Records a failure and its cause, one sentence for people. A later failure changes nothing.
    pub fn record(&self, cause: impl FnOnce() -> String) {
        let mut state = self.state.lock();
        if state.cause.is_none() {
            state.cause = Some(cause());
            state.watchers.drain(..).for_each(Waker::wake);
        }
    }

    /// Whether a failure was recorded.
    pub fn has_happened(&self) -> bool {
        self.state.lock().cause.is_some()
    }

    /// Waits for a failure. Returns its cause.
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
