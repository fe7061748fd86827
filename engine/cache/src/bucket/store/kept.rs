//! Saves the index for the next process, and restores it from what the last process saved.

use env::sync::MutexGuard;

use super::{Entry, Slot, State, Store};
use crate::bucket::{BlockLocation, record};
use crate::memory::{Admission, Cause, hash_of};
use crate::{BlockKey, FileId};

/// Number of index entries visited before the lock is released for other threads.
const SLICE: usize = 1_024;

impl Store {
    /// Returns the location of every written block. Visits the index in slices, and releases the lock between two
    /// slices.
    ///
    /// So the result is not a snapshot of one moment. A block that is added meanwhile may be missing or occur twice;
    /// restoring then takes the first occurrence. The location of a block that is evicted meanwhile may belong to
    /// another block. A saved index has the same faults anyway, because the cache changes after it was saved; a wrong
    /// location fails its check when it is read.
    pub(in crate::bucket) fn placed(&self) -> Vec<BlockLocation> {
        let mut placed = Vec::with_capacity(self.0.state.lock().index.len());
        // Allocated before the lock is taken, because an allocation may take long and other threads wait for the lock.
        let mut slice = Vec::with_capacity(SLICE);
        let mut places = 0..SLICE;
        loop {
            let state = self.0.state.lock();
            let written = state.index.entries(places.clone()).filter_map(|(key, entry, in_memory)| {
                let Slot { at, length, head, sum, .. } = entry.slot()?;
                Some(BlockLocation { file: key.file.0, offset: key.offset, at, length, head, sum, in_memory })
            });
            slice.extend(written);
            let is_done = places.end >= state.index.places();
            // Passes the lock to a waiting thread. Otherwise this thread would take it again before a waiting one has
            // woken up.
            MutexGuard::unlock_fair(state);
            placed.append(&mut slice);
            if is_done {
                return placed;
            }
            places = places.end..places.end + SLICE;
        }
    }

    pub(in crate::bucket) fn restore(&self, blocks: impl Iterator<Item = BlockLocation>) -> usize {
        let mut state = self.0.state.lock();
        for BlockLocation { file, offset, at, length, head, sum, in_memory } in blocks {
            let key = BlockKey { file: FileId(file), offset };
            let class = state.slots.class_of(length as usize);
            let Some(class) = class.filter(|_| !state.index.has(key)) else { continue };
            let is_head = (record::HEADER_LENGTH as u32..=length).contains(&head);
            if !is_head || !state.slots.take(key, at, length as usize) {
                continue;
            }
            let weight = state.slots.slot_size(class) as usize;
            let admission = Admission { weight, in_memory, cause: Cause::Ahead };
            let mut gone = Vec::new();
            let slot = Slot { at, length, head, sum, is_unverified: true };
            let entry = Entry::Written(slot, None);
            state.index.insert(key, hash_of(key), entry, admission, &mut gone);
            self.0.free(&mut state, gone, false);
        }
        debug_assert!(state.is_whole(), "index and buckets say the same");
        state.index.len()
    }
}

impl State {
    /// Whether the allocator and the index agree: for each block of the index, the allocator has that block in its
    /// slot.
    pub(super) fn is_whole(&self) -> bool {
        let lies_there = |key, slot: Slot| self.slots.block_at(slot.at) == Some(key);
        let mut entries = self.index.entries(0..self.index.places());
        entries.all(|(key, entry, _)| entry.slot().is_none_or(|slot| lies_there(key, slot)))
    }
}
