//! The parts of a growing file that are on their way to the storage.
//!
//! Up to [`AT_ONCE`] parts are put at the same time, each by a thread of its own, so a later part may be stored before
//! an earlier one. A part counts as durable when it and all parts before it are stored; only then its callers learn of
//! it. A part behind one that is missing does not belong to the file: no reader finds it, and a sealer takes the missing
//! number.
//!
//! The first part that fails ends the file: its callers and those of all later parts get the failure, and no further
//! part is begun. Each part before it has the outcome of its own put, which is not repeated any more.

use std::collections::VecDeque;
use std::sync::Arc;

use env::Priority;
use env::sync::{Condvar, Mutex, MutexGuard};

use super::part;
use super::{Put, Segmented};
use crate::{Error, FileName, Kind, Outcome, Result, SyncDone};

/// Maximum number of parts that are put at the same time.
pub(super) const AT_ONCE: usize = 8;
/// Maximum size of all parts on their way, in bytes, unless a single part is larger.
const BYTES_MAX: usize = 32 << 20;

/// The parts of one file that are on their way.
pub(super) struct Flight {
    files: Segmented,
    name: FileName,
    state: Mutex<State>,
    /// Notified when a part waits for a thread, when the first part is decided, and when the writer is gone.
    changed: Condvar,
}

struct State {
    /// The undecided parts in order of number, and the decided ones behind an undecided one.
    parts: VecDeque<Flying>,
    /// Size of these parts, in bytes.
    bytes: usize,
    /// Number of threads, and how many of them wait for a part.
    threads: usize,
    idle: usize,
    /// The failure of a part, after which no part is begun.
    failure: Option<Error>,
    /// Whether the writer is gone, so that the threads end.
    is_left: bool,
}

/// A part on its way.
struct Flying {
    number: u32,
    bytes: usize,
    /// The object's content until a thread takes it.
    content: Option<Vec<u8>>,
    /// The outcome of its put; `None` while it is undecided.
    outcome: Option<Result<()>>,
    /// The callers that wait for this part and all before it.
    done: Vec<SyncDone>,
}

/// Callers that are to be told an outcome.
type Decided = Vec<(Vec<SyncDone>, Result<()>)>;

impl Flight {
    pub(super) fn new(files: Segmented, name: FileName) -> Arc<Flight> {
        let state =
            State { parts: VecDeque::new(), bytes: 0, threads: 0, idle: 0, failure: None, is_left: false };
        Arc::new(Flight { files, name, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Returns the failure of a part, if there is one. The writer must not continue then.
    pub(super) fn failure(&self) -> Option<Error> {
        self.state.lock().failure.clone()
    }

    /// Sends part `number`, whose object has this content. Waits while too many parts are on their way.
    pub(super) fn send(self: &Arc<Self>, number: u32, content: Vec<u8>) -> Result<()> {
        let bytes = content.len();
        let mut state = self.state.lock();
        let is_full = |state: &State| {
            state.parts.len() >= AT_ONCE || (!state.parts.is_empty() && state.bytes + bytes > BYTES_MAX)
        };
        while state.failure.is_none() && is_full(&state) {
            self.changed.wait(&mut state);
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if state.idle == 0 && state.threads < AT_ONCE {
            let flight = Arc::clone(self);
            let begun = env::spawn_thread("log-part", Priority::Foreground, move || flight.put_parts());
            match begun {
                Ok(_detached) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    let failed = Error::new(Kind::Failed, Outcome::DidNotHappen, &self.name, "sync");
                    return Err(failed.because(format!("cannot start a thread: {error}")));
                }
                // The thread could not be started, but there are others, and one of them will take the part.
                Err(_) => {}
            }
        }
        state.bytes += bytes;
        state.parts.push_back(Flying {
            number,
            bytes,
            content: Some(content),
            outcome: None,
            done: Vec::new(),
        });
        self.changed.notify_all();
        Ok(())
    }

    /// Calls `done` when all parts that were sent before are durable, or one of them has failed.
    pub(super) fn when_durable(&self, done: SyncDone) {
        let mut state = self.state.lock();
        if let Some(last) = state.parts.back_mut() {
            last.done.push(done);
            return;
        }
        let outcome = state.failure.clone().map_or(Ok(()), Err);
        drop(state);
        done(outcome);
    }

    /// Waits until every part that was sent is durable.
    pub(super) fn wait(&self) -> Result<()> {
        let mut state = self.state.lock();
        while !state.parts.is_empty() {
            self.changed.wait(&mut state);
        }
        state.failure.clone().map_or(Ok(()), Err)
    }

    /// Ends the threads when they have decided the parts that they have taken.
    pub(super) fn leave(&self) {
        self.state.lock().is_left = true;
        self.changed.notify_all();
    }

    /// Puts parts until the writer is gone.
    fn put_parts(&self) {
        let mut state = self.state.lock();
        loop {
            let next = state.parts.iter_mut().find_map(|part| Some((part.number, part.content.take()?)));
            let Some((number, content)) = next else {
                if state.is_left {
                    return;
                }
                state.idle += 1;
                self.changed.wait(&mut state);
                state.idle -= 1;
                continue;
            };
            drop(state);
            // The failure may be that of a later part. Then this part still counts if its put succeeds, but the put is
            // not repeated any more.
            let is_wanted = || self.state.lock().failure.is_none();
            let outcome = match self.files.put(&part::name(&self.name, number), &content, &is_wanted) {
                Ok(Put::Written) => Ok(()),
                Ok(Put::Taken(_)) => Err(Error::new(Kind::Sealed, Outcome::DidNotHappen, &self.name, "sync")),
                Err(error) => Err(error),
            };
            state = self.state.lock();
            let decided = decide(&mut state, number, outcome);
            if !decided.is_empty() {
                MutexGuard::unlocked(&mut state, || tell(decided));
                self.changed.notify_all();
            }
        }
    }
}

/// Records the outcome of a put, and removes the parts that are decided now. Returns the callers that wait for these
/// outcomes.
fn decide(state: &mut State, number: u32, outcome: Result<()>) -> Decided {
    let mut decided = Vec::new();
    if let Err(error) = &outcome {
        state.failure.get_or_insert_with(|| error.clone());
    }
    // The part may have been removed already, because a part before it has failed.
    if let Some(part) = state.parts.iter_mut().find(|part| part.number == number) {
        if env::planted(34) && outcome.is_ok() {
            decided.push((std::mem::take(&mut part.done), Ok(())));
        }
        part.outcome = Some(outcome);
    }
    if state.parts.front().is_some_and(|first| first.number < number) {
        env::sometimes("log in the store: a part was decided before one ahead of it");
    }
    while let Some(outcome) = state.parts.front_mut().and_then(|first| first.outcome.take()) {
        let ended = if outcome.is_ok() { 1 } else { state.parts.len() };
        for part in state.parts.drain(..ended) {
            state.bytes -= part.bytes;
            decided.push((part.done, outcome.clone()));
        }
    }
    decided
}

fn tell(decided: Decided) {
    for (callers, outcome) in decided {
        callers.into_iter().for_each(|done| done(outcome.clone()));
    }
}
