//! Keeps files for some time after their stores have stopped listing them, for readers in other processes.
//!
//! A read replica opens a file after it has read in the log that the file exists, and reads it until it has read that
//! the file was replaced. The janitor does not know how far behind replicas are. So it keeps each file for a fixed
//! time, the grace, which must be longer than any replica lags. The grace begins when a store first offers the file for
//! deletion, which is soon after the file was replaced. Storage does not record when a file was replaced, so the grace
//! begins again after a restart.

use std::collections::BTreeMap;
use std::time::Duration;

use env::sync::Mutex;
use env::{Moment, World};
use storage::FileName;

/// A file that no store has offered for deletion for this long is forgotten. Probably its region is on another server
/// now.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// The files that wait for the end of their grace.
pub(super) struct Grace {
    world: World,
    /// How long a file is kept. Not zero.
    time: Duration,
    waiting: Mutex<BTreeMap<FileName, Waiting>>,
}

/// Since when a file or folder is no longer needed, and when a store last offered it for deletion.
struct Waiting {
    since: Moment,
    offered: Moment,
}

impl Grace {
    pub(super) fn new(world: World, time: Duration) -> Grace {
        Grace { world, time, waiting: Mutex::default() }
    }

    /// Whether the grace of `name` is over. The grace begins with the first call for that name, which returns `false`.
    pub(super) fn is_over(&self, name: &FileName) -> bool {
        let now = self.world.moment();
        let mut waiting = self.waiting.lock();
        let entry = waiting.entry(name.clone()).or_insert(Waiting { since: now, offered: now });
        entry.offered = now;
        now.since(entry.since) >= self.time
    }

    /// Forgets a name that was deleted or is needed after all.
    pub(super) fn forget(&self, name: &FileName) {
        self.waiting.lock().remove(name);
    }

    /// Forgets the names that were not offered for a day.
    pub(super) fn tidy(&self) {
        let now = self.world.moment();
        self.waiting.lock().retain(|_, waiting| now.since(waiting.offered) < FORGOTTEN_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use env::WallTime;

    use super::*;

    #[test]
    fn a_grace_begins_when_a_name_is_first_offered_and_again_after_it_was_needed() {
        let world = World::simulated(1, WallTime(0));
        let (grace, name) = (Grace::new(world.clone(), Duration::from_secs(10)), FileName::new("a"));
        assert!(!grace.is_over(&name));
        world.advance(Duration::from_secs(9));
        assert!(!grace.is_over(&name));
        world.advance(Duration::from_secs(1));
        assert!(grace.is_over(&name) && grace.is_over(&name), "until it is forgotten");
        grace.forget(&name);
        assert!(!grace.is_over(&name));
        world.advance(FORGOTTEN_AFTER);
        grace.tidy();
        assert!(grace.waiting.lock().is_empty() && !grace.is_over(&name));
    }
}
