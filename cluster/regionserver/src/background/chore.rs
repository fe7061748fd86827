//! The chore: a thread that wakes once in a period and does the work that is due.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::EncodedName;
use region::{FlushDecision, FlushUrgency, Region, Search};
use storage::FileName;

use super::Background;
use super::open_catalog::OpenCatalog;
use crate::RegionServer;
use crate::counters::count_many;

impl Background {
    /// Does the work that is due, then sleeps until the next period begins or the server stops.
    pub(super) fn chore(server: &RegionServer) {
        Background::chore_of(server, RegionServer::run_chore);
    }

    /// Does `work` and sleeps like [`chore`](Background::chore), also if `work` panics: the next attempt is in the next
    /// period.
    pub(crate) fn chore_of(server: &RegionServer, work: impl FnOnce(&RegionServer)) {
        let background = &server.background;
        let failure = env::caught(|| work(server)).err();
        if background.is_chore_failure_new(failure.clone())
            && let Some(words) = failure
        {
            tracing::error!(
                words,
                "an invariant is broken: the rest of the periodic work is left out until the cause has gone; it is tried in each \
                 period, and this is logged once; restart the server if it stays"
            );
        }
        let mut queues = background.queues.lock();
        let period = server.options().wake_period.min(server.options().scanner_timeout);
        background.rest(&background.wakes.chore, &mut queues, period);
    }

    /// Records how the periodic work ended: with the words of a panic, or well. Returns whether that differs from the
    /// previous end.
    pub(crate) fn is_chore_failure_new(&self, failure: Option<String>) -> bool {
        let mut known = self.chore_failure.lock();
        let is_new = *known != failure;
        *known = failure;
        is_new
    }
}

impl RegionServer {
    /// Does the periodic work. Expires leases and old nonces. Uses the room of a disk that was full. Queues flushes of
    /// old edits, flushes that free memory, and flushes that let the log delete files. Queues the compactions that are
    /// due, adapts the rate and the priority of background work, rolls an old log file and deletes files that are not
    /// needed any more.
    pub(crate) fn run_chore(&self) {
        count_many(&self.counters().scanner_leases_expired, self.scanners.expire());
        self.nonces.forget_old();
        self.count_requests();
        let regions = self.regions().all();
        for region in &regions {
            let load = region.load();
            self.background.account(region);
            let urgency = FlushUrgency { is_overdue: self.is_old(&load), ..FlushUrgency::default() };
            let decision = region.decide_flush(region.memory(), self.memory_pressure(), urgency);
            if matches!(decision, FlushDecision::Flush(_)) {
                self.background.request_flush(region);
            }
            if region.asks_for_memory_compaction() {
                self.background.memory_queue.push(region);
            }
            self.background.consider_compaction(region);
        }
        self.use_new_room();
        self.relieve_memory();
        self.set_background_priority();
        self.tune_throughput(&regions);
        self.roll_old_log();
        self.remove_unnamed_files(&regions);
        self.shorten_log();
    }

    /// Queues flushes of the regions that keep old log files from being deleted, if the log has too many files.
    pub(crate) fn shorten_log(&self) {
        for name in self.regions_holding_back() {
            if let Ok(name) = EncodedName::parse(&String::from_utf8_lossy(&name))
                && let Some(region) = self.regions().by_encoded_name(&name)
            {
                self.background.request_flush(&region);
            }
        }
    }

    /// Rolls the log when its file is older than [`log_roll_period`](crate::Options::log_roll_period) and has records,
    /// so that flushed records can be deleted. A period of zero switches this off.
    fn roll_old_log(&self) {
        let (log, period) = (&self.foundation().log, self.options().log_roll_period);
        log.tidy();
        let now = self.foundation().world.moment();
        let number = log.file_number();
        {
            let mut seen = self.background.log_file.lock();
            match &*seen {
                Some((known, since)) if *known == number => {
                    if period.is_zero() || now.since(*since) < period || log.is_fresh() {
                        return;
                    }
                    // Recorded before the attempt, so that the next one waits for a full period even if this one fails.
                    *seen = Some((number, now));
                }
                _ => {
                    *seen = Some((number, now));
                    return;
                }
            }
        }
        if let Err(error) = log.roll() {
            tracing::warn!(%error, "the log could not be rolled (hbase.regionserver.logroll.period); it goes on");
        }
    }

    fn count_requests(&self) {
        let (now, requests) = (self.foundation().world.moment(), self.counters().snapshot().requests);
        let mut last = self.background.requests.lock();
        if let (before, Some(then)) = *last {
            let took = now.since(then).as_millis() as u64;
            let Some(rate) = (requests - before).saturating_mul(1_000).checked_div(took) else { return };
            self.background.requests_per_second.store(rate, Ordering::Relaxed);
        }
        *last = (requests, Some(now));
    }

    /// Deletes files that compactions have replaced and that no reader uses. At longer intervals
    /// ([`unnamed_files_period`](crate::Options::unnamed_files_period)) it also searches all folders for such files.
    ///
    /// A read replica does this only in the regions of its own. It deletes nothing of its primary, whose archive and MOB
    /// files it does not search either.
    fn remove_unnamed_files(&self, regions: &[Arc<Region>]) {
        let is_own = |region: &&Arc<Region>| {
            self.replica().is_none_or(|replica| !replica.follows(region.info().encoded_name()))
        };
        let regions: Vec<&Arc<Region>> = regions.iter().filter(is_own).collect();
        for region in regions.iter().filter(|region| region.has_given_up_files()) {
            self.clean(region, Search::GivenUp);
        }
        let (now, period) = (self.foundation().world.moment(), self.options().unnamed_files_period);
        {
            let mut swept = self.background.swept.lock();
            let since = *swept.get_or_insert(now);
            if period.is_zero() || now.since(since) < period {
                return;
            }
            *swept = Some(now);
        }
        for region in regions {
            self.clean(region, Search::Folders);
        }
        if self.replica().is_some() {
            return;
        }
        match self.janitor.clean_archive(&FileName::root()) {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "deleted archived files without a holder"),
            Err(error) => tracing::warn!(%error, "cannot clean the archive; it is tried again"),
        }
        match self.janitor.clean_mob_files(&FileName::root(), &OpenCatalog(self)) {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "deleted MOB files that no store file names"),
            Err(error) => {
                tracing::warn!(%error, "cannot tell which MOB files are needed; none is deleted, and it is tried again");
            }
        }
        self.janitor.forget_old_graces();
    }

    /// Lets the janitor delete a region's unlisted files that have no holder.
    pub(crate) fn clean(&self, region: &Arc<Region>, search: Search) {
        match region.clean(&self.janitor, search) {
            Ok(0) => {}
            Ok(files) => {
                tracing::debug!(region = %region.info(), files, "deleted unlisted files without a holder")
            }
            Err(error) if self.regions().is_open(region) => {
                tracing::warn!(region = %region.info(), %error,
                    "cannot delete unlisted files; it is tried again");
            }
            Err(_) => {}
        }
    }
}
