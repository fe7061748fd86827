//! Row locks.
//!
//! A fixed number of locks, each for the rows whose hash falls on it. They are held while a write is applied, not while
//! the log syncs, so two rows that share a lock cost each other microseconds. Several are always taken in the same
//! order.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::{Error, ReadMode, Result};

const STRIPES: usize = 1024;

/// Locks that are held until this is dropped.
pub(crate) struct Held<'a> {
    _stripes: SmallVec<[MutexGuard<'a, ()>; 1]>,
    /// Whether it is known that no row came twice.
    pub(crate) is_each_row_once: bool,
}

/// The row locks of a region.
pub(crate) struct RowLocks {
    stripes: Box<[Mutex<()>]>,
    hasher: RandomState,
    wait: Duration,
}

impl RowLocks {
    pub(crate) fn new(wait: Duration) -> RowLocks {
        RowLocks {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            wait,
        }
    }

    /// Takes the locks of `rows`, waiting for each no longer than the limit, and not at all when only memory may be
    /// waited for.
    pub(crate) fn lock<'a>(&self, rows: impl Iterator<Item = &'a [u8]>, mode: ReadMode) -> Result<Held<'_>> {
        let mut stripes: SmallVec<[(usize, &[u8]); 1]> =
            rows.map(|row| (self.hasher.hash_one(row) as usize % STRIPES, row)).collect();
        stripes.sort_unstable_by_key(|(stripe, _)| *stripe);
        // What is the same has the same hash. Of very many too many share one to be compared with each other.
        let few = stripes.len() <= 4 * STRIPES;
        let is_each_row_once = few
            && stripes.chunk_by(|(left, _), (right, _)| left == right).all(|same| {
                same.iter()
                    .enumerate()
                    .all(|(index, (_, row))| same[..index].iter().all(|(_, other)| other != row))
            });
        stripes.dedup_by_key(|(stripe, _)| *stripe);
        let lock = |(stripe, row): (usize, &[u8])| {
            let stripe = &self.stripes[stripe];
            match mode {
                ReadMode::MemoryOnly => stripe.try_lock().ok_or(Error::WouldBlock),
                ReadMode::Any => stripe.try_lock_for(self.wait).ok_or_else(|| {
                    Error::TooBusy(format!(
                        "Failed to obtain the lock of row {} within {} ms (hbase.rowlock.wait.duration)",
                        row.escape_ascii(),
                        self.wait.as_millis()
                    ))
                }),
            }
        };
        let stripes = stripes.into_iter().map(lock).collect::<Result<_>>()?;
        Ok(Held { _stripes: stripes, is_each_row_once })
    }
}

impl std::fmt::Debug for RowLocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowLocks").field("wait", &self.wait).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_is_given_up_on_and_named() {
        let locks = RowLocks::new(Duration::from_millis(1));
        let rows = [&b"a"[..], b"b", b"a"];
        let held = locks.lock(rows.into_iter(), ReadMode::Any).expect("free, each once");
        assert!(!held.is_each_row_once);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| locks.lock([&b"b"[..]].into_iter(), ReadMode::Any).map(drop));
            let error = waiter.join().expect("no panic").expect_err("held");
            assert!(error.to_string().contains("row b within 1 ms"), "{error}");
            let refused = locks.lock([&b"b"[..]].into_iter(), ReadMode::MemoryOnly).map(drop);
            assert!(matches!(refused, Err(Error::WouldBlock)));
        });
        drop(held);
        locks.lock(rows.into_iter(), ReadMode::MemoryOnly).expect("free again");
        let many: Vec<String> = (0..4_000).map(|row| row.to_string()).collect();
        let held = locks.lock(many.iter().map(|row| row.as_bytes()), ReadMode::Any).expect("free");
        assert!(held.is_each_row_once);
    }
}
