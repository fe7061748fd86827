//! Nonces: an increment or append that a client sends again, because the first answer was lost, is not done again.
//!
//! 1. [`begin`](Nonces::begin) notes the operation as running, or says that it was done before, or that it runs now.
//! 2. When it ends well the mark stays for the grace period; when it fails the mark goes, so that it can be tried again.
//!
//! A repeated operation is answered with the row as it is now, as HBase does. One that comes while the first runs waits
//! for its end. Nonce zero means that the client wants none of this.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use env::{Moment, World};
use parking_lot::Mutex;
use tokio::sync::watch;

/// What a client says to recognise an operation by: its own number, and the operation's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Nonce {
    pub(crate) group: u64,
    pub(crate) nonce: u64,
}

enum State {
    /// Closed when the operation ends.
    Running(watch::Receiver<()>),
    Done(Moment),
}

/// The nonces that a server remembers.
pub(crate) struct Nonces {
    world: World,
    grace_period: Duration,
    enabled: bool,
    seen: Mutex<HashMap<Nonce, State>>,
}

/// What [`Nonces::begin`] says.
pub(crate) enum Begun {
    /// Not seen before: do it, and say how it ended.
    Fresh(Running),
    /// Done before.
    Repeated,
    /// Another call does it now; ask again when this is closed.
    InProgress(watch::Receiver<()>),
}

/// An operation that runs under a nonce. Dropped without [`done`](Running::done), it counts as failed.
pub(crate) struct Running(Option<(Arc<Nonces>, Nonce, watch::Sender<()>)>);

impl Nonces {
    pub(crate) fn new(world: World, grace_period: Duration, enabled: bool) -> Nonces {
        Nonces { world, grace_period, enabled, seen: Mutex::default() }
    }

    /// An operation with this nonce begins.
    pub(crate) fn begin(self: &Arc<Self>, nonce: Nonce) -> Begun {
        if !self.enabled || nonce.nonce == 0 {
            return Begun::Fresh(Running(None));
        }
        let (end, ended) = watch::channel(());
        match self.seen.lock().entry(nonce) {
            Entry::Occupied(mut entry) => match entry.get() {
                State::Running(ended) => return Begun::InProgress(ended.clone()),
                State::Done(when) if self.world.moment().since(*when) < self.grace_period => {
                    return Begun::Repeated;
                }
                State::Done(_) => drop(entry.insert(State::Running(ended))),
            },
            Entry::Vacant(entry) => drop(entry.insert(State::Running(ended))),
        }
        Begun::Fresh(Running(Some((self.clone(), nonce, end))))
    }

    /// As [`begin`](Nonces::begin), but waits for the end of one that runs. `None` for one that was done before.
    pub(crate) async fn begin_alone(self: &Arc<Self>, nonce: Nonce) -> Option<Running> {
        loop {
            match self.begin(nonce) {
                Begun::Fresh(running) => return Some(running),
                Begun::Repeated => return None,
                // An error is how the end of the other operation shows: its sender is gone.
                Begun::InProgress(mut ended) => while ended.changed().await.is_ok() {},
            }
        }
    }

    /// Forgets what is older than the grace period.
    pub(crate) fn forget_old(&self) {
        let now = self.world.moment();
        self.seen.lock().retain(|_, state| match state {
            State::Running(_) => true,
            State::Done(when) => now.since(*when) < self.grace_period,
        });
    }

    fn end(&self, nonce: Nonce, well: bool) {
        let mut seen = self.seen.lock();
        match well {
            true => seen.insert(nonce, State::Done(self.world.moment())),
            false => seen.remove(&nonce),
        };
    }
}

impl Running {
    /// The operation ended well.
    pub(crate) fn done(mut self) {
        if let Some((nonces, nonce, _end)) = self.0.take() {
            nonces.end(nonce, true);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((nonces, nonce, _end)) = self.0.take() {
            nonces.end(nonce, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use env::WallTime;

    use super::*;

    #[test]
    fn an_operation_is_done_once_unless_it_failed_or_is_long_ago() {
        let world = World::simulated(1, WallTime(0));
        let nonces = Arc::new(Nonces::new(world.clone(), Duration::from_secs(60), true));
        let nonce = Nonce { group: 1, nonce: 2 };
        let Begun::Fresh(running) = nonces.begin(nonce) else { panic!("new") };
        assert!(matches!(nonces.begin(nonce), Begun::InProgress(_)));
        drop(running);
        let Begun::Fresh(running) = nonces.begin(nonce) else { panic!("it failed") };
        running.done();
        assert!(matches!(nonces.begin(nonce), Begun::Repeated));
        assert!(matches!(nonces.begin(Nonce { group: 2, nonce: 2 }), Begun::Fresh(_)));
        world.advance(Duration::from_secs(59));
        nonces.forget_old();
        assert!(matches!(nonces.begin(nonce), Begun::Repeated));
        world.advance(Duration::from_secs(1));
        nonces.forget_old();
        assert!(nonces.seen.lock().is_empty());
        assert!(matches!(nonces.begin(nonce), Begun::Fresh(_)));
    }

    #[test]
    fn zero_and_switched_off_nonces_are_not_remembered() {
        let world = World::simulated(1, WallTime(0));
        for (enabled, nonce) in [(true, 0), (false, 5)] {
            let nonces = Arc::new(Nonces::new(world.clone(), Duration::from_secs(60), enabled));
            for _ in 0..2 {
                let Begun::Fresh(running) = nonces.begin(Nonce { group: 1, nonce }) else {
                    panic!("always new")
                };
                running.done();
            }
        }
    }
}
