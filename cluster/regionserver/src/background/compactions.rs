//! Compactions of the background: which one is next, and what follows it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use region::{CompactionRequest, Region, Search};

use super::Background;
use super::failure::{attempt, tell_failure};
use super::queues::next_due;
use crate::RegionServer;
use crate::counters::count;

impl Background {
    /// Turns compactions on or off. Returns whether they were on.
    pub(crate) fn switch_compaction(&self, enabled: bool) -> bool {
        let before = self.compaction_enabled.swap(enabled, Ordering::AcqRel);
        let _queues = self.queues.lock();
        self.wakes.compactions.notify_all();
        before
    }

    /// Waits for the next compaction and runs it.
    pub(crate) fn compact_next(server: &RegionServer) {
        let background = &server.background;
        let now = server.foundation().world.moment();
        let mut queues = background.queues.lock();
        let enabled = background.compaction_enabled.load(Ordering::Acquire);
        let next = match enabled {
            true => next_due(&mut queues.compactions, |wanted| wanted.again, now),
            false => Err(None),
        };
        let mut wanted = match next {
            Ok(wanted) => wanted,
            Err(next) => {
                let period = server.options().wake_period;
                let rest = next.map_or(period, |next| next.min(period));
                return background.rest(&background.wakes.compactions, &mut queues, rest);
            }
        };
        queues.began.push(now);
        drop(queues);
        let request = CompactionRequest { major: wanted.major, families: wanted.families.clone() };
        let counters = server.counters();
        let kind = if wanted.major { "Major compaction" } else { "Compaction" };
        let task = server
            .background_tasks
            .begin(format!("{kind} of {}", wanted.region.info()), "writing store files");
        let outcome = attempt(|| wanted.region.compact(&request));
        task.end(&outcome);
        background.queues.lock().ended(now);
        server.weigh_background();
        match outcome {
            // Another compaction of the store has just done the work.
            Ok(0) => {}
            Ok(files) => {
                let took = server.foundation().world.moment().since(now);
                count(&counters.compactions);
                server.times.compaction.record_time(took);
                let (region, load) = (wanted.region.info(), wanted.region.load());
                tracing::info!(region = %region, table = %region.table(), major = wanted.major,
                    files_before = files, files = load.files, bytes = load.file_bytes,
                    ms = took.as_millis() as u64, "compacted");
                server.clean(&wanted.region, Search::GivenUp);
            }
            Err(_) if !server.regions().is_open(&wanted.region) => {}
            Err(error) => {
                count(&counters.compactions_failed);
                server.give_way(&error);
                let (wait, again) =
                    wanted.again.after_failure(server.foundation().world.moment(), &server.options());
                tell_failure("compaction", &wanted.region, &error, wait);
                wanted.again = again;
                // It still waits, so the counts of waiting compactions stay.
                background.queues.lock().compactions.push_back(wanted);
                background.wakes.compactions.notify_one();
                return;
            }
        }
        background.queues.lock().finished(&wanted);
        if wanted.region.needs_compaction() && server.regions().is_open(&wanted.region) {
            background.request_compaction(&wanted.region, false, Vec::new());
        }
        server.consider_split(&wanted.region);
    }
}

impl RegionServer {
    /// Does what follows a bulk load, which has flushed the region and added files.
    pub(crate) fn loaded(&self, region: &Arc<Region>) {
        self.background.account(region);
        if region.needs_compaction() {
            self.background.request_compaction(region, false, Vec::new());
        }
    }
}
