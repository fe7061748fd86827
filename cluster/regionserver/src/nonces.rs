//! Nonces: if a client repeats an increment or append because it lost the response, the operation is applied only once.
//!
//! 1. [`begin`](Nonces::begin) records that the operation runs, or returns that it was applied before or runs now.
//! 2. A successful operation is recorded for the grace period, with the sequence id of its write. A failed one is
//!    forgotten, so that the client can try again. The operation is recorded when the write is applied and not when the
//!    client is answered, because a client that disconnects while it waits is likely to repeat the call.
//! 3. A repeated operation waits until the first write is durable. As in HBase, the answer is the row right after that
//!    write, read at its sequence id.
//! 4. The log has the nonces of its writes. When a region is opened, the nonces that replay has read are recorded here,
//!    so that a repetition after a crash is recognized. As in HBase, records older than one and a half grace periods
//!    are ignored.
//!
//! If an operation is repeated while the first one runs, it waits for the end of the first. It may keep a thread of the
//! blocking pool meanwhile. So a nonce is claimed only on the thread that runs the operation: an operation that had its
//! nonce and waited for a thread could wait for a repetition of itself. Nonce zero turns all of this off.
//!
//! At 100,000 operations a second, a grace period has millions of nonces. If they were in one table, growing it or
//! searching it for old nonces would stop a thread for tens of milliseconds. So the nonces are in many small tables,
//! each with its own lock.
//!
//! Each operation hashes its nonce about three times. Clients choose the nonces, so the hash must have a secret seed.
//! Two multiplications by the seed cost less than the standard library's SipHash.

use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use cell::SequenceId;
use env::sync::Mutex;
use env::{HashMap, Moment, World};
use region::RecoveredNonce;
use tokio::sync::watch;

/// Identifies an operation that a client may repeat, by the client's number and the operation's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Nonce {
    pub(crate) group: u64,
    pub(crate) nonce: u64,
}

enum State {
    /// The operation runs. The sender, if there is one, wakes the repetitions that wait for the operation's end.
    Running(Option<watch::Sender<()>>),
    Done(Moment, SequenceId),
}

type Table = HashMap<Nonce, State, Seeded>;

/// Hashes two numbers that clients choose, with a secret seed. A client that knew the seed could choose numbers that
/// collide.
#[derive(Clone, Copy)]
struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = Seeded;

    #[inline]
    fn build_hasher(&self) -> Seeded {
        *self
    }
}

impl Hasher for Seeded {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let wide = u128::from(self.0 ^ number) * 0xd6e8_feb8_6659_fd93;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The nonces of a server's operations.
pub(crate) struct Nonces {
    world: World,
    grace_period: Duration,
    enabled: bool,
    seen: Box<[Mutex<Table>]>,
}

/// Number of tables: with ten million nonces each has ten thousand.
const TABLES: usize = 1024;

/// The result of [`Nonces::begin`].
pub(crate) enum NonceClaim {
    /// The operation is new: apply it, and report its end.
    Fresh(NonceGuard),
    /// The operation was applied before, with this sequence id.
    Repeated(SequenceId),
    /// Another call applies the operation now. Call [`Nonces::begin`] again when this is closed.
    InProgress(watch::Receiver<()>),
}

/// A running operation under a nonce. If this is dropped without [`done`](NonceGuard::done), the operation has failed.
pub(crate) struct NonceGuard(Option<(Arc<Nonces>, Nonce)>);

impl Nonces {
    pub(crate) fn new(world: World, grace_period: Duration, enabled: bool) -> Nonces {
        let seed = Seeded(env::hash_seed());
        let seen = (0..TABLES).map(|_| Mutex::new(Table::with_hasher(seed))).collect();
        Nonces { world, grace_period, enabled, seen }
    }

    /// Returns the table for `nonce`.
    fn table_of(&self, nonce: Nonce) -> &Mutex<Table> {
        // Clients choose random numbers or count upwards. In both cases the lowest bits differ, so they choose the
        // table.
        &self.seen[(nonce.nonce ^ nonce.group) as usize % TABLES]
    }

    /// Claims a nonce for an operation that begins. If nonces are off or the nonce is zero, every operation is fresh.
    pub(crate) fn begin(self: &Arc<Self>, nonce: Nonce) -> NonceClaim {
        if !self.enabled || nonce.nonce == 0 || env::planted(5) {
            return NonceClaim::Fresh(NonceGuard(None));
        }
        match self.table_of(nonce).lock().entry(nonce) {
            Entry::Occupied(mut entry) => match entry.get_mut() {
                State::Running(end) => {
                    return NonceClaim::InProgress(
                        end.get_or_insert_with(|| watch::channel(()).0).subscribe(),
                    );
                }
                State::Done(when, sequence) if self.world.moment().since(*when) < self.grace_period => {
                    return NonceClaim::Repeated(*sequence);
                }
                state @ State::Done(..) => *state = State::Running(None),
            },
            Entry::Vacant(entry) => drop(entry.insert(State::Running(None))),
        }
        NonceClaim::Fresh(NonceGuard(Some((self.clone(), nonce))))
    }

    /// Forgets nonces older than the grace period.
    pub(crate) fn forget_old(&self) {
        let now = self.world.moment();
        for table in &self.seen {
            let mut table = table.lock();
            let before = table.len();
            table.retain(|_, state| match state {
                State::Running(_) => true,
                State::Done(when, _) => now.since(*when) < self.grace_period,
            });
            // If many nonces were removed, the table is shrunk, too.
            let left = table.len();
            if before > 4 * left {
                table.shrink_to(2 * left);
            }
        }
    }

    /// Adds the nonces that replay has found. A nonce that is already known is left unchanged.
    pub(crate) fn recover(&self, recovered: &[RecoveredNonce]) {
        if !self.enabled || env::planted(6) {
            return;
        }
        let (now, moment) = (self.world.now(), self.world.moment());
        let age_max = i64::try_from(self.grace_period.as_millis() * 3 / 2).unwrap_or(i64::MAX);
        for found in recovered.iter().filter(|found| now.0.saturating_sub(found.time.0) <= age_max) {
            let nonce = Nonce { group: found.group, nonce: found.nonce };
            self.table_of(nonce).lock().entry(nonce).or_insert(State::Done(moment, found.sequence));
        }
    }

    /// Records the end of an operation: the sequence id of its write, or `None` if the operation failed. Replacing the
    /// state drops its sender, which wakes the waiters.
    fn end(&self, nonce: Nonce, written: Option<SequenceId>) {
        let mut seen = self.table_of(nonce).lock();
        match written {
            Some(sequence) => seen.insert(nonce, State::Done(self.world.moment(), sequence)),
            None => seen.remove(&nonce),
        };
    }
}

/// Waits for the end of a [running](NonceClaim::InProgress) operation.
pub(crate) async fn ended(mut running: watch::Receiver<()>) {
    // The end of the operation drops its sender, which `changed` reports as an error.
    while running.changed().await.is_ok() {}
}

impl NonceGuard {
    /// Records that the operation was applied as the write of this sequence id, which need not be durable yet.
    pub(crate) fn done(mut self, sequence: SequenceId) {
        if let Some((nonces, nonce)) = self.0.take() {
            nonces.end(nonce, Some(sequence));
        }
    }
}

impl Drop for NonceGuard {
    fn drop(&mut self) {
        if let Some((nonces, nonce)) = self.0.take() {
            nonces.end(nonce, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use env::WallTime;

    use super::*;

    fn is_empty(nonces: &Nonces) -> bool {
        nonces.seen.iter().all(|table| table.lock().is_empty())
    }

    #[test]
    fn nonces_spread_evenly_and_are_found_and_forgotten() {
        let world = World::simulated(3, WallTime(0));
        let nonces = Arc::new(Nonces::new(world.clone(), Duration::from_secs(60), true));
        let drawn: Vec<Nonce> =
            (0..20_000).map(|_| Nonce { group: 9, nonce: world.random() | 1 << 40 }).collect();
        for (at, &nonce) in drawn.iter().enumerate() {
            let NonceClaim::Fresh(running) = nonces.begin(nonce) else { panic!("new") };
            running.done(SequenceId(at as u64));
        }
        let fullest = nonces.seen.iter().map(|table| table.lock().len()).max();
        assert!(fullest.is_some_and(|fullest| fullest < 80), "{fullest:?}");
        for (at, &nonce) in drawn.iter().enumerate() {
            assert!(
                matches!(nonces.begin(nonce), NonceClaim::Repeated(SequenceId(found)) if found == at as u64)
            );
        }
        world.advance(Duration::from_secs(60));
        nonces.forget_old();
        assert!(is_empty(&nonces));
        assert!(nonces.seen.iter().all(|table| table.lock().capacity() == 0), "nor is memory held for them");
    }

    #[test]
    fn an_operation_is_applied_once_unless_failed_or_forgotten() {
        let world = World::simulated(1, WallTime(0));
        let nonces = Arc::new(Nonces::new(world.clone(), Duration::from_secs(60), true));
        let nonce = Nonce { group: 1, nonce: 2 };
        let NonceClaim::Fresh(running) = nonces.begin(nonce) else { panic!("new") };
        assert!(matches!(nonces.begin(nonce), NonceClaim::InProgress(_)));
        drop(running);
        let NonceClaim::Fresh(running) = nonces.begin(nonce) else { panic!("it failed") };
        running.done(SequenceId(7));
        assert!(matches!(nonces.begin(nonce), NonceClaim::Repeated(SequenceId(7))));
        assert!(matches!(nonces.begin(Nonce { group: 2, nonce: 2 }), NonceClaim::Fresh(_)));
        world.advance(Duration::from_secs(59));
        nonces.forget_old();
        assert!(matches!(nonces.begin(nonce), NonceClaim::Repeated(SequenceId(7))));
        world.advance(Duration::from_secs(1));
        nonces.forget_old();
        assert!(is_empty(&nonces));
        assert!(matches!(nonces.begin(nonce), NonceClaim::Fresh(_)));
    }

    #[test]
    fn zero_and_switched_off_nonces_are_not_remembered() {
        let world = World::simulated(1, WallTime(0));
        for (enabled, nonce) in [(true, 0), (false, 5)] {
            let nonces = Arc::new(Nonces::new(world.clone(), Duration::from_secs(60), enabled));
            for _ in 0..2 {
                let NonceClaim::Fresh(running) = nonces.begin(Nonce { group: 1, nonce }) else {
                    panic!("always new")
                };
                running.done(SequenceId(7));
            }
        }
    }

    #[test]
    fn recovered_nonces_count_unless_too_old() {
        let world = World::simulated(1, WallTime(100_000));
        let nonces = Arc::new(Nonces::new(world.clone(), Duration::from_secs(60), true));
        let found = |nonce, time| RecoveredNonce {
            group: 1,
            nonce,
            time: WallTime(time),
            sequence: SequenceId(nonce),
        };
        nonces.recover(&[found(5, 10_000), found(6, 9_999), found(7, 100_000)]);
        let begin = |nonce| nonces.begin(Nonce { group: 1, nonce });
        assert!(matches!(begin(5), NonceClaim::Repeated(SequenceId(5))));
        assert!(matches!(begin(6), NonceClaim::Fresh(_)), "older than one and a half grace periods");
        assert!(matches!(begin(7), NonceClaim::Repeated(SequenceId(7))));
        let switched_off = Arc::new(Nonces::new(world, Duration::from_secs(60), false));
        switched_off.recover(&[found(5, 100_000)]);
        assert!(is_empty(&switched_off));
    }
}
