//! The memory of all memstores of the server: memory compaction, the choice of regions to flush, and write throttling.
//!
//! **Compaction.** When a write has sealed a segment, its region is queued once; see
//! [`region::Region::compact_memory`]. The compaction threads are other threads than those for flushes and file
//! compactions, which take long. While the compaction threads lag, active segments grow. Their priority is low until
//! some region has as much memory as it may have and waits for them. Then they have the priority of serving threads,
//! because a flush that begins before their work is done costs more and makes the work useless.
//!
//! **Which region is flushed** when memory must be freed: first the regions that do not compact in memory, then those
//! whose compaction drops the smallest share of their writes. Among equals, the region with the most memory is flushed.
//! So a region whose memory would soon be full again is not chosen. Memory that is being flushed counts as free, so
//! that no more flushes begin than are needed. See [`flush_worth`].
//!
//! **Write throttling.** Responses to writes are delayed while all memstores together are between the lower and the
//! upper limit, and while a region is in the last quarter below its own limit. The delay grows with the square of the
//! fill, up to `bellows.memstore.slowing.max`. So clients that wait for responses gradually slow down to the rate at
//! which flushes free memory, and are not refused at once. A delayed response holds no thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use env::sync::{Condvar, Mutex};
use region::{MemoryUse, Region};

use crate::RegionServer;

/// Regions whose memory is to be compacted.
#[derive(Default)]
pub(crate) struct MemoryQueue {
    waiting: Mutex<VecDeque<Arc<Region>>>,
    wake: Condvar,
}

impl MemoryQueue {
    /// Queues a region. Called once for each request of the region.
    pub(crate) fn push(&self, region: &Arc<Region>) {
        self.waiting.lock().push_back(Arc::clone(region));
        self.wake.notify_one();
    }

    /// Removes a region that is no longer on this server.
    pub(crate) fn forget(&self, region: &Arc<Region>) {
        self.waiting.lock().retain(|waiting| !Arc::ptr_eq(waiting, region));
    }

    /// Wakes all waiting threads, which then check whether the server stops.
    pub(crate) fn wake_all(&self) {
        let _waiting = self.waiting.lock();
        self.wake.notify_all();
    }

    /// Compacts the memory of the next queued region. If none is queued, waits at most one period for one and returns.
    pub(crate) fn compact_next(server: &RegionServer) {
        let queue = &server.background.memory_queue;
        let mut waiting = queue.waiting.lock();
        let Some(region) = waiting.pop_front() else {
            if !server.background.stops() {
                queue.wake.wait_for(&mut waiting, server.options().wake_period);
            }
            return;
        };
        drop(waiting);
        region.compact_memory(server.memory_pressure());
        // The threads keep their high priority while another queued region has all the memory that it may have.
        let presses = queue.waiting.lock().iter().any(|region| region.awaits_memory_compaction());
        server.background.memory_threads.hurry(presses);
        server.background.account(&region);
    }
}

/// Number of regions whose flush has failed from which no other region is flushed in their place. So many have a cause in
/// common, such as a full disk, for which every further flush would fail, too.
const FAILING_MAX: usize = 8;

/// Returns how much is gained, in bytes, if a region is flushed to free memory. The region with the greatest result is
/// flushed first. For a region that compacts in memory the result is half of its bytes, less the share that its
/// compactions drop.
fn flush_worth(memory: MemoryUse) -> f64 {
    let bytes = memory.bytes as f64;
    if memory.compacts { bytes / 2.0 * (1.0 - memory.dropped.clamp(0.0, 1.0)) } else { bytes }
}

/// Returns the delay of a response. `full` is 0 where throttling begins, and 1 where writes are refused.
fn slowing(full: f64, longest: Duration) -> Duration {
    if full > 0.0 { longest.mul_f64(full.min(1.0).powi(2)) } else { Duration::ZERO }
}

/// Returns how full the memory for memstores is with `bytes` in use; 1 is the lower limit `low`.
pub(crate) fn pressure(bytes: u64, low: u64) -> f64 {
    bytes as f64 / low.max(1) as f64
}

/// The fraction of a region's own limit at which throttling of its writers begins.
pub(crate) const SLOW_FROM: f64 = 0.75;

impl RegionServer {
    /// Returns how full the memory for memstores is; 1 is the lower limit.
    pub(crate) fn memory_pressure(&self) -> f64 {
        pressure(self.background.memory(), self.options().memstore_bytes_low())
    }

    /// Returns the delay of the response to a write to `region`; zero for hbase:meta and while memory is below the
    /// limits. If memory is throttled, also makes background work urgent.
    pub(crate) fn slowing_of(&self, region: &Region) -> Duration {
        let options = self.options();
        let (memory, low) = (self.background.memory(), options.memstore_bytes_low());
        let full = if memory > low {
            (memory - low) as f64 / options.memstore_bytes_max.saturating_sub(low).max(1) as f64
        } else {
            0.0
        };
        let full_of_region = (region.fullness() - SLOW_FROM) / (1.0 - SLOW_FROM);
        let full = full.max(full_of_region);
        if full > 0.0 {
            self.background.hurry();
        }
        if region.info().is_meta() {
            return Duration::ZERO;
        }
        slowing(full, options.slowing_max)
    }

    /// Queues a flush of the region with the greatest [`flush_worth`] if the memstores exceed the lower limit. Memory
    /// that is being flushed does not count.
    ///
    /// A region whose flush has failed keeps its memory until a later attempt. It is passed over, and what it holds is
    /// taken from the memory of the others: otherwise they would fill the rest up to the upper limit, and no region
    /// could be written to. They keep a sixteenth of the lower limit, so that their files do not become tiny. A read replica
    /// flushes nothing: its memory is freed when the primary flushes.
    pub(crate) fn relieve_memory(&self) {
        let low = self.options().memstore_bytes_low();
        if self.background.memory() <= low || self.replica().is_some() {
            return;
        }
        let failing = self.background.failing_flushes();
        if failing.len() >= FAILING_MAX {
            return;
        }
        let is_failing = |region: &Arc<Region>| failing.iter().any(|failing| Arc::ptr_eq(failing, region));
        let held: u64 = failing.iter().map(|region| region.memstore_bytes()).sum();
        let low = low.saturating_sub(held).max(low / 16);
        let mut regions = self.regions().all();
        regions.retain(|region| !is_failing(region));
        let uses: Vec<MemoryUse> = regions.iter().map(|region| region.memory_use()).collect();
        if uses.iter().map(|memory| memory.bytes).sum::<u64>() <= low {
            return;
        }
        let best = regions
            .iter()
            .zip(&uses)
            .filter(|(_, memory)| memory.bytes > 0)
            .max_by(|left, right| flush_worth(*left.1).total_cmp(&flush_worth(*right.1)));
        if let Some((region, _)) = best {
            env::sometimes("memory: a region was flushed because all memstores together were too large");
            self.background.request_flush(region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_that_use_memory_well_are_flushed_last() {
        let plain = |bytes| MemoryUse { bytes, compacts: false, dropped: 0.0 };
        let compacts = |bytes, dropped| MemoryUse { bytes, compacts: true, dropped };
        let order = [
            compacts(90, 0.9),
            compacts(100, 0.5),
            compacts(60, 0.0),
            plain(31),
            compacts(100, 0.0),
            plain(60),
            plain(100),
        ];
        assert!(order.map(flush_worth).is_sorted(), "{:?}", order.map(flush_worth));
    }

    #[test]
    fn write_throttling_grows_gradually() {
        let longest = Duration::from_millis(100);
        let times = [-3.0, 0.0, 0.1, 0.5, 1.0, 7.0].map(|full| slowing(full, longest).as_millis());
        assert_eq!(times, [0, 0, 1, 25, 100, 100]);
        assert_eq!(slowing(1.0, Duration::ZERO), Duration::ZERO, "switched off");
    }
}
