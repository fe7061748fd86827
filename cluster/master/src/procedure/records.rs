//! The stored records of procedures, by which a master knows the ids and nonces that an earlier master gave out.
//!
//! A procedure that a client submits has a record before its first step. The record gets the outcome before the
//! procedure releases its locks and before a client can read the outcome. Work of the master itself has no record, and
//! neither has a procedure whose id no client gets, such as a move.
//!
//! One small object has all records, and the master is its only writer ([`OwnedObject`](crate::owned_object)). A write
//! stores the records of all procedures that began or ended since the last write. Records are deleted together with
//! the outcomes that the master keeps. The object has at most [`ENDED_MAX`] records of ended procedures, the newest.
//!
//! The object is a sequence of delimited messages:
//!
//! ```text
//! NameBytesPair{"written", number of the write 8B}
//! NameBytesPair{"last", highest id that was given out 8B}
//! for each procedure, by id:
//!     Procedure                        HBase's message
//!     NameBytesPair{target, before}    no states once the procedure has ended
//!     NameBytesPair{"after", after}    no value if the state after the change is not known in advance
//! ```
//!
//! The state in the message `Procedure` is RUNNABLE, SUCCESS, FAILED, or ROLLEDBACK for an interrupted procedure that a
//! client may repeat with its nonce.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use env::WallTime;
use prost::Message;
use proto::pb;
use rpc::Exception;

use super::{NonceKey, ProcedureId, ProcedureKind};
use crate::owned_object::{Content, decode_number, encode_number};

/// Maximum number of ended procedures whose records are stored. A master keeps more outcomes in memory.
pub const ENDED_MAX: usize = 1_000;
/// Maximum length of a stored exception's message, in bytes.
const MESSAGE_BYTES_MAX: usize = 4_000;

/// The name of the message that has the number of a write.
const WRITTEN: &str = "written";
/// The name of the message that has the highest id.
const LAST: &str = "last";
/// The name of the message that has the state after the change.
const AFTER: &str = "after";
/// What is decoded, for errors.
const WHAT: &str = "record of a procedure";

/// What a procedure changes, and how the change shows. A start compares these states with the one that it finds, and so
/// decides whether an interrupted procedure has made its change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcedureTarget {
    /// The name of the table, namespace or snapshot, or the encoded name of the region.
    pub name: String,
    /// The state when the procedure was submitted. Empty if the thing did not exist.
    pub before: Bytes,
    /// The state after the change. `None` if it is not known in advance: then every other state than `before` and the
    /// empty one shows that the change was made.
    pub after: Option<Bytes>,
}

/// The end of a recorded procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEnd {
    /// When the procedure ended.
    pub ended: WallTime,
    /// The result of the procedure, or why it failed.
    pub result: Result<Bytes, Exception>,
    /// Whether a crash interrupted the procedure before its change. Then a client may repeat it with its nonce.
    pub is_interrupted: bool,
}

/// The record of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcedureRecord {
    /// The id of the procedure.
    pub id: ProcedureId,
    /// What the procedure does.
    pub kind: ProcedureKind,
    /// What the procedure changes. A procedure that has ended has only the name.
    pub target: ProcedureTarget,
    /// The user who submitted the procedure.
    pub owner: Option<Arc<str>>,
    /// The nonce by which a repeated submission is recognized.
    pub nonce: Option<NonceKey>,
    /// When the procedure was submitted.
    pub submitted: WallTime,
    /// How the procedure ended; `None` if it has not.
    pub end: Option<RecordedEnd>,
}

impl ProcedureRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        use pb::ProcedureState as State;
        let milliseconds = |time: WallTime| u64::try_from(time.0).unwrap_or(0);
        let (state, result, exception) = match &self.end {
            None => (State::Runnable, None, None),
            Some(RecordedEnd { result: Ok(result), .. }) => (State::Success, Some(result.clone()), None),
            Some(RecordedEnd { result: Err(cause), is_interrupted, .. }) => {
                let state = if *is_interrupted { State::Rolledback } else { State::Failed };
                (state, None, Some(encode_exception(cause)))
            }
        };
        let message = pb::Procedure {
            class_name: self.kind.class_name(),
            proc_id: self.id.0,
            submitted_time: milliseconds(self.submitted),
            owner: self.owner.as_deref().map(str::to_owned),
            state: state as i32,
            last_update: milliseconds(self.end.as_ref().map_or(self.submitted, |end| end.ended)),
            exception,
            result,
            nonce_group: self.nonce.map(|nonce| nonce.group),
            nonce: self.nonce.map(|nonce| nonce.nonce),
            ..Default::default()
        };
        put(out, &message);
        let ProcedureTarget { name, before, after } = self.target.clone();
        put(out, &pb::NameBytesPair { name, value: Some(before) });
        put(out, &pb::NameBytesPair { name: AFTER.into(), value: after });
    }

    /// Returns the first record of `bytes`; `None` if a later version wrote it, for a kind that this one does not know.
    fn decode(bytes: &mut Bytes) -> Result<Option<ProcedureRecord>, proto::Error> {
        use pb::ProcedureState as State;
        let message: pb::Procedure = next(bytes)?;
        let (before, after): (pb::NameBytesPair, pb::NameBytesPair) = (next(bytes)?, next(bytes)?);
        let Some(kind) = ProcedureKind::of_recorded_class(&message.class_name) else { return Ok(None) };
        let time = |milliseconds: u64| WallTime(i64::try_from(milliseconds).unwrap_or(i64::MAX));
        let ended = time(message.last_update);
        let state = State::try_from(message.state).ok();
        let end = match state {
            Some(State::Runnable) => None,
            Some(State::Success) => {
                let result = Ok(message.result.clone().unwrap_or_default());
                Some(RecordedEnd { ended, result, is_interrupted: false })
            }
            Some(State::Failed | State::Rolledback) => {
                let result = Err(decode_exception(message.exception.clone().unwrap_or_default()));
                Some(RecordedEnd { ended, result, is_interrupted: state == Some(State::Rolledback) })
            }
            _ => {
                let found = format!("of procedure {} in state {}", message.proc_id, message.state);
                return Err(proto::Error::Malformed { what: WHAT, found });
            }
        };
        let target = ProcedureTarget {
            name: before.name,
            before: before.value.unwrap_or_default(),
            after: after.value,
        };
        Ok(Some(ProcedureRecord {
            id: ProcedureId(message.proc_id),
            kind,
            target,
            owner: message.owner.as_deref().map(Arc::from),
            nonce: NonceKey::of(message.nonce_group, message.nonce),
            submitted: time(message.submitted_time),
            end,
        }))
    }
}

/// The content of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcedureRecords {
    /// The highest id that was given out, or 0.
    pub(super) last: u64,
    /// The records, by id.
    pub(super) procedures: Vec<ProcedureRecord>,
}

impl Content for ProcedureRecords {
    /// Enough for the greatest number of waiting procedures, each with two schemas of 3 KB.
    const SIZE_MAX: usize = 64 << 20;
    const ONLY_READ_BUG: Option<u32> = None;

    fn encode(&self, written: u64) -> Vec<u8> {
        let mut content = Vec::new();
        encode_number(&mut content, WRITTEN, written);
        encode_number(&mut content, LAST, self.last);
        self.procedures.iter().for_each(|record| record.encode(&mut content));
        content
    }

    fn decode(bytes: &[u8]) -> Result<(ProcedureRecords, u64), proto::Error> {
        let mut bytes = Bytes::copy_from_slice(bytes);
        let written = decode_number(&mut bytes, WRITTEN, WHAT)?;
        let last = decode_number(&mut bytes, LAST, WHAT)?;
        let mut procedures = Vec::new();
        while bytes.has_remaining() {
            procedures.extend(ProcedureRecord::decode(&mut bytes)?);
        }
        Ok((ProcedureRecords { last, procedures }, written))
    }
}

fn encode_exception(cause: &Exception) -> pb::ForeignExceptionMessage {
    let message = &cause.message[..cause.message.floor_char_boundary(MESSAGE_BYTES_MAX)];
    pb::ForeignExceptionMessage {
        source: Some("master".to_owned()),
        generic_exception: Some(pb::GenericExceptionMessage {
            class_name: Some(cause.class.clone().into_owned()),
            message: Some(message.to_owned()),
            ..Default::default()
        }),
    }
}

fn decode_exception(message: pb::ForeignExceptionMessage) -> Exception {
    let generic = message.generic_exception.unwrap_or_default();
    Exception::new(generic.class_name.unwrap_or_default(), generic.message.unwrap_or_default())
}

fn put(out: &mut Vec<u8>, message: &impl Message) {
    message.encode_length_delimited(out).expect("a growing buffer takes any message");
}

fn next<M: Message + Default>(bytes: &mut Bytes) -> Result<M, proto::Error> {
    M::decode_length_delimited(bytes).map_err(|cause| proto::Error::Decode { what: WHAT, cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64, end: Option<RecordedEnd>) -> ProcedureRecord {
        let target = ProcedureTarget { name: "t".into(), before: "old".into(), after: None };
        ProcedureRecord {
            id: ProcedureId(id),
            kind: ProcedureKind::Alter,
            target,
            owner: Some("ann".into()),
            nonce: NonceKey::of(Some(1), Some(id)),
            submitted: WallTime(5),
            end,
        }
    }

    #[test]
    fn records_come_back_from_their_bytes() {
        let end = |result, is_interrupted| Some(RecordedEnd { ended: WallTime(7), result, is_interrupted });
        let failure = Err(Exception::do_not_retry("no"));
        let records = ProcedureRecords {
            last: 40,
            procedures: vec![
                record(1, None),
                ProcedureRecord {
                    target: ProcedureTarget { after: Some("new".into()), ..ProcedureTarget::default() },
                    owner: None,
                    nonce: None,
                    ..record(2, None)
                },
                record(3, end(Ok("done".into()), false)),
                record(4, end(failure.clone(), false)),
                record(5, end(failure, true)),
            ],
        };
        let bytes = records.encode(9);
        assert_eq!(ProcedureRecords::decode(&bytes).unwrap(), (records, 9));
        for cut in 1..bytes.len() {
            let _no_panic = ProcedureRecords::decode(&bytes[..cut]);
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let failure = Err(Exception::do_not_retry("ü".repeat(MESSAGE_BYTES_MAX)));
        let end = RecordedEnd { ended: WallTime(7), result: failure, is_interrupted: false };
        let records = ProcedureRecords { last: 1, procedures: vec![record(1, Some(end))] };
        let (found, _) = ProcedureRecords::decode(&records.encode(1)).unwrap();
        let message = found.procedures[0].end.clone().unwrap().result.unwrap_err().message;
        assert_eq!(message, "ü".repeat(MESSAGE_BYTES_MAX / 2));
    }
}
