//! Locks the rows of a write and gives its cells their timestamps, so that no earlier write hides them.
//!
//! [`WriteTimes`](crate::write_times::WriteTimes) records the timestamps of earlier writes of a row; this module uses
//! them.

use std::time::Duration;

use cell::Timestamp;
use env::WallTime;

use crate::locks::HeldRowLocks;
use crate::region::Region;
use crate::write_times::WriteTimes;
use crate::{Error, Mutation, MutationKind, ReadMode, Result};

/// Time between two readings of the clock while a put waits.
const PAUSE: Duration = Duration::from_micros(250);

/// Whether the server stamps cells of the mutation, so that a delete with the same timestamp could hide them.
fn is_stamped(mutation: &Mutation) -> bool {
    match mutation.kind {
        MutationKind::Delete => false,
        MutationKind::Increment | MutationKind::Append => true,
        MutationKind::Put => mutation.cells.cells().any(|cell| cell.timestamp() == Timestamp::LATEST),
    }
}

impl Region {
    /// Locks the rows of `mutations`, and of `others`, which are only read. If an earlier delete would hide one of the
    /// mutations, releases the locks and takes them again in the next millisecond; in [`ReadMode::MemoryOnly`] it fails
    /// with [`Error::WouldBlock`] instead.
    pub(crate) fn lock_rows<'m>(
        &self,
        mutations: impl Iterator<Item = &'m Mutation> + Clone,
        others: impl Iterator<Item = &'m [u8]> + Clone,
        mode: ReadMode,
    ) -> Result<HeldRowLocks<'_>> {
        loop {
            let rows = mutations.clone().map(|mutation| &mutation.row[..]).chain(others.clone());
            let held = self.locks.lock(rows, mode)?;
            let Some(times) = self.locks.write_times() else { return Ok(held) };
            let now = self.world.now();
            let is_hidden = |mutation: &Mutation| {
                times.hides(|| self.locks.hash_of(&mutation.row), now) && is_stamped(mutation)
            };
            if !mutations.clone().any(is_hidden) {
                return Ok(held);
            }
            drop(held);
            if mode == ReadMode::MemoryOnly {
                return Err(Error::WouldBlock);
            }
            self.world.pause(PAUSE);
        }
    }

    /// Returns the time with which the server stamps cells of `mutation` at `now`. The result is later than `now` if an
    /// earlier write of the row was stamped ahead of the clock. The caller holds the row's lock.
    pub(crate) fn stamp_of(&self, mutation: &Mutation, now: WallTime) -> WallTime {
        let stamp = |times: &WriteTimes| times.stamp(|| self.locks.hash_of(&mutation.row), now);
        self.locks.write_times().map_or(now, stamp)
    }

    /// Records the deletes among `mutations`, once all of them have their stamps. The caller holds the locks of their
    /// rows.
    pub(crate) fn note_deletes<'m>(&self, mutations: impl Iterator<Item = &'m Mutation>, now: WallTime) {
        let Some(times) = self.locks.write_times() else { return };
        for delete in mutations.filter(|mutation| mutation.kind == MutationKind::Delete) {
            times.note_delete(self.locks.hash_of(&delete.row), now);
        }
    }

    /// Records that a cell of the row was stamped with `timestamp` at `now`. The caller holds the row's lock.
    pub(crate) fn note_stamp(&self, row: &[u8], timestamp: Timestamp, now: WallTime) {
        if let Some(times) = self.locks.write_times() {
            times.note_stamp(|| self.locks.hash_of(row), timestamp, now);
        }
    }
}
