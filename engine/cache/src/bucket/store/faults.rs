//! Handles records that differ from what was written, and devices that fail.

use std::sync::atomic::Ordering;

use super::disk::Disk;
use super::{Entry, Shared, Slot, State};
use crate::BlockKey;

const REMEDY: &str = "blocks are read from storage instead; replace the device and restart the server";

const REMEDY_FULL: &str = "its blocks are still read, and all others are read from storage; free space for the device or \
     replace it, and restart the server";

impl Shared {
    /// Removes from the index a record that cannot be read. Returns `false` if the index no longer has the record.
    pub(super) fn drop_slot(&self, key: BlockKey, slot: Slot) -> bool {
        let mut state = self.state.lock();
        let same = state.index.peek(key).is_some_and(|entry| entry.slot() == Some(slot));
        if same {
            let gone = state.index.remove_key(key);
            self.free(&mut state, gone.into_iter().collect(), false);
        }
        same
    }

    /// Records that a read returned the bytes that were written.
    #[inline]
    pub(super) fn note_sound(&self, key: BlockKey, slot: Slot) {
        self.disk_of(slot.at).reads.note_success();
        if slot.is_unverified {
            self.note_found(key, slot);
        }
    }

    #[cold]
    fn note_found(&self, key: BlockKey, slot: Slot) {
        let mut state = self.state.lock();
        let found = match state.index.peek(key) {
            Some(Entry::Written(there, head)) if *there == slot => {
                Entry::Written(Slot { is_unverified: false, ..slot }, head.clone())
            }
            _ => return,
        };
        state.index.replace(key, found);
    }

    /// Removes a record of which a read returned wrong bytes, unless its slot was given to another block meanwhile.
    pub(super) fn note_unsound(&self, key: BlockKey, slot: Slot) {
        if !self.drop_slot(key, slot) {
            return;
        }
        if slot.is_unverified {
            self.stale.fetch_add(1, Ordering::Relaxed);
        } else if self.corrupt.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(device = %self.disk_of(slot.at).device.place(), offset = slot.at,
                "a device of the bucket cache returned other bytes than were written; the block is read from storage, now \
                 and whenever this happens again (bellows_bucket_cache_corrupt_total)");
        }
    }

    #[cold]
    pub(super) fn note_read_failure(&self, at: u64, error: &storage::Error) {
        let (lane, _) = self.lane_of(at);
        let disk = &self.disks[lane];
        disk.note_failed();
        let response = disk.reads.note_failure(self.world.moment());
        if response.is_reported {
            tracing::warn!(device = %disk.device.place(), %error, tolerated = ?self.errors_tolerated,
                "cannot read from the bucket cache's device; blocks are read from storage instead");
        }
        if response.is_given_up {
            self.give_up(lane, error);
        }
        self.give_up_if_useless(lane, error);
    }

    #[cold]
    pub(super) fn note_write_failure(&self, lane: usize, error: &storage::Error) {
        let disk = &self.disks[lane];
        disk.note_failed();
        let response = disk.writes.note_failure(self.world.moment());
        if response.is_reported {
            tracing::warn!(device = %disk.device.place(), %error, tolerated = ?self.errors_tolerated,
                "cannot write to the bucket cache's device; blocks are read from storage instead");
        }
        if response.is_given_up {
            self.give_nothing_more(lane, error);
            self.give_up_if_useless(lane, error);
        }
    }

    /// Stops using a read-only device whose last block was removed. Since nothing will be read from it, it could never
    /// show that it works again.
    fn give_up_if_useless(&self, lane: usize, cause: &storage::Error) {
        if !self.disks[lane].takes() && self.state.lock().slots.used_on(lane) == 0 {
            self.give_up(lane, cause);
        }
    }

    /// Makes a device read-only: its blocks are still read, and it receives no more.
    fn give_nothing_more(&self, lane: usize, cause: &storage::Error) {
        let disk = &self.disks[lane];
        let mut state = self.state.lock();
        if !disk.takes() || disk.read_only.swap(true, Ordering::Relaxed) {
            return;
        }
        let others = self.close(&mut state, lane);
        drop(state);
        tracing::warn!(device = %disk.device.place(), %cause, remedy = REMEDY_FULL, tolerated = ?self.errors_tolerated,
            others, "the bucket cache writes to a device no more: writes failed for longer than tolerated");
        self.tell_if_read_only(others);
    }

    /// Stops using a device. With the last device, the cache is disabled.
    fn give_up(&self, lane: usize, cause: &storage::Error) {
        let disk = &self.disks[lane];
        let mut state = self.state.lock();
        if disk.disabled.swap(true, Ordering::Relaxed) {
            return;
        }
        let others = self.close(&mut state, lane);
        let is_there = |entry: &Entry| entry.slot().is_some_and(|slot| self.lane_of(slot.at).0 == lane);
        let gone = state.index.remove_where(is_there);
        self.free(&mut state, gone, false);
        drop(state);
        if self.disks.iter().all(Disk::is_disabled) {
            return self.disable(&cause.to_string());
        }
        tracing::warn!(device = %disk.device.place(), %cause, remedy = REMEDY, tolerated = ?self.errors_tolerated,
            others, "the bucket cache stops using a device that failed");
        self.tell_if_read_only(others);
    }

    /// Makes a device receive no more blocks, and returns the number of devices that still receive blocks. If none is
    /// left, drops the blocks that wait for a writer.
    fn close(&self, state: &mut State, lane: usize) -> usize {
        state.slots.close(lane);
        let others = self.disks.iter().filter(|disk| disk.takes()).count();
        if others == 0 && !self.read_only.swap(true, Ordering::Relaxed) {
            state.queue.clear();
            state.index.remove_where(|entry| entry.slot().is_none());
            if state.writing == 0 {
                self.idle.notify_all();
            }
        }
        self.fit(state);
        others
    }

    fn tell_if_read_only(&self, others: usize) {
        if others == 0 && !self.disabled.load(Ordering::Relaxed) {
            tracing::warn!(
                devices = self.places(),
                "the bucket cache is read-only: none of its devices can be written"
            );
        }
    }

    /// Disables the cache.
    pub(super) fn disable(&self, cause: &str) {
        if self.disabled.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(devices = self.places(), cause, remedy = REMEDY, "the bucket cache is disabled");
        let mut state = self.state.lock();
        state.queue.clear();
        let gone = state.index.remove_where(|_| true);
        self.free(&mut state, gone, false);
        if state.writing == 0 {
            self.idle.notify_all();
        }
    }
}
