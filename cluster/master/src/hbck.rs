//! `HbckService`: the checks and repairs that HBCK2 and the shell's `hbck_chore_run` ask for.
//!
//! A check compares hbase:meta, the master's view of it, the open regions and their folders. The chore runs a check in
//! each `hbase.master.hbck.chore.interval`. Where possible, a repair is an ordinary procedure. Requests that only make
//! sense with several servers, or with procedures that can get stuck, are refused with the reason.

mod check;
mod folders;
mod repair;

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use prost::Message;
use proto::catalog::{RegionRow, RegionState};
use proto::{RegionInfo, ServerName, TableName, pb};
use rpc::{Answer, Call, Exception, Reply, Service, class};

pub use check::{HbckReport, Inconsistency, gaps};

use crate::error::of_proto;
use crate::procedure::{Outcome, ProcedureId, ProcedureKind, acting_for};
use crate::service::user_of;
use crate::{Master, table_not_found};

/// The id by which HBase reports that there is no procedure: -1.
const NO_PROCEDURE: u64 = u64::MAX;

/// Answers the calls of `HbckService`.
#[derive(Debug)]
pub struct HbckService {
    master: Arc<Master>,
}

impl HbckService {
    /// Creates the service of `master`.
    pub fn new(master: Arc<Master>) -> HbckService {
        HbckService { master }
    }

    /// Decodes the parameter, and calls the handler on the blocking thread pool.
    fn with<M: Message + Default + 'static>(
        &self,
        call: &Call,
        act: impl FnOnce(&Arc<Master>, M) -> Result<Reply, Exception> + Send + 'static,
    ) -> Answer {
        match call.decode::<M>() {
            Ok(request) => {
                let (master, user) = (Arc::clone(&self.master), user_of(call));
                Answer::later(env::blocking(move || acting_for(user, || act(&master, request))))
            }
            Err(exception) => exception.into(),
        }
    }
}

impl Service for HbckService {
    fn call(&self, call: Call) -> Answer {
        if let Err(wait) = self.master.check_started() {
            return wait.into();
        }
        if self.master.is_mirror.load(Ordering::Acquire) {
            return Exception::do_not_retry(crate::service::READ_ONLY).into();
        }
        match call.method.as_str() {
            "RunHbckChore" => self.with(&call, |master, _: pb::RunHbckChoreRequest| {
                master.run_hbck()?;
                Ok(Reply::of(&pb::RunHbckChoreResponse { ran: true }))
            }),
            "FixMeta" => self.with(&call, |master, _: pb::FixMetaRequest| {
                master.fix_meta()?;
                Ok(Reply::of(&pb::FixMetaResponse {}))
            }),
            "SetTableStateInMeta" => self.with(&call, |master, request| set_table_state(master, &request)),
            "SetRegionStateInMeta" => self.with(&call, |master, request| set_region_states(master, &request)),
            "Assigns" => self.with(&call, |master, request: pb::AssignsRequest| {
                let pid = each(&request.region, |region| master.assign_region(region))?;
                Ok(Reply::of(&pb::AssignsResponse { pid }))
            }),
            "Unassigns" => self.with(&call, |master, request: pb::UnassignsRequest| {
                let pid = each(&request.region, |region| master.unassign_region(region))?;
                Ok(Reply::of(&pb::UnassignsResponse { pid }))
            }),
            "BypassProcedure" => self.with(&call, |master, request| bypass(master, &request)),
            "ScheduleServerCrashProcedure" => {
                self.with(&call, |master, request| schedule_crashes(master, &request))
            }
            "ScheduleSCPsForUnknownServers" => {
                // The catalog names no other server: at its start, this server writes its own name into every row.
                let none = pb::ScheduleScPsForUnknownServersResponse { pid: Vec::new() };
                Ok(Reply::of(&none)).into()
            }
            method => Exception::unknown_method("HbckService", method).into(),
        }
    }
}

/// Submits a procedure for each region and returns their ids. As in HBase 2.6, an unknown region has no id in the
/// answer, and is no error.
fn each(
    regions: &[pb::RegionSpecifier],
    submit: impl Fn(&pb::RegionSpecifier) -> Result<ProcedureId, Exception>,
) -> Result<Vec<u64>, Exception> {
    let id = |region| match submit(region) {
        Ok(id) => Some(Ok(id.0)),
        Err(exception) if exception.class == rpc::class::UNKNOWN_REGION => None,
        Err(exception) => Some(Err(exception)),
    };
    regions.iter().filter_map(id).collect()
}

/// Sets a table's state without opening or closing regions, as HBase does, and returns the previous state. Other changes of
/// the table wait. Regions of a table that is DISABLED by this serve on until they are unassigned, or the table is dropped, truncated
/// or restored.
fn set_table_state(
    master: &Arc<Master>,
    request: &pb::SetTableStateInMetaRequest,
) -> Result<Reply, Exception> {
    master.table_state(&request.table_name)?;
    let name = TableName::try_from(&request.table_name).map_err(of_proto)?;
    let (state, table) = (request.table_state.state(), name.clone());
    let before = awaited(master, |told| {
        master.submit(ProcedureKind::SetState, &name, None, move |master, _| {
            let before = master.read_view(|view| view.tables.get(&table).map(|table| table.state));
            let before = before.ok_or_else(|| table_not_found(&table))?;
            tracing::warn!(%table, from = before.as_str_name(), to = state.as_str_name(),
                "hbck sets the state of a table; its regions stay as they are: assign or unassign them");
            master.set_state(&table, state)?;
            // If this master ends, nobody waits for the answer any more, and the send fails.
            let _ended = told.send(before);
            Ok(())
        })
    })?;
    Ok(Reply::of(&pb::GetTableStateResponse { table_state: pb::TableState { state: before as i32 } }))
}

/// Sets regions' states without opening or closing them. Returns the previous states.
fn set_region_states(
    master: &Arc<Master>,
    request: &pb::SetRegionStateInMetaRequest,
) -> Result<Reply, Exception> {
    // All regions are looked up before the first one is changed, so that an unknown region changes nothing.
    let known = request.states.iter().map(|wanted| Ok((wanted, master.find(&wanted.region_specifier)?)));
    let known: Vec<_> = known.collect::<Result<_, Exception>>()?;
    let mut states = Vec::with_capacity(known.len());
    for (wanted, row) in known {
        let (region, state) = (row.region, wanted.state());
        let before = awaited(master, |told| {
            let changed = region.clone();
            master.submit_on_regions(ProcedureKind::SetState, [&region], None, move |master, context| {
                context.pass_point_of_no_return()?;
                let _ended = told.send(set_region_state(master, &changed, state)?);
                Ok(())
            })
        })?;
        states.push(pb::RegionSpecifierAndState {
            region_specifier: wanted.region_specifier.clone(),
            state: before as i32,
        });
    }
    Ok(Reply::of(&pb::SetRegionStateInMetaResponse { states }))
}

/// Sets the state of a region and returns the previous one. Writes that column only, and only if hbase:meta has the region
/// as the master knows it. The caller has the lock of the region, so no split or merge takes its rows meanwhile.
fn set_region_state(
    master: &Master,
    region: &RegionInfo,
    state: RegionState,
) -> Result<RegionState, Exception> {
    let row = master.read_view(|view| view.region(region.encoded_name()).cloned());
    let row = row.ok_or_else(|| Exception::new(class::UNKNOWN_REGION, region.to_string()))?;
    if row.region.is_split() || row.daughters.is_some() {
        return Err(Exception::do_not_retry(format!(
            "region {region} was split, and its daughters have its rows: its state stays {}; set the states of its daughters",
            row.state.as_str_name()
        )));
    }
    if !region.is_meta() {
        let mut content = master.catalog.read().map_err(|error| Exception::io(error.to_string()))?;
        let rows = content.regions.remove(region.table()).unwrap_or_default();
        let found = rows.into_iter().find(|found| found.region.name() == region.name());
        if found.is_none_or(|found| found.region != row.region || found.daughters != row.daughters) {
            return Err(Exception::do_not_retry(format!(
                "hbase:meta has no row of region {region}, or another one than this master knows, so no state is written to it; \
                 run hbck_chore_run, and fixMeta if that names the region"
            )));
        }
        let written = master.catalog.put_region_state(&row, state);
        written.map_err(|cause| master.note_doubt(region.table(), cause))?;
    }
    let before = row.state;
    tracing::warn!(%region, from = before.as_str_name(), to = state.as_str_name(),
        "hbck sets the state of a region; the region itself stays as it is");
    master.update_view(|view| {
        view.tables.get_mut(region.table()).map(|table| table.update(RegionRow { state, ..row }))
    });
    Ok(before)
}

/// Submits a procedure that sends its answer, and waits for that.
fn awaited<T>(
    master: &Master,
    submit: impl FnOnce(mpsc::Sender<T>) -> Result<ProcedureId, Exception>,
) -> Result<T, Exception> {
    let (sender, answer) = mpsc::channel();
    let id = submit(sender)?;
    master.procedures.wait(id).unwrap_or(Ok(Bytes::new()))?;
    answer.try_recv().map_err(|_| crate::procedure::unknown(id))
}

/// Answers a request to bypass procedures. As in HBase, a procedure that has ended or is unknown is not bypassed, and a
/// waiting time of 0 ms is refused. Unlike in HBase, a running procedure is refused, too.
fn bypass(master: &Master, request: &pb::BypassProcedureRequest) -> Result<Reply, Exception> {
    for id in &request.proc_id {
        if request.wait_time() == 0 {
            return Err(Exception::io(format!(
                "the time to wait for the lock of procedure {id} is 0 ms, expected at least 1"
            )));
        }
        if let Some(Outcome::Running { .. }) = master.procedures.outcome(ProcedureId(*id)) {
            return Err(Exception::do_not_retry(format!(
                "procedure {id} runs and cannot be bypassed: it ends by itself, with an exception if it cannot do its work; \
                 getProcedureResult tells its end"
            )));
        }
    }
    let bypassed = vec![false; request.proc_id.len()];
    Ok(Reply::of(&pb::BypassProcedureResponse { bypassed }))
}

/// Answers a request for procedures that recover crashed servers; none is begun. A live server is refused. A dead
/// server, such as an earlier run of this one, needs no recovery, because the start has replayed its log.
fn schedule_crashes(
    master: &Master,
    request: &pb::ScheduleServerCrashProcedureRequest,
) -> Result<Reply, Exception> {
    let live = master.regions.live();
    for name in &request.server_name {
        let name = ServerName::try_from(name).map_err(of_proto)?;
        if live.contains(&name) {
            return Err(Exception::do_not_retry(format!(
                "{name} lives and serves: a crash procedure is for a dead server; \
                 stop the server, and its next start replays the log"
            )));
        }
        tracing::info!(server = %name, "hbck asks for a crash procedure; the server has nothing left to recover");
    }
    let pid = vec![NO_PROCEDURE; request.server_name.len()];
    Ok(Reply::of(&pb::ScheduleServerCrashProcedureResponse { pid }))
}
