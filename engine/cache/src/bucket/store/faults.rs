//! Records that are not what was written, and devices that fail.

use std::sync::atomic::Ordering;

use super::{Entry, Shared, Slot};
use crate::BlockKey;

const REMEDY: &str =
    "blocks are read from storage instead; put a sound device there and start the server again";

const REMEDY_FULL: &str = "what is there is still read, and everything else from storage; make room where the device lies, \
     or put one there that can be written, and start the server again";

impl Shared {
    /// Forgets a record that cannot be had. `false` when the index has forgotten it already.
    pub(super) fn drop_slot(&self, key: BlockKey, slot: Slot) -> bool {
        let mut state = self.state.lock();
        let same = state.index.peek(key).is_some_and(|entry| entry.slot() == Some(slot));
        if same {
            let gone = state.index.remove_key(key);
            self.free(&mut state, gone.into_iter().collect(), false);
        }
        same
    }

    /// What was read of a record is as it was written.
    #[inline]
    pub(super) fn note_sound(&self, key: BlockKey, slot: Slot) {
        self.reads.note_success();
        if slot.is_hearsay {
            self.note_found(key, slot);
        }
    }

    #[cold]
    fn note_found(&self, key: BlockKey, slot: Slot) {
        let mut state = self.state.lock();
        let found = match state.index.peek(key) {
            Some(Entry::Written(there, head)) if *there == slot => {
                Entry::Written(Slot { is_hearsay: false, ..slot }, head.clone())
            }
            _ => return,
        };
        state.index.replace(key, found);
    }

    /// Forgets a record that is not what was written, unless its slot has become another block's meanwhile.
    pub(super) fn note_unsound(&self, key: BlockKey, slot: Slot) {
        if !self.drop_slot(key, slot) {
            return;
        }
        if slot.is_hearsay {
            self.stale.fetch_add(1, Ordering::Relaxed);
        } else if self.corrupt.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(device = %self.place_of(slot.at), offset = slot.at,
                "the bucket cache's device gave back something else than what was written; it is read from storage \
                 instead, here and whenever it happens again (bellows_bucket_cache_corrupt_total)");
        }
    }

    pub(super) fn note_read_failure(&self, error: &storage::Error) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let verdict = self.reads.note_failure(self.world.moment());
        if verdict.is_told {
            tracing::warn!(%error, tolerated = ?self.errors_tolerated,
                "cannot read from the bucket cache's device; blocks are read from storage instead");
        }
        if verdict.is_given_up {
            self.disable(&error.to_string());
        }
        self.disable_if_useless(error);
    }

    pub(super) fn note_write_failure(&self, error: &storage::Error) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let verdict = self.writes.note_failure(self.world.moment());
        if verdict.is_told {
            tracing::warn!(%error, tolerated = ?self.errors_tolerated,
                "cannot write to the bucket cache's device; blocks are read from storage instead");
        }
        if verdict.is_given_up {
            self.take_nothing_more(error);
            self.disable_if_useless(error);
        }
    }

    /// A device that takes no write, and of whose blocks the last one is gone: there is nothing left whose read could fail
    /// for too long.
    fn disable_if_useless(&self, cause: &storage::Error) {
        if self.read_only.load(Ordering::Relaxed) && self.state.lock().index.len() == 0 {
            self.disable(&cause.to_string());
        }
    }

    fn take_nothing_more(&self, cause: &storage::Error) {
        if self.read_only.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(devices = self.places(), %cause, remedy = REMEDY_FULL, tolerated = ?self.errors_tolerated,
            "the bucket cache takes in nothing more: its device took no write for longer than is tolerated");
        let mut state = self.state.lock();
        for job in std::mem::take(&mut state.queue) {
            if state.index.peek(job.key).is_some_and(|entry| entry.waits_as(&job.block)) {
                state.index.remove_key(job.key);
            }
        }
        if state.writing == 0 {
            self.idle.notify_all();
        }
    }

    pub(super) fn disable(&self, cause: &str) {
        if self.disabled.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(devices = self.places(), cause, remedy = REMEDY, "the bucket cache is used no more");
        let mut state = self.state.lock();
        state.queue.clear();
        let gone = state.index.remove_where(|_| true);
        self.free(&mut state, gone, false);
        if state.writing == 0 {
            self.idle.notify_all();
        }
    }
}
