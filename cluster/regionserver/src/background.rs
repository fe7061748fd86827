//! Background work: flushes, compactions, expiry of leases.
//!
//! Requests for flushes and compactions are queued, each region once, and taken by threads of low priority. A further
//! thread, the chore, wakes once in a period and does what is due: it flushes old edits, frees memory, shortens the log
//! and closes scanners whose lease has expired.
//!
//! **Memory.** The server adds up all memstores after each write. Above the lower mark it flushes one region after the
//! other and slows writers (see [`crate::memory`]). Above the upper mark it refuses writes as too busy, and clients retry.
//! HBase blocks the handler threads of such writes; here a call has no thread that could be blocked.
//!
//! **Too many files.** While a store has more files than `hbase.hstore.blockingStoreFiles`, a region that flushes because
//! it is full waits for a compaction, at most `hbase.hstore.blockingWaitTime`. Flushes that free the server's memory, and
//! those of hbase:meta, do not wait.
//!
//! **Priority.** Flushes and compactions use the CPU time that serving leaves, until they become urgent: see
//! [`crate::urgency`].
//!
//! A failed flush or compaction is logged with region, cause and remedy, counted, and queued again. Each failure in a row
//! doubles the wait, up to a limit. A failure loses nothing: the edits stay in memory and in the log, and the files stay.

mod failure;
mod queues;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use env::sync::{Condvar, Mutex, MutexGuard};
use env::{Crew, Moment, Priority};
use proto::EncodedName;
use region::{CompactionRequest, FlushDecision, FlushReason, FlushUrgency, InMemory, Region, Search};
use storage::FileName;

use failure::{attempt, tell_failure};
pub(crate) use queues::Compacting;
use queues::{Again, Flush, Queues, next_due};

use crate::RegionServer;
use crate::counters::{count, count_many};
use crate::memory::MemoryQueue;

/// Highest nice level of threads that compact memory: segments that wait for them make reads expensive.
const MEMORY_NICE: u8 = 10;

/// One condition variable for each kind of thread. A thread woken without need would run before the one that woke it
/// has responded.
#[derive(Default)]
struct Wakes {
    flushes: Condvar,
    compactions: Condvar,
    /// Notified only when the server stops.
    chore: Condvar,
}

/// The queues, and the state that the background threads share.
pub(crate) struct Background {
    queues: Mutex<Queues>,
    wakes: Wakes,
    stopping: AtomicBool,
    compaction_enabled: AtomicBool,
    /// Bytes in all memstores.
    memory: AtomicI64,
    /// When the server last searched for files that no list names.
    swept: Mutex<Option<Moment>>,
    /// The count of requests when it was last read, and when that was.
    requests: Mutex<(u64, Option<Moment>)>,
    requests_per_second: AtomicU64,
    /// The number of the log's current file, and since when it is current.
    log_file: Mutex<Option<(u64, Moment)>>,
    pub(crate) memory_queue: MemoryQueue,
    /// The threads that flush and compact.
    pub(crate) crew: Arc<Crew>,
    /// The threads that compact memory.
    pub(crate) memory_crew: Arc<Crew>,
}

impl Background {
    pub(crate) fn new(compaction_enabled: bool, nice: u8) -> Background {
        Background {
            queues: Mutex::default(),
            wakes: Wakes::default(),
            stopping: AtomicBool::new(false),
            compaction_enabled: AtomicBool::new(compaction_enabled),
            memory: AtomicI64::new(0),
            swept: Mutex::default(),
            requests: Mutex::default(),
            requests_per_second: AtomicU64::new(0),
            log_file: Mutex::default(),
            memory_queue: MemoryQueue::default(),
            crew: Crew::new(nice),
            memory_crew: Crew::new(MEMORY_NICE.min(nice)),
        }
    }

    /// Starts the threads of `server`. They have weak references to it, so that dropping the server ends them.
    pub(crate) fn start(server: &Arc<RegionServer>) -> std::io::Result<()> {
        for index in 0..server.options().flushers {
            let name = format!("flush-{index}");
            server.background.crew.spawn(&name, Self::steps(server, &name, Background::flush_next))?;
        }
        for index in 0..server.options().compactors {
            let name = format!("compact-{index}");
            server.background.crew.spawn(&name, Self::steps(server, &name, Background::compact_next))?;
        }
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        for index in 0..server.options().memory_compactors.min(cores) {
            let name = format!("memory-{index}");
            let steps = Self::steps(server, &name, MemoryQueue::compact_next);
            // Compacting memory is more urgent than other background work, so these threads have their own priority.
            server.background.memory_crew.spawn(&name, steps)?;
        }
        env::spawn_thread("chore", Priority::Background, Self::steps(server, "chore", Background::chore))
            .map(drop)
    }

    /// The body of a thread: one `step` after the other until the server stops or is dropped.
    fn steps(
        server: &Arc<RegionServer>,
        name: &str,
        step: fn(&RegionServer),
    ) -> impl FnOnce() + Send + 'static {
        let server: Weak<RegionServer> = Arc::downgrade(server);
        let thread = name.to_owned();
        move || {
            while let Some(server) = server.upgrade() {
                if server.background.stops() {
                    return;
                }
                // If the thread ended here, its queue would never be served again.
                if let Err(words) = env::caught(|| step(&server)) {
                    tracing::error!(
                        thread,
                        words,
                        "an invariant is broken; the thread goes on with what is next"
                    );
                }
            }
        }
    }

    /// Ends the threads after their current step.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Hold the lock, or a thread that has just checked would sleep and miss the notification.
        let _queues = self.queues.lock();
        for wake in [&self.wakes.flushes, &self.wakes.compactions, &self.wakes.chore] {
            wake.notify_all();
        }
        self.memory_queue.wake_all();
    }

    /// Whether the threads should end. A thread that checks this under its queue's lock before it waits misses no
    /// notification.
    pub(crate) fn stops(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Requests per second, over the last period.
    pub(crate) fn requests_per_second(&self) -> u64 {
        self.requests_per_second.load(Ordering::Relaxed)
    }

    /// Bytes in all memstores.
    pub(crate) fn memory(&self) -> u64 {
        u64::try_from(self.memory.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Updates the sum of all memstores by what `region` has in memory now. Returns the sum in bytes.
    pub(crate) fn account(&self, region: &Region) -> u64 {
        self.account_for(region, region.memory())
    }

    /// Like [`Background::account`], for memory that the caller has read.
    pub(crate) fn account_for(&self, region: &Region, memory: InMemory) -> u64 {
        let change = region.memory_change(memory);
        u64::try_from(self.memory.fetch_add(change, Ordering::Relaxed) + change).unwrap_or(0)
    }

    /// Turns compactions on or off. Returns whether they were on.
    pub(crate) fn switch_compaction(&self, enabled: bool) -> bool {
        let before = self.compaction_enabled.swap(enabled, Ordering::AcqRel);
        let _queues = self.queues.lock();
        self.wakes.compactions.notify_all();
        before
    }

    /// Waits for the next flush and runs it.
    pub(crate) fn flush_next(server: &RegionServer) {
        let background = &server.background;
        let now = server.foundation().world.moment();
        let mut queues = background.queues.lock();
        let Flush { region, again, held_since } =
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
            let since = held_since.unwrap_or(now);
            let waited = now.since(since);
            if waited < server.options().blocking_wait {
                let again = Again { due: Some(now.plus(server.options().blocking_wait / 100)), ..again };
                queues.flushes.push_back(Flush { region: region.clone(), again, held_since: Some(since) });
                // This thread may be busy when the next flush is due, so notify another one.
                background.wakes.flushes.notify_one();
                drop(queues);
                if held_since.is_none() {
                    tracing::warn!(region = %region.info(), table = %region.info().table(),
                        "too many store files: the flush waits for a compaction (hbase.hstore.blockingStoreFiles)");
                    background.hurry();
                    background.request_compaction(&region, false, Vec::new());
                }
                return;
            }
            tracing::warn!(region = %region.info(), waited_ms = waited.as_millis() as u64,
                "too many store files, and waited long enough: flushing (hbase.hstore.blockingWaitTime)");
        }
        queues.flushing.push(region.clone());
        queues.began.push(now);
        drop(queues);
        let outcome = attempt(|| server.flush(&region, server.reason_to_flush(&region)));
        let mut queues = background.queues.lock();
        queues.flushing.retain(|flushing| !Arc::ptr_eq(flushing, &region));
        queues.ended(now);
        let Err(error) = outcome else {
            drop(queues);
            if region.needs_flush(server.memory_pressure()) && server.regions().is_open(&region) {
                background.request_flush(&region);
            }
            server.consider_split(&region);
            server.weigh_background();
            return server.relieve_memory();
        };
        if !server.regions().is_open(&region) {
            return;
        }
        count(&server.counters().flushes_failed);
        let (wait, again) = again.after_failure(server.foundation().world.moment(), &server.options());
        // If it was requested again meanwhile, that request runs at once and has its own failures.
        if !queues.flushes.iter().any(|waiting| Arc::ptr_eq(&waiting.region, &region)) {
            queues.flushes.push_back(Flush { region: region.clone(), again, held_since: None });
            background.wakes.flushes.notify_one();
        }
        drop(queues);
        tell_failure("flush", &region, &error, wait);
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

    /// Does what is due, then sleeps for a period.
    fn chore(server: &RegionServer) {
        server.look_around();
        let background = &server.background;
        let mut queues = background.queues.lock();
        let period = server.options().wake_period.min(server.options().scanner_timeout);
        background.rest(&background.wakes.chore, &mut queues, period);
    }

    /// Sleeps for `time` or until notified; returns at once if the server stops.
    fn rest(&self, wake: &Condvar, queues: &mut MutexGuard<'_, Queues>, time: Duration) {
        if !self.stops() {
            wake.wait_for(queues, time);
        }
    }
}

impl RegionServer {
    /// Deletes files that compactions have given up and no reader uses. Searches all folders once in a while.
    fn remove_unnamed_files(&self, regions: &[Arc<Region>]) {
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
        match self.janitor.clean_archive(&FileName::root()) {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "deleted archived files without a holder"),
            Err(error) => tracing::warn!(%error, "cannot clean the archive; it is tried again"),
        }
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

    /// Rolls the log when its file is old, so that flushed records can be deleted.
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
                    // The next attempt waits for a full period even after a failure.
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

    /// Flushes a region now, and queues a compaction if one is needed. Blocks on storage.
    pub fn flush(&self, region: &Arc<Region>, reason: FlushReason) -> Result<region::Flushed, region::Error> {
        self.flush_as(region, reason, |region| region.flush(reason))
    }

    /// The reason for a flush that nobody requested. Edits that are old or hold back the log must be flushed
    /// completely, and so must memory that blocks writes.
    fn reason_to_flush(&self, region: &Region) -> FlushReason {
        let name = region.info().encoded_name().as_str().as_bytes();
        let holds_back = || self.regions_holding_back().iter().any(|region| **region == *name);
        let urgency = FlushUrgency {
            is_short: self.background.memory() >= self.options().memstore_bytes_max
                || region.fullness() >= 1.0,
            is_overdue: self.is_old(&region.load()) || holds_back(),
        };
        region.reason_to_flush(self.memory_pressure(), urgency)
    }

    /// The regions whose edits keep the log from deleting files beyond its limit.
    fn regions_holding_back(&self) -> Vec<Box<[u8]>> {
        self.foundation().log.regions_holding_back(self.background.memory())
    }

    /// Whether a region has an edit in memory that is older than allowed.
    fn is_old(&self, load: &region::Load) -> bool {
        let now = self.foundation().world.now();
        let period = i64::try_from(self.options().flush_period.as_millis()).unwrap_or(i64::MAX);
        load.oldest_edit.is_some_and(|oldest| period > 0 && now.0.saturating_sub(oldest.0) > period)
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
        if region.needs_compaction() {
            self.background.request_compaction(region, false, Vec::new());
        }
        Ok(flushed)
    }

    /// Does what follows a bulk load, which has flushed the region and added files.
    pub(crate) fn loaded(&self, region: &Arc<Region>) {
        self.background.account(region);
        if region.needs_compaction() {
            self.background.request_compaction(region, false, Vec::new());
        }
    }

    /// When the disk is full for a store file, deletes the log's spare files so that the next attempt finds space.
    /// While the log has spare files, it does not run out of space itself.
    fn give_way(&self, error: &region::Error) {
        if matches!(error, region::Error::Storage(error) if error.kind() == storage::Kind::Full) {
            self.foundation().log.remove_spares();
        }
    }

    /// Does the periodic work: leases, old nonces, old edits, memory, log files that are held back.
    pub(crate) fn look_around(&self) {
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
            if region.needs_compaction() {
                self.background.request_compaction(region, false, Vec::new());
            }
        }
        self.relieve_memory();
        self.weigh_background();
        for region in &regions {
            let families = region.due_for_major();
            let compacting = self.background.compacting(region);
            if !families.is_empty() && !compacting.major {
                tracing::info!(region = %region.info(), table = %region.info().table(), families = families.len(),
                    "time for a major compaction (hbase.hregion.majorcompaction)");
                self.background.request_compaction(region, true, families);
            }
        }
        self.roll_old_log();
        self.remove_unnamed_files(&regions);
        self.shorten_log();
    }

    /// Queues flushes of the regions that keep the log from deleting files beyond its limit.
    pub(crate) fn shorten_log(&self) {
        for name in self.regions_holding_back() {
            if let Ok(name) = EncodedName::parse(&String::from_utf8_lossy(&name))
                && let Some(region) = self.regions().by_encoded_name(&name)
            {
                self.background.request_flush(&region);
            }
        }
    }
}
