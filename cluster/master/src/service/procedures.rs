//! Calls about procedures: those that clients poll, and those of the older kind.

use bytes::Bytes;
use proto::pb;
use rpc::{Exception, Reply};

use super::{Handler, answer, now, with, with_end};
use crate::Master;
use crate::procedure::{Outcome, ProcedureId};

/// How long clients poll a procedure of the older kind whose answer was not held to its end, in ms. HBase's number.
const PROCEDURE_TIMEOUT_MS: i64 = 60_000;

pub(super) const HANDLERS: &[(&str, Handler)] = &[
    ("getProcedureResult", |master, call| {
        answer(call.decode().map(|request: pb::GetProcedureResultRequest| procedure_result(master, &request)))
    }),
    ("AbortProcedure", |_, _| now(&pb::AbortProcedureResponse { is_procedure_aborted: false })),
    ("GetProcedures", |_, _| now(&pb::GetProceduresResponse { procedure: Vec::new() })),
    ("GetLocks", |_, _| now(&pb::GetLocksResponse { lock: Vec::new() })),
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
    // HBase has another class for a signature that is not known here.
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
    let milliseconds = |time: env::WallTime| u64::try_from(time.0).ok();
    let mut response = pb::GetProcedureResultResponse { state: State::NotFound as i32, ..Default::default() };
    match master.procedures.outcome(ProcedureId(request.proc_id)) {
        None => {}
        Some(Outcome::Running { submitted }) => {
            response.state = State::Running as i32;
            response.submitted_time = milliseconds(submitted);
            response.last_update = milliseconds(submitted);
        }
        Some(Outcome::Finished { submitted, ended, result }) => {
            response.state = State::Finished as i32;
            response.submitted_time = milliseconds(submitted);
            response.last_update = milliseconds(ended);
            match result {
                Ok(result) => response.result = Some(result).filter(|result: &Bytes| !result.is_empty()),
                Err(exception) => {
                    response.exception = Some(pb::ForeignExceptionMessage {
                        source: Some("master".to_owned()),
                        generic_exception: Some(pb::GenericExceptionMessage {
                            class_name: Some(exception.class.into_owned()),
                            message: Some(exception.message),
                            ..Default::default()
                        }),
                    });
                }
            }
        }
    }
    Reply::of(&response)
}
