//! Retries the opening of regions whose opening failed.
//!
//! If the opening of a region fails, the start records it as FAILED_OPEN, and all other regions serve. The cause is
//! often temporary, such as a failed read or a store that did not answer. So the chore retries as long as the region is
//! in that state and its table is enabled, with pauses that double up to [`PAUSE_MAX`]. HBase also retries forever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use env::Moment;
use proto::RegionInfo;
use proto::catalog::{RegionRow, RegionState, TableState};
use rpc::Exception;

use crate::procedure::ProcedureKind;
use crate::view::CatalogView;
use crate::{Inconsistency, Master};

/// The first pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// The maximum pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// When the next attempt is due.
#[derive(Debug, Default)]
pub(crate) struct Reopening {
    /// The last attempt and the pause after it; `None` while no region of an enabled table is FAILED_OPEN.
    last: Option<(Moment, Duration)>,
}

/// Returns the rows of the regions of enabled tables whose opening failed.
fn failed_rows(view: &CatalogView) -> impl Iterator<Item = &RegionRow> {
    let enabled = view.tables.values().filter(|table| table.state == TableState::Enabled);
    enabled.flat_map(|table| table.serving()).filter(|row| row.state == RegionState::FailedOpen)
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
        let mut causes = self.failed_openings.lock();
        let names: BTreeSet<_> = failed.iter().map(RegionInfo::encoded_name).collect();
        causes.retain(|region, _| names.contains(region));
        let found = failed.iter().map(|region| Inconsistency::FailedOpen {
            region: Box::new(region.clone()),
            cause: causes
                .get(region.encoded_name())
                .map_or("its cause is in the log of the server", String::as_str)
                .to_owned(),
        });
        found.collect()
    }

    /// Submits the opening of every region whose opening failed, unless the pause after the last attempt is not over.
    /// While another procedure of its table runs, a region has to wait, which counts as no attempt.
    pub(crate) fn reopen_failed(self: &Arc<Self>, reopening: &mut Reopening) {
        let failed: Vec<RegionRow> = self.read_view(|view| failed_rows(view).cloned().collect());
        if failed.is_empty() {
            reopening.last = None;
            return;
        }
        // The running procedure of a table may take longer than the pause. Nothing is submitted then, so that attempts
        // do not queue up.
        let failed: Vec<RegionRow> =
            failed.into_iter().filter(|row| !self.procedures.is_busy(row.region.table())).collect();
        if failed.is_empty() {
            return;
        }
        let now = self.world.moment();
        let pause = match reopening.last {
            Some((last, pause)) if now.since(last) < pause => return,
            Some((_, pause)) => (pause * 2).min(PAUSE_MAX),
            None => PAUSE_MIN,
        };
        reopening.last = Some((now, pause));
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
