//! Background flushes: which flush is next, why it is made, and what is done after it.

use std::sync::Arc;

use bytes::Bytes;
use region::{FlushReason, FlushUrgency, Region};

use super::Background;
use super::failure::{attempt, log_failure};
use super::queues::{Flush, Retry, next_due};
use crate::RegionServer;
use crate::counters::{count, count_many};

impl Background {
    /// Runs the first flush that is due. If none is due, waits at most one period for one and returns. A flush of a
    /// region with too many files may be queued again instead.
    pub(crate) fn flush_next(server: &RegionServer) {
        let background = &server.background;
        let now = server.foundation().world.moment();
        let mut queues = background.queues.lock();
        let Flush { region, again, held_since, permits } =
            match next_due(&mut queues.flushes, |flush| flush.again, now) {
                Ok(flush) => flush,
                Err(next) => {
                    let period = server.options().wake_period;
                    let rest = next.map_or(period, |next| next.min(period));
                    return background.rest(&background.wakes.flushes, &mut queues, rest);
                }
            };
        if region.has_too_many_files()
            && !region.info().is_meta()
            && background.memory() <= server.options().memstore_bytes_low()
        {
            let (since, is_news) = (held_since.unwrap_or(now), held_since.is_none());
            let waited = now.since(since);
            if waited < server.options().blocking_wait {
                let again = Retry { due: Some(now.plus(server.options().blocking_wait / 100)), ..again };
                // Waiting for a compaction may take minutes. The permits are given back now, so that other large
                // requests need not wait as long.
                let held_since = Some(since);
                queues.flushes.push_back(Flush {
                    region: region.clone(),
                    again,
                    held_since,
                    permits: Vec::new(),
                });
                // This thread may be busy when the next flush becomes due, so another thread is notified.
                background.wakes.flushes.notify_one();
                drop(queues);
                drop(permits);
                if is_news {
                    tracing::warn!(region = %region.info(), table = %region.info().table(),
                        "too many store files: the flush waits for a compaction (hbase.hstore.blockingStoreFiles)");
                    background.hurry();
                    background.consider_compaction(&region);
                }
                return;
            }
            tracing::warn!(region = %region.info(), waited_ms = waited.as_millis() as u64,
                "too many store files, and waited long enough: flushing (hbase.hstore.blockingWaitTime)");
        }
        queues.flushing.push(region.clone());
        queues.began.push(now);
        drop(queues);
        if let Some(permit) = permits.first() {
            // The flush needs as much memory as the large request had. That memory was freed a moment ago, and is
            // reserved again.
            env::block_on(permit.reclaim());
        }
        let outcome = attempt(|| server.flush(&region, server.reason_to_flush(&region)));
        drop(permits);
        let mut queues = background.queues.lock();
        queues.flushing.retain(|flushing| !Arc::ptr_eq(flushing, &region));
        queues.ended(now);
        let Err(error) = outcome else {
            drop(queues);
            if region.needs_flush(server.memory_pressure()) && server.regions().is_open(&region) {
                background.request_flush(&region);
            }
            server.consider_split(&region);
            server.set_background_priority();
            return server.relieve_memory();
        };
        if !server.regions().is_open(&region) {
            return;
        }
        count(&server.counters().flushes_failed);
        let (wait, again) = again.after_failure(server.foundation().world.moment(), &server.options());
        // If another flush was requested during this one, it is in the queue, and due at once.
        if !queues.flushes.iter().any(|waiting| Arc::ptr_eq(&waiting.region, &region)) {
            let (held_since, permits) = (None, Vec::new());
            queues.flushes.push_back(Flush { region: region.clone(), again, held_since, permits });
            background.wakes.flushes.notify_one();
        }
        drop(queues);
        log_failure("flush", &region, &error, wait);
        // Another region may have to free the memory that this one keeps.
        server.relieve_memory();
    }
}

impl RegionServer {
    /// Flushes a region now, and queues a compaction if one is needed. Blocks on storage.
    pub fn flush(&self, region: &Arc<Region>, reason: FlushReason) -> Result<region::Flushed, region::Error> {
        self.flush_as(region, reason, |region| region.flush(reason))
    }

    /// Flushes some families of a region; all if none is named. Blocks on storage.
    pub fn flush_families(
        &self,
        region: &Arc<Region>,
        families: &[Bytes],
    ) -> Result<region::Flushed, region::Error> {
        self.flush_as(region, FlushReason::Requested, |region| region.flush_families(families))
    }

    fn flush_as(
        &self,
        region: &Arc<Region>,
        reason: FlushReason,
        flush: impl FnOnce(&Region) -> Result<region::Flushed, region::Error>,
    ) -> Result<region::Flushed, region::Error> {
        let (began, memory) = (self.foundation().world.moment(), region.memstore_bytes());
        let task = self.background_tasks.begin(format!("Flushing {}", region.info()), "writing store files");
        let flushed = flush(region);
        task.end(&flushed);
        self.background.account(region);
        let flushed = flushed.inspect_err(|error| self.give_way(error))?;
        let took = self.foundation().world.moment().since(began);
        count(&self.counters().flushes);
        count_many(&self.counters().flushed_bytes, flushed.bytes as usize);
        self.times.flush.record_time(took);
        self.note_flush(region.info().encoded_name());
        if flushed.files > 0 {
            let info = region.info();
            tracing::info!(region = %info, table = %info.table(), ?reason, memstore_bytes = memory,
                files = flushed.files, bytes = flushed.bytes, retained = flushed.retained_bytes, sequence = flushed.sequence.0,
                ms = took.as_millis() as u64, "flushed");
        }
        self.background.consider_compaction(region);
        Ok(flushed)
    }

    /// Returns the reason for a flush that no client requested. If edits are too old, keep log files from being
    /// deleted, or fill the memory so that writes are blocked, the reason is one for which a flush writes all edits of
    /// the region.
    pub(super) fn reason_to_flush(&self, region: &Region) -> FlushReason {
        let name = region.info().encoded_name().as_str().as_bytes();
        let holds_back = || self.regions_holding_back().iter().any(|region| **region == *name);
        let urgency = FlushUrgency {
            is_short: self.background.memory() >= self.options().memstore_bytes_max
                || region.fullness() >= 1.0,
            is_overdue: self.is_old(&region.load()) || holds_back(),
        };
        region.reason_to_flush(self.memory_pressure(), urgency)
    }

    /// Returns the encoded names of the regions with edits that keep the log from deleting files. Empty while the log
    /// has no more files than its limit.
    pub(super) fn regions_holding_back(&self) -> Vec<Box<[u8]>> {
        self.foundation().log.regions_holding_back(self.background.memory())
    }

    /// Whether a region has an edit in memory that is older than [`flush_period`](crate::Options::flush_period);
    /// `false` if that period is zero.
    pub(super) fn is_old(&self, load: &region::Load) -> bool {
        let now = self.foundation().world.now();
        let period = i64::try_from(self.options().flush_period.as_millis()).unwrap_or(i64::MAX);
        load.oldest_edit.is_some_and(|oldest| period > 0 && now.0.saturating_sub(oldest.0) > period)
    }
}
