//! Background compactions: which compaction is next, and what is done after it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use cell::string_binary;
use region::{CompactionMonitor, Region, Search, StoreCompaction};

use super::Background;
use super::compaction_queue::{Lane, Origin, QueuedCompaction};
use super::failure::{attempt, log_failure};
use crate::RegionServer;
use crate::counters::count;
use crate::tasks::TaskGuard;

/// Monitors one compaction: shows its progress, limits its rate, and ends it when compactions are switched off.
struct Watch<'a> {
    server: &'a RegionServer,
    task: &'a TaskGuard,
    cells: AtomicU64,
    bytes: AtomicU64,
    cells_max: AtomicU64,
    bytes_max: AtomicU64,
}

impl CompactionMonitor for Watch<'_> {
    fn begin(&self, cells: u64, bytes: u64) {
        self.cells_max.store(cells, Ordering::Relaxed);
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    fn advance(&self, cells: u64, bytes: u64) -> ControlFlow<()> {
        let background = &self.server.background;
        let cells = self.cells.fetch_add(cells, Ordering::Relaxed) + cells;
        let written = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (cells_max, bytes_max) =
            (self.cells_max.load(Ordering::Relaxed), self.bytes_max.load(Ordering::Relaxed));
        self.task.status(format!(
            "read {cells} of {cells_max} cells, wrote {written} bytes from files of {bytes_max}"
        ));
        background
            .compaction_budget
            .spend(bytes, &self.server.foundation().world, || background.stops() || !background.compacts());
        if background.compacts() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// The permission to use the larger compaction ratio of off-peak hours. As in HBase, only one compaction has it at a
/// time.
struct OffPeak<'a>(Option<&'a AtomicBool>);

impl Drop for OffPeak<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.0 {
            taken.store(false, Ordering::Release);
        }
    }
}

impl Background {
    /// Turns compactions on or off. If they are turned off, running ones end. Returns whether they were on.
    pub(crate) fn switch_compaction(&self, enabled: bool) -> bool {
        let before = self.compaction_enabled.swap(enabled, Ordering::AcqRel);
        let _queues = self.queues.lock();
        self.wakes.small_compactions.notify_all();
        self.wakes.large_compactions.notify_all();
        self.compaction_budget.wake();
        before
    }

    /// Whether compactions are on.
    fn compacts(&self) -> bool {
        self.compaction_enabled.load(Ordering::Acquire)
    }

    /// Queues the compactions that a client requests: of the given families, or of every family if none is given.
    /// Stores that have nothing to compact are left out, and so are tables whose COMPACTION_ENABLED is false and
    /// regions that are about to close.
    pub(crate) fn request_compaction(&self, region: &Arc<Region>, major: bool, families: Vec<Bytes>) {
        self.request(region, major, families, Origin::User);
    }

    /// Queues the compactions that the region's stores need by their policies.
    pub(crate) fn consider_compaction(&self, region: &Arc<Region>) {
        self.request(region, false, Vec::new(), Origin::System);
    }

    fn request(&self, region: &Arc<Region>, major: bool, mut families: Vec<Bytes>, origin: Origin) {
        if region.closes_soon() || !region.table().options().is_ok_and(|options| options.compaction_enabled) {
            return;
        }
        if families.is_empty() {
            families = region.table().families().iter().map(|family| family.name().clone()).collect();
        }
        for family in families {
            let is_user = origin == Origin::User;
            let wanted = StoreCompaction { family, major, is_user, off_peak: false };
            let Some(plan) = region.plan_compaction(&wanted) else { continue };
            let wanted = QueuedCompaction::new(region, wanted.family, &plan, origin);
            let lane = wanted.lane;
            self.queues.lock().compactions.push(wanted);
            // A thread for large compactions takes small ones when it has nothing else to do, so it is notified, too.
            self.wakes.large_compactions.notify_one();
            if lane == Lane::Small {
                self.wakes.small_compactions.notify_one();
            }
        }
    }

    /// Runs the most urgent compaction of any size. If none is due, waits at most one period for one and returns.
    pub(crate) fn compact_next(server: &RegionServer) {
        Background::compact_next_of(server, Lane::Large);
    }

    /// Runs the most urgent compaction below the throttle point. If none is due, waits at most one period for one and
    /// returns.
    pub(crate) fn compact_next_small(server: &RegionServer) {
        Background::compact_next_of(server, Lane::Small);
    }

    fn compact_next_of(server: &RegionServer, lane: Lane) {
        let background = &server.background;
        let now = server.foundation().world.moment();
        let mut queues = background.queues.lock();
        let next = if background.compacts() { queues.compactions.take(lane, now) } else { Err(None) };
        let mut wanted = match next {
            Ok(wanted) => wanted,
            Err(next) => {
                let period = server.options().wake_period;
                let rest = next.map_or(period, |next| next.min(period));
                let wake = match lane {
                    Lane::Small => &background.wakes.small_compactions,
                    Lane::Large => &background.wakes.large_compactions,
                };
                return background.rest(wake, &mut queues, rest);
            }
        };
        queues.began.push(now);
        drop(queues);
        let (region, counters) = (Arc::clone(&wanted.region), server.counters());
        let is_user = wanted.origin == Origin::User;
        let quiet = background.begin_off_peak(server);
        let request = StoreCompaction {
            family: wanted.family.clone(),
            // If the server requested the compaction, its policy decides when it begins whether it is a major one.
            major: wanted.major && is_user,
            is_user,
            off_peak: quiet.0.is_some(),
        };
        let kind = if wanted.major { "Major compaction" } else { "Compaction" };
        let family = string_binary(&wanted.family).to_string();
        let task = server
            .background_tasks
            .begin(format!("{kind} of {family} in {}", region.info()), "selecting store files");
        let outcome = attempt(|| {
            let watch = Watch {
                server,
                task: &task,
                cells: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                cells_max: AtomicU64::new(0),
                bytes_max: AtomicU64::new(0),
            };
            region.compact_family(&request, &watch)
        });
        task.end(&outcome);
        drop(quiet);
        {
            let mut queues = background.queues.lock();
            queues.ended(now);
            queues.compactions.end(&wanted);
        }
        server.set_background_priority();
        match outcome {
            // Another compaction has already compacted these files.
            Ok(0) => {}
            Ok(files) => {
                let took = server.foundation().world.moment().since(now);
                count(&counters.compactions);
                server.times.compaction.record_time(took);
                let (info, load) = (region.info(), region.load());
                tracing::info!(region = %info, table = %info.table(), family, major = wanted.major,
                    files_before = files, files = load.files, bytes = load.file_bytes,
                    ms = took.as_millis() as u64, "compacted");
                server.clean(&region, Search::GivenUp);
            }
            Err(_) if region.closes_soon() || !server.regions().is_open(&region) => {}
            // Compactions were switched off. The compaction goes back into the queue until they are switched on.
            Err(region::Error::Interrupted(_)) => return background.put_back(wanted),
            Err(error) => {
                count(&counters.compactions_failed);
                server.give_way(&error);
                let (wait, again) =
                    wanted.again.after_failure(server.foundation().world.moment(), &server.options());
                log_failure("compaction", &region, &error, wait);
                wanted.again = again;
                return background.put_back(wanted);
            }
        }
        background.queues.lock().compactions.finished(&wanted);
        if server.regions().is_open(&region) {
            background.consider_compaction(&region);
        }
        server.consider_split(&region);
    }

    /// Queues a compaction again, without changing the counts of pending compactions.
    fn put_back(&self, wanted: QueuedCompaction) {
        self.queues.lock().compactions.put_back(wanted);
        self.wakes.large_compactions.notify_one();
        self.wakes.small_compactions.notify_one();
    }

    fn begin_off_peak(&self, server: &RegionServer) -> OffPeak<'_> {
        let is_quiet = server.options().off_peak.contains(server.foundation().world.now());
        let is_taken = is_quiet && !self.off_peak_compaction.swap(true, Ordering::AcqRel);
        OffPeak(is_taken.then_some(&self.off_peak_compaction))
    }
}

impl RegionServer {
    /// Queues the compactions that are due after a bulk load, which has flushed the region and added files.
    pub(crate) fn loaded(&self, region: &Arc<Region>) {
        self.background.account(region);
        self.background.consider_compaction(region);
    }
}
