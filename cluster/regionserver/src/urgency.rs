//! The priority of flushes and compactions.
//!
//! Flushes and compactions use the CPU time that serving threads leave, so that no answer waits for them (see
//! [`env::BackgroundThreads`]). A server that is busy with reads leaves little CPU time, and it could run out of memory
//! or have too many files. So they get the priority of serving threads while
//!
//! 1. the memstores together exceed the lower limit, or a region is near its own limit, so that answers to writes are
//!    delayed;
//! 2. a store has more files than `hbase.hstore.blockingStoreFiles`, so that its flushes wait and its reads are slow;
//! 3. a flush or compaction has run for longer than `bellows.background.patience`.
//!
//! The priority is lowered again when a flush or compaction ends, and by the chore.

use env::Moment;

use crate::RegionServer;
use crate::background::Background;
use crate::memory::SLOW_FROM;

impl Background {
    /// Gives flushes and compactions the priority of serving threads.
    pub(crate) fn hurry(&self) {
        if self.threads.hurry(true) {
            tracing::debug!("memory or files press: flushes and compactions weigh as much as what serves");
        }
    }
}

impl RegionServer {
    /// Sets the priority of flushes and compactions according to their urgency.
    pub(crate) fn set_background_priority(&self) {
        let now = self.foundation().world.moment();
        if self.background_presses(now) {
            self.background.hurry();
        } else if self.background.threads.hurry(false) {
            tracing::debug!("nothing presses: flushes and compactions take what is left");
        }
    }

    fn background_presses(&self, now: Moment) -> bool {
        let options = self.options();
        self.background.memory() > options.memstore_bytes_low()
            || self.background.longest(now) > options.background_patience
            || self
                .regions()
                .all()
                .iter()
                .any(|region| region.has_too_many_files() || region.fullness() > SLOW_FROM)
    }
}
