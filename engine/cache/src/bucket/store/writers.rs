//! The writer threads: each takes the block that has waited longest, allocates a slot for it, and writes it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Entry, Shared, Slot, State};
use crate::bucket::record::{self, Mark};
use crate::{Block, BlockKey};

/// Maximum number of evictions for one slot before a whole bucket is emptied.
const EVICTIONS_MAX: usize = 8;

/// A block that waits for a writer.
pub(super) struct Job {
    pub(super) key: BlockKey,
    pub(super) mark: Mark,
    pub(super) block: Arc<Block>,
}

impl State {
    /// Returns the blocks in a bucket, except those that are still being written.
    fn written_in(&self, bucket: usize) -> impl Iterator<Item = BlockKey> {
        let lies_at = |at, block| self.index.peek(block)?.slot().filter(|slot| slot.at == at);
        self.slots
            .blocks_in(bucket)
            .filter(move |&(at, block)| lies_at(at, block).is_some())
            .map(|(_, block)| block)
    }
}

impl Shared {
    /// Writes queued blocks until the store is dropped.
    pub(super) fn write_all(&self) {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return;
            }
            match state.queue.pop_front() {
                Some(job) => {
                    state.writing += 1;
                    drop(state);
                    self.write(job);
                    state = self.state.lock();
                    state.writing -= 1;
                    if state.queue.is_empty() && state.writing == 0 {
                        self.idle.notify_all();
                    }
                }
                None => self.more.wait(&mut state),
            }
        }
    }

    fn write(&self, Job { key, mark, block }: Job) {
        let (record, sum) = record::write(mark, &block);
        let (_, head) = record::lengths_of(&block);
        let at = {
            let mut state = self.state.lock();
            if !state.index.peek(key).is_some_and(|entry| entry.waits_as(&block)) {
                return;
            }
            match self.make_slot(&mut state, key, record.len()) {
                Some(at) => at,
                None => {
                    state.index.remove_key(key);
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        };
        let (lane, offset) = self.lane_of(at);
        let disk = &self.disks[lane];
        let written = disk.device.write_at(offset, &record);
        let mut state = self.state.lock();
        let waits = state.index.peek(key).is_some_and(|entry| entry.waits_as(&block));
        match (&written, waits) {
            // If the device was given up meanwhile, the block could never be read, so it is not kept.
            (Ok(()), true) if !disk.is_disabled() => {
                let (length, head) = (record.len() as u32, head as u32);
                let slot = Slot { at, length, head, sum, is_unverified: false };
                state.index.replace(key, Entry::Written(slot, None));
            }
            (_, waits) => {
                match written {
                    Ok(()) => state.slots.free(at, record.len()),
                    Err(_) => state.slots.free_failed(at, record.len()),
                }
                if waits {
                    state.index.remove_key(key);
                }
            }
        }
        drop(state);
        match written {
            Ok(()) => disk.writes.note_success(),
            Err(error) => self.note_write_failure(lane, &error),
        }
    }

    /// Allocates a slot, and evicts other blocks if necessary. `None` if that has freed no slot of the size.
    fn make_slot(&self, state: &mut State, block: BlockKey, length: usize) -> Option<u64> {
        for _ in 0..EVICTIONS_MAX {
            if let Some(at) = state.slots.allocate(block, length) {
                return Some(at);
            }
            let gone = state.index.pop()?;
            self.free(state, vec![gone], true);
        }
        if let Some(bucket) = state.slots.emptiest() {
            let there: Vec<BlockKey> = state.written_in(bucket).collect();
            let gone: Vec<Entry> =
                there.into_iter().filter_map(|block| state.index.remove_key(block)).collect();
            state.index.evicted += gone.len() as u64;
            self.free(state, gone, true);
        }
        state.slots.allocate(block, length)
    }
}
