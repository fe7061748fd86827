//! Retries the opening of regions whose opening failed, and goes on with changes of a schema that some regions do not have.
//!
//! If the opening of a region fails, the start records it as FAILED_OPEN, and all other regions serve. The cause is
//! often temporary, such as a failed read or a store that did not answer. So the chore retries as long as the region is
//! in that state and its table is enabled, with pauses that double up to [`PAUSE_MAX`]. HBase also retries forever.
//!
//! A region that serves with an earlier schema of its table, because a change of the schema failed there, is brought to the
//! newest one with the same pauses, unless a region of its table is FAILED_OPEN: the schema may be the cause, and then no further
//! region may be closed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use env::Moment;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{EncodedName, RegionInfo};
use rpc::Exception;

use crate::procedure::ProcedureKind;
use crate::view::{CatalogView, TableEntry};
use crate::{Inconsistency, Master};

/// The first pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// The maximum pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// When the next attempt is due.
#[derive(Debug, Default)]
pub(crate) struct Reopening {
    /// The last attempt and the pause after it; `None` while there is nothing to retry.
    last: Option<(Moment, Duration)>,
}

/// Stands for the cause of a failed opening that this process does not have any more.
pub(crate) const CAUSE_IS_LOGGED: &str = "its cause is in the log of the server";

/// Returns the rows of the regions of enabled tables whose opening failed.
fn failed_rows(view: &CatalogView) -> impl Iterator<Item = &RegionRow> {
    let enabled = view.tables.values().filter(|table| table.state == TableState::Enabled);
    enabled.flat_map(|table| table.serving()).filter(|row| row.state == RegionState::FailedOpen)
}

/// Returns the regions that are open with an earlier schema, by table, of tables that have no region whose opening failed.
fn outdated_regions(view: &CatalogView) -> Vec<Vec<RegionInfo>> {
    let can_open = |table: &&TableEntry| table.serving().all(|row| row.state != RegionState::FailedOpen);
    let of_table = |table: &TableEntry| table.outdated().map(|row| row.region.clone()).collect::<Vec<_>>();
    let tables = view.tables.values().filter(can_open).map(of_table);
    tables.filter(|regions| !regions.is_empty()).collect()
}

impl Master {
    /// Keeps why the opening of a region failed, for [`failed_regions`](Master::failed_regions).
    pub(crate) fn note_failed_opening(&self, region: &RegionInfo, cause: &Exception) {
        self.failed_openings.lock().insert(region.encoded_name().clone(), cause.message.clone());
    }

    /// Returns the regions of enabled tables whose opening failed, each as an [`Inconsistency::FailedOpen`].
    pub fn failed_regions(&self) -> Vec<Inconsistency> {
        let failed: Vec<RegionInfo> =
            self.read_view(|view| failed_rows(view).map(|row| row.region.clone()).collect());
        // A table that is being enabled reports the causes when it ends.
        let still: BTreeSet<EncodedName> = self.read_view(|view| {
            let rows = view.tables.values().flat_map(TableEntry::serving);
            let failed = rows.filter(|row| row.state == RegionState::FailedOpen);
            failed.map(|row| row.region.encoded_name().clone()).collect()
        });
        let mut causes = self.failed_openings.lock();
        causes.retain(|region, _| still.contains(region));
        let found = failed.iter().map(|region| Inconsistency::FailedOpen {
            region: Box::new(region.clone()),
            cause: causes.get(region.encoded_name()).map_or(CAUSE_IS_LOGGED, String::as_str).to_owned(),
        });
        found.collect()
    }

    /// Submits the opening of every region whose opening failed, and the change of regions with an earlier schema, unless the
    /// pause after the last attempt is not over. While another procedure of its table runs, a region has to wait, which counts
    /// as no attempt.
    pub(crate) fn reopen_failed(self: &Arc<Self>, reopening: &mut Reopening) {
        let (failed, outdated) = self.read_view(|view| {
            let failed: Vec<RegionRow> = failed_rows(view).cloned().collect();
            (failed, outdated_regions(view))
        });
        if failed.is_empty() && outdated.is_empty() {
            reopening.last = None;
            return;
        }
        // The running procedure of a table may take longer than the pause. Nothing is submitted then, so that attempts
        // do not queue up.
        let is_busy = |region: &RegionInfo| self.procedures.is_busy(region.table());
        let failed: Vec<RegionRow> = failed.into_iter().filter(|row| !is_busy(&row.region)).collect();
        let outdated: Vec<Vec<RegionInfo>> =
            outdated.into_iter().filter(|regions| !regions.iter().any(is_busy)).collect();
        if failed.is_empty() && outdated.is_empty() {
            return;
        }
        let now = self.world.moment();
        let pause = match reopening.last {
            Some((last, pause)) if now.since(last) < pause => return,
            Some((_, pause)) => (pause * 2).min(PAUSE_MAX),
            None => PAUSE_MIN,
        };
        reopening.last = Some((now, pause));
        for regions in outdated {
            let table = regions[0].table().clone();
            let changed = regions.clone();
            let submitted =
                self.submit_on_regions(ProcedureKind::Reopen, &regions, None, move |master, context| {
                    context.pass_point_of_no_return()?;
                    master.update_outdated(&changed)
                });
            if let Err(cause) = submitted {
                tracing::warn!(%table, %cause, "regions do not get the schema of their table now; it is tried again");
            }
        }
        for row in failed {
            let table = row.region.table().clone();
            let region = row.region.clone();
            let submitted =
                self.submit_on_regions(ProcedureKind::Reopen, [&region], None, move |master, context| {
                    context.pass_point_of_no_return()?;
                    master.open_after_failure(&row)
                });
            if let Err(cause) = submitted {
                tracing::warn!(%table, %cause, "a region is not opened again now; it is tried again");
            }
        }
    }

    /// Brings those of the regions of a table that still are open with an earlier schema to the newest one.
    fn update_outdated(&self, regions: &[RegionInfo]) -> Result<(), Exception> {
        let known = self.read_view(|view| {
            let table = view.tables.get(regions[0].table())?;
            let outdated: Vec<RegionInfo> = table.outdated().map(|row| row.region.clone()).collect();
            Some((Arc::clone(&table.descriptor), outdated))
        });
        let Some((descriptor, outdated)) = known else { return Ok(()) };
        let left: Vec<&RegionInfo> = outdated.iter().filter(|region| regions.contains(region)).collect();
        self.bring_to_schema(&left, &descriptor)
    }

    /// Opens a region if it still is FAILED_OPEN.
    fn open_after_failure(&self, row: &RegionRow) -> Result<(), Exception> {
        let name = row.region.table();
        let descriptor = self.read_view(|view| {
            let table = view.tables.get(name).filter(|table| table.state == TableState::Enabled)?;
            let mut serving = table.serving();
            let known = serving.find(|known| known.region.name() == row.region.name())?;
            (known.state == RegionState::FailedOpen).then(|| Arc::clone(&table.descriptor))
        });
        let Some(descriptor) = descriptor else { return Ok(()) };
        match self.open(&row.region, &descriptor) {
            Ok(()) => {
                tracing::info!(region = %row.region, "the region is open after all");
                Ok(())
            }
            Err(cause) => {
                tracing::error!(region = %row.region, %cause, "the region could not be opened again; it is tried again");
                Err(cause)
            }
        }
    }
}
