//! Background work that fills the cache: a queue, and a few threads that end when the queue is empty.

use std::collections::VecDeque;
use std::sync::Arc;

use env::Priority;
use env::sync::Mutex;

type Work = Box<dyn FnOnce() + Send>;

/// The queue of background work; see the module documentation.
pub(crate) struct Prefetch {
    threads_max: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    threads: usize,
}

impl Prefetch {
    pub(crate) fn new(threads_max: usize) -> Prefetch {
        Prefetch { threads_max: threads_max.max(1), state: Arc::default() }
    }

    pub(crate) fn add(&self, work: Work) {
        let mut state = self.state.lock();
        state.waiting.push_back(work);
        if state.threads == self.threads_max {
            return;
        }
        let shared = Arc::clone(&self.state);
        let started = env::spawn_thread("prefetch", Priority::Background, move || {
            loop {
                let work = {
                    let mut state = shared.lock();
                    let Some(work) = state.waiting.pop_front() else {
                        state.threads -= 1;
                        return;
                    };
                    work
                };
                work();
            }
        });
        match started {
            Ok(_) => state.threads += 1,
            // If no thread can be started, the work is dropped. That does no harm: blocks are read when they are
            // requested.
            Err(error) if state.threads == 0 => {
                state.waiting.clear();
                tracing::warn!(%error, "no thread for reading files into the cache; blocks are read on demand");
            }
            Err(_) => {}
        }
    }
}

impl std::fmt::Debug for Prefetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prefetch").field("waiting", &self.state.lock().waiting.len()).finish_non_exhaustive()
    }
}
