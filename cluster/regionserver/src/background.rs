//! Background work: flushes, compactions, expiry of leases.
//!
//! Requests for flushes and compactions wait in queues, with one entry for each region or store. Threads of low
//! priority take them. Another thread, the chore, wakes once in a period and does the work that is due: it flushes old
//! edits, frees memory, shortens the log and closes scanners whose lease has expired.
//!
//! **Memory.** After each write the server computes the size of all memstores. Above the lower limit
//! (`hbase.regionserver.global.memstore.size.lower.limit`) it flushes one region after the other and delays answers to
//! writes (see [`crate::memory`]). Above the upper limit (`hbase.regionserver.global.memstore.size`) it refuses writes
//! as too busy, and clients retry. HBase blocks the handler threads of such writes; here a call has no thread that
//! could be blocked.
//!
//! **Too many files.** While a store has more files than `hbase.hstore.blockingStoreFiles`, a region that flushes
//! because it is full waits for a compaction, at most `hbase.hstore.blockingWaitTime`. Flushes that free the server's
//! memory, and those of hbase:meta, do not wait.
//!
//! **Priority.** Flushes and compactions use the CPU time that serving threads leave, until they become urgent: see
//! [`crate::urgency`].
//!
//! A failed flush or compaction is logged with region, cause and remedy, counted, and queued again, unless its region
//! was closed meanwhile. Each further failure doubles the wait, up to a limit. No data is lost: the edits stay in
//! memory and in the log, and the old files stay.

mod chore;
mod compaction_queue;
mod compactions;
mod failure;
mod flushes;
mod open_catalog;
mod queues;
mod unflushed;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use env::sync::{Condvar, Mutex, MutexGuard};
use env::{BackgroundThreads, Moment, Priority};
use region::{InMemory, Region, WriteBudget};

pub(crate) use compaction_queue::PendingCompactions;
use queues::Queues;
use unflushed::UnflushedRegions;

use crate::RegionServer;
use crate::memory::MemoryQueue;

/// Maximum nice level of threads that compact memory. A higher level would delay them, and reads become expensive while
/// segments wait for these threads.
const MEMORY_NICE: u8 = 10;

/// One condition variable for each kind of thread, so that only a thread with work is woken. A thread that is woken
/// without need would run before the thread that woke it has answered its client.
#[derive(Default)]
struct Wakes {
    flushes: Condvar,
    small_compactions: Condvar,
    large_compactions: Condvar,
    /// Notified only when the server stops.
    chore: Condvar,
}

/// The queues, and the state that the background threads share.
pub(crate) struct Background {
    queues: Mutex<Queues>,
    wakes: Wakes,
    stopping: AtomicBool,
    compaction_enabled: AtomicBool,
    /// Whether a compaction with the settings for off-peak hours is running.
    off_peak_compaction: AtomicBool,
    /// The rate at which compactions may write.
    pub(crate) compaction_budget: WriteBudget,
    /// Number of bytes in all memstores.
    memory: AtomicI64,
    /// When the server last searched all folders for files that no list names.
    swept: Mutex<Option<Moment>>,
    /// The number of requests at the last reading, and the time of that reading.
    requests: Mutex<(u64, Option<Moment>)>,
    requests_per_second: AtomicU64,
    /// The number of the log's current file, and the time since which the log writes to it.
    log_file: Mutex<Option<(u64, Moment)>>,
    /// The words of the panic with which the periodic work ended last; `None` if it ended well.
    chore_failure: Mutex<Option<String>>,
    /// Closed regions whose memory could not be flushed, because the disk was full.
    unflushed: UnflushedRegions,
    pub(crate) memory_queue: MemoryQueue,
    /// The threads that flush and compact.
    pub(crate) threads: Arc<BackgroundThreads>,
    /// The threads that compact memory.
    pub(crate) memory_threads: Arc<BackgroundThreads>,
}

impl Background {
    pub(crate) fn new(compaction_enabled: bool, nice: u8) -> Background {
        Background {
            queues: Mutex::default(),
            wakes: Wakes::default(),
            stopping: AtomicBool::new(false),
            compaction_enabled: AtomicBool::new(compaction_enabled),
            off_peak_compaction: AtomicBool::new(false),
            compaction_budget: WriteBudget::default(),
            memory: AtomicI64::new(0),
            swept: Mutex::default(),
            requests: Mutex::default(),
            requests_per_second: AtomicU64::new(0),
            log_file: Mutex::default(),
            chore_failure: Mutex::default(),
            unflushed: UnflushedRegions::default(),
            memory_queue: MemoryQueue::default(),
            threads: BackgroundThreads::new(nice),
            memory_threads: BackgroundThreads::new(MEMORY_NICE.min(nice)),
        }
    }

    /// Starts the threads of `server`. They have weak references to the server, so they end when it is dropped.
    pub(crate) fn start(server: &Arc<RegionServer>) -> std::io::Result<()> {
        for index in 0..server.options().flushers {
            let name = format!("flush-{index}");
            server.background.threads.spawn(&name, Self::steps(server, &name, Background::flush_next))?;
        }
        for index in 0..server.options().compactors {
            let name = format!("compact-small-{index}");
            let steps = Self::steps(server, &name, Background::compact_next_small);
            server.background.threads.spawn(&name, steps)?;
        }
        for index in 0..server.options().large_compactors {
            let name = format!("compact-large-{index}");
            server.background.threads.spawn(&name, Self::steps(server, &name, Background::compact_next))?;
        }
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        for index in 0..server.options().memory_compactors.min(cores) {
            let name = format!("memory-{index}");
            let steps = Self::steps(server, &name, MemoryQueue::compact_next);
            // Compacting memory is more urgent than flushes and compactions of files, so these threads are a group
            // ([`env::BackgroundThreads`]) with a priority of its own.
            server.background.memory_threads.spawn(&name, steps)?;
        }
        env::spawn_thread("chore", Priority::Background, Self::steps(server, "chore", Background::chore))
            .map(drop)
    }

    /// The body of a thread: calls `step` until the server stops or is dropped.
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
                // No other thread serves this queue, so a panic must not end the thread.
                if let Err(words) = env::caught(|| step(&server)) {
                    tracing::error!(
                        thread,
                        words,
                        "an invariant is broken; the thread continues with the next task"
                    );
                }
            }
        }
    }

    /// Ends the threads after their current step.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // The lock is held, because a thread that has just checked for the stop would otherwise miss the notification
        // and sleep.
        let _queues = self.queues.lock();
        for wake in [
            &self.wakes.flushes,
            &self.wakes.small_compactions,
            &self.wakes.large_compactions,
            &self.wakes.chore,
        ] {
            wake.notify_all();
        }
        self.memory_queue.wake_all();
        self.compaction_budget.wake();
    }

    /// Whether the threads should end. A thread must check this under its queue's lock before it waits, or it may miss
    /// the notification.
    pub(crate) fn stops(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns the number of requests per second, over the last period of the chore; 0 until the first period has
    /// ended.
    pub(crate) fn requests_per_second(&self) -> u64 {
        self.requests_per_second.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes in all memstores.
    pub(crate) fn memory(&self) -> u64 {
        u64::try_from(self.memory.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Updates the sum of all memstores by the present memory of `region`. Returns the sum in bytes.
    pub(crate) fn account(&self, region: &Region) -> u64 {
        self.account_for(region, region.memory())
    }

    /// Like [`Background::account`], for a size that the caller has already read.
    pub(crate) fn account_for(&self, region: &Region, memory: InMemory) -> u64 {
        let change = region.memory_change(memory);
        u64::try_from(self.memory.fetch_add(change, Ordering::Relaxed) + change).unwrap_or(0)
    }

    /// Subtracts a region that is dropped from the sum of all memstores.
    pub(crate) fn disregard(&self, region: &Region) {
        self.account_for(region, InMemory::default());
    }

    /// Sleeps for `time` or until notified; returns at once if the server stops.
    fn rest(&self, wake: &Condvar, queues: &mut MutexGuard<'_, Queues>, time: Duration) {
        if !self.stops() {
            wake.wait_for(queues, time);
        }
    }
}
