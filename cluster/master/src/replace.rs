//! Splits and merges: other regions take the place of regions over the same rows.
//!
//! A split replaces one region by two, a merge several by one. The steps are the same. Each step has an act, and every
//! act can be repeated. A step is stored before its act begins ([`crate::intents`]), except `Create`: after a crash in it
//! the same follows as after one in `Close`.
//!
//! ```text
//! step      act                                                                after a failure, an abort or a crash
//! Close     flush the parents, make the children's folders, close the parents  Restore
//! Create    write the children's references to the parents' files              Restore
//! Record    change all rows of hbase:meta in one mutation                      Record again; Restore if it was not stored
//! Open      open the children                                                  Open again; a start opens them anyway
//! Restore   open the parents again, drop the children's folders                Restore again
//! ```
//!
//! Until the step `Record` is stored, the rows belong to the parents; from then on they belong to the children. The act
//! of `Restore` begins only after this step is stored. So parents that take writes again can never be replaced by
//! children that lack these writes.
//!
//! A parent's files stay until no child refers to them any more; see [`crate::parents`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::catalog::{RegionRow, RegionState};
use proto::{RegionInfo, ServerName, TableDescriptor, TableName};
use rpc::Exception;

use crate::error::of_storage;
use crate::intents::Intent;
use crate::procedure::Context;
use crate::{Master, table_not_found};

/// A split or a merge that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The regions that give up their rows: one region in a split, several in a merge.
    pub parents: Vec<RegionInfo>,
    /// The regions that take over the rows of the parents.
    pub children: Vec<RegionInfo>,
    /// The step whose act is running or comes next.
    pub step: Step,
}

/// A step of a [`Replacement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Flush and close the parents.
    Close,
    /// Write the children's folders.
    Create,
    /// Change hbase:meta. From this step on the replacement cannot be undone.
    Record,
    /// Open the children.
    Open,
    /// Open the parents again, and delete the children's folders.
    Restore,
}

/// The outcome of a step's act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Done,
    /// The act of the step failed.
    Failed(Repetition),
    /// The step could not be stored, so its act was not begun.
    NotStored(Repetition),
    /// The procedure was aborted before the step was stored.
    Aborted,
    /// The process ended, and the outcome is unknown.
    Interrupted,
}

/// Whether the act of a step may be repeated after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repetition {
    Possible,
    UsedUp,
}

/// The reaction of a replacement to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Step(Step),
    /// Repeats the act.
    Again,
    /// Leaves the step stored, for the next change of the table or the next start.
    Wait,
    End,
}

impl Step {
    /// The text that is stored for each step.
    pub(crate) const NAMES: [(Step, &'static str); 5] = [
        (Step::Close, "close"),
        (Step::Create, "create"),
        (Step::Record, "record"),
        (Step::Open, "open"),
        (Step::Restore, "restore"),
    ];

    fn after(self, event: Event) -> Next {
        use Repetition::{Possible, UsedUp};
        match (self, event) {
            (Step::Close, Event::Done) => Next::Step(Step::Create),
            (Step::Create, Event::Done) => Next::Step(Step::Record),
            (Step::Record, Event::Done) => Next::Step(Step::Open),
            (Step::Open | Step::Restore, Event::Done) => Next::End,
            // The step was not stored, so nothing was done, and the replacement ends.
            (Step::Close, Event::NotStored(_) | Event::Aborted) => Next::End,
            (Step::Close | Step::Create, _) | (Step::Record, Event::Aborted) => Next::Step(Step::Restore),
            (Step::Record, Event::NotStored(UsedUp)) => Next::Step(Step::Restore),
            (Step::Record, Event::Failed(UsedUp)) => Next::Wait,
            (Step::Open | Step::Restore, Event::Failed(UsedUp) | Event::NotStored(UsedUp)) => Next::Wait,
            // No abort is possible from the step `Record` on.
            (Step::Open | Step::Restore, Event::Aborted)
            | (_, Event::Interrupted | Event::Failed(Possible) | Event::NotStored(Possible)) => Next::Again,
        }
    }
}

/// Whether a replacement is carried out during the start of the master or afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// During the master's start: hbase:meta is open, and the start opens all other regions afterwards.
    Start,
    /// After the start, by a procedure.
    Service,
}

impl Replacement {
    /// Returns the table to which all regions belong.
    pub(crate) fn table(&self) -> &TableName {
        self.parents.first().expect("a replacement has a parent").table()
    }

    fn is_split(&self) -> bool {
        self.parents.len() == 1
    }

    fn is_parent(&self, region: &RegionInfo) -> bool {
        self.parents.iter().any(|parent| parent.name() == region.name())
    }

    /// Returns a description for people.
    fn words(&self) -> String {
        let names = |regions: &[RegionInfo]| {
            regions.iter().map(|region| region.encoded_name().to_string()).collect::<Vec<_>>().join(" and ")
        };
        let (parents, children) = (names(&self.parents), names(&self.children));
        let verb = if self.is_split() { "split" } else { "merge" };
        format!("the {verb} of {parents} into {children}")
    }

    /// Returns the first rows of the children in hbase:meta: closed, on no server.
    fn child_rows(&self) -> Vec<RegionRow> {
        let merged_from = if self.is_split() { Vec::new() } else { self.parents.clone() };
        let row = |child: &RegionInfo| RegionRow {
            // As in HBase, clients replace this location by any other, because its sequence number is the smallest.
            open_sequence: Some(1),
            merged_from: merged_from.clone(),
            ..RegionRow::new(child.clone(), RegionState::Closed)
        };
        self.children.iter().map(row).collect()
    }

    /// Returns the row of the parent of a split; `None` for a merge, whose parents no longer have a row.
    fn parent_row(&self) -> Option<RegionRow> {
        let ([parent], [first, second]) = (&self.parents[..], &self.children[..]) else { return None };
        Some(RegionRow {
            daughters: Some(Box::new([first.clone(), second.clone()])),
            ..RegionRow::new(parent.clone().with_marks(true, true), RegionState::Split)
        })
    }
}

impl Master {
    /// Carries out a replacement of regions of an enabled table. No other procedure of the parents or the children runs
    /// meanwhile. It can be aborted until hbase:meta is changed.
    pub(crate) fn replace(
        &self,
        parents: Vec<RegionInfo>,
        children: Vec<RegionInfo>,
        context: &Context,
    ) -> Result<(), Exception> {
        let replacement = Replacement { parents, children, step: Step::Close };
        let left = self.intents.of(replacement.table()).into_iter().find_map(|intent| match intent {
            Intent::Replace(left) if left.parents.iter().any(|parent| replacement.is_parent(parent)) => {
                Some(left)
            }
            _ => None,
        });
        if let Some(waiting) = left {
            return Err(Exception::io(format!("{} waits in step {:?}", waiting.words(), waiting.step)));
        }
        // The locks of the children are taken, too. While the opening of one child is repeated, another child that is
        // open must not be split, moved or truncated.
        if !env::planted(31) {
            context.lock_new(&replacement.children);
        }
        self.carry_out(replacement, None, Phase::Service, Some(context))
    }

    /// Completes a replacement that a crash or an earlier failure has interrupted.
    pub(crate) fn carry_on(&self, replacement: &Replacement, phase: Phase) -> Result<(), Exception> {
        let (step, words) = (replacement.step, replacement.words());
        tracing::info!(?step, "{words} goes on");
        let mut replacement = replacement.clone();
        let mut stored = Some(step);
        if let Next::Step(step) = step.after(Event::Interrupted) {
            replacement.step = step;
            stored = None;
        }
        self.carry_out(replacement, stored, phase, None)
    }

    /// Carries out the steps of `replacement`, from its current step on. The current step is already stored if it
    /// equals `stored`.
    fn carry_out(
        &self,
        mut replacement: Replacement,
        mut stored: Option<Step>,
        phase: Phase,
        context: Option<&Context>,
    ) -> Result<(), Exception> {
        let (mut failures, mut failure) = (0, None);
        let mut times: Vec<String> = Vec::new();
        loop {
            let step = replacement.step;
            let began = self.world.moment();
            let repetition = if failures < self.options.procedures.retries_max {
                Repetition::Possible
            } else {
                Repetition::UsedUp
            };
            let go_on = match (step, context) {
                (Step::Close | Step::Create, Some(context)) => context.check_aborted(),
                (Step::Record, Some(context)) => context.pass_point_of_no_return(),
                _ => Ok(()),
            };
            // A step is stored once. If its act is repeated, it is not stored again. Nor is `Create`: what follows after a
            // crash is the same as in `Close`, and the rows are out of reach while it would be stored.
            let is_stored = stored == Some(step) || (step, stored) == (Step::Create, Some(Step::Close));
            let storing = if is_stored || go_on.is_err() {
                Ok(())
            } else {
                self.intents.begin(Intent::Replace(replacement.clone())).map_err(of_storage)
            };
            let (event, acted) = match storing {
                _ if go_on.is_err() => (Event::Aborted, go_on),
                Err(cause) => (Event::NotStored(repetition), Err(cause)),
                Ok(()) => {
                    stored = stored.filter(|_| is_stored).or(Some(step));
                    match self.act(&replacement, phase) {
                        Ok(()) => (Event::Done, Ok(())),
                        Err(cause) => (Event::Failed(repetition), Err(cause)),
                    }
                }
            };
            if let Err(cause) = &acted {
                let words = replacement.words();
                tracing::warn!(?step, failures, %cause, "{words} met a failure");
            }
            let name = Step::NAMES.iter().find(|(named, _)| *named == step).map_or("", |(_, name)| name);
            times.push(format!("{name} {}", self.world.moment().since(began).as_millis()));
            match (step.after(event), acted) {
                (Next::Step(next), acted) => {
                    failures = 0;
                    replacement.step = next;
                    // The client gets the first failure, not later ones.
                    failure = failure.or(acted.err());
                }
                (Next::Again, _) => {
                    self.pause(failures);
                    failures += 1;
                }
                (Next::Wait, acted) => {
                    let cause = failure.or(acted.err()).expect("it has failed");
                    let (words, table) = (replacement.words(), replacement.table());
                    let message = format!(
                        "{words} waits in step {step:?}; the next change of table {table}, or the next start, carries it \
                         on, and it is tried every ten seconds: {}",
                        cause.message
                    );
                    return Err(Exception { message, ..cause });
                }
                (Next::End, acted) => {
                    let (words, table) = (replacement.words(), replacement.table());
                    tracing::info!(%table, steps_ms = times.join(", "), "{words} has ended");
                    let intent = Intent::Replace(replacement);
                    let ended = match stored {
                        Some(_) => self.intents.end(&intent.key()).map_err(of_storage),
                        None => self.withdraw(&intent),
                    };
                    return failure.or(acted.err()).map_or(ended, Err);
                }
            }
        }
    }

    /// Pauses before a retry: 100 ms after the first failure, doubled with each further one.
    fn pause(&self, failures: u32) {
        let pause = Duration::from_millis(100).saturating_mul(1 << failures.min(10));
        self.world.pause(pause);
    }

    /// Performs the act of the current step.
    fn act(&self, replacement: &Replacement, phase: Phase) -> Result<(), Exception> {
        match (replacement.step, phase) {
            (Step::Close, _) => self.close_parents(replacement),
            (Step::Create, _) => self.create_children(replacement),
            (Step::Record, _) => self.record_replacement(replacement),
            (Step::Open, Phase::Start) => Ok(()),
            (Step::Open, Phase::Service) => self.open_children(replacement),
            (Step::Restore, phase) => {
                if phase == Phase::Service {
                    let table = self.descriptor(replacement.table())?;
                    replacement.parents.iter().try_for_each(|parent| self.open(parent, &table))?;
                }
                let mut folders = replacement.children.iter().map(layout::region_folder);
                folders.try_for_each(|folder| self.regions.drop_folder(folder))
            }
        }
    }

    fn close_parents(&self, replacement: &Replacement) -> Result<(), Exception> {
        // The parents are flushed while they serve. So their closing, during which they do not serve, has little to
        // flush.
        for parent in &replacement.parents {
            self.regions.flush(parent.encoded_name(), &[])?;
        }
        let state = if replacement.is_split() { RegionState::Splitting } else { RegionState::Merging };
        self.update_view(|view| {
            let table = view.tables.get_mut(replacement.table());
            let rows = table.into_iter().flat_map(|table| &mut table.regions);
            rows.filter(|row| replacement.is_parent(&row.region)).for_each(|row| row.state = state);
        });
        // What needs no closed parent is written while the parents serve.
        self.in_parallel(replacement.child_rows(), |row| self.keep_region_info(&row.region))?;
        replacement.parents.iter().try_for_each(|parent| self.regions.close(parent.encoded_name()))
    }

    fn create_children(&self, replacement: &Replacement) -> Result<(), Exception> {
        let table = self.descriptor(replacement.table())?;
        let last = self.server_of_parents(replacement);
        // Nobody can read or write these rows until the children are open, so their folders are written in parallel.
        self.in_parallel(replacement.child_rows(), |row| {
            self.keep_region_info(&row.region)?;
            self.regions.inherit(&row.region, &replacement.parents, &table, last.as_ref())
        })
    }

    fn keep_region_info(&self, region: &RegionInfo) -> Result<(), Exception> {
        layout::keep_region_info(&*self.files, &layout::region_folder(region), region).map_err(of_storage)
    }

    fn record_replacement(&self, replacement: &Replacement) -> Result<(), Exception> {
        let (children, parent) = (replacement.child_rows(), replacement.parent_row());
        let gone: &[RegionInfo] = if parent.is_some() { &[] } else { &replacement.parents };
        self.catalog.replace_regions(children.iter().chain(&parent), gone)?;
        self.update_view(|view| {
            if let Some(table) = view.tables.get_mut(replacement.table()) {
                // The row of the parent of a split stays in hbase:meta, because it may name the regions from which the
                // parent was merged.
                if parent.is_none() {
                    table.regions.retain(|row| !replacement.is_parent(&row.region));
                }
                children.into_iter().chain(parent).for_each(|row| table.update(row));
            }
        });
        Ok(())
    }

    fn open_children(&self, replacement: &Replacement) -> Result<(), Exception> {
        // The table may have been disabled while the children waited. Then they are opened when it is enabled.
        let Ok(table) = self.check_enabled(replacement.table()) else { return Ok(()) };
        let last = self.server_of_parents(replacement);
        let mut rows = replacement.child_rows();
        rows.retain(|row| !self.is_replaced(&row.region));
        self.in_parallel(rows, |row| self.open_on(&row.region, &table, last.as_ref()))
    }

    /// Whether a later replacement has taken the rows of a region, or will decide whether the region is opened. This
    /// can happen to a child that was opened, while its own replacement waits.
    fn is_replaced(&self, region: &RegionInfo) -> bool {
        if env::planted(31) {
            return false;
        }
        let serves = self.read_view(|view| {
            view.region(region.encoded_name()).is_some_and(|row| row.state != RegionState::Split)
        });
        let is_parent = |intent| matches!(intent, Intent::Replace(later) if later.is_parent(region));
        !serves || self.intents.of(region.table()).into_iter().any(is_parent)
    }

    /// Returns the server on which the parents were; `None` if it is not known of any. The children open there, because
    /// the parents' blocks are cached there.
    fn server_of_parents(&self, replacement: &Replacement) -> Option<ServerName> {
        replacement.parents.iter().find_map(|parent| self.last_server(parent))
    }

    fn descriptor(&self, name: &TableName) -> Result<Arc<TableDescriptor>, Exception> {
        self.read_view(|view| view.tables.get(name).map(|table| Arc::clone(&table.descriptor)))
            .ok_or_else(|| table_not_found(name))
    }
}

/// Returns the daughters of a region split at `row`.
pub(crate) fn daughters(
    parent: &RegionInfo,
    row: &Bytes,
    id: proto::RegionId,
) -> Result<Vec<RegionInfo>, proto::Error> {
    let region =
        |start: &Bytes, end: &Bytes| RegionInfo::new(parent.table().clone(), start.clone(), end.clone(), id);
    Ok(vec![region(parent.start_key(), row)?, region(row, parent.end_key())?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_can_be_undone_until_the_catalog_is_changed() {
        use {Event as E, Next as N, Step as S};
        let (once, last) = (Repetition::Possible, Repetition::UsedUp);
        for event in [E::Failed(once), E::Failed(last), E::Interrupted] {
            assert_eq!(S::Close.after(event), N::Step(S::Restore));
            assert_eq!(S::Create.after(event), N::Step(S::Restore));
        }
        for step in [S::Record, S::Open, S::Restore] {
            for event in [E::Interrupted, E::Failed(once), E::NotStored(once)] {
                assert_eq!(step.after(event), N::Again);
            }
        }
        // If a step was not stored, it has not begun.
        assert_eq!(S::Close.after(E::NotStored(last)), N::End);
        assert_eq!(S::Record.after(E::NotStored(last)), N::Step(S::Restore));
        assert_eq!(S::Open.after(E::NotStored(last)), N::Wait);
        let mut way = vec![S::Close];
        while let N::Step(next) = way.last().expect("one").after(E::Done) {
            way.push(next);
        }
        assert_eq!(way, [S::Close, S::Create, S::Record, S::Open]);
        assert_eq!((S::Open.after(E::Done), S::Restore.after(E::Done)), (N::End, N::End));
        assert_eq!((S::Record.after(E::Failed(last)), S::Open.after(E::Failed(last))), (N::Wait, N::Wait));
    }
}
