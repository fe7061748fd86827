//! Regions whose memory has something to compact, and the threads that do it.
//!
//! A region is queued once when a write has sealed a segment; see [`region::Region::compact_memory`]. These threads do
//! not wait behind flushes and compactions of files, which take long: while they are behind, active segments grow.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use region::Region;

use crate::RegionServer;

/// The queue.
#[derive(Default)]
pub(crate) struct MemoryQueue {
    waiting: Mutex<VecDeque<Arc<Region>>>,
    wake: Condvar,
}

impl MemoryQueue {
    /// Queues a region; it says itself when.
    pub(crate) fn push(&self, region: &Arc<Region>) {
        self.waiting.lock().push_back(Arc::clone(region));
        self.wake.notify_one();
    }

    /// Forgets a region that is no longer here.
    pub(crate) fn forget(&self, region: &Arc<Region>) {
        self.waiting.lock().retain(|waiting| !Arc::ptr_eq(waiting, region));
    }

    /// Whoever waits shall look whether the server stops.
    pub(crate) fn wake_all(&self) {
        let _waiting = self.waiting.lock();
        self.wake.notify_all();
    }

    /// Waits for the next region and compacts its memory.
    pub(crate) fn compact_next(server: &RegionServer) {
        let queue = &server.background.memory_queue;
        let mut waiting = queue.waiting.lock();
        let Some(region) = waiting.pop_front() else {
            queue.wake.wait_for(&mut waiting, server.options().wake_period);
            return;
        };
        drop(waiting);
        region.compact_memory(server.memory_pressure());
        server.background.account(&region);
    }
}

impl RegionServer {
    /// How full the memory of all memstores is: 1 at the lower mark.
    pub(crate) fn memory_pressure(&self) -> f64 {
        self.background.memory() as f64 / self.options().memstore_bytes_low().max(1) as f64
    }
}
