//! The work that the master does periodically, in one thread. A configuration key sets the period of each chore. No chore may
//! wait for a procedure, because no other chore runs meanwhile.

use std::sync::{Arc, Weak};
use std::time::Duration;

use env::{Moment, Priority};
use rpc::Exception;

use crate::Master;
use crate::error::of_storage;
use crate::procedure::ProcedureKind;
use crate::reopen::Reopening;
use crate::selection::Selection;
use crate::switches::Switch;

/// Time between two checks which chores are due. Each check also completes unfinished changes.
const CHORE_PERIOD: Duration = Duration::from_secs(10);

/// When a chore is due.
enum Schedule {
    /// At each check.
    Always,
    /// Once in each period. The first period begins when the chores' thread starts. With a period of zero the chore is
    /// never due.
    Every { period: Duration, last: Moment },
}

impl Schedule {
    /// Whether the chore is due. If it is, it counts as done now.
    fn is_due(&mut self, now: Moment) -> bool {
        match self {
            Schedule::Always => true,
            Schedule::Every { period, last } => {
                let due = !period.is_zero() && now.since(*last) >= *period;
                if due {
                    *last = now;
                }
                due
            }
        }
    }
}

/// A task that is repeated for a target.
struct Chore<T> {
    /// What is not done when the task fails, for the log.
    failure: &'static str,
    schedule: Schedule,
    work: Work<T>,
}

/// The work of a chore. An error is logged.
type Work<T> = Box<dyn FnMut(&T) -> Result<(), Exception> + Send>;

/// A chore of the master.
type MasterChore = Chore<Arc<Master>>;

impl<T> Chore<T> {
    fn new(
        failure: &'static str,
        schedule: Schedule,
        work: impl FnMut(&T) -> Result<(), Exception> + Send + 'static,
    ) -> Chore<T> {
        Chore { failure, schedule, work: Box::new(work) }
    }

    /// Does the work if it is due. Neither an error nor a panic ends the thread, because no other one does the chores.
    fn run(&mut self, target: &T, now: Moment) {
        if !self.schedule.is_due(now) {
            return;
        }
        match env::caught(|| (self.work)(target)) {
            Ok(Ok(())) => {}
            Ok(Err(cause)) => tracing::warn!(%cause, "{}; it is tried again", self.failure),
            Err(words) => tracing::error!(
                words,
                "an invariant is broken: {}; it is tried again when the chore is next due",
                self.failure
            ),
        }
    }
}

impl Master {
    /// Starts the thread of the chores. It ends when the master stops or is dropped. The chores delete unneeded parents
    /// of splits and merges (`hbase.catalogjanitor.interval`), expired snapshots and what is left of taking snapshots
    /// (`hbase.master.cleaner.snapshot.interval`), normalize tables (`hbase.normalizer.period`), check the catalog
    /// (`hbase.master.hbck.chore.interval`), request compactions of MOB families (`hbase.mob.compaction.chore.period`),
    /// open regions that could not be opened, and complete changes that an earlier failure has interrupted.
    pub fn start_chores(self: &Arc<Self>) -> std::io::Result<()> {
        let master: Weak<Master> = Arc::downgrade(self);
        let mut chores = self.chores();
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
                let now = master.world.moment();
                for chore in &mut chores {
                    chore.run(&master, now);
                }
            }
        };
        env::spawn_thread("master-chore", Priority::Background, body).map(drop)
    }

    /// Returns all chores, in the order in which they are done.
    fn chores(&self) -> Vec<MasterChore> {
        let (now, options) = (self.world.moment(), &self.options);
        let schedule = |period| Schedule::Every { period, last: now };
        let mut reopening = Reopening::default();
        vec![
            MasterChore::new("unfinished changes are not carried on", Schedule::Always, |master| {
                master.carry_on_what_waits();
                Ok(())
            }),
            MasterChore::new("regions are not opened again", Schedule::Always, move |master| {
                master.reopen_failed(&mut reopening);
                Ok(())
            }),
            MasterChore::new(
                "expired snapshots were not deleted",
                schedule(options.snapshot_cleaner_period),
                |master| master.delete_expired_snapshots().map(drop),
            ),
            MasterChore::new(
                "what is left of taking snapshots was not deleted",
                schedule(options.snapshot_cleaner_period),
                |master| master.discard_running_snapshots().map_err(of_storage),
            ),
            MasterChore::new("the catalog was not checked", schedule(options.check_period), |master| {
                master.run_hbck().map(drop)
            }),
            MasterChore::new("no table is normalized", schedule(options.normalizer.period), |master| {
                master.normalize(&Selection::of_users(), false).map(drop)
            }),
            MasterChore::new("no table is normalized", Schedule::Always, |master| {
                master.run_normalizer();
                Ok(())
            }),
            MasterChore::new(
                "parents of splits and merges were not collected",
                schedule(options.parents_period),
                |master| match master.switches.is_on(Switch::CatalogJanitor) {
                    true => master.submit_collections(),
                    false => Ok(()),
                },
            ),
            MasterChore::new(
                "no compaction of MOB families is requested",
                schedule(options.mob_compaction_period),
                |master| {
                    master.compact_mob_families();
                    Ok(())
                },
            ),
        ]
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
    use env::sync::Mutex;
    use env::{WallTime, World};

    use super::*;

    #[test]
    fn a_chore_is_due_once_in_a_period_and_never_without_one() {
        let world = World::simulated(1, WallTime(0));
        let last = world.moment();
        let mut weekly = Schedule::Every { period: Duration::from_secs(7), last };
        let mut never = Schedule::Every { period: Duration::ZERO, last };
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

    #[test]
    fn a_chore_that_panics_or_fails_stops_neither_the_others_nor_itself() {
        let done = |name: &'static str| move |done: &Mutex<Vec<&'static str>>| done.lock().push(name);
        let panics = {
            let done = done("panics");
            move |log: &Mutex<Vec<&'static str>>| -> Result<(), Exception> {
                done(log);
                panic!("a planted panic")
            }
        };
        let fails = move |log: &Mutex<Vec<&'static str>>| {
            done("fails")(log);
            Err(Exception::io("a planted failure"))
        };
        let works = move |log: &Mutex<Vec<&'static str>>| {
            done("works")(log);
            Ok(())
        };
        let mut chores = [
            Chore::new("the first is not done", Schedule::Always, panics),
            Chore::new("the second is not done", Schedule::Always, fails),
            Chore::new("the third is not done", Schedule::Always, works),
        ];
        let log = Mutex::new(Vec::new());
        let world = World::simulated(1, WallTime(0));
        for _ in 0..2 {
            chores.iter_mut().for_each(|chore| chore.run(&log, world.moment()));
        }
        assert_eq!(*log.lock(), ["panics", "fails", "works", "panics", "fails", "works"]);
    }
}
