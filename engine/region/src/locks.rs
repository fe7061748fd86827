//! Row locks: a fixed number of locks, each of which serves the rows whose hash maps to it.
//!
//! A row lock is held while a write is applied, but not while the log syncs. So rows that share a lock delay each other
//! briefly: for the time of applying a write, and of the reads of a check, an increment or an append. Several locks are
//! always taken in the same order.

use std::time::Duration;

use cell::string_binary;
use env::sync::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::write_times::WriteTimes;
use crate::{Busy, Error, ReadMode, Result};

const STRIPES: usize = 1024;
/// Maximum number of rows that are checked for duplicates.
const ROWS_COMPARED_MAX: usize = 4 * STRIPES;
/// Maximum number of rows that are first compared with the first row.
const SAME_MAX: usize = 8;
/// The index that means "no row".
const NONE: u32 = u32::MAX;

/// Row locks that a caller holds. They are released on drop.
pub(crate) struct HeldRowLocks<'a> {
    _stripes: SmallVec<[MutexGuard<'a, ()>; 1]>,
    /// Whether no row occurs twice in the call; `false` if unknown.
    pub(crate) is_each_row_once: bool,
}

/// The row locks of a region.
pub(crate) struct RowLocks {
    stripes: Box<[Mutex<()>]>,
    seed: u64,
    wait: Duration,
    write_times: Option<WriteTimes>,
}

impl RowLocks {
    /// Creates the locks. If `notes_times`, they also record the times that later writes of a row must respect
    /// ([`crate::write_times`]).
    pub(crate) fn new(wait: Duration, notes_times: bool) -> RowLocks {
        RowLocks {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            seed: env::hash_seed(),
            wait,
            write_times: notes_times.then(WriteTimes::new),
        }
    }

    pub(crate) fn write_times(&self) -> Option<&WriteTimes> {
        self.write_times.as_ref()
    }

    /// Takes the locks of `rows`. Waits for each up to the limit, and then fails with [`Busy::RowLocked`]. In
    /// [`ReadMode::MemoryOnly`] it does not wait, and fails with [`Error::WouldBlock`].
    pub(crate) fn lock<'a>(
        &self,
        rows: impl Iterator<Item = &'a [u8]>,
        mode: ReadMode,
    ) -> Result<HeldRowLocks<'_>> {
        let rows: SmallVec<[&[u8]; 2]> = rows.collect();
        // In most calls all rows are the same: a check and a write of one row. Then one lock is enough.
        if let [row, others @ ..] = &rows[..]
            && others.len() < SAME_MAX
            && others.iter().all(|other| other == row)
        {
            let only = self.take(self.stripe_of(row), row, mode)?;
            return Ok(HeldRowLocks {
                _stripes: SmallVec::from_buf([only]),
                is_each_row_once: others.is_empty(),
            });
        }
        // Rows with the same lock are compared in pairs. With very many rows this would take long, so it is left out.
        let few = rows.len() <= ROWS_COMPARED_MAX;
        // `last` has, for each lock, the last row that needs it. `before` has, for each row, the previous row with the
        // same lock.
        let mut last = [NONE; STRIPES];
        let mut before: Vec<u32> = Vec::with_capacity(if few { rows.len() } else { 0 });
        let (mut is_each_row_once, mut stripes) = (few, 0);
        for (index, row) in rows.iter().enumerate() {
            let last = &mut last[self.stripe_of(row)];
            stripes += usize::from(*last == NONE);
            if few {
                let mut other = *last;
                while other != NONE && is_each_row_once {
                    is_each_row_once = rows[other as usize] != *row;
                    other = before[other as usize];
                }
                before.push(*last);
            }
            *last = index as u32;
        }
        let mut held = SmallVec::with_capacity(stripes);
        for (stripe, &row) in last.iter().enumerate().filter(|(_, row)| **row != NONE) {
            held.push(self.take(stripe, rows[row as usize], mode)?);
        }
        Ok(HeldRowLocks { _stripes: held, is_each_row_once })
    }

    fn take(&self, stripe: usize, row: &[u8], mode: ReadMode) -> Result<MutexGuard<'_, ()>> {
        let stripe = &self.stripes[stripe];
        match mode {
            ReadMode::MemoryOnly => stripe.try_lock().ok_or(Error::WouldBlock),
            ReadMode::Any => stripe.try_lock_for(self.wait).ok_or_else(|| {
                Error::from(Busy::RowLocked {
                    row: string_binary(row).to_string(),
                    waited_ms: self.wait.as_millis(),
                })
            }),
        }
    }

    /// Returns the index of a row's lock. The seed is random, so that clients cannot choose rows that share a lock.
    #[inline]
    fn stripe_of(&self, row: &[u8]) -> usize {
        if env::planted(9) {
            static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            return NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % STRIPES;
        }
        self.hash_of(row) as usize % STRIPES
    }

    #[inline]
    pub(crate) fn hash_of(&self, row: &[u8]) -> u64 {
        let mix = |hash: u64, word: u64| {
            let wide = u128::from(hash ^ word) * 0xd6e8_feb8_6659_fd93;
            (wide >> 64) as u64 ^ wide as u64
        };
        let (words, rest) = row.as_chunks::<8>();
        let hash = words.iter().fold(self.seed, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        let mut tail = [0; 8];
        tail[..rest.len()].copy_from_slice(rest);
        // The length is part of the hash, because rows that differ only in trailing zeros have the same tail.
        let hash = mix(hash, u64::from_le_bytes(tail));
        mix(hash, row.len() as u64)
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
    fn waiting_for_a_held_lock_fails_and_names_the_row() {
        let locks = RowLocks::new(Duration::from_millis(1), false);
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

    #[test]
    fn a_repeated_row_is_locked_once_and_reported() {
        let locks = RowLocks::new(Duration::from_millis(1), false);
        for count in 1..=SAME_MAX + 2 {
            let held = locks.lock(std::iter::repeat_n(&b"a"[..], count), ReadMode::Any).expect("free");
            assert_eq!(held.is_each_row_once, count == 1, "{count}");
            let again = locks.lock([&b"a"[..]].into_iter(), ReadMode::MemoryOnly).map(drop);
            assert!(matches!(again, Err(Error::WouldBlock)), "{count}");
        }
        // A duplicate is found at any position, not only between the first two rows.
        let held = locks.lock([&b"a"[..], b"a", b"b"].into_iter(), ReadMode::Any).expect("free");
        assert!(!held.is_each_row_once);
        let other = locks.lock([&b"b"[..]].into_iter(), ReadMode::MemoryOnly).map(drop);
        assert!(matches!(other, Err(Error::WouldBlock)));
    }

    #[test]
    fn a_duplicate_among_many_rows_is_found() {
        let locks = RowLocks::new(Duration::from_millis(1), false);
        let mut rows: Vec<Vec<u8>> = (0..3_000u32).map(|row| format!("row-{row:019}").into_bytes()).collect();
        // Rows that differ only in trailing zeros are different rows.
        rows.extend([b"zeros".to_vec(), b"zeros\0".to_vec(), b"zeros\0\0\0\0".to_vec()]);
        let is_each_once = |rows: &[Vec<u8>]| {
            let held = locks.lock(rows.iter().map(|row| &row[..]), ReadMode::Any).expect("free");
            held.is_each_row_once
        };
        assert!(is_each_once(&rows));
        for again in [0, 1_500, 3_002] {
            rows.push(rows[again].clone());
            assert!(!is_each_once(&rows), "row {again}");
            rows.pop();
        }
        rows.extend_from_within(..);
        assert!(!is_each_once(&rows), "too many rows to compare");
    }

    #[test]
    fn rows_differing_only_at_their_end_use_many_locks() {
        let locks = RowLocks::new(Duration::ZERO, false);
        let mut stripes: Vec<usize> =
            (0..STRIPES).map(|row| locks.stripe_of(format!("{row:026}").as_bytes())).collect();
        stripes.sort_unstable();
        stripes.dedup();
        // With a perfectly random hash, 100 rows would use 63 of 100 locks. Here more than half must be used.
        assert!(stripes.len() > STRIPES / 2, "{} of {STRIPES}", stripes.len());
    }
}
