//! Handlers of calls about procedures, including HBase's older procedures that are named by a signature.

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::pb;
use rpc::{Exception, Reply};

use super::{Handler, answer, now, with, with_end};
use crate::Master;
use crate::error::is_unchecked;
use crate::procedure::locks::{Holders, LockStatus, Resource};
use crate::procedure::{self, Outcome, ProcedureId, ProcedureKind, Summary};

/// How long clients ask for the end of an older procedure that was not awaited, in ms. HBase's value.
const PROCEDURE_TIMEOUT_MS: i64 = 60_000;

/// The user that is shown for a procedure that the master itself has submitted.
const MASTER_USER: &str = "bellows";

pub(super) const HANDLERS: &[(&str, Handler)] = &[
    ("getProcedureResult", |master, call| {
        answer(call.decode().map(|request: pb::GetProcedureResultRequest| procedure_result(master, &request)))
    }),
    ("AbortProcedure", |master, call| {
        with(master, call, |master, request: pb::AbortProcedureRequest| {
            let may_interrupt = request.may_interrupt_if_running();
            let is_procedure_aborted = master.procedures.abort(ProcedureId(request.proc_id), may_interrupt);
            Ok(Reply::of(&pb::AbortProcedureResponse { is_procedure_aborted }))
        })
    }),
    ("GetProcedures", |master, _| {
        let procedure = master.procedures.list().iter().map(described).collect();
        now(&pb::GetProceduresResponse { procedure })
    }),
    // These calls exist in HBase 3 and in Amazon EMR. HBase answers before the procedure has ended, and its shell waits
    // for the end.
    ("RefreshMeta", |master, call| {
        with_end(
            master,
            call,
            |master, _: pb::RefreshMetaRequest| master.refresh(ProcedureKind::RefreshMeta),
            |id| Reply::of(&pb::RefreshMetaResponse { proc_id: Some(id.0) }),
        )
    }),
    ("RefreshHFiles", |master, call| {
        with_end(
            master,
            call,
            |master, _: pb::RefreshHFilesRequest| master.refresh(ProcedureKind::RefreshHfiles),
            |id| Reply::of(&pb::RefreshHFilesResponse { proc_id: Some(id.0) }),
        )
    }),
    ("GetLocks", |master, _| now(&pb::GetLocksResponse { lock: locks(master) })),
    ("ExecProcedure", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::ExecProcedureRequest| master.execute(&request.procedure),
            |_| {
                Reply::of(&pb::ExecProcedureResponse {
                    expected_timeout: Some(PROCEDURE_TIMEOUT_MS),
                    return_data: None,
                })
            },
        )
    }),
    // For an unknown signature HBase answers this call with another exception class.
    ("ExecProcedureWithRet", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::ExecProcedureRequest| {
                master.execute(&request.procedure).map_err(|refused| Exception::io(refused.message))
            },
            |_| Reply::of(&pb::ExecProcedureResponse::default()),
        )
    }),
    ("IsProcedureDone", |master, call| {
        with(master, call, |master, request: pb::IsProcedureDoneRequest| {
            let Some(procedure) = request.procedure else {
                return Err(Exception::do_not_retry("the request names no procedure"));
            };
            let done = master.is_done(&procedure)?;
            Ok(Reply::of(&pb::IsProcedureDoneResponse { done: Some(done), snapshot: Some(procedure) }))
        })
    }),
];

fn procedure_result(master: &Master, request: &pb::GetProcedureResultRequest) -> Reply {
    use pb::get_procedure_result_response::State;
    let mut response = pb::GetProcedureResultResponse { state: State::NotFound as i32, ..Default::default() };
    let id = ProcedureId(request.proc_id);
    match master.procedures.outcome(id) {
        // For this state without an exception HBase's asynchronous client reports success.
        None => response.exception = Some(foreign(procedure::unknown(id))),
        Some(Outcome::Running { submitted }) => {
            response.state = State::Running as i32;
            response.submitted_time = Some(milliseconds(submitted));
            response.last_update = Some(milliseconds(submitted));
        }
        Some(Outcome::Finished { submitted, ended, result }) => {
            master.procedures.note_read(id);
            response.state = State::Finished as i32;
            response.submitted_time = Some(milliseconds(submitted));
            response.last_update = Some(milliseconds(ended));
            match result {
                Ok(result) => response.result = Some(result).filter(|result: &Bytes| !result.is_empty()),
                Err(exception) => response.exception = Some(foreign(exception)),
            }
        }
    }
    Reply::of(&response)
}

/// Encodes a procedure as HBase's message. As in HBase, a procedure that waits for its locks is RUNNABLE and not
/// locked, and a failed procedure is ROLLEDBACK.
fn described(summary: &Summary) -> pb::Procedure {
    use pb::ProcedureState as State;
    let (state, submitted, result, exception) = match &summary.outcome {
        Outcome::Running { submitted } => (State::Runnable, *submitted, None, None),
        Outcome::Finished { submitted, result: Ok(result), .. } => {
            (State::Success, *submitted, Some(result.clone()).filter(|result| !result.is_empty()), None)
        }
        Outcome::Finished { submitted, result: Err(cause), .. } => {
            (State::Rolledback, *submitted, None, Some(foreign(cause.clone())))
        }
    };
    let user = summary.owner.as_deref().unwrap_or(MASTER_USER);
    let state_message = summary.parameters.iter().map(|parameters| parameters.to_message(user));
    pb::Procedure {
        class_name: summary.kind.class_name(),
        proc_id: summary.id.0,
        submitted_time: milliseconds(submitted),
        owner: summary.owner.as_deref().map(str::to_owned),
        state: state as i32,
        last_update: milliseconds(summary.updated),
        exception,
        result,
        nonce_group: summary.nonce.map(|nonce| nonce.group),
        nonce: summary.nonce.map(|nonce| nonce.nonce),
        state_message: state_message.collect(),
        locked: Some(summary.is_locked),
        executed: Some(summary.is_locked || matches!(summary.outcome, Outcome::Finished { .. })),
        ..Default::default()
    }
}

/// Encodes all locks as HBase's messages.
fn locks(master: &Master) -> Vec<pb::LockedResource> {
    // The procedures are read before the locks. So a procedure that is submitted in between has no description yet, and
    // is left out.
    let known: BTreeMap<ProcedureId, pb::Procedure> =
        master.procedures.list().iter().map(|summary| (summary.id, described(summary))).collect();
    let resource = |status: LockStatus| {
        let owner = match &status.holders {
            Some(Holders::Exclusive(id)) => known.get(id).cloned(),
            _ => None,
        };
        let shared = match &status.holders {
            Some(Holders::Shared(ids)) => ids.len(),
            _ => 0,
        };
        let kind = match &status.resource {
            Resource::Namespace(_) => pb::LockedResourceType::Namespace,
            Resource::Table(_) => pb::LockedResourceType::Table,
            Resource::Region(_) => pb::LockedResourceType::Region,
        };
        let mode = if shared > 0 { pb::LockType::Shared } else { pb::LockType::Exclusive };
        pb::LockedResource {
            resource_type: kind as i32,
            resource_name: Some(status.resource.to_string()),
            lock_type: mode as i32,
            exclusive_lock_owner_procedure: owner,
            shared_lock_count: Some(i32::try_from(shared).unwrap_or(i32::MAX)),
            waiting_procedures: status.waiting.iter().filter_map(|(id, _)| known.get(id).cloned()).collect(),
        }
    };
    // A lock without a holder is reserved for a procedure that waits for another lock. Clients only know locks with a
    // holder, so it is left out.
    let held = master.procedures.locks().into_iter().filter(|status| status.holders.is_some());
    held.map(resource).collect()
}

fn milliseconds(time: env::WallTime) -> u64 {
    u64::try_from(time.0).unwrap_or(0)
}

fn foreign(exception: Exception) -> pb::ForeignExceptionMessage {
    // From an unchecked exception the client makes an IOException that has only this message.
    let message = match is_unchecked(&exception) {
        true => exception.text(),
        false => exception.message,
    };
    pb::ForeignExceptionMessage {
        source: Some("master".to_owned()),
        generic_exception: Some(pb::GenericExceptionMessage {
            class_name: Some(exception.class.into_owned()),
            message: Some(message),
            ..Default::default()
        }),
    }
}
