//! `HbckService`: the checks and repairs that HBCK2 and the shell's `hbck_chore_run` ask for.
//!
//! A check compares hbase:meta, the master's view of it, the open regions and their folders. The chore runs a check in
//! each `hbase.master.hbck.chore.interval`. Where possible, a repair is an ordinary procedure. Requests that only make
//! sense with several servers, or with procedures that can get stuck, are refused with the reason.

mod check;
mod folders;
mod repair;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use prost::Message;
use proto::catalog::RegionRow;
use proto::{ServerName, TableName, pb};
use rpc::{Answer, Call, Exception, Reply, Service};

pub use check::{HbckReport, Inconsistency, gaps};

use crate::Master;
use crate::error::of_proto;
use crate::procedure::{Outcome, ProcedureId, acting_for};
use crate::service::user_of;

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

/// Sets a table's state without opening or closing regions. Returns the previous state.
fn set_table_state(master: &Master, request: &pb::SetTableStateInMetaRequest) -> Result<Reply, Exception> {
    let before = master.table_state(&request.table_name)?;
    let name = TableName::try_from(&request.table_name).map_err(of_proto)?;
    let state = request.table_state.state();
    tracing::warn!(table = %name, from = before.as_str_name(), to = state.as_str_name(),
        "hbck sets the state of a table; its regions stay as they are");
    master.set_state(&name, state)?;
    Ok(Reply::of(&pb::GetTableStateResponse { table_state: pb::TableState { state: before as i32 } }))
}

/// Sets regions' states without opening or closing them. Returns the previous states.
fn set_region_states(master: &Master, request: &pb::SetRegionStateInMetaRequest) -> Result<Reply, Exception> {
    // All regions are looked up before the first one is changed, so that an unknown region changes nothing.
    let known = request.states.iter().map(|wanted| Ok((wanted, master.find(&wanted.region_specifier)?)));
    let known: Vec<_> = known.collect::<Result<_, Exception>>()?;
    let mut states = Vec::with_capacity(known.len());
    for (wanted, row) in known {
        let (before, state) = (row.state, wanted.state());
        tracing::warn!(region = %row.region, from = before.as_str_name(), to = state.as_str_name(),
            "hbck sets the state of a region; the region itself stays as it is");
        master.record(RegionRow { state, ..row })?;
        states.push(pb::RegionSpecifierAndState {
            region_specifier: wanted.region_specifier.clone(),
            state: before as i32,
        });
    }
    Ok(Reply::of(&pb::SetRegionStateInMetaResponse { states }))
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
