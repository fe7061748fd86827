//! Work that nobody waits for: flushes, compactions, leases that run out.
//!
//! Requests for flushes and compactions go into queues, each region once. Threads of low priority take them out. One
//! more thread, the chore, wakes once in a period and looks what is due: old edits, too much memory, logs that are held
//! back, scanners without a lease.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use env::Priority;
use parking_lot::{Condvar, Mutex};
use proto::EncodedName;
use region::{CompactionRequest, FlushReason, Region};

use crate::RegionServer;
use crate::counters::{count, count_many};

/// Of the memory that memstores may take, the part at which flushing begins (HBase's
/// `hbase.regionserver.global.memstore.size.lower.limit` of 0.95).
const PRESSURE_PERCENT: u64 = 95;

/// A compaction that waits.
struct Wanted {
    region: Arc<Region>,
    major: bool,
    /// Empty for all.
    families: Vec<Bytes>,
}

#[derive(Default)]
struct Queues {
    flushes: VecDeque<Arc<Region>>,
    compactions: VecDeque<Wanted>,
    /// Compactions that wait or run, by region: minor and major ones.
    compacting: HashMap<EncodedName, (usize, usize)>,
}

/// Which compactions a region has waiting or running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compacting {
    pub(crate) minor: bool,
    pub(crate) major: bool,
}

/// The queues, and the switches that threads look at.
pub(crate) struct Background {
    queues: Mutex<Queues>,
    /// Something was queued, or the server stops.
    wake: Condvar,
    stopping: AtomicBool,
    compaction_enabled: AtomicBool,
    memory_is_full: AtomicBool,
}

impl Background {
    pub(crate) fn new(compaction_enabled: bool) -> Background {
        Background {
            queues: Mutex::default(),
            wake: Condvar::new(),
            stopping: AtomicBool::new(false),
            compaction_enabled: AtomicBool::new(compaction_enabled),
            memory_is_full: AtomicBool::new(false),
        }
    }

    /// Starts the threads of `server`. They hold it weakly, so that dropping it ends them.
    pub(crate) fn start(server: &Arc<RegionServer>) -> std::io::Result<()> {
        for index in 0..server.options().flushers {
            Self::spawn(server, &format!("flush-{index}"), Background::flush_next)?;
        }
        for index in 0..server.options().compactors {
            Self::spawn(server, &format!("compact-{index}"), Background::compact_next)?;
        }
        Self::spawn(server, "chore", Background::chore)
    }

    fn spawn(server: &Arc<RegionServer>, name: &str, step: fn(&RegionServer)) -> std::io::Result<()> {
        let server: Weak<RegionServer> = Arc::downgrade(server);
        env::spawn_thread(name, Priority::Background, move || {
            while let Some(server) = server.upgrade() {
                if server.background.stopping.load(Ordering::Acquire) {
                    return;
                }
                step(&server);
            }
        })
        .map(drop)
    }

    /// Ends the threads after what they do now.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Under the lock, or a thread that has just looked would go to sleep and miss it.
        let _queues = self.queues.lock();
        self.wake.notify_all();
    }

    /// Whether memstores take more than they may.
    pub(crate) fn memory_is_full(&self) -> bool {
        self.memory_is_full.load(Ordering::Relaxed)
    }

    /// Lets compactions run or wait; says how it was before.
    pub(crate) fn switch_compaction(&self, enabled: bool) -> bool {
        let before = self.compaction_enabled.swap(enabled, Ordering::AcqRel);
        let _queues = self.queues.lock();
        self.wake.notify_all();
        before
    }

    /// Queues a flush; a region that waits already is not queued twice.
    pub(crate) fn request_flush(&self, region: &Arc<Region>) {
        let mut queues = self.queues.lock();
        if !queues.flushes.iter().any(|waiting| Arc::ptr_eq(waiting, region)) {
            queues.flushes.push_back(region.clone());
            self.wake.notify_all();
        }
    }

    /// Queues a compaction, of every family if none is named.
    pub(crate) fn request_compaction(&self, region: &Arc<Region>, major: bool, families: Vec<Bytes>) {
        let mut queues = self.queues.lock();
        let same = |wanted: &Wanted| {
            Arc::ptr_eq(&wanted.region, region) && wanted.major == major && wanted.families == families
        };
        if queues.compactions.iter().any(same) {
            return;
        }
        let counts = queues.compacting.entry(region.info().encoded_name().clone()).or_default();
        *(if major { &mut counts.1 } else { &mut counts.0 }) += 1;
        queues.compactions.push_back(Wanted { region: region.clone(), major, families });
        self.wake.notify_all();
    }

    /// Which compactions of a region wait or run.
    pub(crate) fn compacting(&self, region: &Region) -> Compacting {
        let queues = self.queues.lock();
        let counts = queues.compacting.get(region.info().encoded_name()).copied().unwrap_or_default();
        Compacting { minor: counts.0 > 0, major: counts.1 > 0 }
    }

    /// Forgets the compactions that wait.
    pub(crate) fn clear_compactions(&self) {
        let mut queues = self.queues.lock();
        for wanted in std::mem::take(&mut queues.compactions) {
            queues.finished(&wanted);
        }
    }

    /// Forgets a region that is no longer here.
    pub(crate) fn forget(&self, region: &Arc<Region>) {
        let mut queues = self.queues.lock();
        queues.flushes.retain(|waiting| !Arc::ptr_eq(waiting, region));
        for wanted in std::mem::take(&mut queues.compactions) {
            if Arc::ptr_eq(&wanted.region, region) {
                queues.finished(&wanted);
            } else {
                queues.compactions.push_back(wanted);
            }
        }
    }

    /// Waits for the next flush and does it.
    pub(crate) fn flush_next(server: &RegionServer) {
        let background = &server.background;
        let mut queues = background.queues.lock();
        let Some(region) = queues.flushes.pop_front() else {
            background.wake.wait_for(&mut queues, server.options().wake_period);
            return;
        };
        drop(queues);
        if server.flush(&region, FlushReason::MemstoreSize).is_err() {
            count(&server.counters().flushes_failed);
        }
    }

    /// Waits for the next compaction and does it.
    pub(crate) fn compact_next(server: &RegionServer) {
        let background = &server.background;
        let mut queues = background.queues.lock();
        let enabled = background.compaction_enabled.load(Ordering::Acquire);
        let Some(wanted) = enabled.then(|| queues.compactions.pop_front()).flatten() else {
            background.wake.wait_for(&mut queues, server.options().wake_period);
            return;
        };
        drop(queues);
        let request = CompactionRequest { major: wanted.major, families: wanted.families.clone() };
        let counters = server.counters();
        match wanted.region.compact(&request) {
            Ok(_) => count(&counters.compactions),
            Err(_) => count(&counters.compactions_failed),
        }
        background.queues.lock().finished(&wanted);
        if wanted.region.needs_compaction() && server.regions().is_open(&wanted.region) {
            background.request_compaction(&wanted.region, false, Vec::new());
        }
    }

    /// Looks what is due, then sleeps for a period.
    fn chore(server: &RegionServer) {
        server.look_around();
        let background = &server.background;
        let mut queues = background.queues.lock();
        if !background.stopping.load(Ordering::Acquire) {
            let period = server.options().wake_period.min(server.options().scanner_timeout);
            background.wake.wait_for(&mut queues, period);
        }
    }
}

impl Queues {
    fn finished(&mut self, wanted: &Wanted) {
        let name = wanted.region.info().encoded_name();
        if let Some(counts) = self.compacting.get_mut(name) {
            let count = if wanted.major { &mut counts.1 } else { &mut counts.0 };
            *count = count.saturating_sub(1);
            if *counts == (0, 0) {
                self.compacting.remove(name);
            }
        }
    }
}

impl RegionServer {
    /// Flushes a region now, and queues the compaction that this makes necessary. Touches the disk.
    pub fn flush(&self, region: &Arc<Region>, reason: FlushReason) -> Result<region::Flushed, region::Error> {
        let flushed = region.flush(reason)?;
        count(&self.counters().flushes);
        self.note_flush(region.info().encoded_name());
        if region.needs_compaction() {
            self.background.request_compaction(region, false, Vec::new());
        }
        Ok(flushed)
    }

    /// Does what is due: leases, old nonces, old edits, too much memory, logs that are held back.
    pub(crate) fn look_around(&self) {
        count_many(&self.counters().scanner_leases_expired, self.scanners.expire());
        self.nonces.forget_old();
        let regions = self.regions().all();
        let now = self.foundation().world.now();
        let period = i64::try_from(self.options().flush_period.as_millis()).unwrap_or(i64::MAX);
        let mut total = 0u64;
        for region in &regions {
            let load = region.load();
            total = total.saturating_add(load.memstore_bytes);
            let is_old =
                load.oldest_edit.is_some_and(|oldest| period > 0 && now.0.saturating_sub(oldest.0) > period);
            if is_old || region.needs_flush() {
                self.background.request_flush(region);
            }
            if region.needs_compaction() {
                self.background.request_compaction(region, false, Vec::new());
            }
        }
        let limit = self.options().memstore_bytes_max;
        self.background.memory_is_full.store(total > limit, Ordering::Relaxed);
        if total > limit / 100 * PRESSURE_PERCENT
            && let Some(fullest) = regions.iter().max_by_key(|region| region.load().memstore_bytes)
        {
            self.background.request_flush(fullest);
        }
        for name in self.foundation().log.regions_holding_back() {
            if let Ok(name) = EncodedName::parse(&String::from_utf8_lossy(&name))
                && let Some(region) = self.regions().by_encoded_name(&name)
            {
                self.background.request_flush(&region);
            }
        }
    }
}
