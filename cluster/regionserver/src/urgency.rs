//! How much flushes and compactions weigh.
//!
//! They take what the serving threads leave, so that nobody's answer waits for their turn to end (see [`env::Crew`]). A
//! server that is busy with reads leaves little, and then what they free would run short. So they weigh as much as what
//! serves while
//!
//! 1. the memory of all memstores is over its lower mark, or a region's own limit is near: where writers are slowed,
//! 2. a flush waits because a store has too many files,
//! 3. one of them has run for longer than `bellows.background.patience`.
//!
//! That it is over is seen when one of them ends, and by the chore.

use env::Moment;

use crate::RegionServer;
use crate::background::Background;
use crate::memory::SLOW_FROM;

impl Background {
    /// From now on flushes and compactions weigh as much as what serves.
    pub(crate) fn hurry(&self) {
        if self.crew.hurry(true) {
            tracing::debug!("memory or files press: flushes and compactions weigh as much as what serves");
        }
    }
}

impl RegionServer {
    /// Lets flushes and compactions weigh what they should.
    pub(crate) fn weigh_background(&self) {
        let now = self.foundation().world.moment();
        if self.background_presses(now) {
            self.background.hurry();
        } else if self.background.crew.hurry(false) {
            tracing::debug!("nothing presses: flushes and compactions take what is left");
        }
    }

    fn background_presses(&self, now: Moment) -> bool {
        let options = self.options();
        self.background.memory() > options.memstore_bytes_low()
            || self.background.longest(now) > options.background_patience
            || self.background.is_held_by_files()
            || self.regions().all().iter().any(|region| region.fullness() > SLOW_FROM)
    }
}
