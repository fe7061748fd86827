//! One read for all requests that miss the same block at the same time.
//!
//! The first request to miss becomes the leader and reads; the others wait for its block. When the leader fails or
//! panics, the followers read for themselves, one after the other, and each gets its own error.

use std::hash::BuildHasherDefault;
use std::sync::Arc;

use env::HashMap;
use env::sync::{Condvar, Mutex};

use crate::memory::Mix;
use crate::{Block, BlockKey};

/// The reads in progress.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    flying: Mutex<HashMap<BlockKey, Arc<Flight>, BuildHasherDefault<Mix>>>,
}

/// One read in progress.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    outcome: Mutex<Outcome>,
    ended: Condvar,
}

#[derive(Debug, Default)]
enum Outcome {
    #[default]
    Flying,
    /// The block, and whether it was cached.
    Landed(Arc<Block>, bool),
    Failed,
}

/// The role of a request that misses a block.
pub(crate) enum Role<'f> {
    /// The request reads the block.
    Leader(Leader<'f>),
    /// The request waits for the leader.
    Follower(Arc<Flight>),
}

impl Flights {
    pub(crate) fn join(&self, key: BlockKey) -> Role<'_> {
        let mut flying = self.flying.lock();
        if let Some(flight) = flying.get(&key) {
            return Role::Follower(Arc::clone(flight));
        }
        let flight = Arc::<Flight>::default();
        flying.insert(key, Arc::clone(&flight));
        Role::Leader(Leader { flights: self, key, flight })
    }

    /// Number of requests that wait for the read of a block.
    #[cfg(test)]
    pub(crate) fn followers(&self, key: BlockKey) -> usize {
        // The map and the thread that reads have one reference each; the others belong to waiting threads.
        self.flying.lock().get(&key).map_or(0, |flight| Arc::strong_count(flight) - 2)
    }
}

impl Flight {
    /// Waits for the block, and returns it with whether it was cached; `None` when the leader failed.
    pub(crate) fn wait(&self) -> Option<(Arc<Block>, bool)> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Outcome::Flying => self.ended.wait(&mut outcome),
                Outcome::Landed(block, kept) => return Some((Arc::clone(block), *kept)),
                Outcome::Failed => return None,
            }
        }
    }
}

/// The caller that reads a block, for itself and its followers. If it is dropped before it has the block, the
/// followers read.
pub(crate) struct Leader<'f> {
    flights: &'f Flights,
    key: BlockKey,
    flight: Arc<Flight>,
}

impl Leader<'_> {
    /// Gives the block to all followers.
    pub(crate) fn land(self, block: &Arc<Block>, kept: bool) {
        *self.flight.outcome.lock() = Outcome::Landed(Arc::clone(block), kept);
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.flights.flying.lock().remove(&self.key);
        let mut outcome = self.flight.outcome.lock();
        if matches!(*outcome, Outcome::Flying) {
            *outcome = Outcome::Failed;
        }
        self.flight.ended.notify_all();
    }
}
