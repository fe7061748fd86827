//! Keeps a put apart from a delete of the same row in the same millisecond.
//!
//! A delete marker hides every cell of its column with the same or an older timestamp. A put that the server stamps
//! with the delete's own millisecond would be acknowledged and never seen. HBase has the same rule (HBASE-25975). A
//! server that answers in microseconds hits it in half of all quick put-delete-put sequences.
//!
//! With [`RegionOptions::put_waits_for_delete`](crate::RegionOptions::put_waits_for_delete) such a put waits for the
//! next millisecond. A delete after a put does not wait, since it hides what it should. All mutations of one
//! RowMutations keep one timestamp.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cell::Timestamp;
use env::WallTime;

use crate::locks::HeldRowLocks;
use crate::region::Region;
use crate::{Error, Mutation, MutationKind, ReadMode, Result};

/// Number of slots for deleted rows. A multiple of the number of row locks, so that one lock guards each slot.
const SLOTS: u64 = 8192;
/// Bits of a slot that hold a tag of the row; the other bits hold the time in ms.
const TAG_BITS: u32 = 20;
/// Tag of a slot in which two rows were deleted in one millisecond.
const ANY_ROW: u64 = 0;
/// Longest time in ms that a put waits. A delete further in the future was made before the clock was set back.
const AHEAD_MAX_MS: i64 = 10;
/// Time between two readings of the clock while a put waits.
const PAUSE: Duration = Duration::from_micros(250);

/// When rows were last deleted.
pub(crate) struct DeleteTimes {
    /// Time of the newest delete of any row, in ms.
    newest: AtomicI64,
    slots: Box<[AtomicU64]>,
}

impl DeleteTimes {
    pub(crate) fn new() -> DeleteTimes {
        DeleteTimes {
            newest: AtomicI64::new(i64::MIN),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn slot(&self, hash: u64) -> (&AtomicU64, u64) {
        (&self.slots[(hash % SLOTS) as usize], (hash >> (u64::BITS - TAG_BITS)) | 1)
    }

    /// Records a delete. The caller holds the row's lock.
    fn note(&self, hash: u64, now: WallTime) {
        let (slot, tag) = self.slot(hash);
        let (time, noted) = (now.0.max(0) as u64, slot.load(Relaxed));
        let is_shared = noted >> TAG_BITS == time && noted % (1 << TAG_BITS) != tag;
        slot.store(time << TAG_BITS | if is_shared { ANY_ROW } else { tag }, Relaxed);
        self.newest.fetch_max(now.0, Relaxed);
    }

    /// Whether a put at `now` would be hidden. The caller holds the row's lock. `hash` is called only if some row was
    /// deleted just now.
    fn hide(&self, hash: impl FnOnce() -> u64, now: WallTime) -> bool {
        if self.newest.load(Relaxed) < now.0 {
            return false;
        }
        let (slot, tag) = self.slot(hash());
        let noted = slot.load(Relaxed);
        let ahead = ((noted >> TAG_BITS) as i64).saturating_sub(now.0);
        (0..=AHEAD_MAX_MS).contains(&ahead) && [tag, ANY_ROW].contains(&(noted % (1 << TAG_BITS)))
    }
}

/// Whether the server stamps cells of the mutation, so that a delete with the same timestamp can hide them.
fn is_stamped(mutation: &Mutation) -> bool {
    match mutation.kind {
        MutationKind::Delete => false,
        MutationKind::Increment | MutationKind::Append => true,
        MutationKind::Put => mutation.cells.cells().any(|cell| cell.timestamp() == Timestamp::LATEST),
    }
}

impl Region {
    /// Locks the rows of `mutations`, and of `others`, which are only read. If a delete would hide what is written now,
    /// it releases the locks and takes them again in the next millisecond, or fails with [`Error::WouldBlock`] in
    /// [`ReadMode::MemoryOnly`].
    pub(crate) fn lock_rows<'m>(
        &self,
        mutations: impl Iterator<Item = &'m Mutation> + Clone,
        others: impl Iterator<Item = &'m [u8]> + Clone,
        mode: ReadMode,
    ) -> Result<HeldRowLocks<'_>> {
        loop {
            let rows = mutations.clone().map(|mutation| &mutation.row[..]).chain(others.clone());
            let held = self.locks.lock(rows, mode)?;
            let Some(deletes) = self.locks.deletes() else { return Ok(held) };
            let now = self.world.now();
            let is_hidden = |mutation: &Mutation| {
                deletes.hide(|| self.locks.hash_of(&mutation.row), now) && is_stamped(mutation)
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

    /// Records the deletes of a write that is stamped with `now`. The caller holds the locks of their rows.
    pub(crate) fn note_deletes<'m>(&self, mutations: impl Iterator<Item = &'m Mutation>, now: WallTime) {
        if let Some(deletes) = self.locks.deletes() {
            let of_deletes = mutations.filter(|mutation| mutation.kind == MutationKind::Delete);
            of_deletes.for_each(|mutation| deletes.note(self.locks.hash_of(&mutation.row), now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delete_hides_puts_of_its_row_and_millisecond_only() {
        let (times, hash) = (DeleteTimes::new(), |number: u64| move || number << 44 | 7);
        assert!(!times.hide(hash(1), WallTime(5)));
        times.note(hash(1)(), WallTime(5));
        assert!(times.hide(hash(1), WallTime(5)) && !times.hide(hash(2), WallTime(5)));
        assert!(!times.hide(hash(1), WallTime(6)), "the next millisecond");
        assert!(
            times.hide(hash(1), WallTime(4)) && !times.hide(hash(1), WallTime(-6)),
            "the clock was set back"
        );
        // Two rows of one slot in one millisecond: either may be hidden.
        times.note(hash(2)(), WallTime(5));
        assert!(times.hide(hash(1), WallTime(5)) && times.hide(hash(3), WallTime(5)));
        times.note(hash(3)(), WallTime(6));
        assert!(times.hide(hash(3), WallTime(6)) && !times.hide(hash(1), WallTime(6)));
    }
}
