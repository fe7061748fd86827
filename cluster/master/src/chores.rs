//! The work that the master does periodically, in one thread. A configuration key sets the period of each chore.

use std::sync::{Arc, Weak};
use std::time::Duration;

use env::{Moment, Priority};

use crate::Master;
use crate::procedure::ProcedureKind;
use crate::reopen::Reopening;
use crate::selection::Selection;
use crate::switches::Switch;

/// Time between two checks which chores are due. Each check also completes unfinished changes.
const CHORE_PERIOD: Duration = Duration::from_secs(10);

/// When a chore is due: once in each period. The first period begins when the chores' thread starts.
struct Schedule {
    period: Duration,
    last: Moment,
}

impl Schedule {
    fn new(period: Duration, now: Moment) -> Schedule {
        Schedule { period, last: now }
    }

    /// Whether the chore is due. If it is, it counts as done now. With a period of zero a chore is never due.
    fn is_due(&mut self, now: Moment) -> bool {
        let due = !self.period.is_zero() && now.since(self.last) >= self.period;
        if due {
            self.last = now;
        }
        due
    }
}

impl Master {
    /// Starts the thread of the chores. It ends when the master stops or is dropped. The chores delete unneeded parents
    /// of splits and merges (`hbase.catalogjanitor.interval`) and expired snapshots
    /// (`hbase.master.cleaner.snapshot.interval`), normalize tables (`hbase.normalizer.period`), check the catalog
    /// (`hbase.master.hbck.chore.interval`), request compactions of MOB families (`hbase.mob.compaction.chore.period`),
    /// open regions that could not be opened, and complete changes that an earlier failure has interrupted.
    pub fn start_chores(self: &Arc<Self>) -> std::io::Result<()> {
        let master: Weak<Master> = Arc::downgrade(self);
        let (now, options) = (self.world.moment(), &self.options);
        let schedule = |period| Schedule::new(period, now);
        let mut reopening = Reopening::default();
        let mut snapshots = schedule(options.snapshot_cleaner_period);
        let mut check = schedule(options.check_period);
        let mut normalizer = schedule(options.normalizer.period);
        let mut parents = schedule(options.parents_period);
        let mut mob = schedule(options.mob_compaction_period);
        let body = move || {
            while let Some(master) = master.upgrade() {
                {
                    let mut stopping = master.stopping.lock();
                    if !*stopping && !master.normalizer.lock().has_tables() {
                        master.stopped.wait_for(&mut stopping, CHORE_PERIOD);
                    }
                    if *stopping {
                        return;
                    }
                }
                master.carry_on_what_waits();
                master.reopen_failed(&mut reopening);
                let now = master.world.moment();
                if snapshots.is_due(now)
                    && let Err(cause) = master.delete_expired_snapshots()
                {
                    tracing::warn!(%cause, "expired snapshots were not deleted; it is tried again");
                }
                if check.is_due(now)
                    && let Err(cause) = master.run_hbck()
                {
                    tracing::warn!(%cause, "the catalog was not checked; it is tried again");
                }
                if normalizer.is_due(now)
                    && let Err(cause) = master.normalize(&Selection::of_users(), false)
                {
                    tracing::warn!(%cause, "no table is normalized; it is tried again");
                }
                master.run_normalizer();
                if master.switches.is_on(Switch::CatalogJanitor)
                    && parents.is_due(now)
                    && let Err(cause) = master.collect_parents()
                {
                    tracing::warn!(%cause, "parents of splits and merges were not collected; it is tried again");
                }
                if mob.is_due(now) {
                    master.compact_mob_families();
                }
            }
        };
        env::spawn_thread("master-chore", Priority::Background, body).map(drop)
    }

    /// Submits a procedure without a change for each table that has an unfinished change and no procedure. The
    /// unfinished change is then completed, because every procedure of a table does that first.
    /// Creations that failed and could not be undone are undone now. Namespaces in doubt are settled.
    pub(crate) fn carry_on_what_waits(self: &Arc<Self>) {
        if let Err(cause) = self.take_back_failed() {
            tracing::warn!(%cause, "what is left of a failed creation is not removed; it is tried again");
        }
        self.settle_namespaces();
        let mut waiting = self.left_out.lock().clone();
        waiting.extend(self.in_doubt.lock().iter().cloned());
        waiting.extend(self.intents.all().iter().map(|intent| intent.table().clone()));
        for table in waiting {
            if self.procedures.is_busy(&table) {
                continue;
            }
            if let Err(cause) = self.submit(ProcedureKind::CarryOn, &table, None, |_, _| Ok(())) {
                tracing::warn!(%table, %cause, "an unfinished change is not carried on; it is tried again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use env::{WallTime, World};

    use super::*;

    #[test]
    fn a_chore_is_due_once_in_a_period_and_never_without_one() {
        let world = World::simulated(1, WallTime(0));
        let mut weekly = Schedule::new(Duration::from_secs(7), world.moment());
        let mut never = Schedule::new(Duration::ZERO, world.moment());
        assert!(!weekly.is_due(world.moment()));
        world.advance(Duration::from_secs(7));
        assert!(weekly.is_due(world.moment()));
        assert!(!weekly.is_due(world.moment()), "it was just done");
        world.advance(Duration::from_secs(6));
        assert!(!weekly.is_due(world.moment()));
        world.advance(Duration::from_secs(1));
        assert!(weekly.is_due(world.moment()));
        assert!(!never.is_due(world.moment()));
    }
}
